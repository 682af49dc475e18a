"""Transforms of compiled functions: vmap, jvp, Jacobians and the like give what they give uncompiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from weft import nn
from weft.autograd import forward_ad, functional
from weft.core.trees import flatten
from weft.func import (
    functional_call,
    grad,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    stack_module_state,
    vjp,
    vmap,
)
from weft.testing import CompileCounter

Tensor = weft.Tensor
Function = Callable[[Tensor], Tensor]
WEIGHT = weft.arange(9.0).reshape(3, 3) / 5 - 0.8


@pytest.fixture(autouse=True)
def fresh() -> None:
    weft.compiler.reset()
    weft.manual_seed(0)


def point(requires_grad: bool = False) -> Tensor:
    made = weft.arange(12.0).reshape(4, 3) / 7 - 0.6
    return made.requires_grad_(requires_grad)


def smooth(x: Tensor) -> Tensor:
    return x.sin() * x + x @ WEIGHT


def written(x: Tensor) -> Tensor:
    y = x.clone()
    y.mul_(2)
    y[..., 0] = 0
    return y * x


def broken(x: Tensor) -> Tensor:
    y = x.sin()
    weft.compiler.graph_break()
    return y * x


def transforming(x: Tensor) -> Tensor:
    return grad(lambda y: (y.sin() * y).sum())(x) * x


FUNCTIONS: dict[str, Function] = {
    "smooth": smooth,
    "written": written,
    "broken": broken,
    "transforming": transforming,
    "module": nn.Sequential(nn.Linear(3, 3), nn.Tanh()),
}
TRANSFORMS: dict[str, Callable[[Function, Tensor], Any]] = {
    "vmap": lambda f, x: vmap(f)(x),
    "vmap of vmap": lambda f, x: vmap(vmap(f))(x[None]),
    "grad": lambda f, x: grad(lambda y: f(y).sum())(x),
    "grad of grad": lambda f, x: grad(lambda z: grad(lambda y: f(y).cos().sum())(z).sin().sum())(x),
    "vmap of grad": lambda f, x: vmap(grad(lambda y: f(y).sum()))(x),
    "vjp": lambda f, x: vjp(f, x)[1](x),
    "jvp": lambda f, x: jvp(f, (x,), (x.cos(),)),
    "linearize": lambda f, x: linearize(f, x)[1](x.cos()),
    "jacrev": lambda f, x: jacrev(f)(x[0]),
    "jacfwd": lambda f, x: jacfwd(f)(x[0]),
    "vmap of jacrev": lambda f, x: vmap(jacrev(f))(x),
    "jacrev of vmap": lambda f, x: jacrev(vmap(f))(x),
    "jacrev of jacrev": lambda f, x: jacrev(jacrev(lambda y: f(y).sum()))(x[0]),
    "hessian": lambda f, x: hessian(lambda y: f(y).sum())(x[0]),
    "functional.jacobian": lambda f, x: functional.jacobian(f, x),
    "functional.jacobian at once": lambda f, x: functional.jacobian(f, x, vectorize=True),
    "functional.hessian": lambda f, x: functional.hessian(lambda y: f(y).sum(), x[0]),
}


def pulled(result: Any, x: Tensor) -> Any:
    x.grad = None
    live = [leaf.cos().sum() for leaf in flatten(result)[0] if leaf.requires_grad]
    if live:
        sum(live).backward()
    return x.grad


def assert_alike(expected: Any, actual: Any) -> None:
    left, right = flatten(expected)[0], flatten(actual)[0]
    assert len(left) == len(right)
    for a, b in zip(left, right, strict=True):
        assert a.requires_grad == b.requires_grad
        assert weft.allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("warm", [False, True], ids=["first called inside", "compiled before"])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("name", TRANSFORMS)
def test_same_as_uncompiled(name: str, function: str, backend: str, warm: bool) -> None:
    plain, transform = FUNCTIONS[function], TRANSFORMS[name]
    compiled = weft.compile(plain, backend=backend)
    if warm:
        compiled(point()), compiled(point(True)), compiled(point()[0])
    for requires_grad in (False, True):
        x, y = point(requires_grad), point(requires_grad)
        expected, actual = transform(plain, x), transform(compiled, y)
        assert_alike(expected, actual)
        if requires_grad:
            one, other = pulled(expected, x), pulled(actual, y)
            assert (one is None and other is None) or weft.allclose(one, other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_batched_gradients_of_outputs(backend: str) -> None:
    compiled = weft.compile(lambda x: x**2 * x.sin(), backend=backend)
    for batched in (True, False):
        x = weft.tensor([0.5, -1.0, 2.0], requires_grad=True)
        rows = []
        for function in (lambda x: x**2 * x.sin(), compiled):
            y = function(x)
            if batched:
                rows.append(weft.autograd.grad(y, x, weft.eye(3), is_grads_batched=True)[0])
            else:
                rows.append(vmap(lambda v, y=y, x=x: weft.autograd.grad(y, x, v)[0])(weft.eye(3)))
        assert weft.allclose(*rows)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_functional_call_of_a_compiled_module(backend: str) -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    compiled = weft.compile(model, backend=backend)
    given = dict(model.named_parameters())

    def loss(module: Any) -> Callable[..., Tensor]:
        return lambda parameters, x: functional_call(module, parameters, (x,)).sum()

    for _ in range(2):
        for transform in (
            lambda module: grad(loss(module))(given, point()),
            lambda module: vmap(grad(loss(module)), in_dims=(None, 0))(given, point()),
            lambda module: jacfwd(jacrev(loss(module)))(given, point()[0]),
            lambda module: vmap(lambda p, b: functional_call(module, (p, b), (point(),)))(
                *stack_module_state([model, model])
            ),
        ):
            assert_alike(transform(model), transform(compiled))
        compiled(point())


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("randomness", ["different", "same", "error"])
def test_random_numbers_of_a_compiled_function(backend: str, randomness: str) -> None:
    def noisy(x: Tensor) -> Tensor:
        return x + weft.rand(3)

    compiled = weft.compile(noisy, backend=backend)
    compiled(weft.zeros(3))  # so that there is an entry that fits but for the vmap around
    found = []
    for function in (noisy, compiled):
        weft.manual_seed(5)
        try:
            rows = vmap(lambda a, f=function: f(weft.zeros(3)) + a, randomness=randomness)(point())
            found.append(rows.tolist())
        except RuntimeError as error:
            found.append(str(error))
    assert found[0] == found[1]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_duals_through_a_compiled_function(backend: str) -> None:
    compiled = weft.compile(smooth, backend=backend)
    compiled(point())
    with forward_ad.dual_level():
        moving = forward_ad.make_dual(point(), point().cos())
        expected, actual = (forward_ad.unpack_dual(f(moving)) for f in (smooth, compiled))
        assert weft.allclose(expected.primal, actual.primal)
        assert weft.allclose(expected.tangent, actual.tangent)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_compiled_inside_transformed_inside_compiled(backend: str) -> None:
    inner = weft.compile(smooth, backend=backend)
    for transform in (vmap, jacrev, jacfwd):
        for whole in (transform(inner), lambda x, t=transform: t(inner)(x)):
            compiled = weft.compile(whole, backend=backend, fullgraph=True)
            for _ in range(2):
                assert weft.allclose(compiled(point()), transform(smooth)(point()), atol=1e-6)


def test_calls_inside_and_outside_of_transforms_share_no_entry() -> None:
    counter = CompileCounter()
    compiled = weft.compile(lambda x: x.sin() * 2, backend=counter)
    for _ in range(3):
        assert weft.allclose(vmap(compiled)(point()), point().sin() * 2)
        assert weft.allclose(compiled(point()), point().sin() * 2)
    assert counter.frame_count == 1


def test_tensor_of_a_transform_that_has_ended() -> None:
    kept: list[Tensor] = []
    vmap(lambda a: kept.append(a) or a)(point())
    compiled = weft.compile(lambda x: x * 2, backend="eager")
    assert type(compiled(kept[0])) is type(kept[0] * 2)
    with pytest.raises(weft.compiler.Unsupported):
        weft.compile(lambda x: x * 3, backend="eager", fullgraph=True)(kept[0])


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("transform", [jacrev, jacfwd])
def test_jacobian_of_a_compiled_function_against_finite_differences(backend: str, transform: Any) -> None:
    def inner(a: Tensor) -> Tensor:
        return weft.stack([a[0] * a[1].exp(), (a * a).sum().sqrt(), nn.functional.softmax(a, 0)[2]])

    at, step = np.array([0.3, -0.7, 1.1]), 1e-6
    found = np.asarray(transform(weft.compile(inner, backend=backend))(weft.tensor(at)).tolist())
    columns = [
        (inner(weft.tensor(at + move)).numpy() - inner(weft.tensor(at - move)).numpy()) / (2 * step)
        for move in np.eye(3) * step
    ]
    assert np.allclose(found, np.stack(columns, -1), atol=1e-7)
