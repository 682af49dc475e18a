"""The examples: each is run at a small setting, in compiled steps without a break."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

import weft

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(autouse=True)
def beside(monkeypatch):
    """Examples import what they share from their folder."""
    monkeypatch.syspath_prepend(str(EXAMPLES))


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
    assert result.seconds < 60 and "times" in result.speed


def test_steps_of_digits_are_one_graph():
    digits = load("digits")
    weft.manual_seed(0)
    network = digits.Network(channels=4)
    step = weft.compile(
        digits.make_step(network, weft.optim.AdamW(network.parameters(), lr=1e-2)), fullgraph=True
    )
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
    step = weft.compile(gpt.make_step(model, weft.optim.AdamW(model.parameters(), lr=1e-2)), fullgraph=True)
    generator = weft.Generator().manual_seed(0)
    before = sum(weft.compiler.counters["graph_break"].values())
    losses = [step(*text.batch(text.train, 8, 16, generator)).item() for _ in range(20)]
    assert losses[-1] < losses[0] - 0.5
    assert sum(weft.compiler.counters["graph_break"].values()) == before
    assert gpt.write(model, text, "Once", 5).startswith("Once")


@pytest.mark.slow
def test_the_writer_learns(capsys):
    loss, _, told = load("gpt").train(steps=100)  # all of it, to a loss below 0.9, takes half a minute
    assert loss < 2.5 and "times" in told
    assert "s more" in capsys.readouterr().out


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_examples_are_short(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 150


SMALL = {
    "pinn": ({"steps": 60}, lambda error, told: error < 1.3),
    "neural_ode": ({"steps": 60, "turns": 4}, lambda loss, told: loss < 0.15),
    "vae": ({"steps": 60}, lambda loss, told: loss < 70),
    "gan": ({"rounds": 40}, lambda away, told: away < 0.7),
    "graph_network": ({"steps": 60}, lambda share, told: share > 0.7),
    "lstm": ({"steps": 40, "rows": 16, "width": 8}, lambda loss, told: loss < 0.5),
    "policy_gradient": ({"episodes": 6}, lambda lengths, told: lengths[-1] > 1.5 * lengths[0]),
    "gaussian_process": ({"steps": 60}, lambda found, loss, told: 0.05 < found[2] < 0.2 and loss < 0),
    "molecular_dynamics": (
        {"steps": 60, "turns": 20},
        lambda error, drift, told: error < 0.5 and drift < 0.01,
    ),
    "own_engine": ({"steps": 100}, lambda first, last, told: last < 0.6 * first),
}


@pytest.mark.parametrize("name", SMALL)
def test_examples_learn(name):
    """Results are the same on PyTorch: all draws come from NumPy."""
    setting, holds = SMALL[name]
    before = sum(weft.compiler.counters["graph_break"].values())
    results = load(name).train(**setting)
    assert holds(*results), results
    assert "times" in results[-1]
    assert sum(weft.compiler.counters["graph_break"].values()) == before


def test_weights_are_sampled():
    mean, taken, _ = load("hmc").sample(count=200)
    assert 0.6 < taken <= 1 and mean[1] < -1 < 0.8 < mean[0]
