"""The examples: a network that reads digits and one that writes, trained in whole compiled steps."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

import weft

EXAMPLES = Path(__file__).parents[2] / "examples"


def load(name):
    spec = importlib.util.spec_from_file_location(f"examples_{name}", EXAMPLES / f"{name}.py")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_digits_are_read():
    pytest.importorskip("sklearn")
    result = load("digits").train(epochs=12)
    assert result.accuracy >= 0.97 and result.breaks == 0
    assert result.seconds < 60


def test_steps_of_digits_are_one_graph():
    digits = load("digits")
    weft.manual_seed(0)
    network = digits.Network(channels=4)
    step = digits.training_step(network, weft.optim.AdamW(network.parameters(), lr=1e-2))
    x, y = weft.randn(8, 1, 8, 8), weft.arange(8)
    before = digits.breaks()
    losses = [step(x, y).item() for _ in range(8)]
    assert losses[-1] < losses[0] and digits.breaks() == before
    assert network.norm.num_batches_tracked.item() == 8
    assert digits.accuracy(network, weft.data.TensorDataset(x, y)) >= 0.5


def test_steps_of_the_writer_are_one_graph():
    gpt = load("gpt")
    text = gpt.Text(gpt.tales())
    assert 100_000 <= len(text.train) + len(text.test) <= 200_000
    whole = gpt.GPT(len(text.alphabet))
    assert 780_000 <= sum(parameter.numel() for parameter in whole.parameters()) <= 850_000
    weft.manual_seed(0)
    model = gpt.GPT(len(text.alphabet), context=16, width=16, layers=1, heads=2)
    step = gpt.training_step(model, weft.optim.AdamW(model.parameters(), lr=1e-2))
    generator = weft.Generator().manual_seed(0)
    before = gpt.breaks()
    losses = [step(*text.batch(text.train, 8, 16, generator)).item() for _ in range(20)]
    assert losses[-1] < losses[0] - 0.5 and gpt.breaks() == before
    assert gpt.write(model, text, "Once", 5).startswith("Once")


@pytest.mark.slow
def test_the_writer_learns():
    result = load("gpt").train(steps=100)  # all of it, to a loss below 0.9, takes half a minute
    assert result.loss < 2.5 and result.breaks == 0
