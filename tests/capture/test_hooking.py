"""Hooks that captured code registers, removes and hands out; the backward is outside."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import weft
from tests.capture.features.harness import numbers
from weft.compiler import counters, reset, settings
from weft.testing import assert_close

BACKENDS = pytest.mark.parametrize("backend", ["eager", "aot_eager"])


@pytest.fixture(autouse=True)
def afresh() -> Iterator[None]:
    reset()
    counters.clear()
    settings.strict = True
    yield
    settings.strict = False


def leaf(*values: float) -> Any:
    return weft.tensor(values or (1.0, 2.0), requires_grad=True)


def check(function: Callable[..., Any], backend: str, calls: int = 3, frames: int = 1) -> None:
    """Asserts that calls and the backwards behind them do the same as it is and compiled, hooks included."""
    compiled = weft.compile(function, backend=backend, fullgraph=True)
    results = []
    for run in (function, compiled):
        x, y, log = leaf(), leaf(3.0, 4.0), []
        seen = []
        for _ in range(calls):
            out = run(x, y, log)
            out = out[0] if isinstance(out, tuple) else out
            out.sum().backward()
            seen.append((numbers(x.grad), numbers(y.grad), len(x._backward_hooks or ()), list(log)))
            x.grad = y.grad = None
        results.append(seen)
    assert results[0] == results[1]
    assert counters["frames"]["ok"] == frames


@BACKENDS
def test_a_hook_per_call(backend: str) -> None:
    def f(x: Any, y: Any, log: Any) -> Any:
        x.register_hook(lambda grad: grad * 2)
        return x * y

    check(f, backend)


@BACKENDS
def test_hooks_with_effects(backend: str) -> None:
    def f(x: Any, y: Any, log: Any) -> Any:
        def note(grad: Any) -> None:
            log.append(grad.tolist())

        x.register_hook(note)
        return x * y

    check(f, backend, frames=3)  # the length of a list in a closure is part of what was read


@BACKENDS
def test_an_intermediate(backend: str) -> None:
    def f(x: Any, y: Any, log: Any) -> Any:
        z = x * y
        z.register_hook(lambda grad: grad + 1)
        return z.sin() * 2

    check(f, backend)


@BACKENDS
def test_closures_over_what_was_computed(backend: str) -> None:
    def f(x: Any, y: Any, log: Any) -> Any:
        scale = (y * 2).detach()
        z = x.exp()
        z.register_hook(lambda grad: grad * scale + z.detach())
        return z * y

    check(f, backend)


@BACKENDS
def test_post_accumulate_hooks(backend: str) -> None:
    def f(x: Any, y: Any, log: Any) -> Any:
        y.register_post_accumulate_grad_hook(lambda leaf: log.append(leaf.grad.tolist()))
        return x * y

    check(f, backend, frames=3)


@BACKENDS
def test_a_hook_that_is_removed_again(backend: str) -> None:
    def f(x: Any, y: Any, log: Any) -> Any:
        first = x.register_hook(lambda grad: grad * 100)
        x.register_hook(lambda grad: grad + 1)
        first.remove()
        with x.register_hook(lambda grad: grad * 1000):
            z = x * y
        return z

    check(f, backend)


@BACKENDS
def test_handles(backend: str) -> None:
    @weft.compile(backend=backend, fullgraph=True)
    def f(x: Any, kept: Any) -> Any:
        handle = x.register_hook(lambda grad: grad * 2)
        kept.append(handle)
        return x * 3, handle

    x, kept = leaf(), []
    for count in (1, 2):
        out, handle = f(x, kept)
        assert kept[-1] is handle
        assert len(x._backward_hooks) == count
    out.sum().backward()
    assert_close(x.grad, weft.full((2,), 12.0))
    kept[0].remove()
    assert len(x._backward_hooks) == 1
    handle.remove()
    assert not x._backward_hooks


@BACKENDS
def test_a_handle_of_a_removed_hook(backend: str) -> None:
    @weft.compile(backend=backend, fullgraph=True)
    def f(x: Any) -> Any:
        handle = x.register_hook(lambda grad: grad * 2)
        handle.remove()
        return x * 3, handle

    x = leaf()
    out, handle = f(x)
    handle.remove()
    out.sum().backward()
    assert_close(x.grad, weft.full((2,), 3.0))


@BACKENDS
def test_a_handle_from_outside(backend: str) -> None:
    @weft.compile(backend=backend, fullgraph=True)
    def f(x: Any, handle: Any) -> Any:
        handle.remove()
        return x * 3

    for _ in range(2):
        x = leaf()
        handle = x.register_hook(lambda grad: grad * 2)
        f(x, handle).sum().backward()
        assert_close(x.grad, weft.full((2,), 3.0))


def test_errors_are_those_of_eager() -> None:
    def hooked(x: Any) -> Any:
        x.register_hook(lambda grad: grad)
        return x * 2

    def accumulated(x: Any) -> Any:
        y = x * 2
        y.register_post_accumulate_grad_hook(lambda leaf: None)
        return y

    with pytest.raises(
        RuntimeError, match="cannot register a hook on a tensor that doesn't require gradient"
    ):
        weft.compile(hooked)(weft.ones(2))
    with pytest.raises(RuntimeError, match="cannot be registered on non-leaf tensors"):
        weft.compile(accumulated)(leaf())


@BACKENDS
def test_a_tensor_that_is_written_after_its_hook(backend: str) -> None:
    """The hook stays with the history that the tensor had: nothing that comes after the graph can say so."""

    def f(x: Any, y: Any) -> Any:
        z = x * y
        z.register_hook(lambda grad: grad * 10)
        z.mul_(2)
        return z

    results = []
    for run in (f, weft.compile(f, backend=backend)):
        x, y = leaf(), leaf(3.0, 4.0)
        run(x, y).sum().backward()
        results.append(x.grad.tolist())
    assert results[0] == results[1]
    with pytest.raises(weft.compiler.Unsupported, match="written afterwards"):
        weft.compile(f, backend=backend, fullgraph=True)(leaf(), leaf())


# -- views ---------------------------------------------------------------------------------------------------
def part_of_a_product(x: Any, y: Any) -> Any:
    part = (x * y)[0]
    part.register_hook(lambda grad: grad * 10)
    return part * 3


def an_input_seen_otherwise(x: Any, y: Any) -> Any:
    flat = x.view(-1)
    flat.register_hook(lambda grad: grad * 10)
    return flat * y.view(-1)


def a_part_and_the_whole(x: Any, y: Any) -> Any:
    whole = x * y
    part = whole[0]
    part.register_hook(lambda grad: grad * 10)
    return whole.sum() + part.sum()


def an_input(x: Any, y: Any) -> Any:
    x.register_hook(lambda grad: grad + 1)
    return x * y


def written_afterwards(x: Any, y: Any) -> Any:
    whole = x * y
    part = whole[0]
    part.register_hook(lambda grad: grad * 10)
    whole.mul_(2)
    return whole.sum() + part.sum()


VIEWS = (part_of_a_product, an_input_seen_otherwise, a_part_and_the_whole, an_input, written_afterwards)


@BACKENDS
@pytest.mark.parametrize("inputs", ["leaves", "views"])
@pytest.mark.parametrize("function", VIEWS)
def test_views(function: Callable[..., Any], inputs: str, backend: str) -> None:
    compiled = weft.compile(function, backend=backend, fullgraph=function is not written_afterwards)
    results: list[list[Any]] = [[], []]
    for run, seen in zip((function, compiled), results, strict=True):
        base = weft.tensor([[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 8.0]]], requires_grad=True)
        for _ in range(2):
            x, y = base if inputs == "views" else (part.detach().requires_grad_() for part in base)
            run(x, y).sum().backward()
            seen += [leaf.grad.tolist() for leaf in ([base] if inputs == "views" else [x, y])]
    assert results[0] == results[1]
