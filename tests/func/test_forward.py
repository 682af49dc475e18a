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


def test_values_beside_a_second_derivative_belong_to_no_direction() -> None:
    x = weft.tensor([0.5, -1.0, 2.0])

    def f(x: Any) -> Any:
        out = x.sin()
        return out, {"out": out, "twice": out * 2}

    found, aux = weft.func.jacfwd(weft.func.jacrev(f, has_aux=True), has_aux=True)(x)
    assert found.shape == (3, 3, 3)
    assert aux["out"].tolist() == x.sin().tolist() and aux["twice"].tolist() == (x.sin() * 2).tolist()
    batch, beside = weft.func.vmap(weft.func.jacfwd(weft.func.jacrev(f, has_aux=True), has_aux=True))(
        weft.stack([x, x + 1])
    )
    assert batch[0].tolist() == found.tolist() and beside["out"].tolist() == [
        x.sin().tolist(),
        (x + 1).sin().tolist(),
    ]


def test_functions_that_give_nothing_are_refused() -> None:
    x = weft.ones(2)
    for output, text in ((None, r"\[None\]"), ((), r"\[\]")):
        for ask in (lambda f: weft.func.jvp(f, (x,), (x,)), lambda f: weft.func.jacfwd(f)(x)):
            message = r"jvp\(f, primals, tangents\): Expected f to be a function that has non-empty output"
            with pytest.raises(RuntimeError, match=rf"{message} \(got output = {text}\)"):
                ask(lambda _x, output=output: output)
        with pytest.raises(RuntimeError, match=rf"vjp\(f, \*primals\): .* \(got output = {text}\)"):
            weft.func.vjp(lambda _x, output=output: output, x)


@pytest.mark.parametrize("name", ["jacrev", "jacfwd"])
def test_jacobians_are_of_real_functions(name: str) -> None:
    jacobian = getattr(weft.func, name)
    text = f"{name}: Expected all {{}} to be real but received complex tensor at flattened input idx: {{}}"
    with pytest.raises(RuntimeError, match=text.format("inputs", 1)):
        jacobian(lambda x, y: x * y.real, argnums=(0, 1))(weft.ones(1), weft.ones(1, dtype=weft.complex64))
    with pytest.raises(RuntimeError, match=text.format("outputs", 0)):
        jacobian(lambda x: x * 1j)(weft.ones(2))
    with pytest.raises(RuntimeError, match="jacfwd: Expected all inputs to be real"):
        weft.func.hessian(lambda x: (x * x).sum())(weft.ones(1, dtype=weft.complex64))
