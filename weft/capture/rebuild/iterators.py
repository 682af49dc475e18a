"""Rebuilding iterators, views and other objects of C whose state `__reduce__` or the collector tells.

Takes a `Builder` and an iterator that captured code has made and perhaps partly consumed; gives text for one
at the same position over the same (rebuilt) objects. One idea: `__reduce__` names a callable, arguments and a
state, all of them values that can be rebuilt in turn, so an iterator over an object that existed before goes
on to iterate over that very object.
"""

from __future__ import annotations

import builtins
import gc
import itertools
import operator
import types
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any, Final

from weft.capture.rebuild.builder import Builder, Rule
from weft.capture.values import Args
from weft.capture.walkers import DICT_ITERATORS, DICT_VIEWS, advanced
from weft.core.interrupts import let_through
from weft.core.warn import REGISTRY, hidden


def _reduced_types() -> list[type]:
    """The iterators of Python whose `__reduce__` tells all there is."""
    whole = [
        iter([]), iter(()), iter(""), iter("\u0394"), iter(b""), iter(bytearray()), iter(range(1)),
        iter(range(2**70)), iter(set()), iter(deque()), reversed([]), reversed(deque()), iter(OrderedDict()),
        iter(_Indexed()), iter(int, 0),
    ]  # fmt: skip
    named = [
        enumerate, zip, map, filter, reversed, itertools.accumulate, itertools.chain, itertools.combinations,
        itertools.combinations_with_replacement, itertools.compress, itertools.count, itertools.cycle,
        itertools.dropwhile, itertools.filterfalse, itertools.groupby, itertools.islice,
        itertools.permutations, itertools.product, itertools.repeat, itertools.starmap, itertools.takewhile,
        itertools.zip_longest, operator.itemgetter, operator.attrgetter, operator.methodcaller,
    ]  # fmt: skip
    groups = itertools.groupby([0])
    tee: Any = itertools.tee([])[0]
    shared = quietly(tee.__reduce__)[2][0]
    return [*map(type, whole), *named, type(next(groups)[1]), type(tee), type(shared)]


class _Indexed:
    """Iterated by index: `iter` of it is the iterator of the old protocol."""

    def __getitem__(self, index: int) -> int:
        raise IndexError


def quietly(function: Callable[..., Any], *args: Any) -> Any:
    """Calls `__reduce__` or `__setstate__`, which itertools say are deprecated. They do so to the module that
    calls, here one of which nobody knows; where that is an error, it is raised before anything is done, and
    not again once the module's registry has it.
    """
    registry: dict[Any, Any] = {}
    call: Any = types.FunctionType(_call.__code__, {REGISTRY: registry, "__builtins__": builtins})
    with hidden():
        for _ in range(TRIES):
            try:
                return call(function, args)
            except DeprecationWarning as warning:
                registry[str(warning), type(warning), _call.__code__.co_firstlineno + 1] = True
        return call(function, args)


def _call(function: Callable[..., Any], args: Args) -> Any:
    return function(*args)


TRIES = 10
"""Who changes the filters of warnings in another thread makes registries forget."""


# -- what emitted code calls ---------------------------------------------------------------------------------
def with_state(iterator: Any, state: Any) -> Any:
    """The iterator, brought to the state that `__reduce__` told of."""
    if type(iterator).__module__ == "itertools":
        quietly(iterator.__setstate__, state)
    else:
        iterator.__setstate__(state)
    return iterator


# -- rules ---------------------------------------------------------------------------------------------------
def reduced(builder: Builder, value: Any) -> str:
    try:
        parts = quietly(value.__reduce__)
    except (TypeError, RuntimeError) as error:
        let_through(error)
        return str(builder.refuse(value, f"({error})"))
    if isinstance(parts, str) or len(parts) > 3:
        return str(builder.refuse(value))
    maker, args = parts[:2]
    name = getattr(maker, "__name__", "make")
    text = builder.call_text(builder.constant(maker, name), args)
    state = parts[2] if len(parts) == 3 else None
    if state is not None:
        text = f"{builder.constant(with_state, 'with_state')}({text}, {builder.text(state)})"
    return builder.assign(text, name if isinstance(maker, type) else "iterator")


def referents(value: Any) -> list[Any]:
    """The objects that a C object holds, its class aside."""
    return [each for each in gc.get_referents(value) if not issubclass(type(each), type)]


def _source_dict(value: Any) -> Any:
    return next((each for each in referents(value) if issubclass(type(each), dict)), None)


def dict_iterator(builder: Builder, value: Any) -> str:
    """An iterator over a dict goes on over the same dict: a change of its size must still be an error."""
    mapping = _source_dict(value)
    if mapping is None:
        return builder.assign(f"{builder.constant(iter, 'iter')}(())", "iterator")
    left = operator.length_hint(value)
    try:
        rest = list(quietly(value.__reduce__)[1][0])
    except RuntimeError as error:
        let_through(error)
        return str(builder.refuse(value, "over a dict that changed its size"))
    if len(rest) != left:
        builder.refuse(value, "over a dict that changed its size")
    maker = builder.constant(DICT_ITERATORS[type(value)], "iter")
    text = f"{maker}({builder.text(mapping)})"
    if left < len(mapping):
        text = f"{builder.constant(advanced, 'advanced')}({text}, {len(mapping) - left})"
    if not _keys_change(builder, mapping):
        builder.settle()
        return builder.assign(text, "iterator")
    # The dict gets or loses keys in the stores: the iterator starts after them, nothing holds it before.
    name = builder.reader.fresh("iterator")
    builder.late_line(value, f"{name} = {text}")
    return name


def _keys_change(builder: Builder, mapping: Any) -> bool:
    known = builder.world.known.get(id(mapping))
    if known is None or known.snapshot is None:
        return False
    return [id(key) for key in mapping] != [id(key) for key, _ in known.snapshot]


def dict_view(builder: Builder, value: Any) -> str:
    mapping = _source_dict(value)
    maker = builder.constant(DICT_VIEWS[type(value)], "view")
    return builder.assign(f"{maker}({builder.text(mapping)})", "view")


def mapping_proxy(builder: Builder, value: Any) -> str:
    (mapping,) = gc.get_referents(value)
    return builder.assign(f"{builder.constant(types.MappingProxyType, 'proxy')}({builder.text(mapping)})")


RULES: Final[dict[type, Rule]] = {
    **dict.fromkeys(_reduced_types(), reduced),
    **dict.fromkeys(DICT_ITERATORS, dict_iterator),
    **dict.fromkeys(DICT_VIEWS, dict_view),
    types.MappingProxyType: mapping_proxy,
}
