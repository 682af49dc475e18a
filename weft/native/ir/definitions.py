"""Definitions: each value of a graph as an index expression, its element at index i.

Takes shapes, types and other definitions; gives a graph of definitions between the ops of a program and its
kernels. One idea: a view is an index map and a pointwise op a scalar body, so whatever is not kept in memory
is written into the kernels that read it.

# Note [Definitions]
    Given     memory that exists: an input, a constant, or what something else has put there
    Point     one body on the elements of operands of the same shape
    View      another definition, looked at through an affine map of indices
    Reshape   another definition with the same elements in row-major order
    Gather    memory, read where another definition says
    Fold      a definition summed (or multiplied, ...) over neighbouring axes, which are gone
    Opaque    what no kernel computes: an op's own array kernel, a matrix product, a function of its own

# Note [Steps that check]
The result of a `Direct` that checks is one i64. Where it is not 0, the program ends there: nothing has been
written to any input yet, and what called it has the graph run op by op.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from math import prod
from typing import TYPE_CHECKING, Any

from weft.core.records import record
from weft.native.ir.scalar import Body, Builder, Value
from weft.native.ir.sizes import same

Shape = tuple[int, ...]


@record(eq=False, slots=True, kw_only=True)
class Definition:
    """A value of a program."""

    shape: Shape
    type: str
    name: str = ""
    """The op it comes from, for people."""
    kept: bool = False
    """Whether it has memory of its own, whatever fusion thinks."""
    strides: Shape | None = None
    """How it lies there, in elements, where that is not row-major; for inputs, and for what nobody reads."""
    start: int = 0
    """At which element of its memory it begins."""
    source: tuple[Any, ...] | None = None
    """The user's line behind it: file, line, function; empty where that is not known."""
    shown: tuple[Shape, Shape] | None = None
    """The shape and the strides, in elements, in which callers see the memory of an output, if others."""

    if TYPE_CHECKING:  # of some kinds a field, of others made of what they hold

        @property
        def operands(self) -> Sequence[Definition]: ...

    @property
    def size(self) -> int:
        return prod(self.shape)


@record(eq=False, slots=True, kw_only=True)
class Given(Definition):
    """Memory that exists."""

    input: int | None = None
    constant: Any = None

    @property
    def operands(self) -> Sequence[Definition]:
        return ()


@record(eq=False, slots=True, kw_only=True)
class Point(Definition):
    """`make(builder, values, place)` of the operands' elements; `place(axis)` is the element's index."""

    make: Callable[[Builder, list[Value], Callable[[int], Value]], Value]
    operands: list[Definition] = field(default_factory=list)
    cost: int = 1
    """Roughly how many instructions one element takes: what is dear is not computed twice."""


@record(eq=False, slots=True, kw_only=True)
class Number(Point):
    """A float, an int or a truth of Python's, which is no tensor, though it lies in memory as one would."""


@record(eq=False, slots=True, kw_only=True)
class Part(Point):
    """What is computed in the memory of another definition, where `start` and `strides` say. Nobody reads it:
    it is an operand of that definition alone.
    """

    whole: Definition


@record(eq=False, slots=True, kw_only=True)
class View(Definition):
    """The element at `i` is that of `base` at `offset + sum(step * i)`, for each axis of the base."""

    base: Definition
    offsets: Shape
    steps: tuple[Shape, ...]
    """Per axis of the base, how much each axis of the view moves along it."""

    @property
    def operands(self) -> Sequence[Definition]:
        return (self.base,)


@record(eq=False, slots=True, kw_only=True)
class Reshape(Definition):
    base: Definition

    @property
    def operands(self) -> Sequence[Definition]:
        return (self.base,)


@record(eq=False, slots=True, kw_only=True)
class Gather(Definition):
    """The element at `i` lies in the memory of `base`, `offset + sum(moves * i) + index[i]` elements on."""

    base: Definition
    index: Definition
    """Of type i64; whoever makes it sees to it that nothing outside is read."""
    offset: int
    moves: Shape

    @property
    def operands(self) -> Sequence[Definition]:
        return self.base, self.index


@record(eq=False, slots=True, kw_only=True)
class Fold(Definition):
    """`operand` folded over the axes from `first` to before `last`. With `parts`, over the leading axes up to
    `last`, in so many parts, one after the other; the first axis of the result counts these, if several.
    """

    kind: str
    operand: Definition
    first: int
    last: int
    parts: int = 0

    @property
    def operands(self) -> Sequence[Definition]:
        return (self.operand,)


@record(eq=False, slots=True, kw_only=True)
class Opaque(Definition):
    """One result of a call on arrays."""

    call: Any
    operands: list[Definition] = field(default_factory=list)
    number: int = 0


@record(frozen=True, slots=True)
class Matrix:
    """An operand of a product: an operand's memory, with its offset and strides, in elements."""

    operand: int
    offset: int
    transposed: bool
    leading: int
    batch: int
    """The distance from one matrix of a batch to the next; 0 where all use the same."""


@record(eq=False, slots=True, kw_only=True)
class Product(Opaque):
    """`rows x depth` times `depth x columns`, for each entry of a batch."""

    rows: int
    columns: int
    depth: int
    count: int
    left: Matrix
    right: Matrix
    onto: Product | None = None
    """What it is added to, in whose memory it lies, and which nobody else reads; also an operand."""
    packed: Any = False
    """Whether its first matrix is one of `weft.native.cpu.packing`; calls may decide where sizes are open."""
    panels: int | None = None
    """Of products for which calls decide: the operand that is the packed copy."""
    straight: Matrix | None = None
    """A copy of the second matrix that does not lie transposed, which is read where `copied` holds."""
    copied: Any = False


@record(eq=False, slots=True, kw_only=True)
class Direct(Opaque):
    """What a native function that is no kernel of ours computes, with the arguments that kernels have. Its
    record: the place of the result, those of the operands, then the numbers.
    """

    function: str
    """Its name, which tells it from all others."""
    text: str
    """The module that has it, and nothing else but declarations."""
    numbers: tuple[int, ...]
    rows: int
    chunks: int
    work: int = 0
    """How long it takes, in ns; 0 where its chunks say so."""
    checks: bool = False
    """Whether the result says that the program must not go on: see Note [Steps that check]."""
    also: Definition | None = None
    """A second result, behind the first in the record: a definition that reads this one and does nothing."""
    finishing: Callable[[Body], str] | None = None
    """Its text with a body that is computed of each result before it is stored, if there is such a text."""


@record(eq=False, slots=True, kw_only=True)
class Stack(Direct):
    """What the memory of its operands is, which lie one behind the other: it is where the first of them is.
    Stacks that share operands are parts of the longest one.
    """


def operands_of(value: Definition) -> Sequence[Definition]:
    """What a definition is made of. (Every kind of them knows; most hold a list.)"""
    found: Sequence[Definition] = value.operands
    return found


def marked(value: Any, source: tuple[Any, ...]) -> None:
    """Notes the user's line of definitions that are new."""
    waiting = list(value) if isinstance(value, (tuple, list)) else [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, Definition) and each.source is None and not isinstance(each, Given):
            each.source = source
            waiting += operands_of(each)


# -- views ---------------------------------------------------------------------------------------------------
def view(base: Definition, shape: Shape, offsets: Shape, steps: Sequence[Shape]) -> Definition:
    """The view; views of views are one view."""
    steps = tuple(steps)
    if isinstance(base, View):
        inner_offsets, inner_steps = [], []
        for offset, moves in zip(base.offsets, base.steps):
            inner_offsets.append(offset + sum(step * at for step, at in zip(moves, offsets)))
            inner_steps.append(
                tuple(
                    [sum(step * steps[k][axis] for k, step in enumerate(moves)) for axis in range(len(shape))]
                )
            )
        base, offsets, steps = base.base, tuple(inner_offsets), tuple(inner_steps)
    identity = tuple([tuple([int(i == k) for i in range(len(shape))]) for k in range(len(base.shape))])
    if same(shape, base.shape) and steps == identity and not any(offsets):
        return base
    return View(shape=shape, type=base.type, name=base.name, base=base, offsets=offsets, steps=steps)


def permuted(base: Definition, order: Sequence[int]) -> Definition:
    shape = tuple([base.shape[axis] for axis in order])
    steps = [tuple([int(order[i] == k) for i in range(len(order))]) for k in range(len(base.shape))]
    return view(base, shape, (0,) * len(base.shape), steps)


def broadcast(base: Definition, shape: Shape) -> Definition:
    """The definition with the elements of axes of length 1 repeated; leading ones may be too many."""
    if same(base.shape, shape):
        return base
    lead = len(shape) - len(base.shape)
    steps = []
    for axis, size in enumerate(base.shape):
        moves = [0] * len(shape)
        if lead + axis >= 0:
            moves[lead + axis] = int(same(size, shape[lead + axis]) or size != 1)
        steps.append(tuple(moves))
    return view(base, shape, (0,) * len(base.shape), steps)


def sliced(base: Definition, axis: int, start: int, step: int, length: int) -> Definition:
    shape = (*base.shape[:axis], length, *base.shape[axis + 1 :])
    offsets = tuple([start if k == axis else 0 for k in range(len(shape))])
    steps = [
        tuple([(step if k == axis else 1) if i == k else 0 for i in range(len(shape))])
        for k in range(len(shape))
    ]
    return view(base, shape, offsets, steps)


def selected(base: Definition, axis: int, place: int) -> Definition:
    shape = (*base.shape[:axis], *base.shape[axis + 1 :])
    offsets = tuple([place if k == axis else 0 for k in range(len(base.shape))])
    steps = []
    for k in range(len(base.shape)):
        own = None if k == axis else k - (k > axis)
        steps.append(tuple([int(i == own) for i in range(len(shape))]))
    return view(base, shape, offsets, steps)


def reshaped(base: Definition, shape: Shape) -> Definition:
    """The same elements in row-major order: a view where only axes of length 1 come or go."""
    if same(shape, base.shape):
        return base
    if same(tuple([n for n in shape if n != 1]), tuple([n for n in base.shape if n != 1])):
        places = iter([axis for axis, n in enumerate(shape) if n != 1])
        steps = []
        for size in base.shape:
            own = None if size == 1 else next(places)
            steps.append(tuple([int(i == own) for i in range(len(shape))]))
        return view(base, shape, (0,) * len(base.shape), steps)
    if isinstance(base, Reshape):
        return reshaped(base.base, shape)
    base = copyable(base)
    return Reshape(shape=shape, type=base.type, name=base.name, base=base)


def copyable(base: Definition) -> Definition:
    """Memory in another order as a definition that can be kept: as a copy, where that order does not do."""
    if not isinstance(base, Given) or base.strides is None:
        return base
    return Point(shape=base.shape, type=base.type, name=base.name, make=_same, operands=[base])


def _same(_builder: Builder, values: list[Value], _place: Callable[[int], Value]) -> Value:
    return values[0]
