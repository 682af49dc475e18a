"""SparseAdam: Adam that moves only the rows that a sparse gradient names.

Takes dense parameters with sparse gradients; writes to parameters and to the state `step`, `exp_avg` and
`exp_avg_sq`. One idea: means of rows without a gradient stand still, so a step costs what a gradient stores.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, ClassVar

from weft.core.types import strided
from weft.optim.optimizer import to_number
from weft.optim.rules import Check, Options, Ruled, declared, refusing, zeros
from weft.tensor.base import Tensor

__all__ = ["SparseAdam", "sparse_adam"]


def sparse_adam(
    params: list[Any], grads: list[Any], exp_avgs: list[Any], exp_avg_sqs: list[Any], state_steps: list[int],
    *, eps: float, beta1: float, beta2: float, lr: Any, maximize: bool,
) -> None:  # fmt: skip
    """One step on lists of parameters, sparse gradients, state and the numbers of steps so far."""
    for param, grad, mean, square, step in zip(params, grads, exp_avgs, exp_avg_sqs, state_steps):
        grad = (-grad if maximize else grad).coalesce()
        values = grad.values()
        if not values.numel():
            continue
        to_mean = (values - mean.sparse_mask(grad).values()) * (1 - beta1)
        to_square = (values * values - square.sparse_mask(grad).values()) * (1 - beta2)
        mean.add_(_at(grad, to_mean))
        square.add_(_at(grad, to_square))
        size = float(to_number(lr)) * math.sqrt(1 - beta2**step) / (1 - beta1**step)
        move = mean.sparse_mask(grad).values() / (square.sparse_mask(grad).values().sqrt() + eps)
        param.add_(_at(grad, move * -size))


def _at(grad: Any, values: Any) -> Any:
    """A sparse tensor with these elements where the gradient has its own."""
    return grad.like(values)


class SparseAdam(Ruled):
    """Adam for sparse gradients: rows that a gradient does not name, and their means, stay as they are.

    >>> import weft
    >>> x = weft.ones(3, requires_grad=True)
    >>> x.grad = weft.sparse_coo_tensor([[1]], [4.0], (3,))
    >>> weft.optim.SparseAdam([x], lr=0.5).step()
    >>> x
    tensor([1.0000, 0.5000, 1.0000], requires_grad=True)
    """

    _form = staticmethod(sparse_adam)
    _lists = ("exp_avg", "exp_avg_sq", "step")
    _zeros = ("exp_avg", "exp_avg_sq")
    _scalars: ClassVar[dict[str, float]] = {}
    _checks: ClassVar[dict[str, Check]] = {
        "lr": refusing("Invalid learning rate: {}", lambda number: bool(number > 0.0)),
        "eps": refusing("Invalid epsilon value: {}", lambda number: bool(number > 0.0)),
    }
    _sparse = True

    @declared
    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 1e-3, betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8, maximize: bool = False,
    ) -> None:  # fmt: skip
        ...

    def _set_up(self, given: Options) -> None:
        super()._set_up(given)
        places = []
        for group in self.param_groups:
            places += [place for place, param in enumerate(group["params"]) if param.layout is not strided]
        if places:
            raise ValueError(
                f"Sparse params at indices {places}: SparseAdam requires dense parameter tensors"
            )

    def _init_state(self, param: Any, state: Options, group: Options) -> None:
        state["step"] = 0
        for name in self._zeros:
            state[name] = zeros(param)

    def _update(self, group: Options, params: list[Any], grads: list[Any]) -> None:
        for param, grad in zip(params, grads):
            if grad.layout is strided:
                raise RuntimeError(
                    "SparseAdam does not support dense gradients, please consider Adam instead"
                )
            if not self.state[param]:
                self._init_state(param, self.state[param], group)
            self.state[param]["step"] += 1
        super()._update(group, params, grads)
