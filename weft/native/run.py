"""Running: a planned program on arrays.

Takes a plan and the arrays of a call; gives the arrays of its outputs. One idea: everything that does not
depend on addresses (records, sizes, functions) is laid out once, so that a call fills in addresses and goes
from step to step.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from weft.native.build import Built
from weft.native.engine import Loaded, host
from weft.native.fuse import Plan, fused
from weft.native.kernel_text import module_text
from weft.native.kernels import Kernel
from weft.native.lower import Call, Lowering, Operand
from weft.native.outside import table
from weft.native.scalar import TYPES
from weft.native.tensors import Definition, Given, Opaque

SIGNATURE = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, *[ctypes.c_int64] * 3)
Step = Callable[[list[Any]], None]


def address(array: Any) -> int:
    return int(array.__array_interface__["data"][0])


def numpy_type(name: str) -> Any:
    return TYPES.get(name) or np.dtype(name)


class Executable:
    """A program for inputs of certain shapes, strides and types."""

    def __init__(self, outputs: list[Any], plan: Plan) -> None:
        self.places: dict[int, int] = {}
        self.givens: list[tuple[int, Given]] = []
        self.made: list[tuple[int, Any, Any]] = []
        self.keep: list[Any] = []
        self.plan = plan
        kernels: dict[Kernel, str] = {}
        for step in plan.steps:
            if isinstance(step, Built):
                kernels.setdefault(step.kernel, f"kernel{len(kernels)}")
        if kernels:
            text, outside = module_text({name: kernel for kernel, name in kernels.items()}, host()[2])
            self.loaded = Loaded(text)
            self.outside = table(outside)
        self.steps = [self.step(each, kernels) for each in plan.steps]
        self.outputs = [self.place(each) if isinstance(each, Definition) else (each,) for each in outputs]

    def place(self, value: Definition) -> int:
        """The place of a value's array in a call."""
        found = self.places.get(id(value))
        if found is None:
            found = self.places[id(value)] = len(self.places)
            self.keep.append(value)
            if isinstance(value, Given):
                self.givens.append((found, value))
            elif not isinstance(value, Opaque):
                self.made.append((found, value.shape, numpy_type(value.type)))
        return found

    def step(self, each: Any, kernels: dict[Kernel, str]) -> Step:
        return self.kernel_step(each, kernels) if isinstance(each, Built) else self.call_step(each)

    def kernel_step(self, each: Built, kernels: dict[Kernel, str]) -> Step:
        record = [*each.sizes]
        places = []
        for number, load in enumerate(each.operands):
            record += [number, load.offset, *load.strides]
            places.append(self.place(load.value))
        numbers = np.array(record, np.int64)
        buffers = np.zeros(len(places), np.uint64)
        rows = prod(each.sizes[:-1]) if len(each.sizes) > 1 else each.sizes[0]
        function = SIGNATURE(self.loaded.address(kernels[each.kernel]))
        first, second, third = address(numbers), address(buffers), address(self.outside)
        self.keep += [numbers, buffers]

        def run(arrays: list[Any]) -> None:
            for slot, place in enumerate(places):
                buffers[slot] = address(arrays[place])
            function(first, second, third, 0, rows, 0)

        return run

    def call_step(self, each: Opaque) -> Step:
        call: Call = each.call
        operands = [self.place(value) for value in each.operands]
        kinds = [numpy_type(value.type) for value in each.operands]
        shapes = [value.shape for value in each.operands]
        target = self.place(each)
        bound = call.bound

        def argument(value: Any, arrays: list[Any]) -> Any:
            if isinstance(value, Operand):
                return arrays[operands[value.number]]
            if isinstance(value, (tuple, list)):
                return type(value)([argument(item, arrays) for item in value])
            return value

        def run(arrays: list[Any]) -> None:
            result = call.op(*[argument(value, arrays) for value in bound])
            arrays[target] = result[each.number] if isinstance(result, (tuple, list)) else result

        assert len(kinds) == len(shapes)
        return run

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        arrays: list[Any] = [None] * len(self.places)
        for place, value in self.givens:
            arrays[place] = value.constant if value.input is None else inputs[value.input]
        for place, shape, kind in self.made:
            arrays[place] = np.empty(shape, kind)
        for step in self.steps:
            step(arrays)
        return [each[0] if isinstance(each, tuple) else arrays[each] for each in self.outputs]


def executable(graph_module: Any, arrays: Sequence[Any]) -> Executable:
    """The program of a graph for these inputs."""
    lowering = Lowering(graph_module.graph, arrays)
    program = lowering.run(lambda path: _attribute(graph_module, path))
    wanted = [value for value in program.outputs if isinstance(value, Definition)]
    return Executable(program.outputs, fused(wanted))


def _attribute(owner: Any, path: str) -> Any:
    for part in path.split("."):
        owner = getattr(owner, part)
    return getattr(owner, "array", owner)
