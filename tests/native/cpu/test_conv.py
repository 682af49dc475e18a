"""Convolutions in native programs: values and gradients against eager's, over geometries of every kind."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import example, given, settings

import weft
import weft.nn.functional as F
from tests.native.whole import same
from weft.core.threads import available
from weft.native.cpu import conv_tables, pool

TOLERANCE = {weft.float32: 2e-4, weft.float64: 1e-10}
FUNCTIONS = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
TRANSPOSED = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}


def check(function: Any, x: Any, w: Any, bias: bool, outputs: int, dtype: Any, **geometry: Any) -> list[Any]:
    weft.manual_seed(0)
    inputs = [weft.randn(*x, dtype=dtype), weft.randn(*w, dtype=dtype)]
    if bias:
        inputs.append(weft.randn(outputs, dtype=dtype))

    def run(x: Any, w: Any, b: Any = None) -> Any:
        return function(x, w, b, **geometry)

    size = max(float(np.prod(w[1:])), float(np.prod(x)) / max(x[1], 1), 1.0)
    return same(run, inputs, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype] * size**0.5, native=0 not in x)


CASES: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "one channel": ((4, 1, 28, 28), (16, 1, 5, 5), {"padding": 2}),
    "many channels": ((2, 16, 14, 14), (32, 16, 3, 3), {"padding": 1}),
    "rows of whole vectors": ((2, 3, 5, 32), (9, 3, 3, 3), {"padding": 1}),
    "rows that run on": ((3, 5, 7, 7), (6, 5, 3, 3), {"padding": 1}),
    "lanes of channels": ((3, 5, 7, 7), (64, 5, 3, 3), {"padding": 1}),
    "lanes of channels, a stride": ((3, 32, 13, 13), (32, 32, 3, 3), {"padding": 1, "stride": 2}),
    "many weights": ((2, 120, 5, 6), (130, 120, 3, 3), {"padding": 1}),
    "no padding": ((2, 3, 9, 8), (4, 3, 2, 4), {}),
    "a stride": ((2, 3, 11, 13), (5, 3, 3, 3), {"stride": 2, "padding": 1}),
    "a stride larger than the kernel": ((2, 3, 11, 13), (5, 3, 2, 1), {"stride": 3}),
    "two strides": ((2, 3, 11, 13), (5, 3, 3, 2), {"stride": (1, 3), "padding": (0, 1)}),
    "dilation": ((2, 3, 12, 17), (5, 3, 3, 3), {"dilation": (2, 3), "padding": 2}),
    "dilation and stride": ((2, 3, 12, 17), (5, 3, 3, 3), {"dilation": (3, 2), "stride": 2, "padding": 3}),
    "groups": ((2, 6, 8, 9), (9, 2, 3, 3), {"groups": 3, "padding": 1}),
    "depthwise": ((2, 7, 8, 9), (7, 1, 3, 3), {"groups": 7, "padding": 1}),
    "depthwise, more of each": ((2, 4, 8, 9), (8, 1, 3, 3), {"groups": 4}),
    "a line": ((3, 4, 33), (5, 4, 3), {"padding": 1}),
    "a long line": ((1, 2, 300), (3, 2, 7), {"stride": 2, "padding": 3}),
    "a space": ((2, 3, 4, 5, 6), (4, 3, 2, 3, 2), {"padding": 1, "stride": (1, 2, 1)}),
    "one tap": ((3, 5, 6, 7), (4, 5, 1, 1), {}),
    "one tap, one example": ((1, 5, 6, 7), (4, 5, 1, 1), {}),
    "one tap with a stride": ((3, 5, 6, 7), (4, 5, 1, 1), {"stride": 2}),
    "one tap in groups": ((3, 6, 6, 7), (4, 3, 1, 1), {"groups": 2}),
    "one place": ((2, 3, 1, 1), (4, 3, 1, 1), {}),
    "the whole at once": ((2, 3, 4, 5), (4, 3, 4, 5), {}),
    "no examples": ((0, 3, 4, 5), (4, 3, 3, 3), {"padding": 1}),
}


@pytest.mark.parametrize("dtype", [weft.float32, weft.float64])
@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(name: str, dtype: Any) -> None:
    x, w, geometry = CASES[name]
    check(FUNCTIONS[len(x) - 2], x, w, "groups" not in name, w[0], dtype, **geometry)


TURNED: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "plain": ((2, 3, 6, 7), (3, 5, 3, 3), {}),
    "a stride": ((2, 3, 6, 7), (3, 5, 3, 3), {"stride": 2, "padding": 1, "output_padding": 1}),
    "groups and dilation": ((2, 4, 6, 5), (4, 3, 3, 2), {"groups": 2, "dilation": 2, "stride": (3, 1)}),
    "a line": ((2, 3, 9), (3, 4, 4), {"stride": 2, "padding": 1}),
    "one tap": ((2, 3, 4, 5), (3, 4, 1, 1), {}),
    "a stride larger than the kernel": ((2, 3, 4, 5), (3, 4, 2, 2), {"stride": 3}),
}


@pytest.mark.parametrize("dtype", [weft.float32, weft.float64])
@pytest.mark.parametrize("name", TURNED)
def test_transposed(name: str, dtype: Any) -> None:
    x, w, geometry = TURNED[name]
    check(TRANSPOSED[len(x) - 2], x, w, True, w[1] * geometry.get("groups", 1), dtype, **geometry)


@st.composite
def geometries(draw: Any) -> tuple[Any, ...]:
    axes = draw(st.integers(1, 3))
    small = st.integers(1, 3)
    groups = draw(small)
    taps = [draw(st.integers(1, 4)) for _ in range(axes)]
    stride, dilation = [draw(small) for _ in range(axes)], [draw(small) for _ in range(axes)]
    padding = [draw(st.integers(0, 3)) for _ in range(axes)]
    most = 40 if axes == 1 else 20 if axes == 2 else 6
    sizes = []
    for tap, gap, pad in zip(taps, dilation, padding):
        least = max(gap * (tap - 1) + 1 - 2 * pad, 1)
        sizes.append(draw(st.integers(least, least + most)))
    channels, outputs = draw(small), draw(st.integers(1, 9))
    x = (draw(st.integers(0, 3)), groups * channels, *sizes)
    return x, (groups * outputs, channels, *taps), stride, padding, dilation, groups


@settings(max_examples=25)
@given(geometries(), st.booleans(), st.sampled_from([weft.float32, weft.float64]))
@example(((1, 1, 1), (1, 1, 1), [1], [0], [1], 1), True, weft.float32)
def test_any_geometry(geometry: Any, bias: bool, dtype: Any) -> None:
    x, w, stride, padding, dilation, groups = geometry
    check(
        FUNCTIONS[len(x) - 2], x, w, bias, w[0], dtype,
        stride=stride, padding=padding, dilation=dilation, groups=groups,
    )  # fmt: skip


def test_layouts_of_every_kind() -> None:
    x, w = weft.randn(5, 9, 8, 2), weft.randn(3, 4, 3, 5)

    def run(x: Any, w: Any) -> Any:
        return F.conv2d(x.permute(3, 2, 0, 1)[:, ::2], w.transpose(0, 3), padding="same")

    same(run, [x, w], native=False)


@pytest.mark.filterwarnings("ignore:Using padding='same'")
def test_padding_that_is_uneven() -> None:
    check(F.conv2d, (2, 3, 6, 7), (4, 3, 2, 4), True, 4, weft.float32, padding="same")


def test_second_order() -> None:
    x, w = weft.randn(2, 3, 6, 7, dtype=weft.float64), weft.randn(4, 3, 3, 3, dtype=weft.float64)

    def run(x: Any, w: Any) -> Any:
        y = F.conv2d(x, w, stride=2, padding=1)
        (grad,) = weft.autograd.grad((y * y * y).sum(), [x], create_graph=True)
        return grad

    same(run, [x, w], rtol=1e-9, atol=1e-9, native=False)


def test_values_that_are_not_finite_stay_where_they_are() -> None:
    x = weft.ones(1, 1, 8, 20)
    x[0, 0, 3, 19] = float("inf")
    x[0, 0, 5, 0] = float("nan")
    w = weft.ones(1, 1, 3, 3)
    compiled = weft.compile(lambda x, w: F.conv2d(x, w, padding=1), backend="native", fullgraph=True)
    assert np.array_equal(compiled(x, w).numpy(), F.conv2d(x, w, padding=1).numpy(), equal_nan=True)
    g = weft.zeros(1, 1, 8, 20)
    g[0, 0, 0, 5] = 1.0  # nowhere near: zero times them counts, but not what lies beyond the ends of rows
    grads = []
    for function in (compiled, lambda x, w: F.conv2d(x, w, padding=1)):
        given_weight = w.clone().requires_grad_()
        function(x, given_weight).backward(g)
        grads.append(given_weight.grad.numpy())
    assert np.array_equal(*grads, equal_nan=True)


@pytest.mark.skipif(available() < 2, reason="one processor")
@pytest.mark.parametrize("sizes", [(16, 16, 28, 32), (5, 120, 6, 130)], ids=["examples", "shares of entries"])
def test_the_bits_do_not_depend_on_threads(sizes: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    examples, taken, side, outputs = sizes
    shapes = (examples, taken, side, side), (outputs, taken, 3, 3), (outputs,)
    inputs = [weft.randn(*shape) for shape in shapes]
    found = []
    for threads in (1, 2):
        fresh = pool.Pool(threads)
        monkeypatch.setattr(pool, "_pool", [fresh])

        def run(x: Any, w: Any, b: Any) -> Any:
            return F.conv2d(x, w, b, padding=1)

        given = [each.clone().requires_grad_() for each in inputs]
        value = weft.compile(run, backend="native", fullgraph=True)(*given)
        (value * value).sum().backward()
        found.append([value.detach().numpy(), *[each.grad.numpy() for each in given]])
        fresh.close()
    for one, two in zip(*found, strict=True):
        assert np.array_equal(one, two)


@pytest.mark.parametrize("outputs", [20, 130], ids=["examples", "shares of entries"])
def test_the_bits_of_open_batches_are_those_of_single_ones(outputs: int) -> None:
    w = weft.randn(outputs, 120, 3, 3)

    def run(x: Any) -> Any:
        return weft.autograd.grad(F.conv2d(x, w, padding=1).square().sum(), w)[0]

    w.requires_grad_()
    compiled = weft.compile(run, backend="native", fullgraph=True)
    for size in (3, 5, 9, 2):
        x = weft.randn(size, 120, 4, 6)
        alone = weft.compile(lambda x: run(x), backend="native", fullgraph=True, dynamic=False)
        assert np.array_equal(compiled(x).numpy(), alone(x).numpy())


def test_vectors_cover_each_pixel_once() -> None:
    for counts, pitch in (((1, 7, 7), (81, 9, 1)), ((1, 3, 32), (0, 34, 1)), ((2, 3, 5), (42, 7, 1))):
        moves = (counts[1] * counts[2], counts[2], 1)
        seen: list[int] = []
        for start, segments in conv_tables.vectors_of(counts, 0, pitch, 0, moves, 16):
            for place, mask in segments:
                for lane in range(16):
                    if mask >> lane & 1:
                        d, rest = divmod(place + lane, moves[0])
                        h, w = divmod(rest, moves[1])
                        assert start + lane == d * pitch[0] + h * pitch[1] + w
                        seen.append(place + lane)
        assert sorted(seen) == list(range(counts[0] * counts[1] * counts[2]))
