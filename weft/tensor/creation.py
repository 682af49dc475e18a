"""Tensors from Python data: `tensor`, `as_tensor`, `asarray`.

Takes numbers, nested sequences, arrays and tensors; gives a new tensor (or one on the same memory, where
asked). One idea: one walk over the nested sequences finds the shape and the set of leaf types; NumPy does
the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.core import dtypes
from weft.core.device import cpu, creation_device
from weft.core.devices import device_at, transfer
from weft.core.dtypes import BY_NUMPY, promote_types
from weft.core.interrupts import let_through
from weft.core.naming import named
from weft.core.types import TensorType
from weft.core.warn import warn
from weft.ops.create import cast
from weft.ops.options import dtype_argument
from weft.ops.record import quiet
from weft.tensor.base import Tensor, fresh, public
from weft.tensor.dispatch import require_gradient
from weft.tensor.interchange import adopt, alias_array, checked_array, from_dlpack, frombuffer
from weft.tensor.meta import meta_array
from weft.tensor.storage import UntypedStorage
from weft.tensor.views import attach_alias

if TYPE_CHECKING:
    from weft.core.device import Where
    from weft.core.dtypes import dtype


COPY_ADVICE = (
    "To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() or "
    "sourceTensor.detach().clone().requires_grad_(True), rather than {}(sourceTensor)."
)


class Data:
    """What a walk over nested sequences found."""

    __slots__ = ("shape", "leaves", "kinds")

    def __init__(self, value: object) -> None:
        self.leaves: list[Any] = []
        self.kinds: set[type] = set()
        self.shape = _shape_of(value)
        self._visit(value, 0)

    def _visit(self, value: Any, depth: int) -> None:
        if depth == len(self.shape):
            self.leaves.append(value)
            self.kinds.add(type(value))
            return
        if not self.shape[-1] and depth == len(self.shape) - 1:
            return
        if isinstance(value, np.ndarray) and value.shape == self.shape[depth:]:
            flat = value.reshape(-1)
            self.leaves.extend(flat)
            self.kinds.update({type(flat[0])} if flat.size else ())
            return
        if not _is_sequence(value):
            raise TypeError("not a sequence")
        count = len(value)
        if count != self.shape[depth]:
            raise ValueError(f"expected sequence of length {self.shape[depth]} at dim {depth} (got {count})")
        if depth == len(self.shape) - 1:
            self.leaves.extend(value)
            self.kinds.update(map(type, value))
            return
        for item in value:
            self._visit(item, depth + 1)


def _is_sequence(value: object) -> bool:
    if isinstance(value, (list, tuple, range, np.ndarray)):
        return getattr(value, "ndim", 1) > 0
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def _shape_of(value: Any) -> tuple[int, ...]:
    """The lengths along the first items, as PyTorch finds them."""
    shape: list[int] = []
    while True:
        if isinstance(value, str):
            if shape:
                raise ValueError("too many dimensions 'str'")
            raise TypeError("new(): invalid data type 'str'")
        if not _is_sequence(value):
            return tuple(shape)
        shape.append(len(value))
        if not shape[-1]:
            return tuple(shape)
        if isinstance(value, np.ndarray):
            return (*shape, *value.shape[1:])
        value = value[0]


def _leaf_dtype(value: object) -> dtypes.dtype:
    """The dtype that one leaf asks for."""
    kind = getattr(value, "dtype", None)
    if isinstance(kind, dtypes.dtype):
        return kind
    if isinstance(value, (np.generic, np.ndarray)):
        return BY_NUMPY[checked_array(np.asarray(value)).dtype]
    if isinstance(value, bool):
        return dtypes.bool_
    if isinstance(value, int):
        return dtypes.int64
    if isinstance(value, float):
        return dtypes.get_default_dtype()
    if isinstance(value, complex):
        return dtypes.get_default_dtype().to_complex()
    if isinstance(value, str):
        raise TypeError("new(): invalid data type 'str'")
    if _is_sequence(value):
        raise TypeError(f"'{type(value).__name__}' object cannot be interpreted as an integer")
    if hasattr(value, "__float__"):
        return dtypes.get_default_dtype()
    raise RuntimeError(f"Could not infer dtype of {type(value).__name__}")


def _infer(data: Data) -> dtypes.dtype:
    if not data.leaves:
        return dtypes.get_default_dtype()
    if all(kind in (float, int, bool, complex) for kind in data.kinds):
        samples: list[Any] = [kind() for kind in data.kinds]
    else:
        samples = data.leaves
    result: dtypes.dtype | None = None
    for sample in samples:
        kind = _leaf_dtype(sample)
        result = kind if result is None else promote_types(result, kind)
    assert result is not None
    return result


def _as_number(leaf: object, whole: bool) -> Any:
    if isinstance(leaf, Tensor):
        if leaf.array.size != 1:
            if whole:
                raise TypeError("only integer tensors of a single element can be converted to an index")
            raise ValueError("only one element tensors can be converted to Python scalars")
        return leaf.array.item()
    if isinstance(leaf, np.ndarray):
        if leaf.ndim:
            raise TypeError("only 0-dimensional arrays can be converted to Python scalars")
        return leaf.item()
    return leaf.item() if isinstance(leaf, np.generic) else leaf


def _fill(data: Data, kind: dtypes.dtype) -> Any:
    """The leaves as an array of this dtype, with PyTorch's errors for what does not fit."""
    leaves = data.leaves
    if not all(python in (float, int, bool, complex) for python in data.kinds):
        leaves = [_as_number(leaf, kind.category <= dtypes.INTEGER) for leaf in leaves]
    if kind.category == dtypes.BOOL:
        wrong = next((leaf for leaf in leaves if not isinstance(leaf, (int, float, complex))), None)
        if type(None) in data.kinds or wrong is not None:
            raise TypeError(f"'{type(wrong).__name__}' object cannot be interpreted as an integer")
        return np.array([bool(leaf) for leaf in leaves], np.bool_).reshape(data.shape)
    if kind.category == dtypes.INTEGER:
        return _fill_integers(leaves, kind, data.kinds).reshape(data.shape)
    try:
        if type(None) in data.kinds:  # which NumPy takes for NaN
            raise TypeError
        wide = np.array(leaves, np.complex128 if kind.is_complex else np.float64)
    except (TypeError, ValueError) as error:
        let_through(error)
        wrong = next(
            type(v).__name__ for v in leaves if isinstance(v, complex) or not hasattr(v, "__float__")
        )
        raise TypeError(f"must be real number, not {wrong}") from None
    except OverflowError as error:
        let_through(error)
        raise RuntimeError("int too large to convert to float") from None
    return quiet(cast, wide, kind).reshape(data.shape)


def _fill_unsigned(leaves: list[Any]) -> Any:
    """64 bits without a sign, of which Python's own conversion asks for whole numbers."""
    for leaf in leaves:
        if not hasattr(leaf, "__index__"):
            raise TypeError("an integer is required")
    values = [index(leaf) for leaf in leaves]
    if values and min(values) < 0:
        raise OverflowError("can't convert negative int to unsigned")
    if values and max(values) >= 2**64:
        raise OverflowError("int too big to convert")
    return np.array(values, np.uint64)


def _fill_integers(leaves: list[Any], kind: dtypes.dtype, kinds: set[type]) -> Any:
    if kind is dtypes.uint64:
        return _fill_unsigned(leaves)
    info = np.iinfo(kind.numpy)
    low = info.min if kind.is_signed else -int(info.max)
    if leaves and kinds <= {int, bool}:
        try:
            whole = np.array(leaves, np.int64)
        except OverflowError as error:
            let_through(error)
            raise ValueError("Overflow when unpacking long long") from None
        if kind is dtypes.int64:
            return whole
        if low <= whole.min() and whole.max() <= info.max:
            return quiet(whole.astype, kind.numpy)
    values: list[int] = []
    for leaf in leaves:
        if isinstance(leaf, complex):
            raise TypeError("'complex' object cannot be interpreted as an integer")
        if isinstance(leaf, float):
            if not low <= leaf <= info.max:  # also false for NaN
                raise RuntimeError(f"value cannot be converted to type {kind.name} without overflow")
        elif not hasattr(leaf, "__index__"):
            raise TypeError(f"'{type(leaf).__name__}' object cannot be interpreted as an integer")
        value = int(leaf)
        if not -(2**63) <= value < 2**63:
            raise ValueError("Overflow when unpacking long long")
        if not low <= value <= info.max:
            raise RuntimeError(f"value cannot be converted to type {kind.name} without overflow")
        values.append(value)
    return quiet(np.array(values, np.int64).astype, kind.numpy)


def build(data: Any, dtype: Any, where: Any, name: str = "tensor") -> Tensor:
    """A new tensor with these elements."""
    kind = None if dtype is None else dtype_argument(dtype, name)
    if isinstance(data, Tensor):
        array: Any = data.array
        place = creation_device(data.device if where is None else where)
        if data.is_meta or place.type == "meta":
            return fresh(meta_array(TensorType(array.shape, kind or data.dtype)))
        return fresh(transfer(quiet(array.astype, (kind or data.dtype).numpy, copy=True), device_at(place)))
    if isinstance(data, (np.ndarray, np.generic)):
        array = checked_array(np.asarray(data))
        array = np.array(array, array.dtype if kind is None else kind.numpy, copy=True, order="C")
    else:
        walked = Data(data)
        array = _fill(walked, kind or _infer(walked))
    place = creation_device(where)
    if place.type == "meta":
        return fresh(meta_array(TensorType(array.shape, BY_NUMPY[array.dtype])))
    return fresh(array if place is cpu else transfer(array, device_at(place)))


def advise_copy(name: str) -> None:
    """Warns of a tensor that is copied by a function of this name."""
    warn(named(COPY_ADVICE.format(name)))


@public
def tensor(
    data: Any,
    *,
    dtype: dtype | type | None = None,
    device: Where = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """A tensor with a copy of `data`: numbers, nested sequences, an array or a tensor."""
    if isinstance(data, Tensor):
        advise_copy("weft.tensor")
    made = build(data, dtype, device)
    return require_gradient(made) if requires_grad else made


@public
def as_tensor(data: object, dtype: dtype | type | None = None, device: Where = None) -> Tensor:
    """`data` as a tensor, without a copy where it is a tensor or an array of the right dtype already."""
    if isinstance(data, Tensor):
        return data.to(device=device, dtype=dtype)
    if isinstance(data, np.ndarray):
        made = alias_array(data)
        if (dtype is None or made.dtype is dtype_argument(dtype, "as_tensor")) and creation_device(
            device
        ).type == "cpu":
            return made
    return build(data, dtype, device, "as_tensor")


@public
def asarray(
    obj: object,
    *,
    dtype: dtype | type | None = None,
    device: Where = None,
    copy: bool | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """`obj` as a tensor: a copy where `copy` is True, shared memory where that can be otherwise."""
    kind = None if dtype is None else dtype_argument(dtype, "asarray")
    made = _alias(obj, kind)
    if made is None:
        if copy is False:
            raise ValueError("can't alias arbitrary sequence into a tensor.")
        made = build(obj, kind, device, "asarray")
    else:
        where = made.device if device is None else creation_device(device)
        wanted = made.dtype if kind is None else kind
        if copy is False and wanted is not made.dtype:
            raise ValueError(
                f"can't alias tensor with dtype '{made.dtype.scalar_name}' into dtype '{wanted.scalar_name}'."
            )
        if copy is False and where != made.device:
            raise ValueError(f"can't alias tensor from device '{made.device}' to '{where}'.")
        made = made.to(where, wanted, copy=bool(copy))
        made = attach_alias(made) if made.tracked and not requires_grad else made
    return require_gradient(made) if requires_grad and not made.tracked else made


def _alias(obj: object, kind: object) -> Tensor | None:
    """A tensor on the object's memory, if it has memory that a tensor can lie on."""
    if isinstance(obj, Tensor):
        return obj
    if isinstance(obj, np.ndarray):
        return alias_array(obj)
    if isinstance(obj, np.generic):
        return fresh(np.array(obj))
    if isinstance(obj, UntypedStorage):
        return fresh(adopt(obj.bytes))
    if hasattr(obj, "__dlpack__"):
        return from_dlpack(obj)
    if isinstance(obj, (bytes, bytearray, memoryview)) or (
        hasattr(obj, "__buffer__") and not isinstance(obj, (list, tuple))
    ):
        return frombuffer(obj, dtype=dtypes.get_default_dtype() if kind is None else kind)
    return None
