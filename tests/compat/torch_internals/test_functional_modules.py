"""Modules as functions, under the older names."""

from __future__ import annotations

import pytest

import weft
from weft.compat.torch_internals import functional_modules as older


def test_a_module_as_a_function() -> None:
    module = weft.nn.Linear(3, 2)
    function, parameters = older.make_functional(module)
    x = weft.randn(4, 3)
    assert weft.equal(function(parameters, x), module(x))
    twice = tuple(value * 2 for value in parameters)
    assert weft.allclose(function(twice, x), module(x) * 2)
    assert all(value.requires_grad for value in parameters)
    assert not older.make_functional(module, disable_autograd_tracking=True)[1][0].requires_grad


def test_buffers_are_asked_for() -> None:
    module = weft.nn.BatchNorm1d(3).eval()
    with pytest.raises(RuntimeError, match="`model` has buffers"):
        older.make_functional(module)
    function, parameters, buffers = older.make_functional_with_buffers(module)
    x = weft.randn(4, 3)
    assert weft.equal(function(parameters, buffers, x), module(x))


def test_an_ensemble() -> None:
    models = [weft.nn.Linear(3, 2) for _ in range(4)]
    function, parameters, buffers = older.combine_state_for_ensemble(models)
    x = weft.randn(5, 3)
    result = weft.func.vmap(function, (0, 0, None))(parameters, buffers, x)
    assert weft.allclose(result, weft.stack([model(x) for model in models]))
    with pytest.raises(RuntimeError, match="Expected at least one model"):
        older.combine_state_for_ensemble([])
    with pytest.raises(RuntimeError, match="same class"):
        older.combine_state_for_ensemble([weft.nn.Linear(1, 1), weft.nn.ReLU()])
    with pytest.raises(RuntimeError, match="same training/eval mode"):
        older.combine_state_for_ensemble([weft.nn.Linear(1, 1), weft.nn.Linear(1, 1).eval()])


def test_made_with_their_parameters() -> None:
    parameters, function, names = older.functional_init(weft.nn.Linear, (3,))(2, 2)
    assert parameters[0].shape == (3, 2, 2) and names == ("weight", "bias")
    assert weft.func.vmap(function)(parameters, (weft.ones(3, 1, 2),)).shape == (3, 1, 2)
    parameters, buffers, function, _, names = older.functional_init_with_buffers(weft.nn.BatchNorm1d, [2])(3)
    assert buffers[0].shape == (2, 3) and names[0] == "running_mean"
    assert function([p[0] for p in parameters], [b[0] for b in buffers], (weft.rand(4, 3),)).shape == (4, 3)
    assert older.functional_init(weft.nn.Linear)(2, 2)[0][0].shape == (2, 2)
    with pytest.raises(ValueError, match="should be > 0"):
        older.functional_init(weft.nn.Linear, (0,))(2, 2)


def test_batch_norms_without_statistics() -> None:
    net = weft.nn.Sequential(weft.nn.Linear(2, 3), weft.nn.BatchNorm1d(3))
    older.replace_all_batch_norm_modules_(net)
    assert list(net.buffers()) == []
    assert net(weft.randn(4, 2)).mean().abs() < 1e-5


def test_pieces_of_a_batch() -> None:
    x = weft.randn(7, 3)
    assert weft.allclose(older.chunk_vmap(lambda row: row.sum(), chunks=3)(x), x.sum(1))
    assert weft.allclose(older.chunk_vmap(lambda row: row.sum(), chunks=1)(x), x.sum(1))


def test_arguments_by_number() -> None:
    assert older._slice_argnums((1, 2, 3), (0, -1)) == (1, 3)
    assert older._slice_argnums((1, 2, 3), 1) == (2,)
    assert older._slice_argnums((1, 2, 3), 1, as_tuple=False) == 2
    with pytest.raises(RuntimeError, match="must be unique"):
        older._slice_argnums((1, 2), (0, -2))
    assert older.functionalize(len) is len
    with pytest.raises(RuntimeError, match="received invalid argument"):
        older.functionalize(len, remove="views")
