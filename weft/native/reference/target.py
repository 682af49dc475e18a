"""The target `reference`: programs read by NumPy instead of compiled.

Gives the object that lowering and planning ask. One idea: it has what can be read (kernels, products, random
words, checks); for all else, ops run their array kernels. It needs no LLVM.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NoReturn

import numpy as np

from weft.native.backend import Compiled, told
from weft.native.cpu import copy_operands, steps
from weft.native.ir.definitions import Definition, Shape
from weft.native.ir.scalar import FLOATS
from weft.native.plan.rewrite import Rule
from weft.native.program.executable import Executable
from weft.native.program.planning import planned
from weft.native.program.program import Program
from weft.native.program.stepping import Stepping
from weft.native.reference.interpreter import interpreted
from weft.native.target import Unlowered


def unreadable(*_operands: Any) -> NoReturn:
    raise Unlowered("a native function that the reference backend does not have")


class Reference:
    """What can be read: see `weft.native.target.Target`."""

    name = "reference"
    joins = False
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


reference: Final = Reference()


class _Nothing:
    """Functions without addresses."""

    def address(self, _name: str) -> int:
        return 0


class Interpretation(Executable):
    """A program without machine code."""

    looks = False

    def compile(self, steps: Sequence[Any]) -> list[str]:
        self.functions: Any = _Nothing()
        self.multiplies = False
        self.outside = np.zeros(1, np.uint64)
        return [""] * len(steps)

    def make_frame(self) -> Any:
        """There is no way around `__call__`."""
        return None

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        stepping = Stepping(self, inputs, interpreted)
        stepping.finish()
        return stepping.results()


class Interpreted(Compiled):
    """A graph, with a program per layout of its inputs, all of which are read."""

    opens = False

    def made(self, arrays: list[Any]) -> Program:
        module = self.module_for(arrays)
        outputs, plan, homes = planned(module, arrays, reference)
        return told(Interpretation(outputs, plan, arrays, homes), arrays, self.graph_module)
