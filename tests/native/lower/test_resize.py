"""Resizing and adaptive averages in native programs, against eager's."""

from __future__ import annotations

from typing import Any

import pytest

import weft
import weft.nn.functional as F
from tests.native.whole import same

TOLERANCE = {weft.float32: 1e-5, weft.float64: 1e-12}
CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    "nearest": ((2, 3, 6, 20), {"scale_factor": 2}),
    "nearest, smaller": ((2, 3, 9, 21), {"size": (4, 7)}),
    "nearest-exact": ((2, 3, 9, 21), {"size": (12, 40), "mode": "nearest-exact"}),
    "a line": ((2, 3, 20), {"size": 33, "mode": "linear"}),
    "bilinear": ((2, 3, 6, 7), {"scale_factor": 2, "mode": "bilinear"}),
    "bilinear, corners": ((2, 3, 6, 7), {"size": (9, 20), "mode": "bilinear", "align_corners": True}),
    "bicubic": ((2, 3, 6, 7), {"size": (9, 20), "mode": "bicubic"}),
    "trilinear": ((1, 2, 4, 5, 6), {"size": (5, 3, 9), "mode": "trilinear"}),
    "antialiased": ((2, 3, 16, 17), {"size": (7, 20), "mode": "bilinear", "antialias": True}),
    "the same size": ((2, 3, 6, 7), {"size": (6, 7), "mode": "bilinear"}),
    "areas": ((2, 3, 6, 7), {"size": (4, 3), "mode": "area"}),
}


@pytest.mark.parametrize("dtype", [weft.float32, weft.float64])
@pytest.mark.parametrize("name", CASES)
def test_resizing(name: str, dtype: Any) -> None:
    shape, arguments = CASES[name]
    weft.manual_seed(0)
    x = weft.randn(*shape, dtype=dtype)
    same(lambda x: F.interpolate(x, **arguments), [x], TOLERANCE[dtype], TOLERANCE[dtype])


@pytest.mark.parametrize(("shape", "size"), [
    ((2, 3, 8, 9), (3, 4)), ((2, 3, 8, 9), (8, 4)), ((2, 3, 5), 3), ((3, 8, 9), (9, 20)),
    ((2, 3, 4, 6, 5), 2),
])  # fmt: skip
def test_adaptive_averages_of_several_sizes(shape: Any, size: Any) -> None:
    functions = {1: F.adaptive_avg_pool1d, 2: F.adaptive_avg_pool2d, 3: F.adaptive_avg_pool3d}
    axes = 2 if len(shape) == 3 and not isinstance(size, int) else len(shape) - 2
    weft.manual_seed(0)
    same(lambda x: functions[axes](x, size), [weft.randn(*shape)], 1e-5, 1e-5)


def test_what_no_result_reads_may_be_anything() -> None:
    x = weft.ones(1, 1, 4, 40)
    x[0, 0, 1, 3] = float("inf")
    x[0, 0, 2, 20] = float("nan")

    def run(x: Any) -> Any:
        return F.interpolate(x, size=(3, 7), mode="bilinear"), F.adaptive_avg_pool2d(x, (3, 7))

    found = weft.compile(run, backend="native", fullgraph=True)(x)
    for one, other in zip(found, run(x), strict=True):
        assert (one.isnan() == other.isnan()).all() and (one.isinf() == other.isinf()).all()
