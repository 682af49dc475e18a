"""Running: a planned program on arrays.

Takes a plan and the arrays of a call; gives the arrays of its outputs. One idea: everything that does not
depend on addresses (records, sizes, functions) is laid out once, so that a call fills in addresses and goes
from step to step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from weft.native import blas
from weft.native.blas import FUNCTIONS, OneThread
from weft.native.build import Built
from weft.native.engine import NAME, Functions
from weft.native.fuse import Plan, fused
from weft.native.kernels import Kernel, Scope
from weft.native.lower import NUMBER, Call, Lowering, Operand
from weft.native.outside import place_of, table
from weft.native.pool import FIELDS, pool
from weft.native.scalar import TYPES
from weft.native.tensors import Definition, Given, Opaque, Product

Step = Callable[[list[Any]], None]


def address(array: Any) -> int:
    return int(array.__array_interface__["data"][0])


def numpy_type(name: str) -> Any:
    return TYPES.get(name) or np.dtype(name)


PRODUCT_CHUNK = 1 << 21
"""About how many multiplications a chunk of a product has."""
MOST_CHUNKS = 16
CHUNK = 1 << 15
"""About how many elements a chunk has: enough to be worth handing to another thread."""


def chunks_of(sizes: tuple[int, ...], kernel: Kernel) -> int:
    """How many chunks a call is cut into: by its sizes alone, so that the bits are the same everywhere."""
    rows = prod(sizes[:-1]) if len(sizes) > 1 else sizes[0]
    folds = [fold for phase in kernel.phases for fold in phase.folds]
    if any(fold.scope is not Scope.ROW for fold in folds) or (folds and len(sizes) == 1):
        return 1
    return max(1, min(rows, prod(sizes) // CHUNK, 64))


class Executable:
    """A program for inputs of certain shapes, strides and types."""

    def __init__(self, outputs: list[Any], plan: Plan) -> None:
        self.places: dict[int, int] = {}
        self.givens: list[tuple[int, Given]] = []
        self.made: list[tuple[int, Any, Any]] = []
        self.keep: list[Any] = []
        self.plan = plan
        self.outside = table()
        self.functions = Functions()
        self.names = [self.function_name(each) for each in plan.steps]
        self.functions.load()
        self.multiplies = any(isinstance(each, Product) for each in plan.steps)
        self.python: dict[int, Step] = {}
        records = [self.step(number, each) for number, each in enumerate(plan.steps)]
        self.code = np.array(records or [[0] * FIELDS], np.int64)
        self.count = len(records)
        self.outputs = [self.place(each) if isinstance(each, Definition) else (each,) for each in outputs]
        self.fixed = (address(self.code), address(self.outside))

    def place(self, value: Definition) -> int:
        """The place of a value's array in a call."""
        found = self.places.get(id(value))
        if found is None:
            found = self.places[id(value)] = len(self.places)
            self.keep.append(value)
            if isinstance(value, Given):
                self.givens.append((found, value))
            elif not isinstance(value, Opaque) or isinstance(value, Product):
                self.made.append((found, value.shape, numpy_type(value.type)))
        return found

    def function_name(self, each: Any) -> str:
        """The name of a step's function; "" for those of Python."""
        if isinstance(each, Product):
            place = place_of(f"{FUNCTIONS[each.type]}.blas")
            return self.functions.text(blas.text(NAME, each.type, each.count > 1, place).splitlines())
        return self.functions.kernel(each.kernel) if isinstance(each, Built) else ""

    def step(self, number: int, each: Any) -> list[int]:
        """The record of a step: see Note [Records of a program] in `weft.native.pool`."""
        if isinstance(each, Product):
            return self.product_step(each, self.names[number])
        if not isinstance(each, Built):
            self.python[number] = self.call_step(each)
            return [0] * FIELDS
        record = [*each.sizes]
        for load in each.operands:
            record += [self.place(load.value), load.offset, *load.strides]
        numbers = np.array(record, np.int64)
        self.keep.append(numbers)
        rows = prod(each.sizes[:-1]) if len(each.sizes) > 1 else each.sizes[0]
        function = self.functions.address(self.names[number])
        return [function, address(numbers), rows, chunks_of(each.sizes, each.kernel)]

    def product_step(self, each: Product, name: str) -> list[int]:
        """See Note [Record of a product] in `weft.native.blas`."""
        record = [each.rows, each.columns, each.depth, each.left.transposed, each.right.transposed]
        for part in (each.left, each.right):
            record += [self.place(each.operands[part.operand]), part.offset, part.leading]
        record += [self.place(each), 0, each.columns]
        record += [each.left.batch, each.right.batch, each.rows * each.columns]
        numbers = np.array(record, np.int64)
        self.keep.append(numbers)
        work = each.rows * each.columns * each.depth * each.count
        rows = each.count if each.count > 1 else each.rows
        chunks = max(1, min(rows, work // PRODUCT_CHUNK, MOST_CHUNKS))
        return [self.functions.address(name), address(numbers), rows, chunks]

    def call_step(self, each: Opaque) -> Step:
        """A step that calls an op's own kernel."""
        call: Call = each.call
        operands = [self.place(value) for value in each.operands]
        target = self.place(each)
        whole = self.places.setdefault(id(call), len(self.places))  # all results, where there are several
        bound = call.bound

        def argument(value: Any, arrays: list[Any]) -> Any:
            if isinstance(value, Operand):
                return arrays[operands[value.number]]
            if isinstance(value, (tuple, list)):
                return type(value)([argument(item, arrays) for item in value])
            return value

        def run(arrays: list[Any]) -> None:
            result = arrays[whole]
            if result is None:
                result = arrays[whole] = call.op(*[argument(value, arrays) for value in bound])
            result = result[each.number] if isinstance(result, (tuple, list)) else result
            if each.type == NUMBER:
                arrays[target] = result
                return
            arrays[target] = np.ascontiguousarray(result).reshape(each.shape)

        return run

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        arrays: list[Any] = [None] * len(self.places)
        for place, value in self.givens:
            arrays[place] = value.constant if value.input is None else inputs[value.input]
        for place, shape, kind in self.made:
            arrays[place] = np.empty(shape, kind)
        buffers = np.array([0 if array is None else address(array) for array in arrays], np.uint64)
        code, outside = self.fixed
        threads, here = pool(), address(buffers)
        step = 0
        while step < self.count:
            if self.multiplies:
                with OneThread():
                    step = threads.run(code, step, self.count, here, outside)
            else:
                step = threads.run(code, step, self.count, here, outside)
            while step in self.python:
                self.python[step](arrays)
                target = self.places[id(self.plan.steps[step])]
                if isinstance(arrays[target], np.ndarray):
                    buffers[target] = address(arrays[target])
                step += 1
        return [each[0] if isinstance(each, tuple) else arrays[each] for each in self.outputs]


def executable(graph_module: Any, arrays: Sequence[Any]) -> Executable:
    """The program of a graph for these inputs."""
    lowering = Lowering(graph_module.graph, arrays)
    program = lowering.run(lambda path: _attribute(graph_module, path))
    wanted = [value for value in program.outputs if isinstance(value, Definition)]
    return Executable(program.outputs, fused([*wanted, *program.checks]))


def _attribute(owner: Any, path: str) -> Any:
    for part in path.split("."):
        owner = getattr(owner, part)
    return getattr(owner, "array", owner)
