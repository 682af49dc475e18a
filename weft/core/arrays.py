"""The array namespace: kernels ask here which module (NumPy, later CuPy) serves the arrays they were given.

One idea: a kernel never says `np.` for work on its inputs; it says `xp = namespace(x)`, so the same kernel
runs on any device whose arrays speak NumPy's names.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

Array = Any  # a NumPy or CuPy array; kernels are written against their common surface


def namespace(*arrays: Array) -> Any:
    """The module that serves these arrays: `numpy`, unless one of them belongs to another array library."""
    for array in arrays:
        kind = type(array)
        if kind is not np.ndarray and kind.__module__.partition(".")[0] == "cupy":
            return sys.modules["cupy"]
    return np
