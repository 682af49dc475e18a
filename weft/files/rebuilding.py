"""Tensors from a file's words: storages, sizes, strides, checked before any array is made.

Takes storages and numbers; gives tensors and parameters. One idea: a tensor is made only where its last
element lies inside of its storage.
"""

from __future__ import annotations

import math
from typing import Any, Final

from weft.core.arrays import HostArray
from weft.core.dtypes import FLOAT, dtype
from weft.core.lazy import lazy
from weft.files.errors import FileFormatError, require
from weft.tensor.base import Parameter, Tensor, wrap
from weft.tensor.meta import MetaArray
from weft.tensor.storage import UntypedStorage, over, reach

MOST_DIMENSIONS: Final = 64
_making = lazy("weft.tensor.sparse.making")


def storage_over(content: HostArray) -> UntypedStorage:
    """A storage of these bytes themselves."""
    made = UntypedStorage(0)
    made._hold(content)
    return made


def sizes(value: Any, what: str) -> tuple[int, ...]:
    """The value as sizes (or strides), if it is such."""
    good = isinstance(value, (tuple, list)) and len(value) <= MOST_DIMENSIONS
    good = good and all(type(item) is int and 0 <= item < 2**63 for item in value)
    require(good, f"{what} are {str(value)[:80]}")
    return tuple(value)


def rebuild_sparse(form: Any, parts: Any, size: Any, coalesced: Any) -> Any:
    """A sparse tensor of its places and elements, all of which are checked."""
    good = len(parts) == (2 if form.name == "sparse_coo" else 3) and form.name != "strided"
    good = good and all(isinstance(part, Tensor) and part.layout.name == "strided" for part in parts)
    require(good and type(coalesced) is bool, "a sparse tensor of strange parts")
    try:
        return _making.remade(form, parts, sizes(size, "a tensor's sizes"), coalesced)
    except RuntimeError as error:
        raise FileFormatError(f"a sparse tensor that is none: {error}") from None


def tensor_over(
    storage: UntypedStorage | None,
    kind: dtype,
    offset: Any,
    size: Any,
    stride: Any,
    requires_grad: Any = False,
) -> Tensor:
    """A tensor on a part of a storage; without elements, if there is none."""
    size, stride = sizes(size, "a tensor's sizes"), sizes(stride, "a tensor's strides")
    require(len(size) == len(stride), f"a tensor has {len(size)} sizes and {len(stride)} strides")
    require(type(offset) is int and 0 <= offset < 2**63, f"a tensor's offset is {str(offset)[:80]}")
    require(math.prod(size) * kind.itemsize < 2**63, f"a tensor of the sizes {size} is too large")
    require(type(requires_grad) is bool, "whether a tensor requires gradients is neither True nor False")
    require(not requires_grad or kind.category >= FLOAT, f"a tensor of dtype {kind} that requires gradients")
    if storage is None:
        return wrap(MetaArray(size, kind.numpy, [step * kind.itemsize for step in stride]), requires_grad)
    needed = reach(size, stride, offset) * kind.itemsize
    require(
        needed <= storage.nbytes(),
        f"a tensor of sizes {size} and strides {stride} from element {offset} on needs {needed} bytes, but "
        f"its storage has {storage.nbytes()}",
    )
    return wrap(over(storage, kind.numpy, offset, size, stride), requires_grad)


def parameter_of(data: Any, requires_grad: Any) -> Parameter:
    """A parameter with this tensor as its data."""
    require(isinstance(data, Tensor), f"a parameter is made of an object of type {type(data).__name__}")
    require(type(requires_grad) is bool, "whether a parameter requires gradients is neither True nor False")
    require(
        not requires_grad or data.dtype.category >= FLOAT,
        f"a parameter of dtype {data.dtype} that requires gradients",
    )
    return Parameter(data.detach(), requires_grad)
