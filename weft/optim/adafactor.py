"""Adafactor: Adam's second moments kept as one row and one column of each matrix.

Takes parameters with gradients; writes to parameters and to the state `step`, and `row_var` and `col_var` of
matrices or `variance` of vectors. One idea: the estimate of a matrix of variances is the product of its row
and column means; steps are relative to the parameter's size, and bounded.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, ClassVar

from weft.core.dtypes import finfo
from weft.optim.optimizer import overflowed, to_number
from weft.optim.rules import Check, Options, Ruled, at_least, declared, refusing, zeros
from weft.optim.verbs import advance, check_steps
from weft.tensor.base import Tensor

__all__ = ["Adafactor", "adafactor"]


def adafactor(
    params: list[Any], grads: list[Any], row_vars: list[Any], col_vars: list[Any], variances: list[Any],
    state_steps: list[Any], foreach: bool | None = None, grad_scale: Any = None, found_inf: Any = None,
    has_complex: bool = False, *, d: float, lr: Any, beta2_decay: float, weight_decay: float,
    eps1: float | None, eps2: float, maximize: bool,
) -> None:  # fmt: skip
    """One step on lists of parameters, gradients, variances (None where there are none) and step counters."""
    check_steps(state_steps)
    if has_complex or any(param.is_complex() for param in params):
        raise RuntimeError("Adafactor does not support complex parameters")
    if overflowed(grads, grad_scale, found_inf):
        return
    lr = to_number(lr)
    advance(state_steps)
    for param, grad, row, column, variance, step in zip(
        params, grads, row_vars, col_vars, variances, state_steps
    ):
        least = float(finfo(param.dtype).eps) if eps1 is None else eps1
        grad = grad.neg() if maximize else grad
        count = step.double()
        weight = count**beta2_decay
        size = param.norm(2) / math.sqrt(param.numel())
        reach = size.clamp(min=eps2) * (1 / count.sqrt()).clamp(max=lr)
        if weight_decay != 0:
            param.mul_(1 - lr * weight_decay)
        if grad.dim() > 1:
            _move(row, grad.norm(2, -1, True).square() / grad.size(-1), weight)
            _move(column, grad.norm(2, -2, True).square() / grad.size(-2), weight)
            estimate = (row @ column) / row.mean(-2, True).clamp(min=least)
        else:
            _move(variance, grad * grad, weight)
            estimate = variance
        change = estimate.clamp(min=least * least).rsqrt() * grad
        bound = (change.norm(2) / (math.sqrt(change.numel()) * d)).clamp(min=1.0)
        param.sub_(change * (reach / bound))


def _move(mean: Any, end: Any, weight: Any) -> None:
    """Moves a running mean towards `end` by this part of the way."""
    mean.lerp_(end, weight.to(mean.dtype))


def _check_eps(eps: Any, options: Options) -> None:
    if eps[0] is not None:
        at_least("epsilon1")(eps[0], options)
    at_least("epsilon2")(eps[1], options)


class Adafactor(Ruled):
    """Adaptive steps at the memory of a row and a column per matrix.

    >>> import weft
    >>> x = weft.ones(2, 3, requires_grad=True)
    >>> x.grad = weft.ones(2, 3)
    >>> optimizer = weft.optim.Adafactor([x])
    >>> optimizer.step()
    >>> {name: tuple(value.shape) for name, value in optimizer.state[x].items()}
    {'step': (), 'row_var': (2, 1), 'col_var': (1, 3)}
    """

    _form = staticmethod(adafactor)
    _lists = ("row_var", "col_var", "variance", "step")
    _checks: ClassVar[dict[str, Check]] = {
        "lr": at_least("Learning rate"),
        "beta2_decay": refusing("beta2_decay should be <= 0 but is: {}", lambda number: bool(number <= 0.0)),
        "eps": _check_eps,
        "d": at_least("Clipping threshold d", 1),
        "weight_decay": at_least("weight_decay"),
    }

    @declared
    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 1e-2, beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3), d: float = 1.0, weight_decay: float = 0.0, *,
        foreach: bool | None = None, maximize: bool = False,
    ) -> None:  # fmt: skip
        ...

    def _init_state(self, param: Any, state: Options, group: Options) -> None:
        super()._init_state(param, state, group)
        if param.dim() > 1:
            *others, rows, columns = param.shape
            state["row_var"] = param.new_zeros((*others, rows, 1))
            state["col_var"] = param.new_zeros((*others, 1, columns))
        else:
            state["variance"] = zeros(param)

    def _run_form(self, group: Options, params: list[Any], grads: list[Any], states: list[Options]) -> None:
        absent = dict.fromkeys(self._lists)
        super()._run_form(group, params, grads, [absent | state for state in states])
