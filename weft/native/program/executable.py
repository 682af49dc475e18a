"""Making programs: a plan as records, with machine code.

Takes a graph, or a plan, and the arrays of a first call; gives a program. One idea: everything that does not
depend on addresses (records, sizes, functions, where values lie in a call's block of memory) is laid out
once; what runs then, `weft.native.program.program`, knows nothing of graphs.

# Note [Places]
Each value that lies in memory has a place: a number, by which records name it. A call fills in addresses:
    inputs                  where the arrays that are given lie; floats, too, are read where Python has them
    constants               always the same
    values on the way       somewhere in the call's block: see `weft.native.plan.memory`
    outputs                 arrays of their own
    results of array kernels (`Opaque`)       wherever these have put them
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import isqrt, prod
from typing import Any

import numpy as np

from weft.core.expressions import Expression, Symbol, constant
from weft.native.cpu import blas, gemm, packing, tiers
from weft.native.cpu.calls import CHECK, address
from weft.native.cpu.engine import Functions
from weft.native.cpu.outside import table
from weft.native.cpu.pool import FIELDS
from weft.native.cpu.tiles import tile
from weft.native.ir.definitions import Definition, Direct, Given, Number, Opaque, Part, Product, Stack
from weft.native.ir.scalar import FLOATS, TYPES
from weft.native.ir.sizes import (
    Amount,
    At,
    Size,
    Sizes,
    Truth,
    at_least,
    equal,
    hint,
    is_open,
    now,
    where,
    word_of,
)
from weft.native.lower.lowering import NUMBER, Call, Lowering, Operand
from weft.native.lower.numbers import any_of
from weft.native.plan import memory
from weft.native.plan.accumulate_products import AccumulateProducts
from weft.native.plan.batch_products import BatchProducts
from weft.native.plan.build import Built
from weft.native.plan.copy_operands import CopyOperands
from weft.native.plan.fuse import Plan, fused
from weft.native.plan.fuse_epilogue import FuseEpilogues
from weft.native.plan.memory import Lifetime, Placement, in_runs, placed, placed_open
from weft.native.plan.order import NATIVE, bunches, is_python, ordered, reads_of, wished, writes_of
from weft.native.plan.rewrite import Definitions, Rule
from weft.native.plan.transpose_products import TransposeProducts
from weft.native.plan.work import CHUNK, chunks_of, column_tiles, product_chunks, product_work, work_of
from weft.native.program.drawing import Draws
from weft.native.program.open_rows import OpenRows
from weft.native.program.program import Step

WRITTEN = "written"
"""Where a graph says which of its inputs the program may write: numbers of inputs and of outputs."""
TOGETHER = 4
"""How many failures a kernel looks at."""
RULES: tuple[type[Rule], ...] = (TransposeProducts, AccumulateProducts, FuseEpilogues)
"""What is done to the definitions of a program, in this order."""
PACKED: tuple[type[Rule], ...] = (BatchProducts, packing.PackOperands)
COPIED: tuple[type[Rule], ...] = (CopyOperands,)
"""What comes when it is known which lie in inputs: the first where products may be packed, last always."""


def numpy_type(name: str) -> Any:
    return TYPES.get(name) or np.dtype(name)


def strides_of(value: Definition) -> tuple[int, ...] | None:
    """The strides, in bytes, of an output that does not lie row by row."""
    if value.shown is None:
        return None
    size = numpy_type(value.type).itemsize
    return tuple([step * size for step in value.shown[1]])


def is_ours(value: Definition) -> bool:
    """Whether a program has memory for a value: array kernels find some for their results themselves."""
    return not isinstance(value, (Given, Opaque)) or isinstance(value, NATIVE)


def whole_of(value: Definition) -> Definition | None:
    """In whose memory a value is computed."""
    if isinstance(value, Part):
        return value.whole
    return value.onto if isinstance(value, Product) else None


class Executable(OpenRows):
    """A program for inputs of certain shapes, strides and types; where sizes are open, for those of these
    inputs, with formulas for all others: see `weft.native.program.template`."""

    def __init__(
        self,
        outputs: list[Any],
        plan: Plan,
        inputs: Sequence[Any],
        homes: dict[int, Given] | None = None,
    ) -> None:
        self.plan = plan
        self.homes = homes or {}
        self.places: dict[int, int] = {}
        self.keep: list[Any] = []
        self.values: dict[int, Definition] = {}
        self.draws = Draws(hint(plan.draws)) if plan.draws else None
        self.inputs = len(inputs) + bool(plan.draws)
        self.python: dict[int, tuple[Step, int]] = {}
        self.work: Any = 0
        self.splits = False
        self.sizes = plan.sizes
        self.choices = {}
        self.records = []
        self.functions = Functions(drafts=tiers.are_used())
        self.names = self.compile(plan.steps)
        self.rows = [
            self.step(number, each, name) for number, (each, name) in enumerate(zip(plan.steps, self.names))
        ]
        self.count = len(self.rows)
        self.spans = [(number, number) for number in range(self.count)]
        """From which step to which each step may run."""
        for first, together, chunks, work in bunches(plan.steps, [row[4] for row in self.rows], self.homes):
            self.rows[first][5:] = together, chunks, work
            self.splits = True
            self.spans[first : first + hint(together)] = [(first, first + hint(together) - 1)] * hint(
                together
            )
        self.code = self.written_rows()
        self.results_of_call = [self.output(each) for each in outputs]
        self.outputs = now(self.results_of_call)
        self.lay_out(inputs)

    # -- what does not depend on a call ----------------------------------------------------------------------
    def compile(self, steps: Sequence[Any]) -> list[Any]:
        """Makes machine code; gives the names of the steps' functions, or the numbers that choose them."""
        kernels = {id(step.kernel): step.kernel for step in steps if isinstance(step, Built)}
        known = {key: self.functions.kernel(kernel) for key, kernel in kernels.items()}
        names = [self.function_of(step, known) for step in steps]
        self.load(steps, names)
        self.multiplies = any(
            isinstance(step, Product) and step.packed is not True and gemm.is_better(step) is not True
            for step in steps
        )
        self.outside = table()
        return names

    def load(self, steps: Sequence[Any], names: list[Any]) -> None:
        """Compiles functions, some of them quickly at first: see Note [Drafts] in `weft.native.cpu.tiers`."""
        if not tiers.are_used():
            self.functions.load()
            return
        works: dict[str, int] = {}
        for step, name in zip(steps, names):
            for each in (name,) if type(name) is str else [self.choices[one] for one in named(name)]:
                works[each] = works.get(each, 0) + draft_work(step)
        calls = 1 if self.plan.sizes is None else tiers.CALLS
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
        return self.functions.text(step.text.splitlines()) if isinstance(step, Direct) else ""

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

    def place(self, value: Definition) -> int:
        """The place of a value in a call; see Note [Places]."""
        found = self.places.get(id(value))
        home = whole_of(value) or self.homes.get(id(value)) if found is None else None
        if home is not None:
            found = self.places[id(value)] = self.place(home)
        if found is None:
            found = self.places[id(value)] = len(self.places)
            self.values[found] = value
        return found

    def output(self, each: Any) -> int | tuple[str, Any]:
        if not isinstance(each, Definition):
            return "constant", each
        each = self.homes.get(id(each), each)
        if isinstance(each, Given):
            return ("constant", each.constant) if each.input is None else ("input", each.input)
        return self.place(each)

    def step(self, number: int, each: Any, name: Any) -> list[Any]:
        """The row of a step: see Note [Records of a program] in `weft.native.cpu.pool`."""
        if isinstance(each, Product):
            return self.product_step(each, name)
        if isinstance(each, Direct):
            places = [self.place(value) for value in (*writes_of(each), *each.operands)]
            record = [*places, *each.numbers]
            known = each.work if is_open(each.work) or each.work else each.chunks * CHUNK
            work = -1 if each.checks else known
            return self.record(name, record, each.rows, each.chunks, work)
        if not isinstance(each, Built):
            self.python[number] = self.call_step(each), self.place(each)
            return [0, -1, *[0] * (FIELDS - 2)]
        record = [*each.sizes]
        for load in each.operands:
            record += [self.place(load.value), load.offset, *load.strides]
        record += [number_word(value, type_) for type_, value in each.scalars]
        rows = prod(each.sizes[:-1]) if len(each.sizes) > 1 else each.sizes[0]
        work = work_of(each.sizes, each.kernel)
        return self.record(name, record, rows, each.chunks or chunks_of(each.sizes, each.kernel), work)

    def record(self, name: Any, numbers: list[Any], rows: Any, chunks: Any, work: Any) -> list[Any]:
        self.records.append(numbers)
        self.work += hint(work) if hint(work) > 0 else 0
        self.splits |= is_open(chunks) or chunks > 1
        function = self.functions.address(name) if type(name) is str else name
        return [function, len(self.records) - 1, rows, chunks, work, 0, 0, 0]

    def product_step(self, each: Product, name: Any) -> list[Any]:
        """See Note [Record of a product] in `weft.native.cpu.blas`."""
        packed, copied, left, right = each.packed, each.copied, each.left, each.right
        straight = right if each.straight is None else each.straight
        panels = left.operand if each.panels is None else each.panels
        places = [self.place(value) for value in each.operands]
        tiles = where(packed, 1, column_tiles(each))
        columns = each.columns // tiles
        transposed = where(copied, 0, int(right.transposed))
        leading = where(copied, straight.leading, right.leading)
        several = at_least(tiles, 2)
        across = where(copied, 1, leading if right.transposed else 1)
        batches = (
            where(several, 0, left.batch),
            where(several, columns * across, where(copied, straight.batch, right.batch)),
            where(several, columns, each.rows * each.columns),
        )
        alike = packed is True  # whose first matrix is the copy
        ours = batches if packed is False else packing.numbers_of(each)
        record: list[Any] = [
            each.rows, columns, each.depth, left.transposed, transposed,
            where(packed, places[panels], places[left.operand]),
            left.offset if alike else where(packed, 0, left.offset),
            left.leading if alike else where(packed, each.depth, left.leading),
            where(copied, places[straight.operand], places[right.operand]),
            where(copied, straight.offset, right.offset), leading,
            self.place(each), 0, each.columns,
            *[where(packed, *pair) for pair in zip(ours, batches, strict=True)],
            each.onto is not None,
        ]  # fmt: skip
        rows = where(several, tiles, where(at_least(each.count, 2), each.count, each.rows))
        chunks = where(several, tiles, product_chunks(each))
        if packed is not False:
            rows = where(packed, packing.strips_of(each), rows)
            chunks = where(packed, packing.chunks_of(each), chunks)
        return self.record(name, record, rows, chunks, product_work(each))

    def call_step(self, each: Opaque, at: Callable[[Any], Any] = now) -> Step:
        """A step that calls an op's own kernel, with `at` the numbers of a call. What it gives must not lie
        in the block: others may look at it when the block is somebody else's.
        """
        call: Call = each.call
        operands = [self.place(value) for value in each.operands]
        target = self.place(each)
        whole = self.places.setdefault(id(call), len(self.places))  # all results, where there are several
        bound, shape = at(call.bound), at(each.shape)
        numbers = {place for place, value in enumerate(each.operands) if isinstance(value, Number)}

        def argument(value: Any, arrays: list[Any]) -> Any:
            if isinstance(value, Operand):
                found = arrays[operands[value.number]]
                return found.item() if value.number in numbers else found
            if isinstance(value, (tuple, list)):
                return type(value)([argument(item, arrays) for item in value])
            return value

        def run(arrays: list[Any], low: int, high: int) -> None:
            result = arrays[whole]
            if result is None:
                result = arrays[whole] = call.op(*[argument(value, arrays) for value in bound])
            result = result[each.number] if isinstance(result, (tuple, list)) else result
            if each.type == NUMBER:
                arrays[target] = result
                return
            if each.type not in TYPES:  # only such calls read it, however it lies
                result = getattr(result, "array", result)
                arrays[target] = result.copy("K") if low <= address(result) < high else result
                return
            result = np.ascontiguousarray(result).reshape(shape)
            arrays[target] = result.copy() if low <= address(result) < high else result

        return run

    def lay_out(self, inputs: Sequence[Any]) -> None:
        """Settles where everything lies, and how a call finds it."""
        givens = [(place, v) for place, v in self.values.items() if isinstance(v, Given)]
        self.givens = [(place, v.input) for place, v in givens if v.input is not None]
        self.constants = [(place, v.constant) for place, v in givens if v.input is None]
        wanted = {each for each in self.outputs if isinstance(each, int)}
        ours = {p: v for p, v in self.values.items() if is_ours(v)}
        made = [(p, v) for p, v in ours.items() if p in wanted]
        self.formulas = {
            "made": [(p, (v.shown or (v.shape,))[0], numpy_type(v.type)) for p, v in made],
            "strides": [strides_of(v) for _, v in made],
        }
        inside = {p: v for p, v in ours.items() if p not in wanted}
        place = placed if self.sizes is None else partial(placed_open, others=calls_around(self.sizes))
        plan = in_runs(self.lifetimes(inside), *self.stacks(inside), place)
        self.formulas["arena"] = [(p, plan.offsets[p]) for p in inside]
        self.formulas["arena_bytes"] = plan.size
        if self.sizes is not None:
            bound_waste(self.sizes, plan)
        over = {self.place(home) for home in self.homes.values()}
        self.written = [(place, n) for place, n in self.givens if place in over]
        self.numbers = [place for place, _ in made if isinstance(self.values[place], Number)]
        self.formulas["looked_at"] = self.views(inside, plan.offsets) if self.python else []
        self.settle()
        self.size = len(self.places)
        self.connect(inputs)

    def lifetimes(self, inside: dict[int, Definition]) -> list[Lifetime]:
        first: dict[int, int] = {}
        last: dict[int, int] = {}
        for (start, end), step in zip(self.spans, self.plan.steps, strict=True):
            for value in (*writes_of(step), *reads_of(step)):
                place = self.places.get(id(value))
                if place in inside:
                    first.setdefault(place, start)
                    last[place] = end
        sizes = {place: value.size * numpy_type(value.type).itemsize for place, value in inside.items()}
        return [Lifetime(place, sizes[place], first[place], last[place]) for place in first]

    def stacks(self, inside: dict[int, Definition]) -> tuple[list[list[int]], dict[int, int]]:
        """Places that lie one behind the other, and those of stacks, which are where their first ones are."""
        found = [(place, value) for place, value in inside.items() if isinstance(value, Stack)]
        runs: list[list[int]] = []
        known: dict[int, tuple[list[int], int]] = {}
        alike: dict[int, int] = {}
        for place, value in sorted(found, key=lambda pair: -len(pair[1].operands)):
            run = [self.places[id(each)] for each in value.operands]
            alike[place] = run[0]
            if run[0] not in known:
                runs.append(run)
                known.update({each: (run, number) for number, each in enumerate(run)})
            whole, start = known[run[0]]
            if whole[start : start + len(run)] != run or not inside.keys() >= set(run):
                raise NotImplementedError("a value that would be part of two stacked buffers")
        return runs, alike

    def views(
        self, inside: dict[int, Definition], offsets: dict[int, Any]
    ) -> list[tuple[int, tuple[int, ...], Any, int]]:
        """The values of the block that Python reads."""
        read = {self.places[id(v)] for s in self.plan.steps if is_python(s) for v in reads_of(s)}
        found = [(place, inside[place]) for place in sorted(read & set(inside))]
        return [(place, v.shape, numpy_type(v.type), offsets[place]) for place, v in found]


def calls_around(sizes: Sizes) -> list[Callable[[Any], Any]]:
    """The numbers of a plan at a quarter of its sizes, and at four times these."""
    smaller, larger = (
        {one: max(2, value // down) * up if one.kind is int else value for one, value in sizes.values.items()}
        for down, up in ((4, 1), (1, 4))
    )
    return [At(smaller), At(larger)]


def bound_waste(sizes: Sizes, plan: Placement) -> None:
    """Conditions on sizes at which a plan would take too much memory: see Note [Places of open sizes]."""
    if type(plan.size) is not Size:
        return
    (here, _), *others = plan.around
    for larger, (there, waste) in enumerate(others):
        op = "le" if larger else "ge"
        if waste > memory.MOST_WASTE and there >= memory.LARGE:
            limit = constant(isqrt(here * there))
            sizes.conditions[Expression(op, (plan.size.expression, limit), bool)] = True


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


def number_word(value: Any, type_: str) -> Any:
    """A number as kernels take it: floats of all widths as the bits of a double."""
    if type(value) in (Size, Amount):
        if type_ == "b1":  # of which machines would take the last bit
            return where(equal(value, 0), 0, 1)
        return word_of(value) if type_ in FLOATS else value
    if type_ in FLOATS:
        return int(np.array(value, np.float64).view(np.int64))
    return int(np.array(value).astype(TYPES[type_]).astype(np.int64))


def executable(graph_module: Any, arrays: Sequence[Any]) -> Executable:
    """The program of a graph for these inputs."""
    outputs, plan, homes = planned(Lowering(graph_module.graph, arrays), graph_module)
    return Executable(outputs, plan, arrays, homes)


def planned(lowering: Lowering, graph_module: Any) -> tuple[list[Any], Plan, dict[int, Given]]:
    """What a program gives, its steps, and the inputs in whose memory values lie."""
    program = lowering.run(lambda path: _attribute(graph_module, path))
    definitions = Definitions(program.outputs, [*program.checks, *program.failures])
    definitions.apply_all(RULES)
    given = [lowering.values[node] for node in program.inputs]
    pairs = graph_module.graph.meta.get(WRITTEN, ())
    outputs, written = wished(definitions.outputs, given, pairs)
    wanted = [value for value in outputs if isinstance(value, Definition)]
    Definitions(wanted).apply_all((*PACKED, *COPIED) if lowering.packs else COPIED)
    plan = fused([*wanted, *program.checks, *checks_of(program.failures)])
    found = ordered(plan.steps, list(written.values()))
    plan.steps = found.steps
    plan.draws = program.draws
    plan.sizes = None if lowering.opened is None else lowering.opened.sizes
    plan.reasons += found.reasons
    for number, (_, target) in written.items():
        outputs[number] = target
    return outputs, plan, found.homes


def checks_of(failures: list[Definition]) -> list[Definition]:
    """The step that checks that nothing has failed, and what it needs: some failures at a time, since those
    of equal computations have equal kernels then."""
    wanted: list[Definition] = []
    while len(failures) > 1:
        failures = [any_of(failures[place : place + TOGETHER]) for place in range(0, len(failures), TOGETHER)]
        wanted += failures
    if not failures:
        return []
    check = Direct(
        shape=(), type="i64", name="check", call=None, operands=failures, function="check", text=CHECK,
        numbers=(), rows=1, chunks=1, checks=True,
    )  # fmt: skip
    return [*wanted, check]


def _attribute(owner: Any, path: str) -> Any:
    for part in path.split("."):
        owner = getattr(owner, part)
    return getattr(owner, "array", owner)
