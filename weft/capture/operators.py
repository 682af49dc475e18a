"""Operators: arithmetic, comparison, subscription and truth of the interpreter's values.

One idea: where only C code answers, the operator is simply applied; where a class defines it in Python, the
steps of CPython's protocol are followed and the methods are interpreted.
"""

from __future__ import annotations

import operator
import types
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from weft.capture.c_arguments import CONTAINERS, ITERATORS, ORDER, VIEWS
from weft.capture.guards import lookup
from weft.capture.namespaces import InstanceDict
from weft.capture.parts import OPEN
from weft.capture.protocols import EQUALITY, KEYED, StandIns, answers_in_c, as_items, is_users
from weft.capture.values import Callback, CapturedGenerator, has_type
from weft.capture.world import ABSENT, Unopened
from weft.capture.wrapping import SCALARS, SYMBOLIC
from weft.tensor.base import Tensor
from weft.trace.breaks import Break
from weft.trace.scalars import SymBool, SymInt, is_untold

if TYPE_CHECKING:
    from weft.capture.machine import Machine

BINARY: dict[str, tuple[Callable[[Any, Any], Any], str, str]] = {
    "+": (operator.add, "__add__", "__radd__"),
    "-": (operator.sub, "__sub__", "__rsub__"),
    "*": (operator.mul, "__mul__", "__rmul__"),
    "/": (operator.truediv, "__truediv__", "__rtruediv__"),
    "//": (operator.floordiv, "__floordiv__", "__rfloordiv__"),
    "%": (operator.mod, "__mod__", "__rmod__"),
    "**": (operator.pow, "__pow__", "__rpow__"),
    "@": (operator.matmul, "__matmul__", "__rmatmul__"),
    "&": (operator.and_, "__and__", "__rand__"),
    "|": (operator.or_, "__or__", "__ror__"),
    "^": (operator.xor, "__xor__", "__rxor__"),
    "<<": (operator.lshift, "__lshift__", "__rlshift__"),
    ">>": (operator.rshift, "__rshift__", "__rrshift__"),
}
INPLACE: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "+=": (operator.iadd, "__iadd__"), "-=": (operator.isub, "__isub__"), "*=": (operator.imul, "__imul__"),
    "/=": (operator.itruediv, "__itruediv__"), "//=": (operator.ifloordiv, "__ifloordiv__"),
    "%=": (operator.imod, "__imod__"), "**=": (operator.ipow, "__ipow__"),
    "@=": (operator.imatmul, "__imatmul__"), "&=": (operator.iand, "__iand__"),
    "|=": (operator.ior, "__ior__"), "^=": (operator.ixor, "__ixor__"),
    "<<=": (operator.ilshift, "__ilshift__"), ">>=": (operator.irshift, "__irshift__"),
}  # fmt: skip
COMPARE: dict[str, tuple[Callable[[Any, Any], Any], str, str]] = {
    "<": (operator.lt, "__lt__", "__gt__"),
    "<=": (operator.le, "__le__", "__ge__"),
    ">": (operator.gt, "__gt__", "__lt__"),
    ">=": (operator.ge, "__ge__", "__le__"),
    "==": (operator.eq, "__eq__", "__eq__"),
    "!=": (operator.ne, "__ne__", "__ne__"),
}
UNARY: dict[str, tuple[Callable[[Any], Any], str]] = {
    "-": (operator.neg, "__neg__"),
    "+": (operator.pos, "__pos__"),
    "~": (operator.invert, "__invert__"),
}


SEQUENCES = frozenset({list, tuple, str, bytes, bytearray, deque})
"""Classes whose `+` and `*` are those of sequences, not of numbers."""
OPERATED: dict[type, Callable[..., Any]] = {}
"""Classes of which captured code does all operators itself: `(machine, function, *operands)`."""


class Operators:
    """Applying operators."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.calls, self.attributes, self.texts = machine.calls, machine.attributes, machine.texts
        self.c_arguments, self.iterators = machine.c_arguments, machine.iterators
        self.world, self.recorder, self.scalars = machine.world, machine.recorder, machine.scalars
        self.native, self.fail = machine.native, machine.fail

    # -- arithmetic ------------------------------------------------------------------------------------------
    def binary(self, symbol: str, left: Any, right: Any) -> Any:
        function, forward, backward = BINARY[symbol]
        answer = OPERATED.get(type(left)) or OPERATED.get(type(right))
        if answer is not None:
            return answer(self.machine, function, left, right)
        if answers_in_c(left) and answers_in_c(right):
            return self.apply(function, left, right)
        return self.by_protocol(function, symbol, forward, backward, left, right)

    def apply(self, function: Callable[..., Any], *operands: Any) -> Any:
        """C code's own operator. Containers are combined, never compared; opaque objects are refused."""
        for value in operands:
            kind = type(value)
            if kind not in SCALARS and kind not in CONTAINERS and not has_type(value, (Tensor, *SYMBOLIC)):
                self.c_arguments.refuse_opaque(value)
        if type(operands[0]) is str and function is operator.mod:
            operands = (operands[0], self.texts.percent_operand(operands[1]))
        if len(operands) == 2 and all(has_type(v, (*KEYED, *VIEWS)) for v in operands):
            if not any(has_type(v, VIEWS) for v in operands):
                for value in operands if has_type(operands[0], dict) else ():
                    self.c_arguments.check(value, ("keys", "__getitem__", "__iter__"), deep=False)
                self.c_arguments.check_keys(list(operands[1]), operands[0])
            else:
                self.c_arguments.check(operands, EQUALITY)
        if function in (operator.mul, operator.imul) and any(type(v) in SEQUENCES for v in operands):
            operands = tuple(map(self.index, operands))
        if any(has_type(value, Tensor) for value in operands):
            self.calls.check_library(operands, {})
            return self.native(self.recorder.call, function, operands)
        return self.world.keep(self.native(function, *operands))

    def by_protocol(
        self, function: Any, symbol: str, forward: str, backward: str, left: Any, right: Any
    ) -> Any:
        ours = self.attributes.python_method(left, forward)
        theirs = self.attributes.python_method(right, backward)
        if ours is None and theirs is None and not (symbol == "!=" and self.equates(left, right)):
            return self.apply(function, left, right)
        if ours is None and type(left) in SEQUENCES and symbol in ("+", "*"):
            return self.after_reflected(function, theirs, left, right)
        attempts: list[tuple[Any, Any, Any, bool]] = [(ours, left, right, True)]
        if type(left) is not type(right) or symbol in COMPARE:
            reflected = (theirs, right, left, False)
            kinds = type(right), type(left)
            if kinds[0] is not kinds[1] and issubclass(*kinds) and (theirs is not None or symbol in COMPARE):
                attempts.insert(0, reflected)
            else:
                attempts.append(reflected)
        for found, receiver, other, is_forward in attempts:
            result = self.attempt(found, forward if is_forward else backward, receiver, other)
            if result is not NotImplemented:
                return result
        if symbol in ("==", "!="):
            return (left is right) is (symbol == "==")
        raise self.fail(TypeError(unsupported_text(symbol, left, right)))

    def equates(self, *values: Any) -> bool:
        """Whether one of these has an `__eq__` of the user's, which then decides `!=` too."""
        return any(self.attributes.python_method(value, "__eq__") is not None for value in values)

    def after_reflected(self, function: Any, theirs: Any, left: Any, right: Any) -> Any:
        """Sequences add and repeat only when the other operand would not."""
        result = self.calls.call_method(theirs, right, left)
        if result is not NotImplemented:
            return result
        return self.apply(function, left, right)

    def attempt(self, found: Any, name: str, receiver: Any, other: Any) -> Any:
        """One of the methods that a binary operator tries: the user's, or else that of C code."""
        if found is not None:
            return self.calls.call_method(found, receiver, other)
        entry = lookup(type(receiver), name)
        if entry is None:
            return NotImplemented
        native = entry[1]
        if native is str.__mod__:
            other = self.texts.percent_operand(other)
        if native is object.__ne__:
            equal = self.attributes.python_method(receiver, "__eq__")
            if equal is not None:
                result = self.calls.call_method(equal, receiver, other)
                return result if result is NotImplemented else not self.truth(result)
        self.c_arguments.refuse_opaque(receiver)
        self.c_arguments.refuse_opaque(other)
        return self.native(native, receiver, other)

    def inplace(self, symbol: str, left: Any, right: Any) -> Any:
        function, name = INPLACE[symbol]
        if type(left) is Unopened:
            result = self.machine.parts.add_in_place(left, right) if symbol == "+=" else OPEN
            if result is not OPEN:
                return result
            left = self.machine.parts.open(left)
        if type(left) in OPERATED:
            raise Break("numpy-call", seen="an array that is written")
        if type(left) in CONTAINERS:
            self.world.changes += 1
        if answers_in_c(left):
            own = None if answers_in_c(right) else self.attributes.python_method(right, "__radd__")
            if has_type(left, list) and symbol == "+=" and own is None:
                return self.apply(function, left, self.iterators.iterable(right))
            if answers_in_c(right):
                return self.apply(function, left, right)
        else:
            found = self.attributes.python_method(left, name)
            if found is not None:
                result = self.calls.call_method(found, left, right)
                if result is not NotImplemented:
                    return result
            elif hasattr(type(left), name):
                return self.apply(function, left, self.iterators.iterable(right))
        return self.binary(symbol[:-1], left, right)

    def unary(self, symbol: str, value: Any) -> Any:
        if symbol == "not":
            truth = self.untold_truth(value)
            return not self.truth(value) if truth is None else truth.negated()
        function, name = UNARY[symbol]
        if type(value) in OPERATED:
            return OPERATED[type(value)](self.machine, function, value)
        found = None if answers_in_c(value) else self.attributes.python_method(value, name)
        return self.apply(function, value) if found is None else self.calls.call_method(found, value)

    # -- comparison ------------------------------------------------------------------------------------------
    def compare(self, symbol: str, left: Any, right: Any) -> Any:
        function, forward, backward = COMPARE[symbol]
        if type(left) in SCALARS and type(right) in SCALARS:
            return self.native(function, left, right)
        answer = OPERATED.get(type(left)) or OPERATED.get(type(right))
        if answer is not None:
            return answer(self.machine, function, left, right)
        if answers_in_c(left) and answers_in_c(right):
            names = ORDER if symbol not in ("==", "!=") else EQUALITY
            if not all(self.c_arguments.can_check(value, names) for value in (left, right)):
                stand_ins = StandIns(self.machine)
                return self.native(function, stand_ins(left), stand_ins(right))
            if has_type(left, Tensor) or has_type(right, Tensor):
                return self.native(self.recorder.call, function, (left, right))
            return self.native(function, left, right)
        users = self.attributes.python_method
        if users(left, forward) is None and users(right, backward) is None:
            if users(left, "__eq__") is None:
                names = ORDER if symbol not in ("==", "!=") else EQUALITY
                if all(self.c_arguments.can_check(value, names) for value in (left, right)):
                    return self.native(function, left, right)
                stand_ins = StandIns(self.machine)
                return self.native(function, *(stand_ins(as_items(value)) for value in (left, right)))
        return self.by_protocol(function, symbol, forward, backward, left, right)

    def identical_values(self, left: Any, right: Any) -> bool:
        """`left is right`, guarded where the answer may change with the objects passed."""
        left, right = behind_callback(left), behind_callback(right)
        if left is right:
            return True
        ours, theirs = self.world.known.get(id(left)), self.world.known.get(id(right))
        if ours is not None and theirs is not None:
            if type(ours.original) is type(theirs.original):
                self.world.guard("DISTINCT", ours.source, (ours.source, theirs.source))
        if has_type(left, SYMBOLIC) or has_type(right, SYMBOLIC):
            return self.identical_numbers(left, right)
        return False

    def identical_numbers(self, left: Any, right: Any) -> bool:
        """`left is right` where one of them is a number that may vary."""
        kind = kind_of(left)
        if kind is not kind_of(right) or not self.native(operator.eq, left, right):
            return False
        if kind is bool or (kind is int and -5 <= left <= 256):  # of which there is one object each
            return True
        raise Break("value-varies", seen="whether equal numbers are one object")

    def contains(self, item: Any, container: Any) -> bool:
        if type(container) is Unopened:
            answer = self.machine.parts.contains(container, item)
            if answer is not OPEN:
                return bool(answer)
            container = self.machine.parts.open(container)
        if not answers_in_c(container) and not has_type(container, InstanceDict):
            found = self.attributes.python_method(container, "__contains__")
            if found is not None:
                return self.truth(self.calls.call_method(found, container, item))
            users = self.attributes.python_method
            own = (
                lookup(type(container), "__contains__") is not None
            )  # that of C code, which iterates nothing
            if own:
                pass
            elif users(container, "__iter__") or users(container, "__getitem__"):
                return self.found_among(item, self.iterators.iterable(container))
        if has_type(container, (CapturedGenerator, *ITERATORS)):
            return self.found_among(item, container)
        if has_type(container, KEYED):
            self.c_arguments.check_keys((item,), container)
        elif has_type(container, (list, tuple, deque, *VIEWS)) or not answers_in_c(item):
            if not all(self.c_arguments.can_check(value, EQUALITY) for value in (item, container)):
                if has_type(container, (list, tuple, deque, *VIEWS)):
                    return self.found_among(item, as_items(container) if is_users(container) else container)
                self.c_arguments.check(item, EQUALITY)
        self.c_arguments.refuse_opaque(container)
        return bool(self.native(operator.contains, container, item))

    def found_among(self, item: Any, container: Any) -> bool:
        self.c_arguments.refuse_opaque(container)
        iterator = self.native(iter, container)
        while (candidate := self.native(next, iterator, ABSENT)) is not ABSENT:
            if candidate is item or self.truth(self.compare("==", candidate, item)):
                return True
        return False

    def untold_truth(self, value: Any) -> Any:
        """The truth of a tensor, or of a number that only running can tell; None for others."""
        if has_type(value, Tensor):
            value = self.recorder.element(value)
        return self.scalars.truth_of(value) if is_untold(value) else None

    def truth(self, value: Any) -> bool:
        if value is True or value is False or value is None:
            return value is True
        if type(value) is Unopened:
            found = self.machine.parts.truth(value)
            return self.truth(self.machine.parts.open(value)) if found is OPEN else found
        if has_type(value, InstanceDict):
            return len(value) > 0
        if not answers_in_c(value):
            found = self.attributes.python_method(value, "__bool__")
            if found is not None:
                result = self.calls.call_method(found, value)
                if type(result) is not bool and not has_type(result, SymBool):
                    text = f"__bool__ should return bool, returned {kind_of(result).__name__}"
                    raise self.fail(TypeError(text))
                return bool(self.native(bool, result))
            if self.attributes.python_method(value, "__len__") is not None:
                return bool(self.native(bool, self.calls.call(len, (value,), {})))
        self.c_arguments.refuse_opaque(value)
        return bool(self.native(bool, value))

    # -- items -----------------------------------------------------------------------------------------------
    def get_item(self, container: Any, key: Any) -> Any:
        kind = type(container)
        if kind is Unopened:
            found = self.machine.parts.get_item(container, key)
            return self.get_item(self.machine.parts.open(container), key) if found is OPEN else found
        if has_type(container, type):
            return self.subscript_class(container, key)
        if kind in OPERATED:
            return OPERATED[kind](self.machine, operator.getitem, container, key)
        if kind.__module__ == "typing":
            return self.world.keep(self.native(operator.getitem, container, key))  # an annotation
        if kind in (list, tuple, dict, str) or has_type(container, Tensor):
            key = self.ready_key(container, key)
            if has_type(container, Tensor):
                self.calls.check_library((key,), {})
            return self.native(operator.getitem, container, key)
        found = None if answers_in_c(container) else self.attributes.python_method(container, "__getitem__")
        if found is not None and not has_type(container, InstanceDict):
            return self.calls.call_method(found, container, key)
        key = self.ready_key(container, key)
        self.c_arguments.refuse_opaque(container)
        missing = None if answers_in_c(container) else self.attributes.python_method(container, "__missing__")
        if missing is not None and not self.native(dict.__contains__, container, key):
            return self.calls.call_method(missing, container, key)
        return self.native(operator.getitem, container, key)

    def index(self, value: Any) -> Any:
        """What an `__index__` of the user's gives; other values stay."""
        if answers_in_c(value) or has_type(value, int):  # what is an int already is not asked
            return value
        found = self.attributes.python_method(value, "__index__")
        if found is None:
            return value
        result = self.calls.call_method(found, value)
        if type(result) is not int and has_type(result, (int, SymBool)):
            raise Break("builtin-protocol", seen="__index__ that gives no exact int")  # Python warns
        if not has_type(result, (int, SymInt)):
            text = f"__index__ returned non-int (type {kind_of(result).__name__})"
            raise self.fail(TypeError(text))
        return result

    def ready_key(self, container: Any, key: Any) -> Any:
        """The key or index in a form that C code may use on the container."""
        if has_type(container, KEYED):
            self.c_arguments.check_keys((key,), container)
            return key
        if is_users(key):
            return self.index(key)
        if type(key) is slice and any(is_users(part) for part in (key.start, key.stop, key.step)):
            return slice(*(self.ready_key(container, part) for part in (key.start, key.stop, key.step)))
        self.c_arguments.check(key, EQUALITY)
        return key

    def subscript_class(self, cls: type, key: Any) -> Any:
        maker = self.attributes.lookup(type(cls), "__getitem__") if type(cls) is not type else ABSENT
        if has_type(maker, types.FunctionType):
            if (type(cls).__module__ or "") == "enum":
                return self.native(operator.getitem, cls, key)
            return self.calls.call(maker, (cls, key), {})
        found = self.attributes.lookup(cls, "__class_getitem__")
        inner = found.__func__ if has_type(found, classmethod) else None
        if has_type(inner, types.FunctionType) and inner.__module__ != "typing":
            return self.calls.call(inner, (cls, key), {})
        return self.native(operator.getitem, cls, key)

    def set_item(self, container: Any, key: Any, value: Any) -> None:
        """`container[key] = value`; ABSENT deletes."""
        if type(container) is Unopened:
            if self.machine.parts.set_item(container, key, value) is not OPEN:
                return
            container = self.machine.parts.open(container)
        value = self.machine.parts.open(value)
        if type(container) in OPERATED:
            raise Break("numpy-call", seen="an array that is written")
        name = "__delitem__" if value is ABSENT else "__setitem__"
        found = None if answers_in_c(container) else self.attributes.python_method(container, name)
        if found is not None and not has_type(container, InstanceDict):
            self.calls.call_method(found, container, *((key,) if value is ABSENT else (key, value)))
            return
        self.world.changes += 1
        key = self.ready_key(container, key)
        self.c_arguments.refuse_opaque(container)
        if has_type(container, Tensor):
            self.calls.check_library((key, value), {})
        if has_type(key, slice) and value is not ABSENT and has_type(container, list):
            value = self.iterators.iterable(value)
        if value is ABSENT:
            self.native(operator.delitem, container, key)
        else:
            self.world.keep(value)
            self.native(operator.setitem, container, key, value)


def kind_of(value: Any) -> type:
    """The class that the user's program sees."""
    kind: type = value.expression.kind if has_type(value, SYMBOLIC) else type(value)
    return kind


def behind_callback(value: Any) -> Any:
    return value.function if has_type(value, Callback) else value


def unsupported_text(symbol: str, left: Any, right: Any) -> str:
    names = f"'{type(left).__name__}' and '{type(right).__name__}'"
    if symbol in COMPARE:
        return f"'{symbol}' not supported between instances of {names}"
    name = "** or pow()" if symbol == "**" else symbol
    return f"unsupported operand type(s) for {name}: {names}"
