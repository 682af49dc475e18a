"""Stochastic gradient descent, with momentum, Nesterov's look-ahead, dampening and weight decay.

Takes parameters with gradients; writes to parameters and to the state `momentum_buffer`. One idea: the rule
is one function over `weft.optim.verbs`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from weft.core.modes import grad_enabled
from weft.core.seams import seams
from weft.core.types import preserve_format
from weft.ops.record import ops
from weft.optim.optimizer import overflowed, to_number, to_scalar
from weft.optim.rules import Check, Options, Ruled, declared, followed, refusing
from weft.optim.verbs import Row, update
from weft.tensor.base import Tensor

__all__ = ["SGD", "sgd"]


def _refuse_below_zero(label: str) -> Check:
    """Unlike the checks of other optimizers, this one lets NaN pass."""
    return refusing(f"Invalid {label}: {{}}", lambda number: not number < 0.0)


def _check_nesterov(nesterov: bool, options: Options) -> None:
    if nesterov and (options["momentum"] <= 0 or options["dampening"] != 0):
        raise ValueError("Nesterov momentum requires a momentum and zero dampening")


def sgd(
    params: list[Any], d_p_list: list[Any], momentum_buffer_list: list[Any], has_sparse_grad: bool = False,
    foreach: bool | None = None, fused: bool | None = None, grad_scale: Any = None, found_inf: Any = None, *,
    weight_decay: Any, momentum: float, lr: Any, dampening: float, nesterov: bool, maximize: bool,
) -> None:  # fmt: skip
    """One step on lists of parameters, gradients and momentum buffers; fills in buffers that are None."""
    if overflowed(d_p_list, grad_scale, found_inf):
        return
    lr, weight_decay = to_scalar(lr), to_scalar(weight_decay)
    if grad_enabled():
        _differentiable(
            params, d_p_list, momentum_buffer_list, weight_decay, momentum, lr, dampening, nesterov, maximize
        )
        return
    plain = (to_number(weight_decay) or None, -float(to_number(lr)), maximize)
    if not momentum:
        update(_descend, [(tensors, plain) for tensors in zip(params, d_p_list)])
        return
    numbers = (*plain, float(momentum), float(1 - dampening), nesterov)
    first: list[Row] = []
    later: list[Row] = []
    for position, (param, grad) in enumerate(zip(params, d_p_list)):
        buffer = momentum_buffer_list[position]
        rows = later
        if buffer is None:
            buffer = momentum_buffer_list[position] = grad.detach().clone()
            rows = first
        rows.append(((param, grad, buffer), numbers))
    if first:
        update(_start, first)
    if later:
        update(_descend, later)


def _descend(
    do: Any, tensors: Any, decay: Any, size: Any, maximize: bool, momentum: Any = None, gain: Any = None,
    nesterov: bool = False,
) -> None:  # fmt: skip
    param, grad, *buffers = tensors
    if maximize:
        grad = do.neg(grad)
    if decay is not None:
        grad = do.plus(grad, param, decay)
    for buffer in buffers:  # one, where there is momentum
        do.scale(buffer, momentum)
        do.add(buffer, grad, gain)
        grad = do.plus(grad, buffer, momentum) if nesterov else buffer
    do.add(param, grad, size)


def _start(
    do: Any, tensors: Any, decay: Any, size: Any, maximize: bool, momentum: Any, gain: Any, nesterov: bool
) -> None:
    """The first step: the buffer holds the gradient."""
    param, _grad, buffer = tensors
    if maximize:
        do.scale(buffer, -1)
    if decay is not None:
        do.add(buffer, param, decay)
    do.add(param, do.plus(buffer, buffer, momentum) if nesterov else buffer, size)


def _differentiable(
    params: list[Any], grads: list[Any], buffers: list[Any], weight_decay: Any, momentum: float, lr: Any,
    dampening: float, nesterov: bool, maximize: bool,
) -> None:  # fmt: skip
    """As the rules above, on tensors that gradients flow through: what is saved is not written to
    afterwards."""
    for position, param in enumerate(params):
        grad = followed(param, grads[position], weight_decay, maximize)
        if momentum != 0:
            buffer = buffers[position]
            if buffer is None:
                buffer = buffers[position] = grad.detach().clone()
            else:
                buffer.mul_(momentum).add_(grad, alpha=1 - dampening)
            grad = grad.add(buffer, alpha=momentum) if nesterov else buffer
        if isinstance(lr, Tensor):
            param.addcmul_(grad.clone(), lr, value=-1)
        else:
            param.add_(grad, alpha=-lr)


class SGD(Ruled):
    """p -= lr * b, where b = momentum * b + (1 - dampening) * (gradient + weight_decay * p)."""

    _form = staticmethod(sgd)
    _lists = ("momentum_buffer",)
    _sparse = True
    _scalars: ClassVar[dict[str, float]] = {}
    _checks: ClassVar[dict[str, Check]] = {
        "lr": _refuse_below_zero("learning rate"),
        "momentum": _refuse_below_zero("momentum value"),
        "weight_decay": _refuse_below_zero("weight_decay value"),
        "nesterov": _check_nesterov,
    }
    _late: ClassVar[Options] = {"nesterov": False, "fused": False}

    @declared
    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 1e-3, momentum: float = 0, dampening: float = 0,
        weight_decay: float | Tensor = 0, nesterov: bool = False, *, maximize: bool = False,
        foreach: bool | None = None, differentiable: bool = False, fused: bool | None = None,
    ) -> None:  # fmt: skip
        ...

    def _init_states(self, params: list[Any], group: Options) -> None:
        """Makes buffers for a captured step, so that the first one is no special case."""
        for param in params if self._keeps_state(group) else ():
            if self.state[param].get("momentum_buffer") is None:
                seams.making_state(self)
                self._init_state(param, self.state[param], group)

    def _keeps_state(self, group: Options) -> bool:
        return bool(group["momentum"]) and not group["dampening"] and not group["differentiable"]

    def _init_state(self, param: Any, state: Options, group: Options) -> None:
        """A buffer from which `_descend` gives what `_start` gives: -0.0 adds nothing to any number."""
        state["momentum_buffer"] = ops.full_like(param, -0.0, memory_format=preserve_format)

    def _update(self, group: Options, params: list[Any], grads: list[Any]) -> None:
        state = self.state
        moves = group["momentum"] != 0
        if moves and seams.is_compiling():
            self._init_states(params, group)
        buffers = [state[param].get("momentum_buffer") for param in params] if moves else []
        sgd(params, grads, buffers, **self._given(group))
        if moves:
            for param, buffer in zip(params, buffers):
                state[param]["momentum_buffer"] = buffer
