"""Marks of VTune's, which are not there."""

from __future__ import annotations

import pytest

from weft.profiler import itt


def test_programs_may_ask():
    assert not itt.is_available()
    for call in (lambda: itt.mark("here"), lambda: itt.range_push("here"), itt.range_pop):
        with pytest.raises(RuntimeError, match="ITT functions not installed"):
            call()
    with pytest.raises(RuntimeError, match="ITT functions not installed"), itt.range("step {}", 1):
        pytest.fail("entered")
