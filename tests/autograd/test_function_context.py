"""Contexts of custom Functions: what is saved, hooks on it, versions, attributes."""

from __future__ import annotations

import gc
import weakref

import pytest

import weft
from tests.autograd.functions import Exp, Mul, double, function, leaf, values
from weft.autograd import Function, grad, graph
from weft.autograd.function_context import FunctionCtx


# -- saved tensors ------------------------------------------------------------------
def test_saved_inputs_are_the_same_objects():
    x, y = leaf(), leaf() * 1
    z = Mul.apply(x, y)
    assert z.grad_fn.saved_tensors[0] is x
    assert z.grad_fn.saved_tensors[1] is y


def test_saved_outputs_have_the_function_as_their_history():
    x = leaf()
    z = Exp.apply(x)
    (saved,) = z.grad_fn.saved_tensors
    assert saved.grad_fn is z.grad_fn
    assert values(saved) == values(z)


def test_a_saved_output_makes_no_reference_cycle():
    gc.collect()
    gc.disable()
    try:
        z = Exp.apply(leaf())
        node = weakref.ref(z.grad_fn)
        del z
        assert node() is None
    finally:
        gc.enable()


def test_none_and_nothing_can_be_saved():
    seen = []
    x = leaf()
    for saved in ((None,), (), (x, None)):
        Foo = function(
            lambda ctx, a, saved=saved: (ctx.save_for_backward(*saved), a * 1)[1],
            lambda ctx, g: (seen.append(ctx.saved_tensors), g)[1],
        )
        Foo.apply(x).sum().backward()
    assert seen[0] == (None,)
    assert seen[1] == ()
    assert seen[2][0] is x
    assert seen[2][1] is None


def test_the_last_save_counts():
    seen = []
    Foo = function(
        lambda ctx, a, b: (ctx.save_for_backward(a), ctx.save_for_backward(a, b), a * b)[2],
        lambda ctx, g: (seen.append(len(ctx.saved_tensors)), (g, g))[1],
    )
    Foo.apply(leaf(), leaf()).sum().backward()
    assert seen == [2]


@pytest.mark.parametrize("thing", [3, [weft.ones(1)], "a"])
def test_only_tensors_can_be_saved(thing):
    Foo = function(lambda ctx, a: (ctx.save_for_backward(a, thing), a * 1)[1], lambda ctx, g: g)
    text = f"save_for_backward can only save variables, but argument 1 is of type {type(thing).__name__}"
    with pytest.raises(TypeError, match=text):
        Foo.apply(leaf())


def test_saved_tensors_are_freed():
    x = leaf()
    z = Mul.apply(x, x)
    z.sum().backward(retain_graph=True)
    z.sum().backward()
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        z.sum().backward()
    with pytest.raises(
        RuntimeError, match="directly access saved tensors after they have already been freed"
    ):
        z.grad_fn.saved_tensors


def test_a_function_that_saves_nothing_can_run_twice():
    x = leaf()
    z = function(double, lambda ctx, g: g * 3).apply(x)
    z.sum().backward()
    z.sum().backward()
    assert x.grad.tolist() == [6, 6, 6]


def test_saved_tensors_must_not_be_written_to():
    x = leaf()
    y = x * 1
    z = Mul.apply(y, x)
    y.add_(1)
    text = (
        r"inplace operation: \[weft.FloatTensor \[3\]\], which is output 0 of Add, is at version 1; expected"
    )
    with pytest.raises(RuntimeError, match=text):
        z.sum().backward()
    z = Exp.apply(x)
    z.add_(1)
    with pytest.raises(RuntimeError, match="which is output 0 of Exp, is at version 1; expected version 0"):
        z.sum().backward()
    constant = weft.ones(3)
    z = Mul.apply(x, constant)
    constant.mul_(2)
    with pytest.raises(RuntimeError, match=r"\[weft.FloatTensor \[3\]\] is at version 1"):
        z.sum().backward()


def test_inference_tensors_cannot_be_saved():
    with weft.inference_mode():
        constant = weft.ones(3)
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
        Mul.apply(leaf(), constant)


def test_saved_variables_is_deprecated():
    z = Mul.apply(leaf(), leaf())
    with pytest.warns(DeprecationWarning, match="'saved_variables' is deprecated; use 'saved_tensors'"):
        assert len(z.grad_fn.saved_variables) == 2


# -- hooks on saved tensors ------------------------------------------------------------------
def test_pack_and_unpack_hooks():
    packed = []

    def pack(tensor):
        packed.append((tensor.requires_grad, type(tensor.grad_fn).__name__))
        return tensor.detach().numpy().copy()

    class Both(Function):
        @staticmethod
        def forward(ctx, x):
            result = x**2
            ctx.save_for_backward(x, None, result)
            return result

        @staticmethod
        def backward(ctx, gradient):
            x, nothing, result = ctx.saved_tensors
            assert nothing is None
            return gradient * 2 * result / x

    for make in (lambda: leaf(), lambda: leaf() * 1):
        packed.clear()
        x = make()
        with graph.saved_tensors_hooks(pack, weft.from_numpy):
            z = Both.apply(x)
        assert packed == [(True, type(x.grad_fn).__name__), (True, "BothBackward")]
        (first,) = grad(z.sum(), x, create_graph=True)
        assert values(first) == [2, 4, 6]
        (second,) = grad(first.sum(), x)
        assert values(second) == [2, 2, 2]


def test_hooks_free_from_version_checks():
    x = leaf() * 1
    with graph.save_on_cpu():
        z = Mul.apply(x, x)
    x.zero_()
    assert values(z.grad_fn(weft.ones(3))[0]) == [1, 2, 3]


def test_unpack_hooks_must_give_tensors():
    with graph.saved_tensors_hooks(lambda t: 3, lambda p: p):
        z = Mul.apply(leaf(), leaf())
    with pytest.raises(TypeError, match="unpack_hook expected to be a Tensor but got result of type int"):
        z.sum().backward()


def test_errors_in_unpack_hooks_are_seen():
    def unpack(packed):
        raise AttributeError("mine")

    with graph.saved_tensors_hooks(lambda t: t, unpack):
        z = Mul.apply(leaf(), leaf())
    with pytest.raises(AttributeError, match="mine"):
        z.sum().backward()
    with pytest.raises(AttributeError, match="mine"):
        z.grad_fn.saved_tensors


def test_hooks_on_one_saved_tensor():
    x, y = leaf() * 1, leaf() * 1
    z = Mul.apply(x, y)
    first, second = z.grad_fn._raw_saved_tensors
    first.register_hooks(lambda t: t * 10, lambda p: p)
    x.add_(1)  # nobody minds any more
    assert [values(g) for g in z.grad_fn(weft.ones(3))] == [[1, 2, 3], [10, 20, 30]]
    with pytest.raises(RuntimeError, match="whose hooks have already been set"):
        first.register_hooks(lambda t: t, lambda p: p)
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()
    z = Mul.apply(leaf(), leaf())
    (entry, _) = z.grad_fn._raw_saved_tensors
    z.sum().backward()
    with pytest.raises(RuntimeError, match="after it has been freed"):
        entry.register_hooks(lambda t: t, lambda p: p)


def test_hooks_can_be_disabled():
    with graph.disable_saved_tensors_hooks("not here"):
        Mul.apply(leaf(), leaf()).sum().backward()
        with pytest.raises(RuntimeError, match="not here"), graph.saved_tensors_hooks(len, len):
            pass


# -- attributes ------------------------------------------------------------------
def test_attributes_of_any_name_and_kind():
    """Also names that nodes use themselves."""
    names = [
        "next",
        "saved",
        "types",
        "params",
        "hooks",
        "slots",
        "versions",
        "outputs",
        "x",
        "shape",
        "layout",
    ]
    seen = []

    def forward(ctx, x, y):
        for name in names:
            setattr(ctx, name, [name, x])
        return x * y, x + y

    def backward(ctx, first, second):
        seen.extend(getattr(ctx, name)[0] for name in names)
        return first * 1, second * 2

    x, y = leaf(), leaf()
    a, b = function(forward, backward).apply(x, y)
    (a + b).sum().backward()
    assert seen == names
    assert values(x.grad) == [1, 1, 1]
    assert values(y.grad) == [2, 2, 2]


def test_node_and_context_share_attributes():
    x = leaf()
    Foo = function(
        lambda ctx, a: (setattr(ctx, "scale", 3), a * 3)[1], lambda ctx, g: (g * ctx.scale, ctx.extra)[0]
    )
    z = Foo.apply(x)
    assert z.grad_fn.scale == 3
    z.grad_fn.scale = 5
    z.grad_fn.extra = "set on the node"
    assert values(grad(z.sum(), x)[0]) == [5, 5, 5]
    with pytest.raises(AttributeError, match="'FooBackward' object has no attribute 'nothing'"):
        z.grad_fn.nothing
    Bad = function(double, lambda ctx, g: ctx.nothing)
    with pytest.raises(AttributeError, match="'FooBackward' object has no attribute 'nothing'"):
        Bad.apply(x).sum().backward()


def test_a_context_knows_what_its_node_knows():
    x = leaf()
    seen = []
    Foo = function(
        double, lambda ctx, g: (seen.append((ctx.name(), len(ctx.next_functions), ctx.metadata)), g)[1]
    )
    z = Foo.apply(x)
    z.grad_fn.metadata["note"] = 1
    z.sum().backward()
    assert seen == [("FooBackward", 1, {"note": 1})]
    assert isinstance(FunctionCtx().needs_input_grad, tuple)
