"""Elementary functions: exponentials, logarithms, roots, trigonometry, rounding, complex parts.

Gives one record per function; most are a NumPy loop and a derivative of one line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import log as ln
from math import pi
from typing import Any, Unpack

import numpy as np

import weft.ops.bodies as bodies
from weft.core import dtypes
from weft.core.arrays import MODULES, Array, namespace
from weft.core.dtypes import dtype, result_dtype
from weft.core.errors import underivable
from weft.core.types import TensorType
from weft.ops.arithmetic import (
    BOOL,
    COMPLEX,
    EXACT,
    PAIR,
    add,
    div,
    keep,
    kind_of,
    mul,
    neg,
    reciprocal,
    refusing,
    rsub,
    sub,
    zeros,
)
from weft.ops.facts import OpFacts, Rule
from weft.ops.families import HIDDEN, UNARY, composite, float_result, pointwise, promote
from weft.ops.kernels import elementwise
from weft.ops.node_names import not_implemented
from weft.ops.record import Op, Promotion, ops, type_of, unsupported
from weft.ops.samples import Maker, Sample, Samples, binary_samples, without_gradient
from weft.ops.values import BodyBuilder, Element, TensorLike


def function(
    name: str,
    kernel: Rule,
    gradient: Rule,
    domain: tuple[float, float] = (-2.0, 2.0),
    **facts: Unpack[OpFacts],
) -> Op:
    """A function of one number, in machine code the instruction of its name; whole numbers become floats."""
    facts["vjp"] = gradient
    facts.setdefault("emit", lambda b, x: getattr(b, name)(x))
    return pointwise(name, kernel, float_result, UNARY, domain, **facts)


def backward_of(
    name: str, kernel: Rule, emit: Rule, samples: Samples, second: Rule, saved: str = "output"
) -> Op:
    """The gradient of an activation from what it saves, by which `second` is the derivative."""
    op: Op = pointwise(
        f"{name}_backward",
        kernel,
        float_result,
        f"grad: Tensor, {saved}: Tensor",
        emit=emit,
        samples=samples,
        vjp=(
            lambda g, _out, _grad, given: op(g, given),
            lambda g, _out, grad, given: mul(mul(g, grad), second(given)),
        ),
        overwrites=True,
        native_above=True,
        **HIDDEN,
    )
    return op


POSITIVE, ABOVE_MINUS_ONE, WITHIN_ONE = (0.3, 3.0), (-0.7, 3.0), (-0.8, 0.8)

# -- exponentials and logarithms -----------------------------------------------------------------------------
exp = function("exp", np.exp, lambda g, out: mul(g, out))
exp2 = function("exp2", np.exp2, lambda g, out: mul(g, mul(out, ln(2))), aliases=("special.exp2",))
expm1 = function("expm1", np.expm1, lambda g, out: mul(g, add(out, 1)), aliases=("special.expm1",))
log = function("log", np.log, lambda g, _out, x: div(g, x), POSITIVE)
log2 = function("log2", np.log2, lambda g, _out, x: div(g, mul(x, ln(2))), POSITIVE)
log10 = function("log10", np.log10, lambda g, _out, x: div(g, mul(x, ln(10))), POSITIVE)
log1p = function(
    "log1p",
    np.log1p,
    lambda g, _out, x: div(g, add(x, 1)),
    ABOVE_MINUS_ONE,
    aliases=("special.log1p",),
    node_name=lambda _node: "Log1PBackward0",
)
logaddexp = pointwise(
    "logaddexp",
    elementwise.logaddexp,
    refusing(promote, EXACT, "logaddexp_cpu"),
    emit=elementwise.emit_logaddexp,
    signature=PAIR,
    inplace=False,
    samples=binary_samples((-2, 2), (-2, 2), None),
    vjp=(
        lambda g, _out, x, y: mul(g, ops.sigmoid(sub(x, y))),
        lambda g, _out, x, y: mul(g, ops.sigmoid(sub(y, x))),
    ),
    native_above=True,
)


def _emit_logaddexp2(b: BodyBuilder, x: Element, y: Element) -> Any:
    """Where x and y are equal (infinities, too) their difference is not asked for."""
    apart = b.sub(x, y)
    less = b.log1p(b.exp2(b.neg(b.abs(apart))))
    made = b.add(b.select(b.gt(apart, b.like(0, x)), x, y), b.mul(less, b.like(1 / ln(2), x)))
    made = b.select(b.isnan(apart), apart, made)
    return b.select(b.eq(x, y), b.add(x, b.like(1, x)), made)


logaddexp2 = pointwise(
    "logaddexp2",
    np.logaddexp2,
    refusing(promote, EXACT | COMPLEX, "logaddexp2_cpu"),
    emit=_emit_logaddexp2,
    signature=PAIR,
    inplace=False,
    samples=binary_samples((-2, 2), (-2, 2), None),
    vjp=(
        lambda g, _out, x, y: mul(g, ops.sigmoid(mul(sub(x, y), ln(2)))),
        lambda g, _out, x, y: mul(g, ops.sigmoid(mul(sub(y, x), ln(2)))),
    ),
)


# -- roots ---------------------------------------------------------------------------------------------------
def _rsqrt(x: Array) -> Array:
    xp = MODULES[type(x)]
    root = xp.sqrt(x, out=...)
    return xp.reciprocal(root, out=root)


sqrt = function("sqrt", np.sqrt, lambda g, out: div(g, mul(out, 2)), POSITIVE, exact=True)
rsqrt = function(
    "rsqrt",
    _rsqrt,
    lambda g, out: mul(mul(g, -0.5), ops.pow(out, 3)),
    POSITIVE,
    emit=lambda b, x: bodies.reciprocal(b, b.sqrt(x)),
)
hypot = pointwise(
    "hypot",
    np.hypot,
    refusing(promote, EXACT | COMPLEX, "hypot_cpu"),
    emit=lambda b, x, y: b.hypot(x, y),
    signature=PAIR,
    samples=binary_samples((0.3, 2), (0.3, 2), None),
    vjp=(lambda g, out, x: mul(g, div(x, out)), lambda g, out, _x, y: mul(g, div(y, out))),
)


# -- trigonometry --------------------------------------------------------------------------------------------
def _one_minus_square(x: TensorLike) -> Any:
    return rsub(mul(x, x), 1)


sin: Op = function("sin", np.sin, lambda g, _out, x: mul(g, cos(x)))
cos: Op = function("cos", np.cos, lambda g, _out, x: neg(mul(g, sin(x))))
tan = function("tan", np.tan, lambda g, out: mul(g, add(mul(out, out), 1)), (-1, 1))
asin = function(
    "asin",
    np.arcsin,
    lambda g, _out, x: mul(g, rsqrt(_one_minus_square(x))),
    WITHIN_ONE,
    aliases=("arcsin",),
)
acos = function(
    "acos",
    np.arccos,
    lambda g, _out, x: neg(mul(g, rsqrt(_one_minus_square(x)))),
    WITHIN_ONE,
    aliases=("arccos",),
)
atan = function("atan", np.arctan, lambda g, _out, x: div(g, add(mul(x, x), 1)), aliases=("arctan",))


def _over_square(g: TensorLike, part: TensorLike, x: TensorLike, y: TensorLike) -> Any:
    """g times part / (x² + y²), and 0 at the origin, as in PyTorch."""
    size = add(mul(x, x), mul(y, y))
    return mul(g, mul(part, ops.where(ops.eq(size, 0), 0, reciprocal(size))))


atan2 = pointwise(
    "atan2",
    np.arctan2,
    refusing(float_result, COMPLEX, "atan2_cpu"),
    emit=lambda b, x, y: b.atan2(x, y),
    signature=PAIR,
    aliases=("arctan2",),
    samples=binary_samples((0.3, 2), (0.3, 2), None),
    vjp=(
        lambda g, _out, x, y: _over_square(g, y, x, y),
        lambda g, _out, x, y: neg(_over_square(g, x, x, y)),
    ),
)
sinh: Op = function("sinh", np.sinh, lambda g, _out, x: mul(g, cosh(x)))
cosh: Op = function("cosh", np.cosh, lambda g, _out, x: mul(g, sinh(x)))
tanh: Op = function("tanh", np.tanh, lambda g, out: tanh_backward(g, out), aliases=("nn.functional.tanh",))
tanh_backward: Op = backward_of(
    "tanh",
    elementwise.tanh_backward,
    emit=lambda b, g, t: b.mul(b.sub(b.like(1, t), b.mul(t, t)), g),
    samples=binary_samples((-1, 1), (-1, 1), None),
    second=lambda output: mul(output, -2),
)
asinh = function(
    "asinh", np.arcsinh, lambda g, _out, x: mul(g, rsqrt(add(mul(x, x), 1))), aliases=("arcsinh",)
)
acosh = function(
    "acosh",
    np.arccosh,
    lambda g, _out, x: mul(g, rsqrt(sub(mul(x, x), 1))),
    (1.3, 3),
    aliases=("arccosh",),
)
atanh = function(
    "atanh", np.arctanh, lambda g, _out, x: div(g, _one_minus_square(x)), WITHIN_ONE, aliases=("arctanh",)
)


def _turned(name: str, factor: float) -> Op:
    """An angle in another unit."""
    return pointwise(
        name,
        lambda x: MODULES[type(x)].multiply(x, factor, out=...),
        refusing(float_result, COMPLEX, f"{name} is not supported for complex tensors.", RuntimeError),
        UNARY,
        emit=lambda b, x: b.mul(x, b.like(factor, x)),
        vjp=lambda g: mul(g, factor),
    )


deg2rad = _turned("deg2rad", pi / 180)
rad2deg = _turned("rad2deg", 180 / pi)


def _sinc(x: Array) -> Array:
    xp = MODULES[type(x)]
    y = xp.multiply(x, pi, out=...)
    zero = xp.equal(y, 0)
    out = xp.divide(xp.sin(y), y, out=...)
    if zero.any():
        out[zero] = 1
    return out


def _emit_sinc(b: BodyBuilder, x: Element) -> Any:
    y = b.mul(x, b.like(pi, x))
    return b.select(b.eq(y, b.like(0, y)), b.like(1, y), b.div(b.sin(y), y))


def _sinc_gradient(g: TensorLike, x: TensorLike) -> Any:
    turned = mul(x, pi)
    bottom = mul(mul(x, x), pi)
    slope = div(sub(mul(turned, cos(turned)), sin(turned)), bottom)
    return keep(mul(g, slope), ops.ne(bottom, 0))


sinc = function(
    "sinc",
    _sinc,
    lambda g, _out, x: _sinc_gradient(g, x),
    (0.2, 2),
    emit=_emit_sinc,
    aliases=("special.sinc",),
    native_above=True,
)


# -- rounding ------------------------------------------------------------------------------------------------
def _between(make: Maker) -> Iterator[Sample]:
    """Values away from the steps."""
    steps = make.ints(2, 3, low=-3, high=3).astype(make.kind.numpy)
    if make.kind.category >= dtypes.FLOAT:
        steps = (steps + 0.3).astype(make.kind.numpy)
    yield Sample(steps)
    yield Sample(steps[:0])
    yield Sample(steps[0, 0, ...])
    yield Sample(steps.T)


def _rounding(name: str, kernel: Rule, **facts: Any) -> Op:
    """Integers stay as they are; complex values and bools are refused."""
    plain = refusing(promote, COMPLEX, f"{name} is not supported for complex inputs")
    return pointwise(
        name,
        kernel,
        refusing(plain, BOOL, f"{name}_vml_cpu"),
        emit=lambda b, x: b.rounded(name, x),
        samples=_between,
        vjp=lambda g: zeros(g),
        out="exact",
        **facts,
    )


floor = _rounding("floor", np.floor)
ceil = _rounding("ceil", np.ceil)
trunc = _rounding("trunc", np.trunc, aliases=("fix",))


def _round(x: Array, decimals: int) -> Array:
    xp = MODULES[type(x)]
    if x.dtype.kind != "f":
        if decimals:
            raise TypeError("decimals")  # the rule has the words
        return x.copy()
    if decimals == 0:
        return xp.rint(x, out=...)
    scale = 10.0 ** abs(decimals)
    shift, back = (xp.multiply, xp.divide) if decimals > 0 else (xp.divide, xp.multiply)
    return back(xp.rint(shift(x, scale)), scale, out=...)


def _emit_round(b: BodyBuilder, x: Element, decimals: int) -> Any:
    if decimals == 0:
        return b.rint(x)
    if not bodies.is_float(x):
        return NotImplemented
    scale = b.like(10.0 ** abs(decimals), x)
    if decimals > 0:
        return b.div(b.rint(b.mul(x, scale)), scale)
    return b.mul(b.rint(b.div(x, scale)), scale)


def _round_rule(x: TensorType, decimals: int) -> TensorType:
    if x.dtype in BOOL | COMPLEX:
        raise unsupported("round_vml_cpu", x.dtype)
    if decimals != 0 and x.dtype in EXACT:
        raise unsupported("round_cpu", x.dtype)
    return x


def _round_samples(make: Maker) -> Iterator[Sample]:
    yield from _between(make)
    if make.kind.category >= dtypes.FLOAT:
        yield Sample(make(2, 3), decimals=1, grad=False)
        yield Sample(make(2, 3, low=-200, high=200), decimals=-1, grad=False)


round_ = pointwise(
    "round",
    _round,
    promote,
    signature="input: Tensor, *, decimals: int = 0",
    rule=_round_rule,
    emit=_emit_round,
    samples=_round_samples,
    vjp=lambda g: zeros(g),
    aliases=("special.round",),
    out="exact",
)
frac = pointwise(
    "frac",
    lambda x: MODULES[type(x)].subtract(x, MODULES[type(x)].trunc(x), out=...),
    refusing(promote, EXACT | COMPLEX, "frac_cpu"),
    emit=lambda b, x: b.sub(x, b.trunc(x)),
    samples=_between,
    vjp=lambda g: g,
    out="exact",
)


def _heaviside(x: Array, values: Array) -> Array:
    xp = MODULES[type(x)]
    return xp.where(xp.equal(x, 0), values, xp.greater(x, 0).astype(x.dtype))


def _heaviside_rule(x: TensorType, values: TensorType) -> TensorType:
    if kind_of(x) in COMPLEX or kind_of(values) in COMPLEX:
        raise RuntimeError("heaviside is not yet implemented for complex tensors.")
    if kind_of(x) is not kind_of(values):
        raise RuntimeError("heaviside is not yet implemented for tensors with different dtypes.")
    return promote.rule(heaviside, (x, values))


heaviside = pointwise(
    "heaviside",
    _heaviside,
    promote,
    signature="input: Tensor, values: Tensor",
    rule=_heaviside_rule,
    emit=lambda b, x, y: b.select(
        b.eq(x, b.like(0, x)), y, b.select(b.gt(x, b.like(0, x)), b.like(1, x), b.like(0, x))
    ),
    out="exact",
    samples=without_gradient(binary_samples((0.3, 2), (-2, 2), None)),
    vjp=(lambda g: underivable("heaviside"), lambda g: underivable("heaviside")),
    trusted=False,
    node_name=not_implemented,
)


# -- complex numbers -----------------------------------------------------------------------------------------
def _complex_parts(make: Maker) -> Iterator[Sample]:
    yield Sample(make(2, 3), grad=False)
    yield Sample(make(2, 3, kind=dtypes.complex128), grad=False)
    yield Sample(make(kind=dtypes.complex64), grad=False)


conj_physical: Op = pointwise(
    "conj_physical",
    np.conjugate,
    promote,
    emit=lambda b, x: x,
    vjp=lambda g: conj_physical(g),
    jvp=lambda tangents, out, x: None if tangents[0] is None else conj_physical(tangents[0]),
    conjugates=True,
    samples=_complex_parts,
)


@composite("input: Tensor", samples=_complex_parts, method=True)
def conj(x: TensorLike) -> Any:
    """The complex conjugate; a real tensor itself."""
    return conj_physical(x) if type_of(x).dtype.is_complex else x


def _angle(x: Array) -> Array:
    xp = MODULES[type(x)]
    if x.dtype.kind == "c":
        return xp.arctan2(x.imag, x.real, out=...)
    out = xp.multiply(xp.less(x, 0), pi, dtype=x.dtype, out=...)
    return xp.add(out, xp.multiply(x, 0, where=xp.isnan(x), out=xp.zeros_like(x)), out=...)


def _emit_angle(b: BodyBuilder, x: Element) -> Any:
    zero = b.like(0, x)
    turned = b.select(b.lt(x, zero), b.like(pi, x), zero)
    return b.add(turned, b.select(b.isnan(x), b.mul(x, zero), zero))


def _angle_dtypes(operands: list[Any]) -> tuple[dtype, dtype]:
    compute, _ = float_result.dtypes(operands)
    return compute, compute.to_real()


def _angle_samples(make: Maker) -> Iterator[Sample]:
    """Off the negative real axis, where complex angles jump."""
    yield from _between(make) if not make.kind.is_complex else [Sample(make(2, 3, low=0.3)), Sample(make())]


def _angle_gradient(g: TensorLike, x: TensorLike) -> Any:
    """Across the direction, over the size: i x / |x|²."""
    if not kind_of(x).is_complex:
        return zeros(g)
    size = ops.abs(x)
    nothing = ops.eq(size, 0)
    slope = div(g, ops.masked_fill(mul(size, size), nothing, 1))
    return ops.masked_fill(mul(mul(x, 1j), slope), nothing, 0)


angle = pointwise(
    "angle",
    _angle,
    Promotion("real_result", _angle_dtypes),
    emit=_emit_angle,
    inplace=False,
    samples=_angle_samples,
    vjp=lambda g, _out, x: _angle_gradient(g, x),
    conjugates=True,
)


def _pairing(name: str) -> Callable[[TensorType, TensorType], TensorType]:
    def rule(x: TensorType, y: TensorType) -> TensorType:
        left, right = kind_of(x), kind_of(y)
        allowed = (dtypes.float16, dtypes.float32, dtypes.float64)
        if left not in allowed or right not in allowed:
            raise RuntimeError(
                f"Expected both inputs to be Half, Float or Double tensors but got {left.scalar_name} and "
                f"{right.scalar_name}"
            )
        if left is not right:
            raise RuntimeError(
                f"Expected object of scalar type {left.scalar_name} but got scalar type "
                f"{right.scalar_name} for second argument"
            )
        if left is dtypes.float16:
            raise NotImplementedError(f"\"{name}_cpu\" not implemented for 'Half'")
        return pair.rule(ops.complex, (x, y))

    return rule


def _pair_dtypes(operands: list[Any]) -> tuple[dtype, dtype]:
    kind = result_dtype(operands)
    return kind, kind.to_complex()


def _complex(x: Array, y: Array) -> Array:
    kind = np.complex64 if x.dtype.itemsize == 4 else np.complex128
    out = namespace(x).empty(np.broadcast_shapes(x.shape, y.shape), kind)
    out.real, out.imag = x, y
    return out


def _polar(size: Array, turn: Array) -> Array:
    xp = MODULES[type(size)]
    return _complex(xp.multiply(size, xp.cos(turn), out=...), xp.multiply(size, xp.sin(turn), out=...))


def _pair_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(2, 3), make(2, 3))
    yield Sample(make(2, 3), make(3))
    yield Sample(make(), make())


pair = Promotion("complex_result", _pair_dtypes)


def _of_pairs(name: str, kernel: Rule, signature: str, vjp: tuple[Rule, Rule], amp: str | None = None) -> Op:
    """A complex number of two real ones."""
    return pointwise(
        name,
        kernel,
        pair,
        signature,
        rule=_pairing(name),
        vjp=vjp,
        conjugates=True,
        method=False,
        inplace=False,
        samples=_pair_samples,
        amp=amp,
        out="exact",
        trusted=False,
    )


complex_ = _of_pairs(
    "complex", _complex, "real: Tensor, imag: Tensor", (lambda g: ops.real(g), lambda g: ops.imag(g))
)
polar = _of_pairs(
    "polar",
    _polar,
    "abs: Tensor, angle: Tensor",
    (
        lambda g, _out, _size, turn: ops.real(mul(g, ops.conj(ops.polar(ops.ones_like(turn), turn)))),
        lambda g, out: ops.real(mul(g, ops.conj(mul(out, 1j)))),
    ),
    "float32",
)
