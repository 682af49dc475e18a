"""Custom Functions under transforms inside captured code: own rules and generated ones, in one graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import weft
from tests.capture.custom_functions.harness import BACKENDS, Cube
from tests.capture.features.harness import numbers
from weft import Tensor
from weft.autograd import Function
from weft.func import grad, hessian, jacfwd, jacrev, jvp, vjp, vmap
from weft.testing import CompileCounterWithBackend

LOG: list[Any] = []


class Generated(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        LOG.append("forward")
        return x * x * x

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.factor = 3
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        LOG.append("backward")
        (x,) = ctx.saved_tensors
        return gradient * x * x * ctx.factor

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor) -> Tensor:
        LOG.append("jvp")
        (x,) = ctx.saved_tensors
        return tangent * x * x * ctx.factor


class Own(Generated):
    generate_vmap_rule = False

    @staticmethod
    def vmap(info: Any, in_dims: Any, x: Tensor) -> Any:
        LOG.append((info.batch_size, info.randomness, in_dims))
        return Own.apply(x), in_dims[0]


PROGRAMS: list[Callable[..., Any]] = [
    lambda x, f: vmap(f)(x),
    lambda x, f: vmap(grad(lambda row: f(row).sum()))(x),
    lambda x, f: grad(lambda y: f(y).sin().sum())(x),
    lambda x, f: jvp(f, (x,), (x * 2,)),
    lambda x, f: jacrev(lambda y: f(y).sum(0))(x),
    lambda x, f: jacfwd(lambda y: f(y).sum(0))(x),
    lambda x, f: vjp(f, x)[1](x),
    lambda x, f: hessian(lambda y: f(y).sum())(x),
    lambda x, f: grad(lambda y: grad(lambda z: f(z).sum())(y).sum())(x),
    lambda x, f: vmap(vmap(f))(x.reshape(1, 2, 3)),
]


def shown(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return [shown(item) for item in value]
    return numbers(value), value.requires_grad


def compare(program: Callable[..., Any], function: Any, tracked: bool, backend: str, **options: Any) -> None:
    counter = CompileCounterWithBackend(backend)
    compiled = weft.compile(program, backend=counter, **{"fullgraph": True, **options})
    found = []
    for each in (program, compiled, compiled):
        LOG.clear()
        x = weft.arange(6.0).reshape(2, 3).requires_grad_(tracked)
        found.append((shown(each(x, function.apply)), list(LOG)))
    assert found[0] == found[1] == found[2]
    assert options or counter.frame_count == 1


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("function", [Generated, Own])
@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_transforms(number: int, function: Any, backend: str) -> None:
    compare(PROGRAMS[number], function, False, backend)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("function", [Generated, Own])
@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_transforms_of_what_requires_grad(number: int, function: Any, backend: str) -> None:
    compare(PROGRAMS[number], function, True, backend)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("function", [Generated, Own])
@pytest.mark.parametrize("nested", [False, True])
def test_gradients_through_a_mapped_function(function: Any, nested: bool, backend: str) -> None:
    """What is handed on unswept has the histories that eager's has, of any order."""

    def program(x: Tensor) -> Tensor:
        mapped = vmap(vmap(function.apply)) if nested else vmap(function.apply)
        return mapped(x) * 2

    found = []
    compiled = weft.compile(program, backend=backend, fullgraph=True)
    for each in (program, compiled, compiled):
        LOG.clear()
        x = weft.arange(6.0).reshape(2, 3).requires_grad_()
        result = each(x)
        (first,) = weft.autograd.grad(result.sin().sum(), x, create_graph=True)
        (second,) = weft.autograd.grad(first.square().sum(), x)
        found.append((shown([result, first, second]), list(LOG)))
    assert found[0] == found[1] == found[2]


def test_a_function_without_setup_context_says_so() -> None:
    def program(x: Tensor) -> Tensor:
        return vmap(lambda row: Cube.apply(row))(x)

    for each in (program, weft.compile(program, backend="eager", fullgraph=True)):
        with pytest.raises(RuntimeError, match="must override the setup_context"):
            each(weft.ones(2, 3))
