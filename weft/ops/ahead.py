"""Standard numbers drawn ahead: programs that draw a few at a time pay for a chunk, and get slices of it.

Takes the place of a draw in a generator's stream and a function that computes from there on; gives its
numbers. One idea: what a draw gives follows from its place alone, so what comes next can be computed before
anybody asks, and thrown away where the stream goes on elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from weft.core.arrays import Array

MOST: Final = 128
"""Draws of more numbers are computed as they come: for these, NumPy's calls are no longer what takes time."""
AHEAD: Final = 1024
"""How many numbers are computed at once."""
Stream = tuple[str, np.dtype[Any]]

_ends: Final[dict[Stream, tuple[int, int]]] = {}
"""By what is drawn: key and block where the last draw ended. What is drawn next from there is one of many."""
_chunks: Final[dict[Stream, tuple[int, int, Array]]] = {}
"""By what is drawn: key, first block and numbers. Each is stored whole, and never written again."""


def drawn_ahead(
    stream: Stream, key: int, offset: int, lanes: int, count: int, compute: Callable[[int, int], Array]
) -> Array | None:
    """`count` numbers from a block on, which holds so many (`lanes`); None outside of runs of short draws.
    `compute(offset, count)` gives them. The caller may write to what it gets.
    """
    chunk = _chunks.get(stream)
    if chunk is not None and chunk[0] == key:
        start = (offset - chunk[1]) * lanes
        if 0 <= start <= AHEAD - count:
            return chunk[2][start : start + count].copy()
    following = _ends.get(stream) == (key, offset)
    _ends[stream] = key, offset - (-count // lanes)
    if not following:
        return None
    numbers = compute(offset, AHEAD)
    _chunks[stream] = key, offset, numbers
    return numbers[:count].copy()
