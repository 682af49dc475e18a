"""AdamW: Adam with decoupled weight decay, whatever it is told."""

from __future__ import annotations

import numpy as np
import pytest

import weft

OPTIONS = [{"lr": 0.1}, {"lr": 0.1, "weight_decay": 0.3, "amsgrad": True}, {"lr": 0.01, "maximize": True}]


def rule(step, x, g, state, lr, weight_decay=0.01, amsgrad=False, maximize=False):
    g = -g if maximize else g
    x = x * (1 - lr * weight_decay)
    state["m"] = 0.9 * state.get("m", 0) + 0.1 * g
    state["v"] = 0.999 * state.get("v", 0) + 0.001 * g * g
    v = state["v"]
    if amsgrad:
        v = state["top"] = np.maximum(state.get("top", 0), v)
    return x - lr * state["m"] / (1 - 0.9**step) / (np.sqrt(v / (1 - 0.999**step)) + 1e-8)


@pytest.mark.parametrize("options", OPTIONS)
def test_follows_the_formula(problem, options):
    problem.check_formula(weft.optim.AdamW, rule, options)


@pytest.mark.torch
@pytest.mark.parametrize("options", OPTIONS)
def test_follows_torch(problem, options):
    problem.check_torch("AdamW", options)


def test_loaded_state_cannot_couple_the_decay():
    x = weft.ones(2, requires_grad=True)
    optimizer = weft.optim.AdamW([x])
    optimizer.load_state_dict(weft.optim.Adam([x], weight_decay=0.5).state_dict())
    assert optimizer.param_groups[0]["decoupled_weight_decay"] is True
    assert optimizer.param_groups[0]["weight_decay"] == 0.5
