"""Places: where the elements of sparse tensors lie, in coordinates and compressed, and the ways between them.

Takes sparse tensors; gives index tensors and sparse tensors. One idea: a place is one number, its position
among all places row by row, and everything (sorting, merging, looking up) is done with those numbers.
"""

from __future__ import annotations

from math import prod
from typing import Any

from weft.core.arrays import Array, namespace
from weft.core.dtypes import bool_, int64
from weft.core.types import layout, sparse_bsc, sparse_bsr, sparse_coo, sparse_csc, sparse_csr
from weft.ops.record import ops
from weft.ops.values import Sizes
from weft.tensor.base import Tensor, wrap
from weft.tensor.sparse.base import SparseTensor, sparse

BY_ROWS = (sparse_csr, sparse_bsr)
BLOCKS = (sparse_bsr, sparse_bsc)


def numbers_of(tensor: SparseTensor) -> Any:
    """The position of each element among all places, as an array."""
    rows = tensor.places[0].array
    xp = namespace(rows)
    sizes = tensor.sizes[: rows.shape[0]]
    check_range(rows, sizes)
    found = xp.zeros(rows.shape[1], xp.int64)
    for row, size in zip(rows, sizes):
        found = found * size + row
    return found


def check_range(rows: Array, sizes: Sizes) -> None:
    """Refuses places outside of the tensor."""
    for dim, (row, size) in enumerate(zip(rows, sizes)):
        if row.size and int(row.min()) < 0:
            raise RuntimeError(f"found negative index {int(row.min())} for dim {dim}")
        if row.size and int(row.max()) >= size:
            raise RuntimeError(
                f"size is inconsistent with indices: for dim {dim}, size is {size} but found index "
                f"{int(row.max())}"
            )


def rows_of(numbers: Array, sizes: Sizes) -> Tensor:
    """Coordinates of positions: the other way round."""
    xp = namespace(numbers)
    rows = []
    for size in reversed(tuple(sizes)):
        rows.append(numbers % max(size, 1))
        numbers = numbers // max(size, 1)
    if not rows:
        return wrap(xp.zeros((0, numbers.size), xp.int64))
    return wrap(xp.stack(rows[::-1]).astype(xp.int64))


def coalesced(tensor: SparseTensor) -> SparseTensor:
    """Each place once, in order, with the sum of what was there; the tensor itself where it is so."""
    if tensor.ordered:
        return tensor
    numbers = numbers_of(tensor)
    xp = namespace(numbers)
    kept, inverse = xp.unique(numbers, return_inverse=True)
    elements = summed(tensor.elements, inverse.reshape(-1), kept.size)
    return sparse(
        sparse_coo, (rows_of(kept, tensor.sizes[: sparse_dims(tensor)]),), elements, tensor.sizes, True
    )


def summed(elements: Tensor, groups: Array, count: int) -> Any:
    """Sums of elements by group; of truths, whether one is true."""
    kind = elements.dtype
    start = ops.new_zeros(elements, (count, *elements.shape[1:]))
    if kind is bool_:
        whole = ops.index_add(start.to(int64), 0, wrap(groups), elements.to(int64))
        return whole.to(bool_)
    return ops.index_add(start, 0, wrap(groups), elements)


def firsts(tensor: SparseTensor) -> tuple[Tensor, Tensor]:
    """The places of a tensor, each once and in order, and an element of each."""
    numbers = numbers_of(tensor)
    kept, chosen = namespace(numbers).unique(numbers, return_index=True)
    return rows_of(kept, tensor.sizes[: sparse_dims(tensor)]), wrap(chosen)


def sparse_dims(tensor: SparseTensor) -> int:
    """How many dimensions are given by places."""
    return tensor.places[0].shape[0] if tensor.form is sparse_coo else 2


def looked_up(value: Tensor, mask: SparseTensor) -> Any:
    """The elements of a tensor at the places of a mask; zero where a sparse one has none."""
    if mask.form is not sparse_coo:
        found = as_coo(mask)
        return blocks_from(looked_up(value, found), mask)
    if isinstance(value, SparseTensor):
        source = coalesced(as_coo(value))
        have, wanted = numbers_of(source), numbers_of(mask)
        xp = namespace(have)
        if not have.size:
            return ops.new_zeros(source.elements, (wanted.size, *source.elements.shape[1:]))
        position = xp.minimum(xp.searchsorted(have, wanted), have.size - 1)
        elements = ops.index_select(source.elements, 0, wrap(position))
        missing = have[position] != wanted
        if not missing.any():
            return elements
        shape = (wanted.size, *(1,) * (elements.dim() - 1))
        return ops.masked_fill(elements, wrap(missing.reshape(shape)), 0)
    dims = sparse_dims(mask)
    check_range(mask.places[0].array, mask.sizes)
    flat = ops.reshape(value, (prod(mask.sizes[:dims]), *mask.sizes[dims:]))
    return ops.index_select(flat, 0, wrap(numbers_of(mask)))


def to_dense(tensor: SparseTensor) -> Any:
    """All elements."""
    found = as_coo(tensor)
    dims = sparse_dims(found)
    count = prod(found.sizes[:dims])
    whole = summed(found.elements, numbers_of(found), count)
    return ops.reshape(whole, tuple(found.sizes))


# -- from dense ----------------------------------------------------------------------------------------------
def from_dense(tensor: Tensor, dims: int | None = None) -> SparseTensor:
    """The elements of a dense tensor that are not zero, with their places in the first dimensions."""
    rank = tensor.dim()
    dims = rank if dims is None else dims
    if not (0 < dims <= rank or (rank == 0 and dims == 0)):
        raise RuntimeError(
            f"dense_to_sparse: sparse_dim argument must be in [0,{rank}] range, but {dims} is given"
        )
    array: Any = tensor.detach().array
    xp = namespace(array)
    some = array.astype(bool)
    for _ in range(rank - dims):
        some = some.any(axis=-1)
    numbers = xp.flatnonzero(some)
    sizes = tuple(tensor.shape[:dims])
    flat = ops.reshape(tensor, (prod(sizes), *tensor.shape[dims:]))
    return sparse(
        sparse_coo, (rows_of(numbers, sizes),), ops.index_select(flat, 0, wrap(numbers)), tensor.shape, True
    )


# -- compressed ----------------------------------------------------------------------------------------------
def as_coo(tensor: SparseTensor) -> SparseTensor:
    """A tensor of any sparse layout in coordinates."""
    if tensor.form is sparse_coo:
        return tensor
    pointers, inner = (place.array for place in tensor.places)
    xp = namespace(inner)
    counts = pointers[1:] - pointers[:-1]
    outer = xp.repeat(xp.arange(counts.size), counts)
    elements = tensor.elements
    by_rows = tensor.form in BY_ROWS
    if tensor.form in BLOCKS:
        height, width = elements.shape[1:3]
        tall, wide = (xp.arange(size) for size in (height, width))
        rows, columns = (outer, inner) if by_rows else (inner, outer)
        rows = (rows[:, None, None] * height + tall[:, None] + 0 * wide).reshape(-1)
        columns = (columns[:, None, None] * width + wide + 0 * tall[:, None]).reshape(-1)
        elements = ops.reshape(elements, (-1, *elements.shape[3:]))
    else:
        rows, columns = (outer, inner) if by_rows else (inner, outer)
    indices = wrap(xp.stack([rows, columns]).astype(xp.int64))
    ordered = tensor.form is sparse_csr
    return sparse(sparse_coo, (indices,), elements, tensor.sizes, ordered)


def blocks_from(elements: Tensor, like: SparseTensor) -> Any:
    """Elements in the order of `as_coo`, in the shape that a compressed tensor holds them in."""
    return ops.reshape(elements, tuple(like.elements.shape))


def compress(tensor: SparseTensor, form: layout, block: Any = None) -> SparseTensor:
    """A tensor in a compressed layout."""
    if tensor.form is form and (form not in BLOCKS or tuple(tensor.elements.shape[1:3]) == tuple(block)):
        return tensor
    found = coalesced(as_coo(tensor))
    if sparse_dims(found) != 2:
        raise RuntimeError(
            "Only tensors with two sparse dimensions can be converted to the SparseCsr layout, got self with "
            f"{sparse_dims(found)} sparse dimensions."
        )
    by_rows = form in BY_ROWS
    rows, columns = found.places[0].array
    xp = namespace(rows)
    if form in BLOCKS:
        return _blocked(found, form, tuple(block))
    outer, inner, elements = (rows, columns, found.elements) if by_rows else (columns, rows, found.elements)
    if not by_rows:
        order = xp.lexsort((rows, columns)) if hasattr(xp, "lexsort") else xp.argsort(columns, kind="stable")
        outer, inner = outer[order], inner[order]
        elements = ops.index_select(elements, 0, wrap(order))
    pointers = pointers_of(outer, found.sizes[0 if by_rows else 1])
    return sparse(form, (pointers, wrap(inner)), elements, found.sizes, True)


def pointers_of(sorted_places: Array, count: int) -> Tensor:
    """Where each row begins among sorted ones, and where the last one ends."""
    xp = namespace(sorted_places)
    counts = xp.bincount(sorted_places, minlength=count) if sorted_places.size else xp.zeros(count, xp.int64)
    return wrap(xp.concatenate([xp.zeros(1, xp.int64), xp.cumsum(counts).astype(xp.int64)]))


def _blocked(found: SparseTensor, form: layout, block: tuple[int, ...]) -> SparseTensor:
    height, width = block
    sizes = found.sizes
    if len(block) != 2 or height <= 0 or width <= 0:
        raise RuntimeError(f"blocksize must be a pair of positive numbers, got {list(block)}")
    if sizes[0] % height or sizes[1] % width:
        raise RuntimeError(
            f"tensor sparse size ({sizes[0]},{sizes[1]}) must be divisible by given blocksize "
            f"({height},{width})"
        )
    rows, columns = found.places[0].array
    xp = namespace(rows)
    by_rows = form is sparse_bsr
    outer, inner = (rows // height, columns // width) if by_rows else (columns // width, rows // height)
    span = (sizes[1] // width) if by_rows else (sizes[0] // height)
    kept, group = xp.unique(outer * span + inner, return_inverse=True)
    place = (group.reshape(-1) * height + rows % height) * width + columns % width
    flat = summed(found.elements, place, kept.size * height * width)
    elements = ops.reshape(flat, (kept.size, height, width, *found.elements.shape[1:]))
    pointers = pointers_of(kept // span, (sizes[0] // height) if by_rows else (sizes[1] // width))
    return sparse(form, (pointers, wrap(kept % span)), elements, sizes, True)


TRANSPOSED = {sparse_csr: sparse_csc, sparse_csc: sparse_csr, sparse_bsr: sparse_bsc, sparse_bsc: sparse_bsr}
