"""Nodes: arguments, users, places."""

import pickle
from typing import NamedTuple

import pytest

import weft
from weft.core.types import Size
from weft.graph.graph import Graph
from weft.graph.node import has_side_effect, map_aggregate, map_arg, nodes_in


class Pair(NamedTuple):
    one: object
    other: object


@pytest.fixture
def graph():
    return Graph()


@pytest.fixture
def nodes(graph):
    x, y = graph.placeholder("x"), graph.placeholder("y")
    return x, y, graph.call_function(weft.add, (x, y))


@pytest.mark.parametrize(
    "build",
    [
        lambda a: a,
        lambda a: (a,),
        lambda a: [a, 1],
        lambda a: {"k": (a, [a])},
        lambda a: slice(a, None, 2),
        lambda a: Pair(a, 3),
        lambda a: (slice(None, a), ..., None),
    ],
)
def test_map_arg_reaches_nodes_at_any_depth(nodes, build):
    x, y, _ = nodes
    assert map_arg(build(x), {x: y}.__getitem__) == build(y)
    assert set(nodes_in(build(x))) == {x}


@pytest.mark.parametrize("value", [3, "text", None, (1, [2]), Size((1, 2)), slice(1, 2), weft.float32, ...])
def test_map_arg_keeps_values_without_nodes(value):
    mapped = map_arg(value, lambda node: 1 / 0)
    assert mapped == value
    assert type(mapped) is type(value)


def test_users_follow_arguments(nodes):
    x, y, add = nodes
    assert (list(x.users), list(y.users), add.all_input_nodes) == ([add], [add], [x, y])
    add.args = (x, x)
    assert (list(y.users), add.all_input_nodes) == ([], [x])
    add.update_arg(0, y)
    assert add.args == (y, x)
    add.update_kwarg("alpha", x)
    add.args = (y, 1)
    assert x.users == {add: None}
    add.insert_arg(1, 7)
    assert add.args == (y, 7, 1)


def test_a_caller_may_change_his_lists(graph):
    x = graph.placeholder("x")
    tensors = [x]
    node = graph.call_function(weft.cat, (tensors,))
    tensors.append(5)
    assert node.args == ([x],)


def test_replace_all_uses(graph, nodes):
    x, y, add = nodes
    relu = graph.call_function(weft.relu, (add,))
    neg = graph.call_function(weft.neg, (add,))
    add.meta["source"] = ("f.py", 1, "f")
    assert add.replace_all_uses_with(x, lambda user: user is relu, propagate_meta=True) == [relu]
    assert (relu.args, neg.args, x.meta["source"]) == ((x,), (add,), ("f.py", 1, "f"))
    neg.replace_input_with(add, y)
    assert not add.users


def test_moving(graph, nodes):
    x, y, add = nodes
    relu = graph.call_function(weft.relu, (x,))
    add.prepend(relu)
    assert list(graph.nodes) == [x, y, relu, add]
    add.append(relu)
    assert list(graph.nodes) == [x, y, add, relu]
    add.append(relu)
    add.prepend(add)
    assert list(graph.nodes) == [x, y, add, relu]
    assert (add.next, add.prev) == (relu, y)
    with pytest.raises(RuntimeError, match="another graph"):
        add.prepend(Graph().placeholder("z"))


def test_format(graph, nodes):
    x, _, add = nodes
    assert (
        add.format_node()
        == "%add : [num_users=0] = call_function[target=weft.add](args = (%x, %y), kwargs = {})"
    )
    assert x.format_node() == "%x : [num_users=1] = placeholder[target=x]"
    assert graph.placeholder("z", default_value=3).format_node().endswith("[target=z](default=3)")
    assert graph.get_attr("w").format_node() == "%w : [num_users=0] = get_attr[target=w]"
    summed = graph.call_method("sum", ([add, {"k": x}],), {"dim": 0})
    assert summed.format_node().endswith(
        "call_method[target=sum](args = ([%add, {k: %x}],), kwargs = {dim: 0})"
    )
    assert graph.call_function(getattr, (x, "T")).format_node().startswith("%getattr_1 :")
    assert graph.output((add,)).format_node() == "return (add,)"


def test_stack_trace(tmp_path, nodes):
    file = tmp_path / "model.py"
    file.write_text("\n    y = x + 1\n")
    x, y, add = nodes
    add.meta["source"], y.meta["source"] = (str(file), 2, "f"), ("gone.py", 7, "g", "given")
    assert add.stack_trace == f'  File "{file}", line 2, in f\n    y = x + 1'
    assert y.stack_trace == '  File "gone.py", line 7, in g\n    given'
    assert x.stack_trace is None


def test_a_node_cannot_be_saved_alone(nodes):
    with pytest.raises(TypeError, match="its graph"):
        pickle.dumps(nodes[2])


def test_order_and_told_lines():
    graph = Graph()
    x = graph.placeholder("x")
    y = graph.call_method("sin", (x,))
    assert x < y and y > x and x <= x and y >= x and not y < x
    assert sorted([y, x]) == [x, y]
    y.stack_trace = "somewhere"
    assert y.stack_trace == "somewhere" and x.stack_trace is None


def test_functions_whose_calls_stay():
    @has_side_effect
    def told(value):
        return value

    graph = Graph(impure=lambda node: False)
    x = graph.placeholder("x")
    call = graph.call_function(told, (x,))
    graph.call_function(abs, (x,))
    graph.output(x)
    assert graph.eliminate_dead_code() and call in list(graph.nodes) and len(graph.nodes) == 3
    assert call.is_impure()


def test_every_leaf_is_mapped():
    value = [1, (2, {"a": 3}), slice(1, 2, 3)]
    assert map_aggregate(value, lambda leaf: leaf + 1) == [2, (3, {"a": 4}), slice(2, 3, 4)]
