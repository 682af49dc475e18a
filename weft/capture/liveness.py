"""Liveness: which locals a function may still read after a given instruction.

Takes a code object, gives for each instruction the names whose values matter from there on. One idea: the
usual backward sweep over the canonical set, where whatever a handler reads is live at all that it covers.
"""

from __future__ import annotations

from functools import lru_cache
from types import CodeType
from typing import Final

from weft.capture.bytecode.instructions import JUMP_OPS, Bytecode, decode

READS: Final = frozenset({"LOAD_FAST", "DELETE_FAST", "LOAD_FAST_AND_CLEAR", "MAKE_CELL"})
WRITES: Final = frozenset({"STORE_FAST", "DELETE_FAST", "LOAD_FAST_AND_CLEAR", "MAKE_CELL"})
ENDS: Final = frozenset({"RETURN_VALUE", "RAISE_VARARGS", "RERAISE", "JUMP"})

LOOK_AT_FRAMES: Final = frozenset({"locals", "vars", "eval", "exec", "dir", "_getframe", "currentframe"})
"""Names of functions that show a frame's locals: where one is mentioned, every local is live."""


@lru_cache(maxsize=4096)
def live_before(code: CodeType) -> tuple[frozenset[str], ...]:
    """For each canonical instruction, the locals that may be read from there on."""
    bytecode = decode(code)
    count = len(bytecode.instructions)
    if LOOK_AT_FRAMES & set(code.co_names):
        return (frozenset(code.co_varnames),) * count
    always = frozenset(code.co_varnames[:1]) if _calls_super(code) else frozenset()
    live = [always] * count
    changed = True
    while changed:
        changed = False
        for index in range(count - 1, -1, -1):
            now = _live_at(bytecode, index, live) | always
            if now != live[index]:
                live[index] = now
                changed = True
    return tuple(live)


def _live_at(bytecode: Bytecode, index: int, live: list[frozenset[str]]) -> frozenset[str]:
    instruction = bytecode.instructions[index]
    after: frozenset[str] = frozenset()
    if instruction.op not in ENDS and index + 1 < len(live):
        after = live[index + 1]
    if instruction.op in JUMP_OPS:
        after |= live[instruction.arg]
    if instruction.op in WRITES:
        after -= {instruction.arg}
    elif instruction.op == "RESTORE_FAST":
        after -= {instruction.arg[0]}
    if instruction.op in READS:
        after |= {instruction.arg}
    handler = bytecode.handlers[index]
    return after if handler is None else after | live[handler.target_index]


def _calls_super(code: CodeType) -> bool:
    """Zero-argument `super()` reads the first argument from the frame."""
    return "__class__" in code.co_freevars or "super" in code.co_names
