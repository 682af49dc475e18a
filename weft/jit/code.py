"""The text that `.code` shows: a graph as TorchScript's Python.

Takes a scripted function; gives text. One idea: values without a name of the user's that are read once, in
their own block, stand where they are read; all others are assigned.
"""

from __future__ import annotations

from typing import Any

from weft.jit.codegen import reads
from weft.jit.ir import NOT_CONSTANT, Block, Graph, Node, Value, literal
from weft.jit.types import annotation

STATEMENTS = frozenset(
    [
        "prim::If",
        "prim::Loop",
        "prim::With",
        "prim::RaiseException",
        "prim::SetAttr",
        "prim::Print",
        "prim::ReturnStmt",
        "prim::BreakStmt",
        "prim::ContinueStmt",
        "aten::append",
        "aten::_set_item",
        "prim::TupleUnpack",
        "prim::ListUnpack",
    ]
)


class Code:
    """Writes one function."""

    def __init__(self, graph: Graph, namespace: str = "torch") -> None:
        self.graph, self.namespace = graph, namespace
        self.lines: list[str] = []
        self.texts: dict[Value, str] = {}
        self.taken: set[str] = set()
        self.counts: dict[Value, int] = {}
        for node in graph.walk():
            self.count(node.arguments)
            for block in node.blocks_:
                self.count(block.returned)
        self.count(graph.block.returned)
        self.number = 0

    def count(self, values: list[Value]) -> None:
        for value in values:
            self.counts[value] = self.counts.get(value, 0) + 1

    def name(self, value: Value) -> str:
        """A local name: the user's where there is one."""
        base = value.name.split(".")[0]
        if base.isdigit():
            name = f"_{self.number}"
            self.number += 1
        else:
            name, suffix = base, 0
            while name in self.taken:
                name, suffix = f"{base}{suffix}", suffix + 1
        self.taken.add(name)
        self.texts[value] = name
        return name

    def text(self, value: Value) -> str:
        found = self.texts.get(value)
        if found is not None:
            return found
        constant = value.constant
        if constant is not NOT_CONSTANT:
            return str(constant) if isinstance(constant, bool) or constant is None else literal(constant)
        return self.name(value)

    def write(self, head: str) -> str:
        for value in self.graph.block.parameters:
            self.name(value)
        self.block(self.graph.block, 1)
        if self.graph.block.returned:
            self.lines.append(f"  return {self.text(self.graph.block.returned[0])}")
        return head + "\n" + "\n".join(self.lines) + "\n"

    def block(self, block: Block, depth: int) -> None:
        start = len(self.lines)
        for place, node in enumerate(block.nodes_):
            if node.operator == "prim::Constant":
                continue
            if node.operator in STATEMENTS:
                self.statement(node, depth)
                continue
            text = self.expression(node)
            rest = block.nodes_[place + 1 :]
            if len(node.results) == 1 and self.inlined(node.results[0], rest, block):
                self.texts[node.results[0]] = text
            else:
                names = ", ".join(self.name(value) for value in node.results)
                self.lines.append("  " * depth + (f"{names} = {text}" if names else text))
        if len(self.lines) == start and depth > 1 and not block.returned:
            self.lines.append("  " * depth + "pass")

    def inlined(self, value: Value, rest: list[Node], block: Block) -> bool:
        if self.counts.get(value, 0) != 1 or not value.name.split(".")[0].isdigit():
            return False
        for node in rest:
            if value in node.arguments:
                return True
            if node.blocks_ and value in reads(node) or node.operator in STATEMENTS:
                return False
        return value in block.returned

    def expression(self, node: Node) -> str:
        args = [self.text(value) for value in node.arguments]
        positional = len(args) - len(node.words)
        named = [f"{w}={a}" for w, a in zip(node.words, args[positional:], strict=True)]
        joined = ", ".join([*args[:positional], *named])
        operator = node.operator
        if operator == "prim::TupleConstruct":
            return f"({joined}{',' if len(args) == 1 else ''})"
        if operator == "prim::ListConstruct":
            kind = node.results[0].kind
            return f"annotate({annotation(kind)}, [])" if not args else f"[{joined}]"
        if operator == "prim::DictConstruct":
            pairs = zip(args[::2], args[1::2], strict=True)
            return f"{{{', '.join(f'{key}: {value}' for key, value in pairs)}}}"
        if operator == "prim::GetAttr":
            return f"{args[0]}.{node.attributes['name']}"
        if operator in ("aten::__getitem__", "prim::TupleIndex"):
            return f"{args[0]}[{args[1]}]"
        if operator == "prim::CallFunction":
            return f"__torch__.{node.attributes['name']}({joined}, )"
        if operator == "prim::CallMethod":
            rest = ", ".join([*args[1:positional], *named])
            return f"({args[0]}).{node.attributes['name']}({rest}, )"
        if operator == "prim::PythonOp":
            return f"^{node.attributes['name']}()({joined})"
        if operator == "prim::unchecked_cast":
            return f"unchecked_cast({annotation(node.results[0].kind)}, {joined})"
        space, _, name = operator.partition("::")
        return f"{self.namespace}.{name}({joined})" if space == "aten" else f"ops.{space}.{name}({joined})"

    def statement(self, node: Node, depth: int) -> None:
        indent = "  " * depth
        args = [self.text(value) for value in node.arguments]
        operator = node.operator
        if operator == "prim::If":
            self.branches(node, args[0], depth)
        elif operator == "prim::Loop":
            self.loop(node, args, depth)
        elif operator == "prim::With":
            self.lines.append(f"{indent}with {args[0]}:")
            self.block(node.blocks_[0], depth + 1)
        elif operator in ("prim::TupleUnpack", "prim::ListUnpack"):
            names = ", ".join(self.name(value) for value in node.results)
            self.lines.append(f"{indent}{names}, = {args[0]}")
        elif operator == "prim::SetAttr":
            self.lines.append(f"{indent}{args[0]}.{node.attributes['name']} = {args[1]}")
        elif operator == "prim::RaiseException":
            self.lines.append(f"{indent}ops.prim.RaiseException({', '.join(args)})")
        elif operator == "prim::Print":
            self.lines.append(f"{indent}print({', '.join(args)})")
        elif operator == "prim::ReturnStmt":
            self.lines.append(f"{indent}return {args[0]}")
        elif operator == "aten::append":
            self.lines.append(f"{indent}_{self.number} = {self.namespace}.append({', '.join(args)})")
            self.number += 1
            for value in node.results:
                self.texts[value] = args[0]
        elif operator == "aten::_set_item":
            self.lines.append(f"{indent}_{self.number} = {self.namespace}._set_item({', '.join(args)})")
            self.number += 1
        else:
            self.lines.append(indent + ("break" if operator == "prim::BreakStmt" else "continue"))

    def branches(self, node: Node, test: str, depth: int) -> None:
        indent = "  " * depth
        results = [self.name(value) for value in node.results]
        for head, block in zip((f"if {test}:", "else:"), node.blocks_, strict=True):
            self.lines.append(indent + head)
            start = len(self.lines)
            self.block(block, depth + 1)
            if not block.exits:
                for name, value in zip(results, block.returned, strict=True):
                    self.lines.append(f"{indent}  {name} = {self.text(value)}")
            if len(self.lines) == start:
                self.lines.append(f"{indent}  pass")

    def loop(self, node: Node, args: list[str], depth: int) -> None:
        indent = "  " * depth
        (block,) = node.blocks_
        index, *carried = block.parameters
        names = []
        for value, start in zip(node.results, args[2:], strict=True):
            name = self.name(value)
            self.lines.append(f"{indent}{name} = {start}")
            names.append(name)
        for value, name in zip(carried, names, strict=True):
            self.texts[value] = name
        endless = node.arguments[0].constant == 9223372036854775807
        if endless:
            going = f"_{self.number}"
            self.number += 1
            self.lines += [f"{indent}{going} = {args[1]}", f"{indent}while {going}:"]
        else:
            self.lines.append(f"{indent}for {self.name(index)} in range({args[0]}):")
        self.block(block, depth + 1)
        if not block.exits:
            targets = [going, *names] if endless else names
            values = block.returned if endless else block.returned[1:]
            texts = [self.text(value) for value in values]
            pairs = [f"{n} = {v}" for n, v in zip(targets, texts, strict=True) if n != v]
            self.lines += [f"{indent}  {pair}" for pair in pairs]


def code_of(function: Any) -> str:
    """The function's code."""
    graph = function.graph
    shown = [f"{argument.name}: {annotation(argument.type)}" for argument in function.schema.arguments]
    if function.receiver is not None:
        shown.insert(0, "self")
    shown = [text if place == 0 else f"    {text}" for place, text in enumerate(shown)]
    parameters = ",\n".join(shown)
    head = f"def {function.name.split('.')[-1]}({parameters}) -> {annotation(function.returned_type())}:"
    return Code(graph).write(head)
