"""Pointwise arithmetic: one record per op, gradients as one-liners."""

from __future__ import annotations

import numpy as np

from weft.ops.families import bool_result, float_result, pointwise, promote
from weft.ops.record import quiet  # noqa: F401


def _add(x, y, alpha):  # type: ignore[no-untyped-def]
    return np.add(x, y) if type(alpha) is int and alpha == 1 else np.add(x, np.multiply(y, alpha, dtype=np.result_type(x, y)))


add = pointwise(
    "add", _add, promote, signature="input: Tensor, other: Operand, *, alpha: Number = 1",
    vjp=(lambda g, _out, _x: g, lambda g, _out, _x, _y, alpha: g if alpha == 1 else mul(g, alpha)),
)  # fmt: skip
mul = pointwise(
    "mul", np.multiply, promote, vjp=(lambda g, _out, _x, y: mul(g, y), lambda g, _out, x: mul(g, x)), aliases=("multiply",)
)
neg = pointwise("neg", np.negative, promote, vjp=lambda g: neg(g), aliases=("negative",))
exp = pointwise("exp", np.exp, float_result, vjp=lambda g, out: mul(g, out))
tanh = pointwise("tanh", np.tanh, float_result, vjp=lambda g, out: mul(g, add(neg(mul(out, out)), 1)), domain=(-2, 2))
div = pointwise(
    "div", np.true_divide, float_result, second_domain=(0.5, 2),
    vjp=(lambda g, _out, _x, y: div(g, y), lambda g, out, _x, y: neg(div(mul(g, out), y))),
)  # fmt: skip
eq = pointwise("eq", np.equal, bool_result)
