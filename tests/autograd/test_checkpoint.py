"""Checkpoints: what is forgotten, what is computed again and how often, what must be the same."""

from __future__ import annotations

import contextlib
import gc
import weakref

import pytest

import weft
from weft.autograd import Function, grad
from weft.utils.checkpoint import (
    CheckpointError,
    checkpoint,
    checkpoint_sequential,
    detach_variable,
    noop_context_fn,
    set_checkpoint_debug_enabled,
    set_checkpoint_early_stop,
)

BOTH = pytest.mark.parametrize("use_reentrant", [True, False])


def leaf() -> weft.Tensor:
    return weft.tensor([1.0, 2.0, 3.0], requires_grad=True)


def values(tensor: weft.Tensor) -> list[float]:
    return tensor.detach().tolist()


class Counted:
    """A function that counts its calls."""

    def __init__(self, function):
        self.function, self.calls = function, 0

    def __call__(self, *args, **kwargs):
        self.calls += 1
        return self.function(*args, **kwargs)


def gradient(function, *args, **options) -> list[float]:
    x = leaf()
    function(x, *args, **options).sum().backward()
    return values(x.grad)


def chain(x):
    return (x.exp().sin() * x).tanh()


# -- the same gradients ------------------------------------------------------------
@BOTH
def test_gradients_are_the_same(use_reentrant):
    counted = Counted(chain)
    assert gradient(lambda x: checkpoint(counted, x, use_reentrant=use_reentrant)) == gradient(chain)
    assert counted.calls == 2


@BOTH
def test_parameters_that_are_no_arguments_get_gradients(use_reentrant):
    weight = leaf()
    x = leaf()
    checkpoint(lambda a: (a * weight).exp(), x, use_reentrant=use_reentrant).sum().backward()
    expected = (x.detach() ** 2).exp() * x.detach()
    assert values(weight.grad) == pytest.approx(values(expected))


@BOTH
def test_arguments_and_outputs_of_any_kind(use_reentrant):
    def function(x, scale, options):
        assert options == {"a": 1}
        return x.exp() * scale, "word", None

    x = leaf()
    y, word, nothing = checkpoint(function, x, 3, {"a": 1}, use_reentrant=use_reentrant)
    assert (word, nothing) == ("word", None)
    y.sum().backward()
    assert values(x.grad) == pytest.approx(values(x.exp() * 3))


def test_keyword_arguments():
    x = leaf()
    y = checkpoint(lambda a, *, k=1: (a * k).exp(), x, k=2.0, use_reentrant=False)
    assert values(grad(y.sum(), x)[0]) == pytest.approx(values((x * 2).exp() * 2))


@BOTH
def test_random_numbers_are_drawn_alike(use_reentrant):
    weft.manual_seed(3)
    x = leaf()
    masks = []

    def drop(a):
        masks.append(weft.rand(3))
        return (a * masks[-1]).exp()

    y = checkpoint(drop, x, use_reentrant=use_reentrant)
    between = weft.rand(3)
    before = weft.get_rng_state()
    y.sum().backward()
    assert values(masks[0]) == values(masks[1])
    assert values(masks[0]) != values(between)
    assert values(before) == values(weft.get_rng_state())


@BOTH
def test_random_numbers_can_be_left_alone(use_reentrant):
    weft.manual_seed(3)
    masks = []

    def drop(a):
        masks.append(weft.rand(3))
        return (a * masks[-1]).exp()

    gradient(lambda x: checkpoint(drop, x, use_reentrant=use_reentrant, preserve_rng_state=False))
    assert values(masks[0]) != values(masks[1])


def test_double_backward():
    x = leaf()

    def second(function):
        (first,) = grad(function(x).sum(), x, create_graph=True)
        return values(grad(first.sum(), x)[0])

    assert second(lambda a: checkpoint(chain, a, use_reentrant=False)) == pytest.approx(second(chain))


def test_custom_functions_inside():
    runs = []

    class Exp(Function):
        @staticmethod
        def forward(ctx, x):
            runs.append("forward")
            result = x.exp()
            ctx.save_for_backward(result)
            return result

        @staticmethod
        def backward(ctx, gradient):
            runs.append("backward")
            return gradient * ctx.saved_tensors[0]

    expected = gradient(lambda x: x.exp().sin())
    assert gradient(lambda x: checkpoint(lambda a: Exp.apply(a).sin(), x, use_reentrant=False)) == expected
    assert runs == ["forward", "forward", "backward"]


def test_in_place_ops_inside():
    def function(x):
        y = x * 2
        y.exp_()
        return y * x

    assert gradient(lambda x: checkpoint(function, x, use_reentrant=False)) == gradient(function)


# -- nothing is kept ------------------------------------------------------------
@BOTH
def test_nothing_of_the_inside_is_kept(use_reentrant):
    inside = []

    def function(x):
        y = x.exp()
        inside.append(weakref.ref(y.array))
        return y.sin()

    y = checkpoint(function, leaf(), use_reentrant=use_reentrant)
    gc.collect()
    assert inside[0]() is None
    y.sum().backward()
    assert len(inside) == 2
    gc.collect()
    assert inside[1]() is None


def test_nested_checkpoints_keep_nothing_either():
    inside = []

    def inner(x):
        y = x.exp()
        inside.append(weakref.ref(y.array))
        return y.sin()

    def outer(x):
        y = x.cos()
        inside.append(weakref.ref(y.array))
        return checkpoint(inner, y, use_reentrant=False).tanh()

    y = checkpoint(outer, leaf(), use_reentrant=False)
    gc.collect()
    assert [reference() for reference in inside] == [None, None]
    y.sum().backward()


@pytest.mark.parametrize("outer_reentrant", [True, False])
@pytest.mark.parametrize("inner_reentrant", [True, False])
def test_nested_checkpoints(outer_reentrant, inner_reentrant):
    inner = Counted(lambda x: x.exp().sin())
    outer = Counted(lambda x: checkpoint(inner, x.cos(), use_reentrant=inner_reentrant).tanh())
    found = gradient(lambda x: checkpoint(outer, x, use_reentrant=outer_reentrant))
    assert found == pytest.approx(gradient(lambda x: x.cos().exp().sin().tanh()))
    assert outer.calls == 2


def test_three_levels():
    def deep(x, level):
        y = (x * 1.1).sin().exp()
        return y if level == 0 else checkpoint(deep, y, level - 1, use_reentrant=False).cos()

    def plain(x, level):
        y = (x * 1.1).sin().exp()
        return y if level == 0 else plain(y, level - 1).cos()

    assert gradient(lambda x: deep(x, 3)) == pytest.approx(gradient(lambda x: plain(x, 3)))


# -- how often ------------------------------------------------------------
def test_recomputation_stops_early():
    log = []

    def function(x):
        y = x.exp()
        log.append("one")
        z = y.sin()
        log.append("two")
        return z * 2

    gradient(lambda x: checkpoint(function, x, use_reentrant=False))
    assert log == ["one", "two", "one"]
    for options in ({"early_stop": False}, {}):
        log.clear()
        with contextlib.nullcontext() if options else set_checkpoint_early_stop(False):
            gradient(lambda x, options=options: checkpoint(function, x, use_reentrant=False, **options))
        assert log == ["one", "two", "one", "two"]


def test_once_per_backward():
    counted = Counted(chain)
    y = checkpoint(counted, leaf(), use_reentrant=False)
    y.sum().backward(retain_graph=True)
    assert counted.calls == 2
    y.sum().backward()
    assert counted.calls == 3
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        y.sum().backward()


def test_never_where_nothing_is_recorded():
    counted = Counted(chain)
    with weft.no_grad():
        y = checkpoint(counted, leaf(), use_reentrant=False)
    assert not y.requires_grad
    assert counted.calls == 1


def test_saved_tensors_can_be_looked_at():
    y = checkpoint(lambda x: x.exp(), leaf(), use_reentrant=False)
    assert values(y.grad_fn._saved_result) == values(y)
    assert values(y.grad_fn._saved_result) == values(y)


# -- doing the same again ------------------------------------------------------------
def alternating(first, second):
    calls = []

    def function(x):
        calls.append(1)
        return (first if len(calls) % 2 else second)(x)

    return function


def test_fewer_tensors():
    function = alternating(lambda x: x.exp().exp(), lambda x: x.exp())
    with pytest.raises(CheckpointError, match="A different number of tensors was saved") as caught:
        gradient(lambda x: checkpoint(function, x, use_reentrant=False))
    assert "saved during forward: 2\nNumber of tensors saved during recomputation: 1" in str(caught.value)


def test_more_tensors():
    function = alternating(lambda x: x.exp(), lambda x: x.exp().exp())
    with pytest.raises(CheckpointError, match="trying to save more tensors during recomputation"):
        gradient(lambda x: checkpoint(function, x, use_reentrant=False, early_stop=False))


def test_other_tensors():
    function = alternating(lambda x: x.exp(), lambda x: x[:2].exp())
    with pytest.raises(
        CheckpointError, match="have different metadata than during the forward pass"
    ) as caught:
        gradient(lambda x: checkpoint(function, x, use_reentrant=False))
    assert "tensor at position 0" in str(caught.value)
    assert "weft.Size([2])" in str(caught.value)
    other = alternating(lambda x: x.exp(), lambda x: (x.double()).exp())
    with pytest.raises(CheckpointError, match="weft.float64"):
        gradient(lambda x: checkpoint(other, x, use_reentrant=False))


def test_the_check_can_be_left_out():
    function = alternating(lambda x: x.exp(), lambda x: x[:1].exp())
    found = gradient(lambda x: checkpoint(function, x, use_reentrant=False, determinism_check="none"))
    assert found == pytest.approx([2.718281828] * 3)
    with pytest.raises(ValueError, match="determinism_check should be one of"):
        checkpoint(chain, leaf(), use_reentrant=False, determinism_check="strict")


@pytest.mark.parametrize("globally", [True, False])
def test_debug_tells_what_ran(globally):
    function = alternating(lambda x: x.exp(), lambda x: x[:2].exp())
    everywhere = set_checkpoint_debug_enabled(True if globally else None)
    with everywhere, pytest.raises(CheckpointError) as caught:
        gradient(lambda x: checkpoint(function, x, use_reentrant=False, debug=not globally))
    first, second = str(caught.value).split("Operations executed during recomputation:")
    assert "weft.exp -> weft.float32 [3]" in first
    assert "test_checkpoint.py" in first
    assert "__getitem__ -> weft.float32 [2]" in second


def test_errors_in_recomputation_are_the_users():
    function = alternating(lambda x: x.exp(), lambda x: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        gradient(lambda x: checkpoint(function, x, use_reentrant=False))


# -- contexts ------------------------------------------------------------
def test_contexts_of_both_runs():
    log = []

    @contextlib.contextmanager
    def noted(name):
        log.append(f"enter {name}")
        try:
            yield
        finally:
            log.append(f"leave {name}")

    def function(x):
        log.append("run")
        return x.exp()

    options = {"context_fn": lambda: (noted("forward"), noted("again")), "use_reentrant": False}
    gradient(lambda x: checkpoint(function, x, **options))
    assert log == ["enter forward", "run", "leave forward", "enter again", "run", "leave again"]
    assert gradient(
        lambda x: checkpoint(chain, x, use_reentrant=False, context_fn=noop_context_fn)
    ) == gradient(chain)


# -- the older way ------------------------------------------------------------
def test_reentrant_checkpoints_refuse_what_they_cannot():
    with pytest.raises(RuntimeError, match=r"incompatible with .grad\(\) or passing an `inputs` parameter"):
        x = leaf()
        grad(checkpoint(chain, x, use_reentrant=True).sum(), x)
    with pytest.raises(RuntimeError, match="incompatible with"):
        checkpoint(chain, x, use_reentrant=True).sum().backward(inputs=[x])
    with pytest.raises(ValueError, match="Unexpected keyword arguments: foo"):
        checkpoint(chain, x, use_reentrant=True, foo=3)
    with pytest.raises(ValueError, match="only supported when use_reentrant=False"):
        checkpoint(chain, x, use_reentrant=True, debug=True)
    with pytest.raises(RuntimeError, match="none of output has requires_grad=True"):
        checkpoint(lambda a: a.detach(), x, use_reentrant=True).sum().backward()
    with pytest.warns(UserWarning, match="None of the inputs have requires_grad=True"):
        checkpoint(chain, weft.ones(3), use_reentrant=True)


def test_the_way_should_be_said():
    with pytest.warns(UserWarning, match="the use_reentrant parameter should be passed explicitly"):
        y = checkpoint(chain, leaf())
    assert y.grad_fn.name() == "CheckpointFunctionBackward"
    with pytest.warns(UserWarning, match="the use_reentrant parameter should be passed explicitly"):
        checkpoint_sequential([weft.sin, weft.cos], 2, leaf())


def test_detached_leaves():
    x = leaf()
    found, word = detach_variable((x, "word"))
    assert word == "word"
    assert found.requires_grad
    assert found is not x
    with pytest.raises(RuntimeError, match="Only tuple of tensors is supported"):
        detach_variable(x)


# -- chains ------------------------------------------------------------
@BOTH
@pytest.mark.parametrize("segments", [1, 2, 3, 5])
def test_chains(use_reentrant, segments):
    steps = [Counted(f) for f in (weft.sin, weft.exp, weft.cos, weft.tanh, weft.sigmoid)]
    found = gradient(lambda x: checkpoint_sequential(steps, segments, x, use_reentrant=use_reentrant))
    assert found == pytest.approx(gradient(lambda x: x.sin().exp().cos().tanh().sigmoid()))
    size = len(steps) // segments
    assert [step.calls for step in steps] == [2] * (size * (segments - 1)) + [1] * (
        len(steps) - size * (segments - 1)
    )


def test_modules_in_a_chain():
    model = weft.nn.Sequential(weft.nn.Linear(3, 4), weft.nn.ReLU(), weft.nn.Linear(4, 2))
    x = leaf()
    plain = model(x)
    again = checkpoint_sequential(model, 2, x, use_reentrant=False)
    assert values(plain) == values(again)
    expected = grad(plain.sum(), list(model.parameters()))
    for one, other in zip(expected, grad(again.sum(), list(model.parameters()))):
        assert values(one) == pytest.approx(values(other)) if one.ndim == 1 else values(one) == values(other)
    with pytest.raises(ValueError, match="Unexpected keyword arguments: foo"):
        checkpoint_sequential(model, 2, x, use_reentrant=False, foo=3)
