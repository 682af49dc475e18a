"""Splitting: a captured graph as pieces that are compiled, and nodes between them that run as they are.

Takes a graph module and the nodes that have to run by themselves, or after which a piece has to end; gives
the parts in order, with what each reads and what later ones read of it. One idea: between two parts there are
live tensors with live histories, so whatever a node does there, eager's own code does it.

# Note [Parts]
    a = x * 2                        piece 0: x -> a
    b = custom_function(a)           node, on the tensor a; its results are taken apart at once
    y = b[0] + x                     piece 1: b[0], x -> y
Switches of modes stand in no part's way: each part begins in the modes that the switches before it have made.

# Note [Writes that no version tells of]
    y = t * w                        piece 0: t, w -> y; the tape has saved t
    t.data.mul_(2)                   piece 1: t -> nothing
The gradient of w is what t holds when a backward runs, which residuals of piece 0 need not be. So a piece is
told which of its inputs and outputs later parts write in this way: if eager would have saved one, it runs as
captured.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from dataclasses import field
from typing import Any

import numpy as np

from weft.core.expressions import Expression
from weft.core.interrupts import let_through
from weft.core.records import record
from weft.core.symbolic import Symbolic
from weft.graph.effects import NATIVE, arguments_of, can_fail, effect, op_of, overlaps
from weft.graph.graph import Graph
from weft.graph.node import Node, map_arg
from weft.ops.record import Kind, ops
from weft.trace.fake import is_tensor
from weft.trace.module import GraphModule

SWITCHES = ("_set_grad_enabled", "_set_inference_mode", "_set_autocast")


@record(slots=True)
class Part:
    """Some nodes in a row; a piece if it has a module."""

    nodes: list[Node]
    native: bool
    switches: list[Node]
    """The switches to be made before it runs, the latest of each kind."""
    module: GraphModule | None = None
    inputs: list[Node] = field(default_factory=list)
    outputs: list[Node] = field(default_factory=list)
    freed: list[Node] = field(default_factory=list)
    """Values that are dead after it."""
    exposed: set[Node] = field(default_factory=set)
    """Inputs and outputs that are written behind it unnoticed: see Note [Writes that no version tells of]."""


def switches(node: Node) -> bool:
    """Whether a node changes modes."""
    return getattr(node.target, "__name__", None) in SWITCHES


def saves_copies(node: Node) -> bool:
    """Whether a node switches `save_on_cpu` on or off: the tape that eager code records then keeps copies."""
    return getattr(node.target, "__name__", None) == "_save_copies"


def natives_of(graph: Graph) -> frozenset[Node]:
    """The nodes that call graphs (what runs, and how often, shows when they run), those that read arrays
    (which no plan knows), those that may be refused for where their tensors lie, those whose own nodes on the
    tape somebody will see, and those that may raise though nobody reads what they give.
    """
    inner = {node for node in graph.nodes if node.op == "get_attr" and node.target in graph.subgraphs}
    inner |= {node for node in graph.placeholders if isinstance(node.meta.get("val"), np.ndarray)}
    callers = frozenset(user for node in inner for user in node.users if user.op != "output")
    calls = [node for node in graph.nodes if node.op.startswith("call_")]
    seen = {
        made_by(node) for node in calls if ("writes" in node.meta and overlaps(node)) or NATIVE in node.meta
    }
    dead = unread(graph)
    risky = [node for node in dead if can_fail(node) and not effect(node).checks]
    if risky:
        asked = asked_before(graph, {*dead})
        risky = [node for node in risky if not asked(node)]
    return callers | seen | {made_by(node) for node in risky}


def unread(graph: Graph) -> list[Node]:
    """The calls that nothing depends on: plans leave them out, but their errors are part of the program."""
    home = sharing(graph)
    homes = {node for node in graph.nodes if not node.op.startswith("call_")}  # of what somebody will see
    read: set[Node] = set()
    found: list[Node] = []
    for node in reversed(list(graph.nodes)):
        written = [
            home.get(each) for each in node.meta.get("writes", ())
        ]  # or None, for one of another graph
        if node.op == "output" or node in read or any(each is None or each in homes for each in written):
            read.update(node.all_input_nodes)
            homes.update([home[each] for each in node.all_input_nodes])
        if node.op.startswith("call_") and node not in read:
            found.append(node)
    return found


def asked_before(graph: Graph, dead: set[Node]) -> Callable[[Node], bool]:
    """Tells of calls that index whether calls before them, which something depends on, would have been
    refused for all that they would be: as those of gradients are whose tensor was indexed alike."""
    order = {node: number for number, node in enumerate(graph.nodes)}
    makers = {id(node.meta.get("val")): node for node in reversed(order)}
    known: dict[Any, int] = {}
    for node in graph.nodes:
        if node not in dead:
            for indices, *fits in indexes(node) or ():
                known.setdefault((id(indices), *fits), order[node])

    def is_known(indices: Any, fits: list[Any], before: int) -> bool:
        """Whether these indices, or some among which they are, are known to fit."""
        while known.get((id(indices), *fits), before) >= before:
            maker = makers.get(id(indices))
            found = None if maker is None else op_of(maker)
            if maker is None or found is None or not (found[0].kind is Kind.VIEW or found[0] is ops.reshape):
                return False
            indices = maker.all_input_nodes[0].meta.get("val")
        return True

    def asked(node: Node) -> bool:
        found = indexes(node)
        return found is not None and all(is_known(each, fits, order[node]) for each, *fits in found)

    return asked


def indexes(node: Node) -> Any:
    """What a call asks of the integers that it is given, if that is known: see `weft.ops.facts`."""
    found = op_of(node)
    if found is None or found[0].indexes is None or "writes" in node.meta:
        return None
    given = map_arg(tuple(arguments_of(node, found[0]).values()), lambda used: used.meta.get("val"))
    try:
        asked = found[0].indexes(*given)
    except (AttributeError, TypeError, IndexError, ValueError) as error:  # types are not known
        let_through(error)
        return None
    return [(i, size.expression if isinstance(size, Symbolic) else size, low) for i, size, low in asked]


def made_by(node: Node) -> Node:
    """The node itself, or the one that it is a result of: results stay with what gives them."""
    while takes_apart(node):
        node = node.args[0]
    return node


def takes_apart(node: Node) -> bool:
    """Whether a node is one of several results of another."""
    if node.target is not operator.getitem or not isinstance(node.args[0], Node):
        return False
    source = node.args[0]
    several = isinstance(source.meta.get("val"), (tuple, list))
    return several and source.op != "placeholder" and not isinstance(node.args[1], Node)


def sharing(graph: Graph) -> dict[Node, Node]:
    """For each node one that stands for the memory its value may lie in."""
    found: dict[Node, Node] = {}
    for node in graph.nodes:
        source = next(iter(node.all_input_nodes), None)
        called = node.op.startswith("call_")
        found[node] = found[source] if called and source is not None and effect(node).aliases else node
    return found


def unnoticed(graph: Graph) -> list[tuple[Node, Node]]:
    """The writes through `.data`, each with what is written."""
    silent: set[Node] = set()
    found: list[tuple[Node, Node]] = []
    for node in graph.nodes:
        if not node.op.startswith("call_"):
            continue
        given = node.all_input_nodes
        if (node.target is getattr and node.args[1] == "data") or (
            given and given[0] in silent and effect(node).aliases
        ):
            silent.add(node)
        found += [(node, each) for each in node.meta.get("writes") or effect(node).writes if each in silent]
    return found


def expose(graph: Graph, parts: list[Part], home: dict[Node, int], later: Iterable[Node]) -> None:
    """Notes in each part what is written unnoticed behind it; `later` are nodes written behind them all."""
    memory = sharing(graph)
    writes = [(home[writer], memory[target]) for writer, target in unnoticed(graph) if writer in home]
    writes += [(len(parts), memory[node]) for node in later]
    for number, part in enumerate(parts):
        written = {place for writer, place in writes if writer > number}
        if written:
            part.exposed = {node for node in (*part.inputs, *part.outputs) if memory[node] in written}


def split(
    module: GraphModule, natives: Iterable[Node], ends: Iterable[Node] = (), later: Iterable[Node] = ()
) -> list[Part]:
    """The parts of a graph: each of `natives` by itself, and a piece ends behind each of `ends`. `later` are
    nodes that are written behind it all, unnoticed."""
    graph: Graph = module.graph
    parts = _rows(graph, set(natives), set(ends))
    home: dict[Node, int] = {}
    for number, part in enumerate(parts):
        home.update(dict.fromkeys(part.nodes, number))
    last: dict[Node, int] = {}
    for node in graph.nodes:
        for used in node.all_input_nodes:
            if used.op != "get_attr":
                last[used] = len(parts) if node.op == "output" else max(home[node], last.get(used, -1))
    numbers = _open_numbers(graph)
    for number, part in enumerate(parts):
        own = set(part.nodes)
        read = [u for n in part.nodes for u in n.all_input_nodes if u.op != "get_attr" and u not in own]
        sizes = [] if part.native else _sizes_of(read, numbers)
        last.update({each: max(number, last.get(each, -1)) for each in sizes})
        part.inputs = list(dict.fromkeys([*sizes, *read]))
    for number, part in enumerate(parts):
        own = set(part.nodes)
        part.outputs = [node for node in part.nodes if last.get(node, number) > number]
        part.freed = [node for node, reader in last.items() if reader == number and node not in own]
        if not part.native:
            part.module = _piece(module, part)
    expose(graph, parts, home, later)
    return parts


def _open_numbers(graph: Graph) -> dict[Expression, Node]:
    """The inputs that are open numbers: see `weft.aot.sizes`."""
    given = [(node.meta.get("val"), node) for node in graph.placeholders]
    return {value.expression: node for value, node in given if isinstance(value, Symbolic)}


def _sizes_of(nodes: Iterable[Node], numbers: dict[Expression, Node]) -> list[Node]:
    """The inputs that tell the open sizes of these nodes' values."""
    found: dict[Node, None] = {}
    for node in nodes if numbers else ():
        value: Any = node.meta.get("val")
        for size in value.array.shape if is_tensor(value) else ():
            for one in size.expression.symbols if isinstance(size, Symbolic) else ():
                source = numbers.get(Expression("symbol", (one,), one.kind))
                found |= {} if source is None else {source: None}
    return list(found)


def _rows(graph: Graph, natives: set[Node], ends: set[Node]) -> list[Part]:
    """The nodes by part; results are taken apart where they are made."""
    parts: list[Part] = []
    modes: dict[str, Node] = {}
    home: dict[Node, Part] = {}
    current: Part | None = None
    for node in graph.nodes:
        if node.op in ("placeholder", "get_attr", "output"):
            continue
        if takes_apart(node) and node.args[0] in home:
            home[node] = home[node.args[0]]
            home[node].nodes.append(node)
        elif node in natives:
            parts.append(Part([node], True, list(modes.values())))
            home[node], current = parts[-1], None
        else:
            if current is None:
                current = Part([], False, list(modes.values()))
                parts.append(current)
            current.nodes.append(node)
            home[node] = current
            if switches(node):
                modes.pop(node.target.__name__, None)
                modes[node.target.__name__] = node
        if node in ends:
            current = None
    return [part for part in parts if not all(map(switches, part.nodes))]


def _piece(module: GraphModule, part: Part) -> GraphModule:
    """A part as a graph of its own."""
    graph = Graph()
    copies: dict[Node, Node] = {}
    for node in part.inputs:
        copies[node] = graph.placeholder(node.name)
        copies[node].meta = dict(node.meta)
    for node in part.nodes:
        for used in node.all_input_nodes:
            if used.op == "get_attr" and used not in copies:
                copies[used] = graph.node_copy(used)
        copies[node] = graph.node_copy(node, copies.__getitem__)
    graph.output(tuple([copies[node] for node in part.outputs]))
    return GraphModule(module, graph, "Piece")
