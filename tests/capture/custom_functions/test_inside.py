"""Custom Functions where captured code itself takes gradients: one graph, backward in its place and order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import weft
from tests.capture.custom_functions.harness import BACKENDS, Cube, Doubled, Linear, Same, leaf
from tests.capture.features.harness import numbers
from weft import Tensor
from weft.autograd import Function, grad
from weft.autograd.function import once_differentiable
from weft.compiler import Unsupported
from weft.testing import CompileCounterWithBackend

LOG: list[Any] = []


def shown(value: Any) -> Any:
    if isinstance(value, Tensor):
        return numbers(value), value.requires_grad, value.is_leaf, value._version
    if isinstance(value, (list, tuple)):
        return [shown(item) for item in value]
    return value


def check(program: Callable[..., Any], make: Callable[[], tuple[Any, ...]], after: Any = None) -> Any:
    """Asserts that results, gradients and effects are eager's, from one graph, for each backend."""
    for backend in BACKENDS:
        counter = CompileCounterWithBackend(backend)
        compiled = weft.compile(program, backend=counter, fullgraph=True)

        def run(function: Any) -> Any:
            LOG.clear()
            args = make()
            result = function(*args)
            found = [shown(result), shown([getattr(value, "grad", None) for value in args]), shown(LOG)]
            if after is not None:
                found.append(after(result))
                found.append(shown([getattr(value, "grad", None) for value in args]))
            return found

        for _ in range(2):
            assert run(compiled) == run(program)
        assert counter.frame_count == 1
    return counter


def one() -> tuple[Any, ...]:
    return (leaf(),)


def again(result: Any) -> str:
    """What another backward gives or says."""
    try:
        result.sum().backward()
    except RuntimeError as error:
        return str(error)
    return "nothing"


def test_backward_of_a_function() -> None:
    def program(x: Tensor) -> Tensor:
        y = Cube.apply(x)
        y.sum().backward()
        return y

    check(program, one, again)


def test_a_function_that_saves_nothing_is_not_spent() -> None:
    def program(x: Tensor) -> Tensor:
        y = Doubled.apply(x)
        y.sum().backward()
        return y

    check(program, one, again)


def test_graphs_of_ops_alone() -> None:
    def program(x: Tensor) -> Any:
        (g,) = grad((Cube.apply(x) * Doubled.apply(x)).sum(), x)
        return g

    counter = check(program, one)
    assert not counter.graphs[0].graph.subgraphs


def test_histories_that_nobody_swept_are_the_functions_own() -> None:
    def program(x: Tensor) -> Any:
        y, z = Cube.apply(x), Doubled.apply(x)
        y.sum().backward()
        return z, Cube.apply(z)

    def after(result: Any) -> Any:
        names = [tensor.grad_fn.name() for tensor in result]
        (g,) = grad((result[0] * result[1]).sum(), result[0], create_graph=True)
        (result[1] * 2).sum().backward()
        return names, shown(g)

    check(program, one, after)


def test_second_order_inside() -> None:
    def program(x: Tensor) -> Any:
        (first,) = grad(Cube.apply(x).sin().sum(), x, create_graph=True)
        (second,) = grad((first * first).sum(), x, create_graph=True)
        second.sum().backward()
        return first.detach(), second.detach()

    check(program, one)


def test_linear_and_needs_input_grad() -> None:
    def make() -> tuple[Any, ...]:
        x = weft.arange(6.0).reshape(2, 3)
        return x, weft.ones(4, 3, requires_grad=True), weft.zeros(4, requires_grad=True)

    def program(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        loss = Linear.apply(x, weight, bias).square().sum()
        loss.backward()
        return loss

    check(program, make, again)


class Loud(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, tag: str) -> Tensor:
        LOG.append(("forward", tag))
        ctx.tag, ctx.count = tag, [0]
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        (x,) = ctx.saved_tensors
        ctx.count[0] += 1
        LOG.append(("backward", ctx.tag, ctx.count[0], gradient * x))
        return gradient * ctx.count[0], None


def test_effects_in_eagers_order() -> None:
    def program(x: Tensor) -> Tensor:
        loss = (Loud.apply(Loud.apply(x, "a").sin(), "b") + Loud.apply(x, "c")).sum()
        LOG.append("between")
        loss.backward(retain_graph=True)
        loss.backward()
        LOG.append("after")
        return x.grad * 1

    check(program, one)


def test_hooks_and_functions() -> None:
    def program(x: Tensor) -> Any:
        y = Loud.apply(x, "a")
        y.register_hook(lambda gradient: gradient * 3)
        Cube.apply(y).sum().backward()
        return y.detach()

    check(program, one)


def test_inputs_returned_views_and_writes() -> None:
    class Writing(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.mark_dirty(x)
            x.mul_(3)
            ctx.save_for_backward(x)
            return x

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Any:
            (x,) = ctx.saved_tensors
            return gradient * x

    class Row(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x[1:]

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:
            return weft.cat([gradient[:1] * 0, gradient * 7])

    def program(x: Tensor) -> Any:
        y = Same.apply(x) * 2
        z = Writing.apply(y)
        (Row.apply(z) * z.detach()[1:]).sum().backward()
        return z is y, z.detach()

    check(program, one)


def test_several_outputs_and_missing_gradients() -> None:
    class Pair(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Any:
            order = x.argsort()
            doubled = x * 2
            ctx.mark_non_differentiable(doubled)
            return x.sin(), order, x.cos(), doubled, None

        @staticmethod
        def backward(ctx: Any, first: Any, _order: Any, second: Any, *_rest: Any) -> Any:
            return first * 2 + second * 3

    class Lazy(Pair):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Any:
            ctx.set_materialize_grads(False)
            return x.sin(), x.cos()

        @staticmethod
        def backward(ctx: Any, first: Any, second: Any) -> Any:
            LOG.append((first is None, second is None))
            return first * 2 if second is None else second * 3

    def program(x: Tensor) -> Any:
        first, order, second, doubled, none = Pair.apply(x)
        first.sum().backward()
        (Lazy.apply(x)[1] * doubled).sum().backward()
        return order, doubled, none

    check(program, one)


def test_objects_globals_and_closures() -> None:
    weight = weft.tensor([2.0], dtype=weft.float64)

    class Box:
        def __init__(self) -> None:
            self.total, self.calls = 0, 0

    class Reading(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, box: Any) -> Tensor:
            ctx.box = box
            return x * weight

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Any:
            ctx.box.calls += 1
            ctx.box.total = ctx.box.total + gradient.sum()
            return gradient * weight * SCALE, None

    def program(x: Tensor, box: Any) -> Any:
        (Reading.apply(x, box) + Reading.apply(x, box) * 2).sum().backward()
        return box.calls, box.total, x.grad

    check(program, lambda: (leaf(), Box()))


SCALE = weft.tensor([5.0], dtype=weft.float64)


def test_once_differentiable_inside() -> None:
    class Once(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x * 2

        @staticmethod
        @once_differentiable
        def backward(ctx: Any, gradient: Tensor) -> Tensor:
            return gradient * 0.5

    def program(x: Tensor) -> Any:
        Once.apply(x).sum().backward()
        return x.grad + 1

    check(program, one)

    def twice(x: Tensor) -> Any:
        (first,) = grad((Once.apply(x) ** 2).sum(), x, create_graph=True)
        first.sum().backward()
        return x.grad

    with pytest.raises(RuntimeError, match="once_differentiable"):
        weft.compile(twice, backend="eager", fullgraph=True)(leaf())


def test_saved_intermediates_are_right_or_loud() -> None:
    class Loose(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            sine = x.sin()
            ctx.save_for_backward(sine, weft.ones(3, dtype=weft.float64))
            return sine * x

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:
            sine, ones = ctx.saved_tensors
            return gradient * sine * ones

    def first(x: Tensor) -> Any:
        (g,) = grad(Loose.apply(x).sum(), x, create_graph=True)
        return g.detach()

    check(first, one)

    def second(x: Tensor) -> Any:
        (g,) = grad(Loose.apply(x).sum(), x, create_graph=True)
        g.sum().backward()
        return x.grad

    with pytest.raises(RuntimeError, match="saved a tensor"):
        weft.compile(second, backend="eager", fullgraph=True)(leaf())

    def outside(x: Tensor) -> Any:
        x.sum().backward()
        return Loose.apply(x)

    for function in (outside, weft.compile(outside, backend="eager", fullgraph=True)):
        x = leaf()
        (g,) = grad(function(x).sum(), x, create_graph=True)
        with pytest.raises(RuntimeError, match="saved a tensor"):
            g.sum().backward()


def test_printing_inside_is_a_break(capsys: pytest.CaptureFixture[str]) -> None:
    class Printing(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:
            print("here")
            return gradient

    def program(x: Tensor) -> Any:
        y = Printing.apply(x) + 1
        y.sum().backward()
        return x.grad * 2

    with pytest.raises(Unsupported, match="builtin: print"):
        weft.compile(program, backend="eager", fullgraph=True)(leaf())
    assert weft.compile(program, backend="eager")(leaf()).tolist() == [2.0, 2.0, 2.0]
    assert capsys.readouterr().out == "here\n"


def test_errors_of_backward_inside() -> None:
    class Raising(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Any:
            raise ValueError("no gradient")

    def program(x: Tensor) -> Any:
        try:
            Raising.apply(x).sum().backward()
        except ValueError as error:
            return str(error)
        return "nothing"

    check(program, one)

    def bare(x: Tensor) -> Any:
        Raising.apply(x).sum().backward()

    with pytest.raises(ValueError, match="no gradient"):
        weft.compile(bare, backend="eager", fullgraph=True)(leaf())


def test_checkpointing_by_hand_inside() -> None:
    class Again(Function):
        @staticmethod
        def forward(ctx: Any, function: Any, x: Tensor) -> Tensor:
            ctx.function = function
            ctx.save_for_backward(x)
            return function(x)

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Any:
            (x,) = ctx.saved_tensors
            with weft.enable_grad():
                copy = x.detach().requires_grad_()
                result = ctx.function(copy)
            weft.autograd.backward(result, gradient)
            return None, copy.grad

    def program(x: Tensor) -> Any:
        Again.apply(lambda t: (t.sin() * t).exp(), x * 2).sum().backward()
        return x.grad.sum()

    check(program, one)


def test_a_training_step() -> None:
    class Model(weft.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = weft.nn.Parameter(weft.ones(3, 3))
            self.bias = weft.nn.Parameter(weft.zeros(3))

        def forward(self, x: Tensor) -> Tensor:
            return Cube.apply(Linear.apply(x, self.weight, self.bias)).mean()

    found = []
    for backend in (None, *BACKENDS):
        model = Model()
        optimizer = weft.optim.SGD(model.parameters(), lr=0.01)

        def step(x: Tensor, model: Any = model, optimizer: Any = optimizer) -> Tensor:
            optimizer.zero_grad()
            loss = model(x)
            loss.backward()
            optimizer.step()
            return loss.detach()

        run = step if backend is None else weft.compile(step, backend=backend, fullgraph=True)
        losses = [run(weft.arange(6.0).reshape(2, 3) / 6) for _ in range(3)]
        found.append((losses, model.weight.detach(), model.bias.detach()))
    for ours in found[1:]:
        weft.testing.assert_close(ours, found[0])


def pack(tensor: Tensor) -> Tensor:
    LOG.append(("pack", tensor.shape[0]))
    return tensor * 1


def unpack(tensor: Tensor) -> Tensor:
    LOG.append("unpack")
    return tensor * 2


def test_hooks_of_saved_tensors_inside() -> None:
    def program(x: Tensor) -> Any:
        with weft.autograd.graph.saved_tensors_hooks(pack, unpack):
            y = Cube.apply(x)
            LOG.append("between")
        y.sum().backward()
        return x.grad * 1

    check(program, one)


def test_hooks_of_saved_tensors_that_a_backward_outside_will_run() -> None:
    def program(x: Tensor) -> Any:
        with weft.autograd.graph.saved_tensors_hooks(pack, unpack):
            return Cube.apply(x)

    found = []
    for function in (program, *[weft.compile(program, backend=backend) for backend in BACKENDS]):
        LOG.clear()
        x = leaf()
        function(x).sum().backward()
        found.append((x.grad.tolist(), list(LOG)))
    assert found[0] == found[1] == found[2]


def test_checkpoints_of_functions_inside() -> None:
    for reentrant in (True, False):

        def program(x: Tensor, reentrant: bool = reentrant) -> Any:
            y = weft.utils.checkpoint.checkpoint(lambda t: Cube.apply(t).sin(), x, use_reentrant=reentrant)
            y.sum().backward()
            return x.grad * 1

        check(program, one)


def test_once_differentiable_gradients_that_are_handed_out() -> None:
    class Once(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        @once_differentiable
        def backward(ctx: Any, gradient: Tensor) -> Tensor:
            (x,) = ctx.saved_tensors
            return gradient * x

    def through(x: Tensor) -> Any:
        (g,) = grad(Once.apply(x).sin().sum(), x, create_graph=True)
        return g * x

    check(through, one, again)

    def caught(x: Tensor) -> Any:
        (g,) = grad(Once.apply(x).sin().sum(), x, create_graph=True)
        return again(g)

    check(caught, one)


def test_what_backward_leaves_in_a_context_inside_stays_there() -> None:
    class Counting(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.count, ctx.seen, ctx.gone = 0, [x.shape[0]], "here"
            return x * 2

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:
            ctx.count += 1
            ctx.seen.append(ctx.count)
            if hasattr(ctx, "gone"):
                del ctx.gone
            LOG.append((ctx.count, list(ctx.seen), hasattr(ctx, "gone")))
            return gradient * ctx.count

    def program(x: Tensor) -> Any:
        y = Counting.apply(x)
        y.sum().backward()
        return y

    check(program, one, lambda result: (again(result), shown(LOG)))


def test_an_input_returned_is_not_the_input_in_second_order() -> None:
    class Kept(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:
            return gradient * 7

    def program(x: Tensor) -> Any:
        y = Kept.apply(x)
        (g,) = grad((y * y * x).sum(), x, create_graph=True)
        return g

    def after(result: Any) -> Any:
        result.sum().backward()

    check(program, one, after)


def test_results_written_beside_a_sweep() -> None:
    def program(x: Tensor) -> Any:
        y, z = Doubled.apply(x), Doubled.apply(x)
        y.add_(1)
        (g,) = grad((z * x).sum(), x)
        return g, y

    check(program, one, lambda result: again(result[1]))


def test_functions_that_no_gradient_reaches_run_on_zeros() -> None:
    class Stopping(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            result = x * 2
            ctx.save_for_backward(result)
            return result

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Any:
            LOG.append(gradient + ctx.saved_tensors[0])
            return None

    def program(x: Tensor) -> Any:
        Stopping.apply(Stopping.apply(x)).sum().backward()
        return x.grad

    check(program, one)


def test_a_backward_decides_whether_what_is_spent_is_asked_for() -> None:
    """Whether a sweep through a Function comes to what another sweep has freed is up to its backward."""

    class Ending(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Any:
            return None

    def program(x: Tensor) -> Any:
        y = x.sin() * x
        z = Ending.apply(y)
        (y * x).sum().backward()
        return z

    found = []
    for function in (program, *[weft.compile(program, backend=backend) for backend in BACKENDS]):
        x = leaf()
        found.append((again(function(x)), x.grad.tolist()))
    assert found[0] == found[1] == found[2]
