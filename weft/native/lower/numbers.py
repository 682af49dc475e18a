"""Lowering of numbers: floats that are inputs, or read from tensors, and arithmetic on them.

Takes calls on Python's numbers; gives definitions, so that machine code computes them. One idea: a float is a
tensor of one f64, and a whole number that is made of it one of i64, marked so that types are promoted as for
a number; where Python would raise, the program stops, and the graph runs op by op, which raises at its place.

# Note [Failures]
Beside a number that may be refused (`1 / x`, `math.sqrt(x)`) stands a truth: whether it was. A step of the
program looks at all of them together before anything is written: see `weft.native.cpu.pool`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from weft.core.interrupts import let_through
from weft.core.requirements import require
from weft.native.ir.definitions import Definition, Given, Number, Point, reshaped
from weft.native.ir.scalar import FLOATS, Builder, Value

Body = Callable[..., Value]
CALLED: Final = ("exp", "log", "log2", "log10", "sin", "cos", "tan", "atan", "sinh", "cosh", "tanh")
"""Functions of Python's that are those of the C library, but for errors."""
EXACT: Final = 1 << 53
"""Ints up to this are floats, exactly."""
BEYOND: Final = float(1 << 63)
"""Floats below this in size are ints of 64 bits, without what is behind the point."""


def _refused_power(b: Builder, x: Value, y: Value, made: Value) -> Value:
    """Whether Python's power of floats would raise, or be complex."""
    zero, infinite = b.const(0.0, "f64"), b.const(math.inf, "f64")
    below = b.or_(b.lt(x, zero), b.and_(b.eq(x, zero), b.lt(y, zero)))
    finite = b.and_(b.lt(b.abs(x), infinite), b.lt(b.abs(y), infinite))
    return b.or_(below, b.and_(finite, b.eq(b.abs(made), infinite)))


def _refused_value(b: Builder, x: Value, made: Value) -> Value:
    """Whether Python would raise, as its functions of floats do: for NaN that comes from none, and for an
    infinity that comes from a finite number.
    """
    infinite = b.const(math.inf, "f64")
    overflows = b.and_(b.lt(b.abs(x), infinite), b.eq(b.abs(made), infinite))
    return b.or_(overflows, b.and_(b.ne(made, made), b.eq(x, x)))


def _called(name: str) -> tuple[Body, Body, str]:
    """A function that Python has from the C library."""
    return (lambda b, x: b.call(name, x)), _refused_value, "f64"


def _whole(name: str) -> tuple[Body, Body, str]:
    """A whole number near a float; Python's may be longer than those of machines."""
    body = lambda b, x: b.cast(b.rounded(name, x), "i64")
    return body, (lambda b, x, made: b.not_(b.lt(b.abs(x), b.const(BEYOND, "f64")))), "i64"


def _compare(name: str) -> tuple[Body, None, str]:
    return (lambda b, x, y: b.binary(name, x, y)), None, "b1"


ARITHMETIC: Final[dict[Any, tuple[Body, Body | None, str]]] = {
    operator.add: (lambda b, x, y: b.add(x, y), None, "f64"),
    operator.sub: (lambda b, x, y: b.sub(x, y), None, "f64"),
    operator.mul: (lambda b, x, y: b.mul(x, y), None, "f64"),
    operator.neg: (lambda b, x: b.neg(x), None, "f64"),
    operator.abs: (lambda b, x: b.abs(x), None, "f64"),
    abs: (lambda b, x: b.abs(x), None, "f64"),
    float: (lambda b, x: x, None, "f64"),
    operator.truediv: (
        lambda b, x, y: b.div(x, y),
        lambda b, x, y, made: b.eq(y, b.const(0.0, "f64")),
        "f64",
    ),
    operator.pow: (lambda b, x, y: b.call("pow", x, y), _refused_power, "f64"),
    pow: (lambda b, x, y: b.call("pow", x, y), _refused_power, "f64"),
    math.sqrt: (lambda b, x: b.sqrt(x), lambda b, x, made: b.lt(x, b.const(0.0, "f64")), "f64"),
    **{getattr(math, name): _called(name) for name in CALLED},
    int: _whole("trunc"),
    math.trunc: _whole("trunc"),
    math.floor: _whole("floor"),
    math.ceil: _whole("ceil"),
    round: _whole("rint"),
    operator.lt: _compare("lt"),
    operator.le: _compare("le"),
    operator.gt: _compare("gt"),
    operator.ge: _compare("ge"),
    operator.eq: _compare("eq"),
    operator.ne: _compare("ne"),
}
"""What it does to floats, whether Python refuses them, and the type of what it gives."""
ALONE: Final = frozenset([int, round, *[getattr(math, name) for name in CALLED]])
"""Functions that are others with a second argument."""
COSTS: Final = {operator.pow: 20, pow: 20, operator.truediv: 6, math.sqrt: 6} | {
    getattr(math, name): 20 for name in CALLED
}


def number(body: Body, operands: Sequence[Definition], type_: str, name: str, cost: int = 1) -> Number:
    return Number(
        shape=(), type=type_, name=name, operands=list(operands), cost=cost,
        make=lambda builder, values, _place: body(builder, *values),
    )  # fmt: skip


def given_number(place: int) -> Number:
    """A float that is an input."""
    held = Given(shape=(), type="f64", name=f"input {place}", input=place)
    return number(lambda _b, x: x, [held], "f64", f"input {place}", 0)


def read(value: Definition) -> Number | None:
    """The one element of a tensor as a number, if it is a float or a truth."""
    if value.size != 1 or (value.type not in FLOATS and value.type != "b1"):
        return None
    to = "b1" if value.type == "b1" else "f64"
    return number(lambda b, x: b.cast(x, to), [reshaped(value, ())], to, "item")


def held_by(value: Any, array: Any) -> Definition | None:
    """A tensor of one number, like this array; None where only Python can make it."""
    type_ = {np.dtype(np.float32): "f32", np.dtype(np.float64): "f64"}.get(array.dtype)
    if not isinstance(value, Number) or value.type != "f64" or type_ is None or tuple(array.shape):
        return None
    body = lambda builder, values, _place: builder.cast(values[0], type_)
    return Point(shape=(), type=type_, name="tensor", operands=[value], cost=1, make=body)


def computed(function: Any, args: Sequence[Any], failures: list[Definition]) -> Number | None:
    """A function of numbers; None where only Python can compute it."""
    known = ARITHMETIC.get(function) if _hashable(function) else None
    operands = [value for value in args if isinstance(value, Number)]
    if known is None or not operands or any(value.type != "f64" for value in operands):
        return None
    if not all(_is_float(value) for value in args) or (len(args) != 1 and function in ALONE):
        return None
    body, refused, type_ = known
    name = getattr(function, "__name__", "number")

    def on_floats(inner: Body) -> Body:
        def made(b: Builder, *values: Value) -> Value:
            given = iter(values)
            floats = [next(given) if isinstance(v, Number) else b.const(float(v), "f64") for v in args]
            return inner(b, *floats)

        return made

    result = number(on_floats(body), operands, type_, name, COSTS.get(function, 1))
    if refused is not None:
        test = on_floats(lambda b, *values: refused(b, *values, body(b, *values)))
        failures.append(number(test, operands, "b1", "refused"))
    return result


def checked(function: Any, args: Sequence[Any], failures: list[Definition]) -> bool:
    """Whether a requirement has become one of the failures."""
    if function is not require or len(args) < 2 or not isinstance(args[0], Definition):
        return False
    value, truth = args[0], args[1]
    if value.size != 1 or value.type not in (*FLOATS, "b1", "i64") or not isinstance(truth, bool):
        return False

    def body(b: Builder, x: Value) -> Value:
        holds = b.cast(x, "b1")
        return b.not_(holds) if truth else holds

    failures.append(number(body, [reshaped(value, ())], "b1", "required"))
    return True


def any_of(failures: Sequence[Definition]) -> Definition:
    """Whether any of these is true."""

    def body(b: Builder, *values: Value) -> Value:
        found = values[0]
        for value in values[1:]:
            found = b.or_(found, value)
        return found

    return failures[0] if len(failures) == 1 else number(body, failures, "b1", "failed")


def _is_float(value: Any) -> bool:
    if isinstance(value, Number):
        return True
    if type(value) is int:
        return abs(value) <= EXACT
    return type(value) is float


def _hashable(function: Any) -> bool:
    try:
        hash(function)
    except TypeError as error:
        let_through(error)
        return False
    return True
