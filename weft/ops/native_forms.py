"""Ops that PyTorch also has in the form in which its own layers call them: `conv_tbc`, `native_dropout`.

Takes what those take; gives it by the ops that are here. One idea: each is a composite, so gradients and
machine code are those of its parts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from weft.core.dtypes import bool_
from weft.ops.families import composite
from weft.ops.record import ops, type_of
from weft.ops.samples import Maker, Sample
from weft.ops.softmax import no_grad
from weft.ops.values import TensorLike


def _tbc_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(5, 2, 3), make(3, 3, 4), make(4))
    yield Sample(make(4, 1, 2), make(2, 2, 3), make(3), 1)


@composite(
    "input: Tensor, weight: Tensor, bias: Tensor, pad: int = 0", samples=_tbc_samples, method=False,
    aliases=("nn.functional.conv_tbc",),
)  # fmt: skip
def conv_tbc(input: TensorLike, weight: TensorLike, bias: TensorLike, pad: int) -> Any:
    """A convolution over sequences that lie as (time, batch, channels)."""
    x, w = type_of(input), type_of(weight)
    if x.ndim != 3:
        raise RuntimeError("Input must have 3 dims: time, batch, in_channel")
    if w.ndim != 3:
        raise RuntimeError("Weight tensor must have 3 dims: kernel_width, in_channels, out_channels.")
    if type_of(bias).ndim != 1:
        raise RuntimeError("Bias must be 1-D")
    if x.shape[2] != w.shape[1]:
        raise RuntimeError("Input dim 2 (input channels) is not == dim 1 in the weight tensor")
    if type_of(bias).shape[0] != w.shape[2]:
        raise RuntimeError("Bias size must equal dim 2 in the weight tensor (output channels).")
    out = ops.conv1d(ops.permute(input, (1, 2, 0)), ops.permute(weight, (2, 1, 0)), bias, 1, pad)
    return ops.contiguous(ops.permute(out, (2, 0, 1)))


def _dropout_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(2, 3), 0.5, False)
    yield Sample(make(2, 3), 1.0, True)


@composite("input: Tensor, p: float, train: Any", samples=_dropout_samples, method=False)
def native_dropout(input: TensorLike, p: float, train: bool | None) -> Any:
    """`dropout`, and which elements it kept."""
    shape = tuple(type_of(input).shape)
    if not 0 <= p <= 1:
        raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={1 - p}")
    if train is not None and not train:
        return ops.clone(input), ops.new_ones(input, shape, dtype=bool_)
    if p == 1:
        mask = ops.new_zeros(input, shape, dtype=bool_)
        return ops.mul(input, 0), mask
    noise = no_grad(ops.bernoulli, input, 1 - p)
    return ops.mul(input, ops.div(noise, 1 - p)), ops.ne(noise, 0)
