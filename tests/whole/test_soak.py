"""Many compiles in one process: memory does not grow. The long form is `benchmarks/soak.py`."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from weft.native.cpu import engine

PATH = Path(__file__).parents[2] / "benchmarks" / "soak.py"


def test_what_is_let_go_of_is_gone() -> None:
    spec = importlib.util.spec_from_file_location("soak", PATH)
    assert spec is not None and spec.loader is not None
    soak = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(soak)
    before = set(engine._modules.values())  # which other tests may hold
    assert soak.soak(60) < 12 << 20
    assert len(set(engine._modules.values()) - before) <= engine.LIVING
