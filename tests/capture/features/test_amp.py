"""Mixed precision in captured code: autocast wherever it stands, and scaled steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import weft
import weft.compiler
from tests.capture.features.test_whole_steps import (  # noqa: F401
    BACKENDS,
    OPTIMIZERS,
    Convolutional,
    Near,
    bits,
    perceptron,
    pictures,
    strictly,
)
from tests.capture.features.test_whole_steps import check as check_steps
from weft.amp import GradScaler, autocast, custom_bwd, custom_fwd
from weft.nn import functional as F
from weft.testing import CompileCounterWithBackend
from weft.utils.checkpoint import checkpoint

pytestmark = pytest.mark.parametrize("backend", BACKENDS)
KINDS = [weft.bfloat16, weft.float16]


def data() -> tuple[Any, ...]:
    weft.manual_seed(0)
    return weft.randn(4, 6), weft.randn(6, 5, requires_grad=True)


def check(
    function: Callable[..., Any],
    backend: str,
    around: Callable[[], Any] | None = None,
    frames: int = 1,
    inside: bool = False,
) -> CompileCounterWithBackend:
    """Asserts that results, their types and gradients are those of eager."""
    counter = CompileCounterWithBackend(backend)
    compiled = weft.compile(function, fullgraph=True, backend=counter)
    for _ in range(2):
        seen = []
        for called in (function, compiled):
            x, w = data()
            if around is None:
                result = called(x, w)
            else:
                with around():
                    result = called(x, w)
            if not inside:
                (result[0] if isinstance(result, tuple) else result).float().sum().backward()
            seen.append(bits([result, w.grad]))
        assert seen[0] == seen[1]
    assert counter.frame_count == frames
    return counter


@pytest.mark.parametrize("kind", KINDS)
def test_inside(kind: Any, backend: str) -> None:
    def f(x: Any, w: Any) -> Any:
        with autocast("cpu", dtype=kind):
            y = x @ w
            z = F.softmax(y, -1)
        return y, z, x @ w

    check(f, backend)


@pytest.mark.parametrize("kind", KINDS)
def test_around(kind: Any, backend: str) -> None:
    def f(x: Any, w: Any) -> Any:
        return F.gelu(x @ w), (x @ w).sum()

    check(f, backend, lambda: autocast("cpu", dtype=kind))


def test_around_or_not_is_guarded(backend: str) -> None:
    def f(x: Any, w: Any) -> Any:
        return x @ w

    compiled = weft.compile(f, fullgraph=True, backend=backend)
    x, w = data()
    for kind in (None, weft.bfloat16, weft.float16, None, weft.bfloat16):
        with autocast("cpu", dtype=kind or weft.bfloat16, enabled=kind is not None):
            assert bits(compiled(x, w)) == bits(f(x, w))


def test_nested(backend: str) -> None:
    def f(x: Any, w: Any) -> Any:
        with autocast("cpu", dtype=weft.bfloat16):
            a = x @ w
            with autocast("cpu", enabled=False):
                b = x @ w
                with autocast("cpu", dtype=weft.float16):
                    c = x @ w
            d = x @ w
        return a, b, c, d

    check(f, backend)


def test_as_a_decorator(backend: str) -> None:
    @autocast("cpu", dtype=weft.bfloat16)
    def inner(x: Any, w: Any) -> Any:
        return x @ w

    def f(x: Any, w: Any) -> Any:
        return inner(x, w), x @ w

    check(f, backend)


def test_as_a_decorator_of_what_is_compiled(backend: str) -> None:
    @autocast("cpu", dtype=weft.bfloat16)
    def f(x: Any, w: Any) -> Any:
        return F.relu(x @ w) * 2

    check(f, backend)


def test_disabled_inside_what_is_around(backend: str) -> None:
    def f(x: Any, w: Any) -> Any:
        with autocast("cpu", enabled=False):
            return x @ w

    check(f, backend, lambda: autocast("cpu", dtype=weft.bfloat16))


def test_asking_for_it(backend: str) -> None:
    def f(x: Any, w: Any) -> Any:
        with autocast("cpu", dtype=weft.float16):
            y = x @ w
            inside = weft.is_autocast_enabled("cpu"), weft.get_autocast_dtype("cpu")
        return y, inside[0], str(inside[1]), weft.is_autocast_enabled("cpu")

    check(f, backend)


class Product(weft.autograd.Function):
    @staticmethod
    @custom_fwd(device_type="cpu")
    def forward(ctx: Any, x: Any, w: Any) -> Any:
        ctx.save_for_backward(x, w)
        return x @ w

    @staticmethod
    @custom_bwd(device_type="cpu")
    def backward(ctx: Any, g: Any) -> Any:
        x, w = ctx.saved_tensors
        return (g @ w.t()).to(x.dtype), (x.t() @ g).to(w.dtype)


class Exact(weft.autograd.Function):
    @staticmethod
    @custom_fwd(device_type="cpu", cast_inputs=weft.float32)
    def forward(ctx: Any, x: Any, w: Any) -> Any:
        ctx.save_for_backward(x, w)
        return x @ w

    @staticmethod
    @custom_bwd(device_type="cpu")
    def backward(ctx: Any, g: Any) -> Any:
        x, w = ctx.saved_tensors
        return g @ w.t(), x.t() @ g


@pytest.mark.parametrize("function", [Product, Exact])
@pytest.mark.parametrize("inside", [False, True])
def test_custom_functions(function: Any, inside: bool, backend: str) -> None:
    def f(x: Any, w: Any) -> Any:
        with autocast("cpu", dtype=weft.bfloat16):
            y = function.apply(x, w)
        if inside:
            y.float().sum().backward()
            return y.detach()
        return y

    check(f, backend, inside=inside)


@pytest.mark.parametrize("inner", [True, False])
def test_backward_inside_of_autocast(inner: bool, backend: str) -> None:
    """Gradient rules run on arrays, which no autocast sees."""

    def f(x: Any, w: Any) -> Any:
        with autocast("cpu", dtype=weft.bfloat16):
            with autocast("cpu", dtype=weft.float16, enabled=inner):
                y = x @ w
            loss = F.softmax(y * 1.5, -1).exp().sum()
            loss.backward()
        return loss.detach()

    check(f, backend, inside=True)


@pytest.mark.parametrize("inside", [False, True])
def test_casts_of_leaves_are_kept(inside: bool, backend: str) -> None:
    """Gradients of two uses are summed in the low precision, before the one cast."""

    def f(x: Any, w: Any) -> Any:
        with autocast("cpu", dtype=weft.bfloat16):
            a = x @ w
            with autocast("cpu", enabled=False):
                c = x @ w
            b = (x * 1.7) @ w
        y = (a * b + c).float()
        if inside:
            y.sum().backward()
            return y.detach()
        return y

    check(f, backend, inside=inside)


def test_casts_are_not_kept_from_block_to_block(backend: str) -> None:
    def f(x: Any, w: Any) -> Any:
        total: Any = 0.0
        for _ in range(2):
            with autocast("cpu", dtype=weft.bfloat16):
                part = checkpoint(lambda x: ((x @ w) * (x @ w)).exp(), x, use_reentrant=False)
            loss = part.float().mean()
            loss.backward()
            total = total + loss.detach()
        return total

    check(f, backend, inside=True)


def test_gradients_of_one_output_of_two(backend: str) -> None:
    """What runs again for them casts again: the inputs of casts count as read."""

    def f(x: Any, w: Any) -> Any:
        y = x @ w
        return F.gelu(y), y.sum()

    check(f, backend, lambda: autocast("cpu", dtype=weft.bfloat16))


# -- whole steps ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["sgd, everything", "adamw"])
def test_steps_under_autocast(name: str, kind: Any, backend: str) -> None:
    def stepping(model: Any, optimizer: Any) -> Any:
        def step(x: Any, y: Any) -> Any:
            optimizer.zero_grad()
            with autocast("cpu", dtype=kind):
                loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            return loss

        return step

    check_steps(stepping=stepping, optimizer=OPTIMIZERS[name], backend=backend)


def test_a_convolutional_network_under_autocast(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Near, "rounded", True)

    def stepping(model: Any, optimizer: Any) -> Any:
        def step(x: Any, y: Any) -> Any:
            optimizer.zero_grad()
            with autocast("cpu", dtype=weft.bfloat16):
                loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            return loss

        return step

    check_steps(Convolutional, pictures, stepping=stepping, optimizer=OPTIMIZERS["adam"], backend=backend)


# -- scaled steps --------------------------------------------------------------------------------------------
def scaled(scaler: Any, clip: bool = False, infinite: Any = ()) -> Any:
    """A step under a GradScaler; gradients of the calls named are not finite."""
    calls = iter(range(100))

    def stepping(model: Any, optimizer: Any) -> Any:
        def step(x: Any, y: Any, poison: Any) -> Any:
            optimizer.zero_grad()
            with autocast("cpu", dtype=weft.float16):
                loss = F.cross_entropy(model(x), y)
            scaler[0].scale(loss * poison).backward()
            if clip:
                scaler[0].unscale_(optimizer)
                weft.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
            scaler[0].step(optimizer)
            scaler[0].update()
            return loss, scaler[0]._scale.clone(), scaler[0]._growth_tracker.clone()

        return step

    def batch() -> Any:
        poison = float("inf") if next(calls) % 6 in infinite else 1.0
        return weft.randn(4, 6), weft.randint(0, 3, (4,)), weft.tensor(poison)

    return stepping, batch


@pytest.mark.parametrize("clip", [False, True])
@pytest.mark.parametrize("infinite", [(), (2,), (1, 2, 4)])
@pytest.mark.parametrize("name", ["sgd, everything", "adamw"])
def test_scaled_steps(name: str, infinite: Any, clip: bool, backend: str) -> None:
    scaler: list[Any] = []

    def make() -> Any:
        scaler[:] = [GradScaler("cpu", init_scale=2.0**10, growth_interval=2)]
        return perceptron()

    stepping, batch = scaled(scaler, clip, infinite)
    check_steps(make, batch, stepping=stepping, optimizer=OPTIMIZERS[name], backend=backend, count=6)


def test_a_schedule_beside_scaled_steps(backend: str) -> None:
    scaler: list[Any] = []
    schedules: list[Any] = []

    def make() -> Any:
        scaler[:] = [GradScaler("cpu", init_scale=2.0**10, growth_interval=2)]
        return perceptron()

    def optimizer(parameters: Any) -> Any:
        made = weft.optim.Adam(parameters, lr=0.01)
        schedules[:] = [weft.optim.lr_scheduler.ExponentialLR(made, 0.9)]
        return made

    def between(optimizer: Any, number: int) -> None:
        schedules[0].step()

    stepping, batch = scaled(scaler, infinite=(3,))
    check_steps(make, batch, stepping, optimizer, backend, between=between, count=6)


def test_a_disabled_scaler_does_nothing(backend: str) -> None:
    scaler = [GradScaler("cpu", enabled=False)]

    def stepping(model: Any, optimizer: Any) -> Any:
        def step(x: Any, y: Any) -> Any:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            scaler[0].scale(loss).backward()
            scaler[0].step(optimizer)
            scaler[0].update()
            return loss

        return step

    check_steps(stepping=stepping, backend=backend)
