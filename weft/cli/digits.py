"""A data set that is always at hand: noisy pictures of the ten digits, drawn from an embedded 5 by 7 font.

Takes a count and a seed; gives NumPy arrays of pixels and labels. One idea: a picture is a window at a random
place of a glyph with margins, so one gather draws them all; ink and noise then make it worth learning.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

SIDE = 9  # a picture is SIDE by SIDE pixels
PIXELS = SIDE * SIDE
CLASSES = 10
GLYPH_ROWS, GLYPH_COLUMNS = 7, 5

FONT = """
.###. ..#.. .###. .###. ...#. ##### .###. ##### .###. .###.
#...# .##.. #...# #...# ..##. #.... #.... ....# #...# #...#
#..## ..#.. ....# ....# .#.#. ####. #.... ...#. #...# #...#
#.#.# ..#.. ...#. ..##. #..#. ....# ####. ..#.. .###. .####
##..# ..#.. ..#.. ....# ##### ....# #...# .#... #...# ....#
#...# ..#.. .#... #...# ...#. #...# #...# .#... #...# ....#
.###. .###. ##### .###. ...#. .###. .###. .#... .###. .###.
"""


def glyphs() -> NDArray[np.float32]:
    """The font as an array of shape [CLASSES, GLYPH_ROWS, GLYPH_COLUMNS] of zeros and ones."""
    rows = [line.split() for line in FONT.strip().splitlines()]
    return np.array(
        [[[mark == "#" for mark in row[digit]] for row in rows] for digit in range(CLASSES)], np.float32
    )


def draw(count: int, seed: int, noise: float = 0.25) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """`count` pictures [count, PIXELS] and their digits [count]; equal seeds give equal pictures."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, CLASSES, count)
    margin_rows, margin_columns = SIDE - GLYPH_ROWS, SIDE - GLYPH_COLUMNS
    # A glyph with a margin as wide as it can move: the picture is the window at (margin - shift).
    padding = ((0, 0), (margin_rows, margin_rows), (margin_columns, margin_columns))
    padded = np.pad(glyphs(), padding)
    rows = random.integers(0, margin_rows + 1, (count, 1, 1)) + np.arange(SIDE)[None, :, None]
    columns = random.integers(0, margin_columns + 1, (count, 1, 1)) + np.arange(SIDE)[None, None, :]
    pictures = padded[labels[:, None, None], rows, columns]
    ink = random.uniform(0.7, 1.3, (count, 1, 1))
    pictures = pictures * ink + random.normal(0.0, noise, pictures.shape)
    return pictures.reshape(count, PIXELS).astype(np.float32), labels


def as_text(picture: NDArray[np.float32]) -> list[str]:
    """One picture as lines of half blocks, two rows of pixels to a line."""
    dark = np.pad(picture.reshape(SIDE, SIDE) > 0.5, ((0, SIDE % 2), (0, 0)))
    marks = {(False, False): " ", (True, False): "▀", (False, True): "▄", (True, True): "█"}
    return [
        "".join(marks[bool(top), bool(bottom)] for top, bottom in zip(upper, lower))
        for upper, lower in zip(dark[::2], dark[1::2])
    ]
