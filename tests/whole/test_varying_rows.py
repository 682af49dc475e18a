"""The benchmark's programs whose sizes and numbers vary: how much is built for them, and eager's results."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import weft
from weft.aot import runtime
from weft.core.settings import settings

PATH = Path(__file__).resolve().parents[2] / "benchmarks" / "varying.py"


@pytest.fixture(scope="module")
def rows() -> Any:
    spec = importlib.util.spec_from_file_location("weft_varying", PATH)
    assert spec is not None and spec.loader is not None
    module: ModuleType = importlib.util.module_from_spec(spec)
    sys.modules["weft_varying"] = module  # its data classes look themselves up
    spec.loader.exec_module(module)
    return module.ROWS


def built(rows: Any, letter: str, calls: int, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many programs there are behind each call; all results are compared with eager ones."""
    monkeypatch.setattr(settings, "strict", True)
    monkeypatch.setenv("WEFT_CACHE", "0")
    weft.compiler.reset()
    weft.compiler.counters.clear()
    compiled = rows[letter].torch("weft", weft, lambda function: weft.compile(function, backend="native"))
    eager = rows[letter].torch("weft", weft, lambda function: function)
    found = []
    for number in range(calls):
        weft.manual_seed(number)
        ours = compiled(number)
        weft.manual_seed(number)
        weft.testing.assert_close(ours, eager(number), rtol=1e-3, atol=1e-5)
        found.append(weft.compiler.counters["built"]["programs"])
    weft.compiler.reset()
    return found


@pytest.mark.parametrize(
    ("letter", "calls", "most"),
    [("k", 40, 3), ("l", 16, 4), ("m", 10, 4), ("n", 16, 4), ("p", 60, 4), ("q", 20, 4)],
)
def test_sizes_take_few_programs(
    letter: str, calls: int, most: int, rows: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = dict(runtime.counters)
    made = built(rows, letter, calls, monkeypatch)
    assert 0 < made[-1] <= most
    assert weft.compiler.counters["built"]["plans"] <= 2
    for kind in ("fallbacks", "natives", "narrowed"):
        assert runtime.counters[kind] == before[kind], runtime.reasons[-1]


def test_a_step_that_drops_its_gradients_is_no_fallback(monkeypatch: pytest.MonkeyPatch) -> None:
    """What runs it natively is made when it has been served, and its inputs are others then."""
    monkeypatch.setattr(settings, "strict", True)
    weft.compiler.reset()
    net = weft.nn.Linear(3, 2)
    optimizer = weft.optim.SGD(net.parameters(), lr=0.1)

    def step(x: weft.Tensor, last: bool) -> None:
        (net(x) ** 2).sum().backward()
        if last:
            optimizer.step()
            optimizer.zero_grad()

    compiled = weft.compile(step, backend="native")
    before = runtime.counters["fallbacks"]
    for number in range(16):
        compiled(weft.ones(4, 3), number % 2 == 1)
    assert runtime.counters["fallbacks"] == before, runtime.reasons[-1]
    weft.compiler.reset()


@pytest.mark.parametrize("letter", "rstu")
def test_options_take_two_programs(letter: str, rows: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert built(rows, letter, 20, monkeypatch)[-1] <= 2
