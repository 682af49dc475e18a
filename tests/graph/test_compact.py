"""The compact print."""

import operator

import weft
from weft.graph.compact import compact, tabular
from weft.graph.graph import Graph


def test_style():
    graph = Graph()
    graph.source = ("/somewhere/model.py", 7, "forward")
    x = graph.placeholder("x", val=weft.ones(2, 3))
    w = graph.placeholder("w", val=weft.ones(3, 3))
    b = graph.placeholder("b", val=weft.ones(3))
    nodes = [graph.call_function(weft.matmul, (x, w))]
    nodes.append(graph.call_function(operator.add, (nodes[0], b)))
    nodes.append(graph.call_method("relu", (nodes[1],)))
    for node in nodes:
        node.meta = {"val": weft.ones(2, 3), "source": ("/somewhere/model.py", 8, "forward")}
    graph.output(nodes[2])
    assert (
        compact(graph)
        == str(graph)
        == """\
graph forward(x: f32[2,3], w: f32[3,3], b: f32[3]):         # model.py:7
  %0: f32[2,3] = matmul(x, w)                               # model.py:8
  %1: f32[2,3] = add(%0, b)
  %2: f32[2,3] = relu(%1)
  return %2"""
    )


def test_everything_else():
    inner = Graph()
    inner.output((inner.call_function(weft.neg, (inner.placeholder("a"),)),))
    graph = Graph(name="step")
    values = graph.placeholder("L_inputs_", type_expr=list)
    rest = graph.placeholder("*rest")
    first = graph.call_function(operator.getitem, (values, 0))
    body = graph.subgraph("body_0", inner)
    weight = graph.get_attr("layer.weight")
    applied = graph.call_function(weft.cond, (first, body, inner), {"out": {"k": rest}})
    called = graph.call_module("layer", (applied,), {"dtype": weft.float32})
    graph.output((called, weight, 1.5, None))
    assert (
        compact(graph, namespace="torch")
        == """\
graph step(L_inputs_: list, *rest):
  %0 = getitem(L_inputs_, 0)
  %1 = self.layer.weight
  %2 = cond(%0, body_0, forward_0, out={'k': rest})
  %3 = self.layer(%2, dtype=torch.float32)
  return (%3, %1, 1.5, None)
  graph body_0(a):
    %0 = neg(a)
    return (%0,)
  graph forward_0(a):
    %0 = neg(a)
    return (%0,)"""
    )
    assert tabular(graph).count("\n") == 9
