"""Programs as data: frozen, the same for every process; open ones at the sizes of a call."""

from __future__ import annotations

import json
from typing import Any

import pytest

import weft
from weft.native import backend
from weft.native.cpu.runner import Runner
from weft.native.ir.sizes import is_open
from weft.native.program.describe import steps_text
from weft.native.program.program import OPEN, Program, results_of


def step(x: Any, w: Any) -> Any:
    return weft.softmax(x @ w, -1).sum(0), (x * 2).tanh()


def runners(monkeypatch: pytest.MonkeyPatch, rows: list[int], **options: Any) -> list[Runner]:
    """What runs the programs that are made for so many rows."""
    made: list[Runner] = []
    monkeypatch.setenv("WEFT_CACHE", "0")
    monkeypatch.setattr(backend, "listeners", [lambda runner, _arrays: made.append(runner)])
    weft.compiler.reset()
    compiled = weft.compile(step, fullgraph=True, **options)
    for count in rows:
        compiled(weft.ones(count, 6), weft.ones(6, 5))
    return made


def plain(program: Program) -> Any:
    """All that a program says, but for what it was planned from."""
    names = ("size", "inputs", "functions", "records", "rows", "givens", "written", "numbers", "multiplies")
    return json.dumps(
        [[getattr(program, name) for name in (*names, *OPEN)], str(program.splits)], default=str
    )


def test_they_are_frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    (runner,) = runners(monkeypatch, [4])
    with pytest.raises(AttributeError):
        runner.program.size = 0  # type: ignore[misc]
    assert runner.count == runner.program.count == len(runner.program.functions)


def test_equal_graphs_have_equal_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever lies where, and though its functions were compiled before."""
    (first,) = runners(monkeypatch, [4])
    (second,) = runners(monkeypatch, [4])
    assert first.program is not second.program and plain(first.program) == plain(second.program)
    assert steps_text(first.program) == steps_text(second.program)


def test_open_ones_at_the_sizes_of_their_first_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Settled, an open program is the one that is planned for these sizes alone."""
    (opened,) = runners(monkeypatch, [4], dynamic=True)
    (alone,) = runners(monkeypatch, [4], dynamic=False)
    assert is_open([[*record] for record in opened.program.records])
    settled = opened.program.settled()
    assert settled.sizes is None and not settled.choices
    assert not any(is_open(getattr(settled, name)) for name in OPEN)
    assert [[*record] for record in settled.records] == [[*record] for record in alone.program.records]
    assert settled.arena_bytes == alone.program.arena_bytes
    assert [name in {*opened.functions.modules} for name in settled.functions] == [True] * settled.count
    assert settled.settled() is settled


def test_results_are_found_by_place(monkeypatch: pytest.MonkeyPatch) -> None:
    (runner,) = runners(monkeypatch, [4])
    made = [place for place, _, _ in runner.program.made]
    assert results_of(runner.program, [made[1], ("input", 0), made[0], 99]) == [
        ("item", runner.program.inputs + 1),
        ("input", 0),
        ("item", runner.program.inputs),
        ("place", 99),
    ]
