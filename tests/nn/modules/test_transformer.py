from __future__ import annotations

import copy

import numpy as np
import pytest

import weft
from weft import nn


def norm(x, w, b, eps=1e-5):
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + eps) * w + b


def attention(q, k, v, heads, weights, prefix, mask=0.0):
    """Over (L, N, E), by one einsum per step."""
    w, b = weights[f"{prefix}.in_proj_weight"], weights[f"{prefix}.in_proj_bias"]
    width = q.shape[-1]
    parts = [
        x @ w[i * width : (i + 1) * width].T + b[i * width : (i + 1) * width] for i, x in enumerate((q, k, v))
    ]
    q, k, v = (x.reshape(*x.shape[:2], heads, -1) for x in parts)
    scores = np.einsum("inhe,jnhe->nhij", q, k) / np.sqrt(q.shape[-1]) + mask
    p = np.exp(scores - scores.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    out = np.einsum("nhij,jnhe->inhe", p, v).reshape(q.shape[0], q.shape[1], width)
    return out @ weights[f"{prefix}.out_proj.weight"].T + weights[f"{prefix}.out_proj.bias"]


def products(x, weights):
    inner = np.maximum(x @ weights["linear1.weight"].T + weights["linear1.bias"], 0)
    return inner @ weights["linear2.weight"].T + weights["linear2.bias"]


@pytest.mark.parametrize("first", [False, True])
def test_encoder_layer(agrees, draw, values, first):
    layer = nn.TransformerEncoderLayer(4, 2, 5, 0.0, norm_first=first)
    mask = np.triu(np.full((3, 3), -np.inf), 1)

    def formula(x):
        w = values(layer)
        norms = [lambda x, i=i: norm(x, w[f"norm{i}.weight"], w[f"norm{i}.bias"]) for i in (1, 2)]
        attend = lambda x: attention(x, x, x, 2, w, "self_attn", mask)
        if first:
            x = x + attend(norms[0](x))
            return x + products(norms[1](x), w)
        x = norms[0](x + attend(x))
        return norms[1](x + products(x, w))

    agrees(layer, formula, draw(3, 2, 4), src_mask=weft.from_numpy(mask), fast=True)


def test_decoder_layer(agrees, draw, values):
    layer = nn.TransformerDecoderLayer(4, 2, 5, 0.0)

    def formula(x, memory):
        w = values(layer)
        norms = [lambda x, i=i: norm(x, w[f"norm{i}.weight"], w[f"norm{i}.bias"]) for i in (1, 2, 3)]
        x = norms[0](x + attention(x, x, x, 2, w, "self_attn"))
        x = norms[1](x + attention(x, memory, memory, 2, w, "multihead_attn"))
        return norms[2](x + products(x, w))

    agrees(layer, formula, draw(3, 2, 4), draw(5, 2, 4), fast=True)


def test_stacks_are_copies_one_after_the_other(draw):
    layer = nn.TransformerEncoderLayer(4, 2, 5, 0.0)
    stack = nn.TransformerEncoder(layer, 2, nn.LayerNorm(4))
    x = weft.from_numpy(draw(3, 2, 4)).float()
    assert weft.allclose(stack(x), nn.LayerNorm(4)(layer(layer(x))), atol=1e-6)
    assert stack.layers[0].linear1.weight is not layer.linear1.weight
    decoder = nn.TransformerDecoderLayer(4, 2, 5, 0.0)
    both = nn.TransformerDecoder(decoder, 2)
    assert weft.allclose(both(x, x), decoder(decoder(x, x), x), atol=1e-6)


def test_causal_mask_hides_what_comes_later(draw):
    model = nn.Transformer(4, 2, 1, 1, 5, 0.0, batch_first=True).eval()
    mask = nn.Transformer.generate_square_subsequent_mask(3)
    assert mask.tolist() == [[0, -np.inf, -np.inf], [0, 0, -np.inf], [0, 0, 0]]
    source, target = (weft.from_numpy(draw(2, 3, 4)).float() for _ in range(2))
    out = model(source, target, tgt_mask=mask, tgt_is_causal=True)
    other = target.clone()
    other[:, 2] += 1
    again = model(source, other, tgt_mask=mask)
    assert weft.allclose(out[:, :2], again[:, :2], atol=1e-6) and not weft.allclose(out[:, 2], again[:, 2])


def test_padding_is_not_attended_to(draw):
    layer = nn.TransformerEncoderLayer(4, 2, 5, 0.0, batch_first=True)
    x = weft.from_numpy(draw(1, 3, 4)).float()
    hidden = weft.tensor([[False, False, True]])
    assert weft.allclose(layer(x, src_key_padding_mask=hidden)[:, :2], layer(x[:, :2]), atol=1e-6)


def test_round_trip_and_refusals():
    model = nn.Transformer(4, 2, 1, 1, 5)
    other = nn.Transformer(4, 2, 1, 1, 5)
    other.load_state_dict(copy.deepcopy(model.state_dict()))
    x = weft.ones(3, 2, 4)
    assert weft.equal(model.eval()(x, x), other.eval()(x, x))
    with pytest.raises(RuntimeError, match="the batch number of src and tgt must be equal"):
        model(weft.ones(3, 1, 4), x)
    with pytest.raises(RuntimeError, match="the feature number of src and tgt must be equal to d_model"):
        model(weft.ones(3, 2, 5), x)
    with pytest.raises(RuntimeError, match="activation should be relu/gelu, not swish"):
        nn.TransformerEncoderLayer(4, 2, activation="swish")
    with pytest.raises(AssertionError, match="only bool and floating types of mask are supported"):
        nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2), 1)(x, weft.ones(3, 3, dtype=weft.int64))
