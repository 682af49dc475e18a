"""Graphs: building, changing, copying, saving."""

import copy
import operator
import pickle

import pytest

import weft
from weft.core.naming import naming
from weft.fx import symbolic_trace
from weft.graph.graph import Graph


def small():
    graph = Graph(name="forward")
    x = graph.placeholder("L_x_")
    add = graph.call_function(operator.add, (x, 1))
    relu = graph.call_function(weft.relu, (add,))
    relu.meta = {"val": weft.ones(2), "source": ("f.py", 3, "f")}
    graph.output((relu,))
    return graph


def test_building():
    graph = small()
    assert [node.name for node in graph.nodes] == ["l_x_", "add", "relu", "output"]
    assert [node.name for node in reversed(graph.nodes)] == ["output", "relu", "add", "l_x_"]
    assert (len(graph.nodes), graph.nodes[1].name, graph.nodes[-1].op) == (4, "add", "output")
    assert graph.output_node().args[0][0].target is weft.relu
    assert repr(graph.nodes) == "[l_x_, add, relu, output]"
    assert [node.target for node in graph.placeholders] == ["L_x_"]
    assert graph.find_nodes(op="call_function", target=operator.add)[0].name == "add"


def test_names_of_inputs():
    graph = Graph()
    names = [graph.placeholder(name).name for name in ("x", "L_self_w", "*args", "**kwargs", "sum")]
    assert names == ["x", "l_self_w", "_args", "_kwargs", "sum_1"]


def test_insertion_points():
    graph = small()
    add = graph.nodes[1]
    with graph.inserting_before(add):
        first = graph.call_function(weft.neg, (graph.nodes[0],))
        second = graph.call_function(weft.abs, (first,))
    with graph.inserting_after(add):
        third = graph.call_function(weft.exp, (add,))
    with graph.inserting_before():
        graph.placeholder("y")
    with graph.inserting_after(graph.nodes[0]):
        graph.placeholder("z")
    assert [node.name for node in graph.nodes] == [
        "y", "z", "l_x_", "neg", "abs_1", "add", "exp", "relu", "output",
    ]  # fmt: skip
    assert (second.prev, third.next.name) == (first, "relu")
    graph.inserting_before(third)
    assert graph.call_function(weft.sin, (add,)).next is third
    with pytest.raises(RuntimeError, match="another graph"):
        graph.inserting_before(small().nodes[0])


def test_erasing():
    graph = small()
    add, relu = graph.nodes[1], graph.nodes[2]
    with pytest.raises(RuntimeError, match="Tried to erase Node add but it still had 1 users in the graph"):
        graph.erase_node(add)
    graph.output_node().args = ((add,),)
    graph.erase_node(relu)
    graph.erase_node(relu)
    assert (len(graph.nodes), list(add.users)) == (3, [graph.output_node()])
    with pytest.raises(RuntimeError, match="another graph"):
        graph.erase_node(small().nodes[3])


def test_erasing_the_insertion_point():
    graph = small()
    dead = graph.call_function(weft.neg, (graph.nodes[0],))
    with graph.inserting_before(dead):
        graph.erase_node(dead)
        node = graph.call_function(weft.exp, (graph.nodes[0],))
    assert graph.nodes[-1] is node


def test_nodes_may_be_erased_and_added_while_iterating():
    graph = Graph()
    x = graph.placeholder("x")
    for _ in range(3):
        graph.call_function(weft.relu, (x,))
    for node in graph.nodes:
        if node.target is weft.relu:
            with graph.inserting_before(node):
                graph.call_function(weft.neg, (x,))
            graph.erase_node(node)
    assert [node.name for node in graph.nodes] == ["x", "neg", "neg_1", "neg_2"]


def test_dead_code():
    graph = small()
    graph.call_function(weft.exp, (graph.nodes[1],))
    noise = graph.call_function(weft.rand, (3,))
    assert graph.eliminate_dead_code()
    assert not graph.eliminate_dead_code()
    assert noise in list(graph.nodes)
    assert graph.eliminate_dead_code(lambda node: False)
    assert [node.name for node in graph.nodes] == ["l_x_", "add", "relu", "output"]


def test_copies_are_equal_and_apart():
    graph = small()
    graph.source = ("f.py", 1, "f")
    inner = small()
    graph.subgraph("body", inner)
    for other in (graph.copy(), copy.deepcopy(graph)):
        assert str(other) == str(graph)
        assert other.nodes[2].meta == graph.nodes[2].meta
        other.nodes[2].args = (other.nodes[0],)
        other.subgraphs["body"].nodes[2].args = (1,)
        assert graph.nodes[2].args == (graph.nodes[1],)
        assert inner.nodes[2].args == (inner.nodes[1],)
        assert other.call_function(operator.add, (1, 2)).name == "add_1"


def test_graph_copy_gives_the_result():
    graph, other = small(), Graph()
    y = other.placeholder("y")
    result = other.graph_copy(graph, {graph.nodes[0]: y})
    assert [node.name for node in other.nodes] == ["y", "add", "relu"]
    assert result == (other.nodes[2],)
    result, output = Graph().graph_copy(graph, {}, return_output_node=True)
    assert output is graph.output_node()


def test_saving():
    graph = small()
    x = graph.nodes[0]
    with graph.inserting_before(graph.output_node()):
        graph.call_function(operator.getitem, (x, (slice(x, None), [x, {"k": x}], weft.float32)))
        graph.subgraph("body", small())
    loaded = pickle.loads(pickle.dumps(graph))
    assert loaded.python_code().src == graph.python_code().src
    assert loaded.nodes[2].meta == {"source": ("f.py", 3, "f")}  # types of values are not saved
    loaded.check()


def test_long_graphs_can_be_copied_and_saved():
    graph = Graph()
    value = graph.placeholder("x")
    for _ in range(5000):
        value = graph.call_function(weft.neg, (value,))
    graph.output(value)
    assert len(pickle.loads(pickle.dumps(graph)).nodes) == len(copy.deepcopy(graph).nodes) == 5002


def test_subgraphs_have_names_of_their_own():
    graph = Graph()
    nodes = [graph.subgraph("body_0", small()) for _ in range(2)]
    assert [node.target for node in nodes] == list(graph.subgraphs) == ["body_0", "body_1"]
    assert nodes[0].op == "get_attr"


def test_a_graph_runs_when_called():
    assert weft.equal(small()(weft.tensor([-3.0, 2.0]))[0], weft.tensor([0.0, 3.0]))


def test_unknown_op():
    with pytest.raises(ValueError, match="'call' is no op of a graph"):
        Graph().create_node("call", weft.add)


def test_tabular(capsys):
    small().print_tabular()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["opcode", "name", "target", "args", "kwargs"]
    assert lines[3].split() == ["call_function", "add", "operator.add", "(l_x_,", "1)", "{}"]


def test_no_output_yet():
    with pytest.raises(RuntimeError, match="no output"):
        Graph().output_node()


# -- FX's list of nodes, which `print(graph)` gives under PyTorch's name ------------------------------------
class Net(weft.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = weft.nn.Linear(2, 2)
        self.shift = weft.nn.Parameter(weft.ones(2))

    def forward(self, x, y=1):
        return weft.relu(self.layer(x) + self.shift).sum(dim=[0, 1]) * y, {"a": x}


def test_nodes_one_a_line(monkeypatch):
    graph = symbolic_trace(Net()).graph
    assert str(graph).startswith("graph forward(")
    monkeypatch.setattr(naming, "namespace", "torch")
    assert (
        str(graph)
        == """\
graph():
    %x : [num_users=2] = placeholder[target=x]
    %y : [num_users=1] = placeholder[target=y](default=1)
    %layer : [num_users=1] = call_module[target=layer](args = (%x,), kwargs = {})
    %shift : [num_users=1] = get_attr[target=shift]
    %add : [num_users=1] = call_function[target=operator.add](args = (%layer, %shift), kwargs = {})
    %relu : [num_users=1] = call_function[target=torch.relu](args = (%add,), kwargs = {})
    %sum_1 : [num_users=1] = call_method[target=sum](args = (%relu,), kwargs = {dim: [0, 1]})
    %mul : [num_users=1] = call_function[target=operator.mul](args = (%sum_1, %y), kwargs = {})
    return (mul, {'a': x})"""
    )


def test_inputs_found_late_come_first():
    graph = Graph(name="forward")
    x = graph.placeholder("x")
    doubled = graph.call_function(operator.mul, (x, 2))
    y = graph.placeholder("y")
    graph.output((graph.call_function(operator.add, (doubled, y)),))
    graph.placeholders_first()
    assert [node.name for node in graph.nodes] == ["x", "y", "mul", "add", "output"]
    graph.rename_node(doubled, "add")
    assert doubled.name == "add_1"
