"""Changes of shape as layers: `Flatten`, `Unflatten`."""

from __future__ import annotations

from typing import Any

from weft.nn.modules.ranked import Showing
from weft.tensor.base import Tensor

__all__ = ["Flatten", "Unflatten"]


class Flatten(Showing):
    """Joins the dimensions from `start_dim` to `end_dim`; by default all but the batch.

    >>> weft.nn.Flatten()(weft.zeros(2, 3, 4, 5)).shape
    weft.Size([2, 60])
    """

    _shown = ("start_dim", "end_dim")

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, input: Tensor) -> Tensor:
        return input.flatten(self.start_dim, self.end_dim)


class Unflatten(Showing):
    """Splits one dimension into several.

    >>> weft.nn.Unflatten(1, (3, -1))(weft.zeros(2, 12)).shape
    weft.Size([2, 3, 4])
    """

    _shown = ("dim", "unflattened_size")

    def __init__(self, dim: int, unflattened_size: Any) -> None:
        super().__init__()
        if not isinstance(unflattened_size, (tuple, list)):
            found = type(unflattened_size).__name__
            raise TypeError(f"unflattened_size must be a tuple of ints, but found type {found}")
        for position, size in enumerate(unflattened_size):
            if not isinstance(size, int):
                raise TypeError(
                    "unflattened_size must be tuple of ints, "
                    f"but found element of type {type(size).__name__} at pos {position}"
                )
        self.dim, self.unflattened_size = dim, unflattened_size

    def forward(self, input: Tensor) -> Tensor:
        return input.unflatten(self.dim, self.unflattened_size)
