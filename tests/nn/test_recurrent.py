"""Recurrent networks as functions beside modules of these weights, eager and compiled, and beside torch."""

from __future__ import annotations

import pytest

import weft

KINDS = {
    "lstm": ("LSTM", {}, 2), "gru": ("GRU", {}, 1), "rnn_tanh": ("RNN", {}, 1),
    "rnn_relu": ("RNN", {"nonlinearity": "relu"}, 1),
}  # fmt: skip
SHAPES = [
    {"num_layers": 1, "bidirectional": False, "batch_first": False, "bias": True},
    {"num_layers": 2, "bidirectional": True, "batch_first": True, "bias": False},
    {"num_layers": 2, "bidirectional": False, "batch_first": False, "bias": True, "proj_size": 2},
]


def problem(name, shape):
    kind, options, states = KINDS[name]
    weft.manual_seed(0)
    module = getattr(weft.nn, kind)(3, 4, **options, **shape)
    layers = shape["num_layers"] * (1 + shape["bidirectional"])
    hx = tuple(weft.randn(layers, 5, width) for width in (shape.get("proj_size") or 4, 4)[:states])
    return module, weft.randn(5, 5, 3), hx if states == 2 else hx[0]


def settings(shape):
    return shape["bias"], shape["num_layers"], 0.0, False, shape["bidirectional"]


def flat(found):
    return [x for each in found for x in (each if isinstance(each, tuple) else (each,))]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", KINDS)
def test_functions_give_what_modules_give(name, shape):
    if "proj_size" in shape and name != "lstm":
        shape = {key: value for key, value in shape.items() if key != "proj_size"}
    module, x, hx = problem(name, shape)
    run = lambda x, hx, weights: getattr(weft, name)(x, hx, weights, *settings(shape), shape["batch_first"])
    ours = run(x, hx, module._flat_weights)
    for a, b in zip(flat(module(x, hx)), ours, strict=True):
        assert weft.equal(a, b)
    for a, b in zip(
        weft.compile(run, backend="aot_eager", fullgraph=True)(x, hx, module._flat_weights), ours
    ):
        assert weft.allclose(a, b, atol=1e-6)
    loss = sum(each.sum() for each in ours)
    found = weft.autograd.grad(loss, module._flat_weights)
    wanted = weft.autograd.grad(sum(each.sum() for each in flat(module(x, hx))), module._flat_weights)
    assert all(weft.equal(a, b) for a, b in zip(found, wanted))


@pytest.mark.parametrize("name", KINDS)
def test_packed_sequences(name):
    module, x, hx = problem(name, SHAPES[0])
    packed = weft.nn.utils.rnn.pack_padded_sequence(x, weft.tensor([5, 4, 2, 2, 1]))
    out, last = module(packed, hx)
    ours = getattr(weft, name)(
        packed.data, packed.batch_sizes, hx, module._flat_weights, *settings(SHAPES[0])
    )
    assert weft.equal(out.data, ours[0])
    for a, b in zip(flat((last,)), ours[1:], strict=True):
        assert weft.equal(a, b)


@pytest.mark.parametrize("name", KINDS)
def test_cells(name):
    kind, options, states = KINDS[name]
    module = getattr(weft.nn, f"{kind}Cell")(3, 4, **options)
    x, hx = weft.randn(2, 3), tuple(weft.randn(2, 4) for _ in range(states))
    hx = hx if states == 2 else hx[0]
    ours = getattr(weft, f"{name}_cell")(
        x, hx, module.weight_ih, module.weight_hh, module.bias_ih, module.bias_hh
    )
    for a, b in zip(flat((module(x, hx),)), flat((ours,)), strict=True):
        assert weft.equal(a, b)


def test_wrong_calls_are_refused():
    module, x, hx = problem("gru", SHAPES[0])
    with pytest.raises(RuntimeError, match="expected 4 weights for 1 layers and directions, got 3"):
        weft.gru(x, hx, module._flat_weights[:3], *settings(SHAPES[0]), False)
    with pytest.raises(TypeError, match=r"gru\(\) takes input, hx, params"):
        weft.gru(x, hx)


@pytest.mark.torch
@pytest.mark.parametrize("name", KINDS)
def test_as_torch(name):
    import torch

    module, x, hx = problem(name, SHAPES[1])
    own = lambda value: torch.tensor(value.tolist())
    theirs = getattr(torch, name)(
        own(x), own(hx) if isinstance(hx, weft.Tensor) else tuple(map(own, hx)),
        list(map(own, module._flat_weights)),
        *settings(SHAPES[1]), True,
    )  # fmt: skip
    ours = getattr(weft, name)(x, hx, module._flat_weights, *settings(SHAPES[1]), True)
    for a, b in zip(ours, theirs, strict=True):
        assert weft.allclose(a, weft.tensor(b.tolist()), atol=1e-5)
