"""Operators: `weft.ops.aten`, the records under the names, overloads and arguments of PyTorch's dispatcher.

Takes a name, gives a packet; its attributes are overloads, which `__torch_dispatch__` is
handed, and which can be called. One idea: an overload is one object, made when it is first asked for, so that
handlers may compare it; all that it says follows from the record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from weft.core.device import as_device
from weft.core.naming import naming
from weft.core.once import once
from weft.ops import custom
from weft.ops.overload_forms import bound_of, operator_name, record_named
from weft.ops.record import REGISTRY, Kind, Op, ops
from weft.ops.signature import MISSING, OPERAND, OPTIONAL, OPTIONAL_OPERAND, TENSORS
from weft.tensor.base import Tensor
from weft.tensor.dispatch import dispatch, dispatch_out
from weft.tensor.inplace import dispatch_inplace, writing_face
from weft.tensor.schema import Overload, OverloadPacket

Call = Callable[[tuple[Any, ...], dict[str, Any]], Any]


# -- schemas -------------------------------------------------------------------------------------------------
class AliasInfo:
    """Which memory an argument or a result shares, and whether the operator writes to it."""

    __slots__ = ("before_set", "after_set", "is_write")

    def __init__(self, letter: str, is_write: bool) -> None:
        self.before_set = self.after_set = {letter}
        self.is_write = is_write

    def __repr__(self) -> str:
        return f"({min(self.before_set)}{'!' if self.is_write else ''})"


class SchemaArgument:
    """One parameter or result of an operator."""

    __slots__ = ("name", "type", "default_value", "kwarg_only", "is_out", "alias_info", "_shown")

    def __init__(
        self,
        name: str,
        kind: str,
        alias: AliasInfo | None = None,
        default: Any = MISSING,
        kwarg_only: bool = False,
        is_out: bool = False,
    ) -> None:
        self.name, self.type, self.alias_info = name, kind, alias
        self.default_value = None if default is MISSING else default
        self.kwarg_only, self.is_out = kwarg_only, is_out
        shared = kind if alias is None else kind.replace("Tensor", f"Tensor{alias!r}", 1)
        self._shown = f"{shared} {name}".strip() + ("" if default is MISSING else f"={default!r}")

    def has_default_value(self) -> bool:
        return "=" in self._shown

    def __repr__(self) -> str:
        return self._shown


class FunctionSchema:
    """What an operator takes and gives: `aten::add.Tensor(Tensor self, Tensor other, ...) -> Tensor`."""

    __slots__ = ("name", "overload_name", "arguments", "returns")

    def __init__(
        self, name: str, overload: str, arguments: list[SchemaArgument], returns: list[SchemaArgument]
    ) -> None:
        self.name, self.overload_name = name, overload
        self.arguments, self.returns = arguments, returns

    @property
    def is_mutable(self) -> bool:
        return any(a.alias_info is not None and a.alias_info.is_write for a in self.arguments)

    def __repr__(self) -> str:
        words: list[str] = []
        for argument in self.arguments:
            if argument.kwarg_only and "*" not in words:
                words.append("*")
            words.append(repr(argument))
        results = ", ".join(map(repr, self.returns))
        label = self.name + (f".{self.overload_name}" if self.overload_name else "")
        return f"{label}({', '.join(words)}) -> {results if len(self.returns) == 1 else f'({results})'}"

    __str__ = __repr__


_TYPES: Final = {
    "Tensor": "Tensor", OPTIONAL: "Tensor?", TENSORS: "Tensor[]", "Shape": "SymInt[]", "Dims": "int[]?",
    "Dim": "int", "MaybeDim": "int?", "NewDim": "int", "int": "SymInt", "float": "float", "bool": "bool",
    "str": "str?", "Number": "Scalar", "DType": "ScalarType?", "Device": "Device?", "Generator": "Generator?",
    "MemoryFormat": "MemoryFormat?",
}  # fmt: skip
_ANY: Final = "t"


def schema_of(op: Op, name: str, overload: str, form: str) -> FunctionSchema:
    """The schema of one overload of a record, in PyTorch's words as far as the record tells them."""
    writes, views = form == "inplace", op.kind is Kind.VIEW
    arguments = []
    for position, parameter in enumerate(op.signature.parameters):
        word = parameter.annotation
        if word in (OPERAND, OPTIONAL_OPERAND):
            word = "Scalar" if "Scalar" in overload else "Tensor"
            word += "?" if parameter.annotation == OPTIONAL_OPERAND else ""
        else:
            word = _TYPES.get(word, _ANY)
        alias = AliasInfo("a", writes) if position == 0 and (writes or views) else None
        label = "self" if position == 0 and parameter.name == "input" else parameter.name.rstrip("_")
        arguments.append(SchemaArgument(label, word, alias, parameter.default, parameter.keyword_only))
    returns = [SchemaArgument("", "Tensor", AliasInfo("a", writes) if writes or views else None)]
    if op.several:
        returns = [SchemaArgument("", "Tensor[]", AliasInfo("a", False))]
    elif op.returns is not None:
        returns = [SchemaArgument(field, "Tensor") for field in getattr(op.returns, "_fields", ())]
    if form == "out":
        alias = AliasInfo("a", True)
        arguments.append(SchemaArgument("out", "Tensor", alias, kwarg_only=True, is_out=True))
        returns = [SchemaArgument("", "Tensor", alias)]
    return FunctionSchema(f"aten::{name}", "" if overload == "default" else overload, arguments, returns)


# -- operators -----------------------------------------------------------------------------------------------
class AtenOverload(Overload):
    """One overload of an operator: `weft.ops.aten.add.Tensor`."""

    namespace = "aten"
    tags: tuple[Any, ...] = ()

    def __init__(self, packet: AtenPacket, overload: str, form: str, call: Call) -> None:
        self.overloadpacket, self._overloadname, self.form = packet, overload, form
        self._opname, self.op, self.call = packet._opname, packet.op, call
        self.__name__ = f"{packet.__name__}.{overload}"
        self.__qualname__ = self.name()
        self.__module__ = f"{naming.namespace}._ops.aten"

    @property
    def _schema(self) -> FunctionSchema:
        if self.op is None:
            tensor = SchemaArgument("self", "Tensor")
            return FunctionSchema(f"aten::{self._opname}", "", [tensor], [SchemaArgument("", "Tensor")])
        return schema_of(self.op, self._opname, self._overloadname, self.form)

    @property
    def _name(self) -> str:
        return self.name()

    def name(self) -> str:
        return f"aten::{self._opname}" + ("" if self._overloadname == "default" else f".{self._overloadname}")

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        return self.call(args, kwargs)

    def redispatch(self, /, _keyset: object, *args: Any, **kwargs: Any) -> Any:
        """As a call: there is one way down."""
        return self.call(args, kwargs)

    def decompose(self, *args: Any, **kwargs: Any) -> Any:
        """The call in terms of other operators; NotImplemented where it is none of those."""
        if self.op is None or not self.op.composed or self.form != "function":
            return NotImplemented
        body: Any = self.op.body
        return body(*bound_of(self.op, args, kwargs))

    def has_kernel_for_dispatch_key(self, _key: object) -> bool:
        return True

    def __repr__(self) -> str:
        return f"<OpOverload(op='aten.{self._opname}', overload='{self._overloadname}')>"

    def __str__(self) -> str:
        return f"aten.{self._opname}.{self._overloadname}"

    def __reduce__(self) -> Any:
        return overload_named, (self._opname, self._overloadname)


class AtenPacket(OverloadPacket):
    """An operator with all its overloads: `weft.ops.aten.add`."""

    def __init__(self, name: str, op: Op | None, function: Callable[..., Any] | None = None) -> None:
        self._opname = self.__name__ = name
        self._qualified_op_name = f"aten::{name}"
        self.op, self.function = op, function
        self.writes = op is not None and name.endswith("_") and record_named(name) is not op
        self._made: dict[str, AtenOverload] = {}

    def overload(self, name: str) -> AtenOverload:
        """The overload of this name."""
        found = self._made.get(name)
        return self._made.setdefault(name, self._make(name)) if found is None else found

    def _make(self, name: str) -> AtenOverload:
        op, function = self.op, self.function
        if op is None:
            assert function is not None
            hand_written = function
            return AtenOverload(self, name, "function", lambda args, kwargs: hand_written(*args, **kwargs))
        if op is ops._to_copy:
            return AtenOverload(self, name, "function", lambda args, kwargs: _copied(*args, **kwargs))
        if self.writes:
            face = writing_face(op)
            return AtenOverload(self, name, "inplace", lambda args, kwargs: dispatch_inplace(
                op, bound_of(op, args, kwargs), face))  # fmt: skip
        if name == "out" or name.endswith("_out"):

            def into(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
                rest = dict(kwargs)
                target = rest.pop("out")
                return dispatch_out(op, bound_of(op, args, rest), target)

            return AtenOverload(self, name, "out", into)
        return AtenOverload(self, name, "function", lambda args, kwargs: dispatch(
            op, bound_of(op, args, kwargs)))  # fmt: skip

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self.overloads():
            raise AttributeError(f"The underlying op of 'aten.{self._opname}' has no overload name '{name}'")
        return self.overload(name)

    def overloads(self) -> list[str]:
        """The names of the overloads."""
        op = self.op
        if op is None:
            return ["default"]
        names = ["default"]
        for word in _OVERLOADS:
            if word in _takes(op):
                names.append(word)
        return [*names, *(["out"] if op.out and not self.writes else [])]

    def __iter__(self) -> Iterator[str]:
        return iter(self.overloads())

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        if "out" in kwargs:
            return self.overload("out")(*args, **kwargs)
        return self.overload("default")(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='aten.{self._opname}')>"

    def __str__(self) -> str:
        return f"aten.{self._opname}"

    def __reduce__(self) -> Any:
        return packet_named, (self._opname,)

    def __deepcopy__(self, _memo: object) -> AtenPacket:
        return self


def _copied(
    self: Any, *, dtype: Any = None, device: Any = None, memory_format: Any = None, **_more: Any
) -> Any:
    """`_to_copy`: to another device, too, which is an op of its own here."""
    kind = self.dtype if dtype is None else dtype
    if device is not None and as_device(device) != self.device:
        more = {} if memory_format is None else {"memory_format": memory_format}
        return self.to(device=device, dtype=kind, **more)
    return dispatch(ops._to_copy, (self, kind, memory_format))


_OVERLOADS: Final = (
    "Tensor", "Scalar", "Tensor_Tensor", "Tensor_Scalar", "Scalar_Tensor", "Tensor_mode", "Scalar_mode",
    "int", "dim", "dims", "dim_IntList", "dim_int", "correction", "self", "memory_format", "dtype", "src",
    "value", "start", "start_step", "m", "low", "float_Tensor", "Tensor_float", "Tensor_Tensor",
    "float_float", "names", "other", "ScalarSelf", "ScalarOther", "IntImplicit", "SymInt",
)  # fmt: skip


@once
def _takes(op: Op) -> frozenset[str]:
    """The overloads that make sense for a record: by what its arguments may be."""
    words = {parameter.annotation for parameter in op.signature.parameters}
    found = {"Tensor", "int"}
    if words & {OPERAND, OPTIONAL_OPERAND, "Number"}:
        found |= {"Scalar", "Tensor_Tensor", "Tensor_Scalar", "Scalar_Tensor", "Tensor_mode", "Scalar_mode"}
        found |= {"self", "ScalarSelf", "ScalarOther", "src", "value", "start", "start_step", "other"}
        found |= {"float_Tensor", "Tensor_float", "float_float"}
    if words & {"Dim", "Dims", "MaybeDim"} or "dim" in op.signature.names:
        found |= {"dim", "dims", "dim_IntList", "dim_int", "correction", "src", "value"}
    if op.kind in (Kind.CREATE, Kind.RANDOM):
        found |= {"memory_format", "m", "low"}
    return frozenset(found | ({"dtype", "SymInt"} if op.kind is Kind.VIEW else set()))


PACKETS: Final[dict[str, AtenPacket]] = {}
"""Every operator that was asked for, by its name under `aten`."""
FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "detach": lambda self: self.detach(),
    "_local_scalar_dense": lambda self: self.item(),
}
"""Operators that no record stands behind, by name."""


def packet_named(name: str) -> AtenPacket:
    """The operator of this name; AttributeError where there is none."""
    found = PACKETS.get(name)
    if found is None:
        op = record_named(name)
        if op is None and name.endswith("_"):
            op = record_named(name[:-1])
            if op is not None and not (op.inplace or op.kind is Kind.RANDOM or hasattr(Tensor, name)):
                op = None
        function = FUNCTIONS.get(name)
        if op is None and function is None:
            raise AttributeError(f"'_OpNamespace' 'aten' object has no attribute '{name}'")
        found = PACKETS.setdefault(name, AtenPacket(name, None if function is not None else op, function))
    return found


def overload_named(name: str, overload: str) -> AtenOverload:
    return packet_named(name).overload(overload)


class Aten(custom.Namespace):
    """`weft.ops.aten`."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return packet_named(name)

    def __dir__(self) -> list[str]:
        return sorted({operator_name(op) for op in REGISTRY.values()} | FUNCTIONS.keys())


aten: Final = Aten("aten")
