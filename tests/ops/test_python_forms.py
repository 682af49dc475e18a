"""Calls of functions that PyTorch writes in Python, as tracers record them; and that such graphs run."""

from __future__ import annotations

import pytest

import weft
import weft.nn.functional as F
from weft import fx


def recorded(function):
    """The arguments of the only call that a function of one tensor makes."""
    traced = fx.symbolic_trace(function)
    (node,) = [node for node in traced.graph.nodes if node.op == "call_function"]
    return node.args[1:], node.kwargs


def test_options_are_said_by_name():
    assert recorded(lambda x: weft.tensordot(x, x, ((0, 1), (1, 0))))[1] == {
        "dims": ((0, 1), (1, 0)),
        "out": None,
    }
    assert recorded(lambda x: F.dropout(x, 0.25)) == ((), {"p": 0.25, "training": True, "inplace": False})
    assert recorded(lambda x: F.pad(x, (1, 1))) == (((1, 1),), {"mode": "constant", "value": None})
    assert recorded(lambda x: weft.split(x, 2, 1)) == ((2,), {"dim": 1})
    assert recorded(lambda x: weft.split(x, split_size_or_sections=2)) == ((2,), {"dim": 0})
    assert recorded(lambda x: F.softmax(x, 1))[1]["dim"] == 1


def test_others_keep_what_was_given():
    assert recorded(lambda x: weft.add(x, 2)) == ((2,), {})
    assert recorded(lambda x: F.gelu(x, approximate="tanh")) == ((), {"approximate": "tanh"})


@pytest.mark.parametrize(
    "function",
    [
        lambda x: weft.tensordot(x, x, 2),
        lambda x: weft.norm(x, dim=1),
        lambda x: weft.cdist(x, x),
        lambda x: weft.unique(x),
        lambda x: weft.stft(x.flatten(), 4, window=weft.ones(4), return_complex=True).abs(),
        lambda x: F.normalize(x, dim=0),
        lambda x: F.softmax(x, 1),
        lambda x: F.log_softmax(x, dim=-1),
        lambda x: F.mse_loss(x, x * 2),
        lambda x: F.interpolate(x[None], scale_factor=2),
        lambda x: F.cross_entropy(x, x.softmax(1)),
        lambda x: F.hardtanh(x, -0.5, 0.5),
        lambda x: F.elu(x, 2.0),
        lambda x: F.group_norm(x, 2),
    ],
)
def test_graphs_run(function):
    x = weft.arange(16.0).view(4, 4) / 7 - 1
    assert fx.symbolic_trace(function)(x).equal(function(x))
