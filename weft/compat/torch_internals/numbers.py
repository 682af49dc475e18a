"""Names of kinds of values that type annotations in PyTorch's programs use."""

from __future__ import annotations

from typing import Any

from weft.core.device import device
from weft.core.dtypes import dtype
from weft.core.types import Size as Size
from weft.trace.scalars import SymBool as SymBool
from weft.trace.scalars import SymFloat as SymFloat
from weft.trace.scalars import SymInt as SymInt

Number = int | float | bool
NumberType = type[bool] | type[int] | type[float] | type[complex]
NumberTypeType = NumberType
IntLikeType = int | SymInt
FloatLikeType = float | SymFloat
BoolLikeType = bool | SymBool
FloatLike = float | SymFloat
IntLike = int | SymInt
BoolLike = bool | SymBool
ShapeType = list[int] | tuple[int, ...] | Size
StrideType = list[int] | tuple[int, ...]
DimsType = int | list[int] | tuple[int, ...]
Device = device | str | int | None
DeviceLikeType = str | device | int
FileLike = Any
PySymType = SymInt | SymFloat | SymBool
_TensorOrTensors = Any
_bool, _int, _float, _complex = bool, int, float, complex
_dtype, _device, _size, _qscheme, _layout = dtype, device, tuple, Any, Any
py_sym_types = (SymInt, SymFloat, SymBool)
