"""Programs as rows: steps with their records, whose numbers may be open.

Takes what a plan, or an earlier process, says of a program's steps; gives the tables of a call. One idea:
what templates are made of is the same data, whether it was planned here or comes from the disk.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import numpy as np

from weft.core.expressions import Symbol
from weft.native.cpu.calls import address
from weft.native.cpu.pool import FIELDS
from weft.native.ir.sizes import Size, Sizes, hint, now
from weft.native.program.program import Program


class OpenRows(Program):
    """A program that still has the formulas of its numbers."""

    sizes: Sizes | None
    """Those that are open."""
    records: list[list[Any]]
    rows: list[list[Any]]
    """The code, and the numbers of each step, open ones as formulas."""
    names: list[Any]
    """The functions of the steps by name, or as numbers that choose among them."""
    choices: dict[Symbol, str]
    """Functions among which open sizes choose, by the symbols that stand for their addresses."""
    formulas: dict[str, Any]
    """What else depends on sizes: what outputs are, and where values lie."""
    results_of_call: list[Any]

    def written_rows(self) -> Any:
        """The code of this call: see Note [Records of a program] in `weft.native.cpu.pool`."""
        ends = [*accumulate(map(len, self.records))]
        self.words = np.array([hint(number) for row in self.records for number in row] or [0], np.int64)
        records = [self.words[end - len(row) : end] for row, end in zip(self.records, ends)]
        self.keep += records
        known = self.function_addresses()
        made = []
        for row in self.rows:
            function, number, *rest = row
            at = function.expression.evaluate(known) if type(function) is Size else function
            made.append([at, 0 if number < 0 else address(records[number]), *hint(rest)])
        return np.array(made or [[0] * FIELDS], np.int64)

    def function_addresses(self) -> dict[Symbol, int]:
        """What symbols stand for where functions are chosen by sizes."""
        values = {} if self.sizes is None else dict(self.sizes.values)
        return values | {symbol: self.functions.address(name) for symbol, name in self.choices.items()}

    def settle(self) -> None:
        """Takes what depends on sizes as it is in this call."""
        for name, value in self.formulas.items():
            setattr(self, name, value if self.sizes is None else now(value))
