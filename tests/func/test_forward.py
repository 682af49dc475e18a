"""jvp, linearize, jacfwd, hessian: results, trees and what they refuse."""

from __future__ import annotations

from typing import Any

import pytest

import weft
from weft.func import grad, hessian, jacfwd, jvp, linearize, vmap

X = weft.tensor([1.0, 2.0, 3.0])


def test_jvp_of_trees() -> None:
    value, move = jvp(lambda d: {"o": d["a"] * d["b"]}, ({"a": X, "b": X},), ({"a": X, "b": X * 0},))
    assert value["o"].tolist() == [1, 4, 9] and move["o"].tolist() == [1, 4, 9]
    value, move, aux = jvp(lambda x: (x * 2, x + 1), (X,), (X,), has_aux=True)
    assert move.tolist() == [2, 4, 6] and aux.tolist() == [2, 3, 4] and type(aux) is weft.Tensor
    assert jvp(lambda x: weft.ones(2), (X,), (X,))[1].tolist() == [0, 0]
    assert jvp(lambda x: x.argmax(), (X,), (X,))[1].item() == 0
    assert jvp(lambda x: x * x[0].item() if x.sum() > 0 else x, (X,), (X,))[1].tolist() == [1, 2, 3]


PREFIX = r"jvp\(f, primals, tangents\): "


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (
            lambda: jvp(weft.sin, X, X),
            RuntimeError,
            PREFIX + "Expected primals to be a tuple. E.g. it should be",
        ),
        (
            lambda: jvp(weft.sin, (X,), X),
            RuntimeError,
            r"structure TreeSpec\(tuple, None, \[\*\]\) and tangents with",
        ),
        (
            lambda: jvp(weft.sin, (), ()),
            RuntimeError,
            PREFIX + "Expected primals to contain at least one Tensor.",
        ),
        (
            lambda: jvp(weft.sin, (1.0,), (X,)),
            RuntimeError,
            "Expected primals to only contain Tensors, got <class 'float",
        ),
        (
            lambda: jvp(weft.sin, (X,), (X[:2],)),
            RuntimeError,
            r"Tensor is of size \[3\] while the given forward",
        ),
        (
            lambda: jvp(weft.sin, (weft.tensor([1]),), (X,)),
            ValueError,
            "Expected primal to be floating point or compl",
        ),
        (
            lambda: jvp(lambda x: 1.0, (X,), (X,)),
            RuntimeError,
            r"expected f\(\*primals\) to return only tensors",
        ),
        (
            lambda: jvp(lambda x: X, (X,), (X,), strict=True),
            RuntimeError,
            "The output of f is independent of the inpu",
        ),
        (
            lambda: jacfwd(lambda x: x, has_aux=True)(X),
            RuntimeError,
            PREFIX + "output of function f should be a tuple",
        ),
        (lambda: linearize(weft.sin, X)[1](X[:2]), RuntimeError, "tangent:0 with shape"),
        (
            lambda: linearize(weft.sin, X)[1](X.double()),
            RuntimeError,
            "tangent:0 with dtype weft.float64 in flattened",
        ),
        (
            lambda: linearize(weft.sin, X)[1](X, X),
            RuntimeError,
            "to have the same argspec as the primals TreeSpec",
        ),
    ],
)
def test_refusals(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call()


def test_linearize_runs_the_function_once() -> None:
    calls = []

    def function(x: Any, y: Any) -> Any:
        calls.append(1)
        return {"product": x * y, "sine": x.sin()}

    value, push = linearize(function, X, X)
    assert value["product"].tolist() == [1, 4, 9]
    for _ in range(2):
        assert push(X, X)["product"].tolist() == [2, 8, 18]
    assert weft.allclose(vmap(lambda t: push(t, t)["sine"])(weft.eye(3)), weft.diag(X.cos()))
    assert len(calls) == 1
    nested = grad(lambda x: linearize(lambda y: y**3, x)[1](X).sum())(X)
    assert nested.tolist() == [6, 24, 54]


def test_jacfwd_of_trees() -> None:
    y = weft.tensor([4.0, 5.0])
    rows = jacfwd(lambda x, y: (x.sum() * y, {"x": x}), argnums=(0, 1))(X, y)
    assert rows[0][0].tolist() == [[4, 4, 4], [5, 5, 5]] and rows[0][1].tolist() == [[6, 0], [0, 6]]
    assert rows[1]["x"][1].tolist() == [[0, 0]] * 3
    found, aux = jacfwd(lambda x: (x**2, x), has_aux=True)(X)
    assert aux.tolist() == [1, 2, 3] and found.tolist() == weft.diag(2 * X).tolist()
    by_name = jacfwd(lambda d: d["a"] * d["b"])({"a": X, "b": X})
    assert by_name["a"].tolist() == weft.diag(X).tolist()
    assert jacfwd(lambda x: x.sum())(X[:0]).shape == (0,)


def test_hessian_of_several_arguments() -> None:
    blocks = hessian(lambda x, y: (x**2).sum() * y.sum(), argnums=(0, 1))(X, X)
    assert blocks[0][0].tolist() == (12 * weft.eye(3)).tolist()
    assert blocks[0][1].tolist() == [[2, 2, 2], [4, 4, 4], [6, 6, 6]] and blocks[1][1].abs().sum() == 0
    leaf = X.clone().requires_grad_()
    assert hessian(lambda x: (x**3).sum())(leaf).requires_grad
    assert not hessian(lambda x: (x**3).sum())(X).requires_grad


def test_randomness_of_jacfwd() -> None:
    with pytest.raises(RuntimeError, match="randomness error mode"):
        jacfwd(lambda x: x * weft.rand(3))(X)
    found = jacfwd(lambda x: x * weft.rand(3), randomness="same")(X)
    assert (found - weft.diag(weft.diagonal(found))).abs().sum() == 0
