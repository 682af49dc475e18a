"""Writing at flat places and folding rows."""

from __future__ import annotations

import numpy as np
import pytest

import weft


def test_put_writes_flat_places() -> None:
    x = weft.zeros(2, 3)
    got = weft.put(x, weft.tensor([[1], [-1]]), weft.tensor([[5.0], [6.0]]))
    assert got.tolist() == [[0, 5, 0], [0, 0, 6]] and not x.any()
    assert x.put_(weft.tensor([0, 0]), weft.tensor([1.0, 2.0]), True) is x and x[0, 0] == 3


@pytest.mark.parametrize("include", [True, False])
@pytest.mark.parametrize(("how", "fold"), [("prod", np.prod), ("mean", np.mean), ("amax", np.max)])
def test_rows_are_folded(how: str, fold: object, include: bool) -> None:
    x, rows = np.random.default_rng(0).standard_normal((2, 3, 4))
    places = np.array([2, 0, 2])
    got = weft.index_reduce(
        weft.from_numpy(x), 0, weft.from_numpy(places), weft.from_numpy(rows), how, include_self=include
    ).numpy()
    for place in range(3):
        parts = [row for row, p in zip(rows, places, strict=True) if p == place]
        parts += [x[place]] if include or not parts else []
        np.testing.assert_allclose(got[place], fold(parts, axis=0))  # type: ignore[operator]


def test_triangles() -> None:
    for offset in (-2, 0, 1):
        np.testing.assert_array_equal(
            weft.tril_indices(3, 4, offset).numpy(), np.stack(np.tril_indices(3, offset, 4))
        )
        np.testing.assert_array_equal(
            weft.triu_indices(4, 3, offset).numpy(), np.stack(np.triu_indices(4, offset, 3))
        )


def test_errors() -> None:
    with pytest.raises(IndexError, match="out of range: tried to access index 20 on a tensor of 2 elements"):
        weft.put(weft.ones(2), weft.tensor([20]), weft.ones(1))
    with pytest.raises(
        RuntimeError, match="Expected reduce to be one of prod, mean, amax or amin but got sum"
    ):
        weft.index_reduce(weft.ones(2), 0, weft.tensor([0]), weft.ones(1), "sum")
    with pytest.raises(RuntimeError, match="row must be non-negative, got-3"):
        weft.tril_indices(-3, 3)
