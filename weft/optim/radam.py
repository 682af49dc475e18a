"""RAdam: Adam that divides by the root of squares only once enough of them were seen.

Takes parameters with gradients; writes to parameters and to the state `step`, `exp_avg` and `exp_avg_sq`. One
idea: the length of the running mean of squares, which grows with the count of steps, says whether to divide
by it, and how much to trust it. Where the count is a number of a graph, both steps are computed and one is
chosen.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from weft.core.dtypes import float64
from weft.core.seams import seams
from weft.ops.record import ops
from weft.optim.rules import Ruled, declared, followed, kept, rate_of, real_views
from weft.optim.verbs import advance, check_steps
from weft.tensor.base import Tensor

__all__ = ["RAdam", "radam"]


def radam(
    params: list[Any], grads: list[Any], exp_avgs: list[Any], exp_avg_sqs: list[Any],
    state_steps: list[Any], decoupled_weight_decay: bool = False, foreach: bool | None = None,
    differentiable: bool = False, capturable: bool = False, has_complex: bool = False,
    maximize: bool = False, *, beta1: float, beta2: float, lr: Any, weight_decay: float, eps: float,
) -> None:  # fmt: skip
    """One step on lists of parameters, gradients, state and step counters."""
    check_steps(state_steps)
    lr = rate_of(lr)
    shrinking = lr if decoupled_weight_decay else None
    longest = 2 / (1 - beta2) - 1
    for tensors, count in zip(zip(params, grads, exp_avgs, exp_avg_sqs), advance(state_steps)):
        param, grad, mean, square = real_views(tensors)
        grad = followed(param, grad, weight_decay, maximize, shrinking)
        mean.lerp_(grad, 1 - beta1)
        square.mul_(beta2).add_(grad * grad, alpha=1 - beta2)
        seen = 1 - beta2**count
        length = longest - 2 * count * (beta2**count) / seen
        move = kept(mean) * (lr / (1 - beta1**count))
        if seams.is_compiling():
            known = ops.add(ops.zeros((), dtype=float64, device=param.device), length)
            trusted = move * (_trust(known, longest).sqrt() * math.sqrt(seen)) / (square.sqrt() + eps)
            param.sub_(ops.where(known > 5.0, trusted, move))
        elif length > 5.0:
            trust = math.sqrt(_trust(length, longest)) * math.sqrt(seen)
            param.sub_(move * trust / (kept(square).sqrt() + eps))
        else:
            param.sub_(move)


def _trust(length: Any, longest: float) -> Any:
    """The square of the rectification: how much of the longest mean's variance this length has."""
    return (length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length)


class RAdam(Ruled):
    """Adam with rectified variance: plain momentum at first, then p -= lr * r * m / (sqrt(v) + eps).

    >>> import weft
    >>> x = weft.ones(2, requires_grad=True)
    >>> x.grad = weft.tensor([1.0, -4.0])
    >>> weft.optim.RAdam([x], lr=0.5).step()
    >>> x.tolist()
    [0.5, 3.0]
    """

    _zeros = ("exp_avg", "exp_avg_sq")
    _form = staticmethod(radam)
    _lists = ("exp_avg", "exp_avg_sq", "step")
    _swapped = ("maximize", "foreach", "capturable", "decoupled_weight_decay")

    @declared
    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 1e-3, betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8, weight_decay: float = 0, decoupled_weight_decay: bool = False, *,
        foreach: bool | None = None, maximize: bool = False, capturable: bool = False,
        differentiable: bool = False,
    ) -> None:  # fmt: skip
        ...
