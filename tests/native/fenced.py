"""Runs native functions on memory with pages around it that nobody may touch."""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

import numpy as np

from weft.native.cpu.engine import Functions
from weft.native.ir.definitions import Definition, Direct, operands_of
from weft.native.ir.scalar import TYPES

CALL = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, *[ctypes.c_int64] * 3)
PAGE = mmap.PAGESIZE


class Fenced:
    """Arrays that end (or begin) where a forbidden page begins (or ends)."""

    def __init__(self, at_end: bool) -> None:
        self.at_end = at_end
        self.kept: list[Any] = []
        self.protect = ctypes.CDLL(None, use_errno=True).mprotect
        self.protect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)

    def array(self, shape: Any, kind: Any) -> Any:
        kind = np.dtype(kind)
        size = int(np.prod(shape)) * kind.itemsize
        pages = -(-size // PAGE) * PAGE
        block = mmap.mmap(-1, pages + 2 * PAGE)
        whole = np.frombuffer(block, np.uint8)
        start = whole.__array_interface__["data"][0]
        for fence in (start, start + PAGE + pages):
            assert self.protect(fence, PAGE, 0) == 0
        self.kept.append((block, whole))
        first = PAGE + (pages - size if self.at_end else 0)
        made = whole[first : first + size].view(kind).reshape(shape)
        if kind.kind == "f":
            made[...] = np.nan
        return made

    def copy(self, values: Any) -> Any:
        made = self.array(values.shape, values.dtype)
        made[...] = values
        return made

    def open(self) -> None:
        """Lets the memory be freed."""
        for _, whole in self.kept:
            start = whole.__array_interface__["data"][0]
            for fence in (start, start + whole.size - PAGE):
                self.protect(fence, PAGE, 3)


def run(goal: Definition, given: dict[int, Any], fenced: Fenced) -> Any:
    """What a definition of native functions alone gives; `given` are arrays by the `id` of definitions."""
    arrays = dict(given)
    functions = Functions()
    order: list[Direct] = []

    def visit(value: Definition) -> None:
        if id(value) not in arrays:
            assert isinstance(value, Direct), value
            for each in operands_of(value):
                visit(each)
            arrays.setdefault(id(value), fenced.array(value.shape, TYPES[value.type]))
            if value.also is not None:
                arrays[id(value.also)] = fenced.array(value.also.shape, TYPES[value.also.type])
            order.append(value)

    visit(goal)
    names = [functions.text(value.text.splitlines()) for value in order]
    functions.load()
    for value, name in zip(order, names, strict=True):
        held = [value, *([] if value.also is None else [value.also]), *value.operands]
        places = [arrays[id(each)].__array_interface__["data"][0] for each in held]
        record = np.array([*range(len(places)), *value.numbers], np.int64)
        buffers = np.array(places, np.uint64)
        call = CALL(functions.address(name))
        for chunk in range(value.chunks):
            low, high = [value.rows * (chunk + i) // value.chunks for i in (0, 1)]
            call(record.ctypes.data, buffers.ctypes.data, None, low, high, chunk)
        if TYPES[value.type].kind == "f":
            assert not np.isnan(arrays[id(value)]).any(), f"{value.name}: elements that nobody wrote"
    return arrays[id(goal)]
