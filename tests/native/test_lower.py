"""What is no op in graphs: numbers that are read from tensors, arithmetic on them, checks."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest

import weft
from weft.core.requirements import require
from weft.graph.graph import Graph
from weft.native.fuse import fused
from weft.native.lower import Lowering, Unlowered
from weft.native.programs import Failed
from weft.native.run import Executable, checks_of
from weft.native.tensors import Definition, Opaque
from weft.ops.record import REGISTRY


def program(graph: Graph, arrays: list[Any]) -> Executable:
    made = Lowering(graph, arrays).run(lambda path: None)
    wanted = [value for value in made.outputs if isinstance(value, Definition)]
    return Executable(made.outputs, fused([*wanted, *made.checks, *checks_of(made.failures)]), arrays)


def test_numbers_are_read_and_used_as_the_program_runs() -> None:
    graph = Graph()
    x = graph.placeholder("x")
    number = graph.call_function(operator.neg, (graph.call_method("item", (x,)),))
    made = graph.call_function(weft.tensor, (number,))
    product = graph.call_function(REGISTRY["mul"], (made, number))
    for node in (made, product):
        node.meta["val"] = weft.tensor(0.0)
    graph.output((number, made, product))
    run = program(graph, [np.array(2.5, np.float32)])
    for value in (2.5, 4.0):
        number_, made_, product_ = run([np.array(value, np.float32)])
        assert type(number_) is float and number_ == -value
        assert made_.dtype == np.float32 and (made_, product_) == (-value, value * value)


def test_numbers_that_are_given_are_known() -> None:
    graph = Graph()
    x, size = graph.placeholder("x"), graph.placeholder("size")
    double = graph.call_function(operator.mul, (size, 2))
    total = graph.call_function(REGISTRY["add"], (x, double))
    total.meta["val"] = weft.zeros(3)
    graph.output((total,))
    lowering = Lowering(graph, [np.ones(3, np.float32), 4])
    assert not isinstance(lowering.run(lambda path: None).outputs[0], Opaque)
    (found,) = program(graph, [np.ones(3, np.float32), 4])([np.ones(3, np.float32), 4])
    np.testing.assert_array_equal(found, [9, 9, 9])


def test_checks_that_nobody_reads_are_made() -> None:
    graph = Graph()
    x = graph.placeholder("x")
    graph.call_function(require, (x, True, "here"))
    twice = graph.call_function(REGISTRY["add"], (x, x))
    twice.meta["val"] = weft.tensor(True)
    graph.output((twice,))
    run = program(graph, [np.array(True)])
    assert run([np.array(True)])[0]
    with pytest.raises(Failed):
        run([np.array(False)])


def test_what_is_spread_is_stored_once() -> None:
    seen: list[Any] = []

    def f(x: weft.Tensor) -> weft.Tensor:
        y = x * 2
        y.register_hook(seen.append)
        return y.sum(1)

    for call in (f, weft.compile(f, backend="native", fullgraph=True)):
        x = weft.ones(3, 4, requires_grad=True)
        call(x).backward(weft.arange(3.0))
    assert [grad.stride() for grad in seen] == [(1, 0), (1, 0)]
    assert weft.equal(*seen)


def test_other_functions_are_refused() -> None:
    graph = Graph()
    x = graph.placeholder("x")
    graph.output((graph.call_function(print, (x,)),))
    with pytest.raises(Unlowered, match="print"):
        program(graph, [3])


@pytest.mark.parametrize("kind", [weft.bfloat16, weft.complex64])
def test_numbers_that_bodies_do_not_know(kind: Any) -> None:
    def f(x: weft.Tensor) -> weft.Tensor:
        return (x.t()[1:] * 2).sum(0) + x.float().mean()

    x = weft.ones(3, 4).to(kind) if kind is weft.bfloat16 else weft.ones(3, 4, dtype=kind)
    g = f if kind is weft.bfloat16 else lambda x: (x.t()[1:] * 2).sum(0)
    ours, theirs = weft.compile(g, backend="native", fullgraph=True)(x), g(x)
    assert ours.dtype is theirs.dtype and weft.equal(ours, theirs)
