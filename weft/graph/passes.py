"""Passes: functions from a graph to an equivalent one.

Takes a graph, leaves it alone and gives a new one. One idea: what a node does besides computing its value is
asked of `effects` alone, so no pass keeps a list of ops.

# Note [Merging under mutation]
Two equal nodes may become one only if nobody can tell. In

    a = x + 1                   x.add_(1) between them: b reads another x
    x.add_(1)
    b = x + 1

the key of a node holds, beside its target and inputs, how often each input was written so far; a write counts
for everything that may share memory with what it writes. In

    a = x + 1                   a is written and b is not: they must stay two
    b = x + 1
    a.mul_(2)

values that are written, or reach the output through views, keep their own memory: of two that reach it
neither is merged into the other, and one that is written is never merged at all. Random nodes, and nodes
whose target is unknown, are never merged, and the unknown ones count as writes to everything. What a
checkpoint computes again is not merged with what it computed first: that it is not kept is the point.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable
from typing import Any, Final

from weft.core.dtypes import dtype
from weft.core.interrupts import let_through
from weft.graph.check import check
from weft.graph.effects import PURE_FUNCTIONS, Effect, effect, op_of
from weft.graph.graph import Graph
from weft.graph.node import Node, map_arg, nodes_in
from weft.ops.record import REGISTRY, Op

Pass = Callable[[Graph], Graph]
REPEATS: Final = "repeats"
"""Marks, in a node's meta, the recomputation that it belongs to."""


def dce(graph: Graph, impure: Callable[[Node], bool] | None = None) -> Graph:
    """Dead code elimination: without unused nodes; what writes, draws or has unknown effects stays."""
    result = graph.copy()
    result.eliminate_dead_code(impure)
    named = {node.target for node in result.find_nodes(op="get_attr")}
    result.subgraphs = {name: inner for name, inner in result.subgraphs.items() if name in named}
    return result


# -- common subexpressions -----------------------------------------------------------------------------------
class _Memory:
    """Which values may share memory: classes of nodes, joined where an op may give a view."""

    def __init__(self, graph: Graph, effects: dict[Node, Effect]) -> None:
        self.parent: dict[Node, Node] = {node: node for node in graph.nodes}
        inputs: Node | None = None
        for node in graph.nodes:
            if node.op in ("placeholder", "get_attr"):  # arguments may be views of one another
                inputs = node if inputs is None else inputs
                self.join(node, inputs)
            elif effects[node].aliases or effects[node].unknown:
                for used in node.all_input_nodes if node.op != "output" else ():
                    self.join(node, used)
        self.written: set[Node] = set()
        self.escaping: set[Node] = set()
        for node in graph.nodes:
            writes = node.all_input_nodes if effects[node].unknown else effects[node].writes
            self.written.update(map(self.of, writes))
            if node.op == "output":
                self.escaping.update(map(self.of, node.all_input_nodes))

    def of(self, node: Node) -> Node:
        while self.parent[node] is not node:
            self.parent[node] = self.parent[self.parent[node]]
            node = self.parent[node]
        return node

    def join(self, one: Node, other: Node) -> None:
        self.parent[self.of(one)] = self.of(other)


def cse(graph: Graph) -> Graph:
    """With equal computations done once. See Note [Merging under mutation]."""
    graph = graph.copy()
    effects = {node: effect(node) for node in graph.nodes}
    memory = _Memory(graph, effects)
    versions: dict[Node, int] = {}
    epoch = 0
    seen: dict[Any, Node] = {}
    for node in graph.nodes:
        does = effects[node]
        if node.op in ("placeholder", "output"):
            continue
        same_object = node.op == "get_attr"
        if does.pure and (same_object or memory.of(node) not in memory.written):
            key = _key(node, memory, versions, epoch)
            first = seen.setdefault(key, node) if key is not None else node
            both = memory.of(first) in memory.escaping and memory.of(node) in memory.escaping
            if first is not node and (same_object or not both):
                node.replace_all_uses_with(first)
                graph.erase_node(node)
        for value in does.writes:
            versions[memory.of(value)] = versions.get(memory.of(value), 0) + 1
        epoch += does.unknown
    return graph


def _key(node: Node, memory: _Memory, versions: dict[Node, int], epoch: int) -> Any:
    try:
        read = tuple(versions.get(memory.of(value), 0) for value in node.all_input_nodes)
        made_in = epoch, node.meta.get(REPEATS)
        key = (node.op, node.target, _frozen(node.args), _frozen(node.kwargs), read, made_in)
        hash(key)
    except TypeError as error:
        let_through(error)
        return None
    return key


def _frozen(value: Any) -> Any:
    """A hashable stand-in that is equal only for arguments that mean the same: 1, 1.0 and True differ."""
    if isinstance(value, Node):
        return value
    kind = type(value)
    if isinstance(value, (tuple, list)):
        return kind, tuple(_frozen(item) for item in value)
    if kind is dict:
        return kind, tuple((key, _frozen(item)) for key, item in value.items())
    if kind is slice:
        return kind, _frozen((value.start, value.stop, value.step))
    if kind is float:
        return kind, value.hex()
    if kind in (int, bool, str, type(None), type(...)) or isinstance(value, (dtype, type)):
        return kind, value
    return kind, id(value)  # the same object, which the argument keeps alive


# -- constants -----------------------------------------------------------------------------------------------
_NUMBERS: Final = (int, float, bool, complex)
_FOLDED: Final = PURE_FUNCTIONS - {getattr, len, slice, tuple, operator.is_, operator.is_not, operator.concat}
_GROWING: Final = frozenset(
    {operator.pow, operator.lshift, pow, math.factorial, math.comb, math.perm, math.prod}
)
"""Functions whose results may take longer to compute than anybody would wait."""


def _is_constant(value: object) -> bool:
    if isinstance(value, (tuple, list)):
        return all(map(_is_constant, value))
    return type(value) in _NUMBERS


def fold(graph: Graph) -> Graph:
    """With arithmetic of plain numbers done. What raises stays, to raise when the graph runs."""
    graph = graph.copy()
    for node in graph.nodes:
        if node.op != "call_function" or node.target not in _FOLDED or node.kwargs:
            continue
        if not node.args or not all(map(_is_constant, node.args)):
            continue
        if node.target in _GROWING and any(type(value) is int and abs(value) > 64 for value in node.args):
            continue
        try:
            value = node.target(*node.args)
        except (ArithmeticError, ValueError, TypeError) as error:
            let_through(error)
            continue
        if type(value) not in _NUMBERS:
            continue
        for user in list(node.users):
            _replace_by_value(user, node, value)
        graph.erase_node(node)
    return graph


def _replace_by_value(user: Node, old: Node, value: object) -> None:
    def change(node: Node) -> Any:
        return value if node is old else node

    user.args, user.kwargs = map_arg(user.args, change), map_arg(user.kwargs, change)


# -- one form ------------------------------------------------------------------------------------------------
_OPERATORS: Final = {
    operator.add: "add", operator.sub: "sub", operator.mul: "mul", operator.truediv: "div",
    operator.floordiv: "floor_divide", operator.mod: "remainder", operator.pow: "pow",
    operator.matmul: "matmul", operator.neg: "neg", operator.abs: "abs", abs: "abs", operator.eq: "eq",
    operator.ne: "ne", operator.lt: "lt", operator.le: "le", operator.gt: "gt", operator.ge: "ge",
    operator.and_: "bitwise_and", operator.or_: "bitwise_or", operator.xor: "bitwise_xor",
    operator.invert: "bitwise_not",
}  # fmt: skip


def canonicalise(graph: Graph) -> Graph:
    """In one form: methods and operators as functions, arguments by position, defaults left out.

    Concerns calls that stand for one op record, whatever the caller wrote: `x.sum(dim=0)`,
    `weft.sum(x, dim=0)` and `weft.sum(x, 0)` become the last. Nodes are renamed in order, so equal graphs
    print equally.
    """
    graph = graph.copy()
    for node in graph.nodes:
        if node.op == "call_function" and node.target in _OPERATORS and _on_tensors(node):
            node.target = REGISTRY[_OPERATORS[node.target]].face
        if node.op in ("call_function", "call_method"):
            found = op_of(node)
            if found is not None and not isinstance(node.target, Op):
                _canonicalise_call(node, *found)
    graph.rename()
    return graph


def _on_tensors(node: Node) -> bool:
    """Whether an operator's operands are tensors, or numbers behind a tensor."""

    def is_tensor(value: object) -> bool:
        return isinstance(value, Node) and isinstance(getattr(value.meta.get("val"), "dtype", None), dtype)

    return is_tensor(node.args[0]) and all(is_tensor(v) or type(v) in _NUMBERS for v in node.args[1:])


def _canonicalise_call(node: Node, op: Op, called: str) -> None:
    if node.op == "call_method" and called == op.name and op.function:
        node.op, node.target = "call_function", op.face
    parameters = op.signature.parameters
    if any(parameter.variadic for parameter in parameters):
        return  # sizes may come one by one or as a tuple; both are in use
    args, kwargs = list(node.args), dict(node.kwargs)
    for parameter in parameters[len(args) :]:
        if parameter.keyword_only or parameter.name not in kwargs:
            break
        args.append(kwargs.pop(parameter.name))
    while len(args) > 1 and len(args) <= len(parameters) and _is_default(args[-1], parameters[len(args) - 1]):
        args.pop()
    node.args = tuple(args)
    known = {parameter.name: parameter for parameter in parameters}
    node.kwargs = {k: v for k, v in kwargs.items() if k not in known or not _is_default(v, known[k])}


def _is_default(value: object, parameter: Any) -> bool:
    if nodes_in(value) or not _has_default(parameter):
        return False
    default = parameter.default
    return type(value) is type(default) and type(value) in (*_NUMBERS, str, type(None)) and value == default


def _has_default(parameter: Any) -> bool:
    return type(parameter.default) in (*_NUMBERS, str, type(None))


PASSES: Final[dict[str, Pass]] = {"canonicalise": canonicalise, "fold": fold, "cse": cse, "dce": dce}
"""The simplifying passes by name, in the order in which they serve each other."""


def apply(graph: Graph, names: Iterable[str] = tuple(PASSES), *, checked: bool = False) -> Graph:
    """The graph and its sub-graphs after these passes; with `checked`, the rules are verified after each."""
    names = tuple(names)
    for name in names:
        graph = PASSES[name](graph)
        if checked:
            check(graph)
    graph.subgraphs = {key: apply(inner, names, checked=checked) for key, inner in graph.subgraphs.items()}
    return graph
