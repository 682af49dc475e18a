"""Special functions beside mpmath, poles and edges, and the forms with the tensor second."""

from __future__ import annotations

import math
from typing import Any

import mpmath
import numpy as np
import pytest

import weft

NAN, INF = math.nan, math.inf
POINTS = [0.1, 0.7, 1.0, 2.5, 6.0]

TRUTH: dict[str, tuple[Any, list[float]]] = {
    "lgamma": (mpmath.loggamma, POINTS),
    "digamma": (mpmath.digamma, POINTS),
    "erf": (mpmath.erf, [*POINTS, -0.3, 1e-8]),
    "erfc": (mpmath.erfc, [*POINTS, -0.3]),
    "erfinv": (mpmath.erfinv, [0.1, -0.7, 0.99]),
    "special.erfcx": (lambda x: mpmath.exp(x * x) * mpmath.erfc(x), POINTS),
    "special.ndtr": (mpmath.ncdf, [*POINTS, -3.0]),
    "special.log_ndtr": (lambda x: mpmath.log(mpmath.ncdf(x)), [*POINTS, -20.0]),
    "special.i0": (lambda x: mpmath.besseli(0, x), POINTS),
    "special.i0e": (lambda x: mpmath.exp(-x) * mpmath.besseli(0, x), POINTS),
    "special.i1": (lambda x: mpmath.besseli(1, x), POINTS),
    "special.i1e": (lambda x: mpmath.exp(-x) * mpmath.besseli(1, x), POINTS),
    "special.entr": (lambda x: -x * mpmath.log(x), POINTS),
    "logit": (lambda x: mpmath.log(x / (1 - x)), [0.1, 0.5, 0.9]),
}


def function(name: str) -> Any:
    return getattr(weft.special, name.removeprefix("special.")) if "." in name else getattr(weft, name)


def gradient(function: Any, *values: Any) -> list[list[float]]:
    inputs = [weft.tensor(value, dtype=weft.float64, requires_grad=True) for value in values]
    return [g.tolist() for g in weft.autograd.grad(function(*inputs).sum(), inputs)]


@pytest.mark.parametrize("name", TRUTH)
@pytest.mark.parametrize(("kind", "tolerance"), [(weft.float64, 1e-13), (weft.float32, 2e-6)])
def test_values(name: str, kind: weft.dtype, tolerance: float) -> None:
    truth, points = TRUTH[name]
    x = weft.tensor(points, dtype=kind)
    expected = [float(truth(mpmath.mpf(value))) for value in x.double().tolist()]
    np.testing.assert_allclose(function(name)(x).numpy(), expected, rtol=tolerance, atol=tolerance / 10)
    assert function(name)(x).dtype is kind
    assert function(name)(x[0]).shape == ()


def test_complex_and_narrow_types_are_refused() -> None:
    with pytest.raises(NotImplementedError, match="\"erf_vml_cpu\" not implemented for 'ComplexFloat'"):
        weft.erf(weft.tensor([1j]))
    with pytest.raises(NotImplementedError, match="\"erfcx_cpu\" not implemented for 'Half'"):
        weft.special.erfcx(weft.ones(1).half())


def test_poles_of_digamma() -> None:
    got = weft.digamma(weft.tensor([0.0, -0.0, -1.0]))
    assert got.tolist()[:2] == [-INF, INF]
    assert math.isnan(got.tolist()[2])


def test_polygamma_takes_the_order_first_as_a_function_and_last_as_a_method() -> None:
    x = weft.tensor([0.5, 2.0], dtype=weft.float64)
    for n in range(4):
        expected = [float(mpmath.polygamma(n, value)) for value in (0.5, 2.0)]
        for got in (
            weft.polygamma(n, x),
            x.polygamma(n),
            weft.special.polygamma(n, x),
            x.clone().polygamma_(n),
        ):
            np.testing.assert_allclose(got.numpy(), expected, rtol=1e-13)
    with pytest.raises(RuntimeError, match="does not support negative n"):
        weft.polygamma(-1, x)


def test_mvlgamma() -> None:
    x = weft.tensor([2.5, 4.0], dtype=weft.float64)
    expected = [
        float(mpmath.log(mpmath.pi) * 1.5 + sum(mpmath.loggamma(v - mpmath.mpf(j) / 2) for j in range(3)))
        for v in (2.5, 4)
    ]
    np.testing.assert_allclose(weft.mvlgamma(x, 3).numpy(), expected, rtol=1e-13)
    with pytest.raises(RuntimeError, match="p has to be greater than or equal to 1"):
        weft.mvlgamma(x, 0)


def test_in_place_composite_keeps_what_its_gradient_needs() -> None:
    x = weft.tensor([2.5], dtype=weft.float64, requires_grad=True)
    y = x.clone()
    y.mvlgamma_(1).sum().backward()
    assert x.grad.tolist() == pytest.approx([float(mpmath.digamma(2.5))])


def test_xlogy_where_zero_meets_a_pole() -> None:
    x, y = weft.tensor([0.0, 0.0, 2.0, 0.0]), weft.tensor([0.0, INF, 0.0, NAN])
    got = weft.xlogy(x, y).tolist()
    assert got[:3] == [0.0, 0.0, -INF]
    assert math.isnan(got[3])
    assert gradient(weft.xlogy, [0.0], [0.0])[0] == [0.0]
    assert gradient(lambda x: weft.xlogy(x, 0), [0.0]) == [[0.0]]
    assert weft.xlogy(weft.tensor(2.0), 3).dtype is weft.float32
    assert weft.xlogy(2, weft.tensor([1.0])).tolist() == [0.0]
    assert gradient(lambda y: weft.special.xlog1py(3.0, y), [1.0]) == [[1.5]]


def test_logit_clips_where_asked() -> None:
    assert weft.logit(weft.tensor([0.0, 1.0])).tolist() == [-INF, INF]
    assert weft.logit(weft.tensor([-1.0])).isnan().all()
    assert weft.logit(weft.tensor([0.0]), eps=0.5).tolist() == [0.0]
    assert gradient(lambda x: weft.logit(x, 0.2), [0.1, 0.5]) == [[0.0, 4.0]]
    assert math.isnan(gradient(weft.logit, [1.5])[0][0])


def test_gradients_of_bessel_functions_at_zero() -> None:
    assert gradient(weft.special.i1, [0.0]) == [[0.5]]
    assert gradient(weft.special.i1e, [0.0]) == [[0.5]]
    assert gradient(weft.special.i0, [0.0]) == [[0.0]]


def test_zeta() -> None:
    assert weft.special.zeta(2, weft.tensor([1.0])).tolist() == pytest.approx([math.pi**2 / 6])
    assert gradient(lambda q: weft.special.zeta(2.0, q), [1.0])[0] == pytest.approx(
        [-2 * float(mpmath.zeta(3))]
    )


def test_names_in_both_namespaces() -> None:
    assert weft.special.gammaln is weft.lgamma
    assert weft.special.psi is weft.digamma
    assert weft.special.expit is weft.sigmoid
    assert weft.special.multigammaln is weft.mvlgamma


def test_lgamma_at_the_ends() -> None:
    x = weft.tensor([-INF, INF, 0.0, 5e-324, -1e-310, -1.0], dtype=weft.float64)
    expected = [INF, INF, INF, 744.4400719213812, 713.8013788281542, INF]
    assert weft.lgamma(x).tolist() == pytest.approx(expected, rel=1e-15)
    assert weft.lgamma(weft.tensor([-INF, 1e-45])).tolist() == pytest.approx([INF, 103.2789306640625])


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("kind", [weft.float16, weft.bfloat16])
def test_halves_are_rounded_after_each_step(kind: weft.dtype, compiled: bool) -> None:
    """As PyTorch does in these functions, and in few others."""
    random = np.random.default_rng(2)
    x = weft.from_numpy(random.normal(size=300)).to(kind)
    y = weft.from_numpy(random.uniform(0.01, 0.99, 300)).to(kind)
    x[::7] = 0
    low, high = (weft.tensor(bound, dtype=kind) for bound in (0.03, 0.97))
    within = y.maximum(low).minimum(high)
    for function, wanted in (
        (lambda: weft.xlogy(x, y), x * y.log()),
        (lambda: weft.xlogy(x, 3.3), x * weft.tensor([3.3], dtype=kind).log()),
        (lambda: weft.xlogy(3.3, y), weft.tensor([3.3], dtype=kind) * y.log()),
        (lambda: weft.special.xlog1py(x, y), x * y.log1p()),
        (lambda: weft.logit(y), (y / (1 - y)).log()),
        (lambda: weft.logit(y, 0.03), (within / (1 - within)).log()),
    ):
        found = (weft.compile(function) if compiled else function)()
        assert found.dtype is kind
        assert weft.equal(found, wanted)
    assert math.isnan(weft.xlogy(weft.zeros(1, dtype=kind), NAN).item())


@pytest.mark.parametrize("compiled", [False, True])
def test_lgamma_beside_its_zeros(compiled: bool) -> None:
    values = [0.9999999, 1.0000001, 1.9999999, 2.0000001, 0.999, 1.001, 1.05, 0.95, 1.92, 2.09, 1.0, 2.0]
    exact = [float(mpmath.loggamma(mpmath.mpf(value))) for value in values]
    function = weft.compile(lambda x: weft.lgamma(x)) if compiled else weft.lgamma
    assert function(weft.tensor(values, dtype=weft.float64)).tolist() == pytest.approx(
        exact, rel=1e-14, abs=0
    )


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("kind", [weft.float16, weft.bfloat16, weft.float32, weft.float64])
def test_erfinv_keeps_the_signs_of_zeros(kind: weft.dtype, compiled: bool) -> None:
    function = weft.compile(lambda x: weft.erfinv(x)) if compiled else weft.erfinv
    x = weft.tensor([-0.0, 0.0, -1.0, 1.0], dtype=kind)
    assert function(x).signbit().tolist() == [True, False, True, False]
    assert function(weft.tensor(-0.0, dtype=kind)).signbit().item()
