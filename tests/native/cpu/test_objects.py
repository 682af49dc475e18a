"""Objects that ask for something are refused before they are loaded."""

from __future__ import annotations

import pytest

from weft.native.cpu.engine import Loaded, compiled, host, llvm, target
from weft.native.cpu.objects import check, undefined
from weft.native.target import Uncompiled

ALONE = """
@table = private constant [4 x i32] [i32 1, i32 2, i32 3, i32 4]
define i32 @inner(i64 %i) {
  %p = getelementptr i32, ptr @table, i64 %i
  %v = load i32, ptr %p
  ret i32 %v
}
define i32 @outer(i64 %i) {
  %v = call i32 @inner(i64 %i)
  %w = call i32 @llvm.ctpop.i32(i32 %v)
  ret i32 %w
}
declare i32 @llvm.ctpop.i32(i32)
"""
ASKING = """
declare double @tgamma(double)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
define double @f(double %x, ptr %p, i64 %n) {
  call void @llvm.memset.p0.i64(ptr %p, i8 0, i64 %n, i1 false)
  %y = call double @tgamma(double %x)
  ret double %y
}
"""


def object_of(text: str) -> bytes:
    host()
    return bytes(target(2).emit_object(llvm.parse_assembly(text)))


def test_an_object_that_stands_alone() -> None:
    assert undefined(object_of(ALONE)) == []
    assert Loaded(ALONE).address("outer")


def test_functions_and_what_llvm_itself_calls_are_seen() -> None:
    assert sorted(undefined(object_of(ASKING))) == ["memset", "tgamma"]
    with pytest.raises(Uncompiled, match="machine code that calls .*tgamma"):
        compiled(ASKING, 2)


def test_an_object_that_asks_is_neither_loaded_nor_kept(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path / "cache"))
    with pytest.raises(Uncompiled, match="tgamma"):
        Loaded(ASKING)
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_at_all_levels(level: int) -> None:
    with pytest.raises(Uncompiled, match="tgamma"):
        compiled(ASKING, level)


def test_what_is_no_object_is_refused() -> None:
    whole = object_of(ALONE)
    for content in (b"", b"\x7fELF", b"MZ" + bytes(100), whole[:40], whole[:100], whole[:-64]):
        with pytest.raises(Uncompiled):
            check(content)


def test_texts_that_llvm_refuses() -> None:
    with pytest.raises(Uncompiled, match="LLVM rejects the generated text"):
        Loaded("define void @f() { ret i32 }")
    with pytest.raises(Uncompiled, match="lacks the function other"):
        Loaded(ALONE).address("other")
