"""Custom Functions in compiled programs, behaviour by behaviour as PyTorch's own suite states them, for each
backend: what is computed, how many graphs there are, how many ops stand in them, and how a graph reads.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from enum import Enum
from typing import Any

import pytest

import weft
from tests.capture.custom_functions.harness import (
    SCALED_GRAPH,
    Bundle,
    Linear,
    MixedProduct,
    Scaled,
    gradients_at,
)
from weft import Tensor, nn
from weft.autograd import Function
from weft.autograd.function import once_differentiable
from weft.compiler import Unsupported, counters
from weft.testing import CompileCounterWithBackend, assert_close, normalize_gm


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(weft.compiler.settings, "strict", True)
    weft.compiler.reset()
    counters.clear()
    yield


@pytest.fixture(params=["eager", "aot_eager"])
def counter(request: pytest.FixtureRequest) -> CompileCounterWithBackend:
    """A backend that counts what it is given."""
    return CompileCounterWithBackend(request.param)


# -- Functions and modules that several tests use ------------------------------------------------------------
class Twice(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x + x

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad


class Tripled(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        total = x + x
        total = total + x
        ctx.save_for_backward(total)
        return total

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (total,) = ctx.saved_tensors
        return grad * math.sqrt(total.numel())


class Torn(Tripled):
    """A forward with a break in the middle."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        total = x + x
        weft.compiler.graph_break()
        total = total + x
        ctx.save_for_backward(total)
        return total


class Copies(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Any:
        ctx.set_materialize_grads(False)
        return x.clone(), x.clone()

    @staticmethod
    def backward(ctx: Any, first: Any, second: Any) -> Any:
        return first, second


class Announced(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return weft.add(x, x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        print("a gradient arrives")
        return grad


class Strides(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return weft.add(x, x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return grad.stride()


class SavedThenMarked(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        with weft.no_grad():
            ctx.save_for_backward(x)
            ctx.mark_non_differentiable(x)
            return x

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad


class MarkedThenSaved(SavedThenMarked):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        with weft.no_grad():
            ctx.mark_non_differentiable(x)
            ctx.save_for_backward(x)
            return x


class OfInstance(nn.Module):
    """Applies an instance of a Function, as old code does."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function().apply(*args)


class OfClass(nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function.apply(*args)


class OfStored(nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.apply_it = function.apply

    def forward(self, *args: Any) -> Any:
        return self.apply_it(*args)


class AnnouncedModule(nn.Module):
    def forward(self, x: Tensor) -> Any:
        return Announced.apply(x)


quiet = pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")


# -- sound behaviour -----------------------------------------------------------------------------------------
@quiet
@pytest.mark.parametrize("tracked", [True, False])
@pytest.mark.parametrize("form", [OfInstance, OfClass, OfStored])
def test_equivalence(counter: Any, form: Any, tracked: bool) -> None:
    compiled = weft.compile(form(Twice), backend=counter)
    x = weft.ones(2, 3, requires_grad=tracked)
    result = compiled(x)
    assert_close(result, weft.full((2, 3), 2.0, requires_grad=tracked))
    assert result.requires_grad is tracked and counter.frame_count == 1
    if tracked:
        result.sum().backward()
        assert x.grad.tolist() == [[1.0] * 3] * 2


@quiet
@pytest.mark.parametrize("tracked", [True, False])
@pytest.mark.parametrize("form", [OfInstance, OfStored])
def test_a_break_in_forward(counter: Any, form: Any, tracked: bool) -> None:
    model = form(Torn)
    compiled = weft.compile(model, backend=counter)
    x = weft.randn(10, requires_grad=tracked)
    for _ in range(3):
        assert_close(model(x), compiled(x))
    assert counter.frame_count == 2


@pytest.mark.parametrize("biased", [False, True])
def test_linear_with_setup_context(counter: Any, biased: bool) -> None:
    model = OfClass(Linear)
    compiled = weft.compile(model, backend=counter, fullgraph=True)
    values = tuple(weft.randn(*shape, dtype=weft.float64) for shape in ((2, 2), (3, 2), (3,)))
    given = values if biased else values[:2]
    rest = () if biased else (None,)
    found = [
        gradients_at(lambda *leaves: function(*leaves, *rest), given, lambda result: result.sin().sum())  # noqa: B023
        for function in (model, compiled)
    ]
    assert len(found[0]) == 3 + biased
    assert_close(found[0], found[1])


def test_gradients_not_materialized(counter: Any) -> None:
    model = OfClass(Copies)
    x = weft.randn(2, 2, dtype=weft.float64, requires_grad=True)
    assert_close(weft.compile(model, backend=counter)(x), model(x))
    assert counter.frame_count == 1


def test_print_in_backward(counter: Any, capsys: pytest.CaptureFixture[str]) -> None:
    x = weft.randn(2, 2, dtype=weft.float64, requires_grad=True)
    with pytest.raises(Unsupported, match="builtin: print"):
        weft.compile(AnnouncedModule(), backend=counter, fullgraph=True)(x)
    assert capsys.readouterr().out == ""
    weft.compile(AnnouncedModule(), backend=counter)(x).sum().backward()
    assert capsys.readouterr().out == "a gradient arrives\n"
    assert x.grad.tolist() == [[1.0] * 2] * 2


def test_strides_in_backward(counter: Any) -> None:
    model = OfClass(Strides)
    x = weft.randn(2, 2, dtype=weft.float64, requires_grad=True)
    assert_close(weft.compile(model, backend=counter)(x), model(x))
    assert counter.frame_count == 1
    assert list(counters["graph_break"].values()) == [1]


def test_an_enum(counter: Any) -> None:
    class Which(Enum):
        SINE = 0
        COSINE = 1

    class Wave(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, which: Which) -> Tensor:
            return x.sin() if which is Which.SINE else x.cos()

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Any:
            return grad, None

    compiled = weft.compile(lambda x, which: Wave.apply(x, which), backend=counter, fullgraph=True)
    x = weft.tensor([[1.0, 2, 3], [4, 5, 6]], requires_grad=True)
    result = compiled(x, Which.SINE)
    assert_close(result, x.sin())
    result.sum().backward()
    assert x.grad.tolist() == [[1.0] * 3] * 2
    assert_close(compiled(x, Which.COSINE), x.cos())


@quiet
def test_saved_for_backward(counter: Any) -> None:
    compiled = weft.compile(OfInstance(Tripled), backend=counter, fullgraph=True)
    x = weft.randn(2, 2, dtype=weft.float64, requires_grad=True)
    compiled(x).sum().backward()
    assert x.grad.tolist() == [[2.0] * 2] * 2


def test_allowed_in_graphs(counter: Any) -> None:
    @weft.compiler.allow_in_graph
    class Allowed(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            weft.compiler.graph_break()
            ctx.rows = x.size(0)
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Tensor:
            return grad * ctx.rows

    compiled = weft.compile(lambda x: Allowed.apply(x), backend=counter, fullgraph=True)
    x = weft.rand(2, 3, requires_grad=True)
    result = compiled(x)
    assert_close(result, Allowed.apply(x))
    assert counter.frame_count == 1
    result.sum().backward()
    assert x.grad.tolist() == [[2.0] * 3] * 2


def test_once_differentiable(counter: Any) -> None:
    class Halved(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x

        @staticmethod
        @once_differentiable
        def backward(ctx: Any, grad: Tensor) -> Tensor:
            return grad * 0.5

    compiled = weft.compile(lambda x: Halved.apply(x), backend=counter, fullgraph=True)
    x = weft.randn(3, requires_grad=True)
    result = compiled(x)
    assert_close(result, Halved.apply(x))
    assert counter.frame_count == 1
    (gradient,) = weft.autograd.grad((result * x).sum(), x, create_graph=True)
    assert_close(gradient, x * 1.5)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient.sum().backward()


def test_class_methods(counter: Any) -> None:
    class Shaken(Function):
        @classmethod
        def forward(cls, ctx: Any, x: Tensor) -> Tensor:
            return x + x

        @classmethod
        def backward(cls, ctx: Any, grad: Tensor) -> Tensor:
            return grad

    x = weft.randn(4, 4, 4, 4, requires_grad=True)
    result = weft.compile(lambda x: Shaken.apply(x), backend=counter)(x)
    assert_close(result, x + x)
    result.sum().backward()
    assert_close(x.grad, weft.ones(4, 4, 4, 4))
    assert counter.frame_count == 1


@pytest.mark.parametrize("function", [SavedThenMarked, MarkedThenSaved])
def test_saved_and_marked(counter: Any, function: Any) -> None:
    model = OfStored(function)
    for tracked in (False, True):
        x = weft.rand([1]).requires_grad_(tracked)
        before, after = model(x), weft.compile(model, backend=counter)(x)
        assert_close(before, after)
        assert before.requires_grad is after.requires_grad is False


def test_two_outputs(counter: Any) -> None:
    class Pair(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Any:
            return x.clone(), x.clone()

        @staticmethod
        def backward(ctx: Any, first: Tensor, second: Tensor) -> Tensor:
            return first + second

    x = weft.randn(3, requires_grad=True)
    result = weft.compile(lambda x: Pair.apply(x), backend=counter, fullgraph=True)(x)
    assert_close(result, Pair.apply(x))
    assert counter.frame_count == 1
    (result[0] + result[1] * 2).sum().backward()
    assert x.grad.tolist() == [3.0] * 3


def test_autocast_decorators(counter: Any) -> None:
    a = weft.randn([64, 64], dtype=weft.float32, requires_grad=True)
    gradient = a.clone()
    result = weft.compile(lambda a, b: MixedProduct.apply(a, b), backend=counter, fullgraph=True)(a, a)
    result.backward(gradient)
    assert_close(result, MixedProduct.apply(a, a))
    assert counter.frame_count == 1
    with weft.no_grad():
        assert_close(a.grad, gradient.mm(a.t()) + a.t().mm(gradient))


def test_an_object_as_argument(counter: Any) -> None:
    def program(x: Tensor, weird: Bundle, z: Tensor) -> Any:
        return Scaled.apply(x, weird, z)

    x, z = weft.tensor(2.0, requires_grad=True), weft.tensor(3.0, requires_grad=True)
    weird = Bundle(1.2, weft.tensor(2.5, requires_grad=True), weft.tensor(3.5))
    result = weft.compile(program, backend=counter, fullgraph=True)(x, weird, z)
    result.sum().backward()
    assert_close(result, Scaled.apply(x, weird, z))
    assert (x.grad.item(), z.grad.item(), weird.b.grad) == (2.5 * 3.5, 2.0, None)
    text = counter.graphs[0].print_readable(False, namespace="torch", nested_names=False)
    assert normalize_gm(text).split() == SCALED_GRAPH.split()


def test_a_list_of_tensors(counter: Any) -> None:
    class Spread(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, many: list[Tensor]) -> Tensor:
            ctx.save_for_backward(many[0], many[1])
            return x.clone() * (many[0] + many[1])

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Any:
            first, second = ctx.saved_tensors
            return grad * (first + second), None

    x = weft.tensor(2.0, requires_grad=True)
    many = [weft.tensor(3.0, requires_grad=True), weft.tensor(4.0, requires_grad=True)]
    result = weft.compile(lambda x, many: Spread.apply(x, many), backend=counter, fullgraph=True)(x, many)
    result.sum().backward()
    assert_close(result, Spread.apply(x, many))
    assert x.grad.item() == 7.0
    assert [tensor.grad for tensor in many] == [None, None]


def test_several_arguments_that_are_no_tensors(counter: Any) -> None:
    class Mixed(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, bundle: Bundle, z: Tensor, many: list[Tensor]) -> Tensor:
            ctx.save_for_backward(bundle.b, bundle.c, many[0], many[1])
            return x.clone() * bundle.b * bundle.c * many[0]

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Any:
            b, c, first, _ = ctx.saved_tensors
            return grad * b * c * first, None, grad * 2, None

    def tracked(value: float) -> Tensor:
        return weft.tensor(value, requires_grad=True)

    x, z, bundle = tracked(2.0), tracked(3.0), Bundle(1.2, tracked(2.5), tracked(3.5))
    many = [tracked(0.5), tracked(0.6)]
    compiled = weft.compile(lambda *args: Mixed.apply(*args), backend=counter, fullgraph=True)
    result = compiled(x, bundle, z, many)
    result.sum().backward()
    assert_close(result, Mixed.apply(x, bundle, z, many))
    assert (x.grad.item(), z.grad.item()) == (2.5 * 3.5 * 0.5, 2.0)
    assert [tensor.grad for tensor in (bundle.b, bundle.c, *many)] == [None] * 4


def test_none_for_a_tensor(counter: Any) -> None:
    class First(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
            ctx.save_for_backward(y)
            return x.clone() * y

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Any:
            (y,) = ctx.saved_tensors
            return grad * y, None

    x, y = weft.tensor(2.0, requires_grad=True), weft.tensor(3.0, requires_grad=True)
    result = weft.compile(lambda x, y: First.apply(x, y), backend=counter, fullgraph=True)(x, y)
    result.sum().backward()
    assert_close(result, First.apply(x, y))
    assert x.grad.item() == 3.0 and y.grad is None


def test_a_bound_and_a_parameter(counter: Any) -> None:
    class Bounded(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, bound: int) -> Tensor:
            ctx.save_for_backward(x, x.new_ones(1) * bound)
            return x.clamp(min=bound)

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Any:
            x, bound = ctx.saved_tensors
            return (x >= bound) * grad, None

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gamma = nn.Parameter(weft.rand([4, 8, 3, 3]) * 2)

        def forward(self, x: Tensor) -> Tensor:
            return x + Bounded.apply(self.gamma, 1)

    model = Model()
    x = weft.rand([4, 8, 3, 3])
    before, after = model(x), weft.compile(model, backend=counter)(x)
    assert_close(before, after)
    after.sum().backward()
    assert_close(model.gamma.grad, (model.gamma >= 1).float())


# -- as eager has it -----------------------------------------------------------------------------------------
def test_a_size_in_the_context(counter: Any) -> None:
    class Sized(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.rows = x.size(0)
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Tensor:
            return grad * ctx.rows

    compiled = weft.compile(lambda x: Sized.apply(x), backend=counter, fullgraph=True, dynamic=True)
    for rows in (2, 5):
        x = weft.randn(rows, requires_grad=True)
        compiled(x).sum().backward()
        assert x.grad.tolist() == [float(rows)] * rows
    assert counter.frame_count == 1


def test_needs_input_grad_in_a_compiled_backward(counter: Any) -> None:
    class Inner(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            total = x + x
            ctx.save_for_backward(total)
            return total

        @staticmethod
        @weft.compile(backend=counter, fullgraph=True)
        def backward(ctx: Any, grad: Tensor) -> Any:
            (total,) = ctx.saved_tensors
            if ctx.needs_input_grad[0]:
                return grad * total.sin()
            return None

    x = weft.randn(10, requires_grad=True)
    Inner.apply(x).sum().backward()
    assert_close(x.grad, (x + x).sin())
    assert (counter.frame_count, counter.op_count) == (1, 2)


def test_saving_again(counter: Any) -> None:
    class Product(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
            ctx.save_for_backward(x)
            ctx.save_for_backward(x, y)
            return x * y

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Any:
            x, y = ctx.saved_tensors
            return grad * x, grad * y

    def program(x: Tensor, y: Tensor) -> Any:
        return Product.apply(x, y)

    x, y = weft.randn(2), weft.randn(2)
    found = [gradients_at(each, (x, y)) for each in (program, weft.compile(program, backend=counter))]
    assert counter.frame_count == 1
    assert_close(found[0], found[1])


def test_tensors_and_lists_in_the_context(counter: Any) -> None:
    class Smuggled(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.tensor = x
            ctx.numbers = [1, 2, 3]
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Tensor:
            product = grad * ctx.tensor
            for number in ctx.numbers:
                product = (product * number) + product
            return product

    compiled = weft.compile(lambda x: Smuggled.apply(x), backend=counter, fullgraph=True, dynamic=True)
    x = weft.randn(2, requires_grad=True)
    compiled(x).sum().backward()
    assert_close(x.grad, x * 24)
    assert counter.frame_count == 1


def test_default_values(counter: Any) -> None:
    class Kept(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, alpha: float = 0.99) -> Tensor:
            return x

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Tensor:
            return grad

    compiled = weft.compile(lambda x: Kept.apply(x), backend=counter)
    x = weft.randn(2)
    assert_close(compiled(x), x)
    x = weft.randn(2, requires_grad=True)
    compiled(x).sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]
    assert counter.frame_count == 2


def test_a_tuple(counter: Any) -> None:
    class Random(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, shape: tuple[int, ...]) -> Tensor:
            ctx.save_for_backward(weft.randn(shape))
            return x + 1

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Any:
            (result,) = ctx.saved_tensors
            return result, None

    @weft.compile(backend=counter, fullgraph=True)
    def program() -> Any:
        return Random.apply(x, shape)

    shape = (10, 10)
    x = weft.randn(shape, requires_grad=True)
    result = program()
    result.sum().backward()
    assert_close(result, x + 1)
    assert tuple(x.grad.shape) == shape
    assert (counter.frame_count, counter.op_count) == (1, 2)


# -- kernels of one's own: what the suite states of them on a GPU, with a custom op in their place -----------
@weft.library.custom_op("function_seed::plus", mutates_args={"out"})
def plus(x: Tensor, y: Tensor, out: Tensor) -> None:
    out.copy_(x + y)


def test_a_kernel_in_forward(counter: Any) -> None:
    class Sum(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
            ctx.save_for_backward(x, y)
            out = weft.zeros_like(x)
            plus(x, y, out)
            return out

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Any:
            x, y = ctx.saved_tensors
            return x * grad, y * grad

    x, y = weft.randn(10, requires_grad=True), weft.randn(10, requires_grad=True)
    result = weft.compile(lambda x, y: Sum.apply(x, y), backend=counter, fullgraph=True)(x, y)
    result.sum().backward()
    assert_close(result, x + y)
    assert_close([x.grad, y.grad], [x.detach(), y.detach()])


def test_a_kernel_and_an_input_returned(counter: Any) -> None:
    class Sum(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, y: Tensor) -> Any:
            ctx.save_for_backward(x, y)
            ctx.first, ctx.second = x, y
            out = weft.zeros_like(x)
            plus(x, y, out)
            return out, x

        @staticmethod
        def backward(ctx: Any, grad: Tensor, grad_of_x: Tensor) -> Any:
            x, y = ctx.saved_tensors
            return grad_of_x * x * ctx.first * grad, y * ctx.second * grad

    def program(x: Tensor, y: Tensor) -> Any:
        return Sum.apply(x, y)

    x, y = weft.randn(10), weft.randn(10)
    compiled = weft.compile(program, backend=counter, fullgraph=True)
    found = [gradients_at(each, (x, y), lambda r: (r[0] + r[1] * 3).sum()) for each in (program, compiled)]
    assert_close(found[0], found[1])
    assert_close(found[1][0][0], x + y)
