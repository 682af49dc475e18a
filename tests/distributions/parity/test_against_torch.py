"""Every distribution held against PyTorch's: facts, densities, divergences, transforms and constraints."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import weft
import weft.distributions as ours

pytestmark = pytest.mark.torch
torch: Any = pytest.importorskip("torch")

COVARIANCE = [[2.0, 0.5], [0.5, 1.0]]
CASES: dict[str, tuple[dict[str, Any], Any]] = {
    "Bernoulli": ({"probs": [0.3, 0.6]}, [1.0, 0.0]),
    "Beta": ({"concentration1": [2.0, 0.5], "concentration0": [3.0, 1.5]}, [0.3, 0.8]),
    "Binomial": ({"total_count": 5, "probs": [0.3, 0.6]}, [2.0, 5.0]),
    "Categorical": ({"logits": [[0.1, 0.5, -1.0], [0.0, 0.0, 1.0]]}, [2.0, 0.0]),
    "Cauchy": ({"loc": [0.5, -1.0], "scale": [1.5, 0.3]}, [0.1, 0.2]),
    "Chi2": ({"df": [3.0, 5.5]}, [0.4, 7.0]),
    "ContinuousBernoulli": ({"probs": [0.3, 0.5]}, [0.1, 0.7]),
    "Dirichlet": ({"concentration": [[2.0, 3.0, 0.5], [1.5, 4.0, 2.0]]}, [[0.2, 0.5, 0.3], [0.6, 0.3, 0.1]]),
    "Exponential": ({"rate": [0.5, 2.0]}, [0.3, 0.4]),
    "FisherSnedecor": ({"df1": [3.0, 5.0], "df2": [5.0, 9.0]}, [0.4, 2.0]),
    "Gamma": ({"concentration": [2.0, 0.5], "rate": [1.5, 3.0]}, [0.4, 0.9]),
    "GeneralizedPareto": ({"loc": [0.0, 1.0], "scale": [2.0, 1.0], "concentration": [0.3, -0.4]}, [0.7, 1.8]),
    "Geometric": ({"probs": [0.3, 0.6]}, [3.0, 0.0]),
    "Gumbel": ({"loc": [0.5, -1.0], "scale": [1.5, 0.3]}, [0.1, 0.2]),
    "HalfCauchy": ({"scale": [1.5, 0.3]}, [0.1, 0.2]),
    "HalfNormal": ({"scale": [1.5, 0.3]}, [0.1, 0.2]),
    "InverseGamma": ({"concentration": [2.5, 3.0], "rate": [1.5, 3.0]}, [0.4, 0.9]),
    "Kumaraswamy": ({"concentration1": [2.0, 1.5], "concentration0": [3.0, 1.2]}, [0.3, 0.8]),
    "LKJCholesky": ({"dim": 2, "concentration": [1.5, 0.5]}, [[[1.0, 0.0], [0.6, 0.8]]] * 2),
    "Laplace": ({"loc": [0.5, -1.0], "scale": [1.5, 0.3]}, [0.1, 0.2]),
    "LogNormal": ({"loc": [0.5, -1.0], "scale": [1.5, 0.3]}, [0.4, 0.2]),
    "LogisticNormal": ({"loc": [0.5, -1.0], "scale": [1.5, 0.3]}, [0.2, 0.3, 0.5]),
    "LowRankMultivariateNormal": (
        {"loc": [0.5, -1.0], "cov_factor": [[0.5], [0.2]], "cov_diag": [1.0, 2.0]}, [0.1, 0.2]
    ),
    "Multinomial": ({"total_count": 4, "probs": [0.2, 0.3, 0.5]}, [1.0, 1.0, 2.0]),
    "MultivariateNormal": ({"loc": [0.5, -1.0], "covariance_matrix": COVARIANCE}, [0.1, 0.2]),
    "NegativeBinomial": ({"total_count": 5.0, "probs": [0.3, 0.6]}, [2.0, 5.0]),
    "Normal": ({"loc": [0.5, -1.0], "scale": [1.5, 0.3]}, [0.1, 0.2]),
    "OneHotCategorical": ({"probs": [[0.2, 0.3, 0.5]]}, [[0.0, 1.0, 0.0]]),
    "OneHotCategoricalStraightThrough": ({"probs": [[0.2, 0.3, 0.5]]}, [[0.0, 1.0, 0.0]]),
    "Pareto": ({"scale": [1.0, 2.0], "alpha": [2.5, 3.0]}, [1.5, 4.0]),
    "Poisson": ({"rate": [0.5, 4.0]}, [1.0, 3.0]),
    "RelaxedBernoulli": ({"temperature": 0.7, "probs": [0.3, 0.6]}, [0.2, 0.9]),
    "RelaxedOneHotCategorical": ({"temperature": 0.7, "probs": [0.2, 0.3, 0.5]}, [0.2, 0.2, 0.6]),
    "StudentT": ({"df": [3.0, 1.5], "loc": [0.5, -1.0], "scale": [1.5, 0.3]}, [0.1, 0.2]),
    "Uniform": ({"low": [0.5, -1.0], "high": [2.0, 3.0]}, [1.0, 0.2]),
    "VonMises": ({"loc": [0.5, -1.0], "concentration": [1.5, 0.3]}, [0.1, 0.2]),
    "Weibull": ({"scale": [1.5, 0.3], "concentration": [2.0, 1.2]}, [0.4, 0.2]),
    "Wishart": ({"df": 7.0, "covariance_matrix": COVARIANCE}, [[1.5, 0.3], [0.3, 0.9]]),
}  # fmt: skip
FACTS = ("mean", "mode", "variance", "stddev", "entropy", "perplexity", "enumerate_support")
AT = ("log_prob", "cdf", "icdf")


@pytest.fixture(autouse=True)
def _in_doubles() -> Any:
    """PyTorch's generalised Pareto distribution compares with a number of the default dtype."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def made(library: Any, name: str, **more: Any) -> Any:
    tensors = weft if library is ours else torch
    given = {
        key: tensors.tensor(value, dtype=tensors.float64) if isinstance(value, list) else value
        for key, value in CASES[name][0].items()
    }
    if name.startswith("Relaxed"):
        given["temperature"] = tensors.tensor(given["temperature"], dtype=tensors.float64)
    return getattr(library, name)(**given, **more)


def asked(distribution: Any, name: str, *args: Any) -> Any:
    """The fact as an array; None where there is none."""
    try:
        found = getattr(distribution, name)
        found = found(*args) if callable(found) else found
    except NotImplementedError:
        return None
    return np.asarray(found.detach().numpy())


def close(mine: Any, other: Any, what: str) -> None:
    assert (mine is None) == (other is None), what
    if mine is not None:
        assert mine.shape == other.shape, what
        np.testing.assert_allclose(mine, other, 2e-6, 1e-9, err_msg=what)


@pytest.mark.parametrize("name", CASES)
def test_facts(name: str) -> None:
    mine, other = made(ours, name), made(torch.distributions, name)
    assert tuple(mine.batch_shape) == tuple(other.batch_shape)
    assert tuple(mine.event_shape) == tuple(other.event_shape)
    assert bool(mine.has_rsample) == bool(other.has_rsample)
    assert list(mine.arg_constraints) == list(other.arg_constraints) or name == "Pareto"
    at = np.asarray(CASES[name][1])
    for fact in FACTS:
        if (name, fact) not in WIDER:
            close(asked(mine, fact), asked(other, fact), fact)
    for fact in AT:
        first, second = weft.tensor(at), torch.tensor(at)
        if fact == "icdf":
            first, second = first.sigmoid() * 0.5 + 0.2, second.sigmoid() * 0.5 + 0.2
        close(asked(mine, fact, first), asked(other, fact, second), fact)
    assert str(mine.support).replace("weft", "torch").split("(")[0] == str(other.support).split("(")[0]


WIDER = {("Kumaraswamy", "mode")}
"""What PyTorch says of it is NaN."""


@pytest.mark.filterwarnings("ignore:Singular sample")
@pytest.mark.parametrize("name", CASES)
def test_draws(name: str) -> None:
    """Draws fall where they may, have the shape they should, and gradients reach what they do in PyTorch."""
    mine, other = made(ours, name), made(torch.distributions, name)
    weft.manual_seed(1)
    torch.manual_seed(1)
    drawn = mine.sample((3, 4))
    assert tuple(drawn.shape) == tuple(other.sample((3, 4)).shape)
    assert bool(mine.support.check(drawn).all()), drawn
    wide, torchs = mine.expand((5, *mine.batch_shape)), other.expand((5, *other.batch_shape))
    assert tuple(wide.batch_shape) == tuple(torchs.batch_shape) and type(wide) is type(mine)
    at = np.asarray(CASES[name][1])
    close(asked(wide, "log_prob", weft.tensor(at)), asked(torchs, "log_prob", torch.tensor(at)), "expanded")
    assert tuple(wide.sample((2,)).shape) == tuple(torchs.sample((2,)).shape)


@pytest.mark.parametrize("name", [name for name in CASES if made(ours, name).has_rsample])
def test_moments(name: str) -> None:
    """Means of draws, and gradients of these, are those of the formulas."""
    if name in ("Cauchy", "HalfCauchy", "StudentT", "GeneralizedPareto", "FisherSnedecor", "InverseGamma"):
        pytest.skip("heavy tails: means of draws converge too slowly")
    weft.manual_seed(2)
    given = {
        key: weft.tensor(value, dtype=weft.float64, requires_grad=True) if isinstance(value, list) else value
        for key, value in CASES[name][0].items()
    }
    if name.startswith("Relaxed"):
        given["temperature"] = weft.tensor(given["temperature"], dtype=weft.float64)
    mine = getattr(ours, name)(**given)
    draws = mine.rsample((20000,))
    assert draws.requires_grad
    try:
        mean = mine.mean
    except NotImplementedError:
        return
    spread = mine.variance.detach().sqrt()
    assert (((draws.mean(0) - mean) / spread).detach().abs() < 0.05).all()
    leaves = [value for value in given.values() if isinstance(value, weft.Tensor) and value.requires_grad]
    weight = (weft.arange(mean.numel(), dtype=weft.float64) + 1).reshape(mean.shape)
    found = weft.autograd.grad((draws.mean(0) * weight).sum(), leaves, retain_graph=True, allow_unused=True)
    expected = weft.autograd.grad((mean * weight).sum(), leaves, allow_unused=True)
    for first, second in zip(found, expected, strict=True):
        if first is not None:
            second = weft.zeros_like(first) if second is None else second
            if (
                name == "Wishart"
            ):  # the covariance is symmetric: its factor's gradient is spread over both halves
                first, second = first + first.mT, second + second.mT
            assert weft.allclose(first, second, rtol=0.1, atol=0.05), (name, first, second)


def _pairs() -> list[tuple[str, str]]:
    from torch.distributions.kl import _KL_REGISTRY

    return sorted({
        (p.__name__, q.__name__) for p, q in _KL_REGISTRY if p.__name__ in CASES and q.__name__ in CASES
    })  # fmt: skip


@pytest.mark.parametrize("pair", _pairs())
def test_divergences(pair: tuple[str, str]) -> None:
    first, second = pair
    mine = ours.kl_divergence(made(ours, first), changed(ours, second)).numpy()
    other = torch.distributions.kl_divergence(
        made(torch.distributions, first), changed(torch.distributions, second)
    ).numpy()
    np.testing.assert_allclose(mine, other, 1e-6, 1e-8, err_msg=str(pair))


def changed(library: Any, name: str) -> Any:
    """The distribution of the table with other parameters."""
    tensors = weft if library is ours else torch
    given = {}
    for key, value in CASES[name][0].items():
        if isinstance(value, list):
            value = tensors.tensor(value, dtype=tensors.float64)
            value = value**2 if key == "probs" and value.ndim == 1 and name != "Multinomial" else value * 1.1
            if key == "probs":
                value = value.clamp(max=0.97)
            if key in ("low",):
                value = value - 2
        given[key] = value
    return getattr(library, name)(**given)


def test_no_pair_is_missing() -> None:
    from torch.distributions.kl import _KL_REGISTRY

    from weft.distributions.kl import _KL_REGISTRY as known

    theirs = {(p.__name__, q.__name__) for p, q in _KL_REGISTRY}
    mine = {(p.__name__, q.__name__) for p, q in known}
    assert theirs <= mine


TRANSFORMS: dict[str, tuple[tuple[Any, ...], list[Any]]] = {
    "AbsTransform": ((), [0.5, -0.2]), "AffineTransform": ((0.5, -2.0), [0.5, -0.2]), "ExpTransform": ((),
    [0.5, -0.2]),
    "PowerTransform": ((2.5,), [0.5, 0.2]), "SigmoidTransform": ((), [0.5, -0.2]), "TanhTransform": ((),
    [0.5, -0.2]),
    "SoftplusTransform": ((), [0.5, -0.2]), "SoftmaxTransform": ((), [0.5, -0.2, 0.1]),
    "StickBreakingTransform": ((), [0.5, -0.2, 0.1]), "CorrCholeskyTransform": ((), [0.5, -0.2, 0.1]),
    "LowerCholeskyTransform": ((), [[0.5, -0.2], [0.3, 0.1]]),
    "PositiveDefiniteTransform": ((), [[0.5, -0.2], [0.3, 0.1]]),
    "ReshapeTransform": (((2,), (1, 2)), [[0.5, -0.2], [0.3, 0.1]]),
}  # fmt: skip


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms(name: str) -> None:
    args, value = TRANSFORMS[name]
    results = []
    for library, tensors in ((ours.transforms, weft), (torch.distributions.transforms, torch)):
        transform = getattr(library, name)(*args)
        x = tensors.tensor(value, dtype=tensors.float64)
        y = transform(x)
        found = [y, transform.inv(y)]
        try:
            found.append(transform.log_abs_det_jacobian(x, y))
        except NotImplementedError:
            found.append(tensors.zeros(()))
        shapes = (transform.forward_shape(x.shape), transform.inverse_shape(y.shape))
        facts = (
            bool(transform.bijective),
            str(transform.domain),
            str(transform.codomain),
            [*map(tuple, shapes)],
        )
        results.append(([each.numpy() for each in found], facts))
    assert results[0][1] == results[1][1]
    for mine, other in zip(results[0][0], results[1][0], strict=True):
        np.testing.assert_allclose(mine, other, 1e-7, 1e-9)


CONSTRAINTS = (
    "real", "positive", "nonnegative", "unit_interval", "simplex", "lower_cholesky", "corr_cholesky",
    "real_vector",
    "positive_definite", "interval(-1.0, 2.0)", "less_than(1.0)", "greater_than(0.5)",
    "half_open_interval(0.0, 3.0)", "independent(positive, 1)", "stack([positive, real], -1)",
    "cat([positive, real], -1, [3, 3])",
)  # fmt: skip


@pytest.mark.parametrize("text", CONSTRAINTS)
@pytest.mark.parametrize("registry", ["biject_to", "transform_to"])
def test_registries(registry: str, text: str) -> None:
    results = []
    size = 6 if text.startswith("cat") or text == "corr_cholesky" else 2
    value = np.linspace(-1.3, 1.7, size * size).reshape(size, size)
    for library, tensors in ((ours, weft), (torch.distributions, torch)):
        constraint = eval(text, dict(vars(library.constraints)))
        try:
            transform = getattr(library, registry)(constraint)
        except NotImplementedError:
            results.append(None)
            continue
        y = transform(tensors.tensor(value))
        assert bool(constraint.check(y).all())
        results.append((y.numpy(), transform.inv(y).numpy(), str(constraint)))
    if results[1] is None:
        assert results[0] is None
        return
    np.testing.assert_allclose(results[0][0], results[1][0], 1e-9, 1e-12)
    np.testing.assert_allclose(results[0][1], results[1][1], 1e-6, 1e-9)
    assert results[0][2] == results[1][2]


def test_transformed() -> None:
    """Chains of transforms over a distribution, with dimensions that belong together."""
    found = []
    for library, tensors in ((ours, weft), (torch.distributions, torch)):
        base = library.Normal(tensors.zeros(2, 3, dtype=tensors.float64), 1.5)
        transforms = [library.AffineTransform(0.5, 2.0), library.StickBreakingTransform()]
        made = library.TransformedDistribution(library.Independent(base, 1), transforms)
        value = made.transforms[1](
            made.transforms[0](tensors.linspace(-1, 1, 6, dtype=tensors.float64).reshape(2, 3))
        )
        falling = library.TransformedDistribution(base, library.AffineTransform(0.5, -2.0))
        at = tensors.full((3,), 0.3, dtype=tensors.float64)
        found.append([made.log_prob(value), falling.cdf(at), falling.icdf(at), falling.log_prob(at)])
        assert tuple(made.batch_shape) == (2,) and tuple(made.event_shape) == (4,)
        assert tuple(made.expand((5, 2)).sample((7,)).shape) == (7, 5, 2, 4)
    for mine, other in zip(*found, strict=True):
        np.testing.assert_allclose(mine.numpy(), other.numpy(), 1e-9)


def test_mixture() -> None:
    found = []
    for library, tensors in ((ours, weft), (torch.distributions, torch)):
        parts = library.Independent(
            library.Normal(
                tensors.tensor([[0.0, 1.0], [2.0, -1.0], [4.0, 0.5]], dtype=tensors.float64), math.sqrt(2)
            ),
            1,
        )
        chooser = library.Categorical(probs=tensors.tensor([0.2, 0.3, 0.5], dtype=tensors.float64))
        made = library.MixtureSameFamily(chooser, parts)
        at = tensors.tensor([[0.5, 0.1], [3.0, 1.0]], dtype=tensors.float64)
        found.append([made.log_prob(at), made.mean, made.variance])
        assert tuple(made.sample((3,)).shape) == (3, 2)
    for mine, other in zip(*found, strict=True):
        np.testing.assert_allclose(mine.numpy(), other.numpy(), 1e-9)
