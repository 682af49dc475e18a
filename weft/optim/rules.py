"""What optimizers share whose rule is plain tensor code: gathering, state, one call of the rule per group.

Takes an optimizer class that says how its state starts (`_init_state`) and what a step does to lists of
tensors (`_update`); gives `step`. One idea: such a rule makes new tensors for what it computes and writes
only to parameters and state, so that one text serves eager steps, captured ones and those that gradients flow
through.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from weft.core.modes import grad_enabled
from weft.core.seams import seams
from weft.optim.adam import real_views as real_views
from weft.optim.optimizer import (
    Optimizer,
    check_one_element,
    evaluate,
    to_number,
    to_scalar,
    without_recording,
)
from weft.tensor.base import Tensor


# -- options -------------------------------------------------------------------------------------------------
def _not_negative(label: str) -> Callable[[Any], None]:
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
    "lr": _not_negative("learning rate"),
    "lr_decay": _not_negative("lr_decay value"),
    "rho": _check_rho,
    "eps": _not_negative("epsilon value"),
    "etas": _check_etas,
    "betas": _check_betas,
    "weight_decay": _not_negative("weight_decay value"),
    "momentum_decay": _not_negative("momentum_decay value"),
    "initial_accumulator_value": _not_negative("initial_accumulator_value value"),
}
"""What is refused of an option, in the order in which options are looked at."""


def checked(**options: Any) -> dict[str, Any]:
    """The options of an optimizer, all that `CHECKS` knows of them being fit."""
    check_rate(options["lr"])
    for name, check in CHECKS.items():
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


class Ruled(Optimizer):
    """An optimizer whose `_update` does a step on lists of parameters, gradients and states."""

    _added: tuple[tuple[str, Any], ...] = ()
    """Options that old state dicts do not have, with what stands for them."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            for name, default in self._added:
                group.setdefault(name, default)
            self._restore_steps(group)

    def _init_state(self, param: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        raise NotImplementedError

    def _update(
        self, group: dict[str, Any], params: list[Any], grads: list[Any], states: list[dict[str, Any]]
    ) -> None:
        raise NotImplementedError

    @without_recording
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One update; gives the loss of the closure, if there is one."""
        loss = evaluate(closure)
        for group in self.param_groups:
            params: list[Any] = []
            grads: list[Any] = []
            states: list[dict[str, Any]] = []
            for param, grad, state in self._with_gradients(group):
                if not state:
                    seams.making_state(self)
                    self._init_state(param, state, group)
                params.append(param)
                grads.append(grad)
                states.append(state)
            if params:
                self._update(group, params, grads, states)
        return loss


def column(states: list[dict[str, Any]], name: str) -> list[Any]:
    """One entry of every state."""
    return [state[name] for state in states]
