"""Function transforms inside captured code: one graph, nothing but ops in it, whatever the nesting."""

from __future__ import annotations

import functools
from collections import namedtuple
from typing import Any

import pytest

import weft
from tests.capture.features.harness import check, everything_strict
from tests.capture.features.transforming import both, elements, matrix, number, pull, rows, tracked_rows, two
from weft import nn
from weft.autograd import functional
from weft.core.trees import flatten
from weft.func import (
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    vjp,
    vmap,
)
from weft.testing import CompileCounter, EagerAndRecordGraphs

Tensor = weft.Tensor
F = nn.functional


TRANSFORMED = {
    "grad": lambda x: grad(number)(x),
    "grad_and_value": lambda x: grad_and_value(number)(x),
    "grad of grad": lambda x: grad(lambda y: grad(number)(y).sum())(x),
    "third derivative": lambda x: grad(grad(grad(lambda y: (y**4).sum())))(x[0, 0]),
    "vmap": lambda x: vmap(elements)(x),
    "weft.vmap": lambda x: weft.vmap(elements)(x),
    "vmap of vmap": lambda x: vmap(vmap(lambda y: y.exp() * 2))(x),
    "vmap of grad": lambda x: vmap(grad(number))(x),
    "grad of vmap": lambda x: grad(lambda y: vmap(elements)(y).sum())(x),
    "vmap of jacrev": lambda x: vmap(jacrev(elements))(x),
    "vmap of hessian": lambda x: vmap(hessian(number))(x),
    "jvp": lambda x: jvp(elements, (x,), (x * 2,)),
    "jvp of jvp": lambda x: jvp(lambda y: jvp(elements, (y,), (x,))[1], (x,), (x.cos(),)),
    "jvp of grad": lambda x: jvp(grad(number), (x,), (x.cos(),)),
    "grad of jvp": lambda x: grad(lambda y: jvp(elements, (y,), (x,))[1].sum())(x),
    "vjp": lambda x: vjp(elements, x)[1](x.cos()),
    "vjp with its result": lambda x: (lambda pair: (pair[0], pair[1](x)))(vjp(elements, x)),
    "vmap of vjp": lambda x: vmap(lambda y: vjp(elements, y)[1](y))(x),
    "linearize": lambda x: (lambda pair: (pair[0], pair[1](x), pair[1](x.cos())))(linearize(elements, x)),
    "jacrev": lambda x: jacrev(elements)(x),
    "jacfwd": lambda x: jacfwd(elements)(x),
    "hessian": lambda x: hessian(number)(x[0]),
    "jacrev of jacfwd": lambda x: jacrev(jacfwd(number))(x[0]),
    "jacfwd of jacfwd of jacrev": lambda x: jacfwd(jacfwd(jacrev(number)))(x[0]),
    "functional.jacobian": lambda x: functional.jacobian(elements, x[0]),
    "functional.jacobian at once": lambda x: functional.jacobian(elements, x, vectorize=True),
    "functional.jacobian forward": lambda x: functional.jacobian(
        elements, x, vectorize=True, strategy="forward-mode"
    ),
    "functional.jacobian to go on from": lambda x: functional.jacobian(elements, x[0], create_graph=True),
    "functional.hessian": lambda x: functional.hessian(number, x[0]),
    "functional.vjp": lambda x: functional.vjp(elements, x, x),
    "functional.jvp": lambda x: functional.jvp(elements, x, x),
    "functional.hvp": lambda x: functional.hvp(number, x, x),
    "functional.vhp": lambda x: functional.vhp(number, x, x),
}


@pytest.mark.parametrize("name", TRANSFORMED)
def test_one_graph(name: str) -> None:
    both(TRANSFORMED[name])


@pytest.mark.parametrize("name", ["grad", "jvp", "vmap of grad", "hessian", "vjp"])
def test_without_gradients_around(name: str) -> None:
    function = TRANSFORMED[name]

    def quiet(x: Tensor) -> Any:
        with weft.no_grad():
            return function(x), x * 2

    both(quiet)


def test_graph_holds_ops_alone() -> None:
    graphs = EagerAndRecordGraphs()
    compiled = weft.compile(vmap_of_grad, backend=graphs, fullgraph=True)
    compiled(matrix())
    (module,) = graphs.graphs
    names = [node.name for node in module.graph.nodes if node.op.startswith("call")]
    assert "sin" in " ".join(names) and "cos" in names
    assert not [name for name in names if "vmap" in name or "grad_" in name.replace("_set_grad_enabled", "")]


def vmap_of_grad(x: Tensor) -> Tensor:
    return vmap(grad(number))(x)


# -- arguments of transforms ---------------------------------------------------------------------------------
def test_in_dims_and_out_dims() -> None:
    def f(x: Tensor, y: Tensor) -> Any:
        first = vmap(lambda a, b: a * b, in_dims=(1, 0), out_dims=1)(x, y.t())
        second = vmap(lambda a, b: (a + b, a), in_dims=(0, None), out_dims=(0, 1))(x, y[0])
        third = vmap(lambda d: d["a"] * d["b"][0], in_dims=({"a": 0, "b": (None,)},))({"a": x, "b": (y[0],)})
        fourth = vmap(lambda a: (a.sum(), weft.ones(3)), out_dims=(0, None))(x)
        return first, second, third, fourth

    check(f, two)


def test_chunks() -> None:
    both(lambda x: vmap(elements, chunk_size=3)(x))
    both(lambda x: jacrev(elements, chunk_size=2)(x))


def test_argnums() -> None:
    def f(x: Tensor, y: Tensor) -> Any:
        def loss(a: Tensor, b: Tensor, scale: float) -> Tensor:
            return (a * b.sin() * scale).sum()

        return (
            grad(loss, argnums=1)(x, y, 2.0),
            grad(loss, argnums=(0, 1))(x, y, 3.0),
            grad_and_value(loss, argnums=(1,))(x, y, 4.0),
            jacrev(lambda a, b: a * b, argnums=(0, 1))(x[0], y[0]),
            jacfwd(lambda a, b: a * b, argnums=1)(x[0], y[0]),
            hessian(lambda a, b: (a * b).sin().sum(), argnums=(0, 1))(x[0], y[0]),
        )

    check(f, two)


def test_aux() -> None:
    def f(x: Tensor) -> Any:
        def loss(a: Tensor) -> Any:
            y = a.sin()
            return y.sum(), {"y": y, "twice": [a * 2]}

        def pair(a: Tensor) -> Any:
            return a.sin(), a * 2

        return (
            grad(loss, has_aux=True)(x),
            grad_and_value(loss, has_aux=True)(x),
            jacrev(pair, has_aux=True)(x[0]),
            jacfwd(pair, has_aux=True)(x[0]),
            vjp(pair, x, has_aux=True)[2],
            jvp(pair, (x,), (x,), has_aux=True),
        )

    both(f)


def test_trees() -> None:
    Pair = namedtuple("Pair", "left right")

    def loss(weights: Any, x: Tensor) -> Tensor:
        return (x @ weights["w"] + weights["rest"][0]).sin().sum()

    def f(w: Tensor, x: Tensor) -> Any:
        weights = {"w": w, "rest": [x.sum(0)]}
        pulled, pull = vjp(lambda p: {"a": p[0] * p[1], "b": (p[0],)}, (x, x.cos()))
        named = vmap(lambda pair: pair.left * pair.right, in_dims=(Pair(0, 0),))(Pair(x, x.sin()))
        return grad(loss)(weights, x), pull({"a": x, "b": (x,)}), named, pulled

    check(f, lambda: (weft.eye(3), matrix()))


def test_keywords() -> None:
    def loss(x: Tensor, *, scale: Tensor, power: int = 1) -> Tensor:
        return ((x * scale) ** power).sum()

    both(lambda x: grad(loss)(x, scale=x[0], power=2))
    both(lambda x: vmap(lambda a, *, shift: a + shift)(x, shift=x[0]))


@pytest.mark.parametrize("randomness", ["different", "same"])
def test_random_numbers(randomness: str) -> None:
    def f(x: Tensor) -> Any:
        drawn = vmap(lambda a: (a + weft.rand(3), weft.randn(2)), randomness=randomness)(x)
        more = vmap(lambda a: weft.rand_like(a), randomness=randomness)(x)
        return drawn, more, weft.rand(2)

    check(f, rows, state=lambda: weft.manual_seed(7) and None)


def test_dropout_under_vmap() -> None:
    check(
        lambda x: vmap(lambda a: F.dropout(a, 0.5), randomness="different")(x),
        rows,
        state=lambda: weft.manual_seed(7) and None,
    )


def test_refused_random_numbers() -> None:
    check(lambda x: vmap(lambda a: a + weft.rand(3))(x), rows, frames=0, breaks=None, raises=RuntimeError)


# -- where transforms and functions come from ----------------------------------------------------------------
mapped_outside = vmap(elements)
differentiated_outside = grad(number)
partial_outside = functools.partial(vmap, in_dims=1, out_dims=1)
weight = weft.tensor([1.0, -2.0, 0.5])


@vmap
def decorated(x: Tensor) -> Tensor:
    return x * weight + x.sum()


def test_transforms_made_outside() -> None:
    def f(x: Tensor) -> Any:
        return mapped_outside(x), differentiated_outside(x), partial_outside(elements)(x), decorated(x)

    both(f)


def test_transform_as_argument_made_anew_each_time() -> None:
    check(lambda x, g: g(x), lambda: (matrix(), vmap(elements)))
    check(lambda x, g: vmap(g)(x), lambda: (matrix(), grad(number)))


def test_other_function_in_a_transform_is_another_graph() -> None:
    check(
        lambda x, g: g(x),
        lambda: (matrix(), vmap(elements)),
        lambda: (matrix(), vmap(number)),
        lambda: (matrix(), vmap(elements, out_dims=1)),
        lambda: (matrix(), vmap(elements)),
        frames=3,
    )


def test_modules_methods_builtins_and_partials_are_transformed() -> None:
    linear = nn.Linear(3, 2)

    class Scaled:
        def __init__(self) -> None:
            self.factor = 3.0

        def scale(self, x: Tensor) -> Tensor:
            return x * self.factor

        def __call__(self, x: Tensor) -> Tensor:
            return x / self.factor

    scaled = Scaled()

    def f(x: Tensor) -> Any:
        return (
            vmap(linear)(x),
            vmap(scaled.scale)(x),
            vmap(scaled)(x),
            vmap(weft.sin)(x),
            vmap(functools.partial(weft.mul, 2))(x),
            jacrev(weft.sin)(x[0]),
            grad(weft.sum)(x),
        )

    both(f)


def test_functions_among_the_arguments_stay_themselves() -> None:
    def choose(a: Tensor, function: Any) -> Tensor:
        return function(a) * (2 if function is elements else 3)

    check(lambda x: vmap(choose, in_dims=(0, None))(x, elements), rows)
    check(lambda x: grad(lambda a, f: choose(a, f).sum())(x, number), rows)


def test_callable_with_attributes_of_its_own() -> None:
    asked: list[str] = []

    class Odd:
        def __getattr__(self, name: str) -> Any:
            asked.append(name)
            raise AttributeError(name)

        def __call__(self, a: Tensor) -> Tensor:
            return a * 2

    odd = Odd()
    check(lambda x: vmap(odd)(x), rows, state=asked.clear, watch=lambda: asked, frames=None, breaks=None)


def test_numbers_that_vary_as_dimensions() -> None:
    check(lambda x, n: vmap(elements, in_dims=n)(x), lambda: (matrix(), 1), lambda: (matrix(), 0), frames=2)


def test_writes_of_duals_into_tensors_from_outside() -> None:
    buffer = weft.zeros(4, 3)

    def f(x: Tensor) -> Any:
        found = jvp(lambda a: (buffer.copy_(a), buffer * 2)[1], (x,), (x.cos(),))
        return found, buffer * 3

    check(f, rows, state=lambda: buffer.zero_() is None, watch=lambda: buffer)


def test_closure_that_changes_is_noticed() -> None:
    scale = 2.0

    def set_scale(value: float) -> None:
        nonlocal scale
        scale = value

    def f(x: Tensor) -> Tensor:
        return vmap(lambda a: a * scale)(x)

    with everything_strict():
        counter = CompileCounter()
        compiled = weft.compile(f, backend=counter, fullgraph=True)
        first = compiled(matrix())
        set_scale(5.0)
        second = compiled(matrix())
        compiled(matrix())
    assert weft.equal(first, matrix() * 2) and weft.equal(second, matrix() * 5)
    assert counter.frame_count == 2


def test_global_tensor_that_changes_is_an_input() -> None:
    global weight
    before = weight
    with everything_strict():
        counter = CompileCounter()
        compiled = weft.compile(lambda x: decorated(x), backend=counter, fullgraph=True)
        compiled(matrix())
        weight = weft.tensor([3.0, 3.0, 3.0])
        try:
            assert weft.equal(compiled(matrix()), decorated(matrix()))
        finally:
            weight = before
    assert counter.frame_count == 1


def test_transform_that_leaves_the_compiled_function() -> None:
    def f(x: Tensor) -> Any:
        shift = x.sum()
        return vmap(lambda a: a + shift), grad(number), x * 2

    check(f, rows, after=lambda result: (result[0](matrix()), result[1](matrix())))


def test_compiled_transform() -> None:
    for made in (vmap(elements), grad(number), jacrev(elements), jacfwd(elements), hessian(number)):
        with everything_strict():
            counter = CompileCounter()
            compiled = weft.compile(made, backend=counter, fullgraph=True)
            for _ in range(2):
                assert weft.allclose(compiled(matrix()[0]), made(matrix()[0]))
            assert counter.frame_count == 1


@pytest.mark.parametrize("name", TRANSFORMED)
def test_differentiated_ahead_of_time(name: str) -> None:
    function = TRANSFORMED[name]
    compiled = weft.compile(function, backend="aot_eager", fullgraph=True)
    for make in (rows, tracked_rows):
        for _ in range(2):
            (x,), (y,) = make(), make()
            expected, actual = function(x), compiled(y)
            for a, b in zip(flatten(expected)[0], flatten(actual)[0], strict=True):
                assert weft.allclose(a, b, rtol=1e-4, atol=1e-6) and a.requires_grad == b.requires_grad
            pull(expected)
            pull(actual)
            same = x.grad is None and y.grad is None
            assert same or weft.allclose(x.grad, y.grad, rtol=1e-4, atol=1e-5)


def test_second_call_compiles_nothing() -> None:
    check(TRANSFORMED["hessian"], rows, rows, rows, frames=1)
