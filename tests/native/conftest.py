"""Fallbacks are errors here: a test that passes op by op would say nothing of programs. `programs` are those
that are made while a test runs.
"""

from __future__ import annotations

from typing import Any

import pytest

import weft
from weft.core.settings import settings
from weft.native.program import executable as run
from weft.native.program.executable import Executable


@pytest.fixture(autouse=True)
def strict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "strict", True)


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> list[Executable]:
    found: list[Executable] = []
    before = run.Executable.__init__

    def noted(self: Any, *args: Any, **options: Any) -> None:
        before(self, *args, **options)
        found.append(self)

    monkeypatch.setenv("WEFT_CACHE", "0")  # programs are made, not read
    monkeypatch.setattr(run.Executable, "__init__", noted)
    weft.compiler.reset()
    return found
