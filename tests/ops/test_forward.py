"""Forward rules: which ops have one, and how gradient rules are called for them."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import weft
from weft.ops import forward
from weft.ops.record import REGISTRY, ops


def test_the_named_ops_exist() -> None:
    for names in (forward.LINEAR, forward.MULTILINEAR, forward.JOINING, forward.SYMMETRIC):
        assert all(name in REGISTRY for name in names)


def test_rules_on_arrays() -> None:
    x, y, t = np.array([1.0, 2.0]), np.array([3.0, 4.0]), np.array([10.0, 20.0])
    both = forward.forward(ops.mul, (t, t), x * y, (x, y))
    assert both.tolist() == [10 * 3 + 10 * 1, 20 * 4 + 20 * 2]
    assert forward.forward(ops.sum, (t, None, None, None), x.sum(), (x, None, False, None)) == 30
    spread = forward.forward(ops.add, (None, np.array(1.0), None), x, (x, np.array(2.0), 1))
    assert spread.tolist() == [1, 1]
    assert forward.forward(ops.select, (t, None, None), x[0, ...], (x, 0, 1)) == 20
    joined = forward.forward(ops.cat, ([None, t], None), None, ([x, y], 0))
    assert joined.tolist() == [0, 0, 10, 20]
    assert forward.forward(ops.logsumexp, (t, None, None), x, (x, 0, False)) is NotImplemented
    assert forward.forward(ops.fill, (None, np.array(1.0)), x, (x, np.array(1.0))) is NotImplemented


def test_pulling_back_one_argument() -> None:
    x, y, g = np.array([1.0, 2.0]), np.array([3.0, 4.0]), np.ones(2)
    assert forward.pullback(ops.mul, g, x * y, (x, y), 1).tolist() == [1, 2]
    parts = forward.pullback(ops.cat, np.arange(4.0), None, ([x, y], 0), 0)
    assert [part.tolist() for part in parts] == [[0, 1], [2, 3]]
    assert forward.total([None, x, y]).tolist() == [4, 6] and forward.total([None]) is None


# -- where a gradient rule is not the transpose of the Jacobian ----------------------------------------------
def direction(function, x, v):
    return weft.func.jvp(function, (x,), (v,))[1]


def test_rows_of_embeddings_move_with_their_weights():
    """Padding and frequencies concern gradients only."""
    weight, v = weft.randn(3, 2), weft.randn(3, 2)
    indices = weft.tensor([0, 1, 1])
    for options in ({"padding_idx": 0}, {"scale_grad_by_freq": True}):
        found = direction(partial(weft.nn.functional.embedding, indices, **options), weight, v)
        assert weft.equal(found, v[indices])


WRITES = {
    "index_put": lambda x, y: x.index_put((weft.tensor([1, 1, 0]),), y),
    "scatter": lambda x, y: x.scatter(0, weft.tensor([1, 1, 0]), y),
    "index_copy": lambda x, y: x.index_copy(0, weft.tensor([1, 1, 0]), y),
    "in place": lambda x, y: x.clone().index_put_((weft.tensor([1, 1, 0]),), y),
}


@pytest.mark.parametrize("name", WRITES)
def test_a_place_written_twice_moves_as_what_was_written_last(name):
    write, still, values = WRITES[name], weft.zeros(4), weft.tensor([2.0, 3.0, 4.0])
    v, w = weft.tensor([10.0, 20.0, 30.0]), weft.tensor([1.0, 2.0, 3.0, 4.0])
    assert direction(lambda y: write(still, y), values, v).tolist() == write(still, v).tolist()
    assert direction(lambda x: write(x, values), still, w).tolist() == [0, 0, 3, 4]
    both = weft.func.jvp(write, (still, values), (w, v))[1]
    assert both.tolist() == write(w, v).tolist()
    each = weft.func.vmap(lambda u: direction(lambda y: write(still, y), values, u))(weft.stack([v, 2 * v]))
    assert each.tolist() == [write(still, v).tolist(), write(still, 2 * v).tolist()]


def test_scattered_numbers_do_not_move_and_sums_still_add():
    x, v, places = weft.randn(4), weft.tensor([1.0, 2.0, 3.0, 4.0]), weft.tensor([1, 1])
    assert direction(lambda x: x.scatter(0, places, 5.0), x, v).tolist() == [1, 0, 3, 4]
    assert direction(lambda x: x.scatter(0, places, value=5.0), x, v).tolist() == [1, 0, 3, 4]
    with pytest.raises(RuntimeError, match="derivative for scatter"):
        direction(lambda x: x.scatter(0, places, weft.ones(2), reduce="add"), x, v)
    added = direction(lambda x: weft.zeros(4).index_put((places,), x[:2], accumulate=True), x, v)
    assert added.tolist() == [0, 3, 0, 0]


def test_deviation_of_equal_elements_does_not_move():
    x, v = weft.tensor([[1.0, 1.0], [0.0, 2.0]]).double(), weft.tensor([[1.0, 2.0], [3.0, 4.0]]).double()
    assert direction(lambda x: x.std(1), x, v).tolist() == pytest.approx([0, 0.5**0.5])
    assert direction(lambda x: (x * 0).std(), x, v).item() == 0
    assert weft.func.hessian(lambda x: (x * 0).std())(x).abs().sum().item() == 0
    step = 1e-6
    for options in ({}, {"dim": 0, "keepdim": True}, {"dim": (0, 1), "correction": 0}, {"unbiased": False}):
        expected = ((x + step * v).std(**options) - (x - step * v).std(**options)) / (2 * step)
        assert weft.allclose(direction(partial(weft.std, **options), x, v), expected, atol=1e-7), options
