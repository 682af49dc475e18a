"""Indexing against NumPy: every kind of key, values and gradients; and where PyTorch differs."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft

SHAPES = st.lists(st.integers(1, 4), min_size=1, max_size=4).map(tuple)
FAST = settings(max_examples=150, deadline=None)


def numbered(shape: tuple[int, ...]) -> Any:
    return np.arange(float(np.prod(shape))).reshape(shape)


@st.composite
def slices(draw: Any, size: int) -> slice:
    bound = st.none() | st.integers(-size - 2, size + 2)
    return slice(draw(bound), draw(bound), draw(st.none() | st.integers(1, 3)))


@st.composite
def basic_keys(draw: Any) -> tuple[Any, tuple[Any, ...]]:
    shape = draw(SHAPES)
    items: list[Any] = []
    for size in shape[: draw(st.integers(0, len(shape)))]:
        items.append(draw(st.integers(-size, size - 1) | slices(size)))
    for _ in range(draw(st.integers(0, 2))):
        items.insert(draw(st.integers(0, len(items))), None)
    if draw(st.booleans()):
        taken = sum(item is not None for item in items)
        place = draw(st.integers(0, len(items)))
        after = sum(item is not None for item in items[place:])
        # what stands behind the Ellipsis speaks of the last dimensions: draw it anew for their sizes
        tail = (
            [draw(st.integers(-n, n - 1) | slices(n)) for n in shape[len(shape) - after :]] if after else []
        )
        items = [*items[:place], ..., *tail]
        assert taken <= len(shape)
    return numbered(shape), tuple(items)


@st.composite
def advanced_keys(draw: Any) -> tuple[Any, tuple[Any, ...]]:
    """Slices, None, integer arrays that broadcast, one mask: what NumPy and PyTorch read alike."""
    shape = draw(SHAPES)
    common = draw(st.lists(st.integers(1, 3), max_size=2).map(tuple))
    items: list[Any] = []
    dim, masked = 0, False
    while dim < len(shape):
        size = shape[dim]
        kind = draw(st.sampled_from(["slice", "array", "array", "mask", "stop"]))
        if kind == "stop":
            break
        if kind == "mask" and not masked and not common:
            items.append(np.array(draw(st.lists(st.booleans(), min_size=size, max_size=size)), dtype=bool))
            masked = True
        elif kind == "array" and not masked and common:
            ones = draw(st.lists(st.booleans(), min_size=len(common), max_size=len(common)))
            sizes = tuple(1 if one else n for one, n in zip(ones, common, strict=True))
            count = int(np.prod(sizes))
            values = draw(st.lists(st.integers(-size, size - 1), min_size=count, max_size=count))
            items.append(np.array(values, dtype=np.int64).reshape(sizes))
        else:
            items.append(draw(slices(size)))
        dim += 1
    for _ in range(draw(st.integers(0, 1))):
        items.insert(draw(st.integers(0, len(items))), None)
    return numbered(shape), tuple(items)


def as_key(key: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(weft.from_numpy(item.copy()) if isinstance(item, np.ndarray) else item for item in key)


# -- reading -------------------------------------------------------------------------------------------------
@FAST
@given(basic_keys())
def test_basic_keys_are_views_with_numpys_elements(case: Any) -> None:
    array, key = case
    x = weft.from_numpy(array)
    view = x[key]
    wanted = array[key]
    assert view.shape == np.shape(wanted)
    np.testing.assert_array_equal(view.numpy(), wanted)
    assert view._base is x
    if view.numel():
        assert np.shares_memory(view.numpy(), array)


@FAST
@given(advanced_keys())
def test_advanced_keys_copy_numpys_elements(case: Any) -> None:
    array, key = case
    wanted = array[key]
    out = weft.from_numpy(array)[as_key(key)]
    assert out.shape == wanted.shape
    np.testing.assert_array_equal(out.numpy(), wanted)


@FAST
@given(basic_keys() | advanced_keys())
def test_gradient_of_reading_adds_up_at_the_places_read(case: Any) -> None:
    array, key = case
    x = weft.from_numpy(array).requires_grad_()
    out = x[as_key(key)]
    weight = np.random.default_rng(0).uniform(1, 2, out.shape)
    weft.autograd.backward(out, weft.from_numpy(weight))
    wanted = np.zeros_like(array)
    np.add.at(wanted, key, weight)
    np.testing.assert_allclose(x.grad.numpy(), wanted)


@FAST
@given(basic_keys() | advanced_keys())
def test_reading_twice_differentiates(case: Any) -> None:
    array, key = case
    x = weft.from_numpy(array / 7 + 1).requires_grad_()
    out = x[as_key(key)]
    (first,) = weft.autograd.grad((out * out * out).sum(), x, create_graph=True)
    (second,) = weft.autograd.grad(first.sum(), x)
    times = np.zeros_like(array)
    np.add.at(times, key, 1.0)
    np.testing.assert_allclose(second.numpy(), 6 * (array / 7 + 1) * times)


def test_an_int_between_index_arrays_is_basic_unlike_in_numpy() -> None:
    x = weft.ones(2, 3, 4)
    assert x[0, :, [0, 1]].shape == (3, 2)
    assert x[:, [0, 1], 0].shape == (2, 2)
    assert x[[0, 1], :, [0, 1]].shape == (2, 3)
    assert x[None, [0, 1], :, 0].shape == (1, 2, 3)
    assert x[:, [0, 1], None, [0, 1]].shape == (2, 2, 1)


def test_zero_dim_integer_tensors_are_ints_and_bools_add_a_dimension() -> None:
    x = weft.arange(12.0).reshape(3, 4)
    assert x[weft.tensor(1)]._base is x._base
    assert x[weft.tensor(1), weft.tensor(2)].item() == 6
    assert x[np.int64(1)].tolist() == [4, 5, 6, 7]
    assert x[True].shape == x[weft.tensor(True)].shape == (1, 3, 4)
    assert x[False].shape == (0, 3, 4)
    assert x[0, True].shape == (1, 4)
    assert x[0 : weft.tensor(2)].shape == (2, 4)


def test_lists_and_arrays_index_like_tensors() -> None:
    x = weft.arange(12.0).reshape(3, 4)
    assert x[[2, 0]].tolist() == [[8, 9, 10, 11], [0, 1, 2, 3]]
    assert x[np.array([2])].tolist() == [[8, 9, 10, 11]]
    assert x[[True, False, True]].shape == (2, 4)
    assert x[[]].shape == (0, 4)
    assert x[range(2)].shape == (2, 4)
    with pytest.warns(UserWarning, match="non-tuple sequence"):
        assert x[[[0, 1], [1, 2]]].tolist() == [1, 6]


def test_byte_masks_warn_and_work() -> None:
    x = weft.arange(3.0)
    with pytest.warns(UserWarning, match="uint8 is now deprecated"):
        assert x[weft.tensor([1, 0, 1], dtype=weft.uint8)].tolist() == [0, 2]


@pytest.mark.parametrize(
    ("key", "name"),
    [
        (0, "SelectBackward0"), (slice(1, 3), "SliceBackward0"), (slice(None), "SliceBackward0"),
        ((0, 1), "SelectBackward0"), ((0, slice(1, 3)), "SliceBackward0"),
        ((slice(1, 3), 0), "SelectBackward0"),
        (None, "UnsqueezeBackward0"), (..., "AliasBackward0"), ((), "AliasBackward0"),
        ((slice(None), slice(None)), "AliasBackward0"), ([0, 1], "IndexBackward0"), (True, "IndexBackward0"),
    ],
)  # fmt: skip
def test_nodes_have_the_names_of_pytorchs_last_step(key: Any, name: str) -> None:
    x = weft.ones(3, 4, requires_grad=True)
    assert x[key].grad_fn.name() == name


@pytest.mark.parametrize(
    ("key", "strides"),
    [
        (None, (12, 4, 1)), ((None, 0), (12, 1)), ((0, None), (4, 1)), ((slice(0, 2), None), (4, 4, 1)),
        ((..., None), (4, 1, 1)),
    ],
)  # fmt: skip
def test_new_dimensions_have_pytorchs_strides(key: Any, strides: tuple[int, ...]) -> None:
    assert weft.ones(3, 4)[key].stride() == strides


ERRORS = [
    (5, IndexError, "index 5 is out of bounds for dimension 0 with size 3"),
    (-4, IndexError, "index -4 is out of bounds for dimension 0 with size 3"),
    ((0, 4), IndexError, "index 4 is out of bounds for dimension 1 with size 4"),
    ((0, 0, 0), IndexError, "too many indices for tensor of dimension 2"),
    (slice(None, None, -1), ValueError, "step must be greater than zero"),
    (
        1.5,
        IndexError,
        r"only integers, slices \(`:`\), ellipsis \(`...`\), None and long or byte Variables are valid",
    ),
    ([0, 3], IndexError, "index 3 is out of bounds for dimension 0 with size 3"),
    (([0, 1], [0, 1, 2]), IndexError, r"could not be broadcast together with shapes \[2\], \[3\]"),
    (
        [True, False],
        IndexError,
        r"The shape of the mask \[2\] at index 0 does not match the shape of the indexed",
    ),
    (np.array([0.5]), IndexError, "tensors used as indices must be long, int, byte or bool tensors"),
    (slice(0.5, 1), TypeError, "slice indices must be integers or None"),
]


@pytest.mark.parametrize(("key", "kind", "text"), ERRORS)
@pytest.mark.parametrize("write", [False, True])
def test_errors(key: Any, kind: type[Exception], text: str, write: bool) -> None:
    x = weft.zeros(3, 4)
    with pytest.raises(kind, match=text):
        if write:
            x[key] = 1.0
        else:
            x[key]
    assert x._version == 0
    assert not x.any()


def test_errors_of_zero_dim_tensors() -> None:
    x = weft.zeros(())
    with pytest.raises(IndexError, match="invalid index of a 0-dim tensor"):
        x[0]
    with pytest.raises(IndexError, match="cannot be applied to a 0-dim tensor"):
        x[:]
    with pytest.raises(IndexError, match="too many indices for tensor of dimension 0"):
        x[weft.tensor([0])]
    assert x[...].shape == x[()].shape == ()
    assert x[None].shape == (1,)


# -- writing -------------------------------------------------------------------------------------------------
def unique(shape: tuple[int, ...], key: tuple[Any, ...]) -> bool:
    times = np.zeros(shape)
    np.add.at(times, key, 1)
    return bool(times.max(initial=0) <= 1)


@FAST
@given(basic_keys() | advanced_keys(), st.sampled_from(["number", "zero-dim", "row", "full", "leading ones"]))
def test_writing_equals_numpy(case: Any, form: str) -> None:
    array, key = case
    region = np.shape(array[key])
    random = np.random.default_rng(1)
    value: Any = 7.5
    if form == "zero-dim":
        value = np.asarray(2.5)
    elif form == "row":
        value = random.normal(size=region[-1:])
    elif form == "full":
        value = random.normal(size=region)
    elif form == "leading ones":
        value = random.normal(size=(1, 1, *region))
    wanted = array.copy()
    # NumPy takes no leading ones behind a mask
    wanted[key] = value.reshape(region) if form == "leading ones" else value
    x = weft.from_numpy(array.copy())
    x[as_key(key)] = weft.from_numpy(value) if isinstance(value, np.ndarray) else value
    np.testing.assert_array_equal(x.numpy(), wanted)
    assert x._version == 1


@FAST
@given(basic_keys() | advanced_keys())
def test_gradient_of_writing_passes_by_what_was_written(case: Any) -> None:
    array, key = case
    region = np.shape(array[key])
    if not unique(array.shape, key):
        return
    leaf = weft.from_numpy(array.copy()).requires_grad_()
    value = weft.from_numpy(np.ones(region[-1:])).requires_grad_()
    x = leaf * 1
    x[as_key(key)] = value
    weight = np.random.default_rng(2).uniform(1, 2, array.shape)
    weft.autograd.backward(x, weft.from_numpy(weight))
    kept = weight.copy()
    kept[key] = 0
    np.testing.assert_allclose(leaf.grad.numpy(), kept)
    through = weight[key]
    through = np.asarray(through).sum(axis=tuple(range(len(region) - 1))) if region else through
    if value.grad is not None:
        np.testing.assert_allclose(value.grad.numpy(), through)


def test_writing_casts_and_checks_values() -> None:
    x = weft.zeros(3, 4)
    x[0] = weft.ones(4, dtype=weft.int64)
    x[1] = True
    x[weft.tensor([True, False, True]), 0] = 5
    assert x.tolist() == [[5, 1, 1, 1], [1, 1, 1, 1], [5, 0, 0, 0]]
    whole = weft.zeros(2, dtype=weft.int64)
    whole[0] = 1.9
    assert whole.tolist() == [1, 0]
    with pytest.raises(
        RuntimeError, match="dtypes match, got Float for the destination and Long for the source"
    ):
        x[[0, 1]] = weft.ones(4, dtype=weft.int64)
    with pytest.raises(RuntimeError, match="value cannot be converted to type float without overflow"):
        x[0] = 1j
    with pytest.raises(TypeError, match="can't assign a list to a"):
        x[0] = [1, 2, 3, 4]
    with pytest.raises(TypeError, match="does not support deleting items"):
        del x[0]


def test_shape_errors_of_writing() -> None:
    x = weft.zeros(3, 4)
    with pytest.raises(
        RuntimeError, match=r"The expanded size of the tensor \(4\) must match the existing size \(2\)"
    ):
        x[0] = weft.ones(2)
    with pytest.raises(
        RuntimeError,
        match=r"value tensor of shape \[3\] cannot be broadcast to indexing result of shape \[2, 4\]",
    ):
        x[[0, 1]] = weft.ones(3)
    with pytest.raises(
        RuntimeError,
        match=r"value tensor of shape \[7\] cannot be broadcast to indexing result of shape \[12\]",
    ):
        x[x == 0] = weft.ones(7)
    assert not x.any()


def test_leaves_refuse_to_be_written_to() -> None:
    leaf = weft.zeros(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad"):
        leaf[0] = 1
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used in an in-place"):
        leaf[weft.tensor([0])] = 1
    with weft.no_grad():
        leaf[0] = 1
    assert leaf.tolist() == [1, 0, 0]


def test_expanded_tensors_refuse_to_be_written_to() -> None:
    x = weft.zeros(1, 3).expand(2, 3)
    for mode in (weft.no_grad, weft.enable_grad):
        with mode(), pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
            x[:] = 1
    x[0] = 1
    assert x.tolist() == [[1, 1, 1], [1, 1, 1]]


def test_written_tensors_have_pytorchs_nodes() -> None:
    x = weft.ones(3, 4, requires_grad=True) * 1
    x[0] = 1
    assert x.grad_fn.name() == "weft::autograd::CopySlices"
    x[[0, 1]] = 1
    assert x.grad_fn.name() == "IndexPutBackward0"


def test_an_index_that_changed_since_is_noticed() -> None:
    x = weft.ones(3, requires_grad=True)
    places = weft.tensor([0, 1])
    out = x[places].sum()
    places.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.backward()


def test_writing_through_a_view_reaches_its_base_and_its_gradient() -> None:
    leaf = weft.ones(2, 3, requires_grad=True)
    base = leaf * 2
    view = base[0]
    view[1:] = 5
    assert base.tolist() == [[2, 5, 5], [2, 2, 2]]
    (base * base).sum().backward()
    assert leaf.grad.tolist() == [[8, 0, 0], [8, 8, 8]]


def test_iteration_and_membership() -> None:
    x = weft.arange(6.0).reshape(2, 3)
    assert [row.tolist() for row in x] == [[0, 1, 2], [3, 4, 5]]
    assert 4.0 in x
    assert 9 not in x


# -- attributes and in-place restriding ----------------------------------------------------------------------
def test_transposes_as_attributes() -> None:
    x = weft.arange(6.0).reshape(2, 3)
    for turned in (x.T, x.mT, x.H, x.mH, x.adjoint()):
        assert turned.tolist() == [[0, 3], [1, 4], [2, 5]]
        assert np.shares_memory(turned.numpy(), x.numpy())
    with pytest.warns(UserWarning, match="dimension other than 2"):
        assert weft.ones(2, 3, 4).T.shape == (4, 3, 2)
    with pytest.raises(RuntimeError, match="only supported on matrices or batches of matrices. Got 1-D"):
        weft.ones(3).mT
    with pytest.raises(RuntimeError, match=r"only supported on matrices \(2-D tensors\). Got 3-D"):
        weft.ones(2, 3, 4).H


def test_real_and_imaginary_parts_are_views() -> None:
    z = weft.tensor([1 + 2j, 3 - 1j])
    z.imag[0] = 9
    z.real = weft.tensor([5.0, 6.0])
    assert z.tolist() == [5 + 9j, 6 - 1j]
    x = weft.ones(2)
    assert x.real is x
    with pytest.raises(RuntimeError, match="imag is not implemented for tensors with non-complex dtypes"):
        x.imag


def test_restriding_in_place_keeps_identity_and_history() -> None:
    leaf = weft.arange(6.0).reshape(2, 3).requires_grad_()
    x = leaf * 2
    before = x
    assert x.t_() is before
    assert x.shape == (3, 2)
    x.unsqueeze_(0).squeeze_().transpose_(0, 1)
    assert x.shape == (2, 3)
    (x * weft.arange(6.0).reshape(2, 3)).sum().backward()
    np.testing.assert_array_equal(leaf.grad.numpy(), 2 * np.arange(6.0).reshape(2, 3))
    assert x._version == 4


def test_meta_tensors_are_indexed_by_type() -> None:
    x = weft.empty(3, 4, device="meta")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert x[0].shape == (4,)
        assert x[1:, None].shape == (2, 1, 4)
        assert x[:, weft.tensor([0, 1, 1])].shape == (3, 3)
    assert x[0].is_meta


def test_keys_that_are_arrays_or_bools_take_values_as_in_pytorch() -> None:
    x = weft.zeros(3, 2)
    x[np.array([0, 2])] += np.int64(2)
    assert x.tolist() == [[2, 2], [0, 0], [2, 2]]
    x[False] = weft.ones(5, dtype=weft.int64)
    x[True] = weft.full((2,), 3, dtype=weft.float64)
    assert x.tolist() == [[3, 3], [3, 3], [3, 3]]
    x[None, [True, False, True]] = weft.tensor(1, dtype=weft.int8)
    x[..., [True, False]] = weft.tensor([5], dtype=weft.float64)
    assert x.tolist() == [[5, 1], [5, 3], [5, 1]]
    with pytest.raises(RuntimeError, match=r"shape mismatch: value tensor of shape \[3, 2\]"):
        x[[0, 1]] = weft.ones(3, 2, dtype=weft.int64)


def test_numbers_that_do_not_fit_are_not_stored() -> None:
    for kind, value, name in ((weft.uint8, -1.5, "uint8_t"), (weft.float32, 1e300, "float")):
        x = weft.zeros(3, dtype=kind)
        with pytest.raises(RuntimeError, match=f"value cannot be converted to type {name} without overflow"):
            x[0:1] = value
        assert x.tolist() == [0, 0, 0]
    half = weft.zeros(2, dtype=weft.float16)
    half[0:1] = 1e300
    half[[1]] = 2**40
    assert half.tolist() == [float("inf"), float("inf")]


def test_transposes_of_zero_dim_tensors() -> None:
    x, z = weft.tensor(1.0), weft.tensor(1j)
    for name in ("mT", "mH", "H"):
        with pytest.warns(UserWarning, match=f"Tensor.{name} is deprecated on 0-D tensors"):
            assert getattr(x, name).item() == 1.0
    with pytest.warns(UserWarning, match="Consider using x.conj"):
        assert z.H.item() == -1j


def test_fill_diagonal() -> None:
    tall = weft.zeros(7, 3).fill_diagonal_(5, wrap=True)
    assert tall.argmax(1).tolist() == [0, 1, 2, 0, 0, 1, 2] and tall.sum().item() == 30
    assert weft.zeros(7, 3).fill_diagonal_(5).sum().item() == 15
    assert weft.zeros(3, 3, 3).fill_diagonal_(1).nonzero().tolist() == [[i, i, i] for i in range(3)]
    with pytest.raises(RuntimeError, match="all dimensions of input must be of equal length"):
        weft.zeros(2, 3, 3).fill_diagonal_(1)
    with pytest.raises(RuntimeError, match="dimensions must larger than 1"):
        weft.zeros(2).fill_diagonal_(1)


def test_numbers_are_looked_at_before_keys() -> None:
    with pytest.raises(RuntimeError, match="value cannot be converted to type uint8_t without overflow"):
        weft.tensor(1, dtype=weft.uint8)[0:1] = 1j
    with pytest.raises(RuntimeError, match="without overflow"):
        weft.zeros(2, dtype=weft.float16)[0:1] = 1j


@pytest.mark.parametrize("grad", [True, False])
def test_elements_that_share_memory_are_not_written(grad: bool) -> None:
    x = weft.zeros(3, 1).expand(3, 2).detach()
    with weft.set_grad_enabled(grad):
        for value in (1.0, weft.ones(2, 2)):
            with pytest.raises(RuntimeError, match="more than one element of the written-to tensor refers"):
                x[1:] = value
        x[0, 0] = 4.0
    assert x.tolist() == [[4.0, 4.0], [0.0, 0.0], [0.0, 0.0]]
