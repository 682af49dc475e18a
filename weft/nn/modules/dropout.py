"""Layers that drop at random while training: single elements, or whole channels at once.

Takes a tensor, gives it with zeros drawn in and the rest scaled up so that the mean stays. One idea: a
channel is dropped by noise of size one along its inside.
"""

from __future__ import annotations

import warnings

import weft.nn.functional as F
from weft.autograd.grad_mode import no_grad
from weft.nn.modules.ranked import Showing
from weft.ops.record import ops
from weft.tensor.base import Tensor

__all__ = ["AlphaDropout", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "FeatureAlphaDropout"]


def _drop_channels(input: Tensor, p: float, training: bool, inplace: bool) -> Tensor:
    """Drops whole `input[i, j]`."""
    if not training or p == 0 or input.numel() == 0:
        return input
    if input.dim() < 2:
        raise RuntimeError("Feature dropout requires at least 2 dimensions in the input")
    with no_grad():
        noise = ops.new_zeros(input, (*input.shape[:2], *(1,) * (input.dim() - 2)))
        noise = noise if p == 1 else ops.div(ops.bernoulli(noise, 1 - p), 1 - p)
    return input.mul_(noise) if inplace else ops.mul(input, noise)


def _drop_unbatched(input: Tensor, p: float, training: bool, inplace: bool) -> Tensor:
    """Drops whole `input[j]`. In place, only a view gets the missing batch dimension, never the input
    itself."""
    if inplace:
        _drop_channels(input.unsqueeze(0), p, training, True)
        return input
    return _drop_channels(input.unsqueeze(0), p, training, False).squeeze(0)


class _DropoutNd(Showing):
    _shown = ("p", "inplace")

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if p < 0 or p > 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p, self.inplace = p, inplace


class Dropout(_DropoutNd):
    """Zeroes elements with probability `p` while training.

    >>> layer = weft.nn.Dropout(0.5)
    >>> set(layer(weft.ones(1000)).tolist()) == {0.0, 2.0}
    True
    >>> layer.eval()(weft.ones(3))
    tensor([1., 1., 1.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout(input, self.p, self.training, self.inplace)


class Dropout1d(_DropoutNd):
    """Zeroes whole channels of `(N, C, L)` or `(C, L)` with probability `p` while training.

    >>> weft.nn.Dropout1d(1.0)(weft.ones(1, 2, 3))
    tensor([[[0., 0., 0.],
             [0., 0., 0.]]])
    """

    def forward(self, input: Tensor) -> Tensor:
        rank = input.dim()
        if rank not in (2, 3):
            raise RuntimeError(
                f"dropout1d: Expected 2D or 3D input, but received a {rank}D input. Note that dropout1d "
                "exists to provide channel-wise dropout on inputs with 1 spatial dimension, a channel "
                "dimension, and an optional batch dimension (i.e. 2D or 3D inputs)."
            )
        drop = _drop_channels if rank == 3 else _drop_unbatched
        return drop(input, self.p, self.training, self.inplace)


class Dropout2d(_DropoutNd):
    """Zeroes whole channels of `(N, C, H, W)` with probability `p` while training.

    >>> weft.nn.Dropout2d(0.5).eval()(weft.ones(1, 2, 3, 3)).shape
    weft.Size([1, 2, 3, 3])
    """

    def forward(self, input: Tensor) -> Tensor:
        rank = input.dim()
        if rank not in (3, 4):
            _warn_of_rank("dropout2d", rank, 2, "3D or 4D")
        if rank == 3:
            warnings.warn(
                "dropout2d: Received a 3D input to dropout2d and assuming that channel-wise "
                "1D dropout behavior is desired - input is interpreted as shape (N, C, L), where C "
                "is the channel dim. This behavior will change in a future release to interpret the "
                "input as one without a batch dimension, i.e. shape (C, H, W). To maintain the 1D "
                "channel-wise dropout behavior, please switch to using dropout1d instead.",
                stacklevel=2,
            )
        return _drop_channels(input, self.p, self.training, self.inplace)


class Dropout3d(_DropoutNd):
    """Zeroes whole channels of `(N, C, D, H, W)` or `(C, D, H, W)` with probability `p` while training.

    >>> weft.nn.Dropout3d(0.5).eval()(weft.ones(1, 2, 3, 3, 3)).shape
    weft.Size([1, 2, 3, 3, 3])
    """

    def forward(self, input: Tensor) -> Tensor:
        rank = input.dim()
        if rank not in (4, 5):
            _warn_of_rank("dropout3d", rank, 3, "4D or 5D")
        drop = _drop_channels if rank == 5 else _drop_unbatched
        return drop(input, self.p, self.training, self.inplace)


class AlphaDropout(_DropoutNd):
    """Sets elements to the least value of a SELU with probability `p` while training, mean and variance
    kept.

    >>> weft.nn.AlphaDropout(0.2).eval()(weft.ones(3))
    tensor([1., 1., 1.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.alpha_dropout(input, self.p, self.training, self.inplace)


class FeatureAlphaDropout(_DropoutNd):
    """As `AlphaDropout`, for whole channels.

    >>> weft.nn.FeatureAlphaDropout(0.5).eval()(weft.ones(1, 2, 3, 3)).shape
    weft.Size([1, 2, 3, 3])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.feature_alpha_dropout(input, self.p, self.training, self.inplace)


def _warn_of_rank(name: str, rank: int, spatial: int, expected: str) -> None:
    warnings.warn(
        f"{name}: Received a {rank}-D input to {name}, which is deprecated and will result in an error in a "
        "future release. To retain the behavior and silence this warning, please use dropout instead. Note "
        f"that {name} exists to provide channel-wise dropout on inputs with {spatial} spatial dimensions, a "
        f"channel dimension, and an optional batch dimension (i.e. {expected} inputs).",
        stacklevel=3,
    )
