"""Custom ops in captured code: what users registered with them is guarded and acts as in eager."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import weft
from weft import Tensor
from weft.compiler import Unsupported
from weft.testing import CompileCounterWithBackend

LOG: list[Any] = []
FACTORS = {"setup": 1.0, "backward": 2.0, "vmap": 1.0}


@weft.library.custom_op("captured::cube", mutates_args=())
def cube(x: Tensor) -> Tensor:
    return x**3


@cube.register_fake
def _(x: Tensor) -> Tensor:
    return weft.empty_like(x)


def set_up(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(inputs[0])
    ctx.factor = FACTORS["setup"]


def backward(ctx: Any, gradient: Tensor) -> Tensor:
    LOG.append("backward")
    (x,) = ctx.saved_tensors
    return gradient * x * x * 3 * ctx.factor * FACTORS["backward"]


cube.register_autograd(backward, setup_context=set_up)


@cube.register_vmap
def _(info: Any, in_dims: Any, x: Tensor) -> Any:
    LOG.append((info.batch_size, in_dims))
    return cube(x) * FACTORS["vmap"], in_dims[0]


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    weft.compiler.settings.strict = True  # put back by the fixture around all tests of capture
    weft.compiler.reset()
    FACTORS.update(setup=1.0, backward=2.0, vmap=1.0)
    yield
    FACTORS.update(setup=1.0, backward=2.0, vmap=1.0)


def inside(x: Tensor) -> Tensor:
    cube(x).sum().backward()
    return x.grad * 1


def by_name(x: Tensor) -> Tensor:
    weft.ops.captured.cube(x).sum().backward()
    return x.grad * 1


def by_overload(x: Tensor) -> Tensor:
    (gradient,) = weft.autograd.grad(weft.ops.captured.cube.default(x).sum(), x, create_graph=True)
    return gradient


def outside(x: Tensor) -> Tensor:
    return cube(x) * 2


def mapped(x: Tensor) -> Tensor:
    return weft.func.vmap(cube)(x) * 2


def mapped_inside(x: Tensor) -> Tensor:
    weft.func.vmap(cube)(x).sum().backward()
    return x.grad * 1


def outcome(function: Callable[..., Any]) -> Any:
    LOG.clear()
    x = weft.tensor([1.0, 2.0, 3.0], requires_grad=True)
    result = function(x)
    found = [result.tolist(), result.requires_grad]
    if result.requires_grad:
        result.sum().backward()
    return found, x.grad.tolist(), list(LOG)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", [inside, by_name, by_overload, outside, mapped, mapped_inside])
def test_gradients_that_were_registered(program: Any, backend: str) -> None:
    counter = CompileCounterWithBackend(backend)
    compiled = weft.compile(program, backend=counter, fullgraph=True)
    for change in ({}, {}, {"setup": 5.0}, {"backward": 7.0}, {"setup": 1.0}, {"vmap": 4.0}):
        FACTORS.update(change)
        assert outcome(compiled) == outcome(program)
    assert counter.frame_count == 1  # numbers in a dict may vary


def test_a_setup_context_with_effects_is_a_break(monkeypatch: pytest.MonkeyPatch) -> None:
    def noting(ctx: Any, inputs: Any, output: Any) -> None:
        LOG.append("set up")
        set_up(ctx, inputs, output)

    monkeypatch.setattr(cube, "_setup_context", noting)
    with pytest.raises(Unsupported, match="setup_context"):
        weft.compile(inside, backend="eager", fullgraph=True)(weft.ones(3, requires_grad=True))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_setup_context_with_effects_runs_as_often_as_in_eager(
    backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def noting(ctx: Any, inputs: Any, output: Any) -> None:
        LOG.append("set up")
        ctx.doubled = inputs[0] * 2
        set_up(ctx, inputs, output)

    monkeypatch.setattr(cube, "_setup_context", noting)
    compiled = weft.compile(outside, backend=backend, fullgraph=True)
    for _ in range(2):
        assert outcome(compiled) == outcome(outside)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_outputs_that_setup_context_marks(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def marking(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.mark_non_differentiable(output)

    monkeypatch.setattr(cube, "_setup_context", marking)

    def program(x: Tensor) -> Any:
        y = cube(x)
        return y, y.requires_grad

    for function in (program, weft.compile(program, backend=backend, fullgraph=True)):
        y, tracked = function(weft.ones(3, requires_grad=True))
        assert (y.requires_grad, tracked) == (False, False)
