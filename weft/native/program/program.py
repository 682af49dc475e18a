"""Programs as data: what is planned, printed, kept on disk, and run by a target.

Gives one frozen record. One idea: nothing in it is an address, so it means the same in every process and on
every machine of its target; what runs it (`weft.native.cpu.runner`, `weft.native.reference.target`) has
memory and code, and is made of it.

# Note [Places]
Each value that lies in memory has a place: a number, by which records name it. A call fills in addresses:
    inputs                  where the arrays that are given lie; floats, too, are read where Python has them
    constants               always the same
    values on the way       somewhere in the call's block: see `weft.native.plan.memory`
    outputs                 arrays of their own
    results of array kernels (`Opaque`)       wherever these have put them

# Note [Open numbers]
Where sizes are open, numbers are expressions over them (`weft.native.ir.sizes`), which also know what they
are in the call for which the program was planned. What planning has decided of sizes are the conditions of
the template that holds the program: see `weft.native.program.template`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.core.expressions import Symbol
from weft.core.records import record, replace
from weft.native.ir.sizes import Size, Sizes, now

if TYPE_CHECKING:
    from weft.native.program.listing import Listing

ROW = 6
"""How many numbers a row of a step has: rows, chunks, work, and three of the steps that may run with it."""


WORK = 2
"""Where the work of a step stands in its row."""


class Changed(Exception):
    """An input is not as the program was made for."""


class Failed(Exception):
    """Something that the program relies upon does not hold; it has written nothing."""


@record(frozen=True, slots=True, eq=False, kw_only=True)
class Program:
    """A planned program; see Note [Open numbers]. By step are `functions`, `records` and `rows`."""

    size: int
    """How many places there are; see Note [Places]."""
    inputs: int
    """How many inputs; the last are the seeds, where it draws: see Note [Seeds] in
    `weft.native.program.drawing`.
    """
    functions: Sequence[Any]
    """Names of functions; a number that chooses one among `choices`; "" where Python does a step."""
    records: Sequence[Sequence[Any]]
    """What functions are given; nothing where Python does a step."""
    rows: Sequence[Sequence[Any]]
    """See Note [Records of a program] in `weft.native.cpu.pool`, without addresses."""
    choices: Mapping[Symbol, str]
    """Functions among which open sizes choose, by the symbols that stand for them."""
    multiplies: bool
    """Whether a library of products is called."""
    splits: bool
    """Whether other threads can help."""
    givens: Sequence[tuple[int, int]]
    """(place, input)"""
    constants: Sequence[tuple[int, Any]]
    """(place, array)"""
    written: Sequence[tuple[int, int]]
    """(place, input) of inputs that the program writes: these must be writeable, and must not overlap any
    other input."""
    numbers: Sequence[int]
    """Places of outputs that become numbers of Python's."""
    draws: Sequence[tuple[Any, Any]]
    """From which generator, and how many counter blocks."""
    outputs: Sequence[Any]
    """A place; or ("input", its number); or ("constant", an object, of which arrays are to be copied)."""
    made: Sequence[tuple[int, Any, Any]]
    """(place, shape, dtype) of outputs that a call makes."""
    strides: Sequence[Any]
    """Of these, in bytes; None is row by row."""
    arena: Sequence[tuple[int, Any]]
    """(place, offset in the block)"""
    arena_bytes: Any
    looked_at: Sequence[tuple[int, Any, Any, Any]] = ()
    """What Python reads of the block: place, shape, dtype, offset."""
    sizes: Sizes | None = None
    """Those that are open."""
    listing: Listing | None = None
    """What it was planned from, for who prints it or runs it step by step; not kept on disk."""

    @property
    def count(self) -> int:
        return len(self.rows)

    @property
    def work(self) -> int:
        """How long all steps take, in ns, roughly."""
        return sum([max(now(row[2]), 0) for row in self.rows])

    def settled(self) -> Program:
        """The same for the sizes of the call for which it was planned, and for no others."""
        if self.sizes is None:
            return self
        changes: dict[str, Any] = {name: now(getattr(self, name)) for name in OPEN}
        names = [*self.choices.values()]
        numbers = {symbol: number for number, symbol in enumerate(self.choices)}
        values = {**self.sizes.values, **numbers}
        functions = [
            names[each.expression.evaluate(values)] if type(each) is Size else each for each in self.functions
        ]
        return replace(self, **changes, functions=functions, choices={}, sizes=None)


OPEN = ("records", "rows", "draws", "outputs", "made", "strides", "arena", "arena_bytes", "looked_at")
"""What of a program may be open, besides the functions."""


def results_of(program: Program, outputs: Sequence[Any]) -> list[tuple[str, Any]]:
    """Where results are found after a call: among its inputs, behind which new arrays are put; by place, or
    at hand. `outputs` are the program's, with the numbers of a call."""
    made = {place: number for number, (place, _, _) in reversed(list(enumerate(program.made)))}
    results: list[tuple[str, Any]] = []
    for output in outputs:
        if not isinstance(output, int):
            results.append(output)
        elif output not in made:
            results.append(("place", output))
        else:
            how = "number" if output in program.numbers else "item"
            results.append((how, program.inputs + made[output]))
    return results


def found(how: str, where: Any, items: list[Any], values: list[Any]) -> Any:
    """A result of a call, by `results_of`."""
    if how in ("item", "input"):
        return items[where]
    if how == "place":
        return values[where]
    if how == "number":
        return items[where].item()
    return where.copy() if isinstance(where, np.ndarray) else where
