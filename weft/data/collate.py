"""Collating: from a list of samples to one batch of the same shape as a sample, tensors where numbers were.

Takes samples that are tensors, arrays, numbers, texts, or mappings and sequences of such; gives the batch.
One idea: the first sample's type says what to do, by a table from types to functions that users may extend.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

import numpy as np

from weft.core.dtypes import float64
from weft.tensor.base import Tensor
from weft.tensor.creation import as_tensor, tensor
from weft.tensor.faces import FUNCTIONS

__all__ = ["default_collate", "default_convert"]

_stack: Callable[..., Tensor] = FUNCTIONS["stack"]

np_str_obj_array_pattern = re.compile(r"[SaUO]")
default_collate_err_msg_format = (
    "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}"
)

CollateMap = dict[type | tuple[type, ...], Callable[..., Any]]


def default_convert(data: Any) -> Any:
    """The sample with its arrays as tensors; everything else as it is.

    >>> import numpy
    >>> default_convert({"x": numpy.zeros(2), "name": "a"})
    {'x': tensor([0., 0.], dtype=weft.float64), 'name': 'a'}
    """
    kind = type(data)
    if isinstance(data, (Tensor, str, bytes)):
        return data
    if isinstance(data, (np.ndarray, np.generic)):
        if np_str_obj_array_pattern.search(data.dtype.str) is not None:
            return data
        return as_tensor(data)
    if isinstance(data, Mapping):
        return _mapping_like(data, {key: default_convert(data[key]) for key in data})
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return kind(*(default_convert(item) for item in data))
    if isinstance(data, tuple):
        return [default_convert(item) for item in data]  # a list, as PyTorch has it
    if isinstance(data, Sequence):
        return _sequence_like(data, [default_convert(item) for item in data])
    return data


def _mapping_like(model: Mapping[Any, Any], items: dict[Any, Any]) -> Any:
    """A mapping of the model's type, if it can be made."""
    try:
        if isinstance(model, MutableMapping):
            made = copy.copy(model)
            made.update(items)
            return made
        kind: Any = type(model)
        return kind(items)
    except TypeError:
        return items


def _sequence_like(model: Sequence[Any], items: list[Any]) -> Any:
    """A sequence of the model's type, if it can be made."""
    try:
        if isinstance(model, MutableSequence):
            made = copy.copy(model)
            for place, item in enumerate(items):
                made[place] = item
            return made
        kind: Any = type(model)
        return kind(items)
    except TypeError:
        return items


def collate(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Any:
    """A batch of samples by a table from types to functions `(batch, *, collate_fn_map)`."""
    sample = batch[0]
    kind = type(sample)
    if collate_fn_map is not None:
        if kind in collate_fn_map:
            return collate_fn_map[kind](batch, collate_fn_map=collate_fn_map)
        for known, function in collate_fn_map.items():
            if isinstance(sample, known):
                return function(batch, collate_fn_map=collate_fn_map)

    def again(part: Any) -> Any:
        return collate(part, collate_fn_map=collate_fn_map)

    if isinstance(sample, Mapping):
        return _mapping_like(sample, {key: again([item[key] for item in batch]) for key in sample})
    if isinstance(sample, tuple) and hasattr(sample, "_fields"):
        return kind(*(again(part) for part in zip(*batch)))
    if isinstance(sample, Sequence):
        size = len(sample)
        if not all(len(item) == size for item in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        parts = [again(part) for part in zip(*batch)]
        return parts if isinstance(sample, tuple) else _sequence_like(sample, parts)
    raise TypeError(default_collate_err_msg_format.format(kind))


def collate_tensor_fn(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Any:
    """Tensors of one shape stand one above the other."""
    return _stack(list(batch), 0)


def collate_numpy_array_fn(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Any:
    """Arrays of numbers are stacked as tensors."""
    sample = batch[0]
    if np_str_obj_array_pattern.search(sample.dtype.str) is not None:
        raise TypeError(default_collate_err_msg_format.format(sample.dtype))
    return collate([as_tensor(item) for item in batch], collate_fn_map=collate_fn_map)


def collate_numpy_scalar_fn(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Any:
    """NumPy's numbers become a tensor of their dtype."""
    return as_tensor(batch)


def collate_float_fn(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Any:
    """Python's floats become a tensor of float64, which is what they are."""
    return tensor(batch, dtype=float64)


def collate_int_fn(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Any:
    """Python's integers (and truths) become a tensor."""
    return tensor(batch)


def collate_str_fn(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Any:
    """Texts stay a list."""
    return batch


default_collate_fn_map: CollateMap = {
    Tensor: collate_tensor_fn,
    np.ndarray: collate_numpy_array_fn,
    (np.bool_, np.number, np.object_): collate_numpy_scalar_fn,
    float: collate_float_fn,
    int: collate_int_fn,
    str: collate_str_fn,
    bytes: collate_str_fn,
}
"""What `default_collate` does with which type; what is added here, it knows."""


def default_collate(batch: Any) -> Any:
    """One batch from a list of samples, the first dimension counting samples.

    >>> default_collate([{"x": 1.0, "y": 0}, {"x": 2.0, "y": 1}])
    {'x': tensor([1., 2.], dtype=weft.float64), 'y': tensor([0, 1])}
    """
    return collate(batch, collate_fn_map=default_collate_fn_map)
