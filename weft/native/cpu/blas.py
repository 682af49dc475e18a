"""Matrix products: NumPy's own BLAS, one thread of it per tile, as steps of our programs.

Gives the text of functions that multiply, with the same arguments as kernels have, and the addresses of the
BLAS functions that they call. One idea: a tile is a chunk of rows (or of a batch), chunks are shared by our
pool, and each calls BLAS for itself, so there is one pool of threads and the bits do not depend on it.

# Note [Record of a product]
    0 rows, columns, depth      3 transposed left, transposed right      5 left: buffer, offset, leading
    8 right: buffer, offset, leading     11 result: buffer, offset, leading     14 batch strides of the three
    17 whether the product is added to what is there
Where there is a batch, the rows that chunks are cut of are its entries, and whole products are computed.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Final

import numpy as np

from weft.core.once import once

FUNCTIONS: Final = {"f32": "sgemm", "f64": "dgemm"}
SPELLINGS: Final = ("scipy_cblas_{}64_", "cblas_{}64_", "cblas_{}")
FIELDS: Final = 18
PLACES: Final = {"f32": 4, "f64": 5}
"""Where their addresses stand in the table of `weft.native.cpu.outside`, which knows this module."""


@cache
def library() -> Any:
    """The library that NumPy multiplies with; None where it cannot be found."""
    folder = os.path.join(os.path.dirname(os.path.dirname(np.__file__)), "numpy.libs")
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    for name in names:
        if "blas" in name:
            return ctypes.CDLL(os.path.join(folder, name))
    return None


@cache
def function(type_: str) -> tuple[int, int]:
    """The address of the product for this type, and how many bits its ints have; (0, 0) if there is none."""
    found = library()
    for spelling in SPELLINGS:
        name = spelling.format(FUNCTIONS[type_])
        if found is not None and hasattr(found, name):
            address = ctypes.cast(getattr(found, name), ctypes.c_void_p).value or 0
            return address, 64 if name.endswith("64_") else 32
    return 0, 0


@cache
def _threads() -> tuple[Any, Any]:
    found = library()
    get = getattr(found, "scipy_openblas_get_num_threads64_", None)
    put = getattr(found, "scipy_openblas_set_num_threads64_", None)
    return (get, put) if get is not None and put is not None else (None, None)


@contextmanager
def one_thread() -> Iterator[None]:
    """BLAS uses one thread meanwhile, as in programs: for steps that run by themselves."""
    get, put = _threads()
    before = 0 if get is None else int(get())
    try:
        if before:
            put(1)
        yield
    finally:
        if before:
            put(before)


@once
def guard() -> Any:
    """What it takes to make BLAS use one thread; see Note [One thread of BLAS] in `weft.native.cpu.pool`.
    Five
    numbers: two addresses, how many programs multiply, how many threads there were, a lock. None where that
    cannot be said.
    """
    if _threads()[0] is None:
        return None
    made = np.zeros(8, np.int64)
    made[:2] = [ctypes.cast(each, ctypes.c_void_p).value or 0 for each in _threads()]
    return made


def _is_guarded() -> bool:
    """Whether programs have multiplied."""
    return bool(guard.made) and guard() is not None


def _forget() -> None:
    """Programs of other threads do not end in a process that was forked."""
    if _is_guarded():
        if guard()[2]:
            _threads()[1](int(guard()[3]))
        guard()[2:] = 0


def _settle() -> None:
    """Waits for products of other threads, which end without the interpreter: BLAS has locks of its own, and
    one that is held in a fork is held for good in the child.
    """
    if _is_guarded():
        sleep = ctypes.PyDLL(None).usleep  # keeps the interpreter, so that none begins meanwhile
        for _ in range(LONGEST_WAIT // STEP):
            if not guard()[2]:
                return
            sleep(STEP)


LONGEST_WAIT, STEP = 2_000_000, 50
"""In µs."""
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_settle, after_in_child=_forget)


def lines(type_: str, batched: bool) -> list[str]:
    """The function of a product; see Note [Record of a product]. The address of BLAS's own stands in the
    table of outside functions.
    """
    _, bits = function(type_)
    element = "float" if type_ == "f32" else "double"
    number = f"i{bits}"
    lines = ["define void @function(ptr %record, ptr %buffers, ptr %outside, i64 %lo, i64 %hi, i64 %chunk) {"]
    lines.append("entry:")
    for place in range(FIELDS):
        lines.append(f"  %p{place} = getelementptr i64, ptr %record, i64 {place}")
        lines.append(f"  %n{place} = load i64, ptr %p{place}")
    for which, place in (("a", 5), ("b", 8), ("c", 11)):
        lines.append(f"  %{which}slot = getelementptr ptr, ptr %buffers, i64 %n{place}")
        lines.append(f"  %{which}base = load ptr, ptr %{which}slot")
        lines.append(f"  %{which}0 = getelementptr {element}, ptr %{which}base, i64 %n{place + 1}")
    lines.append("  %ta = icmp ne i64 %n3, 0")
    lines.append("  %tb = icmp ne i64 %n4, 0")
    lines.append("  %wa = select i1 %ta, i32 112, i32 111")
    lines.append("  %wb = select i1 %tb, i32 112, i32 111")
    narrow = {}
    for label, place in (("n", 1), ("k", 2), ("lda", 7), ("ldb", 10), ("ldc", 13)):
        narrow[label] = f"%n{place}"
        if bits == 32:
            lines.append(f"  %{label}32 = trunc i64 %n{place} to i32")
            narrow[label] = f"%{label}32"
    lines.append("  %onto = icmp ne i64 %n17, 0")
    lines.append(f"  %beta = select i1 %onto, {element} 1.0, {element} 0.0")
    lines.append(f"  %gslot = getelementptr ptr, ptr %outside, i64 {PLACES[type_]}")
    lines.append("  %gemm = load ptr, ptr %gslot")
    lines += (_batch if batched else _tile)(element, number, narrow, bits)
    return [*lines, "}"]


def _call(element: str, number: str, narrow: dict[str, str], rows: str, a: str, c: str, b: str) -> str:
    return (
        f"  call void %gemm(i32 101, i32 %wa, i32 %wb, {number} {rows}, {number} {narrow['n']}, "
        f"{number} {narrow['k']}, {element} 1.0, ptr {a}, {number} {narrow['lda']}, ptr {b}, "
        f"{number} {narrow['ldb']}, {element} %beta, ptr {c}, {number} {narrow['ldc']})"
    )


def _tile(element: str, number: str, narrow: dict[str, str], bits: int) -> list[str]:
    lines: list[str] = []
    lines.append("  %count = sub i64 %hi, %lo")
    lines.append("  %step = select i1 %ta, i64 1, i64 %n7")
    lines.append("  %down = mul i64 %lo, %step")
    lines.append(f"  %a1 = getelementptr {element}, ptr %a0, i64 %down")
    lines.append("  %across = mul i64 %lo, %n13")
    lines.append(f"  %c1 = getelementptr {element}, ptr %c0, i64 %across")
    rows = "%count"
    if bits == 32:
        lines.append("  %count32 = trunc i64 %count to i32")
        rows = "%count32"
    lines.append(_call(element, number, narrow, rows, "%a1", "%c1", "%b0"))
    lines.append("  ret void")
    return lines


def _batch(element: str, number: str, narrow: dict[str, str], bits: int) -> list[str]:
    lines: list[str] = []
    rows = "%n0"
    if bits == 32:
        lines.append("  %rows32 = trunc i64 %n0 to i32")
        rows = "%rows32"
    lines += ["  br label %head", "head:", "  %i = phi i64 [ %lo, %entry ], [ %next, %body ]"]
    lines += ["  %more = icmp slt i64 %i, %hi", "  br i1 %more, label %body, label %done", "body:"]
    for which, place in (("a", 14), ("b", 15), ("c", 16)):
        lines.append(f"  %{which}d = mul i64 %i, %n{place}")
        lines.append(f"  %{which}1 = getelementptr {element}, ptr %{which}0, i64 %{which}d")
    lines.append(_call(element, number, narrow, rows, "%a1", "%c1", "%b1"))
    lines += ["  %next = add i64 %i, 1", "  br label %head", "done:", "  ret void"]
    return lines
