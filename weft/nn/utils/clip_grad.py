"""Clipping gradients: by their norm, all of them taken as one vector, or element by element.

Takes parameters, changes their `.grad` in place.
"""

from __future__ import annotations

import math
import types
import warnings
from collections.abc import Iterable
from typing import Any

from weft.autograd.grad_mode import no_grad
from weft.core.naming import named
from weft.ops.record import ops
from weft.tensor.base import Tensor

__all__ = ["clip_grad_norm", "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm"]

Tensors = Tensor | Iterable[Tensor]


def _gradients(parameters: Tensors) -> list[Any]:
    found = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    return [parameter._grad for parameter in found if parameter._grad is not None]


@no_grad()
def get_total_norm(
    tensors: Tensors, norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: bool | None = None
) -> Tensor:
    """The norm of all the tensors' elements together."""
    given = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    order = float(norm_type)
    if not given:
        return ops.zeros(())
    norms = [ops.linalg_vector_norm(tensor, order) for tensor in given]
    total = ops.linalg_vector_norm(ops.stack(norms), order)
    if error_if_nonfinite and not math.isfinite(total.item()):
        raise RuntimeError(
            f"The total norm of order {order} for gradients from `parameters` is non-finite, so it cannot be "
            "clipped. To disable this error and scale the gradients by the non-finite norm anyway, set "
            "`error_if_nonfinite=False`"
        )
    return total


@no_grad()
def clip_grads_with_norm_(
    parameters: Tensors, max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Scales the gradients so that a total norm of `total_norm` becomes `max_norm` at most."""
    factor = ops.clamp(max_norm / (total_norm + 1e-6), max=1.0)
    for gradient in _gradients(parameters):
        gradient.mul_(factor)


def clip_grad_norm_(
    parameters: Tensors,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scales the gradients down to a total norm of `max_norm`; gives the norm they had."""
    given = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    if not given and isinstance(parameters, types.GeneratorType):
        warnings.warn("`parameters` is an empty generator, no gradient clipping will occur.", stacklevel=2)
    total = get_total_norm(_gradients(given), norm_type, error_if_nonfinite)
    clip_grads_with_norm_(given, max_norm, total)
    return total


def clip_grad_norm(
    parameters: Tensors,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """The old name of `clip_grad_norm_`."""
    warnings.warn(
        named(
            "`weft.nn.utils.clip_grad_norm` is now deprecated in favor of `weft.nn.utils.clip_grad_norm_`."
        ),
        FutureWarning,
        stacklevel=2,
    )
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


@no_grad()
def clip_grad_value_(parameters: Tensors, clip_value: float, foreach: bool | None = None) -> None:
    """Bounds each element of the gradients by ±`clip_value`."""
    bound = float(clip_value)
    for gradient in _gradients(parameters):
        gradient.clamp_(-bound, bound)
