"""Functions of layers that write to their input, and `native_batch_norm`, under PyTorch's names for them.

Takes tensors; writes to the first. One idea: what is written is what the function of the same name gives.
"""

from __future__ import annotations

import weft.nn.functional as F
from weft.autograd.grad_mode import no_grad
from weft.ops.record import ops
from weft.tensor.base import Tensor

__all__ = [
    "alpha_dropout_", "dropout_", "embedding_renorm_", "feature_alpha_dropout_", "feature_dropout_",
    "native_batch_norm",
]  # fmt: skip


def dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """Zeroes elements with probability p and scales the others up, in place."""
    found: Tensor = F.dropout(input, p, train, True)
    return found


def alpha_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """`alpha_dropout` in place."""
    found: Tensor = F.alpha_dropout(input, p, train, True)
    return found


def feature_alpha_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """`feature_alpha_dropout` in place."""
    found: Tensor = F.feature_alpha_dropout(input, p, train, True)
    return found


def feature_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """`feature_dropout` in place."""
    with no_grad():
        noise = ops.feature_dropout(ops.ones_like(input), p, train)
    return input.mul_(noise)


def embedding_renorm_(input: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> Tensor:
    """Cuts the rows of a table that are named back to a norm, in place."""
    with no_grad():
        smaller = ops.embedding_renorm(input, indices, float(max_norm), float(norm_type))
        found: Tensor = input.copy_(smaller)
    return found


def native_batch_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None,
    running_var: Tensor | None, training: bool, momentum: float, eps: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """`batch_norm`, the means that it took and one over the roots of the variances: none, if not training."""
    out: Tensor = ops.batch_norm(
        input, weight, bias, running_mean, running_var, training, momentum, eps, False
    )
    if not training:
        return out, ops.new_zeros(input, (0,)), ops.new_zeros(input, (0,))
    dims = tuple(d for d in range(input.dim()) if d != 1)
    variance, mean = ops.var_mean(input, dims, correction=0)
    return out, mean, ops.rsqrt(variance + eps)
