"""The strides of results are eager's, those of axes with one element, too."""

from __future__ import annotations

from typing import Any

import pytest

import weft

SHAPES = [(2, 2, 1), (3, 1, 2), (1, 3, 2), (4, 3)]


def results(x: weft.Tensor, y: weft.Tensor) -> tuple[Any, ...]:
    bits = x.view(weft.int32)
    return weft.fmin(x, x), x + 1, x.sin(), weft.minimum(x, y), x * y[:1], bits, bits + 1, x.clone(), -x.abs()


@pytest.mark.parametrize("shape", SHAPES)
def test_strides(shape: tuple[int, ...]) -> None:
    compiled = weft.compile(results, backend="native", fullgraph=True)
    turned = weft.randn(shape[::-1]).permute(tuple(range(len(shape)))[::-1])
    for x, y in ((turned, turned), (turned, weft.randn(shape)), (weft.randn(shape), turned)):
        wanted = [each.stride() for each in results(x, y)]
        assert [each.stride() for each in compiled(x, y)] == wanted


def test_strides_of_divisions() -> None:
    def divided(x: weft.Tensor, y: weft.Tensor) -> tuple[Any, ...]:
        return x % y, x // y, weft.fmod(x, y), weft.div(x, y, rounding_mode="trunc"), x << y, weft.gcd(x, y)

    x, y = weft.randint(1, 9, (2, 3)).t(), weft.randint(1, 9, (2, 3)).t()
    found = weft.compile(divided, backend="native", fullgraph=True)(x, y)
    assert [each.stride() for each in found] == [each.stride() for each in divided(x, y)]
