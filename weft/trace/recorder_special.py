"""Calls whose effect on types is known, though the code that eager runs would look at elements.

Takes a function and its arguments, all fakes; gives what the call gives. One idea: each of these asks eager's
own code a question with the same answer that needs no elements.

# Note [Masks]
`x[mask] = value` writes into x, whatever the mask holds, so it is run as `x[indices] = number` with index
tensors of one element in place of the mask. How many elements the mask selects, and so whether a value of
several elements fits, shows when the graph runs.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from weft.core.dtypes import bool_, int64, uint8
from weft.core.types import TensorType, contiguous_format
from weft.ops.indexing import check_mask
from weft.ops.options import dtype_argument
from weft.ops.record import REGISTRY, ops
from weft.tensor.base import PUBLIC, Tensor
from weft.tensor.creation import advise_copy
from weft.tensor.indexing import split_key
from weft.tensor.meta import MetaArray
from weft.trace.fake import fake_from_type
from weft.trace.scalars import hint_of

Special = Callable[..., Any]


def is_mask(value: Any) -> bool:
    return isinstance(value, Tensor) and value.dtype in (bool_, uint8) and bool(value.array.ndim)


def _places(mask: Tensor) -> list[Tensor]:
    return [fake_from_type(TensorType((1,), int64, mask.device)) for _ in mask.array.shape]


def _number(value: Any) -> Any:
    """A tensor of no dimensions that is tracked as the value is."""
    return ops.sum(value, None, False, dtype=value.dtype) if isinstance(value, Tensor) else value


def set_item(target: Any, key: Any, value: Any) -> None:
    """`target[key] = value`; see Note [Masks]."""
    items = key if isinstance(key, tuple) else (key,)
    if not isinstance(target, Tensor) or not any(is_mask(item) for item in items):
        operator.setitem(target, key, value)
        return
    view, found = split_key(target, key)
    place = 0
    for item in found:
        if is_mask(item):
            check_mask(item.array.shape, view.array.shape, place)
        place += item.array.ndim if is_mask(item) else 1
    plain = [part for item in items for part in (_places(item) if is_mask(item) else [item])]
    Tensor.__setitem__(target, tuple(plain), _number(value))


def _index_put(face: Callable[..., Any]) -> Special:
    def put(target: Tensor, indices: Any, values: Any, accumulate: bool = False) -> Any:
        if not any(is_mask(item) for item in indices):
            return face(target, indices, values, accumulate)
        plain = [part for item in indices for part in (_places(item) if is_mask(item) else [item])]
        return face(target, plain, _number(values), accumulate)

    return put


def contiguous(input: Tensor, memory_format: Any = contiguous_format) -> Any:
    """Where strides are not known, whether the result is the tensor itself is not known either."""
    array = input.array
    if type(array) is MetaArray and not array.exact:
        return ops.clone(input, memory_format=memory_format)
    return ops.contiguous.face(input, memory_format=memory_format)


def tensor(data: Any, **options: Any) -> Any:
    """`weft.tensor(data)` of a tensor, or of numbers that may vary."""
    if not isinstance(data, Tensor):
        return PUBLIC["tensor"](_hinted(data), **options)
    advise_copy("weft.tensor")
    return _copy_of(data, data, "tensor", **options)


def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Any:
    """`weft.as_tensor(data)` of numbers that may vary."""
    return PUBLIC["as_tensor"](_hinted(data), dtype, device)


def new_tensor(self: Tensor, data: Any, **options: Any) -> Any:
    """`self.new_tensor(data)` of a tensor, or of numbers that may vary."""
    if not isinstance(data, Tensor):
        return Tensor.new_tensor(self, _hinted(data), **options)
    advise_copy("tensor.new_tensor")
    return _copy_of(data, self, "new_tensor", **options)


def _hinted(data: Any) -> Any:
    """The data with the values of this run in place of symbols: what is made has the same type."""
    if type(data) in (list, tuple):
        return type(data)([_hinted(item) for item in data])
    return hint_of(data)


def _copy_of(
    data: Tensor,
    like: Tensor,
    name: str,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **_: Any,
) -> Tensor:
    made: Tensor = ops.empty(
        data.array.shape,
        dtype=like.dtype if dtype is None else dtype_argument(dtype, name),
        device=like.device if device is None else device,
        requires_grad=requires_grad,
    )
    return made


def specials() -> dict[Any, Special]:
    """The functions that have a way of their own."""
    return {
        Tensor.__setitem__: set_item,
        operator.setitem: set_item,
        REGISTRY["index_put"].face: _index_put(REGISTRY["index_put"].face),
        Tensor.index_put_: _index_put(Tensor.index_put_),
        REGISTRY["contiguous"].face: contiguous,
        PUBLIC["tensor"]: tensor,
        PUBLIC["as_tensor"]: as_tensor,
        Tensor.new_tensor: new_tensor,
    }
