"""Inputs of graphs are called as their users call them."""

from __future__ import annotations

import pytest

import weft
from weft.report import observe
from weft.report.facts import facts_of
from weft.report.naming import written


def outer():
    model, optimizer = None, None

    def step(x):
        return model, optimizer, x

    return step


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("L['x']", "x"),
        ("M['__main__']['net']._modules['0']._parameters['weight']", "net.0.weight"),
        ("F.__closure__[0].cell_contents._modules['body']._buffers['mean']", "model.body.mean"),
        ("F.__closure__[1].cell_contents.param_groups[0]['lr']", "optimizer.param_groups[0]['lr']"),
        (
            "list(F.__closure__[1].cell_contents.state.values())[3]['exp_avg']",
            "optimizer.state[3]['exp_avg']",
        ),
        ("L['self'].__dict__['scale']", "self.scale"),
        ("F.__closure__[7].cell_contents", "F.__closure__[7].cell_contents"),
    ],
)
def test_as_written(source, name):
    assert written(source, outer().__code__) == name


def test_graphs_have_these_names():
    model = weft.nn.Sequential(weft.nn.Linear(2, 3))

    def scored(x):
        return model(x).sum()

    with observe() as seen:
        weft.compile(scored, backend="eager")(weft.ones(4, 2))
    (graph,) = facts_of(seen)["graphs"]
    names = [node["name"] for node in graph["nodes"] if node["op"] == "placeholder"]
    assert names == ["x", "model.0.weight", "model.0.bias"]
    (linear,) = [node for node in graph["nodes"] if node["target"] == "linear"]
    assert linear["text"] == "linear(x, model.0.weight, model.0.bias)"
