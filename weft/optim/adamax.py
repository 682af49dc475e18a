"""Adamax: Adam with a running maximum in place of the running mean of squares.

Takes parameters with gradients; writes to parameters and to the state `step`, `exp_avg` and `exp_inf`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from weft.ops.record import ops
from weft.optim.rules import Ruled, declared, followed, kept, rate_of, real_views
from weft.optim.verbs import advance, check_steps
from weft.tensor.base import Tensor

__all__ = ["Adamax", "adamax"]


def adamax(
    params: list[Any], grads: list[Any], exp_avgs: list[Any], exp_infs: list[Any], state_steps: list[Any],
    foreach: bool | None = None, maximize: bool = False, differentiable: bool = False,
    capturable: bool = False, has_complex: bool = False, *, eps: float, beta1: float, beta2: float, lr: Any,
    weight_decay: float,
) -> None:  # fmt: skip
    """One step on lists of parameters, gradients, state and step counters."""
    check_steps(state_steps)
    lr = rate_of(lr)
    for tensors, count in zip(zip(params, grads, exp_avgs, exp_infs), advance(state_steps)):
        param, grad, mean, largest = real_views(tensors)
        grad = followed(param, grad, weight_decay, maximize)
        mean.lerp_(grad, 1 - beta1)
        largest.copy_(ops.maximum(largest * beta2, grad.abs() + eps))
        param.sub_(kept(mean) / kept(largest) * (lr / (1 - beta1**count)))


class Adamax(Ruled):
    """p -= lr * m / u, m being the unbiased running mean of gradients and u = max(beta2 * u, |g| + eps).

    >>> import weft
    >>> x = weft.ones(2, requires_grad=True)
    >>> x.grad = weft.tensor([1.0, -4.0])
    >>> weft.optim.Adamax([x], lr=0.5).step()
    >>> x.tolist()
    [0.5, 1.5]
    """

    _zeros = ("exp_avg", "exp_inf")
    _form = staticmethod(adamax)
    _lists = ("exp_avg", "exp_inf", "step")

    @declared
    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 2e-3, betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8, weight_decay: float = 0, foreach: bool | None = None, *, maximize: bool = False,
        differentiable: bool = False, capturable: bool = False,
    ) -> None:  # fmt: skip
        ...
