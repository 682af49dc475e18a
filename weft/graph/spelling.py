"""Spelling: how one value or one node is written in Python.

Takes arguments of nodes; gives text. Two spellings share the statements: `Readable` writes what users write
(`weft.relu(x)`, `weft.float32`), `Executable` binds whatever is no literal to a global of the generated code,
so that a call costs one lookup and every constant is the very object. One idea: a statement is a format
string found by the target, filled with spelled arguments.
"""

from __future__ import annotations

import enum
import math
import operator
from typing import Any, Final

from weft.core.dtypes import dtype
from weft.core.types import Size
from weft.graph.names import Paths, public_path
from weft.graph.node import AnyGraph, Node, nodes_in

INFIX: Final[dict[Any, str]] = {
    operator.eq: "{} == {}", operator.ne: "{} != {}", operator.lt: "{} < {}", operator.gt: "{} > {}",
    operator.le: "{} <= {}", operator.ge: "{} >= {}", operator.pos: "+{}", operator.neg: "-{}",
    operator.invert: "~{}", operator.add: "{} + {}", operator.sub: "{} - {}", operator.mul: "{} * {}",
    operator.pow: "{} ** {}", operator.floordiv: "{} // {}", operator.truediv: "{} / {}",
    operator.mod: "{} % {}", operator.lshift: "{} << {}", operator.rshift: "{} >> {}",
    operator.and_: "{} & {}", operator.or_: "{} | {}", operator.xor: "{} ^ {}", operator.getitem: "{}[{}]",
    operator.matmul: "{} @ {}",
}  # fmt: skip
IN_PLACE: Final[dict[Any, str]] = {
    operator.iadd: "{} += {}", operator.isub: "{} -= {}", operator.imul: "{} *= {}",
    operator.itruediv: "{} /= {}", operator.ifloordiv: "{} //= {}", operator.imod: "{} %= {}",
    operator.ipow: "{} **= {}", operator.imatmul: "{} @= {}", operator.iand: "{} &= {}",
    operator.ior: "{} |= {}",
    operator.ixor: "{} ^= {}", operator.ilshift: "{} <<= {}", operator.irshift: "{} >>= {}",
    operator.setitem: "{}[{}] = {}",
}  # fmt: skip
_LITERALS: Final = (int, str, bool, type(None), bytes)


class Readable:
    """What a person reads: public paths under a namespace."""

    kwarg: str = "{} = {}"

    def __init__(self, paths: Paths | None = None) -> None:
        self.paths = paths or Paths()
        self.graphs: dict[int, tuple[str, Any]] = {}

    def node(self, node: Node) -> str:
        return node.name

    def target(self, target: Any) -> str:
        path = self.paths.of(target)
        if path.startswith("operator."):
            return "_operator_" + path[9:]
        return path.replace(".<locals>", "")

    def value(self, value: Any) -> str:
        if isinstance(value, Node):
            return self.node(value)
        kind = type(value)
        if kind in _LITERALS:
            return repr(value)
        if kind is tuple or kind is Size:
            items = [self.value(item) for item in value]
            return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"
        if kind is list:
            return f"[{', '.join(map(self.value, value))}]"
        if kind is dict:
            return f"{{{', '.join(f'{self.value(key)}: {self.value(item)}' for key, item in value.items())}}}"
        if kind is slice:
            return f"slice({self.value(value.start)}, {self.value(value.stop)}, {self.value(value.step)})"
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return f"{self.target(kind)}({', '.join(map(self.value, value))})"
        return self.constant(value)

    def constant(self, value: object) -> str:
        """A value that is neither a node, a plain literal nor a container."""
        if isinstance(value, enum.Enum):
            return f"{self.target(type(value))}.{value.name}"
        if isinstance(value, AnyGraph):
            return self.graph(value)
        if isinstance(value, dtype):
            return self.paths.translate(repr(value))
        if callable(value) and hasattr(value, "__name__"):
            return self.target(value)
        text = repr(value)
        return self.paths.translate(text) if text.startswith("weft.") else text

    def graph(self, graph: Any) -> str:
        """A graph that stands among the arguments: a name, under which the printer writes it out."""
        if id(graph) not in self.graphs:
            self.graphs[id(graph)] = (f"{graph.name}_{len(self.graphs)}", graph)
        return self.graphs[id(graph)][0]

    def operand(self, value: object) -> str:
        """An argument beside an infix operator: a negative number binds less than `**` and `.`."""
        text = self.value(value)
        return f"({text})" if text.startswith("-") and not isinstance(value, Node) else text

    def arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        return ", ".join(
            [
                *map(self.value, args),
                *(self.kwarg.format(key, self.value(item)) for key, item in kwargs.items()),
            ]
        )

    def attribute(self, path: str) -> str:
        """`self.layer.weight`; `getattr(self.layers, "0")` where a part is no identifier."""
        text = "self"
        for part in path.split("."):
            text = f"{text}.{part}" if part.isidentifier() else f'getattr({text}, "{part}")'
        return text

    def expression(self, node: Node) -> str:
        """The right-hand side of a node's statement."""
        args, kwargs, target = node.args, node.kwargs, node.target
        if node.op == "get_attr":
            return self.attribute(target)
        if node.op == "call_module":
            return f"{self.attribute(target)}({self.arguments(args, kwargs)})"
        if node.op == "call_method":
            receiver = self.value(args[0])
            receiver = receiver if isinstance(args[0], Node) else f"({receiver})"
            return f"{receiver}.{target}({self.arguments(args[1:], kwargs)})"
        pattern = INFIX.get(target) if not kwargs else None
        if pattern is not None and pattern.count("{}") == len(args):
            if target is operator.getitem:
                return f"{self.operand(args[0])}[{self.key(args[1])}]"
            return pattern.format(*map(self.operand, args))
        if target is getattr and not kwargs and len(args) == 2 and isinstance(args[1], str):
            if args[1].isidentifier() and isinstance(args[0], Node):
                return f"{self.value(args[0])}.{args[1]}"
        return f"{self.target(target)}({self.arguments(args, kwargs)})"

    def key(self, key: object) -> str:
        return self.value(key)

    def statement(self, node: Node, annotation: str = "") -> str:
        """The node's line, without what it frees."""
        pattern = IN_PLACE.get(node.target) if node.op == "call_function" and not node.kwargs else None
        name = self.node(node)
        if pattern is not None and pattern.count("{}") == len(node.args):
            written = pattern.format(*map(self.value, node.args))
            return f"{written};  {name}{annotation} = {self.value(node.args[0])}"
        return f"{name}{annotation} = {self.expression(node)}"


def _is_fixed(part: object) -> bool:
    """Whether a part of a key is the same at each call; a list would be made anew."""
    return type(part) in (int, slice, type(None), type(...)) and not nodes_in(part)


class Executable(Readable):
    """What runs: targets and constants are globals of the code, collected in `bound`."""

    kwarg = "{}={}"

    def __init__(self) -> None:
        super().__init__()
        self.bound: dict[str, Any] = {}
        self.known: dict[int, str] = {}
        self.renamed: dict[Node, str] = {}

    def node(self, node: Node) -> str:
        return self.renamed.get(node, node.name)

    def bind(self, value: object, wished: str) -> str:
        """A global name for this very object."""
        known = self.known.get(id(value))
        if known is None:
            # A capital and a number in front: no node has such a name, for those are in lower case.
            known = f"G{len(self.bound)}_{wished}"
            self.bound[known] = value
            self.known[id(value)] = known
        return known

    def target(self, target: object) -> str:
        path = public_path(target).rpartition(".")[2]
        return self.bind(target, path if path.isidentifier() else "target")

    def value(self, value: Any) -> str:
        kind = type(value)
        if kind is float and math.isfinite(value):
            return repr(value)
        if kind in (slice, Size) and not nodes_in(value):
            return self.bind(value, kind.__name__)
        if kind is tuple and any(type(item) is slice for item in value) and all(map(_is_fixed, value)):
            return self.bind(value, "key")
        return super().value(value)

    def constant(self, value: object) -> str:
        return self.graph(value) if isinstance(value, AnyGraph) else self.bind(value, "constant")

    def statement(self, node: Node, annotation: str = "") -> str:
        # `x += 1` would rebind x, which is right for tensors only; and nobody reads what setitem gives.
        if node.target is operator.setitem and node.op == "call_function" and not node.users:
            holder, key, item = node.args
            return f"{self.operand(holder)}[{self.key(key)}] = {self.value(item)}"
        if not node.users and node.op.startswith("call_"):
            return self.expression(node)
        return f"{self.node(node)} = {self.expression(node)}"
