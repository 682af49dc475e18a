"""Plain constants: values without identity or behaviour of a user's, compared exactly.

Takes any value; `freeze` gives an immutable picture of it (a leaf as it is, a container as a `Tree`) or
raises NotPlain, and `identical` says whether a value looks like a picture. One idea: types are compared
before anything else, so that no `__eq__` of a user's ever runs and True is never 1, nor -0.0 ever 0.0.
"""

from __future__ import annotations

import struct
from collections import OrderedDict, deque
from typing import Any, Final

import numpy as np

from weft.core.device import device
from weft.core.dtypes import dtype
from weft.core.records import record
from weft.core.types import Size, layout, memory_format

SINGLETONS: Final = frozenset(
    {type(None), bool, type(Ellipsis), type(NotImplemented), dtype, layout, memory_format}
)
NUMBERS: Final = frozenset({int, float, complex})
LEAVES: Final = SINGLETONS | NUMBERS | {str, bytes, device}
SEQUENCES: Final = frozenset({tuple, list, Size})
# The order in which a set is walked is part of what captured code saw, so it is part of the picture.
ORDERED: Final = SEQUENCES | {set, frozenset, deque}
MAPPINGS: Final = frozenset({dict, OrderedDict})
CONTAINERS: Final = ORDERED | MAPPINGS | {slice, range}
IMMUTABLE: Final = frozenset({tuple, Size, frozenset, slice, range})

float_bits: Final = struct.Struct("<d").pack


class NotPlain(TypeError):
    """The value is or holds an object that is no plain constant."""


@record(frozen=True, slots=True)
class Tree:
    """A container: its class, and its items in order (keys and values in turn for a dict)."""

    kind: type
    items: tuple[Any, ...]
    extra: Any = None  # a deque's maxlen

    def __str__(self) -> str:
        return str(thaw(self))


def is_leaf(value: Any) -> bool:
    kind = type(value)
    return kind in LEAVES or kind in NUMPY_SCALARS or issubclass(kind, np.dtype)


NUMPY_SCALARS: Final = frozenset({np.dtype(code).type for code in "?bBhHiIlLqQefdgFDG"})


def freeze(value: Any) -> Any:
    """The picture of a value; NotPlain if any part of it is no plain constant."""
    return _freeze(value, ())


def _freeze(value: Any, above: tuple[int, ...]) -> Any:
    kind = type(value)
    if is_leaf(value):
        return value
    if kind not in CONTAINERS or id(value) in above or len(above) > 50:
        raise NotPlain(kind.__name__)
    above = (*above, id(value))
    return Tree(kind, tuple([_freeze(item, above) for item in parts(value)]), extra_of(value))


def parts(value: Any) -> list[Any]:
    """The items of one of `CONTAINERS`, in order; keys and values in turn."""
    kind = type(value)
    if kind is slice or kind is range:
        return [value.start, value.stop, value.step]
    if kind in MAPPINGS:
        return [part for pair in kind.items(value) for part in pair]
    return list(value)


def extra_of(value: Any) -> Any:
    return value.maxlen if type(value) is deque else None


def thaw(picture: Any) -> Any:
    """A new value that the picture is one of."""
    if type(picture) is not Tree:
        return picture
    items = [thaw(item) for item in picture.items]
    if picture.kind in MAPPINGS:
        return picture.kind(zip(items[::2], items[1::2], strict=True))
    if picture.kind is slice or picture.kind is range:
        return picture.kind(*items)
    if picture.kind is deque:
        return deque(items, picture.extra)
    return picture.kind(items)


def identical(value: Any, picture: Any) -> bool:
    """Whether the value has the same types, the same bits and the same order as the picture all through."""
    kind = type(value)
    if type(picture) is Tree:
        if kind is not picture.kind or extra_of(value) != picture.extra:
            return False
        items = parts(value)
        if len(items) != len(picture.items):
            return False
        return all(map(identical, items, picture.items))
    return kind is type(picture) and same_leaf(value, picture)


def same_leaf(value: Any, leaf: Any) -> bool:
    """As `identical`, for two values of one type among the leaves."""
    kind = type(leaf)
    if kind in SINGLETONS:
        return value is leaf
    if kind is float:
        return float_bits(value) == float_bits(leaf)
    if kind is complex:
        return float_bits(value.real) == float_bits(leaf.real) and float_bits(value.imag) == float_bits(
            leaf.imag
        )
    if kind is device:
        return (value.type, value.index) == (leaf.type, leaf.index)
    if kind in NUMPY_SCALARS:
        same: bool = value.tobytes() == leaf.tobytes()
        return same
    return bool(value == leaf)


def exact_key(picture: Any) -> Any:
    """Something hashable that is equal for identical pictures only."""
    if type(picture) is Tree:
        return picture.kind, tuple([exact_key(item) for item in picture.items]), picture.extra
    kind = type(picture)
    if kind is float:
        return kind, float_bits(picture)
    if kind is complex:
        return kind, float_bits(picture.real), float_bits(picture.imag)
    if kind in NUMPY_SCALARS:
        return kind, picture.tobytes()
    return kind, picture
