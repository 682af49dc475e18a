"""Listings: what a program was planned from, beside the program.

Takes steps and definitions; says which place a value has, and gives the steps that Python does. One idea: who
prints a program, or runs it step by step, needs the definitions that are behind it; who runs it does not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from weft.core.records import record
from weft.native.cpu.calls import address
from weft.native.ir.definitions import Definition, Given, Number, Opaque, Part, Product, Stack
from weft.native.ir.scalar import TYPES
from weft.native.ir.sizes import now
from weft.native.lower.lowering import NUMBER, Call, Operand
from weft.native.plan.order import NATIVE

Step = Callable[[list[Any], int, int], None]


def numpy_type(name: str) -> Any:
    return TYPES.get(name) or np.dtype(name)


def strides_of(value: Definition) -> tuple[int, ...] | None:
    """The strides, in bytes, of an output that does not lie row by row."""
    if value.shown is None:
        return None
    size = numpy_type(value.type).itemsize
    return tuple([step * size for step in value.shown[1]])


def is_ours(value: Definition) -> bool:
    """Whether a program has memory for a value: array kernels find some for their results themselves."""
    return not isinstance(value, (Given, Opaque)) or isinstance(value, NATIVE)


def whole_of(value: Definition) -> Definition | None:
    """In whose memory a value is computed."""
    if isinstance(value, Part):
        return value.whole
    return value.onto if isinstance(value, Product) else None


@record(frozen=True, slots=True, eq=False)
class Listing:
    """The steps of a program, and the definitions at its places."""

    steps: Sequence[Any]
    reasons: Sequence[str]
    """Why not more is fused."""
    homes: Mapping[int, Given]
    """The inputs in whose memory values lie, by the `id` of these."""
    places: Mapping[int, int]
    """By the `id` of a definition, or of a call with several results."""
    values: Mapping[int, Definition]
    spans: Sequence[tuple[int, int]]
    """From which step to which each step may run."""

    def call_step(self, number: int, at: Callable[[Any], Any] = now) -> tuple[Step, int]:
        """A step that calls an op's own kernel, with `at` the numbers of a call, and the place of its result.
        What it gives must not lie in the block: others may look at it when the block is somebody else's.
        """
        each: Opaque = self.steps[number]
        call: Call = each.call
        operands = [self.places[id(value)] for value in each.operands]
        target = self.places[id(each)]
        whole = self.places[id(call)]  # all results, where there are several
        bound, shape = at(call.bound), at(each.shape)
        numbers = {place for place, value in enumerate(each.operands) if isinstance(value, Number)}

        def argument(value: Any, arrays: list[Any]) -> Any:
            if isinstance(value, Operand):
                found = arrays[operands[value.number]]
                return found.item() if value.number in numbers else found
            if isinstance(value, (tuple, list)):
                return type(value)([argument(item, arrays) for item in value])
            return value

        def run(arrays: list[Any], low: int, high: int) -> None:
            result = arrays[whole]
            if result is None:
                result = arrays[whole] = call.op(*[argument(value, arrays) for value in bound])
            result = result[each.number] if isinstance(result, (tuple, list)) else result
            if each.type == NUMBER:
                arrays[target] = result
                return
            if each.type not in TYPES:  # only such calls read it, however it lies
                result = getattr(result, "array", result)
                arrays[target] = result.copy("K") if low <= address(result) < high else result
                return
            result = np.ascontiguousarray(result).reshape(shape)
            arrays[target] = result.copy() if low <= address(result) < high else result

        return run, target


def stacked(
    inside: Mapping[int, Definition], places: Mapping[int, int]
) -> tuple[list[list[int]], dict[int, int]]:
    """Places that lie one behind the other, and those of stacks, which are where their first ones are."""
    found = [(place, value) for place, value in inside.items() if isinstance(value, Stack)]
    runs: list[list[int]] = []
    known: dict[int, tuple[list[int], int]] = {}
    alike: dict[int, int] = {}
    for place, value in sorted(found, key=lambda pair: -len(pair[1].operands)):
        run = [places[id(each)] for each in value.operands]
        alike[place] = run[0]
        if run[0] not in known:
            runs.append(run)
            known.update({each: (run, number) for number, each in enumerate(run)})
        whole, start = known[run[0]]
        if whole[start : start + len(run)] != run or not inside.keys() >= set(run):
            raise NotImplementedError("a value that would be part of two stacked buffers")
    return runs, alike
