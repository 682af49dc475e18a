"""Orthogonal weights, weight norm and spectral norm, in both forms: what they keep, and beside torch."""

from __future__ import annotations

import copy
import pickle
import warnings

import numpy as np
import pytest

import weft
from weft import nn
from weft.nn.utils import parametrizations

MAPS = ("matrix_exp", "cayley", "householder", None)


@pytest.mark.parametrize("shape", [(4, 4), (3, 5), (5, 3)])
@pytest.mark.parametrize("orthogonal_map", MAPS)
@pytest.mark.parametrize("trivial", [True, False])
def test_orthogonal(orthogonal_map, shape, trivial):
    layer = nn.Linear(*shape).double()
    with weft.no_grad():
        nn.init.orthogonal_(layer.weight)
    before = layer.weight.detach().clone()
    parametrizations.orthogonal(layer, orthogonal_map=orthogonal_map, use_trivialization=trivial)
    if trivial or orthogonal_map == "householder" or (orthogonal_map is None and shape[0] != shape[1]):
        assert weft.allclose(layer.weight, before, atol=1e-10)
    for _ in range(2):
        weight = layer.weight if layer.weight.shape[0] >= layer.weight.shape[1] else layer.weight.mT
        assert weft.allclose(weight.mT @ weight, weft.eye(min(shape), dtype=weft.float64), atol=1e-10)
        layer(weft.randn(2, shape[0], dtype=weft.float64)).square().sum().backward()
        with weft.no_grad():
            original = layer.parametrizations.weight.original
            original -= 0.1 * original.grad
    if trivial:
        layer.weight = before
        assert weft.allclose(layer.weight, before, atol=1e-10)


def test_weight_norm_keeps_the_weight_and_splits_it():
    for make, dim in (
        (lambda: nn.Linear(4, 3), 0),
        (lambda: nn.Conv2d(4, 3, 2), 1),
        (lambda: nn.Linear(4, 3), None),
    ):
        layer = make()
        weight = layer.weight.detach().clone()
        parametrizations.weight_norm(layer, dim=dim)
        assert weft.allclose(layer.weight, weight, atol=1e-6)
        axes = tuple(i for i in range(weight.dim()) if i != dim)
        expected = np.sqrt((weight.numpy() ** 2).sum(axes, keepdims=dim is not None))
        np.testing.assert_allclose(
            layer.parametrizations.weight.original0.detach().numpy(), expected, rtol=1e-5
        )
        old = make()
        with pytest.warns(FutureWarning, match="deprecated in favor of"):
            nn.utils.weight_norm(old, dim=dim)
        assert sorted(old.state_dict()) == ["bias", "weight_g", "weight_v"]
        layer.load_state_dict(old.state_dict())  # as the older form names them
        assert weft.equal(layer.parametrizations.weight.original1, old.weight_v)
        value = old.weight.detach().clone()
        assert (
            weft.allclose(nn.utils.remove_weight_norm(old).weight, value) and len(list(old.parameters())) == 2
        )


@pytest.mark.parametrize("old", [False, True])
def test_spectral_norm(old):
    layer = nn.Linear(4, 3).double()
    weight = layer.weight.detach().clone()
    (nn.utils.spectral_norm if old else parametrizations.spectral_norm)(layer, n_power_iterations=30)
    layer(weft.ones(1, 4, dtype=weft.float64))
    largest = np.linalg.svd(weight.numpy(), compute_uv=False)[0]
    np.testing.assert_allclose(layer.weight.detach().numpy(), weight.numpy() / largest, rtol=1e-5)
    state = {key: value.clone() for key, value in layer.state_dict().items()}
    layer.eval()(weft.ones(1, 4, dtype=weft.float64))
    assert all(weft.equal(value, state[key]) for key, value in layer.state_dict().items())
    other = nn.Linear(4, 3).double()
    (nn.utils.spectral_norm if old else parametrizations.spectral_norm)(other)
    other.load_state_dict(state)
    x = weft.randn(2, 4, dtype=weft.float64)
    assert weft.allclose(other.eval()(x), layer(x))


def test_older_spectral_norm_comes_and_goes():
    layer = nn.utils.spectral_norm(nn.Linear(4, 3))
    assert list(layer.state_dict()) == ["bias", "weight_orig", "weight_u", "weight_v"]
    layer(weft.ones(1, 4))
    with pytest.raises(RuntimeError, match="Cannot register two spectral_norm hooks on the same parameter"):
        nn.utils.spectral_norm(layer)
    nn.utils.remove_spectral_norm(layer)
    assert list(layer.state_dict()) == ["bias", "weight"] and not layer._state_dict_hooks
    with pytest.raises(ValueError, match="spectral_norm of 'weight' not found in"):
        nn.utils.remove_spectral_norm(layer)
    with pytest.raises(ValueError, match="weight_norm of 'weight' not found in"):
        nn.utils.remove_weight_norm(layer)


def test_refuses():
    with pytest.raises(ValueError, match="has no parameter or buffer with name 'mass'"):
        parametrizations.orthogonal(nn.Linear(2, 2), "mass")
    with pytest.raises(ValueError, match="Expected a matrix or batch of matrices. Got a tensor of 1 dim"):
        parametrizations.orthogonal(nn.Linear(2, 2), "bias")
    with pytest.raises(ValueError, match="orthogonal_map has to be one of"):
        parametrizations.orthogonal(nn.Linear(2, 2), orthogonal_map="x")
    with pytest.raises(ValueError, match="Expected n_power_iterations to be positive"):
        parametrizations.spectral_norm(nn.Linear(2, 2), n_power_iterations=0)


FORMS = {
    "weight_norm": lambda library: library.nn.utils.parametrizations.weight_norm,
    "spectral_norm": lambda library: library.nn.utils.parametrizations.spectral_norm,
    "orthogonal": lambda library: library.nn.utils.parametrizations.orthogonal,
    "old weight_norm": lambda library: library.nn.utils.weight_norm,
    "old spectral_norm": lambda library: library.nn.utils.spectral_norm,
}
CASES = [
    *[("weight_norm", ("Linear", 4, 5), {"dim": dim}) for dim in (0, 1, None)],
    ("weight_norm", ("Conv2d", 4, 5, 3), {}),
    *[("spectral_norm", ("Linear", 4, 5), {"n_power_iterations": count}) for count in (1, 3)],
    ("spectral_norm", ("ConvTranspose2d", 4, 5, 3), {}),
    *[("orthogonal", ("Linear", *shape), {"orthogonal_map": kind, "use_trivialization": trivial})
      for kind in MAPS for shape in ((4, 4), (4, 3), (4, 6)) for trivial in (True, False)],
    ("old weight_norm", ("Linear", 4, 5), {"dim": 1}),
    ("old weight_norm", ("Conv2d", 4, 5, 3), {}),
    ("old spectral_norm", ("Linear", 4, 5), {}),
    ("old spectral_norm", ("ConvTranspose2d", 4, 5, 3), {"n_power_iterations": 2}),
]  # fmt: skip


def outcome(library, form, made, options, state):
    """What a layer prints, and its outputs, gradients and buffers after two forwards with this state."""
    name, *sizes = made
    layer = FORMS[form](library)(getattr(library.nn, name)(*sizes, dtype=library.float64), **options)
    if state is None:
        state = {key: value.detach().numpy().copy() for key, value in layer.state_dict().items()}
    assert list(layer.state_dict()) == list(state)
    layer.load_state_dict({key: library.tensor(value) for key, value in state.items()})
    rng = np.random.default_rng(1)
    shape = (3, 4) if name == "Linear" else (2, 4, 5, 5)
    x = library.tensor(rng.standard_normal(shape), requires_grad=True)
    layer(x)
    out = layer(x)
    out.square().sum().backward()
    found = [out, x.grad, *(p.grad for p in layer.parameters()), *layer.buffers()]
    return repr(layer), [value.detach().numpy() for value in found], state


@pytest.mark.torch
@pytest.mark.parametrize(("form", "made", "options"), CASES)
def test_beside_torch(form, made, options):
    torch = pytest.importorskip("torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        text, expected, state = outcome(torch, form, made, options, None)
        same, found, _ = outcome(weft, form, made, options, state)
    assert same == text
    for mine, theirs in zip(found, expected, strict=True):
        assert np.abs(mine - theirs).max() <= 1e-10 * max(float(np.abs(theirs).max()), 1e-6)


@pytest.mark.parametrize("form", ["weight_norm", "spectral_norm", "orthogonal", "old spectral_norm"])
def test_captured_whole(form):
    layer = FORMS[form](weft)(nn.Linear(4, 5))
    other = copy.deepcopy(layer)
    x = weft.randn(3, 4)
    captured = weft.compile(lambda: other(x), backend="eager", fullgraph=True)
    for _ in range(2):
        assert weft.allclose(captured(), layer(x), atol=1e-6)
    for key, value in layer.state_dict().items():
        assert weft.allclose(other.state_dict()[key], value, atol=1e-6)


def test_older_spectral_norm_of_old_states_and_pickles():
    layer = nn.utils.spectral_norm(nn.Linear(4, 3))
    layer(weft.ones(1, 4))
    state = {key: value.clone() for key, value in layer.state_dict().items()}
    again = pickle.loads(pickle.dumps(nn.utils.spectral_norm(nn.Linear(4, 3))))
    again.load_state_dict(state)
    x = weft.randn(2, 4)
    assert weft.allclose(again.eval()(x), layer.eval()(x), atol=1e-6)
    old = {key: value for key, value in state.items() if key != "weight_v"} | {
        "weight": layer.weight.detach()
    }
    again.load_state_dict(old)  # as written before the right vector was kept
    assert weft.allclose(again.eval()(x), layer(x), atol=1e-4)
