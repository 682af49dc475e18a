"""Bounds: NaN, ties, values at the bound, crossed bounds."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import weft

NAN, INF = math.nan, math.inf


def gradient(function: Any, *values: Any) -> list[list[float]]:
    inputs = [weft.tensor(value, dtype=weft.float64, requires_grad=True) for value in values]
    return [g.tolist() for g in weft.autograd.grad(function(*inputs).sum(), inputs)]


def test_maximum_keeps_nan_and_fmax_drops_it() -> None:
    left, right = weft.tensor([NAN, 1.0]), weft.tensor([2.0, NAN])
    assert weft.maximum(left, right).isnan().all()
    assert weft.fmax(left, right).tolist() == [2.0, 1.0]
    assert weft.fmin(left, right).tolist() == [2.0, 1.0]


def test_ties_share_the_gradient() -> None:
    for function in (weft.maximum, weft.minimum):
        assert gradient(function, [1.0], [1.0]) == [[0.5], [0.5]]
    assert gradient(weft.maximum, [1.0, 3.0], [2.0, 1.0]) == [[0.0, 1.0], [1.0, 0.0]]
    assert gradient(weft.fmax, [1.0], [1.0]) == [[1.0], [0.0]]


@pytest.mark.parametrize("size", [4, 8000])
def test_clamp(size: int) -> None:
    x = weft.tensor([NAN, -INF, 0.5, INF] * (size // 4))
    np.testing.assert_array_equal(x.clamp(-1, 2).numpy()[:4], [NAN, -1, 0.5, 2])
    np.testing.assert_array_equal(x.clamp(min=0).numpy()[:4], [NAN, 0, 0.5, INF])
    np.testing.assert_array_equal(x.clamp(max=0).numpy()[:4], [NAN, -INF, 0, 0])
    np.testing.assert_array_equal(x.clamp(3, 1).numpy()[1:4], [1, 1, 1])


def test_clamp_passes_at_the_bound_and_stops_beyond() -> None:
    assert gradient(lambda x: x.clamp(0, 1), [-1.0, 0.0, 0.5, 1.0, 2.0]) == [[0.0, 1.0, 1.0, 1.0, 0.0]]
    x, low, high = gradient(weft.clamp, [-1.0, 0.5, 2.0], [0.0, 0.0, 0.0], [1.0, 1.0, 1.0])
    assert (x, low, high) == ([0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0])
    _, low, high = gradient(weft.clamp, [0.5], [2.0], [1.0])  # crossed: the upper bound wins
    assert (low, high) == ([0.0], [1.0])


def test_clamp_promotes_like_other_operands() -> None:
    ints = weft.tensor([1, 5])
    assert ints.clamp(2).tolist() == [2, 5]
    assert ints.clamp(0.5).dtype is weft.float32
    assert weft.tensor([True]).clamp(0, 1).dtype is weft.int64
    assert weft.clip is weft.clamp


def test_clamp_errors() -> None:
    x = weft.ones(2)
    with pytest.raises(RuntimeError, match="At least one of 'min' or 'max' must not be None"):
        x.clamp()
    with pytest.raises(NotImplementedError, match="clamp is not supported for complex types"):
        weft.tensor([1j]).clamp(0, 1)
    with pytest.raises(RuntimeError, match="maximum not implemented for complex tensors"):
        weft.maximum(weft.tensor([1j]), weft.tensor([1j]))


def test_nan_to_num_uses_the_limits_of_its_own_dtype() -> None:
    for kind in (weft.float16, weft.bfloat16, weft.float32, weft.float64):
        got = weft.tensor([NAN, INF, -INF], dtype=kind).nan_to_num()
        limits = weft.finfo(kind)
        assert got.dtype is kind
        assert got.tolist() == [0.0, limits.max, limits.min]
    assert weft.tensor([NAN, INF, 1.0]).nan_to_num(nan=5.0, posinf=7.0).tolist() == [5.0, 7.0, 1.0]
    assert gradient(weft.nan_to_num, [NAN, INF, 1.0]) == [[0.0, 0.0, 1.0]]


def test_gradients_beside_nan_reach_both() -> None:
    for function in (weft.maximum, weft.minimum):
        assert gradient(function, [NAN, 1.0, 2.0], [1.0, NAN, 2.0]) == [[1, 1, 0.5], [1, 1, 0.5]]


def test_a_zero_dim_bound_beside_a_number_is_a_number() -> None:
    x = weft.tensor([1.0, 4.0])
    assert x.clamp(weft.tensor(3, dtype=weft.float64), 3.5).dtype is weft.float32
    assert x.clamp(weft.tensor(3, dtype=weft.float64), None).dtype is weft.float32
    assert weft.tensor([1, 4]).clamp(2, weft.tensor(3.5)).tolist() == [2.0, 3.5]


@pytest.mark.parametrize(("kind", "value"), [(weft.uint8, 300), (weft.int8, 2**40), (weft.float32, 1e300)])
def test_bounds_that_the_dtype_cannot_hold_are_refused(kind: Any, value: Any) -> None:
    with pytest.raises(RuntimeError, match="value cannot be converted to type"):
        weft.ones(2, dtype=kind).clamp(max=value)


@pytest.mark.parametrize("function", [weft.fmin, weft.fmax])
@pytest.mark.parametrize("dtype", [weft.float32, weft.float64, weft.float16, weft.bfloat16])
def test_of_two_zeros_the_first_is_taken(function: Any, dtype: weft.dtype) -> None:
    """Wherever they lie in memory, and whatever computes them; in bfloat16 the second, as in PyTorch."""
    zeros = weft.zeros(37, dtype=dtype)
    if dtype is weft.bfloat16:
        zeros = -zeros
    for call in (function, weft.compile(lambda x, y: function(x, y), backend="native")):
        for x in (zeros, zeros[::2], zeros[0]):
            assert not call(x, -x).signbit().any() and call(-x, x).signbit().all()


ZEROS = [-0.0, 0.0, 1.0, NAN, -1.0]
LEFT, RIGHT = [a for a in ZEROS for _ in ZEROS], [b for _ in ZEROS for b in ZEROS]
SIGNED: dict[str, Any] = {
    "maximum": weft.maximum,
    "minimum": weft.minimum,
    "fmax": weft.fmax,
    "fmin": weft.fmin,
    "clamp": lambda a, b: weft.clamp(a, b, weft.ones_like(a)),
    "clamp_min": weft.clamp_min,
    "clamp_max": weft.clamp_max,
    "clamp by numbers": lambda a, b: weft.cat([a.clamp(0.0), a.clamp(-0.0), a.clamp(max=-0.0), a.clamp(0)]),
    "relu": lambda a, b: weft.relu(a),
    "copysign": weft.copysign,
    "amax": lambda a, b: weft.cat([weft.stack([a, b]).amax(0), weft.stack([a, b], 1).amax(1)]),
    "amin": lambda a, b: weft.cat([weft.stack([a, b]).amin(0), weft.stack([a, b], 1).amin(1)]),
    "max": lambda a, b: weft.cat([weft.stack([a, b], 1).max(1)[0], weft.stack([a, b], 1).min(1)[0]]),
    "max_pool1d": lambda a, b: weft.nn.functional.max_pool1d(weft.stack([a, b], 1).reshape(1, 1, -1), 2),
}


@pytest.mark.parametrize("kind", [weft.float32, weft.float64, weft.float16, weft.bfloat16])
def test_compiled_code_takes_the_zero_that_eager_takes(kind: Any) -> None:
    a, b = weft.tensor(LEFT, dtype=kind), weft.tensor(RIGHT, dtype=kind)

    def all_of(a: weft.Tensor, b: weft.Tensor) -> list[weft.Tensor]:
        return [function(a, b) for function in SIGNED.values()]

    expected = all_of(a, b)
    for backend in ("native", "aot_eager"):
        for name, one, other in zip(SIGNED, weft.compile(all_of, backend=backend)(a, b), expected):
            theirs = other.float().numpy()
            ours = one.float().numpy()
            assert np.array_equal(ours, theirs, equal_nan=True), name
            zero = theirs == 0
            assert np.array_equal(np.signbit(ours[zero]), np.signbit(theirs[zero])), (backend, name)


@pytest.mark.parametrize("kind", [weft.float32, weft.float64, weft.float16, weft.bfloat16])
def test_of_two_zeros_the_second_is_taken(kind: Any) -> None:
    zeros = weft.tensor([-0.0, 0.0] * 9, dtype=kind)
    for function in (weft.maximum, weft.minimum, weft.clamp_min, weft.clamp_max):
        assert function(zeros, -zeros).signbit().tolist() == (-zeros).signbit().tolist()


def signs(x: weft.Tensor) -> list[bool]:
    return x.signbit().tolist()


@pytest.mark.parametrize("backend", [None, "native", "reference"])
@pytest.mark.parametrize("size", [1, 40, 5000])
@pytest.mark.parametrize("kind", [weft.float32, weft.float64, weft.float16, weft.bfloat16])
def test_of_two_zeros_a_bound_is_not_taken(kind: Any, size: int, backend: str | None) -> None:
    """As in PyTorch, by every name of it."""

    def bounds(x: weft.Tensor, bound: float) -> list[weft.Tensor]:
        return [x.clamp_min(bound), x.clamp_max(bound), x.clamp(bound), x.clamp(max=bound), x.clamp(bound, 1)]

    run = bounds if backend is None else weft.compile(bounds, backend=backend)
    for zero, bound in ((-0.0, 0.0), (0.0, -0.0)):
        for found in run(weft.full((size,), zero, dtype=kind), bound):
            assert signs(found) == [math.copysign(1, zero) < 0] * size
