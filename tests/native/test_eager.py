"""Eager ops on large arrays: native kernels give what array kernels give."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from weft.core.seams import seams
from weft.core.varying import ENOUGH
from weft.native import eager
from weft.ops.native_above import FEW, NAMES
from weft.ops.record import REGISTRY as BY_QUALIFIED_NAME

REGISTRY = {op.name: op for op in BY_QUALIFIED_NAME.values() if op.kernel is not None}
SIZE = FEW + 8
GENERATOR = np.random.default_rng(3)


def array(kind: Any = np.float32, *shape: int) -> Any:
    return GENERATOR.standard_normal(shape or (SIZE,)).astype(kind)


def wide(kind: Any) -> Any:
    return array(kind, 300, 120)


ARGUMENTS: dict[str, Any] = {
    "addcmul": lambda kind: (array(kind), array(kind), array(kind), 0.5),
    "addcdiv": lambda kind: (array(kind), array(kind), array(kind), 0.5),
    "lerp": lambda kind: (array(kind), array(kind), array(kind)),
    "logaddexp": lambda kind: (array(kind), array(kind)),
    "tanh_backward": lambda kind: (array(kind), array(kind)),
    "sigmoid_backward": lambda kind: (array(kind), array(kind)),
    "gelu_backward": lambda kind: (array(kind), array(kind)),
    "gelu": lambda kind: (array(kind), "none"),
    "softmax": lambda kind: (wide(kind), 1, None),
    "log_softmax": lambda kind: (wide(kind), -1, None),
}


@pytest.fixture(autouse=True)
def native() -> Any:
    before, seams.native_kernel = seams.native_kernel, eager.native_kernel
    yield
    seams.native_kernel = before


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("name", [*ARGUMENTS, "sigmoid", "silu", "mish", "erf", "erfc", "logsigmoid"])
def test_as_array_kernels(name: str, kind: Any) -> None:
    op = REGISTRY[name]
    bound = ARGUMENTS[name](kind) if name in ARGUMENTS else (array(kind),)
    bound = op.signature.bind(bound, {})
    found = eager.native_kernel(op, bound)
    assert found is not None
    seams.native_kernel = None
    expected = op.on_arrays(bound)
    assert found.dtype == expected.dtype and found.strides == expected.strides
    np.testing.assert_allclose(found, expected, rtol=2e-5 if kind is np.float32 else 1e-12, atol=1e-6)


def test_kernels_hand_over() -> None:
    seen = []

    def noting(op: Any, bound: Any) -> Any:
        seen.append(op.name)
        return eager.native_kernel(op, bound)

    seams.native_kernel = noting
    sigmoid = REGISTRY["sigmoid"]
    sigmoid.kernel(array())  # type: ignore[misc]
    sigmoid.kernel(array(np.float32, 100))  # type: ignore[misc]
    assert seen == ["sigmoid"]


def test_what_is_left_to_array_kernels() -> None:
    sigmoid = REGISTRY["sigmoid"]
    assert eager.native_kernel(sigmoid, (wide(np.float32).T,)) is None
    assert eager.native_kernel(sigmoid, (array()[::2],)) is None
    assert eager.native_kernel(sigmoid, (array().astype(np.complex64),)) is None
    assert eager.native_kernel(REGISTRY["softmax"], (wide(np.float32), 7, None)) is None
    halves = array(np.float16)
    found = eager.native_kernel(sigmoid, (halves,))
    assert found is None or found.dtype == np.float16


def test_floats_are_inputs() -> None:
    op = REGISTRY["elu"]
    x = array()
    before = len(eager._programs)
    for alpha in (0.5, 1.5, 2.5):
        bound = op.signature.bind((x, alpha), {})
        found = eager.native_kernel(op, bound)
        if found is not None:
            seams.native_kernel = None
            np.testing.assert_allclose(found, op.on_arrays(bound), rtol=1e-5, atol=1e-6)
            seams.native_kernel = eager.native_kernel
    assert len(eager._programs) <= before + 1


def test_names_are_ops() -> None:
    assert all(REGISTRY[name].kernel is not None for name in NAMES)


def test_numbers_that_vary_are_left_to_array_kernels() -> None:
    op = REGISTRY["addcmul"]
    x = array()
    eager._builds.pop(op, None)
    before = len(eager._programs)
    for factor in range(102, 130):
        found = eager.native_kernel(op, op.signature.bind((x, x, x, factor), {}))
        assert (found is None) is (factor >= 102 + ENOUGH)
    assert len(eager._programs) == before + ENOUGH
    eager._builds.pop(op, None)


def test_threads_that_come_first_at_once_are_no_numbers_that_vary(monkeypatch: pytest.MonkeyPatch) -> None:
    op = REGISTRY["addcmul"]
    x = array()
    eager._builds.pop(op, None)
    together, made = threading.Barrier(8), eager.kept_or_made

    def slowly(*args: Any) -> Any:
        time.sleep(0.05)
        return made(*args)

    def call(_: int) -> Any:
        together.wait()
        return eager.native_kernel(op, op.signature.bind((x, x, x, 77), {}))

    monkeypatch.setattr(eager, "kept_or_made", slowly)
    with ThreadPoolExecutor(8) as threads:
        assert all(found is not None for found in threads.map(call, range(8)))
    assert sum(map(len, eager._builds[op]._made.values())) == 1
    eager._builds.pop(op, None)


DEPTHWISE: tuple[Any, ...] = ((2, 1), (1, 1), (1, 1), 16)
LEFT, TABLE = (4, 16, 32, 33), (16, 1, 3, 3)


@pytest.mark.parametrize("expanded", [False, True])
@pytest.mark.parametrize("name", ["convolution", "convolution_input", "convolution_weight"])
def test_grouped_convolutions_are_native(name: str, expanded: bool) -> None:
    op = REGISTRY[name]
    x, w = array(np.float32, *LEFT), array(np.float32, *TABLE)
    out = BY_QUALIFIED_NAME["convolution"].on_arrays((x, w, None, *DEPTHWISE[:3], False, (0, 0), 16))
    g = (
        np.broadcast_to(np.float32(0.5), (8, *out.shape[1:]))
        if expanded
        else array(np.float32, 8, *out.shape[1:])
    )
    x = array(np.float32, 8, *LEFT[1:])
    bound = {
        "convolution": (x, w, None, *DEPTHWISE[:3], False, (0, 0), 16),
        "convolution_input": (g, w, x.shape, (2, 1), ((1, 1), (1, 1)), (1, 1), 16),
        "convolution_weight": (g, x, w.shape, (2, 1), ((1, 1), (1, 1)), (1, 1), 16),
    }[name]
    found = eager.native_kernel(op, bound)
    assert found is not None
    seams.native_kernel = None
    expected = op.on_arrays(bound)
    assert found.dtype == expected.dtype and found.strides == expected.strides
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-3)


def test_layouts_that_keep_changing_are_left_to_array_kernels() -> None:
    op = REGISTRY["mish"]
    eager._builds.pop(op, None)
    made = [
        eager.native_kernel(op, op.signature.bind((array(np.float32, SIZE + 1000 + n),), {}))
        for n in range(20)
    ]
    assert [each is not None for each in made] == [n < ENOUGH for n in range(20)]
    eager._builds.pop(op, None)


def test_native_kernels_need_no_compiled_function() -> None:
    code = """
import sys
import weft
x = weft.randn(300, 300)
assert "weft.native" not in sys.modules
weft.sigmoid(x)
from weft.native import eager
assert [str(key[0]) for key in eager._programs] == ["<op sigmoid>"]
assert "weft.compiler" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)
