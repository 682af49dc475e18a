"""Sums of products by name or by dimension: einsum, tensordot, inner, outer, kron, cross, trace, bilinear.

Takes operands and a description of which dimensions meet; gives products written in terms of `matmul`. One
idea: any pair of operands becomes one batched matrix product once its dimensions are sorted into batch, own
and contracted ones, so einsum is that step along a greedy order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from math import prod
from typing import Any

from weft.core import dtypes
from weft.core.arrays import Array, namespace
from weft.core.dims import outside, wrap_dims
from weft.core.dtypes import HALF_CHARS
from weft.core.naming import named
from weft.core.types import TensorType
from weft.core.warn import warn
from weft.ops.batching import logical_result, logical_type, to_front
from weft.ops.contract import _pairs, multiply, reduced
from weft.ops.families import composite, contract, reduce
from weft.ops.record import Op, broadcast_shapes, common_device, ops, type_of, unsupported
from weft.ops.samples import Maker, Sample
from weft.ops.values import MaybeTensor, TensorLike

Labels = tuple[int, ...]
ELLIPSIS_BASE = 100  # labels from here on name the dimensions an ellipsis stands for, the last one first
NO_OPERANDS = (
    "einsum(): must specify the equation string and at least one operand, or at least one operand and its "
    "subscripts list"
)


# -- reading equations ---------------------------------------------------------------------------------------
def _label(letter: str) -> int:
    """Upper case comes first, as in implicit outputs."""
    return ord(letter) - 65 if letter.isupper() else ord(letter) - 71


def _letter(label: int) -> str:
    return chr(label + 65) if label < 26 else chr(label + 71)


def _subscript(entry: Any) -> str:
    if entry is Ellipsis:
        return "..."
    if not 0 <= entry < 52:
        raise ValueError("einsum(): subscript in subscript list is not within the valid range [0, 52)")
    return _letter(entry)


def _arguments(equation: Any, operands: Sequence[Any]) -> tuple[str, list[Any]]:
    """Both call forms as an equation and its operands."""
    if isinstance(equation, str):
        given = (
            list(operands[0])
            if len(operands) == 1 and isinstance(operands[0], (list, tuple))
            else list(operands)
        )
        if not given:
            raise ValueError(NO_OPERANDS)
        return equation, given
    if operands and all(isinstance(v, int) or v is Ellipsis for v in operands):  # one list, already laid flat
        operands = [list(operands)]
    values = [equation, *operands]
    if len(values) < 2:
        raise ValueError(NO_OPERANDS)
    tensors, lists = values[: len(values) // 2 * 2 : 2], values[1::2]
    text = ",".join("".join(map(_subscript, subscripts)) for subscripts in lists)
    if len(values) % 2:
        text += "->" + "".join(map(_subscript, values[-1]))
    return text, tensors


@lru_cache(512)
def _parse(equation: str) -> tuple[tuple[tuple[Labels, int | None], ...], tuple[Labels, int | None] | None]:
    """Labels and the place of the ellipsis (or None) of each operand and of the output (None if it is
    implicit).
    """
    arrow = equation.find("->")
    left = equation if arrow < 0 else equation[:arrow]
    operands: list[tuple[Labels, int | None]] = []
    offset = 0
    for number, part in enumerate(left.split(",")):
        operands.append(_parse_part(part, offset, f"operand {number}"))
        offset += len(part) + 1
    if arrow < 0:
        return tuple(operands), None
    output = _parse_part(equation[arrow + 2 :], arrow + 2, "output")
    return tuple(operands), output


def _parse_part(part: str, offset: int, owner: str) -> tuple[Labels, int | None]:
    labels: list[int] = []
    ellipsis: int | None = None
    position = 0
    while position < len(part):
        letter = part[position]
        if letter == ".":
            _check_dots(part, position, ellipsis, owner)
            ellipsis = len(labels)
            position += 3
            continue
        if letter.isascii() and letter.isalpha():
            labels.append(_label(letter))
        elif letter != " ":
            raise RuntimeError(
                f"einsum(): invalid subscript given at index {offset + position} in the equation string, "
                "subscripts must be in "
                "[a-zA-Z]"
            )
        position += 1
    return tuple(labels), ellipsis


def _check_dots(part: str, position: int, ellipsis: int | None, owner: str) -> None:
    output = owner == "output"
    if ellipsis is not None:
        raise RuntimeError(
            f"einsum(): found '.' for {owner} "
            + (
                "but an ellipsis (...) was already found"
                if output
                else "for which an ellipsis was already found"
            )
        )
    if part[position : position + 3] != "...":
        raise RuntimeError(
            f"einsum(): found '.' for {owner} that is not part of any ellipsis{' (...)' if output else ''}"
        )


def _expand(labels: Labels, ellipsis: int | None, rank: int, number: int) -> Labels:
    """One operand's labels with its ellipsis spelled out."""
    hidden = rank - len(labels)
    if (ellipsis is None and hidden) or hidden < 0:
        more = "" if ellipsis is not None else " and no ellipsis was given"
        relation = "is more than" if ellipsis is not None else "does not match"
        raise RuntimeError(
            f"einsum(): the number of subscripts in the equation ({len(labels)}) {relation} the number of "
            f"dimensions ({rank}) "
            f"for operand {number}{more}"
        )
    if ellipsis is None:
        return labels
    return labels[:ellipsis] + tuple(ELLIPSIS_BASE + i for i in reversed(range(hidden))) + labels[ellipsis:]


def _output(inputs: list[Labels], output: tuple[Labels, int | None] | None) -> Labels:
    counts: dict[int, int] = {}
    for labels in inputs:
        for label in labels:
            counts[label] = counts.get(label, 0) + 1
    hidden = tuple(sorted((x for x in counts if x >= ELLIPSIS_BASE), reverse=True))
    if output is None:
        return hidden + tuple(sorted(x for x, n in counts.items() if n == 1 and x < ELLIPSIS_BASE))
    labels, ellipsis = output
    for position, label in enumerate(labels):
        if label in labels[:position]:
            raise RuntimeError(
                f"einsum(): output subscript {_letter(label)} appears more than once in the output"
            )
        if label not in counts:
            raise RuntimeError(
                f"einsum(): output subscript {_letter(label)} does not appear in the equation for any input "
                "operand"
            )
    return labels if ellipsis is None else labels[:ellipsis] + hidden + labels[ellipsis:]


# -- one step at a time --------------------------------------------------------------------------------------
def _shape(value: TensorLike) -> tuple[int, ...]:
    return tuple(value.shape)


def _diagonals(value: TensorLike, labels: Labels, number: int) -> tuple[Any, Labels]:
    """A label that one operand has twice means its diagonal."""
    while len(set(labels)) < len(labels):
        second = next(i for i, x in enumerate(labels) if x in labels[:i])
        first = labels.index(labels[second])
        sizes = _shape(value)
        if sizes[first] != sizes[second]:
            raise RuntimeError(
                f"einsum(): subscript {_letter(labels[second])} is repeated for operand {number} but the "
                "sizes don't match, "
                f"{sizes[second]} != {sizes[first]}"
            )
        value = ops.diagonal(value, 0, first, second)
        kept = [x for i, x in enumerate(labels) if i not in (first, second)]
        labels = (*kept, labels[second])
    return value, labels


def _check_sizes(values: list[Any], inputs: list[Labels]) -> None:
    seen: dict[int, int] = {}
    for number, (value, labels) in enumerate(zip(values, inputs, strict=True)):
        for label, size in zip(labels, _shape(value), strict=True):
            known = seen.get(label, 1)
            if size != known and 1 not in (size, known):
                name = "..." if label >= ELLIPSIS_BASE else _letter(label)
                raise RuntimeError(
                    f"einsum(): subscript {name} has size {size} for operand {number} which does not "
                    "broadcast with previously "
                    f"seen size {known}"
                )
            seen[label] = size if known == 1 else known


def _without(value: TensorLike, labels: Labels, gone: Any, *, squeeze: bool) -> tuple[Any, Labels]:
    """Sums (or squeezes) the dimensions whose label is in `gone`."""
    axes = tuple(i for i, x in enumerate(labels) if x in gone)
    if not axes:
        return value, labels
    kept = tuple(x for x in labels if x not in gone)
    if squeeze:
        return ops.reshape(value, tuple(n for i, n in enumerate(_shape(value)) if i not in axes)), kept
    kind = type_of(value).dtype
    return ops.sum(value, axes, dtype=kind if kind.category == dtypes.INTEGER else None), kept


def _arranged(value: TensorLike, labels: Labels, order: Labels) -> Any:
    """Permutes to `order` (all of whose labels it has)."""
    axes = tuple(labels.index(x) for x in order)
    return value if axes == tuple(range(len(axes))) else ops.permute(value, axes)


def _grouped(value: TensorLike, labels: Labels, groups: tuple[Labels, ...], *, batch: int) -> Any:
    """Permutes to the groups in order; each but the first `batch` dimensions becomes one dimension."""
    flat: Labels = tuple(x for group in groups for x in group)
    value = _arranged(value, labels, flat)
    sizes = _shape(value)
    shape = sizes[:batch]
    start = batch
    for group in groups[1:]:
        shape += (prod(sizes[start : start + len(group)]),)
        start += len(group)
    return value if shape == sizes else ops.reshape(value, shape)


def _pair(
    x: TensorLike, left: Labels, y: TensorLike, right: Labels, keep: frozenset[int]
) -> tuple[Any, Labels]:
    """Two operands become one; labels outside `keep` are summed."""
    sizes = dict(zip(left, _shape(x), strict=True))
    others = dict(zip(right, _shape(y), strict=True))
    shared = [label for label in left if label in others]
    # A dimension of size 1 against a larger one is broadcast: it is as if the first operand did not have it.
    x, left = _without(x, left, {s for s in shared if sizes[s] == 1 and others[s] != 1}, squeeze=True)
    y, right = _without(y, right, {s for s in shared if others[s] == 1 and sizes[s] != 1}, squeeze=True)
    x, left = _without(x, left, {s for s in left if s not in right and s not in keep}, squeeze=False)
    y, right = _without(y, right, {s for s in right if s not in left and s not in keep}, squeeze=False)
    batch = tuple(s for s in left if s in right and s in keep)
    summed = tuple(s for s in left if s in right and s not in keep)
    own, theirs = tuple(s for s in left if s not in right), tuple(s for s in right if s not in left)
    if not summed:
        order = batch + own + theirs
        x = _arranged(x, left, batch + own)
        x = ops.reshape(x, _shape(x) + (1,) * len(theirs)) if theirs else x
        y = _arranged(y, right, batch + theirs)
        if own and batch:
            inner = _shape(y)
            y = ops.reshape(y, inner[: len(batch)] + (1,) * len(own) + inner[len(batch) :])
        return ops.mul(x, y), order
    outer = _shape(x), _shape(y)
    rows = tuple(outer[0][left.index(s)] for s in own)
    columns = tuple(outer[1][right.index(s)] for s in theirs)
    x = _grouped(x, left, (batch, own, summed), batch=len(batch))
    y = _grouped(y, right, (batch, summed, theirs), batch=len(batch))
    out = ops.matmul(x, y)
    shape = tuple(outer[0][left.index(s)] for s in batch) + rows + columns
    return (out if _shape(out) == shape else ops.reshape(out, shape)), batch + own + theirs


def _next_pair(values: list[tuple[Any, Labels]], output: frozenset[int]) -> tuple[int, int]:
    """The pair whose product saves most memory over its operands (the cheaper one where that ties)."""
    sizes: dict[int, int] = {}
    for value, labels in values:
        for label, size in zip(labels, _shape(value), strict=True):
            sizes[label] = max(size, sizes.get(label, 1))
    best: tuple[tuple[int, int], tuple[int, int]] | None = None
    for i in range(len(values)):
        for j in range(i + 1, len(values)):
            left, right = set(values[i][1]), set(values[j][1])
            rest = output.union(*(labels for k, (_, labels) in enumerate(values) if k not in (i, j)))
            result = prod(sizes[x] for x in (left | right) & rest)
            before = prod(sizes[x] for x in left) + prod(sizes[x] for x in right)
            score = result - before, prod(sizes[x] for x in left | right)
            if best is None or score < best[0]:
                best = score, (i, j)
    assert best is not None
    return best[1]


INTS = frozenset({int})
Move = tuple[tuple[int, ...] | None, tuple[int, ...] | None]


@lru_cache(512)
def _pair_plan(text: str, first: tuple[int, ...], second: tuple[int, ...]) -> tuple[Move, Move, Move] | None:
    """How two operands of these shapes become one `matmul`: permutations and shapes before and after it.

    None stands for "as it is", and for no plan: where there is more to do than that (diagonals, broadcasting,
    sums over one operand, products without a sum).
    """
    parsed, output = _parse(text)
    if len(parsed) != 2:
        return None
    left, right = _expand(*parsed[0], len(first), 0), _expand(*parsed[1], len(second), 1)
    result = _output([left, right], output)
    sizes, others = dict(zip(left, first, strict=True)), dict(zip(right, second, strict=True))
    if (
        len(sizes) < len(left)
        or len(others) < len(right)
        or any(sizes[x] != others[x] for x in left if x in others)
    ):
        return None
    batch = tuple(x for x in left if x in others and x in result)
    summed = tuple(x for x in left if x in others and x not in result)
    own, theirs = tuple(x for x in left if x not in others), tuple(x for x in right if x not in sizes)
    if not summed or any(x not in result for x in own + theirs):
        return None
    sizes |= others
    count = tuple(sizes[x] for x in batch)
    rows, inner, columns = (prod(sizes[x] for x in group) for group in (own, summed, theirs))
    before = [
        (tuple(labels.index(x) for x in order), tuple(sizes[x] for x in order), (*count, *shape))
        for labels, order, shape in (
            (left, batch + own + summed, (rows, inner)), (right, batch + summed + theirs, (inner, columns)),
        )
    ]  # fmt: skip
    moves = [(_unless_trivial(axes), None if shape == flat else flat) for axes, shape, flat in before]
    order = batch + own + theirs
    shape = tuple(sizes[x] for x in order)
    after = (
        _unless_trivial(tuple(order.index(x) for x in result)),
        None if shape == (*count, rows, columns) else shape,
    )
    return moves[0], moves[1], after


def _unless_trivial(axes: tuple[int, ...]) -> tuple[int, ...] | None:
    return None if axes == tuple(range(len(axes))) else axes


def _run_plan(plan: tuple[Move, Move, Move], x: TensorLike, y: TensorLike) -> Any:
    values = []
    for value, (axes, shape) in ((x, plan[0]), (y, plan[1])):
        value = value if axes is None else ops.permute(value, axes)
        values.append(value if shape is None else ops.reshape(value, shape))
    axes, shape = plan[2]
    out = ops.matmul(*values)
    out = out if shape is None else ops.reshape(out, shape)
    return out if axes is None else ops.permute(out, axes)


def _einsum_samples(make: Maker) -> Iterator[Sample]:
    yield Sample("ij,jk->ik", make(2, 3), make(3, 4))
    yield Sample("ii->i", make(3, 3))
    yield Sample("ij->", make(2, 3))
    yield Sample("...ij->...ji", make(2, 2, 3))
    yield Sample("bij,bjk", make(2, 2, 3), make(1, 3, 2))
    yield Sample("ab,bc,cd->da", make(2, 3), make(3, 2), make(2, 4))
    yield Sample("...i,i...->...", make(2, 3), make(3, 2))
    yield Sample("i,j", make(2), make(0))
    yield Sample("ij,ij->j", make(3, 2).T, make(2, 3))


@composite("equation: Any, *operands: Any", method=False, samples=_einsum_samples)
def einsum(equation: Any, operands: Sequence[Any]) -> Any:
    """Sums of products of the operands, by Einstein's convention.

    `einsum("bij,bjk->bik", x, y)`,
    with `...` for broadcast dimensions and repeated letters for diagonals; or with lists of
    numbers, `einsum(x, [0, 1], y, [1, 2], [0, 2])`.
    """
    text, given = _arguments(equation, operands)
    if len(given) == 2:
        first, second = _shape(given[0]), _shape(given[1])
        plain = INTS.issuperset(map(type, first + second))  # symbolic sizes are no key for a cache
        find = _pair_plan if plain else _pair_plan.__wrapped__
        plan = find(text, first, second)
        if plan is not None:
            return _run_plan(plan, *given)
    parsed, output = _parse(text)
    if len(given) != len(parsed):
        word = "fewer" if len(given) < len(parsed) else "more"
        raise RuntimeError(f"einsum(): {word} operands were provided than specified in the equation")
    inputs = [
        _expand(*part, len(_shape(v)), n) for n, (part, v) in enumerate(zip(parsed, given, strict=True))
    ]
    result = _output(inputs, output)
    values = [_diagonals(v, labels, n) for n, (v, labels) in enumerate(zip(given, inputs, strict=True))]
    _check_sizes([v for v, _ in values], [labels for _, labels in values])
    wanted = frozenset(result)
    if len(values) == 1:
        value, labels = values[0]
        axes = tuple(i for i, x in enumerate(labels) if x not in wanted)
        kept = tuple(x for x in labels if x in wanted)
        out = _arranged(ops.sum(value, axes) if axes else value, kept, result)
        return ops.permute(out, tuple(range(len(result)))) if out is given[0] else out  # a view, not itself
    for number, (value, labels) in enumerate(values):
        others = wanted.union(*(other for k, (_, other) in enumerate(values) if k != number))
        values[number] = _without(value, labels, set(labels) - others, squeeze=False)
    while len(values) > 1:
        i, j = (0, 1) if len(values) == 2 else _next_pair(values, wanted)
        (x, left), (y, right) = values[i], values[j]
        rest = [v for k, v in enumerate(values) if k not in (i, j)]
        keep = wanted.union(*(labels for _, labels in rest))
        values = [_pair(x, left, y, right, keep), *rest]
    value, labels = values[0]
    return _arranged(value, labels, result)


# -- products by dimension -----------------------------------------------------------------------------------
def _contracted_dims(
    a: TensorLike, b: TensorLike, dims: int | Sequence[Sequence[int]]
) -> tuple[list[int], list[int]]:
    if hasattr(dims, "tolist"):
        dims = dims.tolist()
    if isinstance(dims, int):
        if dims < 0:
            raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
        if dims > min(len(a.shape), len(b.shape)):
            raise RuntimeError(f"tensordot expects dims < ndim_a or ndim_b, but got dims={dims}")
        return list(range(-dims, 0)), list(range(dims))
    if not isinstance(dims, (tuple, list)) or len(dims) != 2:
        raise RuntimeError(
            "tensordot expects dims to be int or tuple[list[int], list[int]] or list[list[int]] containing "
            "two lists, but got "
            f"dims={dims}"
        )
    for position, entry in enumerate(dims):
        if not isinstance(entry, (tuple, list)):
            name = ("dims_self", "dims_other")[position]
            raise TypeError(
                f"tensordot(): argument '{name}' (position {position + 3}) must be tuple of ints, not "
                f"{type(entry).__name__}"
            )
    return list(dims[0]), list(dims[1])


def _tensordot_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(2, 3), make(3, 4), dims=1)
    yield Sample(make(2, 3), make(2, 3))
    yield Sample(make(2), make(3), dims=0)
    yield Sample(make(2, 3, 4), make(4, 2, 2), dims=([2, 0], [0, 1]))
    yield Sample(make(2, 0), make(0, 3), dims=1)


@composite("a: Tensor, b: Tensor, dims: Any = 2", method=False, out="exact", samples=_tensordot_samples)
def tensordot(a: TensorLike, b: TensorLike, dims: Any) -> Any:
    """Sums products over pairs of dimensions: the last `dims` of a with the first of b, or two lists of
    dimensions.
    """
    left, right = _contracted_dims(a, b, dims)
    if len(left) != len(right):
        raise RuntimeError("both dimension lists should have same length")
    first, second = _shape(a), _shape(b)
    kind = type_of(a).dtype
    if kind is not type_of(b).dtype:
        raise RuntimeError("both inputs should have same dtype")
    given = left, right
    left, right = list(wrap_dims(left, len(first))), list(wrap_dims(right, len(second)))
    for i, j, told, asked in zip(left, right, *given, strict=True):
        if first[i] == second[j]:
            continue
        if second[j] == 1:
            a, first = ops.sum(a, (i,), True, dtype=kind), first[:i] + (1,) + first[i + 1 :]
        elif first[i] == 1:
            b, second = ops.sum(b, (j,), True, dtype=kind), second[:j] + (1,) + second[j + 1 :]
        else:
            raise RuntimeError(
                f"contracted dimensions need to match, but first has size {first[i]} in dim {told} and "
                "second has size "
                f"{second[j]} in dim {asked}"
            )
    rows = [i for i in range(len(first)) if i not in left]
    columns = [j for j in range(len(second)) if j not in right]
    inner = prod(first[i] for i in left)
    x = ops.reshape(ops.permute(a, (*rows, *left)), (prod(first[i] for i in rows), inner))
    y = ops.reshape(ops.permute(b, (*right, *columns)), (inner, prod(second[j] for j in columns)))
    return ops.reshape(ops.mm(x, y), (*(first[i] for i in rows), *(second[j] for j in columns)))


@composite(
    "input: Tensor, other: Tensor", out="exact",
    samples=_pairs(((2, 3), (4, 3)), ((3,), (3,)), ((), (2, 3)), ((2, 2, 3), (3,)), ((0, 3), (2, 3))),
)  # fmt: skip
def inner(input: TensorLike, other: TensorLike) -> Any:
    """The sum of products over both operands' last dimension."""
    first, second = _shape(input), _shape(other)
    if not first or not second:
        return ops.mul(input, other)
    if first[-1] != second[-1]:
        raise RuntimeError(
            "inner() the last dimension must match on both input tensors but got shapes "
            f"{list(first)} and {list(second)}"
        )
    if len(first) == 1 and len(second) == 1:
        return ops.dot(input, other)
    return ops.tensordot(input, other, ([-1], [-1]))


@composite(
    "input: Tensor, vec2: Tensor", out=True, aliases=("ger",), samples=_pairs(((2,), (3,)), ((0,), (2,)))
)
def outer(input: Any, vec2: Any) -> Any:
    """The outer product of two vectors."""
    for name, value in (("self", input), ("vec2", vec2)):
        if len(value.shape) != 1:
            raise RuntimeError(f"outer: Expected 1-D argument {name}, but got {len(value.shape)}-D")
    return ops.mul(ops.unsqueeze(input, -1), vec2)


@composite(
    "input: Tensor, other: Tensor", out=True,
    samples=_pairs(((2, 3), (3, 2)), ((2,), (3,)), ((2,), (2, 1, 2)), ((), (2,)), ((0, 2), (2, 2))),
)  # fmt: skip
def kron(input: TensorLike, other: TensorLike) -> Any:
    """The Kronecker product: each element of `input` times all of `other`, as one block."""
    first, second = _shape(input), _shape(other)
    rank = max(len(first), len(second))
    first, second = (1,) * (rank - len(first)) + first, (1,) * (rank - len(second)) + second
    left = ops.reshape(input, tuple(n for size in first for n in (size, 1)))
    right = ops.reshape(other, tuple(n for size in second for n in (1, size)))
    return ops.reshape(ops.mul(left, right), tuple(m * n for m, n in zip(first, second, strict=True)))


# -- trace ---------------------------------------------------------------------------------------------------
def _trace_type(x: TensorType) -> TensorType:
    if x.ndim != 2:
        raise RuntimeError(f"trace: expected a matrix, but got tensor with dim {x.ndim}")
    if x.dtype is dtypes.bool_:
        raise unsupported("trace", x.dtype)
    return TensorType((), dtypes.int64 if x.dtype.category == dtypes.INTEGER else x.dtype, x.device)


def _trace(x: Array) -> Array:
    xp = namespace(x)
    if x.dtype.char in HALF_CHARS:
        return xp.trace(x.astype(xp.float32)).astype(x.dtype)
    return xp.trace(x, dtype=xp.int64 if x.dtype.kind in "iu" else None)


def _diagonal_matrix(x: Array, shape: tuple[int, int]) -> Array:
    xp = namespace(x)
    result = xp.zeros(shape, x.dtype)
    xp.einsum("ii->i", result[: min(shape), : min(shape)])[...] = x
    return result


trace_backward = contract(
    "trace_backward", _diagonal_matrix,
    lambda g, shape: TensorType(shape, g.dtype, g.device), "input: Tensor, shape: Any",
    vjp=lambda g: ops.trace(g), method=False, function=False, out=False,
    samples=lambda make: [Sample(make(), (2, 3)), Sample(make(), (3, 3))],
    batch=lambda op, size, args, dims: (
        ops.diag_embed(ops.expand(ops.unsqueeze(args[0], -1), (size, args[1][0]))), 0
    ) if args[1][0] == args[1][1] else NotImplemented,
    refuses="nothing", lowering="indexing",
)  # fmt: skip
trace = reduce(
    "trace", _trace, _trace_type, "input: Tensor",
    vjp=lambda g, _out, _x: trace_backward(g, _x.shape), amp="float32", out=False,
    samples=lambda make: [Sample(make(*shape)) for shape in ((3, 3), (2, 3), (3, 2), (0, 2))],
    batch=lambda op, _size, args, dims: (ops.sum(ops.diagonal(to_front(args[0], dims[0]), 0, 1, 2), -1), 0),
    refuses="nothing", lowering="indexing",
)  # fmt: skip


# -- cross ---------------------------------------------------------------------------------------------------
def _cross_dim(x: TensorType, y: TensorType, dim: int) -> int:
    if x.ndim != y.ndim:
        raise RuntimeError("linalg.cross: inputs must have the same number of dimensions.")
    if not x.ndim:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    if not -x.ndim <= dim < x.ndim:
        raise outside(dim, x.ndim)
    if x.shape[dim] != 3 or y.shape[dim] != 3:
        raise RuntimeError(
            f"linalg.cross: inputs dimension {dim} must have length 3. Got {x.shape[dim]} and {y.shape[dim]}"
        )
    return dim % x.ndim


def _cross_type(x: TensorType, y: TensorType, dim: int) -> TensorType:
    _cross_dim(x, y, dim)
    shape = broadcast_shapes(x.shape, y.shape)
    if x.dtype is dtypes.bool_:
        raise unsupported("cross", x.dtype)
    if x.dtype is not y.dtype:
        raise RuntimeError(f"expected scalar type {x.dtype.scalar_name} but found {y.dtype.scalar_name}")
    return TensorType(shape, x.dtype, common_device([x, y]))


def _cross(x: Array, y: Array, dim: int) -> Array:
    xp = namespace(x)
    kind = x.dtype
    if kind.char in HALF_CHARS:
        x, y = x.astype(xp.float32), y.astype(xp.float32)
    a, b = xp.moveaxis(x, dim, 0), xp.moveaxis(y, dim, 0)
    parts = [a[(i + 1) % 3] * b[(i + 2) % 3] - a[(i + 2) % 3] * b[(i + 1) % 3] for i in range(3)]
    return xp.stack(parts, axis=dim % x.ndim).astype(kind, copy=False)


def _batch_cross(op: Op, size: int, args: tuple[Any, ...], dims: tuple[Any, ...]) -> tuple[Any, Any]:
    logical_result(op, args, dims)
    x, y, dim = args
    rank = logical_type(x, dims[0]).ndim
    values = [
        ops.unsqueeze(v, 0) if d is None else to_front(v, d) for v, d in zip((x, y), dims, strict=False)
    ]
    return op(*values, dim=dim % rank + 1), 0


def _cross_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(2, 3), make(2, 3))
    yield Sample(make(1, 3), make(4, 3))
    yield Sample(make(3, 2), make(3, 2), dim=0)
    yield Sample(make(0, 3), make(1, 3))


linalg_cross: Op = contract(
    "cross", _cross, _cross_type, "input: Tensor, other: Tensor, *, dim: Dim = -1", namespace="linalg",
    node="LinalgCrossBackward0", out="exact", samples=_cross_samples, batch=_batch_cross,
    vjp=(
        lambda g, _out, _x, y, dim: reduced(linalg_cross(y, g, dim=dim), _x.shape),
        lambda g, _out, x, _y, dim: reduced(linalg_cross(g, x, dim=dim), _y.shape),
    ),
    refuses="nothing", lowering="products",
)  # fmt: skip


@composite("input: Tensor, other: Tensor, dim: Any = None", out="exact", samples=_cross_samples)
def cross(input: TensorLike, other: TensorLike, dim: int | None) -> Any:
    """The cross product of three-dimensional vectors along `dim` (the first dimension of size 3 if none is
    given).
    """
    if dim is None:
        warn(
            named(
                "Using weft.cross without specifying the dim arg is deprecated.\nPlease either pass the dim "
                "explicitly or simply "
                "use weft.linalg.cross.\nThe default value of dim will change to agree with "
                "that of linalg.cross "
                "in a future "
                "release."
            )
        )
        shape = _shape(input)
        if 3 not in shape:
            raise RuntimeError("no dimension of size 3 in input")
        dim = shape.index(3)
    return linalg_cross(input, other, dim=dim)


# -- bilinear ------------------------------------------------------------------------------------------------
def _check_bilinear(first: TensorLike, second: TensorLike, weight: TensorLike, bias: MaybeTensor) -> None:
    x, y, w = _shape(first), _shape(second), _shape(weight)
    if len(x) != len(y):
        raise RuntimeError(f"bilinear(): input dimensions do not match: got {len(x)} and {len(y)}")
    for dim, (m, n) in enumerate(zip(x[:-1], y[:-1], strict=True)):
        if m != n:
            raise RuntimeError(
                f"bilinear(): input batch dimensions do not match at dim {dim}: got {m} and {n}"
            )
    for number, (size, dim) in enumerate(((x[-1], 1), (y[-1], 2)), 1):
        if len(w) <= dim or size != w[dim]:
            expected = w[dim] if len(w) > dim else w[-1]
            raise RuntimeError(
                f"bilinear(): input{number} size does not match weight size: got {size} but expected "
                f"{expected}"
            )
    if bias is not None and _shape(bias)[0] != w[0]:
        raise RuntimeError(
            f"bilinear(): bias size does not match weight size: got {_shape(bias)[0]} but expected {w[0]}"
        )


def _bilinear_samples(make: Maker) -> Iterator[Sample]:
    yield Sample(make(2, 3), make(2, 4), make(5, 3, 4), make(5))
    yield Sample(make(3), make(4), make(5, 3, 4))
    yield Sample(make(2, 2, 3), make(2, 2, 4), make(1, 3, 4), make(1))
    yield Sample(make(0, 3), make(0, 4), make(2, 3, 4))


@composite(
    "input1: Tensor, input2: Tensor, weight: Tensor, bias: MaybeTensor = None", method=False,
    aliases=("nn.functional.bilinear",), amp="widest", samples=_bilinear_samples,
)  # fmt: skip
def bilinear(input1: TensorLike, input2: TensorLike, weight: TensorLike, bias: MaybeTensor) -> Any:
    """`input1 @ weight[o] @ input2` for each output o, plus the bias."""
    _check_bilinear(input1, input2, weight, bias)
    lead, (outputs, rows, columns) = _shape(input1)[:-1], _shape(weight)
    count = prod(lead)
    x, y = ops.reshape(input1, (count, rows)), ops.reshape(input2, (count, columns, 1))
    matrix = ops.reshape(ops.permute(weight, (1, 0, 2)), (rows, outputs * columns))
    middle = ops.reshape(multiply(x, matrix), (count, outputs, columns))
    out = ops.reshape(multiply(middle, y), (*lead, outputs))
    return out if bias is None else ops.add(out, bias)
