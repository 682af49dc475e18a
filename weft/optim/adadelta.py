"""Adadelta: steps scaled by the root of past squared steps over that of past squared gradients.

Takes parameters with gradients; writes to parameters and to the state `step`, `square_avg` and `acc_delta`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from weft.optim.rules import Ruled, declared, followed, kept, rate_of, real_views
from weft.optim.verbs import check_steps, count_up
from weft.tensor.base import Tensor

__all__ = ["Adadelta", "adadelta"]


def adadelta(
    params: list[Any], grads: list[Any], square_avgs: list[Any], acc_deltas: list[Any],
    state_steps: list[Any], capturable: bool = False, foreach: bool | None = None,
    differentiable: bool = False, has_complex: bool = False, *, lr: Any, rho: float, eps: float,
    weight_decay: float, maximize: bool,
) -> None:  # fmt: skip
    """One step on lists of parameters, gradients, running means and step counters."""
    check_steps(state_steps)
    count_up(state_steps)
    lr = rate_of(lr)
    for tensors in zip(params, grads, square_avgs, acc_deltas):
        param, grad, square, past = real_views(tensors)
        grad = followed(param, grad, weight_decay, maximize)
        square.mul_(rho).add_(grad * grad, alpha=1 - rho)
        move = (kept(past) + eps).sqrt() / (kept(square) + eps).sqrt() * grad
        past.mul_(rho).add_(move * move, alpha=1 - rho)
        param.sub_(move * lr)


class Adadelta(Ruled):
    """p -= lr * d, where d = g * sqrt(mean of d**2 + eps) / sqrt(mean of g**2 + eps).

    >>> import weft
    >>> x = weft.ones(2, requires_grad=True)
    >>> x.grad = weft.tensor([1.0, -4.0])
    >>> optimizer = weft.optim.Adadelta([x])
    >>> optimizer.step()
    >>> list(optimizer.state[x])
    ['step', 'square_avg', 'acc_delta']
    """

    _zeros = ("square_avg", "acc_delta")
    _form = staticmethod(adadelta)
    _lists = ("square_avg", "acc_delta", "step")
    _swapped = ("maximize", "capturable", "foreach")

    @declared
    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 1.0, rho: float = 0.9, eps: float = 1e-6,
        weight_decay: float = 0, foreach: bool | None = None, *, capturable: bool = False,
        maximize: bool = False, differentiable: bool = False,
    ) -> None:  # fmt: skip
        ...
