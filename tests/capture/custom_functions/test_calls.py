"""Calls of custom Functions in captured code: one node, whatever the arguments."""

from __future__ import annotations

from enum import Enum
from typing import Any

import pytest

import weft
from tests.capture.custom_functions.harness import (
    SCALED_GRAPH,
    Bundle,
    Cube,
    Doubled,
    Linear,
    Scaled,
    check,
    leaf,
    two,
)
from weft import Tensor
from weft.autograd import Function
from weft.testing import CompileCounter, CompileCounterWithBackend, normalize_gm


def test_a_function_is_two_ops_and_its_backward_a_graph(runs: list[bool]) -> None:
    check(lambda x: Cube.apply(x) + 1, ops=3)
    assert runs == [True] * 4


def test_twice_in_one_program() -> None:
    check(lambda x: Cube.apply(Doubled.apply(x).sin()) * x, ops=6)


def test_the_same_tensor_twice() -> None:
    class Product(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
            ctx.save_for_backward(x)
            ctx.save_for_backward(x, y)
            return x * y

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Any:
            x, y = ctx.saved_tensors
            return grad * y, grad * x * 2

    check(lambda x: Product.apply(x, x))
    check(lambda x, y: Product.apply(x, y), two)


def test_orders_beyond_the_first_run_the_users_backward(runs: list[bool]) -> None:
    check(lambda x: Cube.apply(x), order=3)
    assert False in runs


def test_an_instance_and_a_stored_apply() -> None:
    stored = Doubled.apply
    check(lambda x: stored(x))
    with pytest.warns(DeprecationWarning):
        Doubled()
    counter = CompileCounter()
    compiled = weft.compile(lambda x: Doubled().apply(x), backend=counter, fullgraph=True)
    assert compiled(leaf()).tolist() == [2.0, 4.0, 6.0]
    assert counter.frame_count == 1


def test_setup_context() -> None:
    def make() -> tuple[Any, ...]:
        return weft.ones(2, 2, requires_grad=True), weft.ones(3, 2, requires_grad=True)

    check(lambda x, w: Linear.apply(x, w, None), make)
    check(lambda x, w: Linear.apply(x, w, weft.ones(3)), make)
    check(lambda x, w: Linear.apply(x, w.detach(), w.sum(1)), make)


def test_class_methods() -> None:
    class Shake(Function):
        factor = 3.0

        @classmethod
        def forward(cls, ctx: Any, x: Tensor) -> Tensor:
            return x * cls.factor

        @classmethod
        def backward(cls, ctx: Any, grad: Tensor) -> Tensor:
            return grad * cls.factor

    check(lambda x: Shake.apply(x))


def test_no_gradient_wanted_means_forward_inline() -> None:
    def make() -> tuple[Any, ...]:
        return (weft.tensor([1.0, 2.0]),)

    counter = check(lambda x: Cube.apply(x), make)
    assert counter.op_count == 3  # the power, between two switches of gradients
    check(weft.no_grad()(lambda x: Cube.apply(x)))


class Way(Enum):
    SINE = 0
    COSINE = 1


def test_an_enum() -> None:
    class Turn(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, way: Way) -> Tensor:
            ctx.way = way
            return x.sin() if way is Way.SINE else x.cos()

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Any:
            return (grad if ctx.way is Way.SINE else grad * 7), None

    check(lambda x, way: Turn.apply(x, way), lambda: (leaf(), Way.SINE))
    check(lambda x, way: Turn.apply(x, way), lambda: (leaf(), Way.COSINE))


def test_an_object_with_tensors_and_the_graph_of_it() -> None:
    def make() -> tuple[Any, ...]:
        weird = Bundle(1.2, weft.tensor(2.5, requires_grad=True), weft.tensor(3.5))
        return weft.tensor(2.0, requires_grad=True), weird, weft.tensor(3.0, requires_grad=True)

    def program(x: Tensor, weird: Bundle, z: Tensor) -> Tensor:
        return Scaled.apply(x, weird, z)

    check(program, make, ops=2)
    counter = CompileCounterWithBackend("aot_eager")
    x, weird, z = make()
    weft.compile(program, backend=counter, fullgraph=True)(x, weird, z).sum().backward()
    assert (x.grad.item(), z.grad.item(), weird.b.grad) == (8.75, 2.0, None)
    text = counter.graphs[0].print_readable(False, namespace="torch", nested_names=False)
    assert normalize_gm(text).split() == SCALED_GRAPH.split()


def test_lists_tuples_and_defaults() -> None:
    class Many(Function):
        @staticmethod
        def forward(
            ctx: Any, x: Tensor, many: list[Tensor], shape: tuple[int, ...], k: float = 2.0
        ) -> Tensor:
            ctx.save_for_backward(many[0], weft.full(shape, 3.0))
            ctx.k = k
            return x.clone() * (many[0] + many[1]) * k

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Any:
            first, threes = ctx.saved_tensors
            return grad * first * threes * ctx.k, None, None

    def make() -> tuple[Any, ...]:
        return leaf(), [leaf(), leaf()], (3,)

    check(lambda x, many, shape: Many.apply(x, many, shape), make, ops=2)


def test_none_for_a_tensor_input() -> None:
    class First(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
            ctx.save_for_backward(y)
            return x.clone() * y

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Any:
            (y,) = ctx.saved_tensors
            return grad * y, None

    check(lambda x, y: First.apply(x, y), two)


def test_a_parameter_read_by_a_module() -> None:
    class Bounded(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, bound: int) -> Tensor:
            ctx.save_for_backward(x, x.new_ones(1) * bound)
            return x.clamp(min=bound)

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Any:
            x, bound = ctx.saved_tensors
            return (x >= bound) * grad, None

    class Model(weft.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gamma = weft.nn.Parameter(weft.tensor([0.5, 1.5]))

        def forward(self, x: Tensor) -> Tensor:
            return x + Bounded.apply(self.gamma, 1)

    model, counter = Model(), CompileCounter()
    compiled = weft.compile(model, backend=counter, fullgraph=True)
    compiled(weft.ones(2)).sum().backward()
    assert model.gamma.grad is not None and model.gamma.grad.tolist() == [0.0, 1.0]
    assert counter.frame_count == 1


def test_keywords_and_defaults_that_setup_context_sees() -> None:
    class Power(Function):
        @staticmethod
        def forward(x: Tensor, power: int = 2, factor: float = 1.5) -> Tensor:
            return x**power * factor

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
            ctx.inputs = inputs[1:]
            ctx.save_for_backward(inputs[0])

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Any:
            (x,), (power, factor) = ctx.saved_tensors, ctx.inputs
            return grad * power * factor * x ** (power - 1), None, None

    check(lambda x: Power.apply(x))
    check(lambda x: Power.apply(x, 3))
    check(lambda x: Power.apply(x, 3, 0.5), order=2)
    check(lambda x: Power.apply(x, factor=2.0, power=3))
    counter = CompileCounter()
    compiled = weft.compile(lambda x: Power.apply(x), backend=counter, fullgraph=True)
    assert compiled(leaf(2.0)).tolist() == [6.0]
    Power.forward.__defaults__ = (3, 1.0)
    assert compiled(leaf(2.0)).tolist() == [8.0]
    assert counter.frame_count == 2


def test_a_tensor_that_starts_to_require_grad() -> None:
    counter = CompileCounter()
    compiled = weft.compile(lambda x: Cube.apply(x), backend=counter, fullgraph=True)
    x = weft.tensor([2.0])
    assert not compiled(x).requires_grad
    x.requires_grad_()
    compiled(x).backward()
    assert x.grad.tolist() == [12.0]
    with weft.no_grad():
        assert not compiled(x).requires_grad
    assert counter.frame_count == 3


class Mixed(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, others: list[Tensor]) -> Tensor:
        ctx.save_for_backward(x, others[0])
        ctx.last = others[-1]
        return x * others[0] + others[-1]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        x, first = ctx.saved_tensors
        return grad * first + ctx.last * 0.5 + Cube.apply(x), None


def test_what_the_program_computed_before_is_handed_in() -> None:
    def program(x: Tensor) -> Tensor:
        sine = x.sin()
        return Mixed.apply(x, [sine, sine * 2, x.detach()]) + sine

    check(program, order=2)


def test_a_function_in_a_function() -> None:
    class Outer(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.save_for_backward(x)
            return Doubled.apply(x) + Cube.apply(x)

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Any:
            (x,) = ctx.saved_tensors
            return Doubled.apply(grad) * Cube.apply(x)

    check(lambda x: Outer.apply(x), order=2)


def test_outputs_written_afterwards() -> None:
    def program(x: Tensor) -> Tensor:
        y = Doubled.apply(x)
        y.add_(x)
        y[0] = 7.0
        return Cube.apply(y).mul_(2)

    check(program, order=2)


def test_views_of_what_changes_go_in() -> None:
    def program(x: Tensor) -> Tensor:
        base = x * 1
        view = base[1:]
        base.mul_(3)
        return Cube.apply(view) + Doubled.apply(base)[1:]

    check(program, order=2)


def test_in_a_loop_and_under_modes() -> None:
    def program(x: Tensor) -> Any:
        for _ in range(3):
            x = Doubled.apply(x) * 0.5
        with weft.no_grad():
            y = Cube.apply(x)
        with weft.enable_grad():
            return x, y, Cube.apply(y)

    check(program)
    check(weft.no_grad()(program))
