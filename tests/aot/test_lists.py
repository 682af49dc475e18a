"""Graphs that take lists."""

from __future__ import annotations

import operator

import weft
from weft.aot.backends import aot_eager
from weft.aot.lists import open_lists
from weft.fx import Graph, GraphModule
from weft.testing import assert_close


def taking_a_list() -> GraphModule:
    """`inputs[2] * scale + inputs[0]`."""
    graph = Graph()
    whole = graph.placeholder("inputs", list)
    scale = graph.placeholder("scale")
    last = graph.call_function(operator.getitem, (whole, 2))
    product = graph.call_function(weft.mul, (last, scale))
    first = graph.call_function(operator.getitem, (whole, 0))
    graph.output((graph.call_function(weft.add, (product, first)),))
    return GraphModule({}, graph)


def test_items_become_inputs() -> None:
    opened = open_lists(taking_a_list())
    assert opened is not None
    assert opened.places == [(0, 2), (0, 0), (1, None)]
    assert [node.target for node in opened.module.graph.placeholders] == ["getitem", "getitem_1", "scale"]
    values = [weft.full((2,), float(i)) for i in (1, 2, 3)]
    (found,) = opened.module(*opened.inputs((values, weft.full((2,), 10.0))))
    assert_close(found, weft.full((2,), 31.0))


def test_graphs_without_lists_are_left_alone() -> None:
    graph = Graph()
    graph.output(graph.call_function(weft.sin, (graph.placeholder("x"),)))
    assert open_lists(GraphModule({}, graph)) is None


def test_lists_used_as_lists_are_left_alone() -> None:
    graph = Graph()
    graph.output(graph.call_function(weft.cat, (graph.placeholder("inputs", list),)))
    assert open_lists(GraphModule({}, graph)) is None


def test_lists_of_which_parts_are_taken_are_left_alone() -> None:
    graph = Graph()
    part = graph.call_function(operator.getitem, (graph.placeholder("inputs", list), slice(1, None)))
    graph.output((graph.call_function(weft.cat, (part,)),))
    assert open_lists(GraphModule({}, graph)) is None


def test_backends_take_lists() -> None:
    values = [weft.ones(2, requires_grad=True) for _ in range(3)]
    scale = weft.full((2,), 10.0)
    compiled = aot_eager(taking_a_list(), [values, scale])
    (found,) = compiled(values, scale)
    found.sum().backward()
    assert_close(values[2].grad, scale)
    assert_close(values[0].grad, weft.ones(2))
    assert values[1].grad is None
