"""Parts of a graph as modules: values are those of the whole, whatever the parts."""

from __future__ import annotations

import pytest

import weft
from weft import nn
from weft.trace.fx import symbolic_trace
from weft.trace.splitting import split_module


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 3)
        self.rest = nn.Sequential(nn.ReLU(), nn.Linear(3, 2))
        self.weight = nn.Parameter(weft.ones(3))

    def forward(self, x, scale=2.0):
        return self.rest(self.first(x) * scale + self.weight).relu(), x * 3


def split(parts, **options):
    model = Model()
    traced, turn = symbolic_trace(model), iter(range(1000))
    return model, split_module(traced, model, lambda node: next(turn) // parts, **options)


@pytest.mark.parametrize("size", [1, 2, 3, 100])
@pytest.mark.parametrize("options", [{}, {"tuple_return": True}, {"keep_original_order": True}])
def test_values_gradients_and_parameters(size, options):
    model, made = split(size, **options)
    x = weft.randn(4, 3)
    for given, wanted in zip(made(x, 1.5), model(x, 1.5), strict=True):
        weft.testing.assert_close(given, wanted)
    assert {id(p) for p in made.parameters()} == {id(p) for p in model.parameters()}
    assert made.submod_0 is not None


def test_names():
    model, names = Model(), {}
    made = split_module(symbolic_trace(model), model, lambda node: 0, names, partition_affix="pp")
    assert [name for name, _ in made.named_children()] == ["submod_pp_0"]
    assert names == {
        "submod_pp_0.first": "first",
        "submod_pp_0.rest_0": "rest.0",
        "submod_pp_0.rest_1": "rest.1",
    }
    assert made.submod_pp_0.rest_1 is model.rest[1]


def test_a_part_that_reads_from_itself_by_another():
    model = symbolic_trace(lambda x: (x.sin().cos()).tan())
    with pytest.raises(RuntimeError, match="cycle exists between partitions"):
        split_module(model, model, lambda node: int(node.target == "cos"))
