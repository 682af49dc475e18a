"""Time by line and by likeness, memory along a step."""

from __future__ import annotations

import pytest

import weft
from weft.report import observe
from weft.report.facts import facts_of
from weft.report.sums import along_the_step, by_likeness, by_line


def step(ops, kind, microseconds, places=(), text="", behind=False):
    return {
        "ops": ops, "kind": kind, "microseconds": microseconds, "text": text,
        "places": [("model.py", line) for line in places],
        "shares": [("model.py", line, behind) for line in places],
    }  # fmt: skip


def program(*steps, backward=False, forward=None, kept=None, live=(), results=(), title="program"):
    memory = {"live": list(live), "results": [{"step": at, "bytes": size} for at, size in results]}
    return {
        "title": title, "steps": list(steps), "backward": backward, "forward": forward, "kept": kept,
        "memory": memory,
    }  # fmt: skip


def test_time_is_that_of_lines_forward_and_backward_apart():
    forward = program(
        step("mul", "kernel over 4", 6.0, [3, 4]),
        step("mul", "kernel over 4", 0.5, [4], behind=True),
        step("pack", "function", 1.0),
    )
    backward = program(step("mul", "kernel over 4", 2.0, [4]), backward=True)
    found = by_line([forward, backward])
    assert [(line["place"], line["forward"], line["backward"]) for line in found] == [
        (("model.py", 4), 3.0, 2.5),
        (("model.py", 3), 3.0, 0.0),
        (None, 1.0, 0.0),
    ]


def test_programs_that_were_not_timed_have_no_lines():
    assert by_line([program(step("mul", "kernel over 4", None, [3]))]) == []


def test_kernels_of_other_sizes_are_alike():
    found = by_likeness(
        [
            program(
                step("mul", "kernel over 2 x 40", 2.0, [3], "r0 = x * y"),
                step("matmul", "product of 2 x 3 x 4", 9.0, [5]),
                step("mul", "kernel over 7", 3.0, [4], "r0 = x * y"),
                step("mul", "kernel over 7", 1.0, [4], "r0 = x * 2"),
                step("matmul", "product of 4 x 3 x 4", 1.0, [5]),
            )
        ]
    )
    assert [(each["ops"], each["count"], each["sizes"], each["microseconds"]) for each in found] == [
        ("matmul", 2, ["2 x 3 x 4", "4 x 3 x 4"], 10.0),
        ("mul", 2, ["2 x 40", "7"], 5.0),
        ("mul", 1, ["7"], 1.0),
    ]
    assert found[1]["places"] == [("model.py", 3), ("model.py", 4)]


def test_what_a_forward_keeps_counts_until_its_backward_has_run():
    steps = [step("mul", "kernel over 4", 1.0)] * 2
    programs = [
        program(*steps, live=[8, 8], results=[(1, 100)]),
        program(*steps, live=[4, 4], results=[(0, 10)]),
        program(*steps, backward=True, forward=1, kept=5, live=[1, 2]),
        program(*steps, backward=True, forward=0, kept=60, live=[1, 2]),
        program(*steps, live=[7, 7]),
    ]
    nested, alone = along_the_step(programs)
    assert nested["live"] == [8, 108, 74, 74, 66, 67, 61, 62] and alone["live"] == [7, 7]
    assert nested["title"] == "programs 1 to 4"
    assert [(part["first"], part["backward"]) for part in nested["parts"]] == [
        (0, False),
        (2, False),
        (4, True),
        (6, True),
    ]


@pytest.fixture(scope="module")
def facts():
    def layer(x, w):
        y = (x @ w).tanh()
        z = (y @ w).tanh()
        return z.sum()

    with observe() as seen:
        x, w = weft.randn(64, 64, requires_grad=True), weft.randn(64, 64, requires_grad=True)
        weft.compile(layer, backend="native", dynamic=False)(x, w).backward()
    return facts_of(seen), layer.__code__.co_firstlineno


def test_of_a_gradient(facts):
    facts, first = facts
    assert facts["programs"][1]["forward"] == 0 and facts["programs"][1]["kept"] >= 2 * 64 * 64 * 4
    lines = {line["place"][1] - first: line for line in facts["lines"] if line["place"]}
    assert lines[1]["forward"] > 0 and lines[1]["backward"] > 0 and lines[2]["backward"] > 0
    total = sum(line["forward"] + line["backward"] for line in facts["lines"])
    steps = [each["microseconds"] for program in facts["programs"] for each in program["steps"]]
    assert total == pytest.approx(sum(steps)) == pytest.approx(sum(k["microseconds"] for k in facts["kinds"]))
    (curve,) = facts["memory"]
    assert len(curve["live"]) == len(steps) and curve["live"][len(facts["programs"][0]["steps"])] >= 32768
    assert any(kind["ops"].split()[0] == "matmul" and kind["count"] > 1 for kind in facts["kinds"])


def test_of_a_whole_step_gradients_stand_at_the_lines_that_they_are_of():
    w = weft.randn(64, 64, requires_grad=True)

    def step(x):
        y = (x @ w).tanh()
        z = y.square().sum()
        z.backward()
        return z.detach()

    with observe() as seen:
        weft.compile(step, backend="native", fullgraph=True)(weft.randn(64, 64))
    first = step.__code__.co_firstlineno
    lines = {line["place"][1] - first: line for line in facts_of(seen)["lines"] if line["place"]}
    assert lines[1]["forward"] > 0 and lines[1]["backward"] > 0
    assert lines[1]["backward"] > lines.get(3, {"backward": 0.0})["backward"]


def test_second_gradients_stand_at_the_lines_of_the_ops():
    def step(x):
        x = x.clone().requires_grad_()
        y = (x.sin() * x).sum()
        (slope,) = weft.autograd.grad(y, x, create_graph=True)
        return weft.autograd.grad(slope.square().sum(), x)[0]

    with observe() as seen:
        weft.compile(step, backend="native", fullgraph=True)(weft.randn(64, 64))
    first = step.__code__.co_firstlineno
    lines = {line["place"][1] - first: line for line in facts_of(seen)["lines"] if line["place"]}
    assert lines[2]["backward"] > 0
