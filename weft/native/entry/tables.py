"""Tables of runs: a program as an entry runs it, whatever stands in front of it and behind.

Takes a call as data, the program that has served it, and the registers in which its inputs are; gives the
run, and what has to hold of numbers among the inputs. One idea: entries of calls and of gradients differ in
what they check and where results go, and in nothing that is said here.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from weft.core import checks as ask
from weft.core.expressions import Expression, constant
from weft.native.backend import Compiled, plain
from weft.native.cpu.blas import guard
from weft.native.cpu.calls import address
from weft.native.cpu.pool import pool
from weft.native.cpu.runner import LONG, Runner
from weft.native.entry.entry import AGAIN, CONSTANT, NEW, NUMBER, THERE, Run
from weft.native.plan.memory import blocks

Registers = Sequence[tuple[int, int | None]]
SINGLETONS: Final = (bool, type(None))
C_CONTIGUOUS: Final = 0x1


def program_of(compiled: Compiled, inputs: Sequence[Any]) -> Runner | None:
    """The program that has served a call with these inputs."""
    arrays = [plain(compiled.layout.array(value)) for value in inputs]
    found = compiled.programs.get(compiled.key(arrays))
    return found if isinstance(found, Runner) else None


def number_checks(given: Expression, value: Any, is_read: bool) -> list[Expression]:
    """Checks of an input that is no tensor: floats that the program reads may be others."""
    if given.kind is not object:  # a number that follows from sizes, of which there is no object
        if type(value) is not int:
            raise TypeError(f"{given} has no machine code")
        return [Expression("eq", (given, constant(value)), bool)]
    if type(value) in SINGLETONS:
        return [ask.is_object(given, value)]
    exact = ask.type_is(given, type(value))
    if type(value) is float:
        return (
            [exact] if is_read else [exact, ask.bits(given, *struct.unpack("<q", struct.pack("<d", value)))]
        )
    return [exact, ask.equal(given, value)]


def row_major(shape: tuple[int, ...], kind: Any) -> tuple[int, ...]:
    strides, step = [], np.dtype(kind).itemsize
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def span(value: Any) -> tuple[int, int]:
    """The first byte that an array reaches, and the one behind the last, from its address."""
    if not isinstance(value, np.ndarray) or not value.size:
        return 0, 0
    moves = [(size - 1) * step for size, step in zip(value.shape, value.strides)]
    return sum(m for m in moves if m < 0), sum(m for m in moves if m > 0) + value.itemsize


def run_of(found: Any, program: Runner, operands: Registers) -> Run:
    """The tables of a program behind its checks."""
    frame = program.frame
    assert frame is not None
    order = {place: number for number, (place, _shape, _kind) in enumerate(frame.made)}
    givens: list[tuple[int, int, bool, int, int]] = []
    numbers: dict[int, int] = {}
    places = dict(frame.givens)
    places.update(frame.written)
    for place, number in places.items():
        register, array = operands[number]
        value = found.inputs[number]
        low, high = span(getattr(value, "array", value))
        numbers[number] = len(givens)
        givens.append((place, register if array is None else array, array is None, low, high))
    outputs: list[tuple[Any, ...]] = []
    seen: set[int] = set()
    for how, what, version in found.outputs:
        result = frame.outputs[what] if how == "value" else None
        if isinstance(result, int):
            kind = AGAIN if result in seen else NUMBER if result in frame.numbers else NEW
            outputs.append((kind, order[result], version))
            seen.add(result)
        elif how == "constant":
            outputs.append((CONSTANT, what))
        elif result is not None and result[0] == "constant":
            outputs.append((CONSTANT, result[1]))
        else:
            outputs.append((THERE, operands[what if result is None else result[1]][0]))
    written = [(operands[number][0], numbers[number], times) for number, _value, times in found.written]
    draws = program.draws
    draw = None if draws is None else (draws.take, draws.give_back, frame.seeds)
    seeds_item = 0
    if draws is not None and found.finish is not None:
        outputs.append((CONSTANT, None))
        seeds_item = len(outputs)
    program.ask()
    threads = pool()
    if program.splits and not threads.started:
        threads.start()
    one = guard() if frame.multiplies else None
    addresses = [threads.run_address, threads.here, 0 if one is None else address(one)]
    return Run(
        givens=givens,
        made=[
            (place, None if place in frame.numbers else np.dtype(kind), shape, strides)
            for (place, shape, kind), strides in zip(frame.made, frame.strides, strict=True)
        ],
        outputs=outputs, written=written, constants=frame.constants, arena=frame.arena,
        arena_bytes=frame.arena_bytes, places=frame.places, code=frame.code, steps=frame.count,
        outside=frame.outside, pool=np.array(addresses, np.int64),
        release=int(program.work > LONG or draw is not None),  # Python is asked for seeds: all must be held
        draw=draw, seeds_item=seeds_item,
        keep=(program, threads, one, found.forward, found.calls),
        calls=0 if found.calls is None else found.calls.buffer_info()[0],
        block=blocks.take(frame.arena_bytes) if frame.arena_bytes else None,
    )  # fmt: skip
