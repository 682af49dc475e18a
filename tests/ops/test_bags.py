"""Bags of embeddings against sums, means and maxima taken one bag at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
import weft.nn.functional as F

TABLE = np.random.default_rng(0).standard_normal((6, 3))
INDICES = np.array([0, 2, 5, 1, 1])
STARTS = [0, 2, 2]


@pytest.mark.parametrize("padding", [None, 1, -1])
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_each_bag_on_its_own(mode: str, padding: int | None) -> None:
    out = F.embedding_bag(
        weft.from_numpy(INDICES), weft.from_numpy(TABLE), weft.tensor(STARTS), mode=mode, padding_idx=padding
    ).numpy()
    for bag, (start, end) in enumerate(zip(STARTS, [*STARTS[1:], 5], strict=True)):
        kept = [i for i in INDICES[start:end] if padding is None or i != padding % 6]
        wanted = getattr(np, mode)(TABLE[kept], axis=0) if kept else np.zeros(3)
        np.testing.assert_allclose(out[bag], wanted)


def test_gradients_of_maxima_go_to_one_row() -> None:
    table = weft.zeros(3, 2, requires_grad=True)
    F.embedding_bag(weft.tensor([[0, 1, 1]]), table, mode="max").sum().backward()
    np.testing.assert_array_equal(table.grad.numpy(), [[1, 1], [0, 0], [0, 0]])


def test_weights_per_sample_and_the_last_offset() -> None:
    table, factors = weft.from_numpy(TABLE), weft.tensor([1.0, 2.0, 3.0, 4.0, 5.0], dtype=weft.float64)
    factors.requires_grad_()
    out = F.embedding_bag(
        weft.from_numpy(INDICES), table, weft.tensor([0, 3, 5]), mode="sum", per_sample_weights=factors,
        include_last_offset=True,
    )  # fmt: skip
    assert out.shape == (2, 3)
    out.sum().backward()
    np.testing.assert_allclose(factors.grad.numpy(), TABLE[INDICES].sum(1))


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"offsets": weft.tensor([1, 2])}, RuntimeError, r"offsets\[0\] has to be 0"),
        ({"offsets": weft.tensor([0, 9])}, RuntimeError, r"offsets\[-1\] can not be greater than input's"),
        ({}, ValueError, "offsets has to be a 1D Tensor but got None"),
        (
            {"offsets": weft.tensor([0]), "mode": "least"},
            ValueError,
            "mode has to be one of sum, mean or max",
        ),
        ({"offsets": weft.tensor([0]), "padding_idx": 9}, RuntimeError, "padding_idx must be within"),
    ],
)
def test_errors(arguments: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        F.embedding_bag(weft.from_numpy(INDICES), weft.from_numpy(TABLE), **arguments)
