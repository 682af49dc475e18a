"""Rprop: a step size per element, which grows while the gradient keeps its sign and shrinks when it turns.

Takes parameters with gradients; writes to parameters and to the state `step`, `prev` and `step_size`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from weft.ops.record import ops
from weft.optim.optimizer import to_number
from weft.optim.rules import Options, Ruled, declared, followed, kept, real_views
from weft.optim.verbs import check_steps, count_up
from weft.tensor.base import Tensor

__all__ = ["Rprop", "rprop"]


def rprop(
    params: list[Any], grads: list[Any], prevs: list[Any], step_sizes: list[Any], state_steps: list[Any],
    foreach: bool | None = None, capturable: bool = False, maximize: bool = False,
    differentiable: bool = False, has_complex: bool = False, *, step_size_min: float, step_size_max: float,
    etaminus: float, etaplus: float,
) -> None:  # fmt: skip
    """One step on lists of parameters, gradients, earlier gradients, step sizes and step counters."""
    check_steps(state_steps)
    count_up(state_steps)
    for tensors in zip(params, grads, prevs, step_sizes):
        param, grad, before, size = real_views(tensors)
        grad = followed(param, grad, 0, maximize)
        turn = grad * kept(before)
        changed = ops.where(turn > 0, size * etaplus, ops.where(turn < 0, size * etaminus, size))
        size.copy_(changed.clamp(step_size_min, step_size_max))
        grad = ops.where(turn < 0, ops.zeros_like(grad), grad)  # not at once again the other way
        param.sub_(grad.sign() * kept(size))
        before.copy_(grad)


class Rprop(Ruled):
    """p -= sign(g) * s, s being multiplied by etas[1] where the sign stays and by etas[0] where it changes.

    >>> import weft
    >>> x = weft.ones(2, requires_grad=True)
    >>> x.grad = weft.tensor([1.0, -4.0])
    >>> weft.optim.Rprop([x], lr=0.5).step()
    >>> x.tolist()
    [0.5, 1.5]
    """

    _zeros = ("prev",)
    _form = staticmethod(rprop)
    _lists = ("prev", "step_size", "step")
    _swapped = ("foreach", "maximize", "differentiable", "capturable")

    @declared
    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 1e-2, etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50), *, capturable: bool = False,
        foreach: bool | None = None, maximize: bool = False, differentiable: bool = False,
    ) -> None:  # fmt: skip
        ...

    def _init_state(self, param: Any, state: Options, group: Options) -> None:
        super()._init_state(param, state, group)
        size = to_number(group["lr"])
        state["step_size"] = ops.full_like(param, complex(size, size) if param.is_complex() else size)
