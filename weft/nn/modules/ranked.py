"""What layers share that exist for one, two and three dimensions, and those that show some attributes.

Takes a class statement's `rank`, gives the function of the layer's kind for that rank. One idea: a family is
one class with everything in it, and its members say how many dimensions they have.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import weft.nn.functional as F
from weft.nn.modules.module import Module
from weft.nn.modules.utils import named
from weft.tensor.base import Tensor


class Showing(Module):
    """A layer whose print is the names and values of some attributes."""

    __call__: Callable[..., Tensor]
    _shown: ClassVar[tuple[str, ...]] = ()

    def extra_repr(self) -> str:
        return named(self, *type(self)._shown)


class Ranked(Showing):
    """A layer of so many dimensions: `class MaxPool2d(_MaxPoolNd, rank=2)` does what `functional.max_pool2d`
    does. The function lies on the class, where binding it to the instance must not happen."""

    _kind: ClassVar[str] = ""
    """What the functions are called, without their rank."""
    _rank: int
    _function: Callable[..., Any]

    def __init_subclass__(cls, rank: int | None = None, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if rank is not None:
            cls._rank = rank
            if cls._kind:
                cls._function = staticmethod(getattr(F, f"{cls._kind}{rank}d"))


def check_dims(input: Tensor, dims: list[int]) -> None:
    """Refuses input of other numbers of dimensions. Scripts read this: lists, and no generators."""
    if input.dim() not in dims:
        wanted = " or ".join([f"{dim}D" for dim in dims])
        raise ValueError(f"expected {wanted} input (got {input.dim()}D input)")
