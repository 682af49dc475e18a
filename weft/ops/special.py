"""Special functions: gamma, error functions, Bessel functions, and logarithms that are right at zero.

Kernels come from scipy.special, which is loaded when the first of them runs. One idea: scipy computes in the
precision of its input, so these records differ from elementary ones only in where their loops come from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import log as ln
from math import pi, sqrt
from typing import Any

import numpy as np

import weft.ops.bodies as bodies
import weft.ops.node_names as node_names
from weft.core import dtypes
from weft.core.arrays import Array, as_array, namespace
from weft.core.devices import special_functions
from weft.core.dtypes import HALVES, dtype_of
from weft.core.types import TensorType
from weft.ops.arithmetic import (
    COMPLEX,
    NARROW,
    add,
    div,
    is_bare,
    keep,
    mul,
    neg,
    reciprocal,
    refusing,
    rsub,
    sub,
)
from weft.ops.elementary import exp, log
from weft.ops.facts import Rule
from weft.ops.families import UNARY, composite, float_result, pointwise
from weft.ops.kernels import elementwise
from weft.ops.record import Op, ops, type_of, unsupported
from weft.ops.samples import Maker, Sample, binary_samples
from weft.ops.values import BodyBuilder, Element, Operand, TensorLike

ROOT_PI = sqrt(pi)


def from_scipy(name: str) -> Callable[..., Array]:
    """A kernel that finds its loop in scipy.special at the first call."""

    def kernel(*operands: Any) -> Array:
        if len(operands) == 2 and is_bare(
            operands[1]
        ):  # to scipy a bare int is an int64, and the result a double
            operands = (operands[0], operands[0].dtype.type(operands[1]))
        return as_array(getattr(special_functions(*operands), name)(*operands))

    return kernel


def _special(name: str, kernel: Rule | None = None, label: str = "", halves: bool = True, **facts: Any) -> Op:
    """A function in the `special` namespace alone: floats only, out= but no in-place form. Its kernel is
    SciPy's, and PyTorch's is called after it, unless others are given.
    """
    refused = COMPLEX if halves else COMPLEX | NARROW
    promotion = refusing(float_result, refused, label or f"{name}_cpu")
    facts.setdefault("signature", UNARY)
    return pointwise(name, kernel or from_scipy(name), promotion, namespace="special", out=True, **facts)


def _plain(name: str, vjp: Rule, kernel: Rule | None = None, **facts: Any) -> Op:
    """A function of one number that is found in `special`, too."""
    promotion = refusing(float_result, COMPLEX, f"{name}_vml_cpu")
    facts.setdefault("aliases", (f"special.{name}",))
    return pointwise(name, kernel or from_scipy(name), promotion, UNARY, vjp=vjp, **facts)


# -- gamma ---------------------------------------------------------------------------------------------------
def _lgamma(x: Array) -> Array:
    """SciPy's, which is not infinite where x is negative infinity, and is where x is subnormal. Beside its
    zeros at 1 and 2 only SciPy's complex one has all digits of float64.
    """
    xp = namespace(x)
    functions = special_functions(x)
    out = as_array(functions.gammaln(x))
    if out.dtype.itemsize > 4:
        near = xp.less(xp.abs(xp.subtract(xp.abs(xp.subtract(x, 1.5)), 0.5)), 0.1)
        if near.any():
            out[near] = functions.loggamma(xp.asarray(x[near], np.complex128)).real
    odd = xp.logical_or(xp.equal(x, -np.inf), xp.less(xp.abs(x), np.finfo(out.dtype).tiny))
    if odd.any():
        out = xp.where(odd, xp.negative(xp.log(xp.minimum(xp.abs(x), 1))), out)
        out = xp.where(xp.equal(x, -np.inf), out.dtype.type(np.inf), out)
    return out


lgamma: Op = _plain(
    "lgamma",
    lambda g, _out, x: mul(g, digamma(x)),
    _lgamma,
    emit=lambda b, x: b.select(b.eq(x, b.like(float("-inf"), x)), b.like(float("inf"), x), b.lgamma(x)),
    domain=(0.3, 4),
    aliases=("special.gammaln",),
)


def _digamma(x: Array) -> Array:
    """Poles of either sign at the zeros, as in PyTorch; NaN at the other poles."""
    xp = namespace(x)
    out = as_array(special_functions(x).digamma(x))
    zero = xp.equal(x, 0)
    if zero.any():
        out[zero] = xp.copysign(np.inf, -x[zero])
    return out


digamma: Op = pointwise(
    "digamma",
    _digamma,
    refusing(float_result, COMPLEX, "digamma"),
    UNARY,
    domain=(0.3, 4),
    vjp=lambda g, _out, x: mul(g, ops.polygamma(1, x)),
    aliases=("special.digamma", "special.psi"),
)


def _polygamma(x: Array, n: int) -> Array:
    if n == 0:
        return _digamma(x)
    return as_array(special_functions(x).polygamma(n, x)).astype(x.dtype, copy=False)


def _polygamma_rule(x: TensorType, n: int) -> TensorType:
    if n < 0:
        raise RuntimeError("polygamma(n, x) does not support negative n.")
    return gamma_result.rule(polygamma_of, (x, n))


def _polygamma_samples(make: Maker) -> Iterator[Sample]:
    for n in range(4):
        yield Sample(make(2, 3, low=0.5, high=3), n)
    yield Sample(make(low=0.5), 1)


gamma_result = refusing(float_result, COMPLEX, "trigamma")
polygamma_of: Op = pointwise(
    "polygamma",
    _polygamma,
    gamma_result,
    signature="input: Tensor, n: int",
    namespace="method",
    method=True,
    function=False,
    inplace=True,
    rule=_polygamma_rule,
    samples=_polygamma_samples,
    trusted=False,
    vjp=lambda g, _out, x, n: mul(g, polygamma_of(x, n + 1)),
)


@composite(
    "n: int, input: Tensor",
    out=True,
    method=False,
    aliases=("special.polygamma",),
    samples=lambda make: iter(Sample(n, make(2, 3, low=0.5, high=3)) for n in range(3)),
)
def polygamma(n: int, input: TensorLike) -> Any:
    """The n-th derivative of digamma. As a function it takes n first, as a method the tensor."""
    return polygamma_of(input, n)


@composite(
    "input: Tensor, p: int",
    method=True,
    inplace=True,
    out=True,
    aliases=("special.multigammaln",),
    samples=lambda make: [Sample(make(2, 3, low=2, high=4), 3), Sample(make(low=1, high=2), 1)],
)
def mvlgamma(input: TensorLike, p: int) -> Any:
    """The logarithm of the multivariate gamma function of dimension p."""
    if p < 1:
        raise RuntimeError("p has to be greater than or equal to 1")
    if type_of(input).dtype in COMPLEX:
        raise unsupported("arange_cpu", type_of(input).dtype)
    total = add(lgamma(input), p * (p - 1) * ln(pi) / 4)
    for step in range(1, p):
        total = add(total, lgamma(sub(input, step / 2)))
    return total


def _zeta_gradient(g: TensorLike, x: Any, q: Operand) -> Any:
    return mul(g, mul(neg(zeta(add(x, 1), q)) if not is_bare(x) else neg(zeta(x + 1, q)), x))


zeta = _special(
    "zeta",
    halves=False,
    signature="input: Operand, other: Operand",
    samples=lambda make: iter(
        Sample(*pair, grad=False)
        for pair in ((make(2, 3, low=1.5, high=3), make(3, low=1, high=3)), (2, make(2, low=1)))
    ),
    vjp=(None, lambda g, _out, x, q: _zeta_gradient(g, x, q)),
)


# -- error functions and the normal distribution -------------------------------------------------------------
def _bell(x: TensorLike, rate: float = 1.0) -> Any:
    """exp(-rate x²)."""
    return exp(mul(mul(x, x), -rate))


erf = _plain(
    "erf",
    lambda g, _out, x: mul(g, mul(_bell(x), 2 / ROOT_PI)),
    elementwise.erf,
    emit=elementwise.emit_erf,
    native_above=True,
)
erfc = _plain(
    "erfc",
    lambda g, _out, x: mul(g, mul(_bell(x), -2 / ROOT_PI)),
    emit=lambda b, x: b.erfc(x),
    native_above=True,
)
erfinv = _plain(
    "erfinv",
    lambda g, _out, x: mul(g, mul(_bell(ops.erfinv(x), -1.0), ROOT_PI / 2)),
    lambda x: namespace(x).copysign(from_scipy("erfinv")(x), x, out=...),  # zeros keep their signs
    domain=(-0.9, 0.9),
)
erfcx = _special("erfcx", halves=False, vjp=lambda g, out, x: mul(g, sub(mul(mul(x, out), 2), 2 / ROOT_PI)))
ndtr = _special(
    "ndtr",
    label="erf_vml_cpu",
    vjp=lambda g, _out, x: mul(g, mul(_bell(x, 0.5), 1 / sqrt(2 * pi))),
)
ndtri = _special(
    "ndtri",
    halves=False,
    domain=(0.1, 0.9),
    vjp=lambda g, out: mul(g, mul(_bell(out, -0.5), sqrt(2 * pi))),
)
log_ndtr = _special(
    "log_ndtr",
    halves=False,
    vjp=lambda g, _out, x: mul(div(g, erfcx(mul(x, -sqrt(0.5)))), sqrt(2 / pi)),
)


# -- Bessel functions ----------------------------------------------------------------------------------------
def _away_from_zero(x: TensorLike) -> Any:
    """x, with a tiny number where it is too small to divide by, and where it is not."""
    eps = dtypes.finfo(type_of(x).dtype).eps
    large = ops.gt(ops.abs(x), eps)
    return ops.where(large, x, eps), large


def _i1_gradient(g: TensorLike, out: TensorLike, x: TensorLike) -> Any:
    safe, large = _away_from_zero(x)
    return mul(g, ops.where(large, sub(i0(safe), div(out, safe)), 0.5))


def _i1e_gradient(g: TensorLike, out: TensorLike, x: TensorLike) -> Any:
    safe, large = _away_from_zero(x)
    slope = sub(i0e(safe), mul(out, add(ops.sgn(safe), reciprocal(safe))))
    return mul(g, ops.where(large, slope, 0.5))


i0: Op = _plain("i0", lambda g, _out, x: mul(g, i1(x)))
i0e: Op = _special("i0e", vjp=lambda g, out, x: mul(g, sub(i1e(x), mul(ops.sgn(x), out))))
i1: Op = _special("i1", vjp=lambda g, out, x: _i1_gradient(g, out, x))
i1e: Op = _special("i1e", vjp=lambda g, out, x: _i1e_gradient(g, out, x))


# -- logarithms ----------------------------------------------------------------------------------------------
def _emit_entr(b: BodyBuilder, x: Element) -> Any:
    zero = b.like(0, x)
    made = b.select(b.gt(x, zero), b.mul(b.neg(x), b.log(x)), b.like(float("-inf"), x))
    return b.select(b.isnan(x), x, b.select(b.eq(x, zero), zero, made))


entr = _special(
    "entr",
    emit=_emit_entr,
    domain=(0.2, 2),
    vjp=lambda g, _out, x: mul(g, sub(neg(log(x)), 1)),
)


def _logit(x: Array, eps: float | None) -> Array:
    xp = namespace(x)
    if eps is not None:
        x = xp.minimum(xp.maximum(x, xp.asarray(eps, x.dtype)), xp.asarray(1 - eps, x.dtype))
    return xp.log(xp.divide(x, xp.subtract(1, x)), out=...)


def _emit_logit(b: BodyBuilder, x: Element, eps: float | None) -> Any:
    x = x if eps is None else bodies.clip(b, x, eps, 1 - eps)
    return b.log(b.div(x, b.sub(b.like(1, x), x)))


def _logit_gradient(g: TensorLike, x: TensorLike, eps: float | None) -> Any:
    slope = div(g, mul(x, rsub(x, 1)))
    low, high = (0.0, 1.0) if eps is None else (eps, 1 - eps)
    inside = ops.logical_and(ops.ge(x, low), ops.le(x, high))
    return keep(slope, inside) if eps is not None else ops.where(inside, slope, float("nan"))


def _logit_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(2, 3, low=0.1, high=0.9))
    yield Sample(make(2, 3, low=-0.5, high=1.5), 0.2)
    yield Sample(make(low=0.1, high=0.9), eps=0.01)


logit = pointwise(
    "logit",
    _logit,
    refusing(float_result, COMPLEX, "logit_cpu"),
    signature="input: Tensor, eps: float = None",
    samples=_logit_samples,
    emit=_emit_logit,
    aliases=("special.logit",),
    vjp=lambda g, _out, x, eps: _logit_gradient(g, x, eps),
    native_above=True,
    stepwise=HALVES,
)


def _ratio(g: TensorLike, x: Operand, y: Operand) -> Any:
    return mul(g, div(x, y)) if not is_bare(x) else div(mul(g, x), y)


def _unless_pole(value: TensorLike, x: TensorLike | float, y: Any, pole: float) -> Any:
    """No gradient where 0 meets the logarithm's pole."""
    if is_bare(y):
        return ops.where(ops.eq(x, 0), 0, value) if y <= pole else value
    return ops.where(ops.logical_and(ops.eq(x, 0), ops.le(y, pole)), 0, value)


def _emit_product(b: BodyBuilder, x: Element, y: Element, factor: Any) -> Any:
    """x times a function of y, and 0 where x is, unless y is NaN."""
    nothing = b.and_(b.eq(x, b.like(0, x)), b.eq(y, y))
    return b.select(nothing, b.like(0, x), b.mul(x, factor))


def _product(name: str, factor: str) -> Any:
    """x times a function of y: SciPy's, and NumPy's for halves, whose factor is rounded as the product is."""
    kernel = from_scipy(name)

    def run(x: Array, y: Array) -> Array:
        if dtype_of(x) not in HALVES:
            return kernel(x, y)
        xp = namespace(x)
        nothing = xp.logical_and(xp.equal(x, 0), xp.equal(y, y))
        return xp.where(nothing, x.dtype.type(0), xp.multiply(x, getattr(xp, factor)(y)))

    return run


xlogy: Op = pointwise(
    "xlogy",
    _product("xlogy", "log"),
    refusing(float_result, COMPLEX, "xlogy_cpu"),
    emit=lambda b, x, y: _emit_product(b, x, y, b.log(y)),
    signature="input: Operand, other: Operand",
    samples=binary_samples((-2, 2), (0.3, 2), 1.5),
    aliases=("special.xlogy",),
    vjp=(
        lambda g, _out, x, y: _unless_pole(xlogy(g, y), x, y, 0.0),
        lambda g, _out, x, y: _ratio(g, x, y),
    ),
    native_above=True,
    stepwise=HALVES,
    node_name=node_names.xlogy,
)
xlog1py: Op = _special(
    "xlog1py",
    _product("xlog1py", "log1p"),
    emit=lambda b, x, y: _emit_product(b, x, y, b.log1p(y)),
    signature="input: Operand, other: Operand",
    samples=binary_samples((-2, 2), (-0.5, 2), 1.5),
    vjp=(
        lambda g, _out, x, y: _unless_pole(xlog1py(g, y), x, y, -1.0),
        lambda g, _out, x, y: _ratio(g, x, add(y, 1)),
    ),
    stepwise=HALVES,
)
