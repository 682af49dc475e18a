"""The graph as Python: what people read, and what runs."""

import operator
import traceback

import pytest

import weft
from weft.graph.graph import Graph
from weft.graph.text import compile_graph, executable_code, last_uses, python_code


def pair(name="forward"):
    graph = Graph(name=name)
    a = graph.placeholder("L_a_", val=weft.ones(10))
    b = graph.placeholder("L_b_", val=weft.ones(10))
    add = graph.call_function(operator.add, (a, b))
    add.meta["val"] = weft.ones(10)
    graph.output((add,))
    return graph


def test_code():
    assert (
        python_code(pair()).src
        == """\



def forward(self, L_a_, L_b_):
    l_a_ = L_a_
    l_b_ = L_b_
    add = l_a_ + l_b_;  l_a_ = l_b_ = None
    return (add,)
    """
    )


def test_verbose_code():
    assert (
        python_code(pair("inner"), root_module="", verbose=True).src
        == """\



def inner(L_a_: "f32[10]", L_b_: "f32[10]"):
    l_a_ = L_a_
    l_b_ = L_b_

    # No stacktrace found for following nodes
    add: "f32[10]" = l_a_ + l_b_;  l_a_ = l_b_ = None
    return (add,)
    """
    )


def test_types_of_parameters_and_results():
    graph = Graph()
    values = graph.placeholder("L_inputs_", type_expr=list)
    x = graph.placeholder("x", type_expr=weft.Tensor, default_value=None)
    rest = graph.placeholder("*rest")
    graph.output((values, x, rest), type_expr=tuple)
    assert python_code(graph, namespace="torch").src.splitlines()[3:-1] == [
        "def forward(self, L_inputs_ : list, x : torch.Tensor = None, *rest) -> tuple:",
        "    l_inputs_ = L_inputs_",
        "    _rest = rest",
        "    return (l_inputs_, x, _rest)",
    ]
    assert compile_graph(graph)(None, [1], 2, 3, 4) == ([1], 2, (3, 4))


def test_places_in_the_users_code(tmp_path):
    file = tmp_path / "model.py"
    file.write_text("\n\n    y = x.sin()\n    z = y + 1\n")
    graph = Graph()
    x = graph.placeholder("x")
    y = graph.call_method("sin", (x,))
    y2 = graph.call_method("cos", (y,))
    z = graph.call_function(operator.add, (y2, 1))
    last = graph.call_function(operator.add, (z, 1))
    y.meta["source"] = y2.meta["source"] = (str(file), 3, "f")
    z.meta["source"] = (str(file), 4, "f", "given")
    graph.output(last)
    assert python_code(graph, verbose=True).src.splitlines()[3:-1] == [
        "def forward(self, x):",
        f"    # File: {file}:3 in f, code: y = x.sin()",
        "    sin = x.sin();  x = None",
        "    cos = sin.cos();  sin = None",
        "",
        f"    # File: {file}:4 in f, code: given",
        "    add = cos + 1;  cos = None",
        "",
        "    # No stacktrace found for following nodes",
        "    add_1 = add + 1;  add = None",
        "    return add_1",
    ]


def test_what_is_freed_where():
    graph = Graph()
    x = graph.placeholder("x")
    y = graph.call_function(weft.neg, (x,))
    z = graph.call_function(weft.add, (y, x), {"alpha": y})
    dead = graph.call_function(weft.exp, (z,))
    graph.output(z)
    assert last_uses(graph) == {z: [y, x], graph.output_node(): [z]}
    assert python_code(graph).src.splitlines()[5:-2] == [
        "    add = weft.add(neg, x, alpha = neg);  neg = x = None",
        "    exp = weft.exp(add);  exp = None",
    ]
    assert dead.name not in executable_code(graph).src.replace("G2_exp", "")


def test_in_place_operators():
    graph = Graph()
    c = graph.placeholder("c")
    more = graph.call_function(operator.iadd, (c, 2))
    graph.call_function(operator.setitem, (more, 0, 3))
    graph.output((more,))
    assert python_code(graph).src.splitlines()[4:-1] == [
        "    c += 2;  iadd = c;  c = None",
        "    iadd[0] = 3;  setitem = iadd;  setitem = None",
        "    return (iadd,)",
    ]
    tensor = weft.zeros(2)
    result = compile_graph(graph)(None, tensor)[0]
    assert result is tensor
    assert tensor.tolist() == [3.0, 2.0]


def test_values_are_freed_while_running():
    alive = []

    class Value:
        def __init__(self, name):
            self.name = name
            alive.append(name)

        def __del__(self):
            alive.remove(self.name)

    def make(previous, name):
        assert len(alive) <= 2
        return Value(name)

    graph = Graph()
    value = graph.call_function(Value, ("first",))
    for name in "bcd":
        value = graph.call_function(make, (value, name))
    graph.output(value)
    assert compile_graph(graph)(None).name == "d"
    assert alive == []


def test_a_parameter_keeps_no_argument_alive():
    """The caller's list of arguments may be the only reference; the graph must be able to drop it."""
    graph = Graph()
    x = graph.placeholder("L_x_")
    graph.output(graph.call_function(weft.neg, (x,)))
    assert executable_code(graph).src == (
        "def forward(self, L_x_):\n    neg = G0_neg(L_x_);  L_x_ = None\n    return neg\n"
    )


def test_a_parameter_whose_name_is_taken():
    graph = Graph()
    graph.placeholder("a")
    clash = graph.create_node("placeholder", "a_1", name="b")
    other = graph.call_function(operator.neg, (clash,), name="a_1")
    graph.output((clash, other, graph.nodes[0]))
    graph.check()
    assert compile_graph(graph)(None, 1, 2) == (2, -2, 1)


def test_graphs_among_arguments():
    inner = Graph(name="body")
    inner.output(inner.call_function(weft.neg, (inner.placeholder("a"),)))
    graph = Graph()
    x = graph.placeholder("x")
    graph.output(graph.call_function(lambda f, value: f(f(value)), (inner, x), name="twice"))
    assert "(body_0, x)" in python_code(graph).src
    assert weft.equal(compile_graph(graph)(None, weft.ones(2)), weft.ones(2))


def test_constants_are_the_very_objects():
    marker, nan = object(), float("nan")
    graph = Graph()
    graph.output((marker, nan, float("inf"), weft.float32, [1], slice(0, 1), 1 + 2j, "quote'\n"))
    result = compile_graph(graph)(None)
    assert result[0] is marker
    assert result[1] is nan
    assert result[2:] == (float("inf"), weft.float32, [1], slice(0, 1), 1 + 2j, "quote'\n")
    assert compile_graph(graph)(None)[4] is not result[4]


def test_an_empty_graph_runs():
    assert compile_graph(Graph())(None) is None


def test_traceback_shows_the_generated_line():
    graph = Graph()
    x = graph.placeholder("x")
    graph.output(graph.call_method("missing", (x,)))
    with pytest.raises(AttributeError) as caught:
        compile_graph(graph)(None, 3)
    assert "missing = x.missing();  x = None" in "".join(traceback.format_exception(caught.value))
