"""What distributions share: broadcasting of parameters, probabilities and logits, lazy properties.

Takes numbers and tensors, gives tensors. One idea: a fact that costs work is computed when it is first asked
for, and kept in the object under its name.
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Number
from typing import Any

from weft.autograd.grad_mode import enable_grad
from weft.core.dtypes import finfo, get_default_dtype
from weft.core.types import Size
from weft.ops.record import ops
from weft.tensor.base import Tensor
from weft.tensor.creation import tensor

__all__ = [
    "broadcast_all", "clamp_probs", "lazy_property", "logits_to_probs", "probs_to_logits",
    "tril_matrix_to_vec",
    "vec_to_tril_matrix",
]  # fmt: skip

euler_constant = 0.57721566490153286060


def broadcast_all(*values: Any) -> tuple[Any, ...]:
    """The values as tensors of one shape."""
    if not all(
        isinstance(value, (Tensor, Number)) or hasattr(value, "__torch_function__") for value in values
    ):
        raise ValueError(
            "Input arguments must all be instances of Number, torch.Tensor or objects implementing "
            "__torch_function__."
        )
    given = next((value for value in values if isinstance(value, Tensor)), None)
    dtype = get_default_dtype() if given is None else given.dtype
    device = None if given is None else given.device
    made = [
        tensor(value, dtype=dtype, device=device) if isinstance(value, Number) else value for value in values
    ]
    return tuple(ops.broadcast_tensors(made))


def shape_of(value: Any) -> Any:
    """A shape as such."""
    return value if isinstance(value, Size) else Size(value)


def standard_normal(shape: Any, dtype: Any, device: Any) -> Any:
    """Normal numbers of mean zero and deviation one."""
    return ops.randn(shape, dtype=dtype, device=device)


_standard_normal = standard_normal


def sum_rightmost(value: Any, dim: int) -> Any:
    """The sum over so many of the last dimensions."""
    if not dim:
        return value
    kept = value.shape[: value.ndim - dim]
    return value.reshape((*kept, -1)).sum(-1)


_sum_rightmost = sum_rightmost


def clamp_probs(probs: Any) -> Any:
    """Probabilities that are neither zero nor one."""
    eps = finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def logits_to_probs(logits: Any, is_binary: bool = False) -> Any:
    """The probabilities of log-odds, or of logarithms along the last dimension."""
    return logits.sigmoid() if is_binary else logits.softmax(-1)


def probs_to_logits(probs: Any, is_binary: bool = False) -> Any:
    """The log-odds of probabilities, or their logarithms."""
    clamped = clamp_probs(probs)
    return clamped.log() - (-clamped).log1p() if is_binary else clamped.log()


def vec_to_tril_matrix(vec: Any, diag: int = 0) -> Any:
    """A lower triangular matrix of a vector's elements, by rows."""
    size = (
        -(1 + 2 * diag) + int(((1 + 2 * diag) ** 2 + 8 * vec.shape[-1] + 4 * abs(diag) * (diag + 1)) ** 0.5)
    ) / 2
    if round(size) - size > 1e-6:
        raise ValueError(
            f"The size of last dimension is {vec.shape[-1]} which cannot be expressed as the lower "
            "triangular part of a square D x D matrix."
        )
    count = round(size)
    matrix = vec.new_zeros((*vec.shape[:-1], count, count))
    rows, columns = ops.tril_indices(count, count, diag, device=vec.device).unbind(0)
    matrix[..., rows, columns] = vec
    return matrix


def tril_matrix_to_vec(mat: Any, diag: int = 0) -> Any:
    """The elements of a lower triangular matrix as a vector, by rows."""
    size = mat.shape[-1]
    if not -size <= diag < size:
        raise ValueError(f"diag ({diag}) provided is outside [{-size}, {size - 1}].")
    rows, columns = ops.tril_indices(size, size, diag, device=mat.device).unbind(0)
    return mat[..., rows, columns]


class lazy_property:
    """Decorator: a fact that is computed when it is first asked for, and then kept in the object."""

    def __init__(self, wrapped: Callable[[Any], Any]) -> None:
        self.wrapped = wrapped
        self.__doc__ = wrapped.__doc__
        self.name = wrapped.__name__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, obj_type: Any = None) -> Any:
        if instance is None:
            return _LazyProperty(self.wrapped)
        with enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.name, value)
        return value


class _LazyProperty(lazy_property, property):
    """What a class shows of a lazy property."""

    def __init__(self, wrapped: Callable[[Any], Any]) -> None:
        property.__init__(self, wrapped)
