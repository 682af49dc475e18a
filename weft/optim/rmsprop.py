"""RMSprop: gradients divided by the root of a running mean of their squares; centred, and with momentum.

Takes parameters with gradients; writes to parameters and to the state `step`, `square_avg`, `grad_avg` and
`momentum_buffer`. One idea: the rule is one function over `weft.optim.verbs`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from weft.optim.optimizer import to_number, to_scalar
from weft.optim.rules import Check, Options, Ruled, declared, followed, real_views, refusing
from weft.optim.verbs import Row, check_steps, count_up, update, way
from weft.tensor.base import Tensor

__all__ = ["RMSprop", "rmsprop"]


def rmsprop(
    params: list[Any], grads: list[Any], square_avgs: list[Any], grad_avgs: list[Any],
    momentum_buffer_list: list[Any], state_steps: list[Any], foreach: bool | None = None,
    maximize: bool = False, differentiable: bool = False, capturable: bool = False,
    has_complex: bool = False, *, lr: Any, alpha: float, eps: float, weight_decay: Any, momentum: float,
    centered: bool,
) -> None:  # fmt: skip
    """One step on lists of parameters, gradients, running means and step counters."""
    check_steps(state_steps)
    count_up(state_steps)
    lr = to_scalar(lr)
    moves = momentum > 0
    lists = [params, grads, square_avgs]
    lists += [grad_avgs] if centered else []
    lists += [momentum_buffer_list] if moves else []
    if differentiable:
        for tensors in zip(*lists):
            _differentiable(tensors, lr, alpha, eps, weight_decay, momentum, centered, maximize)
        return
    size, decay = -float(to_number(lr)), to_number(weight_decay) or None
    numbers = (
        size, alpha, 1 - alpha, *way(1 - alpha), eps, decay, maximize, centered,
        float(momentum) if moves else None,
    )  # fmt: skip
    rows: list[Row] = [(real_views(tensors), numbers) for tensors in zip(*lists)]
    update(_adapt, rows)


def _adapt(
    do: Any, tensors: Any, size: Any, alpha: Any, gain: Any, weight: Any, near: bool, eps: Any, decay: Any,
    maximize: bool, centered: bool, momentum: Any,
) -> None:  # fmt: skip
    param, grad, square, *rest = tensors
    if maximize:
        grad = do.neg(grad)
    if decay is not None:
        grad = do.plus(grad, param, decay)
    do.scale(square, alpha)
    do.add_product(square, grad, grad, gain)
    if centered:
        mean = rest[0]
        do.approach(mean, grad, weight, near)
        square = do.plus_product(square, mean, mean, -1)
    if momentum is None:
        do.add_quotient(param, grad, do.root(square, None, eps), size)
        return
    buffer = rest[-1]
    do.scale(buffer, momentum)
    do.add_quotient(buffer, grad, do.root(square, None, eps), 1)
    do.add(param, buffer, size)


def _differentiable(
    tensors: tuple[Any, ...], lr: Any, alpha: float, eps: float, weight_decay: Any, momentum: float,
    centered: bool, maximize: bool,
) -> None:  # fmt: skip
    """As the rule above, on tensors that gradients flow through: what is saved is not written to
    afterwards."""
    param, grad, square, *rest = tensors
    grad = followed(param, grad, weight_decay, maximize)
    square.mul_(alpha).add_(grad * grad, alpha=1 - alpha)
    variance = square.clone()
    if centered:
        mean = rest[0]
        mean.lerp_(grad, 1 - alpha)
        variance = variance - mean.clone().square()
    direction = grad / (variance.sqrt() + eps)
    if momentum > 0:
        buffer = rest[-1]
        buffer.mul_(momentum).add_(direction)
        direction = buffer.clone()
    param.sub_(direction * lr)


class RMSprop(Ruled):
    """p -= lr * g / (sqrt(v) + eps), v being a running mean of g**2 (less the square of that of g, if
    centred)."""

    _zeros = ("square_avg",)
    _form = staticmethod(rmsprop)
    _lists = ("square_avg", "grad_avg", "momentum_buffer", "step")
    _swapped = ("momentum", "alpha", "eps", "centered", "weight_decay")
    _zeros_with: ClassVar[dict[str, str]] = {"momentum_buffer": "momentum", "grad_avg": "centered"}
    _checks: ClassVar[dict[str, Check]] = {"alpha": refusing("Invalid alpha value: {}")}
    _late: ClassVar[Options] = {"momentum": 0, "centered": False}

    @declared
    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 1e-2, alpha: float = 0.99, eps: float = 1e-8,
        weight_decay: float = 0, momentum: float = 0, centered: bool = False, capturable: bool = False,
        foreach: bool | None = None, maximize: bool = False, differentiable: bool = False,
    ) -> None:  # fmt: skip
        ...
