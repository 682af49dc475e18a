"""Functions are left before every instruction they run and entered again: nothing must differ."""

from __future__ import annotations

import marshal
import sys
from collections.abc import Iterator
from types import CodeType, FrameType, FunctionType

import pytest

from tests.capture.bytecode.corpus import CASES, EFFECTS, Case, Derived, Manager
from tests.capture.bytecode.snapshots import (
    Outcome,
    advance,
    call,
    first_visits,
    in_new_thread,
    left_at,
    outcome,
    resumed,
    run,
    take,
    visits,
    warm_up,
)
from weft.capture.bytecode.instructions import decode
from weft.capture.bytecode.native import read_instructions
from weft.capture.bytecode.resume import (
    CannotResume,
    ResumePoint,
    StackKind,
    original_code,
    original_index,
    resume_code,
)

warm_up()


def entries(code: CodeType) -> dict[int, list[int]]:
    """The instructions that can be entered while native code stands at an offset."""
    found: dict[int, list[int]] = {}
    for index, entry in enumerate(decode(code).entries):
        if (
            not entry.rest
            and entry.slots is not None
            and (code is original_code(code) or in_body(code, index))
        ):
            found.setdefault(entry.offset, []).append(index)
    return found


def in_body(code: CodeType, index: int) -> bool:
    """Whether an instruction of resumed code is one of the original, not one that prepares the stack."""
    try:
        original_index(code, index)
    except ValueError:
        return False
    return True


def continued(frame: FrameType, index: int) -> Outcome:
    case = resumed(take(frame, index, sys.exc_info()[1]))
    return in_new_thread(lambda: outcome(lambda: call(case)))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_instruction_can_be_entered(case: Case) -> None:
    expected = run(case)
    indices = entries(case.function.__code__)
    entered = 0
    for visit, offset in first_visits(visits(case)):
        for index in indices.get(offset, ()):
            EFFECTS.clear()
            got = left_at(case, visit, lambda frame, index=index: continued(frame, index))
            assert got == expected, str(decode(case.function.__code__).instructions[index])
            entered += 1
    assert entered > 3


def parts(code: CodeType) -> dict[int, list[int]]:
    """Native offset -> the instructions in which that native one has to be entered in its middle."""
    starts = {native.end: native.start for native in read_instructions(code)}
    found: dict[int, list[int]] = {}
    for index, entry in enumerate(decode(code).entries):
        if entry.rest and entry.slots is not None:
            found.setdefault(starts[entry.offset], []).append(index)
    return found


def continued_inside(frame: FrameType, index: int) -> Outcome | None:
    """Goes to `index` by hand, from the first part of its native instruction."""
    instructions = decode(frame.f_code).instructions
    offset = instructions[index].offset
    first = next(each.index for each in instructions if each.offset == offset)
    snapshot = take(frame, first, sys.exc_info()[1])
    while snapshot.index < index:
        if not advance(snapshot, frame.f_globals):
            return None
    case = resumed(snapshot)
    return in_new_thread(lambda: outcome(lambda: call(case)))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_instructions_that_have_parts_can_be_entered_in_the_middle(case: Case) -> None:
    expected = run(case)
    indices = parts(case.function.__code__)
    for visit, offset in first_visits(visits(case)):
        for index in indices.get(offset, ()):
            EFFECTS.clear()
            got = left_at(case, visit, lambda frame, index=index: continued_inside(frame, index))
            instruction = decode(case.function.__code__).instructions[index]
            assert got is None or got == expected, str(instruction)


def test_parts_are_met() -> None:
    """Every version has instructions of several parts, and the corpus has some."""
    assert sum(len(parts(case.function.__code__)) for case in CASES) > 20


def left_twice(case: Case, first: int, index: int, second: int) -> Outcome | None:
    """Leaves the original at one visit, and what was resumed there at another; None if it ends before."""

    def leave(frame: FrameType) -> Outcome | None:
        inner = resumed(take(frame, index, sys.exc_info()[1]))
        indices = entries(inner.function.__code__)

        def leave_again(frame: FrameType) -> Outcome | None:
            found = indices.get(frame.f_lasti)
            return continued(frame, found[-1]) if found else None

        return in_new_thread(lambda: left_at(inner, second, leave_again))

    EFFECTS.clear()
    return left_at(case, first, leave)


def some_pairs(case: Case) -> Iterator[tuple[int, int, int]]:
    """A few places to leave the original at, and a few later ones each."""
    indices = entries(case.function.__code__)
    seen = [(visit, offset) for visit, offset in first_visits(visits(case), 1) if offset in indices]
    for visit, offset in seen[:: max(1, len(seen) // 4)]:
        for second in range(4, len(seen) + 20, max(5, len(seen) // 3)):
            yield visit, indices[offset][0], second


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_resumed_code_can_be_left_again(case: Case) -> None:
    expected = run(case)
    results = [left_twice(case, *pair) for pair in some_pairs(case)]
    assert [got for got in results if got is not None and got != expected] == []
    assert any(results)


# The interface, by hand


def stepping(self, n, *rest, key=1):
    total = 0
    for i in range(n):
        total += outside(i, key=key)
    if total > n:
        late = total
    return total, late, rest, self


def outside(i: int, key: int) -> int:
    return i * key


def call_of(function: object, name: str) -> int:
    """The index of the instruction that calls the global `name`."""
    instructions = decode(function.__code__).instructions
    load = next(each.index for each in instructions if each.op == "LOAD_GLOBAL" and each.arg == name)
    return next(each.index for each in instructions[load:] if each.op in ("CALL", "CALL_KW"))


V, N = StackKind.VALUE, StackKind.NULL


def test_parameters_are_arguments_then_locals_then_the_stack() -> None:
    index = call_of(stepping, "outside")
    bound = frozenset({"self", "n", "key", "rest", "total", "i"})
    point = resume_code(stepping.__code__, index, (V, V, V, N, V, V), bound)
    assert [(each.kind, each.name) for each in point.parameters[:6]] == [
        ("local", name) for name in ("self", "n", "key", "rest", "total", "i")
    ]
    assert [(each.kind, each.slot) for each in point.parameters[6:]] == [
        ("stack", slot) for slot in (0, 1, 2, 4, 5)
    ]
    assert point.code.co_name == "stepping"
    iterator = iter(range(1, 3))
    function = FunctionType(point.code, globals())
    assert function("s", 3, 7, (), 0, 0, iterator, 0, outside, 0, 7) == stepping("s", 3, key=7)


def test_a_loop_that_breaks_at_one_place_comes_back_to_the_same_code() -> None:
    index = call_of(stepping, "outside") + 1  # after the call, its result on top
    bound = frozenset({"self", "n", "key", "rest", "total", "i"})
    first = resume_code(stepping.__code__, index, (V, V, V), bound)
    inner = decode(first.code)
    again = next(each.index for each in inner.instructions if original(first, each.index) == index)
    names = frozenset(first.code.co_varnames) - {".stack0", ".stack1", ".stack2", "late"}
    second = resume_code(first.code, again, (V, V, V), names)
    third_index = next(
        each.index for each in decode(second.code).instructions if original(second, each.index) == index
    )
    third = resume_code(second.code, third_index, (V, V, V), names)
    assert third.code is second.code
    assert third.original is stepping.__code__
    assert len(second.code.co_code) == len(first.code.co_code)


def original(point: ResumePoint, index: int) -> int | None:
    return original_index(point.code, index) if in_body(point.code, index) else None


def test_unbound_locals_stay_unbound() -> None:
    instructions = decode(stepping.__code__).instructions
    index = next(each.index for each in instructions if each.op == "LOAD_FAST" and each.arg == "late") - 1
    point = resume_code(stepping.__code__, index, (), frozenset({"self", "n", "rest", "total"}))
    function = FunctionType(point.code, globals())
    with pytest.raises(UnboundLocalError, match="late"):
        function(None, 1, (), 0)


def test_a_local_that_is_missing_is_an_error_and_no_crash() -> None:
    instructions = decode(stepping.__code__).instructions
    index = next(each.index for each in instructions if each.op == "LOAD_FAST" and each.arg == "late") - 1
    point = resume_code(stepping.__code__, index, (), frozenset())
    with pytest.raises(UnboundLocalError, match="total"):
        FunctionType(point.code, globals())()


def guarded(manager, a):
    try:
        with manager:
            outside(a)
    except ValueError as error:
        return str(error), error.__context__, sys.exc_info()[1] is error
    finally:
        EFFECTS.append("finally")


def test_a_handler_is_entered_with_an_exception_raised_natively() -> None:
    code = guarded.__code__
    index = call_of(guarded, "outside")
    handler = decode(code).handlers[index]
    assert handler is not None
    manager = Manager()
    try:
        raise ValueError("native")
    except ValueError as error:
        stack = [manager.__exit__, decode(code).instructions[index].offset // 2, error]
    assert (handler.depth, handler.lasti) == (1, True)
    point = resume_code(code, handler.target_index, (V, V, V), frozenset({"manager", "a"}))
    EFFECTS.clear()
    assert FunctionType(point.code, globals())(manager, 1, *stack) == ("native", None, True)
    assert EFFECTS == [("exit", "ValueError", "native"), "finally"]


@pytest.mark.parametrize(
    ("function", "index", "stack", "bound", "message"),
    [
        (stepping, 1, (), {"self"}, "the stack has 1 values, not 0"),
        (stepping, 1, (N,), {"self"}, "cannot be NULL"),
        (stepping, 1, (StackKind.EXCEPTION,), {"self"}, "cannot be EXCEPTION"),
        (Derived.method, 0, (), {"value"}, "needs 'self'"),
    ],
)
def test_what_would_crash_is_refused(function, index, stack, bound, message) -> None:
    with pytest.raises(CannotResume, match=message):
        resume_code(function.__code__, index, stack, frozenset(bound))


def test_bodies_of_modules_are_refused() -> None:
    with pytest.raises(CannotResume, match="module and class bodies"):
        resume_code(compile("x = 1\ny = 2", "m", "exec"), 2)


def test_resumed_code_can_be_saved() -> None:
    point = resume_code(stepping.__code__, 0, (), frozenset({"self", "n", "rest", "key"}))
    again = marshal.loads(marshal.dumps(point.code))
    assert FunctionType(again, globals())("s", 3, 2, ()) == stepping("s", 3, key=2)
    assert original_code(again) == stepping.__code__


def many_locals() -> str:
    names = [f"v{number}" for number in range(300)]
    lines = [f"    {name} = {number}" for number, name in enumerate(names)]
    return "def many(a):\n" + "\n".join(lines) + f"\n    a += 1\n    return a, {', '.join(names)}\n"


def test_more_slots_than_a_byte_counts() -> None:
    namespace: dict[str, FunctionType] = {}
    exec(many_locals(), namespace)
    many = namespace["many"]
    instructions = decode(many.__code__).instructions
    index = next(each.index for each in instructions if each.op == "BINARY_OP")
    names = frozenset(many.__code__.co_varnames)
    point = resume_code(many.__code__, index, (V, V), names)
    assert FunctionType(point.code, {})(5, *range(300), 5, 1) == many(5)
    inner = decode(point.code)
    again = next(each.index for each in inner.instructions if original(point, each.index) == index)
    assert resume_code(point.code, again, (V, V), names).code.co_argcount == 303
