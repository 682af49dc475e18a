"""Guards on modes and settings around a call."""

from __future__ import annotations

import weft
from tests.capture.watchful import (
    check,
)
from weft.capture.guards import (
    Guard,
)
from weft.core import modes
from weft.core.dtypes import get_default_dtype


def test_modes() -> None:
    on, off = Guard("MODE", None, True), Guard("MODE", None, False)
    assert check(on) and not check(off)
    with weft.no_grad():
        assert check(off) and not check(on)
    with weft.inference_mode():
        inference = Guard("MODE", None, modes.current())
        assert check(inference) and not check(on) and not check(off)
        assert "inference=True" in str(inference)
    assert not check(inference)
    with weft.inference_mode():
        assert check(inference)


def test_modes_with_objects() -> None:
    with weft.autocast("cpu", dtype=weft.bfloat16):
        guard = Guard("MODE", None, modes.current())
        assert check(guard)
        with weft.no_grad():
            assert not check(guard)
    assert not check(guard)


def test_ambient_settings() -> None:
    guard = Guard("AMBIENT", None, (get_default_dtype, weft.float32))
    assert check(guard) and str(guard) == "get_default_dtype() == weft.float32"
    weft.set_default_dtype(weft.float64)
    try:
        assert not check(guard)
    finally:
        weft.set_default_dtype(weft.float32)
