"""Which nodes may raise for some data."""

from __future__ import annotations

import math
import operator
from typing import Any

import pytest

import weft
from weft import nn
from weft.core.requirements import require
from weft.graph.failing import can_fail, fails
from weft.graph.graph import Graph
from weft.graph.node import Node
from weft.ops.record import REGISTRY, Kind

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
        (weft.bernoulli, (FLOATS,)),
        (nn.functional.binary_cross_entropy, (FLOATS, FLOATS)),
        (nn.functional.cross_entropy, (FLOATS, PLACES)),
        (nn.functional.embedding, (PLACES, FLOATS)),
        (weft.gather, (FLOATS, PLACES)),
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
        (weft.cat, (FLOATS,)),
        (weft.clone, (PLACES,)),
        (weft.reshape, (FLOATS,)),
        (nn.functional.cross_entropy, (FLOATS, FLOATS)),
        (nn.functional.softmax, (FLOATS,)),
        (nn.functional.batch_norm, (FLOATS, FLOATS)),
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
    assert can_fail(node_of(operator.floordiv, PLACES, PLACES, result=PLACES))
    assert can_fail(node_of(operator.pow, 2.0, 3.0, result=8.0)), "it may overflow"


def test_what_a_composite_refuses_is_what_its_ops_refuse() -> None:
    assert fails(REGISTRY["nn.functional.nll_loss"], True)
    assert not fails(REGISTRY["nn.functional.nll_loss"], False)
    assert fails(REGISTRY["linalg.matrix_power"], False)
    safe = [name for name, op in REGISTRY.items() if op.kind is Kind.COMPOSITE and not fails(op, True)]
    assert {"reshape", "batch_norm", "max_pool2d"} <= set(safe) and "nn.functional.one_hot" not in safe
