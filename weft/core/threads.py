"""Threads: how many a computation may use.

Takes what the user asks for, what the system allows; tells those that have threads of their own. One idea:
the number stands here, below everything that needs it.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Final

asked: Final[list[int]] = []
"""What the user asked for, if anything."""
watchers: Final[list[Callable[[int], None]]] = []
"""Told when another number is asked for."""
VARIABLES: Final = ("WEFT_NUM_THREADS", "OMP_NUM_THREADS")
QUOTAS: Final = (
    ("/sys/fs/cgroup/cpu.max",),
    ("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "/sys/fs/cgroup/cpu/cpu.cfs_period_us"),
)
"""Where Linux says how much of a second a group of processes may compute in each period."""


def count() -> int:
    """How many threads one computation may use."""
    return asked[0] if asked else named() or available()


@cache
def named() -> int:
    """What the environment says when it is first asked, 0 where it says nothing: `WEFT_NUM_THREADS` or, as
    for other libraries, `OMP_NUM_THREADS`."""
    for name in VARIABLES:
        text = os.environ.get(name, "").partition(",")[0].strip()
        if text.isdecimal() and int(text) > 0:
            return int(text)
    return 0


def ask(number: int) -> None:
    asked[:] = [number]
    for watcher in watchers:
        watcher(number)


@cache
def available() -> int:
    """How many processors this process may use at once."""
    found = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    for paths in QUOTAS:
        try:
            words = [word for path in paths for word in Path(path).read_text().split()]
            quota, period = int(words[0]), int(words[1])
        except (OSError, ValueError, IndexError):
            continue
        if quota > 0 and period > 0:
            found = min(found, math.ceil(quota / period))
    return max(found, 1)
