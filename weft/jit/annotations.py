"""From Python's annotations to types.

Takes annotations as objects, as text, or as `# type:` comments, and where names are looked up; gives types.
One idea: annotations are evaluated by Python itself, so whatever names a type in the user's module does here.
"""

from __future__ import annotations

import ast
import enum
import inspect
import re
import types as python_types
import typing
from collections.abc import Callable
from typing import Any

from weft.core.collection import parsed
from weft.core.device import device as Device
from weft.core.dtypes import dtype as DType
from weft.core.generator import Generator
from weft.core.interrupts import let_through
from weft.jit.types import (
    ANY,
    BOOL,
    COMPLEX,
    DEVICE,
    DTYPE,
    FLOAT,
    GENERATOR,
    INT,
    NONE,
    NUMBER,
    STR,
    TENSOR,
    DictType,
    FutureType,
    ListType,
    ObjectType,
    OptionalType,
    TupleType,
    Type,
    named_tuple,
    union,
)  # fmt: skip
from weft.nn.modules.module import Module
from weft.tensor.base import Tensor

_PLAIN: dict[Any, Type] = {
    Tensor: TENSOR, int: INT, float: FLOAT, bool: BOOL, complex: COMPLEX, str: STR, None: NONE,
    type(None): NONE, DType: DTYPE, Device: DEVICE, Generator: GENERATOR, Any: ANY,
}  # fmt: skip
_BARE = {list: "List", dict: "Dict", tuple: "Tuple", typing.Optional: "Optional"}
INTERFACES: dict[Any, Any] = {}
CLASSES: Callable[[Any], Any] | None = None


class Future:
    """The annotation of what `fork` gives: `Future[Tensor]`."""

    def __class_getitem__(cls, item: Any) -> Any:
        return python_types.GenericAlias(cls, (item,))


def resolve(annotation: Any, names: Callable[[str], Any] | None = None) -> Type:
    """The type an annotation stands for."""
    if isinstance(annotation, Type):
        return annotation
    if isinstance(annotation, typing.ForwardRef):
        annotation = annotation.__forward_arg__
    if isinstance(annotation, str):
        annotation = evaluate(annotation, names)
    found = _PLAIN.get(annotation) if annotation.__hash__ is not None else None
    if found is not None:
        return found
    if annotation in _BARE:
        name = _BARE[annotation]
        raise RuntimeError(
            f"Attempted to use {name} without a contained type. Please add a contained type, e.g. {name}[int]"
        )
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in _BARE and not args and not str(annotation).endswith("[()]"):
        return resolve(origin, names)
    if origin is not None:
        return _generic(annotation, origin, args, names)
    return _of_class(annotation, names)


def _generic(annotation: Any, origin: Any, args: Any, names: Any) -> Type:
    if origin is list:
        return ListType(resolve(args[0], names))
    if origin is dict:
        key = resolve(args[0], names)
        if key not in (INT, FLOAT, STR, BOOL, TENSOR, COMPLEX, DEVICE):
            raise RuntimeError(
                f"Cannot create dict for key type '{key}', only int, float, complex, Tensor, device and "
                "string keys are supported"
            )
        return DictType(key, resolve(args[1], names))
    if origin is tuple:
        if args in ((), ((),)):
            return TupleType(())
        if len(args) == 2 and args[1] is Ellipsis:
            raise RuntimeError("variable length tuples are not supported in scripted code")
        return TupleType([resolve(arg, names) for arg in args])
    if origin is typing.Union or origin is python_types.UnionType:
        kinds = [resolve(arg, names) for arg in args]
        if set(map(str, kinds)) == {"int", "float", "complex"} or set(map(str, kinds)) == {"int", "float"}:
            return NUMBER if len(kinds) == 3 else union(kinds)
        return union(kinds)
    if origin is typing.Final or str(origin) == "typing.Final":
        return resolve(args[0], names)
    if origin is typing.Annotated:
        return resolve(args[0], names)
    if origin is Future:
        return FutureType(resolve(args[0], names))
    raise RuntimeError(f"Unknown type annotation: '{_spelled(annotation)}'")


def _of_class(annotation: Any, names: Any) -> Type:
    if annotation in INTERFACES:
        return ObjectType(annotation, INTERFACES[annotation], "interface")
    if not isinstance(annotation, type):
        raise RuntimeError(f"Unknown type annotation: '{_spelled(annotation)}'")
    if issubclass(annotation, Tensor):
        return TENSOR
    if issubclass(annotation, tuple) and hasattr(annotation, "_fields"):
        inner = module_names(annotation, names)
        return named_tuple(annotation, lambda kind: resolve(kind, inner))
    if issubclass(annotation, enum.Enum):
        return ObjectType(annotation, None, "enum")
    if issubclass(annotation, Module):
        raise RuntimeError(f"Unknown type annotation: '{_spelled(annotation)}'")
    if CLASSES is not None and annotation.__module__ != "builtins":
        return ObjectType(annotation, CLASSES(annotation), "class")
    raise RuntimeError(f"Unknown type annotation: '{_spelled(annotation)}'")


def _spelled(annotation: Any) -> str:
    return getattr(annotation, "__name__", None) or str(annotation)


def module_names(cls: Any, outer: Any) -> Callable[[str], Any]:
    """Looks names up where a class was defined, then outside."""
    module = inspect.getmodule(cls)

    def look(name: str) -> Any:
        if module is not None and hasattr(module, name):
            return getattr(module, name)
        if outer is None:
            raise NameError(name)
        return outer(name)

    return look


class _Names(dict[str, Any]):
    """A namespace that asks a function."""

    def __init__(self, look: Callable[[str], Any] | None) -> None:
        super().__init__()
        self.look = look

    def __missing__(self, name: str) -> Any:
        if self.look is not None:
            try:
                return self.look(name)
            except (NameError, KeyError, AttributeError) as error:
                let_through(error)
        fallback = _FALLBACK.get(name)
        if fallback is not None:
            return fallback
        raise NameError(f"Unknown type name '{name}'")


_FALLBACK: dict[str, Any] = {
    "List": list, "Dict": dict, "Tuple": tuple, "Optional": typing.Optional, "Union": typing.Union,
    "Tensor": Tensor, "Any": Any, "number": NUMBER, "Device": Device, "Future": Future,
    "NoneType": type(None),
    "NamedTuple": typing.NamedTuple, "Final": typing.Final, "int": int, "float": float, "bool": bool,
    "str": str, "complex": complex, "list": list, "dict": dict, "tuple": tuple,
}  # fmt: skip


def evaluate(text: str, names: Callable[[str], Any] | None) -> Any:
    """The object that an annotation's text names."""
    try:
        return eval(compile(text, "<weft: annotation>", "eval"), {"__builtins__": {}}, _Names(names))
    except NameError as error:
        let_through(error)
        raise RuntimeError(str(error)) from None
    except SyntaxError as error:
        raise RuntimeError(f"Unknown type annotation: '{text}'") from error


_COMMENT = re.compile(r"^\s*#\s*type:\s*\((.*)\)\s*->\s*(.+?)\s*(#.*)?$")


def comment_types(lines: list[str], names: Any) -> tuple[list[Type], Type] | None:
    """The types of a `# type: (int, Tensor) -> Tensor` comment, if there is one."""
    for line in lines:
        match = _COMMENT.match(line) or _COMMENT.match(line[line.find("#") :] if "#" in line else "")
        if match is None:
            continue
        given, returned = match.group(1), match.group(2)
        tree: Any = parsed(f"({given},)" if given.strip() else "()", "eval").body
        kinds = [resolve(ast.unparse(item).lstrip("*"), names) for item in tree.elts]
        return kinds, resolve(returned, names)
    return None


def is_optional(kind: Type) -> bool:
    return isinstance(kind, OptionalType)
