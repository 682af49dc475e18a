"""The types of what ops are given: the words of signatures, as a checker reads them.

Composites and gradient rules take `TensorLike` and `Operand`, kernels arrays in their place, type rules
`TensorType`s; see Note [Calling conventions] in `weft.ops.record`. Sizes and dimensions are ints, symbolic
ones too. Scalar bodies (`emit`) take a `BodyBuilder` and `Element`s.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from weft.core.device import device
from weft.core.dtypes import dtype

Number = bool | int | float | complex
Dims = int | Sequence[int] | None
"""One dimension, several, or all."""
Sizes = Sequence[int]
Spread = int | Sequence[int]
"""One number for every dimension, or one each: kernel sizes, strides, paddings."""
DType = dtype | type[bool] | type[int] | type[float] | type[complex] | None
DeviceLike = device | str | int | None
ArrayDType = np.dtype[Any]
"""The dtype of an array, which kernels work with."""


class TensorLike(Protocol):
    """A tensor as rules and composites see it: an array, a tensor, a symbolic or batched one, or a type.

    They call ops on it and ask for its shape; of dtype and device `type_of` tells, for arrays have NumPy's.
    """

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def ndim(self) -> int: ...
    @property
    def dtype(self) -> Any: ...


Operand = TensorLike | Number
"""A tensor, or a number that stands for one."""
MaybeTensor = TensorLike | None
MaybeOperand = TensorLike | Number | None


class Element(Protocol):
    """A value in a scalar body: the result of one of its instructions, for one element."""

    @property
    def type(self) -> str: ...
    @property
    def place(self) -> int: ...


class BodyBuilder(Protocol):
    """What `emit` builds a scalar body with (`weft.native.maths.emitting.Emitting`): a method per
    instruction.
    """

    divides: bool
    half: str
    numbers: frozenset[int]

    @property
    def instructions(self) -> Sequence[Any]: ...
    def __getattr__(self, name: str) -> Callable[..., Element]: ...
