"""Parameters as one vector, and back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from weft.core.naming import named
from weft.ops.record import ops
from weft.tensor.base import Tensor

__all__ = ["parameters_to_vector", "vector_to_parameters"]


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All elements of the parameters, one after the other; gradients flow through."""
    return ops.cat([ops.reshape(parameter, (-1,)) for parameter in parameters])


def vector_to_parameters(vec: Any, parameters: Iterable[Tensor]) -> None:
    """Sets the parameters to views of this vector, in order."""
    if not isinstance(vec, Tensor):
        raise TypeError(named(f"expected weft.Tensor, but got: {type(vec).__name__}"))
    start = 0
    for parameter in parameters:
        end = start + parameter.numel()
        parameter.data = vec[start:end].view(parameter.shape).data
        start = end
