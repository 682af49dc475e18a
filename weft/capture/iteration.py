"""Iteration: builtins that walk, sort, search and fold, and methods of builtin types that call back.

As `weft.capture.builtins`: handlers for what C code would do without capture seeing it.
"""

from __future__ import annotations

import collections.abc
import functools
import types
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from weft.capture.builtins import answers, expect, len_, type_of
from weft.capture.c_arguments import CONTAINERS, ORDER, TEXT
from weft.capture.c_calls import METHODS
from weft.capture.calls import HANDLERS, handles
from weft.capture.iterators import is_iterable
from weft.capture.open_texts import OpenText, joined
from weft.capture.protocols import EQUALITY, StandIns, answers_in_c, is_users
from weft.capture.raising import awaited_truth, require
from weft.capture.sources import c_base
from weft.capture.values import Args, CapturedTraceback, Kwargs, entered, has_type
from weft.capture.world import ABSENT
from weft.capture.wrapping import SYMBOLIC
from weft.tensor.base import Tensor
from weft.trace.breaks import Break
from weft.trace.scalars import SymFloat, is_untold

if TYPE_CHECKING:
    from weft.capture.machine import Machine


# -- iteration -----------------------------------------------------------------------------------------------
@handles(sum)
def sum_(machine: Machine, args: Args, kwargs: Kwargs) -> Any:
    if not 1 <= len(args) <= 2 or (kwargs and (len(args) == 2 or set(kwargs) != {"start"})):
        expect(machine, "sum", args, 1, 0, kwargs)
    total = args[1] if len(args) == 2 else kwargs.get("start", 0)
    items = drawn(machine, args[0])
    if has_type(total, (str, bytes, bytearray)):
        return machine.native(sum, [], total)
    numbers: list[Any] = []
    for item in items:
        item = in_one_sum(item)
        if type(total) in NUMBERS and type(item) in NUMBERS:
            numbers.append(item)
            continue
        total = machine.native(sum, numbers, total) if numbers else total
        numbers = []
        if has_type(total, SYMBOLIC) and type(item) is float and COMPENSATES:
            total = total.plain()
        total = in_one_sum(machine.operators.binary("+", total, item))
    return machine.native(sum, numbers, total) if numbers else total


NUMBERS = (int, float, bool)
COMPENSATES = sum([0.1] * 10) == 1.0
"""Whether `sum` adds floats in a way of its own, which adding one to another does not give."""


def in_one_sum(value: Any) -> Any:
    return value.plain() if COMPENSATES and has_type(value, SymFloat) else value


def drawn(machine: Machine, value: Any) -> Iterator[Any]:
    """The items of an iterable one by one, as captured code would get them."""
    iterator = machine.native(iter, machine.iterators.rows(value))

    def draw() -> Iterator[Any]:
        while (item := machine.native(next, iterator, ABSENT)) is not ABSENT:
            yield item

    return draw()


answers(any, 1, 1)(lambda machine, value: _search(machine, value, True))
answers(all, 1, 1)(lambda machine, value: not _search(machine, value, False))


def _search(machine: Machine, value: Any, wanted: bool) -> bool:
    """Whether an item has this truth. Where only running can tell, and the code that asks does nothing but
    raise if one has, it is left to the graph to check that none has.
    """
    for item in drawn(machine, value):
        assert machine.frame is not None
        untold = has_type(item, Tensor) or is_untold(item)
        if untold and awaited_truth(machine.frame) is (not wanted) and require(machine, item, not wanted):
            continue
        if machine.operators.truth(item) is wanted:
            return True
    return False


@handles(sorted)
def sorted_(machine: Machine, args: Args, kwargs: Kwargs) -> Any:
    expect(machine, "sorted", args, 1, 1)
    result = machine.world.keep(machine.iterators.items(args[0], asks=True))
    sort_list(machine, result, (), kwargs)
    return result


def sort_list(machine: Machine, receiver: Any, args: Args, kwargs: Kwargs) -> tuple[bool, Any]:
    if args or set(kwargs) - {"key", "reverse"} or not has_type(receiver, list):
        return False, None
    key, reverse = kwargs.get("key"), kwargs.get("reverse", False)
    if not answers_in_c(reverse):
        raise Break("builtin-protocol", seen=f"sorting with a {type(reverse).__name__} for reverse")
    reverse = type_of(reverse)(reverse) if has_type(reverse, SYMBOLIC) else reverse
    machine.native([].sort, reverse=reverse)  # whether it will do is asked before the first key
    keys = receiver if key is None else keys_of(machine, receiver, key)
    try:
        machine.c_arguments.check(keys, ORDER)
    except Break:
        before = functools.cmp_to_key(lambda a, b: -1 if entered(_less, machine, a, b) else 0)
        wrapped = [before(k) for k in keys]
    else:
        wrapped = list(keys)
    given = iter(wrapped)
    machine.native(list.sort, receiver, key=lambda _item: next(given), reverse=reverse)
    return True, None


def keys_of(machine: Machine, receiver: list[Any], key: Any) -> list[Any]:
    """The keys to sort by. A list that is being sorted is empty to those who look."""
    items = list(receiver)
    receiver.clear()
    try:
        return [machine.calls.call(key, (item,), {}) for item in items]
    finally:
        if receiver:
            raise Break("builtin-protocol", seen="a list that is changed while it is sorted")
        receiver.extend(items)


def _less(machine: Machine, left: Any, right: Any) -> bool:
    return machine.operators.truth(machine.operators.compare("<", left, right))


METHODS["sort"] = sort_list


def search_list(machine: Machine, receiver: Any, args: Args, kwargs: Kwargs, name: str) -> tuple[bool, Any]:
    """`index`, `count` and `remove` of sequences whose items compare themselves."""
    if not has_type(receiver, (list, tuple, collections.deque)) or not args or kwargs:
        return False, None
    if machine.c_arguments.can_check(receiver, EQUALITY) and machine.c_arguments.can_check(args[0], EQUALITY):
        return False, None
    base: Any = next(kind for kind in (list, tuple, collections.deque) if has_type(receiver, kind))
    if name != "remove":
        stand_ins = StandIns(machine)
        items = base(map(stand_ins, receiver))
        return True, machine.native(getattr(items, name), stand_ins(args[0]), *args[1:])
    machine.world.changes += 1
    for place, item in enumerate(list(receiver)):
        if item is args[0] or machine.operators.truth(machine.operators.compare("==", item, args[0])):
            base.__delitem__(receiver, place)
            return True, None
    return True, machine.native(base().remove, None)  # raises what the class raises


for _name in ("index", "count", "remove"):
    METHODS[_name] = functools.partial(search_list, name=_name)


def format_text(machine: Machine, receiver: Any, args: Args, kwargs: Kwargs) -> tuple[bool, Any]:
    """`str.format`, which reads attributes and items where the text says so."""
    if type(receiver) is not str:
        return False, None
    stand_ins = StandIns(machine)
    for value in (*args, *kwargs.values()):
        if "." in receiver or "[" in receiver or not machine.c_arguments.can_check(value, TEXT):
            continue
        machine.texts.check(value)
    ready = {name: stand_ins(value) for name, value in kwargs.items()}
    return True, machine.native(receiver.format, *map(stand_ins, args), **ready)


METHODS["format"] = format_text


def join_texts(machine: Machine, receiver: Any, args: Args, kwargs: Kwargs) -> tuple[bool, Any]:
    """`separator.join(texts)`, of which some may be open: C code would refuse them as no strings."""
    if not machine.wrapping.volatile or type(receiver) is not str or len(args) != 1 or kwargs:
        return False, None
    if not is_iterable(args[0]):
        return False, None
    texts = args[0] if type(args[0]) in (list, tuple) else machine.iterators.items(args[0])
    if {OpenText} <= set(map(type, texts)) <= {str, OpenText}:
        parts = [part for text in texts for part in (receiver, text)]
        return True, joined(parts[1:])
    return True, machine.world.keep(machine.native(receiver.join, texts))


METHODS["join"] = join_texts


def _as_object(name: str) -> None:
    """`super().__eq__(other)` and the like, where only `object` is above."""

    def answer(machine: Machine, receiver: Any, args: Args, kwargs: Kwargs) -> tuple[bool, Any]:
        if not is_users(receiver) or c_base(type(receiver)) is not object or len(args) != 1 or kwargs:
            return False, None
        if name == "__eq__":
            return True, True if machine.operators.identical_values(receiver, args[0]) else NotImplemented
        if name == "__ne__":
            equal = machine.calls.call(machine.attributes.load(receiver, "__eq__"), args, {})
            return True, equal if equal is NotImplemented else not machine.operators.truth(equal)
        return True, NotImplemented

    METHODS[name] = answer


for _name in ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"):
    _as_object(_name)


def with_traceback(machine: Machine, receiver: Any, args: Args, kwargs: Kwargs) -> tuple[bool, Any]:
    if not has_type(receiver, BaseException) or len(args) != 1 or type(args[0]) is not CapturedTraceback:
        return False, None
    return True, receiver


METHODS["with_traceback"] = with_traceback


def bind_function(machine: Machine, receiver: Any, args: Args, kwargs: Kwargs) -> tuple[bool, Any]:
    kinds = (types.FunctionType, property, types.MemberDescriptorType, classmethod, staticmethod)
    if not has_type(receiver, kinds) or not args or kwargs:
        return False, None
    if args[0] is None:
        return has_type(receiver, types.FunctionType), receiver
    return True, machine.attributes.bind(receiver, args[0], type(args[0]))


METHODS["__get__"] = bind_function


@handles(type.__dict__["mro"])
def resolution_order(machine: Machine, args: Args, kwargs: Kwargs) -> Any:
    return machine.world.keep(list(machine.attributes.load(args[0], "__mro__")))


def _extreme(function: Any, symbol: str) -> None:
    @handles(function)
    def extreme(machine: Machine, args: Args, kwargs: Kwargs) -> Any:
        if not args or set(kwargs) - {"key", "default"} or (len(args) > 1 and "default" in kwargs):
            return machine.native(function, *args, **kwargs)
        key = kwargs.get("key")
        best = best_key = ABSENT
        for item in drawn(machine, args[0]) if len(args) == 1 else args:
            item_key = item if key is None else machine.calls.call(key, (item,), {})
            operators = machine.operators
            if best is ABSENT or operators.truth(operators.compare(symbol, item_key, best_key)):
                best, best_key = item, item_key
        return machine.native(function, [], **kwargs) if best is ABSENT else best


_extreme(min, "<")
_extreme(max, ">")


@handles(functools.reduce)
def reduce_(machine: Machine, args: Args, kwargs: Kwargs) -> Any:
    if len(args) not in (2, 3) or kwargs:
        return machine.native(functools.reduce, *args, **kwargs)
    items = drawn(machine, args[1])
    result = args[2] if len(args) == 3 else next(items, ABSENT)
    if result is ABSENT:
        return machine.native(functools.reduce, machine.c_arguments.callback(args[0]), [])
    for item in items:
        result = machine.calls.call(args[0], (result, item), {})
    return result


@handles(reversed)
def reversed_(machine: Machine, args: Args, kwargs: Kwargs) -> Any:
    value = args[0]
    found = None if answers_in_c(value) else machine.attributes.python_method(value, "__reversed__")
    if found is not None:
        return machine.calls.call_method(found, value)
    if answers_in_c(value) or has_type(value, tuple(CONTAINERS)):
        machine.c_arguments.refuse_opaque(value)
        return machine.world.keep(machine.native(reversed, *args))
    found = machine.attributes.python_method(value, "__getitem__")
    if found is None or machine.attributes.python_method(value, "__len__") is None:
        raise Break("builtin-protocol", seen=f"reversed of a {type(value).__name__}")
    length = len_(machine, value)
    items = [machine.calls.call_method(found, value, index) for index in reversed(range(length))]
    return machine.world.keep(iter(items))


def _default_dict(machine: Machine, args: Args, kwargs: Kwargs) -> Any:
    factory = machine.c_arguments.factory(args[0]) if args else None
    rest = tuple(machine.iterators.iterable(a) for a in args[1:])
    return machine.world.keep(machine.native(collections.defaultdict, factory, *rest, **kwargs))


HANDLERS[id(collections.defaultdict)] = _default_dict


_private: Any = collections


@handles(_private._count_elements)
def count_elements(machine: Machine, args: Args, kwargs: Kwargs) -> Any:
    mapping, items = args[0], machine.iterators.items(args[1])
    machine.c_arguments.check_keys(items, mapping)
    for item in items:
        before: Any = machine.native(dict.get, mapping, item, 0)
        machine.native(dict.__setitem__, mapping, item, before + 1)
