"""Dimensions as callers count them, from the front or from the back, made non-negative.

Takes a dimension and the rank of its tensor; gives a plain int in range, or PyTorch's IndexError. A zero-dim
tensor counts as having one dimension.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import index
from typing import SupportsIndex


def wrap_dim(dim: SupportsIndex, rank: int) -> int:
    """The dimension counted from the front."""
    if type(dim) is not int:
        dim = index(dim)
    span = rank or 1
    if not -span <= dim < span:
        raise outside(dim, rank)
    return dim + span if dim < 0 else dim


def wrap_dims(dims: Iterable[SupportsIndex], rank: int) -> tuple[int, ...]:
    """Several distinct dimensions, counted from the front."""
    wrapped = tuple(wrap_dim(dim, rank) for dim in dims)
    for position, dim in enumerate(wrapped):
        if dim in wrapped[:position]:
            raise RuntimeError(f"dim {dim} appears multiple times in the list of dims")
    return wrapped


def outside(dim: int, rank: int) -> IndexError:
    """The error for a dimension that a tensor of this rank does not have."""
    span = rank or 1
    return IndexError(
        f"Dimension out of range (expected to be in range of [{-span}, {span - 1}], but got {dim})"
    )
