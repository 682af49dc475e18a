"""Custom Functions: styles, marks, outputs that are inputs or views, differentiating backward."""

from __future__ import annotations

import threading
import warnings
import weakref
from collections import namedtuple
from typing import Any

import pytest

import weft
from tests.autograd.functions import Exp, Mul, double, function, leaf, values
from weft.autograd import Function, grad
from weft.autograd.function import FunctionCtx, InplaceFunction, once_differentiable
from weft.core.seams import seams


class Cube(Function):
    @staticmethod
    def forward(x):
        return x**3

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return 3 * x**2 * gradient


# -- styles ------------------------------------------------------------------
def test_forward_with_context():
    x, y = leaf(), leaf(4, 5, 6)
    z = Mul.apply(x, y)
    assert values(z) == [4, 10, 18]
    z.sum().backward()
    assert values(x.grad) == [4, 5, 6]
    assert values(y.grad) == [1, 2, 3]


def test_setup_context():
    x = leaf()
    assert values(grad(Cube.apply(x).sum(), x)[0]) == [3, 12, 27]


def test_setup_context_sees_inputs_with_defaults_and_the_raw_output():
    seen = []
    Foo = function(
        lambda a, alpha=0.5: a * alpha,
        lambda ctx, g: (seen.append(ctx.needs_input_grad), (g * 7, None))[1],
        setup_context=staticmethod(
            lambda ctx, inputs, output: seen.append((inputs[0] is x, inputs[1], output.requires_grad))
        ),
    )
    x = leaf()
    assert values(grad(Foo.apply(x).sum(), x)[0]) == [7, 7, 7]
    assert seen == [(True, 0.5, False), (True, False)]
    with pytest.raises(TypeError, match="missing a required argument: 'a'"):
        Foo.apply()


def test_class_methods():
    class Shake(Function):
        @classmethod
        def forward(cls, ctx, x):
            assert cls is Shake
            return x + x

        @classmethod
        def backward(cls, ctx, gradient):
            assert cls is Shake
            return gradient * 5

    x = leaf()
    assert values(grad(Shake.apply(x).sum(), x)[0]) == [5, 5, 5]


def test_apply_on_an_instance_warns_and_works():
    with pytest.warns(DeprecationWarning, match="should not be instantiated"):
        instance = Mul()
    assert values(instance.apply(leaf(), leaf())) == [1, 4, 9]
    with pytest.raises(
        RuntimeError, match="Legacy autograd function with non-static forward method is deprecated"
    ):
        instance(leaf())


def test_subclasses_inherit_and_have_their_own_name():
    class Other(Mul):
        pass

    assert Other.apply(leaf(), leaf()).grad_fn.name() == "OtherBackward"
    assert Mul.apply(leaf(), leaf()).grad_fn.name() == "MulBackward"


def test_vjp_is_another_name_of_backward():
    x = leaf()
    Foo = function(double, vjp=staticmethod(lambda ctx, g: g * 7))
    assert values(grad(Foo.apply(x).sum(), x)[0]) == [7, 7, 7]
    Both = function(double, lambda ctx, g: g, vjp=staticmethod(lambda ctx, g: g))
    with pytest.raises(RuntimeError, match="Implementing both 'backward' and 'vjp'"):
        Both.apply(x).sum().backward()


def test_what_is_missing_is_said():
    with pytest.raises(NotImplementedError, match="You must implement the forward function"):
        type("Empty", (Function,), {}).apply(leaf())
    with pytest.raises(NotImplementedError, match="You must implement either the backward or vjp method"):
        function(double).apply(leaf()).sum().backward()


# -- arguments ------------------------------------------------------------------
def test_keyword_and_default_arguments():
    Foo = function(lambda ctx, a, b=2: a * b, lambda ctx, g: g * 3)
    x, y = leaf(), leaf()
    assert values(Foo.apply(x)) == [2, 4, 6]
    assert values(Foo.apply(a=x, b=5)) == [5, 10, 15]
    assert values(grad(Foo.apply(a=x).sum(), x)[0]) == [3, 3, 3]
    with pytest.raises(RuntimeError, match=r"incorrect number of gradients \(expected 2, got 1\)"):
        Foo.apply(x, b=y).sum().backward()
    with pytest.raises(TypeError, match=r"forward\(\) got an unexpected keyword argument 'q'"):
        Foo.apply(x, q=5)
    with pytest.raises(TypeError, match=r"forward\(\) got multiple values for argument 'a'"):
        Foo.apply(x, a=5)
    with pytest.raises(TypeError, match=r"forward\(\) missing required argument: 'a' \(position 0\)"):
        Foo.apply(b=y)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'a'"):
        Foo.apply()


def test_arguments_of_any_kind():
    class Anything:
        scale = 3.0

    Foo = function(
        lambda ctx, x, thing, words, numbers: x * thing.scale * len(words) * sum(numbers),
        lambda ctx, g: (g * 2, None, None, None),
    )
    x = leaf()
    z = Foo.apply(x, Anything(), {"a": x}, [1, 2])
    assert values(z) == [9, 18, 27]
    assert values(grad(z.sum(), x)[0]) == [2, 2, 2]


def test_needs_input_grad():
    seen = []
    Foo = function(
        lambda ctx, a, b, k: (seen.append(ctx.needs_input_grad), a * b)[1],
        lambda ctx, g: (seen.append(ctx.needs_input_grad), (g, g, None))[1],
    )
    Foo.apply(leaf(), weft.ones(3), 3).sum().backward()
    assert seen == [(True, False, False), (True, False, False)]
    with weft.no_grad():
        Foo.apply(leaf(), weft.ones(3, dtype=weft.int64), 3)
    assert seen[-1] == (True, False, False)


def test_one_tensor_twice():
    x = leaf()
    assert values(grad(Mul.apply(x, x).sum(), x)[0]) == [2, 4, 6]


def test_forward_runs_without_recording_on_the_very_arguments():
    x = leaf()
    seen = []
    Foo = function(
        lambda ctx, a: (seen.append((a is x, weft.is_grad_enabled(), (a * 2).requires_grad)), a * 2)[1],
        lambda ctx, g: (seen.append((weft.is_grad_enabled(), g.requires_grad)), g)[1],
    )
    for _ in range(2):  # the first call of a Function is watched: nothing of that may show
        z = Foo.apply(x)
        grad(z.sum(), x, retain_graph=True)
        grad(z.sum(), x, create_graph=True)
    assert seen == [(True, False, False), (False, False), (True, False)] * 2
    assert weft.is_grad_enabled()


def test_errors_in_forward_leave_the_mode_as_it_was():
    Foo = function(lambda ctx, a: 1 // 0)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            Foo.apply(leaf())
        assert weft.is_grad_enabled()


# -- outputs ------------------------------------------------------------------
def test_several_outputs_and_missing_gradients():
    seen = []

    def backward(ctx, *gradients):
        seen.append([None if g is None else (g.dtype, values(g)) for g in gradients])
        return gradients[0] * 2

    x = leaf()
    outputs = lambda ctx, a: (a * 2, a.double(), a.long(), None, "word")
    first, second, third, nothing, word = function(outputs, backward).apply(x)
    assert (nothing, word) == (None, "word")
    assert (first.output_nr, second.output_nr, third.requires_grad) == (0, 1, False)
    grad(first.sum(), x)
    assert seen == [
        [(weft.float32, [1, 1, 1]), (weft.float64, [0, 0, 0]), (weft.int64, [0, 0, 0]), None, None]
    ]


def test_gradients_need_not_be_materialised():
    seen = []

    def forward(ctx, a):
        ctx.set_materialize_grads(False)
        return a * 2, a * 3

    x = leaf()
    z = function(forward, lambda ctx, g, h: (seen.append((g is None, h is None)), h)[1]).apply(x)
    z[1].sum().backward()
    assert seen == [(True, False)]
    assert values(x.grad) == [1, 1, 1]


def test_backward_runs_even_where_no_gradient_came():
    seen = []
    x = leaf()
    inner = function(double, lambda ctx, g: (seen.append(values(g)), g)[1]).apply(x)
    outer = function(double, lambda ctx, g: None).apply(inner)
    assert values(grad(outer.sum(), x, allow_unused=True)[0]) == [0, 0, 0]
    assert seen == [[0, 0, 0]]


@pytest.mark.parametrize(
    "output", [None, "word", 3, {"a": 1}, ()], ids=["none", "string", "int", "dict", "empty tuple"]
)
def test_outputs_that_are_no_tensors(output):
    assert function(lambda ctx, a: output).apply(leaf()) == output


def test_containers_of_tensors_are_not_looked_into():
    result = function(lambda ctx, a: [a * 2]).apply(leaf())
    assert isinstance(result, list)
    assert not result[0].requires_grad
    Pair = namedtuple("Pair", "a b")
    result = function(lambda ctx, a: Pair(a * 2, a * 3), lambda ctx, g, h: g).apply(leaf())
    assert type(result) is tuple
    assert result[1].grad_fn.name() == "FooBackward"


def test_one_output_twice():
    x = leaf()
    seen = []

    def forward(ctx, a):
        result = a * 2
        return result, result

    first, second = function(
        forward, lambda ctx, g, h: (seen.append((values(g), values(h))), g + h)[1]
    ).apply(x)
    assert first is second
    assert values(grad((first + 2 * second).sum(), x)[0]) == [3, 3, 3]
    assert seen == [([0, 0, 0], [3, 3, 3])]


def test_outputs_without_gradient():
    seen = []

    def forward(ctx, a):
        ordered, places = a.sort()
        floats = places.float()
        ctx.mark_non_differentiable(places, floats)
        return ordered, places, floats

    x = leaf(3, 1, 2)
    ordered, places, floats = function(forward, lambda ctx, g, h, k: (seen.append(values(k)), g)[1]).apply(x)
    assert (ordered.requires_grad, places.requires_grad, floats.requires_grad) == (True, False, False)
    ordered.sum().backward()
    assert seen == [[0, 0, 0]]


def test_an_input_without_gradient():
    x = leaf()
    z = function(lambda ctx, a: (ctx.mark_non_differentiable(a), a)[1], lambda ctx, g: g).apply(x)
    assert not z.requires_grad
    assert x.requires_grad
    with pytest.raises(RuntimeError, match="mark_non_differentiable only accepts variable arguments"):
        function(lambda ctx, a: (ctx.mark_non_differentiable(3), a)[1], lambda ctx, g: g).apply(x)


# -- outputs that are inputs ------------------------------------------------------------------
IDENTITY = function(lambda ctx, a: a, lambda ctx, g: g * 10)
CUT = function(lambda ctx, a: a[:2], lambda ctx, g: weft.cat([g, g.new_zeros(1)]) * 5)
CUSTOM = "This view was created inside a custom Function"


def test_an_input_returned_as_it_is():
    x = leaf()
    z = IDENTITY.apply(x)
    assert z is not x
    assert z._base is x
    assert z.data_ptr() == x.data_ptr()
    assert values(grad(z.sum(), x)[0]) == [10, 10, 10]
    constant = weft.ones(3)
    assert IDENTITY.apply(constant) is not constant
    with weft.no_grad():
        assert not IDENTITY.apply(x).requires_grad


@pytest.mark.parametrize("make", [IDENTITY, CUT], ids=["input", "view"])
def test_writing_to_a_returned_input_or_view(make):
    z = make.apply(leaf() * 1)
    with pytest.raises(
        RuntimeError, match=f"Output 0 of Foo is a view and is being modified inplace. {CUSTOM}"
    ):
        z.add_(1)
    base = leaf() * 1
    z = make.apply(base)
    base.add_(1)
    text = f"its base or another view of its base has been modified inplace. {CUSTOM}"
    with pytest.raises(RuntimeError, match=text):
        z.grad_fn


def test_writing_to_one_of_several_views():
    parts = function(lambda ctx, a: (a[:2], a[2:]), lambda ctx, g, h: weft.cat([g, h])).apply(leaf() * 1)
    with pytest.raises(
        RuntimeError, match="This view is the output of a function that returns multiple views"
    ):
        parts[0].add_(1)


def test_views_of_new_tensors_count_as_views():
    z = function(lambda ctx, a: (a * 2).view(-1), lambda ctx, g: g).apply(leaf())
    with pytest.raises(RuntimeError, match=CUSTOM):
        z.add_(1)


def test_a_returned_view():
    x = leaf()
    z = CUT.apply(x)
    assert z._base is x
    assert values(grad(z.sum(), x)[0]) == [5, 5, 0]
    constant = weft.ones(3)
    CUT.apply(constant).add_(1)
    assert values(constant) == [2, 2, 1]


def test_new_outputs_may_be_written_to():
    x = leaf()
    for output in (lambda ctx, a: a * 2, lambda ctx, a: a.detach()):
        z = function(output, lambda ctx, g: g * 3).apply(x * 1)
        z.add_(1)
        assert values(grad(z.sum(), x)[0]) == [3, 3, 3]
    first, second = function(lambda ctx, a: (a * 2, a * 3), lambda ctx, g, h: g * 2 + h * 3).apply(x)
    first.add_(1)
    assert values(grad((first * second).sum(), x)[0]) == [15, 27, 39]


def test_recording_inside_forward_is_replaced():
    def forward(ctx, a):
        with weft.enable_grad():
            return a * 2

    x = leaf()
    z = function(forward, lambda ctx, g: g * 3).apply(x)
    assert z.grad_fn.name() == "FooBackward"
    assert values(grad(z.sum(), x)[0]) == [3, 3, 3]


# -- inputs that are written to ------------------------------------------------------------------
TWICE = function(lambda ctx, a: (ctx.mark_dirty(a), a.mul_(2))[1], lambda ctx, g: g * 2)


def test_dirty_inputs():
    x = leaf()
    y = x * 1
    z = TWICE.apply(y)
    assert z is y
    assert (y.grad_fn.name(), y._version) == ("FooBackward", 2)
    assert values(grad(y.sum(), x)[0]) == [2, 2, 2]
    plain = weft.ones(3)
    assert TWICE.apply(plain) is plain
    assert (plain.requires_grad, values(plain)) == (False, [2, 2, 2])


def test_dirty_inputs_that_had_no_gradient():
    x, y = leaf(), weft.ones(3)
    Add = function(lambda ctx, a, b: (ctx.mark_dirty(a), a.add_(b))[1], lambda ctx, g: (g, g))
    assert Add.apply(y, x) is y
    assert values(grad(y.sum(), x)[0]) == [1, 1, 1]


def test_dirty_views_change_their_base():
    x = leaf()
    y = x * 1
    z = TWICE.apply(y[:2])
    assert values(y) == [2, 4, 3]
    assert values(grad(y.sum(), x)[0]) == [2, 2, 1]
    assert z._base is y
    base, part = weft.ones(3), leaf(5, 6)
    Add = function(lambda ctx, a, b: (ctx.mark_dirty(a), a.add_(b))[1], lambda ctx, g: (g, g))
    Add.apply(base[:2], part)
    assert values(grad(base.sum(), part)[0]) == [1, 1]


def test_a_dirty_input_may_be_saved():
    class ExpInPlace(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            ctx.save_for_backward(x)
            return x.exp_()

        @staticmethod
        def backward(ctx, gradient):
            return gradient * ctx.saved_tensors[0]

    x = weft.tensor([0.0, 1.0], requires_grad=True)
    y = x * 1
    z = ExpInPlace.apply(y)
    (first,) = grad(z.sum(), x, create_graph=True)
    assert values(first) == pytest.approx([1.0, 2.718281828])
    assert values(grad(first.sum(), x)[0]) == pytest.approx([1.0, 2.718281828])


def test_dirty_inputs_that_must_not_be():
    with pytest.raises(
        RuntimeError, match="a leaf Variable that requires grad has been used in an in-place operation"
    ):
        TWICE.apply(leaf())
    with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad is being used"):
        TWICE.apply(leaf()[:2])
    with pytest.raises(
        RuntimeError, match="Some elements marked as dirty during the forward method were not returned"
    ):
        function(lambda ctx, a: (ctx.mark_dirty(a), a * 2)[1], lambda ctx, g: g).apply(leaf() * 1)
    with pytest.raises(RuntimeError, match="mark_dirty can only accept variables"):
        function(lambda ctx, a: (ctx.mark_dirty(3), a * 2)[1], lambda ctx, g: g).apply(leaf() * 1)
    Two = function(lambda ctx, a: (ctx.mark_dirty(a), (a.mul_(2), a.sum()))[1], lambda ctx, g, h: g)
    with pytest.raises(RuntimeError, match="cannot return more than one Tensor"):
        Two.apply((leaf() * 1)[:2])


# -- differentiating backward ------------------------------------------------------------------
def test_backward_can_be_differentiated_to_any_order():
    x = weft.tensor([2.0], dtype=weft.float64, requires_grad=True)
    y = Cube.apply(x) + Exp.apply(x)
    expected = [12, 12, 6, 0]
    for polynomial in expected:
        (y,) = grad(y.sum(), x, create_graph=True)
        assert y.item() == pytest.approx(polynomial + 7.38905609893065)


def test_second_order_by_finite_differences():
    x = weft.tensor([0.3, 0.7], dtype=weft.float64, requires_grad=True)
    y = weft.tensor([1.3, -0.4], dtype=weft.float64, requires_grad=True)
    assert weft.autograd.gradcheck(lambda a, b: Mul.apply(Exp.apply(a), Cube.apply(b)), (x, y))
    assert weft.autograd.gradgradcheck(lambda a, b: Mul.apply(Exp.apply(a), Cube.apply(b)), (x, y))


def test_once_differentiable():
    seen = []

    @once_differentiable
    def backward(ctx, gradient):
        seen.append(weft.is_grad_enabled())
        return gradient * 2

    x = leaf()
    Foo = function(double, backward)
    assert values(grad(Foo.apply(x).sum(), x)[0]) == [2, 2, 2]
    (first,) = grad((Foo.apply(x) ** 2).sum(), x, create_graph=True)
    assert seen == [False, False]
    assert first.requires_grad
    text = "trying to differentiate twice a function that was marked with @once_differentiable"
    with pytest.raises(RuntimeError, match=text):
        first.sum().backward(retain_graph=True)
    with pytest.raises(RuntimeError, match=text):
        grad(first.sum(), x)
    (first,) = grad(Foo.apply(x).sum(), x, create_graph=True)
    assert not first.requires_grad


def test_once_differentiable_with_none():
    Foo = function(lambda ctx, a, b: a * b, once_differentiable(lambda ctx, g: (g * 2, None)))
    x, y = leaf(), leaf()
    first, second = grad((Foo.apply(x, y) ** 2).sum(), (x, y), create_graph=True, allow_unused=True)
    assert second is None
    with pytest.raises(RuntimeError, match="trying to differentiate twice"):
        first.sum().backward()


# -- surroundings ------------------------------------------------------------------
def test_without_gradients_nothing_is_recorded():
    for context in (weft.no_grad, weft.inference_mode):
        with context():
            z = Mul.apply(leaf(), leaf())
        assert not z.requires_grad
        assert z.grad_fn is None
    assert z.is_inference()


def test_subclasses_of_tensor():
    class Marked(weft.Tensor):
        pass

    x = leaf().as_subclass(Marked)
    seen = []
    z = function(lambda ctx, a: (seen.append(type(a)), a * 2)[1], lambda ctx, g: g * 4).apply(x)
    assert seen == [Marked]
    assert type(z) is Marked
    assert values(z.grad_fn(weft.ones(3))) == [4, 4, 4]


def test_threads():
    failures = []

    def work():
        try:
            for _ in range(50):
                x = leaf()
                Mul.apply(Exp.apply(x), x).sum().backward()
                expected = (x.detach().exp() * (x.detach() + 1)).tolist()
                assert values(x.grad) == pytest.approx(expected)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_backward_inside_backward():
    """Each level of nesting runs in the same thread, without running out of stack."""

    class Nested(Function):
        @staticmethod
        def forward(ctx, x, depth):
            ctx.depth = depth
            ctx.save_for_backward(x)
            return x * 1

        @staticmethod
        def backward(ctx, gradient):
            with weft.enable_grad():
                x = ctx.saved_tensors[0].detach().requires_grad_()
                inner = Nested.apply(x, ctx.depth - 1) if ctx.depth else x * 1
                inner.sum().backward()
            return gradient * x.grad, None

    x = leaf()
    Nested.apply(x, 60).sum().backward()
    assert values(x.grad) == [1, 1, 1]


def test_long_chains():
    x = leaf()
    z = x
    for _ in range(20_000):
        z = CHAIN.apply(z)
    z.sum().backward()
    assert values(x.grad) == [1, 1, 1]
    del z


CHAIN = function(lambda ctx, a: a + 1, lambda ctx, g: g)


def test_calls_pass_through_the_seam(monkeypatch):
    """What a compiler puts in place of forward and backward is what runs."""
    called = []

    def compiled(inner):
        def run(*args):
            called.append(inner.__qualname__.rpartition(".")[2])
            return inner(*args)

        return run

    monkeypatch.setattr(seams, "callee", compiled)
    x = leaf()
    Mul.apply(x, x).sum().backward()
    Cube.apply(x).sum().backward()
    assert called == ["forward", "backward", "forward", "backward"]


def test_old_names():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        assert InplaceFunction(inplace=True).inplace
    with pytest.warns(FutureWarning, match="mark_shared_storage"):
        FunctionCtx().mark_shared_storage()
    with pytest.raises(AssertionError, match="save_for_forward expects all arguments to be tensors"):
        FunctionCtx().save_for_forward(3)


# -- overwritten inputs that get no history ------------------------------------------------------------------
class Tripled(Function):
    """In place; `flat` says that no gradient passes."""

    @staticmethod
    def forward(ctx, x, flat=False):
        ctx.mark_dirty(x)
        if flat:
            ctx.mark_non_differentiable(x)
        return x.mul_(3)

    @staticmethod
    def backward(ctx, g):
        return g * 3, None


def test_overwritten_in_no_grad_mode_comes_back_detached():
    leaf = weft.ones(2, requires_grad=True)
    with weft.no_grad():
        out = Tripled.apply(leaf)
    assert out is not leaf and not out.requires_grad and out.is_leaf
    out.add_(1)  # shares memory and versions with the leaf
    assert leaf.tolist() == [4, 4] and leaf.requires_grad and out._version == leaf._version == 3
    inner = leaf * 2
    with weft.no_grad():
        out = Tripled.apply(inner)
    assert not out.requires_grad and inner.grad_fn.name() == "MulBackward0"
    plain = weft.ones(2)
    assert Tripled.apply(plain) is plain


def test_overwritten_without_gradient_comes_back_detached():
    inner = weft.ones(2, requires_grad=True) * 2
    out = Tripled.apply(inner, True)
    assert out is not inner and not out.requires_grad and out.data_ptr() == inner.data_ptr()
    assert inner.requires_grad and inner.tolist() == [6, 6]


# -- backwards that drop what they have read -----------------------------------------------------------------
def test_gradients_in_one_list() -> None:
    class Boxed(Function):
        boxed_grads_call = True

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2, x * 3

        @staticmethod
        def backward(ctx: Any, grads: Any) -> Any:
            assert type(grads) is list
            first, second = grads
            kept = weakref.ref(first)
            total = first * 2 + second * 3
            grads.clear()
            del first, second
            alive.append(kept() is not None)
            return total

    alive: list[bool] = []
    x = weft.ones(3, requires_grad=True)
    first, second = Boxed.apply(x)
    (first + second).sum().backward(retain_graph=True)
    assert x.grad.tolist() == [5.0] * 3 and alive == [False]
    assert first.grad_fn.apply(weft.ones(3), weft.ones(3)).tolist() == [5.0] * 3
    (again,) = weft.autograd.grad((first * x).sum(), x, create_graph=True)
    assert again.tolist() == [4.0] * 3
    with pytest.raises(Exception, match="drop what it has read"):
        weft.compile(lambda x: Boxed.apply(x)[0], fullgraph=True)(x)


def test_saved_tensors_that_are_read_once() -> None:
    class Once(Function):
        clear_saved_tensors_on_access = True

        @staticmethod
        def forward(ctx: Any, x: Any, twice: bool) -> Any:
            ctx.twice = twice
            ctx.save_for_backward(x)
            return x.clone()

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            (x,) = ctx.saved_tensors
            kept = weakref.ref(x)
            del x
            assert kept() is None
            if ctx.twice:
                ctx.saved_tensors
            return gradient, None

    x = weft.ones(3, requires_grad=True)
    Once.apply(x.clone(), False).sum().backward()
    assert x.grad.tolist() == [1.0] * 3
    with pytest.raises(RuntimeError, match="can only be accessed once"):
        Once.apply(x.clone(), True).sum().backward()
