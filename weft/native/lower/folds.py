"""Lowering of folds, and of what is made of folds: sums, softmax, normalisation.

Gives rules for `weft.native.lower.lowering`. One idea: these are the formulas of the eager kernels, written
over
definitions; that they become one kernel is the business of fusion.

# Note [Ways to fold]
over the last axes        one result a row; what is made of it may be in the same kernel
over the first axes       memory is walked along as it lies, with a result per column and chunk; then these
over all                  a result per chunk; then these, if there are several
over first and last axes  over the last ones, then over the first ones
How many chunks there are follows from sizes alone, so bits do not depend on the number of threads. A single
chunk is no row: with a row, other things are fused, and sums have another order than at sizes of many chunks,
of which a template knows nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from weft.core.dtypes import as_dtype
from weft.native.ir.definitions import Definition, Fold, broadcast, copyable, permuted, reshaped
from weft.native.ir.scalar import FLOATS, Builder, Value
from weft.native.ir.sizes import greatest, least, same
from weft.native.lower.lowering import Lowering, Unlowered, point, rule, type_name
from weft.native.maths import emitting as maths


def each(make: Callable[..., Value], *operands: Definition, name: str = "", cost: int = 1) -> Definition:
    """A pointwise definition on operands that broadcast."""
    shape: tuple[int, ...] = ()
    for value in operands:
        rank = max(len(shape), len(value.shape))
        left = (1,) * (rank - len(shape)) + shape
        right = (1,) * (rank - len(value.shape)) + value.shape
        shape = tuple([a if b == 1 else b for a, b in zip(left, right)])

    def written(builder: Builder, values: list[Value], _place: Any) -> Value:
        return make(builder, *values)

    return point(written, shape, operands[0].type, operands, name, cost)


def cast(value: Definition, type_: str) -> Definition:
    if value.type == type_:
        return value
    return point(lambda b, v, _: b.cast(v[0], type_), value.shape, type_, (value,), "cast")


def axes_of(dim: Any, rank: int) -> tuple[int, ...]:
    if dim is None or (isinstance(dim, (tuple, list)) and not dim):
        return tuple(range(rank))
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    return tuple(sorted({axis % rank for axis in dims})) if rank else ()


PART = 1 << 14
"""How many elements one chunk of a fold over many has, at least."""
MOST_PARTS = 64
MOST_ROWS_OF_PARTS = 32
LEAST_COLUMNS = 16
"""Rows shorter than this are not worth a walk."""


def folded(kind: str, value: Definition, axes: Sequence[int], keepdim: bool, name: str) -> Definition:
    """A fold over any axes; see Note [Ways to fold]."""
    rank = len(value.shape)
    if kind == "sum" and value.type in FLOATS and all(value.shape[axis] == 1 for axis in axes):
        value = each(lambda b, v: b.add(v, b.like(0, v)), value, name=name)  # sums begin with 0: -0.0 is none
    if not axes:
        return value
    if 0 in value.shape:
        return of_nothing(kind, value, axes, keepdim, name)
    rest = [axis for axis in range(rank) if axis not in axes]
    shape = tuple([value.shape[axis] for axis in rest])
    long = [axis for axis in range(rank) if value.shape[axis] != 1]
    plain = reshaped(copyable(value), tuple([value.shape[axis] for axis in long]))
    over = [place for place, axis in enumerate(long) if axis in axes]
    made = reshaped(_folded(kind, plain, over, name), shape) if over else reshaped(value, shape)
    if keepdim:
        made = reshaped(made, tuple([1 if axis in axes else value.shape[axis] for axis in range(rank)]))
    return made


def of_nothing(kind: str, value: Definition, axes: Sequence[int], keepdim: bool, name: str) -> Definition:
    """What a fold starts from, everywhere."""
    if kind in ("max", "min"):
        raise Unlowered("a maximum or minimum over an empty dimension")
    number = {"sum": 0, "prod": 1, "any": False, "all": True}[kind]
    kept = [1 if axis in axes else n for axis, n in enumerate(value.shape) if keepdim or axis not in axes]
    return point(lambda b, _v, _p: b.const(number, value.type), tuple(kept), value.type, (), name, 0)


def _folded(kind: str, value: Definition, over: list[int], name: str) -> Definition:
    """A fold over some of axes that all have more than one element."""
    rank, count = len(value.shape), len(over)
    trailing = 0
    while trailing < count and over[count - 1 - trailing] == rank - 1 - trailing:
        trailing += 1
    if count == rank:
        parts = greatest(1, least(MOST_PARTS, value.size // PART))
        whole = Fold(
            shape=() if same(parts, 1) else (parts,),
            type=value.type,
            name=name,
            kind=kind,
            operand=value,
            first=0,
            last=rank,
            parts=parts,
        )
        return whole if same(parts, 1) else rows_folded(kind, whole, [0], name)
    if 0 < trailing < count:
        return _folded(kind, rows_folded(kind, value, over[-trailing:], name), over[:-trailing], name)
    columns = prod(value.shape[count:])
    if trailing or over != list(range(count)) or columns < LEAST_COLUMNS:
        return rows_folded(kind, value, over, name)
    parts = greatest(1, least(MOST_ROWS_OF_PARTS, value.size // columns // 8, value.size // PART))
    first = columns_folded(kind, value, count, parts, name)
    return first if same(parts, 1) else columns_folded(kind, first, 1, 1, name)


def columns_folded(kind: str, value: Definition, last: int, parts: int, name: str) -> Definition:
    """A fold over leading axes, in parts; their number may be open, and one then."""
    rest = value.shape[last:]
    shape = rest if same(parts, 1) else (parts, *rest)
    return Fold(
        shape=shape, type=value.type, name=name, kind=kind, operand=value, first=0, last=last, parts=parts
    )


def rows_folded(kind: str, value: Definition, over: Sequence[int], name: str) -> Definition:
    """A fold over axes that are looked at as the last ones."""
    rank = len(value.shape)
    rest = [axis for axis in range(rank) if axis not in over]
    turned = permuted(value, [*rest, *over])
    shape = tuple([value.shape[axis] for axis in rest])
    return Fold(
        shape=shape, type=value.type, name=name, kind=kind, operand=turned, first=len(rest), last=rank
    )


def floating(value: Definition) -> None:
    if value.type not in FLOATS:
        raise Unlowered(f"a dtype that is not floating point: {value.type}")


# -- plain folds ---------------------------------------------------------------------------------------------
def result_type(lowering: Lowering) -> str:
    assert lowering.node is not None
    found: Any = lowering.node.meta["val"]
    return type_name(found.array.dtype)


@rule("sum")
def _sum(lowering: Lowering, x: Definition, dim: Any, keepdim: bool, _dtype: Any) -> Definition:
    given = cast(x, result_type(lowering))
    return folded("sum", given, axes_of(dim, len(x.shape)), keepdim, "sum")


@rule("prod")
def _prod(lowering: Lowering, x: Definition, dim: Any, keepdim: bool, _dtype: Any) -> Definition:
    given = cast(x, result_type(lowering))
    return folded("prod", given, axes_of(dim, len(x.shape)), keepdim, "prod")


@rule("mean")
def _mean(lowering: Lowering, x: Definition, dim: Any, keepdim: bool, _dtype: Any) -> Definition:
    given = cast(x, result_type(lowering))
    axes = axes_of(dim, len(x.shape))
    return mean(given, axes, keepdim)


def mean(x: Definition, axes: Sequence[int], keepdim: bool) -> Definition:
    floating(x)
    count = prod(x.shape[axis] for axis in axes)
    total = folded("sum", x, axes, keepdim, "mean")
    return each(lambda b, s: b.div(s, b.like(count, s)), total, name="mean")


@rule("amax")
def _amax(_lowering: Lowering, x: Definition, dim: Any, keepdim: bool) -> Definition:
    return folded("max", x, axes_of(dim, len(x.shape)), keepdim, "amax")


@rule("amin")
def _amin(_lowering: Lowering, x: Definition, dim: Any, keepdim: bool) -> Definition:
    return folded("min", x, axes_of(dim, len(x.shape)), keepdim, "amin")


@rule("any")
def _any(_lowering: Lowering, x: Definition, dim: Any, keepdim: bool) -> Definition:
    if x.type == "u8":
        raise Unlowered("any() of uint8, whose result is uint8")
    return folded("any", cast(x, "b1"), () if dim == () else axes_of(dim, len(x.shape)), keepdim, "any")


@rule("all")
def _all(_lowering: Lowering, x: Definition, dim: Any, keepdim: bool) -> Definition:
    if x.type == "u8":
        raise Unlowered("all() of uint8, whose result is uint8")
    return folded("all", cast(x, "b1"), () if dim == () else axes_of(dim, len(x.shape)), keepdim, "all")


# -- normalisation -------------------------------------------------------------------------------------------
def normal(x: Definition, axes: tuple[int, ...], eps: float) -> tuple[Definition, Definition]:
    """The centred values times the inverse of their spread, and that inverse."""
    floating(x)
    centred = each(lambda b, v, m: b.sub(v, m), x, mean(x, axes, True), name="centre")
    squares = each(lambda b, v: b.mul(v, v), centred, name="square")
    spread = mean(squares, axes, True)
    scale = inverse(spread, eps)
    return each(lambda b, v, s: b.mul(v, s), centred, scale, name="normal"), scale


def inverse(spread: Definition, eps: Any) -> Definition:
    """One over the root of a variance, to which a number is added that may be known only in a call."""
    known = not isinstance(eps, Definition)

    def body(b: Builder, v: Value, *numbers: Value) -> Value:
        more = b.like(eps, v) if known else b.cast(numbers[0], v.type)
        return b.div(b.like(1, v), b.sqrt(b.add(v, more)))

    return each(body, spread, *(() if known else (eps,)), name="scale", cost=8)


@rule("layer_norm", numbers="floats")
def _layer_norm(
    _lowering: Lowering, x: Definition, shape: Any, weight: Any, bias: Any, eps: float, _cudnn: bool
) -> Definition:
    rank = len(x.shape)
    made, _ = normal(x, tuple(range(rank - len(tuple(shape)), rank)), eps)
    if weight is not None:
        made = each(lambda b, v, w: b.mul(v, w), made, weight, name="layer_norm")
    if bias is not None:
        made = each(lambda b, v, w: b.add(v, w), made, bias, name="layer_norm")
    return made


@rule("norm_backward", numbers="floats")
def _norm_backward(
    _lowering: Lowering,
    g: Definition,
    x: Definition,
    weight: Any,
    shape: Any,
    dims: Any,
    eps: float,
    needs: Any,
) -> tuple[Any, Any, Any]:
    by_input: Any = None
    by_weight: Any = None
    by_bias: Any = None
    rank, affine = len(x.shape), tuple(shape)
    lead = rank - len(affine)
    axes = (*range(lead), *[lead + i for i, n in enumerate(affine) if n == 1 and x.shape[lead + i] != 1])
    made, scale = normal(x, tuple(dims), eps)
    if needs[2]:
        by_bias = reshaped(folded("sum", g, axes, False, "bias"), affine)
    if needs[1]:
        product = each(lambda b, a, c: b.mul(a, c), g, made, name="weight")
        by_weight = reshaped(folded("sum", product, axes, False, "weight"), affine)
    if needs[0]:
        inner = g if weight is None else each(lambda b, a, w: b.mul(a, w), g, weight, name="inner")
        first = mean(inner, tuple(dims), True)
        second = mean(each(lambda b, a, c: b.mul(a, c), inner, made, name="inner"), tuple(dims), True)
        by_input = each(
            lambda b, a, f, n, s, r: b.mul(b.sub(b.sub(a, f), b.mul(n, s)), r),
            inner,
            broadcast(first, inner.shape),
            made,
            broadcast(second, inner.shape),
            broadcast(scale, inner.shape),
            name="norm_backward",
        )
    return by_input, by_weight, by_bias


# -- softmax -------------------------------------------------------------------------------------------------
def shifted(x: Definition, axis: int) -> Definition:
    """The values less the greatest of their row."""
    floating(x)
    most = folded("max", x, (axis,), True, "max")
    return each(lambda b, v, m: b.sub(v, m), x, most, name="shift")


def along(x: Definition, dim: int, dtype: Any) -> int:
    if dtype is not None and type_name(as_dtype(dtype).numpy) != x.type:
        raise Unlowered("softmax with another result dtype")
    if not x.shape or 0 in x.shape:
        raise Unlowered("softmax of an empty tensor or a scalar")
    return dim % len(x.shape)


@rule("softmax")
def _softmax(_lowering: Lowering, x: Definition, dim: int, dtype: Any) -> Definition:
    axis = along(x, dim, dtype)
    powers = each(maths.exp, shifted(x, axis), name="exp", cost=20)
    total = folded("sum", powers, (axis,), True, "sum")
    return each(lambda b, v, s: b.div(v, s), powers, total, name="softmax")


@rule("log_softmax")
def _log_softmax(_lowering: Lowering, x: Definition, dim: int, dtype: Any) -> Definition:
    axis = along(x, dim, dtype)
    less = shifted(x, axis)
    total = folded("sum", each(maths.exp, less, name="exp", cost=20), (axis,), True, "sum")
    return each(
        lambda b, v, s: b.sub(v, s), less, each(maths.log, total, name="log", cost=20), name="log_softmax"
    )


@rule("softmax_backward")
def _softmax_backward(_lowering: Lowering, g: Definition, out: Definition, dim: int) -> Definition:
    axis = along(g, dim, None)
    floating(g)
    total = folded("sum", each(lambda b, a, o: b.mul(a, o), g, out, name="product"), (axis,), True, "sum")
    return each(lambda b, a, t, o: b.mul(b.sub(a, t), o), g, total, out, name="softmax_backward")


@rule("log_softmax_backward")
def _log_softmax_backward(_lowering: Lowering, g: Definition, out: Definition, dim: int) -> Definition:
    axis = along(g, dim, None)
    floating(g)
    total = folded("sum", g, (axis,), True, "sum")
    return each(
        lambda b, a, o, t: b.sub(a, b.mul(maths.exp(b, o), t)),
        g,
        out,
        total,
        name="log_softmax_backward",
        cost=24,
    )
