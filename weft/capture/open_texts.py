"""Open texts: strings that are formatted from a number that differs in every call.

Takes expressions of numbers, and how they are to be formatted; gives objects that stand for the text. One
idea: such a text may be handed around, joined with others and given back, since the entry makes it anew from
the number; code that looks into it breaks the graph there, as asking for the number would.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NoReturn

from weft.core.expressions import OPERATIONS, Expression, constant
from weft.core.interrupts import let_through
from weft.trace.breaks import Break

LARGEST: Final = 100
"""The size of an expression from which on it is not worth keeping."""
CONTAINERS: Final = (list, tuple, set, frozenset)


class OpenText:
    """A text that only running can tell."""

    __slots__ = ("expression", "hint", "seen")

    def __init__(self, expression: Expression, hint: str, seen: str) -> None:
        self.expression, self.hint, self.seen = expression, hint, seen

    def refuse(self, *_args: object) -> NoReturn:
        raise Break("value-varies", seen=self.seen)

    __getattr__ = __bool__ = __len__ = __iter__ = __getitem__ = __contains__ = refuse
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __hash__ = refuse
    __add__ = __radd__ = __mul__ = __rmul__ = __mod__ = __rmod__ = refuse
    __str__ = __repr__ = __format__ = __int__ = __float__ = __complex__ = __index__ = refuse
    __copy__ = __deepcopy__ = __reduce_ex__ = __array__ = refuse


def written(op: str, number: Any, seen: str, *more: str) -> OpenText | None:
    """A symbolic number as text, by `str`, `repr` or `format` with a specification; None where Python itself
    has to say what becomes of it.
    """
    expression: Expression = number.expression
    if expression.kind not in (int, float) or expression.size > LARGEST:
        return None
    try:
        hint = OPERATIONS[op][0](number.hint, *more)
    except ValueError as error:  # a specification that no such number has
        let_through(error)
        return None
    return OpenText(Expression(op, (expression, *map(constant, more)), str), hint, seen)


def joined(parts: list[Any]) -> Any:
    """The parts as one text."""
    opened = [part for part in parts if type(part) is OpenText]
    if not opened:
        return "".join(parts)
    whole = _expression(parts[0])
    for part in parts[1:]:
        whole = Expression("add", (whole, _expression(part)), str)
    if whole.size > LARGEST:
        opened[0].refuse()
    return OpenText(whole, "".join([getattr(part, "hint", part) for part in parts]), opened[0].seen)


def _expression(part: Any) -> Expression:
    return part.expression if type(part) is OpenText else constant(part)


def refuse_open(values: Iterable[Any], depth: int = 4) -> None:
    """Breaks where one of these values, or of what they hold, is such a text: C code looks into it."""
    for value in values:
        kind = type(value)
        if kind is OpenText:
            value.refuse()
        if depth and kind in CONTAINERS:
            refuse_open(value, depth - 1)
        elif depth and kind is dict:
            refuse_open(value, depth - 1)
            refuse_open(value.values(), depth - 1)
