"""Writing by data: scatter in all its reductions, index_add and its kin, masked_scatter; errors."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft


def matrix() -> Any:
    return weft.arange(12.0).reshape(3, 4)


FOLDS = {"sum": np.add, "prod": np.multiply, "amax": np.maximum, "amin": np.minimum, "mean": np.add}


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(sorted(FOLDS)), st.booleans(), st.integers(0, 1), st.integers(0, 2**31), st.booleans())
def test_scatter_reduce_against_a_loop(reduce: str, include: bool, dim: int, seed: int, whole: bool) -> None:
    random = np.random.default_rng(seed)
    kind = np.int64 if whole else np.float64
    array = random.integers(-4, 5, size=(3, 4)).astype(kind)
    shape = (random.integers(1, 4), random.integers(1, 5))
    places = random.integers(0, array.shape[dim], size=shape)
    source = random.integers(-4, 5, size=(3, 4)).astype(kind)
    groups: dict[Any, list[Any]] = {}
    for spot in np.ndindex(*shape):
        target = (places[spot], spot[1]) if dim == 0 else (spot[0], places[spot])
        groups.setdefault(target, []).append(source[spot])
    wanted = array.copy()
    for target, values in groups.items():
        members = [array[target], *values] if include else values
        folded = FOLDS[reduce].reduce(members)
        if reduce == "mean":
            folded = folded // len(members) if whole else folded / len(members)
        wanted[target] = folded
    arguments = dim, weft.from_numpy(places), weft.from_numpy(source), reduce
    out = weft.from_numpy(array.copy()).scatter_reduce(*arguments, include_self=include)
    np.testing.assert_allclose(out.numpy(), wanted)
    target = weft.from_numpy(array.copy())
    assert target.scatter_reduce_(*arguments, include_self=include) is target
    np.testing.assert_allclose(target.numpy(), wanted)


def test_ties_share_the_gradient_of_extremes() -> None:
    x = weft.tensor([1.0, 5.0], requires_grad=True)
    source = weft.tensor([5.0, 5.0, 0.0], requires_grad=True)
    x.scatter_reduce(0, weft.tensor([1, 1, 0]), source, "amax").sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), [1, 1 / 3], rtol=1e-6)
    np.testing.assert_allclose(source.grad.numpy(), [1 / 3, 1 / 3, 0], rtol=1e-6)


def test_gradient_of_a_product_with_one_zero() -> None:
    x = weft.tensor([2.0], requires_grad=True)
    source = weft.tensor([0.0, 3.0], requires_grad=True)
    x.scatter_reduce(0, weft.tensor([0, 0]), source, "prod").sum().backward()
    assert x.grad.tolist() == [0]
    assert source.grad.tolist() == [6, 0]


def test_scatter_takes_a_source_or_a_value() -> None:
    x, places = weft.zeros(3, 4), weft.tensor([[0, 1]])
    assert x.scatter(0, places, matrix() + 1)[:2, :2].tolist() == [[1, 0], [0, 2]]
    assert (
        x.scatter(0, places, 5)[:2, :2].tolist()
        == x.scatter(0, places, value=5)[:2, :2].tolist()
        == [[5, 0], [0, 5]]
    )
    assert (matrix() + 1).scatter(0, places, 3, reduce="multiply")[:2, :2].tolist() == [[3, 2], [5, 18]]
    assert matrix().scatter_(1, weft.tensor([[0, 0]]), weft.ones(1, 2), reduce="add")[0, 0].item() == 2


def test_a_source_larger_than_the_index_gets_zeros_where_it_was_not_read() -> None:
    source = weft.ones(3, 4, requires_grad=True)
    weft.zeros(3, 4).scatter_add(0, weft.tensor([[0, 1], [2, 2]]), source).sum().backward()
    assert source.grad.tolist() == [[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 0, 0]]


def test_half_precision_sums_are_rounded_once() -> None:
    ones = weft.ones(3000, dtype=weft.bfloat16)
    places = weft.zeros(3000, dtype=weft.int64)
    assert weft.zeros(1, dtype=weft.bfloat16).scatter_add(0, places, ones).item() == 3008
    assert weft.zeros(1, dtype=weft.bfloat16).index_add(0, places, ones).item() == 3008
    assert weft.zeros(1, dtype=weft.float16).index_put((places,), ones.half(), accumulate=True).item() == 3000


ROWS = [
    (lambda x: x.index_add(0, weft.tensor([0, 1]), x), RuntimeError,
        r"Number of indices \(2\) should be equal to source.size\(dim\)"),
    (lambda x: x.index_add(0, weft.tensor([0, 3, 1]), x), RuntimeError,
        "index 3 is out of bounds for dimension 0 with size 3"),
    (lambda x: x.index_add(0, weft.tensor([0, 1, 2]), x.double()), RuntimeError,
        "must have the same scalar type"),
    (lambda x: x.index_add(0, weft.tensor([[0]]), x), IndexError, "Index is supposed to be a vector"),
    (lambda x: x.index_copy(0, weft.tensor([0, 4]), x[:2]), IndexError,
        r"index_copy_\(\): index 4 is out of bounds"),
    (lambda x: x.index_copy(0, weft.tensor([0, 1]), x), IndexError,
        r"Number of indices \(2\) should be equal to source.size\(dim\) \(3\)"),
    (lambda x: x.index_copy(0, weft.tensor(0), x[0]), IndexError, "their dimensionality must match"),
    (lambda x: x.index_fill(0, weft.tensor([7]), 5), IndexError,
        "index 7 is out of bounds for dimension 0 with size 3"),
    (lambda x: x.index_fill(0, weft.tensor([0]), weft.ones(1)), RuntimeError,
        "only supports a 0-dimensional value tensor"),
    (lambda x: x.index_put((weft.tensor([0, 1]),), weft.tensor(1)), RuntimeError,
        "got Float for the destination and Long"),
    (lambda x: x.index_put((weft.tensor([9]),), weft.tensor(1.0)), IndexError,
        "index 9 is out of bounds for dimension 0"),
    (lambda x: x.index_put((weft.tensor([0, 1]),), weft.ones(3)), RuntimeError,
        r"value tensor of shape \[3\] cannot be broadcast"),
    (lambda x: x.scatter(0, weft.tensor([0, 1]), x), RuntimeError,
        "same number of dimensions as self tensor"),
    (lambda x: x.scatter(0, weft.tensor([[0]]), x.double()), RuntimeError,
        "Expected self.dtype to be equal to src.dtype"),
    (lambda x: x.scatter(0, weft.tensor([[5]]), 1), RuntimeError,
        "index 5 is out of bounds for dimension 0 with size 3"),
    (lambda x: x.scatter(0, weft.tensor([[0]]), x, reduce="sum"), RuntimeError,
        "must be either add or multiply"),
    (lambda x: x.scatter_reduce(0, weft.tensor([[0]]), x, "last"), RuntimeError,
        "sum, prod, mean, amax or amin, got last"),
    (lambda x: x.masked_scatter(x > 2, weft.ones(2)), RuntimeError,
        "Number of elements of source < number of ones in mask"),
    (lambda x: x.select_scatter(weft.ones(3), 0, 0), RuntimeError,
        "expected src to have a size equal to the slice of self"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "kind", "text"), ROWS)
def test_errors(call: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        call(matrix())


def test_rows_are_added_copied_and_filled() -> None:
    x, places = weft.zeros(3, 2), weft.tensor([2, 0, 2])
    source = weft.arange(6.0).reshape(3, 2)
    assert x.index_add(0, places, source, alpha=2).tolist() == [[4, 6], [0, 0], [8, 12]]
    assert x.index_copy(0, places[:2], source[:2]).tolist() == [[2, 3], [0, 0], [0, 1]]
    assert x.index_fill(1, weft.tensor([-1]), 7).tolist() == [[0, 7]] * 3
    assert x.index_add_(0, places, source) is x
    assert x._version == 1


def test_index_put_takes_masks_and_adds_up() -> None:
    x = weft.zeros(3, 4)
    assert x.index_put((weft.tensor([True, False, True]),), weft.tensor(1.0)).sum().item() == 8
    twice = x.index_put((weft.tensor([0, 0]), weft.tensor([1, 1])), weft.tensor([2.0, 3.0]), accumulate=True)
    assert twice[0].tolist() == [0, 5, 0, 0]
    x.index_put_((weft.tensor([0]),), weft.ones(4))
    assert x[0].tolist() == [1, 1, 1, 1]


def test_masked_scatter_reads_its_source_in_order() -> None:
    x = weft.zeros(2, 3, requires_grad=True)
    source = weft.arange(1.0, 6.0).requires_grad_()
    mask = weft.tensor([[True, False, True], [False, True, False]])
    out = x.masked_scatter(mask, source)
    assert out.tolist() == [[1, 0, 2], [0, 3, 0]]
    out.sum().backward()
    assert x.grad.tolist() == [[0, 1, 0], [1, 0, 1]]
    assert source.grad.tolist() == [1, 1, 1, 0, 0]


def test_copies_with_a_part_replaced() -> None:
    x = matrix()
    assert x.select_scatter(weft.zeros(4), 0, 1)[1].tolist() == [0, 0, 0, 0]
    assert x.slice_scatter(weft.zeros(3, 2), 1, 0, 4, 2)[0].tolist() == [0, 1, 0, 3]
    assert x.diagonal_scatter(weft.zeros(3)).diagonal().tolist() == [0, 0, 0]
    assert x[1].tolist() == [4, 5, 6, 7]


def test_scatter_of_a_zero_dim_source() -> None:
    x = weft.zeros(3)
    assert x.scatter(0, weft.tensor([2]), weft.tensor(3.0)).tolist() == [0, 0, 3]
    assert weft.tensor(0.0).scatter(0, weft.tensor([0]), weft.tensor(3.0)).item() == 3


def test_index_fill_refuses_numbers_that_do_not_fit() -> None:
    with pytest.raises(RuntimeError, match="value cannot be converted to type int8_t without overflow"):
        weft.ones(2, dtype=weft.int8).index_fill(0, weft.tensor([0]), float("nan"))


@pytest.mark.parametrize("backend", ["aot_eager", "native"])
@pytest.mark.parametrize("places", [(1,), (0, 2)])
def test_gradients_of_elements_at_places_without_dimensions(places: tuple[int, ...], backend: str) -> None:
    """An index of no dimension for each dimension leaves none to the places."""

    def pick(x: Any, places: tuple[int, ...]) -> Any:
        return x[tuple([weft.tensor(place) for place in places])] * 3

    shape = (2, 3, 4)[-len(places) :]
    found = []
    for call in (pick, weft.compile(pick, backend=backend)):
        x = weft.ones(shape, requires_grad=True)
        call(x, places).backward()
        found.append(x.grad)
    expected = np.zeros(shape)
    expected[places] = 3
    for gradient in found:
        np.testing.assert_array_equal(gradient.numpy(), expected)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
@pytest.mark.parametrize("shape", [(1, 2), (2,), (), (2, 3)])
def test_slice_scatter_does_not_broadcast(shape: tuple[int, ...], backend: str) -> None:
    def program(x: Any, src: Any) -> Any:
        return weft.slice_scatter(x, src, 0, 0, 2)

    run = program if backend == "eager" else weft.compile(program, backend=backend)
    text = (
        rf"size equal to the slice of self. src size = {re.escape(str(list(shape)))}, slice size = \[2, 2\]"
    )
    with pytest.raises(RuntimeError, match=text):
        run(weft.zeros(4, 2), weft.ones(shape))


def _write(name: str, x: weft.Tensor, src: weft.Tensor, out: weft.Tensor) -> weft.Tensor:
    places = weft.tensor([1, 0])
    if name == "where":
        return weft.where(weft.tensor([True, False]), x, src, out=out)
    if name == "slice_scatter":
        return weft.slice_scatter(x, src[:1], 0, 1, 2, out=out)
    if name == "scatter_reduce":
        return weft.scatter_reduce(x, 0, places, src, "sum", out=out)
    return getattr(weft, name)(x, 0, places, src, out=out)


@pytest.mark.filterwarnings("ignore:weft.compile built programs for 3 values")
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(
    ("name", "expected"),
    [("where", [0, 5]), ("scatter", [5, 4]), ("scatter_add", [5, 5]), ("scatter_reduce", [5, 5]),
     ("index_add", [5, 5]), ("index_copy", [5, 4]), ("slice_scatter", [0, 4])],
)  # fmt: skip
def test_out_may_be_what_is_written_into_but_no_part_of_it(
    name: str, expected: list[int], compiled: bool
) -> None:
    write = weft.compile(_write) if compiled else _write
    base = weft.arange(8.0)
    x, src = base[:2], base[4:6]
    assert write(name, x, src, x) is x and base.tolist() == [*expected, 2, 3, 4, 5, 6, 7]
    for out in (base[1:3], src) if name != "where" else (base[1:3],):
        with pytest.raises(RuntimeError, match="refer to a single memory location"):
            _write(name, x, src, out)
