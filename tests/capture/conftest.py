"""What tests of capture share: each starts and ends with plain modes and the settings it found."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest

from weft.core import modes
from weft.core.settings import settings


@pytest.fixture(autouse=True)
def plain_surroundings() -> Iterator[None]:
    """Programs under test may leave a grad mode or a setting behind, as their authors meant them to."""
    kept = {field.name: getattr(settings, field.name) for field in dataclasses.fields(settings)}
    modes.state.set(True)
    yield
    modes.state.set(True)
    for name, value in kept.items():
        if getattr(settings, name) != value:
            setattr(settings, name, value)
