"""Layouts of tensors: the methods and functions that make sparse tensors, and ask dense ones for their parts.

Takes what PyTorch's functions of these names do. One idea: only names and the refusals of dense tensors stand
here; what sparse tensors are is loaded when the first one is made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from weft.core.lazy import lazy
from weft.core.modes import current, grad_enabled
from weft.core.naming import named
from weft.core.seams import seams
from weft.core.sparse_array import SparseArray
from weft.core.types import (
    LAYOUTS,
    layout,
    sparse_bsc,
    sparse_bsr,
    sparse_coo,
    sparse_csc,
    sparse_csr,
    strided,
)
from weft.ops.values import DType, Number
from weft.tensor.base import PLAIN, PUBLIC, Tensor, method, public
from weft.tensor.meta import recorder_of

_methods = lazy("weft.tensor.sparse.methods")
_making = lazy("weft.tensor.sparse.making")

PUBLIC.update(LAYOUTS)


def _tensor_of(array: SparseArray) -> Any:
    return _methods.of_array(array)


def _gives_rows(weight: Any) -> bool:
    """Whether a lookup in this table gives it a sparse gradient: a leaf that nothing else is computed for."""
    if type(weight) not in PLAIN or not weight.tracked or weight.node is not None or not grad_enabled():
        return False
    recorder = recorder_of(current())
    if recorder is not None:
        recorder.refuse_sparse()
    return True


def _rows(gradient: object, indices: object, shape: tuple[int, ...], padding: int) -> Any:
    return _methods.rows_of_table(gradient, indices, shape, padding)


seams.sparse_tensor = _tensor_of
seams.gives_sparse_rows = _gives_rows
seams.sparse_rows = _rows


def _maker(name: str) -> Callable[..., Any]:
    def make(*args: object, **kwargs: Any) -> Any:
        return getattr(_making, name)(*args, **kwargs)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"A sparse tensor of its parts: `weft.tensor.sparse.making.{name}`."
    return public(make)


for _form in LAYOUTS.values():
    if _form is not strided:
        _maker(f"{_form.name}_tensor")
_maker("sparse_compressed_tensor")


# -- to sparse layouts ---------------------------------------------------------------------------------------
@method
def to_sparse(
    self: Tensor,
    sparse_dim: int | None = None,
    *,
    layout: layout | None = None,
    blocksize: Sequence[int] | None = None,
    dense_dim: int | None = None,
) -> Any:
    """The tensor in a sparse layout: coordinates of all (or the first) dimensions, or another."""
    form = sparse_coo if layout is None else layout
    if sparse_dim is not None and layout is not None:
        raise RuntimeError("to_sparse: only one of sparse_dim and layout may be given")
    return _methods.converted(self, form, sparse_dim, blocksize, dense_dim)


@method
def to_sparse_coo(self: Tensor) -> Any:
    """The tensor in coordinates."""
    return _methods.converted(self, sparse_coo)


def _compressor(form: layout, blocks: bool) -> None:
    def convert(self: Tensor, dense_dim: int | None = None) -> Any:
        return _methods.converted(self, form, None, None, dense_dim)

    def convert_blocks(self: Tensor, blocksize: Sequence[int] | None, dense_dim: int | None = None) -> Any:
        return _methods.converted(self, form, None, blocksize, dense_dim)

    made = convert_blocks if blocks else convert
    made.__name__ = made.__qualname__ = f"to_{form.name}"
    made.__doc__ = f"The matrix in the layout {form.name}."
    method(made)


for _form in (sparse_csr, sparse_csc, sparse_bsr, sparse_bsc):
    _compressor(_form, _form in (sparse_bsr, sparse_bsc))


@method
def to_dense(self: Tensor, dtype: DType = None, *, masked_grad: bool | None = None) -> Tensor:
    """The tensor itself, which is dense."""
    return self if dtype is None else self.to(dtype)


@method
def sparse_mask(self: Tensor, mask: Tensor) -> Any:
    """The elements at the places of a sparse tensor."""
    return _methods.masked(self, mask)


# -- parts, which dense tensors have none of -----------------------------------------------------------------
def _refusal(name: str, wanted: str, doc: str) -> None:
    def refuse(self: Tensor) -> Any:
        raise RuntimeError(f"{name} expected {wanted} layout but got Strided")

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = doc
    method(refuse)


_COORDINATES = "sparse coordinate tensor"
_refusal("indices", _COORDINATES, "The places of what is stored, one column each.")
_refusal("coalesce", _COORDINATES, "The tensor with each place once, in order.")
_refusal("is_coalesced", _COORDINATES, "Whether each place is there once, in order.")
_refusal("values", "sparse tensor", "What is stored.")
for _name, _inner in (("crow_indices", "row"), ("col_indices", "row"), ("ccol_indices", "column"),
                      ("row_indices", "column")):  # fmt: skip
    _refusal(_name, f"sparse {_inner} compressed tensor", "Indices of a compressed layout.")


def _missing(name: str, doc: str) -> None:
    def refuse(self: Tensor) -> Any:
        raise NotImplementedError(
            f"Could not run 'aten::{name}' with arguments from the '{self.device.type.upper()}' backend: the "
            "tensor is not sparse."
        )

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = doc
    method(refuse)


_missing("_indices", "The places of what is stored, whether or not each is there once.")
_missing("_values", "What is stored, whether or not each place is there once.")
_missing("_nnz", "How many elements are stored.")
_missing("_coalesced_", "Says that each place is there once, in order, or that it may not be.")
_missing("sparse_resize_", "Changes the sizes of a sparse tensor.")
_missing("sparse_resize_and_clear_", "Changes the sizes of a sparse tensor, and drops what is stored.")


@method
def sparse_dim(self: Tensor) -> int:
    """How many dimensions are given by places: none, where all elements are stored."""
    return 0


@method
def dense_dim(self: Tensor) -> int:
    """How many dimensions are stored whole: all."""
    return self.dim()


# -- products ------------------------------------------------------------------------------------------------
@public
def smm(input: Tensor, mat: Tensor) -> Any:
    """The product of a sparse matrix with a dense one, as a sparse matrix."""
    return _methods.smm(input, mat)


@public
def hspmm(mat1: Tensor, mat2: Tensor) -> Any:
    """The product of a sparse matrix with a dense one, of which rows that are not empty are stored."""
    return _methods.hspmm(mat1, mat2)


@public
def sspaddmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Number = 1, alpha: Number = 1) -> Any:
    """A sparse matrix and the product of a sparse matrix with a dense one, as a sparse matrix."""
    return _methods.sspaddmm(input, mat1, mat2, beta, alpha)


@public
def spmm(input: Tensor, mat2: Tensor) -> Any:
    """The product of two matrices, of which one may be sparse."""
    return input.mm(mat2)


@public
def dsmm(input: Tensor, mat2: Tensor) -> Any:
    """The product of two matrices, of which one may be sparse."""
    return input.mm(mat2)


@public
def hsmm(input: Tensor, mat2: Tensor) -> Any:
    """The product of two matrices, of which one may be sparse."""
    return input.mm(mat2)


@public
def saddmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Number = 1, alpha: Number = 1) -> Any:
    """A matrix and the product of two, of which one may be sparse."""
    return input.addmm(mat1, mat2, beta=beta, alpha=alpha)


@public
def resize_as_sparse_(input: Any, the_template: Tensor) -> Any:
    """Gives a sparse tensor the sizes of another."""
    if not input.layout is the_template.layout is sparse_coo:
        raise RuntimeError(named("resize_as_sparse_: both tensors must be in the layout weft.sparse_coo"))
    if tuple(input.shape) != tuple(the_template.shape):
        input.sparse_resize_(the_template.shape, the_template.sparse_dim(), the_template.dense_dim())
    return input


for _name in ("smm", "sspaddmm", "resize_as_sparse_"):
    setattr(Tensor, _name, PUBLIC[_name])


def _copier(name: str) -> None:
    def copy(input: Tensor) -> Any:
        return getattr(input, name)().clone()

    copy.__name__ = copy.__qualname__ = f"{name}_copy"
    copy.__doc__ = f"A copy of `{name}` of a sparse tensor."
    public(copy)


for _name in ("indices", "values", "crow_indices", "col_indices", "ccol_indices", "row_indices"):
    _copier(_name)
