"""Varying: numbers, sizes and objects for whose values program after program is built.

Takes note of what programs are built for, and of calls; says so loudly where a third value of the same thing
has cost one, and when one more is not worth making. One idea: a second value of anything makes it an input,
so what costs a third program decides the structure, and whoever wrote it ought to know.

# Note [Numbers that vary]
    for n in range(2, 1000): compiled(x, n)     n decides the structure: how many diagonals there are

    call 0, 1      a program each: other values, or 0 and 1, are what code paths are made of
    call 2         the third value within a hundred calls: one warning, which names L['n']; `strict` raises
    call 8, 9 ...  one program for all further values, in which what must know the number calls its array
                   kernel. Where there is no such program, such values run op by op, and `strict` raises
A program for each value without an end would cost a hundred times what the call does, so the last line stays.
It asks for the rate: values of which each serves many calls have programs of their own.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, Final

from weft.core.counters import count
from weft.core.errors import NotCompiled
from weft.core.once import lock
from weft.core.seams import seams
from weft.core.settings import settings

WITHIN: Final = 100
"""The calls within which programs are too many."""
ENOUGH: Final = 8
"""So many programs of a graph are made within these calls for numbers of their own, by how inputs lie."""
STAYS: Final = 50
"""So often in a row the same numbers come that they get a program all the same."""
LOUD: int = 3
"""For so many values of one thing."""
MOST_LAYOUTS: Final = 64
MOST_VALUES: Final = 64
PATHS: Final = frozenset({"0", "1", "0.0", "1.0", "-0.0", "True", "False", "None"})
"""Values that code asks for to choose what it does: a program for each is no waste."""
VARYING: Final = "varying"
"""In `meta` of a graph: the `Varying` of the function that it was captured from."""


class Varying:
    """What the programs of one function were built for."""

    __slots__ = ("where", "told", "_calls", "_built", "_lock")

    def __init__(self, where: str = "a graph") -> None:
        self.where = where
        """The function, as warnings say it."""
        self.told = False
        self._calls: list[array[int]] = []
        self._built: dict[str, dict[str, int]] = {}  # the call at which a value last cost a program
        self._lock = lock()

    def follow(self, calls: array[int]) -> None:
        """Calls that are counted there are calls of this function."""
        if not any(each is calls for each in self._calls):
            self._calls = [*self._calls, calls]

    @property
    def is_followed(self) -> bool:
        """Whether calls are counted: the programs of backends that do not are none of ours."""
        return bool(self._calls)

    @property
    def now(self) -> int:
        """How many calls there were."""
        return sum([each[0] for each in self._calls])

    def note(self, values: Mapping[str, str], at: int | None = None) -> None:
        """A program was built for these values, by name, `at` that call."""
        when = self.now if at is None else at
        with self._lock:
            for name, value in values.items():
                known = self._built.setdefault(name, {})
                if value not in known and len(known) >= MOST_VALUES:
                    known.clear()
                known[value] = when

    def build(
        self, values: Mapping[str, str], changed: Iterable[str], say: Callable[[str], None] | None = None
    ) -> None:
        """A program is about to be built for these values, since those that `changed` were others before.
        Where that makes too many, one warning says so, or `strict` an error.
        """
        self.note(values)
        since = self.now - WITHIN
        for name in changed:
            if values[name] in PATHS:
                continue
            seen = [each for each, at in self._built[name].items() if at > since and each not in PATHS]
            if len(seen) >= LOUD:
                self._say(told(self.where, name, seen), say or seams.loudly)
                return

    def _say(self, text: str, say: Callable[[str], None]) -> None:
        if settings.strict:
            raise NotCompiled(text)
        with self._lock:
            before, self.told = self.told, True
        if not before:
            count("varying", text)
            say(text)

    def __deepcopy__(self, _memo: object) -> Varying:
        return self


def told(where: str, name: str, values: list[str]) -> str:
    """What to say where programs were built for these values of one thing."""
    shown = ", ".join(values[-LOUD:])
    return (
        f"weft.compile built programs for {len(values)} values of {name} within {WITHIN} calls of {where}: "
        f"{shown}. {_advice(name)}"
    )


def _advice(name: str) -> str:
    if ".size()[" in name:
        return (
            "Sizes are inputs of a program unless they are marked static, `dynamic=False` is given, or the "
            "code asks for their values: leave them open."
        )
    if name.startswith(("len(", "the keys of ", "the object ")):
        return "Hand over the same object, or one of the same make, or read it outside of the function."
    return (
        "It decides the structure of the program, or its value is asked for: hand it over as a tensor, keep "
        "it the same, or compute what depends on it outside of the function."
    )


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
        if self._row < STAYS:
            return False
        self._numbers = None
        return True


class Builds:
    """The programs of one graph that are for the very numbers of their calls."""

    __slots__ = ("calls", "_made", "_crowded", "_waiting", "_lock")

    def __init__(self) -> None:
        self.calls = array("q", [0])
        """How many calls there were: in memory, so that machine code can count those that it serves alone."""
        self._made: dict[Hashable, deque[int]] = {}  # when programs were made, by all that is no number
        self._crowded: set[Hashable] = set()
        self._waiting = Staying()
        self._lock = lock()

    def made(self, layout: Hashable) -> None:
        """Notes a new program for inputs that, but for numbers, look like this."""
        with self._lock:
            if len(self._made) >= MOST_LAYOUTS and layout not in self._made:
                self._made.clear()
                self._crowded.clear()
            times = self._made.setdefault(layout, deque(maxlen=ENOUGH))
            times.append(self.calls[0])
            if len(times) == ENOUGH and times[-1] - times[0] < WITHIN:
                self._crowded.add(layout)

    def are_enough(self, layout: Hashable) -> bool:
        """Whether there have been so many of them that further numbers get none of their own."""
        return layout in self._crowded

    def wants(self, layout: Hashable, numbers: tuple[Any, ...]) -> bool:
        """Whether a program is to be made for a call with these numbers, where none serves them all."""
        if layout not in self._crowded:
            return True
        with self._lock:
            return self._waiting.again(numbers)
