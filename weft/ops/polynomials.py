"""Orthogonal polynomials and the rarer Bessel functions, in `special`.

Takes points and degrees (fractions are cut off, below zero everything is 0); gives values. One idea: all
polynomials here obey a recurrence of three terms, so each is its first two and one step; the step runs for
all elements until the highest degree, and each keeps the value of its own. Where a closed form is known,
higher degrees take it, so that a degree costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from weft.core.arrays import Array, ArrayModule, as_array, is_array, namespace
from weft.core.devices import special_functions
from weft.ops.arithmetic import COMPLEX, NARROW, refusing
from weft.ops.families import float_result, pointwise
from weft.ops.record import Op
from weft.ops.samples import Maker, Sample

Step = Callable[[Array, int, Array, Array], Array]
Closed = Callable[[Array, Array], Array]
"""Takes points and degrees, gives values."""
CHECKED = 64
"""After so many steps, it is seen whether any is left that matters."""
FAR = 10_000
"""From this degree on, points outside [-1, 1] take a closed form, too."""


# -- polynomials ---------------------------------------------------------------------------------------------
def _kernel(
    first: Callable[[Array], Array], step: Step, closed: Closed, last: int = FAR
) -> Callable[[Any, Any], Array]:
    """The polynomial with this value at degree one, and one more degree by this step; by its closed form
    where that holds and the degree is above the last that steps are taken to.
    """

    def kernel(x: Any, n: Any) -> Array:
        kind = x.dtype if is_array(x) else n.dtype
        xp = namespace(x, n)
        x, n = xp.broadcast_arrays(xp.asarray(x, dtype=kind), xp.asarray(n, dtype=kind))
        degree = xp.trunc(n)
        degree = xp.where(xp.isfinite(degree), degree, -1)
        before, value = xp.ones_like(x), first(x)
        out = xp.where(degree == 0, before, xp.where(degree > 0, value, kind.type(0)))
        high = (degree > last) & ((abs(x) < 1) | (degree > FAR))
        if high.any():
            out = xp.where(high, closed(xp.where(high, x, 0), xp.where(high, degree, 0)), out)
            degree = xp.where(high, -1, degree)
        for k in range(1, int(degree.max()) if degree.size else 0):
            before, value = value, step(x, k, value, before)
            out = xp.where(degree == k + 1, value, out)
            if k % CHECKED == 0 and not xp.any((degree > k) & ~xp.isnan(value)):
                out = xp.where(degree > k, value, out)  # NaN stays NaN, whatever the degree
                break
        return xp.asarray(out).astype(kind, copy=False)

    return kernel


def _by_angle(kind: str) -> Closed:
    """The four kinds of Chebyshev's by the angle whose cosine the point is: of sizes above 1, which have an
    imaginary one, by the hyperbolic functions.
    """
    shift, numerator, denominator = {
        "t": (0.0, "cos", None), "u": (1.0, "sin", 1.0), "v": (0.5, "cos", 0.5), "w": (0.5, "sin", 0.5),
    }[kind]  # fmt: skip
    mirrored = {"t": "t", "u": "u", "v": "w", "w": "v"}[kind]

    def ratio(xp: ArrayModule, suffix: str, angle: Array, degree: Array) -> Array:
        above: Array = getattr(xp, numerator + suffix)((degree + shift) * angle)
        return above if denominator is None else above / getattr(xp, numerator + suffix)(denominator * angle)

    def at_one(xp: ArrayModule, degree: Array) -> Array:
        return {"t": xp.ones_like(degree), "u": degree + 1, "v": xp.ones_like(degree)}.get(
            kind, 2 * degree + 1
        )

    def closed(x: Array, degree: Array) -> Array:
        xp = namespace(x)
        inside = abs(x) < 1
        out = ratio(xp, "", xp.arccos(xp.where(inside, x, 0)), degree)
        if inside.all():
            return xp.asarray(out)
        beyond = ratio(xp, "h", xp.arccosh(xp.maximum(x, 1)), degree)
        beyond = xp.where(xp.isinf(beyond), xp.nan, beyond)  # what steps would come to
        out = xp.where(inside, out, xp.where(x == 1, at_one(xp, degree), beyond))
        if not (x <= -1).any():
            return xp.asarray(out)
        sign = 1 - 2 * (degree % 2)
        other = _by_angle(mirrored)(xp.where(x <= -1, -x, 1), degree)
        return xp.asarray(xp.where(x <= -1, sign * other, out))

    return closed


def _by_scipy(name: str) -> Closed:
    """Steps as well, but one element at a time, in compiled code."""

    def closed(x: Array, degree: Array) -> Array:
        xp = namespace(x)
        out = getattr(special_functions(x), name)(degree.astype(np.int64), x.astype(np.float64))
        return xp.where(xp.isinf(out), np.nan, out)

    return closed


def _exceeding(x: Array, degree: Array) -> Array:
    """What grows beyond all numbers at every point."""
    return namespace(x).full_like(x, np.nan)


def _samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(2, 3), make.ints(3, low=-1, high=5), grad=False)
    yield Sample(make(3), 4, grad=False)
    yield Sample(1.5, make(3, low=0, high=5), grad=False)


def _polynomial(name: str, kernel: Callable[[Any, Any], Array], doc: str) -> Op:
    return pointwise(
        name, kernel, refusing(float_result, NARROW | COMPLEX, f"{name}_cpu"),
        signature="input: Operand, n: Operand", namespace="special", out=True, samples=_samples,
        trusted=False, doc=doc,
    )  # fmt: skip


def _chebyshev(x: Array, _k: int, value: Array, before: Array) -> Array:
    return 2 * x * value - before


def _shifted(kernel: Callable[[Any, Any], Array]) -> Callable[[Any, Any], Array]:
    """The polynomial of points in [0, 1], stretched to [-1, 1]."""
    return lambda x, n: kernel(2 * x - 1, n)


for _letter, _word, _first, _last in (
    ("t", "first", lambda x: x, 6),
    ("u", "second", lambda x: 2 * x, 8),
    ("v", "third", lambda x: 2 * x - 1, 8),
    ("w", "fourth", lambda x: 2 * x + 1, 8),
):
    _polynomial(
        f"chebyshev_polynomial_{_letter}", _kernel(_first, _chebyshev, _by_angle(_letter), _last),
        f"The Chebyshev polynomial of the {_word} kind and of degree n.",
    )  # fmt: skip
    _polynomial(
        f"shifted_chebyshev_polynomial_{_letter}",
        _shifted(_kernel(_first, _chebyshev, _by_angle(_letter), 6)),
        f"The Chebyshev polynomial of the {_word} kind and of degree n, on [0, 1].",
    )  # fmt: skip
_polynomial(
    "hermite_polynomial_h",
    _kernel(lambda x: 2 * x, lambda x, k, value, before: 2 * (x * value - k * before), _exceeding),
    "The physicist's Hermite polynomial of degree n.",
)
_polynomial(
    "hermite_polynomial_he",
    _kernel(lambda x: x, lambda x, k, value, before: x * value - k * before, _exceeding),
    "The probabilist's Hermite polynomial of degree n.",
)
_polynomial(
    "laguerre_polynomial_l",
    _kernel(
        lambda x: 1 - x,
        lambda x, k, value, before: ((2 * k + 1 - x) * value - k * before) / (k + 1),
        _by_scipy("eval_laguerre"),
    ),
    "The Laguerre polynomial of degree n.",
)
_polynomial(
    "legendre_polynomial_p",
    _kernel(
        lambda x: x,
        lambda x, k, value, before: ((2 * k + 1) * x * value - k * before) / (k + 1),
        _by_scipy("eval_legendre"),
    ),
    "The Legendre polynomial of degree n.",
)


# -- Bessel functions ----------------------------------------------------------------------------------------
def _spherical(x: Array) -> Array:
    xp = namespace(x)
    zero = x == 0
    out = xp.where(zero, 1, xp.where(xp.isinf(x), 0, xp.sin(x) / xp.where(zero, 1, x)))
    return xp.asarray(out).astype(x.dtype, copy=False)


def _bessel(name: str, kernel: Callable[[Array], Array], doc: str) -> Op:
    return pointwise(
        name, kernel, refusing(float_result, NARROW | COMPLEX, f"{name}_cpu"), signature="input: Tensor",
        namespace="special", out=True, trusted=False, doc=doc,
        samples=lambda make: [Sample(make(2, 3, low=0.3, high=4), grad=False), Sample(make(), grad=False)],
    )  # fmt: skip


def _loop(name: str) -> Callable[[Array], Array]:
    return lambda x: as_array(getattr(special_functions(x), name)(x))


for _name, _scipy, _doc in (
    ("bessel_j0", "j0", "The Bessel function of the first kind of order 0."),
    ("bessel_j1", "j1", "The Bessel function of the first kind of order 1."),
    ("bessel_y0", "y0", "The Bessel function of the second kind of order 0."),
    ("bessel_y1", "y1", "The Bessel function of the second kind of order 1."),
    ("modified_bessel_i0", "i0", "The modified Bessel function of the first kind of order 0."),
    ("modified_bessel_i1", "i1", "The modified Bessel function of the first kind of order 1."),
    ("modified_bessel_k0", "k0", "The modified Bessel function of the second kind of order 0."),
    ("modified_bessel_k1", "k1", "The modified Bessel function of the second kind of order 1."),
    ("scaled_modified_bessel_k0", "k0e", "As `modified_bessel_k0`, times exp(x)."),
    ("scaled_modified_bessel_k1", "k1e", "As `modified_bessel_k1`, times exp(x)."),
):
    _bessel(_name, _loop(_scipy), _doc)
_bessel("airy_ai", lambda x: as_array(special_functions(x).airy(x)[0]), "The Airy function Ai.")
_bessel("spherical_bessel_j0", _spherical, "The spherical Bessel function of order 0: sin(x) / x.")
