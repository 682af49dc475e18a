"""The embedded data: the font, what is drawn from it, and how it is shown."""

from __future__ import annotations

import numpy as np

from weft.cli import digits


def test_glyphs_are_ten_different_pictures():
    glyphs = digits.glyphs()
    assert glyphs.shape == (10, 7, 5)
    assert len({glyph.tobytes() for glyph in glyphs}) == 10


def test_without_noise_each_picture_holds_its_whole_glyph():
    pictures, labels = digits.draw(200, seed=1, noise=0.0)
    assert pictures.shape == (200, digits.PIXELS) and pictures.dtype == np.float32
    assert labels.dtype == np.int64 and set(labels.tolist()) == set(range(10))
    for picture, label in zip(pictures.reshape(-1, digits.SIDE, digits.SIDE), labels):
        rows, columns = np.nonzero(picture)
        cut = picture[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1]
        glyph = digits.glyphs()[label]
        marked = glyph[:, glyph.any(axis=0)]
        np.testing.assert_array_equal(cut > 0, marked > 0)


def test_glyphs_move():
    pictures, labels = digits.draw(300, seed=2, noise=0.0)
    places = {(picture > 0).tobytes() for picture in pictures[labels == 8]}
    assert len(places) > 8


def test_equal_seeds_give_equal_pictures():
    first, again, other = (digits.draw(20, seed)[0] for seed in (3, 3, 4))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_pictures_as_text():
    picture = np.zeros((digits.SIDE, digits.SIDE), np.float32)
    picture[0, 0] = picture[1, 1] = picture[2, 2] = picture[3, 2] = picture[8, 8] = 1
    lines = digits.as_text(picture.ravel())
    assert [line.rstrip() for line in lines] == ["▀▄", "  █", "", "", "        ▀"]
    assert {len(line) for line in lines} == {digits.SIDE}
