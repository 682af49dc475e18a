"""Functions of layers that write to their input: what they give, and that it is the input."""

from __future__ import annotations

import pytest

import weft

NAMES = ["dropout", "alpha_dropout", "feature_dropout", "feature_alpha_dropout"]


@pytest.mark.parametrize("name", NAMES)
def test_dropouts_write_what_their_functions_give(name):
    x = weft.randn(4, 3, 2)
    weft.manual_seed(1)
    wanted = getattr(weft, name)(x, 0.5, True)
    weft.manual_seed(1)
    target = x.clone()
    assert getattr(weft, f"{name}_")(target, 0.5, True) is target
    assert weft.allclose(target, wanted)
    assert not weft.equal(target, x)
    assert weft.equal(getattr(weft, f"{name}_")(x.clone(), 0.5, False), x)


@pytest.mark.parametrize("name", NAMES)
def test_gradients_flow_through_what_is_kept(name):
    x = weft.randn(4, 3, 2, requires_grad=True)
    y = x * 1
    getattr(weft, f"{name}_")(y, 0.5, True).sum().backward()
    kept = x.grad != 0
    assert kept.any() and not kept.all()


def test_compiled_in_place_dropout_draws_the_same():
    def function(x):
        return weft.dropout_(x * 2, 0.5, True) + 1

    x = weft.ones(50)
    weft.manual_seed(3)
    wanted = function(x)
    weft.manual_seed(3)
    assert weft.equal(weft.compile(function, backend="aot_eager", fullgraph=True)(x), wanted)


def test_rows_of_a_table_are_cut_back():
    table = weft.tensor([[3.0, 4.0], [0.3, 0.4], [6.0, 8.0]])
    assert weft.embedding_renorm_(table, weft.tensor([0, 1]), 1.0, 2.0) is table
    assert weft.allclose(table, weft.tensor([[0.6, 0.8], [0.3, 0.4], [6.0, 8.0]]))


def test_batch_norm_with_what_it_took():
    x, weight, bias = weft.randn(6, 3, 2), weft.randn(3), weft.randn(3)
    mean, variance = weft.zeros(3), weft.ones(3)
    out, means, roots = weft.native_batch_norm(x, weight, bias, mean, variance, True, 0.1, 1e-5)
    assert weft.allclose(out, weft.nn.functional.batch_norm(x, None, None, weight, bias, True), atol=1e-6)
    assert weft.allclose(means, x.mean((0, 2)), atol=1e-6)
    assert weft.allclose(roots, 1 / (x.var((0, 2), correction=0) + 1e-5).sqrt(), atol=1e-5)
    assert weft.allclose(mean, 0.1 * means, atol=1e-6) and not weft.equal(variance, weft.ones(3))
    out, means, roots = weft.native_batch_norm(x, weight, bias, mean, variance, False, 0.1, 1e-5)
    assert weft.equal(out, weft.nn.functional.batch_norm(x, mean, variance, weight, bias, False))
    assert means.shape == roots.shape == (0,)
