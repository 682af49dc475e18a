"""NAdam: Adam with Nesterov's momentum.

Takes parameters with gradients; writes to parameters and to the state `step`, `mu_product`, `exp_avg` and
`exp_avg_sq`. One idea: the momentum grows with the count of steps, and the gradient of this step is weighted
by the momentum of this step, the running mean by that of the next.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from weft.optim.optimizer import to_number
from weft.optim.rules import Options, Ruled, checked, chosen, columns, followed, kept, rate_of, real_views
from weft.optim.verbs import advance, check_steps
from weft.tensor.base import Tensor

__all__ = ["NAdam", "nadam"]


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

    _added = (
        ("maximize", False), ("foreach", None), ("capturable", False), ("differentiable", False),
        ("decoupled_weight_decay", False),
    )  # fmt: skip
    _scalars: ClassVar[dict[str, float]] = {"step": 0.0, "mu_product": 1.0}
    _zeros = ("exp_avg", "exp_avg_sq")

    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 2e-3, betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8, weight_decay: float = 0, momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False, *, foreach: bool | None = None, maximize: bool = False,
        capturable: bool = False, differentiable: bool = False,
    ) -> None:  # fmt: skip
        options = checked(
            lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, momentum_decay=momentum_decay,
            decoupled_weight_decay=decoupled_weight_decay, maximize=maximize, foreach=foreach,
            capturable=capturable, differentiable=differentiable,
        )  # fmt: skip
        super().__init__(params, options)

    def _update(self, group: Options, params: list[Any], grads: list[Any], states: list[Options]) -> None:
        beta1, beta2 = group["betas"]
        lists = columns(states, "exp_avg", "exp_avg_sq", "mu_product", "step")
        options = chosen(
            group, "decoupled_weight_decay", "maximize", "lr", "weight_decay", "momentum_decay", "eps"
        )
        nadam(params, grads, *lists, beta1=beta1, beta2=beta2, **options)


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
    shrinks = decoupled_weight_decay and weight_decay != 0
    lists = zip(params, grads, exp_avgs, exp_avg_sqs)
    for tensors, product, count in zip(lists, mu_products, advance(state_steps)):
        param, grad, mean, square = real_views(tensors)
        grad = followed(param, grad, 0 if shrinks else weight_decay, maximize)
        if shrinks:
            param.mul_(1 - lr * weight_decay)
        now = beta1 * (1.0 - 0.5 * 0.96 ** (count * momentum_decay))
        soon = beta1 * (1.0 - 0.5 * 0.96 ** ((count + 1) * momentum_decay))
        product.mul_(now)
        whole = to_number(product)
        mean.lerp_(grad, 1 - beta1)
        square.mul_(beta2).add_(grad * grad, alpha=1 - beta2)
        denominator = (square / (1 - beta2**count)).sqrt() + eps
        param.sub_(grad / denominator * (lr * (1.0 - now) / (1.0 - whole)))
        param.sub_(kept(mean) / denominator * (lr * soon / (1.0 - whole * soon)))
