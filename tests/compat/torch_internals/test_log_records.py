"""Logs in tests."""

from __future__ import annotations

import logging
from typing import Any

import weft
from weft.compat.torch_internals.log_records import logs_to_string, multiple_logs_to_string, set_logs_by_name


def broken(x: Any) -> Any:
    x = x + 1
    weft.compiler.graph_break()
    return x * 2


def test_a_topic_in_a_stream() -> None:
    stream, context = logs_to_string("torch._dynamo.output_graph", "graph_code")
    with context():
        weft.compile(lambda x: x.sin() + 1, backend="eager")(weft.ones(2))
    assert ".sin()" in stream.getvalue()


def test_several_topics() -> None:
    weft.compiler.reset()
    (graphs, breaks), context = multiple_logs_to_string("torch._dynamo", "graph_code", "graph_breaks")
    with context():
        weft.compile(broken, backend="eager")(weft.ones(2))
    assert "skipped-function" in breaks.getvalue()
    assert graphs is not breaks


def test_topics_by_name() -> None:
    set_logs_by_name(graph_breaks=True, cudagraphs=True, graph=False)
    try:
        assert logging.getLogger("weft.compile.breaks").level == logging.DEBUG
        assert logging.getLogger("weft.compile.graph").level == logging.NOTSET
    finally:
        set_logs_by_name()
    assert logging.getLogger("weft.compile.breaks").level == logging.NOTSET
