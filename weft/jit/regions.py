"""Regions: parts of a graph taken out as graphs of their own.

Takes a block and a test for nodes; gives groups of nodes in a row, and makes a group one node with a
subgraph. One idea: what a group reads from outside becomes the subgraph's inputs, what others read of it its
outputs; constants and lists that only the group reads go in with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from weft.jit.codegen import reads
from weft.jit.ir import NOT_CONSTANT, Block, Graph, Node, Value, copy_block

GLUE = (
    "prim::Constant",
    "prim::ListConstruct",
    "prim::TupleConstruct",
    "prim::ListUnpack",
    "prim::TupleUnpack",
)


def groups(
    block: Block,
    fits: Callable[[Node], bool],
    smallest: int = 2,
    may_wait: Callable[[Node], bool] = lambda node: False,
) -> list[list[Node]]:
    """Runs of fitting nodes. Constants may stand between them; lists and tuples too, with their readers; and
    nodes that may be done earlier, if they read nothing of the run."""
    found: list[list[Node]] = []
    current: list[Node] = []
    for node in block.nodes_:
        if node.operator == "prim::Constant":
            continue
        if fits(node) or node.operator in GLUE and (current or _leads(node, block, fits)):
            current.append(node)
            continue
        if current and may_wait(node) and not _reads_any(node, current):
            continue  # it is done before the whole group
        if current:
            found.append(current)
        current = []
    if current:
        found.append(current)
    return [group for group in map(_trimmed, found) if sum(n.operator not in GLUE for n in group) >= smallest]


def related(block: Block, found: list[list[Node]], smallest: int) -> list[list[Node]]:
    """The groups, such that nodes of one lead to each other: what does not is parted, and groups that do are
    one where nothing between them looks at the first or has effects."""
    parts = [part for group in found for part in _parted(group)]
    made: list[list[Node]] = []
    for part in sorted(parts, key=lambda group: block.nodes_.index(group[0])):
        before = next((one for one in reversed(made) if _may_join(block, one, part)), None)
        if before is None:
            made.append(part)
        else:
            before += part
    return [group for group in made if sum(node.operator not in GLUE for node in group) >= smallest]


def _parted(group: list[Node]) -> list[list[Node]]:
    """A group by what leads to what; lists and tuples go with their readers."""
    parts: list[list[Node]] = []
    for node in reversed(group):
        near = [
            part for part in parts if any(value in reads(later) for later in part for value in node.results)
        ]
        joined = [node, *(later for part in near for later in part)]
        parts = [joined, *(part for part in parts if part not in near)]
    order = {node: place for place, node in enumerate(group)}
    return [_trimmed(sorted(part, key=order.__getitem__)) for part in parts]


def _may_join(block: Block, first: list[Node], second: list[Node]) -> bool:
    """Whether the second group may be computed with the first, where it stands."""
    if not any(_reads_any(node, first) for node in second):
        return False
    between = block.nodes_[block.nodes_.index(first[0]) : block.nodes_.index(second[-1])]
    others = [node for node in between if node not in first and node not in second]
    return not any(node.blocks_ or not _is_pure(node) or _reads_any(node, first) for node in others)


def _is_pure(node: Node) -> bool:
    kind, _, name = node.operator.partition("::")
    return (
        kind == "aten"
        and not name.endswith("_")
        or node.operator in (*GLUE, "prim::abs", "prim::min", "prim::max")
    )


def _reads_any(node: Node, group: list[Node]) -> bool:
    made = {value for member in group for value in member.results}
    return any(value in made for value in reads(node))


def _leads(node: Node, block: Block, fits: Callable[[Node], bool]) -> bool:
    """Whether a list stands right before its reader, which fits."""
    if node.operator != "prim::ListConstruct":
        return False
    place = block.nodes_.index(node)
    for later in block.nodes_[place + 1 :]:
        if later.operator in GLUE:
            continue
        return fits(later) and any(value in later.arguments for value in node.results)
    return False


def _trimmed(group: list[Node]) -> list[Node]:
    """The group without tuples and lists at its end, which are made outside."""
    while group and group[-1].operator in GLUE and group[-1].operator.endswith("Construct"):
        group = group[:-1]
    return group


class Piece:
    """A group as a graph: `inputs` and `outputs` are values outside, the subgraph's in the same order."""

    def __init__(
        self, graph: Graph, inputs: list[Value], outputs: list[Value], known: dict[Value, Value]
    ) -> None:
        self.graph, self.inputs, self.outputs, self.known = graph, inputs, outputs, known


def take_out(group: list[Node], readers: Iterable[Value], name: str = "subgraph") -> Piece:
    """The group as a graph; `readers` are the values that are read outside of it."""
    graph = Graph(name)
    made = {value for node in group for value in node.results}
    outside = set(readers)
    known: dict[Value, Value] = {}
    inputs: list[Value] = []
    for node in group:
        for value in reads(node):
            if value in made or value in known or _inside(node, value):
                continue
            constant = value.constant
            if constant is not NOT_CONSTANT:
                copied = Node("prim::Constant", graph, (), (), {"value": constant}, None)
                known[value] = copied.add_result(value.kind)
                graph.block.append(copied)
            else:
                known[value] = graph.block.add_parameter(value.kind, value.name)
                inputs.append(value)
    holder = Block(group[0].graph, None)
    holder.nodes_ = group
    copy_block(holder, graph.block, known, parameters=False)
    outputs = [value for node in group for value in node.results if value in outside]
    graph.block.returned = [known[value] for value in outputs]
    return Piece(graph, inputs, outputs, known)


def _inside(node: Node, value: Value) -> bool:
    """Whether a value belongs to a block inside the node."""
    for block in node.blocks_:
        if value in block.parameters:
            return True
        for inner in block.nodes_:
            if value in inner.results or _inside(inner, value):
                return True
    return False


def outside_values(graph: Graph, group: list[Node]) -> set[Value]:
    """Everything that nodes outside the group read."""
    members = set(group)
    found: set[Value] = set()

    def visit(block: Block) -> None:
        for node in block.nodes_:
            if node in members:
                continue
            found.update(node.arguments)
            for inner in node.blocks_:
                visit(inner)
        found.update(block.returned)

    visit(graph.block)
    return found


def put_node(block: Block, group: list[Node], node: Node) -> None:
    """Puts one node where the group stood."""
    place = block.nodes_.index(group[-1])
    members = set(group)
    kept_before = [n for n in block.nodes_[: place + 1] if n not in members]
    block.nodes_ = [*kept_before, node, *block.nodes_[place + 1 :]]
    node.block = block


def blocks_of(graph: Graph) -> list[Block]:
    """All blocks, the outermost first."""
    found = [graph.block]
    for node in graph.walk():
        found += node.blocks_
    return found
