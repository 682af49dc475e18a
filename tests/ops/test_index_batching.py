"""Batches of index ops: wherever the batch lies, as example by example, and never by a loop."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import weft
from weft.ops.batching import Batched, call_batched
from weft.ops.record import ops
from weft.ops.replay import replay

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(5, 3, 4, 2))  # a batch of five
PLACES = RANDOM.integers(0, 2, size=(5, 6))


@pytest.mark.parametrize("dims", [(0,), (1,), (2,), (0, 1), (1, 2), (0, 2)], ids=str)
@pytest.mark.parametrize("batched", ["x", "index", "both"])
@pytest.mark.parametrize("last", [False, True])
def test_index_with_any_part_batched(dims: tuple[int, ...], batched: str, last: bool) -> None:
    def lay(array: Any) -> Batched:
        return Batched(np.moveaxis(array, 0, -1), array.ndim - 1, 5) if last else Batched(array, 0, 5)

    indices = [PLACES, (PLACES + 1) % 2][: len(dims)]
    x = lay(X) if batched != "index" else X[0]
    parts = [lay(p) if batched != "x" else p[0] for p in indices]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a loop would warn
        out = call_batched(ops.index, (x, parts, dims), {})
    got = np.moveaxis(out.value, out.dim, 0)
    for i in range(5):
        example = X[i] if batched != "index" else X[0]
        wanted = ops.index(example, [p[i] if batched != "x" else p[0] for p in indices], dims)
        np.testing.assert_array_equal(got[i], wanted)


@pytest.mark.parametrize("which", ["x", "index", "both"])
def test_index_select_and_take_with_any_part_batched(which: str) -> None:
    x = Batched(X, 0, 5) if which != "index" else X[0]
    places = Batched(PLACES, 0, 5) if which != "x" else PLACES[0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        picked, taken = ops.index_select(x, 1, places), ops.take(x, places)
    for i in range(5):
        example, own = X[i if which != "index" else 0], PLACES[i if which != "x" else 0]
        np.testing.assert_array_equal(
            np.moveaxis(picked.value, picked.dim, 0)[i], ops.index_select(example, 1, own)
        )
        np.testing.assert_array_equal(np.moveaxis(taken.value, taken.dim, 0)[i], ops.take(example, own))


def test_free_strides_stay_inside_an_example() -> None:
    out = ops.as_strided(Batched(X, 0, 5), (2, 2), (1, 2), 1)
    for i in range(5):
        np.testing.assert_array_equal(out.value[i], ops.as_strided(X[i].copy(), (2, 2), (1, 2), 1))
    with pytest.raises(RuntimeError, match="beyond an example of 24 elements"):
        ops.as_strided(Batched(X, 0, 5), (2,), (24,), 0)


@pytest.mark.parametrize("dim", [0, 1, 3])
@pytest.mark.parametrize("told", [(8, 2, 1), (1, 3, 12)], ids=["as they lie", "otherwise"])
def test_free_strides_of_examples_that_lie_in_memory_as_they_please(dim: int, told: tuple[int, ...]) -> None:
    held = np.moveaxis(X, 0, dim) if told == (8, 2, 1) else np.moveaxis(X, 0, dim).copy()
    args = ((2, 3), (1, 7), 2, told)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        out = ops._as_strided(Batched(held, dim, 5), *args)
    for i in range(5):
        memory = np.zeros(24, X.dtype)
        laid = np.lib.stride_tricks.as_strided(
            memory, X.shape[1:], [step * X.itemsize for step in told], writeable=True
        )
        laid[...] = X[i]
        np.testing.assert_array_equal(np.moveaxis(out.value, out.dim, 0)[i], ops._as_strided(laid, *args))


@pytest.mark.parametrize(
    "steps",
    [
        ((ops.basic_select, ((1, slice(1, None)),), None),),
        ((ops.basic_slice, ((slice(None), slice(0, 3, 2)),), None),),
        ((ops.select, (-1, 1), None), (ops.slice, (0, 1, 3, 1), None)),
        ((ops.diagonal, (1, 0, -1), None),),
    ],
    ids=["select by key", "slice by key", "select then slice", "diagonal"],
)
def test_gradients_of_views_leave_the_batch_alone(steps: Any) -> None:
    shape = X.shape[1:]
    taken = np.stack([replay(example, steps) for example in X])
    for dim in (0, taken.ndim - 1):
        out = ops.embed(Batched(np.moveaxis(taken, 0, dim), dim, 5), shape, steps)
        for i in range(5):
            expected = ops.embed(taken[i], shape, steps)
            np.testing.assert_array_equal(np.moveaxis(out.value, out.dim, 0)[i], expected)


def test_index_fill_with_rows_and_values_of_each_example() -> None:
    x, value = weft.zeros(2, 3, 4), weft.tensor([5.0, 6.0])
    for places in (weft.tensor([[0, 2], [1, -1]]), weft.tensor([1, -2])):
        for filler in (value, 7.0):
            dims = (0, 0, 0 if filler is value else None)
            found = weft.func.vmap(lambda a, p, v: weft.index_fill(a, 1, p, v), in_dims=dims)(
                x, places, filler
            )
            for i in range(2):
                one = weft.index_fill(x[i], 1, places[i], filler[i] if filler is value else filler)  # type: ignore[index]
                assert found[i].tolist() == one.tolist()
