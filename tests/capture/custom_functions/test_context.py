"""What forward leaves in its context, and what it returns: as in eager."""

from __future__ import annotations

import math
from typing import Any

import pytest

import weft
from tests.capture.custom_functions.harness import Cube, MixedProduct, Same, check, leaf
from weft import Tensor
from weft.autograd import Function
from weft.autograd.function import once_differentiable
from weft.testing import CompileCounter


def test_sizes_in_the_context_vary() -> None:
    class Sized(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.size = x.size(0)
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Tensor:
            (x,) = ctx.saved_tensors
            return grad * ctx.size * math.sqrt(4) + x.numel()

    counter = CompileCounter()
    compiled = weft.compile(lambda x: Sized.apply(x), backend=counter, fullgraph=True, dynamic=True)
    for count in (2, 3, 4):
        x, y = weft.ones(count, requires_grad=True), weft.ones(count, requires_grad=True)
        compiled(x).sum().backward()
        Sized.apply(y).sum().backward()
        assert x.grad.tolist() == y.grad.tolist()
    assert counter.frame_count == 1


def test_tensors_and_structures_in_the_context() -> None:
    class Smuggling(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.x, ctx.numbers = x, [1, 2, 3]
            ctx.found = {"sine": x.sin(), "kind": x.dtype}
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Tensor:
            grad = grad * ctx.x + ctx.found["sine"].to(ctx.found["kind"])
            for number in ctx.numbers:
                grad = grad * number + grad
            return grad

    check(lambda x: Smuggling.apply(x))
    compiled = weft.compile(lambda x: Smuggling.apply(x), backend="eager", fullgraph=True)
    node = compiled(leaf()).grad_fn
    assert node.numbers == [1, 2, 3] and node.name() == "SmugglingBackward"


def test_several_outputs_and_gradients_that_are_missing(runs: list[bool]) -> None:
    class Pair(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Any:
            return x.clone(), None, x * 3

        @staticmethod
        def backward(ctx: Any, first: Tensor, _none: None, second: Tensor) -> Tensor:
            return first + second * 3

    class Lazy(Pair):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Any:
            ctx.set_materialize_grads(False)
            return x.clone(), None, x * 3

        @staticmethod
        def backward(ctx: Any, first: Tensor | None, _none: None, second: Tensor | None) -> Any:
            return weft.full((3,), 9.0) if second is None else second

    check(lambda x: Pair.apply(x))
    check(lambda x: Pair.apply(x)[0])
    assert runs == [True] * 8
    check(lambda x: Lazy.apply(x))
    check(lambda x: Lazy.apply(x)[0])
    assert runs[8:] == [True] * 4 + [False] * 4


def test_outputs_without_gradient() -> None:
    class Sorted(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Any:
            values, order = x.sort()
            doubled = x * 2
            ctx.mark_non_differentiable(doubled)
            ctx.save_for_backward(order)
            return values, order, doubled

        @staticmethod
        def backward(ctx: Any, grad: Tensor, *_others: Any) -> Tensor:
            (order,) = ctx.saved_tensors
            return weft.zeros_like(grad).index_add(0, order, grad)

    check(lambda x: Sorted.apply(x), lambda: (leaf(3.0, 1.0, 2.0),))


def test_a_saved_output() -> None:
    class Exponential(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            result = x.exp()
            ctx.save_for_backward(result)
            return result

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Tensor:
            (result,) = ctx.saved_tensors
            return grad * result

    check(lambda x: Exponential.apply(x), order=3)


def test_an_input_returned_is_a_view_of_it() -> None:
    check(lambda x: Same.apply(x), order=2)
    compiled = weft.compile(lambda x: Same.apply(x), backend="eager", fullgraph=True)
    x = leaf()
    y = compiled(x)
    assert y is not x and y._base is x
    with pytest.raises(RuntimeError, match="view"):
        y.mul_(2)


def test_a_view_returned() -> None:
    class Row(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x[1:]

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Tensor:
            return weft.cat([grad[:1] * 0, grad])

    check(lambda x: Row.apply(x))


def test_once_differentiable() -> None:
    class Once(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x

        @staticmethod
        @once_differentiable
        def backward(ctx: Any, grad: Tensor) -> Tensor:
            return grad * 0.5

    check(lambda x: Once.apply(x))
    x = leaf()
    compiled = weft.compile(lambda x: Once.apply(x), backend="eager", fullgraph=True)
    (grad,) = weft.autograd.grad((compiled(x) ** 2).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        grad.sum().backward()


def test_errors_of_backward_are_eagers() -> None:
    compiled = weft.compile(lambda x: Cube.apply(x), backend="eager", fullgraph=True)
    x = leaf()
    loss = compiled(x).sum()
    loss.backward()
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()
    y = leaf().clone()
    loss = compiled(y).sum()
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_autocast_of_functions() -> None:
    check(lambda a: MixedProduct.apply(a, a), lambda: (weft.eye(3).requires_grad_(),))


def test_shapes_in_the_context_vary() -> None:
    class Summed(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.shape, ctx.pair = x.shape, (x.shape[0], "rows")
            return x.sum()

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Tensor:
            assert len(ctx.shape) == 2 and ctx.pair[1] == "rows"
            return grad.expand(ctx.shape) * ctx.pair[0] * ctx.shape.numel()

    counter = CompileCounter()
    compiled = weft.compile(lambda x: Summed.apply(x), backend=counter, fullgraph=True, dynamic=True)
    for rows in (2, 3, 4):
        x, y = weft.ones(rows, 5, requires_grad=True), weft.ones(rows, 5, requires_grad=True)
        result = compiled(x)
        assert type(result.grad_fn.shape) is weft.Size and result.grad_fn.shape == (rows, 5)
        result.backward()
        Summed.apply(y).backward()
        assert x.grad.tolist() == y.grad.tolist()
    assert counter.frame_count == 1
    check(lambda x: Summed.apply(x), lambda: (weft.ones(2, 3, requires_grad=True),))


def test_inputs_and_views_returned_where_nothing_is_recorded() -> None:
    class Parts(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Any:
            ctx.mark_non_differentiable(x)
            return x, x[1:], (x * 2).view(-1), x + 1, None

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            return grads[0]

    def make() -> tuple[Any, ...]:
        return (weft.tensor([1.0, 2.0]),)

    check(lambda x: Parts.apply(x), make)
    check(lambda x: Same.apply(x), make)
    check(weft.no_grad()(lambda x: Same.apply(x)), lambda: (leaf(),))
    for function in (Same.apply, weft.compile(lambda x: Same.apply(x), backend="eager", fullgraph=True)):
        (x,) = make()
        y = function(x)
        y.add_(1)
        assert y is not x and y._base is x and x.tolist() == [2.0, 3.0] and x._version == 1


def test_attributes_that_are_not_there() -> None:
    class Asking(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            try:
                ctx.missing
            except AttributeError as error:
                ctx.text = str(error)
            ctx.gone = 1
            del ctx.gone
            return x * (2 if hasattr(ctx, "gone") else 3)

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Tensor:
            assert ctx.text == "'AskingBackward' object has no attribute 'missing'"
            return grad * getattr(ctx, "gone", 7) * (1 if hasattr(ctx, "text") else 0)

    check(lambda x: Asking.apply(x), order=2)

    def inside(x: Tensor) -> Tensor:
        (grad,) = weft.autograd.grad(Asking.apply(x).sum(), x)
        return grad

    check(inside)
