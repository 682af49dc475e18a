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


def written(x: weft.Tensor, y: weft.Tensor) -> tuple[Any, ...]:
    scaled = x.clone()
    scaled.mul_(y)
    drawn = x * weft.zeros_like(x).exponential_()
    flipped = (x * x.mean()).bernoulli_(0.5)
    return scaled, scaled + 1, drawn, flipped, flipped[..., 0][..., None], weft.empty_like(x).uniform_() * 2


def pieces(x: weft.Tensor, y: weft.Tensor) -> tuple[Any, ...]:
    wide = x.expand(3, *x.shape)
    rows = (y * 2).as_strided((3, 2), (0, 1))
    at = weft.tensor([0, 2, 1])
    put = wide.index_put((at,), weft.ones(()))
    return put, wide.roll(1, 0), weft.hstack([rows, rows]), weft.stack([rows, rows]), rows + rows, wide.sin()


def row_by_row(x: weft.Tensor, y: weft.Tensor) -> tuple[Any, ...]:
    total = weft.add(x.floor(), y, alpha=2)
    rows = total.contiguous()
    return (rows - rows) * (rows + 1), total + 1


@pytest.mark.parametrize("function", [written, pieces, row_by_row])
@pytest.mark.parametrize("shape", [*SHAPES, (1, 5), (5, 1)])
def test_strides_of_what_is_written_and_of_pieces(function: Any, shape: tuple[int, ...]) -> None:
    weft.compiler.reset()
    compiled = weft.compile(function, backend="native", fullgraph=True)
    turned, plain = weft.randn(shape[::-1]).permute(tuple(range(len(shape)))[::-1]), weft.randn(shape)
    for x, y in ((turned, turned), (turned, plain), (plain, turned), (plain[:1].expand(shape), plain)):
        wanted = [each.stride() for each in function(x, y)]
        assert [each.stride() for each in compiled(x, y)] == wanted


def test_strides_of_diagonals_in_what_is_spread() -> None:
    def f(x: weft.Tensor) -> weft.Tensor:
        return weft.diagonal_scatter(x, x.diagonal())

    x = weft.ones(1, 4, 1).expand(1, 4, 7)
    assert weft.compile(f, backend="native", fullgraph=True)(x).stride() == f(x).stride()


@pytest.mark.parametrize("dtype", [weft.float16, weft.bfloat16])
def test_strides_of_halves(dtype: Any) -> None:
    """The first call of an op gives what later ones give."""

    def f(x: weft.Tensor) -> tuple[Any, ...]:
        return x.abs(), x.sin(), x * x, x + 1, weft.maximum(x, x), x.abs() + 1, weft.xlogy(x, x.abs() + 1)

    x = weft.ones(2, dtype=dtype).expand(3, 2)
    wanted = [[each.stride() for each in f(x)] for _ in range(2)]
    assert wanted[0] == wanted[1]
    found = weft.compile(f, backend="native", fullgraph=True)(x)
    assert [each.stride() for each in found] == wanted[0]


def test_strides_of_products_with_numbers_that_only_running_tells() -> None:
    def scaled(x: weft.Tensor, y: weft.Tensor) -> weft.Tensor:
        return x.t() * y.mean().item()

    x, y = weft.rand(2, 3), weft.rand(4)
    found = weft.compile(scaled, backend="native")(x, y)
    assert found.stride() == scaled(x, y).stride() == (1, 3)
