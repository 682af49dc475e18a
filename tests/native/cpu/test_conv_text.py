"""The functions of convolutions, pools and resizing alone: other widths of vectors, no access elsewhere."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.native.fenced import Fenced, run
from weft.native.cpu import conv, conv_weight
from weft.native.cpu.engine import host
from weft.native.cpu.target import Cpu
from weft.native.ir.definitions import Given
from weft.native.ir.spatial import Laid
from weft.native.lower import pools as lower_pools
from weft.native.lower import resize as lower_resize
from weft.native.lower.conv import Call, filled
from weft.ops.kernels import convolution as kernels
from weft.ops.kernels import pooling

WIDTHS = [width for width in (64, 32, 16) if width <= host()[2]]
CASES: dict[str, tuple[Any, Any, int, int, int, int]] = {
    "plain": ((2, 3, 9, 8), (5, 3, 3, 3), 1, 1, 1, 1),
    "whole vectors": ((1, 2, 4, 32), (8, 2, 3, 3), 1, 1, 1, 1),
    "lanes of channels": ((5, 4, 7, 7), (32, 4, 3, 3), 1, 1, 1, 1),
    "a stride": ((2, 3, 9, 33), (16, 3, 3, 3), 2, 1, 1, 1),
    "a stride, narrow": ((2, 3, 5, 1), (4, 3, 1, 1), 2, 0, 1, 1),
    "a stride, space": ((1, 2, 3, 5, 35), (3, 2, 2, 2, 3), 2, 1, 1, 1),
    "a large stride": ((2, 3, 9, 33), (5, 3, 2, 2), 3, 0, 1, 1),
    "dilation": ((2, 3, 9, 17), (5, 3, 3, 3), 1, 2, 2, 1),
    "groups": ((2, 4, 6, 9), (8, 2, 3, 3), 1, 1, 1, 2),
    "depthwise": ((2, 5, 6, 9), (5, 1, 3, 3), 1, 0, 1, 5),
    "a line": ((3, 2, 40), (4, 2, 5), 2, 2, 1, 1),
    "a space": ((2, 2, 3, 4, 5), (3, 2, 2, 2, 2), 1, 1, 1, 1),
    "many weights": ((1, 120, 3, 3), (130, 120, 3, 3), 1, 1, 1, 1),
    "one element": ((1, 1, 1), (1, 1, 1), 1, 0, 1, 1),
}  # fmt: skip


class OfWidth(Cpu):
    """Of vectors of so many bytes, whatever this machine has."""

    vector_bytes = 0

    def __init__(self, width: int) -> None:
        self.vector_bytes = width


def given(array: Any) -> tuple[Any, Laid]:
    type_ = "f32" if array.dtype == np.float32 else "f64"
    value = Given(shape=array.shape, type=type_, input=0)
    strides = [stride // array.itemsize for stride in array.strides]
    if array.ndim > 1:
        strides = [*strides[:2], *filled(strides[2:], 0)]
    return value, Laid(value, 0, tuple(strides))


@pytest.mark.parametrize("at_end", [True, False])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("name", CASES)
def test_convolutions(name: str, kind: Any, width: int, at_end: bool) -> None:
    x_shape, w_shape, *numbers, groups = CASES[name]
    axes = len(x_shape) - 2
    stride, padding, dilation = [(number,) * axes for number in numbers]
    generator = np.random.default_rng(0)
    fenced = Fenced(at_end)
    x, w, b = [
        fenced.copy(generator.standard_normal(shape).astype(kind))
        for shape in (x_shape, w_shape, w_shape[:1])
    ]
    y = kernels.forward(x, w, stride, padding, dilation, groups)
    g = fenced.copy(generator.standard_normal(y.shape).astype(kind))
    call = Call(x.shape, w.shape, y.shape, stride, padding, dilation, groups)
    (dx, lx), (dw, lw), (db, lb), (dg, lg) = [given(array) for array in (x, w, b, g)]
    arrays = {id(dx): x, id(dw): w, id(db): b, id(dg): g}
    type_ = dx.type
    tolerance = 1e-3 if kind is np.float32 else 1e-11
    found = conv.convolution(lx, lw, lb, call.geometry, call.sides, y.shape, type_, width)
    wanted = y + b.reshape(-1, *(1,) * axes)
    assert np.allclose(run(found, arrays, fenced), wanted, tolerance, tolerance)
    found = conv.input_gradient(lg, lw, None, call.geometry, call.turned, x.shape, type_, width)
    wanted = kernels.grad_input(g, w, x.shape, stride, padding, dilation, groups)
    assert np.allclose(run(found, arrays, fenced), wanted, tolerance, tolerance)
    found = conv_weight.weight_gradient(lg, lx, call.geometry, call.sides, w.shape, type_, width)
    wanted = kernels.grad_weight(g, x, w.shape, stride, padding, dilation, groups)
    assert np.allclose(run(found, arrays, fenced), wanted, tolerance, tolerance)
    fenced.open()


@pytest.mark.parametrize("at_end", [True, False])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(("taps", "stride", "padding"), [(2, 2, 0), (3, 2, 1), (3, 1, 1), (4, 3, 2)])
def test_maxima(taps: int, stride: int, padding: int, width: int, at_end: bool) -> None:
    fenced = Fenced(at_end)
    for kind in (np.float32, np.float64):
        for shape in ((2, 3, 8, 34), (1, 1, 5, 5)):
            x = fenced.copy(np.random.default_rng(0).standard_normal(shape).astype(kind))
            geometry = [(number, number) for number in (taps, stride, padding, 1)]
            wanted = pooling.max_pool(x, *geometry)
            value, _ = given(x)
            counts = wanted[0].shape[2:]
            for read in (True, False):
                found = lower_pools.maxima(OfWidth(width), value, geometry, counts, 2, wanted[0].shape, read)
                for one, other in zip(found, wanted, strict=True):
                    assert np.array_equal(run(one, {id(value): x}, fenced), other)
    fenced.open()


@pytest.mark.parametrize("at_end", [True, False])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_sums_along_an_axis(axis: int, width: int, at_end: bool) -> None:
    fenced = Fenced(at_end)
    x = fenced.copy(np.random.default_rng(0).standard_normal((4, 5, 37)))
    value, _ = given(x)
    size = x.shape[axis]
    lists = [[(i % size, 0.5), ((i + 1) % size, -2.0)][: 1 + i % 2] for i in range(size + 2)]
    parts = [sum(w * np.take(x, [p], axis) for p, w in row) for row in lists]
    found = run(lower_resize.summed(OfWidth(width), value, axis, lists, "sums"), {id(value): x}, fenced)
    assert np.allclose(found, np.concatenate(parts, axis), 1e-12, 1e-12)
    fenced.open()
