"""Normalisation by statistics of the batch: `BatchNorm1d`, `BatchNorm2d`, `BatchNorm3d`.

Takes `(N, C, ...)`, gives each channel centred and scaled. One idea: while training the statistics are the
batch's own and running means of them are kept; afterwards the running means serve.
"""

from __future__ import annotations

from typing import Any

import weft.nn.functional as F
from weft.core.dtypes import int64
from weft.nn.modules.lazy import LazyLayer
from weft.nn.modules.module import Module
from weft.nn.modules.normalization import _Affine
from weft.nn.modules.ranked import check_dims
from weft.nn.parameter import UninitializedBuffer
from weft.ops.record import ops
from weft.tensor.base import Tensor

__all__ = [
    "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "LazyBatchNorm1d", "LazyBatchNorm2d", "LazyBatchNorm3d",
    "SyncBatchNorm",
]  # fmt: skip


class _NormBase(_Affine):
    """What batch and instance normalisation share: scale and shift, and the running statistics."""

    _version = 2
    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None
    _dims: tuple[int, ...] = ()
    """The numbers of dimensions that input may have."""

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True,
        track_running_stats: bool = True, device: Any = None, dtype: Any = None, *, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        self.num_features, self.eps, self.momentum, self.affine = num_features, eps, momentum, affine
        self.track_running_stats = track_running_stats
        self._make_affine((num_features,), affine, bias, device, dtype)
        mean = variance = count = None
        if track_running_stats:
            mean = ops.zeros((num_features,), dtype=dtype, device=device)
            variance = ops.ones((num_features,), dtype=dtype, device=device)
            count = ops.zeros((), dtype=int64, device=device)
        self.register_buffer("running_mean", mean)
        self.register_buffer("running_var", variance)
        self.register_buffer("num_batches_tracked", count)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Back to mean 0, variance 1, no batch seen."""
        if self.track_running_stats:
            self.running_mean.zero_()  # type: ignore[union-attr]
            self.running_var.fill_(1)  # type: ignore[union-attr]
            self.num_batches_tracked.zero_()  # type: ignore[union-attr]

    def reset_parameters(self) -> None:
        """Back to scale 1 and shift 0, and fresh statistics."""
        self.reset_running_stats()
        super().reset_parameters()

    def _check_input_dim(self, input: Tensor) -> None:
        dims = list(type(self)._dims)  # what an instance calls so is its own affair
        if len(dims) == 0:  # scripts know no truth of lists
            raise NotImplementedError
        check_dims(input, dims)

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool, missing_keys: Any,
        unexpected_keys: Any, error_msgs: Any,
    ) -> None:  # fmt: skip
        version = local_metadata.get("version")
        key = f"{prefix}num_batches_tracked"
        if (version is None or version < 2) and self.track_running_stats and key not in state_dict:
            # States of version 1 do not count batches.
            mine = self.num_batches_tracked
            known = mine is not None and not mine.is_meta
            state_dict[key] = mine if known else ops.zeros((), dtype=int64)
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )


class _BatchNorm(_NormBase):
    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        factor = 0.0 if self.momentum is None else self.momentum
        if self.training and self.track_running_stats and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:  # every batch counts the same
                factor = 1.0 / float(self.num_batches_tracked)
        use_batch = self.training or (self.running_mean is None and self.running_var is None)
        if use_batch and self.eps <= 0.0:
            raise ValueError(f"batch_norm eps must be positive during training, but got {self.eps}")
        if self.eps < 0.0:
            raise ValueError(f"batch_norm eps must be non-negative, but got {self.eps}")
        # Statistics that are not tracked are not written to either.
        visible = not self.training or self.track_running_stats
        return F.batch_norm(
            input, self.running_mean if visible else None, self.running_var if visible else None,
            self.weight, self.bias, use_batch, factor, self.eps,
        )  # fmt: skip


class BatchNorm1d(_BatchNorm):
    """Batch normalisation of `(N, C)` or `(N, C, L)`.

    >>> weft.nn.BatchNorm1d(1, affine=False)(weft.tensor([[1.0], [3.0]]))
    tensor([[-1.0000],
            [ 1.0000]])
    """

    _dims = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Batch normalisation of `(N, C, H, W)`.

    >>> weft.nn.BatchNorm2d(3)(weft.zeros(8, 3, 4, 4)).shape
    weft.Size([8, 3, 4, 4])
    """

    _dims = (4,)


class BatchNorm3d(_BatchNorm):
    """Batch normalisation of `(N, C, D, H, W)`.

    >>> weft.nn.BatchNorm3d(3)(weft.zeros(8, 3, 2, 4, 4)).shape
    weft.Size([8, 3, 2, 4, 4])
    """

    _dims = (5,)


class SyncBatchNorm(_BatchNorm):
    """Batch normalisation over the batches of all processes; with one process, that of its own batch.

    >>> model = weft.nn.Sequential(weft.nn.Conv2d(3, 8, 3), weft.nn.BatchNorm2d(8))
    >>> type(weft.nn.SyncBatchNorm.convert_sync_batchnorm(model)[1]).__name__
    'SyncBatchNorm'
    """

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True,
        track_running_stats: bool = True, process_group: Any = None, device: Any = None, dtype: Any = None,
        *, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)
        self.process_group = process_group

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")
        if input.size(1) == 0:
            raise ValueError("SyncBatchNorm number of input channels should be non-zero")

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any = None) -> Module:
        """The module with every batch normalisation in it replaced by one of this class, weights kept."""
        result = module
        if isinstance(module, _BatchNorm):
            result = made = cls(
                module.num_features, module.eps, module.momentum, module.affine, module.track_running_stats,
                process_group, bias=module.bias is not None,
            )  # fmt: skip
            for name in ("weight", "bias"):
                if getattr(module, name) is not None:
                    setattr(made, name, getattr(module, name))
            for name in ("running_mean", "running_var", "num_batches_tracked"):
                setattr(made, name, getattr(module, name))
            made.training = module.training
        for name, child in module.named_children():
            result.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return result


# -- sizes from the first input ------------------------------------------------------------------------------
class _LazyNormBase(LazyLayer, _NormBase):
    """Takes `num_features` from the first input."""

    _size = "num_features"
    running_mean: Any
    running_var: Any

    def __init__(
        self, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True,
        track_running_stats: bool = True, device: Any = None, dtype: Any = None, *, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(0, eps, momentum, False, False, device, dtype)
        self.affine, self.track_running_stats = affine, track_running_stats
        if affine:
            self._make_lazy(bias, device, dtype)
        if track_running_stats:
            self.running_mean = UninitializedBuffer(device=device, dtype=dtype)
            self.running_var = UninitializedBuffer(device=device, dtype=dtype)
            self.num_batches_tracked = ops.zeros((), dtype=int64, device=device)

    def initialize_parameters(self, input: Tensor) -> None:
        """Takes the channels of this input."""
        if not self.has_uninitialized_params():  # a state dict has told the shapes, or there are none
            self.num_features = self.num_features or input.shape[1]
            return
        self.num_features = input.shape[1]
        tensors = (self.weight, self.bias) if self.affine else ()
        if self.track_running_stats:
            tensors = (*tensors, self.running_mean, self.running_var)
        for tensor in tensors:
            if tensor is not None:
                tensor.materialize((self.num_features,))
        self.reset_parameters()


class LazyBatchNorm1d(_LazyNormBase, _BatchNorm):
    """A `BatchNorm1d` that takes `num_features` from its first input.

    >>> layer = weft.nn.LazyBatchNorm1d()
    >>> layer(weft.zeros(8, 3)).shape, type(layer).__name__, layer.num_features
    (weft.Size([8, 3]), 'BatchNorm1d', 3)
    """

    cls_to_become = BatchNorm1d
    _dims = BatchNorm1d._dims


class LazyBatchNorm2d(_LazyNormBase, _BatchNorm):
    """A `BatchNorm2d` that takes `num_features` from its first input.

    >>> layer = weft.nn.LazyBatchNorm2d()
    >>> layer(weft.zeros(8, 3, 4, 4)).shape, type(layer).__name__, layer.num_features
    (weft.Size([8, 3, 4, 4]), 'BatchNorm2d', 3)
    """

    cls_to_become = BatchNorm2d
    _dims = BatchNorm2d._dims


class LazyBatchNorm3d(_LazyNormBase, _BatchNorm):
    """A `BatchNorm3d` that takes `num_features` from its first input.

    >>> layer = weft.nn.LazyBatchNorm3d()
    >>> layer(weft.zeros(8, 3, 2, 4, 4)).shape, type(layer).__name__, layer.num_features
    (weft.Size([8, 3, 2, 4, 4]), 'BatchNorm3d', 3)
    """

    cls_to_become = BatchNorm3d
    _dims = BatchNorm3d._dims
