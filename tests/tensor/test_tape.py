"""The tape's records: what nodes hold, and for how long."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import weft
from weft.ops.sweep import LEAF_SEQUENCE
from weft.tensor.tape import INFERENCE, Node, gradient_edge, saved_arrays, short_name


def leaf() -> weft.Tensor:
    return weft.tensor([1.0, 2.0, 3.0], requires_grad=True)


def test_edges_end_at_nodes_or_leaves():
    x = leaf()
    y = x * 2
    assert gradient_edge(x) == (x, 0)
    assert gradient_edge(y) == (y.node, 0)
    assert gradient_edge(weft.ones(2)) == (None, 0)
    assert y.node.next[0] is x
    assert x._seq == LEAF_SEQUENCE


def test_only_what_rules_read_is_saved():
    x, c = leaf(), weft.ones(3)
    assert (x + c).node.saved == ()
    saved = (x * c).node.saved
    assert [value is None for value in saved] == [True, False]
    assert saved[1] is c.array
    y = x.exp()
    assert y.node.saved[0] is y.array


def test_release_drops_what_was_saved():
    y = leaf().exp()
    y.node.release()
    assert y.node.saved is None
    with pytest.raises(RuntimeError, match="a second time"):
        y.sum().backward()


def test_saved_arrays_are_listed_with_their_places():
    x = leaf()
    y = x * weft.ones(3)
    assert [(position, number) for position, number, _ in saved_arrays(y.node)] == [(1, 0)]


def test_short_names():
    assert short_name((leaf() * 2).node) == "Mul"


def test_rules_that_do_not_exist_say_so():
    node = Node()
    node.__class__.op
    with pytest.raises((NotImplementedError, AttributeError)):
        node.raw_backward(np.ones(1))


def test_inference_cell_refuses_to_be_saved():
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
        INFERENCE[0]


def test_intermediates_die_at_once():
    gc.disable()
    try:
        x = leaf()
        y = x * 2
        reference, array = weakref.ref(y), weakref.ref(y.array)
        z = (y + 1).sum()
        del y
        assert reference() is None
        assert array() is None, "addition saves nothing"
        z.backward()
        assert x.grad.array.tolist() == [2, 2, 2]
    finally:
        gc.enable()


def test_no_reference_cycles_in_a_training_step():
    w = weft.ones(4, 4, requires_grad=True)
    x = weft.ones(2, 4)
    for number in range(4):
        if number == 1:
            gc.collect()  # with what first uses leave, which compile functions
        loss = (x @ w).tanh().pow(2).sum()
        loss.backward()
        with weft.no_grad():
            w -= w.grad * 0.1
        w.grad = None
        del loss
    assert gc.collect() == 0


@pytest.mark.parametrize("function", [weft.sin, lambda v: v**3, lambda v: weft.logsumexp(v * v, 0)])
@pytest.mark.parametrize("part", [lambda y: y, lambda y: y[0:1]])
def test_what_a_gradient_saves_again_is_watched_too(function, part):
    """The second order reads what the first saved: a write in between is refused then as well."""
    x = weft.tensor([0.3, 0.4], requires_grad=True)
    y = x * 1
    z = part(y)
    (first,) = weft.autograd.grad(function(z).sum(), z, create_graph=True)
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        first.sum().backward()
