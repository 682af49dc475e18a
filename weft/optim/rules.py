"""What optimizers share that follow a rule: options and their checks, state, one call of the rule per group.

Takes an optimizer class whose constructor's parameters are its options, which names its state (`_scalars`,
`_zeros`) and the functional form of its rule (`_form`); gives the rest of the constructor (`declared`),
`step`, and the loading of old state dicts. One idea: what the form takes by an option's name it is given, so
that signatures are the only list of options there is. A form makes new tensors for what it computes and
writes only to parameters and state, so that one text serves eager steps, captured ones and those that
gradients flow through.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, ClassVar, TypeVar, cast

from weft.core.modes import grad_enabled
from weft.core.seams import seams
from weft.core.types import preserve_format, strided
from weft.ops.record import ops
from weft.optim.optimizer import (
    Optimizer,
    check_fused,
    check_one_element,
    evaluate,
    new_step,
    to_number,
    to_scalar,
    without_recording,
)
from weft.tensor.base import Tensor

Options = dict[str, Any]
Check = Callable[[Any, Options], None]
Init = TypeVar("Init", bound=Callable[..., None])


# -- options -------------------------------------------------------------------------------------------------
def refusing(text: str, fits: Callable[[Any], bool] = lambda number: bool(number >= 0.0)) -> Check:
    """A check that raises ValueError with this text, in which `{}` is the value, where a number does not
    fit."""

    def check(value: Any, _options: Options) -> None:
        if not fits(to_number(value)):
            raise ValueError(text.format(value))

    return check


def at_least(label: str, low: float = 0) -> Check:
    """A check that refuses less than this, in the words of newer optimizers."""
    return refusing(f"{label} should be >= {low:g} but is: {{}}", lambda number: bool(number >= low))


def _check_betas(betas: Any, _options: Options) -> None:
    for index, beta in enumerate(betas):
        if not 0.0 <= beta < 1.0:
            raise ValueError(f"Invalid beta parameter at index {index}: {beta}")


def _check_etas(etas: Any, _options: Options) -> None:
    if not 0.0 < etas[0] < 1.0 < etas[1]:
        raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")


CHECKS: dict[str, Check] = {
    "lr": refusing("Invalid learning rate: {}"),
    "lr_decay": refusing("Invalid lr_decay value: {}"),
    "rho": refusing("Invalid rho value: {}", lambda rho: 0.0 <= rho <= 1.0),
    "eps": refusing("Invalid epsilon value: {}"),
    "etas": _check_etas,
    "betas": _check_betas,
    "momentum": refusing("Invalid momentum value: {}"),
    "weight_decay": refusing("Invalid weight_decay value: {}"),
    "momentum_decay": refusing("Invalid momentum_decay value: {}"),
    "initial_accumulator_value": refusing("Invalid initial_accumulator_value value: {}"),
}
"""What is refused of an option, in the order in which options are looked at."""
PARTS = {
    "betas": ("beta1", "beta2"),
    "eps": ("eps1", "eps2"),
    "etas": ("etaminus", "etaplus"),
    "step_sizes": ("step_size_min", "step_size_max"),
}
"""Options of two values, and what the forms call these that take them one by one."""
LATE: Options = {
    "amsgrad": False, "foreach": None, "maximize": False, "capturable": False, "differentiable": False,
    "fused": None, "decoupled_weight_decay": False,
}  # fmt: skip
"""Options that old state dicts do not have, with what stands for them."""


def checked(options: Options, own: dict[str, Check]) -> Options:
    """The options, all that `CHECKS`, or an optimizer's own checks, know of them being fit."""
    check_one_element("lr", options["lr"])
    for name, check in (CHECKS | own).items():
        if name in options:
            check(options[name], options)
    return options


def rate_of(lr: Any) -> Any:
    """The rate as a number; as the tensor it is where gradients may flow to it."""
    lr = to_scalar(lr)
    if isinstance(lr, Tensor) and grad_enabled() and lr.requires_grad:
        return lr
    return to_number(lr)


def followed(param: Any, grad: Any, weight_decay: Any, maximize: bool, lr: Any = None) -> Any:
    """The gradient that a rule follows: towards the maximum, and with decay of the parameter in it. Where a
    rate is given, decay is decoupled: the parameter itself shrinks."""
    if maximize:
        grad = grad.neg()
    if isinstance(weight_decay, Tensor) or weight_decay != 0:
        if lr is not None:
            param.mul_(1 - lr * weight_decay)
        else:
            grad = grad + kept(param) * weight_decay
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


def declared(init: Init) -> Init:
    """Decorator of a constructor that says parameters and options, and nothing else: `Ruled._set_up` is the
    rest."""
    parameters = tuple(inspect.signature(init).parameters.values())[1:]
    names = tuple(each.name for each in parameters)
    defaults = {each.name: each.default for each in parameters[1:]}

    @wraps(init)
    def construct(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)  # refuses what it does not know
        self._set_up({**defaults, **dict(zip(names, args)), **kwargs})

    return cast(Init, construct)


class Ruled(Optimizer):
    """An optimizer whose `_form` does a step on lists of parameters, gradients and entries of the state."""

    _form: ClassVar[Callable[..., None]]
    """The functional form; after parameters and gradients it takes a list for each of `_lists`."""
    _lists: tuple[str, ...] = ()
    """Entries of the state, in the order in which the form takes them."""
    _checks: ClassVar[dict[str, Check]] = {}
    """Checks of options beside, or in place of, those in `CHECKS`."""
    _swapped: tuple[str, ...] = ()
    """Options that stand in a group in this order, which is another in the constructor."""
    _fixed: ClassVar[Options] = {}
    """Options that the constructor does not take, and the values they have."""
    _late: ClassVar[Options] = {}
    """The same beside, or in place of, those in `LATE`."""
    _scalars: ClassVar[dict[str, float]] = {"step": 0.0}
    """Entries of the state that are counters and the like, and how they begin; numbers in old state dicts."""
    _zeros: tuple[str, ...] = ()
    """Entries of the state that have the parameter's shape, and begin as zeros."""
    _zeros_with: ClassVar[dict[str, str]] = {}
    """The same that are there only with an option, by its name; without it their list is empty."""
    _options: tuple[str, ...] = ()
    """The names of all options: what the constructor takes beside parameters."""
    _taken: tuple[str, ...] = ()
    """Those of them that the form takes whole."""
    _parts: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Those that it takes apart; see `PARTS`."""
    _sparse: bool | str = False
    """Whether gradients may be sparse, or what to say where they are."""
    _scaled: bool = False
    """Whether the form takes what `GradScaler` says; see `overflowed`."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "_form" in cls.__dict__:
            names, swapped = tuple(inspect.signature(cls).parameters)[1:], iter(cls._swapped)
            cls._options = tuple(next(swapped) if name in cls._swapped else name for name in names)
            takes = tuple(inspect.signature(cls._form).parameters)[2 + len(cls._lists) :]
            cls._taken = tuple(name for name in cls._options if name in takes)
            cls._parts = tuple(
                (name, parts) for name, parts in PARTS.items() if name in cls._options and parts[0] in takes
            )
            cls._scaled = "grad_scale" in takes

    def _set_up(self, given: Options) -> None:
        """The rest of a constructor, which took these arguments."""
        given = {**given, **self._fixed}
        options = {name: given[name] for name in self._options}
        super().__init__(given["params"], checked(options, self._checks))
        check_fused(self, options.get("fused"), options.get("foreach"), options.get("differentiable", False))

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        late = {name: value for name, value in (LATE | self._late).items() if name in self._options}
        for group in self.param_groups:
            for name, value in late.items():
                group.setdefault(name, value)
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
        for name, option in self._zeros_with.items():
            if group[option]:
                state[name] = zeros(param)

    def _given(self, group: Options) -> Options:
        """What the form takes by name, of a group's options."""
        options = {}
        for name in self._taken:
            options[name] = group[name]
        for name, parts in self._parts:
            for part, value in zip(parts, group[name]):
                options[part] = value
        if self._scaled:
            options["grad_scale"] = getattr(self, "grad_scale", None)
            options["found_inf"] = getattr(self, "found_inf", None)
        return options

    @without_recording
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One update; gives the loss of the closure, if there is one."""
        loss = evaluate(closure)
        for group in self.param_groups:
            params: list[Any] = []
            grads: list[Any] = []
            for param in group["params"]:
                grad = param.grad
                if grad is not None:
                    if (
                        grad.__class__ is not Tensor
                        and grad.layout is not strided
                        and self._sparse is not True
                    ):
                        name = type(self).__name__
                        raise RuntimeError(self._sparse or f"{name} does not support sparse gradients")
                    params.append(param)
                    grads.append(grad)
            if params:
                self._update(group, params, grads)
        return loss

    def _update(self, group: Options, params: list[Any], grads: list[Any]) -> None:
        """One step of those parameters of a group that have a gradient."""
        states: list[Options] = []
        for param in params:
            state = self.state[param]
            if not state:
                seams.making_state(self)
                self._init_state(param, state, group)
            states.append(state)
        self._run_form(group, params, grads, states)

    def _run_form(self, group: Options, params: list[Any], grads: list[Any], states: list[Options]) -> None:
        lists = []
        for name in self._lists:
            there = name not in self._zeros_with or group[self._zeros_with[name]]
            lists.append([state[name] for state in states] if there else [])
        type(self)._form(params, grads, *lists, **self._given(group))
