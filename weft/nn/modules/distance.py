"""Distances between vectors as layers: `PairwiseDistance`, `CosineSimilarity`."""

from __future__ import annotations

from collections.abc import Callable

import weft.nn.functional as F
from weft.nn.modules.module import Module
from weft.tensor.base import Tensor

__all__ = ["CosineSimilarity", "PairwiseDistance"]


class PairwiseDistance(Module):
    """The p-norm of `x1 - x2 + eps` along the last dimension.

    >>> weft.nn.PairwiseDistance(eps=0.0)(weft.tensor([[3.0, 4.0]]), weft.zeros(1, 2))
    tensor([5.])
    """

    __call__: Callable[..., Tensor]

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm, self.eps, self.keepdim = p, eps, keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)


class CosineSimilarity(Module):
    """The cosine of the angle between vectors along `dim`.

    >>> weft.nn.CosineSimilarity()(weft.tensor([[1.0, 0.0]]), weft.tensor([[3.0, 4.0]]))
    tensor([0.6000])
    """

    __call__: Callable[..., Tensor]

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim, self.eps = dim, eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return F.cosine_similarity(x1, x2, self.dim, self.eps)
