"""Graphs of scripted code: typed values, nodes with blocks, and TorchScript's text of them.

Takes what the front end emits; gives graphs that print, are searched and are rewritten. Graphs of
`weft.graph` are straight lines of nodes with one result each; here a node may have several results and own
blocks (`prim::If`, `prim::Loop`, `prim::With`), and what lies between such nodes is handed to the compiler as
a straight line. One idea: a value belongs to the node or the block that makes it, and names are given when a
value is made.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from weft.core.device import device as Device
from weft.core.dtypes import dtype as DType
from weft.jit.types import Type
from weft.tensor.base import Tensor

EXITS = ("prim::ReturnStmt", "prim::BreakStmt", "prim::ContinueStmt", "prim::RaiseException")
"""Nodes behind which a block does not go on."""


class Value:
    """One result of a node, or one input of a block."""

    __slots__ = ("kind", "owner", "name", "index")

    def __init__(self, kind: Type, owner: Node | Block, name: str, index: int) -> None:
        self.kind, self.owner, self.name, self.index = kind, owner, name, index

    def node(self) -> Node:
        if isinstance(self.owner, Node):
            return self.owner
        made = Node("prim::Param", self.owner.graph)
        made.results = self.owner.parameters
        return made

    def type(self) -> Type:
        return self.kind

    def setType(self, kind: Type) -> Value:
        self.kind = kind
        return self

    def debugName(self) -> str:
        return self.name

    def uses(self) -> list[Node]:
        """The nodes that read it."""
        return [node for node in self.owner.graph.walk() if any(value is self for value in node.arguments)]

    @property
    def constant(self) -> Any:
        """The value of a constant; NOT_CONSTANT elsewhere."""
        if isinstance(self.owner, Node) and self.owner.operator == "prim::Constant":
            return self.owner.attributes.get("value")
        return NOT_CONSTANT

    def toIValue(self) -> Any:
        found = self.constant
        return None if found is NOT_CONSTANT else found

    def __repr__(self) -> str:
        return f"{self.name} defined in ({self.owner!r})"


class NotConstant:
    """The class of NOT_CONSTANT."""

    def __repr__(self) -> str:
        return "NOT_CONSTANT"


NOT_CONSTANT = NotConstant()


class Node:
    """One operation. `words` name the last arguments, those given by keyword."""

    __slots__ = (
        "operator", "graph", "arguments", "words", "results", "blocks_", "attributes", "place", "target",
        "block",
    )  # fmt: skip

    def __init__(
        self,
        operator: str,
        graph: Graph,
        arguments: Iterable[Value] = (),
        words: Iterable[str] = (),
        attributes: dict[str, Any] | None = None,
        place: Any = None,
        target: Any = None,
    ) -> None:
        self.operator, self.graph, self.place, self.target = operator, graph, place, target
        self.arguments, self.words = list(arguments), tuple(words)
        self.results: list[Value] = []
        self.blocks_: list[Block] = []
        self.attributes = attributes or {}
        self.block: Block | None = None

    def add_result(self, kind: Type, name: str = "") -> Value:
        value = Value(kind, self, self.graph.name_for(name), len(self.results))
        self.results.append(value)
        return value

    def add_block(self) -> Block:
        made = Block(self.graph, self)
        self.blocks_.append(made)
        return made

    # -- the names that users of TorchScript know --------------------------------------------------------
    def kind(self) -> str:
        return self.operator

    def inputs(self) -> Iterator[Value]:
        return iter(self.arguments)

    def outputs(self) -> Iterator[Value]:
        return iter(self.results)

    def inputsSize(self) -> int:
        return len(self.arguments)

    def outputsSize(self) -> int:
        return len(self.results)

    def inputsAt(self, index: int) -> Value:
        return self.arguments[index]

    def outputsAt(self, index: int) -> Value:
        return self.results[index]

    def input(self) -> Value:
        assert len(self.arguments) == 1
        return self.arguments[0]

    def output(self) -> Value:
        assert len(self.results) == 1
        return self.results[0]

    def blocks(self) -> Iterator[Block]:
        return iter(self.blocks_)

    def hasAttribute(self, name: str) -> bool:
        return name in self.attributes

    def attributeNames(self) -> list[str]:
        return list(self.attributes)

    def s(self, name: str) -> str:
        return str(self.attributes[name])

    def i(self, name: str) -> int:
        return int(self.attributes[name])

    def f(self, name: str) -> float:
        return float(self.attributes[name])

    def t(self, name: str) -> Any:
        return self.attributes[name]

    def g(self, name: str) -> Graph:
        found: Graph = self.attributes[name]
        return found

    def sourceRange(self) -> str:
        return "" if self.place is None else self.place.highlight()

    def findNode(self, kind: str, recurse: bool = True) -> Node | None:
        return next(
            (node for block in self.blocks_ for node in block.walk(recurse) if node.kind() == kind), None
        )

    def findAllNodes(self, kind: str, recurse: bool = True) -> list[Node]:
        return [node for block in self.blocks_ for node in block.walk(recurse) if node.kind() == kind]

    def __str__(self) -> str:
        return "\n".join(Text().node(self, 0)) + "\n"

    __repr__ = __str__


class Block:
    """Nodes in a row, with inputs of their own and results."""

    __slots__ = ("graph", "owner", "parameters", "nodes_", "returned")

    def __init__(self, graph: Graph, owner: Node | None) -> None:
        self.graph, self.owner = graph, owner
        self.parameters: list[Value] = []
        self.nodes_: list[Node] = []
        self.returned: list[Value] = []

    def add_parameter(self, kind: Type, name: str = "") -> Value:
        value = Value(kind, self, self.graph.name_for(name), len(self.parameters))
        self.parameters.append(value)
        return value

    def append(self, node: Node) -> Node:
        self.nodes_.append(node)
        node.block = self
        return node

    @property
    def exits(self) -> bool:
        """Whether it never comes to its end."""
        if not self.nodes_:
            return False
        last = self.nodes_[-1]
        if last.operator == "prim::If":
            return all(block.exits for block in last.blocks_)
        if last.operator == "prim::With":
            return last.blocks_[0].exits
        return last.operator in EXITS

    def walk(self, recurse: bool = True) -> Iterator[Node]:
        """The nodes in order, with those of inner blocks."""
        for node in self.nodes_:
            yield node
            if recurse or node.operator == "prim::With":
                for block in node.blocks_:
                    yield from block.walk(recurse)

    def inputs(self) -> Iterator[Value]:
        return iter(self.parameters)

    def outputs(self) -> Iterator[Value]:
        return iter(self.returned)

    def nodes(self) -> Iterator[Node]:
        return iter(self.nodes_)

    def returnNode(self) -> Node:
        return Node("prim::Return", self.graph, self.returned)


class Graph:
    """A scripted function's body. `str` gives TorchScript's text."""

    def __init__(self, name: str = "graph") -> None:
        self.name = name
        self.counts: dict[str, int] = {}
        self.number = 0
        self.block = Block(self, None)

    def name_for(self, base: str) -> str:
        """A name that no other value has: `x.1`, or a number."""
        if not base:
            self.number += 1
            return str(self.number)
        base = base.split(".")[0]
        if base.isdigit():
            self.number += 1
            return str(self.number)
        self.counts[base] = count = self.counts.get(base, 0) + 1
        return f"{base}.{count}"

    def walk(self) -> Iterator[Node]:
        yield from self.block.walk()

    def inputs(self) -> Iterator[Value]:
        return iter(self.block.parameters)

    def outputs(self) -> Iterator[Value]:
        return iter(self.block.returned)

    def nodes(self) -> Iterator[Node]:
        return iter(self.block.nodes_)

    def findNode(self, kind: str, recurse: bool = True) -> Node | None:
        """The first node of this kind."""
        return next((node for node in self.block.walk(recurse) if node.operator == kind), None)

    def findAllNodes(self, kind: str, recurse: bool = True) -> list[Node]:
        """All nodes of this kind."""
        return [node for node in self.block.walk(recurse) if node.operator == kind]

    def return_node(self) -> Node:
        return self.block.returnNode()

    def copy(self) -> Graph:
        """A graph of its own with equal nodes and names."""
        made = Graph(self.name)
        copy_block(self.block, made.block, {}, keep_names=True)
        made.counts, made.number = dict(self.counts), self.number
        return made

    def lint(self) -> None:
        """Raises where a value is read before it is made."""
        from_inside: set[int] = set()

        def check(block: Block, seen: set[int]) -> None:
            seen |= {id(value) for value in block.parameters}
            for node in block.nodes_:
                for value in node.arguments:
                    if id(value) not in seen:
                        raise RuntimeError(f"%{value.name} is read by {node.operator} before it is made")
                for inner in node.blocks_:
                    check(inner, seen if node.operator == "prim::With" else set(seen))
                seen |= {id(value) for value in node.results}
            for value in block.returned:
                if id(value) not in seen:
                    raise RuntimeError(f"%{value.name} is returned before it is made")

        check(self.block, from_inside)

    def __str__(self) -> str:
        return Text().graph(self)

    __repr__ = __str__

    def str(self, print_source_ranges: bool = True) -> str:
        return Text(print_source_ranges).graph(self)


def copy_block(
    source: Block, into: Block, known: dict[Value, Value], keep_names: bool = False, parameters: bool = True
) -> None:
    """Copies nodes, and values by `known`, in which new ones are noted."""

    def twin(value: Value, made: Value) -> None:
        known[value] = made
        if keep_names:
            made.name = value.name

    if parameters:
        for value in source.parameters:
            twin(value, into.add_parameter(value.kind, value.name))
    for node in source.nodes_:
        made = Node(
            node.operator,
            into.graph,
            [known[value] for value in node.arguments],
            node.words,
            dict(node.attributes),
            node.place,
            node.target,
        )
        for block in node.blocks_:
            copy_block(block, made.add_block(), known, keep_names)
        for value in node.results:
            twin(value, made.add_result(value.kind, value.name))
        into.append(made)
    into.returned = [known[value] for value in source.returned]


def literal(value: Any) -> str:
    """A constant as graphs print it."""
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
        return f'"{escaped}"'
    if isinstance(value, float):
        if math.isinf(value) or math.isnan(value):
            return str(value)
        return repr(value).replace("e-0", "e-").replace("e+", "e") if value != int(value) else _whole(value)
    if isinstance(value, DType):
        return f"dtype:{value.name}"
    if isinstance(value, Device):
        return f'"{value}"'
    if isinstance(value, (list, tuple)):
        inner = ", ".join(literal(item) for item in value)
        return f"[{inner}]" if isinstance(value, list) else f"({inner})"
    if isinstance(value, Tensor):
        return "<Tensor>" if value.numel() != 1 else f"{{{value.item()}}}"
    return str(value)


def _whole(value: float) -> str:
    text = repr(value)
    return text.removesuffix("0") if text.endswith(".0") else text


class Text:
    """TorchScript's notation."""

    def __init__(self, places: bool = True, tensor: Callable[[Any], str] | None = None) -> None:
        self.places, self.tensor = places, tensor
        self.graphs: list[tuple[str, Graph]] = []

    def graph(self, graph: Graph) -> str:
        inputs = [f"%{value.name} : {value.kind.brief}" for value in graph.block.parameters]
        lines = [f"graph({(',' + chr(10) + '      ').join(inputs)}):"]
        for node in graph.block.nodes_:
            lines += self.node(node, 1)
        lines.append(f"  return ({', '.join(f'%{value.name}' for value in graph.block.returned)})")
        text = "\n".join(lines) + "\n"
        for name, inner in self.graphs:
            text += f"with {name} = {Text(self.places, self.tensor).graph(inner)}"
        return text

    def node(self, node: Node, depth: int) -> list[str]:
        if node.operator == "prim::With":
            return self.region(node, depth)
        indent = "  " * depth
        results = ", ".join(f"%{value.name} : {value.kind.brief}" for value in node.results)
        arguments = [f"%{value.name}" for value in node.arguments]
        for position, word in zip(
            range(len(arguments) - len(node.words), len(arguments)), node.words, strict=True
        ):
            arguments[position] = f"{word}={arguments[position]}"
        head = f"^{node.attributes['name']}" if node.operator == "prim::PythonOp" else node.operator
        if isinstance(node.attributes.get("Subgraph"), Graph):
            head = f"{head}_{len(self.graphs)}"
            self.graphs.append((head, node.attributes["Subgraph"]))
        text = f"{indent}{results} = {head}{self.attributes(node)}({', '.join(arguments)})"
        if self.places and node.place is not None:
            text += f" # {node.place.place}"
        lines = [text]
        for number, block in enumerate(node.blocks_):
            lines += self.block(block, number, depth + 1)
        return lines

    def region(self, node: Node, depth: int) -> list[str]:
        """A `with` statement: what it is entered by, its nodes, and its exit."""
        indent = "  " * depth
        entered = node.results[0]
        manager = node.arguments[0].name
        lines = [f"{indent}%{entered.name} : {entered.kind.brief} = prim::Enter(%{manager})"]
        for inner in node.blocks_[0].nodes_:
            lines += self.node(inner, depth)
        return [*lines, f"{indent} = prim::Exit(%{manager})"]

    def attributes(self, node: Node) -> str:
        shown = {key: value for key, value in node.attributes.items() if not key.startswith("_")}
        if node.operator == "prim::PythonOp":
            return ""
        if node.operator == "prim::Constant" and shown.get("value", NOT_CONSTANT) is None:
            return ""
        if not shown:
            return ""
        parts = []
        for key, value in shown.items():
            if isinstance(value, Graph):
                continue
            text = (
                self.tensor(value)
                if self.tensor is not None and isinstance(value, Tensor)
                else literal(value)
            )
            parts.append(f"{key}={text}")
        return f"[{', '.join(parts)}]" if parts else ""

    def block(self, block: Block, number: int, depth: int) -> list[str]:
        indent = "  " * depth
        parameters = ", ".join(f"%{value.name} : {value.kind.brief}" for value in block.parameters)
        lines = [f"{indent}block{number}({parameters}):"]
        for node in block.nodes_:
            lines += self.node(node, depth + 1)
        lines.append(f"{indent}  -> ({', '.join(f'%{value.name}' for value in block.returned)})")
        return lines
