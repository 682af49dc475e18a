"""NAdam: Adam with Nesterov's momentum.

Takes parameters with gradients; writes to parameters and to the state `step`, `mu_product`, `exp_avg` and
`exp_avg_sq`. One idea: the momentum grows with the count of steps, and the gradient of this step is weighted
by the momentum of this step, the running mean by that of the next.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from weft.optim.optimizer import to_number
from weft.optim.rules import Ruled, declared, followed, kept, rate_of, real_views
from weft.optim.verbs import advance, check_steps
from weft.tensor.base import Tensor

__all__ = ["NAdam", "nadam"]


def nadam(
    params: list[Any], grads: list[Any], exp_avgs: list[Any], exp_avg_sqs: list[Any],
    mu_products: list[Any], state_steps: list[Any], decoupled_weight_decay: bool = False,
    foreach: bool | None = None, capturable: bool = False, differentiable: bool = False,
    has_complex: bool = False, maximize: bool = False, *, beta1: float, beta2: float, lr: Any,
    weight_decay: float, momentum_decay: float, eps: float,
) -> None:  # fmt: skip
    """One step on lists of parameters, gradients, state and step counters."""
    check_steps(state_steps)
    if not all(isinstance(product, Tensor) for product in mu_products):
        raise RuntimeError("API has changed, `mu_products` argument must contain a list of singleton tensors")
    lr = rate_of(lr)
    shrinking = lr if decoupled_weight_decay else None
    lists = zip(params, grads, exp_avgs, exp_avg_sqs)
    for tensors, product, count in zip(lists, mu_products, advance(state_steps)):
        param, grad, mean, square = real_views(tensors)
        grad = followed(param, grad, weight_decay, maximize, shrinking)
        now = beta1 * (1.0 - 0.5 * 0.96 ** (count * momentum_decay))
        soon = beta1 * (1.0 - 0.5 * 0.96 ** ((count + 1) * momentum_decay))
        product.mul_(now)
        whole = to_number(product)
        mean.lerp_(grad, 1 - beta1)
        square.mul_(beta2).add_(grad * grad, alpha=1 - beta2)
        denominator = (square / (1 - beta2**count)).sqrt() + eps
        param.sub_(grad / denominator * (lr * (1.0 - now) / (1.0 - whole)))
        param.sub_(kept(mean) / denominator * (lr * soon / (1.0 - whole * soon)))


class NAdam(Ruled):
    """Adam whose step looks ahead along the momentum it will have next.

    >>> import weft
    >>> x = weft.ones(1, requires_grad=True)
    >>> x.grad = weft.tensor([1.0])
    >>> optimizer = weft.optim.NAdam([x], lr=0.1)
    >>> optimizer.step()
    >>> list(optimizer.state[x])
    ['step', 'mu_product', 'exp_avg', 'exp_avg_sq']
    """

    _scalars: ClassVar[dict[str, float]] = {"step": 0.0, "mu_product": 1.0}
    _zeros = ("exp_avg", "exp_avg_sq")
    _form = staticmethod(nadam)
    _lists = ("exp_avg", "exp_avg_sq", "mu_product", "step")
    _swapped = ("maximize", "foreach")

    @declared
    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 2e-3, betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8, weight_decay: float = 0, momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False, *, foreach: bool | None = None, maximize: bool = False,
        capturable: bool = False, differentiable: bool = False,
    ) -> None:  # fmt: skip
        ...
