"""Pruning: which weights go, what is stored, how it is made final."""

from __future__ import annotations

import copy
import pickle

import pytest

import weft
from weft import nn
from weft.nn.utils import prune


def layer_with(values):
    layer = nn.Linear(len(values[0]), len(values))
    layer.weight = nn.Parameter(weft.tensor(values))
    return layer


ROWS = [[1.0, 2.0, 3.0, 4.0], [-4.0, -3.0, -2.0, -1.0]]


def test_smallest_go_first_and_stay_away():
    layer = layer_with(ROWS)
    weight = layer.weight
    prune.l1_unstructured(layer, "weight", amount=2)
    assert layer.weight.tolist() == [[0, 2, 3, 4], [-4, -3, -2, 0]]
    prune.l1_unstructured(layer, "weight", amount=2)
    assert layer.weight.tolist() == [[0, 0, 3, 4], [-4, -3, 0, 0]]
    (hook,) = layer._forward_pre_hooks.values()
    assert isinstance(hook, prune.PruningContainer) and len(hook) == 2 and hook._tensor_name == "weight"
    assert sorted(layer.state_dict()) == ["bias", "weight_mask", "weight_orig"] and prune.is_pruned(layer)
    layer(weft.ones(1, 4)).sum().backward()
    assert weft.equal(weight.grad, layer.weight_mask)
    prune.remove(layer, "weight")
    assert layer.weight is weight and weight.tolist() == [[0, 0, 3, 4], [-4, -3, 0, 0]]
    assert not prune.is_pruned(layer)


def test_scores_in_place_of_magnitudes():
    layer = layer_with(ROWS)
    scores = weft.tensor([[4.0, 2, 1, 3], [-3, -1, -2, -4]])
    prune.l1_unstructured(layer, "weight", amount=2, importance_scores=scores)
    assert layer.weight.tolist() == [[1, 2, 0, 4], [-4, 0, -2, -1]]


def test_slices_of_least_norm():
    layer = layer_with([[1.0, 9.0, 1.0], [2.0, 9.0, 2.0]])
    prune.ln_structured(layer, "weight", amount=1, n=2, dim=0)
    assert layer.weight_mask.tolist() == [[0, 0, 0], [1, 1, 1]]
    prune.ln_structured(layer, "weight", amount=0.34, n=1, dim=-1)
    assert layer.weight.tolist() == [[0, 0, 0], [0, 9, 2]] or layer.weight.tolist() == [[0, 0, 0], [2, 9, 0]]


def test_random_kinds_prune_as_many_as_asked():
    layer = nn.Conv2d(4, 6, 3)
    prune.random_unstructured(layer, "weight", amount=0.25)
    assert (layer.weight_mask == 0).sum().item() == 54
    other = nn.Conv2d(4, 6, 3)
    prune.random_structured(other, "weight", amount=2, dim=0)
    assert (other.weight_mask.sum(dim=[1, 2, 3]) == 0).sum().item() == 2
    assert isinstance(pickle.loads(pickle.dumps(other)), nn.Conv2d)
    prune.identity(other, "bias")
    assert other.bias_mask.tolist() == [1] * 6


def test_several_parameters_as_one():
    first, second = layer_with(ROWS), layer_with([[0.0, 0.1, -2.0]])
    pairs = ((first, "weight"), (second, "weight"))
    prune.global_unstructured(pairs, pruning_method=prune.L1Unstructured, amount=4)
    assert first.weight.tolist() == [[0, 2, 3, 4], [-4, -3, -2, 0]] and second.weight.tolist() == [[0, 0, -2]]


def test_containers_compute_on_what_is_left():
    container = prune.PruningContainer()
    container._tensor_name = "test"
    t = weft.tensor([[1.0, 2, 3, 4], [5, 6, 7, 8]])
    default = weft.tensor([[1, 1, 1, 0], [1, 1, 0, 1]])
    for method, expected in (
        (prune.L1Unstructured(2), [[0, 0, 1, 0], [1, 1, 0, 1]]),
        (prune.LnStructured(1, 2, 0), [[0, 0, 0, 0], [1, 1, 0, 1]]),
        (prune.LnStructured(1, 2, 1), [[0, 1, 1, 0], [0, 1, 0, 1]]),
    ):
        method._tensor_name = "test"
        container.add_pruning_method(method)
        assert container.compute_mask(t, default).tolist() == expected
    assert prune.L1Unstructured(2).prune(t, default).tolist() == [[0, 0, 3, 0], [5, 6, 0, 8]]
    method = prune.L1Unstructured(1)
    method._tensor_name = "other"
    with pytest.raises(ValueError, match="acting on the parameter named 'test'"):
        container.add_pruning_method(method)
    with pytest.raises(TypeError, match="is not a BasePruningMethod subclass"):
        container.add_pruning_method(10)


def test_a_failure_leaves_nothing_behind(monkeypatch):
    layer = nn.Linear(4, 2)

    def fail(*_args, **_kwargs):
        raise ArithmeticError("no")

    monkeypatch.setattr(prune.L1Unstructured, "compute_mask", fail)
    with pytest.raises(ArithmeticError):
        prune.l1_unstructured(layer, "weight", 1)
    assert sorted(layer.state_dict()) == ["bias", "weight"]


def test_refuses():
    layer = nn.Linear(4, 2)
    with pytest.raises(ValueError, match="has to be pruned before pruning can be removed"):
        prune.remove(layer, "weight")
    with pytest.raises(TypeError, match="Must be int or float"):
        prune.L1Unstructured("a few")
    with pytest.raises(ValueError, match=r"should either be a float in the range \[0, 1\]"):
        prune.L1Unstructured(1.5)
    with pytest.raises(ValueError, match="amount=9 should be smaller than the number of parameters"):
        prune.l1_unstructured(layer, "weight", 9)
    with pytest.raises(ValueError, match="can only be applied to multidimensional tensors"):
        prune.ln_structured(layer, "bias", 1, 2, 0)


def test_weights_of_recurrent_layers():
    layer = nn.LSTM(3, 4)
    prune.l1_unstructured(layer, "weight_ih_l0", 0.5)
    assert sum(isinstance(weight, nn.Parameter) for weight in layer._flat_weights) == 3
    x = weft.ones(2, 1, 3)
    expected = layer(x)[0]
    prune.remove(layer, "weight_ih_l0")
    assert weft.allclose(layer(x)[0], expected) and "weight_ih_l0" in layer._parameters


def test_captured_whole():
    layer = nn.Linear(4, 2)
    prune.l1_unstructured(layer, "weight", 3)
    layer.weight = layer.weight.detach()  # what a copy of the layer may hold
    other = copy.deepcopy(layer)
    x = weft.randn(3, 4)
    assert weft.allclose(weft.compile(other, backend="eager", fullgraph=True)(x), layer(x))
