"""Polynomials against NumPy's series, Bessel functions against mpmath."""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest

import weft

X = np.linspace(-1.5, 2, 9)


@pytest.mark.parametrize(
    ("name", "basis"),
    [
        ("chebyshev_polynomial_t", np.polynomial.Chebyshev.basis),
        ("hermite_polynomial_h", np.polynomial.Hermite.basis),
        ("hermite_polynomial_he", np.polynomial.HermiteE.basis),
        ("laguerre_polynomial_l", np.polynomial.Laguerre.basis),
        ("legendre_polynomial_p", np.polynomial.Legendre.basis),
    ],
)
def test_series(name: str, basis: Any) -> None:
    function = getattr(weft.special, name)
    for degree in range(6):
        np.testing.assert_allclose(function(weft.from_numpy(X), degree).numpy(), basis(degree)(X), rtol=1e-12)
    mixed = function(weft.from_numpy(X[:3]), weft.tensor([-1, 2, 5]))
    np.testing.assert_allclose(mixed.numpy(), [0, basis(2)(X[1]), basis(5)(X[2])], rtol=1e-6)


def test_kinds_of_chebyshev_by_angle() -> None:
    angle = np.linspace(0.1, 3, 7)
    x, n = weft.from_numpy(np.cos(angle)), 4
    wanted = {
        "u": np.sin((n + 1) * angle) / np.sin(angle),
        "v": np.cos((n + 0.5) * angle) / np.cos(angle / 2),
        "w": np.sin((n + 0.5) * angle) / np.sin(angle / 2),
    }
    for kind, value in wanted.items():
        np.testing.assert_allclose(getattr(weft.special, f"chebyshev_polynomial_{kind}")(x, n), value)
        shifted = getattr(weft.special, f"shifted_chebyshev_polynomial_{kind}")((x + 1) / 2, n)
        np.testing.assert_allclose(shifted, value)


@pytest.mark.parametrize(
    ("name", "exact"),
    [
        ("bessel_j0", lambda x: mpmath.besselj(0, x)),
        ("bessel_j1", lambda x: mpmath.besselj(1, x)),
        ("bessel_y0", lambda x: mpmath.bessely(0, x)),
        ("bessel_y1", lambda x: mpmath.bessely(1, x)),
        ("modified_bessel_i0", lambda x: mpmath.besseli(0, x)),
        ("modified_bessel_i1", lambda x: mpmath.besseli(1, x)),
        ("modified_bessel_k0", lambda x: mpmath.besselk(0, x)),
        ("modified_bessel_k1", lambda x: mpmath.besselk(1, x)),
        ("scaled_modified_bessel_k0", lambda x: mpmath.besselk(0, x) * mpmath.exp(x)),
        ("scaled_modified_bessel_k1", lambda x: mpmath.besselk(1, x) * mpmath.exp(x)),
        ("airy_ai", mpmath.airyai),
        ("spherical_bessel_j0", lambda x: mpmath.sin(x) / x),
    ],
)
def test_bessel(name: str, exact: Any) -> None:
    x = np.array([0.01, 0.3, 0.49, 1.0, 2.5, 7.0])
    wanted = [float(exact(mpmath.mpf(v))) for v in x]
    np.testing.assert_allclose(getattr(weft.special, name)(weft.from_numpy(x)), wanted, rtol=1e-12)
    with pytest.raises(NotImplementedError, match=f'"{name}_cpu" not implemented for .Half'):
        getattr(weft.special, name)(weft.ones(1, dtype=weft.float16))


HIGHEST = {
    "chebyshev_polynomial_t": lambda n, a: np.cos(n * a),
    "chebyshev_polynomial_u": lambda n, a: np.sin((n + 1) * a) / np.sin(a),
    "chebyshev_polynomial_v": lambda n, a: np.cos((n + 0.5) * a) / np.cos(a / 2),
    "chebyshev_polynomial_w": lambda n, a: np.sin((n + 0.5) * a) / np.sin(a / 2),
}


@pytest.mark.parametrize("name", HIGHEST)
def test_the_highest_degrees_take_no_steps(name: str) -> None:
    x = weft.tensor([0.3, -0.7, 0.99], dtype=weft.float64)
    expected = HIGHEST[name](1e9, np.arccos(x.numpy()))
    assert np.allclose(getattr(weft.special, name)(x, 1e9).numpy(), expected)
    assert np.allclose(
        getattr(weft.special, "shifted_" + name)((x + 1) / 2, 1e9).numpy(), expected, rtol=1e-3
    )
    ends = getattr(weft.special, name)(weft.tensor([1.0, -1.0, 2.0], dtype=weft.float64), 1e9 + 1)
    large = 2e9 + 3 if name[-1] in "vw" else 1e9 + 2
    plus = 1 if name[-1] in "tv" else large
    minus = {"t": -1, "u": -large, "v": -large, "w": -1}[name[-1]]
    assert np.allclose(ends.numpy(), [plus, minus, np.nan], equal_nan=True)


@pytest.mark.parametrize("name", HIGHEST)
@pytest.mark.parametrize("x", [1.0001, -1.0001, 1.0, -1.0, 0.2])
def test_closed_forms_agree_with_steps(name: str, x: float) -> None:
    point = weft.tensor(x, dtype=weft.float64)
    before, value = 1.0, float(getattr(weft.special, name)(point, 1))
    for _step in range(10_001):
        before, value = value, 2 * x * value - before
    assert np.isclose(float(getattr(weft.special, name)(point, 10_002)), value, rtol=1e-7)


def test_other_polynomials_of_high_degrees_end() -> None:
    x = weft.tensor([0.3, 1.0, -3.0], dtype=weft.float64)
    assert float(weft.special.legendre_polynomial_p(x, 1e6)[1]) == 1
    assert abs(float(weft.special.legendre_polynomial_p(x, 1e6)[0])) < 1e-3
    assert weft.special.hermite_polynomial_he(x, 1e9).isnan().all()
    assert abs(float(weft.special.laguerre_polynomial_l(x, 1e6)[0])) < 0.1
