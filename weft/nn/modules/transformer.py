"""Transformers: encoder and decoder layers, stacks of them, and both together.

Takes sequences `(L, N, E)`, `(N, L, E)` or `(L, E)`, gives sequences of the same shape. One idea: a layer is
attention and two products, each added to what came in and normalised before or after.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import weft.nn.functional as F
import weft.nn.init as init
from weft.core.dtypes import bool_ as boolean
from weft.nn.modules.activation import MultiheadAttention
from weft.nn.modules.container import ModuleList
from weft.nn.modules.dropout import Dropout
from weft.nn.modules.linear import Linear
from weft.nn.modules.module import Module
from weft.nn.modules.normalization import LayerNorm
from weft.ops.record import ops
from weft.tensor.base import Tensor

__all__ = [
    "Transformer", "TransformerDecoder", "TransformerDecoderLayer", "TransformerEncoder",
    "TransformerEncoderLayer",
]  # fmt: skip

Activation = str | Callable[[Any], Any]


# -- masks ---------------------------------------------------------------------------------------------------
def _get_activation_fn(activation: str) -> Callable[[Any], Any]:
    if activation == "relu":
        return F.relu
    if activation == "gelu":
        return F.gelu
    raise RuntimeError(f"activation should be relu/gelu, not {activation}")


def _get_clones(module: Module, count: int) -> ModuleList:
    return ModuleList([copy.deepcopy(module) for _ in range(count)])


def _generate_square_subsequent_mask(size: int, device: Any = None, dtype: Any = None) -> Tensor:
    """-inf above the diagonal, 0 elsewhere: what a position may not see of those after it."""
    return ops.triu(ops.full((size, size), float("-inf"), dtype=dtype, device=device), 1)


def _float_mask(mask: Tensor | None, name: str, like: Any) -> Any:
    """A mask as what is added to scores: True becomes -inf."""
    if mask is None or mask.is_floating_point():
        return mask
    if mask.dtype is not boolean:
        raise AssertionError(f"only bool and floating types of {name} are supported")
    return ops.masked_fill(ops.zeros_like(mask, dtype=like), mask, float("-inf"))


# -- layers --------------------------------------------------------------------------------------------------
class _Layer(Module):
    """What encoder and decoder layers share: attention, and two products with an activation between them,
    each with its norm and dropout."""

    __call__: Callable[..., Tensor]
    activation: Any
    self_attn: MultiheadAttention
    linear1: Linear
    linear2: Linear
    dropout: Dropout
    dropout1: Dropout
    dropout2: Dropout
    norm1: LayerNorm
    norm2: LayerNorm
    _attentions: tuple[str, ...]

    def __init__(
        self, d_model: int, nhead: int, dim_feedforward: int = 2048, dropout: float = 0.1,
        activation: Activation = F.relu, layer_norm_eps: float = 1e-5, batch_first: bool = False,
        norm_first: bool = False, bias: bool = True, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        where = {"device": device, "dtype": dtype}
        super().__init__()
        for name in self._attentions:
            attention = MultiheadAttention(
                d_model, nhead, dropout=dropout, bias=bias, batch_first=batch_first, **where
            )
            setattr(self, name, attention)
        self.linear1 = Linear(d_model, dim_feedforward, bias=bias, **where)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias=bias, **where)
        self.norm_first = norm_first
        parts = range(1, len(self._attentions) + 2)
        for number in parts:
            setattr(self, f"norm{number}", LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **where))
        for number in parts:
            setattr(self, f"dropout{number}", Dropout(dropout))
        self.activation = _get_activation_fn(activation) if isinstance(activation, str) else activation

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if not hasattr(self, "activation"):
            self.activation = F.relu

    def _sa_block(
        self, x: Tensor, attn_mask: Tensor | None, key_padding_mask: Tensor | None, is_causal: bool = False
    ) -> Tensor:
        attended, _ = self.self_attn(
            x, x, x, attn_mask=attn_mask, key_padding_mask=key_padding_mask, need_weights=False,
            is_causal=is_causal,
        )  # fmt: skip
        return self.dropout1(attended)

    def _products(self, x: Tensor) -> Tensor:
        return self.linear2(self.dropout(self.activation(self.linear1(x))))


class TransformerEncoderLayer(_Layer):
    """Self-attention and a feed-forward network.

    >>> import weft
    >>> layer = weft.nn.TransformerEncoderLayer(d_model=8, nhead=2, dim_feedforward=16)
    >>> layer(weft.zeros(5, 3, 8)).shape
    weft.Size([5, 3, 8])
    """

    _attentions = ("self_attn",)

    def forward(
        self, src: Tensor, src_mask: Tensor | None = None, src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:  # fmt: skip
        padding = _float_mask(src_key_padding_mask, "key_padding_mask", src.dtype)
        mask = _float_mask(src_mask, "attn_mask", src.dtype)
        if self.norm_first:
            src = src + self._sa_block(self.norm1(src), mask, padding, is_causal)
            return src + self._ff_block(self.norm2(src))
        src = self.norm1(src + self._sa_block(src, mask, padding, is_causal))
        return self.norm2(src + self._ff_block(src))

    def _ff_block(self, x: Tensor) -> Tensor:
        return self.dropout2(self._products(x))


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to the encoder's output, and a feed-forward network.

    >>> layer = weft.nn.TransformerDecoderLayer(d_model=8, nhead=2, dim_feedforward=16)
    >>> layer(weft.zeros(4, 3, 8), weft.zeros(5, 3, 8)).shape
    weft.Size([4, 3, 8])
    """

    multihead_attn: MultiheadAttention
    dropout3: Dropout
    norm3: LayerNorm
    _attentions = ("self_attn", "multihead_attn")

    def forward(
        self, tgt: Tensor, memory: Tensor, tgt_mask: Tensor | None = None, memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None, memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False, memory_is_causal: bool = False,
    ) -> Tensor:  # fmt: skip
        own = (tgt_mask, tgt_key_padding_mask, tgt_is_causal)
        other = (memory, memory_mask, memory_key_padding_mask, memory_is_causal)
        x = tgt
        if self.norm_first:
            x = x + self._sa_block(self.norm1(x), *own)
            x = x + self._mha_block(self.norm2(x), *other)
            return x + self._ff_block(self.norm3(x))
        x = self.norm1(x + self._sa_block(x, *own))
        x = self.norm2(x + self._mha_block(x, *other))
        return self.norm3(x + self._ff_block(x))

    def _mha_block(
        self, x: Tensor, mem: Tensor, attn_mask: Tensor | None, key_padding_mask: Tensor | None,
        is_causal: bool = False,
    ) -> Tensor:  # fmt: skip
        attended, _ = self.multihead_attn(
            x, mem, mem, attn_mask=attn_mask, key_padding_mask=key_padding_mask, is_causal=is_causal,
            need_weights=False,
        )  # fmt: skip
        return self.dropout2(attended)

    def _ff_block(self, x: Tensor) -> Tensor:
        return self.dropout3(self._products(x))


# -- stacks --------------------------------------------------------------------------------------------------
class TransformerEncoder(Module):
    """Copies of an encoder layer, one after the other, and by choice a norm.

    >>> layer = weft.nn.TransformerEncoderLayer(d_model=8, nhead=2, dim_feedforward=16)
    >>> weft.nn.TransformerEncoder(layer, num_layers=2)(weft.zeros(5, 3, 8)).shape
    weft.Size([5, 3, 8])
    """

    __call__: Callable[..., Tensor]

    def __init__(
        self, encoder_layer: Module, num_layers: int, norm: Module | None = None,
        enable_nested_tensor: bool = True, mask_check: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        self.layers = _get_clones(encoder_layer, num_layers)
        self.num_layers, self.norm, self.enable_nested_tensor = num_layers, norm, enable_nested_tensor
        self.mask_check = mask_check

    def forward(
        self, src: Tensor, mask: Tensor | None = None, src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:  # fmt: skip
        padding = _float_mask(src_key_padding_mask, "src_key_padding_mask", src.dtype)
        mask = _float_mask(mask, "mask", src.dtype)
        causal = bool(is_causal)
        out = src
        for layer in self.layers:
            out = layer(out, src_mask=mask, is_causal=causal, src_key_padding_mask=padding)
        return out if self.norm is None else self.norm(out)


class TransformerDecoder(Module):
    """Copies of a decoder layer, one after the other, and by choice a norm.

    >>> layer = weft.nn.TransformerDecoderLayer(d_model=8, nhead=2, dim_feedforward=16)
    >>> weft.nn.TransformerDecoder(layer, num_layers=2)(weft.zeros(4, 3, 8), weft.zeros(5, 3, 8)).shape
    weft.Size([4, 3, 8])
    """

    __call__: Callable[..., Tensor]

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers = _get_clones(decoder_layer, num_layers)
        self.num_layers, self.norm = num_layers, norm

    def forward(
        self, tgt: Tensor, memory: Tensor, tgt_mask: Tensor | None = None, memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None, memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None, memory_is_causal: bool = False,
    ) -> Tensor:  # fmt: skip
        out = tgt
        for layer in self.layers:
            out = layer(
                out, memory, tgt_mask=tgt_mask, memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask, memory_key_padding_mask=memory_key_padding_mask,
                tgt_is_causal=bool(tgt_is_causal), memory_is_causal=memory_is_causal,
            )  # fmt: skip
        return out if self.norm is None else self.norm(out)


class Transformer(Module):
    """An encoder and a decoder that attends to its output.

    >>> model = weft.nn.Transformer(8, 2, num_encoder_layers=1, num_decoder_layers=1, dim_feedforward=16)
    >>> model(weft.zeros(5, 3, 8), weft.zeros(4, 3, 8)).shape
    weft.Size([4, 3, 8])
    """

    __call__: Callable[..., Tensor]

    def __init__(
        self, d_model: int = 512, nhead: int = 8, num_encoder_layers: int = 6, num_decoder_layers: int = 6,
        dim_feedforward: int = 2048, dropout: float = 0.1, activation: Activation = F.relu,
        custom_encoder: Any = None, custom_decoder: Any = None, layer_norm_eps: float = 1e-5,
        batch_first: bool = False, norm_first: bool = False, bias: bool = True, device: Any = None,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        options = (
            d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first,
            bias, device, dtype,
        )  # fmt: skip

        def stack(kind: Any, layer_kind: Any, count: int) -> Any:
            layer = layer_kind(*options)
            norm = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, device=device, dtype=dtype)
            return kind(layer, count, norm)

        if custom_encoder is None:
            custom_encoder = stack(TransformerEncoder, TransformerEncoderLayer, num_encoder_layers)
        self.encoder = custom_encoder
        if custom_decoder is None:
            custom_decoder = stack(TransformerDecoder, TransformerDecoderLayer, num_decoder_layers)
        self.decoder = custom_decoder
        self._reset_parameters()
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first

    def forward(
        self, src: Tensor, tgt: Tensor, src_mask: Tensor | None = None, tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None, src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None, memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None, tgt_is_causal: bool | None = None, memory_is_causal: bool = False,
    ) -> Tensor:  # fmt: skip
        if src.dim() == 3:
            batch = 0 if self.batch_first else 1
            if src.size(batch) != tgt.size(batch):
                raise RuntimeError("the batch number of src and tgt must be equal")
        if src.size(-1) != self.d_model or tgt.size(-1) != self.d_model:
            raise RuntimeError("the feature number of src and tgt must be equal to d_model")
        memory = self.encoder(
            src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal
        )
        return self.decoder(
            tgt, memory, tgt_mask=tgt_mask, memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask, memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=tgt_is_causal, memory_is_causal=memory_is_causal,
        )  # fmt: skip

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Tensor:
        """The causal mask: -inf where a position would see one after it, 0 elsewhere."""
        return _generate_square_subsequent_mask(sz, device, dtype)

    def _reset_parameters(self) -> None:
        for parameter in self.parameters():
            if parameter.dim() > 1:
                init.xavier_uniform_(parameter)
