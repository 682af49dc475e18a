"""The mark of symbolic numbers: a size or a float that a capture keeps open.

Layers below the one that makes such numbers only need to tell them from plain ones, so that they hand them on
instead of asking for their value (asking is sound: the capture then holds for that one value only).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import index
from typing import Any, SupportsIndex


class Symbolic:
    """Base of symbolic numbers; `isinstance(x, int)` holds for a symbolic int too."""

    __slots__ = ()
    hint: Any
    """The value of the run that is captured."""
    expression: Any
    """What it is, in symbols."""
    owner: Any
    """Whoever keeps the symbols and what is known of them."""

    def describe(self) -> str:
        """The number as an expression of its symbols (`str()` would ask for its value)."""
        raise NotImplementedError


def size_of(value: SupportsIndex) -> Any:
    """The value as a plain int, as `operator.index` gives it; symbolic ints are handed on."""
    return value if isinstance(value, Symbolic) else index(value)


def applied(function: Callable[[Any], Any], value: Any) -> Any:
    """`function(value)`, as of `float`, `int` and those of `math`; of a symbolic number a symbolic one."""
    return value.owner.apply(function, value) if isinstance(value, Symbolic) else function(value)


def any_symbolic(values: Iterable[object]) -> bool:
    """Whether one of these numbers is symbolic."""
    return any(isinstance(value, Symbolic) for value in values)


def describe(value: object) -> str:
    """The text of a number that may be symbolic, for printers that must not ask for its value."""
    return value.describe() if isinstance(value, Symbolic) else str(value)
