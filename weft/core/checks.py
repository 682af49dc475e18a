"""Checks: what can be asked of Python objects without running any Python, as expressions.

Takes objects and numbers; gives nodes of `weft.core.expressions` that read a part of an object, say whether
something holds of it, or find a whole number in it, for arithmetic. One idea: an operation is declared once,
with its operands, its text, and a Python function that is its meaning; `weft.native.entry.checks` has the
machine code. What a check reads relies on the checks before it: an item of a list is read behind
`type_is(value, list)`.

# Note [Operands]
    v  an expression: an object, or a number        V  a tuple of them
    n  a number                                     N  a list of numbers and objects
    o  an object, a weak reference to one,          L  the same, told with its length
       or one that is `Borrowed`
    s  a `Slot`                                     -  what the Python meaning alone needs
"""

from __future__ import annotations

import operator
import weakref
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, Final

import numpy as np

from weft.core.expressions import Expression, Symbol, float_bits
from weft.core.interrupts import let_through
from weft.core.records import record

ARITHMETIC: Final = frozenset(
    ["add", "sub", "mul", "floordiv", "mod", "neg", "eq", "ne", "lt", "le", "gt", "ge", "and_", "or_", "xor"]
    + ["not_", "min", "max", "where"]
)
"""The operations on whole numbers that machine code knows; truths are the numbers 0 and 1."""
LEAST, GREATEST = -(2**63), 2**63 - 1
"""Machine code misses where a number is outside of these."""


class Missed(Exception):
    """What a check reads is not there, or not what it must be."""


@record(frozen=True, slots=True)
class Borrowed:
    """An object that something else keeps alive for as long as the checks before hold."""

    value: Any


@record(frozen=True, slots=True)
class Slot:
    """A part of an object that its descriptor reads, and where it lies in memory."""

    offset: int
    descriptor: Any


class Operation:
    """One operation; called, it gives a node."""

    __slots__ = ("name", "operands", "kind", "meaning", "text")

    def __init__(self, name: str, operands: str, kind: type, meaning: Callable[..., Any], text: str) -> None:
        self.name, self.operands, self.kind, self.meaning, self.text = name, operands, kind, meaning, text

    def __call__(self, *args: object) -> Check:
        return Check(self, args)


class Check(Expression):
    """An operation on objects. Each is equal to itself alone: who builds them shares what he reads twice."""

    __slots__ = ("operation",)

    def __init__(self, operation: Operation, args: tuple[Any, ...]) -> None:
        if len(args) != len(operation.operands):
            raise TypeError(f"{operation.name} takes {len(operation.operands)} operands, not {len(args)}")
        self.operation, self.op, self.args, self.kind = operation, operation.name, args, operation.kind

    def __getattr__(self, name: str) -> Any:
        """What few ask for is computed for them: there are thousands of checks in an entry."""
        if name == "symbols":
            return frozenset().union(*[each.symbols for each in self.inputs()])
        if name == "size":
            return 1 + sum(each.size for each in self.inputs())
        raise AttributeError(name)

    def inputs(self) -> Iterable[Expression]:
        """The expressions among the operands."""
        for letter, each in zip(self.operation.operands, self.args):
            if letter == "v":
                yield each
            elif letter == "V":
                yield from each

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other

    def __reduce__(self) -> Any:
        raise TypeError("checks know objects, and cannot be stored")

    def replaced(self, values: Mapping[Symbol, Expression]) -> Expression:
        """This: symbols are replaced in arithmetic over what checks read, not below it."""
        return self

    def render(self, name_of: Callable[[Symbol], str]) -> str:
        found = []
        for letter, each in zip(self.operation.operands, self.args):
            if letter == "V":
                found.append(", ".join(one.render(name_of) for one in each))
            elif letter != "-":
                found.append(each.render(name_of) if letter == "v" else _text(letter, each))
        return self.operation.text.format(*found)

    def evaluate(self, values: Mapping[Symbol, Any]) -> Any:
        given = []
        for letter, each in zip(self.operation.operands, self.args):
            if letter == "V":
                given.append([one.evaluate(values) for one in each])
            else:
                given.append(
                    each.evaluate(values) if letter == "v" else object_of(each) if letter == "o" else each
                )
        return self.operation.meaning(*given)


def _text(letter: str, value: Any) -> str:
    if letter == "s":
        return str(value.descriptor.__name__)
    named = getattr(value, "__qualname__", None) if letter == "o" else None
    return named if type(named) is str else repr(value)


def object_of(held: object) -> Any:
    """The object that an operand stands for."""
    if type(held) is Borrowed:
        return held.value
    if type(held) is not weakref.ref:
        return held
    found = held()
    if found is None:
        raise Missed("an object that is gone")
    return found


def satisfied(checks: Iterable[Expression], values: Mapping[Symbol, Any]) -> bool:
    """Whether all of them hold, in order, where symbols have these values: of an object, that it is there."""
    try:
        for each in checks:
            found = each.evaluate(values)
            if each.kind is not object and not found:
                return False
    except Exception as error:
        let_through(error)
        return False
    return True


def is_arithmetic(expression: Expression) -> bool:
    """Whether machine code can compute it: whole numbers and truths, of symbols and of what checks read, and
    floats, of what they read."""
    if type(expression) is Check:
        return expression.kind is int
    if any(each.kind is float for each in expression.args if isinstance(each, Expression)):
        return expression.op in ORDERED and all(map(is_operand, expression.args))
    if expression.kind not in (int, bool):
        return False
    if expression.op == "constant":
        return bool(LEAST <= expression.args[0] <= GREATEST)
    if expression.op == "symbol":
        return expression.kind is int
    return expression.op in ARITHMETIC and all(map(is_arithmetic, expression.args))


def is_float(expression: Expression) -> bool:
    """Whether machine code can compute it as a float, with the bits that Python has."""
    if type(expression) is Check or expression.op == "constant":
        return expression.kind is float
    return expression.kind is float and expression.op in FLOATING and all(map(is_operand, expression.args))


def is_operand(expression: Expression) -> bool:
    """Whether it may stand beside a float."""
    if expression.op == "constant" and expression.kind is int:
        return bool(abs(expression.args[0]) < EXACT)
    return is_float(expression)


FLOATING: Final = ("add", "sub", "mul", "neg", "abs")
ORDERED: Final = ("eq", "ne", "lt", "le", "gt", "ge")
EXACT: Final = 2**53
"""Smaller whole numbers are floats without being rounded."""
OPERATIONS: Final[dict[str, Operation]] = {}


def operation(name: str, operands: str, kind: type, text: str, meaning: Callable[..., Any]) -> Operation:
    """Declares an operation."""
    made = OPERATIONS[name] = Operation(name, operands, kind, meaning, text)
    return made


def need(holds: bool) -> None:
    if not holds:
        raise Missed


def of_slot(place: Slot, value: object) -> Any:
    return place.descriptor.__get__(value)


def need_plain_keys(owner: dict[Any, Any]) -> None:
    """Other keys are compared by code of users."""
    need(all(type(key) in (str, int) for key in dict.__iter__(owner)))


# -- reading -------------------------------------------------------------------------------------------------
def _instance_dict(value: object, kind: type) -> Any:
    found = value.__dict__
    need(type(found) is kind)
    return found


def _dict_item(owner: dict[Any, Any], key: Hashable) -> Any:
    need_plain_keys(owner)
    need(dict.__contains__(owner, key))  # else a subclass might make it
    return dict.get(owner, key)


def _dict_maybe(owner: dict[Any, Any], key: Hashable, other: object) -> Any:
    need_plain_keys(owner)
    return dict.get(owner, key, other)


def _dict_walk(owner: dict[Any, Any], count: int) -> Any:
    need(dict.__len__(owner) == count)
    return [part for pair in dict.items(owner) for part in pair]


def _tensor(value: Any, facts: list[Any]) -> Any:
    kind, tracked, dtype, rank, *sizes = facts
    need(type(value) is kind and value.tracked is tracked)
    need(tracked or value.origin is None or not value.requires_grad)
    return _array(value.array, [dtype, rank, *sizes])


def _array(array: Any, facts: list[Any]) -> Any:
    dtype, rank, *sizes = facts
    need(type(array) is np.ndarray and array.dtype is dtype and array.ndim == rank)
    need(all(wanted in (-1, size) for wanted, size in zip(sizes, array.shape, strict=True)))
    return array


held = operation("held", "o", object, "{}", lambda value: value)
slot = operation("slot", "vs", object, "{}.{}", lambda value, place: of_slot(place, value))
type_of = operation("type_of", "v", object, "type({})", type)
instance_dict = operation("instance_dict", "vo", object, "{}.__dict__", _instance_dict)
dict_item = operation("dict_item", "vo", object, "{}[{}]", _dict_item)
dict_maybe = operation("dict_maybe", "voo", object, "{}.get({})", _dict_maybe)
"""What a dict has under a key; the last operand where it lacks the key."""
list_item = operation("list_item", "vn", object, "{}[{}]", operator.getitem)
tuple_item = operation("tuple_item", "vn", object, "{}[{}]", operator.getitem)
dict_walk = operation("dict_walk", "vn", object, "{}.items()", _dict_walk)
"""Keys and values in turn, of a dict of so many entries; `walked` is one of them."""
walked = operation("walked", "vn", object, "{}[{}]", operator.getitem)
tensor = operation("tensor", "vN", object, "tensor({}, {})", _tensor)
"""The array of a tensor with this class, gradients, dtype, rank and sizes, of which -1 may be any."""
array = operation("array", "vN", object, "array({}, {})", _array)
"""An array with this dtype, rank and sizes."""


# -- whole numbers -------------------------------------------------------------------------------------------
def _whole(value: Any) -> int:
    need(type(value) is int and LEAST <= value <= GREATEST)
    return int(value)


whole = operation("whole", "v", int, "{}", _whole)
"""The number that an int is."""
double = operation("double", "v", float, "{}", lambda value: value)
"""The number that a float is, whose type was checked."""
size = operation("size", "vn", int, "{}.shape[{}]", lambda array, dim: array.shape[dim])
"""Of an array whose rank was checked."""
step = operation("step", "vn", int, "{}.strides[{}]", lambda array, dim: array.strides[dim])
"""The same, in bytes."""
count = operation("count", "v", int, "len({})", len)
"""Of a list, tuple or deque."""
dict_count = operation("dict_count", "v", int, "len({})", dict.__len__)


# -- asking --------------------------------------------------------------------------------------------------
def _dict_lacks(owner: dict[Any, Any], key: Hashable) -> bool:
    need_plain_keys(owner)
    return not dict.__contains__(owner, key)


def _dict_keys(owner: dict[Any, Any], keys: list[Any]) -> bool:
    found = list(dict.__iter__(owner))
    return len(found) == len(keys) and all(map(operator.is_, found, keys))


def _bits(value: float, number: int) -> bool:
    return int.from_bytes(float_bits(value), "little", signed=True) == number


type_is = operation("type_is", "vo", bool, "type({}) is {}", lambda value, kind: type(value) is kind)
type_or = operation("type_or", "voo", bool, "type({}) is {}", lambda v, kind, it: type(v) is kind or v is it)
"""Or it is the last operand."""
is_object = operation("is_object", "vo", bool, "{} is {}", operator.is_)
same = operation("same", "vv", bool, "{} is {}", operator.is_)
distinct = operation("distinct", "V", bool, "distinct({})", lambda all_: len(set(map(id, all_))) == len(all_))
slot_is = operation("slot_is", "vso", bool, "{}.{} is {}", lambda v, place, it: of_slot(place, v) is it)
slot_isnt = operation(
    "slot_isnt", "vso", bool, "{}.{} is not {}", lambda v, place, it: of_slot(place, v) is not it
)
length = operation("length", "vn", bool, "len({}) == {}", lambda value, count: len(value) == count)
dict_length = operation("dict_length", "vn", bool, "len({}) == {}", lambda d, count: dict.__len__(d) == count)
dict_lacks = operation("dict_lacks", "vo", bool, "{1} not in {0}", _dict_lacks)
dict_keys = operation("dict_keys", "vL", bool, "list({}) == {}", _dict_keys)
"""These very keys in this order."""
bits = operation("bits", "vn", bool, "bits({}) == {}", _bits)
"""Of a float."""
equal = operation("equal", "vo", bool, "{} == {}", operator.eq)
"""Of two objects of one exact type of Python's own."""
strides = operation("strides", "vL", bool, "{}.strides == {}", lambda array, steps: [*array.strides] == steps)
"""In bytes, of an array whose rank was checked."""
flags = operation("flags", "vnn", bool, "{}.flags & {} == {}", lambda a, mask, it: a.flags.num & mask == it)
mode = operation("mode", "oo", bool, "{}.get() is {}", lambda variable, it: variable.get() is it)
"""Of a context variable."""
call_is = operation("call_is", "oo", bool, "{}() is {}", lambda function, it: function() is it)
"""Of a function of the library's own."""
version = operation(
    "version", "on-", bool, "version({}) == {}", lambda kind, number, ask: ask(kind) == number
)
"""A class has not changed since it had this version."""
