"""How tensors show themselves: `repr`, `str` and format specifications, over `weft.tensor.printing`."""

from __future__ import annotations

from typing import Any

from weft.core.devices import device_of
from weft.core.dtypes import get_default_dtype
from weft.tensor.base import PUBLIC, Parameter, Tensor, method
from weft.tensor.meta import MetaArray, refuse_read
from weft.tensor.node_names import node_name
from weft.tensor.printing import PrintOptions, format_tensor, get_printoptions, printoptions, set_printoptions
from weft.tensor.views import settled

PUBLIC.update(set_printoptions=set_printoptions, get_printoptions=get_printoptions, printoptions=printoptions)


def show(
    tensor: Tensor, contents: str | None = None, indent: int = 0, options: PrintOptions | None = None
) -> str:
    """The text of a tensor."""
    settled(tensor)
    default = get_default_dtype()
    kind = type(tensor)
    node = tensor.node
    name = "tensor" if issubclass(kind, Parameter) or kind is Tensor else kind.__name__
    unreal = isinstance(tensor.array, MetaArray)
    if unreal and not tensor.is_meta:  # it stands for another, whose elements recorded code asks for
        refuse_read("repr")
        name = "FakeTensor"
    shown: Any = tensor.array if unreal else device_of(tensor.array).asnumpy(tensor.array)
    return format_tensor(
        shown,
        dtype_name=tensor.dtype.name,
        default_float=default.name,
        default_complex=default.to_complex().name,
        requires_grad=tensor.tracked,
        grad_fn_name=None if node is None else getattr(node, "name", lambda: node_name(node))(),
        device=str(tensor.device),
        class_name=name,
        has_elements=not unreal,
        is_parameter=isinstance(tensor, Parameter),
        indent=indent,
        tensor_contents=contents,
        options=options,
    )


@method
def __repr__(self: Tensor, *, tensor_contents: str | None = None) -> str:
    return show(self, tensor_contents)


@method
def __format__(self: Tensor, format_spec: str) -> str:
    if self.array.ndim == 0 and not self.is_meta and type(self) is Tensor:
        found: str = self.array.item().__format__(format_spec)
        return found
    return object.__format__(self, format_spec)


__all__: list[Any] = []
