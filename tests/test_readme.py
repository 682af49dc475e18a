"""README's example runs, and does what it says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import weft

README = Path(__file__).resolve().parent.parent / "README.md"


def examples() -> list[str]:
    return re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)


def test_the_example_learns() -> None:
    code = examples()[0]
    weft.manual_seed(0)
    first: dict[str, Any] = {}
    exec(compile(code.replace("range(100)", "range(1)"), str(README), "exec"), first)
    weft.manual_seed(0)
    last: dict[str, Any] = {}
    exec(compile(code, str(README), "exec"), last)
    assert last["loss"].item() < 0.25 * first["loss"].item()


def test_the_captured_example_does_what_eager_does() -> None:
    weft.manual_seed(0)
    space: dict[str, Any] = {}
    exec(compile(examples()[1], str(README), "exec"), space)
    weft.manual_seed(0)
    eager: dict[str, Any] = {}
    exec(
        compile(examples()[1].replace("weft.compile(step, fullgraph=True)", "step"), str(README), "exec"),
        eager,
    )
    weft.testing.assert_close(space["result"], eager["result"])
    norms = space["recorder"].norms
    weft.testing.assert_close(norms, eager["recorder"].norms)
    assert len(norms) == 3


def test_the_whole_step_learns_in_one_graph() -> None:
    weft.manual_seed(0)
    space: dict[str, Any] = {}
    weft.compiler.counters.clear()
    code = examples()[2].replace("range(100)", "range(30)").replace("    step(", "    losses.append(step(")
    code = code.replace("requires_grad=True))", "requires_grad=True)))").replace(
        "for _", "losses = []\nfor _"
    )
    exec(compile(code, str(README), "exec"), space)
    losses = [loss.item() for loss in space["losses"]]
    assert losses[-1] < 0.5 * losses[0]
    assert weft.compiler.counters["stats"]["unique_graphs"] == 1
