"""The machine and its collaborators: who holds what, who needs whom, and what is left when it lets go."""

from __future__ import annotations

import re
from pathlib import Path

from weft.capture.machine import Machine

REPOSITORY = Path(__file__).resolve().parents[2]


def entry():
    return None


def collaborators(machine):
    return {name: held for name, held in vars(machine).items() if getattr(held, "machine", None) is machine}


def test_forgetting_empties_the_machine_and_its_collaborators():
    machine = Machine(entry)
    parts = collaborators(machine)
    assert len(parts) == 12 and not machine.generators.over
    machine.forget()
    assert not vars(machine) and not any(map(vars, parts.values()))
    assert parts["generators"].over  # what dies later dies quietly
    assert machine.where() is None


def test_the_documented_table_says_who_needs_whom():
    names = list(collaborators(Machine(entry)))
    text = (REPOSITORY / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \|.*\| ([^|]*) ?\|$", text, re.MULTILINE))
    assert [name for name in rows if name in names] == names
    for name in names:
        source = (REPOSITORY / "weft" / "capture" / f"{name}.py").read_text(encoding="utf-8")
        needed = {other for other in names if re.search(rf"\bmachine\.{other}\b", source)} - {name}
        assert set(re.findall(r"`(\w+)`", rows[name])) == needed, name
