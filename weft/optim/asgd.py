"""ASGD: stochastic gradient descent with falling steps, which also averages the parameters it passes.

Takes parameters with gradients; writes to parameters and to the state `step`, `eta`, `mu` and `ax`, the
average. One idea: the average is the parameter itself until step `t0`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from weft.core.dtypes import float64
from weft.core.seams import seams
from weft.ops.record import ops
from weft.optim.optimizer import new_step, to_number
from weft.optim.rules import Options, Ruled, declared, followed, real_views
from weft.optim.verbs import advance, check_steps
from weft.tensor.base import Tensor

__all__ = ["ASGD", "asgd"]


def asgd(
    params: list[Any], grads: list[Any], axs: list[Any], mus: list[Any], etas: list[Any],
    state_steps: list[Any], foreach: bool | None = None, maximize: bool = False,
    differentiable: bool = False, capturable: bool = False, has_complex: bool = False, *, lambd: float,
    lr: Any, t0: float, alpha: float, weight_decay: float,
) -> None:  # fmt: skip
    """One step on lists of parameters, gradients, averages, their weights, step sizes and step counters."""
    check_steps(state_steps)
    lr = to_number(lr)
    for tensors, mu, eta, count in zip(zip(params, grads, axs), mus, etas, advance(state_steps)):
        param, grad, average = real_views(tensors)
        grad = followed(param, grad, weight_decay, maximize)
        size = eta.item()
        param.mul_(1 - lambd * size)
        param.sub_(grad * size)
        if seams.is_compiling():
            average.copy_(ops.where(mu == 1, param, average + (param - average) * mu))
            steps = ops.add(ops.zeros((), dtype=float64, device=param.device), count)
            mu.copy_(1 / (steps - t0).clamp(min=1.0))
            eta.copy_(lr / (steps * (lambd * lr) + 1) ** alpha)
            continue
        if mu.item() == 1:
            average.copy_(param)
        else:
            average.add_((param - average) * mu.item())
        mu.fill_(1 / max(1, count - t0))
        eta.fill_(lr / ((1 + lambd * lr * count) ** alpha))


class ASGD(Ruled):
    """p = (1 - lambd * eta) * p - eta * g, and ax += mu * (p - ax).

    >>> import weft
    >>> x = weft.ones(2, requires_grad=True)
    >>> x.grad = weft.tensor([1.0, -4.0])
    >>> optimizer = weft.optim.ASGD([x], lr=0.5, lambd=0)
    >>> optimizer.step()
    >>> x.tolist(), optimizer.state[x]["ax"].tolist()
    ([0.5, 3.0], [0.5, 3.0])
    """

    _scalars: ClassVar[dict[str, float]] = {"step": 0.0, "eta": 0.0, "mu": 1.0}
    _zeros = ("ax",)
    _form = staticmethod(asgd)
    _lists = ("ax", "mu", "eta", "step")

    @declared
    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 1e-2, lambd: float = 1e-4, alpha: float = 0.75,
        t0: float = 1e6, weight_decay: float = 0, foreach: bool | None = None, maximize: bool = False,
        differentiable: bool = False, capturable: bool = False,
    ) -> None:  # fmt: skip
        ...

    def _init_state(self, param: Any, state: Options, group: Options) -> None:
        super()._init_state(param, state, group)
        state["eta"] = new_step(param, None, to_number(group["lr"]))
