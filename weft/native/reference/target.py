"""The target `reference`: programs read by NumPy instead of compiled.

Gives the object that lowering and planning ask. One idea: it has what can be read (kernels, products, random
words, checks); for all else, ops run their array kernels. It needs no LLVM.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NoReturn

from weft.core.expressions import Symbol
from weft.native.cpu import copy_operands, products, steps
from weft.native.ir.definitions import Definition, Shape
from weft.native.ir.scalar import FLOATS
from weft.native.plan.fuse import Plan
from weft.native.plan.order import is_python
from weft.native.plan.rewrite import Rule
from weft.native.program.assemble import assembled
from weft.native.program.drawing import Draws
from weft.native.program.planning import Planned
from weft.native.program.program import Program, results_of
from weft.native.program.stepping import Stepping
from weft.native.reference.interpreter import interpreted
from weft.native.target import Target, Unlowered


def unreadable(*_operands: Any) -> NoReturn:
    raise Unlowered("a native function that the reference backend does not have")


class Reference:
    """What can be read: see `weft.native.target.Target`."""

    name = "reference"
    keeps = joins = False
    rules: Sequence[type[Rule]] = (copy_operands.CopyOperands,)

    # -- steps -----------------------------------------------------------------------------------------------
    convolution = input_gradient = weight_gradient = unreadable
    maxima = unpooled = gathered = weighted_sums = scattered = scanned = unreadable

    def multiplies(self, type_: str) -> bool:
        return type_ in FLOATS

    def words(self, seeds: Definition, number: int, shape: Shape, type_: str, threshold: int) -> Definition:
        return steps.words(seeds, number, shape, type_, threshold)

    def check(self, failure: Definition) -> Definition:
        return steps.check(failure)

    # -- running ---------------------------------------------------------------------------------------------
    def unusable(self) -> str:
        return ""

    def executable(self, planned: Planned, inputs: Sequence[Any]) -> Interpretation:
        program = assembled(planned, len(inputs), Names(planned.plan), products.record_of)
        return Interpretation(program)


class Names:
    """What stands for functions, which are none: see `weft.native.program.assemble.Emitted`."""

    multiplies = False

    def __init__(self, plan: Plan) -> None:
        self.names = ["" if is_python(step) else "read" for step in plan.steps]
        self.choices: dict[Symbol, str] = {}


class Interpretation:
    """A program that is read, step by step: see `weft.native.target.Running`."""

    looks = is_restored = False
    frame = None

    def __init__(self, program: Program) -> None:
        assert program.listing is not None
        self.program, self.givens, self.written = program, program.givens, program.written
        self.results = results_of(program, program.outputs)
        self.draws = Draws(program.draws) if program.draws else None
        steps = enumerate(program.functions)
        self.python = {number: program.listing.call_step(number) for number, name in steps if not name}

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        stepping = Stepping(self, inputs, interpreted)
        stepping.finish()
        return stepping.results()


reference: Final[Target] = Reference()
