"""Saved-tensor hooks beside a captured backward: called in eager's order, with what eager gives them."""

from __future__ import annotations

from typing import Any

import pytest

import weft
from tests.capture.features.harness import check
from weft.autograd.graph import disable_saved_tensors_hooks, save_on_cpu, saved_tensors_hooks
from weft.utils.checkpoint import checkpoint


def leaf() -> tuple[Any]:
    return (weft.tensor([0.5, -1.0, 2.0], requires_grad=True),)


def test_hooks_are_called_in_order() -> None:
    log: list[Any] = []

    def pack(tensor: Any) -> Any:
        log.append(("pack", tuple(tensor.shape)))
        return tensor * 1

    def unpack(packed: Any) -> Any:
        log.append("unpack")
        return packed

    def f(x: Any) -> Any:
        with saved_tensors_hooks(pack, unpack):
            y = x.exp()
            log.append("between")
            z = (y * x).sin()
        z.sum().backward()
        return z.detach()

    check(f, leaf, state=log.clear, watch=lambda: list(log))


def test_what_is_unpacked_counts() -> None:
    def f(x: Any) -> Any:
        with saved_tensors_hooks(lambda tensor: tensor + 1, lambda packed: packed * 2):
            y = x * x
        y.sum().backward()
        return y.detach()

    check(f, leaf)


def test_anything_may_be_packed() -> None:
    def f(x: Any) -> Any:
        kept: dict[int, Any] = {}

        def pack(tensor: Any) -> int:
            kept[len(kept)] = tensor.to(weft.bfloat16)
            return len(kept) - 1

        with saved_tensors_hooks(pack, lambda number: kept[number].float()):
            y = (x * 3).exp() * x
        y.sum().backward()
        return y.detach(), len(kept)

    check(f, leaf)


def test_the_innermost_pair_counts() -> None:
    def f(x: Any) -> Any:
        with saved_tensors_hooks(lambda t: t * 2, lambda t: t):
            y = x.exp()
            with saved_tensors_hooks(lambda t: t * 5, lambda t: t):
                y = y * x
            y = y.sin()
        y.sum().backward()
        return y.detach()

    check(f, leaf)


def test_copies_in_main_memory() -> None:
    def f(x: Any) -> Any:
        with save_on_cpu():
            y = (x.exp() * x).sin()
        y.sum().backward()
        return y.detach()

    check(f, leaf)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_copies_for_a_backward_outside(backend: str) -> None:
    """What is written after it was saved shows that copies were saved."""

    def f(x: Any, w: Any) -> Any:
        with save_on_cpu():
            y = x * w
        z = y.exp()
        w.add_(1)
        return z

    seen = []
    for function in (f, weft.compile(f, fullgraph=True, backend=backend)):
        for _ in range(2):
            x, w = leaf()[0], weft.ones(3)
            function(x, w).sum().backward()
            seen.append((x.grad.tolist(), w.tolist()))
    assert seen[:2] == seen[2:]


def test_hooks_may_be_forbidden() -> None:
    def f(x: Any) -> Any:
        y = x * 2
        with disable_saved_tensors_hooks("not here"):
            y = y.exp()
            try:
                with saved_tensors_hooks(lambda t: t, lambda t: t):
                    y = y * 3
            except RuntimeError as error:
                return y, str(error)
        return y, ""

    check(f, leaf)


def test_backward_outside_breaks_the_graph_and_no_more() -> None:
    log: list[str] = []

    def pack(tensor: Any) -> Any:
        log.append("pack")
        return tensor

    def unpack(packed: Any) -> Any:
        log.append("unpack")
        return packed

    def f(x: Any) -> Any:
        x = x * 2
        with saved_tensors_hooks(pack, unpack):
            y = x.exp().sin()
        return y * 2

    def after(result: Any) -> Any:
        result.sum().backward()

    check(f, leaf, state=log.clear, watch=lambda: list(log), after=after, frames=None, breaks=None)


def test_hooks_around_the_call() -> None:
    """They see what the graph saves."""
    log: list[str] = []

    def f(x: Any) -> Any:
        return (x.exp() * x).sum()

    compiled = weft.compile(f, fullgraph=True)
    for function in (f, compiled):
        log.clear()
        with saved_tensors_hooks(lambda t: log.append("pack") or t * 1, lambda t: log.append("unpack") or t):
            (x,) = leaf()
            function(x).backward()
        assert log == ["pack"] * 3 + ["unpack"] * 3 or sorted(log) == sorted(["pack", "unpack"] * 3)


def test_a_backward_inside_under_hooks_from_outside_is_refused() -> None:
    def f(x: Any) -> Any:
        y = x.exp().sum()
        y.backward()
        return y.detach()

    with saved_tensors_hooks(lambda t: t, lambda t: t):
        with pytest.raises(Exception, match="saved_tensors_hooks from outside"):
            weft.compile(f, fullgraph=True)(*leaf())
        (x,) = leaf()
        weft.compile(f)(x)
        assert x.grad is not None


def test_hooks_inside_a_checkpoint() -> None:
    log: list[str] = []

    def pack(tensor: Any) -> Any:
        log.append("pack")
        return tensor

    def f(x: Any) -> Any:
        def part(x: Any) -> Any:
            with saved_tensors_hooks(pack, lambda t: t):
                y = x.exp()
            return y.sin() * x

        y = checkpoint(part, x, use_reentrant=False)
        y.sum().backward()
        return y.detach()

    check(f, leaf, state=log.clear, watch=lambda: list(log))


def test_a_checkpoint_under_hooks() -> None:
    log: list[Any] = []

    def pack(tensor: Any) -> Any:
        log.append(("pack", tuple(tensor.shape)))
        return tensor

    def f(x: Any) -> Any:
        with saved_tensors_hooks(pack, lambda t: t):
            y = checkpoint(lambda x: x.exp().sin() * x, x, use_reentrant=False)
            z = y.cos()
        z.sum().backward()
        return z.detach()

    check(f, leaf, state=log.clear, watch=lambda: list(log))


class Square(weft.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        (x,) = ctx.saved_tensors
        return gradient * 2 * x


def test_what_a_custom_function_saves_is_packed() -> None:
    def f(x: Any) -> Any:
        with saved_tensors_hooks(lambda t: t * 2, lambda t: t):
            y = Square.apply(x.exp())
        y.sum().backward()
        return y.detach()

    check(f, leaf)


@pytest.mark.parametrize(
    ("pack", "unpack", "error"),
    [
        (lambda t: 1 / 0, lambda t: t, ZeroDivisionError),
        (lambda t: t, lambda t: 1 / 0, ZeroDivisionError),
        (lambda t: t.mul_(2), lambda t: t, RuntimeError),
        (lambda t: 3, lambda t: t, TypeError),
    ],
)
def test_hooks_that_fail(pack: Any, unpack: Any, error: Any) -> None:
    def f(x: Any) -> Any:
        with saved_tensors_hooks(pack, unpack):
            y = x.exp()
        y.sum().backward()
        return y.detach()

    check(f, leaf, frames=None, breaks=None, raises=error)


# -- checkpoints and the engine ------------------------------------------------------------------------------
def part(x: Any) -> Any:
    return Square.apply(x.exp()) * x


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_custom_function_in_a_checkpoint(reentrant: bool) -> None:
    def inside(x: Any) -> Any:
        y = checkpoint(part, x, use_reentrant=reentrant).sum()
        y.backward()
        return y.detach()

    def outside(x: Any) -> Any:
        return checkpoint(part, x, use_reentrant=reentrant).sum()

    check(inside, leaf)
    check(outside, leaf, after=lambda result: result.backward(), frames=None, breaks=None)


def test_a_tensor_hook_in_a_checkpoint() -> None:
    def hooked(x: Any) -> Any:
        y = x.exp()
        y.register_hook(lambda g: g * 2)
        return y * x

    def inside(x: Any) -> Any:
        y = checkpoint(hooked, x, use_reentrant=False).sum()
        y.backward()
        return y.detach()

    def outside(x: Any) -> Any:
        return checkpoint(hooked, x, use_reentrant=False).sum()

    check(inside, leaf)
    check(outside, leaf, after=lambda result: result.backward(), frames=None, breaks=None)


def test_any_order_through_a_checkpoint() -> None:
    def second(x: Any) -> Any:
        y = checkpoint(lambda x: x.exp() * x, x, use_reentrant=False).sum()
        (slope,) = weft.autograd.grad(y, x, create_graph=True)
        (bend,) = weft.autograd.grad(slope.sum(), x)
        return slope.detach(), bend

    def first(x: Any) -> Any:
        y = checkpoint(lambda x: x.exp() * x, x, use_reentrant=False).sum()
        (slope,) = weft.autograd.grad(y, x, create_graph=True)
        return slope

    check(second, leaf)
    check(first, leaf, after=lambda result: result.sum().backward(), frames=None, breaks=None)


@pytest.mark.parametrize("again", ["inside", "outside"])
def test_a_second_backward_through_a_checkpoint(again: str) -> None:
    def f(x: Any) -> Any:
        y = checkpoint(lambda x: x.exp() * x, x, use_reentrant=False).sum()
        y.backward(retain_graph=True)
        if again == "inside":
            y.backward()
            return y.detach()
        return y

    after = None if again == "inside" else lambda result: result.backward()
    one = again == "inside"
    check(f, leaf, after=after, frames=1 if one else None, breaks=0 if one else None)
