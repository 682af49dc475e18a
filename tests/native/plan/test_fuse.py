"""What one kernel computes together, and that it computes it right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given as examples
from hypothesis import settings
from hypothesis import strategies as some

import weft
from tests.native.harness import given, point, run_plan
from weft.native.ir.definitions import Definition, Fold, broadcast, permuted, reshaped, selected, sliced
from weft.native.plan.build import Built
from weft.native.plan.fuse import fused

RANDOM = np.random.default_rng(0)


def floats(*shape: int) -> Any:
    return RANDOM.standard_normal(shape).astype(np.float32)


def fold(kind: str, operand: Definition, first: int, last: int) -> Fold:
    shape = (*operand.shape[:first], *operand.shape[last:])
    return Fold(shape=shape, type=operand.type, name=kind, kind=kind, operand=operand, first=first, last=last)


def normalised(x: Definition, count: int) -> tuple[Definition, Definition]:
    rows = (*x.shape[:-1], 1)
    mean = point(lambda b, s: b.div(s, b.like(count, s)), fold("sum", x, len(x.shape) - 1, len(x.shape)))
    centred = point(lambda b, a, m: b.sub(a, m), x, reshaped(mean, rows), name="centre")
    squares = point(lambda b, a: b.mul(a, a), centred, name="square")
    total = fold("sum", squares, len(x.shape) - 1, len(x.shape))
    scale = point(
        lambda b, s: b.div(b.like(1, s), b.sqrt(b.add(b.div(s, b.like(count, s)), b.like(1e-5, s)))), total
    )
    return point(lambda b, a, s: b.mul(a, s), centred, reshaped(scale, rows), name="scale"), scale


@pytest.mark.parametrize("shape", [(7, 3), (5, 37), (2, 3, 64), (1, 129), (3, 1)])
def test_layer_norm_is_one_kernel(shape: tuple[int, ...]) -> None:
    x = floats(*shape)
    result, scale = normalised(given(x, 0), shape[-1])
    (actual, scales), steps = run_plan([result, scale], [x])
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    np.testing.assert_allclose(actual, (x - mean) / np.sqrt(variance + 1e-5), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(scales, (1 / np.sqrt(variance + 1e-5))[..., 0], rtol=1e-5)
    assert len(steps) == 1


def test_chunks_of_rows_give_the_same_bits() -> None:
    x = floats(13, 45)
    result, _ = normalised(given(x, 0), 45)
    whole, _ = run_plan([result], [x])
    parts, _ = run_plan([result], [x], chunks=4)
    np.testing.assert_array_equal(whole[0], parts[0])


def test_a_chain_is_one_kernel() -> None:
    x, y = floats(4, 9), floats(9)
    value: Definition = point(lambda b, a, c: b.add(a, c), given(x, 0), given(y, 1))
    for _ in range(5):
        value = point(lambda b, a: b.mul(a, a), value)
    (actual,), steps = run_plan([value], [x, y])
    np.testing.assert_allclose(actual, (x + y) ** 32, rtol=1e-4)
    assert len(steps) == 1


def test_siblings_share_what_they_compute() -> None:
    x = floats(50)
    shared = point(lambda b, a: b.sqrt(b.abs(a)), given(x, 0))
    one = point(lambda b, a: b.add(a, a), shared)
    two = point(lambda b, a, c: b.mul(a, c), shared, one)
    (first, second), steps = run_plan([one, two], [x])
    root = np.sqrt(np.abs(x))
    np.testing.assert_array_equal(first, root + root)
    np.testing.assert_array_equal(second, root * (root + root))
    assert len(steps) == 1


def test_a_way_through_another_kernel_keeps_kernels_apart() -> None:
    x = floats(6, 5)
    source = given(x, 0)
    doubled = point(lambda b, a: b.add(a, a), source)
    total = fold("sum", reshaped(doubled, (30,)), 0, 1)
    result = point(lambda b, a, s: b.mul(a, s), doubled, broadcast(reshaped(total, (1, 1)), (6, 5)))
    (first, last), _ = run_plan([doubled, result], [x])
    np.testing.assert_allclose(last, first * first.sum(dtype=np.float64), rtol=1e-4)


@pytest.mark.parametrize("kind", ["sum", "max", "min", "prod"])
@pytest.mark.parametrize("length", [1, 2, 7, 8, 31, 33, 129, 1000])
def test_folds(kind: str, length: int) -> None:
    x = np.abs(floats(3, length)) ** 0.1
    (actual,), _ = run_plan([fold(kind, given(x, 0), 1, 2)], [x])
    expected = {"sum": x.sum(1), "max": x.max(1), "min": x.min(1), "prod": x.prod(1)}[kind]
    np.testing.assert_allclose(actual, expected, rtol=2e-5)


def test_nan_is_kept_by_maxima() -> None:
    x = floats(2, 40)
    x[1, 17] = np.nan
    (actual,), _ = run_plan([fold("max", given(x, 0), 1, 2)], [x])
    assert actual[0] == x[0].max() and np.isnan(actual[1])


@settings(max_examples=40, deadline=None)
@examples(some.data())
def test_views_of_views(data: Any) -> None:
    """Random views, then an addition, against NumPy."""
    shape = tuple(data.draw(some.lists(some.integers(1, 5), min_size=1, max_size=4)))
    x = floats(*shape)
    value: Definition = given(x, 0)
    expected = x
    for _ in range(data.draw(some.integers(1, 4))):
        value, expected = looked_at(data, value, expected)
    result = point(lambda b, a: b.add(a, b.like(1, a)), value)
    (actual,), _ = run_plan([result], [x])
    np.testing.assert_array_equal(actual, expected + np.float32(1))


def looked_at(data: Any, value: Definition, array: Any) -> tuple[Definition, Any]:
    kind = data.draw(some.sampled_from(["permute", "slice", "select", "reshape", "broadcast", "flip"]))
    rank = array.ndim
    axis = data.draw(some.integers(0, rank - 1)) if rank else 0
    if kind == "permute":
        order = data.draw(some.permutations(range(rank)))
        return permuted(value, order), array.transpose(order)
    if kind == "reshape":
        size = array.size
        first = data.draw(some.sampled_from([n for n in range(1, size + 1) if size % n == 0]))
        return reshaped(value, (first, size // first)), array.reshape(first, size // first)
    if kind == "broadcast":
        return broadcast(value, (2, *array.shape)), np.broadcast_to(array, (2, *array.shape))
    if not rank:
        return value, array
    if kind == "select":
        place = data.draw(some.integers(0, array.shape[axis] - 1))
        return selected(value, axis, place), array.take(place, axis)
    if kind == "flip":
        size = array.shape[axis]
        return sliced(value, axis, size - 1, -1, size), np.flip(array, axis)
    start = data.draw(some.integers(0, array.shape[axis] - 1))
    step = data.draw(some.integers(1, 3))
    length = -(-(array.shape[axis] - start) // step)
    key = (slice(None),) * axis + (slice(start, None, step),)
    return sliced(value, axis, start, step, length), array[key]


def in_parts(kind: str, operand: Definition, last: int, parts: int) -> Fold:
    """A fold over leading axes, or over all."""
    rest = operand.shape[last:]
    shape = (parts, *rest) if parts > 1 or not rest else rest
    return Fold(
        shape=shape, type=operand.type, name=kind, kind=kind, operand=operand, first=0, last=last, parts=parts
    )


@pytest.mark.parametrize("shape", [(29, 64), (29, 37), (3, 5, 16)])
def test_columns_are_folded_by_the_kernel_that_walks_along_rows(shape: tuple[int, ...]) -> None:
    x = floats(*shape)
    result, _ = normalised(given(x, 0), shape[-1])
    columns, whole = in_parts("sum", result, len(shape) - 1, 4), in_parts("max", result, len(shape), 4)
    (actual, sums, most), steps = run_plan([result, columns, whole], [x])
    assert len(steps) == 1 and steps[0].chunks == 4
    flat = actual.reshape(-1, shape[-1])
    bounds = [len(flat) * i // 4 for i in range(5)]
    parts = [flat[low:high] for low, high in zip(bounds, bounds[1:])]
    np.testing.assert_allclose(sums, [part.sum(0) for part in parts], rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(most, [part.max(initial=-np.inf) for part in parts])


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("size", [64_000, 6401, 64, 130])
def test_long_rows_are_folded_in_parts(size: int, missing: bool) -> None:
    x = floats(size)
    if missing:
        x[size // 2] = np.nan
    doubled = point(lambda b, v: b.add(v, v), given(x, 0))
    (most, least, actual), steps = run_plan(
        [in_parts("max", doubled, 1, 3), in_parts("min", doubled, 1, 3), doubled], [x]
    )
    assert len(steps) == 1
    np.testing.assert_array_equal(actual, x + x)
    assert np.isnan(most).sum() == np.isnan(least).sum() == missing
    np.testing.assert_array_equal([most.max(), least.min()], [(x + x).max(), (x + x).min()])


def test_what_reads_all_parts_is_another_kernel_and_says_why() -> None:
    x = floats(40, 32)
    parts = in_parts("sum", given(x, 0), 1, 4)
    total = in_parts("sum", parts, 1, 1)
    assert any("a reduction over all chunks" in reason for reason in fused([total]).reasons)
    (actual,), steps = run_plan([total], [x])
    assert len(steps) == 2
    np.testing.assert_allclose(actual, x.sum(0), rtol=1e-4, atol=1e-5)


def test_kernels_over_the_same_memory_become_one() -> None:
    x, y = floats(6, 70), floats(6, 70)
    a, b = given(x, 0), given(y, 1)
    first = point(lambda b, v, w: b.mul(v, w), a, b, name="first")
    second = point(lambda b, v: b.sqrt(b.abs(v)), b, name="second")
    first.cost = second.cost = 20
    both = point(lambda b, v, w: b.add(v, w), first, second)
    other = point(lambda b, v, w: b.sub(v, w), first, second)
    results, steps = run_plan([both, other], [x, y])
    assert len(steps) == 1
    np.testing.assert_allclose(results[0], x * y + np.sqrt(np.abs(y)), rtol=1e-6)
    np.testing.assert_allclose(results[1], x * y - np.sqrt(np.abs(y)), rtol=1e-6, atol=1e-6)


def test_a_fold_of_rows_that_lie_otherwise_is_put_in_order() -> None:
    x = floats(5, 6, 7)
    value = given(x, 0)
    value.shape, value.strides = (7, 5, 6), (1, 42, 7)
    (actual,), _ = run_plan([fold("sum", permuted(value, (1, 0, 2)), 1, 3)], [x])
    np.testing.assert_allclose(actual, x.sum((1, 2)), rtol=1e-4, atol=1e-5)


def test_many_equal_groups_take_few_tries() -> None:
    x = floats(8, 64)
    value: Definition = given(x, 0)
    for _ in range(150):
        norm, _ = normalised(value, 64)
        value = fold("sum", norm, 1, 2)
        value = point(lambda b, v, s: b.add(v, s), norm, reshaped(value, (8, 1)))
    plan = fused([value])
    assert len({step.kernel for step in plan.steps if isinstance(step, Built)}) <= 12


def test_what_is_read_backwards_through_a_reshape_is_written_before():
    def f(x):
        flat = (x + x).flatten()
        return flat.flip(0), flat[weft.tensor([-1])]

    x = weft.arange(80).to(weft.int32).view(8, 10)
    for got, expected in zip(weft.compile(f, backend="native")(x), f(x)):
        assert weft.equal(got, expected)


def test_steps_that_can_run_at_the_same_time_stand_beside_each_other() -> None:
    x = floats(64, 64)
    value = given(x, 0)
    first = fold("sum", value, 0, 1)
    second = point(lambda b, v: b.mul(v, v), fold("sum", reshaped(first, (8, 8)), 0, 1), name="square")
    other = fold("sum", reshaped(value, (4, 1024)), 0, 1)
    results, steps = run_plan([first, second, other], [x])
    names = [{value.shape for value in (load.value for load in step.operands)} for step in steps]
    assert (64,) in names[0] | names[1] and (1024,) in names[0] | names[1]
    np.testing.assert_allclose(results[0], x.sum(0), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(results[2], x.reshape(4, 1024).sum(0), rtol=1e-4, atol=1e-4)


def largest(steps: list[Any]) -> int:
    """The length of the longest kernel."""
    return max(sum(len(phase.body) + len(phase.after) for phase in step.kernel.phases) for step in steps)


def test_long_chains_are_cut_into_kernels_that_are_alike() -> None:
    x = floats(9)
    value = start = given(x, 0)
    for _ in range(3000):
        value = point(lambda b, a, c: b.add(b.mul(a, b.like(0.5, a)), c), value, start)
    (actual,), steps = run_plan([value], [x])
    expected = x
    for _ in range(3000):
        expected = expected * np.float32(0.5) + x
    np.testing.assert_array_equal(actual, expected)
    assert largest(steps) < 1000
    assert len({id(step.kernel) for step in steps}) < 5 < len(steps)


def test_views_of_views_are_cut_as_well() -> None:
    x = floats(4, 6)
    value = given(x, 0)
    expected = x
    for _ in range(150):
        value = reshaped(permuted(value, (1, 0)), (4, 6))
        expected = expected.T.reshape(4, 6)
    (actual,), _ = run_plan([value], [x])
    np.testing.assert_array_equal(actual, expected)


def test_rows_that_are_normalised_again_and_again_have_several_kernels() -> None:
    x = floats(3, 20)
    value = given(x, 0)
    for _ in range(30):
        value, _ = normalised(value, 20)
    (actual,), steps = run_plan([value], [x])
    expected = x
    for _ in range(30):
        mean, variance = expected.mean(-1, keepdims=True), expected.var(-1, keepdims=True)
        expected = (expected - mean) / np.sqrt(variance + 1e-5)
    np.testing.assert_allclose(actual, expected, rtol=1e-3, atol=1e-4)
    assert max(len(step.kernel.phases) for step in steps) <= 6
