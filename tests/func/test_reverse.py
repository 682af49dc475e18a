"""grad, grad_and_value, vjp and jacrev: results, trees, what they refuse, and what they leave on the tape."""

from __future__ import annotations

from typing import Any

import pytest

import weft
from weft.func import grad, grad_and_value, jacrev, vjp, vmap

X = weft.tensor([1.0, 2.0, 3.0])


def cubes(x: Any) -> Any:
    return (x**3).sum()


def test_grad_of_trees_and_several_arguments() -> None:
    found = grad(lambda tree: (tree["a"] * tree["b"][0]).sum())({"a": X, "b": (X + 1,)})
    assert found["a"].tolist() == [2, 3, 4] and found["b"][0].tolist() == [1, 2, 3]
    first, second = grad(lambda x, y: (x * x * y).sum(), argnums=(0, -1))(X, X)
    assert first.tolist() == [2, 8, 18] and second.tolist() == [1, 4, 9]
    assert grad(lambda x, y: x.sum(), argnums=1)(X, X).tolist() == [0, 0, 0]  # unused
    assert grad(lambda x: x.sum().long())(X).tolist() == [0, 0, 0]
    assert grad(lambda x, *, k: (x * k).sum())(X, k=3.0).tolist() == [3, 3, 3]


def test_values_and_auxiliary_results() -> None:
    found, (value, aux) = grad_and_value(lambda x: (cubes(x), {"twice": x * 2}), has_aux=True)(X)
    assert found.tolist() == [3, 12, 27] and value.item() == 36 and aux["twice"].tolist() == [2, 4, 6]
    assert not value.requires_grad and not aux["twice"].requires_grad
    assert grad(lambda x: (x.sum(), x), has_aux=True)(X)[1].tolist() == [1, 2, 3]


SCALAR = (
    r"grad_and_value\(f\)\(\*args\): Expected f\(\*args\) to return a scalar Tensor, got tensor with 1 dims. "
    "Maybe you wanted to use the vjp or jacrev APIs instead?"
)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: grad(lambda x: x)(X), RuntimeError, SCALAR),
        (
            lambda: grad(lambda x: 1.0)(X),
            RuntimeError,
            r"Expected f\(\*args\) to return a Tensor, got <class 'float'>",
        ),
        (
            lambda: grad(cubes, has_aux=True)(X),
            RuntimeError,
            r"should be a tuple: \(output, aux\) if has_aux is True",
        ),
        (
            lambda: grad(lambda x: (x.sum(), 3), has_aux=True)(X),
            RuntimeError,
            "unsupported type <class 'int'>",
        ),
        (
            lambda: grad(cubes, argnums=[0])(X),
            RuntimeError,
            r"argnums must be int or Tuple\[int, ...\], got: <class",
        ),
        (lambda: grad(cubes, argnums=1)(X), RuntimeError, "Got argnum=1, but only 1 positional inputs"),
        (lambda: grad(cubes, argnums=-2)(X), RuntimeError, "Got argnum=-2, but only 1 positional inputs"),
        (lambda: grad(lambda x, y: x, argnums=(0, -2))(X, X), RuntimeError, r"must be unique, got \(0, 0\)"),
        (lambda: grad(cubes, argnums=())(X), RuntimeError, "argnums must be non-empty"),
        (lambda: grad(cubes, argnums=(0.0,))(X), RuntimeError, "argnum must be int, got: <class 'float'>"),
        (
            lambda: grad(cubes)(weft.tensor([1])),
            RuntimeError,
            "only Tensors of floating point dtype can require",
        ),
        (
            lambda: grad(cubes)(1.0),
            ValueError,
            "Thing passed to transform API must be Tensor, got <class 'float'>",
        ),
        (
            lambda: grad(cubes)(X.to(weft.complex64)),
            RuntimeError,
            "only for real scalar outputs but got .*64",
        ),
        (
            lambda: vjp(lambda x: 1.0, X),
            RuntimeError,
            r"expected f\(\*primals\) to return only tensors, got unsup",
        ),
        (
            lambda: vjp(lambda x: x, X, has_aux=True),
            RuntimeError,
            r"vjp\(f, \*primals\): output of function f",
        ),
        (lambda: vjp(lambda x: x, X)[1]((X,)), RuntimeError, r"cotangents: \(\*,\), primal output: \*"),
        (
            lambda: vjp(lambda x: x, X)[1](X[:2]),
            RuntimeError,
            r"Mismatch in shape: grad_output\[0\] has a shape",
        ),
        (lambda: jacrev(cubes, chunk_size=0), ValueError, "jacrev: `chunk_size` should be greater than 0."),
    ],
)
def test_refusals(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call()


def test_gradients_reach_the_tape_outside() -> None:
    leaf = weft.tensor([1.0, 2.0, 3.0], requires_grad=True)
    found = grad(cubes)(leaf)
    assert found.requires_grad
    found.sum().backward()
    assert leaf.grad.tolist() == [6, 12, 18]
    captured = grad(lambda x: (x**2 * leaf).sum())(X)
    assert weft.autograd.grad(captured.sum(), leaf)[0].tolist() == [2, 4, 6]
    assert not grad(cubes)(X).requires_grad
    with weft.no_grad():
        assert not grad(cubes)(leaf).requires_grad
        assert grad(cubes)(leaf).tolist() == [3, 12, 27]


def test_no_grad_and_detach_inside() -> None:
    def shielded(x: Any) -> Any:
        with weft.no_grad():
            constant = x**2
        return (x * constant).sum()

    assert grad(shielded)(X).tolist() == [1, 4, 9]
    assert grad(lambda x: grad(shielded)(x).sum())(X).tolist() == [0, 0, 0]
    assert grad(lambda x: (x * x.detach()).sum())(X).tolist() == [1, 2, 3]


def test_arguments_cannot_be_written_to() -> None:
    for x in (X.clone(), X.clone().requires_grad_()):
        with pytest.raises(
            RuntimeError, match="a leaf Variable that requires grad is being used in an in-place"
        ):
            grad(lambda x: x.mul_(2).sum())(x)
        assert x.tolist() == [1, 2, 3]


def test_vjp_pulls_back_again_and_again() -> None:
    outputs, pull = vjp(lambda x, y: {"a": x.sin() * y, "b": (y,)}, X, X)
    assert not outputs["a"].requires_grad
    for _ in range(2):
        first, second = pull({"a": weft.ones(3), "b": (X,)})
        assert weft.allclose(first, X.cos() * X) and weft.allclose(second, X.sin() + X)
    value, pull, aux = vjp(lambda x: (x * 2, x), X, has_aux=True)
    assert aux.tolist() == [1, 2, 3] and pull(X)[0].tolist() == [2, 4, 6] and value.tolist() == [2, 4, 6]
    seed = weft.ones(3, requires_grad=True)
    weft.autograd.grad(vjp(weft.sin, X)[1](seed)[0].sum(), seed)  # differentiable in the vector too


def test_jacrev_of_trees() -> None:
    y = weft.tensor([4.0, 5.0])
    rows = jacrev(lambda x, y: (x.sum() * y, {"x": x}), argnums=(0, 1))(X, y)
    assert rows[0][0].tolist() == [[4, 4, 4], [5, 5, 5]] and rows[0][1].tolist() == [[6, 0], [0, 6]]
    assert rows[1]["x"][0].tolist() == weft.eye(3).tolist() and rows[1]["x"][1].tolist() == [[0, 0]] * 3
    assert jacrev(lambda x: x**2, chunk_size=2)(X).tolist() == weft.diag(2 * X).tolist()
    found, aux = jacrev(lambda x: (x**2, x), has_aux=True)(X)
    assert aux.tolist() == [1, 2, 3] and found.shape == (3, 3)
    assert jacrev(lambda x: x[:0])(X).shape == (0, 3)
    assert vmap(jacrev(lambda x: x.sin()))(weft.ones(4, 3)).shape == (4, 3, 3)


def test_constants_of_an_inner_transform_are_nobody_elses():
    x, c = weft.tensor([0.3, -0.7]), weft.ones(2)

    def inner(x):
        return grad(lambda c: (c * c * x.sin()).sum())(c)

    assert not grad(lambda x: inner(x).sum())(x).requires_grad
    assert not jacrev(inner)(x).requires_grad
    output, pull = vjp(inner, x)
    assert not output.requires_grad and not pull(x)[0].requires_grad
    tracked = x.clone().requires_grad_()
    assert grad(lambda x: inner(x).sum())(tracked).requires_grad
    nested = grad(lambda y: grad(lambda x: inner(x * y).sum())(x).sum())(x)
    expected = 2 * weft.cos(x * x) - 2 * x * x * weft.sin(x * x)
    assert weft.allclose(nested, expected) and not nested.requires_grad


@pytest.mark.parametrize("inside", [False, True], ids=["made before", "made inside"])
def test_transforms_work_in_inference_mode(inside: bool) -> None:
    x = weft.arange(1.0, 4.0)
    with weft.inference_mode():
        given = weft.arange(1.0, 4.0) if inside else x
        assert weft.func.grad(lambda v: (v**2).sum())(given).tolist() == [2.0, 4.0, 6.0]
        assert weft.func.vjp(weft.square, given)[1](weft.ones(3))[0].tolist() == [2.0, 4.0, 6.0]
        assert weft.func.jacrev(weft.square)(given).diagonal().tolist() == [2.0, 4.0, 6.0]
        assert weft.func.hessian(lambda v: (v**3).sum())(given).diagonal().tolist() == [6.0, 12.0, 18.0]
        assert weft.func.grad(lambda v: (v * given * weft.ones(3)).sum())(x).tolist() == [1.0, 2.0, 3.0]
        assert weft.func.vmap(weft.func.grad(weft.square))(given).tolist() == [2.0, 4.0, 6.0]
        assert weft.is_inference_mode_enabled()
    leaf = weft.ones(3, requires_grad=True)
    with weft.inference_mode():
        made = weft.ones(3)
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
        leaf * made


@pytest.mark.parametrize("output", [None, (), [], {}])
def test_vjp_wants_results(output: object) -> None:
    with pytest.raises(RuntimeError, match=r"vjp\(f, \*primals\): Expected f to be a function that has non-"):
        weft.func.vjp(lambda _: output, weft.ones(2))
