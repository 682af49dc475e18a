"""Attention with functions of places: against attention written out, gradients too, and against PyTorch."""

from __future__ import annotations

import math
from typing import Any

import pytest

import weft
from weft.nn import flex_attention as flex


def causal(b: Any, h: Any, q: Any, k: Any) -> Any:
    return q >= k


def inputs() -> list[Any]:
    weft.manual_seed(0)
    return [weft.randn(2, 4, 5, 3, requires_grad=True) for _ in range(3)]


def test_mask_and_scores() -> None:
    query, key, value = inputs()
    slopes = weft.tensor([0.5, 1.0, 2.0, 4.0])

    def lean(score: Any, b: Any, h: Any, q: Any, k: Any) -> Any:
        return score - slopes[h] * (q - k).abs()

    mask = flex.create_block_mask(causal, None, None, 5, 5)
    found, total = flex.flex_attention(query, key, value, lean, mask, return_lse=True)
    places = weft.arange(5)
    scores = query @ key.transpose(-2, -1) / math.sqrt(3)
    scores = scores - slopes[:, None, None] * (places[:, None] - places).abs()
    scores = scores.masked_fill(places[:, None] < places, -math.inf)
    expected = scores.softmax(-1) @ value
    assert weft.allclose(found, expected, atol=1e-6) and weft.allclose(total, scores.logsumexp(-1), atol=1e-6)
    mine = weft.autograd.grad(found.square().sum(), (query, key, value))
    other = weft.autograd.grad(expected.square().sum(), (query, key, value))
    assert all(weft.allclose(a, b, atol=1e-5) for a, b in zip(mine, other, strict=True))


def test_grouped_heads() -> None:
    query, key, value = inputs()
    found = flex.flex_attention(query, key[:, :2], value[:, :2], enable_gqa=True)
    wide = key[:, :2].repeat_interleave(2, 1), value[:, :2].repeat_interleave(2, 1)
    assert weft.allclose(found, weft.nn.functional.scaled_dot_product_attention(query, *wide), atol=1e-6)
    with pytest.raises(ValueError, match="Try setting enable_gqa=True"):
        flex.flex_attention(query, key[:, :2], value[:, :2])


def test_blocks() -> None:
    """Blocks of a mask, where the length is no multiple of the block."""
    mask = flex.create_block_mask(causal, 2, None, 5, 5, BLOCK_SIZE=2)
    assert mask.shape == (2, 1, 5, 5)
    assert mask.to_dense()[0, 0].tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    assert mask.kv_num_blocks[0, 0].tolist() == [1, 2, 3] and mask.kv_indices[0, 0, 0, 0] == 0
    assert mask.sparsity() == pytest.approx(100 / 3)
    near = flex.and_masks(causal, lambda b, h, q, k: q - k < 2)
    assert flex.create_mask(near, None, None, 3, 3)[0, 0].int().tolist() == [[1, 0, 0], [1, 1, 0], [0, 1, 1]]


@pytest.mark.torch
def test_as_pytorch() -> None:
    torch = pytest.importorskip("torch")
    from torch.nn.attention import flex_attention as theirs

    query, key, value = (each.detach() for each in inputs())
    found = flex.flex_attention(query, key, value, lambda s, b, h, q, k: s * 0.5 + (q - k) * 0.1)
    others = [torch.from_numpy(each.numpy()) for each in (query, key, value)]
    with pytest.warns(UserWarning, match="without torch.compile"):
        expected = theirs.flex_attention(*others, lambda s, b, h, q, k: s * 0.5 + (q - k) * 0.1)
    assert weft.allclose(found, weft.from_numpy(expected.numpy()), atol=1e-6)
