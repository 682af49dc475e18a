"""Floating-point numbers taken apart and stepped through, and the incomplete gamma functions.

Takes floats; gives mantissas and exponents, neighbours, products with powers of two. One idea: these read
the representation, so halves are handled in their own format, not in float32.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from weft.core import dtypes
from weft.core.arrays import Array, as_array, namespace
from weft.core.devices import device_of
from weft.core.dtypes import HALVES, dtype_of
from weft.core.errors import no_derivative
from weft.core.types import TensorType
from weft.ops.arithmetic import COMPLEX, EXACT, keep, refusing
from weft.ops.batching import unchanged
from weft.ops.families import HIDDEN, composite, index, pointwise, promote
from weft.ops.record import (
    Op,
    Promotion,
    broadcast_shapes,
    cast_operand,
    common_device,
    ops,
    quiet,
    type_of,
    unsupported,
)
from weft.ops.return_types import result
from weft.ops.samples import Maker, Sample, binary_samples, without_gradient
from weft.ops.special import from_scipy
from weft.ops.values import MaybeTensor, TensorLike

FREXP = result("frexp", "mantissa", "exponent")


# -- parts ---------------------------------------------------------------------------------------------------
def _frexp_rule(x: TensorType) -> tuple[TensorType, TensorType]:
    if not x.dtype.is_floating_point:
        raise RuntimeError("torch.frexp() only supports floating-point dtypes")
    return x, TensorType(x.shape, dtypes.int32, x.device)


def _frexp_kernel(x: Array) -> tuple[Array, Array]:
    xp = namespace(x)
    mantissa, exponent = xp.frexp(x)
    return xp.asarray(mantissa), xp.asarray(exponent, dtype=np.int32)


def _frexp_batch(op: Op, size: int, args: tuple[Any, ...], dims: tuple[Any, ...]) -> Any:
    return unchanged(op, size, args, dims)[0], (0, 0)


def _frexp_vjp(g: Sequence[MaybeTensor], out: Sequence[TensorLike], _x: TensorType) -> Any:
    return ops.div(g[0], ops.exp2(ops._to_copy(out[1], _x.dtype)))


frexp = index(
    "frexp", _frexp_kernel, _frexp_rule, "input: Tensor", vjp=_frexp_vjp, returns=FREXP, out="exact",
    outputs_read=(1,), batch=_frexp_batch,
    samples=lambda make: [Sample(make(2, 3, low=0.6, high=0.9)), Sample(make(low=0.6, high=0.9))],
    refuses="nothing",
)  # fmt: skip


def _ldexp_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(2, 3), make.ints(3, low=-2, high=3))
    yield Sample(make(2, 3), make(3))
    yield Sample(make(), make())


def _scaled_rule(x: TensorType, power: TensorType) -> TensorType:
    if not x.dtype.is_floating_point:
        raise unsupported("ldexp_cpu", x.dtype)
    if power.dtype.category != dtypes.INTEGER:
        raise unsupported("ldexp_cpu_exp", power.dtype)
    shape = broadcast_shapes(x.shape, power.shape)
    return TensorType(shape, x.dtype, common_device([x, power]))


def _scaled(x: Array, power: Array) -> Array:
    """By the function of C, which rounds once and knows no infinite powers; it takes powers of 32 bits."""
    wide = x.astype(np.float32) if dtype_of(x) in HALVES else x
    made = namespace(x).ldexp(wide, power.astype(np.int32))
    return as_array(made).astype(x.dtype, copy=False)


_ldexp = pointwise(
    "_ldexp", _scaled, None, "input: Tensor, other: Tensor", rule=_scaled_rule,
    refuses="nothing", node="LdexpBackward0", **HIDDEN,
    vjp=(lambda g, _out, _x, power: ops._ldexp(g, power), None),
    samples=lambda make: iter(list(_ldexp_samples(make))[:1]),
)  # fmt: skip


@composite("input: Tensor, other: Tensor", inplace=True, out=True, samples=_ldexp_samples)
def ldexp(input: TensorLike, other: TensorLike) -> Any:
    """The first times two to the power of the second."""
    kind, power = type_of(input).dtype, type_of(other).dtype
    if kind.is_floating_point and power.category < dtypes.FLOAT:
        return ops._ldexp(input, other)
    factor = ops.pow(2.0, other)
    if kind.category >= dtypes.FLOAT and power.category < dtypes.FLOAT:
        factor = ops._to_copy(factor, kind.to_real())
    return ops.mul(input, factor)


# -- neighbours ----------------------------------------------------------------------------------------------
class Native(Promotion):
    """Computes in the very dtype, halves too."""

    def run(self, op: Op, bound: tuple[Any, ...]) -> Array:
        operands = self.operands(op, bound)
        kind = self.dtypes(operands)[1].numpy
        assert op.kernel is not None
        device = device_of(*operands)
        return as_array(quiet(op.kernel, *[device.asarray(cast_operand(v, kind)) for v in operands]))


def _nextafter(x: Array, y: Array) -> Array:
    """Equal numbers have the second, as in C: of zeros NumPy's halves have the first."""
    xp = namespace(x)
    return as_array(xp.where(xp.equal(x, y), y, xp.nextafter(x, y)))


nextafter = pointwise(
    "nextafter",
    _nextafter,
    Native("promote", refusing(promote, EXACT | COMPLEX, "nextafter_cpu").dtypes),
    signature="input: Tensor, other: Tensor",
    vjp=(lambda g, _out, x, y: keep(g, ops.ne(x, y)), lambda g, _out: ops.zeros_like(g)),
    samples=without_gradient(binary_samples((-2, 2), (-2, 2), None)),
    trusted=False,
)


# -- incomplete gamma ----------------------------------------------------------------------------------------
def _gamma_slope(g: TensorLike, a: TensorLike, x: TensorLike) -> Any:
    """The gradient of the upper limit: x^(a-1) e^-x / gamma(a)."""
    power = ops.sub(ops.mul(ops.sub(a, 1), ops.log(x)), ops.add(x, ops.lgamma(a)))
    return ops.mul(g, ops.exp(power))


def _no_order(name: str) -> Any:
    def rule(g: TensorLike, _out: object) -> Any:
        no_derivative(f"the derivative for '{name}: input' is not implemented.", NotImplementedError)

    return rule


def _gamma_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(2, 3, low=0.5, high=3), make(3, low=0.3, high=3), grad=False)
    yield Sample(make(low=0.5, high=3), make(2, low=0.3, high=3), grad=False)


def _incomplete(name: str, loop: str, sign: int) -> Op:
    scipy_loop = from_scipy(loop)

    def slope(g: TensorLike, _out: object, a: TensorLike, x: TensorLike) -> Any:
        found = _gamma_slope(g, a, x)
        return found if sign > 0 else ops.neg(found)

    def kernel(a: Array, x: Array) -> Array:
        out = scipy_loop(a, x)
        return namespace(out).where((a < 0) | (x < 0), out.dtype.type(np.nan), out)

    return pointwise(
        name, kernel, refusing(promote, EXACT | COMPLEX, f"{name}_cpu"),
        signature="input: Tensor, other: Tensor", samples=_gamma_samples, trusted=False,
        vjp=(_no_order(name), slope), aliases=(f"special.gamma{'inc' if sign > 0 else 'incc'}",),
    )  # fmt: skip


igamma = _incomplete("igamma", "gammainc", 1)
igammac = _incomplete("igammac", "gammaincc", -1)
