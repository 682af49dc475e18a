"""Texts: objects with `__str__`, `__repr__` or `__format__` of the user's inside what C code turns into text.

Takes a value; gives one that C code may format in its place. One idea: such an object is replaced by a
stand-in whose methods re-enter the interpreter, in copies of the containers that hold it.
"""

from __future__ import annotations

from typing import Any

from weft.capture.attributes import HEAP, IMMUTABLE
from weft.capture.namespaces import InstanceDict
from weft.capture.natives import METHODS
from weft.capture.values import Callback, CapturedGenerator, Raised, isinstance
from weft.capture.wrapping import SCALARS, SYMBOLIC
from weft.tensor.base import Tensor
from weft.trace.breaks import Break

NAMES = ("__str__", "__repr__", "__format__")
NUMBERS = ("__int__", "__index__", "__float__")


class Shown:
    """An object whose texts the interpreter makes. Each has a class named as the object's, for errors."""

    def __init__(self, machine: Any, value: Any) -> None:
        self._machine, self._value = machine, value

    def __str__(self) -> str:
        return self._ask(self._machine.text, self._value)  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return self._ask(self._machine.text, self._value, "__repr__")  # type: ignore[no-any-return]

    def __format__(self, specification: str) -> str:
        return self._ask(self._machine.format, self._value, specification)  # type: ignore[no-any-return]

    def __getattr__(self, name: str) -> Any:
        return shown(self._machine, self._ask(self._machine.load_attribute, self._value, name), True)

    def _ask(self, method: Any, *args: Any) -> Any:
        try:
            return method(*args)
        except Raised as raised:
            error = raised.exception
        raise error


def _item(self: Shown, key: Any) -> Any:
    return shown(self._machine, self._ask(self._machine.get_item, self._value, key), True)


def stand_in(machine: Any, value: Any) -> Shown:
    space: dict[str, Any] = {"__module__": __name__}
    if machine.python_method(value, "__getitem__") is not None:
        space["__getitem__"] = _item
    kind: Any = type(type(value).__name__, (Shown,), space)
    return kind(machine, value)  # type: ignore[no-any-return]


def shown(machine: Any, value: Any, always: bool = False, above: tuple[int, ...] = ()) -> Any:
    """The value, or what to format instead. `always`: its attributes may be read as well."""
    kind = type(value)
    if kind in SCALARS or isinstance(value, (*SYMBOLIC, Tensor, type)) or id(value) in above:
        return value
    above = (*above, id(value))
    if kind is list or kind is tuple:
        items = [shown(machine, item, always, above) for item in value]
        return value if all(a is b for a, b in zip(items, value, strict=True)) else kind(items)
    if kind is dict:
        keys = [shown(machine, key, False, above) for key in value]
        items = [shown(machine, item, always, above) for item in value.values()]
        same = all(map(_is, keys, value)) and all(map(_is, items, value.values()))
        return value if same else dict(zip(keys, items, strict=True))
    if not kind.__flags__ & HEAP or kind.__flags__ & IMMUTABLE:
        return value
    if isinstance(value, (InstanceDict, Callback, CapturedGenerator, BaseException, Shown)):
        return value
    if issubclass(kind, (int, float, complex, str, bytes)):
        return value  # `%d` and the like take these as what they are
    if any(machine.python_method(value, name) is not None for name in NUMBERS):
        return value
    if always or any(machine.python_method(value, name) is not None for name in NAMES):
        return stand_in(machine, value)
    return value


def _is(left: Any, right: Any) -> bool:
    return left is right


def format_text(
    machine: Any, receiver: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[bool, Any]:
    """`str.format`, which reads attributes and items where the text says so."""
    if type(receiver) is not str:
        return False, None
    args = tuple(shown(machine, value, True) for value in args)
    kwargs = {name: shown(machine, value, True) for name, value in kwargs.items()}
    for value in (*args, *kwargs.values()):
        machine.check_text(value)
        plain = type(value) in SCALARS or isinstance(value, (list, tuple, dict, Shown, *SYMBOLIC))
        if "." in receiver and not plain:
            raise Break("builtin-protocol", seen=f"attributes of a {type(value).__name__} in a format")
    return True, machine.native(receiver.format, *args, **kwargs)


def format_map_text(
    machine: Any, receiver: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[bool, Any]:
    if type(receiver) is not str or len(args) != 1 or kwargs or type(args[0]) is not dict:
        return False, None
    mapping = shown(machine, args[0], True)
    machine.check_text(mapping)
    return True, machine.native(receiver.format_map, mapping)


METHODS.update(format=format_text, format_map=format_map_text)
