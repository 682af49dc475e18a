"""What programs say of themselves."""

from __future__ import annotations

import gc
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import weft
from weft.core.logs import set_logs
from weft.native.cpu import engine


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    weft.compiler.reset()
    engine.forget()
    gc.collect()
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path))
    yield
    set_logs()


def f(x: weft.Tensor, w: weft.Tensor) -> weft.Tensor:
    y = weft.softmax(x * 2, -1)
    z = (y @ w).tanh()
    return z.sort(dim=0).values


def said(capsys: pytest.CaptureFixture[str], *topics: str) -> str:
    set_logs(*topics)
    with weft.no_grad():
        weft.compile(f, backend="native", fullgraph=True)(weft.ones(3, 40), weft.ones(40, 5))
    text = capsys.readouterr().err
    for topic in topics:
        assert f"[weft.compile.{topic}]" in text
    return text


LINE = f.__code__.co_firstlineno


def test_kernels(capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, "kernels")
    kernel = r"0: kernel over 3 x 40, folding .*softmax: %1 f32\[3, 40\] <- input 0 f32\[3, 40\]"
    assert re.search(kernel, text)
    assert "= mul.f32 %0, %1" in text and "sum of %" in text
    assert f"{__file__}:{LINE + 1} in f" in text


def test_fusion(capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, "fusion")
    assert re.search(r"1: product of 3 x 40 x 5 matmul: .* <- .*input 1 f32\[40, 5\]", text)
    assert "array kernel argsort" in text
    assert f"{__file__}:{LINE + 3} in f" in text


def test_memory(capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, "memory")
    assert re.search(r"a block of \d+ bytes, for \d+ bytes of values", text)
    assert re.search(r"0: %\d f32\[3, 40\] softmax, 480 bytes", text)


def test_llvm_and_asm(capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, "llvm", "asm")
    assert "define void @f" in text and "getelementptr" in text
    assert ".cfi_startproc" in text and "retq" in text


def test_llvm_is_shown_though_nothing_is_compiled(capsys: pytest.CaptureFixture[str]) -> None:
    said(capsys, "llvm")
    engine.forget()
    weft.compiler.reset()
    gc.collect()
    assert "define void @f" in said(capsys, "llvm", "cache")
    engine.forget()
    weft.compiler.reset()
    gc.collect()
    assert "retq" in said(capsys, "asm")


def test_cache(capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, "cache")
    assert re.search(r"object [0-9a-f]{16} missed", text)
    assert re.search(r"object [0-9a-f]{16} written, \d+ bytes", text)


def test_explain() -> None:
    output = weft.compiler.explain(f, backend="native")(weft.ones(3, 40), weft.ones(40, 5))
    text = str(output)
    assert len(output.programs) == 1
    assert "Native Program 1:\n  0: kernel over 3 x 40, folding" in text
    assert f"{__file__}:{LINE + 2} in f" in text
    assert output.graph_count == 1
    steps = list(output.stepping())
    assert "softmax" in steps[0].name and steps[0].writes[0].shape == (3, 40)
    assert weft.compiler.explain(f, backend="eager")(weft.ones(3, 40), weft.ones(40, 5)).programs == []
