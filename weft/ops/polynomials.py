"""Orthogonal polynomials and the rarer Bessel functions, in `special`.

Takes points and degrees (fractions are cut off, below zero everything is 0); gives values. One idea: all
polynomials here obey a recurrence of three terms, so each is its first two and one step; the step runs for
all elements until the highest degree, and each keeps the value of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from weft.core.arrays import Array, namespace
from weft.core.lazy import lazy
from weft.ops.arithmetic import COMPLEX, NARROW, refusing
from weft.ops.families import float_result, pointwise
from weft.ops.record import Op
from weft.ops.samples import Maker, Sample

special = lazy("scipy.special")
Step = Callable[[Array, int, Array, Array], Array]
CHECKED = 64
"""After so many steps, it is seen whether any is left that matters."""


# -- polynomials ---------------------------------------------------------------------------------------------
def _kernel(first: Callable[[Array], Array], step: Step) -> Callable[[Any, Any], Array]:
    """The polynomial with this value at degree one, and one more degree by this step."""

    def kernel(x: Any, n: Any) -> Array:
        kind = x.dtype if isinstance(x, np.ndarray) else n.dtype
        xp = namespace(x if isinstance(x, np.ndarray) else n)
        x, n = xp.broadcast_arrays(xp.asarray(x, dtype=kind), xp.asarray(n, dtype=kind))
        degree = xp.trunc(n)
        degree = xp.where(xp.isfinite(degree), degree, -1)
        before, value = xp.ones_like(x), first(x)
        out = xp.where(degree == 0, before, xp.where(degree > 0, value, kind.type(0)))
        for k in range(1, int(degree.max()) if degree.size else 0):
            before, value = value, step(x, k, value, before)
            out = xp.where(degree == k + 1, value, out)
            if k % CHECKED == 0 and not xp.any((degree > k) & ~xp.isnan(value)):
                out = xp.where(degree > k, value, out)  # NaN stays NaN, whatever the degree
                break
        return xp.asarray(out).astype(kind, copy=False)

    return kernel


def _samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(2, 3), make.ints(3, low=-1, high=5), grad=False)
    yield Sample(make(3), 4, grad=False)
    yield Sample(1.5, make(3, low=0, high=5), grad=False)


def _polynomial(name: str, first: Callable[[Array], Array], step: Step, doc: str) -> Op:
    return pointwise(
        name, _kernel(first, step), refusing(float_result, NARROW | COMPLEX, f"{name}_cpu"),
        signature="input: Operand, n: Operand", namespace="special", out=True, samples=_samples,
        trusted=False, doc=doc,
    )  # fmt: skip


def _chebyshev(x: Array, _k: int, value: Array, before: Array) -> Array:
    return 2 * x * value - before


def _shifted(x: Array, _k: int, value: Array, before: Array) -> Array:
    return 2 * (2 * x - 1) * value - before


for _letter, _word, _first, _far in (
    ("t", "first", lambda x: x, lambda x: 2 * x - 1),
    ("u", "second", lambda x: 2 * x, lambda x: 2 * (2 * x - 1)),
    ("v", "third", lambda x: 2 * x - 1, lambda x: 2 * (2 * x - 1) - 1),
    ("w", "fourth", lambda x: 2 * x + 1, lambda x: 2 * (2 * x - 1) + 1),
):
    _polynomial(
        f"chebyshev_polynomial_{_letter}", _first, _chebyshev,
        f"The Chebyshev polynomial of the {_word} kind and of degree n.",
    )  # fmt: skip
    _polynomial(
        f"shifted_chebyshev_polynomial_{_letter}", _far, _shifted,
        f"The Chebyshev polynomial of the {_word} kind and of degree n, on [0, 1].",
    )  # fmt: skip
_polynomial(
    "hermite_polynomial_h", lambda x: 2 * x, lambda x, k, value, before: 2 * (x * value - k * before),
    "The physicist's Hermite polynomial of degree n.",
)  # fmt: skip
_polynomial(
    "hermite_polynomial_he", lambda x: x, lambda x, k, value, before: x * value - k * before,
    "The probabilist's Hermite polynomial of degree n.",
)  # fmt: skip
_polynomial(
    "laguerre_polynomial_l", lambda x: 1 - x,
    lambda x, k, value, before: ((2 * k + 1 - x) * value - k * before) / (k + 1),
    "The Laguerre polynomial of degree n.",
)  # fmt: skip
_polynomial(
    "legendre_polynomial_p", lambda x: x,
    lambda x, k, value, before: ((2 * k + 1) * x * value - k * before) / (k + 1),
    "The Legendre polynomial of degree n.",
)  # fmt: skip


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
        samples=lambda make: iter(
            [Sample(make(2, 3, low=0.3, high=4), grad=False), Sample(make(), grad=False)]
        ),
    )  # fmt: skip


def _loop(name: str) -> Callable[[Array], Array]:
    return lambda x: np.asarray(getattr(special, name)(x))


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
_bessel("airy_ai", lambda x: np.asarray(special.airy(x)[0]), "The Airy function Ai.")
_bessel("spherical_bessel_j0", _spherical, "The spherical Bessel function of order 0: sin(x) / x.")
