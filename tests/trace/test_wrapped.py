"""`fx.wrap`: calls of wrapped functions are one node each, and only in traces."""

from __future__ import annotations

import contextvars
import math

import pytest

import weft
from weft.fx import symbolic_trace, wrap
from weft.trace.wrapped import fronted, recorded


@wrap
def twice(value, times=2):
    return value * times if value.sum() > 0 else value


wrap("len")


def program(x, y):
    return twice(x, times=3) + len(y), twice(weft.ones(1))


def test_calls_with_proxies_are_nodes():
    traced = symbolic_trace(program)
    targets = [node.target for node in traced.graph.nodes if node.op == "call_function"]
    assert twice in targets and len in targets and targets.count(twice) == 1
    found, constant = traced(weft.ones(2), [1, 2])
    assert found.tolist() == [5.0, 5.0] and constant.tolist() == [2.0]
    assert "len" not in globals() and program(weft.ones(2), [1])[0].tolist() == [4.0, 4.0]


def test_it_wants_a_global():
    with pytest.raises(NotImplementedError, match="wrap must be called at the top level of a module"):
        wrap(math.sqrt)
    with pytest.raises(RuntimeError, match="Unsupported type for global function!"):
        wrap(3)


def test_traces_of_several_threads_end_in_any_order():
    apart = contextvars.copy_context()
    first, second = fronted(), fronted()
    recorded(lambda value: value == "a", lambda *_call: "a").__enter__()
    apart.run(lambda: recorded(lambda value: value == "b", lambda *_call: "b").__enter__())
    first.__enter__()
    second.__enter__()
    assert globals()["len"]("a") == "a" and globals()["len"]("b") == 1
    first.__exit__(None, None, None)
    assert globals()["len"]("a") == "a" and apart.run(lambda: globals()["len"]("b")) == "b"
    second.__exit__(None, None, None)
    assert "len" not in globals()
