"""Fallbacks are errors here: a test that passes op by op would say nothing of programs."""

from __future__ import annotations

import pytest

from weft.core.settings import settings


@pytest.fixture(autouse=True)
def strict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "strict", True)
