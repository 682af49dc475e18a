"""Schemas: the parameters of a scripted function, and how arguments from Python meet them.

Takes a function's signature; gives a `Schema` that binds and converts Python arguments. One idea: each type
has one function that converts a Python value or says why not, made once per parameter.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from weft.jit.annotations import comment_types, resolve
from weft.jit.errors import NotSupportedError, Source
from weft.jit.types import (
    ANY,
    BOOL,
    COMPLEX,
    DTYPE,
    FLOAT,
    INFERRED,
    INT,
    NONE,
    NUMBER,
    STR,
    TENSOR,
    DictType,
    ListType,
    ObjectType,
    OptionalType,
    TupleType,
    Type,
    UnionType,
    annotation,
    type_of,
)  # fmt: skip
from weft.tensor.base import Tensor

EMPTY = inspect.Parameter.empty


@dataclass(slots=True)
class Argument:
    """One parameter."""

    name: str
    type: Type
    default: Any = EMPTY
    keyword_only: bool = False

    @property
    def default_value(self) -> Any:
        return None if self.default is EMPTY else self.default

    def has_default_value(self) -> bool:
        return self.default is not EMPTY

    def __str__(self) -> str:
        text = f"{self.type.brief} {self.name}"
        return text if self.default is EMPTY else f"{text}={self.default}"


@dataclass(slots=True)
class Schema:
    """All of them, and the type of the result."""

    name: str
    arguments: list[Argument]
    returned: Type | None
    converters: list[Callable[[Any], Any]] = field(default_factory=list)

    @property
    def returns(self) -> list[Argument]:
        return [Argument("", self.returned or NONE)]

    def __str__(self) -> str:
        shown = [str(argument) for argument in self.arguments]
        return f"{self.name}({', '.join(shown)}) -> {(self.returned or NONE).brief}"

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """The arguments in order, converted; errors in TorchScript's words."""
        arguments = self.arguments
        if not self.converters:
            self.converters = [converter(argument.type) for argument in arguments]
        if len(args) > len(arguments):
            raise RuntimeError(
                f"{self.name}() expected at most {len(arguments)} argument(s) but received {len(args)} "
                f"argument(s). Declaration: {self}"
            )
        values = []
        for position, argument in enumerate(arguments):
            if position < len(args):
                if argument.name in kwargs:
                    raise RuntimeError(f"{self.name}() got multiple values for argument '{argument.name}'")
                given = args[position]
            elif argument.name in kwargs:
                given = kwargs.pop(argument.name)
            elif argument.default is not EMPTY:
                values.append(fresh(argument.default))
                continue
            else:
                raise RuntimeError(
                    f"{self.name}() is missing value for argument '{argument.name}'. Declaration: {self}"
                )
            try:
                values.append(self.converters[position](given))
            except Mismatch as error:
                raise RuntimeError(self.complaint(argument, position, given, str(error))) from None
        if kwargs:
            raise RuntimeError(f"Unknown keyword argument '{next(iter(kwargs))}' for operator '{self.name}'. "
                               f"Schema: {self}")  # fmt: skip
        return values

    def complaint(self, argument: Argument, position: int, given: Any, detail: str) -> str:
        inferred = (
            "" if argument.type is not INFERRED else
            f"Inferred '{argument.name}' to be of type 'Tensor' because it was not annotated with "
            f"an explicit "
            "type.\n"
        )  # fmt: skip
        return (
            f"{self.name}() Expected a value of type '{argument.type}' for argument '{argument.name}' but "
            f"instead found type '{type(given).__name__}'.\n{inferred}{detail}"
            f"Position: {position}\nValue: {given!r}\nDeclaration: {self}\n"
            f"Cast error details: Unable to cast {given!r} to {annotation(argument.type)}"
        )


def fresh(value: Any) -> Any:
    """A default as a call of its own has it."""
    return list(value) if type(value) is list else dict(value) if type(value) is dict else value


class Mismatch(Exception):
    """A value is not of the type."""


def _mismatch(value: Any) -> Any:
    raise Mismatch


def _tensor(value: Any) -> Any:
    return value if isinstance(value, Tensor) else _mismatch(value)


def _int(value: Any) -> Any:
    if type(value) is int:
        return value
    if isinstance(value, (bool, float)) or not hasattr(value, "__index__"):
        return _mismatch(value)
    if isinstance(value, Tensor):
        return _mismatch(value)
    return value.__index__()


def _float(value: Any) -> Any:
    if type(value) is float:
        return value
    if isinstance(value, (float, int)) and not isinstance(value, bool):
        return float(value)
    return (
        float(value)
        if hasattr(value, "__float__") and not isinstance(value, (Tensor, bool))
        else _mismatch(value)
    )


def _instance(*kinds: type) -> Callable[[Any], Any]:
    return lambda value: value if isinstance(value, kinds) else _mismatch(value)


_CONVERTERS: dict[Type, Callable[[Any], Any]] = {
    TENSOR: _tensor, INT: _int, FLOAT: _float, BOOL: _instance(bool), STR: _instance(str),
    NONE: lambda value: value if value is None else _mismatch(value), ANY: lambda value: value,
    NUMBER: _instance(int, float, complex),
    COMPLEX: lambda value: complex(value) if isinstance(value, (int, float, complex)) else _mismatch(value),
    DTYPE: lambda value: value,
}  # fmt: skip


def converter(kind: Type) -> Callable[[Any], Any]:
    """The function that makes a value of the type from one of Python's, or raises Mismatch."""
    known = _CONVERTERS.get(kind)
    if known is not None:
        return known
    if isinstance(kind, OptionalType):
        inner = converter(kind.element)
        return lambda value: None if value is None else inner(value)
    if isinstance(kind, ListType):
        element = converter(kind.element)

        def listed(value: Any) -> Any:
            if not isinstance(value, (list, tuple)):
                return _mismatch(value)
            return [element(item) for item in value]

        return listed
    if isinstance(kind, DictType):
        key, item = converter(kind.key_type), converter(kind.value_type)
        return lambda value: {key(k): item(v) for k, v in _instance(dict)(value).items()}
    if isinstance(kind, TupleType):
        return _tuple(kind)
    if isinstance(kind, UnionType):
        options = [converter(option) for option in kind.options]

        def chosen(value: Any) -> Any:
            exact = type_of(value, lambda annotation: resolve(annotation))
            for option, convert in zip(kind.options, options, strict=True):
                if exact is not None and exact == option:
                    return convert(value)
            for convert in options:
                try:
                    return convert(value)
                except Mismatch:
                    continue
            return _mismatch(value)

        return chosen
    if isinstance(kind, ObjectType) and kind.sort in ("enum", "class"):
        return _instance(kind.cls)
    return lambda value: value


def _tuple(kind: TupleType) -> Callable[[Any], Any]:
    elements = [converter(element) for element in kind.elements]

    def converted(value: Any) -> Any:
        if not isinstance(value, tuple) or len(value) != len(elements):
            return _mismatch(value)
        items = [convert(item) for convert, item in zip(elements, value, strict=True)]
        return kind.cls(*items) if kind.cls is not None else tuple(items)

    return converted


# -- from signatures -------------------------------------------------------------------------------------
def schema_of(
    function: Any, source: Source, names: Callable[[str], Any], name: str = "", method: bool = False
) -> Schema:
    """A Python function's schema; `method`: its first parameter is `self`, which the schema leaves out."""
    parameters = list(inspect.signature(function).parameters.values())
    if method:
        parameters = parameters[1:]
    end = next((i for i, line in enumerate(source.lines) if line.rstrip().endswith(":")), 0)
    commented = comment_types(source.lines[: end + 3], names)
    arguments = []
    for position, parameter in enumerate(parameters):
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise NotSupportedError(
                "Compiled functions can't take variable number of arguments or use keyword-only arguments "
                f"with defaults: {function.__name__}"
            )
        given = parameter.annotation
        if commented is not None and given is EMPTY and position < len(commented[0]):
            kind: Type = commented[0][position]
        else:
            kind = INFERRED if given is EMPTY else resolve(given, names)
        arguments.append(
            Argument(parameter.name, kind, parameter.default, parameter.kind is parameter.KEYWORD_ONLY)
        )
    written = getattr(function, "__annotations__", {}).get("return", EMPTY)
    returned = resolve(written, names) if written is not EMPTY else None
    if returned is None and commented is not None:
        returned = commented[1]
    return Schema(name or function.__name__, arguments, returned)
