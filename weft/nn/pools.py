"""Pools that always give their indices: `max_pool2d_with_indices` and its kin.

Takes what the pool of the same name takes; gives maxima, and where they stand.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.tensor.faces import FUNCTIONS


def _with_indices(name: str) -> Callable[..., Any]:
    pool = FUNCTIONS[f"nn.functional.{name}"]

    def both(*args: Any, return_indices: bool = True, **kwargs: Any) -> Any:
        return pool(*args, return_indices=True, **kwargs)

    both.__name__ = both.__qualname__ = f"{name}_with_indices"
    both.__doc__ = f"`{name}`, and where the maxima stand."
    return both


KINDS = ("max_pool", "adaptive_max_pool", "fractional_max_pool")
WITH_INDICES = {
    f"{name}_with_indices": _with_indices(name)
    for name in [f"{kind}{count}d" for kind in KINDS for count in "123"]
    if f"nn.functional.{name}" in FUNCTIONS
}
