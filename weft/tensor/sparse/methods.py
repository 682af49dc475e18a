"""Methods of sparse tensors: their parts, other layouts, masks, sizes; and gradients of lookups.

Takes sparse tensors, gives their parts or others. One idea: each is attached to `SparseTensor` under the name
that dense tensors have for it, where `weft.tensor.layouts` says what these do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.core.arrays import namespace
from weft.core.types import Size, layout, sparse_coo
from weft.ops.record import ops
from weft.ops.values import DType, Number, Sizes
from weft.tensor.base import Tensor, wrap
from weft.tensor.meta import MetaArray
from weft.tensor.sparse import products as products
from weft.tensor.sparse.base import NAMES, SparseTensor, attached, sparse
from weft.tensor.sparse.base import of_array as of_array
from weft.tensor.sparse.places import (
    BLOCKS,
    BY_ROWS,
    as_coo,
    coalesced,
    compress,
    from_dense,
    looked_up,
    sparse_dims,
)
from weft.tensor.sparse.places import to_dense as dense_of
from weft.tensor.sparse.rules import emptied


def _of_coordinates(tensor: SparseTensor, name: str) -> None:
    if tensor.form is not sparse_coo:
        if name.startswith("_"):
            raise NotImplementedError(
                f"Could not run 'aten::{name}' with arguments from the "
                f"'{NAMES[tensor.form]}CPU' backend: only "
                "tensors in coordinates have it."
            )
        raise RuntimeError(f"{name} expected sparse coordinate tensor layout but got {NAMES[tensor.form]}")


# -- parts ---------------------------------------------------------------------------------------------------
@attached
def _indices(self: SparseTensor) -> Tensor:
    _of_coordinates(self, "_indices")
    return self.places[0].detach()


@attached
def _values(self: SparseTensor) -> Tensor:
    _of_coordinates(self, "_values")
    return self.elements.detach()


@attached
def _nnz(self: SparseTensor) -> int:
    return int(self.elements.shape[0])


@attached
def indices(self: SparseTensor) -> Tensor:
    _of_coordinates(self, "indices")
    if not self.ordered:
        raise RuntimeError("Cannot get indices on an uncoalesced tensor, please call .coalesce() first")
    return self.places[0].detach()


@attached
def values(self: SparseTensor) -> Any:
    if self.form is sparse_coo and not self.ordered:
        raise RuntimeError("Cannot get values on an uncoalesced tensor, please call .coalesce() first")
    return ops.alias(self.elements)


@attached
def coalesce(self: SparseTensor) -> SparseTensor:
    _of_coordinates(self, "coalesce")
    return coalesced(self)


@attached
def is_coalesced(self: SparseTensor) -> bool:
    _of_coordinates(self, "is_coalesced")
    return self.ordered


@attached
def _coalesced_(self: SparseTensor, coalesced: bool) -> SparseTensor:
    self.ordered = coalesced
    return self


@attached
def sparse_dim(self: SparseTensor) -> int:
    return sparse_dims(self)


@attached
def dense_dim(self: SparseTensor) -> int:
    return len(self.sizes) - sparse_dims(self)


def _index_method(name: str, by_rows: bool, position: int) -> None:
    def get(self: SparseTensor) -> Tensor:
        if self.form is sparse_coo or (self.form in BY_ROWS) is not by_rows:
            which = "row" if by_rows else "column"
            raise RuntimeError(
                f"{name} expected sparse {which} compressed tensor layout but got {NAMES[self.form]}"
            )
        return self.places[position].detach()

    get.__name__ = get.__qualname__ = name
    attached(get)


_index_method("crow_indices", True, 0)
_index_method("col_indices", True, 1)
_index_method("ccol_indices", False, 0)
_index_method("row_indices", False, 1)


# -- other layouts -------------------------------------------------------------------------------------------
@attached
def to_dense(self: SparseTensor, dtype: DType = None, *, masked_grad: bool | None = None) -> Any:
    if dtype is not None:
        raise RuntimeError("dtype argument is not supported by sparse_to_dense")
    return dense_of(self)


def converted(
    tensor: Tensor,
    form: layout,
    dims: int | None = None,
    block: Sequence[int] | None = None,
    dense_dims: int | None = None,
) -> Any:
    """A tensor, dense or sparse, in a sparse layout."""
    if dense_dims and form is not sparse_coo:
        raise NotImplementedError(f"to_{form.name}: dense dimensions are not supported")
    if form in BLOCKS and block is None:
        raise RuntimeError(f"to_{form.name}: blocksize is required")
    if form not in NAMES:
        return tensor.to_dense()
    if isinstance(tensor, SparseTensor):
        if form is sparse_coo:
            if dims is not None and dims != sparse_dims(tensor):
                raise RuntimeError(
                    f"sparse_to_sparse: conversion from {NAMES[tensor.form]} to Sparse with "
                    f"sparse_dim argument "
                    f"!={sparse_dims(tensor)} is not supported"
                )
            return as_coo(tensor)
        return compress(tensor, form, block)
    if form is not sparse_coo and tensor.dim() != 2:
        raise NotImplementedError(f"to_{form.name}: matrices only, got a tensor of {tensor.dim()} dimensions")
    if type(tensor.array) is MetaArray:
        sparse(form, (), tensor, tensor.shape)  # a recorder breaks here
        raise NotImplementedError("a tensor without elements has no sparse form")
    found = from_dense(tensor, dims)
    return found if form is sparse_coo else compress(found, form, block)


def masked(tensor: Tensor, mask: Tensor) -> SparseTensor:
    """The elements of a tensor at the places of a sparse one."""
    if not isinstance(mask, SparseTensor):
        raise RuntimeError("sparse_mask(): expected mask to be sparse")
    if tuple(tensor.shape) != tuple(mask.sizes):
        raise RuntimeError(
            f"sparse_mask(): operands have incompatible sizes; self has size "
            f"{list(tensor.shape)} but mask has "
            f"size {list(mask.sizes)}"
        )
    return mask.like(looked_up(tensor, mask))


# -- sizes ---------------------------------------------------------------------------------------------------
@attached
def sparse_resize_(self: SparseTensor, size: Sizes, sparse_dim: int, dense_dim: int) -> SparseTensor:
    sizes = Size(size)
    if sparse_dim + dense_dim != len(sizes):
        raise RuntimeError(
            f"'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = {len(sizes)}, sparse_dim = "
            f"{sparse_dim}, dense_dim = {dense_dim}"
        )
    if _nnz(self):
        if sparse_dim != sparse_dims(self):
            raise RuntimeError(
                f"changing the number of sparse dimensions (from {sparse_dims(self)} to {sparse_dim}) on a "
                "non-empty sparse tensor is not supported."
            )
        if any(new < old for new, old in zip(sizes, self.sizes)):
            raise RuntimeError(
                "shrinking the size of sparse dimensions on a non-empty sparse tensor is not supported."
            )
        if tuple(sizes[sparse_dim:]) != tuple(self.elements.shape[1:]):
            raise NotImplementedError("dense dimensions of a non-empty sparse tensor cannot be resized")
        self.sizes = sizes
        return self
    return sparse_resize_and_clear_(self, size, sparse_dim, dense_dim)


@attached
def sparse_resize_and_clear_(
    self: SparseTensor, size: Sizes, sparse_dim: int, dense_dim: int
) -> SparseTensor:
    sizes = Size(size)
    rows: Any = self.places[0].array
    xp = namespace(rows)
    self.places = (wrap(xp.zeros((sparse_dim, 0), xp.int64)),)
    self.elements = ops.new_zeros(self.elements.detach(), (0, *sizes[sparse_dim:]))
    self.sizes, self.ordered = sizes, True
    return self


# -- reading -------------------------------------------------------------------------------------------------
@attached
def __getitem__(self: SparseTensor, key: object) -> Any:
    keys = key if isinstance(key, tuple) else (key,)
    given = sum(1 for each in keys if each is not None and each is not Ellipsis)
    found: Any = self
    place = 0
    for each in keys:
        if each is Ellipsis:
            place += self.dim() - given
        elif each is None:
            found = ops.unsqueeze(found, place)
            place += 1
        elif isinstance(each, slice):
            if each != slice(None):
                found = ops.slice(found, place, each.start, each.stop, 1 if each.step is None else each.step)
            place += 1
        elif isinstance(each, (Tensor, list)) and not isinstance(each, SparseTensor):
            index = each if isinstance(each, Tensor) else ops.new_zeros(self.places[0], ()).new_tensor(each)
            if index.dim() != 1 or sum(isinstance(other, (Tensor, list)) for other in keys) != 1:
                raise NotImplementedError("sparse tensors are indexed by one vector of indices at a time")
            if index.dtype.category == 0:
                index = index.nonzero().reshape(-1)
            found = ops.index_select(found, place, index)
            place += 1
        else:
            found = ops.select(found, place, each.__index__())
    return found


# -- products ------------------------------------------------------------------------------------------------
def _needs_sparse(name: str, tensor: Tensor) -> SparseTensor:
    if not isinstance(tensor, SparseTensor):
        raise NotImplementedError(
            f"Could not run 'aten::{name}' with arguments from the 'CPU' backend: the first "
            f"matrix must be sparse."
        )
    return tensor


def smm(input: Tensor, mat: Tensor) -> Any:
    """See `weft.tensor.layouts.smm`."""
    source = _needs_sparse("smm", input)
    return sspaddmm(emptied(sparse(sparse_coo, as_coo(source).places, as_coo(source).elements, (
        source.sizes[0], mat.shape[1]))), source, mat, 0, 1)  # fmt: skip


def sspaddmm(input: Tensor, mat1: Tensor, mat2: Tensor, beta: Number, alpha: Number) -> Any:
    """See `weft.tensor.layouts.sspaddmm`."""
    start, factor = _needs_sparse("sspaddmm", input), _needs_sparse("sspaddmm", mat1)
    kept = products.rows_that_are(factor, mat2)
    rows: Any = kept.places[0].array[0]
    xp = namespace(rows)
    width = mat2.shape[1]
    places = xp.stack([xp.repeat(rows, width), xp.tile(xp.arange(width), rows.size)])
    elements = ops.reshape(kept.elements, (-1,)) * alpha
    product = sparse(sparse_coo, (wrap(places),), elements, start.sizes, True)
    if beta == 0:
        return product
    moved = ops.cat([as_coo(start).places[0], product.places[0]], 1)
    whole = ops.cat([as_coo(start).elements * beta, product.elements], 0)
    return sparse(sparse_coo, (moved,), whole, start.sizes)


def hspmm(mat1: Tensor, mat2: Tensor) -> Any:
    """See `weft.tensor.layouts.hspmm`."""
    return products.rows_that_are(_needs_sparse("hspmm", mat1), mat2)


# -- lookups -------------------------------------------------------------------------------------------------
def rows_of_table(gradient: object, indices: Any, shape: tuple[int, ...], padding: int) -> SparseTensor:
    """The gradient of a table of which rows were looked up, where it is to be recorded itself."""
    flat = ops.reshape(indices, (-1,)) if isinstance(indices, Tensor) else wrap(indices.reshape(-1))
    rows = ops.reshape(gradient, (flat.shape[0], shape[1]))
    if padding >= 0:
        kept = wrap(namespace(flat.array).flatnonzero(flat.array != padding))
        flat, rows = ops.index_select(flat, 0, kept), ops.index_select(rows, 0, kept)
    return sparse(sparse_coo, (ops.unsqueeze(flat.detach().long(), 0),), rows, shape)
