"""The types of scripted code: a small lattice with TorchScript's spelling.

Takes nothing; gives types, `subtype`, `unify` and the type of a Python value. One idea: types are compared by
their spelling, and classes of users by identity, so a type is a plain value.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any, Final

from weft.core.device import device as Device
from weft.core.dtypes import dtype as DType
from weft.core.generator import Generator
from weft.tensor.base import Tensor


class Type:
    """A type without parameters; `str` gives it as an annotation, `brief` as graphs print it."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return self.name

    @property
    def brief(self) -> str:
        return str(self)

    @property
    def key(self) -> Any:
        return str(self)

    @property
    def annotation_str(self) -> str:
        return str(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Type) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def kind(self) -> str:
        """The name of the type's class, as TorchScript has it."""
        return _KINDS.get(self.name, type(self).__name__)

    def isSubtypeOf(self, other: Type) -> bool:
        return subtype(self, other)

    def str(self) -> str:
        return self.brief


class ListType(Type):
    __slots__ = ("element",)

    def __init__(self, element: Type) -> None:
        super().__init__("List")
        self.element = element

    def __str__(self) -> str:
        return f"List[{self.element}]"

    @property
    def brief(self) -> str:
        return f"{self.element.brief}[]"

    @property
    def key(self) -> Any:
        return "List", self.element.key

    def getElementType(self) -> Type:
        return self.element


class OptionalType(Type):
    __slots__ = ("element",)

    def __init__(self, element: Type) -> None:
        super().__init__("Optional")
        self.element = element

    def __str__(self) -> str:
        return f"Optional[{self.element}]"

    @property
    def brief(self) -> str:
        return f"{self.element.brief}?"

    @property
    def key(self) -> Any:
        return "Optional", self.element.key

    def getElementType(self) -> Type:
        return self.element


class FutureType(Type):
    __slots__ = ("element",)

    def __init__(self, element: Type) -> None:
        super().__init__("Future")
        self.element = element

    def __str__(self) -> str:
        return f"Future[{self.element}]"

    @property
    def brief(self) -> str:
        return f"Future({self.element.brief})"

    @property
    def key(self) -> Any:
        return "Future", self.element.key


class DictType(Type):
    __slots__ = ("key_type", "value_type")

    def __init__(self, key_type: Type, value_type: Type) -> None:
        super().__init__("Dict")
        self.key_type, self.value_type = key_type, value_type

    def __str__(self) -> str:
        return f"Dict[{self.key_type}, {self.value_type}]"

    @property
    def brief(self) -> str:
        return f"Dict({self.key_type.brief}, {self.value_type.brief})"

    @property
    def key(self) -> Any:
        return "Dict", self.key_type.key, self.value_type.key


class TupleType(Type):
    """A tuple; with `cls` a named one."""

    __slots__ = ("elements", "cls", "fields")

    def __init__(self, elements: Sequence[Type], cls: Any = None, fields: Sequence[str] = ()) -> None:
        super().__init__("Tuple")
        self.elements, self.cls, self.fields = tuple(elements), cls, tuple(fields)

    def __str__(self) -> str:
        if self.cls is not None:
            return str(self.cls.__name__)
        return f"Tuple[{', '.join(map(str, self.elements)) or '()'}]"

    @property
    def brief(self) -> str:
        if self.cls is None:
            return f"({', '.join(element.brief for element in self.elements)})"
        named = zip(self.fields, self.elements, strict=True)
        return f"NamedTuple({', '.join(f'{name} : {element.brief}' for name, element in named)})"

    @property
    def key(self) -> Any:
        elements = tuple(element.key for element in self.elements)
        return ("Tuple", *elements) if self.cls is None else ("NamedTuple", id(self.cls), *elements)

    def elements_(self) -> list[Type]:
        return list(self.elements)


class UnionType(Type):
    __slots__ = ("options",)

    def __init__(self, options: Sequence[Type]) -> None:
        super().__init__("Union")
        self.options = tuple(sorted(options, key=str))

    def __str__(self) -> str:
        return f"Union[{', '.join(map(str, self.options))}]"

    @property
    def brief(self) -> str:
        return f"Union({', '.join(option.brief for option in self.options)})"

    @property
    def key(self) -> Any:
        return "Union", frozenset(option.key for option in self.options)


class ObjectType(Type):
    """An object of a user's class, an enum, or a module: `cls` says which, `info` what is known of it."""

    __slots__ = ("cls", "info", "sort")

    def __init__(self, cls: Any, info: Any = None, sort: str = "class") -> None:
        super().__init__(getattr(cls, "__qualname__", str(cls)))
        self.cls, self.info, self.sort = cls, info, sort

    def __str__(self) -> str:
        module = getattr(self.cls, "__module__", "")
        path = f"{module}.{self.name}".replace("<locals>.", "")
        return f"Enum<__torch__.{path}>" if self.sort == "enum" else f"__torch__.{path}"

    @property
    def key(self) -> Any:
        return self.sort, id(self.info if self.sort == "module" else self.cls)


TENSOR: Final = Type("Tensor")
INT: Final = Type("int")
FLOAT: Final = Type("float")
BOOL: Final = Type("bool")
COMPLEX: Final = Type("complex")
STR: Final = Type("str")
NONE: Final = Type("NoneType")
NUMBER: Final = Type("number")
ANY: Final = Type("Any")
DEVICE: Final = Type("Device")
GENERATOR: Final = Type("Generator")
NEVER: Final = Type("NoReturn")
FUNCTION: Final = Type("Function")


class InferredTensor(Type):
    """A tensor without a type annotation; the same as a tensor but in messages."""

    __slots__ = ()

    @property
    def key(self) -> Any:
        return "Tensor"

    @property
    def brief(self) -> str:
        return "Tensor"

    def __str__(self) -> str:
        return "Tensor (inferred)"

    @property
    def annotation_str(self) -> str:
        return "Tensor"


class DTypeType(Type):
    """A dtype, which TorchScript calls an int."""

    __slots__ = ()

    @property
    def key(self) -> Any:
        return "dtype"

    def __str__(self) -> str:
        return "int"


INFERRED: Final = InferredTensor("Tensor")
DTYPE: Final = DTypeType("dtype")
TENSORS: Final = ListType(TENSOR)
INTS: Final = ListType(INT)
_KINDS = {
    "Tensor": "TensorType", "int": "IntType", "float": "FloatType", "bool": "BoolType", "str": "StringType",
    "NoneType": "NoneType", "number": "NumberType", "Any": "AnyType", "Device": "DeviceObjType",
    "complex": "ComplexType",
}  # fmt: skip


def annotation(kind: Type) -> str:
    """The type as it stands in code."""
    return kind.annotation_str


def optional(kind: Type) -> Type:
    """`Optional[kind]`, once."""
    return kind if kind in (NONE, ANY) or isinstance(kind, OptionalType) else OptionalType(kind)


def union(options: Sequence[Type]) -> Type:
    """The type of a value that is one of these."""
    flat: list[Type] = []
    for option in options:
        if isinstance(option, UnionType):
            flat += option.options
        elif isinstance(option, OptionalType):
            flat += [option.element, NONE]
        else:
            flat.append(option)
    kept: list[Type] = []
    for option in flat:
        if option not in kept:
            kept.append(option)
    if len(kept) == 1:
        return kept[0]
    if len(kept) == 2 and NONE in kept:
        return OptionalType(next(option for option in kept if option != NONE))
    return UnionType(kept)


def subtype(one: Type, two: Type) -> bool:
    """Whether every value of `one` is one of `two`."""
    if one in (two, NEVER) or two == ANY:
        return True
    if isinstance(one, UnionType):
        return all(subtype(option, two) for option in one.options)
    if isinstance(two, OptionalType):
        if isinstance(one, OptionalType):
            return subtype(one.element, two.element)
        return one == NONE or subtype(one, two.element)
    if isinstance(two, UnionType):
        if isinstance(one, OptionalType):
            return subtype(one.element, two) and subtype(NONE, two)
        return any(subtype(one, option) for option in two.options)
    if two == NUMBER:
        return one in (INT, FLOAT, COMPLEX, BOOL)
    if isinstance(one, TupleType) and isinstance(two, TupleType):
        if two.cls is not None and one.cls is not two.cls:
            return False
        pairs = zip(one.elements, two.elements, strict=False)
        return len(one.elements) == len(two.elements) and all(subtype(a, b) for a, b in pairs)
    if isinstance(one, ObjectType) and isinstance(two, ObjectType) and two.sort == "interface":
        return one.sort in ("class", "module", "interface")
    return {one, two} == {DTYPE, INT}


def unify(one: Type, two: Type) -> Type | None:
    """The type of a value that is of `one` or of `two`; None where scripted code may not mix them."""
    if subtype(one, two):
        return two if two != TENSOR else TENSOR
    if subtype(two, one):
        return one
    if one == NONE or two == NONE:
        return optional(two if one == NONE else one)
    if isinstance(one, OptionalType) or isinstance(two, OptionalType):
        first = one.element if isinstance(one, OptionalType) else one
        second = two.element if isinstance(two, OptionalType) else two
        inner = unify(first, second)
        return None if inner is None else optional(inner)
    if isinstance(one, TupleType) and isinstance(two, TupleType) and one.cls is two.cls:
        if len(one.elements) == len(two.elements):
            parts = [unify(a, b) for a, b in zip(one.elements, two.elements, strict=True)]
            if all(part is not None for part in parts):
                return TupleType([part for part in parts if part is not None], one.cls, one.fields)
    return None


_SIMPLE: Final[dict[type, Type]] = {
    bool: BOOL, int: INT, float: FLOAT, complex: COMPLEX, str: STR, type(None): NONE, DType: DTYPE,
    Device: DEVICE, Generator: GENERATOR,
}  # fmt: skip


def named_tuple(cls: Any, resolve: Any) -> TupleType:
    """The type of a NamedTuple's values; fields without annotations are tensors."""
    annotations = getattr(cls, "__annotations__", {})
    kinds = [resolve(annotations[name]) if name in annotations else TENSOR for name in cls._fields]
    return TupleType(kinds, cls, cls._fields)


def type_of(value: Any, resolve: Any = None) -> Type | None:
    """The type of a Python value; None where scripted code has none for it."""
    known = _SIMPLE.get(type(value))
    if known is not None:
        return known
    if isinstance(value, Tensor):
        return TENSOR
    if type(value).__name__ in ("layout", "memory_format"):
        return DTYPE
    if isinstance(value, enum.Enum):
        return ObjectType(type(value), None, "enum")
    if isinstance(value, tuple) and hasattr(value, "_fields") and resolve is not None:
        return named_tuple(type(value), resolve)
    if isinstance(value, tuple):
        parts = [type_of(item, resolve) for item in value]
        return None if None in parts else TupleType([part for part in parts if part is not None])
    if isinstance(value, list):
        element = _common([type_of(item, resolve) for item in value])
        return None if element is None else ListType(element)
    if isinstance(value, dict):
        if not value:
            return DictType(STR, TENSOR)
        keys = _common([type_of(item, resolve) for item in value])
        values = _common([type_of(item, resolve) for item in value.values()])
        return None if keys is None or values is None else DictType(keys, values)
    for base, kind in _SIMPLE.items():
        if base is not bool and isinstance(value, base):
            return kind
    return None


def _common(kinds: list[Type | None]) -> Type | None:
    """The one type of all elements; that of an empty list is Tensor."""
    found: Type | None = TENSOR if not kinds else kinds[0]
    for kind in kinds[1:]:
        found = None if found is None or kind is None else unify(found, kind)
    return found
