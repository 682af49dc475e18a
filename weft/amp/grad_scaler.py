"""GradScaler: multiplies losses so that half precision gradients do not vanish, and divides gradients again.

Takes losses and optimizers; skips a step whose gradients are not finite, and adapts the scale. One idea: the
scale is a zero-dim tensor, doubled after many good steps and halved after a bad one.
"""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any

from weft.autograd.grad_mode import no_grad
from weft.core.dtypes import float16, float32, float64, int32
from weft.core.naming import named
from weft.core.seams import seams
from weft.core.warn import warn_at_level
from weft.ops.record import ops
from weft.tensor.base import Tensor

__all__ = ["GradScaler", "OptState"]


def unless(flags: list[Any], function: Callable[[], Any]) -> Any:
    """What the function gives, unless one of the flags is set. A graph keeps it as one node."""
    return None if any(flag.item() for flag in flags) else function()


class OptState(Enum):
    """How far an optimizer has come since the last `update`."""

    READY = 0
    UNSCALED = 1
    STEPPED = 2


def _fresh_state() -> dict[str, Any]:
    return {"stage": OptState.READY, "found_inf_per_device": {}}


class GradScaler:
    """`scale(loss).backward()`, then `step(optimizer)`, then `update()`."""

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        self._device = device
        self._enabled = enabled
        if enabled and device == "cuda":
            warn_at_level(
                named("weft.amp.GradScaler is enabled, but CUDA is not available.  Disabling."), stacklevel=2
            )
            self._enabled = False
        if not self._enabled:
            return
        if growth_factor <= 1.0:
            raise AssertionError("The growth factor must be > 1.0.")
        if backoff_factor >= 1.0:
            raise AssertionError("The backoff factor must be < 1.0.")
        self._init_scale = init_scale
        self._scale: Any = None  # made with the first loss, on its device
        self._growth_factor = growth_factor
        self._backoff_factor = backoff_factor
        self._growth_interval = growth_interval
        self._init_growth_tracker = 0
        self._growth_tracker: Any = None
        self._per_optimizer_states: defaultdict[int, dict[str, Any]] = defaultdict(_fresh_state)

    def _check_started(self, what: str) -> None:
        for name in ("_scale", "_growth_tracker"):
            if getattr(self, name) is None:
                raise AssertionError(
                    f"Attempted {what} but {name} is None.  This may indicate your script did not use "
                    "scaler.scale(loss or outputs) earlier in the iteration."
                )

    # -- losses ----------------------------------------------------------------------------------------------
    def scale(self, outputs: Any) -> Any:
        """A tensor, or an iterable of tensors, times the scale."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            if self._scale is None:
                seams.prepare(self, "_start")
                self._start(outputs.device)
            return ops.mul(outputs, self._scale)
        if isinstance(outputs, Iterable):
            scaled = map(self.scale, outputs)
            if isinstance(outputs, (list, tuple)):
                return type(outputs)(scaled)
            return scaled
        raise ValueError("outputs must be a Tensor or an iterable of Tensors")

    def _start(self, device: Any = "cpu") -> Callable[[], None]:
        """Makes scale and counter; gives what takes them away again."""
        self._scale = ops.full((), self._init_scale, dtype=float32, device=device)
        self._growth_tracker = ops.full((), self._init_growth_tracker, dtype=int32, device=device)

        def undo() -> None:
            self._scale = self._growth_tracker = None

        return undo

    # -- gradients -------------------------------------------------------------------------------------------
    def _unscale_grads_(self, optimizer: Any, factor: float | None, allow_fp16: bool) -> dict[Any, Any]:
        """Multiplies the gradients; whether one was not finite, as a 0 or 1 per device."""
        found: dict[Any, Any] = {}
        for group in optimizer.param_groups:
            for param in group["params"]:
                grad = param.grad
                if grad is None:
                    continue
                if not allow_fp16 and grad.dtype is float16:
                    raise ValueError("Attempting to unscale FP16 gradients.")
                if grad.device not in found:
                    found[grad.device] = ops.full((), 0.0, dtype=float32, device=grad.device)
                with no_grad():
                    finite = ops.all(ops.isfinite(grad))
                    if seams.is_compiling():
                        flag = found[grad.device]
                        flag.copy_(ops.maximum(flag, ops.logical_not(finite).to(float32)))
                    elif not finite:
                        found[grad.device].fill_(1.0)
                    if factor is not None:
                        grad.mul_(factor)
        return found

    def unscale_(self, optimizer: Any) -> None:
        """Divides the gradients of this optimizer by the scale, before the step does: to clip them, say."""
        if not self._enabled:
            return
        self._check_started("unscale_")
        progress = self._per_optimizer_states[id(optimizer)]
        if progress["stage"] is OptState.UNSCALED:
            raise RuntimeError(
                "unscale_() has already been called on this optimizer since the last update()."
            )
        if progress["stage"] is OptState.STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        inverse = self._scale.to(float64).reciprocal().to(float32).item()
        progress["found_inf_per_device"] = self._unscale_grads_(optimizer, inverse, False)
        progress["stage"] = OptState.UNSCALED

    def _check_inf_per_device(self, optimizer: Any) -> dict[Any, Any]:
        self._check_started("_check_inf_per_device")
        found = self._unscale_grads_(optimizer, None, True)
        self._per_optimizer_states[id(optimizer)]["found_inf_per_device"] = found
        return found

    def _found_inf_per_device(self, optimizer: Any) -> Any:
        return self._per_optimizer_states[id(optimizer)]["found_inf_per_device"]

    # -- steps -----------------------------------------------------------------------------------------------
    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """`optimizer.step(...)` on unscaled gradients, unless one of them is not finite."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        self._check_started("step")
        progress = self._per_optimizer_states[id(optimizer)]
        if progress["stage"] is OptState.STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        if getattr(optimizer, "_step_supports_amp_scaling", False):
            return self._step_that_unscales(optimizer, progress, args, kwargs)
        if progress["stage"] is OptState.READY:
            self.unscale_(optimizer)
        found = progress["found_inf_per_device"]
        if not found:
            raise AssertionError("No inf checks were recorded for this optimizer.")
        result = unless(list(found.values()), lambda: optimizer.step(*args, **kwargs))
        progress["stage"] = OptState.STEPPED
        return result

    def _step_that_unscales(
        self, optimizer: Any, progress: dict[str, Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """For optimizers that divide by `self.grad_scale` and look at `self.found_inf` themselves."""
        wants_scaler = "grad_scaler" in inspect.signature(optimizer.step).parameters
        if wants_scaler:
            warn_at_level(
                "GradScaler is going to stop passing itself as a keyword argument to the passed optimizer. "
                "In the near future GradScaler registers `grad_scale: Tensor` and `found_inf: Tensor` to "
                "the passed optimizer and let the optimizer use them directly.",
                FutureWarning,
                stacklevel=3,
            )
            kwargs = {**kwargs, "grad_scaler": self}
        else:
            if progress["stage"] is OptState.READY:
                self._check_inf_per_device(optimizer)
            found = list(progress["found_inf_per_device"].values())
            optimizer.found_inf = sum(found[1:], found[0]) if found else None
            own = getattr(optimizer, "grad_scale", None)
            if progress["stage"] is OptState.UNSCALED:
                optimizer.grad_scale = own
            else:
                optimizer.grad_scale = self._scale if own is None else self._scale * own
        result = optimizer.step(*args, **kwargs)
        progress["stage"] = OptState.STEPPED
        if not wants_scaler:
            del optimizer.grad_scale, optimizer.found_inf
        return result

    def update(self, new_scale: Any = None) -> None:
        """Adapts the scale to how the steps since the last update went, or sets it."""
        if not self._enabled:
            return
        self._check_started("update")
        if new_scale is not None:
            self._set_scale(new_scale)
        else:
            found = [
                value
                for progress in self._per_optimizer_states.values()
                for value in progress["found_inf_per_device"].values()
            ]
            if not found:
                raise AssertionError("No inf checks were recorded prior to update.")
            if seams.is_compiling():
                self._adapt_by_tensors(found)
            else:
                self._adapt(any(value.item() for value in found))
        self._per_optimizer_states = defaultdict(_fresh_state)

    def _set_scale(self, new_scale: Any) -> None:
        if isinstance(new_scale, float):
            self._scale.fill_(new_scale)
            return
        if new_scale.device.type != self._device or new_scale.numel() != 1 or new_scale.requires_grad:
            raise AssertionError(
                named("new_scale should be a float or a 1-element weft.FloatTensor with requires_grad=False.")
            )
        self._scale.copy_(new_scale)

    def _adapt(self, overflowed: bool) -> None:
        if overflowed:
            self._scale.mul_(self._backoff_factor)
            self._growth_tracker.fill_(0)
            return
        count = self._growth_tracker.item() + 1
        if count == self._growth_interval:
            grown = self._scale * self._growth_factor
            if ops.isfinite(grown):  # a scale that overflows would never come back
                self._scale.copy_(grown)
            count = 0
        self._growth_tracker.fill_(count)

    def _adapt_by_tensors(self, found: list[Any]) -> None:
        """As `_adapt`, without a look at any number."""
        scale, count = self._scale, self._growth_tracker + 1
        overflowed = found[0] != 0
        for flag in found[1:]:
            overflowed = overflowed | (flag != 0)
        grown = scale * self._growth_factor
        full = count == self._growth_interval
        better = ops.where(full & ops.isfinite(grown), grown, scale)
        scale.copy_(ops.where(overflowed, scale * self._backoff_factor, better))
        self._growth_tracker.copy_(ops.where(overflowed | full, ops.zeros_like(count), count))

    # -- facts -----------------------------------------------------------------------------------------------
    def get_scale(self) -> float:
        """The scale; 1 if disabled."""
        if not self._enabled:
            return 1.0
        return self._init_scale if self._scale is None else self._scale.item()

    def _get_growth_tracker(self) -> int:
        if not self._enabled:
            return 0
        tracker = self._growth_tracker
        return self._init_growth_tracker if tracker is None else tracker.item()

    def get_growth_factor(self) -> float:
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        self._growth_interval = new_interval

    def is_enabled(self) -> bool:
        return self._enabled

    # -- saving ----------------------------------------------------------------------------------------------
    def state_dict(self) -> dict[str, Any]:
        """Scale, factors and counter; empty if disabled."""
        if not self._enabled:
            return {}
        return {
            "scale": self.get_scale(),
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._get_growth_tracker(),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError(
                "The source state dict is empty, possibly because it was saved from a disabled instance of "
                "GradScaler."
            )
        self._init_scale = state_dict["scale"]
        self._init_growth_tracker = state_dict["_growth_tracker"]
        if self._scale is not None:
            self._scale.fill_(self._init_scale)
            self._growth_tracker.fill_(self._init_growth_tracker)
        self._growth_factor = state_dict["growth_factor"]
        self._backoff_factor = state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        if self._enabled:
            if self._per_optimizer_states:
                raise AssertionError(
                    "A GradScaler instance may only be pickled at the beginning of an iteration, or at the "
                    "end after scaler.update()."
                )
            state["_init_scale"] = self.get_scale()
            state["_init_growth_tracker"] = self._get_growth_tracker()
            state["_scale"] = state["_growth_tracker"] = None
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
