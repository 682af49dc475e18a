"""What guards say of tensors, as data.

Takes a tensor; gives `TensorFacts`, strides, and the facts that have names. One idea: all is read from slots,
so no function mode and no subclass of a user's has a say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import numpy as np

from weft.core.device import cpu, device
from weft.core.records import record
from weft.tensor.base import Tensor
from weft.tensor.meta import contiguous_strides
from weft.tensor.tape import INFERENCE


@record(frozen=True, slots=True)
class TensorFacts:
    """What a graph is specialised to: `None` in the shape is a size that may vary."""

    cls: type
    dtype: np.dtype[Any]
    shape: tuple[int | None, ...]
    requires_grad: bool
    device: device = cpu

    @classmethod
    def of(cls, tensor: Tensor, dynamic: Iterable[int] = ()) -> TensorFacts:
        free = set(dynamic)
        shape = tuple(None if i in free else int(size) for i, size in enumerate(tensor.array.shape))
        return cls(type(tensor), tensor.array.dtype, shape, bool(tensor.tracked), tensor.device)

    def __str__(self) -> str:
        """`Tensor(f32[2, *], requires_grad)`: a star for a size that may vary."""
        shape = ", ".join("*" if size is None else str(size) for size in self.shape)
        grad = ", requires_grad" if self.requires_grad else ""
        where = "" if self.device == cpu else f", device={self.device}"
        return f"{self.cls.__name__}({self.dtype.name}[{shape}]{grad}{where})"


TENSOR_FACTS: Final[dict[str, Callable[[Tensor], Any]]] = {
    "is_leaf": lambda tensor: tensor.node is None,
    "is_view": lambda tensor: tensor.origin is not None,
    "is_inference": lambda tensor: tensor.cell is INFERENCE,
    "is_contiguous": lambda tensor: bool(tensor.array.flags.c_contiguous),
    "has_grad": lambda tensor: tensor._grad is not None,
    "has_hooks": lambda tensor: bool(tensor.hooks),
    "writeable": lambda tensor: bool(tensor.array.flags.writeable),
}


def strides_of(tensor: Tensor) -> tuple[int, ...]:
    """As `Tensor.stride()`, which a function mode may take over."""
    array = tensor.array
    if array.size == 0:
        return contiguous_strides(array.shape)
    item = array.dtype.itemsize
    return tuple(step // item for step in array.strides)
