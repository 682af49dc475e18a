"""Names of PyTorch's C module."""

from __future__ import annotations

import pytest

import weft
from weft.compat.torch_internals import bindings
from weft.compiler import settings


def test_loops_over_examples_can_be_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    values = weft.randn(3, 4)

    def looped(x: weft.Tensor) -> weft.Tensor:
        return weft.index_add(weft.zeros(4), 0, x.argsort(), x)

    monkeypatch.setattr(settings, "strict", False)
    before = bindings._is_vmap_fallback_enabled()
    bindings._set_vmap_fallback_enabled(False)
    try:
        with pytest.raises(RuntimeError, match="index_add has no batch rule"):
            weft.func.vmap(looped)(values)
    finally:
        bindings._set_vmap_fallback_enabled(before)
    with pytest.warns(UserWarning, match="There is a performance drop because index_add"):
        weft.func.vmap(looped)(values)
    bindings._debug_only_display_vmap_fallback_warnings(False)
    assert not bindings._debug_only_are_vmap_fallback_warnings_enabled()
    bindings._debug_only_display_vmap_fallback_warnings(True)
