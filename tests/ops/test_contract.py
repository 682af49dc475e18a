"""Matrix products: values and dtypes against NumPy, PyTorch's errors, beta and alpha, gradients by rank."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from weft.autograd import gradcheck

RANDOM = np.random.default_rng(0)


def array(*shape: int, kind: Any = np.float64) -> Any:
    return RANDOM.uniform(-1, 1, shape).astype(kind)


def tensor(*shape: int, kind: Any = np.float64, grad: bool = False) -> Any:
    return weft.from_numpy(array(*shape, kind=kind)).requires_grad_(grad)


PAIRS = [
    ((3,), (3,)),
    ((2, 3), (3,)),
    ((3,), (3, 2)),
    ((2, 3), (3, 4)),
    ((5, 2, 3), (3, 4)),
    ((5, 2, 3), (3,)),
    ((3,), (5, 3, 2)),
    ((2, 3), (5, 3, 4)),
    ((5, 2, 3), (5, 3, 4)),
    ((4, 1, 2, 3), (5, 3, 2)),
    ((0, 3), (3, 2)),
    ((2, 0), (0, 3)),
]


@pytest.mark.parametrize(("left", "right"), PAIRS, ids=str)
def test_matmul_equals_numpy_for_every_rank(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    x, y = array(*left), array(*right)
    out = weft.matmul(weft.from_numpy(x), weft.from_numpy(y))
    np.testing.assert_allclose(out.numpy(), np.matmul(x, y), rtol=1e-12)
    assert tuple(out.shape) == np.matmul(x, y).shape
    if x.size and y.size:
        assert gradcheck(weft.matmul, (tensor(*left, grad=True), tensor(*right, grad=True)))


def test_integers_are_exact_and_wrap() -> None:
    x = RANDOM.integers(-9, 9, (60, 70))
    y = RANDOM.integers(-9, 9, (70, 50))
    np.testing.assert_array_equal(weft.matmul(weft.from_numpy(x), weft.from_numpy(y)).numpy(), x @ y)
    large = np.full((40, 40), 2**31 + 1)
    np.testing.assert_array_equal(
        weft.mm(weft.from_numpy(large), weft.from_numpy(large)).numpy(), large @ large
    )
    small = np.full((40, 40), 100, np.int8)
    np.testing.assert_array_equal(
        weft.mm(weft.from_numpy(small), weft.from_numpy(small)).numpy(), small @ small
    )


@pytest.mark.parametrize("kind", [weft.float16, weft.bfloat16])
def test_half_types_accumulate_in_float32(kind: Any) -> None:
    ones = weft.ones(1, 4096, dtype=kind)
    assert weft.mm(ones, ones.t()).item() == 4096
    assert weft.mm(ones, ones.t()).dtype is kind
    assert weft.nn.functional.linear(ones, ones).item() == 4096
    total = weft.addmm(weft.ones(1, dtype=kind), ones, ones.t())
    assert total.dtype is kind


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (
            lambda: weft.mm(tensor(2, 3), tensor(4, 5)),
            RuntimeError,
            "mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)",
        ),
        (
            lambda: tensor(2, 3) @ tensor(4, 5),
            RuntimeError,
            "mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)",
        ),
        (lambda: weft.mm(tensor(3), tensor(4, 5)), RuntimeError, "self must be a matrix"),
        (
            lambda: weft.mv(tensor(2, 3), tensor(4)),
            RuntimeError,
            "size mismatch, got input (2), mat (2x3), vec (4)",
        ),
        (lambda: weft.matmul(tensor(), tensor(3)), RuntimeError, "at least 1D, but they are 0D and 1D"),
        (
            lambda: weft.matmul(tensor(2, 3, 4), tensor(5, 4, 2)),
            RuntimeError,
            "The size of tensor a (2) must match",
        ),
        (lambda: weft.bmm(tensor(2, 3, 4), tensor(3, 4, 5)), RuntimeError, "to be: [2, 4] but got: [3, 4]."),
        (lambda: weft.bmm(tensor(1, 3, 4), tensor(2, 4, 5)), RuntimeError, "to be: [1, 4] but got: [2, 4]."),
        (
            lambda: weft.dot(tensor(3), tensor(1)),
            RuntimeError,
            "inconsistent tensor size, expected tensor [3] and src [1]",
        ),
        (
            lambda: weft.mm(tensor(2, 2, kind="f"), tensor(2, 2)),
            RuntimeError,
            "same dtype, but got: float != double",
        ),
        (
            lambda: weft.bmm(tensor(2, 2, 2, kind="f"), tensor(2, 2, 2)),
            RuntimeError,
            "scalar type Float but found Double",
        ),
        (
            lambda: weft.mm(weft.ones(2, 2) > 0, weft.ones(2, 2) > 0),
            NotImplementedError,
            "not implemented for 'Bool'",
        ),
        (
            lambda: weft.addmm(tensor(2, 2), tensor(2, 3), tensor(3, 5)),
            RuntimeError,
            "The expanded size of the tensor (5)",
        ),
        (
            lambda: weft.addmm(tensor(2, 2), tensor(2, 3), tensor(3, 5), beta=0),
            RuntimeError,
            "The expanded size",
        ),
        (
            lambda: weft.addbmm(tensor(3, 5), tensor(2, 3, 4), tensor(3, 4, 5)),
            RuntimeError,
            "same number of batches, got 2 and 3",
        ),
        (
            lambda: weft.nn.functional.linear(tensor(2, 3), tensor(5, 4)),
            RuntimeError,
            "multiplied (2x3 and 4x5)",
        ),
        (
            lambda: weft.nn.functional.linear(tensor(2, 3), tensor(2, 5, 3)),
            RuntimeError,
            "t() expects a tensor with <= 2",
        ),
    ],
)
def test_errors(call: Any, error: type[Exception], text: str) -> None:
    for _ in range(2):  # by the rule first, then by the fast path's kernel
        with pytest.raises(error) as raised:
            call()
        assert text in str(raised.value)


def test_fast_path_raises_what_the_rule_raises() -> None:
    good = tensor(2, 3), tensor(3, 2)
    weft.mm(*good)
    with pytest.raises(RuntimeError, match="mat2 must be a matrix"):
        weft.mm(good[0], tensor(3))
    weft.nn.functional.linear(tensor(2, 3), tensor(4, 3), tensor(4))
    with pytest.raises(RuntimeError, match="expanded size"):
        weft.nn.functional.linear(tensor(2, 3), tensor(4, 3), tensor(5))


def test_beta_zero_ignores_what_it_scales() -> None:
    x, y = tensor(2, 3), tensor(3, 4)
    poisoned = weft.full((2, 4), float("nan"), dtype=weft.float64)
    np.testing.assert_array_equal(weft.addmm(poisoned, x, y, beta=0).numpy(), weft.mm(x, y).numpy())
    batches = tensor(5, 2, 3), tensor(5, 3, 4)
    assert not np.isnan(weft.baddbmm(poisoned, *batches, beta=0).numpy()).any()
    assert not np.isnan(weft.addbmm(poisoned, *batches, beta=0).numpy()).any()
    assert not np.isnan(weft.addmv(poisoned[0, 0], x, tensor(3), beta=0).numpy()).any()


def test_sums_of_products_against_numpy() -> None:
    t, x, y = array(2, 4), array(5, 2, 3), array(5, 3, 4)
    wrapped = [weft.from_numpy(a) for a in (t, x, y)]
    np.testing.assert_allclose(weft.addbmm(*wrapped, beta=2, alpha=3).numpy(), 2 * t + 3 * (x @ y).sum(0))
    np.testing.assert_allclose(weft.baddbmm(*wrapped, beta=2, alpha=3).numpy(), 2 * t + 3 * (x @ y))
    u, v = array(2), array(4)
    np.testing.assert_allclose(
        weft.addr(wrapped[0], weft.from_numpy(u), weft.from_numpy(v), beta=0.5).numpy(),
        0.5 * t + np.outer(u, v),
    )


def test_in_place_and_out_forms() -> None:
    total, x, y = tensor(2, 4), tensor(2, 3), tensor(3, 4)
    expected = weft.addmm(total, x, y).numpy()
    out = weft.empty(2, 4, dtype=weft.float64)
    weft.addmm(total, x, y, out=out)
    np.testing.assert_array_equal(out.numpy(), expected)
    assert total.addmm_(x, y) is total
    np.testing.assert_array_equal(total.numpy(), expected)
    with pytest.raises(RuntimeError, match="Expected out tensor to have dtype double, but got float instead"):
        weft.mm(x, y, out=weft.empty(2, 4))


def test_linear_needs_only_what_is_asked_for() -> None:
    x, w, b = tensor(4, 3), tensor(2, 3, grad=True), tensor(2, grad=True)
    out = weft.nn.functional.linear(x, w, b)
    out.sum().backward()
    np.testing.assert_allclose(w.grad.numpy(), np.broadcast_to(x.numpy().sum(0), (2, 3)))
    np.testing.assert_allclose(b.grad.numpy(), [4, 4])
    assert x.grad is None


@pytest.mark.parametrize("shape", [(3,), (4, 3), (2, 4, 3), (0, 3)])
def test_linear_equals_its_formula(shape: tuple[int, ...]) -> None:
    x, w, b = tensor(*shape), tensor(5, 3), tensor(5)
    expected = x.numpy() @ w.numpy().T
    np.testing.assert_allclose(weft.nn.functional.linear(x, w).numpy(), expected)
    np.testing.assert_allclose(weft.nn.functional.linear(x, w, b).numpy(), expected + b.numpy())


def test_products_do_not_promote_but_addr_does() -> None:
    assert weft.addr(tensor(2, 3), tensor(2, kind="f"), tensor(3, kind="f")).dtype is weft.float64
    with pytest.raises(RuntimeError, match="self and mat2 must have the same dtype"):
        weft.addmm(tensor(2, 2), tensor(2, 2, kind="f"), tensor(2, 2, kind="f"))
