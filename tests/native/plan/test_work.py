"""How long steps take, and their chunks: by sizes alone."""

from __future__ import annotations

import pytest

from weft.native.ir.definitions import Given, Matrix, Product
from weft.native.ir.kernels import Access, Fold, Kernel, Phase, Scope, Step
from weft.native.ir.scalar import Instruction
from weft.native.plan.work import chunks_of, column_tiles, product_chunks, product_work, work_of

BODY = (Instruction("load", "f32", (), 0), Instruction("neg", "f32", (0,)))
ACCESSES = (Access("f32", Step.ONE), Access("f32", Step.ONE, True))
POINTWISE = Kernel(0, ACCESSES, (Phase(BODY),))


def test_work_grows_with_elements() -> None:
    works = [work_of((size,), POINTWISE) for size in (1, 1_000, 1_000_000)]
    assert works == sorted(works) and works[0] < 100 < works[1] < 10_000 < works[2]


def test_few_elements_are_one_chunk_and_many_are_not_too_many() -> None:
    assert chunks_of((1_000,), POINTWISE) == 1
    assert 1 < chunks_of((10_000_000,), POINTWISE) <= 64
    assert chunks_of((3, 10_000_000), Kernel(1, ACCESSES, (Phase(BODY),))) <= 3


@pytest.mark.parametrize("scope", [Scope.ROW])
def test_folds_of_one_row_are_whole(scope: Scope) -> None:
    kernel = Kernel(0, ACCESSES, (Phase(BODY, (), (Fold("sum", 1, "f32", scope),)),))
    assert chunks_of((1_000,), kernel) == 1


def product(rows: int, columns: int, depth: int, count: int = 1) -> Product:
    given = [Given(shape=(rows, depth), type="f32"), Given(shape=(depth, columns), type="f32")]
    left, right = Matrix(0, 0, False, depth, 0), Matrix(1, 0, False, columns, 0)
    return Product(
        shape=(rows, columns), type="f32", call=None, operands=given, rows=rows, columns=columns, depth=depth,
        count=count, left=left, right=right,
    )  # fmt: skip


def test_small_products_are_one_tile() -> None:
    small = product(8, 256, 64)
    assert column_tiles(small) == product_chunks(small) == 1 and product_work(small) < 10_000


def test_large_products_are_tiles_that_fit() -> None:
    large = product(256, 1024, 1024)
    assert large.columns % column_tiles(large) == 0 and 1 < column_tiles(large) <= 16
    assert 1 < product_chunks(product(64, 64, 64, count=64)) <= 16
