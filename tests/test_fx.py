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
