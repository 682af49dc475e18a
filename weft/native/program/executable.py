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

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, Final

import numpy as np

from weft.core.expressions import Symbol
from weft.core.records import replace
from weft.native.cpu import blas, gemm, packing, tiers
from weft.native.cpu.calls import CHECK, address
from weft.native.cpu.engine import Functions, host
from weft.native.cpu.outside import table
from weft.native.cpu.pool import FIELDS
from weft.native.ir.definitions import Definition, Direct, Given, Matrix, Number, Opaque, Part, Product, Stack
from weft.native.ir.scalar import FLOATS, TYPES
from weft.native.ir.sizes import At, as_it_is
from weft.native.lower.lowering import NUMBER, Call, Lowering, Operand
from weft.native.lower.numbers import any_of
from weft.native.lower.opening import Opened, Places
from weft.native.plan.accumulate_products import summed
from weft.native.plan.batch_products import stack
from weft.native.plan.build import Built
from weft.native.plan.copy_operands import transpose
from weft.native.plan.fuse import Plan, fused
from weft.native.plan.fuse_epilogue import absorb
from weft.native.plan.memory import Lifetime, in_runs
from weft.native.plan.order import NATIVE, bunches, is_python, ordered, reads_of, wished, writes_of
from weft.native.plan.transpose_products import turned
from weft.native.plan.work import CHUNK, chunks_of, column_tiles, product_chunks, product_work, work_of
from weft.native.program.drawing import Draws
from weft.native.program.program import Program, Step

WRITTEN = "written"
"""Where a graph says which of its inputs the program may write: numbers of inputs and of outputs."""
TOGETHER = 4
"""How many failures a kernel looks at."""


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


class Executable(Program):
    """A program for inputs of certain shapes, strides and types."""

    def __init__(
        self,
        outputs: list[Any],
        plan: Plan,
        inputs: Sequence[Any],
        homes: dict[int, Given] | None = None,
        at: Callable[[Any], Any] = as_it_is,
        code_of: Executable | None = None,
    ) -> None:
        """`at`: the numbers of this call for open sizes; `code_of`: one that was made for other sizes."""
        self.plan, self.at = plan, at
        self.homes = homes or {}
        self.places: dict[int, int] = {}
        self.keep: list[Any] = []
        self.values: dict[int, Definition] = {}
        self.draws = Draws(at(plan.draws)) if plan.draws else None
        self.inputs = len(inputs) + bool(plan.draws)
        self.python: dict[int, tuple[Step, int]] = {}
        self.work = 0
        self.splits = False
        steps = plan.steps if at is as_it_is else [settled(each, at) for each in plan.steps]
        self.functions = Functions(drafts=tiers.are_used()) if code_of is None else code_of.functions
        names = self.compile(steps)
        records = [
            self.step(number, known, each, name)
            for number, (known, each, name) in enumerate(zip(plan.steps, steps, names))
        ]
        self.code = np.array(records or [[0] * FIELDS], np.int64)
        self.count = len(records)
        self.spans = [(number, number) for number in range(self.count)]
        """From which step to which each step may run."""
        for first, together, chunks, work in bunches(plan.steps, self.code[:, 4].tolist(), self.homes):
            self.code[first, 5:] = together, chunks, work
            self.splits = True
            self.spans[first : first + together] = [(first, first + together - 1)] * together
        self.outputs = [self.output(each) for each in outputs]
        self.lay_out(inputs)

    # -- what does not depend on a call ----------------------------------------------------------------------
    def compile(self, steps: Sequence[Any]) -> list[str]:
        """Makes machine code; gives the names of the steps' functions."""
        kernels = {id(step.kernel): step.kernel for step in steps if isinstance(step, Built)}
        known = {key: self.functions.kernel(kernel) for key, kernel in kernels.items()}
        names = [self.function_of(step, known) for step in steps]
        self.functions.load(self.drafts(steps, names) if tiers.are_used() else {})
        self.multiplies = any(
            isinstance(step, Product) and not step.packed and not gemm.is_better(step) for step in steps
        )
        self.outside = table()
        return names

    def drafts(self, steps: Sequence[Any], names: list[str]) -> dict[str, list[str]]:
        """The functions that are compiled quickly first: see Note [Drafts] in `weft.native.cpu.tiers`."""
        works = dict.fromkeys(names, 0)
        for step, name in zip(steps, names):
            works[name] += draft_work(step)
        return tiers.drafts_of(self.functions.missing, works)

    def function_of(self, step: Any, known: dict[int, str]) -> str:
        """The name of a step's function; "" where Python does it. Kernels' are known, by their `id`."""
        if isinstance(step, Built):
            return known[id(step.kernel)]
        if isinstance(step, Product):
            batched = step.count > 1 or column_tiles(step) > 1
            if step.packed:
                return self.functions.text(packing.lines(step.right.transposed))
            if gemm.is_better(step):
                return self.functions.text(gemm.lines(step.type, batched, host()[2]))
            return self.functions.text(blas.lines(step.type, batched))
        return self.functions.text(step.text.splitlines()) if isinstance(step, Direct) else ""

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
            return "constant", self.at(each)
        each = self.homes.get(id(each), each)
        if isinstance(each, Given):
            return ("constant", each.constant) if each.input is None else ("input", each.input)
        return self.place(each)

    def step(self, number: int, known: Any, each: Any, name: str) -> list[int]:
        """The record of a step: see Note [Records of a program] in `weft.native.cpu.pool`. `known`: the step
        as
        it is planned, which values have as theirs; `each`: with the numbers of this call."""
        if isinstance(each, Product):
            return self.product_step(self.place(known), each, name)
        if isinstance(each, Direct):
            places = [self.place(value) for value in (*writes_of(known), *each.operands)]
            record = [*places, *each.numbers]
            work = -1 if each.checks else each.work or each.chunks * CHUNK
            return self.record(self.functions.address(name), record, each.rows, each.chunks, work)
        if not isinstance(each, Built):
            self.python[number] = self.call_step(known, each), self.place(known)
            return [0] * FIELDS
        record = [*each.sizes]
        for load in each.operands:
            record += [self.place(load.value), load.offset, *load.strides]
        record += [number_word(self.at(value), type_) for type_, value in each.scalars]
        rows = prod(each.sizes[:-1]) if len(each.sizes) > 1 else each.sizes[0]
        work = work_of(each.sizes, each.kernel)
        function = self.functions.address(name)
        chunks = each.chunks or chunks_of(each.sizes, each.kernel)
        return self.record(function, record, rows, chunks, work)

    def record(self, function: int, numbers: list[int], rows: int, chunks: int, work: int) -> list[int]:
        kept = np.array(numbers, np.int64)
        self.keep.append(kept)
        self.work += max(work, 0)
        self.splits |= chunks > 1
        return [function, address(kept), rows, chunks, work, 0, 0, 0]

    def product_step(self, place: int, each: Product, name: str) -> list[int]:
        """See Note [Record of a product] in `weft.native.cpu.blas`."""
        tiles = 1 if each.packed else column_tiles(each)
        columns = each.columns // tiles
        record = [each.rows, columns, each.depth, each.left.transposed, each.right.transposed]
        for part in (each.left, each.right):
            record += [self.place(each.operands[part.operand]), part.offset, part.leading]
        record += [place, 0, each.columns]
        function = self.functions.address(name)
        if tiles > 1:
            across = each.right.leading if each.right.transposed else 1
            record += [0, columns * across, columns, each.onto is not None]
            return self.record(function, record, tiles, tiles, product_work(each))
        if each.packed:
            strips = packing.strips_of(each)
            record += [*packing.numbers_of(each), each.onto is not None]
            return self.record(function, record, strips, packing.chunks_of(each), product_work(each))
        record += [each.left.batch, each.right.batch, each.rows * each.columns, each.onto is not None]
        rows = each.count if each.count > 1 else each.rows
        return self.record(function, record, rows, product_chunks(each), product_work(each))

    def call_step(self, known: Opaque, each: Opaque) -> Step:
        """A step that calls an op's own kernel. What it gives must not lie in the block: others may look at
        it when the block is somebody else's.
        """
        call: Call = each.call
        operands = [self.place(value) for value in each.operands]
        target = self.place(known)
        whole = self.places.setdefault(id(call), len(self.places))  # all results, where there are several
        bound = self.at(call.bound)
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
            result = np.ascontiguousarray(result).reshape(each.shape)
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
        self.made = [(p, self.at((v.shown or (v.shape,))[0]), numpy_type(v.type)) for p, v in made]
        self.strides = [self.at(strides_of(v)) for _, v in made]
        inside = {p: v for p, v in ours.items() if p not in wanted}
        plan = in_runs(self.lifetimes(inside), *self.stacks(inside))
        self.arena = [(p, plan.offsets[p]) for p in inside]
        self.arena_bytes = plan.size
        over = {self.place(home) for home in self.homes.values()}
        self.written = [(place, n) for place, n in self.givens if place in over]
        self.numbers = [place for place, _ in made if isinstance(self.values[place], Number)]
        if self.python:
            self.looked_at = self.views(inside)
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
        sizes = {
            place: self.at(value.size) * numpy_type(value.type).itemsize for place, value in inside.items()
        }
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

    def views(self, inside: dict[int, Definition]) -> list[tuple[int, tuple[int, ...], Any, int]]:
        """The values of the block that Python reads."""
        offsets = dict(self.arena)
        read = {self.places[id(v)] for s in self.plan.steps if is_python(s) for v in reads_of(s)}
        found = [(place, inside[place]) for place in sorted(read & set(inside))]
        return [(place, self.at(v.shape), numpy_type(v.type), offsets[place]) for place, v in found]


def draft_work(step: Any) -> int:
    """How many ns of a step are spent in code of ours."""
    if isinstance(step, Built):
        return work_of(step.sizes, step.kernel)
    if isinstance(step, Product):
        return product_work(step) if step.packed or gemm.is_better(step) else 0  # else BLAS
    return (step.work or step.chunks * CHUNK) if isinstance(step, Direct) else 0


def settled(step: Any, at: Callable[[Any], Any]) -> Any:
    """A step with the numbers of a call; values are the same."""
    if isinstance(step, Built):
        loads = [replace(load, offset=at(load.offset), strides=at(load.strides)) for load in step.operands]
        return replace(step, sizes=at(step.sizes), operands=loads, chunks=at(step.chunks))
    names = NUMBERS_OF.get(type(step), ())
    changed = {name: at(getattr(step, name)) for name in names}
    if isinstance(step, Product):
        changed |= {name: settled_matrix(getattr(step, name), at) for name in ("left", "right")}
    return replace(step, shape=at(step.shape), **changed)


NUMBERS_OF: Final[dict[type, tuple[str, ...]]] = {
    Product: ("rows", "columns", "depth", "count"),
    Direct: ("numbers", "rows", "chunks", "work"),
    Stack: ("numbers", "rows", "chunks", "work"),
}


def settled_matrix(matrix: Matrix, at: Callable[[Any], Any]) -> Matrix:
    return replace(matrix, offset=at(matrix.offset), leading=at(matrix.leading), batch=at(matrix.batch))


def number_word(value: int, type_: str) -> int:
    """A number as kernels take it: floats of all widths as the bits of a double."""
    if type_ in FLOATS:
        return int(np.array(value, np.float64).view(np.int64))
    return int(np.array(value).astype(TYPES[type_]).astype(np.int64))


def executable(graph_module: Any, arrays: Sequence[Any]) -> Executable:
    """The program of a graph for these inputs."""
    outputs, plan, homes = planned(Lowering(graph_module.graph, arrays), graph_module)
    return Executable(outputs, plan, arrays, homes)


class Template:
    """The program of a graph with open sizes: planned and compiled once, with numbers that a call settles."""

    def __init__(self, graph_module: Any, places: Places, inputs: Sequence[Any], wrap: Any) -> None:
        opened = Opened(graph_module.graph, places, inputs, wrap)
        lowering = Lowering(opened.graph, inputs, opened)
        self.outputs, self.plan, self.homes = planned(lowering, graph_module)
        self.first = self.at(opened.sizes.values, inputs)
        self.conditions = opened.sizes.conditions

    @property
    def is_narrow(self) -> bool:
        """Whether it serves nothing but the numbers of the call for which it was made."""
        return any(truth and each.op == "eq" for each, truth in self.conditions.items())

    def fits(self, values: dict[Symbol, int]) -> bool:
        """Whether what planning has decided holds for these sizes."""
        return all(bool(each.evaluate(values)) is truth for each, truth in self.conditions.items())

    def at(self, values: Mapping[Symbol, int], inputs: Sequence[Any]) -> Executable:
        """The program for these sizes, which shares code with all others."""
        first = getattr(self, "first", None)
        return Executable(self.outputs, self.plan, inputs, self.homes, At(values), first)


def planned(lowering: Lowering, graph_module: Any) -> tuple[list[Any], Plan, dict[int, Given]]:
    """What a program gives, its steps, and the inputs in whose memory values lie."""
    program = lowering.run(lambda path: _attribute(graph_module, path))
    turned(program.outputs, [*program.checks, *program.failures])
    program.outputs = summed(program.outputs, [*program.checks, *program.failures])
    program.outputs = absorb(program.outputs, [*program.checks, *program.failures])
    given = [lowering.values[node] for node in program.inputs]
    pairs = graph_module.graph.meta.get(WRITTEN, ())
    outputs, written = wished(program.outputs, given, pairs)
    wanted = [value for value in outputs if isinstance(value, Definition)]
    if lowering.packs:
        stack(wanted)
        if host()[2] == packing.VECTOR_BYTES:
            packing.pack(wanted)
    transpose(wanted)
    plan = fused([*wanted, *program.checks, *checks_of(program.failures)])
    found = ordered(plan.steps, list(written.values()))
    plan.steps = found.steps
    plan.draws = program.draws
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
