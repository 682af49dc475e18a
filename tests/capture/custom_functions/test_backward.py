"""What backward reads when it runs, what both change, and where capture breaks."""

from __future__ import annotations

import math
from typing import Any

import pytest

import weft
from tests.capture.custom_functions.harness import Cube, check, leaf
from weft import Tensor
from weft.autograd import Function
from weft.compiler import Unsupported, counters, graph_break
from weft.testing import CompileCounter

FACTOR = 2.0


def test_a_global_of_backward_is_read_when_backward_runs(
    runs: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Global(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x * 1

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Tensor:
            return grad * FACTOR

    counter = CompileCounter()
    compiled = weft.compile(lambda x: Global.apply(x), backend=counter, fullgraph=True)
    x = leaf(1.0)
    y = compiled(x)
    monkeypatch.setitem(globals(), "FACTOR", 10.0)
    y.backward()
    assert x.grad.tolist() == [10.0]
    monkeypatch.setitem(globals(), "FACTOR", 2.0)
    compiled(x).backward()
    assert x.grad.tolist() == [12.0]
    assert runs == [False, True] and counter.frame_count == 1


def test_a_closure_and_a_replaced_backward(runs: list[bool]) -> None:
    factor = 3.0

    class Closing(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x * factor

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Tensor:
            return grad * factor

    compiled = weft.compile(lambda x: Closing.apply(x), backend="eager", fullgraph=True)

    def gradient() -> Any:
        x = leaf(1.0)
        y = compiled(x)
        return x, y

    x, y = gradient()
    y.backward()
    assert x.grad.tolist() == [3.0]
    x, y = gradient()
    factor = 4.0
    y.backward()
    assert x.grad.tolist() == [4.0]
    x, y = gradient()
    Closing.backward = staticmethod(lambda ctx, grad: grad * 100)  # type: ignore[method-assign]
    y.backward()
    assert x.grad.tolist() == [100.0]
    assert runs == [True, False, False]


def test_a_changed_forward_is_noticed() -> None:
    class Changing(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Tensor:
            return grad

    counter = CompileCounter()
    compiled = weft.compile(lambda x: Changing.apply(x), backend=counter, fullgraph=True)
    assert compiled(leaf(1.0)).tolist() == [2.0]
    Changing.forward = staticmethod(lambda ctx, x: x * 3)  # type: ignore[method-assign]
    assert compiled(leaf(1.0)).tolist() == [3.0]
    assert counter.frame_count == 2


def test_a_tensor_that_backward_reads_elsewhere(runs: list[bool]) -> None:
    weights = [weft.tensor([2.0])]

    class Elsewhere(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x * 1

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Tensor:
            return grad * weights[0]

    compiled = weft.compile(lambda x: Elsewhere.apply(x) + 1, backend="eager", fullgraph=True)
    x = leaf(1.0)
    y = compiled(x)
    weights[0] = weft.tensor([7.0])
    y.backward()
    assert x.grad.tolist() == [7.0]
    y = compiled(x)
    weights[0] = weft.tensor([[3.0]])
    y.backward()
    assert x.grad.tolist() == [10.0]
    assert runs == [True, False]


LOG: list[Any] = []


class Logging(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        LOG.append("forward")
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        LOG.append("backward")
        return grad * 2


class Counting(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.count = 0
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        ctx.count += 1
        return grad * ctx.count


def test_effects_happen_as_often_as_in_eager() -> None:
    compiled = weft.compile(lambda x: Logging.apply(x) + 1, backend="eager")
    for _ in range(2):
        LOG.clear()
        y = compiled(leaf(1.0))
        y.backward(retain_graph=True)
        y.backward()
        assert LOG == ["forward", "backward", "backward"]


def test_what_backward_leaves_in_the_context_stays_there() -> None:
    compiled = weft.compile(lambda x: Counting.apply(x) + 1, backend="eager")
    x = leaf(1.0)
    y = compiled(x)
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.tolist() == [3.0]


def test_inputs_written_by_forward() -> None:
    class Writing(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.mark_dirty(x)
            return x.mul_(2)

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Tensor:
            return grad * 2

    def program(x: Tensor) -> Any:
        y = x * 1
        z = Writing.apply(y)
        return z, z is y

    check(program, order=2)


def test_a_list_of_the_callers_in_the_context() -> None:
    class Holding(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, numbers: list[int]) -> Tensor:
            ctx.numbers = numbers
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Any:
            return grad * ctx.numbers[0], None

    compiled = weft.compile(lambda x, numbers: Holding.apply(x, numbers) + 1, backend="eager")
    x, numbers = leaf(1.0), [2]
    y = compiled(x, numbers)
    numbers[0] = 9
    y.backward()
    assert x.grad.tolist() == [9.0]


def test_a_break_in_forward() -> None:
    class Broken(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            result = x + x
            graph_break()
            result = result + x
            ctx.save_for_backward(result)
            return result

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Tensor:
            (result,) = ctx.saved_tensors
            return grad * math.sqrt(result.numel())

    check(lambda x: Broken.apply(x), fullgraph=False, frames=2)
    check(lambda x: Broken.apply(x), lambda: (weft.ones(3),), fullgraph=False, frames=2)


def test_printing_in_backward(capsys: pytest.CaptureFixture[str]) -> None:
    class Printing(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return weft.add(x, x)

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Tensor:
            print("here")
            return grad

    with pytest.raises(Unsupported, match="builtin: print"):
        weft.compile(lambda x: Printing.apply(x), backend="eager", fullgraph=True)(leaf())
    weft.compile(lambda x: Printing.apply(x), backend="eager")(leaf(1.0)).backward()
    assert capsys.readouterr().out == "here\n"


def test_strides_of_a_gradient() -> None:
    class Strided(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return weft.add(x, x)

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Any:
            return grad.stride()

    counter = CompileCounter()
    compiled = weft.compile(lambda x: Strided.apply(x), backend=counter)
    assert compiled(leaf()).tolist() == [2.0, 4.0, 6.0]
    assert counter.frame_count == 1
    assert list(counters["graph_break"].values()) == [1]


def test_allowed_in_graphs() -> None:
    @weft.compiler.allow_in_graph
    class Opaque(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            graph_break()
            ctx.size = x.size(0)
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Tensor:
            return grad * ctx.size

    check(lambda x: Opaque.apply(x), ops=1)


def test_a_forward_that_raises() -> None:
    class Raising(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            raise ValueError("no")

    def program(x: Tensor) -> Tensor:
        try:
            return Raising.apply(x)
        except ValueError:
            return x * 2

    check(program)


class Config:
    def __init__(self) -> None:
        self.calls = 0
        self.kept: Any = None


def test_what_forward_changes_is_changed_by_the_program() -> None:
    class Noting(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, config: Config) -> Tensor:
            config.calls += 1
            LOG.append(config.calls)
            config.kept = x
            ctx.factor = config.calls
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Any:
            return grad * ctx.factor, None

    counter = CompileCounter()
    compiled = weft.compile(lambda x, c: Noting.apply(x, c) + c.calls, backend=counter, fullgraph=True)
    LOG.clear()
    config, x = Config(), leaf(1.0)
    y = compiled(x, config)
    y.backward()
    assert (y.tolist(), config.calls, LOG, config.kept is x) == ([3.0], 1, [1], True)
    config.calls = 0
    compiled(x, config)
    assert (LOG, counter.frame_count) == ([1, 1], 1)


def test_what_forward_computes_and_lets_escape() -> None:
    class Leaking(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, config: Config) -> Tensor:
            config.kept = x.exp()
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Any:
            return grad, None

    def program(x: Tensor, config: Config) -> Any:
        y = Leaking.apply(x, config)
        return y + config.kept

    compiled = weft.compile(program, backend="eager", fullgraph=True)
    for _ in range(2):
        config, other = Config(), Config()
        assert compiled(leaf(), config).tolist() == program(leaf(), other).tolist()
        assert config.kept.tolist() == other.kept.tolist()


def test_a_context_that_escapes_is_the_one_of_the_node() -> None:
    held: list[Any] = []

    class Held(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            held.append(ctx)
            ctx.factor = 2
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Any:
            return grad * ctx.factor

    compiled = weft.compile(lambda x: Held.apply(x) + 1, backend="eager")
    for _ in range(2):
        held.clear()
        x = leaf(1.0)
        y = compiled(x)
        held[0].factor = 50
        y.backward()
        assert x.grad.tolist() == [50.0]


def test_an_attribute_put_into_the_context_later() -> None:
    class Open(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.factor = 2
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Any:
            return grad * ctx.factor

    compiled = weft.compile(lambda x: Open.apply(x), backend="eager", fullgraph=True)
    x = leaf(1.0)
    y = compiled(x)
    y.grad_fn.factor = 9
    y.backward()
    assert x.grad.tolist() == [9.0]


def test_random_numbers_in_both() -> None:
    class Noisy(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x + weft.rand(3)

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Any:
            return grad + weft.rand(3)

    def seeded(x: Tensor) -> Any:
        return Noisy.apply(x)

    counter = CompileCounter()
    found = []
    for function in (seeded, weft.compile(seeded, backend=counter, fullgraph=True)):
        weft.manual_seed(3)
        x = leaf()
        function(x).sum().backward()
        found.append((x.grad.tolist(), weft.rand(1).item()))
    assert found[0] == found[1]


def test_errors_that_only_data_cause_are_raised_at_the_users_line() -> None:
    class Picking(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, places: Tensor) -> Tensor:
            ctx.save_for_backward(places)
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Any:
            (places,) = ctx.saved_tensors
            return grad[places], None  # the line

    compiled = weft.compile(lambda x, p: Picking.apply(x, p), backend="eager", fullgraph=True)
    compiled(leaf(), weft.tensor([0, 1, 2])).sum().backward()
    with pytest.raises(IndexError) as caught:
        compiled(leaf(), weft.tensor([0, 1, 7])).sum().backward()
    assert any(entry.name == "backward" and "the line" in str(entry.statement) for entry in caught.traceback)


def test_a_backward_that_is_compiled() -> None:
    counter = CompileCounter()

    class Inner(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            result = x + x
            ctx.save_for_backward(result)
            return result

        @staticmethod
        @weft.compile(backend=counter, fullgraph=True)
        def backward(ctx: Any, grad: Tensor) -> Any:
            (result,) = ctx.saved_tensors
            return grad * result.sin() if ctx.needs_input_grad[0] else None

    for _ in range(2):
        x = leaf()
        Inner.apply(x).sum().backward()
        assert x.grad.tolist() == (x * 2).sin().tolist()
    assert (counter.frame_count, counter.op_count) == (1, 2)
    y = Inner.apply(x).sum()
    y.backward()
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()


def test_hooks_of_saved_tensors_run_as_often() -> None:
    unpacked: list[Any] = []

    def unpack(value: Any) -> Any:
        unpacked.append(value)
        return value

    for function in (Cube.apply, weft.compile(lambda x: Cube.apply(x), backend="eager")):
        unpacked.clear()
        x = leaf(2.0)
        with weft.autograd.graph.saved_tensors_hooks(lambda value: value, unpack):
            y = function(x)
        y.backward()
        assert x.grad.tolist() == [12.0] and len(unpacked) == 1


def test_autocast_around_forward_and_around_backward() -> None:
    class Product(Function):
        @staticmethod
        @weft.amp.custom_fwd(device_type="cpu")
        def forward(ctx: Any, a: Tensor) -> Tensor:
            ctx.save_for_backward(a)
            return a.mm(a)

        @staticmethod
        @weft.amp.custom_bwd(device_type="cpu")
        def backward(ctx: Any, grad: Tensor) -> Any:
            (a,) = ctx.saved_tensors
            return grad.mm(a.t()) + a.t().mm(grad)

    def program(a: Tensor, inside: bool) -> Tensor:
        with weft.autocast("cpu", enabled=inside):
            return Product.apply(a)

    compiled = weft.compile(program, backend="eager", fullgraph=True)
    for inside in (True, False):
        for around in (True, False):
            found = []
            for function in (program, compiled):
                a = weft.arange(9.0).reshape(3, 3).div(7).requires_grad_()
                y = function(a, inside)
                with weft.autocast("cpu", enabled=around):
                    y.sum().backward()
                found.append((y.tolist(), y.dtype, a.grad.tolist()))
            assert found[0] == found[1]


def test_inside_cond() -> None:
    def program(x: Tensor, flag: Tensor) -> Tensor:
        return weft.cond(flag, lambda x: Cube.apply(x), lambda x: x.sin(), (x,))

    check(program, lambda: (leaf(), weft.tensor(True)))
    check(program, lambda: (leaf(), weft.tensor(False)))


def test_a_gradient_made_contiguous(runs: list[bool]) -> None:
    class Flat(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Any:
            return (grad.contiguous().view(-1) * 3).view(grad.shape)

    compiled = weft.compile(lambda x: Flat.apply(x), backend="eager", fullgraph=True)
    for expanded in (True, False):
        x = weft.ones(2, 3, requires_grad=True)
        y = compiled(x)
        y.backward(weft.ones(1, 1).expand(2, 3) if expanded else weft.ones(2, 3))
        assert x.grad.tolist() == [[3.0] * 3] * 2
    assert runs == [True, True]


def test_facts_of_what_was_saved_are_those_of_backward(runs: list[bool]) -> None:
    class Asking(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            result = x.exp()
            ctx.save_for_backward(x, result)
            ctx.result = [result]
            return result

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Any:
            x, result = ctx.saved_tensors
            flags = [t.requires_grad for t in (x, result, ctx.result[0], grad)]
            return grad * (flags[0] + 10 * flags[1] + 100 * flags[2] + 1000 * flags[3])

    compiled = weft.compile(lambda x: Asking.apply(x), backend="eager", fullgraph=True)
    found = []
    for function in (Asking.apply, compiled):
        x = leaf(1.0)
        function(x).backward()
        y = function(x)
        other = x.grad.tolist()
        x.requires_grad_(False)
        (grad,) = weft.autograd.grad(y, y)
        found.append((other, grad.tolist()))
    assert found[0] == found[1]
    assert runs == [True]


def test_pythons_own_means_in_backward() -> None:
    class Folding(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, count: int) -> Tensor:
            ctx.count = count
            return x * 1

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Any:
            parts = [grad * number for number in range(1, ctx.count)]
            named = dict(zip("ab", parts))
            return sum(part for part in parts) + named["a"].flip(0), None

    check(lambda x: Folding.apply(x, 3))


def test_a_compiled_backward_tells_saved_tensors_that_were_overwritten() -> None:
    class Saving(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            result = x * 2
            ctx.save_for_backward(result)
            return result

        @staticmethod
        @weft.compile(backend="eager", fullgraph=True)
        def backward(ctx: Any, grad: Tensor) -> Tensor:
            (result,) = ctx.saved_tensors
            return grad * result

    for written in (True, False, True, False):
        x = leaf()
        y = Saving.apply(x)
        if written:
            y.add_(1)
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                y.sum().backward()
        else:
            y.sum().backward()
            assert x.grad.tolist() == (x * 2).tolist()
