"""The backends that every case of users runs on."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from tests.capture.features import harness

BACKENDS = ("eager", "aot_eager")


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
def check(backend: str) -> Callable[..., Any]:
    """Eager against compiled, see tests/capture/features/harness.py."""
    # ahead of time, gradients of one tensor may be added in another order: Note [Tolerance] of snapshots
    return partial(harness.check, backend=backend, tape=True, tolerance=0.0 if backend == "eager" else 1e-12)
