"""Muon: directions are orthogonal, and steps those of torch as far as bfloat16 goes."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import weft
from weft.testing import CompileCounter

OPTIONS = [{"lr": 0.1}, {"lr": 0.1, "nesterov": False, "momentum": 0.5, "adjust_lr_fn": "match_rms_adamw"}]


def run(library, options, shape=(6, 4), steps=20):
    start = np.random.default_rng(2).standard_normal(shape).astype(np.float32)
    x = library.tensor(start, requires_grad=True)
    optimizer = library.optim.Muon([x], **options)
    for _ in range(steps):
        optimizer.zero_grad()
        ((x - 1) ** 4).sum().backward()
        optimizer.step()
    return x.detach().numpy(), optimizer


@pytest.mark.torch
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("shape", [(6, 4), (3, 5)])
def test_follows_torch(options, shape):
    torch = pytest.importorskip("torch")
    ours, optimizer = run(weft, options, shape)
    theirs, other = run(torch, options, shape)
    np.testing.assert_allclose(ours, theirs, atol=0.05)
    assert optimizer.state_dict()["param_groups"] == other.state_dict()["param_groups"]
    assert list(optimizer.state_dict()["state"][0]) == ["momentum_buffer"]


def test_directions_are_nearly_orthogonal():
    x = weft.zeros(3, 5, requires_grad=True)
    x.grad = weft.randn(3, 5)
    weft.optim.Muon([x], lr=1.0, weight_decay=0.0).step()
    values = np.linalg.svd(x.detach().numpy(), compute_uv=False)
    assert values.min() > 0.5 and values.max() < 1.3


def test_a_step_is_one_graph_and_states_are_loaded():
    x = weft.randn(4, 3)
    params = [x.clone().requires_grad_() for _ in range(2)]
    plain, captured = (weft.optim.Muon([param], lr=0.1) for param in params)
    counter = CompileCounter()
    step = weft.compile(captured.step, backend=counter, fullgraph=True)
    for _ in range(3):
        for param in params:
            param.grad = param.detach() - 1
        plain.step()
        step()
    assert weft.allclose(*params, atol=1e-3) and counter.frame_count == 1
    other = weft.optim.Muon([params[0]])
    other.load_state_dict(copy.deepcopy(plain.state_dict()))
    assert other.param_groups[0]["lr"] == 0.1


def test_refuses():
    for options, text in (
        ({"lr": -1}, "Learning rate should be >= 0 but is: -1"),
        ({"momentum": -1}, "momentum should be >= 0 but is: -1"),
        ({"adjust_lr_fn": "x"}, "Adjust learning rate function x is not supported"),
    ):
        with pytest.raises(ValueError, match=text):
            weft.optim.Muon([weft.ones(1, 1, requires_grad=True)], **options)
    with pytest.raises(ValueError, match="Muon only supports 2D parameters"):
        weft.optim.Muon([weft.ones(1, requires_grad=True)])
