"""Forward rules: which ops have one, and how gradient rules are called for them."""

from __future__ import annotations

import numpy as np

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
