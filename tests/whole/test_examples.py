"""The examples: each is run at a small setting, in compiled steps without a break."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
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


FIGURES = """
import json, sys

library = sys.argv[1]
if library == "torch":
    import torch
    torch.compile = lambda function, **_: function  # it refuses whole steps as one graph
    sys.modules["weft"] = torch
elif library == "compat":
    import weft.compat
    weft.compat.install()
    import torch
    sys.modules["weft"] = torch
import importlib
import beside

beside.speed = lambda *_, **__: ""
found = {}
for name, setting in json.loads(sys.argv[2]).items():
    module = importlib.import_module(name)
    *figures, _ = (module.sample if name == "hmc" else module.train)(**setting)
    flat = [each.tolist() if hasattr(each, "tolist") else each for each in figures]
    found[name] = [number for each in flat for number in (each if isinstance(each, list) else [each])]
print(json.dumps(found))
"""
FEW = {
    "pinn": {"steps": 8}, "neural_ode": {"steps": 8, "turns": 4}, "vae": {"steps": 8}, "gan": {"rounds": 3},
    "graph_network": {"steps": 8}, "lstm": {"steps": 8, "rows": 16, "width": 8},
    "policy_gradient": {"episodes": 2}, "gaussian_process": {"steps": 8},
    "molecular_dynamics": {"steps": 8, "turns": 5}, "own_engine": {"steps": 8}, "hmc": {"count": 20},
}  # fmt: skip


@pytest.fixture(scope="module")
def figures():
    """What the examples come to with a library, in a process of its own."""
    found = {}

    def of(library):
        if library not in found:
            command = [sys.executable, "-c", FIGURES, library, json.dumps(FEW)]
            environment = {**os.environ, "PYTHONPATH": f"{EXAMPLES}:{EXAMPLES.parent}"}
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
            found[library] = json.loads(done.stdout.splitlines()[-1])
        return found[library]

    return of


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.parametrize("library", ["weft", "compat"])
def test_examples_come_to_what_they_come_to_on_torch(library, figures):
    pytest.importorskip("torch")
    ours, theirs = figures(library), figures("torch")
    assert ours.keys() == theirs.keys() == FEW.keys()
    for name in FEW:
        assert ours[name] == pytest.approx(theirs[name], rel=1e-3, abs=1e-6), name


def test_weights_are_sampled():
    mean, taken, _ = load("hmc").sample(count=200)
    assert 0.6 < taken <= 1 and mean[1] < -1 < 0.8 < mean[0]


PLOTS = {
    "pinn": {"steps": 2}, "neural_ode": {"steps": 2, "turns": 2}, "policy_gradient": {"episodes": 2},
    "molecular_dynamics": {"steps": 2, "turns": 3}, "hmc": {"count": 5},
}  # fmt: skip


@pytest.mark.parametrize("name", PLOTS)
def test_plots_are_drawn(name, tmp_path):
    pytest.importorskip("matplotlib")
    module, path = load(name), tmp_path / "plot.png"
    run = module.sample if name == "hmc" else module.train
    run(**PLOTS[name], plot=str(path))
    assert path.read_bytes().startswith(b"\x89PNG")


def test_plots_need_matplotlib(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    load("beside").draw("", {}, "", "")
    with pytest.raises(SystemExit, match="--plot needs matplotlib"):
        load("beside").draw(str(tmp_path / "plot.png"), {"a": ([0], [1])}, "x", "y")
