"""Products as steps: what their functions are given.

Takes a product of a plan; gives its record. One idea: which of several functions multiplies may depend on
sizes of a call, and then numbers of the record do, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.native.cpu import packing
from weft.native.ir.definitions import Definition, Product
from weft.native.ir.sizes import at_least, where
from weft.native.plan.work import column_tiles, product_chunks, product_work
from weft.native.program.assemble import Recorded


def record_of(each: Product, place: Callable[[Definition], int]) -> Recorded:
    """See Note [Record of a product] in `weft.native.cpu.blas`."""
    packed, copied, left, right = each.packed, each.copied, each.left, each.right
    straight = right if each.straight is None else each.straight
    panels = left.operand if each.panels is None else each.panels
    places = [place(value) for value in each.operands]
    tiles = where(packed, 1, column_tiles(each))
    columns = each.columns // tiles
    transposed = where(copied, 0, int(right.transposed))
    leading = where(copied, straight.leading, right.leading)
    several = at_least(tiles, 2)
    across = where(copied, 1, leading if right.transposed else 1)
    batches = (
        where(several, 0, left.batch),
        where(several, columns * across, where(copied, straight.batch, right.batch)),
        where(several, columns, each.rows * each.columns),
    )
    alike = packed is True  # whose first matrix is the copy
    ours = batches if packed is False else packing.numbers_of(each)
    record: list[Any] = [
        each.rows, columns, each.depth, left.transposed, transposed,
        where(packed, places[panels], places[left.operand]),
        left.offset if alike else where(packed, 0, left.offset),
        left.leading if alike else where(packed, each.depth, left.leading),
        where(copied, places[straight.operand], places[right.operand]),
        where(copied, straight.offset, right.offset), leading,
        place(each), 0, each.columns,
        *[where(packed, *pair) for pair in zip(ours, batches, strict=True)],
        each.onto is not None,
    ]  # fmt: skip
    rows = where(several, tiles, where(at_least(each.count, 2), each.count, each.rows))
    chunks = where(several, tiles, product_chunks(each))
    if packed is not False:
        rows = where(packed, packing.strips_of(each), rows)
        chunks = where(packed, packing.chunks_of(each), chunks)
    return Recorded(record, rows, chunks, product_work(each))
