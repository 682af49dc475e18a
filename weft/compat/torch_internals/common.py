"""What PyTorch's test files import from its `common_utils`: decorators, facts of the machine, small contexts.

Takes tests and classes of tests, gives them marked, skipped or multiplied by their parameters.
"""

from __future__ import annotations

import contextlib
import enum
import functools
import gc
import inspect
import io
import itertools
import math
import os
import platform
import random
import re
import subprocess
import sys
import tempfile
import unittest
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

import weft
from weft import compiler
from weft.autograd.gradcheck import gradcheck as gradcheck
from weft.autograd.gradcheck import gradgradcheck as gradgradcheck
from weft.compat.torch_internals.dynamo_utils import preserve_rng_state
from weft.tensor.base import Tensor
from weft.testing.cases import TestCase as TestCase
from weft.testing.cases import run_tests as run_tests
from weft.testing.creation import make_tensor as make_tensor

SEED = 1234
IS_WINDOWS, IS_MACOS, IS_LINUX = sys.platform == "win32", sys.platform == "darwin", sys.platform == "linux"
IS_ARM64, IS_X86 = platform.machine() in ("arm64", "aarch64"), platform.machine() in ("x86_64", "i386")
IS_PPC = IS_S390X = IS_JETSON = IS_FBCODE = IS_SANDCASTLE = IS_CI = IN_CI = IS_IN_CI = IS_REMOTE_GPU = False
TEST_WITH_ROCM = TEST_WITH_ASAN = TEST_WITH_TSAN = TEST_WITH_UBSAN = TEST_WITH_TORCHDYNAMO = False
TEST_WITH_TORCHINDUCTOR = TEST_WITH_AOT_EAGER = TEST_WITH_CROSSREF = TEST_WITH_SLOW = TEST_WITH_MTIA = False
TEST_CUDA = TEST_MULTIGPU = TEST_MPS = TEST_XPU = TEST_HPU = TEST_MKL = TEST_CUDNN = TEST_CUDA_GRAPH = False
TEST_CUDA_MEM_LEAK_CHECK = IN_RE_WORKER = IS_AVX512_VNNI_SUPPORTED = TEST_TRANSFORMERS = TEST_NUMBA = False
TEST_WITH_HPU = TEST_PRIVATEUSE1 = TEST_ACCELERATOR = TEST_MULTIACCELERATOR = TEST_FAIRSEQ = False
TEST_NUMPY = TEST_SCIPY = TEST_WITH_NATIVE = True
TEST_OPT_EINSUM = TEST_LIBROSA = TEST_DILL = TEST_Z3 = TEST_SKIP_NOARCH = TEST_MKL_SPARSE = False
BUILD_WITH_CAFFE2 = TEST_IN_SUBPROCESS = TEST_SKIP_FAST = TEST_SKIP_CUDA = False
device_type = "cpu"


class ProfilingMode:
    """Which executor scripted functions have: Weft has one."""

    LEGACY = 1
    SIMPLE = 2
    PROFILING = 3


GRAPH_EXECUTOR = ProfilingMode.PROFILING


# -- skipping ------------------------------------------------------------------------------------------------
def _unchanged(test: Any) -> Any:
    return test


def _marks(msg: Any = "", *_args: Any, **_kwargs: Any) -> Any:
    """A decorator that changes nothing, with or without arguments."""
    return msg if callable(msg) else _unchanged


skipIfTorchDynamo = xfailIfTorchDynamo = skipIfTorchInductor = skipIfCrossRef = skipIfRocm = _marks
skipIfMPS = skipIfXpu = skipIfHpu = skipIfMTIA = skipIfWindows = skipIfNoLapack = skipIfNoSciPy = _marks
skipIfTBB = skipIfRocmArch = skipRocmIfTorchInductor = skipIfWindowsXPU = skipIfMPSOnMacOS13 = _marks
skipIfNoDill = skipIfOnGHA = skipIfUnsupportedMinOpsetVersion = skipIfNotMiopenSuggestNHWC = _marks
skipIfLegacyJitExecutor = skipIfTorchScript = skipIfFreeThreaded = xfailIfPy312Plus = _marks
markDynamoStrictTest = unMarkDynamoStrictTest = dontSkip = serialTest = slowTest = slowTestIf = _marks
wrapDeterministicFlagAPITest = recover_orig_fp32_precision = xfailIf = xfailIfLinux = _marks
skipIfCompiledWithoutNumpy = skipIfNotRegistered = skipIfTorchDynamoNoGraph = reraise_if_not = _marks
skipIfNNModuleInlined = skipIfSlowGradcheckEnv = skipIfNoDynamoSupport = runWithoutCompiledAutograd = _marks
skip_but_pass_in_sandcastle = skip_but_pass_in_sandcastle_if = gcIfJetson = slowAwareTest = _marks
skipCUDAMemoryLeakCheckIf = skipCUDANonDefaultStreamIf = runOnRocm = runOnRocmArch = patch_test_members = (
    _marks
)
disable_translation_validation_if_dynamic_shapes = scoped_load_inline = retry = retry_on_connect_failures = (
    _marks
)
NAVI_ARCH: tuple[str, ...] = ()


def xfail_inherited_tests(tests: Iterable[str]) -> Callable[[type], type]:
    """Decorator of a class: these tests of its parents fail."""

    def mark(cls: type) -> type:
        for name in tests:
            inherited: Any = getattr(cls, name)
            setattr(cls, name, unittest.expectedFailure(_passed_on(inherited)))
        return cls

    return mark


def _passed_on(test: Any) -> Any:
    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> Any:
        return test(*args, **kwargs)

    return run


def make_dynamo_test(fn: Any = None, recompile_limit: int = 1) -> Any:
    """Decorator: the test runs as it is, and again compiled as one graph."""
    if fn is None:
        return make_dynamo_test

    @functools.wraps(fn)
    def run(self: Any, *args: Any, **kwargs: Any) -> None:
        def whole() -> Any:
            fn(self, *args, **kwargs)
            return weft.ones(1)

        whole()
        compiler.compile(whole, backend="eager", fullgraph=True)()

    return run


class HardwareClassification(enum.Enum):
    """Which machines a test needs."""

    GENERIC = "generic"
    CPU = "cpu"
    GPU = "gpu"
    CUDA = "cuda"


def raise_on_run_directly(file_to_call: str) -> None:
    """A file of tests that is no program."""
    raise RuntimeError(
        "This test file is not meant to be run directly, use:\n\n"
        f"\tpython {file_to_call} TESTNAME\n\n"
        "instead."
    )


def shell(command: list[str], cwd: str | None = None, env: Any = None, **_options: Any) -> int:
    """Runs a command, gives its exit status."""
    return subprocess.run(command, cwd=cwd, env=env, check=False).returncode


def getRocmVersion() -> tuple[int, int]:
    """Of no GPU."""
    return (0, 0)


def find_library_location(lib_name: str) -> str:
    """Where a library of tests lies: nowhere."""
    return lib_name


def suppress_warnings(test: Callable[..., Any]) -> Callable[..., Any]:
    """The test runs without warnings."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return test(*args, **kwargs)

    return run


# -- parameters ----------------------------------------------------------------------------------------------
class subtest:
    """One set of arguments, with a name or decorators of its own."""

    def __init__(self, arg_values: Any, name: str | None = None, decorators: Iterable[Any] = ()) -> None:
        self.arg_values, self.name, self.decorators = arg_values, name, list(decorators)


class parametrize:
    """Decorator: the test once for each value, `instantiate_parametrized_tests` makes them."""

    def __init__(
        self, arg_str: str, arg_values: Iterable[Any], name_fn: Callable[..., str] | None = None
    ) -> None:
        self.names = [name.strip() for name in arg_str.split(",") if name.strip()]
        self.values, self.name_fn = arg_values, name_fn

    def __call__(self, target: Any) -> Any:
        if inspect.isclass(target):
            for name in list(vars(target)):
                if name.startswith("test") and callable(getattr(target, name)):
                    setattr(target, name, self(vars(target)[name]))
            return target
        target.parameters = [*getattr(target, "parameters", []), self]
        return target

    def cases(self) -> Iterator[tuple[str, dict[str, Any], list[Any]]]:
        """For each value: what it adds to the test's name, the arguments, and decorators."""
        for value in self.values:
            name, decorators = None, []
            if isinstance(value, subtest):
                name, decorators, value = value.name, value.decorators, value.arg_values
            values = (value,) if len(self.names) == 1 else tuple(value)
            if name is None:
                name = (
                    self.name_fn(*values)
                    if self.name_fn is not None
                    else "_".join(f"{key}_{_shown(one)}" for key, one in zip(self.names, values, strict=True))
                )
            yield name, dict(zip(self.names, values, strict=True)), decorators


def _shown(value: Any) -> str:
    if isinstance(value, weft.dtype):
        return dtype_name(value)
    if isinstance(value, (bool, int, float, str)):
        return str(value).replace(".", "_").replace("-", "_")
    return str(getattr(value, "__name__", type(value).__name__))


def parametrized(test: Any) -> Iterator[tuple[str, dict[str, Any], list[Any]]]:
    """The cases of a test: all combinations of its parameters."""
    marks = getattr(test, "parameters", [])[::-1]
    for combination in itertools.product(*(mark.cases() for mark in marks)):
        names = [name for name, _, _ in combination]
        arguments: dict[str, Any] = {}
        decorators: list[Any] = []
        for _, more, marks_of_case in combination:
            arguments.update(more)
            decorators += marks_of_case
        yield "_".join(names), arguments, decorators


def with_arguments(test: Callable[..., Any], name: str, arguments: dict[str, Any]) -> Callable[..., Any]:
    """The test under another name, called with these arguments."""

    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        return test(self, *args, **kwargs, **arguments)

    run.__name__, run.__doc__ = name, test.__doc__
    run.__qualname__ = f"{test.__qualname__.rpartition('.')[0]}.{name}"
    run.__dict__.update({key: value for key, value in vars(test).items() if key != "parameters"})
    return run


def instantiate_parametrized_tests(cls: type) -> type:
    """Makes a test for each case of each parametrised one."""
    for name, test in list(vars(cls).items()):
        if not getattr(test, "parameters", None):
            continue
        delattr(cls, name)
        for suffix, arguments, decorators in parametrized(test):
            full = f"{name}_{suffix}" if suffix else name
            made: Any = with_arguments(test, full, arguments)
            for decorator in decorators:
                made = decorator(made)
            setattr(cls, full, made)
    return cls


class decorateIf:
    """Decorates the cases of a test that a predicate picks."""

    def __init__(self, decorator: Any, predicate_fn: Callable[[dict[str, Any]], bool]) -> None:
        self.decorator, self.predicate = decorator, predicate_fn

    def __call__(self, test: Any) -> Any:
        @functools.wraps(test)
        def run(self_: Any, **kwargs: Any) -> Any:
            chosen = self.decorator(test) if self.predicate(kwargs) else test
            return chosen(self_, **kwargs)

        return run


# -- contexts ------------------------------------------------------------------------------------------------
def set_rng_seed(seed: int | None = None) -> None:
    """All random numbers start again."""
    seed = SEED if seed is None else seed
    weft.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed)


freeze_rng_state = preserve_rng_state


@contextlib.contextmanager
def set_default_dtype(dtype: Any, put: Callable[[Any], None] = weft.set_default_dtype) -> Iterator[None]:
    """Another default dtype for a while."""
    before = weft.get_default_dtype()
    put(dtype)
    try:
        yield
    finally:
        weft.set_default_dtype(before)


def set_default_tensor_type(kind: Any) -> Any:
    """Another default type of tensors for a while."""
    return set_default_dtype(kind, weft.set_default_tensor_type)


@contextlib.contextmanager
def TemporaryFileName(*args: Any, **kwargs: Any) -> Iterator[str]:
    """The name of a file that is gone afterwards."""
    kwargs.pop("delete", None)
    make: Any = tempfile.NamedTemporaryFile
    with make(*args, delete=False, **kwargs) as file:
        name = file.name
    try:
        yield name
    finally:
        os.unlink(name)


@contextlib.contextmanager
def TemporaryDirectoryName(suffix: str | None = None) -> Iterator[str]:
    """The name of a folder that is gone afterwards."""
    with tempfile.TemporaryDirectory(suffix=suffix) as name:
        yield name


@contextlib.contextmanager
def enable_profiling_mode(*_args: Any) -> Iterator[None]:
    """Scripted functions know their inputs from the first call on: nothing to change."""
    yield


enable_profiling_mode_for_profiling_tests = num_profiled_runs = enable_profiling_mode


class DeterministicGuard:
    """Deterministic algorithms for a while: all of Weft's are."""

    def __init__(self, deterministic: bool, **_options: Any) -> None:
        self.deterministic = deterministic

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_error: Any) -> None:
        return None


# -- values --------------------------------------------------------------------------------------------------
NOTEST_CPU = False


@contextlib.contextmanager
def set_warn_always_context(new_val: bool) -> Iterator[None]:
    """Warnings that come once come always, for a while."""
    before = weft.is_warn_always_enabled()
    weft.set_warn_always(new_val)
    try:
        yield
    finally:
        weft.set_warn_always(before)


@contextlib.contextmanager
def disable_gc() -> Iterator[None]:
    """No cycles are collected meanwhile."""
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()


class BytesIOContext(io.BytesIO):
    """Bytes in memory that outlive their `with`."""

    def __exit__(self, *_error: Any) -> None:
        return None


def munge_exc(
    e: Any, *, suppress_suffix: bool = True, suppress_prefix: bool = True, file: Any = None, skip: int = 0
) -> str:
    """The text of an error without what differs between machines: paths, lines and addresses."""
    if file is None:
        file = inspect.stack()[1 + skip].filename
    text = str(e).replace(file, os.path.basename(file))
    text = re.sub(rf"{re.escape(os.path.basename(file))}:\d+", f"{os.path.basename(file)}:N", text)
    text = re.sub(r'File "[^"]*[/\\\\]([^"/\\\\]+)", line \d+', r'File "\1", line N', text)
    return re.sub(r"0x[0-9a-f]+", "0xN", text)


numpy_to_torch_dtype_dict = {
    kind.numpy.type: kind for kind in vars(weft).values() if isinstance(kind, weft.dtype)
}
torch_to_numpy_dtype_dict = {kind: numpy for numpy, kind in numpy_to_torch_dtype_dict.items()}


def numpy_to_torch_dtype(kind: Any) -> Any:
    """Weft's dtype for NumPy's."""
    return numpy_to_torch_dtype_dict[np.dtype(kind).type]


def dtype_name(dtype: Any) -> str:
    """`float32` for `weft.float32`."""
    return str(dtype).split(".")[1]


def noncontiguous_like(t: Tensor) -> Tensor:
    """The same values in memory that has gaps."""
    if not t.is_contiguous():
        return t
    wide = weft.full((*t.shape, 2), math.nan if t.dtype.is_floating_point else 0, dtype=t.dtype)
    wide[..., 0] = t.detach()
    return wide[..., 0].requires_grad_(t.requires_grad)


def to_gpu(obj: Any, type_map: Any = None) -> Any:
    """The object itself: there is no GPU."""
    return obj


def is_iterable_of_tensors(iterable: Any, include_empty: bool = False) -> bool:
    """Whether all items are tensors."""
    if isinstance(iterable, Tensor) or not isinstance(iterable, Iterable):
        return False
    items = list(iterable)
    return include_empty if not items else all(isinstance(item, Tensor) for item in items)


def iter_indices(tensor: Tensor) -> Any:
    """All indices of a tensor."""
    return itertools.product(*map(range, tensor.shape))


def outs_and_grads(fn: Callable[..., Any], graph_inps: Any, inps: Any) -> tuple[Any, list[Any]]:
    """What the function gives, and the gradients of its inputs after a backward through all of it."""
    outs = fn(*graph_inps)
    every = outs if isinstance(outs, (list, tuple)) else [outs]
    for out in every:
        if isinstance(out, Tensor) and out.requires_grad:
            out.sum().backward(retain_graph=True)
    grads = [value.grad for value in inps if isinstance(value, Tensor)]
    for value in inps:
        if isinstance(value, Tensor):
            value.grad = None
    return outs, grads


def compare_equal_outs_and_grads(test: Any, m1: Any, m2: Any, inps: Any) -> None:
    """Both functions give the same results and gradients."""
    first, second = outs_and_grads(m1, inps, inps), outs_and_grads(m2, inps, inps)
    test.assertEqual(first[0], second[0])
    test.assertEqual(first[1], second[1])


def random_symmetric_matrix(size: int, *batch: int, dtype: Any = None, device: Any = "cpu") -> Tensor:
    """A symmetric matrix."""
    made = weft.randn(*batch, size, size, dtype=dtype, device=device)
    return (made + made.mT).div_(2)


def random_symmetric_pd_matrix(size: int, *batch: int, dtype: Any = None, device: Any = "cpu") -> Tensor:
    """A symmetric matrix with positive eigenvalues."""
    made = weft.randn(*batch, size, size, dtype=dtype, device=device)
    return made @ made.mT + weft.eye(size, dtype=dtype, device=device) * 1e-3


def load_tests(_loader: Any, tests: Any, _pattern: Any) -> Any:
    """All tests."""
    return tests


class NoTest(unittest.TestCase):
    """A class without tests."""
