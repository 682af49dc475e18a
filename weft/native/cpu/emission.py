"""Emission: the steps of a plan as machine code.

Takes a plan; gives the functions of its steps, compiled, and their names. One idea: a function is known by
its text, so steps that differ in numbers alone share one; where a size decides which of several does a step,
all of them are compiled, and a call chooses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.core.expressions import Expression, Symbol
from weft.native.cpu import blas, gemm, packing, tiers
from weft.native.cpu.calls import NOTHING
from weft.native.cpu.engine import Functions
from weft.native.cpu.tiles import tile
from weft.native.ir.definitions import Direct, Product
from weft.native.ir.sizes import Size, Sizes, Truth, at_least, hint, where
from weft.native.plan.build import Built
from weft.native.plan.fuse import Plan
from weft.native.plan.work import CHUNK, column_tiles, product_work, work_of


class Emission:
    """The functions of a plan: see `weft.native.program.assemble.Emitted`."""

    def __init__(self, plan: Plan) -> None:
        steps = plan.steps
        self.functions = Functions(drafts=tiers.are_used())
        self.choices: dict[Symbol, str] = {}
        kernels = {id(step.kernel): step.kernel for step in steps if isinstance(step, Built)}
        known = {key: self.functions.kernel(kernel) for key, kernel in kernels.items()}
        self.names = [self.function_of(step, known) for step in steps]
        self.load(plan)
        self.multiplies = any(
            isinstance(step, Product) and step.packed is not True and gemm.is_better(step) is not True
            for step in steps
        )

    def load(self, plan: Plan) -> None:
        """Compiles functions, some of them quickly at first: see Note [Drafts] in `weft.native.cpu.tiers`."""
        if not tiers.are_used():
            self.functions.load()
            return
        works: dict[str, int] = {}
        for step, name in zip(plan.steps, self.names):
            for each in (name,) if type(name) is str else [self.choices[one] for one in named(name)]:
                works[each] = works.get(each, 0) + draft_work(step)
        calls = 1 if plan.sizes is None else tiers.CALLS
        before = self.functions.drafts()
        self.functions.load(tiers.drafts_of(self.functions.missing, works, calls))
        if calls > 1 and before:
            self.functions.improve(tiers.outgrown(self.functions.texts(before), works))

    def function_of(self, step: Any, known: dict[int, str]) -> Any:
        """The name of a step's function; "" where Python does it. Kernels' are known, by their `id`."""
        if isinstance(step, Built):
            return known[id(step.kernel)]
        if isinstance(step, Product):
            batched = at_least(step.count, 2) | at_least(column_tiles(step), 2)
            return self.either(
                step.packed,
                lambda: self.functions.text(packing.lines(step.right.transposed, tile())),
                lambda: self.either(
                    gemm.is_better(step),
                    lambda: self.one_of(batched, lambda many: gemm.lines(step.type, many, tile())),
                    lambda: self.one_of(batched, lambda many: blas.lines(step.type, many)),
                ),
            )
        return self.functions.text((step.text or NOTHING).splitlines()) if isinstance(step, Direct) else ""

    def either(self, condition: Any, yes: Callable[[], Any], no: Callable[[], Any]) -> Any:
        """The name of one of two functions, or what chooses one in each call."""
        if type(condition) is not Truth:
            return yes() if condition else no()
        return where(condition, self.choice(yes(), condition.owner), self.choice(no(), condition.owner))

    def one_of(self, condition: Any, lines: Callable[[bool], list[str]]) -> Any:
        """The function with these lines, where a condition holds, and where it does not."""
        return self.either(
            condition,
            lambda: self.functions.text(lines(True)),
            lambda: self.functions.text(lines(False)),
        )

    def choice(self, name: Any, owner: Sizes) -> Any:
        """A function as a number."""
        if type(name) is not str:
            return name
        symbol = Symbol(f"@{name}", int)
        self.choices[symbol] = name
        return Size(owner, Expression("symbol", (symbol,), int), 0)


def draft_work(step: Any) -> int:
    """How many ns of a step are spent in code of ours."""
    if isinstance(step, Built):
        return int(hint(work_of(step.sizes, step.kernel)))
    if isinstance(step, Product):
        ours = hint(step.packed) or hint(gemm.is_better(step))
        return int(hint(product_work(step))) if ours else 0  # else BLAS
    return int(hint(step.work) or hint(step.chunks) * CHUNK) if isinstance(step, Direct) else 0


def named(chooses: Size) -> list[Symbol]:
    """The functions among which a number chooses."""
    return [symbol for symbol in chooses.expression.symbols if symbol.name.startswith("@")]
