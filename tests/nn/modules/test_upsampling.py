from __future__ import annotations

import numpy as np

from weft import nn


def matrix(old, new):
    """What linear interpolation with kept corners does to one dimension."""
    places = np.linspace(0, old - 1, new)
    low = np.minimum(places.astype(int), old - 2)
    rows = np.zeros((new, old))
    rows[np.arange(new), low] = 1 - (places - low)
    rows[np.arange(new), low + 1] = places - low
    return rows


def test_nearest_repeats(agrees, draw):
    for layer in (
        nn.Upsample(scale_factor=2),
        nn.UpsamplingNearest2d(scale_factor=2),
        nn.UpsamplingNearest2d((6, 8)),
    ):
        agrees(layer, lambda x: x.repeat(2, 2).repeat(2, 3), draw(1, 2, 3, 4))


def test_bilinear_with_corners(agrees, draw):
    layer = nn.UpsamplingBilinear2d(size=(5, 7))
    agrees(layer, lambda x: matrix(3, 5) @ x @ matrix(4, 7).T, draw(1, 2, 3, 4))
    layer = nn.Upsample((5, 7), mode="bilinear", align_corners=True)
    agrees(layer, lambda x: matrix(3, 5) @ x @ matrix(4, 7).T, draw(1, 2, 3, 4))


def test_printed():
    assert repr(nn.Upsample(scale_factor=2)) == "Upsample(scale_factor=2.0, mode='nearest')"
    assert repr(nn.UpsamplingBilinear2d((3, 4))) == "UpsamplingBilinear2d(size=(3, 4), mode='bilinear')"
