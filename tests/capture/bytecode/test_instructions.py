"""Decoding: no unknown op, stacks that agree on every path, one listing on every version."""

from __future__ import annotations

import ast
import asyncio
import dataclasses
import dis
import inspect
import typing
from collections.abc import Iterator
from types import CodeType, ModuleType

import pytest

from tests.capture.bytecode import corpus
from weft.capture.bytecode.effects import FINAL_OPS
from weft.capture.bytecode.instructions import CANONICAL, JUMP_OPS, Bytecode, decode, stack_effect

MODULES = [ast, asyncio.tasks, dataclasses, dis, inspect, typing, corpus]


def codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes(constant)


def codes_of(module: ModuleType) -> Iterator[CodeType]:
    return codes(compile(inspect.getsource(module), module.__file__, "exec"))


def edges(bytecode: Bytecode, index: int, depth: int) -> Iterator[tuple[int, int]]:
    """(next instruction, stack depth there) for every way on from an instruction."""
    instruction = bytecode.instructions[index]
    if instruction.op in JUMP_OPS:
        pops, pushes = stack_effect(instruction.op, instruction.arg, jump=True)
        yield instruction.arg, depth - pops + pushes
    pops, pushes = stack_effect(instruction.op, instruction.arg)
    assert pops <= depth
    if instruction.op not in FINAL_OPS:
        yield index + 1, depth - pops + pushes
    handler = bytecode.handlers[index]
    if handler is not None:
        assert handler.depth <= depth
        yield handler.target_index, handler.depth + handler.lasti + 1


def depths(bytecode: Bytecode) -> dict[int, int]:
    found = {0: 0}
    pending = [0]
    while pending:
        index = pending.pop()
        for target, depth in edges(bytecode, index, found[index]):
            if target not in found:
                found[target] = depth
                pending.append(target)
            assert found[target] == depth, f"{bytecode.code.co_qualname}: {bytecode.instructions[target]}"
    return found


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_stacks_agree_on_every_path(module: ModuleType) -> None:
    for code in codes_of(module):
        bytecode = decode(code)
        assert {each.op for each in bytecode.instructions} <= CANONICAL
        found = depths(bytecode)
        for index, depth in found.items():
            kinds = bytecode.kinds(index)
            assert kinds is not None
            assert len(kinds) == depth


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_offsets_and_lines_are_native(module: ModuleType) -> None:
    for code in codes_of(module):
        bytecode = decode(code)
        lines = [positions[0] for positions in code.co_positions()]
        for each in bytecode.instructions:
            assert each.line == lines[each.offset // 2]
        assert [each.index for each in bytecode.instructions] == list(range(len(bytecode.instructions)))


def test_decoding_is_remembered() -> None:
    code = codes_of.__code__
    assert decode(code) is decode(code)


def listing(function: typing.Any) -> str:
    """What `print(decode(code))` shows, without addresses."""
    lines = []
    for each in decode(function.__code__).instructions:
        name = each.arg.co_name if isinstance(each.arg, CodeType) else each.arg
        lines.append(f"{each.index} {each.op}" + ("" if name is None else f" {name!r}"))
    return "\n".join(lines)


def calls(f, a, b):
    f.g(a)(*b, k=a[1:])
    return (f or b)(a, k=not b)


def test_calls_have_their_null_above_the_callable() -> None:
    assert listing(calls) == CALLS


CALLS = """\
0 LOAD_FAST 'f'
1 LOAD_METHOD 'g'
2 LOAD_FAST 'a'
3 CALL 1
4 PUSH_NULL
5 LOAD_FAST 'b'
6 LOAD_CONST 'k'
7 LOAD_FAST 'a'
8 LOAD_CONST 1
9 LOAD_CONST
10 BUILD_SLICE 2
11 BINARY_SUBSCR
12 BUILD_MAP 1
13 CALL_FUNCTION_EX True
14 POP_TOP
15 LOAD_FAST 'f'
16 COPY 1
17 POP_JUMP_IF_TRUE 20
18 POP_TOP
19 LOAD_FAST 'b'
20 PUSH_NULL
21 LOAD_FAST 'a'
22 LOAD_FAST 'b'
23 UNARY 'not'
24 CALL_KW (2, ('k',))
25 RETURN_VALUE"""


def cleaning(log, a=1, *, b: int = 2):
    try:
        return log(a)
    except ValueError as error:
        raise KeyError from error
    finally:
        log(lambda x=a: (x, b))


def test_handlers_and_functions_read_the_same_everywhere() -> None:
    ops = [each.op for each in decode(cleaning.__code__).instructions]
    assert ops.count("MAKE_FUNCTION") == 2  # a finally is compiled once for each way out
    assert {each.arg for each in decode(cleaning.__code__).instructions if each.op == "MAKE_FUNCTION"} == {
        ("defaults", "closure")
    }
    bytecode = decode(cleaning.__code__)
    call = next(each for each in bytecode.instructions if each.op == "CALL")
    handler = bytecode.handlers[call.index]
    assert handler is not None
    assert (handler.depth, handler.lasti) == (0, False)
    assert bytecode.instructions[handler.target_index].op == "PUSH_EXC_INFO"


def test_loops_leave_by_popping_their_iterator() -> None:
    bytecode = decode(corpus.for_else.__code__)
    loop = next(each for each in bytecode.instructions if each.op == "FOR_ITER")
    assert bytecode.kinds(loop.index) == ("value",)
    assert bytecode.kinds(loop.arg) == ()


def delegating(values):
    return (yield from values)


def test_delegation_reads_the_same_everywhere() -> None:
    bytecode = decode(delegating.__code__)
    suspended = next(each for each in bytecode.instructions if each.op == "YIELD_VALUE")
    assert suspended.arg is True
    handler = bytecode.handlers[suspended.index]
    assert handler is not None
    assert (bytecode.instructions[handler.target_index].op, handler.depth) == ("CLEANUP_THROW", 2)
    send = next(each for each in bytecode.instructions if each.op == "SEND")
    assert bytecode.instructions[send.arg].op == "RETURN_VALUE"
