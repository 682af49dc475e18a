"""Processors: what machine code of ours must know of the kind that it runs on.

Gives, by the first part of LLVM's triple, how a thread that spins says so, and the number by which Linux
knows `futex`; everything else (widths of vectors, clocks) is asked of LLVM or of the C library. One idea: a
kind that is not listed here gets no machine code, rather than wrong calls of its operating system.
"""

from __future__ import annotations

from typing import Final

from weft.core.records import record


@record(frozen=True, slots=True)
class Processor:
    """A kind of processor, under Linux."""

    pause: str
    """The intrinsic that makes a thread that waits in a loop leave the core to others for a moment."""
    argument: str
    """What that takes."""
    futex: int
    registers: int
    """How many vectors it holds; twice as many where they have 64 bytes."""
    fused: str = ""
    """The feature without which it cannot multiply and add at once; "" where all of the kind can."""
    halves: str = ""
    """The feature without which it does not convert float16; "" where all of the kind do."""

    def registers_of(self, vector_bytes: int) -> int:
        return 32 if vector_bytes == 64 else self.registers


KINDS: Final = {
    "x86_64": Processor("llvm.x86.sse2.pause", "", 202, 16, "+fma", "+f16c"),
    "aarch64": Processor("llvm.aarch64.isb", "i32 15", 98, 32),  # `yield` does nothing on most cores
}
YIELD: Final = "sched_yield"
CLOCK: Final = "clock_gettime"
"""Functions of the C library, which are the same for all kinds."""
MONOTONIC: Final = 1


def kind_of(triple: str) -> str:
    """The kind that a triple names."""
    return triple.partition("-")[0]


def processor(triple: str) -> Processor:
    """The processor of a triple; a KeyError where its kind is not known."""
    return KINDS[kind_of(triple)]
