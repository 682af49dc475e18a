"""Work: the cost model of steps, and into how many parallel chunks they are split.

Takes the sizes of a step and its kernel; gives nanoseconds and numbers of chunks. One idea: both follow from
sizes and text alone, never from how many threads there are, so results have the same bits everywhere. Nothing
is decided of open sizes: a number of chunks is a function of them.
"""

from __future__ import annotations

from math import prod
from typing import Any, Final

from weft.native.ir.definitions import Product, Shape
from weft.native.ir.kernels import Kernel, Scope
from weft.native.ir.scalar import bits_of
from weft.native.ir.sizes import at_least, equal, greatest, least, negated, where

INSTRUCTION: Final = 15
"""How many ps one instruction on one element takes, in vectors."""
BYTE: Final = 20
"""In ps."""
ROW: Final = 4
CALL: Final = 20
MULTIPLICATION: Final = 20
"""Of a matrix product, in ps."""
PS: Final = 1000
CHUNK: Final = 30_000
"""About how many ns a chunk takes: enough to be worth handing to another thread."""
LEAST_CHUNK: Final = 10_000
"""The same of kernels, which do nothing for a chunk that they would not do anyway."""
MOST_CHUNKS: Final = 64
MOST_TILES: Final = 16
LEAST_ROWS: Final = 64
LEAST_COLUMNS: Final = 128
"""Fewer rows or columns of a product are not multiplied by themselves: BLAS copies the whole other matrix for
each tile, which takes about as long as 20 rows, or 10 columns."""


def rows_of(sizes: Shape) -> Any:
    """What chunks are cut of: rows, or the elements of the only one."""
    return prod(sizes[:-1]) if len(sizes) > 1 else sizes[0]


def work_of(sizes: Shape, kernel: Kernel) -> Any:
    """How long a kernel takes, in ns."""
    instructions = sum(len(phase.body) for phase in kernel.phases)
    size = sum(max(bits_of(access.type) // 8, 1) for access in kernel.accesses if access.step.value)
    rows = prod(sizes[:-1]) if len(sizes) > 1 else 1
    return CALL + rows * ROW + prod(sizes) * (INSTRUCTION * instructions + BYTE * size) // PS


def chunks_of(sizes: Shape, kernel: Kernel) -> Any:
    """How many chunks a kernel is cut into."""
    folds = [fold for phase in kernel.phases for fold in phase.folds]
    if any(fold.scope is not Scope.ROW for fold in folds) or (folds and len(sizes) == 1):
        return 1
    return greatest(1, least(rows_of(sizes), work_of(sizes, kernel) // LEAST_CHUNK, MOST_CHUNKS))


def product_work(each: Product) -> Any:
    multiplications = each.rows * each.columns * each.depth * each.count
    return 300 * each.count + MULTIPLICATION * multiplications // PS


def column_tiles(each: Product) -> Any:
    """How many tiles of columns a product is cut into; they are as many products of a batch."""
    found: Any = 1
    most = product_work(each) // CHUNK
    for tiles, least_ in ((2, LEAST_COLUMNS), (4, LEAST_COLUMNS), (8, 2 * LEAST_COLUMNS)):
        fits = equal(each.columns % tiles, 0) & at_least(each.columns, tiles * least_)
        found = where(fits & at_least(most, tiles), tiles, found)
    return where(at_least(1, each.count) & negated(by_rows(each)), found, 1)


def by_rows(each: Product) -> Any:
    """Whether tiles of rows are better than tiles of columns: the matrix that all tiles copy is smaller."""
    return at_least(each.rows, greatest(each.columns, 4 * LEAST_ROWS))


def product_chunks(each: Product) -> Any:
    """How many tiles of rows a product that is not cut into columns has, or of a batch's entries."""
    height = where(by_rows(each), 2 * LEAST_ROWS, LEAST_ROWS)
    rows = where(at_least(1, each.count), each.rows // height, each.count)
    return greatest(1, least(rows, product_work(each) // CHUNK, MOST_TILES))
