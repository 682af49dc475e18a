"""Mixed precision in its older spelling, `torch.cuda.amp`: the device is in the name.

Takes what `weft.amp` takes but for the device; gives the same, after a word that the spelling is old. One
idea: each is its newer namesake with the device filled in.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from weft.amp import autocast_mode, grad_scaler
from weft.core.dtypes import dtype, float16
from weft.core.naming import named
from weft.core.warn import warn_at_level

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]


def say(old: str, new: str) -> None:
    """Tells whoever called the caller what to write instead."""
    text = f"`weft.{old}(args...)` is deprecated. Please use `weft.amp.{new}` instead."
    warn_at_level(named(text), FutureWarning, stacklevel=3)


class autocast(autocast_mode.autocast):
    """`weft.amp.autocast("cuda", …)`."""

    def __init__(self, enabled: bool = True, dtype: dtype = float16, cache_enabled: bool = True) -> None:
        say("cuda.amp.autocast", "autocast('cuda', args...)")
        super().__init__("cuda", dtype, enabled, cache_enabled)


class GradScaler(grad_scaler.GradScaler):
    """`weft.amp.GradScaler("cuda", …)`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        say("cuda.amp.GradScaler", "GradScaler('cuda', args...)")
        super().__init__("cuda", *args, **kwargs)


def custom_fwd(fwd: Any = None, *, cast_inputs: dtype | None = None) -> Any:
    """`weft.amp.custom_fwd(…, device_type="cuda")`."""
    say("cuda.amp.custom_fwd", "custom_fwd(args..., device_type='cuda')")
    decorate = partial(autocast_mode.custom_fwd, device_type="cuda", cast_inputs=cast_inputs)
    return decorate if fwd is None else decorate(fwd)


def custom_bwd(bwd: Any) -> Any:
    """`weft.amp.custom_bwd(…, device_type="cuda")`."""
    say("cuda.amp.custom_bwd", "custom_bwd(args..., device_type='cuda')")
    return autocast_mode.custom_bwd(bwd, device_type="cuda")
