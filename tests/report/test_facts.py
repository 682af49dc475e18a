"""What a report says of compiled code."""

from __future__ import annotations

import json

import pytest

import weft
from weft.report import observe
from weft.report.facts import facts_of


def slope(x, w):
    return (weft.tanh(x @ w) * x).sum()


def halting(x):
    y = x * 2
    print("seen")
    return y + 1


@pytest.fixture(scope="module")
def facts():
    with observe("two functions") as seen:
        compiled = weft.compile(slope, backend="native", dynamic=False)
        for size in (40, 80):
            x, w = weft.randn(size, size, requires_grad=True), weft.randn(size, size, requires_grad=True)
            compiled(x, w).backward()
        weft.compile(halting, backend="native")(weft.ones(3))
    return facts_of(seen)


def test_are_plain_data(facts):
    assert json.loads(json.dumps(facts))["title"] == "two functions"


def test_count(facts):
    summary = facts["summary"]
    assert summary["graphs"] == 4 and summary["recompiles"] == 1 and summary["breaks"] == 1
    assert summary["programs"] == 6 and summary["products"] == 6 and summary["ops"] >= 10
    assert summary["compile milliseconds"] > 0 and summary["guards"] > 0


def test_everything_is_linked_by_lines(facts):
    first = slope.__code__.co_firstlineno
    nodes = [node for node in facts["graphs"][0]["nodes"] if node["op"].startswith("call")]
    assert {tuple(node["place"]) for node in nodes} == {(__file__, first + 1)}
    assert all((__file__, first + 1) in step["places"] for step in facts["programs"][0]["steps"])
    (source,) = facts["sources"]
    lines = dict(source["lines"])
    assert source["file"] == __file__ and lines[first + 1] == "    return (weft.tanh(x @ w) * x).sum()"
    assert lines[halting.__code__.co_firstlineno] == "def halting(x):"


def test_forward_and_backward_are_drawn_together(facts):
    joint = [graph for graph in facts["graphs"] if "backward" in graph["title"]]
    assert len(joint) == 2
    names = [node["name"] for node in joint[0]["nodes"]]
    phases = {node["name"]: node["phase"] for node in joint[0]["nodes"]}
    assert phases["tanh"] == "forward" and phases["tanh_backward"] == "backward"
    assert (names.index("tanh"), names.index("tanh_backward")) in joint[0]["edges"]


def test_breaks_and_recompiles_have_reasons(facts):
    (stop,) = facts["breaks"]
    assert "print" in stop["reason"] and stop["place"] == (__file__, halting.__code__.co_firstlineno + 2)
    assert stop["why"].startswith("a builtin that acts") and stop["try"].startswith("the code around it")
    (miss,) = facts["misses"]
    assert miss["function"] == "slope" and "x" in miss["reasons"][0]


def test_steps_have_times_and_memory(facts):
    for program in facts["programs"]:
        assert all(step["microseconds"] > 0 for step in program["steps"])
        memory = program["memory"]
        assert len(memory["live"]) == len(program["steps"])
        assert max(memory["live"], default=0) <= sum(value["bytes"] for value in memory["values"])
        for value in memory["values"]:
            assert value["offset"] + value["bytes"] <= memory["block"]


def test_timing_leaves_numbers_and_generators_as_they_are():
    weight = weft.ones(3)
    generator = weft.Generator().manual_seed(3)

    def noisy():
        weight.add_(weft.rand(3) + weft.rand(3, generator=generator))

    weft.manual_seed(0)
    with observe() as seen:
        weft.compile(noisy, backend="native")()
    kept = weight.clone()
    states = weft.get_rng_state(), generator.get_state()
    facts = facts_of(seen)
    assert facts["programs"] and facts["programs"][0]["steps"][0]["microseconds"] > 0
    assert weft.equal(weight, kept)
    assert weft.equal(weft.get_rng_state(), states[0]) and weft.equal(generator.get_state(), states[1])


def test_observers_are_gone_after_the_block():
    with observe() as seen, pytest.raises(ValueError):
        raise ValueError
    weft.compile(lambda x: x + 3, backend="eager")(weft.ones(2))
    assert not seen.entries and not seen.graphs
