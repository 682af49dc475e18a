"""Views against NumPy: random chains of views and writes share memory, count versions and carry gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft

SHAPES = st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple)
FAST = settings(max_examples=120, deadline=None)
ALIAS = ("alias", lambda x: x[...], lambda a: a[...])


def writable(array: Any) -> Any:
    array.flags.writeable = True
    return array


def step_for(draw: Any, shape: tuple[int, ...]) -> tuple[str, Any, Any]:
    """One view step that fits a shape: its name, the tensor's form and NumPy's."""
    rank = len(shape)
    names = ["unsqueeze", "squeeze", "alias"]
    if rank:
        names += ["select", "slice", "narrow", "transpose", "permute", "unfold", "movedim", "flatten"]
    name = draw(st.sampled_from([*names, "diagonal"] if rank > 1 else names))
    if name == "alias":
        return ALIAS
    if name == "unsqueeze":
        place = draw(st.integers(0, rank))
        return name, lambda x: x.unsqueeze(place), lambda a: np.expand_dims(a, place)
    if name == "squeeze":
        return name, lambda x: x.squeeze(), lambda a: a.squeeze()
    if name == "flatten":
        return name, lambda x: x.flatten(), lambda a: a.reshape(-1)
    dim, other = draw(st.integers(0, rank - 1)), draw(st.integers(0, rank - 1))
    if name == "transpose":
        return name, lambda x: x.transpose(dim, other), lambda a: a.swapaxes(dim, other)
    if name == "movedim":
        return name, lambda x: x.movedim(dim, other), lambda a: np.moveaxis(a, dim, other)
    if name == "permute":
        order = draw(st.permutations(range(rank)))
        return name, lambda x: x.permute(order), lambda a: a.transpose(order)
    return partial_step(draw, name, shape, dim, other)


def partial_step(draw: Any, name: str, shape: tuple[int, ...], dim: int, other: int) -> tuple[str, Any, Any]:
    """A step that may leave elements out."""
    size, before = shape[dim], (slice(None),) * dim
    if name == "diagonal":
        if dim == other:
            return ALIAS
        offset = draw(st.integers(-1, 1))
        return (
            name,
            lambda x: x.diagonal(offset, dim, other),
            lambda a: writable(a.diagonal(offset, dim, other)),
        )
    if name == "select" and size:
        place = draw(st.integers(0, size - 1))
        return name, lambda x: x.select(dim, place), lambda a: a[(*before, place, ...)]
    if name in ("slice", "narrow"):
        start = draw(st.integers(0, size))
        count = draw(st.integers(0, size - start))
        key = (*before, slice(start, start + count))
        return (
            name,
            (lambda x: x.narrow(dim, start, count)) if name == "narrow" else lambda x: x[key],
            lambda a: a[key],
        )
    width = draw(st.integers(0, size))
    if name != "unfold" or not width:
        return ALIAS
    # A step as wide as the window: windows that overlapped could not be written to.
    windows = np.lib.stride_tricks.sliding_window_view
    every = (*before, slice(None, None, width))
    return (
        name,
        lambda x: x.unfold(dim, width, width),
        lambda a: windows(a, width, dim, writeable=True)[every],
    )


def chain(draw: Any, x: Any, array: Any, length: int) -> tuple[Any, Any, list[str]]:
    """The same random chain of views of a tensor and of an array; stops where NumPy would copy."""
    names: list[str] = []
    for _ in range(length):
        name, ours, theirs = step_for(draw, array.shape)
        after = theirs(array)
        if array.size and after.size and not np.shares_memory(after, array):
            break
        x, array = ours(x), after
        names.append(name)
    return x, array, names


def numbered(shape: tuple[int, ...]) -> Any:
    return np.arange(float(np.prod(shape))).reshape(shape)


@FAST
@given(st.data())
def test_chains_of_views_share_memory_and_elements(data: Any) -> None:
    array = numbered(data.draw(SHAPES))
    base = weft.from_numpy(array)
    view, wanted, names = chain(data.draw, base, array, 5)
    assert view.shape == wanted.shape
    np.testing.assert_array_equal(view.numpy(), wanted)
    if any(name != "flatten" for name in names):  # flatten may give the tensor itself
        assert view._base is base
    if view.numel():
        assert np.shares_memory(view.numpy(), array)
        assert view.untyped_storage().data_ptr() == base.untyped_storage().data_ptr()


@FAST
@given(st.data())
def test_writes_through_views_reach_the_base_and_count(data: Any) -> None:
    array = numbered(data.draw(SHAPES))
    base = weft.from_numpy(array.copy())
    for count in range(1, 4):
        view, region, _ = chain(data.draw, base, array, 4)
        kind = data.draw(st.sampled_from(["add", "mul", "fill", "set", "copy"]))
        if kind == "add":
            view.add_(float(count))
            region += count
        elif kind == "mul":
            view.mul_(float(count))
            region *= count
        elif kind == "copy":
            values = np.random.default_rng(count).normal(size=region.shape)
            view.copy_(weft.from_numpy(values))
            region[...] = values
        else:
            region[...] = count
            if kind == "fill":
                view.fill_(float(count))
            else:
                view[...] = float(count)
        np.testing.assert_array_equal(base.numpy(), array)
        assert base._version == view._version == count


@FAST
@given(st.data())
def test_gradients_follow_writes_through_views(data: Any) -> None:
    """Scaling and overwriting keep the base linear in the leaf; NumPy keeps the factors beside it."""
    shape = data.draw(SHAPES)
    factors, places = np.full(shape, 2.0), numbered(shape)
    leaf = weft.ones(shape, dtype=weft.float64, requires_grad=True)
    base = leaf * 2
    early, seen, _ = chain(data.draw, base, places, 2)  # made before the writes, used after them
    for count in range(2, 5):
        view, region, _ = chain(data.draw, base, factors, 3)
        if data.draw(st.booleans()):
            view.mul_(count)
            region *= count
        else:
            view[...] = 7.0
            region[...] = 0.0
    weight = np.random.default_rng(0).uniform(1, 2, shape)
    (total,) = weft.autograd.grad(base, leaf, weft.from_numpy(weight), retain_graph=True)
    np.testing.assert_allclose(total.numpy(), weight * factors)
    (through,) = weft.autograd.grad(early.sum(), leaf)
    times = np.bincount(seen.astype(int).reshape(-1), minlength=factors.size).reshape(shape)
    np.testing.assert_allclose(through.numpy(), times * factors)


@FAST
@given(st.data())
def test_second_order_gradients_of_chains_of_views(data: Any) -> None:
    array = numbered(data.draw(SHAPES))
    leaf = weft.from_numpy(array / 5).requires_grad_()
    view, places, _ = chain(data.draw, leaf, array, 5)
    (first,) = weft.autograd.grad((view * view * view).sum(), leaf, create_graph=True)
    (second,) = weft.autograd.grad(first.sum(), leaf)
    times = np.bincount(places.astype(int).reshape(-1), minlength=array.size).reshape(array.shape)
    np.testing.assert_allclose(first.detach().numpy(), 3 * (array / 5) ** 2 * times)
    np.testing.assert_allclose(second.numpy(), 6 * (array / 5) * times)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("write", ["view", "as_strided"])
def test_gradients_of_writes_do_not_depend_on_the_order_of_memory(turned: bool, write: str) -> None:
    """The gradient that arrives may be column-major where the base is row-major, and the other way round."""
    leaf = weft.ones(2, 3, dtype=weft.float64, requires_grad=True)
    base = (leaf.t().contiguous().t() if turned else leaf) * 1
    rows = base.t() if turned else base
    view = rows.view(6)[1:3] if write == "view" else rows.as_strided((2,), (1,), 1)
    view.mul_(10)
    weight = np.arange(1.0, 7.0).reshape(2, 3)
    factors = np.ones((3, 2) if turned else (2, 3))
    factors.reshape(-1)[1:3] = 10
    for order in "CF":
        given = weft.from_numpy(np.asarray(weight, order=order))
        (grad,) = weft.autograd.grad(base, leaf, given, retain_graph=True)
        np.testing.assert_array_equal(grad.numpy(), weight * (factors.T if turned else factors))


def test_several_views_of_one_call_refuse_writes_that_need_history() -> None:
    first, _second = (weft.ones(4, requires_grad=True) * 1).split(2)
    with pytest.raises(RuntimeError, match="is the output of a function that returns multiple views"):
        first.mul_(2)
    plain = weft.ones(4)
    plain.chunk(2)[0].mul_(3)
    assert plain.tolist() == [3, 3, 1, 1]


def test_a_saved_tensor_notices_a_write_through_its_view() -> None:
    base = weft.ones(3, requires_grad=True) * 1
    out = (base * base).sum()
    base[0:2].zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.backward()
