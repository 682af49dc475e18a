"""Indexing: `x[key]`, `x[key] = value`, and what reshapes a tensor in place or by attribute.

Takes any key that PyTorch takes. Ints, slices, None and Ellipsis are one view step, whatever their number;
index tensors, lists, arrays and masks are applied to that view as one gather or scatter. One idea: the
straight-line code at the top of `__getitem__` and `__setitem__` tries NumPy at once, and whatever NumPy
refuses goes the slow way, which knows PyTorch's errors.

# Note [Indexing]
    x[1, :, mask, None, idx]  basic part: x[1, :, :, None, :]  (an int counts as basic here, unlike in NumPy)
                               index tensors: nonzero(mask) and idx, at dimensions 1 and 3 of that view
Zero-dim integer tensors are ints. A bool (or zero-dim mask) adds a dimension of size one, indexed by [0] or
by nothing.
"""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.core.arrays import namespace
from weft.core.devices import DEVICES, device_of, transfer
from weft.core.dtypes import BY_NUMPY, HALVES, bool_, int64, uint8
from weft.core.interrupts import let_through
from weft.core.modes import current, grad_enabled
from weft.core.naming import named
from weft.core.symbolic import size_of
from weft.core.warn import warn
from weft.ops.indexing import INTEGERS, check_mask, index, index_key
from weft.ops.indexing import where as where_op
from weft.ops.options import fits
from weft.ops.record import Op, ops, quiet, same_shape
from weft.ops.scatter import _index_put
from weft.ops.slicing import (
    _basic,
    basic_alias,
    basic_select,
    basic_slice,
    basic_unsqueeze,
    select,
)
from weft.ops.slicing import (
    imag as imag_op,
)
from weft.ops.slicing import (
    real as real_op,
)
from weft.ops.slicing import (
    split as split_op,
)
from weft.ops.view import FULL, adjoint, expand, permute, transpose
from weft.tensor.backward import compile_backward
from weft.tensor.base import PLAIN, Tensor, method, public, wrap
from weft.tensor.creation import build
from weft.tensor.dispatch import finish_call, typed
from weft.tensor.inplace import (
    alias_of,
    check_history,
    check_writable,
    dispatch_inplace,
    put_overlapping,
)
from weft.tensor.meta import MetaArray
from weft.tensor.overrides import has_override, intercept_call
from weft.tensor.plan import plan_of
from weft.tensor.tape import INFERENCE, next_sequence
from weft.tensor.views import (
    DEFAULT,
    NO_GRAD,
    View,
    attach_view,
    check_overlap,
    cut_off,
    overlaps_itself,
    refresh,
    refuse_overlap,
    repeats,
)
from weft.tensor.wrapper import Wrapper

if TYPE_CHECKING:
    from weft.core.arrays import Array


ndarray = np.ndarray
new = object.__new__
SEQUENCE_WARNING = (
    "Using a non-tuple sequence for multidimensional indexing is deprecated and will be changed in pytorch "
    "2.9; use x[tuple(seq)] "
    "instead of x[seq]. In pytorch 2.9 this will be interpreted as tensor index, x[torch.tensor(seq)], which "
    "will result either in an "
    "error or a different result"
)


# -- reading -------------------------------------------------------------------------------------------------
def _node_class(op: Op) -> Any:
    plan = plan_of(op)
    if not hasattr(plan.node_class, "compiled"):
        compile_backward(op, plan)
    return plan.node_class


SELECT_NODE = _node_class(select)
NODES = {op: _node_class(op) for op in (basic_select, basic_slice, basic_unsqueeze, basic_alias)}


@method
def __getitem__(self: Tensor, key: Any) -> Tensor:
    mode = current()
    if mode is True or mode is False:
        kind = type(key)
        array = self.array
        try:
            if kind is int:
                return _viewed(self, array[key, ...], select, (0, key), SELECT_NODE, mode)
            if kind is slice:
                if _plain_slice(key):
                    return _viewed(self, array[key], basic_slice, ((key,),), NODES[basic_slice], mode)
            elif kind is tuple:
                op = _basic_op(key)
                if op is not None:
                    if op is basic_unsqueeze or None in key:
                        out = _basic(array, key)
                    else:
                        out = array[key] if ... in key else array[(*key, ...)]
                    return _viewed(self, out, op, (key,), NODES[op], mode)
            elif key is None:
                return _viewed(
                    self, _basic(array, (None,)), basic_unsqueeze, ((None,),), NODES[basic_unsqueeze], mode
                )
            elif kind is Tensor and key.array.ndim and _is_index(key.array):
                return _picked(self, key, mode)
        except (IndexError, TypeError) as error:
            let_through(error)
    return _general(self, key)


def _plain_slice(key: slice) -> bool:
    start, stop, step = key.start, key.stop, key.step
    return (
        (start is None or type(start) is int)
        and (stop is None or type(stop) is int)
        and (step is None or (type(step) is int and step > 0))
    )


def _basic_op(key: tuple[Any, ...]) -> Op | None:
    """Which view op a tuple of plain ints, slices, None and Ellipsis becomes; None if it holds anything
    else.
    """
    op = basic_alias
    for item in key:
        kind = type(item)
        if kind is int:
            op = basic_select
        elif kind is slice:
            if item.start is not None or item.stop is not None or item.step is not None:
                if not _plain_slice(item):
                    return None
                op = basic_slice
        elif item is None:
            op = basic_unsqueeze
        elif item is not ...:
            return None
    return op


def _viewed(
    parent: Tensor, array: Array, op: Op, params: tuple[Any, ...], node_class: Any, mode: bool
) -> Tensor:
    """The view on this array, recorded: what the dispatcher does for a plain tensor, in a straight line."""
    tensor = new(Tensor)
    tensor.array = array
    tensor._grad = tensor.hooks = None
    tensor.index = 0
    cell = parent.cell
    if cell is None:
        cell = parent.cell = [0]
    tensor.cell = cell
    above = parent.origin
    count = cell[0] if type(cell) is list else 0
    if type(cell) is not list:  # an inference tensor: nothing follows it
        tensor.origin = None
    elif above is None:
        tensor.origin = View(parent, ((op, params, None),), DEFAULT if mode else NO_GRAD, count)
    else:
        if mode and above.seen != count:
            refresh(parent)
        creation = above.creation or (DEFAULT if mode else NO_GRAD)
        tensor.origin = View(above.base, (*above.steps, (op, params, None)), creation, count)
    if mode and parent.tracked:
        node = new(node_class)
        node._seq = next_sequence()
        node.next = (parent.node or parent,)
        node.slots = (parent.index,) if parent.index else None
        node.hooks = None
        node.params = params
        node.types = (parent.array.shape, parent.array.dtype)
        node.saved = ()
        node.versions = None
        tensor.node = node
        tensor.tracked = True
    else:
        tensor.node = None
        tensor.tracked = False
        if not mode and tensor.origin is not None and tensor.origin.base.tracked:
            cut_off(tensor)
    return tensor


def _picked(self: Tensor, key: Tensor, mode: bool) -> Tensor:
    """What one index tensor or mask alone picks out of a plain tensor."""
    places = key.array
    array = self.array[places]
    if not mode or not (self.tracked or self.origin is not None):
        return wrap(array)
    indices = [key] if places.dtype.kind == "i" else [wrap(part) for part in places.nonzero()]
    if self.origin is not None:
        refresh(self)
    bound = (self, indices, tuple(range(len(indices))))
    found: Tensor = finish_call(index, bound, [self, *indices], array, mode, True)
    return found


def _general(self: Tensor, key: object) -> Tensor:
    if type(self) in PLAIN and has_override_inside(key):
        handled, result = intercept_call(Tensor.__getitem__, (self, key), {})
        if handled:
            answer: Tensor = result
            return answer
    view, items = split_key(self, key)
    if not items:
        return view if view is not self else basic_alias(self, ())
    indices, dims = integer_indices(view, items)
    found: Tensor = index(view, indices, dims)
    return found


def split_key(self: Tensor, key: object) -> tuple[Tensor, list[Any]]:
    """The view that the basic part of a key names (the tensor itself if it names everything), and the index
    tensors along its dimensions, None where there is none. See Note [Indexing]."""
    items = _as_items(key)
    if type(self.array) is not ndarray and type(self.array) in DEVICES:
        items = [_beside(self, item) for item in items]
    rank = self.array.ndim
    wanted = sum(_width(item) for item in items)
    if wanted > rank:
        raise IndexError(_too_many(self, items, rank))
    basic: list[Any] = []
    tensors: list[Any] = []
    spare = rank - wanted
    for item in items:
        if item is ...:
            basic += [FULL] * spare
            tensors += [None] * spare
            spare = 0
        elif item is None:
            basic.append(None)
            tensors.append(None)
        elif isinstance(item, slice):
            basic.append(item)
            tensors.append(None)
        elif isinstance(item, Tensor):
            if item.array.ndim or item.array.dtype.kind == "i":  # zero-dim and no number: a Wrapper
                basic += [FULL] * _width(item)
            else:  # a zero-dim mask
                basic.append(None)
                item = wrap(namespace(self.array).zeros(1 if item.array else 0, np.int64))
            tensors.append(item)
        else:
            basic.append(item)
    while tensors and tensors[-1] is None:
        tensors.pop()
    if all(type(item) is slice and item == FULL for item in basic):
        if len(items) == 1 and items[0] is not ... and not tensors:
            return basic_slice(self, (FULL,)), []
        return self, tensors
    last = next(item for item in reversed(basic) if not (isinstance(item, slice) and item == FULL))
    op = basic_unsqueeze if last is None else basic_slice if isinstance(last, slice) else basic_select
    return op(self, tuple(basic)), tensors


def _beside(self: Tensor, item: object) -> Any:
    """An index tensor on the tensor's device: lists and arrays of NumPy's may index any."""
    if not isinstance(item, Tensor) or type(item.array) is not ndarray:
        return item
    return wrap(transfer(item.array, device_of(self.array)))


def _too_many(self: Tensor, items: list[Any], rank: int) -> str:
    if not rank and len(items) == 1:
        if isinstance(items[0], int):
            return (
                "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` in C++ "
                "to convert a 0-dim "
                "tensor to a number"
            )
        if isinstance(items[0], slice):
            return "slice() cannot be applied to a 0-dim tensor."
    return f"too many indices for tensor of dimension {rank}"


def _width(item: object) -> int:
    """How many dimensions an item of a key uses up."""
    if item is None or item is ...:
        return 0
    if isinstance(item, Tensor):
        return item.array.ndim if BY_NUMPY[item.array.dtype] in (bool_, uint8) else 1
    return 1


def _as_items(key: Any) -> list[Any]:
    """A key as a list of ints, normalised slices, None, Ellipsis and tensors."""
    if isinstance(key, tuple):
        return [_as_item(item) for item in key]
    if _means_tuple(key):
        warn(SEQUENCE_WARNING)
        return [_as_item(item) for item in key]
    return [_as_item(key)]


def _means_tuple(key: object) -> bool:
    """PyTorch's heuristic: a short list that holds slices, None, tensors or lists stands for a tuple."""
    if not isinstance(key, Sequence) or isinstance(key, (range, str)) or len(key) >= 32:
        return False
    return any(item is None or item is ... or isinstance(item, (Tensor, Sequence, slice)) for item in key)


def _as_item(item: Any) -> Any:
    if item is None or item is ... or type(item) is int:
        return item
    if isinstance(item, slice):
        return _as_slice(item)
    if isinstance(item, (bool, np.bool_)):
        return wrap(np.asarray(bool(item)))
    if isinstance(item, ndarray):
        item = wrap(np.ascontiguousarray(item) if item.ndim else item)
    elif isinstance(item, Sequence) and not isinstance(item, str):
        item = build(item, int64 if not len(item) else None, None)
    if isinstance(item, str):
        raise TypeError("new(): invalid data type 'str'")
    if isinstance(item, Tensor):
        kind = BY_NUMPY[item.array.dtype]
        if (
            not item.array.ndim
            and kind in INTEGERS
            or (not item.array.ndim and kind.category == 1 and kind is not uint8)
        ):
            return int(item.array) if type(item.array) is not MetaArray else item
        if kind not in INTEGERS and kind is not bool_ and kind is not uint8:
            raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
        return item
    try:
        return size_of(item)
    except TypeError as error:
        let_through(error)
        raise IndexError(
            "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid "
            "indices "
            f"(got {type(item).__name__})"
        ) from None


def _as_slice(key: slice) -> slice:
    def plain(bound: Any) -> int | None:
        if bound is None or type(bound) is int:
            return bound
        try:
            found: int | None = size_of(bound)
            return found
        except TypeError as error:
            let_through(error)
            raise TypeError("slice indices must be integers or None or have an __index__ method") from None

    step = plain(key.step)
    if step is not None and step <= 0:
        raise ValueError("step must be greater than zero")
    return slice(plain(key.start), plain(key.stop), step)


def integer_indices(view: Tensor, items: list[Any]) -> tuple[list[Tensor], tuple[int, ...]]:
    """Index tensors without masks, and their dimensions."""
    indices: list[Tensor] = []
    dims: list[int] = []
    place = 0
    shape = view.array.shape
    for item in items:
        if item is None:
            place += 1
            continue
        array = item.array
        if BY_NUMPY[array.dtype] in (bool_, uint8):
            if BY_NUMPY[array.dtype] is uint8:
                warn(
                    named(
                        "indexing with dtype weft.uint8 is now deprecated, please use a "
                        "dtype weft.bool instead."
                    )
                )
            check_mask(array.shape, shape, place)
            if isinstance(item, Wrapper):
                item.refuse_mask()
            indices += [wrap(part) for part in array.nonzero()]
            dims += range(place, place + array.ndim)
            place += array.ndim
        else:
            indices.append(item)
            dims.append(place)
            place += 1
    return indices, tuple(dims)


# -- writing -------------------------------------------------------------------------------------------------
@method
def __setitem__(self: Tensor, key: object, value: Any) -> None:
    if _is_plain(self):
        kind = type(value)
        tensor = (
            kind is Tensor
            and value.array.dtype is self.array.dtype
            and (value.cell is None or value.cell is not self.cell)
            and _is_plain(value)
        )
        if tensor or kind is float or kind is int:
            places = _plain_key(key)
            if places is not None:
                try:
                    _store(self.array, places, value.array if tensor else value)
                except (IndexError, ValueError, TypeError, OverflowError) as error:
                    let_through(error)
                else:
                    self.bump()
                    return
    _set_general(self, key, value)


def _plain_key(key: Any) -> Any:
    """The key as NumPy takes it, where NumPy and PyTorch mean the same by it; else None."""
    kind = type(key)
    if kind is int:
        return key
    if kind is slice:
        return key if _plain_slice(key) else None
    if kind is tuple:
        return key if _basic_op(key) is not None else None
    if kind is Tensor and key.array.ndim and type(key.array) in DEVICES and _is_index(key.array):
        return key.array
    return None


def _is_index(array: Array) -> bool:
    """int32, int64 or bool: what indexes alike in NumPy and PyTorch."""
    kind = array.dtype.kind
    return bool(kind == "b" or (kind == "i" and array.dtype.itemsize >= 4))


def _store(array: Array, key: object, value: object) -> None:
    kind = array.dtype.kind
    if type(value) is float:
        if kind != "f" or array.dtype.itemsize < 4 or not -3.4e38 < value < 3.4e38:
            raise ValueError("goes the slow way")
    elif type(value) is int and kind not in "fi":
        raise ValueError("goes the slow way")
    quiet(array.__setitem__, key, value)


def _is_plain(tensor: Tensor) -> bool:
    """Whether a write needs nothing but the write."""
    mode = current()
    if mode is True:
        if tensor.tracked or tensor.origin is not None:
            return False
    elif mode is not False:
        return False
    array = tensor.array  # one whose elements share memory is refused elsewhere
    if type(array) not in DEVICES or 0 in array.strides:
        return False
    return tensor.cell is not INFERENCE and type(tensor) in PLAIN


def has_override_inside(*values: object) -> bool:
    """Whether a key (or value) holds a tensor whose class takes calls over."""
    for value in values:
        for item in value if type(value) is tuple else (value,):
            if isinstance(item, Tensor) and type(item) not in PLAIN and has_override(item):
                return True
    return False


def _set_general(self: Tensor, key: object, value: Any) -> None:
    if type(self) in PLAIN and has_override_inside(key, value):
        handled, _ = intercept_call(Tensor.__setitem__, (self, key, value), {})
        if handled:
            return
    if not isinstance(value, (Tensor, numbers.Number, np.generic)):
        label = "numpy.ndarray" if isinstance(value, ndarray) else type(value).__name__
        raise TypeError(f"can't assign a {label} to a weft.{self.dtype.scalar_name}Tensor")
    number = not isinstance(value, Tensor)
    infinite = self.dtype in HALVES and not isinstance(value, complex)  # what is too large for those
    if number and not infinite:
        fits(value, self.dtype)
    view, items = self, list[Any]()
    if key is False:
        return
    if key is True:
        view = basic_unsqueeze(self, (None,))
    elif key is not ...:
        view, items = split_key(self, key)
        if type(key) is slice and key == FULL:
            view = self
    if number:
        if not items and not infinite:
            if repeats(view.array):
                refuse_overlap(view.array)  # `fill_` does not
            scalar: Any = value
            view.fill_(scalar)
            return
        cast = quiet(np.asarray(value).astype, self.array.dtype)
        value = wrap(transfer(cast, device_of(self.array)))
    shape = value.array.shape
    ones = next((i for i, n in enumerate(shape) if n != 1), len(shape))
    if not items:
        if ones and len(shape) > view.array.ndim:
            value = value[(0,) * min(ones, len(shape) - view.array.ndim)]
        if not same_shape(value.array.shape, view.array.shape):
            value = expand(value, view.array.shape)
        view.copy_(value)
        return
    _put(view, items, value, ones)


def _put(view: Tensor, items: list[Any], value: Tensor, ones: int) -> None:
    """Writes at index tensors; a lone mask with a single value takes values of any dtype, as in PyTorch."""
    places = [item for item in items if item is not None]
    if (
        len(places) == 1
        and places[0].array.dtype.kind == "b"
        and value.array.size == 1
        and (value.array.dtype is not view.array.dtype or value.cell is view.cell is not None)
    ):
        value = ops._to_copy(ops.reshape(value, ()), view.dtype)  # read before anything is written
        ones = 0
    indices, dims = integer_indices(view, items)
    if ones:
        value = value[(0,) * ones]
    bound = (view, value, indices, dims, False)
    if overlaps_itself(view.array):
        put_overlapping(view, items, bound)
        return
    if not _is_plain(view) or not _is_plain(value) or grad_enabled() and view.origin is not None:
        dispatch_inplace(_index_put, bound, Tensor._index_put_)
        return
    check_writable(view, False, False)
    _index_put.on_types(tuple(typed(item) for item in bound))
    rank = view.array.ndim
    check_overlap(view.array, (value.array,), apart=True)
    try:
        view.array[index_key(rank, [item.array for item in indices], dims)] = value.array
    except IndexError as error:
        let_through(error)
        dispatch_inplace(_index_put, bound, Tensor._index_put_)
        return
    view.bump()


@method
def __delitem__(self: Tensor, key: object) -> None:
    raise TypeError("Tensor does not support deleting items")


# -- methods whose order of arguments is not the function's --------------------------------------------------
@method
def where(self: Tensor, condition: Tensor, other: Tensor | complex) -> Tensor:
    """The tensor where the condition holds, `other` elsewhere."""
    found: Tensor = where_op(condition, self, other)
    return found


@method
def split(self: Tensor, split_size: int | Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """The tensor cut along a dimension, into pieces of one size (the last may be less) or of given ones."""
    found: tuple[Tensor, ...] = split_op(self, split_size, dim)
    return found


# -- transposes and parts as attributes ----------------------------------------------------------------------
def _warn_of_zero_dim(name: str) -> None:
    advice = "Consider using x.conj()." if "H" in name else "This function is the identity in these cases."
    warn(f"Tensor.{name} is deprecated on 0-D tensors. {advice}")


def _check_matrices(self: Tensor, name: str) -> None:
    rank = self.array.ndim
    if rank == 1:
        raise RuntimeError(
            f"tensor.{name} is only supported on matrices or batches of matrices. Got {rank}-D tensor."
        )
    if not rank:
        _warn_of_zero_dim(name)


def _matrix_transpose(self: Tensor) -> Tensor:
    """The last two dimensions swapped."""
    _check_matrices(self, "mT")
    found: Tensor = transpose(self, -2, -1) if self.array.ndim else self
    return found


def _all_transpose(self: Tensor) -> Tensor:
    """Dimensions in reverse order."""
    rank = self.array.ndim
    if rank != 2:
        warn(
            "The use of `x.T` on tensors of dimension other than 2 to reverse their shape is deprecated and "
            "it will throw an error "
            "in a future release. Consider `x.mT` to transpose batches of matrices or "
            "`x.permute(*torch.arange(x.ndim - 1, -1, -1))` "
            "to reverse the dimensions of a tensor."
        )
    found: Tensor = permute(self, tuple(range(rank - 1, -1, -1)))
    return found


def _hermitian(self: Tensor) -> Tensor:
    """The conjugate transpose of a matrix."""
    rank = self.array.ndim
    if rank not in (0, 2):
        raise RuntimeError(
            f"tensor.H is only supported on matrices (2-D tensors). Got {rank}-D tensor."
            + (" For batches of matrices, consider using tensor.mH" if rank > 2 else "")
        )
    if not rank:
        _warn_of_zero_dim("H")
    found: Tensor = adjoint(self) if rank else ops.conj(self)
    return found


def _batched_hermitian(self: Tensor) -> Tensor:
    """The conjugate transpose of each matrix."""
    _check_matrices(self, "mH")
    found: Tensor = adjoint(self) if self.array.ndim else ops.conj(self)
    return found


def _set_real(self: Tensor, value: object) -> None:
    real_op(self).copy_(value)


def _set_imag(self: Tensor, value: object) -> None:
    imag_op(self).copy_(value)


for _name, _property in {
    "T": property(_all_transpose),
    "mT": property(_matrix_transpose),
    "H": property(_hermitian),
    "mH": property(_batched_hermitian),
    "real": property(lambda self: real_op(self), _set_real),
    "imag": property(lambda self: imag_op(self), _set_imag),
}.items():
    setattr(Tensor, _name, _property)


# -- in-place forms that change strides, not elements --------------------------------------------------------
def _restrided(target: Tensor, op: Op, *args: object) -> Tensor:
    """Makes the tensor its own view: same memory and identity, other sizes and strides."""
    if isinstance(target, Wrapper):
        return target.become(op, args)
    check_history(target, grad_enabled(), False)
    before = alias_of(target)
    before.origin = target.origin
    after = op(before, *args)
    target.array = after.array
    if after.tracked and target.tracked:
        target.node, target.index = after.node, after.index
    if target.origin is not None:
        step = attach_view(before, after.array, after.origin.steps[-1], after.origin.creation)
        target.origin = step.origin
    target.bump()
    if target.origin is not None:
        target.origin.seen = target.cell[0] if type(target.cell) is list else 0
    return target


@method
def t_(self: Tensor) -> Tensor:
    """`t`, of the tensor itself."""
    return _restrided(self, ops.t)


@method
def transpose_(self: Tensor, dim0: int, dim1: int) -> Tensor:
    """`transpose`, of the tensor itself."""
    return _restrided(self, ops.transpose, dim0, dim1)


@method
def swapaxes_(self: Tensor, axis0: int, axis1: int) -> Tensor:
    """`swapaxes`, of the tensor itself."""
    return _restrided(self, ops.transpose, axis0, axis1)


@method
def swapdims_(self: Tensor, dim0: int, dim1: int) -> Tensor:
    """`swapdims`, of the tensor itself."""
    return _restrided(self, ops.transpose, dim0, dim1)


@method
def squeeze_(self: Tensor, dim: int | Sequence[int] | None = None) -> Tensor:
    """`squeeze`, of the tensor itself."""
    return _restrided(self, ops.squeeze, dim)


@method
def unsqueeze_(self: Tensor, dim: int) -> Tensor:
    """`unsqueeze`, of the tensor itself."""
    return _restrided(self, ops.unsqueeze, dim)


@public
@method
def as_strided_(
    input: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Tensor:
    """`as_strided`, of the tensor itself."""
    return _restrided(input, ops.as_strided, size, stride, storage_offset)


@method
def fill_diagonal_(self: Tensor, fill_value: complex, wrap: bool = False) -> Tensor:
    """Sets the elements whose indices are all equal; with `wrap`, a tall matrix starts anew below each
    block."""
    shape, rank = self.array.shape, self.array.ndim
    if rank < 2:
        raise RuntimeError("dimensions must larger than 1")
    if rank > 2 and len(set(shape)) > 1:
        raise RuntimeError("all dimensions of input must be of equal length")
    if rank == 2 and not (wrap and shape[0] > shape[1]) and overlaps_itself(self.array):
        ops.diagonal(self).fill_(fill_value)  # the other elements may share memory
        return self
    rows = np.arange(min(shape))
    places = (rows,) * rank
    if wrap and rank == 2 and shape[0] > shape[1]:
        rows = np.arange(shape[0])
        columns = rows % (shape[1] + 1)
        places = (rows[columns < shape[1]], columns[columns < shape[1]])
    self[places] = fill_value
    return self
