"""`autocast`, as context manager and as decorator, and what custom Functions need beside it.

Takes a device type, a dtype and flags; inside, ops run in the dtype that their category says. One idea:
entering notes what was set and leaving sets it again; the casting itself is in `weft.amp.casting`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial, wraps
from operator import call
from typing import Any

import numpy as np

import weft.amp.state as state
from weft.amp.casting import is_eligible
from weft.core import modes
from weft.core.contexts import Actions, LeftAtOnce, choosing, forget, run_all
from weft.core.dtypes import bfloat16, dtype, float16
from weft.core.naming import named
from weft.core.warn import warn_at_level
from weft.ops.record import ops
from weft.tensor.base import Tensor

__all__ = ["autocast", "autocast_decorator", "custom_bwd", "custom_fwd", "is_autocast_available"]

is_autocast_available = state.is_autocast_available
LOWER = (bfloat16, float16)
Before = tuple[bool, Any, bool]
"""Whether it was enabled, its dtype, and whether it kept casts."""


def _check_device_type(device_type: Any) -> None:
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")


def put(device: str, enabled: bool, kind: dtype, caching: bool) -> None:
    if device == "cpu":
        state.put(enabled, kind, caching)
        return
    state.set_autocast_enabled(device, enabled)
    state.set_autocast_dtype(device, kind)
    state.set_autocast_cache_enabled(caching)


def leave(device: str, before: list[Before]) -> None:
    """Leaves what was entered last, whatever has been set since."""
    if state.autocast_decrement_nesting() == 0:
        state.clear_autocast_cache()
    put(device, *before.pop())


class autocast(LeftAtOnce):
    """Inside, matrix products and convolutions run in `dtype`, losses and the like in float32."""

    def __init__(
        self,
        device_type: str,
        dtype: dtype | None = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        _check_device_type(device_type)
        if not is_autocast_available(device_type):
            raise RuntimeError(f"User specified an unsupported autocast device_type '{device_type}'")
        self.device = device_type
        self.fast_dtype = state.get_autocast_dtype(device_type) if dtype is None else dtype
        self._cache_enabled = state.is_autocast_cache_enabled() if cache_enabled is None else cache_enabled
        if enabled and device_type == "cuda":
            warn_at_level("CUDA is not available. Disabling autocast.", stacklevel=2)
            enabled = False
        elif enabled and self.fast_dtype not in LOWER:
            name = device_type.upper()
            warn_at_level(
                f"In {name} autocast, but the target dtype is not supported. Disabling autocast.\n"
                f"{name} Autocast only supports dtypes of {', '.join(map(str, LOWER))} currently.",
                stacklevel=2,
            )
            enabled = False
        self._enabled = enabled
        self._before: list[Before] = []  # one per `with`: it may be entered again
        self._prepare()

    def _prepare(self) -> None:
        self._ways: list[Callable[[], None]] = []
        """Back to what was before; captured code knows nothing of them."""
        left = partial(leave, self.device, self._before)
        back = map(forget, map(call, iter(self._ways.pop, None))).__next__
        self.close = choosing(self._ways.__len__, {0: left}, back)

    def __getstate__(self) -> Any:
        return {name: value for name, value in self.__dict__.items() if name != "_ways"}

    def __setstate__(self, fields: Any) -> None:
        self.__dict__.update(fields)
        self._prepare()

    def __enter__(self) -> autocast:
        before = (
            state.is_autocast_enabled(self.device),
            state.get_autocast_dtype(self.device),
            state.is_autocast_cache_enabled(),
        )
        settings, mode = state.current(), modes.state.get()
        back: Actions = [
            partial(state.settings.set, settings),
            partial(modes.state.set, mode),
            partial(setattr, settings.cache, "open", settings.nesting > 0),
            *([] if settings.nesting else [settings.cache.clear]),
            self._before.pop,
        ]
        self._before.append(before)
        try:
            state.autocast_increment_nesting()
            put(self.device, self._enabled, self.fast_dtype, self._cache_enabled)
            as_now = choosing(
                modes.state.get,
                {modes.state.get(): partial(run_all, map(call, back))},
                left := partial(leave, self.device, self._before),
            )
            self._ways.append(choosing(state.settings.get, {state.settings.get(): as_now}, left))
        except BaseException:  # an interrupt: nobody will leave it
            run_all(map(call, back))
            raise
        return self

    def _leave(self, *_error: object) -> None:
        leave(self.device, self._before)

    def __call__(self, func: Callable[..., Any]) -> Callable[..., Any]:
        if not callable(func):
            raise TypeError(
                named(
                    f"autocast()(func) requires a callable, but got {type(func).__name__}. "
                    f"Did you mean to use "
                    "autocast as a context manager? For example:\n    with weft.autocast(device_type=...):\n"
                    "        output = model(input)"
                )
            )
        return autocast_decorator(self, func)


def autocast_decorator(autocast_instance: Any, func: Callable[..., Any]) -> Callable[..., Any]:
    """The function, run inside this autocast."""

    @wraps(func)
    def around(*args: Any, **kwargs: Any) -> Any:
        with autocast_instance:
            return func(*args, **kwargs)

    return around


# -- custom Functions ----------------------------------------------------------------------------------------
def _cast(value: Any, device_type: str, kind: dtype) -> Any:
    """Floating tensors (but float64) in the given dtype, wherever they are in a structure."""
    if isinstance(value, Tensor):
        fits = is_eligible(value) and value.device.type == device_type and value.dtype is not kind
        return ops._to_copy(value, kind) if fits else value
    if isinstance(value, (str, bytes, np.ndarray)):
        return value
    if isinstance(value, Mapping):
        return {_cast(k, device_type, kind): _cast(v, device_type, kind) for k, v in value.items()}
    if isinstance(value, Iterable):
        items = (_cast(item, device_type, kind) for item in value)
        return type(value)(items) if isinstance(value, (list, tuple)) else items
    return value


def custom_fwd(fwd: Any = None, *, device_type: str, cast_inputs: dtype | None = None) -> Any:
    """Decorator of a Function's forward: its backward (see `custom_bwd`) will run under autocast if it did.

    With `cast_inputs`, an enabled autocast casts the inputs and is off inside.
    """
    _check_device_type(device_type)
    if fwd is None:
        return partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @wraps(fwd)
    def forward(*args: Any, **kwargs: Any) -> Any:
        context = args[0]
        enabled = state.is_autocast_enabled(device_type)
        context._dtype = state.get_autocast_dtype(device_type)
        context._fwd_used_autocast = enabled and cast_inputs is None
        if cast_inputs is None or not enabled:
            return fwd(*args, **kwargs)
        with autocast(device_type, enabled=False):
            return fwd(*_cast(args, device_type, cast_inputs), **_cast(kwargs, device_type, cast_inputs))

    return forward


def custom_bwd(bwd: Any = None, *, device_type: str) -> Any:
    """Decorator of a Function's backward: autocast is as it was in a forward decorated with `custom_fwd`."""
    _check_device_type(device_type)
    if bwd is None:
        return partial(custom_bwd, device_type=device_type)

    @wraps(bwd)
    def backward(*args: Any, **kwargs: Any) -> Any:
        context = args[0]
        with autocast(device_type, enabled=context._fwd_used_autocast, dtype=context._dtype):
            return bwd(*args, **kwargs)

    return backward
