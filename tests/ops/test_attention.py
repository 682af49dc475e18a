"""Attention against its formula, embeddings and their gradients, one-hot vectors, dropout."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from weft.nn import functional as F

random = np.random.default_rng(0)


def make(*shape: int) -> weft.Tensor:
    return weft.from_numpy(random.standard_normal(shape))


def attention(q: Any, k: Any, v: Any, bias: Any = 0.0) -> Any:
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1]) + bias
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v


def test_attention_and_its_masks() -> None:
    q, k, v = make(2, 3, 4), make(2, 5, 4), make(2, 5, 6)
    arrays = [x.numpy() for x in (q, k, v)]
    np.testing.assert_allclose(
        F.scaled_dot_product_attention(q, k, v).numpy(), attention(*arrays), rtol=1e-10
    )
    bias = make(3, 5)
    np.testing.assert_allclose(
        F.scaled_dot_product_attention(q, k, v, bias).numpy(), attention(*arrays, bias.numpy()), rtol=1e-10
    )
    causal = np.where(np.tri(3, 5), 0.0, -np.inf)
    np.testing.assert_allclose(
        F.scaled_dot_product_attention(q, k, v, is_causal=True).numpy(),
        attention(*arrays, causal),
        rtol=1e-10,
    )


def test_rows_with_everything_masked_are_zero_with_zero_gradient() -> None:
    q, k, v = (make(2, 4).requires_grad_() for _ in range(3))
    mask = weft.tensor([[True, False], [False, False]])
    out = F.scaled_dot_product_attention(q, k, v, mask)
    assert out[1].tolist() == [0.0] * 4
    out.sum().backward()
    assert q.grad[1].tolist() == [0.0] * 4
    assert np.isfinite(k.grad.numpy()).all()


def test_grouped_queries_share_keys() -> None:
    q, k, v = make(1, 4, 3, 2), make(1, 2, 5, 2), make(1, 2, 5, 2)
    out = F.scaled_dot_product_attention(q, k, v, enable_gqa=True)
    for head in range(4):
        single = F.scaled_dot_product_attention(q[:, head], k[:, head // 2], v[:, head // 2])
        np.testing.assert_allclose(out[:, head].numpy(), single.numpy(), rtol=1e-12)


def test_attention_refusals() -> None:
    q = weft.zeros(2, 3, 4)
    with pytest.raises(RuntimeError, match="Explicit attn_mask should not be set when is_causal=True"):
        F.scaled_dot_product_attention(q, q, q, weft.zeros(3, 3), is_causal=True)
    with pytest.raises(
        RuntimeError, match="to have the same dtype, but got query.dtype: float key.dtype: double"
    ):
        F.scaled_dot_product_attention(q, q.double(), q)
    with pytest.raises(RuntimeError, match="Expected attn_mask dtype to be bool or float"):
        F.scaled_dot_product_attention(q, q, q, weft.zeros(3, 3, dtype=weft.int64))


def heads(x: weft.Tensor, **options: Any) -> Any:
    width = x.shape[-1]
    weights = np.random.default_rng(1)
    packed, out = weights.standard_normal((3 * width, width)), weights.standard_normal((width, width))
    return F.multi_head_attention_forward(
        x,
        x,
        x,
        width,
        2,
        weft.from_numpy(packed),
        None,
        None,
        None,
        False,
        0.0,
        weft.from_numpy(out),
        None,
        **options,
    )


def test_several_heads_are_attention_per_head() -> None:
    x = make(3, 2, 4)
    out, weights = heads(x)
    assert weights.shape == (2, 3, 3)
    np.testing.assert_allclose(weights.sum(-1).numpy(), 1.0, rtol=1e-12)
    rng = np.random.default_rng(1)
    packed, last = rng.standard_normal((12, 4)), rng.standard_normal((4, 4))
    q, k, v = np.split(x.numpy() @ packed.T, 3, -1)
    parts = [attention(*(a[:, :, h * 2 : h * 2 + 2].transpose(1, 0, 2) for a in (q, k, v))) for h in range(2)]
    expected = np.concatenate(parts, -1).transpose(1, 0, 2) @ last.T
    np.testing.assert_allclose(out.numpy(), expected, rtol=1e-8)


def test_weights_are_given_only_on_request() -> None:
    x = make(3, 2, 4)
    with_weights, _ = heads(x)
    without, nothing = heads(x, need_weights=False)
    assert nothing is None
    np.testing.assert_allclose(without.numpy(), with_weights.numpy(), rtol=1e-8)
    assert heads(x, average_attn_weights=False)[1].shape == (2, 2, 3, 3)


def test_one_sequence_without_a_batch() -> None:
    x = make(3, 4)
    out, weights = heads(x)
    batched, _ = heads(x[:, None])
    assert weights.shape == (3, 3)
    np.testing.assert_allclose(out.numpy(), batched[:, 0].numpy(), rtol=1e-12)


def test_masks_of_padding_and_attention_add_up() -> None:
    x = make(3, 2, 4)
    padding = weft.tensor([[False, False, True], [False, False, False]])
    _, weights = heads(x, key_padding_mask=padding)
    assert weights[0, :, 2].tolist() == [0.0] * 3
    causal = weft.ones(3, 3, dtype=weft.bool).triu(1)
    _, weights = heads(x, key_padding_mask=padding, attn_mask=causal)
    assert weights[:, 0].tolist() == [[1.0, 0.0, 0.0]] * 2
    with pytest.raises(RuntimeError, match="The shape of the 2D attn_mask is"):
        heads(x, attn_mask=weft.zeros(2, 2))
    with pytest.raises(AssertionError, match="was expecting embedding dimension of 5, but got 4"):
        F.multi_head_attention_forward(x, x, x, 5, 2, None, None, None, None, False, 0.0, x[0], None)


def test_embedding_and_the_sum_of_its_gradients() -> None:
    table = make(4, 3).requires_grad_()
    places = weft.tensor([[1, 3], [1, 0]])
    out = F.embedding(places, table, padding_idx=-1)
    np.testing.assert_array_equal(out.numpy(force=True), table.numpy(force=True)[places.numpy()])
    out.sum().backward()
    assert table.grad[:, 0].tolist() == [1.0, 2.0, 0.0, 0.0]
    table.grad = None
    F.embedding(places, table, scale_grad_by_freq=True).sum().backward()
    assert table.grad[:, 0].tolist() == [1.0, 1.0, 0.0, 1.0]


def test_second_order_through_an_embedding() -> None:
    table = make(4, 3).requires_grad_()
    places = weft.tensor([1, 1, 2])
    (first,) = weft.autograd.grad((F.embedding(places, table) ** 3).sum(), table, create_graph=True)
    (second,) = weft.autograd.grad(first.sum(), table)
    values = table.numpy(force=True)
    np.testing.assert_allclose(second.numpy()[1], 12 * values[1], rtol=1e-12)
    np.testing.assert_allclose(second.numpy()[2], 6 * values[2], rtol=1e-12)


def test_rows_that_are_too_long_are_cut_in_place() -> None:
    table = weft.tensor([[3.0, 4.0], [0.3, 0.4], [6.0, 8.0]])
    F.embedding(weft.tensor([0, 1]), table, max_norm=1.0)
    np.testing.assert_allclose(table.numpy(), [[0.6, 0.8], [0.3, 0.4], [6.0, 8.0]], rtol=1e-6)


def test_embedding_refusals() -> None:
    table = weft.zeros(3, 2)
    with pytest.raises(IndexError, match="index out of range in self"):
        F.embedding(weft.tensor([3]), table)
    with pytest.raises(RuntimeError, match="'weight' must be 2-D"):
        F.embedding(weft.tensor([0]), weft.zeros(3))
    with pytest.raises(AssertionError, match="Padding_idx must be within num_embeddings"):
        F.embedding(weft.tensor([0]), table, padding_idx=3)
    with pytest.raises(RuntimeError, match="to have one of the following scalar types: Long, Int"):
        F.embedding(weft.tensor([0.0]), table)


def test_one_hot() -> None:
    assert F.one_hot(weft.tensor([0, 2])).tolist() == [[1, 0, 0], [0, 0, 1]]
    assert F.one_hot(weft.tensor(1), 4).tolist() == [0, 1, 0, 0]
    with pytest.raises(RuntimeError, match="Class values must be smaller than num_classes."):
        F.one_hot(weft.tensor([2]), 2)
    with pytest.raises(RuntimeError, match="Class values must be non-negative."):
        F.one_hot(weft.tensor([-1]), 2)
    with pytest.raises(RuntimeError, match="Can not infer total number of classes from empty tensor."):
        F.one_hot(weft.zeros(0, dtype=weft.int64))


def test_dropout_keeps_the_mean_and_scales_gradients_alike() -> None:
    x = weft.ones(200, 200, requires_grad=True)
    out = F.dropout(x, 0.25)
    kept = out.numpy(force=True)
    assert set(np.unique(kept).round(5)) == {0.0, np.float32(4 / 3).round(5)}
    assert kept.mean() == pytest.approx(1.0, abs=0.02)
    out.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), kept)


def test_dropout_outside_training_is_the_identity() -> None:
    x = make(3)
    assert F.dropout(x, 0.5, training=False) is x
    assert F.dropout(x, 0.0) is x
    assert F.dropout(x, 1.0).tolist() == [0.0] * 3
    assert F.dropout(x, 0.5, inplace=True) is x
    with pytest.raises(ValueError, match="dropout probability has to be between 0 and 1, but got 1.5"):
        F.dropout(x, 1.5)
    with pytest.raises(RuntimeError, match="dropout probability has to be between 0 and 1, but got -1"):
        weft.dropout(x, -1, True)


@pytest.mark.parametrize("shape", [(4, 9), (0,), ()])
def test_gradients_of_embeddings_without_width(shape: tuple[int, ...]) -> None:
    weight = weft.ones(5, 0, requires_grad=True)
    F.embedding(weft.zeros(shape, dtype=weft.int64), weight).sum().backward()
    assert weight.grad is not None and weight.grad.shape == (5, 0)


@pytest.mark.parametrize("kind", ["float64", "float16", "bfloat16"])
def test_float32_masks_are_added_to_queries_of_any_dtype(kind: str) -> None:
    q, k, v = (make(2, 3, 4).to(getattr(weft, kind)) for _ in range(3))
    mask = make(3, 3).float().requires_grad_()
    got = F.scaled_dot_product_attention(q, k, v, mask)
    assert got.dtype is getattr(weft, kind)
    bound = 1e-12 if kind == "float64" else 2e-2
    arrays = [x.double().numpy() for x in (q, k, v, mask.detach())]
    np.testing.assert_allclose(got.detach().double().numpy(), attention(*arrays), rtol=bound, atol=bound)
    (slope,) = weft.autograd.grad(got.sum(), mask)
    assert slope.dtype is weft.float32
    compiled = weft.compile(F.scaled_dot_product_attention)(q, k, v, mask)
    assert compiled.dtype is got.dtype
    np.testing.assert_allclose(
        compiled.detach().double().numpy(), got.detach().double().numpy(), rtol=bound, atol=bound
    )


@pytest.mark.parametrize("kind", ["float64", "int64", "float16"])
def test_other_masks_are_refused(kind: str) -> None:
    x = make(2, 3, 4).float()
    with pytest.raises(RuntimeError, match="Expected attn_mask dtype to be bool or float or to match"):
        F.scaled_dot_product_attention(x, x, x, make(3, 3).to(getattr(weft, kind)))
