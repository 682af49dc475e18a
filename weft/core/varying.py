"""Varying: when to stop making programs for numbers that are others in each call.

Takes note of calls and of the programs that are made for them; says whether one more is worth making. One
idea: a program has to be used to be worth what it costs, so a function that needs a new one every few calls
is better off without.

# Note [Numbers that vary]
    for n in range(1000): compiled(x, n)      calls 0 to 4: a program each; from then on n is looked at anew
Programs are made for the numbers that they cannot read when they run. The fifth for tensors that lie alike
(so that nothing but numbers differs) within fifty calls is the last: other numbers run op by op, programs
that there are go on to be used, and numbers that come fifty times in a row get one after all. So do floats
that programs read when they run, where that takes calls of Python's.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Hashable, Iterable
from typing import Any, Final

from weft.core.once import lock

MOST: Final = 5
WITHIN: Final = 50
MOST_LAYOUTS: Final = 64


class Staying:
    """Tells when the same numbers have come so often in a row that they get a program."""

    __slots__ = ("_numbers", "_row")

    def __init__(self) -> None:
        self._numbers: Any = None
        self._row = 0

    def again(self, numbers: tuple[Any, ...]) -> bool:
        """Notes a call with these numbers; True for the last one that it takes."""
        if numbers != self._numbers:
            self._numbers, self._row = numbers, 0
        self._row += 1
        if self._row < WITHIN:
            return False
        self._numbers = None
        return True


class Builds:
    """The programs of one function, as far as they tell whether its numbers vary."""

    __slots__ = ("calls", "settled", "_made", "_waiting", "_lock")

    def __init__(self) -> None:
        self.calls = array("q", [0])
        """How many calls there were: in memory, so that machine code can count those that it serves alone."""
        self.settled = False
        """Whether numbers vary, so that programs are no longer made for them."""
        self._made: dict[Any, deque[int]] = {}  # when programs were made, by all that is no number
        self._waiting = Staying()
        self._lock = lock()

    def made(self, layout: Hashable) -> bool:
        """Notes a new program for inputs that, but for numbers, look like this. True for the one with which
        it is settled that they vary.
        """
        with self._lock:
            if len(self._made) >= MOST_LAYOUTS and layout not in self._made:
                self._made.clear()
            times = self._made.setdefault(layout, deque(maxlen=MOST))
            times.append(self.calls[0])
            if self.settled or len(times) < MOST or times[-1] - times[0] >= WITHIN:
                return False
            self.settled = True
            return True

    def wants(self, numbers: tuple[Any, ...]) -> bool:
        """Whether a program is to be made for a call with these numbers, which has none."""
        if not self.settled:
            return True
        with self._lock:
            return self._waiting.again(numbers)


def told(where: str, names: Iterable[str]) -> str:
    """What to say where it is settled that these numbers of a function vary."""
    return (
        f"weft.compile made {MOST} programs within {WITHIN} calls of {where}, since {' and '.join(names)} "
        "varied. What varies runs op by op from now on."
    )
