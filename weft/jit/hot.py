"""Hot code: straight-line parts and loops of scripted functions, compiled natively.

Takes a graph that has run for some time; gives one whose tensor code is compiled. One idea: whatever is
straight becomes a Python function that `weft.compile` takes, with all it says about equality with eager code;
of a loop several turns are one such function, so that what a call costs is paid once for many.

# Note [Turns]
    for t in range(x.size(0)):               window = x.narrow(0, t, 8)
        h = cell(x[t], h)           ->       h, o0, ..., o7 = eight_turns(window, h)
        outs.append(h)                       outs.extend([o0, ..., o7])
The number of a turn may be used to take an item of a tensor that the loop does not change; what is appended
to a list outside comes out with the results. Other loops run as Python, with their straight parts compiled.
Compiling makes a call wait, so each part is compiled for the first few layouts of its arguments alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.core import modes
from weft.core.once import lock
from weft.core.seams import seams
from weft.jit.codegen import generate, reads
from weft.jit.ir import NOT_CONSTANT, Block, Graph, Node, Value, copy_block
from weft.jit.lookup import find_operator
from weft.jit.regions import GLUE, blocks_of, groups, outside_values, put_node, take_out
from weft.jit.types import BOOL, FLOAT, INT, NUMBER, STR, TENSOR, ListType, TupleType, Type
from weft.ops.record import REGISTRY, Kind
from weft.tensor.base import PLAIN

MOST_LAYOUTS = 3
"""For how many layouts of its arguments, or numbers of turns, code is compiled."""
FEWEST = 4
"""How many ops a straight part has at least: a call of compiled code takes about as long as three."""
NODES = 240
"""How many nodes one compiled function of several turns may have."""
SCALARS = (INT, FLOAT, BOOL, STR, NUMBER)
ARITHMETIC = ("add", "sub", "mul", "floordiv", "div", "remainder", "neg")
UNFIT = frozenset(
    ["item", "tolist", "backward", "equal", "allclose", "is_nonzero", "manual_seed", "unique", "nonzero"]
)


def is_plain(node: Node, name: str) -> bool:
    """Sizes of tensors and arithmetic on numbers: not worth compiling, but no obstacle."""
    if node.words or len(node.results) != 1:
        return False
    given, made = [value.kind for value in node.arguments], node.results[0].kind
    if name in ("size", "dim") and given and given[0] == TENSOR:
        return made in (INT, ListType(INT))
    numbers = all(kind in (INT, FLOAT, BOOL) for kind in (*given, made))
    return numbers and name in ARITHMETIC and not node.attributes.get("_from")


def allowed(kind: Type) -> bool:
    """Whether values of this type may go in and out of compiled code."""
    if isinstance(kind, TupleType):
        return kind.cls is None and all(map(allowed, kind.elements))
    return kind in (TENSOR, ListType(TENSOR), ListType(INT), *SCALARS)


def read_first(graph: Graph) -> None:
    """Reads the attributes of modules before everything else, where nothing can change them meanwhile."""
    changing = ("prim::SetAttr", "prim::PythonOp", "prim::CallMethod", "prim::CallFunction")
    if any(node.operator in changing for node in graph.walk()):
        return
    ready = set(graph.block.parameters)
    moved: list[Node] = []
    for node in list(graph.walk()):
        if node.operator == "prim::GetAttr" and node.arguments[0] in ready and node.block is not None:
            node.block.nodes_.remove(node)
            node.block = graph.block
            moved.append(node)
            ready.update(node.results)
    graph.block.nodes_ = [*moved, *graph.block.nodes_]


def may_wait(node: Node) -> bool:
    """Whether a node may be done before a group it stands in: reading an attribute."""
    return node.operator == "prim::GetAttr"


def counts(node: Node) -> bool:
    """Whether a node is worth compiling."""
    return node.operator not in GLUE and not is_plain(node, node.operator.partition("::")[2])


def fits(node: Node) -> bool:
    """Whether a node may be part of compiled code: an op on tensors that writes nothing."""
    if not node.operator.startswith("aten::") or node.blocks_ or not node.results:
        return False
    name = node.operator.partition("::")[2]
    if name.endswith("_") and not name.endswith("__") or name in UNFIT or "out" in node.words:
        return False
    if is_plain(node, name):
        return True
    given = [value.kind for value in node.arguments]
    if TENSOR not in given and ListType(TENSOR) not in given:
        return False
    kinds = [value.kind for value in node.results]
    if not all(
        kind == TENSOR or kind == ListType(TENSOR) or getattr(kind, "elements", None) for kind in kinds
    ):
        return False
    if isinstance(node.arguments[0].kind, ListType) and name not in ("cat", "stack", "meshgrid", "einsum"):
        return False
    function = REGISTRY.get(name) or find_operator(name, node.attributes.get("_from", ""))
    op = function if hasattr(function, "kind") else getattr(function, "op", None)
    return op is not None and op.kind is not Kind.RANDOM and "dropout" not in name


def layout_of(value: Any) -> Any:
    """What compiled code is made for, of an argument."""
    kind = type(value)
    if kind in PLAIN:
        array = value.array
        if type(array) is not np.ndarray:
            raise Unsettled
        return array.shape, array.strides, array.dtype, value.requires_grad
    if kind is tuple or kind is list:
        return kind, *map(layout_of, value)
    if kind is float:
        return kind
    if value is None or kind in (int, bool, str):
        return kind, value
    raise Unsettled


def modes_of() -> Any:
    """What compiled code is made for, of what surrounds a call."""
    state = modes.current()
    if type(state) is bool:
        return state
    return state.grad, state.inference, state.shielded, *[name for name, _ in state.extra]


class Unsettled(Exception):
    """A value for which compiled code has no key."""


class Compiled:
    """A graph without branches, compiled for the first layouts of its arguments. It runs uncompiled for
    others: compiling delays a call, and with many layouts every call would be delayed.
    """

    def __init__(self, graph: Graph) -> None:
        self.plain = generate(graph, lambda callee: callee, direct=True).function
        self.function: Any = None
        self.known: set[Any] = set()
        self.lock = lock()

    def __call__(self, *args: Any) -> Any:
        return (self.function if self.takes(args) else self.plain)(*args)

    def takes(self, args: tuple[Any, ...], new: bool = True, last: bool = True) -> bool:
        """Whether a call with these arguments runs compiled. `new`: their layout may be compiled for it.
        `last`: no other iterations follow, so that other results may have gradients.
        """
        try:
            key = last, modes_of(), *map(layout_of, args)
        except Unsettled:
            return False
        if key in self.known:
            return True
        if not new:
            return False
        with self.lock:
            if key not in self.known and len(self.known) >= MOST_LAYOUTS:
                return False
            if self.function is None:
                self.function = seams.compile(self.plain, backend="native")
            self.known.add(key)
        return True


class Straight:
    """A straight part: called with its inputs, it gives its outputs."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.function = Compiled(graph)
        self.single = len(graph.block.returned) == 1

    def __call__(self, *args: Any) -> Any:
        results = self.function(*args)
        return (results,) if self.single else results


class Turns:
    """An unrolled loop: several iterations are one compiled function. There are few such functions: other
    trip counts are put together from these, as far as nothing has to be compiled for it, and from single
    iterations that run uncompiled.
    """

    def __init__(self, loop: LoopFacts) -> None:
        self.facts = loop
        self.functions: dict[int, Compiled] = {}
        self.lock = lock()
        self.one = generate(loop.unrolled(1), lambda callee: callee).function
        self.many = max(2, min(64, NODES // max(1, loop.size)))

    def turns(self, count: int) -> int:
        """The unroll factor: a divisor of the trip count, if there is one that is large enough."""
        if count <= self.many:
            return count
        exact = next((k for k in range(self.many, 1, -1) if count % k == 0), 0)
        return exact if 2 * exact >= self.many else self.many

    def steps(self, count: int) -> list[int]:
        """The unroll factors that are compiled, the best for this trip count first."""
        wanted = self.turns(count)
        if wanted > 1 and wanted not in self.functions and len(self.functions) < MOST_LAYOUTS:
            with self.lock:  # a function that was asked stays in its place
                if wanted not in self.functions and len(self.functions) < MOST_LAYOUTS:
                    self.functions[wanted] = Compiled(self.facts.unrolled(wanted))
        return sorted([*self.functions], key=lambda step: (step != wanted, -step))

    def __call__(self, count: int, *args: Any) -> Any:
        facts = self.facts
        carried, rest = list(args[: facts.carried]), args[facts.carried :]
        windows, lists, fixed = (
            rest[: facts.windows],
            rest[facts.windows : facts.windows + facts.lists],
            rest[facts.windows + facts.lists :],
        )
        done, step, steps, wanted = 0, 0, self.steps(count), self.turns(count)
        while done < count:
            left = count - done
            settled = done > 1 and step == 1  # what did not fit a turn ago does not now, but at the end
            for step in (*[each for each in steps if each == left or each < left and not settled], 1):
                views = [facts.window(at, tensor, done, step) for at, tensor in enumerate(windows)]
                given = (*carried, *views, *fixed)
                if step == 1 or self.functions[step].takes(given, step == wanted, step == left):
                    break
            function = self.one if step == 1 else self.functions[step].function
            done = self.took(function(*given), carried, lists, done, step)
        return tuple(carried)

    def took(self, results: Any, carried: list[Any], lists: Any, done: int, step: int) -> int:
        """Notes the results of some iterations."""
        values = results if isinstance(results, tuple) else (results,)
        count = self.facts.carried
        carried[:] = values[:count]
        added = values[count:]
        kept = len(lists)
        for place, value in enumerate(added):
            lists[place % kept].append(value)
        return done + step


class LoopFacts:
    """What is known of a loop that can be unrolled."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.block = node.blocks_[0]
        self.index = self.block.parameters[0]
        self.carried = len(self.block.parameters) - 1
        self.items: list[Node] = []
        self.added: list[Node] = []
        self.outside: list[Value] = []
        self.size = 0

    @property
    def windows(self) -> int:
        return len(self.items)

    @property
    def lists(self) -> int:
        return len(self.added)

    def usable(self) -> bool:
        """Whether it can be unrolled; finds out what its iterations read from outside."""
        node, block = self.node, self.block
        if (
            node.arguments[1].constant is not True
            or block.exits
            or not block.returned
            or block.returned[0].constant is not True
        ):
            return False
        if any(value.kind != TENSOR for value in block.parameters[1:]):
            return False
        made = {value for inner in block.nodes_ for value in inner.results} | set(block.parameters)
        for inner in block.nodes_:
            if inner.operator == "prim::Constant":
                continue
            if not self.usable_node(inner, made):
                return False
        self.size = sum(map(counts, block.nodes_))
        return self.size > 0 and all(
            value in made or value.constant is not NOT_CONSTANT or value.kind == TENSOR
            for value in block.returned
        )

    def usable_node(self, inner: Node, made: set[Value]) -> bool:
        if self.index in reads(inner):
            if (
                inner.operator != "aten::select"
                or inner.arguments[2] is not self.index
                or inner.arguments[0] in made
            ):
                return False
            if not isinstance(inner.arguments[1].constant, int) or inner.words:
                return False
            self.items.append(inner)
            return True
        if (
            inner.operator == "aten::append"
            and inner.arguments[0] not in made
            and inner.arguments[1].kind == TENSOR
        ):
            if any(value in reads(other) for value in inner.results for other in self.block.nodes_):
                return False
            if any(inner.arguments[0] in reads(other) for other in self.block.nodes_ if other is not inner):
                return False
            self.added.append(inner)
            return True
        if inner.operator not in GLUE and not fits(inner):
            return False
        for value in inner.arguments:
            if value in made or value.constant is not NOT_CONSTANT:
                continue
            if value.kind != TENSOR and value.kind not in SCALARS:
                return False
            if value not in self.outside:
                self.outside.append(value)
        return True

    def inputs(self) -> list[Value]:
        """What the whole loop reads: where names start, windows' tensors, lists, and the rest."""
        windows = [inner.arguments[0] for inner in self.items]
        lists = [inner.arguments[0] for inner in self.added]
        returned = [v for v in self.block.returned[1:] if v.constant is NOT_CONSTANT and self.is_outside(v)]
        fixed = list(dict.fromkeys([*self.outside, *returned]))
        self.outside = fixed
        return [*self.node.arguments[2:], *windows, *lists, *fixed]

    def is_outside(self, value: Value) -> bool:
        return value not in self.block.parameters and not any(value in n.results for n in self.block.nodes_)

    def window(self, at: int, tensor: Any, start: int, length: int) -> Any:
        """The items of some iterations."""
        dim = self.items[at].arguments[1].constant
        return REGISTRY["slice"].face(tensor, dim, start, start + length)

    def unrolled(self, turns: int) -> Graph:
        """Some consecutive iterations, as a graph."""
        graph = Graph(f"{turns}_turns")
        graph.name = "turns"
        carried = [graph.block.add_parameter(value.kind, value.name) for value in self.block.parameters[1:]]
        windows = [graph.block.add_parameter(TENSOR, "window") for _ in self.items]
        fixed = {value: graph.block.add_parameter(value.kind, value.name) for value in self.outside}
        added: list[Value] = []
        for turn in range(turns):
            known: dict[Value, Value] = dict(fixed)
            known.update(zip(self.block.parameters[1:], carried, strict=True))
            self.one_turn(graph, known, windows, turn, added)
            carried = [self.out_of(graph, value, known) for value in self.block.returned[1:]]
        graph.block.returned = [*carried, *added]
        return graph

    def out_of(self, graph: Graph, value: Value, known: dict[Value, Value]) -> Value:
        return known[value]

    def one_turn(
        self, graph: Graph, known: dict[Value, Value], windows: list[Value], turn: int, added: list[Value]
    ) -> None:
        for inner in self.block.nodes_:
            for value in inner.arguments:
                if value not in known and value.constant is not NOT_CONSTANT:
                    known[value] = constant(graph, value.constant, value.kind)
            if inner in self.items:
                place = constant(graph, turn, INT)
                dim = constant(graph, inner.arguments[1].constant, INT)
                made = Node("aten::select", graph, [windows[self.items.index(inner)], dim, place])
                known[inner.results[0]] = made.add_result(TENSOR)
                graph.block.append(made)
            elif inner in self.added:
                added.append(known[inner.arguments[1]])
            elif inner.operator != "prim::Constant":
                holder = Block(inner.graph, None)
                holder.nodes_ = [inner]
                copy_block(holder, graph.block, known, parameters=False)
        for value in self.block.returned[1:]:
            if value not in known and value.constant is not NOT_CONSTANT:
                known[value] = constant(graph, value.constant, value.kind)


def constant(graph: Graph, value: Any, kind: Any) -> Value:
    node = Node("prim::Constant", graph, (), (), {"value": value})
    graph.block.append(node)
    return node.add_result(kind)


def with_compiled_parts(graph: Graph) -> Graph:
    """The graph, changed, with its loops and straight parts compiled."""
    read_first(graph)
    for block in blocks_of(graph):
        for node in list(block.nodes_):
            if node.operator == "prim::Loop":
                replace_loop(graph, block, node)
    for block in blocks_of(graph):
        for group in groups(block, fits, FEWEST, may_wait):
            if sum(map(counts, group)) < FEWEST:
                continue
            piece = take_out(group, outside_values(graph, group), "straight")
            kinds = [value.kind for value in (*piece.inputs, *piece.outputs)]
            if not piece.outputs or not all(map(allowed, kinds)):
                continue
            node = Node(
                "prim::CompiledGraph", graph, piece.inputs, (), {"Subgraph": piece.graph}, group[0].place
            )
            node.target = Straight(piece.graph)
            node.results = piece.outputs
            for index, value in enumerate(node.results):
                value.owner, value.index = node, index
            put_node(block, group, node)
    return graph


def replace_loop(graph: Graph, block: Block, node: Node) -> None:
    facts = LoopFacts(node)
    if not facts.usable():
        return
    inputs = facts.inputs()
    made = Node("prim::CompiledGraph", graph, [node.arguments[0], *inputs], (), {"name": "turns"}, node.place)
    made.target = Turns(facts)
    made.results = node.results
    for value in made.results:
        value.owner = made
    block.nodes_[block.nodes_.index(node)] = made
    made.block = block
