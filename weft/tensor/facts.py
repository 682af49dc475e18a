"""Facts about tensors and dtypes as functions, constants, and the names that `weft` exports beside its ops.

Takes tensors, dtypes and numbers; gives answers. Everything in `PUBLIC` afterwards is what `import weft`
shows.
"""

from __future__ import annotations

import ctypes
import math
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.core import dtypes, threads
from weft.core.device import device, get_default_device, set_default_device
from weft.core.devices import DEVICES
from weft.core.dtypes import as_dtype, dtype, finfo, get_default_dtype, iinfo, result_dtype, set_default_dtype
from weft.core.naming import named
from weft.core.types import MEMORY_FORMATS, Size, layout, memory_format, strided
from weft.core.warn import warn_at_level
from weft.ops.options import has_format
from weft.tensor.base import PUBLIC, Tensor, method, public
from weft.tensor.overrides import handle_torch_function, has_torch_function

PUBLIC.update(dtypes.BY_NAME)
PUBLIC.update(MEMORY_FORMATS)
PUBLIC.update(
    dtype=dtype, Size=Size, device=device, finfo=finfo, iinfo=iinfo, memory_format=memory_format,
    layout=layout, strided=strided,
    get_default_dtype=get_default_dtype, set_default_dtype=set_default_dtype,
    get_default_device=get_default_device,
    set_default_device=set_default_device, inf=math.inf, nan=math.nan, pi=math.pi, e=math.e, newaxis=None,
)  # fmt: skip


def _checked(value: object, name: str) -> Tensor:
    if not isinstance(value, Tensor):
        raise TypeError(f"{name}(): argument 'input' (position 1) must be Tensor, not {type(value).__name__}")
    return value


@public
def is_tensor(obj: object) -> bool:
    """Whether the object is a tensor."""
    return isinstance(obj, Tensor)


CHECK_FAILED = (
    "Expected cond to be True, but got False. (Could this error message be improved? If so, please report an "
    "enhancement request to PyTorch.)"
)


@public
def _check(cond: object, message: Any = None) -> None:
    """Raises RuntimeError with the text that `message()` gives where the condition is not true."""
    if not cond:
        raise RuntimeError(CHECK_FAILED if message is None else message())


@public
def _check_with(kind: type[BaseException], cond: object, message: Any = None) -> None:
    """As `_check`, raising an error of another class."""
    if not cond:
        raise kind(CHECK_FAILED if message is None else message())


@public
def _check_index(cond: object, message: Any = None) -> None:
    """As `_check`, raising IndexError."""
    _check_with(IndexError, cond, message)


@public
def _check_value(cond: object, message: Any = None) -> None:
    """As `_check`, raising ValueError."""
    _check_with(ValueError, cond, message)


@public
def _check_type(cond: object, message: Any = None) -> None:
    """As `_check`, raising TypeError."""
    _check_with(TypeError, cond, message)


@public
def _check_not_implemented(cond: object, message: Any = None) -> None:
    """As `_check`, raising NotImplementedError."""
    _check_with(NotImplementedError, cond, message)


@public
def _is_all_true(input: Tensor) -> Tensor:
    """Whether all elements of a tensor of bools are true, as one of them."""
    if input.dtype is not as_dtype(bool):
        raise RuntimeError("Expected self.scalar_type() == at::kBool to be true, but got false.")
    return input.all()


@public
def _is_any_true(input: Tensor) -> Tensor:
    """Whether any element of a tensor of bools is true, as one of them."""
    if input.dtype is not as_dtype(bool):
        raise RuntimeError("Expected self.scalar_type() == at::kBool to be true, but got false.")
    return input.any()


@public
def _assert(condition: object, message: object) -> None:
    """As the statement `assert`, as a function."""
    if type(condition) is not Tensor and has_torch_function((condition,)):
        handle_torch_function(_assert, (condition,), condition, message)
        return
    if not condition:
        raise AssertionError(message)


@public
def sym_max(a: Any, b: Any) -> Any:
    """The larger of two numbers, where a size may vary as well."""
    return max(a, b)


@public
def sym_min(a: Any, b: Any) -> Any:
    """The smaller of two numbers, where a size may vary as well."""
    return min(a, b)


@public
def sym_not(a: object) -> bool:
    """The negation of a condition, on sizes as well."""
    return not a


@public
def sym_int(a: Any) -> Any:
    """The number cut to an integer, where a size may vary as well."""
    return int(a)


@public
def sym_float(a: Any) -> Any:
    """The number as a float, where a size may vary as well."""
    return float(a)


@public
def sym_sum(args: Any) -> Any:
    """The sum of numbers, where sizes may vary as well."""
    return sum(args)


@public
def sym_ite(b: object, t: object, f: object) -> Any:
    """`t` where the condition holds, else `f`."""
    return t if b else f


@public
def is_floating_point(input: Tensor) -> bool:
    """Whether the tensor's dtype is a floating point one (complex is not)."""
    return _checked(input, "is_floating_point").is_floating_point()


@public
def is_complex(input: Tensor) -> bool:
    """Whether the tensor's dtype is complex."""
    return _checked(input, "is_complex").is_complex()


@public
def is_signed(input: Tensor) -> bool:
    """Whether the tensor's dtype has negative numbers."""
    return _checked(input, "is_signed").is_signed()


@public
def numel(input: Tensor) -> int:
    """How many elements the tensor has."""
    return _checked(input, "numel").numel()


@public
def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Whether two tensors have the same shape."""
    return _checked(input, "is_same_size").array.shape == other.array.shape


@public
def is_nonzero(input: Tensor) -> bool:
    """The truth of a tensor with one element."""
    return bool(_checked(input, "is_nonzero"))


@public
def is_inference(input: Tensor) -> bool:
    """Whether the tensor was made under inference_mode."""
    return input.is_inference()


@public
def get_device(input: Tensor) -> int:
    """The number of the tensor's accelerator; -1 for the CPU."""
    where = input.device
    return -1 if where.type == "cpu" else where.index or 0


@public
def result_type(tensor1: object, tensor2: object) -> dtype:
    """The dtype in which an op of these two operands (tensors or numbers) is computed."""
    for position, value in enumerate((tensor1, tensor2)):
        if not isinstance(value, (Tensor, bool, int, float, complex, np.generic)):
            raise TypeError(
                f"result_type(): argument 'tensor{position + 1}' (position {position + 1}) must be Tensor, "
                f"not "
                f"{type(value).__name__}"
            )
    return result_dtype([tensor1, tensor2])


@public
def promote_types(type1: dtype, type2: dtype) -> dtype:
    """The smallest dtype to which both can be cast."""
    _check_dtypes("promote_types", type1=type1, type2=type2)
    return dtypes.promote_types(as_dtype(type1), as_dtype(type2))


@public
def can_cast(from_: dtype, to: dtype) -> bool:
    """Whether a result of dtype `from_` may be stored as `to`."""
    _check_dtypes("can_cast", from_=from_, to=to)
    return dtypes.can_cast(as_dtype(from_), as_dtype(to))


@public
def broadcast_shapes(*shapes: Any) -> Size:
    """The shape that tensors of these shapes have when broadcast together."""
    result: list[int] = []
    for position, shape in enumerate(shapes):
        sizes = (shape,) if isinstance(shape, int) else tuple(shape)
        if any(n < 0 for n in sizes):
            raise ValueError("Attempting to broadcast a dimension with negative length!")
        before = list(result)
        result = [1] * (len(sizes) - len(result)) + result
        for back in range(1, len(sizes) + 1):
            if sizes[-back] == 1 or sizes[-back] == result[-back]:
                continue
            if result[-back] != 1:
                raise RuntimeError(
                    f"Attempting to broadcast a dimension of length {sizes[-back]} at {-back}! Mismatching "
                    f"argument at "
                    f"index {position} had {sizes}; but expected shape should be broadcastable to {before}"
                )
            result[-back] = sizes[-back]
    return Size(result)


def _check_dtypes(name: str, **kinds: object) -> None:
    for position, (label, kind) in enumerate(kinds.items()):
        if not isinstance(kind, dtype) and kind not in (bool, int, float, complex):
            raise TypeError(
                named(
                    f"{name}(): argument '{label}' (position {position + 1}) must be weft.dtype, not "
                    f"{type(kind).__name__}"
                )
            )


@public
def set_default_tensor_type(t: Any) -> None:
    """Sets the default dtype by the name of a tensor type (deprecated)."""
    warn_at_level(
        named(
            "weft.set_default_tensor_type() is deprecated, please use weft.set_default_dtype() and "
            "weft.set_default_device() as "
            "alternatives."
        ),
        UserWarning,
        stacklevel=2,
    )
    name = t if isinstance(t, str) else f"weft.{t.__name__}"
    kind = next((d for d in dtypes.ALL if name.rpartition(".")[2] == f"{d.scalar_name}Tensor"), None)
    if kind is None:
        raise TypeError("invalid type object: only floating-point types are supported as the default type")
    set_default_dtype(kind)


@method
def is_contiguous(self: Tensor, memory_format: memory_format | None = None) -> bool:
    """Whether the elements lie in memory in this order (row-major unless another is named)."""
    if memory_format is None and type(self.array) in DEVICES:
        return bool(self.array.flags.c_contiguous)
    form = MEMORY_FORMATS["contiguous_format"] if memory_format is None else memory_format
    if form is MEMORY_FORMATS["preserve_format"]:
        raise RuntimeError("preserve memory format is unsupported by is_contiguous")
    return has_format(self.array.shape, self.stride(), form)


@method
def dim_order(self: Tensor, ambiguity_check: bool | Sequence[memory_format] = False) -> tuple[int, ...]:
    """Dimensions from the outermost in memory to the innermost."""
    strides = self.stride()
    return tuple(sorted(range(self.ndim), key=lambda d: (-strides[d], d)))


for _name in ("is_same_size", "is_nonzero", "get_device"):
    setattr(Tensor, _name, PUBLIC[_name])

for _name, _value in {
    "layout": strided, "is_sparse": False, "is_sparse_csr": False,
    "is_quantized": False,
    "is_mkldnn": False, "is_mps": False, "is_xpu": False, "is_xla": False, "is_nested": False,
    "is_vulkan": False, "is_ipu": False,
    "is_hpu": False, "is_mtia": False, "is_maia": False,
}.items():  # fmt: skip
    _getter = lambda self, value=_value: value
    setattr(Tensor, _name, property(_getter, doc="A fact about the storage."))
for _name in ("cpu", "cuda"):
    _getter = lambda self, name=_name: self.device.type == name
    setattr(Tensor, f"is_{_name}", property(_getter, doc=f"Whether the tensor is on a {_name} device."))


@public
def is_conj(input: Tensor) -> bool:
    """Whether the elements are stored unconjugated: never, conjugates are computed at once."""
    return False


@public
def is_neg(input: Tensor) -> bool:
    """Whether the elements are stored unnegated: never."""
    return False


for _name in ("is_conj", "is_neg"):
    setattr(Tensor, _name, PUBLIC[_name])


@public
def resolve_conj(input: Tensor) -> Tensor:
    """The tensor itself: see `is_conj`."""
    return input


@public
def resolve_neg(input: Tensor) -> Tensor:
    """The tensor itself: see `is_neg`."""
    return input


for _name in ("resolve_conj", "resolve_neg"):
    setattr(Tensor, _name, PUBLIC[_name])


@public
def sym_sqrt(a: Any) -> Any:
    """The square root of a number."""
    return math.sqrt(a)


@public
def is_distributed(input: Tensor) -> bool:
    """Whether the tensor is spread over processes: never."""
    return False


setattr(Tensor, "is_distributed", is_distributed)  # noqa: B010


@public
def is_vulkan_available() -> bool:
    """Whether there is a Vulkan device: never."""
    return False


PUBLIC.update(has_lapack=True, has_spectral=True, has_mkl=False, has_openmp=False)

# -- threads -------------------------------------------------------------------------------------------------
BLAS_SETTERS = (
    "scipy_openblas_set_num_threads64_",
    "openblas_set_num_threads64_",
    "openblas_set_num_threads",
)


@public
def get_num_threads() -> int:
    """How many threads one op may use."""
    return threads.count()


_between: list[int] = []


@public
def get_num_interop_threads() -> int:
    """How many ops may run at a time: what `set_num_interop_threads` said. Here it is always one."""
    return _between[0] if _between else os.cpu_count() or 1


@public
def set_num_interop_threads(num: int) -> None:
    """Notes how many ops might run at a time; they run one after the other."""
    if not isinstance(num, int) or isinstance(num, bool):
        raise RuntimeError(f"set_num_interop_threads expects an int, but got {type(num).__name__}")
    if num <= 0:
        raise RuntimeError("set_num_interop_threads expects a positive integer")
    if _between:
        raise RuntimeError(
            "Error: cannot set number of interop threads after parallel work has started or "
            "set_num_interop_threads called"
        )
    _between.append(num)


@public
def set_num_threads(num: int) -> None:
    """How many threads one op may use: those of compiled code, and of NumPy's matrix products, whose own
    BLAS is told.
    """
    if not isinstance(num, int) or isinstance(num, bool):
        raise RuntimeError(f"set_num_threads expects an int, but got {type(num).__name__}")
    if num <= 0:
        raise RuntimeError("set_num_threads expects a positive integer")
    threads.ask(num)
    folder = os.path.join(os.path.dirname(os.path.dirname(np.__file__)), "numpy.libs")
    for file in os.listdir(folder) if os.path.isdir(folder) else ():
        if "openblas" not in file:
            continue
        library = ctypes.CDLL(os.path.join(folder, file))
        for name in BLAS_SETTERS:
            if hasattr(library, name):
                getattr(library, name)(num)
                break
