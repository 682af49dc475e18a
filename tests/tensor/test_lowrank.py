"""Factors of low rank multiply to the matrix, and are captured with their draws."""

from __future__ import annotations

import pytest

import weft


@pytest.mark.parametrize("kind", [weft.float64, weft.complex128])
def test_factors_of_low_rank(kind: weft.dtype) -> None:
    thin = weft.arange(12.0, dtype=weft.float64).sin().reshape(6, 2).to(kind)
    matrix = thin @ weft.arange(8.0, dtype=weft.float64).cos().reshape(2, 4).to(kind)
    left, values, right = weft.svd_lowrank(matrix, q=2)
    assert (left.shape, values.shape, right.shape) == ((6, 2), (2,), (4, 2))
    assert weft.allclose(left * values @ right.mH, matrix)
    left, values, right = weft.pca_lowrank(matrix, q=2)
    assert weft.allclose(left * values @ right.mH, matrix - matrix.mean(0))
    with pytest.raises(ValueError, match=r"q\(=9\) must be non-negative integer and not greater than"):
        weft.pca_lowrank(matrix, q=9)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
def test_draws_are_captured(backend: str) -> None:
    def function(x: weft.Tensor) -> tuple[weft.Tensor, weft.Tensor]:
        left, values, right = weft.svd_lowrank(x, 2)
        return (left * values) @ right.mT, weft.randn(3)

    compiled = weft.compile(function, backend=backend, fullgraph=True)
    found = []
    for each in (function, compiled):
        weft.manual_seed(3)
        x = weft.arange(20.0, dtype=weft.float64).sin().reshape(5, 4).requires_grad_()
        product, later = each(x)
        product.sum().backward()
        found.append((product, later, x.grad))
    for expected, got in zip(*found, strict=True):
        assert weft.allclose(expected, got)
