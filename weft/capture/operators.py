"""Operators: arithmetic, comparison, subscription, truth and text of the interpreter's values.

One idea: where only C code answers, the operator is simply applied; where a class defines it in Python, the
steps of CPython's protocol are followed and the methods are interpreted.
"""

from __future__ import annotations

import operator
import types
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Any

from weft.capture.attributes import HEAP, IMMUTABLE
from weft.capture.guards import lookup
from weft.capture.namespaces import InstanceDict
from weft.capture.natives import CONTAINERS, EQUALITY, ITERATORS, ORDER, TEXT, VIEWS, Natives
from weft.capture.protocols import KEYED, StandIns, is_users
from weft.capture.values import Callback, CapturedGenerator, isinstance
from weft.capture.world import ABSENT
from weft.capture.wrapping import SCALARS, SYMBOLIC
from weft.tensor.base import Tensor
from weft.trace.breaks import Break
from weft.trace.scalars import SymBool, SymInt, is_untold

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


class Operators(Natives):
    """Applying operators."""

    def is_plain(self, value: Any) -> bool:
        """Whether C code (or this library's) answers all operators on the value."""
        kind = type(value)
        return (
            kind in SCALARS
            or not kind.__flags__ & HEAP
            or bool(kind.__flags__ & IMMUTABLE)
            or isinstance(value, (Tensor, *SYMBOLIC))
        )

    # -- arithmetic ------------------------------------------------------------------------------------------
    def binary(self, symbol: str, left: Any, right: Any) -> Any:
        function, forward, backward = BINARY[symbol]
        if self.is_plain(left) and self.is_plain(right):
            return self.apply(function, left, right)
        return self.by_protocol(function, symbol, forward, backward, left, right)

    def apply(self, function: Callable[..., Any], *operands: Any) -> Any:
        """C code's own operator. Containers are combined, never compared; opaque objects are refused."""
        for value in operands:
            kind = type(value)
            if kind not in SCALARS and kind not in CONTAINERS and not isinstance(value, (Tensor, *SYMBOLIC)):
                self.refuse_opaque(value)
        if type(operands[0]) is str and function is operator.mod:
            operands = (operands[0], self.text_operand(operands[1]))
        if len(operands) == 2 and all(isinstance(v, (*KEYED, *VIEWS)) for v in operands):
            if not any(isinstance(v, VIEWS) for v in operands):
                self.check_keys(list(operands[1]), operands[0])
            else:
                self.check(operands, EQUALITY)
        if function in (operator.mul, operator.imul) and any(type(v) in SEQUENCES for v in operands):
            operands = tuple(map(self.index, operands))
        if any(isinstance(value, Tensor) for value in operands):
            self.check_library(operands, {})
            return self.native(self.recorder.call, function, operands)
        return self.world.keep(self.native(function, *operands))

    def by_protocol(
        self, function: Any, symbol: str, forward: str, backward: str, left: Any, right: Any
    ) -> Any:
        ours, theirs = self.python_method(left, forward), self.python_method(right, backward)
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
        raise self.fail(TypeError(no_operator(symbol, left, right)))

    def equates(self, *values: Any) -> bool:
        """Whether one of these has an `__eq__` of the user's, which then decides `!=` too."""
        return any(self.python_method(value, "__eq__") is not None for value in values)

    def after_reflected(self, function: Any, theirs: Any, left: Any, right: Any) -> Any:
        """Sequences add and repeat only when the other operand would not."""
        result = self.call_method(theirs, right, left)
        if result is not NotImplemented:
            return result
        return self.apply(function, left, right)

    def attempt(self, found: Any, name: str, receiver: Any, other: Any) -> Any:
        if found is not None:
            return self.call_method(found, receiver, other)
        entry = lookup(type(receiver), name)
        if entry is None:
            return NotImplemented
        native = entry[1]
        if native is object.__ne__:
            equal = self.python_method(receiver, "__eq__")
            if equal is not None:
                result = self.call_method(equal, receiver, other)
                return result if result is NotImplemented else not self.truth(result)
        self.refuse_opaque(receiver)
        self.refuse_opaque(other)
        return self.native(native, receiver, other)

    def inplace(self, symbol: str, left: Any, right: Any) -> Any:
        function, name = INPLACE[symbol]
        if type(left) in CONTAINERS:
            self.changes += 1
        if self.is_plain(left):
            if isinstance(left, list) and symbol == "+=":
                return self.apply(function, left, self.iterable(right))
            if self.is_plain(right):
                return self.apply(function, left, right)
        else:
            found = self.python_method(left, name)
            if found is not None:
                result = self.call_method(found, left, right)
                if result is not NotImplemented:
                    return result
            elif hasattr(type(left), name):
                return self.apply(function, left, self.iterable(right))
        return self.binary(symbol[:-1], left, right)

    def unary(self, symbol: str, value: Any) -> Any:
        if symbol == "not":
            truth = self.untold_truth(value)
            return not self.truth(value) if truth is None else truth.negated()
        function, name = UNARY[symbol]
        found = None if self.is_plain(value) else self.python_method(value, name)
        return self.apply(function, value) if found is None else self.call_method(found, value)

    # -- comparison ------------------------------------------------------------------------------------------
    def compare(self, symbol: str, left: Any, right: Any) -> Any:
        function, forward, backward = COMPARE[symbol]
        if type(left) in SCALARS and type(right) in SCALARS:
            return self.native(function, left, right)
        if self.is_plain(left) and self.is_plain(right):
            names = ORDER if symbol not in ("==", "!=") else EQUALITY
            if not all(self.can_check(value, names) for value in (left, right)):
                stand_ins = StandIns(self)
                return self.native(function, stand_ins(left), stand_ins(right))
            if isinstance(left, Tensor) or isinstance(right, Tensor):
                return self.native(self.recorder.call, function, (left, right))
            return self.native(function, left, right)
        if self.python_method(left, forward) is None and self.python_method(right, backward) is None:
            if self.python_method(left, "__eq__") is None:
                names = ORDER if symbol not in ("==", "!=") else EQUALITY
                if all(self.can_check(value, names) for value in (left, right)):
                    return self.native(function, left, right)
                stand_ins = StandIns(self)
                return self.native(function, *(stand_ins(as_items(value)) for value in (left, right)))
        return self.by_protocol(function, symbol, forward, backward, left, right)

    def identical_values(self, left: Any, right: Any) -> bool:
        """`left is right`, guarded where the answer may change with the objects passed."""
        left, right = stand_in(left), stand_in(right)
        if left is right:
            return True
        ours, theirs = self.world.known.get(id(left)), self.world.known.get(id(right))
        if ours is not None and theirs is not None:
            if type(ours.original) is type(theirs.original):
                self.world.guard("DISTINCT", ours.source, (ours.source, theirs.source))
        if isinstance(left, SYMBOLIC) or isinstance(right, SYMBOLIC):
            return bool(self.native(operator.eq, left, right)) and type(left) is type(right)
        return False

    def contains(self, item: Any, container: Any) -> bool:
        if not self.is_plain(container) and not isinstance(container, InstanceDict):
            found = self.python_method(container, "__contains__")
            if found is not None:
                return self.truth(self.call_method(found, container, item))
            if self.python_method(container, "__iter__") or self.python_method(container, "__getitem__"):
                return self.found_among(item, self.iterable(container))
        if isinstance(container, (CapturedGenerator, *ITERATORS)):
            return self.found_among(item, container)
        if isinstance(container, KEYED):
            self.check_keys((item,), container)
        elif isinstance(container, (list, tuple, deque, *VIEWS)) or not self.is_plain(item):
            if not all(self.can_check(value, EQUALITY) for value in (item, container)):
                if isinstance(container, (list, tuple, deque, *VIEWS)):
                    return self.found_among(item, container)
                self.check(item, EQUALITY)
        self.refuse_opaque(container)
        return bool(self.native(operator.contains, container, item))

    def found_among(self, item: Any, container: Any) -> bool:
        self.refuse_opaque(container)
        iterator = self.native(iter, container)
        while (candidate := self.native(next, iterator, ABSENT)) is not ABSENT:
            if candidate is item or self.truth(self.compare("==", candidate, item)):
                return True
        return False

    def untold_truth(self, value: Any) -> Any:
        """The truth of a tensor, or of a number that only running can tell; None for others."""
        if isinstance(value, Tensor):
            value = self.recorder.element(value)
        return self.scalars.truth_of(value) if is_untold(value) else None

    def truth(self, value: Any) -> bool:
        if value is True or value is False or value is None:
            return value is True
        if isinstance(value, InstanceDict):
            return len(value) > 0
        if not self.is_plain(value):
            found = self.python_method(value, "__bool__")
            if found is not None:
                result = self.call_method(found, value)
                if type(result) is not bool and not isinstance(result, SymBool):
                    text = f"__bool__ should return bool, returned {kind_of(result).__name__}"
                    raise self.fail(TypeError(text))
                return bool(self.native(bool, result))
            if self.python_method(value, "__len__") is not None:
                return bool(self.native(bool, self.call(len, (value,), {})))
        self.refuse_opaque(value)
        return bool(self.native(bool, value))

    # -- items -----------------------------------------------------------------------------------------------
    def get_item(self, container: Any, key: Any) -> Any:
        kind = type(container)
        if isinstance(container, type):
            return self.subscript_class(container, key)
        if kind.__module__ == "typing":
            return self.world.keep(self.native(operator.getitem, container, key))  # an annotation
        if kind in (list, tuple, dict, str) or isinstance(container, Tensor):
            key = self.ready_key(container, key)
            if isinstance(container, Tensor):
                self.check_library((key,), {})
            return self.native(operator.getitem, container, key)
        found = None if self.is_plain(container) else self.python_method(container, "__getitem__")
        if found is not None and not isinstance(container, InstanceDict):
            return self.call_method(found, container, key)
        key = self.ready_key(container, key)
        self.refuse_opaque(container)
        missing = None if self.is_plain(container) else self.python_method(container, "__missing__")
        if missing is not None and not self.native(dict.__contains__, container, key):
            return self.call_method(missing, container, key)
        return self.native(operator.getitem, container, key)

    def index(self, value: Any) -> Any:
        """What an `__index__` of the user's gives; other values stay."""
        found = None if self.is_plain(value) else self.python_method(value, "__index__")
        if found is None:
            return value
        result = self.call_method(found, value)
        if type(result) is not int and isinstance(result, (int, SymBool)):
            raise Break("builtin-protocol", seen="__index__ that gives no exact int")  # Python warns
        if not isinstance(result, (int, SymInt)):
            text = f"__index__ returned non-int (type {kind_of(result).__name__})"
            raise self.fail(TypeError(text))
        return result

    def ready_key(self, container: Any, key: Any) -> Any:
        """The key or index in a form that C code may use on the container."""
        if isinstance(container, KEYED):
            self.check_keys((key,), container)
            return key
        if is_users(key):
            return self.index(key)
        if type(key) is slice and any(is_users(part) for part in (key.start, key.stop, key.step)):
            return slice(*(self.ready_key(container, part) for part in (key.start, key.stop, key.step)))
        self.check(key, EQUALITY)
        return key

    def subscript_class(self, cls: type, key: Any) -> Any:
        maker = self.lookup(type(cls), "__getitem__") if type(cls) is not type else ABSENT
        if isinstance(maker, types.FunctionType):
            if (type(cls).__module__ or "") == "enum":
                return self.identical_member(self.native(operator.getitem, cls, key))
            return self.call(maker, (cls, key), {})
        found = self.lookup(cls, "__class_getitem__")
        inner = found.__func__ if isinstance(found, classmethod) else None
        if isinstance(inner, types.FunctionType) and inner.__module__ != "typing":
            return self.call(inner, (cls, key), {})
        return self.native(operator.getitem, cls, key)

    def identical_member(self, member: Any) -> Any:
        return member

    def set_item(self, container: Any, key: Any, value: Any) -> None:
        """`container[key] = value`; ABSENT deletes."""
        name = "__delitem__" if value is ABSENT else "__setitem__"
        found = None if self.is_plain(container) else self.python_method(container, name)
        if found is not None and not isinstance(container, InstanceDict):
            self.call_method(found, container, *((key,) if value is ABSENT else (key, value)))
            return
        self.changes += 1
        key = self.ready_key(container, key)
        self.refuse_opaque(container)
        if isinstance(container, Tensor):
            self.check_library((key, value), {})
        if isinstance(key, slice) and value is not ABSENT and isinstance(container, list):
            value = self.iterable(value)
        if value is ABSENT:
            self.native(operator.delitem, container, key)
        else:
            self.world.keep(value)
            self.native(operator.setitem, container, key, value)

    # -- text ------------------------------------------------------------------------------------------------
    def check_text(self, value: Any, seen: set[int] | None = None) -> None:
        """Breaks where the text of a value would hold an address, or data, or run Python code unseen."""
        kind = type(value)
        if kind in SCALARS or isinstance(value, (*SYMBOLIC, type, Tensor)):
            return
        seen = set() if seen is None else seen
        if id(value) in seen:
            return
        seen.add(id(value))
        if kind in CONTAINERS:
            for item in value:
                self.check_text(item, seen)
            if isinstance(value, dict):
                for item in dict.values(value):
                    self.check_text(item, seen)
            return
        self.check(value, TEXT, deep=False)
        if inherits(kind, "__repr__") and inherits(kind, "__str__"):
            raise Break("address-in-text", seen=f"the text of a {kind.__name__}")
        if isinstance(value, (types.FunctionType, types.MethodType, types.BuiltinFunctionType, Callback)):
            raise Break("address-in-text", seen=f"the text of a {kind.__name__}")
        if isinstance(value, BaseException):
            for item in value.args:
                self.check_text(item, seen)
        elif isinstance(value, (CapturedGenerator, *ITERATORS)):
            raise Break("address-in-text", seen=f"the text of a {kind.__name__}")

    def text_ready(self, value: Any) -> Any:
        """The value in a form whose text C code may make."""
        if self.can_check(value, TEXT):
            self.check_text(value)
            return value
        if is_users(value):
            # No method of the user's answers for the value itself, only for what it holds.
            if isinstance(value, (set, frozenset, deque, OrderedDict, defaultdict)):
                raise Break("builtin-protocol", seen=f"the text of a {type(value).__name__}")
            value = as_items(value)
            return value if is_users(value) else StandIns(self)(value)
        return StandIns(self)(value)

    def text_operand(self, value: Any) -> Any:
        """What stands to the right of a string's `%`."""
        for item in value if isinstance(value, tuple) else (value,):
            if is_users(item):
                for name in ("__int__", "__index__", "__float__"):
                    if self.python_method(item, name) is not None:
                        raise Break("builtin-protocol", seen=f"{name} of {type(item).__name__}")
        if self.can_check(value, TEXT):
            self.check_text(value)
            return value
        stand_ins = StandIns(self)
        return tuple(map(stand_ins, value)) if isinstance(value, tuple) else stand_ins(value)

    def text(self, value: Any, name: str = "__str__") -> str:
        """`str(value)` or `repr(value)`."""
        if not self.is_plain(value):
            found = self.python_method(value, name)
            if found is None and name == "__str__" and not isinstance(value, (str, BaseException)):
                if inherits(type(value), "__str__"):
                    found = self.python_method(value, "__repr__")
            if found is not None:
                result = self.call_method(found, value)
                if not isinstance(result, str):
                    text = f"{name} returned non-string (type {type(result).__name__})"
                    raise self.fail(TypeError(text))
                return result
        if isinstance(value, BaseException):
            found = self.exception_text(value, name)
            if found is not None:
                return found
        return self.native(str if name == "__str__" else repr, self.text_ready(value))  # type: ignore[no-any-return]

    def exception_text(self, error: BaseException, name: str) -> str | None:
        """As the methods of BaseException and KeyError make it of `args`; None for other classes' methods."""
        entry = lookup(type(error), name)
        method = None if entry is None else entry[1]
        args = self.load_attribute(error, "args")
        if method is BaseException.__repr__:
            inner = self.text(args[0], "__repr__") if len(args) == 1 else None
            return type(error).__name__ + (self.text(args) if inner is None else f"({inner})")
        if method is KeyError.__str__ and len(args) == 1:
            return self.text(args[0], "__repr__")
        if method is BaseException.__str__ or method is KeyError.__str__:
            return self.text(args[0] if len(args) == 1 else args) if args else ""
        return None

    def format(self, value: Any, specification: str) -> str:
        if not self.is_plain(value):
            found = self.python_method(value, "__format__")
            if found is not None:
                result = self.call_method(found, value, specification)
                if not isinstance(result, str):
                    text = f"__format__ must return a str, not {type(result).__name__}"
                    raise self.fail(TypeError(text))
                return result
            if inherits(type(value), "__format__") and not specification:
                return self.text(value)
        if isinstance(value, BaseException) and not specification:
            return self.text(value)
        return self.native(format, self.text_ready(value), specification)  # type: ignore[no-any-return]


def inherits(kind: type, name: str) -> bool:
    """Whether a class has nothing of its own under a name that `object` has."""
    return getattr(kind, name) is getattr(object, name)


def as_items(value: Any) -> Any:
    """A container of a user's class as the one that C code takes it for."""
    bases: tuple[Any, ...] = (tuple, list, dict, set, frozenset, deque)
    for base in bases:
        if isinstance(value, base):
            return base(base.items(value) if base is dict else base.__iter__(value))
    return value


def kind_of(value: Any) -> type:
    """The class that the user's program sees."""
    kind: type = value.expression.kind if isinstance(value, SYMBOLIC) else type(value)
    return kind


def stand_in(value: Any) -> Any:
    return value.function if isinstance(value, Callback) else value


def no_operator(symbol: str, left: Any, right: Any) -> str:
    names = f"'{type(left).__name__}' and '{type(right).__name__}'"
    if symbol in COMPARE:
        return f"'{symbol}' not supported between instances of {names}"
    name = "** or pow()" if symbol == "**" else symbol
    return f"unsupported operand type(s) for {name}: {names}"
