"""Older spellings: `FloatTensor` and its kin, `Tensor.new`, `Tensor.type`.

Takes what PyTorch's legacy constructors take (sizes, data or a tensor), gives tensors of a fixed dtype.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Union

from weft.core import dtypes
from weft.core.device import cpu, device
from weft.core.dtypes import dtype
from weft.core.errors import qualified_name
from weft.core.naming import naming
from weft.core.types import Size
from weft.ops.options import dtype_argument
from weft.ops.record import ops
from weft.tensor.base import PUBLIC, Tensor, method, public
from weft.tensor.conversion import converted
from weft.tensor.creation import advise_copy, build
from weft.tensor.views import attach_alias

if TYPE_CHECKING:
    from weft.core.device import Where


class LegacyType:
    """Calls make tensors of one dtype, and `isinstance` asks for that dtype."""

    def __init__(self, kind: dtype) -> None:
        self.dtype = kind
        self.__name__ = self.__qualname__ = f"{kind.scalar_name}Tensor"

    def __call__(self, *args: object, device: Where = None) -> Tensor:
        if len(args) == 1 and isinstance(args[0], Tensor) and args[0].dtype is not self.dtype:
            raise TypeError(f"expected a tensor of {self.dtype.name} (got {args[0].dtype.name})")
        return construct(self.dtype, args, device)

    def __instancecheck__(self, instance: object) -> bool:
        return isinstance(instance, Tensor) and instance.dtype is self.dtype and not instance.is_meta

    def __or__(self, other: Any) -> Any:
        return Union[self, other]  # noqa: UP007 - of an object that stands for a type

    def __ror__(self, other: Any) -> Any:
        return Union[other, self]  # noqa: UP007

    def __repr__(self) -> str:
        return f"<class '{naming.namespace}.{self.__name__}'>"

    def __reduce__(self) -> Any:
        return LegacyType, (self.dtype,)


def construct(kind: dtype, args: tuple[Any, ...], where: Where) -> Tensor:
    """A tensor of sizes (unset), of data, or on another tensor's memory."""
    if len(args) == 1 and not isinstance(args[0], int):
        data = args[0]
        if isinstance(data, Tensor):
            return attach_alias(data)
        if isinstance(data, (float, complex)):
            raise TypeError(f"new(): data must be a sequence (got {type(data).__name__})")
        if not isinstance(data, Size):
            return build(data, kind, where, "new")
        return ops.empty(tuple(data), dtype=kind, device=where)  # type: ignore[no-any-return]
    return ops.empty(args or (0,), dtype=kind, device=where)  # type: ignore[no-any-return]


for _kind in dtypes.ALL:
    PUBLIC[f"{_kind.scalar_name}Tensor"] = LegacyType(_kind)


@public
def scalar_tensor(
    s: object,
    *,
    dtype: dtype | type | None = None,
    device: Where = None,
    requires_grad: bool = False,
    **_options: object,
) -> Tensor:
    """A zero-dim tensor of one number, of the default dtype unless another is named."""
    kind = dtypes.get_default_dtype() if dtype is None else dtype
    found: Tensor = ops.full((), s, dtype=kind, device=device, requires_grad=requires_grad)
    return found


@method
def new(self: Tensor, *args: object, device: Where = None) -> Tensor:
    """A tensor of this one's dtype from sizes, data or another tensor."""
    return construct(self.dtype, args, self.device if device is None else device)


@method
def new_tensor(
    self: Tensor,
    data: object,
    *,
    dtype: dtype | type | None = None,
    device: Where = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """A tensor with a copy of `data`, of this one's dtype and device."""
    if isinstance(data, Tensor):
        advise_copy("tensor.new_tensor")
    made = build(
        data, self.dtype if dtype is None else dtype, self.device if device is None else device, "new_tensor"
    )
    return made.requires_grad_() if requires_grad else made


def _type(
    self: Tensor, dtype: dtype | type | str | None = None, non_blocking: bool = False, **kwargs: object
) -> Any:
    """The name of the tensor's type, such as `weft.FloatTensor`; or the tensor as another type."""
    if dtype is None:
        return type_name(self.dtype, self.device)
    if isinstance(dtype, str):
        named = dtype
        dtype = next(
            (d for d in dtypes.ALL if named in (type_name(d), type_name(d, namespace="torch"))), None
        )
        if dtype is None:
            raise ValueError(f"invalid type: '{named}'")
    if isinstance(dtype, LegacyType):
        dtype = dtype.dtype
    elif dtype is Tensor:
        dtype = dtypes.get_default_dtype()
    return converted(self, dtype_argument(dtype, "type"), self.device)


_type.__name__ = _type.__qualname__ = "type"
method(_type)


def type_name(kind: dtype, where: device = cpu, namespace: str | None = None) -> str:
    """What `Tensor.type()` says."""
    place = "" if where.type == "cpu" else f"{where.type}."
    return f"{namespace or naming.namespace}.{place}{kind.scalar_name}Tensor"


@public
def typename(value: object) -> str:
    """What errors call a value: `weft.FloatTensor`, `int`, `weft.nn.modules.linear.Linear`."""
    return type_name(value.dtype) if isinstance(value, Tensor) else qualified_name(type(value))
