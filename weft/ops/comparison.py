"""Comparisons, logic and bits, element by element.

Gives ops whose results are truth values or integers, so that no gradient passes through them. `equal` and
`allclose` answer with a Python bool.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import weft.ops.bodies as bodies
from weft.core import dtypes
from weft.core.arrays import MODULES, Array
from weft.core.dtypes import dtype, result_dtype
from weft.core.types import TensorType
from weft.ops.arithmetic import (
    BOOL,
    COMPLEX,
    EXACT,
    FLOATS,
    OPERANDS,
    PAIR,
    Refusing,
    kind_of,
    refusing,
)
from weft.ops.facts import Rule
from weft.ops.families import composite, pointwise, promote
from weft.ops.record import Op, Promotion, cast_operand, ops, type_of
from weft.ops.samples import Maker, Sample, Samples, binary_samples, without_gradient
from weft.ops.values import BodyBuilder, Element, TensorLike


class Comparison(Promotion):
    """Operands promote, the result is bool.

    A number beside narrow integers goes the long way, where it is wrapped first as in PyTorch: NumPy would
    compare its true value.
    """

    __slots__ = ()

    def remember(self, op: Op, operands: list[Any], same: bool, compute: dtype, exact: bool) -> None:
        if same or compute not in EXACT or compute is dtypes.int64:
            super().remember(op, operands, same, compute, exact)


class Ordering(Comparison, Refusing):
    """A comparison that refuses complex operands."""

    __slots__ = ()


def _truth(operands: list[Any]) -> tuple[dtype, dtype]:
    return result_dtype(operands), dtypes.bool_


truth = Comparison("bool_result", _truth)


def _ordering(name: str) -> Promotion:
    return Ordering(truth, refusing(truth, COMPLEX, f"{name}_cpu").dtypes)


def _plain_samples(make: Maker) -> Iterator[Sample]:
    yield from without_gradient(binary_samples((-2, 2), (-2, 2), 1))(make)
    same = make(2, 3)
    yield Sample(same, same.copy(), grad=False)


COMPARED = "input: Tensor, other: Operand"


def _compare(name: str, kernel: np.ufunc, alias: tuple[str, ...] = (), *, ordered: bool = True) -> Op:
    promotion = _ordering(name) if ordered else truth
    return pointwise(
        name,
        kernel,
        promotion,
        emit=lambda b, x, y: b.binary(name, x, y),
        signature=COMPARED,
        aliases=alias,
        samples=_plain_samples,
    )


eq = _compare("eq", np.equal, ordered=False)
ne = _compare("ne", np.not_equal, ("not_equal",), ordered=False)
lt = _compare("lt", np.less, ("less",))
le = _compare("le", np.less_equal, ("less_equal",))
gt = _compare("gt", np.greater, ("greater",))
ge = _compare("ge", np.greater_equal, ("greater_equal",))


# -- logic ---------------------------------------------------------------------------------------------------
def _logical(name: str, kernel: np.ufunc, instruction: str) -> Op:
    return pointwise(
        name,
        kernel,
        truth,
        emit=lambda b, x, y: b.binary(instruction, b.cast(x, "b1"), b.cast(y, "b1")),
        signature=PAIR,
        samples=_without_numbers,
    )


def _without_numbers(make: Maker) -> Iterator[Sample]:
    yield from without_gradient(binary_samples((-1, 1), (-1, 1), None))(make)
    yield Sample(make.bools(2, 3), make.bools(3), grad=False)


logical_and = _logical("logical_and", np.logical_and, "and")
logical_or = _logical("logical_or", np.logical_or, "or")
logical_xor = _logical("logical_xor", np.logical_xor, "xor")


def _special_values(make: Maker) -> Iterator[Sample]:
    values = make(2, 3)
    if make.kind.category >= dtypes.FLOAT:
        values[0, :] = [np.nan, np.inf, -np.inf]
    yield Sample(values, grad=False)
    yield Sample(make(), grad=False)
    yield Sample(make(0, 3), grad=False)
    yield Sample(make(3, 2).T, grad=False)


logical_not = pointwise(
    "logical_not",
    np.logical_not,
    truth,
    emit=lambda b, x: b.not_(b.cast(x, "b1")),
    samples=_special_values,
)


# -- kinds of values -----------------------------------------------------------------------------------------
def _is(
    name: str,
    kernel: Rule,
    promotion: Promotion = truth,
    *,
    emit: Rule | None,
    out: bool | str = False,
    trusted: bool = True,
) -> Op:
    return pointwise(
        name,
        kernel,
        promotion,
        emit=emit,
        signature="input: Tensor",
        inplace=False,
        out=out,
        samples=_special_values,
        trusted=trusted,
    )


def _infinity(name: str, sign: int) -> Op:
    """Whether elements are the infinity of this sign."""

    def kernel(x: Array) -> Array:
        xp = MODULES[type(x)]
        if x.dtype.kind != "f":
            return xp.zeros(x.shape, bool)
        return xp.equal(x, sign * np.inf, out=...)

    def emit(b: BodyBuilder, x: Element) -> Any:
        return b.eq(x, b.like(sign * np.inf, x)) if bodies.is_float(x) else bodies.truth(b, False)

    promotion = refusing(truth, COMPLEX, f"{name} does not support complex inputs.", RuntimeError)
    return _is(name, kernel, promotion, emit=emit, out="exact", trusted=False)


def _isreal(x: Array) -> Array:
    xp = MODULES[type(x)]
    if x.dtype.kind == "c":
        return xp.equal(x.imag, 0, out=...)
    return xp.ones(x.shape, bool)


isnan = _is("isnan", np.isnan, emit=bodies.is_nan)
isinf = _is("isinf", np.isinf, emit=bodies.is_infinite)
isfinite = _is("isfinite", np.isfinite, emit=bodies.is_finite)
isreal = _is("isreal", _isreal, emit=lambda b, x: bodies.truth(b, True), trusted=False)
isposinf = _infinity("isposinf", 1)
isneginf = _infinity("isneginf", -1)


def _signbit(x: Array) -> Array:
    xp = MODULES[type(x)]
    return xp.signbit(x, out=...) if x.dtype.kind == "f" else xp.less(x, 0, out=...)


signbit = _is(
    "signbit",
    _signbit,
    refusing(truth, COMPLEX, "signbit is not implemented for complex tensors."),
    emit=bodies.sign_bit,
    out="exact",
)


# -- nearness ------------------------------------------------------------------------------------------------
def _isclose(x: Array, y: Array, rtol: float, atol: float, equal_nan: bool) -> Array:
    xp = MODULES[type(x)]
    close = xp.equal(x, y, out=...)
    if equal_nan and x.dtype.kind in "fc":
        xp.logical_or(close, xp.logical_and(xp.isnan(x), xp.isnan(y)), out=close)
    if rtol == 0 and atol == 0:
        return close
    wide = x.dtype if x.dtype.kind in "fc" else np.dtype(dtypes.get_default_dtype().numpy)
    x, y = x.astype(wide, copy=False), y.astype(wide, copy=False)
    error = xp.absolute(xp.subtract(x, y))
    allowed = xp.add(xp.absolute(xp.multiply(y, rtol)), atol)
    near = xp.logical_and(xp.isfinite(error), xp.less_equal(error, allowed))
    return xp.logical_or(close, near, out=...)


def _emit_isclose(b: BodyBuilder, x: Element, y: Element, rtol: float, atol: float, equal_nan: bool) -> Any:
    close = b.eq(x, y)
    if equal_nan and bodies.is_float(x):
        close = b.or_(close, b.and_(b.isnan(x), b.isnan(y)))
    if rtol == 0 and atol == 0:
        return close
    if not bodies.is_float(x):
        wide = {"float32": "f32", "float64": "f64"}.get(dtypes.get_default_dtype().name)
        if wide is None:
            return NotImplemented
        x, y = b.cast(x, wide), b.cast(y, wide)
    error = b.abs(b.sub(x, y))
    allowed = b.add(b.abs(b.mul(y, b.like(rtol, y))), b.like(atol, y))
    return b.or_(close, b.and_(bodies.is_finite(b, error), b.le(error, allowed)))


def _isclose_rule(x: TensorType, y: TensorType, rtol: float, atol: float, equal_nan: bool) -> TensorType:
    if kind_of(x) is not kind_of(y):
        raise RuntimeError(f"{kind_of(x).scalar_name} did not match {kind_of(y).scalar_name}")
    if rtol < 0:
        raise RuntimeError(f"rtol must be greater than or equal to zero, but got {rtol:g}")
    if atol < 0:
        raise RuntimeError(f"atol must be greater than or equal to zero, but got {atol:g}")
    return truth.rule(isclose, (x, y))


def _near_samples(make: Maker) -> Iterator[Sample]:
    left = make(2, 3)
    yield Sample(left, left.copy(), grad=False)
    yield Sample(left, make(3), rtol=0.5, atol=0.5, grad=False)
    yield Sample(make(), make(), equal_nan=True, grad=False)


NEAR = "input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False"
isclose = pointwise(
    "isclose",
    _isclose,
    truth,
    signature=NEAR,
    rule=_isclose_rule,
    emit=_emit_isclose,
    inplace=False,
    out=False,
    trusted=False,
    samples=_near_samples,
)


def _whole_pairs(make: Maker) -> Iterator[Sample]:
    left = make.ints(2, 3, high=5)
    yield Sample(left, left.copy(), grad=False)
    yield Sample(left, left + 1, grad=False)


@composite(
    NEAR,
    method=True,
    samples=_whole_pairs,
    unbatchable="vmap over torch.allclose isn't supported yet. Please file an issue at "
    "https://github.com/pytorch/pytorch/issues if you need this feature.",
)
def allclose(input: TensorLike, other: TensorLike, rtol: float, atol: float, equal_nan: bool) -> bool:
    """Whether all elements are close, as a Python bool."""
    return bool(ops.all(isclose(input, other, rtol, atol, equal_nan)))


@composite(
    "input: Tensor, other: Tensor",
    method=True,
    samples=_whole_pairs,
    unbatchable="Batching rule not implemented for aten::equal. We could not generate a fallback.",
)
def equal(input: TensorLike, other: TensorLike) -> bool:
    """Whether both have the same shape and elements, as a Python bool."""
    if type_of(input).shape != type_of(other).shape:
        return False
    return bool(ops.all(eq(input, other)))


# -- bits ----------------------------------------------------------------------------------------------------
def whole_samples(count: int, scalar: Any = 2, low: int = 0, high: int = 5) -> Samples:
    """Integer operands, which most of the ops below want."""

    def samples(make: Maker) -> Iterator[Sample]:
        kind = make.kind if make.kind in EXACT else dtypes.int64
        shapes: list[tuple[tuple[int, ...], ...]] = [
            ((2, 3), (2, 3)),
            ((2, 3), (3,)),
            ((), (2,)),
            ((0, 3), (1, 3)),
        ]
        for pair in shapes:
            yield Sample(*[make(*shape, low=low, high=high, kind=kind) for shape in pair[:count]], grad=False)
        if scalar is not None and count == 2:
            yield Sample(make(2, 3, low=low, high=high, kind=kind), scalar, grad=False)

    return samples


def _bitwise(name: str, kernel: np.ufunc) -> Op:
    promotion = refusing(promote, FLOATS | COMPLEX, f"{name}_cpu")
    return pointwise(
        name,
        kernel,
        promotion,
        emit=lambda b, x, y: b.binary(name.removeprefix("bitwise_"), x, y),
        signature=OPERANDS,
        samples=whole_samples(2),
    )


bitwise_and = _bitwise("bitwise_and", np.bitwise_and)
bitwise_or = _bitwise("bitwise_or", np.bitwise_or)
bitwise_xor = _bitwise("bitwise_xor", np.bitwise_xor)
bitwise_not = pointwise(
    "bitwise_not",
    np.invert,
    refusing(promote, FLOATS | COMPLEX, "bitwise_not_cpu"),
    emit=lambda b, x: b.not_(x),
    samples=whole_samples(1),
    out="exact",
)


def _shift_left(x: Array, y: Any) -> Array:
    xp = MODULES[type(x)]
    y = cast_operand(y, x.dtype)  # a number that faces have not cast wraps first
    bits = x.dtype.itemsize * 8
    valid = xp.logical_and(xp.greater_equal(y, 0), xp.less(y, bits))
    return xp.multiply(xp.left_shift(x, xp.multiply(y, valid)), valid, dtype=x.dtype, out=...)


def _shift_right(x: Array, y: Any) -> Array:
    xp = MODULES[type(x)]
    y = cast_operand(y, x.dtype)
    bits = x.dtype.itemsize * 8
    valid = xp.logical_and(xp.greater_equal(y, 0), xp.less(y, bits))
    shifted = xp.right_shift(x, xp.where(valid, y, bits - 1).astype(x.dtype), out=...)
    return shifted if x.dtype.kind == "i" else xp.multiply(shifted, valid, dtype=x.dtype, out=...)


def _emit_shift(b: BodyBuilder, x: Element, y: Element, left: bool) -> Any:
    """Where the shift is out of range: to the left nothing is left, to the right the sign."""
    bits = int(x.type[1:])
    valid = b.and_(b.ge(y, b.like(0, y)), b.lt(y, b.like(bits, y)))
    amount = b.select(valid, y, b.like(0 if left else bits - 1, y))
    shifted = b.shl(x, amount) if left else b.shr(x, amount)
    return shifted if x.type[0] == "i" and not left else b.select(valid, shifted, b.like(0, x))


def _shift(name: str, kernel: Rule, left: bool) -> Op:
    return pointwise(
        f"bitwise_{name}_shift",
        kernel,
        refusing(promote, BOOL | FLOATS | COMPLEX, f"{name[0]}shift_cpu"),
        OPERANDS,
        emit=lambda b, x, y: _emit_shift(b, x, y, left),
        samples=whole_samples(2),
    )


bitwise_left_shift = _shift("left", _shift_left, True)
bitwise_right_shift = _shift("right", _shift_right, False)
gcd = pointwise(
    "gcd",
    np.gcd,
    refusing(promote, BOOL | FLOATS | COMPLEX, "gcd_cpu"),
    signature=PAIR,
    samples=whole_samples(2, None),
)
lcm = pointwise(
    "lcm",
    lambda x, y: MODULES[type(x)].absolute(MODULES[type(x)].lcm(x, y), out=...),  # one that wraps, too
    refusing(promote, BOOL | FLOATS | COMPLEX, "lcm_cpu"),
    signature=PAIR,
    samples=whole_samples(2, None),
)
