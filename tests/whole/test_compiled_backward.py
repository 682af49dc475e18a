"""Hooks, custom Functions and compiled functions behind backwards that run as graphs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import weft
from tests.aot.backwards import (
    AOT,
    COMPILERS,
    EAGER,
    WITH_BREAKS,
    Compiler,
    afresh,
    as_it_is,
    check,
    gradients,
    model,
    native,
)
from weft.autograd import Function
from weft.autograd.function import once_differentiable
from weft.compiler import Unsupported, compiled_autograd, counters
from weft.testing import assert_close

__all__ = ["afresh"]


# -- hooks ---------------------------------------------------------------------------------------------------
def doubled(grad: Any) -> Any:
    return grad * 2


def incremented(grads: Any) -> Any:
    return (grads[0] + 1,)


def mixed(inputs: Any, outputs: Any) -> Any:
    return (weft.sin(inputs[0]) + outputs[0],)


@COMPILERS
def test_hooks_of_tensors(compile_graph: Compiler) -> None:
    def program() -> Iterator[Any]:
        for _ in range(3):
            net = model()
            net[0].weight.register_hook(doubled)
            hidden = net[0](weft.randn(2, 4))
            hidden.register_hook(doubled)
            hidden.sum().backward()
            yield from gradients(net)[:2]

    check(program, compile_graph, compiles=1)


@pytest.mark.parametrize("compile_graph", [EAGER, AOT, WITH_BREAKS, as_it_is])
def test_hooks_of_nodes(compile_graph: Compiler) -> None:
    def program() -> Iterator[Any]:
        for _ in range(3):
            net = model()
            result = net(weft.randn(1, 4)).sum()
            result.grad_fn.register_prehook(incremented)
            result.grad_fn.register_hook(mixed)
            result.backward()
            yield from gradients(net)

    check(program, compile_graph)


class Pair(weft.autograd.Function):
    """Has gradients for both of its inputs."""

    @staticmethod
    def forward(ctx: Any, a: Any, b: Any) -> Any:
        return a * 2 + b

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * 2, g


@pytest.mark.parametrize("compile_graph", [EAGER, AOT, WITH_BREAKS, as_it_is])
def test_a_hook_of_a_custom_node_that_drops_a_gradient(compile_graph: Compiler) -> None:
    def program() -> Iterator[Any]:
        for _ in range(3):
            x, y = weft.ones(3, requires_grad=True), weft.ones(3, requires_grad=True)
            result = Pair.apply(x, y)
            result.grad_fn.register_hook(lambda inputs, outputs: (inputs[0] * 3, None))
            result.sum().backward()
            yield x.grad
            yield y.grad is None

    check(program, compile_graph, captures=2)


@COMPILERS
def test_effects_of_hooks_come_in_the_order_of_the_engine(compile_graph: Compiler) -> None:
    def program() -> Iterator[Any]:
        x, y = (weft.tensor([1.0, 2.0], requires_grad=True) for _ in range(2))
        log: list[Any] = []

        def note(name: str) -> Callable[[Any], None]:
            return lambda _grad: log.append((name, x.grad is None, y.grad is None))

        x.register_hook(note("x"))
        y.register_hook(note("y"))
        x.register_post_accumulate_grad_hook(note("x done"))
        y.register_post_accumulate_grad_hook(note("y done"))
        for _ in range(2):
            z = x * y
            z.register_hook(note("z"))
            (z + x).sum().backward()
            yield list(log)
            yield x.grad
            yield y.grad
            log.clear()
            x.grad = y.grad = None

    check(program, compile_graph)


@COMPILERS
def test_a_step_in_a_post_accumulate_hook(compile_graph: Compiler) -> None:
    def program() -> Iterator[Any]:
        net = weft.nn.Linear(3, 2)

        def step(parameter: Any) -> None:
            parameter.add_(parameter.grad, alpha=-0.1)
            parameter.grad = None

        with weft.no_grad():
            for parameter in net.parameters():
                parameter.register_post_accumulate_grad_hook(step)
        for _ in range(3):
            net(weft.randn(4, 3)).square().mean().backward()
            yield from (parameter.detach() for parameter in net.parameters())
            yield [parameter.grad for parameter in net.parameters()]

    check(program, compile_graph)


@COMPILERS
def test_hooks_made_anew_in_each_step(compile_graph: Compiler) -> None:
    def program() -> Iterator[Any]:
        for factor in (2.0, 3.0, 4.0):
            x = weft.ones(2, requires_grad=True)
            x.register_hook(lambda grad, factor=factor: grad * factor)
            (x * 5).sum().backward()
            yield x.grad

    check(program, compile_graph)


@COMPILERS
def test_a_hook_that_writes_into_its_gradient(compile_graph: Compiler) -> None:
    def writing() -> Iterator[Any]:
        x = weft.randn(3, requires_grad=True)
        y = x.exp()

        def double(grad: Any) -> None:
            grad.mul_(2)

        y.register_hook(double)
        y.sin().sum().backward()
        yield x.grad

    check(writing, compile_graph)


@COMPILERS
def test_a_hook_that_writes_what_a_later_node_saved(compile_graph: Compiler) -> None:
    x = weft.ones(2, requires_grad=True)
    y = x.exp()
    z = y * y

    def spoil(_grad: Any) -> None:
        y.detach().add_(1)

    z.register_hook(spoil)
    stale = pytest.raises(
        RuntimeError, match="modified by an inplace operation: .* is at version 1; expected"
    )
    with compiled_autograd.enable(compile_graph), stale:
        z.sum().backward()
    assert x.grad is None


@COMPILERS
def test_an_error_in_a_hook(compile_graph: Compiler) -> None:
    x = weft.ones(2, requires_grad=True)

    def fail(_grad: Any) -> None:
        raise ValueError("no good")

    x.register_hook(fail)
    with compiled_autograd.enable(compile_graph), pytest.raises(ValueError, match="no good"):
        (x * 2).sum().backward()
    assert x.grad is None


def test_an_untraceable_hook_is_refused_with_a_full_graph() -> None:
    x = weft.ones(2, requires_grad=True)
    x.register_hook(lambda grad: print("seen"))
    out = (x * 2).sum()
    with compiled_autograd.enable(EAGER), pytest.raises(Unsupported, match="print"):
        out.backward()
    assert x.grad is None


def test_an_untraceable_hook_breaks_the_graph(capsys: pytest.CaptureFixture[str]) -> None:
    x = weft.ones(2, requires_grad=True)
    x.register_hook(lambda grad: print("seen"))
    for _ in range(2):
        with compiled_autograd.enable(WITH_BREAKS):
            (x * 2).sum().backward()
    assert capsys.readouterr().out == "seen\nseen\n"
    assert_close(x.grad, weft.full((2,), 4.0))


@COMPILERS
def test_wrong_answers_of_hooks_raise(compile_graph: Compiler) -> None:
    x = weft.ones(2, requires_grad=True)
    x.register_hook(lambda grad: grad.sum())
    with compiled_autograd.enable(compile_graph), pytest.raises(RuntimeError, match="has changed the size"):
        (x * 2).sum().backward()


@pytest.mark.parametrize("compile_graph", [EAGER, as_it_is, WITH_BREAKS])
def test_a_hook_that_stops_a_gradient(compile_graph: Compiler) -> None:
    for _ in range(3):
        x = weft.ones(2, requires_grad=True)
        y = x * 2
        y.grad_fn.register_hook(lambda inputs, outputs: (None, None))
        with compiled_autograd.enable(compile_graph):
            y.sum().backward()
        assert x.grad is None
    assert not compiled_autograd.reasons


# -- custom Functions ----------------------------------------------------------------------------------------
class Sine(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return weft.sin(x)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (x,) = ctx.saved_tensors
        return grad * weft.cos(x)


class Both(Function):
    """Two tensors and a number; one gradient is None where nobody needs it."""

    @staticmethod
    def forward(ctx: Any, x: Any, y: Any, scale: float) -> Any:
        ctx.save_for_backward(x, y)
        ctx.scale = scale
        return x * y * scale, x.shape

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Any, _shape: Any) -> Any:
        x, y = ctx.saved_tensors
        return grad * y * ctx.scale, grad * x * ctx.scale if ctx.needs_input_grad[1] else None, None


class Half(Function):
    """No gradient for the second tensor, needed or not."""

    @staticmethod
    def forward(ctx: Any, x: Any, y: Any) -> Any:
        return x + y

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return grad * 3, None


@pytest.mark.parametrize("compile_graph", [EAGER, AOT])
def test_custom_functions(compile_graph: Compiler) -> None:
    def program() -> Iterator[Any]:
        for size in (10, 100, 10, 15, 20):
            x = weft.arange(0.0, size, requires_grad=True)
            Sine.apply(x).sum().backward()
            yield x.grad

    check(program, compile_graph, captures=2)


@COMPILERS
def test_custom_functions_with_more_in_their_context(compile_graph: Compiler) -> None:
    def program() -> Iterator[Any]:
        for needed in (True, False, True, False):
            x, y = weft.randn(3, requires_grad=True), weft.randn(3, requires_grad=needed)
            out, _ = Both.apply(x, y, 2.5)
            out.sum().backward()
            yield x.grad
            yield y.grad

    check(program, compile_graph, captures=2)


@COMPILERS
def test_custom_functions_that_give_none(compile_graph: Compiler) -> None:
    def program() -> Iterator[Any]:
        for _ in range(3):
            x, y = (weft.randn(3, requires_grad=True) for _ in range(2))
            Half.apply(x, y.exp()).sum().backward()
            yield x.grad
            yield y.grad

    check(program, compile_graph, captures=2)


def test_two_functions_alike_are_two_structures() -> None:
    def factor(value: int) -> Any:
        class Scaled(Function):
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                return x * value

            @staticmethod
            def backward(ctx: Any, grad: Any) -> Any:
                return grad * value

        return Scaled

    def program() -> Iterator[Any]:
        for value in (10, 20, 30):
            x = weft.arange(0.0, 10, requires_grad=True)
            factor(value).apply(x).sum().backward()
            yield x.grad

    check(program, EAGER, captures=3)


def test_a_custom_backward_with_effects(capsys: pytest.CaptureFixture[str]) -> None:
    class Noisy(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            print("backward")
            return grad * 2

    x = weft.ones(2, requires_grad=True)
    with compiled_autograd.enable(EAGER), pytest.raises(Unsupported, match="print"):
        Noisy.apply(x).sum().backward()
    with compiled_autograd.enable(WITH_BREAKS):
        for _ in range(3):
            Noisy.apply(x).sum().backward()
    assert capsys.readouterr().out == "backward\n" * 3
    assert_close(x.grad, weft.full((2,), 6.0))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_hook_on_an_intermediate_of_a_compiled_function(backend: str) -> None:
    def program() -> Iterator[Any]:
        def f(x: Any, offset: Any) -> Any:
            y = x.sin()
            further = y + 1
            y.register_hook(lambda grad: grad + offset + further.detach())
            return y.sin()

        compiled = weft.compile(f, backend=backend)
        for _ in range(3):
            x = weft.ones(4, requires_grad=True)
            compiled(x, weft.tensor(88.0)).sum().backward()
            yield x.grad

    expected = list(program())
    with compiled_autograd.enable(EAGER):
        for ours, theirs in zip(program(), expected, strict=True):
            assert_close(ours, theirs)
    assert counters["compiled_autograd"]["captures"] == 1  # if not for the first, then for the second


def test_a_backward_inside_a_backward() -> None:
    class Nested(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            (x,) = ctx.saved_tensors
            with weft.enable_grad():
                inner = x.detach().requires_grad_()
                (gradient,) = weft.autograd.grad(inner.exp().sum(), inner)
            return grad * gradient

    def program() -> Iterator[Any]:
        for _ in range(3):
            x = weft.ones(2, requires_grad=True)
            Nested.apply(x).sum().backward()
            yield x.grad

    native(program, "a backward inside a backward", as_it_is)
    compiled_autograd.reasons.clear()
    counters.clear()
    check(program, EAGER, compiles=1)  # where it is part of what is captured


def test_the_page_runs() -> None:
    text = (Path(__file__).parents[2] / "docs" / "compiled_autograd.md").read_text()
    program = text.partition("```python\n")[2].partition("```")[0]
    exec(compile(program, "compiled_autograd.md", "exec"), {"__name__": "page"})


def test_logs(caplog: pytest.LogCaptureFixture) -> None:
    x = weft.ones(2, requires_grad=True)
    with caplog.at_level(logging.DEBUG, "weft.compile.compiled_autograd"), compiled_autograd.enable(EAGER):
        (y,) = weft.autograd.grad(x.exp().sum(), x, create_graph=True)
        y.sum().backward()
    native, captured = (record.getMessage() for record in caplog.records)
    assert native == "ran natively: create_graph=True"
    assert captured.startswith("captured\nclass CompiledAutograd")
    assert "weft.autograd.compiled_calls.accumulate_grad(" in captured


@COMPILERS
def test_a_hook_that_writes_and_then_fails(compile_graph: Compiler) -> None:
    """What the graph has written is put back before the tape's own code runs, and fails at its place."""

    def run(index: Any) -> Any:
        x, seed = weft.ones(2, requires_grad=True), weft.ones(2)

        def hook(grad: Any) -> Any:
            grad.mul_(3)
            return grad + weft.arange(4.0)[index].sum()

        x.register_hook(hook)
        try:
            (x + 0.0).backward(seed)
        except IndexError as error:
            return seed.tolist(), str(error), x.grad
        return seed.tolist(), x.grad.tolist()

    expected = [run(weft.tensor([place])) for place in (1, 7, 2)]
    with compiled_autograd.enable(compile_graph):
        assert [run(weft.tensor([place])) for place in (1, 7, 2)] == expected


@COMPILERS
def test_saved_tensors_in_the_hands_of_hooks(compile_graph: Compiler) -> None:
    def program() -> Iterator[Any]:
        log: list[str] = []

        def pack(tensor: Any) -> Any:
            log.append("pack")
            return tensor.detach() * 2, 2.0

        def unpack(packed: Any) -> Any:
            log.append("unpack")
            return packed[0] / packed[1]

        for _ in range(3):
            x, w = weft.tensor([1.0, 2.0], requires_grad=True), weft.tensor([3.0, 4.0], requires_grad=True)
            with weft.autograd.graph.saved_tensors_hooks(pack, unpack):
                y = (x * w).exp()
            y.register_hook(lambda _grad: log.append("hook"))
            weft.stack([y, y * 2]).sum().backward()
            yield x.grad
            yield w.grad
            yield list(log)

    check(program, compile_graph)


@COMPILERS
def test_an_unpack_hook_that_gives_something_else(compile_graph: Compiler) -> None:
    x = weft.ones(2, requires_grad=True)
    with weft.autograd.graph.saved_tensors_hooks(lambda tensor: tensor.shape, lambda shape: weft.ones(3)):
        y = x.exp()
    with compiled_autograd.enable(compile_graph), pytest.raises(RuntimeError, match="was unpacked as one of"):
        y.sum().backward()
