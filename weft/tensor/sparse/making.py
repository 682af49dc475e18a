"""Making sparse tensors of their parts, with PyTorch's checks: coordinates, and the four compressed layouts.

Takes indices and elements as tensors or nested lists; gives sparse tensors. One idea: sizes and ranks are
always checked, every index only where the user asks for it (`check_invariants`), as in PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from weft.core.arrays import namespace
from weft.core.dtypes import int32, int64
from weft.core.types import Size, layout, sparse_bsc, sparse_bsr, sparse_coo, sparse_csc, sparse_csr
from weft.ops.record import ops
from weft.ops.values import DeviceLike, DType, Sizes
from weft.tensor.base import Tensor
from weft.tensor.creation import tensor as make_tensor
from weft.tensor.sparse import methods as methods
from weft.tensor.sparse.base import SparseTensor, sparse
from weft.tensor.sparse.places import BLOCKS, BY_ROWS, check_range

checking: ContextVar[bool] = ContextVar("weft_sparse_checks", default=False)
"""Whether every index is checked, where a call does not say."""


def _indices(given: object, keep: bool = False) -> Tensor:
    found = given if isinstance(given, Tensor) else make_tensor(given, dtype=int64)
    return found.detach() if keep and found.dtype is int32 else found.detach().to(int64)


def _elements(given: object, dtype: DType, device: DeviceLike) -> Tensor:
    """The elements, with their history: a node of its own, so that the sparse tensor is another than they."""
    if isinstance(given, Tensor):
        moved = given.to(dtype=dtype, device=device) if dtype is not None or device is not None else given
        found: Tensor = ops.alias(moved) if moved is given else moved
        return found
    return make_tensor(given, dtype=dtype, device=device)


def _finished(made: SparseTensor, requires_grad: bool, check: bool | None) -> SparseTensor:
    if checking.get() if check is None else check:
        check_invariants(made)
    if requires_grad and not made.elements.requires_grad:
        made.elements = made.elements.detach().requires_grad_()
    return made


def sparse_coo_tensor(
    indices: Any = None, values: object = None, size: Sizes | None = None, *, dtype: DType = None,
    device: DeviceLike = None, pin_memory: bool = False, requires_grad: bool = False,
    check_invariants: bool | None = None, is_coalesced: bool | None = None,
) -> SparseTensor:  # fmt: skip
    """A tensor that is zero but at the columns of `indices`, where it has `values`, summed where they repeat.

    >>> import weft
    >>> weft.sparse_coo_tensor([[0, 1], [2, 0]], [3.0, 4.0], (2, 3)).to_dense().tolist()
    [[0.0, 0.0, 3.0], [4.0, 0.0, 0.0]]
    """
    if values is None:  # sizes alone
        sizes = Size(indices if size is None else size)
        places = ops.zeros((len(sizes), 0), dtype=int64, device=device)
        nothing = ops.zeros((0,), dtype=dtype, device=device)
        return _finished(sparse(sparse_coo, (places,), nothing, sizes, True), requires_grad, check_invariants)
    elements = _elements(values, dtype, device)
    if elements.dim() == 0:
        elements = ops.reshape(elements, (1,))
    places = _indices(indices).to(elements.device)
    if places.dim() == 1 and not places.numel():
        places = ops.reshape(places, (max(len(size) - elements.dim() + 1, 0) if size is not None else 1, 0))
    if size is None:
        size = (*_extents(places), *elements.shape[1:])
    sizes = Size(size)
    _check_parts(places, elements, sizes)
    unique = bool(is_coalesced) or places.shape[1] < 2
    return _finished(sparse(sparse_coo, (places,), elements, sizes, unique), requires_grad, check_invariants)


def _extents(places: Tensor) -> list[int]:
    array: Any = places.array
    if array.ndim != 2:
        raise RuntimeError(f"indices must be sparse_dim x nnz, but got: {list(array.shape)}")
    if not array.shape[1]:
        return [0] * array.shape[0]
    if int(array.min()) < 0:
        dim, row = next((d, r) for d, r in enumerate(array) if int(r.min()) < 0)
        raise RuntimeError(f"found negative index {int(row.min())} for dim {dim}")
    return [int(row.max()) + 1 for row in array]


def _check_parts(places: Tensor, elements: Tensor, sizes: Size) -> None:
    dims, count = places.shape[0], places.shape[-1]
    if len(sizes) != dims + elements.dim() - 1:
        raise RuntimeError(
            f"'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = {len(sizes)}, sparse_dim = "
            f"{dims}, dense_dim = {elements.dim() - 1}"
        )
    if places.dim() != 2:
        raise RuntimeError(f"indices must be sparse_dim x nnz, but got: {list(places.shape)}")
    if elements.shape[0] != count:
        raise RuntimeError(
            f"indices and values must have same nnz, but got nnz from indices: {count}, nnz from values: "
            f"{elements.shape[0]}"
        )
    wanted = [count, *sizes[dims:]]
    if list(elements.shape) != wanted:
        raise RuntimeError(f"values has incorrect size, expected {wanted}, got {list(elements.shape)}")


def check_invariants(tensor: SparseTensor) -> None:
    """Raises where an index is not one, or compressed indices are not in order."""
    if tensor.form is sparse_coo:
        rows: Any = tensor.places[0].array
        check_range(rows, tensor.sizes[: rows.shape[0]])
        return
    pointers, inner = (place.array for place in tensor.places)
    xp = namespace(inner)
    by_rows = tensor.form in BY_ROWS
    outer_name, inner_name = ("crow", "col") if by_rows else ("ccol", "row")
    block = tensor.elements.shape[1:3] if tensor.form in BLOCKS else (1, 1)
    counts = (tensor.sizes[0] // block[0], tensor.sizes[1] // block[1])
    outer, width = counts if by_rows else counts[::-1]
    if pointers.size != outer + 1:
        label = "nrows" if by_rows else "ncols"
        raise RuntimeError(
            f"{outer_name}_indices.shape[-1] must be equal to the number of {label} + 1 = "
            f"{outer + 1}, but got "
            f"{pointers.size}"
        )
    if int(pointers[0]) != 0:
        raise RuntimeError(f"`{outer_name}_indices[..., 0] == 0` is not satisfied.")
    if int(pointers[-1]) != inner.size:
        raise RuntimeError(f"`{outer_name}_indices[..., -1] == nnz` is not satisfied.")
    steps = pointers[1:] - pointers[:-1]
    if steps.size and (int(steps.min()) < 0 or int(steps.max()) > width):
        names = ("nrows", "ncols") if by_rows else ("ncols", "nrows")
        raise RuntimeError(
            f"`0 <= {outer_name}_indices[..., 1:] - {outer_name}_indices[..., :-1] <= "
            f"{names[1]}` is not satisfied."
        )
    if inner.size and (int(inner.min()) < 0 or int(inner.max()) >= width):
        low = int(inner.min()) < 0
        text = (
            f"0 <= {inner_name}_indices"
            if low
            else f"{inner_name}_indices < {'ncols' if by_rows else 'nrows'}"
        )
        raise RuntimeError(f"`{text}` is not satisfied.")
    rows = xp.repeat(xp.arange(outer), steps)
    if inner.size and bool(((inner[1:] <= inner[:-1]) & (rows[1:] == rows[:-1])).any()):
        raise RuntimeError(
            f"`{inner_name}_indices[..., {outer_name}_indices[..., i - "
            f"1]:{outer_name}_indices[..., i]] for all i "
            "= 1, ..., nrows are sorted and distinct along the last dimension values` is not satisfied."
        )


def compressed(
    form: layout, pointers: Any, inner: Any, values: object, size: Sizes | None, options: dict[str, Any]
) -> SparseTensor:
    """A tensor in a compressed layout, of its parts."""
    elements = _elements(values, options.get("dtype"), options.get("device"))
    outer, places = _indices(pointers, True), _indices(inner, True)
    names = ("crow", "col") if form in BY_ROWS else ("ccol", "row")
    blocks = form in BLOCKS
    if outer.dim() != 1 or places.dim() != 1:
        raise NotImplementedError(
            "batches of compressed sparse tensors are not supported: one matrix at a time"
        )
    if outer.dtype is not places.dtype:
        raise RuntimeError(
            f"{names[0]}_indices and {names[1]}_indices must have the same dtype, but got "
            f"{outer.dtype.scalar_name} and {places.dtype.scalar_name}, respectively"
        )
    if places.shape[0] != elements.shape[0]:
        raise RuntimeError(
            f"number of dimensions of {names[1]}_indices and values must match: nnz is {places.shape[0]} and "
            f"{elements.shape[0]}"
        )
    block = tuple(elements.shape[1:3]) if blocks else (1, 1)
    if size is None:
        array: Any = places.array
        inside = int(array.max()) + 1 if array.size else 0
        counts = (outer.shape[0] - 1, inside) if form in BY_ROWS else (inside, outer.shape[0] - 1)
        size = (counts[0] * block[0], counts[1] * block[1], *elements.shape[3 if blocks else 1 :])
    sizes = Size(size)
    if len(sizes) < 2:
        raise RuntimeError(f"size must have length >= 2 but got length {len(sizes)}")
    made = sparse(form, (outer, places), elements, sizes, True)
    return _finished(made, bool(options.get("requires_grad")), options.get("check_invariants"))


def maker(form: layout) -> Callable[..., SparseTensor]:
    """The public constructor of one compressed layout."""
    outer, inner = ("crow_indices", "col_indices") if form in BY_ROWS else ("ccol_indices", "row_indices")

    def make(*args: Any, **options: dict[str, Any]) -> SparseTensor:
        names = (outer, inner, "values", "size")
        given = dict(zip(names, args)) | {name: options.pop(name) for name in names if name in options}
        if len(args) > 4 or any(name not in given for name in names[:3]):
            raise TypeError(f"{form.name}_tensor() takes {outer}, {inner} and values, and perhaps the size")
        unknown = options.keys() - {
            "dtype", "device", "pin_memory", "requires_grad", "check_invariants", "layout",
        }  # fmt: skip
        if unknown:
            raise TypeError(f"{form.name}_tensor() got an unexpected keyword argument '{min(unknown)}'")
        return compressed(form, given[outer], given[inner], given["values"], given.get("size"), options)

    make.__name__ = make.__qualname__ = f"{form.name}_tensor"
    make.__doc__ = f"A tensor in the layout {form.name}, of {outer}, {inner} and values."
    return make


sparse_csr_tensor, sparse_csc_tensor = maker(sparse_csr), maker(sparse_csc)
sparse_bsr_tensor, sparse_bsc_tensor = maker(sparse_bsr), maker(sparse_bsc)


def sparse_compressed_tensor(
    compressed_indices: Any, plain_indices: Any, values: object, size: Sizes | None = None,
    *, dtype: DType = None, layout: Any = None, device: DeviceLike = None, pin_memory: bool = False,
    requires_grad: bool = False, check_invariants: bool | None = None,
) -> SparseTensor:  # fmt: skip
    """A tensor in a compressed layout that is named."""
    if layout not in (sparse_csr, sparse_csc, sparse_bsr, sparse_bsc):
        raise RuntimeError(f"sparse_compressed_tensor expected a compressed layout, but got {layout!r}")
    options = {
        "dtype": dtype, "device": device, "requires_grad": requires_grad,
        "check_invariants": check_invariants,
    }  # fmt: skip
    return compressed(layout, compressed_indices, plain_indices, values, size, options)


def remade(form: layout, parts: Any, size: Sizes, coalesced: bool) -> SparseTensor:
    """A sparse tensor of what a file holds: every index is checked."""
    *places, elements = parts
    if form is sparse_coo:
        _check_parts(places[0], elements, Size(size))
        made = sparse(form, (places[0],), elements, size, coalesced)
    else:
        if any(place.dim() != 1 for place in places) or places[1].shape[0] != elements.shape[0]:
            raise RuntimeError("indices and values do not fit each other")
        made = sparse(form, tuple(places), elements, size, True)
    check_invariants(made)
    return made
