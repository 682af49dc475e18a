"""Tiles: how much of a matrix product is held in registers at once.

Takes how wide vectors are and how many registers there are; gives rows and columns. One idea: three quarters
of the registers hold sums, in two vectors for each row, so that an element of the first matrix that is spread
over lanes serves twice; the other registers hold what is multiplied.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from weft.core.records import record
from weft.native.cpu.engine import host, triple
from weft.native.cpu.processor import processor

VECTORS: Final = 2
"""Of each row."""
PACKED: Final = 128
"""Bytes of a row of the second matrix that are packed at once."""
MASKED: Final = 64
"""Vectors of so many bytes have masks in registers of their own."""


@record(frozen=True, slots=True)
class Tile:
    """What is computed at once, of float32 where nothing else is said."""

    vector_bytes: int
    height: int
    """How many rows."""
    low: int
    """How many of the rest of a matrix."""

    @property
    def lanes(self) -> int:
        return self.vector_bytes // 4

    @property
    def strip(self) -> int:
        """How many columns."""
        return VECTORS * self.lanes

    @property
    def together(self) -> int:
        """How many strips are packed at once: whole lines of the cache, of which few lie in each page."""
        return PACKED // (4 * self.strip)

    @property
    def columns(self) -> int:
        """Those of strips that are packed at once."""
        return self.together * self.strip

    @property
    def heights(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Rows of one tile after the other, down to one: of those whose columns all exist, and of others.
        Masks take registers where processors have none for them alone; where they cost nothing, all tiles
        have them.
        """
        if self.vector_bytes == MASKED:
            return (), (self.height, self.low, 1)
        return tuple(sorted({self.height, 4, self.low, 1}, reverse=True)), (4, 1)


@cache
def tile_for(vector_bytes: int, registers: int) -> Tile:
    height = 3 * registers // (4 * VECTORS)
    return Tile(vector_bytes, height, 4 if height % 4 == 0 else 2)


def tile() -> Tile:
    """That of this machine."""
    _, _, vector_bytes = host()
    return tile_for(vector_bytes, processor(triple()).registers_of(vector_bytes))


def is_worth_it() -> bool:
    """Whether packing pays: it needs instructions that multiply and add at once."""
    return processor(triple()).fused in host()[1]
