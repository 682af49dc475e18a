"""Muon: momentum whose direction is made orthogonal, for matrices.

Takes matrices with gradients; writes to them and to the state `momentum_buffer`. One idea: a few iterations
of a polynomial in the matrix bring all singular values near 1, in bfloat16, which is exact enough for a
direction.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, ClassVar

from weft.ops.record import ops
from weft.optim.optimizer import to_number
from weft.optim.rules import Options, Ruled, check_rate

__all__ = ["Muon"]

RATES = ("original", "match_rms_adamw")


class Muon(Ruled):
    """p = (1 - lr * weight_decay) * p - lr * o, o being the orthogonal part of the momentum.

    >>> import weft
    >>> x = weft.eye(2).requires_grad_()
    >>> x.grad = weft.tensor([[3.0, 0.0], [0.0, 0.1]])
    >>> weft.optim.Muon([x], lr=0.1).step()
    >>> weft.allclose(x, 0.9 * weft.eye(2), atol=0.06)
    True
    """

    _scalars: ClassVar[dict[str, float]] = {}
    _zeros = ("momentum_buffer",)

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-3, weight_decay: float = 0.1, momentum: float = 0.95,
        nesterov: bool = True, ns_coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315),
        eps: float = 1e-7, ns_steps: int = 5, adjust_lr_fn: str | None = None,
    ) -> None:  # fmt: skip
        check_rate(lr)
        for label, value in (("Learning rate", lr), ("momentum", momentum), ("weight decay", weight_decay)):
            if not to_number(value) >= 0.0:
                raise ValueError(f"{label} should be >= 0 but is: {value}")
        if adjust_lr_fn is not None and adjust_lr_fn not in RATES:
            raise ValueError(f"Adjust learning rate function {adjust_lr_fn} is not supported")
        options = {
            "lr": lr, "weight_decay": weight_decay, "momentum": momentum, "nesterov": nesterov,
            "ns_coefficients": ns_coefficients, "eps": eps, "ns_steps": ns_steps,
            "adjust_lr_fn": adjust_lr_fn,
        }  # fmt: skip
        super().__init__(params, options)
        for group in self.param_groups:
            for param in group["params"]:
                if param.ndim != 2:
                    raise ValueError(
                        "Muon only supports 2D parameters whereas we found a parameter with size: "
                        f"{param.size()}"
                    )

    def _update(self, group: Options, params: list[Any], grads: list[Any], states: list[Options]) -> None:
        lr, momentum = to_number(group["lr"]), group["momentum"]
        for param, grad, state in zip(params, grads, states):
            buffer = state["momentum_buffer"]
            if param.is_complex():
                raise RuntimeError("Muon does not support complex parameters")
            buffer.lerp_(grad, 1 - momentum)
            direction = grad.lerp(buffer, momentum) if group["nesterov"] else buffer
            move = _orthogonal(direction, group["ns_coefficients"], group["ns_steps"], group["eps"])
            param.mul_(1 - lr * group["weight_decay"])
            param.add_(move, alpha=-lr * _ratio(group["adjust_lr_fn"], param.shape))


def _orthogonal(matrix: Any, coefficients: Any, steps: int, eps: float) -> Any:
    """The matrix with all singular values near 1, by Newton-Schulz iterations of the fifth degree."""
    if steps >= 100:
        raise ValueError("Number of steps must be less than 100 for computational efficiency")
    if len(coefficients) != 3:
        raise ValueError("Coefficients must be a tuple of exactly 3 values")
    first, third, fifth = coefficients
    tall = matrix.size(0) > matrix.size(1)
    value = matrix.bfloat16()
    value = value.T if tall else value
    value = value / value.norm().clamp(min=eps)  # no singular value is above 1 then
    for _ in range(steps):
        gram = value @ value.T
        value = ops.addmm(value, ops.addmm(gram, gram, gram, beta=third, alpha=fifth), value, beta=first)
    return value.T if tall else value


def _ratio(kind: str | None, shape: Any) -> float:
    """By what a rate is multiplied for a matrix of this shape."""
    if kind == "match_rms_adamw":
        return 0.2 * math.sqrt(max(shape[0], shape[1]))
    return math.sqrt(max(1, shape[0] / shape[1]))
