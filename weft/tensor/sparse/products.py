"""Products of sparse matrices, with dense ones and with each other, and softmax over what is stored.

Takes matrices; gives what `mm` and its relatives give. One idea: a product is a gather of rows, a product of
elements and an `index_add`, so gradients to both factors, of all orders, are those of these ops.
"""

from __future__ import annotations

from math import prod
from typing import Any

from weft.core.arrays import namespace
from weft.core.dims import wrap_dim
from weft.core.types import sparse_coo, sparse_csr
from weft.ops.record import ops
from weft.ops.values import DType, Number
from weft.tensor.base import Tensor, wrap
from weft.tensor.sparse.base import SparseTensor, refuse, sparse, taking
from weft.tensor.sparse.calls import added_to
from weft.tensor.sparse.places import (
    as_coo,
    check_range,
    coalesced,
    compress,
    numbers_of,
    rows_of,
    sparse_dims,
)
from weft.tensor.sparse.rules import in_form_of, permuted


def check_factors(a: Tensor, b: Tensor) -> None:
    """Refuses what cannot be multiplied, in PyTorch's words."""
    if a.dim() != 2 or b.dim() != 2:
        raise RuntimeError(f"mm: expected two matrices, got {a.dim()}D and {b.dim()}D tensors")
    if a.dtype is not b.dtype:
        raise RuntimeError(f"expected scalar type {a.dtype.scalar_name} but found {b.dtype.scalar_name}")
    if a.shape[1] != b.shape[0]:
        raise RuntimeError(f"addmm: Argument #3 (dense): Expected dim 0 size {a.shape[1]}, got {b.shape[0]}")


def times_dense(a: SparseTensor, b: Tensor) -> Any:
    """A sparse matrix times a dense one, dense."""
    check_factors(a, b)
    found = as_coo(a)
    if sparse_dims(found) != 2:
        refuse(ops.mm, a)
    rows, columns = found.places[0].array
    check_range(found.places[0].array, found.sizes)
    terms = ops.unsqueeze(found.elements, 1) * ops.index_select(b, 0, wrap(columns))
    return ops.index_add(ops.new_zeros(terms, (a.sizes[0], b.shape[1])), 0, wrap(rows), terms)


def times_sparse(a: SparseTensor, b: SparseTensor) -> SparseTensor:
    """The product of two sparse matrices, sparse."""
    if a.sizes[1:] != b.sizes[:1] or len(a.sizes) != 2 or len(b.sizes) != 2:
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({'x'.join(map(str, a.sizes))} and "
            f"{'x'.join(map(str, b.sizes))})"
        )
    if a.dtype is not b.dtype:
        raise RuntimeError(
            f"mat1 dtype {a.dtype.scalar_name} does not match mat2 dtype {b.dtype.scalar_name}"
        )
    left, right = coalesced(as_coo(a)), compress(as_coo(b), sparse_csr)
    rows, inner = left.places[0].array
    starts, columns = (place.array for place in right.places)
    xp = namespace(rows)
    counts = (starts[1:] - starts[:-1])[inner]
    first = xp.repeat(xp.arange(rows.size), counts)
    within = xp.arange(first.size) - xp.repeat(xp.cumsum(counts) - counts, counts)
    second = xp.repeat(starts[inner], counts) + within
    terms = ops.index_select(left.elements, 0, wrap(first)) * ops.index_select(
        right.elements, 0, wrap(second)
    )
    places = wrap(xp.stack([rows[first], columns[second]]))
    whole = sparse(sparse_coo, (places,), terms, (a.sizes[0], b.sizes[1]))
    return in_form_of(coalesced(whole), a)


def swapped(a: Any) -> Any:
    """The transposed matrix."""
    return permuted(a, (1, 0)) if isinstance(a, SparseTensor) else ops.transpose(a, 0, 1)


@taking(ops.mm)
def mm(a: Any, b: Any) -> Any:
    if not isinstance(b, SparseTensor):
        return times_dense(a, b)
    if not isinstance(a, SparseTensor):
        if a.dim() == 2 and a.shape[1] != b.sizes[0]:
            raise RuntimeError(
                f"mat1 and mat2 shapes cannot be multiplied ({a.shape[0]}x{a.shape[1]} and "
                f"{b.sizes[0]}x{b.sizes[1]})"
            )
        return swapped(times_dense(swapped(b), swapped(a)))
    return times_sparse(a, b)


@taking(ops.mv)
def mv(a: Any, b: Any) -> Any:
    if not isinstance(a, SparseTensor) or b.dim() != 1:
        refuse(ops.mv, a if isinstance(a, SparseTensor) else b)
    if a.sizes[1] != b.shape[0]:
        raise RuntimeError(
            f"mv: expected self.size(-1) == vec.size(-1), but got {a.sizes[1]} and {b.shape[0]}"
        )
    return ops.reshape(times_dense(a, ops.unsqueeze(b, 1)), (-1,))


@taking(ops.matmul)
def matmul(a: Any, b: Any) -> Any:
    ranks = (a.dim(), b.dim())
    if ranks == (2, 2):
        return mm(a, b)
    if ranks == (2, 1) and not isinstance(b, SparseTensor):
        return mv(a, b)
    if ranks == (1, 2) and not isinstance(a, SparseTensor):
        return ops.reshape(mm(ops.unsqueeze(a, 0), b), (-1,))
    if ranks == (3, 3) and isinstance(a, SparseTensor):
        return bmm(a, b)
    if ranks[0] == 2 and ranks[1] > 2 and not isinstance(b, SparseTensor):  # as vmap asks for
        columns = ops.movedim(b, -2, 0)
        product = times_dense(a, ops.reshape(columns, (b.shape[-2], -1)))
        return ops.movedim(ops.reshape(product, (a.shape[0], *columns.shape[1:])), 0, -2)
    if not isinstance(a, SparseTensor) and ranks[1] == 2:
        return ops.reshape(mm(ops.reshape(a, (-1, a.shape[-1])), b), (*a.shape[:-1], b.sizes[1]))
    return refuse(ops.matmul, a if isinstance(a, SparseTensor) else b)


@taking(ops.bmm)
def bmm(a: Any, b: Any) -> Any:
    if not isinstance(a, SparseTensor) or isinstance(b, SparseTensor):
        refuse(ops.bmm, b if isinstance(b, SparseTensor) else a)
    if a.dim() != 3 or b.dim() != 3 or a.sizes[0] != b.shape[0] or a.sizes[2] != b.shape[1]:
        raise RuntimeError(
            f"bmm: Expected batches of matrices that can be multiplied, got {list(a.sizes)} and "
            f"{list(b.shape)}"
        )
    batch, rows, columns = as_coo(a).places[0].array
    check_range(a.places[0].array, a.sizes)
    count, height, depth = a.sizes
    flat = ops.reshape(b, (count * depth, b.shape[2]))
    terms = ops.unsqueeze(a.elements, 1) * ops.index_select(flat, 0, wrap(batch * depth + columns))
    whole = ops.new_zeros(terms, (count * height, b.shape[2]))
    return ops.reshape(
        ops.index_add(whole, 0, wrap(batch * height + rows), terms), (count, height, b.shape[2])
    )


@taking(ops.addmm)
def addmm(start: Any, a: Any, b: Tensor, beta: Number, alpha: Number) -> Any:
    product = mm(a, b) if isinstance(a, SparseTensor) or isinstance(b, SparseTensor) else ops.mm(a, b)
    if alpha != 1:
        product = product * alpha
    if isinstance(start, SparseTensor):
        if isinstance(product, SparseTensor):
            whole: Any = start * beta + product
            return product if beta == 0 else coalesced(as_coo(whole))
        raise RuntimeError("addmm: a sparse matrix can only be added to by a product of sparse matrices")
    if isinstance(product, SparseTensor):
        return added_to(start * beta, product)
    return product if beta == 0 else start * beta + product


@taking(ops.addmv)
def addmv(start: Any, a: Any, b: Tensor, beta: Number, alpha: Number) -> Any:
    return start * beta + mv(a, b) * alpha


@taking(ops.nn_functional_linear)
def linear(x: Any, weight: Any, bias: Tensor | None = None) -> Any:
    product = matmul(x, swapped(weight))
    return product if bias is None else product + bias


# -- softmax -------------------------------------------------------------------------------------------------
def softmax(a: SparseTensor, dim: int, dtype: DType = None, logarithm: bool = False) -> SparseTensor:
    """Softmax over what is stored along a dimension: what is not counts as minus infinity."""
    given: Any = a if dtype is None else a.to(dtype)
    source = coalesced(as_coo(given))
    place, count = wrap_dim(dim, a.dim()), sparse_dims(source)
    if place >= count:
        face = ops.log_softmax if logarithm else ops.softmax
        return source.like(face(source.elements, place - count + 1))
    rows: Any = source.places[0].array
    xp = namespace(rows)
    rest = sparse(
        sparse_coo, (wrap(xp.concatenate([rows[:place], rows[place + 1 :]])),), source.elements,
        (*a.sizes[:place], *a.sizes[place + 1 :]),
    )  # fmt: skip
    numbers = numbers_of(rest)
    kept, groups = xp.unique(numbers, return_inverse=True)
    groups = groups.reshape(-1)
    values: Any = source.elements.detach().array
    highest = xp.full((kept.size, *values.shape[1:]), -xp.inf, values.dtype)
    xp.maximum.at(highest, groups, values)
    own = wrap(groups)
    shifted = source.elements - ops.index_select(wrap(highest), 0, own)
    powers = ops.exp(shifted)
    sums = ops.index_add(ops.new_zeros(powers, highest.shape), 0, own, powers)
    if logarithm:
        return source.like(shifted - ops.index_select(ops.log(sums), 0, own))
    return source.like(powers / ops.index_select(sums, 0, own))


def sampled(start: Any, a: Any, b: Tensor, beta: Number = 1, alpha: Number = 1) -> Any:
    """beta * start + alpha * (a @ b), at the places of `start` only."""
    found = as_coo(start)
    rows, columns = found.places[0].array
    check_range(found.places[0].array, found.sizes)
    left, right = (
        ops.index_select(a, 0, wrap(rows)),
        ops.index_select(ops.transpose(b, 0, 1), 0, wrap(columns)),
    )
    terms = ops.sum(left * right, 1) * alpha
    elements = terms if beta == 0 else ops.reshape(start.elements, (-1,)) * beta + terms
    return start.like(ops.reshape(elements, tuple(start.elements.shape)))


def rows_that_are(a: Any, b: Tensor) -> SparseTensor:
    """`hspmm`: the product with a dense matrix, of which only rows that are not empty are stored."""
    product = times_dense(a, b)
    rows: Any = as_coo(a).places[0].array[0]
    kept = namespace(rows).unique(rows)
    elements = ops.index_select(product, 0, wrap(kept))
    return sparse(sparse_coo, (wrap(kept[None]),), elements, product.shape, True)


def whole(product: Tensor) -> SparseTensor:
    """A dense matrix as a sparse one that stores all of it."""
    numbers: Any = namespace(product.array).arange(prod(product.shape))
    return sparse(
        sparse_coo, (rows_of(numbers, product.shape),), ops.reshape(product, (-1,)), product.shape, True
    )
