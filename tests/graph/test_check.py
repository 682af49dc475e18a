"""The rules of graphs, each broken."""

import operator

import pytest

import weft
from weft.core.types import TensorType
from weft.graph.check import GraphError, check, complaints
from weft.graph.graph import Graph


def small():
    graph = Graph()
    x = graph.placeholder("x")
    add = graph.call_function(operator.add, (x, 1))
    graph.output((graph.call_function(weft.relu, (add,)),))
    return graph


def behind_output(graph):
    graph.call_function(weft.neg, (graph.nodes[0],))


def foreign(graph):
    graph.nodes[1].args = (small().nodes[0], 1)


def erased(graph):
    add, relu = graph.nodes[1], graph.nodes[2]
    relu.args = (graph.nodes[0],)
    graph.erase_node(add)
    relu.args = (add,)


def too_early(graph):
    graph.nodes[1].prepend(graph.nodes[2])


def late_input(graph):
    with graph.inserting_before(graph.output_node()):
        graph.placeholder("y")


def no_output(graph):
    graph.erase_node(graph.output_node())


def wrong_users(graph):
    graph.nodes[0].users.clear()


def twice(graph):
    graph.nodes[1].name = "relu"


def no_identifier(graph):
    graph.nodes[1].name = "a.b"


def no_function(graph):
    graph.nodes[1].target = "add"


def no_name(graph):
    with graph.inserting_before(graph.output_node()):
        graph.create_node("get_attr", 3, name="w")


def no_receiver(graph):
    with graph.inserting_before(graph.output_node()):
        graph.call_method("sum")


def two_results(graph):
    graph.output_node().args = (graph.nodes[2], 1)


def inner(graph):
    broken = small()
    twice(broken)
    graph.subgraphs["body"] = broken


def argument(graph):
    broken = small()
    twice(broken)
    graph.nodes[1].args = (graph.nodes[0], broken)


@pytest.mark.parametrize(
    ("breaks", "text"),
    [
        (behind_output, "neg stands behind the output"),
        (foreign, "add reads x, which belongs to another graph"),
        (erased, "relu reads add, which was erased"),
        (too_early, "relu reads add before it was defined"),
        (late_input, "placeholder y stands behind other nodes"),
        (no_output, "there is no output node"),
        (wrong_users, "x lists the users [], but is read by ['add']"),
        (twice, "the name relu is taken twice"),
        (no_identifier, "'a.b' is no identifier"),
        (no_function, "add calls 'add', which is no function"),
        (no_name, "w has op get_attr and needs a name as its target, not 3"),
        (no_receiver, "sum_1 calls the method sum of nothing"),
        (two_results, "the output has 2 arguments, not one"),
        (inner, "in body: the name relu is taken twice"),
        (argument, "in forward: the name relu is taken twice"),
    ],
)
def test_broken_rule(breaks, text):
    graph = small()
    assert complaints(graph) == []
    breaks(graph)
    assert complaints(graph) == [text]
    with pytest.raises(GraphError, match="the graph breaks its rules"):
        graph.lint()


def test_core_dialect():
    graph = Graph()
    x = graph.placeholder("x", val=TensorType((2,), weft.float32))
    values = graph.call_function(weft.relu.op, (x,))
    first = graph.call_function(operator.getitem, (values, 0))
    for node in (values, first):
        node.meta["val"] = TensorType((2,), weft.float32)
    graph.output((first,))
    assert check(graph, "core") is graph
    assert graph.check("core") is graph
    first.target = operator.add
    method = graph.call_method("sum", (x,))
    graph.output_node().append(graph.output_node())
    graph.output_node().prepend(method)
    assert complaints(graph, "core") == [
        "getitem calls <built-in function add>, which is no op record",
        "sum_1 is a call_method, which the core dialect has not",
        'sum_1 has no type in meta["val"]',
    ]
