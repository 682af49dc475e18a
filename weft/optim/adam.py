"""Adam: steps scaled by running means of the gradient and of its square; AMSGrad, and weight decay in both
styles.

Takes parameters with gradients; writes to parameters and to the state `step`, `exp_avg`, `exp_avg_sq` and
`max_exp_avg_sq`. One idea: the rule is one function over `weft.optim.verbs`, given the numbers that depend on
the step; a second form keeps those numbers as tensors, for steps that gradients flow through.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, ClassVar

from weft.core.seams import seams
from weft.optim.optimizer import check_one_element, overflowed, to_number, to_scalar
from weft.optim.rules import CHECKS, Check, Options, Ruled, declared, followed, real_views
from weft.optim.verbs import Row, advance, check_steps, update, way
from weft.tensor.base import Tensor

__all__ = ["Adam", "adam"]


def _check_rate(lr: Any, options: Options) -> None:
    if isinstance(lr, Tensor) and options["foreach"] and not options["capturable"]:
        raise ValueError("lr as a Tensor is not supported for capturable=False and foreach=True")
    CHECKS["lr"](lr, options)


def _check_betas(betas: tuple[Any, Any], options: Options) -> None:
    for index, beta in enumerate(betas):
        check_one_element(f"betas[{index}]", beta)
        if not 0.0 <= to_number(beta) < 1.0:
            raise ValueError(f"Invalid beta parameter at index {index}: {beta}")
    tensors = [isinstance(beta, Tensor) for beta in betas]
    if tensors[0] != tensors[1] or not all(isinstance(beta, (float, Tensor)) for beta in betas):
        raise ValueError("betas must be either both floats or both Tensors")
    if tensors[0] and options["foreach"] and not options["capturable"]:
        raise ValueError("betas[0] as a Tensor is not supported for capturable=False and foreach=True")
    options["betas"] = tuple(map(to_scalar, betas))


def adam(
    params: list[Any], grads: list[Any], exp_avgs: list[Any], exp_avg_sqs: list[Any],
    max_exp_avg_sqs: list[Any], state_steps: list[Any], foreach: bool | None = None, capturable: bool = False,
    differentiable: bool = False, fused: bool | None = None, grad_scale: Any = None, found_inf: Any = None,
    has_complex: bool = False, decoupled_weight_decay: bool = False, *, amsgrad: bool, beta1: Any,
    beta2: Any, lr: Any, weight_decay: Any, eps: float, maximize: bool,
) -> None:  # fmt: skip
    """One step on lists of parameters, gradients, running means and step counters."""
    check_steps(state_steps)
    if overflowed(grads, grad_scale, found_inf):
        return
    lr, beta1, beta2 = to_scalar(lr), to_scalar(beta1), to_scalar(beta2)
    lists = zip(params, grads, exp_avgs, exp_avg_sqs, *([max_exp_avg_sqs] if amsgrad else []))
    if capturable or differentiable:
        rest = (beta1, beta2, lr, weight_decay, decoupled_weight_decay, eps, maximize)
        for tensors, step in zip(lists, state_steps):
            step.add_(1)
            _adapt_by_tensors(real_views(tensors), step, *rest)
        return
    lr, beta1, beta2, weight_decay = map(to_number, (lr, beta1, beta2, weight_decay))
    decay, shrink = weight_decay or None, None
    if decoupled_weight_decay and weight_decay:
        decay, shrink = None, 1 - lr * weight_decay
    fixed = (decay, shrink, *way(1 - beta1), beta2, 1 - beta2, eps, maximize)
    rows: list[Row] = []
    count: float | None = None
    numbers: tuple[Any, ...] = ()
    for tensors, steps in zip(lists, advance(state_steps)):
        if seams.is_compiling() or steps != count:  # a captured count is not known, and not compared
            count = steps
            numbers = (*fixed, -lr / (1 - beta1**count), math.sqrt(1 - beta2**count))
        rows.append((real_views(tensors), numbers))
    update(_adapt, rows)


def _adapt(
    do: Any, tensors: Any, decay: Any, shrink: Any, weight: Any, near: bool, beta2: Any, gain: Any, eps: Any,
    maximize: bool, size: Any, correction: Any,
) -> None:  # fmt: skip
    param, grad, mean, square, *largest = tensors
    if maximize:
        grad = do.neg(grad)
    if shrink is not None:
        do.scale(param, shrink)
    if decay is not None:
        grad = do.plus(grad, param, decay)
    do.approach(mean, grad, weight, near)
    do.scale(square, beta2)
    do.add_product(square, grad, grad, gain)
    if largest:
        do.raise_to(largest[0], square)
        square = largest[0]
    do.add_quotient(param, mean, do.root(square, correction, eps), size)


def _adapt_by_tensors(
    tensors: tuple[Any, ...], step: Any, beta1: Any, beta2: Any, lr: Any, weight_decay: Any, decoupled: bool,
    eps: float, maximize: bool,
) -> None:  # fmt: skip
    """As the rule above, with everything that depends on the step kept as tensors. What a gradient rule
    saved is not written to afterwards: hence the copies."""
    param, grad, mean, square, *rest = tensors
    grad = followed(param, grad, weight_decay, maximize, lr if decoupled else None)
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


class Adam(Ruled):
    """p -= lr * m / (sqrt(v) + eps), m and v being unbiased running means of gradient and squared
    gradient."""

    _form = staticmethod(adam)
    _sparse = "Adam does not support sparse gradients, please consider SparseAdam instead"
    _lists = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq", "step")
    _swapped = ("maximize", "foreach")
    _zeros = ("exp_avg", "exp_avg_sq")
    _zeros_with: ClassVar[dict[str, str]] = {"max_exp_avg_sq": "amsgrad"}
    _checks: ClassVar[dict[str, Check]] = {"lr": _check_rate, "betas": _check_betas}

    @declared
    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 0, amsgrad: bool = False, *, foreach: bool | None = None,
        maximize: bool = False, capturable: bool = False, differentiable: bool = False,
        fused: bool | None = None, decoupled_weight_decay: bool = False,
    ) -> None:  # fmt: skip
        ...
