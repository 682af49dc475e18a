"""The contract of custom Functions that PyTorch's capture does not keep: without a break, as in eager."""

from __future__ import annotations

import gc
import weakref
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

import weft
from tests.capture.custom_functions.harness import BACKENDS, Cube, Doubled, check, leaf, two
from weft import Tensor
from weft.autograd import Function
from weft.testing import CompileCounterWithBackend

LOG: list[Any] = []


class Box:
    """An object with attributes."""

    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)


@pytest.fixture(params=BACKENDS)
def compiled(request: pytest.FixtureRequest) -> Any:
    """Compiles with fullgraph; `frames` is the number of graphs so far."""

    def make(function: Callable[..., Any], **options: Any) -> Any:
        counter = CompileCounterWithBackend(request.param)
        made = weft.compile(function, backend=counter, **{"fullgraph": True, **options})
        made.counter = counter
        return made

    return make


def agree(compiled: Any, program: Callable[..., Any], run: Callable[[Any], Any], rounds: int = 2) -> Any:
    """Asserts that a run of the program gives the same compiled, from one graph."""
    made = compiled(program)
    for _ in range(rounds):
        LOG.clear()
        expected = run(program), list(LOG)
        LOG.clear()
        assert (run(made), list(LOG)) == expected
    assert made.counter.frame_count == 1
    return made


# -- inputs that are written ---------------------------------------------------------------------------------
class Scaling(Function):
    """Writes its first input."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: Tensor) -> Tensor:
        ctx.save_for_backward(factor)
        ctx.mark_dirty(x)
        return x.mul_(factor)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        (factor,) = ctx.saved_tensors
        return grad * factor, None


def test_an_input_written(compiled: Any) -> None:
    def program(x: Tensor, factor: Tensor) -> Any:
        y = x * 1
        z = Scaling.apply(y, factor)
        return z, z is y, y + 1

    check(program, lambda: (leaf(), weft.tensor([2.0, 3.0, 4.0], dtype=weft.float64)), order=2)


def test_an_argument_of_the_program_written(compiled: Any) -> None:
    def program(x: Tensor, factor: Tensor) -> Tensor:
        return Scaling.apply(x, factor) * 3

    def run(function: Any) -> Any:
        root = leaf()
        x = root * 1
        result = function(x, weft.tensor([2.0], dtype=weft.float64))
        name = x.grad_fn.name()
        result.sum().backward()
        return result.tolist(), x.tolist(), x._version, name, root.grad.tolist()

    agree(compiled, program, run)


def test_an_argument_without_history_gets_one(compiled: Any) -> None:
    class Adding(Function):
        @staticmethod
        def forward(ctx: Any, target: Tensor, x: Tensor) -> Tensor:
            ctx.mark_dirty(target)
            target.add_(x)
            return target

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Any:
            return grad, grad * 2

    def run(function: Any) -> Any:
        target, x = weft.zeros(3, dtype=weft.float64), leaf()
        result = function(target, x)
        facts = result is target, target.requires_grad, target.grad_fn.name(), target._version
        (target * target).sum().backward()
        return facts, x.grad.tolist()

    agree(compiled, lambda target, x: Adding.apply(target, x), run)


def test_a_leaf_must_not_be_written(compiled: Any) -> None:
    def program(x: Tensor, factor: Tensor) -> Any:
        return Scaling.apply(x, factor)

    x = leaf()
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad has been used in an in-place"):
        compiled(program)(x, weft.tensor([2.0], dtype=weft.float64))

    def catching(x: Tensor, factor: Tensor) -> Any:
        try:
            return Scaling.apply(x, factor)
        except RuntimeError:
            return x.detach() + 1

    found = []
    for function in (catching, compiled(catching)):
        x = leaf()
        found.append((function(x, weft.tensor([2.0], dtype=weft.float64)).tolist(), x.tolist(), x._version))
    assert found[0] == found[1]


def test_marked_and_not_returned(compiled: Any) -> None:
    class Wrong(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.mark_dirty(x)
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Any:
            return grad

    for tracked in (True, False):
        with pytest.raises(RuntimeError, match="were not returned as output"):
            compiled(lambda x: Wrong.apply(x * 1))(leaf().detach().requires_grad_(tracked))


def test_written_without_being_marked(compiled: Any) -> None:
    class Silent(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, statistics: Tensor) -> Tensor:
            statistics.add_(x.detach())
            BUFFER.mul_(2)
            return x * statistics

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Any:
            return grad * 5, None

    def run(function: Any) -> Any:
        BUFFER.copy_(weft.ones(3))
        x, statistics = leaf(), weft.zeros(3, dtype=weft.float64)
        start = BUFFER._version
        result = function(x, statistics)
        result.sum().backward()
        return result.tolist(), statistics.tolist(), BUFFER.tolist(), BUFFER._version - start, x.grad.tolist()

    agree(compiled, lambda x, statistics: Silent.apply(x, statistics) + BUFFER, run)


BUFFER = weft.ones(3, dtype=weft.float64)


def test_written_where_nothing_is_recorded(compiled: Any) -> None:
    def run(function: Any) -> Any:
        x = leaf().detach()
        with weft.no_grad():
            y = function(x, weft.tensor([2.0], dtype=weft.float64))
        return y.tolist(), x.tolist(), y is x, x._version

    agree(compiled, lambda x, factor: Scaling.apply(x, factor), run)
    agree(compiled, lambda x, factor: Scaling.apply(x, factor) + 1, run)


def test_a_view_written(compiled: Any) -> None:
    def program(x: Tensor, factor: Tensor) -> Any:
        base = x * 1
        Scaling.apply(base[1:], factor)
        return base * 2

    check(program, lambda: (leaf(), weft.tensor([2.0], dtype=weft.float64)), order=2)


# -- what forward returns ------------------------------------------------------------------------------------
class Pair(NamedTuple):
    first: Any
    second: Any


class Returning(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, make: Callable[[Tensor], Any]) -> Any:
        return make(x)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        LOG.append([grad is None for grad in grads])
        return grads[0], None


BOX = Box(name="box")


@pytest.mark.parametrize(
    "make",
    [
        lambda x: (x * 2, 3, "four", None, 5.0, weft.float32),
        lambda x: (x * 2, [x + 1, 7], {"a": x - 1}),
        lambda x: (x * 2, BOX),
        lambda x: (x * 2, x.shape[0], x.shape),
        lambda x: Pair(x * 3, [1]),
        lambda x: [x * 2, x * 3],
        lambda x: 7,
        lambda x: (1, 2),
        lambda x: {"out": x * 2},
        lambda x: (),
        lambda x: (x * 4, x.argmax()),
    ],
)  # fmt: skip
def test_outputs_that_are_no_tensors(compiled: Any, make: Any) -> None:
    def shown(value: Any) -> Any:
        if isinstance(value, Tensor):
            return value.tolist(), value.requires_grad, value.grad_fn and value.grad_fn.name()
        if isinstance(value, (list, tuple)):
            return type(value), [shown(item) for item in value]
        return {key: shown(item) for key, item in value.items()} if isinstance(value, dict) else value

    def run(function: Any) -> Any:
        x = leaf()
        result = function(x)
        first = result[0] if isinstance(result, tuple) and result else result
        if isinstance(first, Tensor) and first.requires_grad:
            first.sum().backward()
        return shown(result), shown(x.grad)

    agree(compiled, lambda x: Returning.apply(x, make), run)


def test_sizes_returned_vary(compiled: Any) -> None:
    class Counted(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Any:
            return x * 2, x.shape[0] + 1

        @staticmethod
        def backward(ctx: Any, grad: Tensor, _none: None) -> Tensor:
            return grad * 3

    made = compiled(lambda x: Counted.apply(x), dynamic=True)
    for count in (3, 4, 5):
        x = weft.ones(count, requires_grad=True)
        result, size = made(x)
        result.sum().backward()
        assert size == count + 1 and x.grad.tolist() == [3.0] * count
    assert made.counter.frame_count == 1


# -- contexts ------------------------------------------------------------------------------------------------
def test_an_object_in_the_context(compiled: Any) -> None:
    class Configured(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, box: Box) -> Tensor:
            ctx.box = box
            return x * box.scale

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Any:
            return grad * ctx.box.scale * ctx.box.weight, None

    def run(function: Any) -> Any:
        found = []
        for late in (None, "scale", "weight"):
            box, x = Box(scale=2, weight=weft.tensor([3.0])), leaf()
            y = function(x, box)
            assert y.grad_fn.box is box
            if late == "scale":
                box.scale = 10
            elif late == "weight":
                box.weight = weft.tensor([[1.0]])
            y.sum().backward()
            found.append(x.grad.tolist())
        return found

    agree(compiled, lambda x, box: Configured.apply(x, box), run)


def test_the_graph_of_a_backward_reads_the_objects_in_its_context(compiled: Any, runs: list[bool]) -> None:
    class Configured(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, box: Box) -> Tensor:
            ctx.box = box
            return x * box.scale

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Any:
            return grad * ctx.box.scale * ctx.box.weight, None

    made = compiled(lambda x, box: Configured.apply(x, box))
    for _ in range(2):
        x = leaf(1.0)
        made(x, Box(scale=2, weight=weft.tensor([3.0], dtype=weft.float64))).backward()
        assert x.grad.tolist() == [6.0]
    assert runs == [True, True]


def test_objects_made_and_shared(compiled: Any) -> None:
    class Sharing(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, box: Box) -> Tensor:
            ctx.made = box.made = Box(double=x * 2, names=["a"], counts=Counter("aab"))
            ctx.list = box.list = [x + 1]
            ctx.own = Box(x=x)
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Any:
            ctx.made.names.append("b")
            return grad * ctx.made.double + ctx.list[0] + ctx.own.x + ctx.made.counts["a"], None

    def run(function: Any) -> Any:
        box, x = Box(), leaf()
        y = function(x, box)
        node = y.grad_fn
        assert node.made is box.made and node.list is box.list and node.own.x is x
        box.list[0] = weft.tensor([100.0])
        y.sum().backward()
        return box.made.names, box.made.double.tolist(), box.made.double.requires_grad, x.grad.tolist()

    agree(compiled, lambda x, box: Sharing.apply(x, box), run)


def test_a_list_of_the_callers_that_grows_later(compiled: Any) -> None:
    class Holding(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, numbers: list[int]) -> Tensor:
            ctx.numbers = numbers
            return x * len(numbers)

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Any:
            return grad * sum(ctx.numbers), None

    def program(x: Tensor, given: list[int]) -> Any:
        mine = [1]
        y = Holding.apply(x, mine) + Holding.apply(x, given)
        mine.append(10)
        given.append(100)
        return y, mine

    def run(function: Any) -> Any:
        x, given = leaf(1.0), [2]
        y, mine = function(x, given)
        mine.append(1000)
        y.backward()
        return x.grad.tolist(), given

    agree(compiled, program, run)


def test_contexts_kept_by_others(compiled: Any) -> None:
    class Kept(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.factor = 2
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Any:
            return grad * ctx.factor

    node = compiled(lambda x: Kept.apply(x))(leaf()).grad_fn
    assert node.factor == 2 and node.name() == "KeptBackward" and node._forward_cls is Kept


def test_saved_for_forward_mode(compiled: Any) -> None:
    class Both(Function):
        @staticmethod
        def forward(x: Tensor, y: Tensor) -> Tensor:
            return x * y

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(*inputs)
            ctx.save_for_forward(*inputs)

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Any:
            x, y = ctx.saved_tensors
            return grad * y, grad * x

        @staticmethod
        def jvp(ctx: Any, dx: Tensor, dy: Tensor) -> Tensor:
            x, y = ctx.saved_tensors
            return dx * y + x * dy

        @staticmethod
        def vmap(info: Any, in_dims: Any, x: Tensor, y: Tensor) -> Any:
            return Both.apply(x, y), in_dims[0]

    check(lambda x, y: Both.apply(x, y), two, order=2)


# -- effects of backward -------------------------------------------------------------------------------------
class Noisy(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, box: Box) -> Tensor:
        LOG.append(("forward", x.shape[0]))
        box.forwards += 1
        ctx.box, ctx.number = box, box.forwards
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        LOG.append(("backward", ctx.number, grad.tolist()))
        ctx.box.backwards += 1
        ctx.box.last = grad
        return grad * ctx.box.backwards, None


def test_effects_of_backward_happen_when_it_runs(compiled: Any) -> None:
    def program(x: Tensor, box: Box) -> Tensor:
        return Noisy.apply(Noisy.apply(x, box).sin(), box).sum()

    def run(function: Any) -> Any:
        box, x = Box(forwards=0, backwards=0, last=None), leaf()
        loss = function(x, box)
        LOG.append("between")
        loss.backward(retain_graph=True)
        LOG.append("again")
        loss.backward()
        return box.forwards, box.backwards, box.last.tolist(), x.grad.tolist()

    # A tensor's elements are read in backward: eager only.
    made = compiled(program, fullgraph=False)
    for _ in range(2):
        LOG.clear()
        expected = run(program), list(LOG)
        LOG.clear()
        assert (run(made), list(LOG)) == expected


class Quiet(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, box: Box) -> Tensor:
        LOG.append(("forward", x.shape[0]))
        box.forwards += 1
        ctx.box, ctx.number = box, box.forwards
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        LOG.append(("backward", ctx.number, grad.shape))
        COUNTS["backward"] += 1
        ctx.box.backwards += 1
        ctx.box.last = grad
        return grad * ctx.box.backwards, None


COUNTS = {"backward": 0}


def test_effects_of_backward_without_a_break(compiled: Any) -> None:
    def program(x: Tensor, box: Box) -> Tensor:
        return Quiet.apply(Quiet.apply(x, box).sin(), box).sum()

    def run(function: Any) -> Any:
        COUNTS["backward"] = 0
        box, x = Box(forwards=0, backwards=0, last=None), leaf()
        loss = function(x, box)
        LOG.append("between")
        loss.backward(retain_graph=True)
        LOG.append("again")
        loss.backward()
        return box.forwards, box.backwards, box.last.tolist(), x.grad.tolist(), COUNTS["backward"]

    agree(compiled, program, run)


def test_a_buffer_written_by_backward(compiled: Any) -> None:
    class Tracking(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Any:
            BUFFER.add_(grad)
            return grad * BUFFER

    def run(function: Any) -> Any:
        BUFFER.copy_(weft.ones(3))
        x = leaf()
        function(x).sum().backward()
        return BUFFER.tolist(), x.grad.tolist()

    agree(compiled, lambda x: Tracking.apply(x), run)


def test_backwards_that_raise_are_raised_by_backward(compiled: Any) -> None:
    class Missing(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x * 2

    class Raising(Missing):
        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Any:
            raise ValueError("no gradient here")

    class Miscounting(Missing):
        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Any:
            return grad, grad

    class Both(Miscounting):
        vjp = Raising.backward

    for owner, error, words in (
        (Missing, NotImplementedError, "backward or vjp"),
        (Raising, ValueError, "no gradient here"),
        (Miscounting, RuntimeError, "incorrect number of gradients"),
        (Both, RuntimeError, "only implement one"),
    ):
        loss = compiled(lambda x, owner=owner: owner.apply(x))(leaf()).sum()
        with pytest.raises(error, match=words):
            loss.backward()


def test_a_vjp_in_place_of_backward(compiled: Any, runs: list[bool]) -> None:
    class Named(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def vjp(ctx: Any, grad: Tensor) -> Tensor:
            (x,) = ctx.saved_tensors
            return grad * x * 2

    x = leaf()
    compiled(lambda x: Named.apply(x))(x).sum().backward()
    assert x.grad.tolist() == [2.0, 4.0, 6.0] and runs == [True]


def test_a_backward_that_differentiates(compiled: Any, runs: list[bool]) -> None:
    """Checkpointing, as users write it."""

    class Again(Function):
        @staticmethod
        def forward(ctx: Any, function: Any, x: Tensor) -> Tensor:
            ctx.function = function
            ctx.save_for_backward(x)
            return function(x)

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Any:
            (x,) = ctx.saved_tensors
            with weft.enable_grad():
                again = x.detach().requires_grad_()
                result = ctx.function(again)
            weft.autograd.backward(result, grad)
            return None, again.grad

    def squares(x: Tensor) -> Tensor:
        return (x.sin() * x).exp()

    def run(function: Any) -> Any:
        x = leaf()
        (function(x) * 2).sum().backward()
        return x.grad.tolist()

    agree(compiled, lambda x: Again.apply(squares, x), run)


def test_a_parameter_of_a_module_read_by_backward(compiled: Any, runs: list[bool]) -> None:
    layer = weft.nn.Linear(3, 3, dtype=weft.float64)

    class Through(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x @ layer.weight.t()

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Any:
            return grad @ layer.weight

    def run(function: Any) -> Any:
        x = leaf()
        y = function(x)
        with weft.no_grad():
            layer.weight.add_(1)
        y.sum().backward()
        found = x.grad.tolist()
        with weft.no_grad():
            layer.weight.sub_(1)
        return found

    agree(compiled, lambda x: Through.apply(x), run)
    assert runs == [True, True]


# -- never dropped -------------------------------------------------------------------------------------------
def test_a_custom_backward_is_never_dropped(compiled: Any) -> None:
    class Reversed(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x.view_as(x)

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Tensor:
            return -grad

    def deep(x: Tensor) -> Tensor:
        y = Reversed.apply(x)
        z = Reversed.apply(y.view(3, 1))
        return (z * 2).reshape(3) + Reversed.apply(Doubled.apply(x))

    check(deep)
    check(lambda x: Reversed.apply(x.detach().requires_grad_(False) + x))
    check(lambda x: [Reversed.apply(row) for row in x.unbind()])

    def looped(x: Tensor) -> Tensor:
        for _ in range(3):
            x = Reversed.apply(x) + Reversed.apply(x) * x
        return x

    check(looped, order=2)


def test_second_order_through_saved_intermediates_is_right_or_loud(compiled: Any) -> None:
    class Loose(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            sine = x.sin()
            ctx.save_for_backward(sine)
            return sine * x

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Tensor:
            (sine,) = ctx.saved_tensors
            return grad * sine

    for function in (Loose.apply, compiled(lambda x: Loose.apply(x))):
        for _ in range(2):
            x = leaf()
            (grad,) = weft.autograd.grad(function(x).sum(), x, create_graph=True)
            with pytest.raises(RuntimeError, match="saved a tensor"):
                grad.sum().backward()


def test_the_same_tensor_in_several_places(compiled: Any) -> None:
    class Three(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, y: Tensor, pair: tuple[Tensor, Tensor]) -> Any:
            ctx.save_for_backward(x, y, x, pair[0])
            ctx.same = x is y, x is pair[0], pair[0] is pair[1]
            return x * y * pair[1], y

        @staticmethod
        def backward(ctx: Any, grad: Tensor, other: Tensor) -> Any:
            a, b, c, d = ctx.saved_tensors
            return grad * b * (2 if ctx.same[0] else 3), other * a * c + d, None

    check(lambda x: Three.apply(x, x, (x, x)))
    check(lambda x, y: Three.apply(x, y, (x, y)), two)
    check(lambda x, y: Three.apply(x, x, (y, y)), two)
    check(lambda x: Three.apply(x, x * 1, (x, x.detach())))


def test_a_function_on_the_results_of_another_with_effects(compiled: Any) -> None:
    class Tagging(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, box: Box) -> Any:
            box.seen = [*box.seen, x * 10]
            return x + box.seen[0].sum(), box.seen

        @staticmethod
        def backward(ctx: Any, grad: Tensor, _none: None) -> Any:
            return grad * 2, None

    def program(x: Tensor, box: Box) -> Any:
        y, _ = Tagging.apply(x, box)
        z, seen = Tagging.apply(y, box)
        return Cube.apply(z) + seen[1], len(seen)

    def run(function: Any) -> Any:
        x, box = leaf(), Box(seen=[])
        result, count = function(x, box)
        result.sum().backward()
        return result.tolist(), count, [tensor.tolist() for tensor in box.seen], x.grad.tolist()

    agree(compiled, program, run)


@pytest.mark.parametrize("inside", [False, True])
def test_entries_keep_no_objects_alive(compiled: Any, inside: bool) -> None:
    class Holding(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, box: Box) -> Tensor:
            ctx.box = box
            return x * box.scale

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Any:
            return grad * ctx.box.scale, None

    def program(x: Tensor, box: Box) -> Any:
        y = Holding.apply(x, box)
        if inside:
            y.sum().backward()
        return y.detach()

    made, box = compiled(program), Box(scale=2)
    alive = weakref.ref(box)
    for _ in range(2):
        made(leaf(), box)
    del box
    gc.collect()
    assert alive() is None


def test_what_nothing_depends_on_is_not_swept(compiled: Any) -> None:
    class Counted(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Tensor:
            LOG.append("backward")
            return grad * 2

    def program(x: Tensor) -> Tensor:
        unused = Counted.apply(x) + x  # noqa: F841
        return x * 3

    def run(function: Any) -> Any:
        x = leaf()
        function(x).sum().backward()
        return x.grad.tolist()

    agree(compiled, program, run)
