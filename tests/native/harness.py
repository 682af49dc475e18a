"""Runs plans on arrays, kernel by kernel, to check them against NumPy."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest

from weft.native.backend import Compiled
from weft.native.cpu.kernel_text import module_text
from weft.native.ir.definitions import Definition, Given, Point, broadcast
from weft.native.ir.kernels import Kernel
from weft.native.ir.scalar import TYPES
from weft.native.plan.build import Built
from weft.native.plan.fuse import fused

VECTOR_BYTES = 32


class Machine:
    """Compiled kernels, by name."""

    def __init__(self, kernels: dict[str, Kernel], vector_bytes: int = VECTOR_BYTES) -> None:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        text = module_text(kernels, vector_bytes)
        module = llvm.parse_assembly(text)
        module.verify()
        target = llvm.Target.from_default_triple().create_target_machine(
            cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=1, jit=True
        )
        self.engine = llvm.create_mcjit_compiler(module, target)
        self.engine.finalize_object()
        shape = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, *[ctypes.c_int64] * 3)
        self.functions = {name: shape(self.engine.get_function_address(name)) for name in kernels}

    def call(
        self, name: str, record: list[int], arrays: list[Any], low: int, high: int, chunk: int = 0
    ) -> None:
        numbers = np.array(record, np.int64)
        addresses = np.array([array.ctypes.data for array in arrays], np.uint64)
        self.functions[name](numbers.ctypes.data, addresses.ctypes.data, None, low, high, chunk)


def run_plan(outputs: list[Definition], inputs: list[Any], chunks: int = 1) -> tuple[list[Any], list[Built]]:
    """What the definitions are for these inputs, and the kernels that computed them."""
    plan = fused(outputs)
    steps: list[Any] = plan.steps
    machine = Machine({f"k{i}": step.kernel for i, step in enumerate(steps)})
    memory = {key: np.full(value.shape, 77, TYPES[value.type]) for key, value in plan.stored.items()}

    def array(value: Definition) -> Any:
        return (
            inputs[value.input] if isinstance(value, Given) and value.input is not None else memory[id(value)]
        )

    for number, step in enumerate(steps):
        record = [*step.sizes]
        for place, load in enumerate(step.operands):
            record += [place, load.offset, *load.strides]
        arrays = [array(load.value) for load in step.operands]
        total = int(np.prod(step.sizes[:-1])) if len(step.sizes) > 1 else step.sizes[0]
        pieces = step.chunks or chunks
        bounds = [total * i // pieces for i in range(pieces + 1)]
        for chunk, (low, high) in enumerate(zip(bounds, bounds[1:])):
            machine.call(f"k{number}", record, arrays, low, high, chunk)
    return [array(value) for value in outputs], steps


def given(array: Any, number: int) -> Given:
    names = {kind: name for name, kind in TYPES.items()}
    return Given(shape=array.shape, type=names[array.dtype], input=number)


def point(make: Callable[..., Any], *operands: Definition, type_: str = "", name: str = "p") -> Point:
    """A pointwise definition, operands broadcast."""
    shape = np.broadcast_shapes(*[each.shape for each in operands])
    return Point(
        shape=tuple(shape),
        type=type_ or operands[0].type,
        name=name,
        make=lambda builder, values, place: make(builder, *values),
        operands=[broadcast(each, tuple(shape)) for each in operands],
    )


def calls_by_python(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A number that counts the calls of programs that Python does from now on."""
    calls = [0]
    before = Compiled.__call__

    def counted(self: Compiled, *inputs: Any) -> Any:
        calls[0] += 1
        return before(self, *inputs)

    monkeypatch.setattr(Compiled, "__call__", counted)
    return calls
