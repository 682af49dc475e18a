"""Scatters and running folds as steps of our programs.

Takes definitions that lie row by row; gives those of results. One idea: a chunk is some blocks of columns, of
which a function goes through all rows in their order, so that nobody else adds to what it adds to.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final

from weft.native.cpu import scatter_text
from weft.native.ir.definitions import Definition, Direct, Shape
from weft.native.ir.sizes import greatest, least
from weft.native.plan.work import CHUNK
from weft.native.target import Unlowered

ROW: Final = 4
"""How long a row of some columns takes, in ns."""


def direct(
    name: str, text: str, shape: Shape, type_: str, operands: Sequence[Definition], numbers: Sequence[int],
    blocks: int, rows: int,
) -> Definition:  # fmt: skip
    """A function that goes through all rows for each block of columns."""
    work = blocks * rows * ROW
    return Direct(
        shape=shape, type=type_, name=name, call=None, operands=[*operands], function=name, text=text,
        numbers=tuple(numbers), rows=blocks, chunks=greatest(1, least(blocks, work // CHUNK, 16)), work=work,
    )  # fmt: skip


def blocks_of(columns: int, type_: str, width: int) -> tuple[int, bool]:
    """How many blocks some columns are, and whether these are single ones."""
    if columns == 1:
        return 1, True
    lanes = width // scatter_text.BYTES[type_]
    return -(-columns // lanes), False


def scattered(
    kind: str, base: Definition, places: Definition, values: Definition, columns: int, name: str, width: int
) -> Definition:
    """`base` with rows of `values` put (or added) where `places` say, in elements from its beginning."""
    type_ = base.type
    if type_ not in scatter_text.TYPES:
        raise Unlowered(f"scatter of dtype {type_}")
    blocks, single = blocks_of(columns, type_, width)
    text = scatter_text.scatter(type_, kind, width, single)
    numbers = [base.size, places.size, columns]
    rows = base.size // columns + places.size
    return direct(name, text, base.shape, type_, (base, places, values), numbers, blocks, rows)


def scanned(
    kind: str, operands: Sequence[Definition], axis: int, carrier: str, name: str, width: int
) -> Definition:
    """The running fold along an axis, computed in the type `carrier`."""
    x = operands[0]
    if x.type not in scatter_text.TYPES:
        raise Unlowered(f"a cumulative op of dtype {x.type}")
    outer, length, columns = prod(x.shape[:axis]), x.shape[axis], prod(x.shape[axis + 1 :])
    blocks, single = blocks_of(columns, x.type, width)
    text = scatter_text.scan(x.type, kind, width, single, carrier)
    return direct(name, text, x.shape, x.type, operands, (length, columns, blocks), outer * blocks, length)
