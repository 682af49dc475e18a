"""The interpreter: what the steps of a program mean, computed by NumPy.

Takes the record of a step and arrays; does to these what the machine code of the step would do. One idea: a
kernel is data, so what it means can be computed by reading it; where machine code and this differ, one of
them is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from weft.native.ir.definitions import Direct, Product
from weft.native.ir.kernels import Fold, Kernel, Phase, Scope
from weft.native.ir.scalar import FLOATS, TYPES, Instruction, interpret
from weft.native.plan.work import column_tiles
from weft.ops.philox import words

REDUCED: Final[dict[str, Any]] = {
    "sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum, "any": np.logical_or,
    "all": np.logical_and,
}  # fmt: skip


class Memory:
    """The elements around the first one of an array, by their distance from it."""

    def __init__(self, array: Any, least: int, most: int) -> None:
        self.array, self.least = array, least
        start = array.__array_interface__["data"][0] + least * array.itemsize
        self.__array_interface__ = {
            "version": 3, "typestr": array.dtype.str, "shape": (most - least + 1,),
            "data": (start, not array.flags.writeable),
        }  # fmt: skip

    @classmethod
    def of(cls, array: Any, places: Any) -> tuple[Any, Any]:
        """Elements in a row, and where among them these places are."""
        least, most = int(places.min()), int(places.max())
        elements = np.asarray(cls(array, least, most))
        return elements.view(array.dtype), places - least  # bfloat16 is unknown to the interface of arrays


class KernelRun:
    """One chunk of a kernel: see Note [A kernel's function] in `weft.native.cpu.kernel_text`."""

    def __init__(
        self, kernel: Kernel, numbers: Sequence[int], arrays: list[Any], low: int, high: int, chunk: int
    ) -> None:
        self.kernel, self.arrays, self.chunk = kernel, arrays, chunk
        axes = kernel.outer + 1
        self.sizes = [int(number) for number in numbers[:axes]]
        rows = np.arange(low, high) if kernel.outer else np.zeros(1, np.int64)
        self.inner = np.arange(self.sizes[-1]) if kernel.outer else np.arange(low, high)
        self.outer = np.unravel_index(rows, tuple(self.sizes[:-1])) if kernel.outer else ()
        self.operands = []
        place = axes
        for _ in kernel.accesses:
            buffer, offset, *strides = (int(number) for number in numbers[place : place + 2 + axes])
            self.operands.append((buffer, offset, strides))
            place += 2 + axes
        self.scalars = [_scalar(int(numbers[place + i]), type_) for i, type_ in enumerate(kernel.scalars)]
        self.folds: list[Any] = []

    def run(self) -> None:
        for phase in self.kernel.phases:
            self.phase(phase)

    def phase(self, phase: Phase) -> None:
        values = interpret(phase.body, lambda each, *args: self.leaf(each, self.inner, *args))
        shape = (len(self.outer[0]) if self.outer else 1, len(self.inner))
        for store in phase.stores:
            self.store(store.access, values[store.value], self.inner)
        for fold in phase.folds:
            self.fold(fold, np.broadcast_to(values[fold.value], shape))
        first = np.zeros(1, np.int64)
        after = interpret(phase.after, lambda each, *args: self.leaf(each, first, *args))
        for kept in phase.kept:
            self.store(kept.access, after[kept.value], first)
        self.folds += [after[each] for each in phase.given]

    def fold(self, fold: Fold, values: Any) -> None:
        function, kind = REDUCED[fold.kind], TYPES[fold.type]
        if fold.scope is Scope.ROW:
            self.folds.append(function.reduce(values, axis=1, keepdims=True).astype(kind))
            return
        assert fold.access is not None
        self.folds.append(None)
        made = function.reduce(values, axis=0 if fold.scope is Scope.COLUMN else None).astype(kind)
        buffer, offset, _ = self.operands[fold.access]
        length = self.sizes[-1] if fold.scope is Scope.COLUMN else 1
        elements, places = Memory.of(self.arrays[buffer], offset + self.chunk * length + np.arange(length))
        elements[places] = made

    def places(self, number: int, inner: Any) -> Any:
        """Where the elements of an operand lie, rows by elements of rows."""
        _, offset, strides = self.operands[number]
        rows = offset + sum(axis * stride for axis, stride in zip(self.outer, strides))
        return np.reshape(rows, (-1, 1)) + inner * strides[-1]

    def leaf(self, each: Instruction, inner: Any, *args: Any) -> Any:
        if each.op in ("load", "gather"):
            places = self.places(each.value, inner) + (args[0] if args else 0)
            elements, places = Memory.of(self.arrays[self.operands[each.value][0]], places)
            return elements[places]
        if each.op == "index":
            return inner if not each.value else self.outer[-each.value].reshape(-1, 1)
        return self.scalars[each.value] if each.op == "scalar" else self.folds[each.value]

    def store(self, number: int, value: Any, inner: Any) -> None:
        places = self.places(number, inner)
        elements, places = Memory.of(self.arrays[self.operands[number][0]], places)
        elements[places] = np.broadcast_to(value, places.shape)


def _scalar(raw: int, type_: str) -> Any:
    """An argument of a call, which takes eight bytes."""
    bits = np.array(raw, np.int64)
    return (bits.view(np.float64) if type_ in FLOATS else bits).astype(TYPES[type_])


def multiply(numbers: Sequence[int], arrays: list[Any], low: int, high: int, batched: bool) -> None:
    """One chunk of a product: see Note [Record of a product] in `weft.native.cpu.blas`."""
    rows, columns, depth = (int(number) for number in numbers[:3])
    flips = (bool(numbers[3]), bool(numbers[4]), False)
    shapes = ((rows, depth), (depth, columns), (rows, columns))
    parts = []
    for part in range(3):
        buffer, offset, leading = (int(number) for number in numbers[5 + 3 * part : 8 + 3 * part])
        height, width = shapes[part]
        down, across = (1, leading) if flips[part] else (leading, 1)
        places = offset + np.arange(height).reshape(-1, 1) * down + np.arange(width) * across
        if batched:
            places = places + np.arange(low, high).reshape(-1, 1, 1) * int(numbers[14 + part])
        elif part != 1:
            places = places[low:high]
        parts.append(Memory.of(arrays[buffer], places))
    (a, left), (b, right), (c, result) = parts
    made = a[left] @ b[right]
    c[result] = c[result] + made if numbers[17] else made


def _check(numbers: Sequence[int], arrays: list[Any]) -> None:
    """Whether one of the operands is true."""
    arrays[numbers[0]][...] = any(arrays[place].any() for place in numbers[1:])


def _transpose(numbers: Sequence[int], arrays: list[Any]) -> None:
    """The whole of what `weft.native.cpu.copy_operands` copies, at each chunk."""
    result, source, offset, leading, rows, columns, beside = (int(number) for number in numbers)
    places = offset + np.arange(columns).reshape(-1, 1) + np.arange(rows) * leading
    places = places + np.arange(len(arrays[result])).reshape(-1, 1, 1) * beside
    elements, places = Memory.of(arrays[source], places)
    arrays[result][...] = elements[places]


def _draw(numbers: Sequence[int], arrays: list[Any]) -> None:
    """See Note [Record of a draw] in `weft.native.cpu.philox_text`."""
    result, seeds, number, count, threshold = (int(each) for each in numbers)
    key, offset = arrays[seeds][2 * number : 2 * number + 2].tolist()
    target = arrays[result]
    kind = np.dtype(np.uint32) if target.dtype.kind == "b" else target.dtype
    found = words(key, offset, -(-count * kind.itemsize // 32)).view(kind)[:count].reshape(target.shape)
    target[...] = found < threshold if target.dtype.kind == "b" else found


DIRECT: Final[dict[str, Any]] = {"check": _check, "transpose": _transpose, "words": _draw, "below": _draw}
"""Functions that are no kernels, by the names of their steps."""


def interpreted(
    step: Any, numbers: Sequence[int], arrays: list[Any], low: int, high: int, chunk: int
) -> None:
    """Does what the function of a step does."""
    if isinstance(step, Product):
        multiply(numbers, arrays, low, high, step.count > 1 or column_tiles(step) > 1)
    elif isinstance(step, Direct):
        DIRECT[step.name](numbers, arrays)
    else:
        KernelRun(step.kernel, numbers, arrays, low, high, chunk).run()
