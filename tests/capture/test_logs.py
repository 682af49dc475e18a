from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import pytest

import weft
from weft.compiler import graph_break
from weft.core.logs import TOPICS, log, read_environment, set_logs


@pytest.fixture(autouse=True)
def quiet():
    yield
    set_logs()


def function(x):
    x = x + 1
    graph_break()
    return x * 2


def logged(capsys, *topics):
    weft.compiler.reset()  # functions compiled again share their entries
    set_logs(*topics)
    compiled = weft.compile(function)
    compiled(weft.ones(3))
    compiled(weft.ones(4))
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("topic", "words"),
    [
        ("graph", ["class GraphModule", "add", "mul"]),
        ("guards", ["L['x'] is Tensor(float32[3])"]),
        ("breaks", ["GraphBreak", "test_logs.py", "in function"]),
        ("recompiles", ["function: L['x'] is Tensor(float32[3])", "float32[4]"]),
        ("source", ["def entry("]),
    ],
)
def test_topics(capsys, topic, words):
    text = logged(capsys, topic)
    assert f"[weft.compile.{topic}]" in text
    for word in words:
        assert word in text
    for other in TOPICS.keys() - {topic}:
        assert f"[weft.compile.{other}]" not in text


def test_nothing_is_said_unasked(capsys):
    assert logged(capsys) == ""


def test_texts_are_made_only_for_listeners():
    log("graph", lambda: pytest.fail("made for nobody"))


def test_others_may_listen(caplog):
    with caplog.at_level(logging.DEBUG, logger="weft.compile.graph"):
        weft.compile(lambda x: x + 1)(weft.ones(3))
    assert "class GraphModule" in caplog.text


def test_unknown_topics():
    with pytest.raises(ValueError, match="unknown log topic 'graf'; the topics are graph, guards"):
        set_logs("graf")


def test_environment_with_a_word_that_is_no_topic(monkeypatch):
    monkeypatch.setenv("WEFT_LOGS", "graf, guards")
    with pytest.warns(UserWarning, match="WEFT_LOGS: unknown topic 'graf'"):
        read_environment()
    assert logging.getLogger("weft.compile.guards").level == logging.DEBUG


def test_environment():
    program = "import weft\nweft.compile(lambda x: x + 1)(weft.ones(3))\n"
    root = str(Path(weft.__file__).parent.parent)
    result = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env={"WEFT_LOGS": "graph", "PYTHONPATH": root},
    )
    assert result.returncode == 0, result.stderr
    assert "[weft.compile.graph] class GraphModule" in result.stderr


def test_lines_of_a_graph_are_the_users():
    net = weft.nn.Sequential(weft.nn.Linear(2, 2), weft.nn.Tanh())
    nodes = weft.compiler.explain(lambda x: net(x))(weft.ones(1, 2)).graphs[0].graph.nodes
    files = {node.meta["source"][0] for node in nodes if node.op == "call_function"}
    assert files == {__file__}
