"""Mixed precision in its older spelling, `torch.cpu.amp`; see `weft.amp.cuda`.

Takes what `weft.amp` takes but for the device; gives the same. One idea: the device is filled in.
"""

from __future__ import annotations

from typing import Any

from weft.amp import autocast_mode, grad_scaler
from weft.amp.cuda import say
from weft.core.dtypes import bfloat16, dtype

__all__ = ["GradScaler", "autocast"]


class autocast(autocast_mode.autocast):
    """`weft.amp.autocast("cpu", …)`."""

    def __init__(self, enabled: bool = True, dtype: dtype = bfloat16, cache_enabled: bool = True) -> None:
        say("cpu.amp.autocast", "autocast('cpu', args...)")
        super().__init__("cpu", dtype, enabled, cache_enabled)


class GradScaler(grad_scaler.GradScaler):
    """`weft.amp.GradScaler("cpu", …)`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        say("cpu.amp.GradScaler", "GradScaler('cpu', args...)")
        super().__init__("cpu", *args, **kwargs)
