from __future__ import annotations

from weft import nn


def shuffled(x, r):
    n, c, h, w = x.shape
    return x.reshape(n, c // r**2, r, r, h, w).transpose(0, 1, 4, 2, 5, 3).reshape(n, c // r**2, h * r, w * r)


def test_channels_to_space_and_back(agrees, draw):
    x = draw(2, 8, 3, 2)
    agrees(nn.PixelShuffle(2), lambda x: shuffled(x, 2), x)
    agrees(nn.PixelUnshuffle(2), x, shuffled(x, 2))
    assert repr(nn.PixelShuffle(2)) == "PixelShuffle(upscale_factor=2)"
    assert repr(nn.PixelUnshuffle(2)) == "PixelUnshuffle(downscale_factor=2)"
