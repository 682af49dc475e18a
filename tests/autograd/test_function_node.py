"""Nodes of custom Functions: what users see of them, and checks of the gradients that backward returns."""

from __future__ import annotations

import pytest

import weft
from tests.autograd.functions import Exp, Mul, double, function, leaf, values
from weft.autograd import grad, graph


# -- the node ------------------------------------------------------------------
def test_the_node():
    x, y = leaf(), leaf() * 1
    Foo = function(lambda ctx, a, k, b, c: a * b, lambda ctx, g: (g, None, g, None))
    node = Foo.apply(x, 3, y, weft.ones(3)).grad_fn
    assert isinstance(node, graph.Node)
    assert isinstance(node, Foo._backward_cls)
    assert (node.name(), type(node).__name__, node._forward_cls) == ("FooBackward", "FooBackward", Foo)
    assert [type(target).__name__ for target, _ in node.next_functions] == [
        "AccumulateGrad", "MulBackward0", "NoneType",
    ]  # fmt: skip
    assert node.needs_input_grad == (True, False, True, False)
    assert "weft.autograd.function.FooBackward object" in repr(node)
    assert "grad_fn=<FooBackward>" in repr(Foo.apply(x, 3, y, weft.ones(3)))


def test_nodes_can_be_called():
    x = leaf()
    first, second = Mul.apply(x, leaf(4, 5, 6)).grad_fn(weft.ones(3))
    assert (values(first), values(second)) == ([4, 5, 6], [1, 2, 3])
    assert values(Exp.apply(x).grad_fn.apply(weft.zeros(3))) == [0, 0, 0]


def test_hooks_on_nodes_and_outputs():
    log = []
    x = leaf()
    z = function(lambda ctx, a, k: a * 2, lambda ctx, g: (g * 2, None)).apply(x, 3)
    z.register_hook(lambda g: log.append(("tensor", values(g))))
    z.grad_fn.register_prehook(lambda outs: log.append(("pre", len(outs))))
    z.grad_fn.register_hook(lambda ins, outs: log.append(("post", values(ins[0]), len(ins), len(outs))))
    z.sum().backward()
    assert log == [("tensor", [1, 1, 1]), ("pre", 1), ("post", [2, 2, 2], 1, 1)]


def test_anomaly_detection_names_the_line():
    x = leaf()
    Foo = function(double, lambda ctx, g: g * float("nan"))
    text = "Function 'FooBackward' returned nan values in its 0th output"
    with pytest.warns(UserWarning) as caught, weft.autograd.detect_anomaly():
        z = Foo.apply(x).sum()
        with pytest.raises(RuntimeError, match=text):
            z.backward()
    assert any("z = Foo.apply(x).sum()" in str(w.message) for w in caught)


# -- gradients that do not fit ------------------------------------------------------------------
@pytest.mark.parametrize(
    ("returned", "error"),
    [
        (
            lambda g: (g, g),
            r"function FooBackward returned an incorrect number of gradients \(expected 1, got 2\)",
        ),
        (
            lambda g: (),
            r"function FooBackward returned an incorrect number of gradients \(expected 1, got 0\)",
        ),
        (lambda g: [g], r"expected Variable or None \(got list\)"),
        (lambda g: 3.0, r"expected Variable or None \(got float\)"),
        (
            lambda g: g[:2],
            r"Function FooBackward returned an invalid gradient at index 0 - got \[2\] but expected shape "
            r"compatible with \[3\]",
        ),
        (lambda g: g.sum(), r"got \[\] but expected shape compatible with \[3\]"),
        (lambda g: g.to(weft.complex64), "expected a real gradient"),
    ],
)
@pytest.mark.parametrize("create_graph", [False, True])
def test_wrong_gradients(returned, error, create_graph):
    x = leaf()
    z = function(double, lambda ctx, g: returned(g)).apply(x)
    with pytest.raises(RuntimeError, match=error):
        grad(z.sum(), x, create_graph=create_graph)


def test_gradient_for_what_is_no_tensor():
    z = function(lambda ctx, a, k: a * k, lambda ctx, g: (g, g)).apply(leaf(), 5)
    text = (
        "function FooBackward returned a gradient different than None at position 2, but the corresponding "
        "forward input was not a Variable"
    )
    with pytest.raises(RuntimeError, match=text):
        z.sum().backward()


def test_trailing_nones_and_gradients_nobody_needs_are_dropped():
    x = leaf()
    assert values(grad(function(double, lambda ctx, g: (g, None, None)).apply(x).sum(), x)[0]) == [1, 1, 1]
    Foo = function(lambda ctx, a, b: a * 2, lambda ctx, g: (g, g))
    assert values(grad(Foo.apply(x, weft.ones(7)).sum(), x)[0]) == [1, 1, 1]


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize(
    ("returned", "expected"),
    [
        (lambda g: g.expand(2, 3), [2.0, 2.0, 2.0]),
        (lambda g: g.double() * 1.5, [1.5, 1.5, 1.5]),
        (lambda g: g.long(), [1.0, 1.0, 1.0]),
    ],
)
def test_gradients_are_brought_to_shape_and_dtype(returned, expected, create_graph):
    x = leaf()
    (found,) = grad(function(double, lambda ctx, g: returned(g)).apply(x).sum(), x, create_graph=create_graph)
    assert found.dtype is weft.float32
    assert values(found) == expected


def test_none_gradients():
    x, y = leaf(), leaf()
    z = function(lambda ctx, a, b: a * b, lambda ctx, g: (g * 4, None)).apply(x, y)
    z.sum().backward()
    assert values(x.grad) == [4, 4, 4]
    assert y.grad is None


def test_a_returned_input_does_not_become_the_gradient_itself():
    x = leaf()
    function(lambda ctx, a: (ctx.save_for_backward(a), a * 1)[1], lambda ctx, g: ctx.saved_tensors[0]).apply(
        x
    ).sum().backward()
    assert values(x.grad) == [1, 2, 3]
    x.grad.zero_()
    assert values(x) == [1, 2, 3]
