"""weft.fx: the names users know."""

import operator

import weft
from weft import fx


def test_the_names_work_together():
    graph = fx.Graph()
    x = graph.placeholder("x")
    graph.output(graph.call_function(operator.add, (x, 1)))
    module = fx.GraphModule({}, graph)
    traced = fx.symbolic_trace(lambda x: x + 1)
    assert fx.Interpreter(module).run(1) == fx.Transformer(traced).transform()(1) == 2
    assert isinstance(graph.nodes[0], fx.Node)
    assert fx.replace_pattern(module, lambda a: a + 1, lambda a: a * 5)[0].anchor.name == "add"
    assert weft.equal(module(weft.ones(2)), weft.full((2,), 5.0))


def test_all_names_exist():
    assert all(hasattr(fx, name) for name in fx.__all__)


def test_proxies_of_a_graph_that_is_there() -> None:
    """Proxies without a trace write at the end of their node's graph."""
    graph = weft.fx.Graph()
    x = weft.fx.Proxy(graph.placeholder("x"))
    y = weft.fx.Proxy(graph.placeholder("y"), weft.fx.GraphAppendingTracer(graph))
    graph.output(((x * 2).relu() + weft.sin(y)).node)
    made = weft.fx.GraphModule({}, graph)
    a, b = weft.tensor([1.0, -2.0]), weft.tensor([0.5, 0.25])
    assert weft.equal(made(a, b), (a * 2).relu() + b.sin())


def test_operands_of_einsum_may_be_proxies() -> None:
    """What a body takes as a sequence is looked into for whoever takes calls over."""
    graph = weft.fx.Graph()
    x, y = (weft.fx.Proxy(graph.placeholder(name)) for name in "xy")
    graph.output(weft.einsum("ij,jk->ik", x, y).node)
    a, b = weft.arange(6.0).reshape(2, 3), weft.arange(6.0).reshape(3, 2)
    assert weft.equal(weft.fx.GraphModule({}, graph)(a, b), a @ b)
