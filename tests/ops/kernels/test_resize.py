"""Resizing kernels against interpolation by definition, as transposes, and against torch where it is."""

from __future__ import annotations

import itertools
import math
from typing import Any
from unittest import mock

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.ops.kernels import resize

MODES = ("nearest", "nearest-exact", "linear", "bicubic", "area")
axis_sizes = st.tuples(st.integers(1, 6), st.integers(1, 9))


def kernel_weight(mode: str, distance: float) -> float:
    """The interpolation kernel of a mode, at a distance in input pixels."""
    t = abs(distance)
    if mode == "linear":
        return max(0.0, 1.0 - t)
    if t <= 1.0:
        return 1.25 * t**3 - 2.25 * t**2 + 1.0
    return -0.75 * t**3 + 3.75 * t**2 - 6.0 * t + 3.0 if t < 2.0 else 0.0


def resample(x: Any, axis: int, want: int, mode: str, align_corners: bool) -> Any:
    """One axis by the definition: weights of the kernel around each position, edges repeated."""
    have = x.shape[axis]
    lines = np.moveaxis(x, axis, 0)
    out = np.zeros((want, *lines.shape[1:]))
    for place in range(want):
        if align_corners:
            position = place * (have - 1) / (want - 1) if want > 1 else 0.0
        else:
            position = (place + 0.5) * have / want - 0.5
        middle = math.floor(position)
        for source in range(middle - 2, middle + 4):
            weight = kernel_weight(mode, position - source)
            out[place] += weight * lines[min(max(source, 0), have - 1)]
    return np.moveaxis(out, 0, axis)


@settings(deadline=None, max_examples=80)
@given(axis_sizes, axis_sizes, st.sampled_from(["linear", "bicubic"]), st.booleans())
def test_smooth_modes_by_definition(first: Any, second: Any, mode: str, align_corners: bool) -> None:
    x = np.random.default_rng(0).standard_normal((2, first[0], second[0]))
    expected = resample(resample(x, 1, first[1], mode, align_corners), 2, second[1], mode, align_corners)
    out = resize.interpolate(x, (first[1], second[1]), mode, align_corners)
    np.testing.assert_allclose(out, expected, atol=1e-12)


@settings(deadline=None, max_examples=120)
@given(
    st.lists(axis_sizes, min_size=1, max_size=3),
    st.sampled_from(MODES),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
def test_backward_is_the_transpose(
    pairs: Any, mode: str, align_corners: bool, antialias: bool, factors: bool
) -> None:
    rng = np.random.default_rng(0)
    have, want = tuple(pair[0] for pair in pairs), tuple(pair[1] for pair in pairs)
    scales = [(pair[1] + 0.3) / pair[0] for pair in pairs] if factors else None
    options = (mode, align_corners, scales, antialias)
    x = rng.standard_normal((2, *have))
    before = x.copy()
    out = resize.interpolate(x, want, *options)
    assert out.shape == (2, *want)
    assert not np.shares_memory(out, x)
    g = rng.standard_normal(out.shape)
    back = resize.interpolate_backward(g, have, *options)
    assert back.shape == x.shape
    np.testing.assert_allclose((back * x).sum(), (out * g).sum(), atol=1e-11)
    np.testing.assert_array_equal(x, before)


@given(st.integers(1, 9), st.integers(1, 20))
def test_constants_stay_constant(have: int, want: int) -> None:
    for mode, antialias in itertools.product(MODES, (False, True)):
        out = resize.interpolate(np.full((1, have), 3.0), (want,), mode, antialias=antialias)
        np.testing.assert_allclose(out, 3.0, rtol=1e-12)


def test_nearest_and_nearest_exact_differ_by_half_a_pixel() -> None:
    x = np.arange(5)[None]
    assert resize.interpolate(x, (3,)).tolist() == [[0, 1, 3]]
    assert resize.interpolate(x, (3,), "nearest-exact").tolist() == [[0, 2, 4]]


def test_given_scale_replaces_the_ratio() -> None:
    x = np.arange(4.0)[None]
    assert resize.output_size((4,), (1.7,)) == (6,)
    by_size = resize.interpolate(x, (6,), "linear")
    by_scale = resize.interpolate(x, (6,), "linear", scales=(1.7,))
    assert not np.allclose(by_size, by_scale)
    np.testing.assert_allclose(by_scale[0, 2], 2.5 / 1.7 - 0.5)


def test_bytes_are_rounded_and_clipped() -> None:
    x = np.array([[0, 255, 0, 255]], np.uint8)
    out = resize.interpolate(x, (9,), "bicubic")
    assert out.dtype == np.uint8
    exact = resize.interpolate(x.astype(np.float64), (9,), "bicubic")
    assert exact.min() < 0 and exact.max() > 255
    np.testing.assert_array_equal(out, np.clip(np.rint(exact), 0, 255))


@pytest.mark.parametrize("mode", MODES)
def test_short_floats_are_rounded_once(mode: str) -> None:
    x = np.random.default_rng(0).standard_normal((1, 6)).astype(ml_dtypes.bfloat16)
    out = resize.interpolate(x, (11,), mode)
    assert out.dtype == x.dtype
    wide = resize.interpolate(x.astype(np.float32), (11,), mode)
    np.testing.assert_array_equal(out.astype(np.float32), wide.astype(x.dtype).astype(np.float32))


def test_an_infinite_gradient_reaches_only_its_own_sources() -> None:
    g = np.zeros((1, 8))
    g[0, 7] = np.inf
    back = resize.interpolate_backward(g, (4,), "linear")
    assert np.isfinite(back[0, :3]).all()
    assert back[0, 3] == np.inf


@pytest.mark.parametrize("mode", MODES)
def test_blocks_of_planes_change_nothing(mode: str) -> None:
    x = np.random.default_rng(0).standard_normal((3, 5, 4, 6))
    whole = resize.interpolate(x, (7, 3), mode)
    with mock.patch.object(resize, "BLOCK_BYTES", 400):
        np.testing.assert_array_equal(resize.interpolate(x, (7, 3), mode), whole)


def test_unknown_mode() -> None:
    with pytest.raises(NotImplementedError, match="cosine"):
        resize.interpolate(np.ones((1, 2)), (3,), "cosine")


def compare(x: Any, options: dict[str, Any], mode: str, want: Any, scales: Any) -> None:
    torch = pytest.importorskip("torch")
    tensor = torch.from_numpy(x).requires_grad_()
    chosen = {"scale_factor": scales} if scales else {"size": want}
    expected = torch.nn.functional.interpolate(tensor, mode=mode, **chosen, **options)
    want = want or resize.output_size(x.shape[2:], scales)
    ours = (mode, options.get("align_corners", False), scales, options.get("antialias", False))
    out = resize.interpolate(x, want, *ours)
    assert out.shape == tuple(expected.shape)
    np.testing.assert_allclose(out, expected.detach().numpy(), atol=1e-6, rtol=1e-6)
    g = np.random.default_rng(1).standard_normal(out.shape).astype(x.dtype)
    expected.backward(torch.from_numpy(g))
    if not np.isclose((tensor.grad.numpy() * x).sum(), (expected.detach().numpy() * g).sum()):
        return  # torch's backward rounds ties otherwise than its forward, and is no derivative of it
    back = resize.interpolate_backward(g, x.shape[2:], *ours)
    np.testing.assert_allclose(back, tensor.grad.numpy(), atol=1e-6, rtol=1e-6)


@pytest.mark.torch
@pytest.mark.parametrize("mode, axes", [("linear", 1), ("bilinear", 2), ("trilinear", 3), ("bicubic", 2)])
@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize(
    "want, scale", [(9, None), (3, None), (1, None), (5, None), (None, 1.7), (None, 0.55)]
)
def test_smooth_modes_against_torch(
    mode: str, axes: int, align_corners: bool, antialias: bool, want: int | None, scale: float | None
) -> None:
    if antialias and mode not in ("bilinear", "bicubic"):
        pytest.skip("torch antialiases only these two")
    x = np.random.default_rng(0).standard_normal((1, 2, *(5, 6, 4)[:axes]))
    options = {"align_corners": align_corners, **({"antialias": True} if antialias else {})}
    compare(x, options, mode, want and (want,) * axes, scale and (scale,) * axes)


@pytest.mark.torch
@settings(deadline=None, max_examples=200)
@given(
    st.integers(1, 40),
    st.integers(1, 90),
    st.sampled_from(["nearest", "nearest-exact", "area"]),
    st.sampled_from([None, 0.3, 0.7, 1.1, 1.9, 2.0, 2.6, 3.3]),
)
def test_picking_modes_against_torch(have: int, want: int, mode: str, scale: float | None) -> None:
    if scale and (mode == "area" or int(have * scale) == 0):
        scale = None
    x = np.random.default_rng(0).standard_normal((1, 1, have)).astype(np.float64)
    compare(x, {}, mode, None if scale else (want,), scale and (scale,))


@pytest.mark.parametrize(
    ("kind", "have", "want", "mode", "place", "source"),
    [
        ("float64", 2, 82, "nearest", 41, 1),
        ("float32", 2, 82, "nearest", 41, 0),
        ("float64", 2, 61, "nearest-exact", 30, 1),
        ("float32", 2, 61, "nearest-exact", 30, 0),
        ("float64", 4, 41, "nearest-exact", 20, 2),
        ("float16", 4, 41, "nearest-exact", 20, 1),
    ],
)
def test_ties_of_nearest_pixels_follow_the_precision_of_elements(
    kind: str, have: int, want: int, mode: str, place: int, source: int
) -> None:
    x = np.arange(have, dtype=kind)[None, None]  # what torch 2.13 chooses
    assert resize.interpolate(x, (want,), mode)[0, 0, place] == source
    hot = np.zeros((1, 1, want), kind)
    hot[0, 0, place] = 1
    assert resize.interpolate_backward(hot, (have,), mode)[0, 0].argmax() == source
