"""Variables: what tensors that require gradients were once called."""

from __future__ import annotations

from typing import Any

from weft.autograd import backward
from weft.autograd.tasks import queue_callback
from weft.tensor.base import Tensor


class _Meta(type):
    def __instancecheck__(cls, other: object) -> bool:
        return isinstance(other, Tensor)


class _Engine:
    """What runs gradients, as programs know it that have it call them when it is done."""

    queue_callback = staticmethod(queue_callback)
    run_backward = staticmethod(backward)


class Variable(metaclass=_Meta):
    """`Variable(tensor, requires_grad=True)` is the tensor, detached."""

    _execution_engine = _Engine()

    def __new__(cls, data: Any, requires_grad: bool = False, volatile: bool = False) -> Any:
        return data.detach().requires_grad_(requires_grad)
