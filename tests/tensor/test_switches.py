"""Switches are kept and told, and wrong values are refused with PyTorch's words."""

from __future__ import annotations

import pytest

import weft


def test_determinism():
    assert not weft.are_deterministic_algorithms_enabled()
    weft.use_deterministic_algorithms(True, warn_only=True)
    try:
        assert weft.are_deterministic_algorithms_enabled()
        assert weft.is_deterministic_algorithms_warn_only_enabled()
        assert weft.get_deterministic_debug_mode() == 1
        weft.set_deterministic_debug_mode("error")
        assert weft.get_deterministic_debug_mode() == 2
        with pytest.raises(RuntimeError, match="expected 0, 1, or 2, but got 5"):
            weft.set_deterministic_debug_mode(5)
    finally:
        weft.set_deterministic_debug_mode(0)
    assert not weft.are_deterministic_algorithms_enabled()


def test_precision_and_warnings():
    assert weft.get_float32_matmul_precision() == "highest"
    weft.set_float32_matmul_precision("high")
    assert weft.get_float32_matmul_precision() == "high"
    weft.set_float32_matmul_precision("highest")
    with pytest.raises(RuntimeError, match="'highest', 'high', or 'medium'"):
        weft.set_float32_matmul_precision("low")
    assert not weft.is_warn_always_enabled() and not weft.set_flush_denormal(True)


def test_flags_are_bools() -> None:
    with pytest.raises(TypeError, match=r"argument 'mode' \(position 1\) must be bool, not int"):
        weft.use_deterministic_algorithms(2)
    with pytest.raises(TypeError, match="argument 'warn_only' must be bool, not int"):
        weft.use_deterministic_algorithms(True, warn_only=2)
    assert not weft.are_deterministic_algorithms_enabled()
