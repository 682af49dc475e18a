"""Work: the cost model of steps, and into how many parallel chunks they are split.

Takes the sizes of a step and its kernel; gives nanoseconds and numbers of chunks. One idea: both follow from
sizes and text alone, never from how many threads there are, so results have the same bits everywhere.
"""

from __future__ import annotations

from math import prod
from typing import Final

from weft.native.ir.definitions import Product, Shape
from weft.native.ir.kernels import Kernel, Scope
from weft.native.ir.scalar import bits_of
from weft.native.ir.sizes import hint

INSTRUCTION: Final = 0.015
"""How many ns one instruction on one element takes, in vectors."""
BYTE: Final = 0.02
ROW: Final = 4
CALL: Final = 20
MULTIPLICATION: Final = 0.02
"""Of a matrix product, in ns."""
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


def rows_of(sizes: Shape) -> int:
    """What chunks are cut of: rows, or the elements of the only one."""
    return prod(sizes[:-1]) if len(sizes) > 1 else sizes[0]


def work_of(sizes: Shape, kernel: Kernel) -> int:
    """How long a kernel takes, in ns."""
    sizes = hint(sizes)
    instructions = sum(len(phase.body) for phase in kernel.phases)
    size = sum(max(bits_of(access.type) // 8, 1) for access in kernel.accesses if access.step.value)
    rows = prod(sizes[:-1]) if len(sizes) > 1 else 1
    return int(CALL + rows * ROW + prod(sizes) * (INSTRUCTION * instructions + BYTE * size))


def chunks_of(sizes: Shape, kernel: Kernel) -> int:
    """How many chunks a kernel is cut into."""
    folds = [fold for phase in kernel.phases for fold in phase.folds]
    if any(fold.scope is not Scope.ROW for fold in folds) or (folds and len(sizes) == 1):
        return 1
    return max(1, min(rows_of(sizes), work_of(sizes, kernel) // LEAST_CHUNK, MOST_CHUNKS))


def product_work(each: Product) -> int:
    rows, columns, depth, count = hint((each.rows, each.columns, each.depth, each.count))
    return int(300 * count + MULTIPLICATION * rows * columns * depth * count)


def column_tiles(each: Product) -> int:
    """How many tiles of columns a product is cut into; they are as many products of a batch."""
    most = product_work(each) // CHUNK
    if each.count > 1 or by_rows(each):
        return 1
    for tiles, least in ((8, 2 * LEAST_COLUMNS), (4, LEAST_COLUMNS), (2, LEAST_COLUMNS)):
        if tiles <= most and each.columns % tiles == 0 and each.columns // tiles >= least:
            return tiles
    return 1


def by_rows(each: Product) -> bool:
    """Whether tiles of rows are better than tiles of columns: the matrix that all tiles copy is smaller."""
    return each.rows >= max(each.columns, 4 * LEAST_ROWS)


def product_chunks(each: Product) -> int:
    least = 2 * LEAST_ROWS if by_rows(each) else LEAST_ROWS
    rows = each.count if each.count > 1 else each.rows // least
    return max(1, min(rows, product_work(each) // CHUNK, MOST_TILES))
