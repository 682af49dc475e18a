"""Sums, products, extremes, truth: dtypes, dimensions, accuracy, NaN, ties, errors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import weft
from weft.core.dtypes import BY_NAME
from weft.ops.record import ops

NAN = float("nan")


def tensor(values: Any, kind: str = "float32", grad: bool = False) -> Any:
    made = weft.from_numpy(np.array(values).astype(BY_NAME[kind].numpy))
    return made.requires_grad_() if grad else made


def grads(out: Any, *inputs: Any) -> list[Any]:
    return [g.numpy() for g in weft.autograd.grad(out.sum() if out.ndim else out, inputs)]


# -- dtypes --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", ["bool", "uint8", "int8", "int16", "int32", "int64"])
@pytest.mark.parametrize("name", ["sum", "prod"])
def test_whole_numbers_fold_to_int64(name: str, kind: str) -> None:
    out = getattr(weft, name)(tensor([1, 1, 1], kind))
    assert out.dtype is weft.int64
    assert out.item() == (3 if name == "sum" else 1)


def test_sum_of_int8_does_not_wrap_unless_asked() -> None:
    x = tensor([100, 100], "int8")
    assert x.sum().item() == 200
    assert x.sum(dtype=weft.int8).item() == -56


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
@pytest.mark.parametrize("dim", [None, 0])
def test_half_types_accumulate_in_float32(kind: str, dim: int | None) -> None:
    x = tensor(np.ones((4096, 2)), kind)
    total = x.sum(dim)
    assert total.dtype is BY_NAME[kind]
    assert (total.numpy().astype(np.float32) == (8192 if dim is None else 4096)).all()
    assert (x.mean(dim).numpy().astype(np.float32) == 1).all()


@pytest.mark.parametrize(
    "make",
    [
        lambda x: (x, 0),
        lambda x: (x.reshape(64, 128, 128, 8), (0, 1, 2)),
        lambda x: (x[:, ::2], None),
        lambda x: (x.reshape(64, 128, 128, 8).transpose(3, 0, 1, 2), (1, 2, 3)),
        lambda x: (x.reshape(-1, 1, 8)[:, :, :3], (0, 1)),
    ],
)
def test_float32_sums_along_strided_dimensions_stay_accurate(make: Any) -> None:
    values, dims = make(np.random.default_rng(0).random((1 << 20, 8), dtype=np.float32))
    exact = values.astype(np.float64).sum(axis=dims)
    got = weft.from_numpy(values).sum(dims).numpy()
    assert got.dtype == np.float32
    assert np.max(np.abs(got - exact) / exact) < 5e-7
    mean = weft.from_numpy(values).mean(dims, True).numpy().reshape(got.shape)
    assert np.max(np.abs(mean / (exact / (values.size / got.size)) - 1)) < 1e-6


def test_mean_refuses_whole_numbers() -> None:
    text = "Input dtype must be either a floating point or complex dtype. Got: Long"
    x = tensor([1, 2], "int64")
    assert x.mean(dtype=weft.float32).item() == 1.5  # and the fast path must not learn from this
    with pytest.raises(RuntimeError, match=text):
        x.mean()
    with pytest.raises(RuntimeError, match="Optional dtype must be .* Got: Int"):
        tensor([1.0]).mean(dtype=weft.int32)


def test_real_dtype_of_complex_sum_takes_the_real_part() -> None:
    assert tensor([1 + 2j, 3j], "complex64").sum(dtype=weft.float32).item() == 1.0


# -- dimensions ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["sum", "mean", "amax", "amin"])
def test_empty_dims_fold_all(name: str) -> None:
    x = tensor([[1.0, 2.0], [3.0, 4.0]])
    assert getattr(x, name)(()).shape == ()
    assert getattr(x, name)((), True).shape == (1, 1)


def test_empty_dims_fold_nothing_in_all_and_any() -> None:
    x = tensor([[1.0, 0.0], [NAN, 4.0]])
    for fold in (weft.all, weft.any):
        np.testing.assert_array_equal(fold(x, ()).numpy(), [[True, False], [True, True]])
    assert weft.all(x, (0, 1)).item() is False


def test_numpy_spellings() -> None:
    assert tensor(np.ones((2, 3))).sum(axis=1, keepdims=True).shape == (2, 1)


@pytest.mark.parametrize("name", ["sum", "mean", "amax", "all", "std", "logsumexp"])
def test_dimension_errors(name: str) -> None:
    x = tensor(np.ones((2, 3)))
    fold = getattr(weft, name)
    for _ in range(2):  # by the dispatcher, then by the fast path
        with pytest.raises(IndexError, match=r"expected to be in range of \[-2, 1\], but got 2"):
            fold(x, 2)
        with pytest.raises(RuntimeError, match="dim 1 appears multiple times in the list of dims"):
            fold(x, (1, -1))
        fold(x, 1)
    with pytest.raises(IndexError, match=r"range of \[-1, 0\], but got 1"):
        fold(tensor(1.0), 1)
    if name != "std":
        assert fold(tensor(1.0), -1).shape == ()


# -- extremes ------------------------------------------------------------------------------------------------
def test_three_forms_of_max() -> None:
    x = tensor([[1.0, 5.0, 5.0], [7.0, 2.0, 0.0]])
    assert x.max().item() == 7
    values, indices = x.max(1)
    np.testing.assert_array_equal(values.numpy(), [5, 7])
    np.testing.assert_array_equal(indices.numpy(), [1, 0])  # the first of equals
    assert x.max(0, keepdim=True).indices.shape == (1, 3)
    np.testing.assert_array_equal(weft.max(x, other=tensor(3.0)).numpy(), [[3, 5, 5], [7, 3, 3]])
    np.testing.assert_array_equal(x.min(tensor([1.0, 1.0, 1.0])).numpy(), [[1, 1, 1], [1, 1, 0]])
    with pytest.raises(TypeError):
        x.max(1.5)


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float32", "float64"])
def test_nan_is_every_extreme(kind: str) -> None:
    x = tensor([1.0, NAN, 3.0, NAN], kind)
    for name in ("max", "min", "amax", "amin"):
        assert np.isnan(getattr(x, name)().item())
    for name in ("max", "min"):
        assert getattr(x, name)(0).indices.item() == 1
    assert x.argmax().item() == x.argmin(0).item() == 1


def test_errors_of_extremes() -> None:
    empty = tensor(np.ones((0, 3)))
    for name in ("max", "min", "amax", "amin"):
        with pytest.raises(
            RuntimeError, match=rf"{name}\(\): Expected reduction dim to be specified for input.numel"
        ):
            getattr(empty, name)()
        with pytest.raises(IndexError, match=rf"{name}\(\): Expected reduction dim 0 to have non-zero size."):
            getattr(empty, name)(0)
    with pytest.raises(IndexError, match=r"argmax\(\): Expected reduction dim to be specified"):
        empty.argmax()
    with pytest.raises(RuntimeError, match=r"argmax\(\): does not support bool input"):
        tensor([True], "bool").argmax()
    with pytest.raises(NotImplementedError, match="\"max_values_cpu\" not implemented for 'ComplexFloat'"):
        tensor([1j], "complex64").amax()
    assert empty.max(1).values.shape == (0,)


def test_equal_extremes_share_the_gradient() -> None:
    x = tensor([[2.0, 5.0, 5.0], [5.0, 1.0, 1.0]], grad=True)
    third = 1 / 3
    np.testing.assert_allclose(grads(x.max(), x)[0], [[0, third, third], [third, 0, 0]])
    np.testing.assert_allclose(grads(x.amax(1), x)[0], [[0, 0.5, 0.5], [1, 0, 0]])
    np.testing.assert_allclose(grads(x.amin((0, 1)), x)[0], [[0, 0, 0], [0, 0.5, 0.5]])
    np.testing.assert_allclose(grads(x.max(1).values, x)[0], [[0, 1, 0], [1, 0, 0]])


def test_values_of_max_may_be_written_to_before_backward() -> None:
    x = tensor([[2.0, 5.0], [4.0, 1.0]], grad=True)
    values, _ = x.max(1)
    values.mul_(3)
    values.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), [[0, 3], [3, 0]])


def test_nan_takes_the_gradient() -> None:
    x = tensor([1.0, NAN, 3.0], grad=True)
    np.testing.assert_array_equal(grads(x.max(), x)[0], [0, 1, 0])


# -- products ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("zeros", [0, 1, 2])
def test_prod_gradient_and_second_order_with_zeros(zeros: int) -> None:
    values = np.array([2.0, 3.0, 4.0])
    values[:zeros] = 0
    x = tensor(values, "float64", grad=True)
    (first,) = weft.autograd.grad(x.prod(), x, create_graph=True)
    np.testing.assert_allclose(first.detach().numpy(), [np.prod(np.delete(values, i)) for i in range(3)])
    hessian = [
        weft.autograd.grad(first, x, weft.from_numpy(row), retain_graph=True)[0].numpy() for row in np.eye(3)
    ]
    pairs = [[0 if i == j else values[3 - i - j] for j in range(3)] for i in range(3)]
    np.testing.assert_allclose(hessian, pairs)


# -- truth ---------------------------------------------------------------------------------------------------
def test_truth_of_bytes_is_bytes() -> None:
    assert tensor([1, 2], "uint8").all().dtype is weft.uint8
    assert tensor([0.5], "float32").any().dtype is weft.bool
    assert tensor(np.ones((0, 3))).all().item() is True
    assert tensor(np.ones((0, 3))).any().item() is False


# -- forms ---------------------------------------------------------------------------------------------------
def test_sum_to_size() -> None:
    x = tensor(np.arange(6.0).reshape(2, 3))
    np.testing.assert_array_equal(x.sum_to_size(3).numpy(), [3, 5, 7])
    np.testing.assert_array_equal(x.sum_to_size((2, 1)).numpy(), [[3], [12]])
    with pytest.raises(RuntimeError, match=r"size \{\[4\]\} is not expandable to size \{\[2, 3\]\}."):
        x.sum_to_size(4)


def test_out_of_max_fills_both() -> None:
    x = tensor([[1.0, 2.0]])
    values, indices = weft.from_numpy(np.zeros(1, np.float32)), weft.from_numpy(np.zeros(1, np.int64))
    result = weft.max(x, 1, out=(values, indices))
    assert result.values is values and result.indices is indices
    assert (values.item(), indices.item()) == (2, 1)


def test_ops_on_arrays_and_types_agree() -> None:
    x = np.arange(6.0).reshape(2, 3)
    assert ops.max(x, 1).indices.tolist() == [2, 2]
    assert ops.amax(x, (0, 1)).shape == ()


def test_errors_are_the_same_once_the_dtype_is_known() -> None:
    """After a first call the kernel runs first, so it must refuse whatever the type rule refuses."""
    x, empty = tensor([[1.0, 2.0]]), tensor(np.ones((0, 2)))
    for fold in (weft.amax, weft.argmin, weft.prod, weft.cumsum, weft.median, weft.argsort):
        fold(x, 0)
        with pytest.raises(IndexError, match="Dimension out of range"):
            fold(x, 2)
    for fold in (weft.amax, weft.argmin, weft.max, weft.median):
        with pytest.raises(IndexError, match=r"\(\): Expected reduction dim 0 to have non-zero size."):
            fold(empty, 0)
    with pytest.raises(TypeError):
        weft.prod(x, (0, 1))
    with pytest.raises(NotImplementedError, match="cumsum_out_cpu"):
        weft.cumsum(x, 0, dtype=weft.bool)
    with pytest.raises(TypeError, match="must be tuple of ints, not NoneType"):
        weft.logsumexp(x, None)
    weft.topk(x, 1)
    with pytest.raises(RuntimeError, match="selected index k out of range"):
        weft.topk(x, 3)
    x.norm()
    with pytest.raises(RuntimeError, match="dtype should be real for real inputs, but got ComplexFloat"):
        x.norm(dtype=weft.complex64)
    with pytest.raises(RuntimeError, match="cannot compute the -1 norm on the dimension 0because"):
        empty.norm(-1, 0)


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(256, 256), (1000, 1000), (70_001,)])
def test_large_sums_are_as_exact_as_pairwise_ones(kind: str, shape: tuple[int, ...]) -> None:
    values = np.random.default_rng(3).uniform(-1, 1, shape).astype(kind)
    exact = math.fsum(values.reshape(-1).tolist())
    bound = 4 * np.finfo(kind).eps * np.abs(values).sum(dtype=np.float64) / 16
    x = weft.from_numpy(values)
    assert abs(x.sum().item() - exact) < bound
    assert abs(x.mean().item() - exact / values.size) < bound / values.size + np.finfo(kind).tiny
    assert x.sum(keepdim=True, dim=tuple(range(values.ndim))).shape == (1,) * values.ndim


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan")])
def test_large_sums_keep_what_is_not_finite(value: float) -> None:
    x = weft.ones(300, 300)
    x[7, 5] = value
    assert np.array_equal(x.sum().item(), value, equal_nan=True)


def test_gradient_of_a_mean_can_be_written_to() -> None:
    x = weft.ones(2, 3, requires_grad=True)
    for graph in (False, True):
        (g,) = weft.autograd.grad(x.mean(), x, create_graph=graph)
        assert g.stride() == (3, 1) and g.mul_(6).tolist() == [[1, 1, 1]] * 2


def test_dtypes_of_out() -> None:
    x = weft.ones(2, 3)
    for name in ("all", "any"):
        with pytest.raises(RuntimeError, match=f"{name} only supports bool tensor for result, got: Long"):
            getattr(weft, name)(x, 0, out=weft.zeros(3, dtype=weft.int64))
    places = weft.zeros(3, dtype=weft.int64)
    with pytest.raises(RuntimeError, match="Expected out tensor to have dtype float, but got double instead"):
        weft.max(x, 0, out=(weft.zeros(3, dtype=weft.float64), places))
    assert weft.max(x, out=weft.zeros((), dtype=weft.float64)).item() == 1


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", ["amax", "amin"])
def test_extremes_that_are_nan_give_nan_to_all_they_were_found_among(name: str, compiled: bool) -> None:
    def slopes(x: Any) -> Any:
        return weft.autograd.grad(getattr(weft, name)(x, 1).sum(), x)[0]

    x = tensor([[1.0, NAN, 3.0], [3.0, 3.0, 3.0], [NAN, NAN, NAN]], grad=True)
    found = (weft.compile(slopes) if compiled else slopes)(x)
    third = float(np.float32(1) / np.float32(3))
    np.testing.assert_array_equal(found.numpy(), [[NAN] * 3, [third] * 3, [NAN] * 3])


def test_shares_of_many_equal_halves_are_counted_exactly() -> None:
    x = weft.ones(1000, dtype=weft.bfloat16, requires_grad=True)
    weft.amax(x, 0).backward()
    assert set(x.grad.tolist()) == {float(weft.tensor(1 / 1000, dtype=weft.bfloat16))}


SUMS = [
    (lambda x: x.sum(0), (1, 2)),
    (lambda x: x.sum((0, 2)), (1, 2, 1)),
    (lambda x: x.sum(), ()),
    (lambda x: x.mean(1), (2, 1)),
    (lambda x: x.nansum(0), (1, 2)),
    (lambda x: (x * 3).sum(1), (2, 1)),
    (lambda x: x.cumsum(0), (1, 2)),
    (lambda x: x.cumsum(0), (3,)),
]


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
@pytest.mark.parametrize("kind", [weft.float32, weft.float64, weft.float16, weft.bfloat16])
@pytest.mark.parametrize("total, shape", SUMS)
def test_no_sum_is_a_negative_zero(total, shape, kind, backend):
    run = total if backend == "eager" else weft.compile(total, backend=backend)
    assert not weft.signbit(run(-weft.zeros(shape, dtype=kind))).any()
