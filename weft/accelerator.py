"""The accelerator of this machine, which would be a GPU by CUDA: there is none that Weft uses yet."""

from __future__ import annotations

from typing import Any

from weft.cuda import device_count as device_count
from weft.cuda import is_available as is_available


def current_accelerator(check_available: bool = False) -> Any:
    """The device, or None."""
    return None
