"""What modules hold: `Parameter`, `Buffer`, and their forms whose shape is not known yet.

Takes tensors, gives tensors that `Module.__setattr__` recognises. One idea: a `Parameter` is a class of its
own because ops name it, a `Buffer` is any tensor that carries a mark, so that it behaves as the tensor it was
made from.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.core.dtypes import get_default_dtype
from weft.tensor.base import Parameter as Parameter
from weft.tensor.base import Tensor, wrap

__all__ = ["Buffer", "Parameter", "UninitializedTensorMixin", "is_lazy"]

Parameter.__module__ = __name__  # where users import it from, and find it in pickles


class _BufferKind(type):
    """`isinstance(x, Buffer)` asks for the mark, because making a Buffer keeps the tensor's own class."""

    def __instancecheck__(cls, instance: Any) -> bool:
        if cls is Buffer:
            return isinstance(instance, Tensor) and getattr(instance, "_is_buffer", False) is True
        return type.__instancecheck__(cls, instance)


class Buffer(metaclass=_BufferKind):
    """`Buffer(data, persistent=True)`: a tensor that becomes a buffer of the module it is assigned to."""

    persistent: bool

    def __new__(cls, data: Any = None, *, persistent: bool = True) -> Any:
        if data is None:
            data = wrap(np.empty(0, get_default_dtype().numpy))
        made = data.detach().requires_grad_(data.requires_grad)
        made.persistent = persistent
        made._is_buffer = True
        return made


def is_lazy(tensor: Any) -> bool:
    """Whether this is a parameter or buffer whose shape is not known yet."""
    return isinstance(tensor, UninitializedTensorMixin)


class UninitializedTensorMixin:
    pass
