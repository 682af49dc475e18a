"""Running graphs node by node."""

import operator

import pytest

import weft
from weft.graph.graph import Graph
from weft.graph.interpreter import run


def test_every_kind_of_node():
    inner = Graph(name="body")
    inner.output((inner.call_function(operator.mul, (inner.placeholder("a"), 10)),))
    graph = Graph()
    x = graph.placeholder("x")
    y = graph.placeholder("y", default_value=2)
    rest = graph.placeholder("*rest")
    total = graph.call_method("sum", (x,), {"dim": 0})
    body = graph.subgraph("body", inner)
    applied = graph.call_function(lambda f, v: f(v)[0], (body, total))
    weight = graph.get_attr("layer.weight")
    called = graph.call_module("layer", (weight,))
    graph.output({"k": [applied, y], "r": rest, "m": called})

    class Owner:
        layer = weft.nn.Identity()

    Owner.layer.weight = 7
    result = run(graph, (weft.ones(2, 3), 5, 6), owner=Owner)
    assert result["k"][0].tolist() == [20.0] * 3
    assert (result["k"][1], result["r"], result["m"]) == (5, (6,), 7)
    assert run(graph, (weft.ones(2, 3),), owner=Owner)["k"][1] == 2


def test_calls_can_be_taken_over():
    inner = Graph()
    inner.output(inner.call_function(operator.neg, (inner.placeholder("a"),)))
    graph = Graph()
    x = graph.placeholder("x")
    add = graph.call_function(operator.add, (x, 1))
    graph.output(graph.call_function(lambda f, v: f(v), (graph.subgraph("body", inner), add), name="apply"))
    seen = []

    def call(node, function, args, kwargs):
        seen.append((node.name, args[-1]))
        return function(*args, **kwargs) * 2

    assert run(graph, (3,), call) == -32
    assert seen == [("add", 1), ("apply", 8), ("neg", 8)]


def test_interpreting_is_traceable():
    """Run on proxies, a graph writes itself down again."""
    graph = Graph()
    x = graph.placeholder("x")
    graph.output(graph.call_method("sum", (graph.call_function(weft.relu, (x,)),)))
    again = Graph()
    made = []

    def call(node, function, args, kwargs):
        made.append(again.node_copy(node, dict(zip(node.all_input_nodes, args)).__getitem__))
        return made[-1]

    again.output(run(graph, (again.placeholder("x"),), call))
    assert str(again) == str(graph)


@pytest.mark.parametrize("args", [(), (1, 2)])
def test_wrong_number_of_values(args):
    graph = Graph()
    graph.output(graph.placeholder("x"))
    with pytest.raises(TypeError, match="the graph"):
        run(graph, args)


def test_no_output():
    assert run(Graph()) is None
