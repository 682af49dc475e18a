from __future__ import annotations

import numpy as np
import pytest

import weft
from weft import nn


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def lstm(x, state, w_ih, w_hh, b_ih=0, b_hh=0, w_hr=None):
    h, c = state
    i, f, g, o = np.split(x @ w_ih.T + b_ih + h @ w_hh.T + b_hh, 4, -1)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    h = sigmoid(o) * np.tanh(c)
    return (h if w_hr is None else h @ w_hr.T), c


def gru(x, state, w_ih, w_hh, b_ih=0, b_hh=0):
    (h,) = state
    r_x, z_x, n_x = np.split(x @ w_ih.T + b_ih, 3, -1)
    r_h, z_h, n_h = np.split(h @ w_hh.T + b_hh, 3, -1)
    r, z = sigmoid(r_x + r_h), sigmoid(z_x + z_h)
    return ((1 - z) * np.tanh(n_x + r * n_h) + z * h,)


def plain(x, state, w_ih, w_hh, b_ih=0, b_hh=0):
    return (np.tanh(x @ w_ih.T + b_ih + state[0] @ w_hh.T + b_hh),)


def rectified(x, state, w_ih, w_hh, b_ih=0, b_hh=0):
    return (np.maximum(x @ w_ih.T + b_ih + state[0] @ w_hh.T + b_hh, 0),)


STEPS = {"LSTM": lstm, "GRU": gru, "RNN_TANH": plain, "RNN_RELU": rectified}


def unrolled(layer, x, states):
    """All layers over (length, batch, features); states per layer and direction."""
    step, values = STEPS[layer.mode], layer.state_dict()
    ends = []
    for level in range(layer.num_layers):
        outs = []
        for suffix in ("", "_reverse") if layer.bidirectional else ("",):
            kinds = ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr")
            names = {kind: f"{kind}_l{level}{suffix}" for kind in kinds}
            short = {kind: kind.replace("weight", "w").replace("bias", "b") for kind in kinds}
            weights = {short[k]: values[n].numpy() for k, n in names.items() if n in values}
            state = tuple(part[len(ends)] for part in states)
            hidden = []
            for entering in x[::-1] if suffix else x:
                state = step(entering, state, **weights)
                hidden.append(state[0])
            outs.append(np.stack(hidden[::-1] if suffix else hidden))
            ends.append(state)
        x = np.concatenate(outs, -1)
    return x, tuple(np.stack(parts) for parts in zip(*ends, strict=True))


KINDS = {"LSTM": 2, "GRU": 1, "RNN": 1}
OPTIONS = [
    {}, {"bias": False}, {"num_layers": 2}, {"bidirectional": True}, {"num_layers": 2, "bidirectional": True},
]  # fmt: skip


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("name", KINDS)
def test_unrolled_by_hand(agrees, draw, name, options):
    layer = getattr(nn, name)(3, 2, **options)
    count = layer.num_layers * (1 + layer.bidirectional)
    given = [draw(count, 2, 2) for _ in range(KINDS[name])]
    formula = lambda x, *_: unrolled(layer, x, given)
    state = tuple(map(weft.from_numpy, given)) if name == "LSTM" else weft.from_numpy(given[0])
    agrees(layer, formula, draw(4, 2, 3), state, fast=True)


@pytest.mark.parametrize("name", KINDS)
def test_zeros_come_before_the_start(agrees, draw, name):
    layer = getattr(nn, name)(3, 2)
    zeros = [np.zeros((1, 2, 2))] * KINDS[name]
    agrees(layer, lambda x: unrolled(layer, x, zeros), draw(4, 2, 3), fast=True)


def test_relu_in_place_of_tanh(agrees, draw):
    layer = nn.RNN(3, 2, nonlinearity="relu")
    agrees(layer, lambda x: unrolled(layer, x, [np.zeros((1, 2, 2))]), draw(4, 2, 3))


@pytest.mark.parametrize("options", [{}, {"num_layers": 2, "bidirectional": True}], ids=str)
def test_projected_hidden_state(agrees, draw, options):
    layer = nn.LSTM(3, 4, proj_size=2, **options)
    count = layer.num_layers * (1 + layer.bidirectional)
    given = draw(count, 2, 2), draw(count, 2, 4)
    agrees(
        layer,
        lambda x, _: unrolled(layer, x, given),
        draw(3, 2, 3),
        tuple(map(weft.from_numpy, given)),
        fast=True,
    )


@pytest.mark.parametrize("name", KINDS)
def test_batch_first_and_no_batch(draw, name):
    layer = getattr(nn, name)(3, 2, 2, bidirectional=True).double()
    x = draw(4, 5, 3)
    expected, states = layer(weft.from_numpy(x))
    layer.batch_first = True
    out, same = layer(weft.from_numpy(x.swapaxes(0, 1).copy()))
    np.testing.assert_allclose(out.detach().numpy().swapaxes(0, 1), expected.detach().numpy(), rtol=1e-12)
    pair = (lambda s: s) if name == "LSTM" else lambda s: (s,)
    for a, b in zip(pair(same), pair(states), strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-12)
    for layer.batch_first in (False, True):
        out, same = layer(weft.from_numpy(x[:, 1].copy()))
        np.testing.assert_allclose(out.detach().numpy(), expected[:, 1].detach().numpy(), rtol=1e-12)
        for a, b in zip(pair(same), pair(states), strict=True):
            np.testing.assert_allclose(a.detach().numpy(), b[:, 1].detach().numpy(), rtol=1e-12)


def test_dropout_lies_between_layers_while_training(draw):
    x = weft.from_numpy(draw(4, 2, 3)).float()
    layer = nn.LSTM(3, 8, 2, dropout=0.5)
    assert not np.allclose(layer(x)[0].detach().numpy(), layer(x)[0].detach().numpy())
    first = [layer(x)[1][0][0].detach().numpy() for _ in range(2)]
    np.testing.assert_array_equal(*first)  # the first layer sees none of it
    layer.eval()
    np.testing.assert_array_equal(layer(x)[0].detach().numpy(), layer(x)[0].detach().numpy())
    layer.train().dropout = 1.0
    bias = layer(x)[1][0][1].detach().numpy()
    np.testing.assert_allclose(bias[0], bias[1])  # nothing of the input is left


def test_names_and_order():
    layer = nn.LSTM(3, 4, 2, bidirectional=True, proj_size=2)
    kinds = ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr")
    names = [f"{kind}_l{level}{end}" for level in range(2) for end in ("", "_reverse") for kind in kinds]
    assert list(layer.state_dict()) == names == layer._flat_weights_names
    shapes = [tuple(weight.shape) for weight in layer.all_weights[2]]
    assert shapes == [(16, 4), (16, 2), (16,), (16,), (2, 4)]
    assert [id(w) for w in layer._flat_weights] == [id(w) for w in layer.parameters()]


def test_weights_start_uniform_within_the_root_of_the_hidden_size():
    for weight in nn.GRU(5, 100).parameters():
        drawn = weight.detach().numpy()
        assert np.abs(drawn).max() <= 0.1
        np.testing.assert_allclose(drawn.std(), 0.1 / np.sqrt(3), rtol=0.15)


# -- cells ---------------------------------------------------------------------------------------------------
CELLS = {"LSTMCell": lstm, "GRUCell": gru, "RNNCell": plain}


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(2,), ()], ids=["batch", "one"])
@pytest.mark.parametrize("name", CELLS)
def test_one_step(agrees, draw, values, name, shape, bias):
    layer = getattr(nn, name)(3, 4, bias=bias)
    given = [draw(*shape, 4) for _ in range(1 + (name == "LSTMCell"))]
    renamed = lambda: {k.replace("weight", "w").replace("bias", "b"): v for k, v in values(layer).items()}
    state = tuple(map(weft.from_numpy, given)) if name == "LSTMCell" else weft.from_numpy(given[0])
    agrees(layer, lambda x, _: CELLS[name](x, given, **renamed()), draw(*shape, 3), state)
    zeros = [np.zeros((*shape, 4))] * len(given)
    agrees(layer, lambda x: CELLS[name](x, zeros, **renamed()), draw(*shape, 3))


def test_cell_steps_are_a_layer(draw):
    cell, layer = nn.LSTMCell(3, 4).double(), nn.LSTM(3, 4).double()
    layer.load_state_dict({f"{name}_l0": value for name, value in cell.state_dict().items()})
    x = weft.from_numpy(draw(5, 2, 3))
    state = None
    for entering in x:
        state = cell(entering, state)
    for ours, wanted in zip(state, layer(x)[1], strict=True):
        np.testing.assert_allclose(ours.detach().numpy(), wanted[0].detach().numpy(), rtol=1e-12)


# -- errors --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: nn.LSTM(0, 3), ValueError, "input_size must be greater than zero"),
        (lambda: nn.LSTM(3, 0), ValueError, "hidden_size must be greater than zero"),
        (lambda: nn.LSTM(3, 4, 0), ValueError, "num_layers must be greater than zero"),
        (lambda: nn.LSTM(3.0, 4), TypeError, "input_size should be of type int, got: float"),
        (lambda: nn.LSTM(3, 4, bias=1), TypeError, "bias should be of type bool, got: int"),
        (lambda: nn.LSTM(3, 4, dropout=True), ValueError, r"dropout should be a number in range \[0, 1\]"),
        (lambda: nn.LSTM(3, 4, proj_size=-1), ValueError, "proj_size should be a positive integer or zero"),
        (lambda: nn.LSTM(3, 4, proj_size=4), ValueError, "proj_size has to be smaller than hidden_size"),
        (lambda: nn.GRU(3, 4, proj_size=1), ValueError, "proj_size argument is only supported for LSTM"),
        (lambda: nn.RNN(3, 4, nonlinearity="x"), ValueError, "Unknown nonlinearity 'x'. Select from"),
        (lambda: nn.RNNBase("X", 3, 4), ValueError, "Unrecognized RNN mode: X"),
    ],
)
def test_options_are_checked(make, error, text):
    with pytest.raises(error, match=text):
        make()


@pytest.mark.parametrize(
    ("shape", "state", "error", "text"),
    [
        ((3,), None, ValueError, "LSTM: Expected input to be 2D or 3D, got 1D instead"),
        ((5, 2, 4), None, RuntimeError, r"input.size\(-1\) must be equal to input_size. Expected 3, got 4"),
        ((0, 2, 3), None, RuntimeError, "Expected sequence length to be larger than 0 in RNN"),
        ((5, 2, 3), (1, 4), RuntimeError, r"For batched 3-D input, .* 3-D but got \(2-D, 2-D\) tensors"),
        ((5, 3), (1, 1, 4), RuntimeError, "For unbatched 2-D input, hx and cx should also be 2-D"),
        ((5, 2, 3), (1, 3, 4), RuntimeError, r"Expected hidden\[0\] size \(1, 2, 4\), got \[1, 3, 4\]"),
    ],
)
def test_inputs_are_checked(shape, state, error, text):
    with pytest.raises(error, match=text):
        nn.LSTM(3, 4)(weft.ones(*shape), state and (weft.ones(*state), weft.ones(*state)))


def test_dtypes_must_match():
    with pytest.raises(ValueError, match=r"dtype \(.*float64\) does not match weight dtype \(.*float32\)"):
        nn.GRU(3, 4)(weft.ones(5, 2, 3, dtype=weft.float64))


def test_cells_check_their_inputs():
    with pytest.raises(ValueError, match="GRUCell: Expected input to be 1D or 2D, got 3D instead"):
        nn.GRUCell(3, 4)(weft.ones(1, 2, 3))
    with pytest.raises(RuntimeError, match="input has inconsistent input_size: got 5 expected 3"):
        nn.RNNCell(3, 4)(weft.ones(2, 5))
    with pytest.raises(RuntimeError, match="hidden1 has inconsistent hidden_size: got 5, expected 4"):
        nn.LSTMCell(3, 4)(weft.ones(2, 3), (weft.ones(2, 4), weft.ones(2, 5)))
    with pytest.raises(RuntimeError, match="Unknown nonlinearity: x"):
        nn.RNNCell(3, 4, nonlinearity="x")(weft.ones(2, 3))


def test_dropout_needs_layers_to_lie_between():
    with pytest.warns(UserWarning, match="non-zero dropout expects num_layers greater than 1") as caught:
        nn.LSTM(3, 4, dropout=0.5)
    assert caught[0].filename == __file__


def test_printed():
    layer = nn.LSTM(3, 4, 2, False, True, 0.5, True, 2)
    assert repr(layer) == (
        "LSTM(3, 4, proj_size=2, num_layers=2, bias=False, batch_first=True, dropout=0.5, bidirectional=True)"
    )
    assert repr(nn.RNNCell(3, 4, False, "relu")) == "RNNCell(3, 4, bias=False, nonlinearity=relu)"


# -- autocast ------------------------------------------------------------------------------------------------
def dtypes_under_autocast(layer, x, lower):
    with weft.autocast("cpu", dtype=lower):
        out, state = layer(x)
    state = state if isinstance(state, tuple) else (state,)
    return [part.dtype for part in (out, *state)], out


def test_lstm_is_lowered_as_a_whole_by_autocast():
    low, full = weft.bfloat16, weft.float32
    x = weft.randn(5, 2, 3)
    for layer in (nn.LSTM(3, 4), nn.LSTM(3, 4, num_layers=2, bidirectional=True)):
        kinds, out = dtypes_under_autocast(layer, x, low)
        assert kinds == [low] * 3
        np.testing.assert_allclose(out.detach().float().numpy(), layer(x)[0].detach().numpy(), atol=0.03)
        out.float().sum().backward()
        assert all(p.grad is not None and p.grad.dtype is full for p in layer.parameters())
    assert dtypes_under_autocast(nn.LSTM(3, 4, proj_size=2), x, low)[0] == [low, low, full]
    assert dtypes_under_autocast(nn.LSTM(3, 4).double(), x.double(), low)[0] == [weft.float64] * 3
    assert dtypes_under_autocast(nn.GRU(3, 4), x, low)[0] == [full] * 2
