"""Calls that no plan serves: which of them are errors under strict."""

from __future__ import annotations

import pytest

import weft


def floats(*shape):
    return weft.randn(*shape, dtype=weft.float64).requires_grad_()


def overlapping():
    base = weft.arange(6.0)
    return base[:4], base[2:]


def on_cpu(x):
    with weft.autograd.graph.save_on_cpu():
        return x.sin() * x


FALLBACKS = {
    "overlaps": (lambda x, y: (x.add_(1), y * 2)[1], overlapping, "overlaps another"),
    "hooks inside": (on_cpu, lambda: (floats(3),), "hooks for saved tensors are switched on inside"),
}
ASKED_FOR = {
    "anomalies": lambda: weft.autograd.detect_anomaly(check_nan=False),
    "saved": lambda: weft.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x),
}


@pytest.mark.parametrize("name", FALLBACKS)
def test_calls_that_run_as_captured_are_errors_under_strict(name, monkeypatch):
    function, arguments, reason = FALLBACKS[name]
    compiled = weft.compile(function, backend="aot_eager")
    compiled(*arguments())
    monkeypatch.setattr(weft.compiler.settings, "strict", True)
    for _ in range(2):
        with pytest.raises(weft.compiler.NotCompiled, match=reason):
            compiled(*arguments())


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
