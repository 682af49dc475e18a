from __future__ import annotations

import weft
from weft.testing import CompileCounter, CompileCounterWithBackend, EagerAndRecordGraphs


def function(x):
    return (x + 1) * 2


def test_counter_counts_graphs_and_calls():
    counter = CompileCounter()
    compiled = weft.compile(function, backend=counter)
    x = weft.ones(3)
    assert weft.equal(compiled(x), function(x))
    compiled(x)
    assert (counter.frame_count, counter.op_count) == (1, 2)
    compiled(x.double())
    assert (counter.frame_count, counter.op_count) == (2, 4)
    counter.clear()
    assert (counter.frame_count, counter.op_count) == (0, 0)


def test_counter_with_a_backend_lets_it_compile():
    counter = CompileCounterWithBackend("eager")
    x = weft.ones(3)
    assert weft.equal(weft.compile(function, backend=counter)(x), function(x))
    assert (counter.frame_count, counter.op_count, len(counter.graphs)) == (1, 2, 1)
    counter.clear()
    assert (counter.frame_count, counter.op_count, counter.graphs) == (0, 0, [])


def test_recorder_keeps_graphs():
    backend = EagerAndRecordGraphs()
    x = weft.ones(3)
    assert weft.equal(weft.compile(function, backend=backend)(x), function(x))
    assert [node.op for node in backend.graphs[0].graph.nodes] == [
        "placeholder",
        "call_function",
        "call_function",
        "output",
    ]
