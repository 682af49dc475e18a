"""Tests by device and dtype: `instantiate_device_type_tests` makes a class for the processor.

Takes generic test classes, whose tests want `device` and `dtype`; gives `TestThingCPU` with one test for each
dtype. What is marked for other devices is skipped.
"""

from __future__ import annotations

import enum
import functools
import unittest
from collections import namedtuple
from collections.abc import Callable
from typing import Any

from weft.compat.torch_internals.common import _marks, dtype_name, parametrized, with_arguments

HAS_CUDA = HAS_GPU = HAS_TRITON = HAS_CUDA_AND_TRITON = HAS_XPU_AND_TRITON = HAS_MPS = HAS_MULTIGPU = False
HAS_CPU = True
TEST_CUDA = TEST_MULTIGPU = TEST_CUDNN = TEST_MAGMA = TEST_CUDA_GRAPH = CUDA9 = CUDA11OrLater = False
SM53OrLater = SM60OrLater = SM70OrLater = SM75OrLater = SM80OrLater = SM89OrLater = SM90OrLater = False
PLATFORM_SUPPORTS_FLASH_ATTENTION = PLATFORM_SUPPORTS_MEM_EFF_ATTENTION = (
    PLATFORM_SUPPORTS_FUSED_ATTENTION
) = False
PLATFORM_SUPPORTS_BF16 = PLATFORM_SUPPORTS_FP8 = PLATFORM_SUPPORTS_CUDNN_ATTENTION = False
GPU_TYPE = "cuda"
IS_BIG_GPU = False
TEST_CUDNN_VERSION = 0

requires_cuda = requires_cuda_and_triton = unittest.skip("requires cuda")
requires_gpu = requires_gpu_and_triton = requires_triton = requires_multigpu = unittest.skip("requires gpu")
requires_cpu = _marks


def _skipped(reason: str) -> Callable[..., Any]:
    def decorator(*_args: Any, **_kwargs: Any) -> Any:
        if len(_args) == 1 and callable(_args[0]) and not _kwargs:
            return unittest.skip(reason)(_args[0])
        return unittest.skip(reason)

    return decorator


onlyCUDA = onlyGPU = onlyOn = onlyXPU = onlyMPS = onlyMeta = onlyPRIVATEUSE1 = _skipped(
    "runs on other devices only"
)
onlyAccelerator = onlyCUDAAndPRIVATEUSE1 = onlyHPU = requires_gpu_marks = _skipped(
    "runs on other devices only"
)
onlyCPU = onlyNativeDeviceTypes = onlyNativeDeviceTypesAnd = skipCPUIfNoLapack = skipCPUIfNoMkl = _marks
skipCPUIfNoFFT = skipCPUIfNoMklSparse = skipCUDAIf = skipCUDAIfNoMagma = skipCUDAIfRocm = (
    skipCUDAIfNoCudnn
) = _marks
skipCUDAIfNoCusolver = skipCUDAIfNoMagmaAndNoCusolver = skipCUDAIfMiopen = skipMeta = skipMetaIf = skipXLA = (
    _marks
)
skipMPS = skipMPSIf = skipXPU = skipXPUIf = skipHPU = skipLazy = skipPRIVATEUSE1 = skipGPUIf = (
    skipCUDAVersionIn
) = _marks
expectedFailureMeta = expectedFailureCUDA = expectedFailureXLA = expectedFailureMPS = expectedFailureXPU = (
    _marks
)
expectedFailureHPU = expectedFailureMPSPre14 = expectedFailureMPSComplex = precisionOverride = (
    toleranceOverride
) = _marks
largeMPSTensorTest = tf32_on_and_off = with_tf32_off = tf32_off = bf32_on_and_off = _marks
disablecuDNN = disableMkldnn = dtypesIfMPS = dtypesIfXPU = dtypesIfHPU = dtypesIfPRIVATEUSE1 = _marks
reduced_f32_on_and_off = skipCUDAIfNotRocm = skipIfRocm = expectedAlertNondeterministic = _marks

tol = namedtuple("tol", ["atol", "rtol"])


def deviceCountAtLeast(num_required_devices: int) -> Any:
    """Skips where there are fewer."""
    return _marks if num_required_devices <= 1 else unittest.skip("fewer devices")


LARGEST = 1 << 30
"""Tests that need more bytes than this are skipped."""
UNITS = {"GB": 1 << 30, "MB": 1 << 20, "KB": 1 << 10}


def largeTensorTest(size: Any, device: Any = None, **_options: Any) -> Callable[[Any], Any]:
    """Skips a test that needs this much memory (`"12GB"`, or a number of bytes) where that is very much."""
    if callable(size):
        return unittest.skip("needs much memory")
    if isinstance(size, str):
        number, unit = size[:-2], size[-2:].upper()
        size = float(number) * UNITS[unit] if unit in UNITS else float(size)
    return unittest.skip("needs much memory") if size > LARGEST else _marks()


class skipIf:
    """Skips on one kind of device."""

    def __init__(self, dep: Any, reason: str, device_type: str | None = None) -> None:
        self.dep, self.reason, self.device_type = dep, reason, device_type

    def __call__(self, test: Any) -> Any:
        if self.dep is True and self.device_type in (None, "cpu"):
            return unittest.skip(self.reason)(test)
        return test


def skipCPUIf(dep: Any, reason: str) -> Any:
    """Skips on the processor."""
    return skipIf(dep, reason, "cpu")


class dtypes:
    """Decorator: the test once for each of these dtypes."""

    def __init__(self, *args: Any, device_type: str = "all") -> None:
        self.kinds = tuple(args[0]) if len(args) == 1 and isinstance(args[0], (tuple, list)) else args
        self.device_type = device_type

    def __call__(self, test: Any) -> Any:
        if self.device_type == "all":
            test.__dict__.setdefault("dtypes", self.kinds)
        elif self.device_type == "cpu":
            test.dtypes = self.kinds
        return test


class dtypesIfCPU(dtypes):
    """These dtypes on the processor."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args, device_type="cpu")


class dtypesIfCUDA(dtypes):
    """These dtypes on a GPU."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args, device_type="cuda")


class OpDTypes(enum.Enum):
    """Which dtypes of an op a generated test takes."""

    supported = 0
    unsupported = 1
    supported_backward = 2
    unsupported_backward = 3
    any_one = 4
    none = 5
    any_common_cpu_cuda_one = 6


def get_all_device_types() -> list[str]:
    """The kinds of devices there are."""
    return ["cpu"]


def _get_torch_cuda_version() -> tuple[int, int]:
    return (0, 0)


def get_device_type_test_bases() -> list[Any]:
    """One for each kind of device."""
    return []


def instantiate_device_type_tests(
    generic_test_class: type,
    scope: dict[str, Any],
    except_for: Any = None,
    only_for: Any = None,
    **_options: Any,
) -> None:
    """Puts `<name>CPU` into the module's globals in place of the generic class."""
    scope.pop(generic_test_class.__name__, None)
    wanted = (only_for,) if isinstance(only_for, str) else only_for
    refused = (except_for,) if isinstance(except_for, str) else except_for
    if (wanted is not None and "cpu" not in wanted) or (refused is not None and "cpu" in refused):
        return
    members: dict[str, Any] = {"device_type": "cpu", "__module__": scope.get("__name__", "")}
    for name in dir(generic_test_class):
        test = getattr(generic_test_class, name)
        if name.startswith("test") and callable(test):
            members[name] = None  # the generic form is no test of the new class
            members.update(_instances(name, test))
    made: Any = type(f"{generic_test_class.__name__}CPU", (generic_test_class,), members)
    made.get_primary_device = classmethod(lambda cls: "cpu")
    scope[made.__name__] = made


def _instances(name: str, test: Any) -> dict[str, Any]:
    """The tests that a generic test becomes."""
    made = {}
    for suffix, arguments, decorators in parametrized(test):
        for kind in getattr(test, "dtypes", (None,)):
            more = dict(arguments, device="cpu") if _wants_device(test) else dict(arguments)
            parts = [name, suffix, "cpu"]
            if kind is not None:
                kinds = kind if isinstance(kind, (tuple, list)) else (kind,)
                parts.append("_".join(map(dtype_name, kinds)))
                more["dtypes" if isinstance(kind, (tuple, list)) else "dtype"] = kind
            full = "_".join(part for part in parts if part)
            one: Any = with_arguments(test, full, more)
            for decorator in decorators:
                one = decorator(one)
            made[full] = one
    return made


def _wants_device(test: Any) -> bool:
    inner = test
    while hasattr(inner, "__wrapped__"):
        inner = inner.__wrapped__
    code = getattr(inner, "__code__", None)
    return code is None or "device" in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


ops = functools.partial(_skipped("needs PyTorch's table of ops"))
modules = functools.partial(_skipped("needs PyTorch's table of modules"))
