"""The `sparse` namespace: products, sums and softmax of sparse tensors, and their checks.

Takes what PyTorch's functions of these names do; what sparse tensors are is in `weft.tensor.sparse`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Token
from functools import wraps
from typing import Any

from weft.core.arrays import namespace
from weft.core.dtypes import as_dtype
from weft.core.types import sparse_coo
from weft.ops.record import ops
from weft.tensor.base import Tensor, wrap
from weft.tensor.sparse import methods, products
from weft.tensor.sparse.base import SparseTensor, refuse, sparse
from weft.tensor.sparse.making import checking


def mm(mat1: Tensor, mat2: Tensor, reduce: str | None = None) -> Any:
    """The product of two matrices, of which one or both may be sparse.

    >>> import weft
    >>> a = weft.sparse_coo_tensor([[0], [1]], [2.0], (1, 2))
    >>> weft.sparse.mm(a, weft.tensor([[1.0], [5.0]])).tolist()
    [[10.0]]
    """
    if reduce not in (None, "sum"):
        raise NotImplementedError(f"sparse.mm: reduce={reduce!r} is not supported; 'sum' is")
    return ops.mm(mat1, mat2)


def addmm(mat: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1.0, alpha: Any = 1.0) -> Any:
    """beta * mat + alpha * (mat1 @ mat2), where mat1 may be sparse."""
    return ops.addmm(mat, mat1, mat2, beta=beta, alpha=alpha)


def sampled_addmm(
    input: Any, mat1: Tensor, mat2: Tensor, *, beta: Any = 1.0, alpha: Any = 1.0, out: Any = None
) -> Any:
    """beta * input + alpha * (mat1 @ mat2), at the places of `input` only."""
    if not isinstance(input, SparseTensor) or input.form is sparse_coo:
        raise RuntimeError("sampled_addmm: Expected self to have sparse csr layout")
    if out is not None:
        raise NotImplementedError("sampled_addmm: out= is not supported for sparse tensors")
    return products.sampled(input, mat1, mat2, beta, alpha)


def sum(input: Any, dim: Any = None, dtype: Any = None) -> Any:
    """The sum of what is stored; over some dimensions a sparse tensor, over all sparse ones a dense one."""
    if not isinstance(input, SparseTensor):
        raise RuntimeError("coalesce expected sparse coordinate tensor layout but got Strided")
    return ops.sum(input, dim, dtype=None if dtype is None else as_dtype(dtype))


def _softmax(input: Any, dim: int, dtype: Any, logarithm: bool) -> Any:
    name = "_sparse_log_softmax" if logarithm else "_sparse_softmax"
    if not isinstance(input, SparseTensor):
        raise NotImplementedError(
            f"Could not run 'aten::{name}' with arguments from the 'CPU' backend: the tensor is not sparse."
        )
    if input.form is not sparse_coo:
        refuse(ops.log_softmax if logarithm else ops.softmax, input)
    return products.softmax(input, dim, None if dtype is None else as_dtype(dtype), logarithm)


def softmax(input: Any, dim: int, *, dtype: Any = None) -> Any:
    """Softmax over what is stored along a dimension."""
    return _softmax(input, dim, dtype, False)


def log_softmax(input: Any, dim: int, *, dtype: Any = None) -> Any:
    """The logarithm of `softmax`."""
    return _softmax(input, dim, dtype, True)


def spdiags(diagonals: Tensor, offsets: Tensor, shape: Any, layout: Any = None) -> Any:
    """A sparse matrix with these rows along its diagonals: element j of a row stands in column j."""
    rows = diagonals if diagonals.dim() == 2 else diagonals.unsqueeze(0)
    places: Any = offsets.reshape(-1).array
    xp = namespace(places)
    if len(shape) != 2:
        raise RuntimeError("Output shape must be 2d")
    if rows.shape[0] != places.size:
        raise RuntimeError(
            f"Number of diagonals ({rows.shape[0]}) does not match the number of offsets ({places.size})"
        )
    if xp.unique(places).size != places.size:
        raise RuntimeError("Offset tensor contains duplicate values")
    number, column = (each.reshape(-1) for each in xp.indices(tuple(rows.shape)))
    row = column - places[number]
    kept = xp.flatnonzero((row >= 0) & (row < shape[0]) & (column < shape[1]))
    elements = ops.index_select(rows.reshape(-1), 0, wrap(kept))
    made = sparse(sparse_coo, (wrap(xp.stack([row[kept], column[kept]])),), elements, shape)
    if layout is None or layout is sparse_coo:
        return made
    return methods.converted(made, layout)


class check_sparse_tensor_invariants:
    """Whether every index of new sparse tensors is checked: in a block, a decorated function, or from now.

    >>> import weft
    >>> with weft.sparse.check_sparse_tensor_invariants():
    ...     weft.sparse.check_sparse_tensor_invariants.is_enabled()
    True
    """

    def __init__(self, enable: bool = True) -> None:
        self.state = enable
        self.token: Token[bool] | None = None

    @staticmethod
    def is_enabled() -> bool:
        return checking.get()

    @staticmethod
    def enable() -> None:
        checking.set(True)

    @staticmethod
    def disable() -> None:
        checking.set(False)

    def __enter__(self) -> None:
        if self.token is not None:
            raise RuntimeError(
                "This context manager instance is already activated. Use a different context "
                "manager instance "
                "for context nesting."
            )
        self.token = checking.set(self.state)

    def __exit__(self, *_error: object) -> None:
        assert self.token is not None
        checking.reset(self.token)
        self.token = None

    def __call__(self, mth: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(mth)
        def checked(*args: Any, **kwargs: Any) -> Any:
            with type(self)(self.state):
                return mth(*args, **kwargs)

        return checked


def as_sparse_gradcheck(gradcheck: Callable[..., Any]) -> Callable[..., Any]:
    """A `gradcheck` for functions of sparse tensors: it varies what these store."""

    @wraps(gradcheck)
    def with_sparse(func: Callable[..., Any], inputs: Any, **options: Any) -> Any:
        options.pop("masked", None)
        given = inputs if isinstance(inputs, (tuple, list)) else (inputs,)

        def on_parts(*parts: Tensor) -> Any:
            args = [
                each.like(part) if isinstance(each, SparseTensor) else part
                for each, part in zip(given, parts)
            ]
            found = func(*args)
            return found.to_dense() if isinstance(found, SparseTensor) else found

        parts = [
            each.elements.detach().requires_grad_(each.requires_grad)
            if isinstance(each, SparseTensor)
            else each
            for each in given
        ]
        return gradcheck(on_parts, tuple(parts), **options)

    return with_sparse
