"""Packed and padded sequences: round trips, order, gradients, beside torch, and captured."""

from __future__ import annotations

import copy
import pickle
from itertools import product

import numpy as np
import pytest

import weft
from weft import nn
from weft.nn.utils.rnn import (
    PackedSequence,
    invert_permutation,
    pack_padded_sequence,
    pack_sequence,
    pad_packed_sequence,
    pad_sequence,
    unpack_sequence,
    unpad_sequence,
)


def sequences(lengths=(2, 4, 1, 4), width=3):
    rng = np.random.default_rng(3)
    return [weft.tensor(rng.standard_normal((length, width))) for length in lengths]


def test_steps_lie_together():
    packed = pack_sequence([weft.tensor(list(b"abc")), weft.tensor(list(b"de"))])
    assert bytes(packed.data.tolist()) == b"adbec"
    assert packed.batch_sizes.tolist() == [2, 2, 1] and packed.batch_sizes.dtype is weft.int64
    assert packed.sorted_indices is None and packed.unsorted_indices is None


def test_there_and_back():
    given = sequences()
    packed = pack_sequence(given, enforce_sorted=False)
    assert packed.sorted_indices.tolist() == [1, 3, 0, 2] and packed.unsorted_indices.tolist() == [2, 0, 3, 1]
    for one, other in zip(unpack_sequence(packed), given, strict=True):
        assert weft.equal(one, other)
    for first in (False, True):
        padded, lengths = pad_packed_sequence(packed, first, padding_value=-1.0, total_length=6)
        assert lengths.tolist() == [2, 4, 1, 4]
        expected = pad_sequence([*given, weft.zeros(6, 3)], first, -1.0)
        assert weft.equal(padded, expected[:4] if first else expected[:, :4])
        for one, other in zip(unpad_sequence(padded, lengths, first), given, strict=True):
            assert weft.equal(one, other)
        again = pack_padded_sequence(padded, lengths, first, enforce_sorted=False)
        assert weft.equal(again.data, packed.data)


def test_padding_on_the_left():
    padded = pad_sequence([weft.ones(1), weft.ones(3)], True, 7.0, "left")
    assert padded.tolist() == [[7, 7, 1], [1, 1, 1]]
    assert pad_sequence(weft.ones(2, 3)).shape == (3, 2)


def test_gradients_go_to_the_steps_that_are_there():
    x = weft.zeros(3, 2, 1, requires_grad=True)
    packed = pack_padded_sequence(x, [3, 1])
    padded, _ = pad_packed_sequence(packed)
    (padded * 2).sum().backward()
    assert x.grad[:, :, 0].tolist() == [[2, 2], [2, 0], [2, 0]]


def test_moves_and_pickles():
    packed = pack_sequence(sequences(), enforce_sorted=False)
    assert packed.float().data.dtype is weft.float32 and packed.to(weft.float64) is packed
    assert packed.to(weft.float16).batch_sizes is packed.batch_sizes and not packed.is_cuda
    again = pickle.loads(pickle.dumps(packed))
    assert type(again) is PackedSequence and weft.equal(again.data, packed.data)
    assert unpack_sequence(again)[0].shape == (2, 3)
    assert invert_permutation(None) is None
    assert invert_permutation(weft.tensor([2, 0, 1])).tolist() == [1, 2, 0]


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: pack_padded_sequence(weft.ones(3, 2), [1, 3]), RuntimeError, "must be sorted in decreasing"),
        (lambda: pack_padded_sequence(weft.ones(3, 2), [3, 0]), RuntimeError, "has to be greater than 0"),
        (lambda: pack_padded_sequence(weft.ones(3, 2), [3]), RuntimeError, "equal to batch_size, but got 1"),
        (lambda: pad_sequence(3), RuntimeError, "Expected iterable for input sequences"),
        (lambda: pad_sequence([weft.ones(1)], padding_side="up"), RuntimeError, "one of left or right"),
        (
            lambda: pad_packed_sequence(pack_sequence([weft.ones(3)]), total_length=2),
            ValueError,
            "total_length=2 and max sequence length being 3",
        ),
        (
            lambda: nn.GRU(3, 2)(pack_sequence([weft.ones(2, 4)])),
            RuntimeError,
            r"input.size\(-1\) must be equal to input_size. Expected 3, got 4",
        ),
        (
            lambda: nn.GRU(3, 2)(pack_sequence([weft.ones(2, 3)]), weft.ones(1, 2, 2)),
            RuntimeError,
            r"Expected hidden size \(1, 1, 2\), got \[1, 2, 2\]",
        ),
    ],
)
def test_refuses(make, error, text):
    with pytest.raises(error, match=text):
        make()


KINDS = {"RNN": {}, "GRU": {}, "LSTM": {}, "projected": {"proj_size": 2}}


def layer_of(library, kind, **options):
    name = "LSTM" if kind == "projected" else kind
    return getattr(library.nn, name)(3, 4, 2, **KINDS[kind], **options)


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_layers_take_each_sequence_as_if_alone(kind, bidirectional):
    layer = layer_of(weft, kind, bidirectional=bidirectional).double()
    given = sequences()
    out, states = layer(pack_sequence(given, enforce_sorted=False))
    states = states if isinstance(states, tuple) else (states,)
    for number, (one, alone) in enumerate(zip(unpack_sequence(out), given, strict=True)):
        expected, ends = layer(alone)
        np.testing.assert_allclose(one.detach().numpy(), expected.detach().numpy(), rtol=1e-10)
        for part, end in zip(states, ends if isinstance(ends, tuple) else (ends,), strict=True):
            np.testing.assert_allclose(part[:, number].detach().numpy(), end.detach().numpy(), rtol=1e-10)


def outcome(library, kind, bidirectional, batch_first, ordered, with_state, weights):
    """Outputs, states and gradients of a layer over a packed batch."""
    rng = np.random.default_rng(5)
    draw = lambda *shape: rng.standard_normal(shape).astype(np.float32)
    x, hidden, narrow = draw(4, 5, 3), draw(2 + 2 * bidirectional, 4, 4), draw(2 + 2 * bidirectional, 4, 2)
    layer = layer_of(library, kind, bidirectional=bidirectional, batch_first=batch_first)
    layer.load_state_dict({name: library.tensor(value) for name, value in weights.items()})
    x = library.tensor(x, requires_grad=True)
    lengths = [5, 4, 4, 1] if ordered else [2, 5, 1, 4]
    tools = library.nn.utils.rnn
    packed = tools.pack_padded_sequence(
        x if batch_first else x.transpose(0, 1), lengths, batch_first, enforce_sorted=ordered
    )
    state = None
    if with_state:
        state = library.tensor(hidden)
        if layer.mode == "LSTM":
            state = library.tensor(narrow if kind == "projected" else hidden), state
    out, ends = layer(packed, state)
    ends = ends if isinstance(ends, tuple) else (ends,)
    padded, _ = tools.pad_packed_sequence(out, batch_first)
    (padded.square().sum() + sum((end**3).sum() for end in ends)).backward()
    found = [padded, out.data, out.batch_sizes, *ends, x.grad, *(p.grad for p in layer.parameters())]
    return [value.detach().numpy() for value in found]


@pytest.mark.torch
@pytest.mark.parametrize("kind", KINDS)
def test_beside_torch(kind):
    torch = pytest.importorskip("torch")
    for bidirectional, batch_first, ordered, with_state in product((False, True), repeat=4):
        options = (bidirectional, batch_first, ordered, with_state)
        weights = layer_of(torch, kind, bidirectional=bidirectional).state_dict()
        weights = {name: value.numpy() for name, value in weights.items()}
        ours, theirs = outcome(weft, kind, *options, weights), outcome(torch, kind, *options, weights)
        for mine, expected in zip(ours, theirs, strict=True):
            scale = max(float(np.abs(expected).max()), 1e-6)
            assert mine.shape == expected.shape and np.abs(mine - expected).max() <= 1e-5 * scale


def test_captured_whole():
    """Lengths given as numbers are part of the program; so are those of a sequence packed before."""
    layer = nn.LSTM(3, 2, bidirectional=True)
    other = copy.deepcopy(layer)

    def inside(layer, x):
        out, _ = layer(pack_padded_sequence(x, [2, 4, 1], True, enforce_sorted=False))
        return pad_packed_sequence(out, True)[0]

    x = weft.randn(3, 4, 3)
    captured = weft.compile(inside, backend="eager", fullgraph=True)
    assert weft.allclose(captured(other, x), inside(layer, x))
    packed = pack_padded_sequence(x, [4, 4, 2], True)
    given = weft.compile(lambda layer, packed: layer(packed)[0].data, backend="eager", fullgraph=True)
    assert weft.allclose(given(other, packed), layer(packed)[0].data)
