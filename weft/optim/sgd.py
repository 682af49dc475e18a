"""Stochastic gradient descent, with momentum, Nesterov's look-ahead, dampening and weight decay.

Takes parameters with gradients; writes to parameters and to the state `momentum_buffer`. One idea: the rule
is one function over `weft.optim.verbs`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from weft.core.modes import grad_enabled
from weft.core.seams import seams
from weft.core.types import preserve_format
from weft.ops.record import ops
from weft.optim.optimizer import (
    Optimizer,
    check_fused,
    check_one_element,
    evaluate,
    overflowed,
    to_number,
    to_scalar,
    without_recording,
)
from weft.optim.verbs import Row, update
from weft.tensor.base import Tensor

__all__ = ["SGD", "sgd"]


class SGD(Optimizer):
    """p -= lr * b, where b = momentum * b + (1 - dampening) * (gradient + weight_decay * p)."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float | Tensor = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_one_element("lr", lr)
        for label, value in (
            ("learning rate", lr),
            ("momentum value", momentum),
            ("weight_decay value", weight_decay),
        ):
            if to_number(value) < 0.0:
                raise ValueError(f"Invalid {label}: {value}")
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
            "maximize": maximize,
            "foreach": foreach,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults)
        check_fused(self, fused, foreach, differentiable)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            for name, default in (
                ("nesterov", False),
                ("maximize", False),
                ("foreach", None),
                ("differentiable", False),
                ("fused", False),
            ):
                group.setdefault(name, default)

    def _init_states(self, params: list[Any], group: dict[str, Any]) -> None:
        """Makes buffers for a captured step, so that the first one is no special case."""
        for param in params if self._keeps_state(group) else ():
            if self.state[param].get("momentum_buffer") is None:
                seams.making_state(self)
                self._init_state(param, self.state[param], group)

    def _keeps_state(self, group: dict[str, Any]) -> bool:
        return bool(group["momentum"]) and not group["dampening"] and not group["differentiable"]

    def _init_state(self, param: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        """A buffer from which `_continue` gives what `_start` gives: -0.0 adds nothing to any number."""
        state["momentum_buffer"] = ops.full_like(param, -0.0, memory_format=preserve_format)

    @without_recording
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One update; gives the loss of the closure, if there is one."""
        loss = evaluate(closure)
        for group in self.param_groups:
            params = [param for param in group["params"] if param.grad is not None]
            if not params:
                continue
            state = self.state
            moves = group["momentum"] != 0
            if moves and seams.is_compiling():
                self._init_states(params, group)
            buffers = [state[param].get("momentum_buffer") for param in params] if moves else []
            sgd(
                params,
                [param.grad for param in params],
                buffers,
                foreach=group["foreach"],
                fused=group["fused"],
                grad_scale=getattr(self, "grad_scale", None),
                found_inf=getattr(self, "found_inf", None),
                weight_decay=group["weight_decay"],
                momentum=group["momentum"],
                lr=group["lr"],
                dampening=group["dampening"],
                nesterov=group["nesterov"],
                maximize=group["maximize"],
            )
            if moves:
                for param, buffer in zip(params, buffers):
                    state[param]["momentum_buffer"] = buffer
        return loss


def sgd(
    params: list[Any],
    d_p_list: list[Any],
    momentum_buffer_list: list[Any],
    has_sparse_grad: bool = False,
    foreach: bool | None = None,
    fused: bool | None = None,
    grad_scale: Any = None,
    found_inf: Any = None,
    *,
    weight_decay: Any,
    momentum: float,
    lr: Any,
    dampening: float,
    nesterov: bool,
    maximize: bool,
) -> None:
    """One step on lists of parameters, gradients and momentum buffers; fills in buffers that are None."""
    if overflowed(d_p_list, grad_scale, found_inf):
        return
    lr, weight_decay = to_scalar(lr), to_scalar(weight_decay)
    if grad_enabled():
        _differentiable(
            params, d_p_list, momentum_buffer_list, weight_decay, momentum, lr, dampening, nesterov, maximize
        )
        return
    decay, size = to_number(weight_decay) or None, -float(to_number(lr))
    if not momentum:
        plain = (decay, size, maximize)
        update(_descend, [((param, grad), plain) for param, grad in zip(params, d_p_list)])
        return
    numbers = (decay, size, maximize, float(momentum), float(1 - dampening), nesterov)
    first: list[Row] = []
    later: list[Row] = []
    for position, (param, grad) in enumerate(zip(params, d_p_list)):
        buffer = momentum_buffer_list[position]
        if buffer is None:
            buffer = momentum_buffer_list[position] = grad.detach().clone()
            first.append(((param, grad, buffer), numbers))
        else:
            later.append(((param, grad, buffer), numbers))
    if first:
        update(_start, first)
    if later:
        update(_continue, later)


def _seen(do: Any, param: Any, grad: Any, decay: Any, maximize: bool) -> Any:
    """The gradient that is followed."""
    if maximize:
        grad = do.neg(grad)
    return grad if decay is None else do.plus(grad, param, decay)


def _descend(do: Any, param: Any, grad: Any, decay: Any, size: Any, maximize: bool) -> None:
    do.add(param, _seen(do, param, grad, decay, maximize), size)


def _start(
    do: Any, param: Any, grad: Any, buffer: Any,
    decay: Any, size: Any, maximize: bool, momentum: Any, gain: Any, nesterov: bool,
) -> None:  # fmt: skip
    """The first step: the buffer holds the gradient."""
    if maximize:
        do.scale(buffer, -1)
    if decay is not None:
        do.add(buffer, param, decay)
    do.add(param, do.plus(buffer, buffer, momentum) if nesterov else buffer, size)


def _continue(
    do: Any, param: Any, grad: Any, buffer: Any,
    decay: Any, size: Any, maximize: bool, momentum: Any, gain: Any, nesterov: bool,
) -> None:  # fmt: skip
    grad = _seen(do, param, grad, decay, maximize)
    do.scale(buffer, momentum)
    do.add(buffer, grad, gain)
    do.add(param, do.plus(grad, buffer, momentum) if nesterov else buffer, size)


def _differentiable(
    params: list[Any],
    grads: list[Any],
    buffers: list[Any],
    weight_decay: Any,
    momentum: float,
    lr: Any,
    dampening: float,
    nesterov: bool,
    maximize: bool,
) -> None:
    """As the rules above, on tensors that gradients flow through: what is saved is not written to
    afterwards."""
    for position, (param, given) in enumerate(zip(params, grads)):
        grad = -given if maximize else given
        if isinstance(weight_decay, Tensor) or weight_decay != 0:
            grad = grad + param.clone() * weight_decay
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
