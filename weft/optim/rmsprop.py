"""RMSprop: gradients divided by the root of a running mean of their squares; centred, and with momentum.

Takes parameters with gradients; writes to parameters and to the state `step`, `square_avg`, `grad_avg` and
`momentum_buffer`. One idea: the rule is one function over `weft.optim.verbs`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from weft.core.seams import seams
from weft.core.types import preserve_format
from weft.ops.record import ops
from weft.optim.adam import real_views
from weft.optim.optimizer import (
    Optimizer,
    check_one_element,
    evaluate,
    new_step,
    to_number,
    to_scalar,
    without_recording,
)
from weft.optim.verbs import Row, Rule, check_steps, count_up, update, way
from weft.tensor.base import Tensor

__all__ = ["RMSprop", "rmsprop"]


class RMSprop(Optimizer):
    """p -= lr * g / (sqrt(v) + eps), v being a running mean of g**2 (less the square of that of g, if
    centred)."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_one_element("lr", lr)
        for label, value in (
            ("learning rate", lr),
            ("epsilon value", eps),
            ("momentum value", momentum),
            ("weight_decay value", weight_decay),
            ("alpha value", alpha),
        ):
            if not to_number(value) >= 0.0:
                raise ValueError(f"Invalid {label}: {value}")
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "alpha": alpha,
            "eps": eps,
            "centered": centered,
            "weight_decay": weight_decay,
            "capturable": capturable,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            for name, default in (
                ("momentum", 0),
                ("centered", False),
                ("foreach", None),
                ("maximize", False),
                ("differentiable", False),
                ("capturable", False),
            ):
                group.setdefault(name, default)
            self._restore_steps(group)

    def _init_state(self, param: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        state["step"] = new_step(param)
        wanted = (
            ("square_avg", True),
            ("momentum_buffer", group["momentum"] > 0),
            ("grad_avg", group["centered"]),
        )
        for name, present in wanted:
            if present:
                state[name] = ops.zeros_like(param, memory_format=preserve_format)

    @without_recording
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One update; gives the loss of the closure, if there is one."""
        loss = evaluate(closure)
        for group in self.param_groups:
            params: list[Any] = []
            grads: list[Any] = []
            states: list[dict[str, Any]] = []
            for param, grad, state in self._with_gradients(group):
                if not state:
                    seams.making_state(self)
                    self._init_state(param, state, group)
                params.append(param)
                grads.append(grad)
                states.append(state)
            rmsprop(
                params,
                grads,
                [state["square_avg"] for state in states],
                [state["grad_avg"] for state in states] if group["centered"] else [],
                [state["momentum_buffer"] for state in states] if group["momentum"] > 0 else [],
                [state["step"] for state in states],
                foreach=group["foreach"],
                maximize=group["maximize"],
                differentiable=group["differentiable"],
                capturable=group["capturable"],
                lr=group["lr"],
                alpha=group["alpha"],
                eps=group["eps"],
                weight_decay=group["weight_decay"],
                momentum=group["momentum"],
                centered=group["centered"],
            )
        return loss


def rmsprop(
    params: list[Any],
    grads: list[Any],
    square_avgs: list[Any],
    grad_avgs: list[Any],
    momentum_buffer_list: list[Any],
    state_steps: list[Any],
    foreach: bool | None = None,
    maximize: bool = False,
    differentiable: bool = False,
    capturable: bool = False,
    has_complex: bool = False,
    *,
    lr: Any,
    alpha: float,
    eps: float,
    weight_decay: Any,
    momentum: float,
    centered: bool,
) -> None:
    """One step on lists of parameters, gradients, running means and step counters."""
    check_steps(state_steps)
    count_up(state_steps)
    lr = to_scalar(lr)
    columns = [params, grads, square_avgs]
    columns += [grad_avgs] if centered else []
    columns += [momentum_buffer_list] if momentum > 0 else []
    if differentiable:
        for tensors in zip(*columns):
            _differentiable(tensors, lr, alpha, eps, weight_decay, momentum, centered, maximize)
        return
    size, decay = -float(to_number(lr)), to_number(weight_decay) or None
    numbers = (size, alpha, 1 - alpha, *way(1 - alpha), eps, decay, maximize, float(momentum))
    rows: list[Row] = [(real_views(tensors), numbers) for tensors in zip(*columns)]
    update(RULES[centered, momentum > 0], rows)


def _observe(
    do: Any, param: Any, grad: Any, square: Any, alpha: Any, gain: Any, decay: Any, maximize: bool
) -> Any:
    """Takes the gradient into the running mean of squares, and gives it as it was taken."""
    if maximize:
        grad = do.neg(grad)
    if decay is not None:
        grad = do.plus(grad, param, decay)
    do.scale(square, alpha)
    do.add_product(square, grad, grad, gain)
    return grad


def _plain(
    do: Any, param: Any, grad: Any, square: Any,
    size: Any, alpha: Any, gain: Any, weight: Any, near: bool, eps: Any, decay: Any, maximize: bool,
    momentum: Any,
) -> None:  # fmt: skip
    grad = _observe(do, param, grad, square, alpha, gain, decay, maximize)
    do.add_quotient(param, grad, do.root(square, None, eps), size)


def _moving(
    do: Any, param: Any, grad: Any, square: Any, buffer: Any,
    size: Any, alpha: Any, gain: Any, weight: Any, near: bool, eps: Any, decay: Any, maximize: bool,
    momentum: Any,
) -> None:  # fmt: skip
    grad = _observe(do, param, grad, square, alpha, gain, decay, maximize)
    do.scale(buffer, momentum)
    do.add_quotient(buffer, grad, do.root(square, None, eps), 1)
    do.add(param, buffer, size)


def _centred(
    do: Any, param: Any, grad: Any, square: Any, mean: Any,
    size: Any, alpha: Any, gain: Any, weight: Any, near: bool, eps: Any, decay: Any, maximize: bool,
    momentum: Any,
) -> None:  # fmt: skip
    grad = _observe(do, param, grad, square, alpha, gain, decay, maximize)
    do.approach(mean, grad, weight, near)
    variance = do.plus_product(square, mean, mean, -1)
    do.add_quotient(param, grad, do.root(variance, None, eps), size)


def _centred_moving(
    do: Any, param: Any, grad: Any, square: Any, mean: Any, buffer: Any,
    size: Any, alpha: Any, gain: Any, weight: Any, near: bool, eps: Any, decay: Any, maximize: bool,
    momentum: Any,
) -> None:  # fmt: skip
    grad = _observe(do, param, grad, square, alpha, gain, decay, maximize)
    do.approach(mean, grad, weight, near)
    variance = do.plus_product(square, mean, mean, -1)
    do.scale(buffer, momentum)
    do.add_quotient(buffer, grad, do.root(variance, None, eps), 1)
    do.add(param, buffer, size)


RULES: dict[tuple[bool, bool], Rule] = {
    (False, False): _plain,
    (False, True): _moving,
    (True, False): _centred,
    (True, True): _centred_moving,
}


def _differentiable(
    tensors: tuple[Any, ...],
    lr: Any,
    alpha: float,
    eps: float,
    weight_decay: Any,
    momentum: float,
    centered: bool,
    maximize: bool,
) -> None:
    """As the rules above, on tensors that gradients flow through: what is saved is not written to
    afterwards."""
    param, grad, square, *rest = tensors
    grad = grad.neg() if maximize else grad
    if not (isinstance(weight_decay, (int, float)) and weight_decay == 0):
        grad = grad + param.clone() * weight_decay
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
