"""Traces and frozen modules."""

import io

import pytest

import weft
from weft import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 4)
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x):
        a, b = self.norm(self.linear(x)).chunk(2, 1)
        return a.relu() + b[:, :1], (a * 2).sum()

    def twice(self, x):
        return self.linear(x) * 2


def test_traced_function():
    traced = weft.jit.trace(lambda x, y: (x * 2 + y).sin().sum(dim=0), (weft.ones(2, 3), weft.ones(3)))
    x, y = weft.rand(5, 3, requires_grad=True), weft.rand(3)
    weft.testing.assert_close(traced(x, y), (x * 2 + y).sin().sum(dim=0))
    traced(x, y).sum().backward()
    assert x.grad is not None and "aten::sin" in str(traced.graph)


def test_traced_module_is_saved_and_loaded():
    model = Model().eval()
    x = weft.rand(2, 3)
    traced = weft.jit.trace(model, x)
    stream = io.BytesIO()
    traced.save(stream)
    loaded = weft.jit.load(io.BytesIO(stream.getvalue()))
    for made in (traced, loaded):
        weft.testing.assert_close(made(x), model(x))
    assert list(traced.state_dict()) == list(model.state_dict())
    both = weft.jit.trace_module(model, {"forward": x, "twice": x})
    weft.testing.assert_close(both.twice(x), model.twice(x))


def test_trace_that_depends_on_data_is_noticed():
    def wanders(x, seen=[0]):  # noqa: B006
        seen[0] += 1
        return x * seen[0]

    with pytest.warns(weft.jit.TracerWarning, match="does not match"):
        weft.jit.trace(wanders, weft.ones(2))


def test_frozen_module_has_constants():
    model = Model().eval()
    scripted = weft.jit.script(model)
    frozen = weft.jit.freeze(scripted)
    x = weft.rand(2, 3)
    weft.testing.assert_close(frozen(x), model(x))
    assert not list(frozen.parameters())
    with pytest.raises(RuntimeError, match="eval mode"):
        weft.jit.freeze(weft.jit.script(Model()))


def test_trace_of_what_looks_at_elements():
    linear = nn.Linear(3, 2)

    def looks(x, others):
        y = linear(x).clone()
        y[0] = 1.0
        if y.sum() > -1e9:
            y = y.add_(others[1])
        return {"y": y.T}, x[x > 0.5].sum(), x[0, 1:]

    x, others = weft.rand(4, 3), [weft.ones(1), weft.ones(2)]
    with pytest.warns(weft.jit.TracerWarning, match="might cause the trace to be incorrect"):
        traced = weft.jit.trace(looks, (x, others))
    again = weft.rand(4, 3)
    found, expected = traced(again, others), looks(again, others)
    weft.testing.assert_close(found[0]["y"], expected[0]["y"])
    weft.testing.assert_close(found[1:], expected[1:])
