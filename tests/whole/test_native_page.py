"""The page of the native backend: its examples run, and it names what there is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import weft
from weft.core.logs import TOPICS
from weft.core.settings import settings
from weft.native.cpu import engine
from weft.native.program import cache

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "native.md"
TEXT = PAGE.read_text(encoding="utf-8")


def test_examples_run(capsys: pytest.CaptureFixture[str]) -> None:
    space: dict[str, Any] = {}
    examples = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    assert len(examples) == 3
    try:
        for code in examples:
            exec(compile(code, str(PAGE), "exec"), space)
    finally:
        settings.nan_trace = False
    said = capsys.readouterr().out
    assert space["x"].grad is not None
    assert "Native Program 1:" in said and f"{PAGE}:{space['f'].__code__.co_firstlineno + 1} in f" in said
    assert re.search("NaN comes from log", said)
    results = weft.compile(space["f"], backend="reference")(space["x"], space["w"])
    weft.testing.assert_close(results, space["f"](space["x"], space["w"]))


def test_topics_and_variables_are_named() -> None:
    native = ("fusion", "kernels", "llvm", "asm", "memory", "entries", "cache")
    assert re.findall(r"^\| `(\w+)` \|", TEXT[TEXT.index("| topic |") : TEXT.index("explain")], re.M) == [
        *native
    ]
    assert set(native) <= set(TOPICS)
    for name in cache.VARIABLES:
        assert name == "HOME" or f"`{name}`" in TEXT
    assert f"| {cache.DEFAULT_SIZE} |" in TEXT and f"latest {engine.LIVING} modules" in TEXT


def test_files_are_there() -> None:
    table = TEXT[TEXT.index("| step |") : TEXT.index("A program is made")]
    for name in re.findall(r"`([\w*]+\.py)`", table):
        assert list((ROOT / "weft" / "native").glob(name)), name
