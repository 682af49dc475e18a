"""Eager ops on large arrays: native kernels give what array kernels give."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from weft.core.seams import seams
from weft.native import eager
from weft.ops.large import FEW, NAMES
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
    before, seams.large = seams.large, eager.large
    yield
    seams.large = before


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("name", [*ARGUMENTS, "sigmoid", "silu", "mish", "erf", "erfc", "logsigmoid"])
def test_as_array_kernels(name: str, kind: Any) -> None:
    op = REGISTRY[name]
    bound = ARGUMENTS[name](kind) if name in ARGUMENTS else (array(kind),)
    bound = op.signature.bind(bound, {})
    found = eager.large(op, bound)
    assert found is not None
    seams.large = None
    expected = op.on_arrays(bound)
    assert found.dtype == expected.dtype and found.strides == expected.strides
    np.testing.assert_allclose(found, expected, rtol=2e-5 if kind is np.float32 else 1e-12, atol=1e-6)


def test_kernels_hand_over() -> None:
    seen = []

    def noting(op: Any, bound: Any) -> Any:
        seen.append(op.name)
        return eager.large(op, bound)

    seams.large = noting
    sigmoid = REGISTRY["sigmoid"]
    sigmoid.kernel(array())  # type: ignore[misc]
    sigmoid.kernel(array(np.float32, 100))  # type: ignore[misc]
    assert seen == ["sigmoid"]


def test_what_is_left_to_array_kernels() -> None:
    sigmoid = REGISTRY["sigmoid"]
    assert eager.large(sigmoid, (wide(np.float32).T,)) is None
    assert eager.large(sigmoid, (array()[::2],)) is None
    assert eager.large(sigmoid, (array().astype(np.complex64),)) is None
    assert eager.large(REGISTRY["softmax"], (wide(np.float32), 7, None)) is None
    halves = array(np.float16)
    found = eager.large(sigmoid, (halves,))
    assert found is None or found.dtype == np.float16


def test_floats_are_inputs() -> None:
    op = REGISTRY["elu"]
    x = array()
    before = len(eager._programs)
    for alpha in (0.5, 1.5, 2.5):
        bound = op.signature.bind((x, alpha), {})
        found = eager.large(op, bound)
        if found is not None:
            seams.large = None
            np.testing.assert_allclose(found, op.on_arrays(bound), rtol=1e-5, atol=1e-6)
            seams.large = eager.large
    assert len(eager._programs) <= before + 1


def test_names_are_ops() -> None:
    assert all(REGISTRY[name].kernel is not None for name in NAMES)
