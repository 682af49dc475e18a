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
from weft.optim.rules import Check, Options, Ruled, at_least, declared

__all__ = ["Muon"]

RATES = ("original", "match_rms_adamw")


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


def _muon(
    params: list[Any], grads: list[Any], momentum_buffers: list[Any], lr: Any, weight_decay: float,
    momentum: float, nesterov: bool, ns_coefficients: Any, eps: float, ns_steps: int,
    adjust_lr_fn: str | None,
) -> None:  # fmt: skip
    """One step on lists of matrices, gradients and their running means."""
    lr = to_number(lr)
    for param, grad, buffer in zip(params, grads, momentum_buffers):
        if param.is_complex():
            raise RuntimeError("Muon does not support complex parameters")
        buffer.lerp_(grad, 1 - momentum)
        direction = grad.lerp(buffer, momentum) if nesterov else buffer
        move = _orthogonal(direction, ns_coefficients, ns_steps, eps)
        param.mul_(1 - lr * weight_decay)
        param.add_(move, alpha=-lr * _ratio(adjust_lr_fn, param.shape))


def _check_adjusting(name: str | None, _options: Options) -> None:
    if name is not None and name not in RATES:
        raise ValueError(f"Adjust learning rate function {name} is not supported")


class Muon(Ruled):
    """p = (1 - lr * weight_decay) * p - lr * o, o being the orthogonal part of the momentum.

    >>> import weft
    >>> x = weft.eye(2).requires_grad_()
    >>> x.grad = weft.tensor([[3.0, 0.0], [0.0, 0.1]])
    >>> weft.optim.Muon([x], lr=0.1).step()
    >>> weft.allclose(x, 0.9 * weft.eye(2), atol=0.06)
    True
    """

    _form = staticmethod(_muon)
    _lists = _zeros = ("momentum_buffer",)
    _scalars: ClassVar[dict[str, float]] = {}
    _checks: ClassVar[dict[str, Check]] = {
        "lr": at_least("Learning rate"),
        "momentum": at_least("momentum"),
        "weight_decay": at_least("weight decay"),
        "adjust_lr_fn": _check_adjusting,
    }

    @declared
    def __init__(
        self, params: Iterable[Any], lr: float = 1e-3, weight_decay: float = 0.1, momentum: float = 0.95,
        nesterov: bool = True, ns_coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315),
        eps: float = 1e-7, ns_steps: int = 5, adjust_lr_fn: str | None = None,
    ) -> None:  # fmt: skip
        ...

    def _set_up(self, given: Options) -> None:
        super()._set_up(given)
        for group in self.param_groups:
            for param in group["params"]:
                if param.ndim != 2:
                    raise ValueError(
                        "Muon only supports 2D parameters whereas we found a parameter with size: "
                        f"{param.size()}"
                    )
