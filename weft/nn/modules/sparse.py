"""Tables of vectors: `Embedding`, and `EmbeddingBag`, which reduces the rows of each bag.

Takes integers, gives the rows of the table that they name, or their sums, means or maxima.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import weft.nn.functional as F
import weft.nn.init as init
from weft.autograd.grad_mode import no_grad
from weft.nn.modules.module import Module
from weft.nn.modules.utils import unusual
from weft.nn.parameter import Parameter
from weft.ops.record import ops
from weft.tensor.base import Tensor

__all__ = ["Embedding", "EmbeddingBag"]


class _Table(Module):
    """What the two share: the table of vectors."""

    __call__: Callable[..., Tensor]
    num_embeddings: int
    embedding_dim: int
    padding_idx: int | None
    weight: Tensor

    def _make_table(self, given: Tensor | None, freeze: bool, device: Any, dtype: Any) -> None:
        shape = (self.num_embeddings, self.embedding_dim)
        if given is not None and tuple(given.shape) != shape:
            raise AssertionError("Shape of weight does not match num_embeddings and embedding_dim")
        table = ops.empty(shape, dtype=dtype, device=device) if given is None else given
        self.weight = Parameter(table, requires_grad=not freeze)
        if given is None:
            self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws a new table from the standard normal distribution."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx].fill_(0)


class Embedding(_Table):
    """A table of `num_embeddings` vectors; the row `padding_idx` starts as zeros and receives no gradient.

    >>> table = weft.nn.Embedding(10, 3, padding_idx=0)
    >>> table(weft.tensor([[1, 2], [0, 9]])).shape
    weft.Size([2, 2, 3])
    >>> table.weight[0].tolist()
    [0.0, 0.0, 0.0]
    """

    def __init__(
        self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None,
        max_norm: float | None = None, norm_type: float = 2.0, scale_grad_by_freq: bool = False,
        sparse: bool = False, _weight: Tensor | None = None, _freeze: bool = False,
        device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        if padding_idx:  # row 0 may be named even for an empty table
            if not -num_embeddings <= padding_idx < num_embeddings:
                raise AssertionError("Padding_idx must be within num_embeddings")
            padding_idx %= num_embeddings
        self.padding_idx, self.max_norm, self.norm_type = padding_idx, max_norm, norm_type
        self.scale_grad_by_freq, self.sparse = scale_grad_by_freq, sparse
        self._make_table(_weight, _freeze, device, dtype)

    def forward(self, input: Tensor) -> Tensor:
        return F.embedding(
            input, self.weight, self.padding_idx, self.max_norm, self.norm_type,
            self.scale_grad_by_freq, self.sparse,
        )  # fmt: skip

    def extra_repr(self) -> str:
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        text += unusual(self, padding_idx=None, max_norm=None, norm_type=2)
        if self.scale_grad_by_freq is not False:
            text += f", scale_grad_by_freq={self.scale_grad_by_freq}"
        return text if self.sparse is False else text + ", sparse=True"

    @classmethod
    def from_pretrained(
        cls, embeddings: Tensor, freeze: bool = True, padding_idx: int | None = None,
        max_norm: float | None = None, norm_type: float = 2.0, scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Embedding:  # fmt: skip
        """An Embedding over this very table; frozen unless told otherwise."""
        if embeddings.dim() != 2:
            raise AssertionError("Embeddings parameter is expected to be 2-dimensional")
        rows, columns = embeddings.shape
        return cls(
            rows, columns, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse,
            _weight=embeddings, _freeze=freeze,
        )  # fmt: skip


class EmbeddingBag(_Table):
    """A table of vectors of which each bag of indices gets the sum, mean or maximum.

    >>> import weft
    >>> bag = weft.nn.EmbeddingBag.from_pretrained(weft.tensor([[1.0, 2.0], [3.0, 4.0]]), mode="sum")
    >>> bag(weft.tensor([0, 1, 1]), weft.tensor([0, 2])).tolist()
    [[4.0, 6.0], [3.0, 4.0]]
    """

    def __init__(
        self, num_embeddings: int, embedding_dim: int, max_norm: float | None = None, norm_type: float = 2.0,
        scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False,
        _weight: Tensor | None = None, include_last_offset: bool = False, padding_idx: int | None = None,
        device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.num_embeddings, self.embedding_dim, self.max_norm = num_embeddings, embedding_dim, max_norm
        self.norm_type, self.scale_grad_by_freq = norm_type, scale_grad_by_freq
        if padding_idx is not None:
            if not -num_embeddings <= padding_idx < num_embeddings:
                raise AssertionError("padding_idx must be within num_embeddings")
            padding_idx %= num_embeddings
        self.padding_idx = padding_idx
        self._make_table(_weight, False, device, dtype)
        self.mode, self.sparse, self.include_last_offset = mode, sparse, include_last_offset

    def forward(
        self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None
    ) -> Tensor:
        return F.embedding_bag(
            input, self.weight, offsets, self.max_norm, self.norm_type, self.scale_grad_by_freq, self.mode,
            self.sparse, per_sample_weights, self.include_last_offset, self.padding_idx,
        )  # fmt: skip

    def extra_repr(self) -> str:
        text = f"{self.num_embeddings}, {self.embedding_dim}{unusual(self, max_norm=None, norm_type=2)}"
        if self.scale_grad_by_freq is not False:
            text += f", scale_grad_by_freq={self.scale_grad_by_freq}"
        return f"{text}, mode={self.mode!r}{unusual(self, padding_idx=None)}"

    @classmethod
    def from_pretrained(
        cls, embeddings: Tensor, freeze: bool = True, max_norm: float | None = None, norm_type: float = 2.0,
        scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False,
        include_last_offset: bool = False, padding_idx: int | None = None,
    ) -> EmbeddingBag:  # fmt: skip
        """An EmbeddingBag over this very table; frozen unless told otherwise."""
        if embeddings.dim() != 2:
            raise AssertionError("Embeddings parameter is expected to be 2-dimensional")
        rows, columns = embeddings.shape
        bag = cls(
            rows, columns, max_norm, norm_type, scale_grad_by_freq, mode, sparse, embeddings,
            include_last_offset, padding_idx,
        )  # fmt: skip
        bag.weight.requires_grad = not freeze
        return bag
