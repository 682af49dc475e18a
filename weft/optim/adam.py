"""Adam: steps scaled by running means of the gradient and of its square; AMSGrad, and weight decay in both
styles.

Takes parameters with gradients; writes to parameters and to the state `step`, `exp_avg`, `exp_avg_sq` and
`max_exp_avg_sq`. One idea: the rule is one function over `weft.optim.verbs`, given the numbers that depend on
the step; a second form keeps those numbers as tensors, for steps that gradients flow through.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from weft.core.seams import seams
from weft.core.types import preserve_format
from weft.ops.record import ops
from weft.optim.optimizer import (
    Optimizer,
    check_fused,
    check_one_element,
    evaluate,
    new_step,
    overflowed,
    to_number,
    to_scalar,
    without_recording,
)
from weft.optim.verbs import Row, advance, check_steps, update, way
from weft.tensor.base import Tensor

__all__ = ["Adam", "adam"]


def _check_betas(betas: tuple[Any, Any], foreach: Any, capturable: bool) -> None:
    for index, beta in enumerate(betas):
        check_one_element(f"betas[{index}]", beta)
        if not 0.0 <= to_number(beta) < 1.0:
            raise ValueError(f"Invalid beta parameter at index {index}: {beta}")
    tensors = [isinstance(beta, Tensor) for beta in betas]
    if tensors[0] != tensors[1] or not all(isinstance(beta, (float, Tensor)) for beta in betas):
        raise ValueError("betas must be either both floats or both Tensors")
    for index, beta in enumerate(betas):
        if isinstance(beta, Tensor):
            if foreach and not capturable:
                raise ValueError(
                    f"betas[{index}] as a Tensor is not supported for capturable=False and foreach=True"
                )


class Adam(Optimizer):
    """p -= lr * m / (sqrt(v) + eps), m and v being unbiased running means of gradient and squared
    gradient."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        if isinstance(lr, Tensor):
            if foreach and not capturable:
                raise ValueError("lr as a Tensor is not supported for capturable=False and foreach=True")
            check_one_element("lr", lr)
        if not to_number(lr) >= 0.0:
            raise ValueError(f"Invalid learning rate: {lr}")
        if not eps >= 0.0:
            raise ValueError(f"Invalid epsilon value: {eps}")
        _check_betas(betas, foreach, capturable)
        if not to_number(weight_decay) >= 0.0:
            raise ValueError(f"Invalid weight_decay value: {weight_decay}")
        defaults = {
            "lr": lr,
            "betas": tuple(map(to_scalar, betas)),
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsgrad,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
            "fused": fused,
            "decoupled_weight_decay": decoupled_weight_decay,
        }
        super().__init__(params, defaults)
        check_fused(self, fused, foreach, differentiable)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            for name, default in (
                ("amsgrad", False),
                ("maximize", False),
                ("foreach", None),
                ("capturable", False),
                ("differentiable", False),
                ("decoupled_weight_decay", False),
                ("fused", None),
            ):
                group.setdefault(name, default)
            self._restore_steps(group)

    def _init_state(self, param: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        state["step"] = new_step(param, group["fused"])
        for name in STATES if group["amsgrad"] else STATES[:2]:
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
            beta1, beta2 = group["betas"]
            adam(
                params,
                grads,
                [state["exp_avg"] for state in states],
                [state["exp_avg_sq"] for state in states],
                [state["max_exp_avg_sq"] for state in states] if group["amsgrad"] else [],
                [state["step"] for state in states],
                foreach=group["foreach"],
                capturable=group["capturable"],
                differentiable=group["differentiable"],
                fused=group["fused"],
                grad_scale=getattr(self, "grad_scale", None),
                found_inf=getattr(self, "found_inf", None),
                decoupled_weight_decay=group["decoupled_weight_decay"],
                amsgrad=group["amsgrad"],
                beta1=beta1,
                beta2=beta2,
                lr=group["lr"],
                weight_decay=group["weight_decay"],
                eps=group["eps"],
                maximize=group["maximize"],
            )
        return loss


STATES = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq")


def adam(
    params: list[Any],
    grads: list[Any],
    exp_avgs: list[Any],
    exp_avg_sqs: list[Any],
    max_exp_avg_sqs: list[Any],
    state_steps: list[Any],
    foreach: bool | None = None,
    capturable: bool = False,
    differentiable: bool = False,
    fused: bool | None = None,
    grad_scale: Any = None,
    found_inf: Any = None,
    has_complex: bool = False,
    decoupled_weight_decay: bool = False,
    *,
    amsgrad: bool,
    beta1: Any,
    beta2: Any,
    lr: Any,
    weight_decay: Any,
    eps: float,
    maximize: bool,
) -> None:
    """One step on lists of parameters, gradients, running means and step counters."""
    check_steps(state_steps)
    if overflowed(grads, grad_scale, found_inf):
        return
    lr, beta1, beta2 = to_scalar(lr), to_scalar(beta1), to_scalar(beta2)
    columns = [params, grads, exp_avgs, exp_avg_sqs, *([max_exp_avg_sqs] if amsgrad else [])]
    if capturable or differentiable:
        for tensors, step in zip(zip(*columns), state_steps):
            step.add_(1)
            _adapt_by_tensors(
                real_views(tensors),
                step,
                beta1,
                beta2,
                lr,
                weight_decay,
                decoupled_weight_decay,
                eps,
                maximize,
            )
        return
    lr, beta1, beta2, weight_decay = map(to_number, (lr, beta1, beta2, weight_decay))
    decay, shrink = weight_decay or None, None
    if decoupled_weight_decay and weight_decay:
        decay, shrink = None, 1 - lr * weight_decay
    fixed = (decay, shrink, *way(1 - beta1), beta2, 1 - beta2, eps, maximize)
    rows: list[Row] = []
    count: float | None = None
    numbers: tuple[Any, ...] = ()
    for tensors, steps in zip(zip(*columns), advance(state_steps)):
        if seams.is_compiling() or steps != count:  # a captured count is not known, and not compared
            count = steps
            numbers = (*fixed, -lr / (1 - beta1**count), math.sqrt(1 - beta2**count))
        rows.append((real_views(tensors), numbers))
    update(_adapt_with_maximum if amsgrad else _adapt, rows)


def real_views(tensors: tuple[Any, ...]) -> tuple[Any, ...]:
    """Complex parameters are trained as pairs of real ones."""
    if tensors[0].array.dtype.kind != "c":
        return tensors
    return tuple(ops.view_as_real(tensor) for tensor in tensors)


def _adapt(
    do: Any, param: Any, grad: Any, mean: Any, square: Any,
    decay: Any, shrink: Any, weight: Any, near: bool, beta2: Any, gain: Any, eps: Any, maximize: bool,
    size: Any, correction: Any,
) -> None:  # fmt: skip
    _observe(do, param, grad, mean, square, decay, shrink, weight, near, beta2, gain, maximize)
    do.add_quotient(param, mean, do.root(square, correction, eps), size)


def _adapt_with_maximum(
    do: Any, param: Any, grad: Any, mean: Any, square: Any, largest: Any,
    decay: Any, shrink: Any, weight: Any, near: bool, beta2: Any, gain: Any, eps: Any, maximize: bool,
    size: Any, correction: Any,
) -> None:  # fmt: skip
    _observe(do, param, grad, mean, square, decay, shrink, weight, near, beta2, gain, maximize)
    do.raise_to(largest, square)
    do.add_quotient(param, mean, do.root(largest, correction, eps), size)


def _observe(
    do: Any, param: Any, grad: Any, mean: Any, square: Any,
    decay: Any, shrink: Any, weight: Any, near: bool, beta2: Any, gain: Any, maximize: bool,
) -> None:  # fmt: skip
    """Takes the gradient into the running means; shrinks the parameter where decay is decoupled."""
    if maximize:
        grad = do.neg(grad)
    if shrink is not None:
        do.scale(param, shrink)
    if decay is not None:
        grad = do.plus(grad, param, decay)
    do.approach(mean, grad, weight, near)
    do.scale(square, beta2)
    do.add_product(square, grad, grad, gain)


def _adapt_by_tensors(
    tensors: tuple[Any, ...],
    step: Any,
    beta1: Any,
    beta2: Any,
    lr: Any,
    weight_decay: Any,
    decoupled: bool,
    eps: float,
    maximize: bool,
) -> None:
    """As the rules above, with everything that depends on the step kept as tensors. What a gradient rule
    saved is not written to afterwards: hence the copies."""
    param, grad, mean, square, *rest = tensors
    grad = grad.neg() if maximize else grad
    if not (isinstance(weight_decay, (int, float)) and weight_decay == 0):
        if decoupled:
            param.mul_(1 - lr * weight_decay)
        else:
            grad = grad + param.clone() * weight_decay
    weight = 1 - beta1
    mean.lerp_(grad, weight.to(mean.dtype) if isinstance(weight, Tensor) else weight)
    square.copy_(square * beta2 + grad * grad * (1 - beta2))
    count = step.clone()
    size = lr / (1 - beta1**count)
    correction = (1 - beta2**count).sqrt()
    if rest:
        rest[0].copy_(rest[0].clone().maximum(square))
    denominator = (rest[0] if rest else square).sqrt() / correction + eps
    param.sub_((mean.clone() * size / denominator).to(param.dtype))
