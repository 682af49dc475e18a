"""Activations: the pointwise functions of `nn.functional`.

Gives one record each. An `inplace` flag, where PyTorch has one, is a parameter of the record that neither
kernel nor gradient looks at: the generated face sends a call with it to the in-place form.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Unpack

import numpy as np

import weft.ops.bodies as bodies
from weft.core import dtypes
from weft.core.arrays import MODULES, Array, as_array, namespace
from weft.core.dims import outside
from weft.core.types import TensorType
from weft.ops.arithmetic import (
    BOOL,
    COMPLEX,
    EXACT,
    add,
    div,
    keep,
    keep_where,
    mul,
    neg,
    promoted,
    refusing,
    rsub,
    sub,
)
from weft.ops.elementary import backward_of, exp, function, tanh
from weft.ops.facts import OpFacts, Placing, Rule
from weft.ops.families import HIDDEN, composite, pointwise, promote
from weft.ops.kernels import elementwise
from weft.ops.options import fits
from weft.ops.record import Op, Promotion, ops, type_of, unsupported
from weft.ops.samples import Maker, Sample, Samples, binary_samples, unary_samples
from weft.ops.values import BodyBuilder, Element, Operand, TensorLike

FLAG = "input: Tensor, inplace: bool = False"


def activation(
    name: str,
    kernel: Rule,
    label: str,
    signature: str = "input: Tensor",
    promotion: Promotion | None = None,
    rule: Rule | None = None,
    plain: bool = False,
    **facts: Unpack[OpFacts],
) -> Op:
    """A function of `nn.functional` for floats, or a plain one that is found there, too; what else is refused
    is named after PyTorch's kernel.
    """
    promotion = promotion or refusing(promote, EXACT | COMPLEX, label)
    place: OpFacts = {"aliases": (f"nn.functional.{name}",)} if plain else {"namespace": "nn.functional"}
    facts |= place
    return pointwise(name, kernel, promotion, signature, rule=rule, **facts)


def with_options(*options: dict[str, Any], low: float = -3.0, high: float = 3.0) -> Samples:
    """Plain samples, and one for each set of keyword arguments."""

    def samples(make: Maker) -> Iterator[Sample]:
        yield from unary_samples(low, high)(make)
        for keywords in options:
            yield Sample(make(2, 3, low=low, high=high), **keywords)

    return samples


# -- rectifiers ----------------------------------------------------------------------------------------------
def _relu(x: Array, inplace: bool) -> Array:
    xp = MODULES[type(x)]
    if x.dtype.kind == "f" and x.size > 4096:
        return elementwise.positive_part(x, ...)
    zero = elementwise.ZERO[x.dtype] if xp is np else 0
    return xp.maximum(zero, x, out=...)  # of two zeros, the second is taken: x


rectified = refusing(
    refusing(promote, COMPLEX, "clamp is not supported for complex types"),
    BOOL,
    "Boolean inputs not supported for relu",
    RuntimeError,
)
relu = activation(
    "relu",
    _relu,
    "",
    FLAG,
    rectified,
    plain=True,
    emit=lambda b, x, inplace: bodies.positive_part(b, x),
    vjp=lambda g, out: keep(g, ops.ne(out, 0), out),  # NaN passes
    samples=with_options(),
    out=False,
)


def _leaky_relu(x: Array, negative_slope: float, inplace: bool) -> Array:
    xp = MODULES[type(x)]
    scaled = xp.multiply(x, negative_slope, out=...)
    if 0 <= negative_slope <= 1:
        return xp.maximum(x, scaled, out=scaled)
    return xp.where(xp.greater(x, 0), x, scaled)


def _emit_leaky_relu(b: BodyBuilder, x: Element, negative_slope: float, inplace: bool) -> Any:
    slope = b.like(negative_slope, x)
    scaled = b.mul(x, slope)
    if not isinstance(negative_slope, (int, float)):  # only running tells
        gentle = b.and_(b.ge(slope, b.like(0, x)), b.le(slope, b.like(1, x)))
        return b.select(gentle, b.max(x, scaled), b.select(b.gt(x, b.like(0, x)), x, scaled))
    if 0 <= negative_slope <= 1:
        return b.max(x, scaled)
    return b.select(b.gt(x, b.like(0, x)), x, scaled)


def _two_slopes(g: TensorLike, x: TensorLike, slope: Operand) -> Any:
    """g where x is above zero, g times the slope elsewhere."""
    above = ops.gt(x, 0)
    return ops.where(above, keep(g, above, x), mul(g, slope))


leaky_relu = activation(
    "leaky_relu",
    _leaky_relu,
    "leaky_relu_cpu",
    "input: Tensor, negative_slope: float = 0.01, inplace: bool = False",
    emit=_emit_leaky_relu,
    samples=with_options({"negative_slope": 0.3}, {"negative_slope": 1.5}),
    inplace=True,
    vjp=lambda g, _out, x, negative_slope: _two_slopes(g, x, negative_slope),
)
prelu_kernel = pointwise(
    "prelu_kernel",
    lambda x, weight: namespace(x).where(x > 0, x, x * weight),
    refusing(promote, EXACT | COMPLEX, "prelu_cpu"),
    emit=lambda b, x, weight: b.select(b.gt(x, b.like(0, x)), x, b.mul(x, weight)),
    signature="input: Tensor, weight: Tensor",
    **HIDDEN,
    samples=binary_samples((-2, 2), (0.1, 0.5), None),
    node="PreluKernelBackward0",
    vjp=(
        lambda g, _out, x, weight: _two_slopes(g, x, weight),
        lambda g, _out, x: keep(mul(g, x), ops.le(x, 0)),
    ),
)


@composite(
    "input: Tensor, weight: Tensor",
    method=True,
    aliases=("nn.functional.prelu",),
    amp="lower",
    samples=lambda make: [
        Sample(make(2, 3, 2), make(3, low=0.1, high=0.5)),
        Sample(make(4), make(1)),
        Sample(make(), make()),
    ],
)
def prelu(input: TensorLike, weight: TensorLike) -> Any:
    """A leaky rectifier whose slope is learnt, one for all or one per channel (dimension 1)."""
    x, w = type_of(input), type_of(weight)
    if w.dtype is not x.dtype:
        raise RuntimeError(
            f"prelu: Type promoting not supported. Got {x.dtype!r} and {w.dtype!r}".replace("weft.", "")
        )
    if w.ndim > 1:
        raise RuntimeError(f"prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {w.ndim}")
    if w.numel() != 1:
        if x.ndim == 0:
            raise RuntimeError("Not allow zero-dim input tensor.")
        channels = x.shape[1] if x.ndim > 1 else 1
        if channels != w.numel():
            raise RuntimeError(
                f"Mismatch of parameter numbers and input channel size. Found parameter numbers = "
                f"{w.numel()} and channel size = {channels}."
            )
    if w.ndim == 1 or x.ndim > 1:
        shape = [1] * x.ndim
        if x.ndim > 1:
            shape[1] = w.numel()
        weight = ops.reshape(weight, shape)
    return prelu_kernel(input, weight)


def _threshold(x: Array, threshold: float, value: float, inplace: bool) -> Array:
    xp, kind = MODULES[type(x)], dtypes.BY_NUMPY[x.dtype]
    return xp.where(xp.less_equal(x, x.dtype.type(fits(threshold, kind))), x.dtype.type(fits(value, kind)), x)


def _threshold_rule(x: TensorType, threshold: float, value: float, inplace: bool) -> TensorType:
    if x.dtype is dtypes.bool_ or x.dtype in COMPLEX:
        raise unsupported("threshold_cpu", x.dtype)
    for number in (threshold, value):
        fits(number, x.dtype)
    return x


def _emit_threshold(b: BodyBuilder, x: Element, threshold: float, value: float, inplace: bool) -> Any:
    if x.type[0] == "u":  # where a negative int is what it leaves of the type
        threshold, value = (
            number % (1 << int(x.type[1:])) if type(number) is int else number
            for number in (threshold, value)
        )
    return b.select(b.le(x, b.like(threshold, x)), b.like(value, x), x)


threshold = activation(
    "threshold",
    _threshold,
    "",
    "input: Tensor, threshold: float, value: float, inplace: bool = False",
    promotion=promote,
    rule=_threshold_rule,
    plain=True,
    emit=_emit_threshold,
    method=False,
    samples=lambda make: [
        Sample(make(2, 3), 0.1, 2.0),
        Sample(make(), 0.5, -1),
        Sample(make(0, 3), 0.1, 1.0),
    ],
    vjp=lambda g, _out, x, threshold: keep(g, ops.logical_not(ops.le(x, threshold)), x),
    placing=Placing(repeats=True, whole=True),
)


def _hardtanh(x: Array, min_val: float, max_val: float, inplace: bool) -> Array:
    xp = MODULES[type(x)]
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    return xp.asarray(xp.clip(x, x.dtype.type(min_val), x.dtype.type(max_val)))


def _within(g: TensorLike, x: TensorLike, low: float, high: float) -> Any:
    return keep(g, ops.logical_and(ops.gt(x, low), ops.lt(x, high)), x)


def _not_outside(g: TensorLike, x: TensorLike, low: float, high: float) -> Any:
    """As `_within`, but NaN passes."""
    return keep(g, ops.logical_not(ops.logical_or(ops.le(x, low), ops.ge(x, high))), x)


def _hardtanh_rule(x: TensorType, min_val: float, max_val: float, inplace: bool) -> TensorType:
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    if x.dtype is dtypes.bool_:
        raise RuntimeError("Bool inputs not supported for hardtanh")
    if x.dtype in COMPLEX:
        raise NotImplementedError("clamp is not supported for complex types")
    if x.dtype is dtypes.uint8 and (min_val < 0 or max_val < 0):
        raise RuntimeError("cannot do hardtanh on an unsigned type with negative limits")
    return x


hardtanh = activation(
    "hardtanh",
    _hardtanh,
    "",
    "input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False",
    promotion=promote,
    rule=_hardtanh_rule,
    emit=lambda b, x, min_val, max_val, inplace: bodies.clip(b, x, min_val, max_val),
    samples=with_options({"min_val": -0.5, "max_val": 2.0}),
    inplace=True,
    vjp=lambda g, _out, x, min_val, max_val: _not_outside(g, x, min_val, max_val),
)
relu6 = activation(
    "relu6",
    lambda x, inplace: as_array(namespace(x).clip(x, x.dtype.type(0), x.dtype.type(6))),
    "",
    FLAG,
    promotion=promote,
    rule=lambda x, inplace: _hardtanh_rule(x, 0.0, 6.0, inplace),
    emit=lambda b, x, inplace: bodies.clip(b, x, 0, 6),
    samples=with_options(low=-4, high=9),
    node="HardtanhBackward0",
    vjp=lambda g, _out, x: _not_outside(g, x, 0.0, 6.0),
)


# -- exponential units ---------------------------------------------------------------------------------------
SELU_ALPHA = 1.6732632423543772848170429916717
SELU_SCALE = 1.0507009873554804934193349852946


def _elu_kernel(x: Array, alpha: float, scale: float, rate: float) -> Array:
    """scale times x, and alpha times that of exp(rate x) - 1 below zero, whatever alpha makes of zeros."""
    keeps_zeros = 0 < alpha * scale < np.inf  # so that parts above and below may be added, which is quick

    def body(out: Array, x: Array) -> None:
        xp = MODULES[type(out)]
        xp.clip(x, -np.inf, 0, out=out)
        if rate != 1:
            xp.multiply(out, rate, out=out)
        xp.expm1(out, out=out)
        if alpha * scale != 1:
            xp.multiply(out, alpha * scale, out=out)
        above = elementwise.positive_part(x, ...) if keeps_zeros else x
        if scale != 1:
            above = xp.multiply(above, scale, out=...)
        if keeps_zeros:
            xp.add(out, above, out=out)
        else:
            xp.copyto(out, above, where=xp.greater_equal(x, 0))

    return elementwise.blocked(body, x)


def _emit_elu(b: BodyBuilder, x: Element, alpha: float, scale: float, rate: float) -> Any:
    below = b.min(b.like(0, x), x)
    below = b.expm1(below if rate == 1 else b.mul(below, b.like(rate, x)))
    if alpha * scale != 1:
        below = b.mul(below, b.like(alpha * scale, x))
    return b.select(b.lt(x, b.like(0, x)), below, x if scale == 1 else b.mul(x, b.like(scale, x)))


def _elu_gradient(g: TensorLike, x: TensorLike, alpha: float, scale: float, rate: float) -> Any:
    """The argument is bounded before exp, so that what is masked away is finite in second order too; at 0 the
    slope counts as constant, as in PyTorch."""
    below = mul(exp(mul(keep(x, ops.lt(x, 0)), rate)), alpha * scale * rate)
    return mul(g, ops.where(ops.le(x, 0), below, scale))  # NaN counts as above


elu = activation(
    "elu",
    lambda x, alpha, inplace: _elu_kernel(x, alpha, 1.0, 1.0),
    "elu_cpu",
    "input: Tensor, alpha: float = 1.0, inplace: bool = False",
    samples=with_options({"alpha": 0.7}),
    emit=lambda b, x, alpha, inplace: _emit_elu(b, x, alpha, 1.0, 1.0),
    inplace=True,
    vjp=lambda g, _out, x, alpha: _elu_gradient(g, x, alpha, 1.0, 1.0),
    native_above=True,
)
selu = activation(
    "selu",
    lambda x, inplace: _elu_kernel(x, SELU_ALPHA, SELU_SCALE, 1.0),
    "elu_cpu",
    FLAG,
    plain=True,
    samples=with_options(),
    emit=lambda b, x, inplace: _emit_elu(b, x, SELU_ALPHA, SELU_SCALE, 1.0),
    node="EluBackward0",
    method=False,
    out=False,
    vjp=lambda g, _out, x: _elu_gradient(g, x, SELU_ALPHA, SELU_SCALE, 1.0),
    native_above=True,
)


def _celu_rule(x: TensorType, alpha: float, inplace: bool) -> TensorType:
    if alpha == 0:
        raise RuntimeError("ZeroDivisionError: alpha cannot be 0 for CELU")
    return promoted(celu, x, alpha, inplace)


celu = activation(
    "celu",
    lambda x, alpha, inplace: _elu_kernel(x, alpha, 1.0, 1.0 / alpha),
    "elu_cpu",
    "input: Tensor, alpha: float = 1.0, inplace: bool = False",
    plain=True,
    rule=_celu_rule,
    emit=lambda b, x, alpha, inplace: _emit_elu(b, x, alpha, 1.0, 1.0 / alpha),
    method=False,
    out=False,
    samples=with_options({"alpha": 0.7}),
    node="EluBackward0",
    vjp=lambda g, _out, x, alpha: _elu_gradient(g, x, alpha, 1.0, 1.0 / alpha),
    native_above=True,
)


# -- the logistic family -------------------------------------------------------------------------------------
sigmoid: Op = function(
    "sigmoid",
    elementwise.sigmoid,
    lambda g, out: sigmoid_backward(g, out),
    emit=elementwise.emit_sigmoid,
    aliases=("nn.functional.sigmoid", "special.expit"),
    native_above=True,
)
sigmoid_backward: Op = backward_of(
    "sigmoid",
    elementwise.sigmoid_backward,
    emit=lambda b, g, s: b.mul(b.mul(b.sub(b.like(1, s), s), s), g),
    samples=binary_samples((-1, 1), (0.1, 0.9), None),
    second=lambda output: rsub(mul(output, 2), 1),
)


def _silu_gradient(g: TensorLike, x: TensorLike) -> Any:
    s = sigmoid(x)
    return mul(g, mul(s, add(mul(x, rsub(s, 1)), 1)))


silu = activation(
    "silu",
    lambda x, inplace: elementwise.silu(x),
    "silu_cpu",
    FLAG,
    samples=with_options(),
    promotion=refusing(promote, EXACT, "silu_cpu"),
    emit=lambda b, x, inplace: elementwise.emit_silu(b, x),
    vjp=lambda g, _out, x: _silu_gradient(g, x),
    native_above=True,
)


def _mish_gradient(g: TensorLike, x: TensorLike) -> Any:
    t = tanh(softplus(x))
    return mul(g, add(t, mul(mul(x, sigmoid(x)), rsub(mul(t, t), 1))))


mish = activation(
    "mish",
    lambda x, inplace: elementwise.mish(x),
    "mish_cpu",
    FLAG,
    emit=lambda b, x, inplace: elementwise.emit_mish(b, x),
    samples=with_options(),
    vjp=lambda g, _out, x: _mish_gradient(g, x),
    native_above=True,
)
logsigmoid = activation(
    "logsigmoid",
    elementwise.log_sigmoid,
    "log_sigmoid_cpu",
    emit=elementwise.emit_log_sigmoid,
    vjp=lambda g, _out, x: mul(g, sigmoid(neg(x))),
    node="LogSigmoidBackward0",
    out="exact",
    native_above=True,
)


def _softplus_gradient(g: TensorLike, x: TensorLike, beta: float, threshold: float) -> Any:
    scaled = x if beta == 1 else mul(x, beta)
    return ops.where(ops.gt(scaled, threshold), g, mul(g, sigmoid(scaled)))


softplus = activation(
    "softplus",
    elementwise.softplus,
    "softplus_cpu",
    "input: Tensor, beta: float = 1.0, threshold: float = 20.0",
    emit=elementwise.emit_softplus,
    out="exact",
    samples=with_options({"beta": 2.0}, {"beta": 3.0, "threshold": 1.0}),
    vjp=lambda g, _out, x, beta, threshold: _softplus_gradient(g, x, beta, threshold),
    native_above=True,
)


# -- gelu ----------------------------------------------------------------------------------------------------
def _gelu(x: Array, approximate: str) -> Array:
    if approximate not in ("none", "tanh"):
        raise ValueError("approximate")
    return elementwise.gelu_tanh(x) if approximate == "tanh" else elementwise.gelu(x)


def _gelu_rule(x: TensorType, approximate: str) -> TensorType:
    if approximate not in ("none", "tanh"):
        raise RuntimeError("approximate argument must be either none or tanh.")
    return promoted(gelu, x, approximate)


def _gelu_tanh_gradient(g: TensorLike, x: TensorLike) -> Any:
    slope, cubic = elementwise.GELU_SLOPE, elementwise.GELU_CUBIC
    square = mul(x, x)
    t = tanh(mul(x, add(mul(square, slope * cubic), slope)))
    inner = add(mul(square, 3 * slope * cubic), slope)
    outer = mul(mul(x, rsub(mul(t, t), 1)), inner)
    return mul(g, mul(add(outer, add(t, 1)), 0.5))


gelu: Op = activation(
    "gelu",
    _gelu,
    "GeluKernelImpl",
    "input: Tensor, *, approximate: str = 'none'",
    rule=_gelu_rule,
    emit=elementwise.emit_gelu,
    out="exact",
    samples=with_options({"approximate": "tanh"}),
    vjp=lambda g, _out, x, approximate: (
        _gelu_tanh_gradient(g, x) if approximate == "tanh" else gelu_backward(g, x)
    ),
    native_above=True,
)


def _gelu_bend(x: TensorLike) -> Any:
    """The second derivative: φ(x) (2 - x²)."""
    square = mul(x, x)
    return mul(mul(exp(mul(square, -0.5)), 0.3989422804014327), rsub(square, 2))


gelu_backward: Op = backward_of(
    "gelu",
    elementwise.gelu_backward,
    emit=elementwise.emit_gelu_backward,
    samples=binary_samples((-2, 2), (-2, 2), None),
    second=_gelu_bend,
    saved="input",
)


# -- piecewise linear ----------------------------------------------------------------------------------------
def _hardsigmoid(x: Array, inplace: bool) -> Array:
    xp = MODULES[type(x)]
    out = xp.add(x, 3, out=...)
    xp.clip(out, 0, 6, out=out)
    return xp.divide(out, 6, out=out)


def _emit_hardsigmoid(b: BodyBuilder, x: Element, inplace: bool) -> Any:
    return b.div(bodies.clip(b, b.add(x, b.like(3, x)), 0, 6), b.like(6, x))


def _emit_hardswish(b: BodyBuilder, x: Element, inplace: bool) -> Any:
    return b.div(b.mul(bodies.clip(b, b.add(x, b.like(3, x)), 0, 6), x), b.like(6, x))


def _hardswish(x: Array, inplace: bool) -> Array:
    xp = MODULES[type(x)]
    out = xp.add(x, 3, out=...)
    xp.clip(out, 0, 6, out=out)
    xp.multiply(out, x, out=out)
    return xp.divide(out, 6, out=out)


def _hardswish_gradient(g: TensorLike, x: TensorLike) -> Any:
    middle = add(div(x, 3), 0.5)
    slope = ops.where(ops.lt(x, 3), middle, 1)
    return keep(mul(g, slope), ops.logical_not(ops.le(x, -3)))


hardsigmoid = activation(
    "hardsigmoid",
    _hardsigmoid,
    "hardsigmoid_cpu",
    FLAG,
    emit=_emit_hardsigmoid,
    samples=with_options(low=-5, high=5),
    vjp=lambda g, _out, x: div(_within(g, x, -3.0, 3.0), 6),
    native_above=True,
)
hardswish = activation(
    "hardswish",
    _hardswish,
    "hardswish_cpu",
    FLAG,
    emit=_emit_hardswish,
    samples=with_options(low=-5, high=5),
    vjp=lambda g, _out, x: _hardswish_gradient(g, x),
    native_above=True,
)


def _softshrink(x: Array, lambd: float) -> Array:
    """x minus its nearest point in [-lambd, lambd]; NaN stays."""
    xp = MODULES[type(x)]
    if lambd < 0:
        raise ValueError("negative lambd")
    return xp.subtract(x, xp.clip(x, -lambd, lambd), out=...)


def _softshrink_rule(x: TensorType, lambd: float) -> TensorType:
    if lambd < 0:
        limits = dtypes.finfo(x.dtype) if x.dtype.is_floating_point else dtypes.finfo()
        raise RuntimeError(
            f"lambda must be in range [0, {limits.max:g}] for input dtype {x.dtype.scalar_name}, but found "
            f"{lambd:g}"
        )
    return promoted(softshrink, x, lambd)


def _outside(g: TensorLike, x: TensorLike, lambd: float) -> Any:
    return keep(g, ops.logical_not(ops.logical_and(ops.ge(x, -lambd), ops.le(x, lambd))), x)


softshrink = activation(
    "softshrink",
    _softshrink,
    "softshrink_check",
    "input: Tensor, lambd: float = 0.5",
    rule=_softshrink_rule,
    emit=lambda b, x, lambd: b.sub(x, bodies.clip(b, x, -lambd, lambd)),
    out="exact",
    samples=with_options({"lambd": 1.0}),
    vjp=lambda g, _out, x, lambd: _outside(g, x, lambd),
)
hardshrink = activation(
    "hardshrink",
    lambda x, lambd: keep_where(x, ~(abs(x) <= lambd)),
    "hardshrink_cpu",
    "input: Tensor, lambd: float = 0.5",
    plain=True,
    emit=lambda b, x, lambd: b.select(b.le(b.abs(x), b.like(lambd, x)), b.like(0, x), x),
    inplace=False,
    out="exact",
    samples=with_options({"lambd": 1.0}),
    vjp=lambda g, _out, x, lambd: _outside(g, x, lambd),
    rounded=(1,),
)


# -- composites ----------------------------------------------------------------------------------------------
@composite("input: Tensor", namespace="nn.functional", samples=with_options())
def softsign(input: TensorLike) -> Any:
    """x / (1 + |x|)."""
    return div(input, add(ops.abs(input), 1))


@composite("input: Tensor", namespace="nn.functional", samples=with_options())
def tanhshrink(input: TensorLike) -> Any:
    """x - tanh x."""
    return sub(input, tanh(input))


@composite(
    "input: Tensor, dim: Dim = -1",
    namespace="nn.functional",
    samples=lambda make: [Sample(make(2, 4)), Sample(make(4, 3), 0), Sample(make(2, 0))],
    node="GluBackward0",
)
def glu(input: TensorLike, dim: int) -> Any:
    """One half of the tensor, gated by the sigmoid of the other."""
    kind = type_of(input)
    if kind.ndim == 0:
        raise RuntimeError("glu does not support 0-dimensional tensors")
    if not -kind.ndim <= dim < kind.ndim:
        raise outside(dim, kind.ndim)
    size = kind.shape[dim]
    if size % 2:
        raise RuntimeError(f"Halving dimension must be even, but dimension {dim % kind.ndim} is size {size}")
    if kind.dtype in EXACT | COMPLEX:
        raise unsupported("glu_cpu", kind.dtype)
    half = size // 2
    return mul(ops.narrow(input, dim, 0, half), sigmoid(ops.narrow(input, dim, half, half)))
