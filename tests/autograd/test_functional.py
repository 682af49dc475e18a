"""autograd.functional: matrices and products against each other, in every strategy, and PyTorch's errors."""

from __future__ import annotations

from typing import Any

import pytest

import weft
from weft.autograd.functional import hessian, hvp, jacobian, jvp, vhp, vjp

X = weft.tensor([1.0, 2.0, 3.0], dtype=weft.float64)
Y = weft.tensor([4.0, 5.0], dtype=weft.float64)
REVERSE: list[dict[str, Any]] = [{}, {"vectorize": True}]
ALL = [*REVERSE, {"vectorize": True, "strategy": "forward-mode"}]


def two(x: Any, y: Any) -> Any:
    return x.sum() * y**2, x * x


def number(x: Any, y: Any) -> Any:
    return (x**3).sum() * (y**2).sum()


@pytest.mark.parametrize("options", ALL)
def test_jacobian(options: dict[str, Any]) -> None:
    assert jacobian(lambda x: x**2, X, **options).tolist() == weft.diag(2 * X).tolist()
    (a, b), (c, d) = jacobian(two, (X, Y), **options)
    assert a.tolist() == [[16, 16, 16], [25, 25, 25]] and b.tolist() == [[48, 0], [0, 60]]
    assert c.tolist() == weft.diag(2 * X).tolist() and d.tolist() == [[0, 0]] * 3
    assert not a.requires_grad
    assert jacobian(lambda x: weft.ones(2), X, **options).tolist() == [[0, 0, 0]] * 2


OUTER: list[dict[str, Any]] = [*REVERSE, {"vectorize": True, "outer_jacobian_strategy": "forward-mode"}]


@pytest.mark.parametrize("options", OUTER)
def test_hessian(options: dict[str, Any]) -> None:
    assert hessian(lambda x: (x**3).sum(), X, **options).tolist() == weft.diag(6 * X).tolist()
    (a, b), (c, d) = hessian(number, (X, Y), **options)
    assert weft.allclose(a, weft.diag(6 * X * 41)) and weft.allclose(b, weft.outer(3 * X**2, 2 * Y))
    assert weft.allclose(c, b.T) and weft.allclose(d, 2 * 36 * weft.eye(2, dtype=weft.float64))
    assert hessian(lambda x: x.sum(), X, **options).abs().sum() == 0


@pytest.mark.parametrize("options", REVERSE)
def test_results_can_be_differentiated(options: dict[str, Any]) -> None:
    leaf = X.clone().requires_grad_()
    second = weft.autograd.grad(jacobian(lambda x: x**3, leaf, create_graph=True, **options).sum(), leaf)[0]
    assert second.tolist() == (6 * X).tolist()
    third = weft.autograd.grad(
        hessian(lambda x: (x**3).sum(), leaf, create_graph=True, **options).sum(), leaf
    )[0]
    assert third.tolist() == [6, 6, 6]
    for product, vector in ((vjp, X), (jvp, X)):
        value, result = product(lambda x: x**3, leaf, vector, create_graph=True)
        assert value.requires_grad
        assert weft.autograd.grad(result.sum(), leaf)[0].tolist() == (6 * X * X).tolist()


@pytest.mark.parametrize("product", [vjp, jvp, vhp, hvp])
@pytest.mark.parametrize("recording", [True, False])
def test_gradients_come_to_the_vector_too(product: Any, recording: bool) -> None:
    leaf, vector = X.clone().requires_grad_(), (X + 1).requires_grad_()
    function = (lambda x: x**3) if product in (vjp, jvp) else lambda x: (x**3).sum()
    with weft.set_grad_enabled(recording):
        _, result = product(function, leaf, vector, create_graph=True)
    seen = weft.autograd.grad(result.sum(), vector)[0]
    assert seen.tolist() == (3 * X**2 if product in (vjp, jvp) else 6 * X).tolist()
    assert not product(function, leaf, vector)[1].requires_grad
    check = lambda x, v: product(function, x, v, create_graph=True)[1]
    assert weft.autograd.gradcheck(check, (leaf, vector)) and weft.autograd.gradgradcheck(
        check, (leaf, vector)
    )


def test_products() -> None:
    value, result = vjp(two, (X, Y), (Y, X))
    assert value[0].tolist() == (6 * Y**2).tolist() and not value[0].requires_grad
    assert (
        result[0].tolist() == ((Y**3).sum() + 2 * X * X).tolist()
        and result[1].tolist() == (12 * Y * Y).tolist()
    )
    assert vjp(lambda x: (x**3).sum(), X)[1].tolist() == (3 * X**2).tolist()
    value, moves = jvp(two, (X, Y), (X, Y))
    assert moves[0].tolist() == (6 * Y**2 + 12 * Y * Y).tolist() and moves[1].tolist() == (2 * X * X).tolist()
    assert jvp(lambda x: x**2, X[1])[1].item() == 4
    (a, b), (c, d) = hessian(number, (X, Y))
    for product in (vhp, hvp):
        value, (first, second) = product(number, (X, Y), (X, Y))
        assert value.item() == 36 * 41
        assert weft.allclose(first, a @ X + b @ Y) and weft.allclose(second, c @ X + d @ Y)
        assert product(lambda x: x.sum(), X, X)[1].tolist() == [0, 0, 0]


ONE = weft.ones((), dtype=weft.float64)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (
            lambda: jacobian(two, [X, Y]),
            TypeError,
            "The inputs given to jacobian must be either a Tensor or a tuple of",
        ),
        (
            lambda: jacobian(lambda x: 1.0, X),
            TypeError,
            "The outputs of the user-provided function given to jacobian",
        ),
        (lambda: jacobian(lambda x: x, (X, 1.0)), TypeError, "the value at index 1 has type <class 'float'>"),
        (
            lambda: jacobian(two, (X, Y), strategy="foo"),
            AssertionError,
            'Expected strategy to be either "forward-mode"',
        ),
        (
            lambda: jacobian(two, (X, Y), strategy="forward-mode"),
            NotImplementedError,
            "implemented for `vectorize=True`",
        ),
        (
            lambda: jacobian(two, (X, Y), True, strategy="forward-mode"),
            NotImplementedError,
            "`create_graph=True` and",
        ),
        (
            lambda: jacobian(two, (X, Y), strict=True, vectorize=True),
            RuntimeError,
            "`strict=True` and `vectorized=True`",
        ),
        (
            lambda: jacobian(lambda x: Y, X, strict=True),
            RuntimeError,
            "Output 0 of the user-provided function does not req",
        ),
        (
            lambda: jacobian(lambda x, y: x * 1, (X, Y), strict=True),
            RuntimeError,
            "is independent of input 1. This is not",
        ),
        (
            lambda: jacobian(lambda x: x * 2, X, True, True),
            RuntimeError,
            "strict mode when create_graph=True.",
        ),
        (lambda: hessian(lambda x: x, X), RuntimeError, "given to hessian should contain a single element"),
        (
            lambda: hessian(lambda x: (x.sum(), ONE), X),
            RuntimeError,
            "given to hessian should return a single Tensor",
        ),
        (
            lambda: hessian(lambda x: x.sum(), X, strict=True),
            RuntimeError,
            "is independent of the input. This is not all",
        ),
        (
            lambda: hessian(number, (X, Y), outer_jacobian_strategy="f"),
            AssertionError,
            "Expected strategy to be either",
        ),
        (
            lambda: vjp(lambda x: x**2, X),
            RuntimeError,
            "function returns a single Tensor with a single element.",
        ),
        (lambda: vjp(lambda x: x**2, X, Y), RuntimeError, "v has invalid size: should be"),
        (lambda: vjp(two, (X, Y), (Y, Y)), RuntimeError, "Entry 1 in v has invalid size: should be"),
        (
            lambda: vjp(two, (X, Y), (Y,)),
            RuntimeError,
            "v is a tuple of invalid length: should be 2 but got 1.",
        ),
        (lambda: vjp(lambda x: x, X, (X, X)), RuntimeError, "The given v should contain a single Tensor."),
        (
            lambda: vjp(lambda x: X, X, X, strict=True),
            RuntimeError,
            "does not require gradients. The outputs must be comp",
        ),
        (
            lambda: vjp(lambda x: x * 2, X, X, True, True),
            RuntimeError,
            "function is independent of input 0. This is not",
        ),
        (
            lambda: jvp(lambda x: x**2, X),
            RuntimeError,
            "input to the user-provided function is a single Tensor with a sin",
        ),
        (lambda: jvp(lambda x: x * 2, X, X, True, True), RuntimeError, "strict mode when create_graph=True."),
        (lambda: hvp(lambda x: x, X, X), RuntimeError, "given to hvp should contain a single element"),
        (
            lambda: hvp(lambda x: x.sum(), X, X, strict=True),
            RuntimeError,
            "While computing the hessian, found that the jac",
        ),
        (
            lambda: hessian(lambda x: x.long().double().requires_grad_().clone().sum(), X, strict=True),
            RuntimeError,
            "jacobian of the user-provided function with respect to input 0 is",
        ),
        (
            lambda: vhp(lambda x: ONE, X, X, strict=True),
            RuntimeError,
            "Output 0 of the user-provided function does not re",
        ),
    ],
)
def test_refusals(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call()
