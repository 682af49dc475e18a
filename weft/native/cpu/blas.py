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
from weft.native.cpu.conv_code import BYTES, Code
from weft.native.cpu.writer import Writer

FUNCTIONS: Final = {"f32": "sgemm", "f64": "dgemm"}
SPELLINGS: Final = ("scipy_cblas_{}64_", "cblas_{}64_", "cblas_{}")
FIELDS: Final = 18
PLACES: Final = {"f32": 4, "f64": 5}
"""Where their addresses stand in the table of `weft.native.cpu.outside`, which knows this module."""
BY_ROWS, PLAIN, TRANSPOSED = 101, 111, 112
"""How BLAS calls the order of elements, and matrices as they lie and with their axes exchanged."""


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


@cache
def lines(type_: str, batched: bool) -> list[str]:
    """The function of a product; see Note [Record of a product]. The address of BLAS's own stands in the
    table of outside functions.
    """
    _, bits = function(type_)
    code = Code(type_, BYTES[type_])
    w, element, whole = code.out, code.element, f"i{bits}"
    numbers = code.numbers(0, FIELDS)
    a, b, c = (code.past(code.buffer(place), numbers[place + 1]) for place in (5, 8, 11))
    turned, _ = sides = [w.other("i64", numbers[place], "0") for place in (3, 4)]
    orders = [f"i32 {w.pick(side, 'i32', TRANSPOSED, PLAIN)}" for side in sides]
    columns, depth, *leading = (_narrow(w, numbers[place], whole) for place in (1, 2, 7, 10, 13))
    beta = w.pick(w.other("i64", numbers[17], "0"), element, "1.0", "0.0")
    gemm = w.item("%outside", PLACES[type_], "ptr")

    def call(rows: str, a: str, b: str, c: str) -> None:
        matrices = [
            f"ptr {a}",
            leading[0],
            f"ptr {b}",
            leading[1],
            f"{element} {beta}",
            f"ptr {c}",
            leading[2],
        ]
        given = [f"i32 {BY_ROWS}", *orders, rows, columns, depth, f"{element} 1.0", *matrices]
        w.call("void", gemm, *given)

    if batched:
        rows = _narrow(w, numbers[0], whole)
        with code.loop("%lo", "%hi") as entry:
            steps = [code.mul(entry.at, numbers[place]) for place in (14, 15, 16)]
            call(rows, *[code.past(start, step) for start, step in zip((a, b, c), steps)])
    else:
        rows = _narrow(w, code.sub("%hi", "%lo"), whole)
        down = code.mul("%lo", w.pick(turned, "i64", "1", numbers[7]))
        call(rows, code.past(a, down), b, code.past(c, code.mul("%lo", numbers[13])))
    return code.text().splitlines()


def _narrow(w: Writer, number: str, whole: str) -> str:
    """A number as BLAS takes it, with its type."""
    return f"{whole} {number if whole == 'i64' else w.let(f'trunc i64 {number} to {whole}')}"
