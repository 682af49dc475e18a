"""Indices of reshaped values: a part of a row ends where the row does."""

from __future__ import annotations

import pytest

import weft
from weft.native.ir.definitions import Given
from weft.native.plan.units import Indices, Keep


def apart(sizes: tuple[int, ...], linear: tuple[int, ...], shape: tuple[int, ...] = (4, 3)) -> object:
    return Indices(sizes).apart(Given(shape=shape, type="f32", name="given"), shape, linear)


def test_a_part_that_stays_within_its_row_is_indexed() -> None:
    assert apart((2,), (1, 1)) == ((0, 0), (1, 1))
    assert apart((3,), (3, 1)) == ((1, 0), (0, 1))
    assert apart((4,), (0, 3)) == ((0, 1), (0, 0))


@pytest.mark.parametrize(
    ("sizes", "linear"), [((3,), (1, 1)), ((3,), (2, 1)), ((4,), (3, 3)), ((2,), (2, 1))]
)
def test_a_part_that_goes_past_its_row_is_kept(sizes: tuple[int, ...], linear: tuple[int, ...]) -> None:
    with pytest.raises(Keep):
        apart(sizes, linear)


@pytest.mark.parametrize("backend", ["native", "reference"])
@pytest.mark.parametrize("start", [0, 1, 2, 3])
@pytest.mark.parametrize("count", [2, 3, 4])
def test_parts_of_flat_sums(start: int, count: int, backend: str) -> None:
    def function(a: weft.Tensor, b: weft.Tensor) -> weft.Tensor:
        return (a[:, None] + b).reshape(12)[start : start + count] * 2

    a, b = weft.tensor([0.0, 10.0, 20.0, 30.0]), weft.tensor([1.0, 2.0, 3.0])
    assert weft.compile(function, backend=backend)(a, b).tolist() == function(a, b).tolist()
