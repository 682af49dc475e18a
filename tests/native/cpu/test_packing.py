"""Products of packed matrices, against NumPy."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

import weft
from weft.native.cpu import packing
from weft.native.cpu.engine import Functions
from weft.native.cpu.runner import Runner
from weft.native.cpu.tiles import Tile, is_worth_it, tile, tile_for
from weft.native.ir.definitions import Direct, Matrix, Product

FUNCTION = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, *[ctypes.c_int64] * 3)
packs = pytest.mark.skipif(not is_worth_it(), reason="this machine does not multiply and add at once")
TILES = [tile_for(64, 32), tile_for(32, 16), tile_for(16, 32), tile_for(16, 16)]
"""Of AVX-512, AVX2, aarch64 and old machines; LLVM splits vectors that are too wide."""


def called(text: list[str], numbers: list[int], arrays: list[Any], first: int, last: int) -> None:
    functions = Functions()
    name = functions.text(text)
    functions.load()
    record = np.array(numbers, np.int64)
    buffers = np.array([each.ctypes.data for each in arrays], np.int64)
    FUNCTION(functions.address(name))(record.ctypes.data, buffers.ctypes.data, None, first, last, 0)


def matrix(generator: Any, rows: int, columns: int, turned: bool) -> tuple[Any, Any]:
    """The memory of a matrix, with more columns than it has, and the matrix."""
    memory = generator.standard_normal((columns, rows + 3) if turned else (rows, columns + 5))
    memory = memory.astype(np.float32)
    return memory, memory[:, :rows].T if turned else memory[:, :columns]


def product(rows: int, columns: int, depth: int) -> Product:
    nowhere = Matrix(0, 0, False, depth, 0)
    return Product(
        shape=(rows, columns), type="f32", name="mm", call=None, rows=rows, columns=columns, depth=depth,
        count=1, left=nowhere, right=nowhere,
    )  # fmt: skip


def multiply(
    a: Any, b: Any, c: Any, turned: tuple[bool, bool], onto: bool, cuts: int, part: int, tile: Tile
) -> None:
    """As a program would, the strips in some chunks, in parts of so many rows."""
    (a_memory, left), (b_memory, right) = a, b
    (rows, depth), columns = left.shape, right.shape[1]
    panels = -(-rows // tile.height)
    packed = np.full(-(-rows // tile.low) * tile.low * depth + 16, np.nan, np.float32)
    text = packing.packing_text(turned[0], tile).splitlines()
    numbers = [0, 1, 0, a_memory.shape[1], rows, depth]
    for first, last in ((0, panels // 2), (panels // 2, panels)):
        called(text, numbers, [packed, a_memory], first, last)
    assert np.isnan(packed[-16:]).all() and not np.isnan(packed[:-16]).any()
    block = packing.numbers_of(product(rows, columns, depth))[2]
    record = [rows, columns, depth, 0, turned[1], 0, 0, 0, 1, 0, b_memory.shape[1], 2, 0, c.shape[1]]
    strips = -(-columns // tile.columns) * -(-rows // part)
    for cut in range(cuts):
        first, last = strips * cut // cuts, strips * (cut + 1) // cuts
        text = packing.lines(turned[1], tile)
        called(text, [*record, part, 0, block, onto], [packed, b_memory, c], first, last)


@pytest.mark.parametrize("tile", TILES, ids=lambda each: f"{each.vector_bytes}x{each.height}")
@pytest.mark.parametrize("turned", [(False, False), (False, True), (True, False), (True, True)])
@pytest.mark.parametrize(
    "sizes", [(1, 1, 1), (13, 37, 45), (60, 16, 32), (71, 64, 70), (100, 1025, 33), (7, 3, 2), (96, 33, 95)]
)
def test_products(sizes: tuple[int, int, int], turned: tuple[bool, bool], tile: Tile) -> None:
    rows, depth, columns = sizes
    generator = np.random.default_rng(0)
    a = matrix(generator, rows, depth, turned[0])
    b = matrix(generator, depth, columns, turned[1])
    exact = a[1].astype(np.float64) @ b[1].astype(np.float64)
    for onto in (False, True):
        made = []
        for cuts, part in ((1, 1200), (3, 24)):
            c = np.full((rows + 1, columns + 7), 7, np.float32)
            c[:rows, :columns] = 2 if onto else np.nan
            multiply(a, b, c, turned, onto, cuts, part, tile)
            np.testing.assert_allclose(c[:rows, :columns], exact + (2 if onto else 0), rtol=1e-4, atol=1e-4)
            assert (c[rows] == 7).all() and (c[:, columns:] == 7).all()
            made.append(c.tobytes())
        assert made[0] == made[1]  # bits do not depend on where the cuts are


def test_numbers_of_a_record() -> None:
    for depth in (1, 16, 100, 1024, 1025, 5000):
        part, _, block = packing.numbers_of(product(100, 100, depth))
        assert block % tile().lanes == 0 and 0 < block <= packing.DEEPEST
        assert part % tile().height == 0 and part > 0
    assert packing.strips_of(product(100, 100, 64)) == -(-100 // tile().columns)
    assert packing.strips_of(product(10_000, 33, 1 << 16)) > 2


def steps_of(programs: list[Runner], f: Any, *inputs: Any) -> tuple[list[Any], Any]:
    made = weft.compile(f, backend="native", fullgraph=True)(*inputs)
    return list(programs[-1].program.listing.steps), made


@packs
def test_programs_use_them(programs: list[Runner]) -> None:
    """One packed copy serves all products that read a matrix first."""

    def f(x: Any, w: Any, v: Any) -> Any:
        y = x @ v.t()
        return x @ w, y, (x + 1).t() @ y, x[:, 2:] @ w[2:]

    weft.manual_seed(0)
    x, w, v = weft.randn(500, 360), weft.randn(360, 189), weft.randn(189, 360)
    steps, made = steps_of(programs, f, x, w, v)
    products = [step for step in steps if isinstance(step, Product)]
    assert len(products) == 4 and all(step.packed for step in products)
    assert sum(isinstance(step, Direct) for step in steps) == 3
    a, b, c = (each.numpy().astype(np.float64) for each in (x, w, v))
    expected = [a @ b, a @ c.T, (a + 1).T @ (a @ c.T), a[:, 2:] @ b[2:]]
    for got, wanted in zip(made, expected, strict=True):
        np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-3, atol=1e-3)


@packs
def test_sums_of_products_and_what_is_no_number(programs: list[Runner]) -> None:
    def f(x: Any, w: Any, v: Any) -> Any:
        return x @ w + x @ v.t()

    weft.manual_seed(0)
    x, w, v = weft.randn(500, 360), weft.randn(360, 189), weft.randn(189, 360)
    x[7, 3], w[5, 9] = float("nan"), float("inf")
    steps, made = steps_of(programs, f, x, w, v)
    products = [step for step in steps if isinstance(step, Product)]
    assert len(products) == 2 and products[1].onto is products[0]
    with np.errstate(invalid="ignore"):
        expected = x.numpy() @ w.numpy() + x.numpy() @ v.numpy().T
    np.testing.assert_allclose(made.numpy(), expected, rtol=1e-3, atol=1e-3)


@packs
def test_small_products_are_left(programs: list[Runner]) -> None:
    steps, _ = steps_of(programs, lambda x, y: x @ y, weft.randn(70, 8), weft.randn(8, 70))
    assert not any(isinstance(step, Product) and step.packed for step in steps)
