"""Learning rate schedules: objects that set `lr` in an optimizer's groups, one call of `step()` at a time.

Takes an optimizer, writes to `group["lr"]`. The base class lies in `weft.optim.schedule`, the two schedules
that also cycle momentum in `weft.optim.cycles`; this is the module users import.
"""

from __future__ import annotations

import math
import warnings
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from types import FunctionType
from typing import Any

from weft.optim.cycles import CyclicLR as CyclicLR
from weft.optim.cycles import OneCycleLR as OneCycleLR
from weft.optim.optimizer import Optimizer
from weft.optim.schedule import EPOCH_DEPRECATION_WARNING, Rate, check_optimizer, set_option
from weft.optim.schedule import LRScheduler as LRScheduler
from weft.optim.schedule import _LRScheduler as _LRScheduler

__all__ = [
    "ChainedScheduler", "ConstantLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts", "CyclicLR",
    "ExponentialLR", "LRScheduler", "LambdaLR", "LinearLR", "MultiStepLR", "MultiplicativeLR", "OneCycleLR",
    "PolynomialLR", "ReduceLROnPlateau", "SequentialLR", "StepLR",
]  # fmt: skip


class _ByFunctions(LRScheduler):
    """What LambdaLR and MultiplicativeLR share: a function per group, whose own attributes are saved."""

    lr_lambdas: list[Callable[[int], float]]

    def __init__(self, optimizer: Optimizer, lr_lambda: Any, last_epoch: int = -1) -> None:
        self.optimizer = optimizer
        count = len(optimizer.param_groups)
        functions = list(lr_lambda) if isinstance(lr_lambda, (list, tuple)) else [lr_lambda] * count
        if len(functions) != count:
            raise ValueError(f"Expected {count} lr_lambdas, but got {len(functions)}")
        self.lr_lambdas = functions
        self._check_functions()
        super().__init__(optimizer, last_epoch)

    def _check_functions(self) -> None:
        pass

    def state_dict(self) -> dict[str, Any]:
        """As for other schedules; of the functions only the attributes of callable objects are saved."""
        saved = super().state_dict()
        saved["lr_lambdas"] = [
            None if isinstance(function, FunctionType) else vars(function).copy()
            for function in self.lr_lambdas
        ]
        return saved

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.__dict__.update({key: value for key, value in state_dict.items() if key != "lr_lambdas"})
        for function, saved in zip(self.lr_lambdas, state_dict["lr_lambdas"]):
            if saved is not None:
                vars(function).update(saved)


class LambdaLR(_ByFunctions):
    """The initial rate times `lr_lambda(epoch)`."""

    def _rates(self) -> list[Rate]:
        return [
            base * function(self.last_epoch)
            for function, base in zip(self.lr_lambdas, self.base_lrs, strict=True)
        ]


class MultiplicativeLR(_ByFunctions):
    """The present rate times `lr_lambda(epoch)`."""

    def _check_functions(self) -> None:
        for function in self.lr_lambdas:
            if not callable(function):
                raise TypeError(f"lr_lambda should be a function, but got {type(function).__name__}")

    def _rates(self) -> list[Rate]:
        if self._is_initial:
            return self._unchanged()
        return [
            group["lr"] * function(self.last_epoch)
            for function, group in zip(self.lr_lambdas, self.optimizer.param_groups, strict=True)
        ]


class StepLR(LRScheduler):
    """Times gamma every `step_size` epochs."""

    def __init__(
        self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def _rates(self) -> list[Rate]:
        due = self.last_epoch != 0 and self.last_epoch % self.step_size == 0
        return self._times(self.gamma) if due else self._unchanged()

    def _get_closed_form_lr(self) -> list[Rate]:
        return [base * self.gamma ** (self.last_epoch // self.step_size) for base in self.base_lrs]


class MultiStepLR(LRScheduler):
    """Times gamma at each milestone."""

    def __init__(
        self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.milestones = Counter(milestones)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def _rates(self) -> list[Rate]:
        # Compared, not looked up: captured steps then know the epoch as a number that counts.
        epoch = self.last_epoch
        for milestone, times in self.milestones.items():
            if epoch == milestone:
                return self._times(self.gamma**times)
        return self._unchanged()

    def _get_closed_form_lr(self) -> list[Rate]:
        passed = bisect_right(sorted(self.milestones.elements()), self.last_epoch)
        return [base * self.gamma**passed for base in self.base_lrs]


class ConstantLR(LRScheduler):
    """Times `factor` until `total_iters` epochs have passed."""

    def __init__(
        self, optimizer: Optimizer, factor: float = 1.0 / 3, total_iters: int = 5, last_epoch: int = -1
    ) -> None:
        if factor > 1.0 or factor < 0:
            raise ValueError("Constant multiplicative factor expected to be between 0 and 1.")
        self.factor, self.total_iters = factor, total_iters
        super().__init__(optimizer, last_epoch)

    def _rates(self) -> list[Rate]:
        if self.last_epoch == 0:
            return self._times(self.factor)
        return self._times(1.0 / self.factor) if self.last_epoch == self.total_iters else self._unchanged()

    def _get_closed_form_lr(self) -> list[Rate]:
        over = self.last_epoch >= self.total_iters
        return [base * (self.factor + over * (1 - self.factor)) for base in self.base_lrs]


class LinearLR(LRScheduler):
    """Times a factor that goes in a straight line from `start_factor` to `end_factor`."""

    def __init__(
        self, optimizer: Optimizer, start_factor: float = 1.0 / 3, end_factor: float = 1.0,
        total_iters: int = 5, last_epoch: int = -1,
    ) -> None:  # fmt: skip
        if start_factor > 1.0 or start_factor <= 0:
            raise ValueError(
                "Starting multiplicative factor expected to be greater than 0 and less or equal to 1."
            )
        if end_factor > 1.0 or end_factor < 0:
            raise ValueError("Ending multiplicative factor expected to be between 0 and 1.")
        self.start_factor, self.end_factor, self.total_iters = start_factor, end_factor, total_iters
        super().__init__(optimizer, last_epoch)

    def _rates(self) -> list[Rate]:
        if self.last_epoch == 0:
            return self._times(self.start_factor)
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._unchanged()
        rise = self.end_factor - self.start_factor
        before = self.total_iters * self.start_factor + (self.last_epoch - 1) * rise
        return self._times(1.0 + rise / before)

    def _get_closed_form_lr(self) -> list[Rate]:
        done = min(self.total_iters, self.last_epoch)
        rise = (self.end_factor - self.start_factor) * done / self.total_iters
        return [base * (self.start_factor + rise) for base in self.base_lrs]


class ExponentialLR(LRScheduler):
    """Times gamma every epoch."""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def _rates(self) -> list[Rate]:
        return self._unchanged() if self._is_initial else self._times(self.gamma)

    def _get_closed_form_lr(self) -> list[Rate]:
        return [base * self.gamma**self.last_epoch for base in self.base_lrs]


class PolynomialLR(LRScheduler):
    """The initial rate times (1 - epoch / total_iters) ** power."""

    def __init__(
        self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1
    ) -> None:
        self.total_iters, self.power = total_iters, power
        super().__init__(optimizer, last_epoch)

    def _rates(self) -> list[Rate]:
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._unchanged()
        now = 1.0 - self.last_epoch / self.total_iters
        before = 1.0 - (self.last_epoch - 1) / self.total_iters
        return self._times((now / before) ** self.power)

    def _get_closed_form_lr(self) -> list[Rate]:
        done = min(self.total_iters, self.last_epoch) / self.total_iters
        return [base * (1.0 - done) ** self.power for base in self.base_lrs]


class CosineAnnealingLR(LRScheduler):
    """Half a cosine down from the initial rate to `eta_min` in `T_max` epochs, and up again."""

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def _rates(self) -> list[Rate]:
        if self._is_initial:
            return self._unchanged()
        if self._step_count == 1 and self.last_epoch > 0:
            return self._get_closed_form_lr()
        low, groups = self.eta_min, self.optimizer.param_groups
        if (self.last_epoch - 1 - self.T_max) % (2 * self.T_max) == 0:
            # At the bottom of the curve the ratio below would be 0 / 0: the first step up is given as a sum.
            rise = (1 - math.cos(math.pi / self.T_max)) / 2
            return [
                group["lr"] + (base - low) * rise for base, group in zip(self.base_lrs, groups, strict=True)
            ]
        now = 1 + math.cos(math.pi * self.last_epoch / self.T_max)
        before = 1 + math.cos(math.pi * (self.last_epoch - 1) / self.T_max)
        return [now / before * (group["lr"] - low) + low for group in groups]

    def _get_closed_form_lr(self) -> list[Rate]:
        height = (1 + math.cos(math.pi * self.last_epoch / self.T_max)) / 2
        return [self.eta_min + (base - self.eta_min) * height for base in self.base_lrs]


class CosineAnnealingWarmRestarts(LRScheduler):
    """Half a cosine down to `eta_min` in `T_0` epochs, then from the top again, each time `T_mult` times as
    long."""

    def __init__(
        self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        if T_0 <= 0 or not isinstance(T_0, int):
            raise ValueError(f"Expected positive integer T_0, but got {T_0}")
        if T_mult < 1 or not isinstance(T_mult, int):
            raise ValueError(f"Expected integer T_mult >= 1, but got {T_mult}")
        if not isinstance(eta_min, (float, int)):
            raise ValueError(f"Expected float or int eta_min, but got {eta_min} of type {type(eta_min)}")
        self.T_0, self.T_i, self.T_mult, self.eta_min = T_0, T_0, T_mult, eta_min
        self.T_cur: float = last_epoch
        super().__init__(optimizer, last_epoch)

    def _rates(self) -> list[Rate]:
        height = (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
        return [self.eta_min + (base - self.eta_min) * height for base in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        """Sets the next rates, or those at an epoch, which may be a fraction."""
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur %= self.T_i
                self.T_i *= self.T_mult
        else:
            self._place(epoch)
        self.last_epoch = math.floor(epoch)
        with self._asking():
            self._apply(self.get_lr())

    def _place(self, epoch: float) -> None:
        """Finds the period that the epoch lies in, and how far into it."""
        if epoch < 0:
            raise ValueError(f"Expected non-negative epoch, but got {epoch}")
        if epoch < self.T_0:
            self.T_i, self.T_cur = self.T_0, epoch
        elif self.T_mult == 1:
            self.T_cur = epoch % self.T_0
        else:
            growth = self.T_mult - 1
            period = int(math.log(epoch / self.T_0 * growth + 1, self.T_mult))
            self.T_cur = epoch - self.T_0 * (self.T_mult**period - 1) / growth
            self.T_i = self.T_0 * self.T_mult**period


# -- schedules made of schedules -----------------------------------------------------------------------------
class _OfSchedules(LRScheduler):
    """What SequentialLR and ChainedScheduler share."""

    _schedulers: Sequence[Any]

    def _check_parts(self, schedulers: Sequence[Any], optimizer: Any) -> None:
        name = type(self).__name__
        for index, scheduler in enumerate(schedulers):
            if not hasattr(scheduler, "optimizer"):
                raise TypeError(f"{name} at index {index} should have `optimizer` as its attribute.")
            if isinstance(scheduler, ReduceLROnPlateau):
                raise ValueError(
                    f"{name} does not support `ReduceLROnPlateau` scheduler as it requires additional kwargs "
                    f"to be specified when calling `step`, but got one at index {index} in the given "
                    "schedulers sequence."
                )
            if optimizer != scheduler.optimizer:
                raise ValueError(
                    f"{name} expects all schedulers to belong to the same optimizer, but got scheduler "
                    f"{type(scheduler).__name__} at index {index} has {scheduler.optimizer}, which is "
                    f"different from {type(optimizer).__name__}."
                )

    def state_dict(self) -> dict[str, Any]:
        """As for other schedules, with the state dicts of the parts."""
        saved = super().state_dict()
        saved["_schedulers"] = [scheduler.state_dict() for scheduler in self._schedulers]
        return saved

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.__dict__.update({key: value for key, value in state_dict.items() if key != "_schedulers"})
        for scheduler, saved in zip(self._schedulers, state_dict["_schedulers"]):
            scheduler.load_state_dict(saved)


class SequentialLR(_OfSchedules):
    """One schedule after the other, the next from each milestone on."""

    def __init__(
        self, optimizer: Optimizer, schedulers: list[LRScheduler], milestones: list[int],
        last_epoch: int = -1,
    ) -> None:  # fmt: skip
        if len(schedulers) < 1:
            raise ValueError(f"{type(self).__name__} expects at least one scheduler, but got no scheduler.")
        self._check_parts(schedulers, optimizer)
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                "Sequential Schedulers expects number of schedulers provided to be one more than the number "
                f"of milestone points, but got number of schedulers {len(schedulers)} and the number of "
                f"milestones to be equal to {len(milestones)}"
            )
        self._schedulers, self._milestones = schedulers, milestones
        self.last_epoch = last_epoch + 1
        self.optimizer = optimizer
        # Making the parts has already changed the rates: they go back, and the first part begins anew.
        for group in optimizer.param_groups:
            set_option(group, "lr", group["initial_lr"])
        self.recursive_undo()
        current = schedulers[bisect_right(milestones, 0)]
        current._initial_step()
        self._last_lr = current.get_last_lr()

    def recursive_undo(self, sched: Any = None) -> None:
        """Takes back the first step of every part."""
        scheduler = self if sched is None else sched
        if hasattr(scheduler, "_schedulers"):
            for part in scheduler._schedulers:
                self.recursive_undo(part)
        elif hasattr(scheduler, "last_epoch"):
            scheduler.last_epoch -= 1

    def step(self) -> None:  # type: ignore[override]
        """Sets the next rates."""
        self.last_epoch += 1
        index = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[index]
        if index > 0 and self._milestones[index - 1] == self.last_epoch:
            scheduler._update_lr(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()


class ChainedScheduler(_OfSchedules):
    """Several schedules at once, each on the rates that the one before left."""

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None) -> None:
        if len(schedulers) < 1:
            raise ValueError(
                f"{type(self).__name__} expects at least one scheduler to be chained, but got no scheduler."
            )
        optimizer = optimizer or schedulers[0].optimizer
        self._check_parts(schedulers, optimizer)
        self._schedulers, self.optimizer = schedulers, optimizer
        self._last_lr = self._unchanged()

    def step(self) -> None:  # type: ignore[override]
        """Sets the next rates."""
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = self._unchanged()


class ReduceLROnPlateau(LRScheduler):
    """Times `factor` when a measured value has not got better for `patience` epochs."""

    def __init__(
        self, optimizer: Optimizer, mode: str = "min", factor: float = 0.1, patience: int = 10,
        threshold: float = 1e-4, threshold_mode: str = "rel", cooldown: int = 0, min_lr: Any = 0,
        eps: float = 1e-8,
    ) -> None:  # fmt: skip
        if factor >= 1.0:
            raise ValueError("Factor should be < 1.0.")
        check_optimizer(optimizer)
        count = len(optimizer.param_groups)
        listed = isinstance(min_lr, (list, tuple))
        if listed and len(min_lr) != count:
            raise ValueError(f"expected {count} min_lrs, got {len(min_lr)}")
        self.factor, self.optimizer = factor, optimizer
        self.default_min_lr = None if listed else min_lr
        self.min_lrs = list(min_lr) if listed else [min_lr] * count
        self.patience, self.cooldown, self.eps, self.last_epoch = patience, cooldown, eps, 0
        self._last_lr = self._unchanged()
        self._init_is_better(mode, threshold, threshold_mode)
        self._reset()

    def _init_is_better(self, mode: str, threshold: float, threshold_mode: str) -> None:
        if mode not in ("min", "max"):
            raise ValueError(f"mode {mode} is unknown!")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError(f"threshold mode {threshold_mode} is unknown!")
        self.mode, self.threshold, self.threshold_mode = mode, threshold, threshold_mode
        self.mode_worse = math.inf if mode == "min" else -math.inf

    def _reset(self) -> None:
        """Forgets what was measured."""
        self.best = self.mode_worse
        self.cooldown_counter, self.num_bad_epochs = 0, 0

    @property
    def in_cooldown(self) -> bool:
        return self.cooldown_counter > 0

    def _is_better(self, value: float, best: float) -> bool:
        sign = -1 if self.mode == "min" else 1
        margin = sign * self.threshold
        bar = best * (1.0 + margin) if self.threshold_mode == "rel" else best + margin
        return value < bar if self.mode == "min" else value > bar

    def step(self, metrics: Any, epoch: int | None = None) -> None:  # type: ignore[override]
        """Takes the newest measured value and sets the rates."""
        value = float(metrics)
        if epoch is None:
            epoch = self.last_epoch + 1
        else:
            warnings.warn(EPOCH_DEPRECATION_WARNING, UserWarning, stacklevel=2)
        self.last_epoch = epoch
        if self._is_better(value, self.best):
            self.best, self.num_bad_epochs = value, 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce_lr()
            self.cooldown_counter = self.cooldown
            self.num_bad_epochs = 0
        self._last_lr = self._unchanged()

    def _reduce_lr(self) -> None:
        groups = self.optimizer.param_groups
        if len(groups) != len(self.min_lrs):
            if self.default_min_lr is None:
                raise RuntimeError(
                    f"The number of param groups in the `optimizer` ({len(groups)}) differs from when "
                    f"`ReduceLROnPlateau` was initialized ({len(self.min_lrs)}), usually due to a new param "
                    "group being added to the optimizer. Please modify the `min_lrs` field to match the "
                    "length of the `optimizer` param groups."
                )
            self.min_lrs = [self.default_min_lr] * len(groups)
        for group, least in zip(groups, self.min_lrs):
            old = float(group["lr"])
            new = max(old * self.factor, least)
            if old - new > self.eps:
                set_option(group, "lr", new)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.__dict__.update(state_dict)
        self._init_is_better(self.mode, self.threshold, self.threshold_mode)
