"""Nodes as users see them: edges, names, saved values, calling."""

from __future__ import annotations

import pytest

import weft
from weft.autograd.graph import GradientEdge, Node, get_gradient_edge


def leaf() -> weft.Tensor:
    return weft.tensor([1.0, 2.0, 3.0], requires_grad=True)


def test_next_functions():
    x = leaf()
    y = x * 2
    z = y + x
    (first, number), (second, _) = z.grad_fn.next_functions
    assert first is y.grad_fn
    assert number == 0
    assert second.variable is x
    assert y.grad_fn.next_functions[1] == (None, 0)
    parts = (x * 1).split(1)
    assert (parts[2] * 2).grad_fn.next_functions[0] == (parts[0].grad_fn, 2)


def test_accumulators_are_one_per_leaf_while_held():
    x = leaf()
    first = (x * 2).grad_fn.next_functions[0][0]
    assert (x * 3).grad_fn.next_functions[0][0] is first
    assert type(first).__name__ == "AccumulateGrad"
    assert first.next_functions == ()
    assert first.metadata == {}


def test_names_and_classes():
    node = (leaf() * 2).grad_fn
    assert node.name() == type(node).__name__ == "MulBackward0"
    assert isinstance(node, Node)
    assert isinstance(node.next_functions[0][0], Node)
    assert repr(node).startswith("<MulBackward0 object at 0x")
    assert leaf().sum().grad_fn.name() == "SumBackward0"


def test_sequence_numbers_grow():
    x = leaf()
    first, second = x * 2, x * 3
    assert first.grad_fn._sequence_nr() < second.grad_fn._sequence_nr()
    assert first.grad_fn.next_functions[0][0]._sequence_nr() > second.grad_fn._sequence_nr()


def test_metadata_is_kept():
    node = (leaf() * 2).grad_fn
    assert node.metadata == {}
    node.metadata["a"] = 1
    assert node.metadata == {"a": 1}


def test_nodes_can_be_called():
    x = leaf()
    node = (x * x).grad_fn
    first, second = node(weft.ones(3))
    assert first.array.tolist() == [1, 2, 3]
    assert second.requires_grad
    assert x.exp().grad_fn(weft.ones(3)).array.tolist() == pytest.approx(x.exp().array.tolist())
    with weft.no_grad():
        assert not node(weft.ones(3))[0].requires_grad
    with pytest.raises(TypeError, match="argument 0 is not a Variable"):
        node(1)
    with pytest.raises(TypeError, match="expected 1 arguments, got 0 instead"):
        node()


def test_accumulators_can_be_called():
    x = leaf()
    accumulator = (x * 2).grad_fn.next_functions[0][0]
    accumulator(weft.ones(3))
    accumulator(weft.ones(3))
    assert x.grad.array.tolist() == [2, 2, 2]


def test_saved_values_by_name():
    x = leaf()
    y = x * 2
    z = y.exp()
    assert (x * x).grad_fn._saved_self is x
    saved = z.grad_fn._saved_result
    assert saved.array is z.array
    assert saved.grad_fn is z.grad_fn
    assert (x * y).grad_fn._saved_other.grad_fn is y.grad_fn
    assert x.sum().grad_fn._saved_self_sym_sizes == (3,)
    assert x.sum(0).grad_fn._saved_dim == (0,)
    with pytest.raises(AttributeError, match="'MulBackward0' object has no attribute '_saved_bar'"):
        y.grad_fn._saved_bar
    with pytest.raises(AttributeError, match="no attribute '_raw_saved_bar'"):
        y.grad_fn._raw_saved_bar


def test_saved_values_are_gone_after_backward():
    y = leaf().exp()
    y.sum().backward()
    with pytest.raises(
        RuntimeError, match="directly access saved tensors after they have already been freed"
    ):
        y.grad_fn._saved_result
    assert y.grad_fn._raw_saved_result is None


def test_saved_values_are_checked_when_read():
    x = leaf()
    y = x * 1
    z = y * y
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.grad_fn._saved_self


def test_types_of_what_a_node_made():
    x = weft.ones(2, 3, requires_grad=True)
    (kind,) = (x * weft.ones(4, 1, 3)).grad_fn._input_metadata
    assert (kind.shape, kind.dtype) == ((4, 2, 3), weft.float32)
    parts = (x * 1).split(1)[0].grad_fn._input_metadata
    assert [part.shape for part in parts] == [(1, 3), (1, 3)]


def test_edges():
    x = leaf()
    y = x * 2
    edge = get_gradient_edge(y)
    assert isinstance(edge, GradientEdge)
    assert edge.node is y.grad_fn
    assert edge.output_nr == 0
    assert get_gradient_edge(x).node.variable is x
    with pytest.raises(
        RuntimeError, match="It is not possible to get the gradient edge for a Tensor that does not"
    ):
        get_gradient_edge(weft.ones(2))


def test_a_node_lists_what_it_has_kept():
    x = weft.ones(2, 3, requires_grad=True)
    product = (x * x.exp()).grad_fn
    assert {"_saved_self", "_saved_other", "_raw_saved_self", "_raw_saved_other"} <= set(dir(product))
    assert "next_functions" in dir(product)
    assert x.sum(1, keepdim=True).grad_fn._saved_dim == (1,)
    assert "_saved_keepdim" in dir(x.sum(1).grad_fn)


def test_names_of_nodes_without_an_op():
    x = weft.ones(2, requires_grad=True)
    assert (x * 2).grad_fn.next_functions[0][0].name() == "weft::autograd::AccumulateGrad"
