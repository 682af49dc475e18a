"""Steps that are single functions: random words, and checks.

Takes seeds, or what may have failed; gives definitions. One idea: a function goes from counter block to
counter block (`weft.native.cpu.philox_text`), and what is made of the words are kernels like any other.
"""

from __future__ import annotations

import math

from weft.native.cpu.calls import CHECK
from weft.native.cpu.philox_text import BLOCK, LANES, draw
from weft.native.ir.definitions import Definition, Direct, Shape
from weft.native.ir.sizes import greatest, least
from weft.native.plan.work import CHUNK, MOST_CHUNKS


def words(seeds: Definition, number: int, shape: Shape, type_: str, threshold: int) -> Direct:
    """The words of a draw, of type u32 or u64; or (b1) whether words of 32 bits are below the threshold."""
    count = math.prod(shape)
    rows = -(-count // LANES[type_])
    return Direct(
        shape=shape, type=type_, name="below" if type_ == "b1" else "words", call=None,
        operands=[seeds], function=f"draw {type_}", text=draw(type_),
        numbers=(number, count, threshold), rows=rows,
        chunks=greatest(1, least(rows, rows * BLOCK // CHUNK, MOST_CHUNKS)), work=rows * BLOCK,
    )  # fmt: skip


def check(failure: Definition) -> Direct:
    """See Note [Steps that check] in `weft.native.ir.definitions`."""
    return Direct(
        shape=(), type="i64", name="check", call=None, operands=[failure], function="check", text=CHECK,
        numbers=(), rows=1, chunks=1, checks=True,
    )  # fmt: skip
