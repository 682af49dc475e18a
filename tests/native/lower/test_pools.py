"""Pools in native programs: values, places and gradients against eager's."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import weft
import weft.nn.functional as F
from tests.native.whole import same

TOLERANCE = {weft.float32: 1e-5, weft.float64: 1e-12}
MAXIMA = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
AVERAGES = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}
ADAPTIVE = {1: F.adaptive_avg_pool1d, 2: F.adaptive_avg_pool2d, 3: F.adaptive_avg_pool3d}

MAX_CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    "halves": ((4, 3, 28, 28), {"kernel_size": 2}),
    "an odd size": ((2, 3, 9, 15), {"kernel_size": 2}),
    "more than a vector": ((2, 3, 6, 75), {"kernel_size": 2}),
    "overlapping": ((2, 3, 9, 40), {"kernel_size": 3, "stride": 2, "padding": 1}),
    "a stride of one": ((2, 3, 9, 20), {"kernel_size": 3, "stride": 1, "padding": 1}),
    "a stride of three": ((2, 3, 9, 70), {"kernel_size": (2, 4), "stride": (2, 3), "padding": (1, 2)}),
    "dilation": ((2, 3, 12, 13), {"kernel_size": 3, "stride": 2, "dilation": 2, "padding": 1}),
    "hanging over": ((2, 3, 8, 9), {"kernel_size": 3, "stride": 2, "ceil_mode": True}),
    "one example": ((3, 8, 9), {"kernel_size": 2}),
    "a line": ((2, 3, 50), {"kernel_size": 3, "stride": 2}),
    "a space": ((2, 3, 4, 6, 7), {"kernel_size": 2, "padding": 1}),
}


@pytest.mark.parametrize("dtype", [weft.float32, weft.float64])
@pytest.mark.parametrize("name", MAX_CASES)
def test_maxima(name: str, dtype: Any) -> None:
    shape, geometry = MAX_CASES[name]
    axes = len(shape) - (1 if name == "one example" else 2)
    weft.manual_seed(0)
    x = weft.randn(*shape, dtype=dtype)
    same(lambda x: MAXIMA[axes](x, **geometry), [x], TOLERANCE[dtype], TOLERANCE[dtype])
    places = weft.compile(
        lambda x: MAXIMA[axes](x, return_indices=True, **geometry), backend="native", fullgraph=True
    )
    wanted = MAXIMA[axes](x, return_indices=True, **geometry)
    assert places(x)[1].tolist() == wanted[1].tolist()


def test_maxima_of_what_is_equal_or_no_number() -> None:
    rng = np.random.default_rng(0)
    array = rng.integers(0, 3, (2, 2, 12, 40)).astype(np.float32)
    array[rng.random(array.shape) < 0.1] = np.nan
    array[rng.random(array.shape) < 0.3] = -np.inf
    x = weft.tensor(array)
    for geometry in ({"kernel_size": 2}, {"kernel_size": 3, "stride": 1, "padding": 1}):

        def run(x: Any, geometry: Any = geometry) -> Any:
            return F.max_pool2d(x, return_indices=True, **geometry)

        found, wanted = weft.compile(run, backend="native", fullgraph=True)(x), run(x)
        assert np.array_equal(found[0].numpy(), wanted[0].numpy(), equal_nan=True)
        assert found[1].tolist() == wanted[1].tolist()


AVERAGE_CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    "halves": ((4, 3, 28, 28), {"kernel_size": 2}),
    "an odd size": ((2, 3, 9, 15), {"kernel_size": 2}),
    "overlapping": ((2, 3, 9, 40), {"kernel_size": 3, "stride": 2, "padding": 1}),
    "without padding": ((2, 3, 9, 20), {"kernel_size": 3, "padding": 1, "count_include_pad": False}),
    "hanging over": ((2, 3, 8, 9), {"kernel_size": 3, "stride": 2, "ceil_mode": True}),
    "another divisor": ((2, 3, 8, 9), {"kernel_size": 3, "divisor_override": 5}),
    "the whole": ((2, 3, 8, 9), {"kernel_size": (8, 9)}),
    "a line": ((2, 3, 50), {"kernel_size": 3, "stride": 2, "padding": 1}),
    "a space": ((2, 3, 4, 6, 7), {"kernel_size": 2, "padding": 1}),
}


@pytest.mark.parametrize("dtype", [weft.float32, weft.float64])
@pytest.mark.parametrize("name", AVERAGE_CASES)
def test_averages(name: str, dtype: Any) -> None:
    shape, geometry = AVERAGE_CASES[name]
    weft.manual_seed(0)
    x = weft.randn(*shape, dtype=dtype)
    same(lambda x: AVERAGES[len(shape) - 2](x, **geometry), [x], TOLERANCE[dtype], TOLERANCE[dtype])


@pytest.mark.parametrize(("shape", "size"), [
    ((2, 3, 8, 9), (4, 3)), ((2, 3, 8, 9), 1), ((2, 3, 8), 2), ((3, 8, 9), (8, 9)),
    ((2, 3, 4, 6, 2), (2, 3, 1)),
])  # fmt: skip
def test_adaptive_averages(shape: Any, size: Any) -> None:
    axes = 2 if len(shape) == 3 and not isinstance(size, int) else len(shape) - 2
    same(lambda x: ADAPTIVE[axes](x, size), [weft.randn(*shape)], 1e-5, 1e-5)


@settings(max_examples=15)
@given(
    st.integers(1, 4),
    st.integers(1, 3),
    st.integers(0, 2),
    st.integers(1, 2),
    st.integers(1, 40),
    st.booleans(),
)
def test_any_line(taps: int, stride: int, padding: int, dilation: int, extra: int, ceil: bool) -> None:
    padding = min(padding, taps // 2)
    weft.manual_seed(0)
    x = weft.randn(2, 2, dilation * (taps - 1) + extra)

    def run(x: Any) -> Any:
        return F.max_pool1d(x, taps, stride, padding, dilation, ceil), F.avg_pool1d(x, taps, stride, padding)

    same(run, [x], 1e-5, 1e-5)


def test_layouts_of_every_kind() -> None:
    x = weft.randn(9, 2, 3, 8)

    def run(x: Any) -> Any:
        turned = x.permute(1, 2, 3, 0)
        return F.max_pool2d(turned, 2), F.avg_pool2d(turned, 2), F.max_pool2d(x.transpose(0, 3).relu(), 2)

    same(run, [x])


@pytest.mark.parametrize("backend", [None, "native"])
@pytest.mark.parametrize("kind", [weft.float32, weft.float64, weft.bfloat16])
def test_averages_of_negative_zeros_have_no_sign(kind, backend):
    def averages(x):
        return F.avg_pool2d(x, 2), F.avg_pool2d(x, 1), *[F.adaptive_avg_pool2d(x, n) for n in (1, 2, 3, 4)]

    called = averages if backend is None else weft.compile(averages, backend=backend)
    for found in called(-weft.zeros(1, 1, 4, 4, dtype=kind)):
        assert not found.signbit().any()
