"""The pool's text: what it takes and gives, for every kind of processor that is known."""

from __future__ import annotations

import llvmlite.binding as llvm
import pytest

from tests.native.targets import TRIPLES, assembled
from weft.native.cpu import calls, pool_text
from weft.native.cpu.processor import processor


@pytest.mark.parametrize("level", [0, 2])
@pytest.mark.parametrize("triple", TRIPLES)
def test_pool_and_calls_assemble(triple: str, level: int) -> None:
    text = pool_text.text(processor(triple)) + calls.text()
    assembled(text, triple, level)
    with llvm.parse_assembly(text) as module:
        names = {each.name for each in module.functions if not each.is_declaration}
    assert names >= {"worker", "share", "run", "go", "bunch", "call", "prepare", "steps"}


@pytest.mark.parametrize("triple", TRIPLES)
def test_nothing_is_said_of_other_processors(triple: str) -> None:
    """Numbers and intrinsics of one kind stand in no other kind's text, and no clock of a processor's own."""
    text = pool_text.text(processor(triple))
    for other in TRIPLES:
        kind = processor(other)
        for words in (kind.pause, f"(i64 {kind.futex}, ptr %state"):
            assert (words in text) is (other == triple)
    assert "cycle" not in text
