"""Requirements: what a graph was captured under, and checks as it runs.

`require(condition, truth)` gives nothing where the condition has that truth, and raises `Unmet` otherwise:
whoever runs the graph then throws it away and runs the original code. One idea: a branch that does nothing
but raise is not captured; that it is not taken is checked before the graph has any effect.
"""

from __future__ import annotations

from typing import Final

from weft.core import modes

EXHAUSTED: Final = (MemoryError, RecursionError)
"""What any line may raise, be it one that cannot fail."""


class Unmet(Exception):
    """Something that a graph relies upon does not hold: the code that it was made from must run."""


class Doubtful(Unmet):
    """The same where that is not sure: the code that it was made from will tell."""


class Committed(RuntimeError):
    """A graph failed behind its effects, which it must never do: the code that it was made from must not run,
    since it would have them a second time."""


def require(condition: object, truth: bool, place: str = "") -> None:
    """Checks that the truth of a number or of a tensor of one element is this one; recorders write it down.
    `place` names the user's line.
    """
    state = modes.state.get()
    if type(state) is not bool:
        for mode in reversed(state.functions):
            if hasattr(mode, "require"):
                mode.require(condition, truth, place)
                return
    if bool(condition) is not truth:
        raise Unmet(f"{place or 'a requirement'}: the condition is {not truth}")
