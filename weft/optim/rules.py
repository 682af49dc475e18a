"""What optimizers share that follow a rule: options and their checks, state, one call of the rule per group.

Takes an optimizer class that names its state (`_scalars`, `_zeros`) and hands a group's lists and options to
its functional form (`_update`); gives `step`, and the loading of old state dicts. One idea: a functional form
makes new tensors for what it computes and writes only to parameters and state, so that one text serves eager
steps, captured ones and those that gradients flow through.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from weft.core.modes import grad_enabled
from weft.core.seams import seams
from weft.core.types import preserve_format
from weft.ops.record import ops
from weft.optim.optimizer import (
    Optimizer,
    check_one_element,
    evaluate,
    new_step,
    to_number,
    to_scalar,
    without_recording,
)
from weft.tensor.base import Tensor

Options = dict[str, Any]


# -- options -------------------------------------------------------------------------------------------------
def not_negative(label: str) -> Callable[[Any], None]:
    """A check that refuses what is below zero."""

    def check(value: Any) -> None:
        if not to_number(value) >= 0.0:
            raise ValueError(f"Invalid {label}: {value}")

    return check


def _check_rho(rho: Any) -> None:
    if not 0.0 <= to_number(rho) <= 1.0:
        raise ValueError(f"Invalid rho value: {rho}")


def _check_betas(betas: Iterable[Any]) -> None:
    for index, beta in enumerate(betas):
        if not 0.0 <= beta < 1.0:
            raise ValueError(f"Invalid beta parameter at index {index}: {beta}")


def _check_etas(etas: Any) -> None:
    if not 0.0 < etas[0] < 1.0 < etas[1]:
        raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")


CHECKS: dict[str, Callable[[Any], None]] = {
    "lr": not_negative("learning rate"),
    "lr_decay": not_negative("lr_decay value"),
    "rho": _check_rho,
    "eps": not_negative("epsilon value"),
    "etas": _check_etas,
    "betas": _check_betas,
    "momentum": not_negative("momentum value"),
    "weight_decay": not_negative("weight_decay value"),
    "momentum_decay": not_negative("momentum_decay value"),
    "initial_accumulator_value": not_negative("initial_accumulator_value value"),
}
"""What is refused of an option, in the order in which options are looked at."""


def checked(own: dict[str, Callable[[Any], None]] | None = None, /, **options: Any) -> Options:
    """The options of an optimizer, all that `CHECKS`, or its own checks, know of them being fit."""
    check_rate(options["lr"])
    for name, check in (CHECKS | (own or {})).items():
        if name in options:
            check(options[name])
    return options


def check_rate(lr: Any, foreach: Any = None, capturable: bool = True) -> None:
    """Refuses tensors of several elements, and tensors at all where lists are to be updated at once."""
    if isinstance(lr, Tensor) and foreach and not capturable:
        raise ValueError("lr as a Tensor is not supported for capturable=False and foreach=True")
    check_one_element("lr", lr)


def rate_of(lr: Any) -> Any:
    """The rate as a number; as the tensor it is where gradients may flow to it."""
    lr = to_scalar(lr)
    if isinstance(lr, Tensor) and grad_enabled() and lr.requires_grad:
        return lr
    return to_number(lr)


def followed(param: Any, grad: Any, weight_decay: Any, maximize: bool) -> Any:
    """The gradient that a rule follows: towards the maximum, and with decay of the parameter in it."""
    if maximize:
        grad = grad.neg()
    if isinstance(weight_decay, Tensor) or weight_decay != 0:
        grad = grad + (param.clone() if grad_enabled() else param) * weight_decay
    return grad


def kept(tensor: Any) -> Any:
    """State as a rule may read it: a copy where gradients flow, because the next step writes to it."""
    return tensor.clone() if grad_enabled() else tensor


def real_views(tensors: tuple[Any, ...]) -> tuple[Any, ...]:
    """Complex parameters are trained as pairs of real ones."""
    if tensors[0].array.dtype.kind != "c":
        return tensors
    return tuple(ops.view_as_real(tensor) for tensor in tensors)


def zeros(param: Any) -> Any:
    """State that begins as zeros."""
    return ops.zeros_like(param, memory_format=preserve_format)


class Ruled(Optimizer):
    """An optimizer whose `_update` does a step on lists of parameters, gradients and states."""

    _added: tuple[tuple[str, Any], ...] = ()
    """Options that old state dicts do not have, with what stands for them."""
    _scalars: ClassVar[dict[str, float]] = {"step": 0.0}
    """Entries of the state that are counters and the like, and how they begin; numbers in old state dicts."""
    _zeros: tuple[str, ...] = ()
    """Entries of the state that have the parameter's shape, and begin as zeros."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            for name, default in self._added:
                group.setdefault(name, default)
            for param in group["params"]:
                known = self.state.get(param) or {}
                for name in self._scalars if known else ():
                    if not isinstance(known[name], Tensor):
                        known[name] = new_step(param, group.get("fused"), float(known[name]))

    def _init_state(self, param: Any, state: Options, group: Options) -> None:
        for name, start in self._scalars.items():
            state[name] = new_step(param, group.get("fused"), start)
        for name in self._zeros:
            state[name] = zeros(param)

    def _update(self, group: Options, params: list[Any], grads: list[Any], states: list[Options]) -> None:
        raise NotImplementedError

    @without_recording
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One update; gives the loss of the closure, if there is one."""
        loss = evaluate(closure)
        for group in self.param_groups:
            params: list[Any] = []
            grads: list[Any] = []
            states: list[Options] = []
            for param in group["params"]:
                grad = param.grad
                if grad is None:
                    continue
                state = self.state[param]
                if not state:
                    seams.making_state(self)
                    self._init_state(param, state, group)
                params.append(param)
                grads.append(grad)
                states.append(state)
            if params:
                self._update(group, params, grads, states)
        return loss


def columns(states: list[Options], *names: str) -> Any:
    """Entries of the states, as one list for each name."""
    lists = []
    for name in names:
        lists.append([state[name] for state in states])
    return lists


def chosen(group: Options, *names: str) -> Options:
    """The options of these names."""
    options = {}
    for name in names:
        options[name] = group[name]
    return options
