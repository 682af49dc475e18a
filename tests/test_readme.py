"""README's example runs, and does what it says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import weft

README = Path(__file__).resolve().parent.parent / "README.md"


def test_the_example_learns() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    weft.manual_seed(0)
    first: dict[str, Any] = {}
    exec(compile(code.replace("range(100)", "range(1)"), str(README), "exec"), first)
    weft.manual_seed(0)
    last: dict[str, Any] = {}
    exec(compile(code, str(README), "exec"), last)
    assert last["loss"].item() < 0.25 * first["loss"].item()
