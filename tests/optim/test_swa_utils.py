"""Averaged models, batch norms brought up to date, and the schedule that goes with them."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import weft
from weft import nn
from weft.optim import swa_utils
from weft.testing import CompileCounter


def make(library=weft):
    return library.nn.Sequential(library.nn.Linear(3, 4), library.nn.BatchNorm1d(4))


WAYS = {
    "plain": ({}, lambda mean, x, n: mean + (x - mean) / (n + 1)),
    "one": ({"avg_fn": swa_utils.get_swa_avg_fn()}, lambda mean, x, n: mean + (x - mean) / (n + 1)),
    "forgets": ({"avg_fn": swa_utils.get_ema_avg_fn(0.9)}, lambda mean, x, n: 0.9 * mean + 0.1 * x),
    "lists": (
        {"multi_avg_fn": swa_utils.get_ema_multi_avg_fn(0.9)},
        lambda mean, x, n: 0.9 * mean + 0.1 * x,
    ),
    "lists of means": (
        {"multi_avg_fn": swa_utils.get_swa_multi_avg_fn()},
        lambda mean, x, n: mean + (x - mean) / (n + 1),
    ),
}


@pytest.mark.parametrize("use_buffers", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_averages(way, use_buffers):
    options, formula = WAYS[way]
    model = make()
    average = swa_utils.AveragedModel(model, use_buffers=use_buffers, **options)
    mean = None
    for number in range(4):
        weft.nn.init.normal_(model[0].weight)
        model(weft.randn(5, 3))
        value = model[0].weight.detach().numpy().astype(float)
        mean = value.copy() if mean is None else formula(mean, value, number)
        average.update_parameters(model)
    np.testing.assert_allclose(average.module[0].weight.detach().numpy(), mean, rtol=1e-5, atol=1e-6)
    same = weft.equal(average.module[1].running_mean, model[1].running_mean)
    assert same is not use_buffers
    assert list(average.state_dict())[:2] == ["n_averaged", "module.0.weight"]
    assert average.n_averaged.item() == 4
    other = swa_utils.AveragedModel(make())
    other.load_state_dict(average.state_dict())
    x = weft.randn(2, 3)
    assert weft.equal(other.eval()(x), average.eval()(x))


def test_one_kind_of_function_only():
    with pytest.raises(AssertionError, match="Only one of avg_fn and multi_avg_fn should be provided"):
        swa_utils.AveragedModel(make(), avg_fn=min, multi_avg_fn=min)
    with pytest.raises(ValueError, match=r"Invalid decay value 1.5 provided"):
        swa_utils.get_ema_multi_avg_fn(1.5)


def test_statistics_are_means_over_all_batches():
    model = nn.Sequential(nn.BatchNorm1d(2, momentum=0.3)).eval()
    model[0].running_mean.fill_(7)
    batches = [weft.randn(6, 2) for _ in range(3)]
    swa_utils.update_bn([(batch, 0) for batch in batches], model)
    expected = np.mean([batch.numpy().mean(0) for batch in batches], 0)
    np.testing.assert_allclose(model[0].running_mean.numpy(), expected, rtol=1e-5, atol=1e-7)
    assert model[0].momentum == 0.3 and not model.training
    swa_utils.update_bn([], nn.Linear(1, 1))  # nothing to bring up to date


def rates(library, **options):
    x, y = (library.ones(1, requires_grad=True) for _ in range(2))
    optimizer = library.optim.SGD([{"params": [x]}, {"params": [y], "lr": 0.5}], lr=1.0)
    schedule = library.optim.swa_utils.SWALR(optimizer, **options)
    found = []
    for _ in range(100):
        found.append([group["lr"] for group in optimizer.param_groups])
        optimizer.step()
        schedule.step()
    return found


SCHEDULES = [
    {"swa_lr": 0.05},
    {"swa_lr": [0.05, 0.1], "anneal_epochs": 30, "anneal_strategy": "linear"},
    {"swa_lr": 0.05, "anneal_epochs": 0},
]


@pytest.mark.torch
@pytest.mark.parametrize("options", SCHEDULES)
def test_schedule_follows_torch(options):
    torch = pytest.importorskip("torch")
    np.testing.assert_allclose(rates(weft, **options), rates(torch, **options), rtol=1e-12)


def test_schedule_anneals():
    found = np.array(rates(weft, **SCHEDULES[1]))
    part = np.minimum(np.arange(100) / 30, 1)[:, None]
    np.testing.assert_allclose(found, part * [0.05, 0.1] + (1 - part) * [1.0, 0.5], rtol=1e-9)
    with pytest.raises(ValueError, match="anneal_strategy must be one of 'cos' or 'linear', instead got x"):
        rates(weft, swa_lr=1, anneal_strategy="x")
    with pytest.raises(ValueError, match="anneal_epochs must be equal or greater than 0, got -1"):
        rates(weft, swa_lr=1, anneal_epochs=-1)


@pytest.mark.parametrize("way", WAYS)
def test_averaged_inside_a_captured_step(way):
    """One graph for the first update and all others."""
    models = [make(), None]
    models[1] = copy.deepcopy(models[0])
    averages = [swa_utils.AveragedModel(model, **WAYS[way][0]) for model in models]
    counter = CompileCounter()

    def step(model, average, x):
        model.zero_grad()
        model(x).square().sum().backward()
        with weft.no_grad():
            for parameter in model.parameters():
                parameter.sub_(parameter.grad, alpha=0.01)
        average.update_parameters(model)

    captured = weft.compile(step, backend=counter, fullgraph=True)
    for _ in range(4):
        x = weft.randn(5, 3)
        step(models[0], averages[0], x)
        captured(models[1], averages[1], x)
    for (name, ours), theirs in zip(averages[1].state_dict().items(), averages[0].state_dict().values()):
        assert weft.allclose(ours, theirs, atol=1e-6), name
    assert counter.frame_count == 1 and averages[1].n_averaged.item() == 4
