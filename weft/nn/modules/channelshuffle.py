"""Channels dealt out anew among groups, as a layer: `ChannelShuffle`."""

from __future__ import annotations

import weft.nn.functional as F
from weft.nn.modules.ranked import Showing
from weft.tensor.base import Tensor

__all__ = ["ChannelShuffle"]


class ChannelShuffle(Showing):
    """Channels `(groups, n)` become `(n, groups)`.

    >>> weft.nn.ChannelShuffle(2)(weft.arange(4.0).reshape(1, 4, 1, 1)).flatten()
    tensor([0., 2., 1., 3.])
    """

    _shown = ("groups",)

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: Tensor) -> Tensor:
        return F.channel_shuffle(input, self.groups)
