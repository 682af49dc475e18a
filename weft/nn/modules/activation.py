"""Activations as layers, and `MultiheadAttention`.

Takes a tensor, gives one of its shape (but for `GLU` and attention). One idea: a layer keeps the options of
the function of its name and nothing else; only `PReLU` and attention have something to learn.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, ClassVar

import weft.nn.functional as F
import weft.nn.init as init
from weft.nn.modules.linear import NonDynamicallyQuantizableLinear
from weft.nn.modules.module import Module
from weft.nn.modules.ranked import Showing
from weft.nn.modules.utils import empty_parameter, named
from weft.nn.parameter import Parameter
from weft.tensor.base import Tensor

__all__ = [
    "CELU", "ELU", "GELU", "GLU", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh", "LeakyReLU",
    "LogSigmoid", "LogSoftmax", "Mish", "MultiheadAttention", "PReLU", "RReLU", "ReLU", "ReLU6", "SELU",
    "SiLU", "Sigmoid", "Softmax", "Softmax2d", "Softmin", "Softplus", "Softshrink", "Softsign", "Tanh",
    "Tanhshrink", "Threshold",
]  # fmt: skip


# -- without options -----------------------------------------------------------------------------------------
class Sigmoid(Module):
    """`1 / (1 + exp(-x))`.

    >>> weft.nn.Sigmoid()(weft.tensor([-1.0, 0.0, 1.0]))
    tensor([0.2689, 0.5000, 0.7311])
    """

    __call__: Callable[..., Tensor]

    def forward(self, input: Tensor) -> Tensor:
        return F.sigmoid(input)


class LogSigmoid(Module):
    """`log(sigmoid(x))`.

    >>> weft.nn.LogSigmoid()(weft.tensor([-4.0, 0.0, 4.0]))
    tensor([-4.0181, -0.6931, -0.0181])
    """

    __call__: Callable[..., Tensor]

    def forward(self, input: Tensor) -> Tensor:
        return F.logsigmoid(input)


class Tanh(Module):
    """The hyperbolic tangent.

    >>> weft.nn.Tanh()(weft.tensor([-1.0, 0.0, 1.0]))
    tensor([-0.7616,  0.0000,  0.7616])
    """

    __call__: Callable[..., Tensor]

    def forward(self, input: Tensor) -> Tensor:
        return F.tanh(input)


class Tanhshrink(Module):
    """`x - tanh(x)`.

    >>> weft.nn.Tanhshrink()(weft.tensor([-1.0, 0.0, 1.0]))
    tensor([-0.2384,  0.0000,  0.2384])
    """

    __call__: Callable[..., Tensor]

    def forward(self, input: Tensor) -> Tensor:
        return F.tanhshrink(input)


class Softsign(Module):
    """`x / (1 + |x|)`.

    >>> weft.nn.Softsign()(weft.tensor([-1.0, 0.0, 3.0]))
    tensor([-0.5000,  0.0000,  0.7500])
    """

    __call__: Callable[..., Tensor]

    def forward(self, input: Tensor) -> Tensor:
        return F.softsign(input)


# -- in place by choice --------------------------------------------------------------------------------------
class _InPlace(Showing):
    """A layer that can work in place; here, its only option."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def extra_repr(self) -> str:
        shown = [named(self, name) for name in type(self)._shown]
        return ", ".join(shown + ["inplace=True"] * bool(self.inplace))


class ReLU(_InPlace):
    """`max(x, 0)`.

    >>> weft.nn.ReLU()(weft.tensor([-4.0, 4.0]))
    tensor([0., 4.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.relu(input, self.inplace)


class SiLU(_InPlace):
    """`x * sigmoid(x)`.

    >>> weft.nn.SiLU()(weft.tensor([-1.0, 0.0, 2.0]))
    tensor([-0.2689,  0.0000,  1.7616])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.silu(input, self.inplace)


class Mish(_InPlace):
    """`x * tanh(softplus(x))`.

    >>> weft.nn.Mish()(weft.tensor([-1.0, 0.0, 2.0]))
    tensor([-0.3034,  0.0000,  1.9440])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.mish(input, self.inplace)


class SELU(_InPlace):
    """An ELU scaled so that mean 0 and variance 1 stay.

    >>> weft.nn.SELU()(weft.tensor([-1.0, 0.0, 2.0]))
    tensor([-1.1113,  0.0000,  2.1014])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.selu(input, self.inplace)


class Hardsigmoid(_InPlace):
    """`x / 6 + 1/2`, kept between 0 and 1.

    >>> weft.nn.Hardsigmoid()(weft.tensor([-4.0, 0.0, 4.0]))
    tensor([0.0000, 0.5000, 1.0000])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.hardsigmoid(input, self.inplace)

    def extra_repr(self) -> str:
        return ""


class Hardswish(_InPlace):
    """`x * hardsigmoid(x)`.

    >>> weft.nn.Hardswish()(weft.tensor([-1.0, 0.0, 4.0]))
    tensor([-0.3333,  0.0000,  4.0000])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.hardswish(input, self.inplace)

    def extra_repr(self) -> str:
        return ""


# -- with numbers --------------------------------------------------------------------------------------------
class Threshold(_InPlace):
    """`x` where it is above `threshold`, else `value`.

    >>> weft.nn.Threshold(1.0, -9.0)(weft.tensor([0.5, 1.0, 2.0]))
    tensor([-9., -9.,  2.])
    """

    _shown = ("threshold", "value")

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.threshold, self.value = threshold, value

    def forward(self, input: Tensor) -> Tensor:
        return F.threshold(input, self.threshold, self.value, self.inplace)


class Hardtanh(_InPlace):
    """`x` kept between `min_val` and `max_val`.

    >>> weft.nn.Hardtanh(-2, 2)(weft.tensor([-4.0, 0.5, 4.0]))
    tensor([-2.0000,  0.5000,  2.0000])
    """

    _shown: ClassVar[tuple[str, ...]] = ("min_val", "max_val")

    def __init__(
        self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False,
        min_value: float | None = None, max_value: float | None = None,
    ) -> None:  # fmt: skip
        super().__init__(inplace)
        if min_value is not None:
            _warn_of_name("min_value", "min_val")
            min_val = min_value
        if max_value is not None:
            _warn_of_name("max_value", "max_val")
            max_val = max_value
        if not max_val > min_val:
            raise AssertionError(f"max_val ({max_val}) must be greater than min_val ({min_val})")
        self.min_val, self.max_val = min_val, max_val

    def forward(self, input: Tensor) -> Tensor:
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)


def _warn_of_name(old: str, new: str) -> None:
    text = f"keyword argument `{old}` is deprecated and renamed to `{new}`"
    warnings.warn(text, FutureWarning, stacklevel=3)


class ReLU6(Hardtanh):
    """`x` kept between 0 and 6.

    >>> weft.nn.ReLU6()(weft.tensor([-4.0, 4.0, 8.0]))
    tensor([0., 4., 6.])
    """

    _shown = ()

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)


class _WithAlpha(_InPlace):
    _shown = ("alpha",)

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.alpha = alpha


class ELU(_WithAlpha):
    """`x` where it is positive, else `alpha * (exp(x) - 1)`.

    >>> weft.nn.ELU(alpha=2.0)(weft.tensor([-1.0, 0.0, 2.0]))
    tensor([-1.2642,  0.0000,  2.0000])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.elu(input, self.alpha, self.inplace)


class CELU(_WithAlpha):
    """`x` where it is positive, else `alpha * (exp(x / alpha) - 1)`.

    >>> weft.nn.CELU()(weft.tensor([-1.0, 0.0, 2.0]))
    tensor([-0.6321,  0.0000,  2.0000])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.celu(input, self.alpha, self.inplace)


class LeakyReLU(_InPlace):
    """`x` where it is positive, else `negative_slope * x`.

    >>> weft.nn.LeakyReLU(0.5)(weft.tensor([-4.0, 0.0, 4.0]))
    tensor([-2.,  0.,  4.])
    """

    _shown = ("negative_slope",)

    def __init__(self, negative_slope: float = 1e-2, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.negative_slope = negative_slope

    def forward(self, input: Tensor) -> Tensor:
        return F.leaky_relu(input, self.negative_slope, self.inplace)


class RReLU(_InPlace):
    """`x` where it is positive, else a slope times it: drawn between the bounds while training, else their
    mean.

    >>> weft.nn.RReLU(0.25, 0.75).eval()(weft.tensor([-4.0, 4.0]))
    tensor([-2.,  4.])
    """

    _shown = ("lower", "upper")

    def __init__(self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.lower, self.upper = lower, upper

    def forward(self, input: Tensor) -> Tensor:
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)


class GELU(Module):
    """`x` times the normal distribution function at `x`, exact or by its tanh approximation.

    >>> weft.nn.GELU()(weft.tensor([-1.0, 0.0, 2.0]))
    tensor([-0.1587,  0.0000,  1.9545])
    """

    __call__: Callable[..., Tensor]

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        return F.gelu(input, approximate=self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class Softplus(Showing):
    """`log(1 + exp(beta * x)) / beta`, and `x` itself where `beta * x` is above `threshold`.

    >>> weft.nn.Softplus()(weft.tensor([-1.0, 0.0, 30.0]))
    tensor([ 0.3133,  0.6931, 30.0000])
    """

    _shown = ("beta", "threshold")

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta, self.threshold = beta, threshold

    def forward(self, input: Tensor) -> Tensor:
        return F.softplus(input, self.beta, self.threshold)


class _Shrink(Module):
    __call__: Callable[..., Tensor]

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def extra_repr(self) -> str:
        return f"{self.lambd}"


class Hardshrink(_Shrink):
    """`x`, and 0 where it is within `lambd` of 0.

    >>> weft.nn.Hardshrink()(weft.tensor([-1.0, 0.25, 2.0]))
    tensor([-1.,  0.,  2.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.hardshrink(input, self.lambd)


class Softshrink(_Shrink):
    """`x` moved by `lambd` towards 0, not beyond it.

    >>> weft.nn.Softshrink()(weft.tensor([-1.0, 0.25, 2.0]))
    tensor([-0.5000,  0.0000,  1.5000])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.softshrink(input, self.lambd)


class PReLU(Showing):
    """`x` where it is positive, else `weight * x`, the weight learnt: one, or one per channel.

    >>> weft.nn.PReLU(init=0.5)(weft.tensor([-4.0, 4.0])).tolist()
    [-2.0, 4.0]
    """

    _shown = ("num_parameters",)

    weight: Tensor

    def __init__(
        self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.num_parameters, self.init = num_parameters, init
        self.weight = empty_parameter((num_parameters,), device, dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Back to the slope that was asked for."""
        init.constant_(self.weight, self.init)

    def forward(self, input: Tensor) -> Tensor:
        return F.prelu(input, self.weight)


# -- along a dimension ---------------------------------------------------------------------------------------
class _AlongDim(Showing):
    _shown = ("dim",)

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim


class GLU(_AlongDim):
    """The first half along `dim` times the sigmoid of the second.

    >>> weft.nn.GLU()(weft.tensor([3.0, 4.0, 0.0, 0.0]))
    tensor([1.5000, 2.0000])
    """

    dim: int

    def __init__(self, dim: int = -1) -> None:
        super().__init__(dim)

    def forward(self, input: Tensor) -> Tensor:
        return F.glu(input, self.dim)


class Softmax(_AlongDim):
    """`exp(x) / sum(exp(x))` along `dim`.

    >>> weft.nn.Softmax(dim=1)(weft.tensor([[0.0, 0.0], [0.0, 2.0]]))
    tensor([[0.5000, 0.5000],
            [0.1192, 0.8808]])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.softmax(input, self.dim, _stacklevel=5)


class LogSoftmax(_AlongDim):
    """The log of the softmax along `dim`.

    >>> weft.nn.LogSoftmax(dim=0)(weft.tensor([0.0, 0.0]))
    tensor([-0.6931, -0.6931])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.log_softmax(input, self.dim, _stacklevel=5)


class Softmin(_AlongDim):
    """The softmax of `-x` along `dim`.

    >>> weft.nn.Softmin(dim=0)(weft.tensor([0.0, 2.0]))
    tensor([0.8808, 0.1192])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.softmin(input, self.dim, _stacklevel=5)


class Softmax2d(Module):
    """The softmax over channels of `(N, C, H, W)` or `(C, H, W)`.

    >>> weft.nn.Softmax2d()(weft.zeros(1, 4, 2, 2)).sum(1)
    tensor([[[1., 1.],
             [1., 1.]]])
    """

    __call__: Callable[..., Tensor]

    def forward(self, input: Tensor) -> Tensor:
        if input.dim() not in (3, 4):
            raise ValueError(f"Softmax2d: expected input to be 3D or 4D, got {input.dim()}D instead")
        return F.softmax(input, -3, _stacklevel=5)


# -- attention -----------------------------------------------------------------------------------------------
class MultiheadAttention(Module):
    """Attention with several heads: projections in, attention per head, projection out.

    One packed weight projects queries, keys and values where all have `embed_dim` features; with `kdim` or
    `vdim` there are three.

    >>> attention = weft.nn.MultiheadAttention(embed_dim=8, num_heads=2, batch_first=True)
    >>> words = weft.zeros(3, 5, 8)
    >>> mixed, weights = attention(words, words, words)
    >>> mixed.shape, weights.shape
    (weft.Size([3, 5, 8]), weft.Size([3, 5, 5]))
    """

    kdim: int
    vdim: int
    head_dim: int
    in_proj_weight: Tensor | None
    q_proj_weight: Tensor | None
    k_proj_weight: Tensor | None
    v_proj_weight: Tensor | None
    in_proj_bias: Tensor | None
    bias_k: Tensor | None
    bias_v: Tensor | None

    def __init__(
        self, embed_dim: int, num_heads: int, dropout: float = 0.0, bias: bool = True,
        add_bias_kv: bool = False, add_zero_attn: bool = False, kdim: int | None = None,
        vdim: int | None = None, batch_first: bool = False, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                "embed_dim and num_heads must be greater than 0, "
                f"got embed_dim={embed_dim} and num_heads={num_heads} instead"
            )
        super().__init__()
        self.embed_dim = embed_dim
        self.kdim = kdim if kdim is not None else embed_dim
        self.vdim = vdim if vdim is not None else embed_dim
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        self.num_heads, self.dropout, self.batch_first = num_heads, dropout, batch_first
        self.head_dim = embed_dim // num_heads
        if self.head_dim * num_heads != embed_dim:
            raise AssertionError("embed_dim must be divisible by num_heads")

        def weight(*shape: int) -> Parameter:
            return empty_parameter(shape, device, dtype)

        if self._qkv_same_embed_dim:
            self.in_proj_weight = weight(3 * embed_dim, embed_dim)
            for letter in "qkv":
                self.register_parameter(f"{letter}_proj_weight", None)
        else:
            self.q_proj_weight = weight(embed_dim, embed_dim)
            self.k_proj_weight = weight(embed_dim, self.kdim)
            self.v_proj_weight = weight(embed_dim, self.vdim)
            self.register_parameter("in_proj_weight", None)
        self.register_parameter("in_proj_bias", weight(3 * embed_dim) if bias else None)
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias, device, dtype)
        if add_bias_kv:
            self.bias_k = weight(1, 1, embed_dim)
            self.bias_v = weight(1, 1, embed_dim)
        else:
            self.bias_k = self.bias_v = None
        self.add_zero_attn = add_zero_attn
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        for projection in (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
            if projection is not None:
                init.xavier_uniform_(projection)
        for bias in (self.in_proj_bias, self.out_proj.bias):
            if bias is not None:
                init.constant_(bias, 0.0)
        for extra in (self.bias_k, self.bias_v):
            if extra is not None:
                init.xavier_normal_(extra)

    def __setstate__(self, state: dict[str, Any]) -> None:
        state.setdefault("_qkv_same_embed_dim", True)  # pickles from before there were separate projections
        super().__setstate__(state)

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Tensor | None = None,
        need_weights: bool = True, attn_mask: Tensor | None = None, average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:  # fmt: skip
        """Gives the output and, if asked for, the weights: averaged over heads, or per head."""
        swapped = self.batch_first and query.dim() == 3
        if swapped:
            query, key, value = _swap_batch(query, key, value)
        out, weights = F.multi_head_attention_forward(
            query, key, value, self.embed_dim, self.num_heads, self.in_proj_weight, self.in_proj_bias,
            self.bias_k, self.bias_v, self.add_zero_attn, self.dropout, self.out_proj.weight,
            self.out_proj.bias, training=self.training, key_padding_mask=key_padding_mask,
            need_weights=need_weights, attn_mask=attn_mask,
            use_separate_proj_weight=not self._qkv_same_embed_dim, q_proj_weight=self.q_proj_weight,
            k_proj_weight=self.k_proj_weight, v_proj_weight=self.v_proj_weight,
            average_attn_weights=average_attn_weights, is_causal=is_causal,
        )  # fmt: skip
        return (out.transpose(1, 0) if swapped else out), weights


def _swap_batch(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Batch and sequence exchanged. What was one tensor stays one, because then one product projects it."""
    first = query.transpose(1, 0)
    second = first if key is query else key.transpose(1, 0)
    if value is query or value is key:
        return first, second, first if value is query else second
    return first, second, value.transpose(1, 0)
