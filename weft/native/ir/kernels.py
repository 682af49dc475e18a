"""Kernels as data: loops, what they load, compute, fold and store.

Gives the records that lowering makes and that the emitter writes as LLVM text and `interpret` runs with
NumPy. One idea: a kernel knows neither sizes nor strides nor addresses, only how many loops there are and
how each operand moves along the innermost one; all numbers stand in the record of the call.

# Note [Loops]
    for row in lo..hi:                    the outer axes, counted as one number (they are split up per row)
        phase 0: for i in 0..inner:       loads, body, stores; folds over the row
        phase 1: for i in 0..inner:       may read what the folds of earlier phases gave
        at the end of each phase:         a body over folds alone; its results count as folds, too, and can be
                                          stored once a row
A kernel without folds has one phase. Its rows are all outer axes; `lo` and `hi` cut them into chunks, by
which
kernels run on several threads. Where there is one row only, they cut the innermost axis.

# Note [Folds]
`row`      over the innermost axis: `lanes` partial sums per row, then one tree over them: the bits depend on
           the length of the row alone
`column`   over the rows of the chunk: one partial result per element of the innermost axis. Chunks give a row
           of partial results each (`partial`), which a later kernel folds in order
`all`      over everything in the chunk; partial results per chunk, folded later in order. Rows have a result
           each, which go to as many partial results as a vector has lanes, one after the other
How rows are cut into chunks depends on sizes alone, never on the number of threads.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, Final

from weft.core.records import record
from weft.native.ir.scalar import FLOATS, TYPES, Body, bits_of, text
from weft.native.ir.sizes import same

FOLDS: Final = ("sum", "prod", "max", "min", "any", "all")
COMBINED: Final = {"sum": "add", "prod": "mul", "max": "max", "min": "min", "any": "or", "all": "and"}
"""The instructions by which they fold."""
LANES: Final = 4
"""How many vectors of partial sums a fold has: enough to hide the latency of an addition."""
SHORT: Final = 12
"""So many instructions do not hide that an addition waits for the one before."""
EVEN: Final = 64
"""What a walk takes at a time divides this."""
LONGEST: Final = 8192
"""Rows that one long row is cut into are not longer than this."""


def is_even(sizes: tuple[int, ...]) -> bool:
    """Whether loops of these sizes need no remainders."""
    return len(sizes) > 1 and same(sizes[-1] % EVEN, 0)


def row_of(size: int) -> int:
    """How long the rows are that one long row may be cut into; 0 where they would leave a rest."""
    if size % EVEN:
        return 0
    times = size // EVEN
    return EVEN * next(n for n in range(min(times, LONGEST // EVEN), 0, -1) if times % n == 0)


class Scope(Enum):
    """What a fold goes over; see Note [Folds]."""

    ROW = "row"
    COLUMN = "column"
    ALL = "all"


class Step(Enum):
    """How an operand moves along the innermost axis."""

    NONE = 0
    ONE = 1
    OTHER = 2


@record(frozen=True, slots=True)
class Access:
    """An operand: a buffer, walked along by strides that the record gives."""

    type: str
    step: Step
    written: bool = False
    apart: int = 0
    """How far apart elements lie, where that is known and they do not lie beside each other."""
    leader: int = 0
    """Which access is the first of a stretch of memory of which this one is part, if `apart` is known."""
    place: int = 0
    """How far behind it."""
    single: bool = False
    """Whether it is one number, which does not lie among others."""


@record(frozen=True, slots=True)
class Fold:
    """A fold of one value of a phase."""

    kind: str
    value: int
    """The instruction of the phase's body whose results are folded."""
    type: str
    scope: Scope = Scope.ROW
    access: int | None = None
    """Where partial results go, for folds that are no rows'."""


@record(frozen=True, slots=True)
class Store:
    """A result that is kept."""

    value: int
    access: int


@record(frozen=True, slots=True)
class Phase:
    """One walk along the innermost axis, and what follows it."""

    body: Body
    stores: tuple[Store, ...] = ()
    folds: tuple[Fold, ...] = ()
    after: Body = ()
    """Run once a row, over folds, scalars and loads that do not move along the innermost axis."""
    given: tuple[int, ...] = ()
    """Which results of `after` later phases may read: they are numbered behind the folds."""
    kept: tuple[Store, ...] = ()
    """Which results of `after` are stored."""


@record(frozen=True, slots=True)
class Kernel:
    """See Note [Loops]. Folds are numbered through all phases: a phase's folds, then its given results."""

    outer: int
    """How many outer axes there are."""
    accesses: tuple[Access, ...]
    phases: tuple[Phase, ...]
    scalars: tuple[str, ...] = ()
    """The types of the numbers that are arguments of the call."""
    even: bool = False
    """Whether rows are whole multiples of EVEN elements, and never cut: there are no remainders then."""
    rows: bool = False
    """Whether elements of the innermost axis are rows that were written out, and folded over all of them: see
    `weft.native.plan.unroll`.
    """
    lane: int = 0
    """How many bytes of a vector an element takes; 0 where the smallest numbers that matter say so."""
    quick: bool = False
    """Whether it is to be compiled quickly, since it takes a small part of a program's time."""

    def __str__(self) -> str:
        lines = [f"kernel of {self.outer} outer axes"]
        for place, each in enumerate(self.accesses):
            lines.append(f"  {place}: {each.type} step {each.step.name.lower()}{' out' * each.written}")
        for number, phase in enumerate(self.phases):
            lines.append(f"  phase {number}")
            lines += [f"    {line}" for line in text(phase.body).splitlines()]
            lines += [f"    store %{each.value} -> {each.access}" for each in phase.stores]
            lines += [f"    {each.kind} of %{each.value} by {each.scope.value}" for each in phase.folds]
            lines += [f"    after {line}" for line in text(phase.after).splitlines()]
        return "\n".join(lines)


@record(slots=True)
class Placed:
    """One operand of a call: which buffer, where in it, and how far apart elements are; all in elements."""

    buffer: int
    offset: int
    strides: tuple[int, ...]
    """One per outer axis, then that of the innermost."""


@record(slots=True)
class Call:
    """A kernel with its numbers."""

    kernel: Kernel
    sizes: tuple[int, ...]
    """Of the outer axes, then of the innermost."""
    operands: tuple[Placed, ...]
    scalars: tuple[Any, ...] = ()
    name: str = ""
    """The ops that it does, for people."""
    reads: tuple[int, ...] = ()
    writes: tuple[int, ...] = ()


# -- what folds depend on ------------------------------------------------------------------------------------
def identity(fold: Fold) -> Any:
    """What a fold starts from."""
    kind = TYPES[fold.type]
    if fold.kind in ("sum", "any"):
        return 0
    if fold.kind in ("prod", "all"):
        return 1
    if fold.type in FLOATS:
        return float("-inf") if fold.kind == "max" else float("inf")
    limits: Any = (0, 1) if fold.type == "b1" else (_low(kind), _high(kind))
    return limits[0] if fold.kind == "max" else limits[1]


def _low(kind: Any) -> int:
    return 0 if kind.kind == "u" else -(1 << (8 * kind.itemsize - 1))


def _high(kind: Any) -> int:
    return int((1 << (8 * kind.itemsize - (0 if kind.kind == "u" else 1))) - 1)


def size_of(type_: str) -> int:
    return 1 if type_ == "b1" else bits_of(type_) // 8


def lane_bytes(kernel: Kernel) -> int:
    """How many bytes of a vector an element takes: as many as the smallest numbers that matter."""
    types = {each.type for phase in kernel.phases for each in phase.body} | {a.type for a in kernel.accesses}
    sizes = [size_of(type_) for type_ in types if type_ in FLOATS or type_ in ("i32", "i64", "u32", "u64")]
    return kernel.lane or min(sizes, default=4)


def unrolled_by(phase: Phase) -> int:
    """How many vectors a fold takes at a time: few, where their elements take longer than additions wait
    for each other.
    """
    length = sum(each.op not in ("const", "fold", "scalar") for each in phase.body)
    return LANES if length <= SHORT else LANES // 2 if length <= 4 * SHORT else 1
