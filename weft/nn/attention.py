"""How attention is computed: one way here, which every choice names.

Takes backends of PyTorch's; gives a context in which they are chosen. What is computed does not change.
"""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Iterator
from typing import Any


class SDPBackend(enum.IntEnum):
    """Ways of computing attention."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


@contextlib.contextmanager
def sdpa_kernel(backends: Any, set_priority: bool = False) -> Iterator[None]:
    """Chooses among backends for a while: here all are one."""
    given = [backends] if isinstance(backends, SDPBackend) else list(backends)
    if not given:
        raise AssertionError("Backend must be an instance of SDPBackend or a list of SDPBackend instances")
    yield
