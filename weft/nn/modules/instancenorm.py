"""Normalisation of each channel of each example: `InstanceNorm1d`, `InstanceNorm2d`, `InstanceNorm3d`.

Takes `(N, C, ...)` or `(C, ...)`, gives each channel centred and scaled by its own mean and variance.
"""

from __future__ import annotations

import warnings
from typing import Any

import weft.nn.functional as F
from weft.nn.modules.batchnorm import _LazyNormBase, _NormBase
from weft.nn.modules.ranked import Ranked, check_dims
from weft.tensor.base import Tensor

__all__ = [
    "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d", "LazyInstanceNorm1d", "LazyInstanceNorm2d",
    "LazyInstanceNorm3d",
]  # fmt: skip

OLD_STATISTICS = (
    "Unexpected running stats buffer(s) {names} for {kind} with track_running_stats=False. If "
    "state_dict is a checkpoint saved before 0.4.0, this may be expected because {kind} does not track "
    "running stats by default since 0.4.0. Please remove these keys from state_dict. If the running "
    "stats are actually needed, instead set track_running_stats=True in {kind} to enable them. See the "
    "documentation of {kind} for details."
)


class _InstanceNorm(_NormBase, Ranked):
    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = False,
        track_running_stats: bool = False, device: Any = None, dtype: Any = None, *, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def _check_input_dim(self, input: Tensor) -> None:
        check_dims(input, [self._rank + 1, self._rank + 2])

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        channels = input.dim() - self._rank - 1
        if input.size(channels) != self.num_features:
            if self.affine:
                raise ValueError(
                    f"expected input's size at dim={channels} to match num_features"
                    f" ({self.num_features}), but got: {input.size(channels)}."
                )
            warnings.warn(
                f"input's size at dim={channels} does not match num_features. You can silence this warning "
                "by not passing in num_features, which is not used because affine=False",
                stacklevel=2,
            )
        if channels == 0:
            return self._normalise(input.unsqueeze(0)).squeeze(0)
        return self._normalise(input)

    def _normalise(self, input: Tensor) -> Tensor:
        return F.instance_norm(
            input, self.running_mean, self.running_var, self.weight, self.bias,
            self.training or not self.track_running_stats,
            self.momentum if self.momentum is not None else 0.0, self.eps,
        )  # fmt: skip

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool, missing_keys: Any,
        unexpected_keys: Any, error_msgs: Any,
    ) -> None:  # fmt: skip
        if local_metadata.get("version") is None and not self.track_running_stats:
            found = [prefix + name for name in ("running_mean", "running_var") if prefix + name in state_dict]
            if found:
                names = " and ".join(f'"{key}"' for key in found)
                error_msgs.append(OLD_STATISTICS.format(names=names, kind=type(self).__name__))
                for key in found:
                    state_dict.pop(key)
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )


class InstanceNorm1d(_InstanceNorm, rank=1):
    """Instance normalisation of `(N, C, L)` or `(C, L)`.

    >>> weft.nn.InstanceNorm1d(1)(weft.tensor([[[1.0, 3.0]], [[5.0, 9.0]]])).flatten()
    tensor([-1.0000,  1.0000, -1.0000,  1.0000])
    """


class InstanceNorm2d(_InstanceNorm, rank=2):
    """Instance normalisation of `(N, C, H, W)` or `(C, H, W)`.

    >>> weft.nn.InstanceNorm2d(3, affine=True)(weft.zeros(8, 3, 4, 4)).shape
    weft.Size([8, 3, 4, 4])
    """


class InstanceNorm3d(_InstanceNorm, rank=3):
    """Instance normalisation of `(N, C, D, H, W)` or `(C, D, H, W)`.

    >>> weft.nn.InstanceNorm3d(3)(weft.zeros(8, 3, 2, 4, 4)).shape
    weft.Size([8, 3, 2, 4, 4])
    """


class LazyInstanceNorm1d(_LazyNormBase, _InstanceNorm, rank=1):
    """An `InstanceNorm1d` that takes `num_features` from its first input.

    >>> layer = weft.nn.LazyInstanceNorm1d()
    >>> layer(weft.zeros(8, 3, 4)).shape, type(layer).__name__, layer.num_features
    (weft.Size([8, 3, 4]), 'InstanceNorm1d', 3)
    """

    cls_to_become = InstanceNorm1d


class LazyInstanceNorm2d(_LazyNormBase, _InstanceNorm, rank=2):
    """An `InstanceNorm2d` that takes `num_features` from its first input.

    >>> layer = weft.nn.LazyInstanceNorm2d()
    >>> layer(weft.zeros(8, 3, 4, 4)).shape, type(layer).__name__, layer.num_features
    (weft.Size([8, 3, 4, 4]), 'InstanceNorm2d', 3)
    """

    cls_to_become = InstanceNorm2d


class LazyInstanceNorm3d(_LazyNormBase, _InstanceNorm, rank=3):
    """An `InstanceNorm3d` that takes `num_features` from its first input.

    >>> layer = weft.nn.LazyInstanceNorm3d()
    >>> layer(weft.zeros(8, 3, 2, 4, 4)).shape, type(layer).__name__, layer.num_features
    (weft.Size([8, 3, 2, 4, 4]), 'InstanceNorm3d', 3)
    """

    cls_to_become = InstanceNorm3d
