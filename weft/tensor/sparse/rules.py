"""What ops do with sparse tensors: arithmetic, shapes, selections, sums and copies.

Takes the arguments of an op, of which one at least is sparse; gives what PyTorch gives. One idea: each
rule does its work on the indices as arrays, and on the elements by ops, which are recorded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.core.arrays import Array, namespace
from weft.core.dims import wrap_dim
from weft.core.dtypes import promote_types, result_dtype
from weft.core.types import Size, sparse_coo
from weft.ops.record import ops
from weft.ops.values import DeviceLike, Dims, DType, Number, Sizes
from weft.tensor.base import Tensor, wrap
from weft.tensor.sparse.base import SparseTensor, refuse, sparse, taking, writing
from weft.tensor.sparse.calls import added_to, keep_zeros, replace
from weft.tensor.sparse.places import (
    BLOCKS,
    TRANSPOSED,
    as_coo,
    coalesced,
    compress,
    looked_up,
    numbers_of,
    rows_of,
    sparse_dims,
)

DENSE_FIRST = "add(sparse, dense) is not supported. Use add(dense, sparse) instead."


def in_form_of(result: SparseTensor, like: SparseTensor) -> SparseTensor:
    """A result in coordinates, in the layout of an operand."""
    if like.form is sparse_coo:
        return result
    return compress(result, like.form, tuple(like.elements.shape[1:3]) if like.form in BLOCKS else None)


def is_number(value: object) -> bool:
    """Whether an operand is one number for all elements."""
    return not isinstance(value, Tensor) or (not isinstance(value, SparseTensor) and value.dim() == 0)


def same_sizes(name: str, a: Tensor, b: Tensor) -> None:
    if tuple(a.shape) != tuple(b.shape):
        raise RuntimeError(
            f"{name}: expected 'self' and 'other' to have same size, but self has size "
            f"{list(a.shape)} while other "
            f"has size {list(b.shape)} (FYI: op with sparse operands does not broadcast)"
        )


# -- arithmetic ----------------------------------------------------------------------------------------------
@taking(ops.add)
def _add(a: Any, b: Any, alpha: Number) -> Any:
    if not isinstance(a, SparseTensor):
        if is_number(a):
            raise RuntimeError(
                "add: expected 'self' and 'other' to have same size, but self has size [] while "
                "other has size "
                f"{list(b.shape)} (FYI: dense-sparse addition does not currently support broadcasting)"
            )
        kind = promote_types(a.dtype, b.dtype)
        return added_to(a.to(kind, copy=True), b, alpha)
    if not isinstance(b, SparseTensor):
        raise RuntimeError(DENSE_FIRST)
    same_sizes("add", a, b)
    kind = promote_types(a.dtype, b.dtype)
    first, second = as_coo(a), as_coo(b)
    left, right = first.elements.to(kind), second.elements.to(kind)
    if alpha != 1:
        right = right * alpha
    if first.places[0] is second.places[0] or same_places(first, second):
        return in_form_of(first.like(left + right), a)
    places = ops.cat([first.places[0], second.places[0]], 1)
    whole = sparse(sparse_coo, (places,), ops.cat([left, right], 0), a.sizes)
    return in_form_of(coalesced(whole) if first.ordered and second.ordered else whole, a)


def same_places(a: SparseTensor, b: SparseTensor) -> bool:
    """Whether two tensors store elements at the same places, in the same order."""
    one, two = a.places[0].array, b.places[0].array
    return one.shape == two.shape and bool((one == two).all())


@taking(ops.neg)
def _neg(a: SparseTensor) -> Any:
    return a.like(ops.neg(a.elements))


@taking(ops.reshape)
def _reshape(a: SparseTensor, shape: Sizes) -> Any:
    raise RuntimeError("reshape is not implemented for sparse tensors")


@taking(ops.sub)
def _sub(a: Any, b: Any, alpha: Number) -> Any:
    return _add(a, b, -alpha)


@taking(ops.rsub)
def _rsub(a: Any, b: Any, alpha: Number) -> Any:
    return _add(b, a, -alpha)


@writing(ops.add)
def _add_into(target: Tensor, other: Any, alpha: Number) -> Any:
    if isinstance(target, SparseTensor):
        return replace(target, _add(target, other, alpha))
    return added_to(target, other, alpha)


@writing(ops.sub)
def _sub_into(target: Tensor, other: Any, alpha: Number) -> Any:
    return _add_into(target, other, -alpha)


@taking(ops.mul)
def _mul(a: Any, b: Any) -> Any:
    if not isinstance(a, SparseTensor):
        a, b = b, a
    if is_number(b):
        return a.like(a.elements * b)
    if isinstance(b, SparseTensor):
        same_sizes("mul", a, b)
        return in_form_of(_intersection(a, b), a)
    if tuple(b.shape) != tuple(a.sizes):
        b = ops.expand(b, tuple(a.sizes))
    return a.like(a.elements * looked_up(b, a))


def _intersection(a: SparseTensor, b: SparseTensor) -> SparseTensor:
    """The products at places that both have."""
    first, second = coalesced(as_coo(a)), coalesced(as_coo(b))
    have, other = numbers_of(first), numbers_of(second)
    both, left, right = namespace(have).intersect1d(have, other, assume_unique=True, return_indices=True)
    elements = ops.index_select(first.elements, 0, wrap(left)) * ops.index_select(
        second.elements, 0, wrap(right)
    )
    return sparse(sparse_coo, (rows_of(both, a.sizes[: sparse_dims(first)]),), elements, a.sizes, True)


@taking(ops.div)
def _div(a: Any, b: Any, rounding_mode: str | None) -> Any:
    if not isinstance(a, SparseTensor):
        refuse(ops.div, b)
    if not is_number(b):
        raise RuntimeError(
            "Sparse division requires a scalar or zero-dim dense tensor divisor (got shape "
            f"{list(b.shape)} for divisor)"
        )
    source = a if rounding_mode is None else coalesced(a)
    return source.like(ops.div(source.elements, b, rounding_mode=rounding_mode))


@taking(ops.true_divide)
def _true_divide(a: Any, b: Any) -> Any:
    return _div(a, b, None)


@taking(ops.floor_divide)
def _floor_divide(a: Any, b: Any) -> Any:
    return _div(a, b, "floor")


@taking(ops.pow)
def _pow(a: Any, exponent: Any) -> Any:
    if not isinstance(a, SparseTensor) or not is_number(exponent):
        refuse(ops.pow, a if isinstance(a, SparseTensor) else exponent)
    if float(exponent) == 0:
        raise RuntimeError(
            "pow: cannot raise to zeroth power on sparse tensor; it would make the result tensor dense"
        )
    return keep_zeros(ops.pow, (a, exponent))


# -- copies --------------------------------------------------------------------------------------------------
@taking(ops.clone)
def _clone(a: SparseTensor, memory_format: object) -> Any:
    places = tuple([place.clone() for place in a.places])
    return sparse(a.form, places, ops.clone(a.elements), a.sizes, a.ordered)


@taking(ops._to_copy)
def _to_copy(a: SparseTensor, dtype: DType, memory_format: object) -> Any:
    return a.like(a.elements.to(dtype, copy=True))


@taking(ops._to_device)
def _to_device(a: SparseTensor, device: DeviceLike, source: Tensor) -> Any:
    places = tuple([place.to(device) for place in a.places])
    return sparse(a.form, places, a.elements.to(device), a.sizes, a.ordered)


@taking(ops.alias)
def _alias(a: SparseTensor) -> Any:
    return a.like(ops.alias(a.elements))


@taking(ops.contiguous)
def _contiguous(a: SparseTensor, memory_format: object) -> Any:
    return a


@writing(ops.copy)
def _copy_into(target: Tensor, source: Tensor, non_blocking: bool) -> Any:
    if not isinstance(target, SparseTensor) or not isinstance(source, SparseTensor):
        raise RuntimeError(
            "copy_() between dense and sparse Tensors is not implemented! Found self type = "
            f"{target.type()} and src type = {source.type()}"
        )
    if target.form is not source.form:
        raise RuntimeError(
            "copy of sparse compressed tensors having different layouts is not supported. self layout is "
            f"{target.form.name} and src layout is {source.form.name}"
        )
    copied = _clone(source, None)
    return replace(target, copied.like(copied.elements.to(target.dtype)))


def emptied(a: SparseTensor, dtype: DType = None) -> SparseTensor:
    """A tensor of the same kind, in which nothing is stored."""
    elements = ops.new_zeros(a.elements.detach(), (0, *a.elements.shape[1:]), dtype=dtype)
    first, *others = [place.array for place in a.places]
    xp = namespace(first)
    if a.form is sparse_coo:
        places: tuple[Any, ...] = (wrap(xp.zeros((first.shape[0], 0), xp.int64)),)
    else:
        places = (wrap(xp.zeros_like(first)), *(wrap(each[:0].copy()) for each in others))
    return sparse(a.form, places, elements, a.sizes, True)


@taking(ops.zero)
def _zero(a: SparseTensor) -> Any:
    return emptied(a)


@taking(ops.zeros_like, ops.empty_like)
def _zeros_like(a: SparseTensor, dtype: DType, layout: object, device: DeviceLike, *options: object) -> Any:
    made = emptied(a, dtype)
    return made if not (options and options[-2:-1] == (True,)) else made.requires_grad_()


# -- shapes --------------------------------------------------------------------------------------------------
def permuted(a: SparseTensor, dims: tuple[int, ...]) -> SparseTensor:
    """Dimensions in another order."""
    sizes = Size([a.sizes[d] for d in dims])
    if a.form is not sparse_coo:
        if dims == tuple(range(len(dims))):
            return a
        if dims[:2] != (1, 0) or dims[2:] != tuple(range(2, len(dims))):
            refuse(ops.permute, a)
        elements = a.elements if a.form not in BLOCKS else ops.transpose(a.elements, 1, 2)
        return sparse(TRANSPOSED[a.form], a.places, elements, sizes, True)
    count = sparse_dims(a)
    front, back = dims[:count], dims[count:]
    if any(d >= count for d in front):
        raise RuntimeError("transpose: cannot transpose sparse and dense dimensions with each other")
    places = wrap(a.places[0].array[list(front)])
    elements = a.elements
    if back != tuple(range(count, len(dims))):
        elements = ops.permute(elements, 0, *(d - count + 1 for d in back))
    unique = a.ordered and (front == tuple(range(count)) or a.elements.shape[0] < 2)
    return sparse(sparse_coo, (places,), elements, sizes, unique)


@taking(ops.permute)
def _permute(a: SparseTensor, dims: Sequence[int]) -> Any:
    wanted = dims[0] if len(dims) == 1 and isinstance(dims[0], (tuple, list)) else dims
    if len(wanted) != a.dim():
        raise RuntimeError(
            "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the "
            f"desired ordering of dimensions i.e. input.dim() = {a.dim()} is not equal to "
            f"len(dims) = {len(wanted)}"
        )
    return permuted(a, tuple([wrap_dim(d, a.dim()) for d in wanted]))


@taking(ops.transpose)
def _transpose(a: SparseTensor, dim0: int, dim1: int) -> Any:
    dims = list(range(a.dim()))
    one, two = wrap_dim(dim0, a.dim()), wrap_dim(dim1, a.dim())
    dims[one], dims[two] = dims[two], dims[one]
    return permuted(a, tuple(dims))


@taking(ops.t)
def _t(a: SparseTensor) -> Any:
    if a.dim() > 2:
        raise RuntimeError(
            f"t() expects a tensor with <= 2 sparse and 0 dense dimensions, but self is {a.dim()}D"
        )
    return _transpose(a, 0, 1) if a.dim() == 2 else a


@taking(ops.unsqueeze)
def _unsqueeze(a: SparseTensor, dim: int) -> Any:
    a = as_coo(a)
    place, count = wrap_dim(dim, a.dim() + 1), sparse_dims(a)
    sizes = (*a.sizes[:place], 1, *a.sizes[place:])
    if place > count:
        return sparse(sparse_coo, a.places, ops.unsqueeze(a.elements, place - count + 1), sizes, a.ordered)
    rows: Any = a.places[0].array
    xp = namespace(rows)
    rows = xp.concatenate([rows[:place], xp.zeros((1, rows.shape[1]), xp.int64), rows[place:]])
    return sparse(sparse_coo, (wrap(rows),), a.elements, sizes, a.ordered)


@taking(ops.cat)
def _cat(tensors: Any, dim: int) -> Any:
    if not all(isinstance(each, SparseTensor) for each in tensors):
        raise RuntimeError("Concatenating sparse tensors, but a dense tensor was found among them")
    parts = [as_coo(each) for each in tensors]
    first = parts[0]
    place, count = wrap_dim(dim, first.dim()), sparse_dims(first)
    for position, part in enumerate(parts):
        others = [size for d, size in enumerate(part.sizes) if d != place]
        if sparse_dims(part) != count or others != [size for d, size in enumerate(first.sizes) if d != place]:
            raise RuntimeError(
                "All tensors must have the same shape: "
                f"{list(first.sizes)} (except in the concatenating dimension), but found shape: "
                f"{list(part.sizes)} at position {position}"
            )
    if place >= count:
        refuse(ops.cat, first)
    xp = namespace(first.places[0].array)
    moved, offset = [], 0
    for part in parts:
        rows: Any = part.places[0].array.copy()
        rows[place] += offset
        offset += part.sizes[place]
        moved.append(rows)
    sizes = (*first.sizes[:place], offset, *first.sizes[place + 1 :])
    elements = ops.cat([part.elements for part in parts], 0)
    unique = place == 0 and all(part.ordered for part in parts)
    whole = sparse(sparse_coo, (wrap(xp.concatenate(moved, 1)),), elements, sizes, unique)
    return in_form_of(whole, tensors[0])


@taking(ops.stack)
def _stack(tensors: Any, dim: int) -> Any:
    return _cat([_unsqueeze(each, dim) for each in tensors], dim)


# -- selections ----------------------------------------------------------------------------------------------
def chosen(a: SparseTensor, dim: int, kept: Array, rows: Array, size: int | None, unique: bool) -> Any:
    """The elements that are kept, under new coordinates; without the dimension where it has no size."""
    elements = ops.index_select(a.elements, 0, wrap(kept))
    if size is not None:
        sizes = (*a.sizes[:dim], size, *a.sizes[dim + 1 :])
        return sparse(sparse_coo, (wrap(rows),), elements, sizes, unique)
    xp = namespace(rows)
    rows = xp.concatenate([rows[:dim], rows[dim + 1 :]])
    if not rows.shape[0]:
        return elements.sum(0)
    return sparse(sparse_coo, (wrap(rows),), elements, (*a.sizes[:dim], *a.sizes[dim + 1 :]), unique)


@taking(ops.select)
def _select(a: SparseTensor, dim: int, index: int) -> Any:
    a, place = as_coo(a), wrap_dim(dim, a.dim())
    size = a.sizes[place]
    if not -size <= index < size:
        raise IndexError(
            f"select(): index {index} out of range for tensor of size {list(a.sizes)} at dimension {place}"
        )
    index = int(index) % size
    if place >= sparse_dims(a):
        elements = ops.select(a.elements, place - sparse_dims(a) + 1, index)
        return sparse(sparse_coo, a.places, elements, (*a.sizes[:place], *a.sizes[place + 1 :]), a.ordered)
    rows: Any = a.places[0].array
    kept = namespace(rows).flatnonzero(rows[place] == index)
    return chosen(a, place, kept, rows[:, kept], None, a.ordered)


@taking(ops.slice)
def _slice(a: SparseTensor, dim: int, start: int | None, end: int | None, step: int) -> Any:
    a, place = as_coo(a), wrap_dim(dim, a.dim())
    first, last, step = slice(start, end, step).indices(a.sizes[place])
    if place >= sparse_dims(a):
        elements = ops.slice(a.elements, place - sparse_dims(a) + 1, first, last, step)
        sizes = (*a.sizes[:place], len(range(first, last, step)), *a.sizes[place + 1 :])
        return sparse(sparse_coo, a.places, elements, sizes, a.ordered)
    rows: Any = a.places[0].array
    xp = namespace(rows)
    row = rows[place]
    kept = xp.flatnonzero((row >= first) & (row < last) & ((row - first) % step == 0))
    found = rows[:, kept].copy()
    found[place] = (found[place] - first) // step
    return chosen(a, place, kept, found, len(range(first, last, step)), a.ordered)


@taking(ops.index_select)
def _index_select(a: Any, dim: int, index: Tensor) -> Any:
    if not isinstance(a, SparseTensor):
        refuse(ops.index_select, index)
    a, place = as_coo(a), wrap_dim(dim, a.dim())
    if index.dim() != 1:
        raise IndexError("index_select() argument index must be 1-D tensor.")
    count = sparse_dims(a)
    if place >= count:
        elements = ops.index_select(a.elements, place - count + 1, index)
        sizes = (*a.sizes[:place], index.shape[0], *a.sizes[place + 1 :])
        return sparse(sparse_coo, a.places, elements, sizes, a.ordered)
    rows: Any = a.places[0].array
    wanted: Any = index.array
    xp = namespace(rows)
    size = a.sizes[place]
    outside = xp.flatnonzero((wanted < -size) | (wanted >= size))
    if outside.size:
        raise IndexError(
            f"index_select(): index contains {int(wanted[outside[0]])} that is out of range for "
            f"tensor of size "
            f"{list(a.sizes)} at dimension {place}"
        )
    wanted = wanted % max(size, 1)
    order = xp.argsort(rows[place], kind="stable")
    ordered = rows[place][order]
    low, high = xp.searchsorted(ordered, wanted, "left"), xp.searchsorted(ordered, wanted, "right")
    counts = high - low
    new = xp.repeat(xp.arange(wanted.size), counts)
    within = xp.arange(new.size) - xp.repeat(xp.cumsum(counts) - counts, counts)
    kept = order[xp.repeat(low, counts) + within]
    found = rows[:, kept].copy()
    found[place] = new
    return chosen(a, place, kept, found, wanted.size, a.ordered and place == 0)


@taking(ops.unbind)
def _unbind(a: SparseTensor, dim: int) -> Any:
    return tuple([_select(a, dim, position) for position in range(a.sizes[wrap_dim(dim, a.dim())])])


# -- sums ----------------------------------------------------------------------------------------------------
@taking(ops.sum)
def _sum(a: SparseTensor, dim: Dims, keepdim: bool, dtype: DType) -> Any:
    if dim is None or (isinstance(dim, (tuple, list)) and not dim):
        return a.elements.sum(dtype=dtype)
    dims = sorted({wrap_dim(d, a.dim()) for d in (dim if isinstance(dim, (tuple, list)) else (dim,))})
    source = as_coo(a)
    count = sparse_dims(source)
    inside = tuple([d - count + 1 for d in dims if d >= count])
    elements = source.elements
    if inside:
        elements = elements.sum(inside, keepdim=keepdim)
    if dtype is not None or not a.dtype.is_floating_point and not a.dtype.is_complex:
        elements = elements.to(dtype or result_dtype([elements.new_zeros((1,)).sum()]))
    outer = [d for d in dims if d < count]
    gone = set(outer if keepdim else dims)
    sizes = [1 if d in dims else n for d, n in enumerate(a.sizes) if keepdim or d not in gone]
    if len(outer) == count and not keepdim:
        return elements.sum(0)
    rows: Any = source.places[0].array
    if keepdim:
        rows = rows.copy()
        rows[outer] = 0
    else:
        rows = rows[[d for d in range(count) if d not in outer]]
    return coalesced(sparse(sparse_coo, (wrap(rows),), elements, sizes, source.ordered and not outer))


@taking(ops.any)
def _any(a: SparseTensor, dim: Dims, keepdim: bool) -> Any:
    if dim is not None:
        refuse(ops.any, a)
    return ops.any(coalesced(as_coo(a)).elements)


@taking(ops.norm)
def _norm(a: SparseTensor, p: object, dim: Dims, keepdim: bool, dtype: DType) -> Any:
    if dim is not None and len(dim if isinstance(dim, (tuple, list)) else (dim,)) != a.dim():
        raise RuntimeError(
            "norm_sparse currently only supports full reductions, so 'dim' must either be empty"
        )
    return ops.norm(
        ops.reshape(coalesced(as_coo(a)).elements, (-1,)), 2 if p in ("fro", None) else p, dtype=dtype
    )


@taking(ops.linalg_vector_norm)
def _vector_norm(a: SparseTensor, ord: object, dim: Dims, keepdim: bool, dtype: DType) -> Any:
    return _norm(a, ord, dim, keepdim, dtype)
