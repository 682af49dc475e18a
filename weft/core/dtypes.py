"""Element types: PyTorch's names over NumPy's dtypes, and the promotion lattice.

Takes names or NumPy dtypes, gives the one `dtype` object of each kind; `promote_types` and `result_dtype`
say what mixed operands become. One idea: a dtype's category (bool < integer < float < complex) decides
between operands of different rank, and a pairwise table decides between equals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Final

import ml_dtypes
import numpy as np
from numpy.typing import DTypeLike

from weft.core.interrupts import let_through
from weft.core.naming import named, naming
from weft.core.settings import change_default

BOOL, INTEGER, FLOAT, COMPLEX = range(4)


class dtype:
    """One element type. Singletons: compare with `is` or `==`."""

    __module__ = "weft"  # where users find it

    __slots__ = (
        "name", "short", "scalar_name", "numpy", "itemsize", "category", "is_signed", "aliases", "cpp_name",
        "c_name", "digits", "computes_in", "file_name", "tolerances",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        short: str,
        scalar_name: str,
        kind: DTypeLike,
        category: int,
        cpp_name: str,
        *,
        c_name: str | None = None,
        aliases: tuple[str, ...] = (),
        digits: int = 0,
        computes_in: dtype | None = None,
        file_name: str | None = None,
        tolerances: tuple[float, float] = (0.0, 0.0),
    ) -> None:
        self.name, self.short, self.scalar_name = name, short, scalar_name
        self.numpy: np.dtype[Any] = np.dtype(kind)
        self.itemsize = self.numpy.itemsize
        self.category = category
        self.is_signed = category >= FLOAT or (category == INTEGER and self.numpy.kind == "i")
        self.aliases = aliases
        self.cpp_name = cpp_name
        """What PyTorch's messages about matrix products and `out=` call it."""
        self.c_name = c_name or cpp_name
        """What its messages about values call it."""
        self.digits = digits
        """How many binary digits the significand of a real floating dtype has."""
        self.computes_in = computes_in or self
        """What sums and ops of several steps are computed in: float32 for the halves."""
        self.file_name = file_name
        """Its name in files of safetensors, which know no others."""
        self.tolerances = tolerances
        """Relative and absolute, of `testing.assert_close`."""

    @property
    def is_floating_point(self) -> bool:
        return self.category == FLOAT

    @property
    def is_complex(self) -> bool:
        return self.category == COMPLEX

    def to_real(self) -> dtype:
        return {complex64: float32, complex128: float64}.get(self, self)

    def to_complex(self) -> dtype:
        return {float64: complex128, complex128: complex128}.get(self, complex64)

    def __repr__(self) -> str:
        return f"{naming.namespace}.{self.name}"

    def __reduce__(self) -> Any:
        return dtype_by_name, (self.name,)

    def __copy__(self) -> dtype:
        return self

    def __deepcopy__(self, memo: object) -> dtype:
        return self


_SINGLE, _DOUBLE = (1.3e-6, 1e-5), (1e-7, 1e-7)
bool_ = dtype("bool", "b1", "Bool", np.bool_, BOOL, "bool", file_name="BOOL")
uint8 = dtype("uint8", "u8", "Byte", np.uint8, INTEGER, "unsigned char", c_name="uint8_t", file_name="U8")
int8 = dtype("int8", "i8", "Char", np.int8, INTEGER, "signed char", c_name="int8_t", file_name="I8")
int16 = dtype(
    "int16", "i16", "Short", np.int16, INTEGER, "short int",
    c_name="int16_t", aliases=("short",), file_name="I16",
)  # fmt: skip
int32 = dtype("int32", "i32", "Int", np.int32, INTEGER, "int", aliases=("int",), file_name="I32")
int64 = dtype(
    "int64", "i64", "Long", np.int64, INTEGER, "long int",
    c_name="int64_t", aliases=("long",), file_name="I64",
)  # fmt: skip
uint16, uint32, uint64 = [
    dtype(f"uint{n}", f"u{n}", f"UInt{n}", f"u{n // 8}", INTEGER, cpp, c_name=f"uint{n}_t", file_name=f"U{n}")
    for n, cpp in ((16, "short unsigned int"), (32, "unsigned int"), (64, "long unsigned int"))
]
float32 = dtype(
    "float32", "f32", "Float", np.float32, FLOAT, "float",
    aliases=("float",), digits=24, file_name="F32", tolerances=_SINGLE,
)  # fmt: skip
float64 = dtype(
    "float64", "f64", "Double", np.float64, FLOAT, "double",
    aliases=("double",), digits=53, file_name="F64", tolerances=_DOUBLE,
)  # fmt: skip
float16 = dtype(
    "float16", "f16", "Half", np.float16, FLOAT, "c10::Half",
    aliases=("half",), digits=11, computes_in=float32, file_name="F16", tolerances=(1e-3, 1e-5),
)  # fmt: skip
bfloat16 = dtype(
    "bfloat16", "bf16", "BFloat16", ml_dtypes.bfloat16, FLOAT, "c10::BFloat16",
    digits=8, computes_in=float32, file_name="BF16", tolerances=(1.6e-2, 1e-5),
)  # fmt: skip
complex64 = dtype(
    "complex64", "c64", "ComplexFloat", np.complex64, COMPLEX, "c10::complex<float>",
    aliases=("cfloat",), file_name="C64", tolerances=_SINGLE,
)  # fmt: skip
complex128 = dtype(
    "complex128", "c128", "ComplexDouble", np.complex128, COMPLEX, "c10::complex<double>",
    aliases=("cdouble",), tolerances=_DOUBLE,
)  # fmt: skip

ALL: Final = (
    bool_, uint8, int8, int16, int32, int64, float16, bfloat16, float32, float64, complex64, complex128,
    uint16, uint32, uint64,
)  # fmt: skip
NARROW: Final = tuple(
    dtype(
        name, name.replace("loat", ""), name.capitalize(), getattr(ml_dtypes, name), FLOAT,
        f"c10::{name.capitalize()}",
        digits=digits, computes_in=float32, file_name=file_name,
    )
    for name, digits, file_name in (
        ("float8_e4m3fn", 4, "F8_E4M3"), ("float8_e5m2", 3, "F8_E5M2"), ("float8_e4m3fnuz", 4, None),
        ("float8_e5m2fnuz", 3, None), ("float8_e8m0fnu", 1, "F8_E8M0"),
    )
)  # fmt: skip
"""Numbers of eight bits: they are stored, moved and cast; arithmetic refuses them."""
WIDE_UNSIGNED: Final = (uint16, uint32, uint64)
"""As in PyTorch, promoted with floating dtypes alone."""
HALVES: Final = tuple(d for d in ALL if d.computes_in is not d)
HALF_CHARS: Final = "".join(d.numpy.char for d in HALVES)
BY_NAME: Final[dict[str, dtype]] = {name: d for d in (*ALL, *NARROW) for name in (d.name, *d.aliases)}
BY_NUMPY: Final[dict[np.dtype[Any], dtype]] = {d.numpy: d for d in (*ALL, *NARROW)}
PYTHON_TYPES: Final[dict[type, dtype]] = {bool: bool_, int: int64}


def dtype_by_name(name: str) -> dtype:
    return BY_NAME[name]


def as_dtype(kind: Any) -> dtype:
    """The Weft dtype for a dtype, a NumPy dtype or scalar type, or Python's bool, int, float (64 bits),
    complex (128).
    """
    if isinstance(kind, dtype):
        return kind
    if kind in PYTHON_TYPES:
        return PYTHON_TYPES[kind]
    try:
        return BY_NUMPY[np.dtype(kind)]
    except (KeyError, TypeError) as error:
        let_through(error)
        raise TypeError(f"can't convert {kind!r} to a weft dtype") from None


def dtype_of(value: object) -> dtype:
    """The dtype of a tensor, an array, a TensorType or a Python number."""
    kind = getattr(value, "dtype", None)
    if kind is None:
        return scalar_dtype(value)
    return kind if type(kind) is dtype else as_dtype(kind)


class DefaultDtype:
    """The default floating dtype (process-wide, as PyTorch's is)."""

    dtype: dtype = float32
    watchers: ClassVar[list[Callable[[], None]]] = []
    """Called after a change: compiled code does not ask, it is told."""


default = DefaultDtype()


def get_default_dtype() -> dtype:
    """The dtype of tensors that are made of Python floats."""
    return default.dtype


def set_default_dtype(d: dtype) -> None:
    """Sets the dtype that Python floats become; it must be a floating point dtype."""
    if not isinstance(d, dtype):
        raise TypeError("invalid dtype object: only floating-point types are supported as the default type")
    if not d.is_floating_point:
        raise TypeError("only floating-point types are supported as the default type")
    change_default(default, "dtype", d)


def _promote_pair(a: dtype, b: dtype) -> dtype | None:
    if a is b:
        return a
    if max(a.category, b.category) < FLOAT and not {a, b}.isdisjoint(WIDE_UNSIGNED):
        return None
    low, high = (a, b) if (a.category, a.itemsize) <= (b.category, b.itemsize) else (b, a)
    if low.category != high.category:
        if high.is_complex and low is float64:
            return complex128
        return high
    if {a, b} == {float16, bfloat16}:
        return float32
    if a.category == INTEGER and uint8 in (a, b):
        other = b if a is uint8 else a
        return int16 if other is int8 else other
    return high


_PROMOTED: Final = {(a, b): _promote_pair(a, b) for a in ALL for b in ALL} | {(a, a): a for a in NARROW}


def promote_types(type1: dtype, type2: dtype) -> dtype:
    """The smallest dtype, by PyTorch's lattice, to which both can be cast."""
    found = _PROMOTED.get((type1, type2))
    if found is None and (type1 in NARROW or type2 in NARROW):
        raise RuntimeError(
            f"Promotion for Float8 Types is not supported, attempted to promote {type1.scalar_name} and "
            f"{type2.scalar_name}"
        )
    if found is None:
        raise RuntimeError(
            "Promotion for uint16, uint32, uint64 types is not supported, attempted to promote "
            f"{type1.scalar_name} and {type2.scalar_name}"
        )
    return found


def _combine(higher: dtype | None, lower: dtype | None) -> dtype | None:
    """`higher` wins unless `lower` is of a higher category."""
    if higher is None or lower is None:
        return higher or lower
    if higher.is_complex:
        return higher
    if higher.is_floating_point:
        return higher.to_complex() if lower.is_complex else higher
    if higher is bool_ or lower.category >= FLOAT:
        return promote_types(higher, lower)
    return higher


def scalar_dtype(value: object) -> dtype:
    """The dtype a bare Python (or NumPy) number counts as in promotion."""
    if isinstance(value, (bool, np.bool_)):
        return bool_
    if isinstance(value, (int, np.integer)):
        return int64
    if isinstance(value, (float, np.floating)):
        return default.dtype
    if isinstance(value, (complex, np.complexfloating)):
        return default.dtype.to_complex()
    raise TypeError(f"expected a tensor or a number, got {type(value).__name__}")


def result_dtype(operands: Iterable[Any]) -> dtype:
    """The common dtype of tensors, arrays, tensor types (anything with dtype and ndim) and Python numbers.

    Dimensioned operands decide first, then zero-dim ones, then bare numbers; a lower class only matters when
    it is of a higher category.
    """
    classes: list[dtype | None] = [None, None, None]
    for operand in operands:
        kind = getattr(operand, "dtype", None)
        if kind is None or isinstance(operand, np.generic):
            kind, rank = scalar_dtype(operand), 2
        else:
            kind = kind if type(kind) is dtype else BY_NUMPY[kind]
            rank = 0 if operand.ndim else 1
        seen = classes[rank]
        classes[rank] = kind if seen is None else promote_types(seen, kind)
    result = _combine(classes[0], _combine(classes[1], classes[2]))
    if result is None:
        raise ValueError("result_dtype needs at least one operand")
    return result


def can_cast(from_: dtype, to: dtype) -> bool:
    """Whether PyTorch lets a result of `from_` be stored as `to`: whether the category does not decrease."""
    return from_.category <= to.category


class Limits:
    """What the numbers of a dtype, known by its name, can be."""

    dtype: str

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.dtype == self.dtype

    def __hash__(self) -> int:
        return hash(self.dtype)


class finfo(Limits):
    """Limits of a floating dtype (of its parts, for a complex one)."""

    def __init__(self, type: dtype | None = None) -> None:
        kind = default.dtype if type is None else type
        if not isinstance(kind, dtype) or kind.category < FLOAT:
            raise TypeError(
                named(
                    "weft.finfo() requires a floating point input type. Use weft.iinfo to handle 'weft.finfo'"
                )
            )
        real = kind.to_real()
        limits: Any = ml_dtypes.finfo  # untyped
        info: Any = limits(real.numpy) if real is bfloat16 or real in NARROW else np.finfo(real.numpy)
        self.dtype = real.name
        self.bits = real.itemsize * 8
        self.eps, self.max, self.min = float(info.eps), float(info.max), float(info.min)
        self.tiny = self.smallest_normal = float(info.tiny)
        self.resolution = 1.0 if real in NARROW else 10.0 ** -int(info.precision)

    def __repr__(self) -> str:
        return (
            f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, eps={self.eps:g}, "
            f"smallest_normal={self.smallest_normal:g}, tiny={self.tiny:g}, dtype={self.dtype})"
        )


class iinfo(Limits):
    """Limits of an integer dtype."""

    def __init__(self, type: dtype) -> None:
        if not isinstance(type, dtype) or type.category != INTEGER:
            raise TypeError(
                named("weft.iinfo() requires an integer input type. Use weft.finfo to handle 'weft.iinfo'")
                if isinstance(type, dtype) and type is not bool_
                else named("weft.bool is not supported by weft.iinfo")
            )
        info = np.iinfo(type.numpy)
        self.dtype, self.bits, self.max, self.min = type.name, info.bits, int(info.max), int(info.min)

    def __repr__(self) -> str:
        most = self.max if self.max < 2**63 else f"{self.max:g}"
        return f"iinfo(min={self.min}, max={most}, dtype={self.dtype})"
