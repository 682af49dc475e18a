"""Raising branches: which way a data-dependent branch goes, where the other way does nothing but raise.

Takes a frame at a conditional jump on a value that is known only at run time; gives the truth that leads on,
or None where both ways do. One idea: any answer is sound, for the graph checks it before it has any effect
and is thrown away where it is wrong; so this asks only for code that is written for the case of an error.

# Note [Branches that raise]
    assert ok, f"loss is {loss}"             one way ends in a raise, whatever it does before
    if isnan(loss): log(loss); raise Bad     likewise
    assert all(ok(p) for p in parts)         likewise, and so each of the parts is required
    try: check(x)                            what check raises is handled, and both ways lead on: no answer
    except Bad: x = 0
    def __next__(self):                      an end of iteration is no error: no answer
        if done(x): raise StopIteration
    while True:                              the way that does not raise never leaves: no answer, as capture
        if done(x): raise Stop               would follow it for ever
"""

from __future__ import annotations

from functools import lru_cache
from types import CodeType
from typing import TYPE_CHECKING, Any, Final

from weft.capture.bytecode.instructions import JUMP_OPS, decode
from weft.capture.frame import Frame
from weft.tensor.base import PLAIN, Tensor
from weft.trace.scalars import is_untold

if TYPE_CHECKING:
    from weft.capture.machine import Machine

RAISES: Final = frozenset({"RAISE_VARARGS", "RERAISE"})
LEAVES: Final = frozenset({"RETURN_VALUE", "YIELD_VALUE"})
ENDS_OF_ITERATION: Final = frozenset({"StopIteration", "StopAsyncIteration", "GeneratorExit"})
RAISED, LEFT = "raised", "left"


def expected_truth(frame: Frame, target: int, truth: bool, index: int | None = None) -> bool | None:
    """The truth on which a jump leads on that goes to `target` on `truth`; before `index`, or now."""
    ways = [_ends(frame.code, place) for place in (frame.index if index is None else index, target)]
    if not is_uncaught(frame):
        return None
    if ways[1] == {RAISED} and LEFT in ways[0]:
        return not truth
    if ways[0] == {RAISED} and LEFT in ways[1]:
        return truth
    return None


def awaited_truth(frame: Frame) -> bool | None:
    """The truth of what the present instruction gives on which the jump behind it leads on, if one is."""
    instructions, index = frame.bytecode.instructions, frame.index
    negated = False
    while (instructions[index].op, instructions[index].arg) == ("UNARY", "not"):
        negated, index = not negated, index + 1
    jump = instructions[index]
    if jump.op not in ("POP_JUMP_IF_TRUE", "POP_JUMP_IF_FALSE"):
        return None
    found = expected_truth(frame, jump.arg, jump.op == "POP_JUMP_IF_TRUE", index + 1)
    return found if found is None else found is not negated


def required(machine: Machine, condition: Any) -> bool:
    """Whether a condition of a call that raises where it does not hold is left to the graph to check."""
    frame = machine.frame
    assert frame is not None
    if not isinstance(condition, Tensor) and not is_untold(condition) or not is_uncaught(frame):
        return False
    handler = frame.bytecode.handlers[frame.instruction.index]
    if handler is not None and _ends(frame.code, handler.target_index) != {RAISED}:
        return False
    return require(machine, condition, True)


def require(machine: Machine, condition: Any, truth: bool) -> bool:
    """Writes down that a tensor or number has this truth wherever the graph is used; False where it cannot
    be so.
    """
    recorder = machine.recorder
    if recorder.graph is not recorder.outermost and recorder.graph is not recorder.checked:
        return False
    if is_untold(condition):
        condition = machine.scalars.truth_of(condition)
    elif type(condition) not in PLAIN or condition.numel() != 1:  # asking for its truth is an error
        return False
    assert machine.frame is not None
    file, line, _function = machine.frame.place()
    recorder.require(condition, truth, f"{file.rpartition('/')[2]}:{line}")
    return True


def is_uncaught(frame: Frame) -> bool:
    """Whether nothing in the frames that called this one handles what it raises, and goes on."""
    caller = frame.parent
    while caller is not None:
        handler = caller.bytecode.handlers[caller.instruction.index]
        if handler is not None and _ends(caller.code, handler.target_index) != {RAISED}:
            return False
        caller = caller.parent
    return True


@lru_cache(maxsize=4096)
def _ends(code: CodeType, start: int) -> frozenset[str]:
    """How the code may end from an instruction on; what may fail on the way is taken not to."""
    bytecode = decode(code)
    instructions = bytecode.instructions
    found: set[str] = set()
    seen: set[int] = set()
    waiting = [start]
    while waiting:
        index = waiting.pop()
        if index in seen:
            continue
        seen.add(index)
        op, arg = instructions[index].op, instructions[index].arg
        handler = bytecode.handlers[index]
        if op in LEAVES or (op == "LOAD_GLOBAL" and arg in ENDS_OF_ITERATION):
            found.add(LEFT)
        elif op in RAISES:
            if handler is None:
                found.add(RAISED)
            else:
                waiting.append(handler.target_index)
        elif op == "JUMP":
            waiting.append(arg)
        else:
            waiting.append(index + 1)
            leaves_with = instructions[index - 1].op == "WITH_EXCEPT_START"  # which seldom swallows errors
            if op in JUMP_OPS and not leaves_with:
                waiting.append(arg)
    return frozenset(found)
