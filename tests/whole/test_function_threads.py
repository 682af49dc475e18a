"""Custom Functions under compile: what users have reported of PyTorch, each case eager against compiled."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import weft
from weft import Tensor
from weft.autograd import Function
from weft.autograd.function import once_differentiable
from weft.func import grad, jvp, vmap
from weft.testing import CompileCounterWithBackend


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(weft.compiler.settings, "strict", True)
    weft.compiler.reset()
    yield


@pytest.fixture(params=["eager", "aot_eager"])
def agree(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Asserts that a program gives the same compiled, from one graph, and so do gradients of its results."""

    def compare(program: Callable[..., Any], make: Callable[[], tuple[Any, ...]], order: int = 1) -> None:
        counter = CompileCounterWithBackend(request.param)
        compiled = weft.compile(program, backend=counter, fullgraph=True)
        found = [outcome(function, make, order) for function in (program, compiled, compiled)]
        assert found[0] == found[1] == found[2]
        assert counter.frame_count == 1

    return compare


def outcome(function: Callable[..., Any], make: Callable[[], tuple[Any, ...]], order: int) -> Any:
    weft.manual_seed(0)
    args = make()
    leaves = [value for value in args if isinstance(value, Tensor) and value.requires_grad]
    result = function(*args)
    found = [shown(result), shown(list(args))]
    outputs = [value for value in tensors(result) if value.requires_grad]
    for number in range(order):
        if outputs and leaves:
            loss = sum((value * value).sum() for value in outputs)
            given = weft.autograd.grad(loss, leaves, create_graph=number < order - 1, allow_unused=True)
            found.append(shown([None if value is None else value.detach() for value in given]))
            outputs = [value for value in given if value is not None and value.requires_grad]
    return found


def tensors(value: Any) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    return [found for item in value for found in tensors(item)] if isinstance(value, (list, tuple)) else []


def shown(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.tolist(), value.dtype, value.requires_grad, value._version
    return [shown(item) for item in value] if isinstance(value, (list, tuple)) else value


def leaf(*values: float) -> Tensor:
    return weft.tensor(values or (0.7, -1.3, 2.1), dtype=weft.float64, requires_grad=True)


def one() -> tuple[Tensor]:
    return (leaf(),)


# -- inputs that are written (pytorch#133491, #184113, #107593, #180642) -------------------------------------
class Tripled(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        x.mul_(3)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient * 3


@pytest.mark.parametrize("used", [True, False])
def test_written_inputs_whether_the_result_is_used_or_not(agree: Any, used: bool) -> None:
    def program(weight: Tensor) -> Tensor:
        y = weft.ones(2, 2, dtype=weft.float64) @ weight
        if used:
            y = Tripled.apply(y)
        else:
            Tripled.apply(y)
        return y.sum()

    agree(program, lambda: (weft.eye(2, dtype=weft.float64).requires_grad_(),), order=2)


def test_what_forward_adds_to_in_place_is_one_output(agree: Any) -> None:
    class Summed(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
            total = weft.zeros_like(x)
            total += x
            total += y * 2
            total[0] = 5.0
            ctx.save_for_backward(total)
            return total

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Any:
            (total,) = ctx.saved_tensors
            return gradient * total, gradient * 7

    agree(lambda x, y: Summed.apply(x, y), lambda: (leaf(), leaf(1.0, 2.0, 3.0)))


# -- outputs (pytorch#144142, #106389, #112475) --------------------------------------------------------------
def test_an_output_that_is_a_list(agree: Any) -> None:
    class Listed(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Any:
            return x, [1, 2, 3]

        @staticmethod
        def backward(ctx: Any, first: Tensor, second: Any) -> Tensor:
            assert second is None
            return first * 2

    agree(lambda x: Listed.apply(x), lambda: (leaf(2.0),))


def test_gradients_that_are_not_materialized(agree: Any) -> None:
    """pytorch#106391"""

    class Twins(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Any:
            ctx.save_for_backward(x)
            ctx.set_materialize_grads(False)
            return x.sin(), x.sin()

        @staticmethod
        def backward(ctx: Any, first: Any, second: Any) -> Any:
            (x,) = ctx.saved_tensors
            parts = [part * x.cos() for part in (first, second) if part is not None]
            return sum(parts) if parts else None

    agree(lambda x: Twins.apply(x), one, order=2)
    agree(lambda x: Twins.apply(x)[1], one, order=2)


def test_once_differentiable(agree: Any) -> None:
    """pytorch#106893"""

    class Halved(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x

        @staticmethod
        @once_differentiable
        def backward(ctx: Any, gradient: Tensor) -> Tensor:
            return gradient * 0.5

    agree(lambda x: Halved.apply(x), one)


# -- static methods (pytorch#118397, #130051, #180284, #129845) ----------------------------------------------
class Everything(Function):
    """All the static methods there are, and gradients that are deliberately not those of the sine."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, factor: int = 3) -> Tensor:
        return x.sin() * factor

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        x, ctx.factor = inputs
        ctx.save_for_backward(x)
        ctx.save_for_forward(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        (x,) = ctx.saved_tensors
        return gradient * x * 100 * ctx.factor, None

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, _factor: Any) -> Tensor:
        (x,) = ctx.saved_tensors
        return tangent * x * 1000 * ctx.factor


def test_all_static_methods_at_once(agree: Any) -> None:
    agree(lambda x: Everything.apply(x), one, order=2)
    agree(lambda x: Everything.apply(x, 5), one, order=2)


def test_gradients_by_transforms_are_the_functions_own(agree: Any) -> None:
    """pytorch#193279, #192985: a custom backward or jvp is not dropped."""

    def plain() -> tuple[Tensor]:
        return (leaf().detach(),)

    agree(lambda x: grad(lambda y: Everything.apply(y).sum())(x), plain)
    agree(lambda x: jvp(Everything.apply, (x,), (weft.ones_like(x),)), plain)
    agree(lambda x: vmap(Everything.apply)(x), plain)
    agree(lambda x: vmap(grad(Everything.apply))(x), plain)
    agree(lambda x: grad(lambda y: vmap(Everything.apply)(y).sum())(x), one, order=1)


def test_a_marked_output_under_vmap(agree: Any) -> None:
    class Marked(Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x: Tensor) -> Tensor:
            return x * 2

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.mark_non_differentiable(output)

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:
            return gradient

    agree(lambda x: vmap(Marked.apply)(x), lambda: (leaf().detach(),))
    agree(lambda x: Marked.apply(x), one)


# -- free variables (pytorch#118394, #106894, #138817) -------------------------------------------------------
FREE = weft.tensor(3)
WEIGHT = weft.tensor([2.0, 3.0, 4.0], dtype=weft.float64)


def halve(x: Tensor) -> Tensor:
    return x * 0.5


def test_free_variables(agree: Any) -> None:
    inner = weft.tensor([5.0], dtype=weft.float64)

    class Freely(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.free = FREE
            return x * FREE + inner

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:
            return halve(gradient * ctx.free) * WEIGHT * inner

    agree(lambda x: Freely.apply(x), one, order=2)


def test_names_that_meet_when_they_are_lifted(agree: Any) -> None:
    class Lifted(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, pair: dict[str, Tensor]) -> Tensor:
            ctx.save_for_backward(pair["x"])
            return x * pair["x"] * pair["l_x_"]

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Any:
            (x,) = ctx.saved_tensors
            return gradient * x, None

    def program(x: Tensor, y: Tensor) -> Tensor:
        return Lifted.apply(x, {"x": x + y, "l_x_": y})

    agree(program, lambda: (leaf(), leaf(1.0, 2.0, 3.0)))


# -- arguments (PR pytorch#185407, #183604, #181146, #124360, #106387) ---------------------------------------
def test_the_same_tensor_twice(agree: Any) -> None:
    class Product(Function):
        @staticmethod
        def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
            ctx.save_for_backward(a, b)
            return a * b + a + b

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Any:
            a, b = ctx.saved_tensors
            return gradient * (b + 1), gradient * (a + 1)

    class Half(Product):
        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Any:
            return None, gradient * 10

    for function in (Product, Half):
        agree(lambda x, function=function: function.apply(x, x).sum(), one, order=2)
        agree(lambda x, function=function: function.apply(x.sin(), x.sin()).sum(), one, order=2)


def test_a_tensor_assigned_to_the_context(agree: Any) -> None:
    class Assigned(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.x, ctx.sine = x, x.sin()
            return x.sin()

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:
            return gradient * ctx.x.cos() + ctx.sine

    agree(lambda x: Assigned.apply(x), one)


def test_saved_and_not_used(agree: Any) -> None:
    """pytorch#112002"""

    class Stacked(Function):
        @staticmethod
        def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            ctx.save_for_backward(q, k, v)
            return q

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Any:
            q, k, v = ctx.saved_tensors
            weft.stack([q, k, v], dim=0)
            return q, None, None

    agree(lambda q, k, v: Stacked.apply(q, k, v), lambda: (leaf(), leaf(1.0, 2.0, 3.0), leaf(4.0, 5.0, 6.0)))


# -- backwards -----------------------------------------------------------------------------------------------
def test_a_gradient_written_by_backward(agree: Any) -> None:
    """pytorch#141111"""

    class Copying(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Any:
            return x.clone(), x.clone()

        @staticmethod
        def backward(ctx: Any, first: Tensor, second: Tensor) -> Tensor:
            return first.copy_(second * 2)

    agree(lambda x: Copying.apply(x), one)


def test_random_gates(agree: Any) -> None:
    """pytorch#103139"""

    class Shaken(Function):
        @classmethod
        def forward(cls, ctx: Any, first: Tensor, second: Tensor, training: bool) -> Tensor:
            assert first.size() == second.size()
            gate = first.new_empty([first.size()[0], *itertools.repeat(1, first.dim() - 1)])
            if training:
                gate.uniform_(0, 1)
            else:
                gate.fill_(0.5)
            return first * gate + second * (1.0 - gate)

        @classmethod
        def backward(cls, ctx: Any, gradient: Tensor) -> Any:
            for_first = for_second = None
            size = [gradient.size()[0], *itertools.repeat(1, gradient.dim() - 1)]
            gate = gradient.data.new_empty(size).uniform_(0, 1)
            if ctx.needs_input_grad[0]:
                for_first = gradient * gate
            if ctx.needs_input_grad[1]:
                for_second = gradient * (1 - gate)
            assert not ctx.needs_input_grad[2]
            return for_first, for_second, None

    for training in (True, False):
        agree(
            lambda x, y, training=training: Shaken.apply(x, y, training),
            lambda: (leaf().reshape(3, 1).detach().requires_grad_(), weft.ones(3, 1, dtype=weft.float64)),
        )


def test_a_chain_of_functions_is_as_many_nodes(agree: Any) -> None:
    """pytorch#101937"""

    class Doubled(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:
            return gradient * 2

    def program(x: Tensor) -> Tensor:
        for _ in range(10):
            x = Doubled.apply(x)
        return x

    agree(program, one, order=2)


def test_second_order_through_saved_intermediates(agree: Any) -> None:
    """pytorch#104040: right where it can be, and loud where it cannot."""

    class Cubed(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Any:
            square = x * x
            ctx.save_for_backward(x, square)
            return x * square, square

        @staticmethod
        def backward(ctx: Any, gradient: Tensor, for_square: Tensor) -> Tensor:
            x, square = ctx.saved_tensors
            return gradient * 3 * square + for_square * 2 * x

    agree(lambda x: Cubed.apply(x)[0], one, order=3)

    class Lost(Cubed):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Any:
            square = x * x
            ctx.save_for_backward(x, square)
            return x * square

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Any:
            return Cubed.backward(ctx, gradient, weft.zeros_like(gradient))

    agree(lambda x: Lost.apply(x), one)
    for backend in ("eager", "aot_eager"):
        x = leaf()
        compiled = weft.compile(lambda x: Lost.apply(x), backend=backend, fullgraph=True)
        (first,) = weft.autograd.grad(compiled(x).sum(), x, create_graph=True)
        with pytest.raises(RuntimeError, match="second derivative would be wrong"):
            first.sum().backward()


def test_in_place_sums_under_grad(agree: Any) -> None:
    """pytorch#136662"""

    def inner(x: Tensor) -> Tensor:
        y = weft.zeros_like(x)
        y[:, 0] += x[:, 2].abs()
        y[:, 0] += x[:, 2].abs()
        return y.sum()

    agree(lambda x: grad(inner)(x), lambda: (weft.tensor([[1.0, 2.0, -3.0], [4.0, 5.0, 6.0]]),))
