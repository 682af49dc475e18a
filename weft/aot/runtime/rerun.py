"""Running again: a captured graph on the tape, from inputs as they were.

Takes a call's inputs before it runs; gives gradients that no compiled code was made for. One idea: what is
kept are the arrays and the edges behind them, never the tensors, which may move on.
"""

from __future__ import annotations

import weakref
from collections.abc import Container, Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.aot.facts import Casts, Value, ViewOf
from weft.aot.joint import Stage, cut_tape
from weft.aot.runtime.around import AUTOCAST, entered
from weft.aot.runtime.counting import counters
from weft.aot.runtime.effects import in_layout
from weft.autograd import engine
from weft.core import modes
from weft.core.dtypes import BY_NUMPY
from weft.core.generator import Drawn, apart
from weft.core.trees import flatten
from weft.graph.effects import effect
from weft.ops.record import REGISTRY
from weft.tensor.base import PLAIN, Tensor, wrap
from weft.tensor.tape import gradient_edge, stale_words
from weft.trace.module import GraphModule

if TYPE_CHECKING:
    from weft.core.arrays import Array


Args = tuple[Any, ...]


def cast_inputs(args: Args, casts: Casts) -> list[Any]:
    """The casts of inputs that the active autocast keeps, made where it has none yet."""
    autocast = dict(modes.modes().extra)[AUTOCAST]
    found = []
    for index, kind, grad in casts:
        token = modes.enter(grad=grad)
        try:
            found.append(autocast.cached(args[index], kind))
        finally:
            modes.leave(token)
    return found


def unchecked(module: GraphModule) -> GraphModule:
    """The graph without its checks, which have held, and may concern inputs that are not kept."""
    if not any(effect(node).checks for node in module.graph.nodes):
        return module
    graph = module.graph.copy()
    for node in [node for node in graph.nodes if effect(node).checks]:
        graph.erase_node(node)
    return GraphModule(module, graph)


def types_of(plan: Any, args: Args) -> list[Any]:
    """Shape, dtype and strides of the inputs that are tensors: as a plan is made for them, it keeps them, and
    they take no memory in each call.
    """
    if plan.types is None:
        arrays = [value.array if type(value) in PLAIN else None for value in args]
        plan.types = [None if a is None else (a.shape, a.dtype, a.strides) for a in arrays]
    types: list[Any] = plan.types
    return types


class Rerun:
    """What it takes to run the captured graph again as it ran: inputs as they were, and random numbers."""

    __slots__ = (
        "module", "facts", "around", "casts", "wanted", "numbers", "arrays", "types", "edges", "cells",
        "drawn",
    )  # fmt: skip

    def __init__(self, plan: Any, program: Any, args: Args, drawn: Drawn | None = None) -> None:
        """`drawn`: the random numbers, where that is known already."""
        facts, casts = plan.facts, plan.casts
        self.module, self.facts, self.wanted = plan.unchecked, facts, program.joint.wanted
        self.around, self.casts = plan.around, casts
        first = len(args) - len(casts)
        read = program.read | {  # who runs again casts again
            index for place, (index, _, _) in enumerate(casts, first) if place in program.read
        }
        written = {w.input for w in facts.written}
        count = len(args)
        self.numbers: list[Any] = [None] * count  # inputs that are no tensors
        self.types: list[Any] = types_of(plan, args)
        self.arrays: list[Any] = [None] * count  # None where elements do not matter
        self.edges: list[Any] = [(None, 0)] * count
        self.cells: list[Any] = [None] * count
        for index, value in enumerate(args):
            if type(value) not in PLAIN:
                self.numbers[index] = value
                continue
            array = value.array
            self.edges[index] = gradient_edge(value)
            if index in read:
                apart = index in written or index in program.copied
                self.arrays[index] = array.copy("K") if apart else array
                if not apart:
                    self.cells[index] = (value.shared_cell(), value.shared_cell()[0])
                elif index not in written and index in program.saved:
                    self.cells[index] = (value.shared_cell(), None)
            elif index in program.checked:
                self.arrays[index] = array.copy("K") if index in written else array
        self.drawn = drawn

    @classmethod
    def of_parts(cls, call: Any, kept: Args) -> Rerun:
        """Of what a native entry has kept: see `parts_of_rerun`."""
        made = cls.__new__(cls)
        plan = call.plan
        made.module, made.facts, made.wanted = plan.unchecked, plan.facts, call.program.joint.wanted
        made.around, made.casts, made.types = plan.around, plan.casts, plan.types
        count = len(made.types)
        values, cells, counts = kept[0 : 3 * count : 3], kept[1 : 3 * count : 3], kept[2 : 3 * count : 3]
        is_number = [type_ is None for type_ in made.types]
        made.numbers = [value if number else None for value, number in zip(values, is_number, strict=True)]
        made.arrays = [None if number else value for value, number in zip(values, is_number, strict=True)]
        pairs = zip(cells, counts, strict=True)
        made.cells = [None if cell is None else (cell, seen) for cell, seen in pairs]
        made.edges = [(None, 0)] * count
        ends = kept[3 * count : -2]
        for place, index in enumerate(made.wanted):
            made.edges[index] = ends[2 * place], ends[2 * place + 1]
        seeds, counts = kept[-2:]
        made.drawn = None if seeds is None else call.drawn(seeds, counts)
        return made

    def check(self, needed: Container[int] | None = None) -> None:
        """Raises where an input whose elements are needed (for None, by some gradient) was written since, and
        is not kept as it was."""
        for index, (array, cell) in enumerate(zip(self.arrays, self.cells, strict=True)):
            if cell is None or cell[1] is None or cell[0][0] == cell[1]:
                continue
            if needed is None or index in needed:
                words = words_of(array.dtype, array.shape)
                raise RuntimeError(stale_words(words, "", cell[0][0], cell[1]))

    def array(self, index: int, apart: bool) -> Any:
        """An input's elements as they were; `apart`: in memory of their own where the graph writes them."""
        if self.arrays[index] is not None:
            written = apart and any(w.input == index for w in self.facts.written)
            return self.arrays[index].copy("K") if written else self.arrays[index]
        shape, kind, strides = self.types[index]
        made = np.zeros(shape, kind)
        return made if made.strides == strides else in_layout(made, strides)

    def inputs(self, apart: bool) -> list[Any]:
        """The inputs as they were. `apart`: those that need a gradient as tensors of their own."""
        token = modes.enter(grad=True)  # a backward may ask, which runs without
        try:
            return self.made(apart)
        finally:
            modes.leave(token)

    def made(self, apart: bool) -> list[Any]:
        found: list[Any] = []
        for index, type_ in enumerate(self.types):
            if type_ is None:
                found.append(self.numbers[index])
            elif index in self.wanted:
                found.append(behind(self.edges[index], self.array(index, apart), apart))
            else:
                found.append(wrap(self.array(index, apart)))
            if not apart and self.cells[index] is not None:
                found[-1].cell = self.cells[index][0]
        return found

    def drawing(self) -> Any:
        """Random numbers as they were drawn."""
        return nullcontext() if self.drawn is None else apart(self.drawn)

    def gradients(
        self, stage: Stage, lower: Sequence[tuple[Any, int]], grad: Sequence[Any], graph: bool
    ) -> list[Any]:
        """The gradients of a stage's values, by running the captured graph on the tape."""
        counters["reruns"] += 1
        token = modes.enter(grad=True)
        try:
            given = self.inputs(apart=True)
            direct = [i for i, g in zip(self.wanted, stage.gradients) if graph and g is not None]
            with entered(self.around) as cache, self.drawing():
                self.keep_casts(given, cache, direct)
                edges = [(given[index].node or given[index], 0) for index in self.wanted]
                outputs, _ = flatten(self.module.forward(*given[: len(given) - len(self.casts)]))
            values = self.values(outputs, given)
            stops: dict[tuple[Any, int], Any] = {}
            for number, edge in zip(stage.lower, lower, strict=True):
                stop = behind(edge, values[number].array, True)
                stop.node._seq = values[
                    number
                ].node._seq  # the sweep comes to it when it would have come there
                stops[values[number].node, values[number].index] = stop.node
                edges.append((stop.node, 0))
            pairs = [(values[n], g) for n, g in zip(stage.values, grad, strict=True) if g is not None]
            if not pairs or not edges:
                return [None] * len(edges)
            cut_tape([value.node for value, _ in pairs], stops)
            starts, tangents = zip(*pairs, strict=True)
            known = [given[index] for index in self.wanted] + [values[number] for number in stage.lower]
            # Tensors stand for edges, which transforms do not take.
            wanted = [
                edge[0] if isinstance(edge[0], Tensor) else behind(edge, tensor.array, False)
                for edge, tensor in zip(edges, known, strict=True)
            ]
            return list(engine.grad(starts, wanted, tangents, create_graph=graph, allow_unused=True))
        finally:
            modes.leave(token)

    def keep_casts(self, given: list[Any], cache: Any, direct: list[int]) -> None:
        """Lets autocast find the casts of inputs, which gradients go to. It keeps casts of leaves alone, so
        leaves stand for those inputs, but for the ones whose own gradient must be differentiable.
        """
        for place, (index, kind, grad) in enumerate(self.casts, len(given) - len(self.casts)):
            if index not in direct:
                leaf = given[index] = wrap(given[index].array, True)
                cache[id(leaf), kind, grad] = weakref.ref(leaf), leaf.shared_cell()[0], given[place]

    def values(self, outputs: list[Any], given: list[Any]) -> dict[int, Any]:
        """The values, as far as they can be reached from the outputs."""
        values: dict[int, Any] = {w.value: given[w.input] for w in self.facts.written}
        for fact, output in zip(self.facts.outputs, outputs, strict=True):
            if isinstance(fact, Value):
                values[fact.index] = output
            elif isinstance(fact, ViewOf) and isinstance(fact.base, Value) and output.origin is not None:
                if all(step.moves for step in fact.steps):
                    values.setdefault(fact.base.index, output.origin.base)
        return values


def parts_of_rerun(
    plan: Any, program: Any, nodes_of_inputs: Sequence[bool], numbers: Mapping[int, Args]
) -> list[Args]:
    """What native entries keep for a `Rerun`, as parts (see `weft.aot.runtime.recorded`) of a call without
    casts: of each input, its number or elements, its version cell and count; then the edges of those that
    require grad; then what was drawn. `numbers`: parts of those that are open."""
    none = "constant", None
    written = {each.input for each in plan.facts.written}
    parts: list[Args] = []
    for index, type_ in enumerate(plan.types):
        if type_ is None:
            parts += [numbers.get(index, ("input", index)), none, none]
        elif index in program.read and (index in program.copied or index in written):
            seen = index in program.saved and index not in written
            parts += [("copy", index), ("cell", index) if seen else none, none]
        elif index in program.read:
            parts += [("array", index), ("cell", index), ("count", index)]
        elif index in program.checked:
            parts += [("copy" if index in written else "array", index), none, none]
        else:
            parts += [none, none, none]
    for index in program.joint.wanted:
        has_node = nodes_of_inputs[index]
        parts.append(("slot", index, "node") if has_node else ("input", index))
        parts.append(("slot", index, "index") if has_node else ("constant", 0))
    return [*parts, ("seeds",), ("counts",)]


def words_of(kind: Any, shape: tuple[int, ...]) -> str:
    """`weft.FloatTensor [2, 3]`."""
    return f"weft.{BY_NUMPY[kind].scalar_name}Tensor {list(shape)}"


def behind(target: tuple[Any, int], array: Array, apart: bool) -> Tensor:
    """A tensor with these elements, whose gradient goes to the target; perhaps with a node of its own."""
    edge, slot = target
    if isinstance(edge, Tensor):
        apart = apart or edge.array is not array
        told = apart and not edge.tracked  # not to require grad, since: the node asks, and drops what comes
        source = wrap(edge.array, True) if told else edge
    else:
        source = wrap(array, True)
        source.node, source.index = edge, slot
    if not apart:
        return source
    alias: Tensor = REGISTRY["alias"](source)
    alias.array, alias.origin, alias.cell = array, None, None
    return alias
