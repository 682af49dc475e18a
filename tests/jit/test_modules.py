# ruff: noqa: UP006, UP035, UP045, B007
"""Scripted modules: parameters in common, methods, containers, attributes."""

from typing import Dict, List, Optional

import pytest

import weft
import weft.nn.functional as F
from weft import Tensor, nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.act = F.relu

    def scaled(self, x, by: float = 2.0):
        return x * by

    def forward(self, x):
        return self.scaled(self.act(self.linear(x)), by=0.5)


class Model(nn.Module):
    names: List[str]
    extra: Optional[Tensor]

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block(4), Block(4)])
        self.tail = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.LayerNorm(3))
        self.named = nn.ModuleDict({"a": nn.Linear(3, 3), "b": nn.ReLU()})
        self.weights = nn.ParameterList([nn.Parameter(weft.ones(3) * i) for i in range(2)])
        self.register_buffer("mean", weft.ones(3))
        self.missing = None
        self.count = 0
        self.scale = 1.5
        self.names = []
        self.extra = None

    @weft.jit.ignore
    def in_python(self, x) -> int:
        return self.count + 10

    @weft.jit.unused
    def never(self, x):
        return {x}

    @weft.jit.export
    def centred(self, x: Tensor) -> Tensor:
        return x - self.mean

    def forward(self, x, flag: bool = True):
        for i, block in enumerate(self.blocks):
            x = block(x) + i
        x = self.tail(x)
        for name, module in self.named.items():
            x = module(x)
        for weight in self.weights:
            x = x + weight
        if self.missing is not None:
            x = self.missing(x)
        if self.training:
            x = x * self.scale
        if flag:
            x = self.centred(x)
        self.count += 1
        self.names.append("call")
        return x + self.in_python(x), self.count


def test_model_runs_and_differentiates():
    model = Model()
    scripted = weft.jit.script(model)
    x = weft.randn(2, 4)
    for count in range(1, 4):
        found, seen = scripted(x, count == 2)
        expected, _ = model(x, count == 2)
        weft.testing.assert_close(found, expected)
        assert seen == count == scripted.count and scripted.names == ["call"] * count
    found.sum().backward()
    gradients = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    expected.sum().backward()
    for one, two in zip(gradients, model.parameters(), strict=True):
        weft.testing.assert_close(one, two.grad)
    assert list(scripted.state_dict()) == list(model.state_dict())
    assert scripted.blocks[0].linear.weight is model.blocks[0].linear.weight


def test_modes_and_methods():
    model = Model()
    scripted = weft.jit.script(model)
    x = weft.randn(2, 4)
    weft.testing.assert_close(scripted.eval()(x)[0], model.eval()(x)[0])
    weft.testing.assert_close(scripted.centred(weft.ones(3)), weft.zeros(3))
    assert len(scripted.blocks) == 2 and isinstance(scripted, weft.jit.ScriptModule)
    assert 'prim::CallMethod[name="centred"]' in str(scripted.graph)
    assert "prim::CallMethod" not in str(scripted.inlined_graph)
    assert "def forward(self" in scripted.code


class Base(nn.Module):
    def forward(self, x):
        return x + 1


class Derived(Base):
    def forward(self, x):
        return super().forward(x) * 2


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(3, 4)
        self.conv = nn.Conv1d(1, 2, 3)
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x):
        out, (h, c) = self.lstm(x)
        return self.norm(out[0]) + h[0], self.conv(x[0].unsqueeze(1)).sum()


@pytest.mark.parametrize("made, shape", [(Derived, (2, 2)), (Recurrent, (5, 2, 3))])
def test_inheritance_and_layers(made, shape):
    module = made()
    x = weft.randn(*shape)
    scripted = weft.jit.script(module)
    weft.testing.assert_close(scripted(x), module(x))


class Old(weft.jit.ScriptModule):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(weft.ones(2))

    @weft.jit.script_method
    def forward(self, x):
        return self.helper(x) * self.weight

    @weft.jit.script_method
    def helper(self, x):
        return x + 1


def test_script_methods():
    assert Old()(weft.ones(2)).tolist() == [2.0, 2.0]


class Typed(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = weft.jit.Attribute({}, Dict[str, int])

    def forward(self, key: str) -> int:
        self.table[key] = self.table.get(key, 0) + 1
        return self.table[key]


def test_attributes_with_types():
    scripted = weft.jit.script(Typed())
    assert [scripted("a"), scripted("a"), scripted("b")] == [1, 2, 1]


class Wrong(nn.Module):
    def forward(self, x):
        return self.nothing(x)


def test_missing_attribute_is_named():
    with pytest.raises(RuntimeError, match="has no attribute 'nothing'"):
        weft.jit.script(Wrong())


def test_unused_method_raises_when_called():
    class Caller(nn.Module):
        @weft.jit.unused
        def never(self, x):
            return {x}

        def forward(self, x, flag: bool):
            if flag:
                x = self.never(x)
            return x

    scripted = weft.jit.script(Caller())
    assert scripted(weft.ones(1), False).item() == 1
    with pytest.raises(weft.jit.Error, match="unused"):
        scripted(weft.ones(1), True)


@pytest.mark.parametrize("layer", [
    lambda: nn.BatchNorm1d(2), lambda: nn.BatchNorm2d(2), lambda: nn.BatchNorm3d(2),
    lambda: nn.InstanceNorm1d(2),
    lambda: nn.MaxUnpool1d(2), lambda: nn.MaxUnpool3d(2), lambda: nn.FractionalMaxPool2d(2, 3),
    lambda: nn.CircularPad2d(1), lambda: nn.ZeroPad2d(1), lambda: nn.Embedding(3, 2), lambda: nn.LayerNorm(2),
    lambda: nn.GroupNorm(1, 2), lambda: nn.ELU(), lambda: nn.GLU(), lambda: nn.HingeEmbeddingLoss(),
    lambda: nn.MaxPool1d(2), lambda: nn.MaxPool2d(2, return_indices=True), lambda: nn.AvgPool2d(2),
    lambda: nn.LPPool1d(2, 2), lambda: nn.AdaptiveAvgPool2d(1), lambda: nn.AdaptiveMaxPool3d(1),
    lambda: nn.ReflectionPad2d(1), lambda: nn.ConstantPad1d(1, 0.0),
])  # fmt: skip
def test_layers_are_scripted_and_not_called_as_they_are(layer):
    """Scripting reads the text of `forward`: what it cannot read stays a call of Python."""
    forward = weft.jit.script(layer()).__dict__["_script"].methods["forward"]
    forward.ensure()
    assert not any(node.operator == "prim::PythonOp" for node in forward.graph.walk())
