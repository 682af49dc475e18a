"""What nodes do besides computing, and which may raise for some data."""

import math
import operator
from itertools import islice
from typing import Any

import numpy as np
import pytest

import weft
import weft.nn.functional as functional
from weft import nn
from weft.core.generator import default_generator
from weft.core.requirements import require
from weft.core.trees import flatten
from weft.graph.effects import can_fail, effect, impure, op_of
from weft.graph.graph import Graph
from weft.graph.node import Node, map_arg
from weft.ops.record import REGISTRY
from weft.ops.samples import Maker


@pytest.fixture
def graph():
    graph = Graph()
    for name, value in (("x", weft.ones(2, 3)), ("y", weft.ones(3))):
        graph.placeholder(name, val=value)
    return graph


def function(target, *args, **kwargs):
    return lambda graph, x, y: graph.call_function(
        target,
        [{"x": x, "y": y}.get(a, a) if isinstance(a, str) else a for a in args],
        {k: {"x": x, "y": y}.get(v, v) if isinstance(v, str) else v for k, v in kwargs.items()},
    )


def method(name, *args):
    return lambda graph, x, y: graph.call_method(name, [{"x": x, "y": y}.get(a, a) for a in args])


PURE = [
    function(weft.add, "x", "y"),
    function(weft.add.op, "x", "y"),
    function(operator.add, "x", 1),
    function(math.sqrt, "x"),
    function(getattr, "x", "T"),
    function(weft.zeros, 3),
    function(weft.reshape, "x", (2, 3)),
    function(functional.dropout, "x", 0.5, False),
    function(functional.dropout, "x", training=False),
    function(functional.batch_norm, "x", "y", "y"),
    function(functional.scaled_dot_product_attention, "x", "x", "x"),
    function(functional.pairwise_distance, "x", "y", p=1.0),
    method("sum", "x"),
    method("multiply", "x", "y"),
]
DRAWING = [
    function(weft.rand, 3),
    function(functional.dropout, "x"),
    function(functional.gumbel_softmax, "x"),
    function(functional.scaled_dot_product_attention, "x", "x", "x", dropout_p=0.5),
    method("bernoulli", "x"),
]
WRITING = [
    (function(weft.add, "x", 1, out="y"), "y"),
    (function(weft.relu_, "x"), "x"),
    (function(weft.Tensor.add_, "x", "y"), "x"),
    (function(functional.relu, "x", inplace=True), "x"),
    (function(operator.iadd, "x", 1), "x"),
    (function(operator.setitem, "x", 0, "y"), "x"),
    (method("mul_", "x", 2), "x"),
    (method("multiply_", "x", 2), "x"),
    (function(functional.batch_norm, "x", "y", "y", training=True), "y"),
    (lambda graph, x, y: graph.call_function(weft._foreach_add_, ([x, y], 1)), "xy"),
]
UNKNOWN = [
    function(print, "x"),
    function(lambda x: x, "x"),
    function(setattr, "x", "grad", None),
    method("numpy", "x"),
    method("requires_grad_", "x"),
    lambda graph, x, y: graph.call_module("layer", (x,)),
]


@pytest.mark.parametrize("build", PURE)
def test_pure(graph, build):
    node = build(graph, *graph.nodes)
    assert effect(node).pure
    assert not impure(node)
    assert not node.is_impure()


@pytest.mark.parametrize("build", DRAWING)
def test_random(graph, build):
    node = build(graph, *graph.nodes)
    assert effect(node).random
    assert impure(node)


@pytest.mark.parametrize(("build", "written"), WRITING)
def test_writes(graph, build, written):
    node = build(graph, *graph.nodes)
    assert {value.name for value in effect(node).writes} == set(written)
    assert impure(node)


@pytest.mark.parametrize("build", UNKNOWN)
def test_unknown(graph, build):
    node = build(graph, *graph.nodes)
    assert effect(node).unknown
    assert impure(node)


def test_sharing(graph):
    x, y = graph.nodes
    assert effect(graph.call_function(weft.transpose, (x, 0, 1))).aliases
    assert effect(graph.call_function(operator.getitem, (x, 0))).aliases
    assert effect(graph.call_method("contiguous", (x,))).aliases
    assert not effect(graph.call_function(weft.add, (x, y))).aliases
    assert not effect(graph.call_function(operator.add, (x, y))).aliases
    assert not effect(graph.call_function(weft.sum, (x,))).aliases


def test_record_behind_a_call(graph):
    x = graph.nodes[0]
    assert op_of(graph.call_method("clip", (x, 0, 1))) == (REGISTRY["clamp"], "clamp")
    assert op_of(graph.call_method("clip_", (x, 0, 1))) == (REGISTRY["clamp"], "clamp_")
    assert op_of(graph.call_function(weft.relu_, (x,))) == (REGISTRY["relu"], "relu_")
    assert op_of(graph.call_method("numpy", (x,))) is None
    assert op_of(graph.call_function(math.sin, (x,))) is None


def as_node(graph, op, sample):
    """The call of a sample as a node, with placeholders for its arrays, and the tensors to call it with."""
    tensors = {}

    def visit(value):
        if isinstance(value, np.ndarray):
            node = graph.placeholder("x")
            tensors[node] = weft.from_numpy(value.copy())
            return node
        return type(value)(map(visit, value)) if type(value) in (tuple, list) else value

    args, kwargs = visit(sample.args), {key: visit(value) for key, value in sample.kwargs.items()}
    return graph.call_function(op.face, args, kwargs), tensors


RECORDS = [op for op in REGISTRY.values() if op.samples is not None and op.function]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("op", RECORDS, ids=lambda op: op.qualified_name)
def test_records_do_no_more_than_is_said(op):
    """Reading records agrees with running them: drawing, writing and sharing memory are all foreseen."""
    for sample in islice(op.samples(Maker()), 3):
        node, tensors = as_node(Graph(), op, sample)
        does = effect(node)
        before = default_generator.get_state(), {key: tensor._version for key, tensor in tensors.items()}
        result = map_arg(node.args, tensors.__getitem__), map_arg(node.kwargs, tensors.__getitem__)
        result = op.face(*result[0], **result[1])
        if not does.random:
            assert weft.equal(default_generator.get_state(), before[0])
        for key, tensor in tensors.items():
            assert key in does.writes or tensor._version == before[1][key]
            for value in flatten(result)[0]:
                if isinstance(value, weft.Tensor) and not does.aliases:
                    assert value is not tensor
                    assert not np.shares_memory(value.array, tensor.array)


def test_effects_follow_from_types():
    weights = weft.ones(4, 3)
    written = node_of(functional.embedding, weft.zeros(2, dtype=weft.int64), weights, 0, 1.0)
    assert [node.name for node in effect(written).writes] == ["x1"]
    assert effect(node_of(functional.embedding, weft.zeros(2, dtype=weft.int64), weights)).pure


def test_a_composite_on_values_of_unknown_type_may_do_anything():
    graph = Graph()
    x = graph.placeholder("x")
    node = graph.call_function(weft.reshape, (x, (6,)))
    assert effect(node).random and effect(node).writes == (x,) and can_fail(node)
    assert effect(graph.call_function(weft.exp, (x,))).pure, "it has a record of its own"


FLOATS, PLACES = weft.ones(2, 2), weft.zeros(2, 2, dtype=weft.int64)


def node_of(target: Any, *values: Any, result: Any = FLOATS) -> Node:
    graph = Graph()
    inputs = [graph.placeholder(f"x{i}", val=value) for i, value in enumerate(values)]
    node = (
        graph.call_function(target, tuple(inputs)) if callable(target) else graph.call_method(target, inputs)
    )
    node.meta["val"] = result
    return node


@pytest.mark.parametrize(
    ("target", "values"),
    [
        (weft.linalg.cholesky, (FLOATS,)),
        (weft.linalg.inv, (FLOATS,)),
        (weft.inverse, (FLOATS,)),
        (weft.matrix_power, (FLOATS, -1)),
        (weft.histc, (FLOATS,)),
        (weft.quantile, (FLOATS, FLOATS)),
        (nn.functional.gaussian_nll_loss, (FLOATS, FLOATS, FLOATS)),
        (weft.bernoulli, (FLOATS,)),
        (nn.functional.binary_cross_entropy, (FLOATS, FLOATS)),
        (nn.functional.cross_entropy, (FLOATS, PLACES)),
        (nn.functional.embedding, (PLACES, FLOATS)),
        (weft.gather, (FLOATS, 0, PLACES)),
        (operator.getitem, (FLOATS, PLACES)),
        (math.log, (2.0,)),
        (int, (2.0,)),
        (print, (FLOATS,)),
        (require, (FLOATS,)),
        ("some_method", (FLOATS,)),
    ],
)
def test_nodes_that_may_fail(target: Any, values: Any) -> None:
    assert can_fail(node_of(target, *values))


@pytest.mark.parametrize(
    ("target", "values"),
    [
        (operator.add, (FLOATS, FLOATS)),
        (weft.exp, (FLOATS,)),
        (weft.matmul, (FLOATS, FLOATS)),
        (weft.cat, ([FLOATS],)),
        (weft.clone, (PLACES,)),
        (weft.reshape, (FLOATS, (4,))),
        (nn.functional.cross_entropy, (FLOATS, FLOATS)),
        (nn.functional.softmax, (FLOATS,)),
        (nn.functional.batch_norm, (FLOATS, weft.ones(2), weft.ones(2))),
        (weft.rand, ()),
        (getattr, (FLOATS,)),
        ("item", (FLOATS,)),
        ("detach", (FLOATS,)),
        ("copy_", (FLOATS, FLOATS)),
    ],
)
def test_nodes_that_cannot_fail(target: Any, values: Any) -> None:
    assert not can_fail(node_of(target, *values))


def test_only_whole_numbers_refuse_to_be_divided() -> None:
    assert not can_fail(node_of(operator.truediv, FLOATS, FLOATS))
    for target in (operator.floordiv, operator.ifloordiv, weft.remainder, "div"):
        assert can_fail(node_of(target, PLACES, PLACES, result=PLACES))
        assert not can_fail(node_of(target, FLOATS, FLOATS))
    assert can_fail(node_of(operator.pow, 2.0, 3.0, result=8.0)), "it may overflow"
