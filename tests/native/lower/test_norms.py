"""Norms over channels in native programs: values, statistics and gradients against eager's."""

from __future__ import annotations

from typing import Any

import pytest

import weft
import weft.nn.functional as F
from tests.native.whole import programs, same
from weft.testing import assert_close

TOLERANCE = {weft.float32: 1e-4, weft.float64: 1e-11}


@pytest.mark.parametrize("dtype", [weft.float32, weft.float64])
@pytest.mark.parametrize("shape", [(5, 3), (4, 3, 7), (4, 3, 6, 20), (2, 3, 3, 4, 5), (1, 2, 6, 20)])
@pytest.mark.parametrize("training", [True, False])
def test_batch_norm(shape: Any, dtype: Any, training: bool) -> None:
    parameters = [weft.randn(shape[1], dtype=dtype) for _ in range(2)]
    middle, spread = weft.randn(shape[1], dtype=dtype), weft.rand(shape[1], dtype=dtype) + 0.5

    def run(x: Any, weight: Any, bias: Any) -> Any:
        statistics = (None, None) if training else (middle, spread)
        return F.batch_norm(x * 2, *statistics, weight, bias, training).relu()

    tolerance = TOLERANCE[dtype]
    same(run, [weft.randn(*shape, dtype=dtype), *parameters], tolerance, tolerance)


def test_running_statistics() -> None:
    x = weft.randn(4, 3, 5, 6) * 3 + 1
    found = []
    for compiled in (False, True):
        layer = weft.nn.BatchNorm2d(3)
        run = weft.compile(layer, backend="native") if compiled else layer
        with programs():
            for _ in range(3):
                run(x)
        found.append([layer.running_mean, layer.running_var])
    assert_close(found[1], found[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("shape", [(4, 6, 5, 7), (3, 4), (2, 6, 9)])
def test_group_norm(shape: Any) -> None:
    parameters = [weft.randn(shape[1]) for _ in range(2)]
    same(lambda x, w, b: F.group_norm(x, 2, w, b), [weft.randn(*shape), *parameters])
