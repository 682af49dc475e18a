from __future__ import annotations

import numpy as np
import pytest

import weft
from weft import nn


def test_rows_of_the_table(agrees, rng):
    layer = nn.Embedding(6, 3)
    agrees(layer, lambda i: layer.weight.detach().numpy()[i], rng.integers(0, 6, (2, 5)))


def test_padding_row_starts_as_zeros_and_receives_no_gradient():
    layer = nn.Embedding(6, 3, padding_idx=-2)
    assert layer.padding_idx == 4
    assert (layer.weight[4] == 0).all() and (layer.weight[3] != 0).any()
    layer(weft.tensor([1, 4, 4, 1])).sum().backward()
    expected = np.zeros((6, 3))
    expected[1] = 2
    np.testing.assert_array_equal(layer.weight.grad.numpy(), expected)


def test_gradient_by_frequency_is_a_mean():
    layer = nn.Embedding(4, 2, scale_grad_by_freq=True)
    (layer(weft.tensor([1, 1, 2])) * weft.tensor([[1.0], [3.0], [5.0]])).sum().backward()
    np.testing.assert_allclose(layer.weight.grad.numpy()[:, 0], [0, 2, 5, 0])


def test_max_norm_cuts_used_rows_back_in_place():
    table = weft.tensor([[3.0, 4.0], [0.3, 0.4], [6.0, 8.0]])
    layer = nn.Embedding(3, 2, max_norm=1.0, _weight=table)
    out = layer(weft.tensor([0, 1]))
    np.testing.assert_allclose(out.detach().numpy(), [[0.6, 0.8], [0.3, 0.4]], rtol=1e-6)
    np.testing.assert_allclose(layer.weight.detach().numpy(), [[0.6, 0.8], [0.3, 0.4], [6, 8]], rtol=1e-6)


def test_from_pretrained_shares_the_table_and_freezes_it():
    table = weft.ones(3, 2)
    layer = nn.Embedding.from_pretrained(table, padding_idx=0)
    assert not layer.weight.requires_grad
    assert layer.weight.data_ptr() == table.data_ptr()
    assert (layer.weight[0] == 1).all(), "a given table keeps its padding row"
    assert nn.Embedding.from_pretrained(table, freeze=False).weight.requires_grad


def test_starts_from_the_normal_distribution():
    drawn = nn.Embedding(200, 50).weight.detach().numpy()
    np.testing.assert_allclose([drawn.mean(), drawn.std()], [0, 1], atol=0.03)


@pytest.mark.parametrize("padding", [5, -6])
def test_padding_lies_within_the_table(padding):
    with pytest.raises(AssertionError, match="Padding_idx must be within num_embeddings"):
        nn.Embedding(5, 3, padding_idx=padding)


def test_given_tables_must_fit():
    with pytest.raises(
        AssertionError, match="Shape of weight does not match num_embeddings and embedding_dim"
    ):
        nn.Embedding(5, 3, _weight=weft.zeros(5, 2))
    with pytest.raises(AssertionError, match="Embeddings parameter is expected to be 2-dimensional"):
        nn.Embedding.from_pretrained(weft.zeros(5))


def test_indices_lie_within_the_table():
    with pytest.raises(IndexError, match="index out of range in self"):
        nn.Embedding(5, 3)(weft.tensor([5]))


def test_prints_what_is_unusual():
    layer = nn.Embedding(5, 3, padding_idx=1, max_norm=2.0, norm_type=1.0, scale_grad_by_freq=True)
    expected = "Embedding(5, 3, padding_idx=1, max_norm=2.0, norm_type=1.0, scale_grad_by_freq=True)"
    assert repr(layer) == expected


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags(agrees, values, mode):
    layer = nn.EmbeddingBag(5, 3, mode=mode, include_last_offset=False)
    reduce = {"sum": np.sum, "mean": np.mean, "max": np.max}[mode]
    index, offsets = np.array([1, 4, 4, 0, 2, 3]), np.array([0, 2, 5])

    def formula(i, o):
        return np.stack([reduce(values(layer)["weight"][bag], 0) for bag in np.split(i, o[1:])])

    agrees(layer, formula, index, offsets)
    rows = np.array([[0, 1, 2], [3, 3, 4]])
    agrees(layer, lambda i: reduce(values(layer)["weight"][i], 1), rows)


def test_bags_with_weights_and_padding(agrees, values, rng):
    layer = nn.EmbeddingBag(5, 3, mode="sum", padding_idx=-2)
    assert layer.padding_idx == 3 and layer.weight[3].tolist() == [0, 0, 0]
    index, weights = np.array([[0, 3, 2], [3, 4, 4]]), rng.uniform(0.5, 1.5, (2, 3))

    def formula(i):
        rows = values(layer)["weight"][i] * weights[..., None] * (i != 3)[..., None]
        return rows.sum(1)

    agrees(layer, formula, index, per_sample_weights=weft.from_numpy(weights), slopes=False)
    assert repr(layer) == "EmbeddingBag(5, 3, mode='sum', padding_idx=3)"
    frozen = nn.EmbeddingBag.from_pretrained(weft.eye(3))
    assert not frozen.weight.requires_grad and frozen.weight.shape == (3, 3)
    with pytest.raises(AssertionError, match="padding_idx must be within num_embeddings"):
        nn.EmbeddingBag(3, 2, padding_idx=3)
    with pytest.raises(AssertionError, match="Shape of weight does not match"):
        nn.EmbeddingBag(3, 2, _weight=weft.ones(3, 3))


def rows_of(gradient):
    assert gradient.layout is weft.sparse_coo
    return gradient._indices().tolist()[0], gradient._values().tolist()


def test_sparse_gradients_name_the_rows_that_were_read():
    layer = nn.Embedding(5, 2, sparse=True)
    layer(weft.tensor([[1, 3], [1, 0]])).sum().backward()
    assert rows_of(layer.weight.grad) == ([1, 3, 1, 0], [[1.0, 1.0]] * 4)
    before = layer.weight.grad
    layer(weft.tensor([2])).sum().backward()
    assert layer.weight.grad is before and rows_of(before)[0] == [1, 3, 1, 0, 2]


def test_sparse_gradients_leave_padding_out():
    layer = nn.Embedding(5, 2, padding_idx=1, sparse=True)
    layer(weft.tensor([1, 1, 3])).sum().backward()
    assert rows_of(layer.weight.grad) == ([3], [[1.0, 1.0]])


def test_sparse_and_dense_gradients_add_up():
    table = nn.Parameter(weft.zeros(3, 2))
    read = lambda: nn.functional.embedding(weft.tensor([1, 1]), table, sparse=True).sum()
    (read() + table.sum()).backward()
    assert table.grad.tolist() == [[1.0, 1.0], [3.0, 3.0], [1.0, 1.0]]
    read().backward()  # to what is dense
    assert table.grad.tolist() == [[1.0, 1.0], [5.0, 5.0], [1.0, 1.0]]
    table.grad = None
    read().backward()
    table.sum().backward()  # to what is sparse
    assert table.grad.tolist() == [[1.0, 1.0], [3.0, 3.0], [1.0, 1.0]]
    table.grad = None
    (read() + read()).backward()
    assert rows_of(table.grad) == ([1, 1, 1, 1], [[1.0, 1.0]] * 4)


def test_sparse_gradients_of_the_second_order():
    table = nn.Parameter(weft.tensor([[1.0], [2.0], [3.0]]))
    out = nn.functional.embedding(weft.tensor([1, 2, 2]), table, sparse=True) ** 3
    (first,) = weft.autograd.grad(out.sum(), table, create_graph=True)
    assert rows_of(first) == ([1, 2, 2], [[12.0], [27.0], [27.0]])
    (second,) = weft.autograd.grad((first._values().sum() * 0 + first.to_dense()).sum(), table)
    assert second.to_dense().tolist() == [[0.0], [12.0], [36.0]]
    out = nn.functional.embedding(weft.tensor([1]), table, sparse=True) ** 3
    weft.set_warn_always(True)  # it comes once a process otherwise
    try:
        with pytest.warns(UserWarning, match="reference cycle"):
            out.sum().backward(create_graph=True)
    finally:
        weft.set_warn_always(False)
    assert table.grad.layout is weft.sparse_coo and table.grad.requires_grad


def test_tables_that_were_computed_get_dense_gradients():
    table = nn.Parameter(weft.ones(3, 2))
    nn.functional.embedding(weft.tensor([1]), table * 2, sparse=True).sum().backward()
    assert table.grad.tolist() == [[0.0, 0.0], [2.0, 2.0], [0.0, 0.0]]


def test_hooks_and_clipping_of_sparse_gradients():
    layer = nn.Embedding(4, 1, sparse=True)
    layer.weight.register_hook(lambda g: g * 3)
    layer(weft.tensor([1, 2, 2, 2, 2])).sum().backward()
    assert layer.weight.grad.to_dense().tolist() == [[0.0], [3.0], [12.0], [0.0]]
    assert nn.utils.clip_grad_norm_(layer.parameters(), 1.0).item() == pytest.approx(153**0.5)
    assert layer.weight.grad.coalesce().values().norm().item() == pytest.approx(1.0, rel=1e-5)
    nn.utils.clip_grad_value_(layer.parameters(), 0.1)
    assert layer.weight.grad.coalesce().values().tolist() == [[pytest.approx(0.1)]] * 2
    layer.zero_grad(set_to_none=False)
    assert layer.weight.grad.layout is weft.sparse_coo and layer.weight.grad._nnz() == 0


def test_bags_give_sparse_gradients():
    for mode in ("sum", "mean"):
        grads = []
        for sparse in (False, True):
            layer = nn.EmbeddingBag(5, 2, sparse=sparse, mode=mode, padding_idx=1)
            layer(weft.tensor([1, 1, 3, 4]), weft.tensor([0, 3])).sum().backward()
            grads.append(layer.weight.grad)
        assert rows_of(grads[1])[0] == [3, 4]
        assert grads[1].to_dense().tolist() == grads[0].tolist()


def test_frequencies_do_not_go_with_sparse_gradients():
    layer = nn.Embedding(5, 2, sparse=True, scale_grad_by_freq=True)
    with pytest.raises(RuntimeError, match="scale_grad_by_freq not supported with sparse gradients"):
        layer(weft.tensor([1])).sum().backward()
