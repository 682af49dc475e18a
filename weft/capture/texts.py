"""Texts: `str`, `repr` and `format` of the interpreter's values.

Takes a value; gives the text that Python would make of it. One idea: methods of the user's are interpreted,
stand-ins re-enter the interpreter where C code prints what a container holds, and a text that would show an
address or data is a break.
"""

from __future__ import annotations

import types
from collections import OrderedDict, defaultdict, deque
from typing import TYPE_CHECKING, Any

from weft.capture.c_arguments import CONTAINERS, ITERATORS, TEXT
from weft.capture.guards import lookup
from weft.capture.open_texts import OpenText
from weft.capture.operators import kind_of
from weft.capture.protocols import StandIns, answers_in_c, as_items, is_users
from weft.capture.values import Callback, CapturedGenerator, has_type
from weft.capture.wrapping import SCALARS, SYMBOLIC
from weft.tensor.base import Tensor
from weft.trace.breaks import Break

if TYPE_CHECKING:
    from weft.capture.machine import Machine


class Texts:
    """Making texts."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.calls, self.wrapping = machine.calls, machine.wrapping
        self.attributes, self.c_arguments = machine.attributes, machine.c_arguments
        self.native, self.fail = machine.native, machine.fail

    # -- text ------------------------------------------------------------------------------------------------
    def check(self, value: Any, seen: set[int] | None = None) -> None:
        """Breaks where the text of a value would hold an address, or data, or run Python code unseen."""
        kind = type(value)
        if kind in SCALARS or has_type(value, (*SYMBOLIC, type, Tensor)):
            return
        seen = set() if seen is None else seen
        if id(value) in seen:
            return
        seen.add(id(value))
        if kind in CONTAINERS:
            for item in value:
                self.check(item, seen)
            if has_type(value, dict):
                for item in dict.values(value):
                    self.check(item, seen)
            return
        self.c_arguments.check(value, TEXT, deep=False)
        if inherits(kind, "__repr__") and inherits(kind, "__str__"):
            raise Break("address-in-text", seen=f"the text of a {kind.__name__}")
        if has_type(value, (types.FunctionType, types.MethodType, types.BuiltinFunctionType, Callback)):
            raise Break("address-in-text", seen=f"the text of a {kind.__name__}")
        if has_type(value, BaseException):
            for item in value.args:
                self.check(item, seen)
        elif has_type(value, (CapturedGenerator, *ITERATORS)):
            raise Break("address-in-text", seen=f"the text of a {kind.__name__}")

    def ready(self, value: Any) -> Any:
        """The value in a form whose text C code may make."""
        if self.c_arguments.can_check(value, TEXT):
            self.check(value)
            return value
        if is_users(value):
            # No method of the user's answers for the value itself, only for what it holds.
            if has_type(value, (set, frozenset, deque, OrderedDict, defaultdict)):
                raise Break("builtin-protocol", seen=f"the text of a {type(value).__name__}")
            value = as_items(value)
            return value if is_users(value) else StandIns(self.machine)(value)
        return StandIns(self.machine)(value)

    def percent_operand(self, value: Any) -> Any:
        """What stands to the right of a string's `%`."""
        for item in value if has_type(value, tuple) else (value,):
            if is_users(item):
                for name in ("__int__", "__index__", "__float__"):
                    if self.attributes.python_method(item, name) is not None:
                        raise Break("builtin-protocol", seen=f"{name} of {type(item).__name__}")
        if self.c_arguments.can_check(value, (*TEXT, "__getitem__", "__missing__")):
            self.check(value)
            return value
        stand_ins = StandIns(self.machine)
        return tuple(map(stand_ins, value)) if has_type(value, tuple) else stand_ins(value)

    def text(self, value: Any, name: str = "__str__") -> str:
        """`str(value)` or `repr(value)`."""
        if type(value) is OpenText and name == "__str__":
            return value  # type: ignore[return-value]
        opened = self.wrapping.open_text("str" if name == "__str__" else "repr", value)
        if opened is not None:
            return opened  # type: ignore[return-value]
        if not answers_in_c(value):
            found = self.attributes.python_method(value, name)
            if found is None and name == "__str__" and not has_type(value, (str, BaseException)):
                if inherits(type(value), "__str__"):
                    found = self.attributes.python_method(value, "__repr__")
            if found is not None:
                result = self.calls.call_method(found, value)
                if not has_type(result, (str, OpenText)):
                    text = f"{name} returned non-string (type {kind_of(result).__name__})"
                    raise self.fail(TypeError(text))
                return result  # type: ignore[return-value]
        if has_type(value, BaseException):
            found = self.exception_text(value, name)
            if found is not None:
                return found
        return self.native(str if name == "__str__" else repr, self.ready(value))

    def ascii(self, value: Any) -> str:
        """`ascii(value)`."""
        return self.text(value, "__repr__").encode("ascii", "backslashreplace").decode("ascii")

    def exception_text(self, error: BaseException, name: str) -> str | None:
        """As the methods of BaseException and KeyError make it of `args`; None for other classes' methods."""
        entry = lookup(type(error), name)
        method = None if entry is None else entry[1]
        args = self.attributes.load(error, "args")
        if method is BaseException.__repr__:
            inner = self.text(args[0], "__repr__") if len(args) == 1 else None
            return type(error).__name__ + (self.text(args) if inner is None else f"({inner})")
        if method is KeyError.__str__ and len(args) == 1:
            return self.text(args[0], "__repr__")
        if method is BaseException.__str__ or method is KeyError.__str__:
            return self.text(args[0] if len(args) == 1 else args) if args else ""
        return None

    def format(self, value: Any, specification: str) -> str:
        if type(value) is OpenText and specification == "":
            return value  # type: ignore[return-value]
        opened = (
            self.wrapping.open_text("format", value, specification) if type(specification) is str else None
        )
        if opened is not None:
            return opened  # type: ignore[return-value]
        if not answers_in_c(value):
            found = self.attributes.python_method(value, "__format__")
            if found is not None:
                result = self.calls.call_method(found, value, specification)
                if not has_type(result, (str, OpenText)):
                    text = f"__format__ must return a str, not {kind_of(result).__name__}"
                    raise self.fail(TypeError(text))
                return result  # type: ignore[return-value]
            by_text = inherits(type(value), "__format__") or has_type(value, (str, int, float, complex))
            if by_text and not specification:
                return self.text(value)
        if has_type(value, BaseException) and not specification:
            return self.text(value)
        return self.native(format, self.ready(value), specification)


def inherits(kind: type, name: str) -> bool:
    """Whether a class has nothing of its own under a name that `object` has."""
    return getattr(kind, name) is getattr(object, name)
