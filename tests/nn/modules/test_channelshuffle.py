from __future__ import annotations

from weft import nn


def test_channels_are_dealt_out_anew(agrees, draw):
    agrees(nn.ChannelShuffle(2), lambda x: x[:, [0, 3, 1, 4, 2, 5]], draw(2, 6, 2, 3))
    assert repr(nn.ChannelShuffle(2)) == "ChannelShuffle(groups=2)"
