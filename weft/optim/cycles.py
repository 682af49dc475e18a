"""Schedules that cycle: `CyclicLR` and `OneCycleLR`, which move the momentum against the learning rate.

Takes an optimizer, writes to `lr` and to `momentum` (or the first of `betas`) in its groups. One idea: both
give rate and momentum as a blend of two ends, at a place that follows from the number of steps alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import FunctionType
from typing import Any

from weft.optim.optimizer import Optimizer
from weft.optim.schedule import LRScheduler, Rate, check_optimizer, for_groups, set_option


def check_strategy(anneal_strategy: Any) -> None:
    if anneal_strategy not in ("cos", "linear"):
        raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")


class _Cycle(LRScheduler):
    """What the two share: a momentum that moves too."""

    cycle_momentum: bool
    use_beta1: bool

    def _start_momentum(self, base: Any, top: Any, last_epoch: int) -> tuple[list[Any], list[Any]]:
        """Checks that there is a momentum, and begins at its top; gives the two ends for each group."""
        optimizer = self.optimizer
        if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
            raise ValueError("optimizer must support momentum or beta1 with `cycle_momentum` option enabled")
        self.use_beta1 = "betas" in optimizer.defaults
        tops = for_groups("max_momentum", optimizer, top)
        bases = for_groups("base_momentum", optimizer, base)
        if last_epoch == -1:
            for high, low, group in zip(tops, bases, optimizer.param_groups, strict=True):
                self._set_momentum(group, high)
                group["max_momentum"] = high
                group["base_momentum"] = low
        return bases, tops

    def _set_momentum(self, group: dict[str, Any], momentum: Any) -> None:
        if self.use_beta1:
            group["betas"] = (momentum, *group["betas"][1:])
        else:
            group["momentum"] = momentum


class CyclicLR(_Cycle):
    """Up in a straight line from `base_lr` to `max_lr` and down again, over and over."""

    def __init__(
        self, optimizer: Optimizer, base_lr: Any, max_lr: Any, step_size_up: int = 2000,
        step_size_down: int | None = None, mode: str = "triangular", gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None, scale_mode: str = "cycle",
        cycle_momentum: bool = True, base_momentum: float = 0.8, max_momentum: float = 0.9,
        last_epoch: int = -1,
    ) -> None:  # fmt: skip
        check_optimizer(optimizer)
        self.optimizer = optimizer
        base_lrs = for_groups("base_lr", optimizer, base_lr)
        if last_epoch == -1:
            for rate, group in zip(base_lrs, optimizer.param_groups, strict=True):
                set_option(group, "lr", rate)
        self.max_lrs = for_groups("max_lr", optimizer, max_lr)
        up = float(step_size_up)
        self.total_size = up + (up if step_size_down is None else float(step_size_down))
        self.step_ratio = up / self.total_size
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError("mode is invalid and scale_fn is None")
        self.mode, self.gamma, self._scale_fn_custom, self.scale_mode = mode, gamma, scale_fn, scale_mode
        if scale_fn is None:
            self.scale_mode = "iterations" if mode == "exp_range" else "cycle"
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            ends = self._start_momentum(base_momentum, max_momentum, last_epoch)
            self.base_momentums, self.max_momentums = ends
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def scale_fn(self, x: float) -> float:
        """How high the peak of cycle x (or the curve at step x) is, relative to `max_lr`."""
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        if self.mode == "triangular2":
            return float(1 / 2.0 ** (x - 1))
        return float(self.gamma**x) if self.mode == "exp_range" else 1.0

    def get_lr(self) -> list[Rate]:
        """The rates; writes the momentum too, as PyTorch does."""
        self._warn_outside_step()
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        place = 1.0 + self.last_epoch / self.total_size - cycle
        ratio = self.step_ratio
        height = place / ratio if place <= ratio else (place - 1) / (ratio - 1)
        scale = self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            for group, low, high in zip(
                self.optimizer.param_groups, self.base_momentums, self.max_momentums, strict=True
            ):
                self._set_momentum(group, high - (high - low) * height * scale)
        return [
            low + (high - low) * height * scale for low, high in zip(self.base_lrs, self.max_lrs, strict=True)
        ]

    def state_dict(self) -> dict[str, Any]:
        """As for other schedules; of a scaling function only the attributes of a callable object are
        saved."""
        saved = super().state_dict()
        function = saved["_scale_fn_custom"]
        plain = function is None or isinstance(function, FunctionType)
        saved["_scale_fn_custom"] = None if plain else vars(function).copy()
        return saved

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        saved = state_dict["_scale_fn_custom"]
        super().load_state_dict({k: v for k, v in state_dict.items() if k != "_scale_fn_custom"})
        if saved is not None:
            vars(self._scale_fn_custom).update(saved)


class OneCycleLR(_Cycle):
    """Once up to `max_lr`, then down far below where it began."""

    def __init__(
        self, optimizer: Optimizer, max_lr: Any, total_steps: int | None = None, epochs: int | None = None,
        steps_per_epoch: int | None = None, pct_start: float = 0.3, anneal_strategy: str = "cos",
        cycle_momentum: bool = True, base_momentum: Any = 0.85, max_momentum: Any = 0.95,
        div_factor: float = 25.0, final_div_factor: float = 1e4, three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:  # fmt: skip
        check_optimizer(optimizer)
        self.optimizer = optimizer
        self.total_steps = _count_steps(total_steps, epochs, steps_per_epoch)
        if pct_start < 0 or pct_start > 1 or not isinstance(pct_start, float):
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        check_strategy(anneal_strategy)
        self._anneal_func_type = anneal_strategy
        self._schedule_phases = _phases(self.total_steps, pct_start, three_phase)
        tops = for_groups("max_lr", optimizer, max_lr)
        if last_epoch == -1:
            for top, group in zip(tops, optimizer.param_groups):
                group["initial_lr"] = top / div_factor
                group["max_lr"] = top
                group["min_lr"] = group["initial_lr"] / final_div_factor
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self._start_momentum(base_momentum, max_momentum, last_epoch)
        super().__init__(optimizer, last_epoch)

    def _blend(self, start: Any, end: Any, part: float) -> Any:
        if self._anneal_func_type == "cos":
            return end + (start - end) / 2.0 * (math.cos(math.pi * part) + 1)
        return (end - start) * part + start

    def get_lr(self) -> list[Rate]:
        """The rates; writes the momentum too, as PyTorch does."""
        self._warn_outside_step()
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(
                f"Tried to step {step} times. The specified number of total steps is {self.total_steps}"
            )
        begin = 0.0
        *early, phase = self._schedule_phases
        for candidate in early:
            if step <= candidate["end_step"]:
                phase = candidate
                break
            begin = candidate["end_step"]
        part = (step - begin) / (phase["end_step"] - begin)
        rates = []
        for group in self.optimizer.param_groups:
            rates.append(self._blend(group[phase["start_lr"]], group[phase["end_lr"]], part))
            if self.cycle_momentum:
                momentum = self._blend(group[phase["start_momentum"]], group[phase["end_momentum"]], part)
                self._set_momentum(group, momentum)
        return rates


def _count_steps(total: Any, epochs: Any, per_epoch: Any) -> int:
    if total is None and (epochs is None or per_epoch is None):
        raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
    given = {"total_steps": total} if total is not None else {"epochs": epochs, "steps_per_epoch": per_epoch}
    for name, value in given.items():
        if value <= 0 or not isinstance(value, int):
            raise ValueError(f"Expected positive integer {name}, but got {value}")
    return math.prod(given.values())


def _phases(steps: int, part: float, three: bool) -> list[dict[str, Any]]:
    """When each phase ends, and the names of the options it goes from and to."""

    def phase(end: float, rates: tuple[str, str], momentums: tuple[str, str]) -> dict[str, Any]:
        names = ("start_lr", "end_lr", "start_momentum", "end_momentum")
        return {"end_step": end, **dict(zip(names, rates + momentums))}

    low, high = "base_momentum", "max_momentum"
    rise = phase(float(part * steps) - 1, ("initial_lr", "max_lr"), (high, low))
    if not three:
        return [rise, phase(steps - 1, ("max_lr", "min_lr"), (low, high))]
    return [
        rise,
        phase(float(2 * part * steps) - 2, ("max_lr", "initial_lr"), (low, high)),
        phase(steps - 1, ("initial_lr", "min_lr"), (high, high)),
    ]
