"""Calls that no plan serves: those in which somebody looks on are no errors under strict."""

from __future__ import annotations

import pytest

import weft


def floats(*shape):
    return weft.randn(*shape, dtype=weft.float64).requires_grad_()


ASKED_FOR = {
    "anomalies": lambda: weft.autograd.detect_anomaly(check_nan=False),
    "saved": lambda: weft.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x),
}


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
@pytest.mark.parametrize("name", ASKED_FOR)
def test_what_wants_to_see_eager_code_is_no_error(name, monkeypatch):
    monkeypatch.setattr(weft.compiler.settings, "strict", True)
    compiled = weft.compile(lambda x: x.sin() * x, backend="aot_eager")
    x = floats(3)
    compiled(x)
    weft.compiler.counters.clear()
    with ASKED_FOR[name]():
        weft.testing.assert_close(compiled(x), x.sin() * x)
