"""Assembling for processors that this machine has not: what tests of texts share."""

from __future__ import annotations

from functools import cache
from typing import Any

import llvmlite.binding as llvm

from weft.native.cpu.objects import undefined

TRIPLES = ("x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu")
OTHER = "aarch64-unknown-linux-gnu"
MACHINES = {"x86_64": 62, "aarch64": 183}
"""What an ELF file says of the processor that it is for."""


@cache
def target(triple: str, level: int) -> Any:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    return llvm.Target.from_triple(triple).create_target_machine(opt=level, jit=True)


def assembled(text: str, triple: str = OTHER, level: int = 2) -> bytes:
    """The object of a text for another processor, which asks for nothing from outside."""
    with llvm.parse_assembly(text) as module:
        module.verify()
        content = bytes(target(triple, level).emit_object(module))
    assert content[:4] == b"\x7fELF"
    assert int.from_bytes(content[18:20], "little") == MACHINES[triple.partition("-")[0]]
    assert undefined(content) == []
    return content
