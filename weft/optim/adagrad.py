"""Adagrad: steps divided by the root of the sum of all squared gradients.

Takes parameters with gradients; writes to parameters and to the state `step` and `sum`, which is there from
the start.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from weft.core.types import preserve_format, strided
from weft.ops.record import ops
from weft.optim.optimizer import overflowed
from weft.optim.rules import Options, Ruled, declared, followed, kept, rate_of, real_views
from weft.optim.verbs import advance, check_steps
from weft.tensor.base import Tensor

__all__ = ["Adagrad", "adagrad"]


def adagrad(
    params: list[Any], grads: list[Any], state_sums: list[Any], state_steps: list[Any],
    fused: bool | None = None, grad_scale: Any = None, found_inf: Any = None, has_sparse_grad: bool = False,
    foreach: bool | None = None, differentiable: bool = False, has_complex: bool = False, *, lr: Any,
    weight_decay: float, lr_decay: float, eps: float, maximize: bool,
) -> None:  # fmt: skip
    """One step on lists of parameters, gradients, sums and step counters."""
    check_steps(state_steps)
    if overflowed(grads, grad_scale, found_inf):
        return
    lr = rate_of(lr)
    for tensors, count in zip(zip(params, grads, state_sums), advance(state_steps)):
        if tensors[1].layout is not strided:
            _sparsely(*tensors, lr / (1 + (count - 1) * lr_decay), weight_decay, eps, maximize)
            continue
        param, grad, total = real_views(tensors)
        grad = followed(param, grad, weight_decay, maximize)
        total.add_(grad * grad)
        param.sub_(grad / (kept(total).sqrt() + eps) * (lr / (1 + (count - 1) * lr_decay)))


def _sparsely(
    param: Any, grad: Any, total: Any, size: Any, weight_decay: float, eps: float, maximize: bool
) -> None:
    """The same for a sparse gradient: rows that it does not name stay as they are."""
    if weight_decay != 0:
        raise RuntimeError("weight_decay option is not compatible with sparse gradients")
    grad = (-grad if maximize else grad).coalesce()
    values = grad.values()
    total.add_(grad.like(values * values))
    roots = total.sparse_mask(grad).values().sqrt()
    param.add_(grad.like(values / (roots + eps) * -size))


class Adagrad(Ruled):
    """p -= lr / (1 + (t - 1) * lr_decay) * g / (sqrt(sum of g**2) + eps).

    >>> import weft
    >>> x = weft.ones(2, requires_grad=True)
    >>> x.grad = weft.tensor([1.0, -4.0])
    >>> weft.optim.Adagrad([x], lr=0.5).step()
    >>> x.tolist()
    [0.5, 1.5]
    """

    _form = staticmethod(adagrad)
    _lists = ("sum", "step")
    _sparse = True
    _swapped = ("eps", "weight_decay", "initial_accumulator_value")

    @declared
    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 1e-2, lr_decay: float = 0, weight_decay: float = 0,
        initial_accumulator_value: float = 0, eps: float = 1e-10, foreach: bool | None = None, *,
        maximize: bool = False, differentiable: bool = False, fused: bool | None = None,
    ) -> None:  # fmt: skip
        ...

    def _set_up(self, given: Options) -> None:
        super()._set_up(given)
        for group in self.param_groups:
            for param in group["params"]:
                self._init_state(param, self.state[param], group)

    def share_memory(self) -> None:
        """Moves the sums to memory that processes share."""
        for group in self.param_groups:
            for param in group["params"]:
                self.state[param]["sum"].share_memory_()

    def _init_state(self, param: Any, state: Options, group: Options) -> None:
        super()._init_state(param, state, group)
        start = group["initial_accumulator_value"]
        value = complex(start, start) if param.is_complex() else start
        state["sum"] = ops.full_like(param, value, memory_format=preserve_format)
