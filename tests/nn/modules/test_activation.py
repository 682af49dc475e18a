from __future__ import annotations

import numpy as np
import pytest
from scipy.special import erf

import weft
from weft import nn


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x, axis):
    grown = np.exp(x - x.max(axis, keepdims=True))
    return grown / grown.sum(axis, keepdims=True)


def halves(x):
    return np.split(x, 2, -1)


SCALE, ALPHA = 1.0507009873554804934193349852946, 1.6732632423543772848170429916717
FORMULAS = [
    (nn.ReLU(), lambda x: np.maximum(x, 0)),
    (nn.ReLU6(), lambda x: np.clip(x, 0, 6)),
    (nn.SiLU(), lambda x: x * sigmoid(x)),
    (nn.Mish(), lambda x: x * np.tanh(np.log1p(np.exp(x)))),
    (nn.SELU(), lambda x: SCALE * np.where(x > 0, x, ALPHA * np.expm1(x))),
    (nn.ELU(1.5), lambda x: np.where(x > 0, x, 1.5 * np.expm1(x))),
    (nn.CELU(1.5), lambda x: np.where(x > 0, x, 1.5 * np.expm1(x / 1.5))),
    (nn.LeakyReLU(0.2), lambda x: np.where(x > 0, x, 0.2 * x)),
    (nn.Hardsigmoid(), lambda x: np.clip(x / 6 + 0.5, 0, 1)),
    (nn.Hardswish(), lambda x: x * np.clip(x / 6 + 0.5, 0, 1)),
    (nn.Hardtanh(-0.4, 2.0), lambda x: np.clip(x, -0.4, 2)),
    (nn.Threshold(0.3, -2.0), lambda x: np.where(x > 0.3, x, -2)),
    (nn.Sigmoid(), sigmoid),
    (nn.LogSigmoid(), lambda x: np.log(sigmoid(x))),
    (nn.Tanh(), np.tanh),
    (nn.Tanhshrink(), lambda x: x - np.tanh(x)),
    (nn.Softsign(), lambda x: x / (1 + np.abs(x))),
    (nn.GELU(), lambda x: x * (1 + erf(x / np.sqrt(2))) / 2),
    (nn.GELU("tanh"), lambda x: x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))),
    (nn.Softplus(2.0, 5.0), lambda x: np.where(2 * x > 5, x, np.log1p(np.exp(2 * x)) / 2)),
    (nn.Hardshrink(0.4), lambda x: np.where(np.abs(x) > 0.4, x, 0)),
    (nn.Softshrink(0.4), lambda x: np.sign(x) * np.maximum(np.abs(x) - 0.4, 0)),
    (nn.GLU(), lambda x: halves(x)[0] * sigmoid(halves(x)[1])),
    (nn.Softmax(0), lambda x: softmax(x, 0)),
    (nn.LogSoftmax(1), lambda x: np.log(softmax(x, 1))),
    (nn.Softmin(1), lambda x: softmax(-x, 1)),
]


@pytest.mark.parametrize(("layer", "formula"), FORMULAS, ids=lambda value: getattr(value, "_get_name", str)())
def test_formula(agrees, draw, layer, formula):
    agrees(layer, formula, 2.5 * draw(5, 6))


def test_softmax_over_channels(agrees, draw):
    agrees(nn.Softmax2d(), lambda x: softmax(x, 1), draw(2, 3, 2, 2))
    agrees(nn.Softmax2d(), lambda x: softmax(x, 0), draw(3, 2, 2))
    with pytest.raises(ValueError, match="Softmax2d: expected input to be 3D or 4D, got 2D instead"):
        nn.Softmax2d()(weft.ones(2, 3))


def test_learnt_slopes(agrees, draw):
    layer = nn.PReLU(3, init=0.1)
    assert layer.weight.shape == (3,) and (layer.weight == 0.1).all()

    def formula(x):
        return np.where(x > 0, x, layer.weight.detach().numpy().reshape(-1, 1) * x)

    agrees(layer, formula, draw(2, 3, 4))


@pytest.mark.parametrize(
    "layer",
    [
        nn.ReLU(True), nn.SiLU(True), nn.Mish(True), nn.SELU(True), nn.Hardsigmoid(True), nn.Hardswish(True),
        nn.ReLU6(True), nn.ELU(inplace=True), nn.CELU(inplace=True), nn.LeakyReLU(inplace=True),
        nn.Hardtanh(inplace=True), nn.Threshold(0.0, 1.0, True),
    ],
    ids=repr,
)  # fmt: skip
def test_in_place_writes_to_the_input(draw, layer):
    array = draw(4, 3)
    x = weft.from_numpy(array.copy())
    fresh = weft.from_numpy(array.copy())
    out = layer(x)
    assert out is x
    layer.inplace = False
    np.testing.assert_array_equal(x.numpy(), layer(fresh).numpy())
    np.testing.assert_array_equal(fresh.numpy(), array)


def test_printed():
    assert repr(nn.ReLU(inplace=True)) == "ReLU(inplace=True)"
    assert repr(nn.ELU(2.0, inplace=True)) == "ELU(alpha=2.0, inplace=True)"
    assert repr(nn.Hardtanh()) == "Hardtanh(min_val=-1.0, max_val=1.0)"
    assert repr(nn.GELU()) == "GELU(approximate='none')"
    assert repr(nn.Softmax(dim=1)) == "Softmax(dim=1)"
    assert repr(nn.PReLU()) == "PReLU(num_parameters=1)"


def test_hardtanh_keeps_its_bounds_in_order():
    with pytest.raises(AssertionError, match=r"max_val \(0\) must be greater than min_val \(1\)"):
        nn.Hardtanh(1, 0)
    with pytest.warns(FutureWarning, match="`min_value` is deprecated and renamed to `min_val`"):
        assert nn.Hardtanh(min_value=-3.0).min_val == -3


# -- attention -----------------------------------------------------------------------------------------------
def attend(v, heads, query, key, value, mask=None, zero=False):
    """Attention with several heads over (length, batch, width), by the definition. `v` are the layer's
    arrays."""
    width = query.shape[-1]
    packed = v.get("in_proj_weight")
    weights = np.split(packed, 3) if packed is not None else [v[f"{name}_proj_weight"] for name in "qkv"]
    biases = np.split(v["in_proj_bias"], 3) if "in_proj_bias" in v else [0, 0, 0]
    q, k, x = (a @ w.T + b for a, w, b in zip((query, key, value), weights, biases, strict=True))
    if "bias_k" in v:
        k, x = (
            np.concatenate([a, np.tile(v[n], (1, a.shape[1], 1))]) for a, n in ((k, "bias_k"), (x, "bias_v"))
        )
    if zero:
        k, x = (np.concatenate([a, np.zeros_like(a[:1])]) for a in (k, x))
    q, k, x = (a.reshape(*a.shape[:2], heads, width // heads) for a in (q, k, x))
    scores = np.einsum("lbhd,sbhd->bhls", q, k) / np.sqrt(width // heads)
    if mask is not None:
        extra = scores.shape[-1] - mask.shape[-1]
        scores = np.where(np.pad(mask, [(0, 0)] * (mask.ndim - 1) + [(0, extra)]), -np.inf, scores)
    weights = softmax(scores, -1)
    mixed = np.einsum("bhls,sbhd->lbhd", weights, x).reshape(query.shape)
    return mixed @ v["out_proj.weight"].T + v.get("out_proj.bias", 0), weights


CAUSAL = np.triu(np.ones((4, 4), bool), 1)
PADDED = np.array([[False, False, False, True], [False, True, False, False]])


def test_attention_to_itself(agrees, draw, values):
    layer = nn.MultiheadAttention(6, 3)

    def formula(q, k, v):
        out, weights = attend(values(layer), 3, q, k, v)
        return out, weights.mean(1)

    x = draw(4, 2, 6)
    agrees(layer, formula, x, x, x, slopes=False)
    agrees(layer, formula, draw(4, 2, 6), draw(5, 2, 6), draw(5, 2, 6))


def test_weights_per_head(agrees, draw, values):
    layer = nn.MultiheadAttention(6, 3, bias=False)
    assert list(layer.state_dict()) == ["in_proj_weight", "out_proj.weight"]
    formula = lambda *x: attend(values(layer), 3, *x)
    agrees(layer, formula, *(draw(4, 2, 6) for _ in range(3)), average_attn_weights=False, slopes=False)


def test_no_weights(draw):
    x = weft.from_numpy(draw(4, 2, 6)).float()
    layer = nn.MultiheadAttention(6, 3)
    out, weights = layer(x, x, x, need_weights=False)
    assert weights is None
    np.testing.assert_allclose(out.detach().numpy(), layer(x, x, x)[0].detach().numpy(), rtol=1e-4, atol=1e-6)


def test_separate_widths(agrees, draw, values):
    layer = nn.MultiheadAttention(6, 2, kdim=3, vdim=5)
    names = [f"{letter}_proj_weight" for letter in "qkv"]
    assert list(layer.state_dict()) == [*names, "in_proj_bias", "out_proj.weight", "out_proj.bias"]

    def formula(q, k, v):
        out, weights = attend(values(layer), 2, q, k, v)
        return out, weights.mean(1)

    agrees(layer, formula, draw(4, 2, 6), draw(3, 2, 3), draw(3, 2, 5))


def test_extra_keys(agrees, draw, values):
    layer = nn.MultiheadAttention(6, 2, add_bias_kv=True, add_zero_attn=True)
    assert layer.bias_k.shape == (1, 1, 6)

    def formula(q, k, v):
        out, weights = attend(values(layer), 2, q, k, v, PADDED[:, None, None], zero=True)
        return out, weights.mean(1)

    x = [draw(4, 2, 6) for _ in range(3)]
    agrees(layer, formula, *x, key_padding_mask=weft.from_numpy(PADDED))


def test_masks(agrees, draw, values):
    layer = nn.MultiheadAttention(6, 2)
    x = [draw(4, 2, 6) for _ in range(3)]

    def formula(mask):
        def checked(q, k, v):
            out, weights = attend(values(layer), 2, q, k, v, mask)
            return out, weights.mean(1)

        return checked

    causal, padded = weft.from_numpy(CAUSAL), weft.from_numpy(PADDED)
    agrees(layer, formula(CAUSAL), *x, attn_mask=causal, slopes=False)
    both = PADDED[:, None, None] | CAUSAL
    agrees(layer, formula(both), *x, attn_mask=causal, key_padding_mask=padded, slopes=False)
    only = lambda *x: [formula(CAUSAL)(*x)[0]]
    found = layer(*map(weft.from_numpy, x), attn_mask=causal, is_causal=True, need_weights=False)[0]
    np.testing.assert_allclose(found.detach().numpy(), only(*x)[0], rtol=1e-10)


def test_batch_first_and_no_batch(draw):
    layer = nn.MultiheadAttention(6, 2).double()
    x = weft.from_numpy(draw(4, 2, 6))
    expected, weights = layer(x, x, x)
    layer.batch_first = True
    swapped = x.transpose(0, 1)
    out, same = layer(swapped, swapped, swapped)
    np.testing.assert_allclose(out.transpose(0, 1).detach().numpy(), expected.detach().numpy(), rtol=1e-10)
    np.testing.assert_allclose(same.detach().numpy(), weights.detach().numpy(), rtol=1e-10)
    one = x[:, 0]
    out, same = layer(one, one, one)
    np.testing.assert_allclose(out.detach().numpy(), expected[:, 0].detach().numpy(), rtol=1e-10)
    assert same.shape == (4, 4)


def test_dropout_only_while_training(draw):
    layer = nn.MultiheadAttention(6, 2, dropout=0.5)
    x = weft.from_numpy(draw(4, 2, 6)).float()
    runs = [layer(x, x, x)[0].detach().numpy() for _ in range(2)]
    assert not np.allclose(*runs)
    layer.eval()
    runs = [layer(x, x, x)[0].detach().numpy() for _ in range(2)]
    np.testing.assert_array_equal(*runs)


def test_attention_starts_without_bias_and_by_xavier():
    layer = nn.MultiheadAttention(64, 4)
    assert (layer.in_proj_bias == 0).all() and (layer.out_proj.bias == 0).all()
    bound = np.sqrt(6 / (64 + 192))
    drawn = layer.in_proj_weight.detach().numpy()
    assert 0.95 * bound < np.abs(drawn).max() <= bound


def test_attention_checks_its_widths():
    with pytest.raises(ValueError, match="must be greater than 0, got embed_dim=0 and num_heads=1 instead"):
        nn.MultiheadAttention(0, 1)
    with pytest.raises(AssertionError, match="embed_dim must be divisible by num_heads"):
        nn.MultiheadAttention(5, 2)
    with pytest.raises(AssertionError, match="was expecting embedding dimension of 4, but got 5"):
        nn.MultiheadAttention(4, 2)(*[weft.ones(2, 3, 5)] * 3)


def test_attention_prints_its_projection():
    assert repr(nn.MultiheadAttention(4, 2)) == (
        "MultiheadAttention(\n"
        "  (out_proj): NonDynamicallyQuantizableLinear(in_features=4, out_features=4, bias=True)\n)"
    )
