"""Passes: what they simplify, what they must leave alone, and that nobody can tell the difference."""

import math
import operator

import pytest
from hypothesis import given
from hypothesis import strategies as st

import weft
import weft.nn.functional as functional
from weft.graph.check import complaints
from weft.graph.graph import Graph
from weft.graph.interpreter import run
from weft.graph.passes import PASSES, apply, canonicalise, cse, dce, fold


def graph_of(build, inputs="x", typed=False):
    """The graph whose output `build(graph, *inputs)` gives."""
    graph = Graph()
    nodes = [graph.placeholder(name, val=weft.ones(2) if typed else None) for name in inputs]
    graph.output(build(graph.call_function, *nodes))
    return graph


def count(graph):
    return len(graph.nodes) - len(graph.placeholders) - 1


def test_passes_leave_their_graph_alone():
    graph = graph_of(
        lambda call, x: (call(weft.add, (x, call(operator.add, (1, 2)))), call(weft.add, (x, 3)))
    )
    before = str(graph)
    assert str(apply(graph, checked=True)) != before
    assert str(graph) == before


# -- dce -----------------------------------------------------------------------------------------------------
def test_dce_erases_chains():
    def build(call, x):
        call(weft.exp, (call(weft.neg, (x,)),))
        return x

    assert count(dce(graph_of(build))) == 0


@pytest.mark.parametrize(
    ("target", "kept"),
    [
        (weft.relu_, True),
        (functional.dropout, True),
        (weft.bernoulli, True),
        (print, True),
        (weft.relu, False),
        (weft.zeros_like, False),
    ],
)
def test_dce_keeps_what_has_effects(target, kept):
    def build(call, x):
        call(target, (x,))
        return x

    assert count(dce(graph_of(build))) == kept


def test_dce_asks_the_caller():
    def build(call, x):
        call(print, (x,))
        call(weft.exp, (x,))
        return x

    result = dce(graph_of(build), lambda node: node.target is weft.exp)
    assert [node.name for node in result.nodes] == ["x", "exp", "output"]


def test_dce_keeps_unread_inputs():
    assert len(dce(graph_of(lambda call, x, y: x, "xy")).placeholders) == 2


def test_sub_graphs_are_simplified_and_dropped():
    inner = graph_of(lambda call, x: (call(weft.mul, (x, call(operator.add, (1, 2)))),))
    graph = Graph()
    body = graph.subgraph("body", inner)
    graph.subgraph("unread", inner.copy())
    graph.output(graph.call_function(weft.cond, (graph.placeholder("p"), body, body, ())))
    result = apply(graph)
    assert list(result.subgraphs) == ["body"]
    assert (count(result.subgraphs["body"]), count(inner)) == (1, 2)


# -- cse -----------------------------------------------------------------------------------------------------
def merged(build, inputs="x"):
    """How many nodes cse removes."""
    graph = graph_of(build, inputs)
    return count(graph) - count(cse(graph).check())


def test_cse_merges_equal_calls():
    def build(call, x):
        one, other = call(weft.exp, (x,)), call(weft.exp, (x,))
        return call(weft.add, (call(weft.neg, (one,)), call(weft.neg, (other,))))

    assert merged(build) == 2


@pytest.mark.parametrize(("one", "other"), [(1, 1.0), (1, True), (0.0, -0.0), ((1,), [1]), ("a", "b")])
def test_cse_tells_arguments_apart(one, other):
    def build(call, x):
        return call(weft.add, (call(weft.mul, (x, one)), call(weft.mul, (x, other))))

    assert merged(build) == 0


def test_cse_merges_equal_arguments():
    nan = float("nan")
    for make in (
        lambda: [1],
        lambda: slice(1, 2),
        lambda: {"k": 2.5},
        lambda: nan,
        lambda: weft.float32,
        lambda: ...,
    ):

        def build(call, x, make=make):
            return call(weft.add, (call(operator.getitem, (x, make())), call(operator.getitem, (x, make()))))

        assert merged(build) == 1


def test_cse_never_merges_random_or_unknown_calls():
    for target in (weft.bernoulli, functional.dropout, id):

        def build(call, x, target=target):
            return call(weft.add, (call(target, (x,)), call(target, (x,))))

        assert merged(build) == 0


def test_cse_does_not_read_across_writes():
    def build(call, x, y):
        one = call(weft.exp, (x,))
        call(weft.relu_, (x,))
        return call(weft.add, (one, call(weft.exp, (x,))))

    assert merged(build, "xy") == 0


def test_cse_knows_that_inputs_may_overlap():
    def build(call, x, y):
        one = call(weft.exp, (x,))
        call(weft.relu_, (y,))
        return call(weft.add, (one, call(weft.exp, (x,))))

    assert merged(build, "xy") == 0


def test_cse_follows_writes_through_views():
    def build(call, x):
        own = call(weft.exp, (x,))
        one = call(weft.neg, (own,))
        call(operator.setitem, (call(weft.transpose, (own, 0, 1)), 0, 5))
        return call(weft.add, (one, call(weft.neg, (own,))))

    assert merged(build) == 0


def test_cse_keeps_what_is_written():
    def build(call, x):
        one, other = call(weft.exp, (x,)), call(weft.exp, (x,))
        call(weft.relu_, (one,))
        return call(weft.add, (one, other))

    assert merged(build) == 0


def test_cse_keeps_results_apart():
    assert merged(lambda call, x: (call(weft.exp, (x,)), call(weft.exp, (x,)))) == 0
    assert merged(lambda call, x: (call(weft.exp, (x,)), call(weft.neg, (call(weft.exp, (x,)),)))) == 1


def test_cse_does_not_reach_across_unknown_calls():
    def build(call, x):
        one = call(weft.exp, (x,))
        call(print, ("anything",))
        return call(weft.add, (one, call(weft.exp, (x,))))

    assert merged(build) == 0


def test_cse_reads_attributes_once():
    graph = Graph()
    reads = [graph.get_attr("w"), graph.get_attr("w")]
    graph.output(tuple(reads))
    assert len(cse(graph).find_nodes(op="get_attr")) == 1


# -- fold ----------------------------------------------------------------------------------------------------
def test_fold_computes_numbers():
    def build(call, x):
        two = call(operator.add, (1, 1))
        root = call(math.sqrt, (call(operator.mul, (two, 8)),))
        return call(weft.mul, (x, call(max, (root, 3))), {"alpha": two}), call(operator.getitem, (x, [two]))

    folded = fold(graph_of(build)).check()
    assert [node.args for node in folded.nodes][1:3] == [(folded.nodes[0], 4.0), (folded.nodes[0], [2])]
    assert folded.nodes[1].kwargs == {"alpha": 2}


@pytest.mark.parametrize(
    ("target", "args"),
    [
        (operator.floordiv, (1, 0)),
        (math.sqrt, (-1,)),
        (operator.add, (1, "a")),
        (operator.pow, (10, 1000)),
        (math.factorial, (1000,)),
        (divmod, (7, 2)),
        (weft.add, (1, 2)),
    ],
)
def test_fold_leaves_alone(target, args):
    graph = graph_of(lambda call, x: call(target, args))
    assert count(fold(graph)) == 1


# -- canonicalise --------------------------------------------------------------------------------------------
def test_one_form():
    forms = [
        lambda graph, x: graph.call_method("sum", (x,), {"dim": 0}),
        lambda graph, x: graph.call_method("sum", (x, 0)),
        lambda graph, x: graph.call_function(weft.sum, (x,), {"dim": 0, "keepdim": False}),
        lambda graph, x: graph.call_function(weft.sum, (x, 0), {"dtype": None}),
        lambda graph, x: graph.call_function(weft.sum, (), {"input": x, "dim": 0}),
    ]
    texts = set()
    for form in forms:
        graph = Graph()
        graph.output(form(graph, graph.placeholder("x")))
        texts.add(canonicalise(graph).python_code().src)
    assert texts == {
        "\n\n\ndef forward(self, x):\n    sum_1 = weft.sum(x, 0);  x = None\n    return sum_1\n    "
    }


def test_operators_become_functions_where_tensors_are_known():
    graph = graph_of(lambda call, x: call(operator.add, (x, 1)), typed=True)
    assert canonicalise(graph).nodes[1].target is weft.add
    graph = graph_of(lambda call, x: call(operator.sub, (1, x)), typed=True)
    assert canonicalise(graph).nodes[1].target is operator.sub
    graph = graph_of(lambda call, x: call(operator.add, (x, 1)))
    assert canonicalise(graph).nodes[1].target is operator.add


def test_canonical_names():
    graph = graph_of(lambda call, x: call(weft.neg, (call(weft.exp, (x,)),)))
    graph.nodes[1].name, graph.nodes[2].name = "neg_5", "other"
    assert [node.name for node in canonicalise(graph).nodes] == ["x", "exp", "neg", "output"]


def test_in_place_methods_and_variadic_sizes_stay():
    graph = Graph()
    x = graph.placeholder("x")
    graph.call_method("add_", (x,), {"other": 1})
    graph.call_method("view", (x, 2, 3))
    graph.output(x)
    nodes = list(canonicalise(graph).nodes)
    assert (nodes[1].op, nodes[1].target, nodes[1].args[1:]) == ("call_method", "add_", (1,))
    assert (nodes[2].op, nodes[2].target, nodes[2].args[1:]) == ("call_method", "view", (2, 3))


# -- all of them ---------------------------------------------------------------------------------------------
UNARY = ("neg", "exp", "relu", "t", "sin", "clone", "detach", "contiguous")
BINARY = ("add", "mul", "sub", "maximum")
WRITERS = ("relu_", "neg_", "zero_", "add_")


@st.composite
def programs(draw):
    """A random graph over two inputs: arithmetic, views, writes, random numbers and scalars."""
    graph = Graph()
    tensors = [graph.placeholder("x", val=weft.ones(2, 2)), graph.placeholder("y", val=weft.ones(2, 2))]
    numbers = [1, 2.5]
    pick = lambda values: draw(st.sampled_from(values))
    for _ in range(draw(st.integers(1, 14))):
        match pick(("unary", "unary", "binary", "binary", "write", "random", "number", "operator", "item")):
            case "unary":
                name, x = pick(UNARY), pick(tensors)
                function = getattr(weft, name, None) if draw(st.booleans()) else None
                made = graph.call_function(function, (x,)) if function else graph.call_method(name, (x,))
            case "binary":
                other = pick([*tensors, *numbers]) if (name := pick(BINARY)) != "maximum" else pick(tensors)
                made = graph.call_function(getattr(weft, name), (pick(tensors), other))
            case "operator":
                made = graph.call_function(pick((operator.add, operator.mul)), (pick(tensors), pick(tensors)))
            case "write":
                name, x = pick(WRITERS), pick(tensors)
                made = graph.call_method(name, (x, pick(numbers)) if name == "add_" else (x,))
            case "random":
                made = graph.call_function(weft.rand_like, (pick(tensors),))
            case "item":
                made = graph.call_function(operator.getitem, (pick(tensors), slice(None)))
            case "number":
                function = pick((operator.add, operator.mul, min))
                numbers.append(graph.call_function(function, (pick(numbers), pick(numbers))))
                continue
        made.meta["val"] = weft.ones(2, 2)
        tensors.append(made)
    graph.output(tuple(draw(st.lists(st.sampled_from([*tensors, *numbers]), min_size=1, max_size=3))))
    return graph


def outcome(graph):
    """Everything that a caller can see: values, inputs afterwards, what shares memory, the generator."""
    weft.manual_seed(0)
    inputs = [weft.tensor([[1.0, -2.0], [0.5, 3.0]]), weft.tensor([[-1.0, 2.0], [4.0, -0.25]])]
    results = run(graph, inputs)
    everything = [*inputs, *results]
    tensors = [value for value in everything if isinstance(value, weft.Tensor)]
    for place, tensor in enumerate(tensors):  # a later write must be seen through the same results
        with weft.no_grad():
            tensor.add_(place)
    values = [value.tolist() if isinstance(value, weft.Tensor) else value for value in everything]
    return repr(values), [[one is other for one in tensors] for other in tensors], repr(weft.get_rng_state())


@pytest.mark.parametrize("name", [*PASSES, "all"])
@given(graph=programs())
def test_nobody_can_tell(name, graph):
    expected = outcome(graph)
    result = apply(graph) if name == "all" else PASSES[name](graph)
    assert complaints(result) == []
    assert outcome(result) == expected
    assert count(result) <= count(graph)
