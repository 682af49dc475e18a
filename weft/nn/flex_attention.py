"""Attention whose scores and mask are functions of the places: `torch.nn.attention.flex_attention`.

Takes query, key and value, a function that changes a score given its place (batch, head, query, key) and a
mask made of such a function; gives the attention. One idea: the functions are mapped over all places at once
by `vmap`, and the rest is attention as anywhere; a block mask is kept as the function it was made of, with
the blocks that it leaves.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from weft.autograd.mapping import vmap
from weft.core.dtypes import bool_, int32
from weft.ops.record import ops

__all__ = [
    "AuxOutput", "AuxRequest", "BlockMask", "and_masks", "create_block_mask", "create_mask", "flex_attention",
    "noop_mask", "or_masks",
]  # fmt: skip
_DEFAULT_SPARSE_BLOCK_SIZE = 128


class AuxRequest(NamedTuple):
    """What is asked for beside the attention: the logarithms of sums, the largest scores."""

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """What was asked for beside the attention."""

    lse: Any = None
    max_scores: Any = None


def noop_mask(batch: Any, head: Any, token_q: Any, token_kv: Any) -> Any:
    """A mask that leaves all places."""
    return batch.new_ones((), dtype=bool_)


def and_masks(*mask_mods: Callable[..., Any]) -> Callable[..., Any]:
    """The mask of the places that all of these leave."""

    def both(b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
        result = mask_mods[0](b, h, q_idx, kv_idx)
        for mask in mask_mods[1:]:
            result = result & mask(b, h, q_idx, kv_idx)
        return result

    return both


def or_masks(*mask_mods: Callable[..., Any]) -> Callable[..., Any]:
    """The mask of the places that any of these leaves."""

    def either(b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
        result = mask_mods[0](b, h, q_idx, kv_idx)
        for mask in mask_mods[1:]:
            result = result | mask(b, h, q_idx, kv_idx)
        return result

    return either


def _over_places(function: Callable[..., Any], first: tuple[int | None, ...]) -> Callable[..., Any]:
    """A function of places as one of vectors of batches, heads, queries and keys."""
    for dims in ((None, None, None, 0), (None, None, 0, None), (None, 0, None, None), (0, None, None, None)):
        function = vmap(function, in_dims=(*first, *dims))
    return function


def _places(shape: tuple[int, ...], device: Any) -> list[Any]:
    return [ops.arange(count, device=device) for count in shape]


def create_mask(
    mod_fn: Callable[..., Any], B: int | None, H: int | None, Q_LEN: int, KV_LEN: int, device: Any = "cpu",
) -> Any:  # fmt: skip
    """Which places a mask function leaves, as a tensor."""
    shape = (1 if B is None else B, 1 if H is None else H, Q_LEN, KV_LEN)
    return _over_places(mod_fn, ())(*_places(shape, device)).expand(shape)


class BlockMask:
    """A mask by its function, with the blocks of places in which it leaves any."""

    def __init__(
        self, mask_mod: Callable[..., Any], shape: tuple[int, ...], BLOCK_SIZE: tuple[int, int], device: Any
    ) -> None:
        self.mask_mod, self.shape, self.BLOCK_SIZE, self.device = mask_mod, shape, BLOCK_SIZE, device
        self.seq_lengths = shape[-2:]

    def dense(self) -> Any:
        """Which places are left."""
        batch, head, queries, keys = self.shape
        return create_mask(self.mask_mod, batch, head, queries, keys, self.device)

    def to_dense(self) -> Any:
        """Which blocks are left: ones and zeros."""
        rows, columns = self.BLOCK_SIZE
        batch, head, queries, keys = self.shape
        padded = ops.constant_pad_nd(
            self.dense().to(int32), [0, -keys % columns, 0, -queries % rows], value=0
        )
        blocks = padded.reshape(
            (batch, head, padded.shape[-2] // rows, rows, padded.shape[-1] // columns, columns)
        )
        return blocks.amax((3, 5))

    @property
    def kv_num_blocks(self) -> Any:
        """How many blocks of keys are left for each block of queries."""
        return self.to_dense().sum(-1).to(int32)

    @property
    def kv_indices(self) -> Any:
        """The blocks of keys for each block of queries: those that are left first."""
        return ops.argsort(self.to_dense(), dim=-1, descending=True, stable=True).to(int32)

    def numel(self) -> int:
        """How many places there are."""
        return math.prod(self.shape)

    def sparsity(self) -> float:
        """How much of all blocks is left out, of a hundred."""
        return 100 * (1 - float(self.to_dense().float().mean()))

    def to(self, device: Any) -> BlockMask:
        """The mask on a device."""
        return BlockMask(self.mask_mod, self.shape, self.BLOCK_SIZE, device)

    def __repr__(self) -> str:
        return f"BlockMask(shape={self.shape}, sparsity={self.sparsity():.2f}%)"


def create_block_mask(
    mask_mod: Callable[..., Any], B: int | None, H: int | None, Q_LEN: int, KV_LEN: int, device: Any = None,
    BLOCK_SIZE: int | tuple[int, int] = _DEFAULT_SPARSE_BLOCK_SIZE, _compile: bool = False,
) -> BlockMask:  # fmt: skip
    """A block mask of a mask function."""
    size = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else tuple(BLOCK_SIZE)
    shape = (1 if B is None else B, 1 if H is None else H, Q_LEN, KV_LEN)
    return BlockMask(mask_mod, shape, size, "cpu" if device is None else device)  # type: ignore[arg-type]


def flex_attention(
    query: Any, key: Any, value: Any, score_mod: Callable[..., Any] | None = None,
    block_mask: BlockMask | None = None, scale: float | None = None, enable_gqa: bool = False,
    return_lse: bool = False, kernel_options: Any = None, *, return_aux: AuxRequest | None = None,
) -> Any:  # fmt: skip
    """softmax(score_mod(query @ key.T * scale)) @ value, over the places that the mask leaves."""
    if enable_gqa and key.shape[1] != query.shape[1]:
        times = query.shape[1] // key.shape[1]
        key, value = key.repeat_interleave(times, 1), value.repeat_interleave(times, 1)
    elif key.shape[1] != query.shape[1]:
        raise ValueError(
            f"Expect query and key/value to have the same number of heads but got Hq={query.shape[1]} and "
            f"Hkv={key.shape[1]}. Try setting enable_gqa=True for GQA."
        )
    scores = (query @ key.transpose(-2, -1)).float() * (query.shape[-1] ** -0.5 if scale is None else scale)
    if score_mod is not None:
        changed = score_mod
        for dims in ((0, None, None, None, 0), (0, None, None, 0, None), (0, None, 0, None, None),
                     (0, 0, None, None, None)):  # fmt: skip
            changed = vmap(changed, in_dims=dims)
        scores = changed(scores, *_places(tuple(scores.shape), query.device)).to(scores.dtype)
    if block_mask is not None:
        left = block_mask.dense()
        left = left[..., : query.shape[-2], : key.shape[-2]]
        scores = ops.where(left, scores, -math.inf)
    total = scores.logsumexp(-1)
    weights = (scores - ops.where(total == -math.inf, 0.0, total).unsqueeze(-1)).exp()
    out = weights.to(query.dtype) @ value
    if return_aux is not None:
        return out, AuxOutput(
            total if return_aux.lse else None, scores.amax(-1) if return_aux.max_scores else None
        )
    return (out, total) if return_lse else out
