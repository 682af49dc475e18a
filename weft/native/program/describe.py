"""Describing programs: steps, kernels and memory plans as text.

Takes programs as they are made; logs them (`WEFT_LOGS=kernels,fusion,memory`) and gives them to `explain`.
One idea: everything that is said here is read from the program and what it was planned from.
"""

from __future__ import annotations

from typing import Any

from weft.core.logs import log
from weft.native.ir.definitions import Definition, Direct, Given, Product
from weft.native.plan.build import Built
from weft.native.plan.order import reads_of, writes_of
from weft.native.program.listing import Listing, numpy_type
from weft.native.program.program import Program
from weft.native.program.stepping import lines_of, ops_of, place_text


def say(program: Program) -> None:
    """Says what a new program is to those who listen."""
    log("fusion", lambda: fusion_text(program))
    log("kernels", lambda: kernels_text(program))
    log("memory", lambda: memory_text(program))


def listed(program: Program) -> Listing:
    """What a program was planned from: programs from the disk cannot be described."""
    assert program.listing is not None
    return program.listing


def value_text(program: Program, value: Definition) -> str:
    """A value of a program: `%3 f32[64, 10]`."""
    place = listed(program).places.get(id(value))
    name = "%?" if place is None else f"%{place}"
    if isinstance(value, Given):
        name = "constant" if value.input is None else f"input {value.input}"
    return f"{name} {value.type}{list(value.shape)}"


def step_text(program: Program, number: int) -> str:
    """One line: what a step does, to what, and for which lines of the user's."""
    step = listed(program).steps[number]
    writes = ", ".join(dict.fromkeys(value_text(program, value) for value in writes_of(step)))
    reads = ", ".join(dict.fromkeys(value_text(program, value) for value in reads_of(step)))
    head = f"{number}: {kind_of(step)} {ops_of(step)}: {writes} <- {reads}".rstrip()
    place = place_text(lines_of(step))
    return f"{head} {place}".rstrip()


def kind_of(step: Any) -> str:
    """What kind of step this is."""
    if isinstance(step, Built):
        folds = any(phase.folds for phase in step.kernel.phases)
        return f"kernel over {' x '.join(map(str, step.sizes))}{', folding' * folds}"
    if isinstance(step, Product):
        size = f"{step.rows} x {step.depth} x {step.columns}"
        return f"{step.count} products of {size}" if step.count > 1 else f"product of {size}"
    return "function" if isinstance(step, Direct) else "array kernel"


def steps_text(program: Program) -> str:
    """All steps, a line each."""
    return "\n".join(step_text(program, number) for number in range(program.count))


def fusion_text(program: Program) -> str:
    lines = [f"{program.count} steps", *steps_text(program).splitlines()]
    if listed(program).reasons:
        lines.append("not fused:")
        lines += [f"  {reason}" for reason in dict.fromkeys(listed(program).reasons)]
    return "\n".join(lines)


def kernels_text(program: Program) -> str:
    """Each step, with the loops and instructions of kernels."""
    lines = []
    for number, step in enumerate(listed(program).steps):
        lines.append(step_text(program, number))
        if isinstance(step, Built):
            lines += [f"    {line}" for line in str(step.kernel).splitlines()]
    return "\n".join(lines)


def kernels_in(program: Program) -> int:
    """How many kernels a program has: steps may share one."""
    return len({id(step.kernel) for step in listed(program).steps if isinstance(step, Built)})


def memory_text(program: Program) -> str:
    """Where values lie, for the sizes of the call for which it was planned."""
    program = program.settled()
    lines = [f"a block of {program.arena_bytes} bytes"]
    total = 0
    for place, offset in sorted(program.arena, key=lambda pair: pair[1]):
        value = listed(program).values[place]
        size = value.size * numpy_type(value.type).itemsize
        total += size
        lines.append(f"  {offset}: {value_text(program, value)} {value.name}, {size} bytes")
    lines[0] += f", for {total} bytes of values" if total else ""
    for place, shape, kind in program.made:
        lines.append(f"  an output: %{place} {kind}{list(shape)}")
    for place, number in program.written:
        lines.append(f"  written in place: input {number}, as %{place}")
    return "\n".join(lines)
