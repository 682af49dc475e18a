"""Products by registers, against NumPy."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

import weft
from weft.native.cpu import gemm
from weft.native.cpu.engine import Functions
from weft.native.cpu.tiles import tile

FUNCTION = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, *[ctypes.c_int64] * 3)


def multiply(a: Any, b: Any, c: Any, turned: bool, onto: bool, first: int, last: int) -> None:
    functions = Functions()
    kind = {np.dtype(np.float32): "f32", np.dtype(np.float64): "f64"}[a.dtype]
    name = functions.text(gemm.lines(kind, a.ndim == 3, tile()))
    functions.load()
    rows, columns = c.shape[-2:]
    depth = b.shape[-2]
    batch = [each.strides[0] // each.itemsize if each.ndim == 3 else 0 for each in (a, b, c)]
    record = [
        rows,
        columns,
        depth,
        turned,
        False,
        0,
        0,
        a.shape[-1],
        1,
        0,
        columns,
        2,
        0,
        columns,
        *batch,
        onto,
    ]
    numbers = np.array(record, np.int64)
    buffers = np.array([each.ctypes.data for each in (a, b, c)], np.int64)
    FUNCTION(functions.address(name))(numbers.ctypes.data, buffers.ctypes.data, None, first, last, 0)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(
    "sizes", [(1, 1, 1), (13, 37, 45), (12, 8, 32), (25, 64, 70), (4, 100, 31), (7, 3, 2)]
)
def test_products(sizes: tuple[int, int, int], turned: bool, kind: Any) -> None:
    rows, depth, columns = sizes
    generator = np.random.default_rng(0)
    a = generator.standard_normal((depth, rows) if turned else (rows, depth)).astype(kind)
    b = generator.standard_normal((depth, columns)).astype(kind)
    left = a.T if turned else a
    for onto in (False, True):
        c = np.full((rows + 1, columns), 7, kind)
        c[:rows] = 2 if onto else np.nan
        multiply(a, b, c[:rows], turned, onto, 0, rows)
        np.testing.assert_allclose(c[:rows], left @ b + (2 if onto else 0), rtol=1e-4, atol=1e-4)
        assert (c[rows] == 7).all()


def test_some_rows_and_batches() -> None:
    generator = np.random.default_rng(0)
    a = generator.standard_normal((20, 30)).astype(np.float32)
    b = generator.standard_normal((30, 40)).astype(np.float32)
    c = np.zeros((20, 40), np.float32)
    multiply(a, b, c, False, False, 5, 18)
    np.testing.assert_allclose(c[5:18], (a @ b)[5:18], rtol=1e-4, atol=1e-4)
    assert not c[:5].any() and not c[18:].any()
    many, others = np.stack([a, a + 1, a - 1]), np.stack([b, b * 2, b])
    made = np.zeros((3, 20, 40), np.float32)
    multiply(many, others, made, False, False, 1, 3)
    np.testing.assert_allclose(made[1:], (many @ others)[1:], rtol=1e-4, atol=1e-3)
    assert not made[0].any()


@pytest.mark.parametrize("rows", [1, 5, 16, 40, 64])
def test_programs_use_them(rows: int) -> None:
    def f(x: Any, w: Any, v: Any) -> Any:
        return x @ w, x @ v.t(), x @ w + x @ v.t()

    weft.manual_seed(0)
    x, w, v = weft.randn(rows, 1030), weft.randn(1030, 1000), weft.randn(1000, 1030)
    expected = [x.numpy() @ w.numpy(), x.numpy() @ v.numpy().T]
    found = weft.compile(f, backend="native", fullgraph=True)(x, w, v)
    for got, wanted in zip(found, [*expected, sum(expected)]):
        np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-3, atol=1e-3)
