"""Fixtures: everything forgotten before each test, and a record of which backward ran."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import weft
from weft.autograd.function_apply import Captured
from weft.compiler import counters


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    weft.set_grad_enabled(True)  # generators that were dropped elsewhere may have left it off
    weft.compiler.reset()
    counters.clear()
    weft.compiler.settings.strict = True  # put back by the fixture around all tests of capture
    yield


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For every backward of a captured Function: whether its graph ran, and not the user's function."""
    seen: list[bool] = []
    plain = Captured.values

    def values(self: Captured, *args: Any) -> Any:
        found = plain(self, *args)
        seen.append(found is not None)
        return found

    monkeypatch.setattr(Captured, "values", values)
    return seen
