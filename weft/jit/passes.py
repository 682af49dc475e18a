"""Passes over graphs: inlining of calls, dead code elimination.

Takes graphs; gives new ones. One idea: a pass copies the graph and changes the copy, so that what users look
at stays as it was read.
"""

from __future__ import annotations

from typing import Any

from weft.jit.ir import Block, Graph, Node, Value, copy_block

CALLS = ("prim::CallFunction", "prim::CallMethod")
EFFECTS = frozenset(
    [
        "prim::Print",
        "prim::RaiseException",
        "prim::SetAttr",
        "prim::ReturnStmt",
        "prim::BreakStmt",
        "prim::ContinueStmt",
        "prim::PythonOp",
        "prim::CallFunction",
        "prim::CallMethod",
        "prim::With",
        "aten::append",
        "aten::_set_item",
        "aten::Delete",
        "aten::warn",
        "prim::fork",
        "aten::wait",
        "prim::CreateObject",
        "prim::ListUnpack",
        "aten::manual_seed",
        "aten::backward",
        "aten::extend",
        "aten::insert",
        "aten::pop",
        "aten::remove",
        "aten::reverse",
        "aten::sort",
        "aten::clear",
        "aten::update",
        "aten::setdefault",
        "aten::popitem",
        "aten::IntImplicit",
        "aten::FloatImplicit",
        "aten::ScalarImplicit",
    ]
)
PURE = frozenset(
    [
        "prim::Constant",
        "prim::ListConstruct",
        "prim::TupleConstruct",
        "prim::DictConstruct",
        "prim::unchecked_cast",
        "prim::GetAttr",
        "prim::TupleIndex",
        "prim::TupleUnpack",
        "prim::Uninitialized",
        "prim::dtype",
        "prim::device",
        "aten::size",
        "aten::dim",
        "aten::len",
        "aten::format",
    ]
)


def inline(graph: Graph, depth: int = 0) -> Graph:
    """The graph with the bodies of its callees in place of calls, where these return at their end only."""
    made = graph.copy()
    known: dict[Value, Value] = {}
    inline_block(made.block, depth, known)
    for old in known:
        new = known[old]
        while new in known:
            new = known[new]
        known[old] = new
    replace_values(made, known)
    drop_unread(made)
    return made


def inlinable(callee: Any) -> Graph | None:
    """A callee's graph, if it may stand in place of a call."""
    graph: Graph | None = getattr(callee, "made", None)
    if graph is None or any(node.operator == "prim::ReturnStmt" for node in graph.walk()):
        return None
    return graph


def inline_block(block: Block, depth: int, replaced: dict[Value, Value]) -> None:
    """Puts callees in place of calls; `replaced` says what is to be read instead of the calls' results."""
    nodes, block.nodes_ = block.nodes_, []
    for node in nodes:
        for inner in node.blocks_:
            inline_block(inner, depth, replaced)
        callee = inlinable(node.target) if node.operator in CALLS else None
        if callee is None or depth > 20:
            block.append(node)
            continue
        expanded = inline(callee, depth + 1)
        known: dict[Value, Value] = dict(zip(expanded.block.parameters, node.arguments, strict=True))
        returned = block.returned
        copy_block(expanded.block, block, known, parameters=False)
        results, block.returned = block.returned, returned
        replaced.update(zip(node.results, results, strict=True))


def replace_in(node: Node, known: dict[Value, Value]) -> None:
    node.arguments = [known.get(value, value) for value in node.arguments]
    for block in node.blocks_:
        for inner in block.nodes_:
            replace_in(inner, known)
        block.returned = [known.get(value, value) for value in block.returned]


def replace_values(graph: Graph, known: dict[Value, Value]) -> None:
    """Makes everybody read other values."""
    for node in graph.block.nodes_:
        replace_in(node, known)
    graph.block.returned = [known.get(value, value) for value in graph.block.returned]


def is_pure(node: Node) -> bool:
    """Whether a node may be removed if its results are unused."""
    return node.operator in PURE and not node.blocks_


def drop_unread(graph: Graph) -> None:
    """Removes unused constants, tuples and the like."""
    while True:
        read: set[Value] = set()
        for node in graph.walk():
            read.update(node.arguments)
            for block in node.blocks_:
                read.update(block.returned)
        read.update(graph.block.returned)
        if not _drop(graph.block, read):
            return


def _drop(block: Block, read: set[Value]) -> bool:
    kept = [n for n in block.nodes_ if not is_pure(n) or any(value in read for value in n.results)]
    changed = len(kept) != len(block.nodes_)
    block.nodes_ = kept
    for node in kept:
        for inner in node.blocks_:
            changed = _drop(inner, read) or changed
    return changed
