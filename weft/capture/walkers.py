"""Iterators and views of builtin containers that existed before: what they walk over, and where they stand.

Takes such an object of C's; gives its container and its position, makes another one like it over another
container, and brings one to a position. One idea: `__reduce__`, `__length_hint__` and the collector tell all
of an iterator, so capture walks a copy over the container's mirror, and the stores take the original to
where the copy stands.
"""

from __future__ import annotations

import gc
import itertools
import operator
import sys
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any, Final

from weft.core.interrupts import let_through

HASHED: Final = (dict, set, frozenset)
SPENT: Final = -1
"""The position of an iterator that has come to its end, and has let go of what it walked over."""


def _over(view: Callable[[Any], Any], turn: Callable[[Any], Any] = iter) -> Callable[[Any], Any]:
    return lambda mapping: turn(view(mapping))


DICT_VIEWS: Final[dict[type, Any]] = {
    type(kind().keys()): kind.keys for kind in (dict, OrderedDict)
} | {
    type(kind().values()): kind.values for kind in (dict, OrderedDict)
} | {
    type(kind().items()): kind.items for kind in (dict, OrderedDict)
}  # fmt: skip
DICT_ITERATORS: Final[dict[type, Any]] = {
    type(iter({})): dict.__iter__,
    type(iter({}.values())): _over(dict.values),
    type(iter({}.items())): _over(dict.items),
    type(reversed({})): dict.__reversed__,
    type(reversed({}.values())): _over(dict.values, reversed),
    type(reversed({}.items())): _over(dict.items, reversed),
}


def _over_set(container: Any) -> Any:
    return (set if issubclass(type(container), set) else frozenset).__iter__(container)


HASH_ITERATORS: Final[dict[type, Any]] = {**DICT_ITERATORS, type(iter(set())): _over_set}
"""Those over dicts and sets, each with what makes one: they go on by their own steps alone."""
INDEXED: Final[dict[type, tuple[Any, Any]]] = {
    type(iter([])): (list.__iter__, []),
    type(iter(())): (tuple.__iter__, ()),
    type(iter("")): (str.__iter__, ""),
    type(iter("\u0394")): (str.__iter__, "\u0394"),
    type(iter(b"")): (bytes.__iter__, b""),
    type(reversed([])): (list.__reversed__, []),
    reversed: (reversed, ()),
}
"""Those that count, and so can be put anywhere: each with what makes one, and what that may be of."""
REVERSED: Final = frozenset({type(reversed([])), reversed})
TURNED: Final = (tuple, str, bytes)
"""Classes whose objects `reversed` turns by itself; it asks others."""
RANGES: Final = frozenset({type(iter(range(0))), type(iter(range(2**70)))})
WALKERS: Final = frozenset({*HASH_ITERATORS, *INDEXED, *RANGES, enumerate, zip})
"""All iterators that can be read."""


# -- reading -------------------------------------------------------------------------------------------------
def walked(walker: Any) -> Any:
    """What an iterator or a view goes over: a container; of `enumerate` an iterator, of `zip` a tuple of
    them. An empty tuple where it has come to its end. Of a range, what is left of it.
    """
    kind = type(walker)
    if kind in HASH_ITERATORS or kind in DICT_VIEWS:
        found = [each for each in gc.get_referents(walker) if issubclass(type(each), HASHED)]
        return found[0] if found else ()
    args = walker.__reduce__()[1]
    if kind is zip:
        return args
    return args[0][_index(walker) :] if kind in RANGES else args[0]


def place(walker: Any) -> int:
    """Where an iterator stands: how many items it has passed, what it will say next, or how many numbers of
    a range are left. RuntimeError where its container has changed under it.
    """
    kind = type(walker)
    if kind in HASH_ITERATORS:
        return _passed(walker, HASH_ITERATORS[kind])
    if kind in RANGES:
        return len(walked(walker))
    parts = walker.__reduce__()
    if kind is enumerate:
        index: int = parts[1][1]
        return index
    if kind is zip:
        return len(parts)  # which tells whether it is strict
    return int(parts[2]) if len(parts) > 2 else SPENT


def standing(walker: Any) -> int | None:
    """As `place`; None where the container has changed under the iterator, or answers by code of its own."""
    if type(walker) is reversed and type(walked(walker)) not in TURNED:
        return None
    try:
        return place(walker)
    except RuntimeError as error:
        let_through(error)
        return None


def _index(walker: Any) -> int:
    parts = walker.__reduce__()
    return 0 if len(parts) < 3 or parts[2] is None else int(parts[2])


def _passed(walker: Any, maker: Callable[[Any], Any]) -> int:
    """How many items are behind it; those left are the last of its container."""
    container = walked(walker)
    if type(container) is tuple:
        return SPENT
    rest = list(walker.__reduce__()[1][0])
    length = next(base.__len__(container) for base in HASHED if issubclass(type(container), base))
    last = list(maker(container))[length - len(rest) :]
    if operator.length_hint(walker) != len(rest) or not all(map(_is_same, rest, last)):
        raise RuntimeError(f"a {type(walker).__name__} whose container has changed")
    return length - len(rest)


def _is_same(one: Any, other: Any) -> bool:
    """Whether two items are one, or pairs that `items()` made of one key."""
    if one is other:
        return True
    return type(one) is tuple and type(other) is tuple and bool(one) and bool(other) and one[0] is other[0]


# -- making and moving ---------------------------------------------------------------------------------------
def alike(walker: Any, over: Any) -> Any:
    """An iterator of the same kind, at the same position, over another container, iterator or iterators."""
    kind, position = type(walker), place(walker)
    if kind is zip:
        return zip(*over, strict=position > 2)
    if kind is enumerate:
        return enumerate(over, position)
    if kind in RANGES:
        return iter(over)
    maker, empty = (HASH_ITERATORS[kind], None) if kind in HASH_ITERATORS else INDEXED[kind]
    if position == SPENT:
        made = maker(empty if kind in INDEXED else {} if kind in DICT_ITERATORS else set())
        return advanced(made, None)
    made = maker(over)
    if kind in INDEXED:
        made.__setstate__(position)
        return made
    return advanced(made, position)


def advanced(iterator: Any, count: int | None) -> Any:
    """The iterator after so many items; None: after all."""
    deque(itertools.islice(iterator, count), maxlen=0)
    return iterator


def settle(walker: Any, position: int) -> None:
    """Brings an iterator that has not come as far to a position."""
    kind = type(walker)
    if kind in INDEXED:
        if position == SPENT:
            walker.__setstate__(-1 if kind in REVERSED else sys.maxsize)
            next(walker, None)
        else:
            walker.__setstate__(position)
    elif position == SPENT:
        advanced(walker, None)
    else:
        steps = position - place(walker)
        advanced(walker, -steps if kind in RANGES else steps)
