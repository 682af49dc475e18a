"""Array kernels for functions that NumPy has no fast loop for: sigmoid, erf, gelu, softplus and their kin.

Takes float32, float64 or complex arrays, gives arrays of the same kind. One idea: a formula of many NumPy
calls runs at the speed of the cache, not of memory, when it is applied to pieces of the array that fit there
(`blocked`), each call writing in place.
"""

from __future__ import annotations

from collections.abc import Callable
from math import pi, sqrt
from types import EllipsisType
from typing import Any, Final

import numpy as np

import weft.ops.bodies as bodies
from weft.core.arrays import MODULES, Array, as_array, namespace
from weft.core.devices import special_functions
from weft.ops.values import BodyBuilder, Element

BLOCK: Final = (
    1 << 16
)  # elements a piece; measured best of 2**11 … 2**17 for float32 with 1 MB of second-level cache
Body = Callable[..., Any]
# Zero-dim arrays: beside a bare number, a call of NumPy's takes twice as long on a small array.
ZERO: Final = {np.dtype(kind): np.zeros((), kind) for kind in "?bBhilefdFD"}
ONE: Final = {kind: np.ones((), kind) for kind in ZERO}


def blocked(body: Body, first: Array, *others: Array) -> Array:
    """An array like `first`, filled by `body(out, first, *others)` on cache-sized pieces where possible."""
    if first.ndim > 0 and first.size <= BLOCK:
        for other in others:
            if other.shape != first.shape:
                break
        else:
            out = MODULES[type(first)].empty_like(first)
            body(out, first, *others)
            return out
    arrays = (first, *others)
    same = all(a.shape == first.shape for a in others)
    if same:
        out = namespace(first).empty_like(first)
    else:
        out = namespace(first).empty(np.broadcast_shapes(*[a.shape for a in arrays]), first.dtype)
    if first.size <= BLOCK or not same or not all(a.flags.c_contiguous for a in arrays):
        body(
            *[a if a.ndim else a.reshape(1) for a in (out, *arrays)]
        )  # NumPy turns zero-dim results into scalars
        return out
    flat = [a.reshape(-1) for a in arrays]
    target = out.reshape(-1)
    for start in range(0, first.size, BLOCK):
        piece = slice(start, start + BLOCK)
        body(target[piece], *[a[piece] for a in flat])
    return out


def positive_part(x: Array, out: Array | EllipsisType) -> Array:
    """max(x, 0) for floats.

    np.clip is three times faster than np.maximum with a number, for which NumPy has no SIMD loop.
    """
    return MODULES[type(x)].clip(x, 0, np.inf, out=out)


def _polynomial(out: Array, u: Array, coefficients: tuple[float, ...]) -> None:
    """out = c0 + c1 u + c2 u² + …, by Horner's rule, in place."""
    xp = MODULES[type(out)]
    xp.multiply(u, coefficients[-1], out=out)
    for c in coefficients[-2:0:-1]:
        xp.add(out, c, out=out)
        xp.multiply(out, u, out=out)
    xp.add(out, coefficients[0], out=out)


# -- the logistic function -----------------------------------------------------------------------------------
def _sigmoid_body(out: Array, x: Array) -> None:
    xp = MODULES[type(out)]
    xp.negative(x, out=out)
    xp.exp(out, out=out)
    one = ONE[out.dtype] if xp is np else 1
    xp.add(out, one, out=out)
    xp.divide(one, out, out=out)


def sigmoid(x: Array) -> Array:
    return blocked(_sigmoid_body, x)


def emit_sigmoid(b: BodyBuilder, x: Element) -> Any:
    return bodies.reciprocal(b, b.add(b.exp(b.neg(x)), b.like(1, x)))


def _sigmoid_backward_body(out: Array, g: Array, s: Array) -> None:
    xp = MODULES[type(out)]
    xp.subtract(ONE[out.dtype] if xp is np else 1, s, out=out)
    xp.multiply(out, s, out=out)
    xp.multiply(out, g, out=out)


def sigmoid_backward(g: Array, s: Array) -> Array:
    """The gradient where the sigmoid was s."""
    return blocked(_sigmoid_backward_body, g, s)


def _tanh_backward_body(out: Array, g: Array, t: Array) -> None:
    xp = MODULES[type(out)]
    xp.multiply(t, t, out=out)
    xp.subtract(ONE[out.dtype] if xp is np else 1, out, out=out)
    xp.multiply(out, g, out=out)


def tanh_backward(g: Array, t: Array) -> Array:
    """The gradient where the tanh was t."""
    return blocked(_tanh_backward_body, g, t)


def _silu_body(out: Array, x: Array) -> None:
    xp = MODULES[type(out)]
    xp.negative(x, out=out)
    xp.exp(out, out=out)
    xp.add(out, ONE[out.dtype] if xp is np else 1, out=out)
    xp.divide(x, out, out=out)


def silu(x: Array) -> Array:
    return blocked(_silu_body, x)


def emit_silu(b: BodyBuilder, x: Element) -> Any:
    return b.div(x, b.add(b.exp(b.neg(x)), b.like(1, x)))


def _mish_body(out: Array, x: Array) -> None:
    """tanh(log(1 + e)) is n / (n + 2) with n = e (e + 2); beyond 40 that is 1 in any precision."""
    xp = MODULES[type(out)]
    xp.clip(x, -np.inf, 40, out=out)
    xp.exp(out, out=out)
    xp.multiply(out, xp.add(out, 2), out=out)
    xp.divide(out, xp.add(out, 2), out=out)
    xp.multiply(out, x, out=out)


def mish(x: Array) -> Array:
    return blocked(_mish_body, x)


def emit_mish(b: BodyBuilder, x: Element) -> Any:
    two = b.like(2, x)
    power = b.exp(b.min(x, b.like(40, x)))
    top = b.mul(power, b.add(power, two))
    return b.mul(b.div(top, b.add(top, two)), x)


# -- logarithms of one plus something ------------------------------------------------------------------------
def _log1p(out: Array, u: Array) -> None:
    """out = log(1 + u) for finite u ≥ 0.

    The rounding error of 1 + u is known, and its effect added. May not be in place.
    """
    xp = MODULES[type(out)]
    w = xp.add(u, 1)
    xp.subtract(w, 1, out=out)
    xp.subtract(u, out, out=out)
    xp.divide(out, w, out=out)
    xp.add(out, xp.log(w, out=w), out=out)


def _emit_log1p(b: BodyBuilder, u: Element) -> Any:
    one = b.like(1, u)
    w = b.add(u, one)
    return b.add(b.div(b.sub(u, b.sub(w, one)), w), b.log(w))


def _log_of_one_plus_exp(out: Array, x: Array) -> None:
    """out = log(1 + exp(x)) as max(x, 0) + log1p(exp(-|x|))."""
    xp = MODULES[type(out)]
    u = xp.absolute(x)
    xp.negative(u, out=u)
    xp.exp(u, out=u)
    _log1p(out, u)
    xp.add(out, positive_part(x, u), out=out)


def _emit_log_of_one_plus_exp(b: BodyBuilder, x: Element) -> Any:
    return b.add(_emit_log1p(b, b.exp(b.neg(b.abs(x)))), bodies.positive_part(b, x))


def softplus(x: Array, beta: float, threshold: float) -> Array:
    """log(1 + exp(beta x)) / beta, and x itself where beta x is above the threshold."""

    def body(out: Array, x: Array) -> None:
        xp = MODULES[type(out)]
        _log_of_one_plus_exp(out, x if beta == 1 else xp.multiply(x, beta))
        if beta != 1:
            xp.divide(out, beta, out=out)
        if threshold < 17 or out.dtype.itemsize > 4:  # above 17, float32 cannot tell the two forms apart
            linear = xp.greater(x if beta == 1 else xp.multiply(x, beta), threshold)
            if linear.any():
                xp.copyto(out, x, where=linear)

    return blocked(body, x)


def emit_softplus(b: BodyBuilder, x: Element, beta: float, threshold: float) -> Any:
    scaled = x if beta == 1 else b.mul(x, b.like(beta, x))
    out = _emit_log_of_one_plus_exp(b, scaled)
    if beta != 1:
        out = b.div(out, b.like(beta, x))
    if threshold < 17 or x.type == "f64":
        out = b.select(b.gt(scaled, b.like(threshold, x)), x, out)
    return out


def _log_sigmoid_body(out: Array, x: Array) -> None:
    xp = MODULES[type(out)]
    _log_of_one_plus_exp(out, xp.negative(x))
    xp.subtract(0, out, out=out)  # no negative zero


def log_sigmoid(x: Array) -> Array:
    return blocked(_log_sigmoid_body, x)


def emit_log_sigmoid(b: BodyBuilder, x: Element) -> Any:
    return b.sub(b.like(0, x), _emit_log_of_one_plus_exp(b, b.neg(x)))


def _logaddexp_body(out: Array, x: Array, y: Array) -> None:
    """max + log1p(exp(-|x - y|)).

    fmin takes the NaN of two equal infinities for 1; other NaN come back with the maximum.
    """
    xp = MODULES[type(out)]
    u = xp.subtract(x, y, out=...)
    xp.absolute(u, out=u)
    xp.negative(u, out=u)
    xp.exp(u, out=u)
    xp.fmin(u, xp.ones_like(u), out=u)
    _log1p(out, u)
    xp.add(out, xp.maximum(x, y), out=out)


def logaddexp(x: Array, y: Array) -> Array:
    if x.dtype.kind == "c":
        xp = namespace(x)
        swap = xp.less(x.real, y.real)
        high, low = xp.where(swap, y, x), xp.where(swap, x, y)
        sum_ = xp.add(high, xp.log1p(xp.exp(xp.subtract(low, high))))
        infinite = xp.logical_and(xp.equal(x, y), xp.isinf(x.real))
        return xp.where(infinite, x, sum_)
    return blocked(_logaddexp_body, x, y)


def emit_logaddexp(b: BodyBuilder, x: Element, y: Element) -> Any:
    u, one = b.exp(b.neg(b.abs(b.sub(x, y)))), b.like(1, x)
    u = b.select(b.le(u, one), u, one)
    return b.add(_emit_log1p(b, u), b.max(x, y))


# -- the error function --------------------------------------------------------------------------------------
# erf(z) = tanh(z P(z²)), P a least-maximum fit on |z| ≤ 4, where float32's erf becomes 1. Relative error at
# most 1e-7 in exact arithmetic and 2.7e-7 as computed.
_ERF: Final = (
    1.128379225730896,
    0.10276905447244644,
    -0.00019183378026355058,
    -0.0006197822513058782,
    8.763650112086907e-05,
    -5.668349331244826e-06,
    1.4184547580953222e-07,
)
_ERF_HALF: Final = tuple(c / (sqrt(2) * 2**k) for k, c in enumerate(_ERF))  # the same for erf(x / √2)


def _erf_parts(out: Array, x: Array, limit: float, coefficients: tuple[float, ...]) -> None:
    xp = MODULES[type(out)]
    u = xp.multiply(x, x)
    xp.clip(u, 0, limit, out=u)
    _polynomial(out, u, coefficients)
    xp.multiply(out, x, out=out)
    xp.tanh(out, out=out)


def _emit_erf_parts(b: BodyBuilder, x: Element, limit: float, coefficients: tuple[float, ...]) -> Any:
    u = bodies.clip(b, b.mul(x, x), 0, limit)
    out = b.mul(u, b.like(coefficients[-1], x))
    for each in coefficients[-2:0:-1]:
        out = b.mul(b.add(out, b.like(each, x)), u)
    return b.tanh(b.mul(b.add(out, b.like(coefficients[0], x)), x))


def emit_erf(b: BodyBuilder, x: Element) -> Any:
    return _emit_erf_parts(b, x, 16, _ERF) if x.type == "f32" else b.erf(x)


def _erf_body(out: Array, x: Array) -> None:
    _erf_parts(out, x, 16, _ERF)


def erf(x: Array) -> Array:
    if x.dtype.itemsize == 4:
        return blocked(_erf_body, x)
    return as_array(special_functions(x).erf(x))


def _normal_cdf(out: Array, x: Array) -> None:
    """out = Φ(x), the share of a standard normal distribution below x."""
    xp = MODULES[type(out)]
    if x.dtype.itemsize == 4:
        _erf_parts(out, x, 32, _ERF_HALF)
        xp.add(out, 1, out=out)
        xp.multiply(out, 0.5, out=out)
    else:
        special_functions(x).ndtr(x, out=out)


def _emit_normal_cdf(b: BodyBuilder, x: Element) -> Any:
    half = b.like(0.5, x)
    if x.type == "f32":
        return b.mul(b.add(_emit_erf_parts(b, x, 32, _ERF_HALF), b.like(1, x)), half)
    return b.mul(b.erfc(b.mul(x, b.like(-sqrt(0.5), x))), half)


def emit_gelu(b: BodyBuilder, x: Element, approximate: str) -> Any:
    if approximate == "none":
        return b.mul(_emit_normal_cdf(b, x), x)
    inner = b.mul(b.mul(x, x), b.like(GELU_SLOPE * GELU_CUBIC, x))
    inner = b.mul(b.add(inner, b.like(GELU_SLOPE, x)), x)
    return b.mul(b.mul(b.add(b.tanh(inner), b.like(1, x)), x), b.like(0.5, x))


def emit_gelu_backward(b: BodyBuilder, g: Element, x: Element) -> Any:
    density = b.mul(b.exp(b.mul(b.mul(x, x), b.like(-0.5, x))), x)
    density = b.mul(density, b.like(1 / sqrt(2 * pi), x))
    return b.mul(b.add(_emit_normal_cdf(b, x), density), g)


def _gelu_body(out: Array, x: Array) -> None:
    _normal_cdf(out, x)
    MODULES[type(out)].multiply(out, x, out=out)


def gelu(x: Array) -> Array:
    """x Φ(x)."""
    return blocked(_gelu_body, x)


def _gelu_backward_body(out: Array, g: Array, x: Array) -> None:
    xp = MODULES[type(out)]
    density = xp.multiply(x, x)
    xp.multiply(density, -0.5, out=density)
    xp.exp(density, out=density)
    xp.multiply(density, x, out=density)
    xp.multiply(density, 1 / sqrt(2 * pi), out=density)
    _normal_cdf(out, x)
    xp.add(out, density, out=out)
    xp.multiply(out, g, out=out)


def gelu_backward(g: Array, x: Array) -> Array:
    """g (Φ(x) + x φ(x))."""
    return blocked(_gelu_backward_body, g, x)


GELU_SLOPE: Final = sqrt(2 / pi)
GELU_CUBIC: Final = 0.044715


def _gelu_tanh_body(out: Array, x: Array) -> None:
    xp = MODULES[type(out)]
    xp.multiply(x, x, out=out)
    xp.multiply(out, GELU_SLOPE * GELU_CUBIC, out=out)
    xp.add(out, GELU_SLOPE, out=out)
    xp.multiply(out, x, out=out)
    xp.tanh(out, out=out)
    xp.add(out, 1, out=out)
    xp.multiply(out, x, out=out)
    xp.multiply(out, 0.5, out=out)


def gelu_tanh(x: Array) -> Array:
    """The approximation of gelu by a tanh of a cubic."""
    return blocked(_gelu_tanh_body, x)
