"""Fallbacks are errors here: a test that passes op by op would say nothing of programs. `programs` are those
that are made while a test runs.
"""

from __future__ import annotations

from typing import Any

import pytest

import weft
from weft.core.settings import settings
from weft.native.cpu import runner as run
from weft.native.cpu.runner import Runner


@pytest.fixture(autouse=True)
def strict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "strict", True)


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> list[Runner]:
    found: list[Runner] = []
    before = run.Runner.__init__

    def noted(self: Any, *args: Any, **options: Any) -> None:
        before(self, *args, **options)
        found.append(self)

    monkeypatch.setenv("WEFT_CACHE", "0")  # programs are made, not read
    monkeypatch.setattr(run.Runner, "__init__", noted)
    weft.compiler.reset()
    return found
