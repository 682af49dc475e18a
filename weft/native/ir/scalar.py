"""Scalar bodies: what a kernel does to one element, in a language that no target owns.

Takes calls on a `Builder` (an op's `emit` makes them) and gives a body: a list of instructions, each on the
results of earlier ones. One idea: a body is data; the emitter writes it as vectors or as scalars, and
`interpret` runs it with NumPy, so what a kernel means can be checked without machine code.

# Note [Instructions]
    const            a number of the type                      value: the number
    load             an element of an operand                  value: the number of the access
    gather           an element that far beyond an operand's   value: the number of the access
    index            where along an axis the element stands    value: the axis, counted from the innermost
    scalar           a number that is an argument of the call  value: its number
    fold             what a fold of an earlier phase gave      value: the number of the fold
    cast, bitcast    to another type                           floats to ints truncate, as NumPy's astype
    neg abs sqrt floor ceil trunc rint not popcount
    add sub mul div rem min max and or xor shl shr mulhigh     `div` of ints truncates; min and max keep NaN
    eq ne lt le gt ge                                          on numbers, to b1
    select           (b1, a, b)
    fma              (a, b, c) rounded once
    call             of a function that has no instructions    value: its name (see `weft.native.cpu.outside`)
    chain            of any number of values: see Note [Chains]
    rarely           (b1, a, x): a, but where the truth says so, what a body gives for x, its `given`
Anything else (exp, tanh, erf, floor division, ...) is written in these: `weft.native.maths.emitting`.

# Note [Chains]
A chain folds a short row by an instruction of two values, in the order in which a loop along it would: that
adds whole vectors of elements to several vectors of sums at a time, then one vector, adds up the vectors and
the halves of the last one, and takes elements that are left one by one. Its value: the instruction, what
the fold starts from, and how many vectors the loop has; a vector has as many lanes as the loop's.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from weft.core.dtypes import bfloat16
from weft.core.interrupts import let_through
from weft.native.ir.sizes import Amount, Size, same

TYPES: Final[dict[str, Any]] = {
    "b1": np.dtype(np.bool_), "i8": np.dtype(np.int8), "u8": np.dtype(np.uint8), "i16": np.dtype(np.int16),
    "i32": np.dtype(np.int32), "u32": np.dtype(np.uint32), "i64": np.dtype(np.int64),
    "u64": np.dtype(np.uint64),
    "f32": np.dtype(np.float32), "f64": np.dtype(np.float64), "f16": np.dtype(np.float16),
    "b16": bfloat16.numpy,
}  # fmt: skip
NAMES: Final = {kind: name for name, kind in TYPES.items()}
FLOATS: Final = frozenset({"f32", "f64"})
HALVES: Final = frozenset({"f16", "b16"})
"""float16 and bfloat16: numbers that are only stored, moved, and cast to float32 and back."""
SIGNED: Final = frozenset({"i8", "i16", "i32", "i64"})
FOLDED: Final = "chain"
COMPARISONS: Final = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})


def bits_of(type_: str) -> int:
    """How many bits a number of this type has."""
    return int(type_[1:])


class Instruction(NamedTuple):
    """One step of a body; `args` are numbers of earlier instructions."""

    op: str
    type: str
    args: tuple[int, ...] = ()
    value: Any = None


class Value(NamedTuple):
    """The result of an instruction, for who builds with it."""

    place: int
    type: str


Body = tuple[Instruction, ...]


class Builder:
    """Builds a body. Equal instructions are made once."""

    def __init__(self) -> None:
        self.instructions: list[Instruction] = []
        self.scalars: list[tuple[str, Size | Amount]] = []
        """The numbers of a call that the body reads, which others may share."""
        self._known: dict[Any, int] = {}
        self.divides = False
        """Whether ints may be divided by what is not known: somebody looks for zeros."""
        self.numbers: frozenset[int] = frozenset()
        """The parameters of the op that are numbers of Python's, known or not, and no tensors."""
        self.half = ""
        """The half type that the op is asked for, where it computes in float32 in its stead."""

    def make(self, op: str, type_: str, *args: Value, value: Any = None) -> Value:
        """The result of an instruction."""
        instruction = Instruction(op, type_, tuple([each.place for each in args]), value)
        key: Any = instruction
        if op == "const" and isinstance(value, float):
            key = (type_, value.hex())  # 0.0 and -0.0 differ, and NaN is equal to itself
        place = self._known.get(key)
        if place is None:
            place = self._known[key] = len(self.instructions)
            self.instructions.append(instruction)
        return Value(place, type_)

    # -- leaves ----------------------------------------------------------------------------------------------
    def const(self, number: Any, type_: str) -> Value:
        """A number, rounded to the type."""
        if type_ in HALVES:
            return self.cast(self.const(number, "f32"), type_)
        if type(number) is Size or type(number) is Amount:
            return self.scalar(number, type_)
        kind = TYPES[type_]
        exact = kind.type(number).item() if type_ not in FLOATS else float(kind.type(number))
        return self.make("const", type_, value=exact)

    def scalar(self, number: Size | Amount, type_: str) -> Value:
        """A number that only a call knows."""
        for place, (known, other) in enumerate(self.scalars):
            if known == type_ and same(other, number):
                return self.make("scalar", type_, value=place)
        self.scalars.append((type_, number))
        return self.make("scalar", type_, value=len(self.scalars) - 1)

    def like(self, number: Any, other: Value) -> Value:
        """A number of another value's type; it may be one that only running tells."""
        if isinstance(number, Value):
            return self.cast(number, other.type)
        return self.const(number, other.type)

    def load(self, access: int, type_: str) -> Value:
        return self.make("load", type_, value=access)

    # -- arithmetic ------------------------------------------------------------------------------------------
    def cast(self, x: Value, type_: str) -> Value:
        if x.type == type_:
            return x
        if x.type in HALVES and type_ != "f32":
            return self.cast(self.cast(x, "f32"), type_)
        if type_ in HALVES and x.type != "f32":
            return self.cast(self.cast(x, "f32"), type_)
        if type_ == "b1":
            return self.ne(x, self.like(0, x))
        return self.make("cast", type_, x)

    def bitcast(self, x: Value, type_: str) -> Value:
        return x if x.type == type_ else self.make("bitcast", type_, x)

    def binary(self, op: str, x: Value, y: Value) -> Value:
        if x.type != y.type:
            raise TypeError(f"{op} of {x.type} and {y.type}")
        return self.make(op, "b1" if op in COMPARISONS else x.type, x, y)

    def add(self, x: Value, y: Value) -> Value:
        return self.binary("or" if x.type == "b1" else "add", x, y)

    def sub(self, x: Value, y: Value) -> Value:
        return self.binary("sub", x, y)

    def mul(self, x: Value, y: Value) -> Value:
        return self.binary("and" if x.type == "b1" else "mul", x, y)

    def div(self, x: Value, y: Value) -> Value:
        return self.binary("div", x, y)

    def rem(self, x: Value, y: Value) -> Value:
        return self.binary("rem", x, y)

    def min(self, x: Value, y: Value) -> Value:
        return self.binary("min", x, y)

    def max(self, x: Value, y: Value) -> Value:
        return self.binary("max", x, y)

    def fma(self, x: Value, y: Value, z: Value) -> Value:
        return self.make("fma", x.type, x, y, z)

    def neg(self, x: Value) -> Value:
        return self.make("neg", x.type, x)

    def abs(self, x: Value) -> Value:
        return x if x.type in ("b1", "u8", "u32", "u64") else self.make("abs", x.type, x)

    def sqrt(self, x: Value) -> Value:
        return self.make("sqrt", x.type, x)

    def floor(self, x: Value) -> Value:
        return self.rounded("floor", x)

    def ceil(self, x: Value) -> Value:
        return self.rounded("ceil", x)

    def trunc(self, x: Value) -> Value:
        return self.rounded("trunc", x)

    def rint(self, x: Value) -> Value:
        return self.rounded("rint", x)

    def rounded(self, op: str, x: Value) -> Value:
        return self.make(op, x.type, x) if x.type in FLOATS else x

    # -- bits and truth --------------------------------------------------------------------------------------
    def and_(self, x: Value, y: Value) -> Value:
        return self.binary("and", x, y)

    def or_(self, x: Value, y: Value) -> Value:
        return self.binary("or", x, y)

    def xor(self, x: Value, y: Value) -> Value:
        return self.binary("xor", x, y)

    def not_(self, x: Value) -> Value:
        return self.make("not", x.type, x)

    def shl(self, x: Value, y: Value) -> Value:
        return self.binary("shl", x, y)

    def shr(self, x: Value, y: Value) -> Value:
        return self.binary("shr", x, y)

    def eq(self, x: Value, y: Value) -> Value:
        return self.binary("eq", x, y)

    def ne(self, x: Value, y: Value) -> Value:
        return self.binary("ne", x, y)

    def lt(self, x: Value, y: Value) -> Value:
        return self.binary("lt", x, y)

    def le(self, x: Value, y: Value) -> Value:
        return self.binary("le", x, y)

    def gt(self, x: Value, y: Value) -> Value:
        return self.binary("gt", x, y)

    def ge(self, x: Value, y: Value) -> Value:
        return self.binary("ge", x, y)

    def isnan(self, x: Value) -> Value:
        return self.ne(x, x)

    def select(self, condition: Value, x: Value, y: Value) -> Value:
        return x if x == y else self.make("select", x.type, condition, x, y)

    def call(self, name: str, *args: Value) -> Value:
        """A function of the C library, or another one from outside, on numbers of one type."""
        return self.make("call", args[0].type, *args, value=name)

    def rarely(self, condition: Value, usual: Value, x: Value, make: Callable[[Any, Value], Value]) -> Value:
        """`make(builder, x)` where the condition holds, which is hardly ever: else `usual`. Vectors of which
        no lane asks for it do not compute it.
        """
        inner = type(self)()
        result = make(inner, inner.make("given", x.type))
        return self.make("rarely", usual.type, condition, usual, x, value=(inner.body(), result.place))

    def body(self) -> Body:
        return tuple(self.instructions)


FOLDABLE: Final = COMPARISONS | {"and", "or", "not", "add", "sub", "mul", "select"}


def fold_constants(builder: Builder, each: Instruction, args: Sequence[Value]) -> Value:
    """The result of an instruction: a number, where it follows from numbers that are no floats."""
    known = [builder.instructions[arg.place] for arg in args]
    if each.op == "select" and known[0].op == "const":
        return args[1] if known[0].value else args[2]
    whole = args and all(one.op == "const" and one.type not in FLOATS for one in known)
    if whole and each.op in FOLDABLE and each.type not in FLOATS:
        numbers = [TYPES[one.type].type(one.value) for one in known]
        return builder.const(_step(Instruction(each.op, each.type, (0, 1)), numbers, (), None), each.type)
    return builder.make(each.op, each.type, *args, value=each.value)


# -- with NumPy ----------------------------------------------------------------------------------------------
UNARY: Final[dict[str, Callable[..., Any]]] = {
    "neg": np.negative, "abs": np.absolute, "sqrt": np.sqrt, "floor": np.floor, "ceil": np.ceil,
    "trunc": np.trunc, "rint": np.rint, "popcount": np.bitwise_count,
}  # fmt: skip
BINARY: Final[dict[str, Callable[..., Any]]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "min": np.minimum, "max": np.maximum,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "eq": np.equal, "ne": np.not_equal,
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "rem": np.fmod,
}  # fmt: skip


def interpret(body: Sequence[Instruction], leaf: Callable[[Instruction], Any]) -> list[Any]:
    """The results of all instructions, as arrays; `leaf` gives loads, indices, scalars and folds."""
    results: list[Any] = []
    with np.errstate(all="ignore"):
        for each in body:
            args = [results[place] for place in each.args]
            results.append(_step(each, args, body, leaf))
    return results


def _step(each: Instruction, args: list[Any], body: Sequence[Instruction], leaf: Any) -> Any:
    op, kind = each.op, TYPES[each.type]
    if op == "const":
        return kind.type(each.value)
    if op in ("load", "index", "scalar", "fold", "given"):
        return np.asarray(leaf(each), kind)
    if op == "gather":
        return np.asarray(leaf(each, *args), kind)
    if op == "cast":
        return np.asarray(args[0]).astype(kind)
    if op == "bitcast":
        return np.asarray(args[0]).view(kind)
    if op == "select":
        return np.where(args[0], args[1], args[2])
    if op == "rarely":
        inner, place = each.value
        made = interpret(inner, lambda _given: args[2])[place]
        return np.where(args[0], made, args[1])
    if op == "not":
        return np.logical_not(args[0]) if each.type == "b1" else np.invert(args[0])
    if op in UNARY:
        return UNARY[op](args[0])
    if op in BINARY:
        return BINARY[op](args[0], args[1])
    if op == "div":
        return args[0] / args[1] if each.type in FLOATS else _truncated(args[0], args[1])
    if op in ("shl", "shr"):
        return (np.left_shift if op == "shl" else np.right_shift)(args[0], args[1])
    if op == "mulhigh":
        wide = [np.asarray(x, object) for x in args]
        return np.asarray(wide[0] * wide[1] >> bits_of(each.type), kind)
    if op == "fma":
        return _fused(args, kind)
    if op == FOLDED:
        return functools.reduce(BINARY[each.value[0]], args, kind.type(each.value[1]))
    if op == "call" and each.value in CALLS:
        return np.asarray(CALLS[each.value](*args), kind)
    raise NotImplementedError(f"{op} in a body")


def _truncated(x: Any, y: Any) -> Any:
    """Division of ints as machines do it: towards zero; 0 where that is not defined."""
    safe = np.where(y == 0, 1, y)
    return np.where(y == 0, 0, (x - np.fmod(x, safe)) // safe).astype(x.dtype)


def _fused(args: list[Any], kind: Any) -> Any:
    """One rounding, but for ties of longer numbers: what the longest type loses of the product and of the sum
    is added at the end. So `fma(x, y, -x * y)` is what rounding the product lost.
    """
    x, y, z = (np.asarray(arg).astype(np.longdouble) for arg in args)
    split = np.longdouble(2) ** ((np.finfo(np.longdouble).nmant + 2) // 2) + 1
    (x_high, x_low), (y_high, y_low) = (_halves(each, split) for each in (x, y))
    product = x * y
    lost = ((x_high * y_high - product) + x_high * y_low + x_low * y_high) + x_low * y_low
    total = product + z
    part = total - product
    lost = lost + ((product - (total - part)) + (z - part))
    return np.where(np.isfinite(lost), total + lost, total).astype(kind)


def _halves(x: Any, split: Any) -> tuple[Any, Any]:
    """A number as a sum of two that have half its bits."""
    high = x * split
    high = high - (high - x)
    return high, x - high


def _log_gamma(x: float) -> float:
    try:
        return math.lgamma(x)
    except (OverflowError, ValueError) as error:  # infinite
        let_through(error)
        return math.inf


CALLS: Final[dict[str, Callable[..., Any]]] = {
    "fmod": np.fmod, "lgamma": np.vectorize(_log_gamma), "pow": np.power, "exp": np.exp, "log": np.log,
    "log2": np.log2, "log10": np.log10, "sin": np.sin, "cos": np.cos, "tan": np.tan, "atan": np.arctan,
    "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh,
}  # fmt: skip
"""Functions from outside, for `interpret`."""


def text(body: Sequence[Instruction]) -> str:
    """The body as lines."""
    lines = []
    for place, each in enumerate(body):
        if each.op == "rarely":
            lines += [f"    {line}" for line in text(each.value[0]).splitlines()]
            each = each._replace(value=f"%{each.value[1]}")
        args = ", ".join(f"%{arg}" for arg in each.args)
        given = "" if each.value is None else f" {each.value!r}" if not args else f" {each.value!r},"
        lines.append(f"%{place} = {each.op}.{each.type}{given}{' ' if args else ''}{args}")
    return "\n".join(lines)
