"""Schemas: what a custom op takes and gives, as text in PyTorch's words, from annotations or from the user.

Takes a Python function with annotations (`infer_schema`) or text such as `(Tensor(a!) x, float y=2.0) -> ()`
(`Schema.parse`); gives a `Schema` that binds and checks arguments. One idea: the text is the schema, so that
what is inferred, written by hand and printed in errors is one thing.
"""

from __future__ import annotations

import ast
import collections.abc
import inspect
import re
import types
import typing
from collections.abc import Callable, Iterable
from typing import Any, Final

from weft.core import dtypes
from weft.core.device import device
from weft.core.interrupts import let_through
from weft.core.naming import named
from weft.tensor.base import Tensor

Number = int | float | bool
BASES: Final[dict[Any, str]] = {
    Tensor: "Tensor",
    int: "SymInt",
    float: "float",
    bool: "bool",
    str: "str",
    dtypes.dtype: "ScalarType",
    device: "Device",
    Number: "Scalar",
}
IN_LISTS: Final = ("Tensor", "Tensor?", "SymInt", "float", "bool", "Scalar")
RETURNS: Final = ("Tensor", "Tensor[]", "SymInt", "float", "bool", "Scalar")
VALID: Final = (
    "Tensor, int, float, bool, str, dtype, device, int | float | bool (a Number), Optional of these, "
    "Sequence or List of Tensor, Optional[Tensor], int, float, bool or Number, and Optional of a list of "
    "numbers"
)
VALID_RETURNS: Final = "Tensor, List[Tensor], int, float, bool, Number, and tuples of these"
UNSUPPORTED: Final = ""
MISSING: Final = inspect.Parameter.empty


# -- from annotations --------------------------------------------------------------------------------------
def type_word(annotation: object) -> str:
    """The schema's word for an annotation; empty where there is none."""
    try:
        if annotation in BASES:
            return BASES[annotation]
    except TypeError:
        return UNSUPPORTED
    origin, inside = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        rest = [part for part in inside if part is not type(None)]
        if len(rest) == len(inside):
            return UNSUPPORTED
        whole = rest[0] if len(rest) == 1 else typing.Union[tuple(rest)]  # noqa: UP007
        word = BASES.get(Number, "") if set(rest) == {int, float, bool} else type_word(whole)
        return f"{word}?" if word and not word.endswith("?") and word != "Tensor[]" else UNSUPPORTED
    if origin in (list, collections.abc.Sequence) and len(inside) == 1:
        word = type_word(inside[0])
        return f"{word}[]" if word in IN_LISTS else UNSUPPORTED
    return UNSUPPORTED


def infer_schema(
    prototype_function: Callable[..., Any], /, *, mutates_args: Any, op_name: str | None = None
) -> str:
    """The schema of a function by its annotations: `(Tensor x, SymInt y=3) -> Tensor`."""
    try:
        signature = inspect.signature(prototype_function, eval_str=True)
    except NameError as error:
        let_through(error)
        raise ValueError(
            f"infer_schema(func): Unsupported type annotation: {error}. It is not a type."
        ) from error

    def refuse(what: str) -> typing.NoReturn:
        text = f"infer_schema(func): {what} Got func with signature {signature})"
        raise ValueError(named(text.replace("weft.tensor.base.", "weft.")))  # as users know it

    pieces: list[str] = []
    seen: set[str] = set()
    starred = False
    for position, (name, parameter) in enumerate(signature.parameters.items()):
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            refuse("We do not support positional-only args, varargs, or varkwargs.")
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            pieces.append("*")
            starred = True
        if parameter.annotation is MISSING:
            refuse(f"Parameter {name} must have a type annotation.")
        word = type_word(parameter.annotation)
        if not word:
            hint = ""
            if typing.get_origin(parameter.annotation) is tuple or parameter.annotation is tuple:
                hint = (
                    " We do not support Tuple inputs in schema. As a workaround, please try to use List "
                    "instead. "
                    "For example, list[int].\n\n"
                )
            refuse(
                f"Parameter {name} has unsupported type {parameter.annotation}.{hint or ' '}"
                f"The valid types are: {VALID}."
            )
        if mutates_args == "unknown" or name in mutates_args:
            if not word.startswith("Tensor"):
                if mutates_args != "unknown":
                    refuse(
                        f"Parameter {name} is in mutable_args but only Tensors or collections of Tensors can "
                        "be "
                        "mutated"
                    )
            else:
                word = f"Tensor(a{position}!){word[len('Tensor') :]}"
        seen.add(name)
        pieces.append(f"{word} {name}{_default_text(name, parameter.default, refuse)}")
    if mutates_args != "unknown" and set(mutates_args) - seen:
        refuse(
            f"{set(mutates_args) - seen} in mutates_args were not found in the custom op's signature. "
            "mutates_args "
            "should contain the names of all args that the custom op mutates, or just the string 'unknown' "
            "if you "
            "don't know."
        )
    text = f"({', '.join(pieces)}) -> {_returns_text(signature.return_annotation, refuse)}"
    return text if op_name is None else f"{op_name}{text}"


def _default_text(name: str, default: object, refuse: Callable[[str], Any]) -> str:
    if default is MISSING:
        return ""
    if default is None or isinstance(default, (bool, int, float)):
        return f"={default}"
    if isinstance(default, (str, device)):
        return f'="{default}"'
    if isinstance(default, dtypes.dtype):
        return f"={str(default).removeprefix('weft.')}"
    refuse(
        f"Parameter {name} has an unsupported default value type {type(default)}. Please file an issue so we "
        "can "
        "prioritize this."
    )
    return ""


def _returns_text(annotation: object, refuse: Callable[[str], Any]) -> str:
    if annotation is MISSING:
        refuse("No return type annotation was provided. Please add one.")
    if annotation is None:
        return "()"
    if typing.get_origin(annotation) is tuple:
        words = [_return_word(part, refuse) for part in typing.get_args(annotation)]
        return f"({', '.join(words)})"
    return _return_word(annotation, refuse)


def _return_word(annotation: object, refuse: Callable[[str], Any]) -> str:
    word = type_word(annotation)
    if word not in RETURNS:
        refuse(f"Return has unsupported type {annotation}. The valid types are: {VALID_RETURNS}.")
    return word


# -- the schema itself -------------------------------------------------------------------------------------
ARGUMENT = re.compile(
    r"(?P<base>\w+)(?P<alias>\([^)]*\))?(?P<suffix>(?:\?|\[\d*\])*)\s+(?P<name>\w+)(?:\s*=\s*(?P<default>.+))?"
)
WORDS = {"int": "SymInt", "Scalar": "Scalar", "Device": "Device", "ScalarType": "ScalarType"}
PYTHON_NAMES = {"SymInt": "int", "Scalar": "number", "ScalarType": "int", "Device": "Device"}


class Argument:
    """One parameter: its type in the schema's words, whether the op writes to it, its default."""

    __slots__ = ("name", "kind", "mutated", "default", "keyword_only", "text")

    def __init__(self, text: str, keyword_only: bool) -> None:
        found = ARGUMENT.fullmatch(text.strip())
        if found is None:
            raise RuntimeError(
                f"expected an argument such as 'Tensor x' or 'int n=3' but found {text.strip()!r}"
            )
        self.text = text.strip()
        self.name = found["name"]
        self.kind = WORDS.get(found["base"], found["base"]) + re.sub(r"\[\d*\]", "[]", found["suffix"])
        self.mutated = "!" in (found["alias"] or "")
        self.keyword_only = keyword_only
        self.default = MISSING if found["default"] is None else _default_value(self.kind, found["default"])

    @property
    def python_name(self) -> str:
        """The type as error messages name it: `Optional[Tensor]`, `List[int]`."""
        base = self.kind.rstrip("?[]")
        name = PYTHON_NAMES.get(base, base)
        for mark in re.findall(r"\?|\[\]", self.kind):
            name = f"Optional[{name}]" if mark == "?" else f"List[{name}]"
        return name


def _default_value(kind: str, text: str) -> Any:
    if kind.startswith("ScalarType") and text != "None":
        return getattr(dtypes, "bool_" if text == "bool" else text)
    value = ast.literal_eval(text)
    return device(value) if kind.startswith("Device") and value is not None else value


class Schema:
    """Name, arguments and results of an op."""

    __slots__ = ("name", "text", "arguments", "returns", "single")

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        head, arrow, tail = text.rpartition("->")
        head, tail = head.strip(), tail.strip()
        if not arrow or not head.startswith("(") or not head.endswith(")"):
            raise RuntimeError(f"expected a schema such as '(Tensor x) -> Tensor' but found {text!r}")
        self.text = f"{head} -> {tail}"
        self.arguments: list[Argument] = []
        starred = False
        for piece in _split(head[1:-1]):
            if piece.strip() == "*":
                starred = True
            else:
                self.arguments.append(Argument(piece, starred))
        self.single = not tail.startswith("(")
        self.returns = [tail] if self.single else [piece.strip() for piece in _split(tail[1:-1])]
        self.returns = [WORDS.get(word, word) for word in self.returns]

    def __str__(self) -> str:
        return f"{self.name}{self.text}"

    __repr__ = __str__

    @property
    def is_mutable(self) -> bool:
        return any(argument.mutated for argument in self.arguments)

    @property
    def mutated(self) -> set[str]:
        return {argument.name for argument in self.arguments if argument.mutated}

    @property
    def positional(self) -> int:
        return sum(not argument.keyword_only for argument in self.arguments)

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """All arguments in order, defaults filled in, checked and converted; or PyTorch's errors."""
        if len(args) > self.positional:
            raise RuntimeError(
                f"{self.name}() expected at most {self.positional} argument(s) but received {len(args)} "
                f"argument(s). Declaration: {self}"
            )
        rest = dict(kwargs)
        values = []
        for position, argument in enumerate(self.arguments):
            if position < len(args):
                value = args[position]
                if argument.name in rest:
                    raise RuntimeError(
                        f"{self.name}() got multiple values for argument '{argument.name}'. Declaration: "
                        f"{self}"
                    )
            elif argument.name in rest:
                value = rest.pop(argument.name)
            elif argument.default is MISSING:
                raise RuntimeError(
                    f"{self.name}() is missing value for argument '{argument.name}'. Declaration: {self}"
                )
            else:
                value = argument.default
            values.append(self._converted(position, argument, value))
        if rest:
            raise RuntimeError(
                f"Unknown keyword argument '{next(iter(rest))}' for operator '{self.name}'. Schema: {self}"
            )
        return tuple(values)

    def _converted(self, position: int, argument: Argument, value: object) -> Any:
        converted = convert(argument.kind, value)
        if converted is NotImplemented:
            raise RuntimeError(
                f"{self.name}() Expected a value of type '{argument.python_name}' for argument "
                f"'{argument.name}' but "
                f"instead found type '{type(value).__name__}'.\nPosition: {position}\nValue: {value!r}\n"
                f"Declaration: {self}\nCast error details: Unable to cast {value!r} to {argument.python_name}"
            )
        return converted


def _split(text: str) -> list[str]:
    """The pieces between commas, those inside brackets and quotes left alone."""
    pieces, depth, quote, start = [], 0, "", 0
    for position, character in enumerate(text):
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        elif character in "([":
            depth += 1
        elif character in ")]":
            depth -= 1
        elif character == "," and not depth:
            pieces.append(text[start:position])
            start = position + 1
    pieces.append(text[start:])
    return [piece for piece in pieces if piece.strip()]


# -- values ------------------------------------------------------------------------------------------------
def convert(kind: str, value: object) -> Any:
    """The value as this kind of argument, or NotImplemented."""
    if kind.endswith("?"):
        return None if value is None else convert(kind[:-1], value)
    if kind.endswith("[]"):
        if not isinstance(value, (list, tuple)):
            return NotImplemented
        items = [convert(kind[:-2], item) for item in value]
        return NotImplemented if any(item is NotImplemented for item in items) else items
    return CONVERSIONS[kind](value) if kind in CONVERSIONS else value


def _as_number(kinds: tuple[type, ...], make: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def converted(value: Any) -> Any:
        if isinstance(value, Tensor) and value.ndim == 0 and not value.is_meta:
            value = value.item()
        return make(value) if isinstance(value, kinds) else NotImplemented

    return converted


def _as_device(value: object) -> Any:
    return value if isinstance(value, device) else device(value) if isinstance(value, str) else NotImplemented


def _of(kinds: Any) -> Callable[[Any], Any]:
    return lambda value: value if isinstance(value, kinds) else NotImplemented


CONVERSIONS: Final[dict[str, Callable[[Any], Any]]] = {
    "Tensor": _of((Tensor, type(None))),
    "SymInt": _as_number((int,), int),
    "float": _as_number((float, int), float),
    "bool": _as_number((bool, int), bool),
    "Scalar": _as_number((int, float, bool, complex), lambda value: value),
    "str": _of(str),
    "ScalarType": _of(dtypes.dtype),
    "Device": _as_device,
}


def annotation_for(kind: str) -> str:
    """The op record's word for a kind of argument (see `weft.ops.signature`)."""
    return {
        "Tensor": "Tensor",
        "Tensor?": "MaybeTensor",
        "Tensor[]": "Tensors",
        "SymInt": "int",
        "float": "float",
        "Scalar": "Number",
    }.get(kind, "Any")


def signature_text(arguments: Iterable[Argument]) -> str:
    """The parameters as an op record writes them; defaults are put in afterwards."""
    pieces, starred = [], False
    for argument in arguments:
        if argument.keyword_only and not starred:
            pieces.append("*")
            starred = True
        optional = "" if argument.default is MISSING else " = None"
        pieces.append(f"{argument.name}: {annotation_for(argument.kind)}{optional}")
    return ", ".join(pieces)


# -- operators ---------------------------------------------------------------------------------------------
class Overload:
    """What `__torch_dispatch__` is handed: one overload of an operator, built in or a user's."""

    namespace: str
    tags: tuple[Any, ...] = ()
    _opname: str
    _overloadname: str
    _schema: Any
    overloadpacket: Any

    def name(self) -> str:
        """`aten::add.Tensor`."""
        raise NotImplementedError

    @property
    def is_view(self) -> bool:
        """Whether a result lies in the memory of an argument, which is not written to."""
        infos = [getattr(argument, "alias_info", None) for argument in self._schema.arguments]
        return any(info is not None and not info.is_write for info in infos)

    def __deepcopy__(self, _memo: object) -> Overload:
        return self


class OverloadPacket:
    """An operator with all its overloads, built in or a user's."""
