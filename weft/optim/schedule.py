"""The base of learning rate schedules: what every schedule does, and what subclasses share.

Takes an optimizer, writes to `group["lr"]`. One idea: a schedule gives the next rate from the present one
(`get_lr`, so that several schedules can be chained) and, where it can, the rate at any epoch from the
initial one (`_get_closed_form_lr`).
"""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any

from weft.core.seams import seams
from weft.optim.optimizer import Optimizer, to_scalar
from weft.tensor.base import Tensor

Rate = Any  # a float, or a zero-dim Tensor that is written to in place
GUIDE = "https://pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate"
EPOCH_DEPRECATION_WARNING = (
    "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where possible. "
    "Please use `scheduler.step()` to step the scheduler. During the deprecation, if epoch is different from "
    "None, the closed form is used instead of the new chainable form, where available. Please open an issue "
    "if you are unable to replicate your use case: https://github.com/pytorch/pytorch/issues/new/choose."
)


def copied(value: Any) -> Any:
    """The value; of a tensor a copy, since rates kept as tensors are written to in place."""
    return value.clone() if isinstance(value, Tensor) else value


def values_of(optimizer: Optimizer, key: str) -> list[Any]:
    """An option of every group, copied where it is a tensor."""
    return [copied(group[key]) for group in optimizer.param_groups]


def set_option(group: dict[str, Any], key: str, value: Any) -> None:
    """Sets an option; a tensor is written to, so that whoever holds it sees the change."""
    if isinstance(group[key], Tensor):
        group[key].fill_(to_scalar(value))
    else:
        group[key] = value


def for_groups(name: str, optimizer: Optimizer, value: Any) -> list[Any]:
    """One value per group."""
    count = len(optimizer.param_groups)
    if not isinstance(value, (list, tuple)):
        value = [value] * count
    elif len(value) != count:
        raise ValueError(
            f"{name} must have the same length as optimizer.param_groups. {name} has {len(value)} values, "
            f"param_groups has {count}."
        )
    return [copied(item) for item in value]


def check_optimizer(optimizer: Any) -> None:
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")


def _watch_steps(optimizer: Any) -> None:
    """Makes this optimizer note that its `step` was called."""
    if hasattr(optimizer.step, "_wrapped_by_lr_sched"):
        return
    # The wrapper lies in the optimizer: a plain reference would be a cycle.
    reference = weakref.ref(optimizer)
    function = optimizer.step.__func__

    @wraps(function)
    def noting(*args: Any, **kwargs: Any) -> Any:
        owner: Any = reference()
        if not getattr(owner, "_opt_called", False):
            seams.prepare(owner, "_note_call")
            owner._note_call()
        return function(owner, *args, **kwargs)

    noting._wrapped_by_lr_sched = True  # type: ignore[attr-defined]
    optimizer.step = noting


class LRScheduler:
    """A schedule. Subclasses give `get_lr()`: the rates of the groups at `last_epoch`."""

    _get_lr_called_within_step = False
    _is_initial = False
    base_lrs: list[Rate]
    _last_lr: list[Rate]
    last_epoch: int
    _step_count: int

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        for number, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", copied(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{number}] when resuming scheduler "
                    "with last_epoch >= 0.\nThis typically happens when:\n1. You're trying to resume "
                    "training from a checkpoint but haven't properly loaded the optimizer state\n2. You're "
                    "using last_epoch >= 0 for a fresh training run (not recommended)"
                )
        self.base_lrs = values_of(optimizer, "initial_lr")
        self.last_epoch = last_epoch
        _watch_steps(optimizer)
        self._initial_step()

    def _initial_step(self) -> None:
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def state_dict(self) -> dict[str, Any]:
        """All that the schedule knows, but the optimizer."""
        return {key: value for key, value in self.__dict__.items() if key != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.__dict__.update(state_dict)

    def get_last_lr(self) -> list[Rate]:
        """The rates set by the last step."""
        return self._last_lr

    def get_lr(self) -> list[Rate]:
        rates = self._rates()
        self._warn_outside_step()
        return rates

    def step(self, epoch: int | None = None) -> None:
        """Sets the next rates."""
        if self._step_count == 1:
            self._check_order()
        self._step_count += 1
        if epoch is not None:
            warnings.warn(EPOCH_DEPRECATION_WARNING, UserWarning, stacklevel=2)
        self._update_lr(epoch)

    def _check_order(self) -> None:
        if not hasattr(self.optimizer.step, "_wrapped_by_lr_sched"):
            warnings.warn(
                "Seems like `optimizer.step()` has been overridden after learning rate scheduler "
                "initialization. Please, make sure to call `optimizer.step()` before `lr_scheduler.step()`. "
                f"See more details at {GUIDE}",
                UserWarning,
                stacklevel=3,
            )
        elif not getattr(self.optimizer, "_opt_called", False):
            warnings.warn(
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`. In PyTorch 1.1.0 and "
                "later, you should call them in the opposite order: `optimizer.step()` before "
                "`lr_scheduler.step()`.  Failure to do this will result in PyTorch skipping the first value "
                f"of the learning rate schedule. See more details at {GUIDE}",
                UserWarning,
                stacklevel=3,
            )

    def _update_lr(self, epoch: int | None = None) -> None:
        closed = getattr(self, "_get_closed_form_lr", None)
        with self._asking():
            if epoch is None:
                self.last_epoch += 1
                rates = self.get_lr()
            else:
                self.last_epoch = epoch
                rates = self.get_lr() if closed is None else closed()
        self._apply(rates)

    def _apply(self, rates: Sequence[Rate]) -> None:
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            set_option(group, "lr", rate)
        self._last_lr = values_of(self.optimizer, "lr")

    @contextmanager
    def _asking(self) -> Iterator[None]:
        self._get_lr_called_within_step = True
        try:
            yield
        finally:
            self._get_lr_called_within_step = False

    # -- for subclasses --------------------------------------------------------------------------------------
    def _rates(self) -> list[Rate]:
        """What our own schedules give in place of `get_lr`, which warns of those who ask outside of steps."""
        raise NotImplementedError

    def _warn_outside_step(self) -> None:
        if not self._get_lr_called_within_step:
            warnings.warn(
                "To get the last learning rate computed by the scheduler, please use `get_last_lr()`.",
                UserWarning,
                stacklevel=3,
            )

    def _unchanged(self) -> list[Rate]:
        return values_of(self.optimizer, "lr")

    def _times(self, factor: float) -> list[Rate]:
        return [group["lr"] * factor for group in self.optimizer.param_groups]


_LRScheduler = LRScheduler  # the name it had before
