"""Unpooling, random windows and neighbouring channels."""

from __future__ import annotations

import numpy as np
import pytest

import weft
import weft.nn.functional as F


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_unpooling_puts_maxima_back(axes: int) -> None:
    pool, unpool = getattr(F, f"max_pool{axes}d"), getattr(F, f"max_unpool{axes}d")
    x = weft.rand(2, 3, *(5, 4, 6)[:axes]) + 1
    values, places = pool(x, 2, return_indices=True)
    back = unpool(values, places, 2, output_size=x.shape)
    assert back.shape == x.shape
    kept = back != 0
    assert kept.sum() == values.numel()
    np.testing.assert_array_equal(back[kept].numpy(), x[kept].numpy())


def test_fractional_windows_cover_their_axis() -> None:
    x = weft.arange(49.0).reshape(1, 1, 7, 7)
    values, places = F.fractional_max_pool2d(x, 2, output_size=(4, 3), return_indices=True)
    np.testing.assert_array_equal(values.numpy(), places.numpy())  # elements are their own places
    assert values[0, 0, -1, -1] == 48 and (values.diff(dim=-1) > 0).all()
    draws = weft.tensor([[[0.1, 0.9]]])
    given = F.fractional_max_pool2d(x, 2, output_size=(4, 3), _random_samples=draws)
    rows = [int((i + 0.9) * 5 / 3) - int(0.9 * 5 / 3) for i in range(3)] + [5]
    columns = [int((i + 0.1) * 5 / 2) - int(0.1 * 5 / 2) for i in range(2)] + [5]
    wanted = [[(r + 1) * 7 + c + 1 for c in columns] for r in rows]
    np.testing.assert_array_equal(given[0, 0].numpy(), wanted)


def test_response_norm_by_hand() -> None:
    x = np.random.default_rng(0).standard_normal((2, 5, 3))
    padded = np.pad(x**2, ((0, 0), (1, 1), (0, 0)))
    mean = (padded[:, :-2] + padded[:, 1:-1] + padded[:, 2:]) / 3
    got = F.local_response_norm(weft.from_numpy(x), 3, 0.5, 0.7, 2.0)
    np.testing.assert_allclose(got.numpy(), x / (2 + 0.5 * mean) ** 0.7)


def test_errors() -> None:
    x, places = weft.ones(1, 1, 2, 2), weft.full((1, 1, 2, 2), 99)
    with pytest.raises(
        RuntimeError, match=r"Found an invalid max index: 99 \(output volumes are of size 4x4"
    ):
        F.max_unpool2d(x, places, 2)
    with pytest.raises(ValueError, match="dim 0 must be between 2 and 6"):
        F.max_unpool2d(x, places, 2, output_size=(9, 9))
    with pytest.raises(ValueError, match="requires specifying either an output_size or an output_ratio"):
        F.fractional_max_pool2d(x, 2)
    with pytest.raises(RuntimeError, match="pool height 2 too large relative to input height 2"):
        F.fractional_max_pool2d(x, 2, output_size=2)


def test_one_picture_takes_the_first_of_the_draws() -> None:
    x = weft.arange(16.0).reshape(1, 4, 4)
    draws = weft.tensor([[[0.1, 0.2]], [[0.9, 0.8]]])
    found = F.fractional_max_pool2d(x, 2, 2, _random_samples=draws)
    assert weft.equal(found, F.fractional_max_pool2d(x[None], 2, 2, _random_samples=draws[:1])[0])
