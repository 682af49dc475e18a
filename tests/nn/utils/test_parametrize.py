"""Parametrized tensors: how they are stored, read, assigned, copied, removed; what is refused."""

from __future__ import annotations

import copy
import pickle

import pytest

import weft
from weft import nn
from weft.nn.utils import parametrize
from weft.nn.utils.parametrize import register_parametrization, remove_parametrizations


class Skew(nn.Module):
    def forward(self, x):
        x = x.triu(1)
        return x - x.mT

    def right_inverse(self, value):
        return value.triu(1)


class Double(nn.Module):
    calls = 0

    def forward(self, x):
        Double.calls += 1
        return 2 * x


class Sum(nn.Module):
    def forward(self, x, y):
        return x + y

    def right_inverse(self, value):
        return value / 2, value / 2


def test_reads_what_is_computed_and_stores_what_was_there():
    layer = nn.Linear(3, 3)
    weight = layer.weight
    assert register_parametrization(layer, "weight", Skew()) is layer
    assert weft.equal(layer.weight, -layer.weight.mT)
    assert layer.parametrizations.weight.original is weight
    assert list(layer.state_dict()) == ["bias", "parametrizations.weight.original"]
    assert type(layer).__name__ == "ParametrizedLinear" and isinstance(layer, nn.Linear)
    assert parametrize.type_before_parametrizations(layer) is nn.Linear
    assert parametrize.is_parametrized(layer, "weight") and not parametrize.is_parametrized(layer, "bias")
    layer(weft.ones(2, 3)).sum().backward()
    assert weight.grad is not None and weft.equal(weight.grad, weight.grad.triu(1))


def test_assigning_goes_through_the_inverse():
    layer = register_parametrization(nn.Linear(2, 2), "weight", Skew())
    layer.weight = weft.tensor([[0.0, 3.0], [-3.0, 0.0]])
    assert layer.parametrizations.weight.original.tolist() == [[0, 3], [0, 0]]
    assert layer.weight.tolist() == [[0, 3], [-3, 0]]
    register_parametrization(layer, "bias", Double())
    with pytest.raises(RuntimeError, match="parametrization Double does not implement right_inverse"):
        layer.bias = weft.ones(2)


def test_several_act_in_order_and_several_tensors_are_stored():
    layer = register_parametrization(nn.Linear(2, 2), "weight", Skew())
    register_parametrization(layer, "weight", Double())
    original = layer.parametrizations.weight.original
    assert weft.equal(layer.weight, 2 * (original.triu(1) - original.triu(1).mT))
    other = register_parametrization(nn.Linear(2, 2), "weight", Sum())
    assert list(other.state_dict())[1:] == [f"parametrizations.weight.original{i}" for i in (0, 1)]
    other.weight = weft.ones(2, 2)
    assert other.parametrizations.weight.original1.tolist() == [[0.5, 0.5], [0.5, 0.5]]
    assert all(isinstance(p, nn.Parameter) for p in other.parameters())


def test_cached_reads_compute_once():
    layer = register_parametrization(nn.Linear(2, 2), "weight", Double())
    Double.calls = 0
    with parametrize.cached():
        assert layer.weight is layer.weight
    assert Double.calls == 1
    assert layer.weight is not layer.weight


@pytest.mark.parametrize("leave", [True, False])
def test_removed(leave):
    layer = nn.Linear(2, 2)
    stored = layer.weight.detach().clone()
    register_parametrization(layer, "weight", Double())
    register_parametrization(layer, "bias", Double())
    remove_parametrizations(layer, "weight", leave)
    assert weft.equal(layer.weight, 2 * stored if leave else stored)
    assert isinstance(layer.weight, nn.Parameter) and type(layer) is not nn.Linear
    remove_parametrizations(layer, "bias")
    assert type(layer) is nn.Linear and not hasattr(layer, "parametrizations")
    other = register_parametrization(nn.Linear(2, 2), "weight", Sum())
    with pytest.raises(ValueError, match=r"Cannot leave unparametrized \(`leave_parametrized=False`\)"):
        remove_parametrizations(other, "weight", leave_parametrized=False)
    assert isinstance(remove_parametrizations(other, "weight").weight, nn.Parameter)
    with pytest.raises(ValueError, match="does not have a parametrization on weight"):
        remove_parametrizations(other, "weight")


def test_copied_but_not_pickled():
    layer = register_parametrization(nn.Linear(2, 2), "weight", Skew())
    other = copy.deepcopy(layer)
    assert other.parametrizations.weight.original is not layer.parametrizations.weight.original
    assert weft.equal(other.weight, layer.weight)
    other.weight = weft.zeros(2, 2)
    assert not weft.equal(other.weight, layer.weight)
    with pytest.raises(RuntimeError, match=r"only supported through state_dict\(\)"):
        pickle.dumps(layer)
    fresh = register_parametrization(nn.Linear(2, 2), "weight", Skew())
    fresh.load_state_dict(layer.state_dict())
    assert weft.equal(fresh.weight, layer.weight)


def test_transferred():
    source = register_parametrization(nn.Linear(2, 2), "weight", Double())
    target = parametrize.transfer_parametrizations_and_params(source, nn.Linear(2, 2))
    assert weft.equal(source.weight, target.weight) and parametrize.is_parametrized(target, "weight")


class Wrong(nn.Module):
    def __init__(self, result, back=None):
        super().__init__()
        self.result = result
        if back is not None:
            self.right_inverse = back

    def forward(self, *given):
        return self.result(*given)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Wrong(lambda x: x[:1]), "may not change the shape of the tensor, unless `unsafe` flag"),
        (lambda: Wrong(lambda x: x.double()), "may not change the dtype of the tensor, unless `unsafe`"),
        (lambda: Wrong(lambda x: 3), "A parametrization must return a tensor. Got int."),
        (lambda: Wrong(lambda x: x, lambda x: None), "'right_inverse' must return a Tensor or a Sequence"),
        (lambda: Wrong(lambda x: x, lambda x: [x, 1]), "Got element 1 of the sequence with type int"),
        (lambda: Wrong(lambda x: x, lambda x: x.double()), "it may not change the dtype"),
    ],
)
def test_refuses(make, text):
    with pytest.raises(ValueError, match=text):
        register_parametrization(nn.Linear(2, 2), "weight", make())


def test_refuses_names_that_are_not_there():
    with pytest.raises(ValueError, match="a buffer, or a parametrized element with name 'mass'"):
        register_parametrization(nn.Linear(2, 2), "mass", Double())
    layer = register_parametrization(nn.Linear(2, 2), "weight", Double())
    with pytest.raises(ValueError, match="may not change the shape of the tensor, unless the `unsafe` flag"):
        register_parametrization(layer, "weight", Wrong(lambda x: x[:1]))
    register_parametrization(layer, "weight", Wrong(lambda x: x[:1]), unsafe=True)
    assert layer.weight.shape == (1, 2)


def test_captured_whole():
    layer = register_parametrization(nn.Linear(3, 3), "weight", Skew())
    x = weft.randn(2, 3)

    def step():
        layer.zero_grad()
        with parametrize.cached():
            loss = (layer(x) + layer(-x)).square().sum()
        loss.backward()
        return loss

    expected = step()
    gradient = layer.parametrizations.weight.original.grad.clone()
    assert weft.allclose(weft.compile(step, backend="eager", fullgraph=True)(), expected)
    assert weft.allclose(layer.parametrizations.weight.original.grad, gradient)
