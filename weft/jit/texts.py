"""Graphs as text that can be read back.

Takes graphs; gives text, one node a line, and graphs from text. One idea: the text is TorchScript's notation
with attributes written as JSON and types as annotations, so that a person can read it and a small parser too.
What is read is checked against what graphs may hold: names become part of generated code.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any

from weft.core.device import device as Device
from weft.core.dtypes import dtype as DType
from weft.core.interrupts import let_through
from weft.files.errors import FileFormatError, UnsafeFileError, require
from weft.jit.ir import Block, Graph, Node, Value
from weft.jit.lookup import find_operator, operator_of
from weft.jit.types import (
    ANY,
    BOOL,
    COMPLEX,
    DEVICE,
    DTYPE,
    FLOAT,
    GENERATOR,
    INT,
    NEVER,
    NONE,
    NUMBER,
    STR,
    TENSOR,
    DictType,
    FutureType,
    ListType,
    ObjectType,
    OptionalType,
    TupleType,
    Type,
    UnionType,
)  # fmt: skip
from weft.tensor.base import Tensor

PLAIN: dict[str, Type] = {
    "Tensor": TENSOR, "int": INT, "float": FLOAT, "bool": BOOL, "complex": COMPLEX, "str": STR,
    "NoneType": NONE,
    "number": NUMBER, "Any": ANY, "Device": DEVICE, "dtype": DTYPE, "Generator": GENERATOR, "NoReturn": NEVER,
}  # fmt: skip
IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
DEPTH = 64


class Book:
    """What graphs refer to by number: tensors, callees, classes, sources."""

    def __init__(self) -> None:
        self.tensors: dict[str, Any] = {}
        self.functions: list[Any] = []
        self.classes: list[Any] = []
        self.sources: list[Any] = []

    def number(self, things: list[Any], thing: Any) -> int:
        for place, known in enumerate(things):
            if known is thing:
                return place
        things.append(thing)
        return len(things) - 1

    def tensor(self, value: Any, prefix: str = "constants") -> str:
        for key, known in self.tensors.items():
            if known is value:
                return key
        key = f"{prefix}.{len(self.tensors)}"
        self.tensors[key] = value
        return key


# -- types -------------------------------------------------------------------------------------------------
def type_text(kind: Type, book: Book) -> str:
    """A type as text; classes by number."""
    if isinstance(kind, ListType):
        return f"List[{type_text(kind.element, book)}]"
    if isinstance(kind, OptionalType):
        return f"Optional[{type_text(kind.element, book)}]"
    if isinstance(kind, FutureType):
        return f"Future[{type_text(kind.element, book)}]"
    if isinstance(kind, DictType):
        return f"Dict[{type_text(kind.key_type, book)}, {type_text(kind.value_type, book)}]"
    if isinstance(kind, TupleType):
        inner = ", ".join(type_text(element, book) for element in kind.elements)
        if kind.cls is None:
            return f"Tuple[{inner}]"
        return f"Named{book.number(book.classes, kind.cls)}[{inner}]"
    if isinstance(kind, UnionType):
        return f"Union[{', '.join(type_text(option, book) for option in kind.options)}]"
    if isinstance(kind, ObjectType):
        if kind.sort in ("module", "context"):
            return "Module" if kind.sort == "module" else "Context"
        if kind.sort != "class":
            raise RuntimeError(f"Could not export a value of type {kind}")
        return f"Class{book.number(book.classes, kind.cls)}"
    return "dtype" if kind == DTYPE else "Tensor" if kind == TENSOR else str(kind)


class TypeReader:
    """Reads the text of types. `classes` gives a class by its number."""

    def __init__(self, classes: Callable[[int], Any]) -> None:
        self.classes = classes

    def read(self, text: str, depth: int = 0) -> Type:
        text = text.strip()
        require(depth < DEPTH, "a type in the file is nested too deeply")
        if text in PLAIN:
            return PLAIN[text]
        if text in ("Module", "Context"):
            return ObjectType(object, None, text.lower())
        if re.fullmatch(r"Class\d+", text):
            found = self.classes(int(text[5:]))
            return ObjectType(found.cls, found, "class")
        match = re.fullmatch(r"([A-Za-z]+)(\d*)\[(.*)\]", text)
        if match is None:
            raise FileFormatError(f"the file names an unknown type: {text[:80]!r}")
        head, number, inner = match.groups()
        parts = [self.read(part, depth + 1) for part in split(inner)]
        return self.generic(head, number, parts, text)

    def generic(self, head: str, number: str, parts: list[Type], text: str) -> Type:
        if head in ("List", "Optional", "Future") and len(parts) == 1:
            return {"List": ListType, "Optional": OptionalType, "Future": FutureType}[head](parts[0])
        if head == "Dict" and len(parts) == 2:
            return DictType(*parts)
        if head == "Tuple":
            return TupleType(parts)
        if head == "Union":
            return UnionType(parts)
        if head == "Named" and number:
            cls = self.classes(int(number)).cls
            require(
                len(getattr(cls, "_fields", ())) == len(parts), "a named tuple in the file has other fields"
            )
            return TupleType(parts, cls, cls._fields)
        raise FileFormatError(f"the file names an unknown type: {text[:80]!r}")


def split(text: str) -> list[str]:
    """The parts between commas outside brackets."""
    parts, depth, start = [], 0, 0
    for place, letter in enumerate(text):
        depth += (letter == "[") - (letter == "]")
        if letter == "," and depth == 0:
            parts.append(text[start:place])
            start = place + 1
    if text[start:].strip():
        parts.append(text[start:])
    return parts


# -- values ------------------------------------------------------------------------------------------------
def encode(value: Any, book: Book) -> Any:
    """A constant as JSON."""
    if value is None or isinstance(value, (bool, str)) or type(value) is int:
        return value
    if type(value) is float:
        return value if math.isfinite(value) else {"$float": str(value)}
    if isinstance(value, complex):
        return {"$complex": [value.real, value.imag]}
    if isinstance(value, DType):
        return {"$dtype": value.name}
    if type(value).__name__ in ("layout", "memory_format"):
        return {"$layout": str(value).rpartition(".")[2]}
    if isinstance(value, Device):
        return {"$device": str(value)}
    if isinstance(value, Tensor):
        return {"$tensor": book.tensor(value)}
    if isinstance(value, slice):
        return {"$slice": [value.start, value.stop, value.step]}
    if value is Ellipsis:
        return {"$ellipsis": 0}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        number = book.number(book.classes, type(value))
        return {"$named": [number, [encode(item, book) for item in value]]}
    if isinstance(value, tuple):
        return {"$tuple": [encode(item, book) for item in value]}
    if isinstance(value, list):
        return [encode(item, book) for item in value]
    if isinstance(value, dict):
        return {"$dict": [[encode(key, book), encode(item, book)] for key, item in value.items()]}
    known = operator_of(value)
    if known is not None:
        return {"$operator": list(known)}
    raise RuntimeError(f"Could not export a value of Python type '{type(value).__name__}'")


def decode(value: Any, tensors: dict[str, Any], root: Any, classes: Any = None) -> Any:
    """A constant from JSON."""
    if isinstance(value, list):
        return [decode(item, tensors, root, classes) for item in value]
    if not isinstance(value, dict):
        return value
    require(len(value) == 1, "a constant in the file is damaged")
    ((tag, inner),) = value.items()
    if tag == "$float":
        return float(inner)
    if tag == "$complex":
        return complex(*inner)
    if tag == "$dtype":
        found = getattr(root, str(inner), None)
        require(isinstance(found, DType), f"the file names an unknown dtype: {inner!r}")
        return found
    if tag == "$layout":
        found = getattr(root, str(inner), None)
        good = type(found).__name__ in ("layout", "memory_format")
        require(good, f"the file names an unknown layout: {inner!r}")
        return found
    if tag == "$device":
        return Device(str(inner))
    if tag == "$tensor":
        require(inner in tensors, f"the file lacks the tensor {inner!r}")
        return tensors[inner]
    if tag == "$slice":
        require(all(part is None or type(part) is int for part in inner), "a slice in the file is damaged")
        return slice(*inner)
    if tag == "$ellipsis":
        return Ellipsis
    if tag == "$operator":
        found = find_operator(str(inner[0]), str(inner[1]))
        require(hasattr(found, "op"), f"the file names an unknown operator: {str(inner[0])[:40]!r}")
        return found
    if tag == "$tuple":
        return tuple([decode(item, tensors, root, classes) for item in inner])
    if tag == "$named":
        cls = classes(int(inner[0])).cls
        return cls(*[decode(item, tensors, root, classes) for item in inner[1]])
    if tag == "$dict":
        pairs = [(decode(k, tensors, root, classes), decode(v, tensors, root, classes)) for k, v in inner]
        return dict(pairs)
    raise FileFormatError(f"the file holds a constant of an unknown kind: {str(tag)[:40]!r}")


# -- writing -----------------------------------------------------------------------------------------------
class Writer:
    """Writes graphs."""

    def __init__(self, book: Book) -> None:
        self.book = book
        self.lines: list[str] = []

    def graph(self, graph: Graph) -> str:
        self.lines = [f"graph({self.typed(graph.block.parameters)}):"]
        self.nodes(graph.block, 1)
        self.lines.append(f"  return ({self.plain(graph.block.returned)})")
        return "\n".join(self.lines) + "\n"

    def typed(self, values: list[Value]) -> str:
        return ", ".join(f"%{value.name} : {type_text(value.kind, self.book)}" for value in values)

    def plain(self, values: list[Value]) -> str:
        return ", ".join(f"%{value.name}" for value in values)

    def nodes(self, block: Block, depth: int) -> None:
        for node in block.nodes_:
            self.node(node, depth)

    def node(self, node: Node, depth: int) -> None:
        indent = "  " * depth
        attributes = self.attributes(node)
        shown = json.dumps(attributes, sort_keys=True) if attributes else ""
        positional = len(node.arguments) - len(node.words)
        arguments = [f"%{value.name}" for value in node.arguments]
        named = [f"{word}={name}" for word, name in zip(node.words, arguments[positional:], strict=True)]
        given = ", ".join([*arguments[:positional], *named])
        text = f"{indent}{self.typed(node.results)} = {node.operator}{shown}({given})"
        place = node.place
        if place is not None:
            number = self.book.number(self.book.sources, place.source)
            text += f" # @{number}:{place.line}:{place.column}:{place.end_line}:{place.end_column}"
        self.lines.append(text)
        for number, block in enumerate(node.blocks_):
            self.lines.append(f"{indent}  block{number}({self.typed(block.parameters)}):")
            self.nodes(block, depth + 2)
            self.lines.append(f"{indent}    -> ({self.plain(block.returned)})")

    def attributes(self, node: Node) -> dict[str, Any]:
        found = {}
        for key, value in node.attributes.items():
            found[key] = encode(value, self.book)
        if node.operator in ("prim::CallFunction", "prim::CallMethod"):
            found["_callee"] = self.book.number(self.book.functions, node.target)
        elif node.operator == "prim::PythonOp" and "_library" not in node.attributes:
            raise RuntimeError(
                f"Could not export Python function call '{node.attributes['name']}'. Remove calls to Python "
                "functions before export. Did you forget to add @script or @script_method "
                "annotation? If this "
                "is a nn.ModuleList, add it to __constants__"
            )
        elif node.operator == "prim::CreateObject":
            kind: Any = node.results[0].kind
            if kind.sort == "context":
                found["name"] = node.target.__name__
            else:
                found["_class"] = self.book.number(self.book.classes, node.target)
        elif node.operator == "prim::isinstance":
            found["types"] = [
                t if isinstance(t, str) else {"type": type_text(t, self.book)} for t in node.target
            ]
        return found


# -- reading -----------------------------------------------------------------------------------------------
HEAD = re.compile(r"(?P<results>[^=]*) = (?P<operator>[a-z]+::[A-Za-z0-9_]+)(?P<rest>.*)\Z")
PLACE = re.compile(r" # @(\d+):(\d+):(\d+):(\d+):(\d+)\Z")


class Reader:
    """Reads graphs. `finish` gets each node with its attributes, and checks and completes it."""

    def __init__(
        self, text: str, types: TypeReader, finish: Callable[[Node], None], place: Callable[..., Any]
    ) -> None:
        self.lines = text.splitlines()
        self.types, self.finish, self.place = types, finish, place
        self.at = 0
        self.values: dict[str, Value] = {}

    def graph(self, name: str) -> Graph:
        graph = Graph(name)
        head = self.next()
        require(head.startswith("graph(") and head.endswith("):"), "a graph in the file has no head")
        self.parameters(graph.block, head[6:-2])
        end = self.block(graph.block, 1)
        require(end.startswith("return (") and end.endswith(")"), "a graph in the file has no end")
        graph.block.returned = self.read_values(end[8:-1])
        graph.lint()
        return graph

    def next(self) -> str:
        require(self.at < len(self.lines), "a graph in the file ends too early")
        self.at += 1
        return self.lines[self.at - 1]

    def parameters(self, block: Block, text: str) -> None:
        for name, kind in self.typed(text):
            value = block.add_parameter(kind, name)
            self.know(name, value)

    def know(self, name: str, value: Value) -> None:
        require(name not in self.values, f"the file defines two values %{name}")
        value.name = name
        self.values[name] = value

    def typed(self, text: str) -> list[tuple[str, Type]]:
        found = []
        for part in split(text):
            match = re.fullmatch(r"\s*%([A-Za-z0-9_.]+) : (.*)", part)
            if match is None:
                raise FileFormatError(f"a value in the file is damaged: {part[:80]!r}")
            found.append((match.group(1), self.types.read(match.group(2))))
        return found

    def read_values(self, text: str) -> list[Value]:
        found = []
        for part in split(text):
            name = part.strip().removeprefix("%")
            require(name in self.values, f"the file reads an undefined value: %{name[:80]}")
            found.append(self.values[name])
        return found

    def block(self, block: Block, depth: int) -> str:
        """Reads nodes; gives the line that ends them."""
        require(depth < 2 * DEPTH, "a graph in the file is nested too deeply")
        indent = "  " * depth
        while True:
            line = self.next()
            require(line.startswith(indent), "a graph in the file is indented wrongly")
            text = line[len(indent) :]
            if text.startswith(("return (", "-> (")):
                return text
            self.node(block, text, depth)

    def node(self, block: Block, text: str, depth: int) -> None:
        place = PLACE.search(text)
        if place is not None:
            text = text[: place.start()]
        match = HEAD.match(text)
        if match is None:
            raise FileFormatError(f"a node in the file is damaged: {text[:80]!r}")
        attributes, rest = self.attributes(match["rest"])
        require(rest.startswith("(") and rest.endswith(")"), f"a node in the file is damaged: {text[:80]!r}")
        arguments, words = self.arguments(rest[1:-1])
        node = Node(match["operator"], block.graph, arguments, words, attributes)
        if place is not None:
            node.place = self.place(*map(int, place.groups()))
        block.append(node)
        results = self.typed(match["results"])
        if node.operator == "prim::With":  # what is entered may be read inside
            self.results(node, results)
        while self.at < len(self.lines) and self.lines[self.at].startswith("  " * (depth + 1) + "block"):
            head = self.next().strip()
            inner = node.add_block()
            require(head.endswith("):"), "a block in the file has no head")
            self.parameters(inner, head[head.index("(") + 1 : -2])
            end = self.block(inner, depth + 2)
            inner.returned = self.read_values(end[4:-1])
        if node.operator != "prim::With":
            self.results(node, results)
        self.finish(node)

    def results(self, node: Node, results: list[tuple[str, Type]]) -> None:
        for name, kind in results:
            self.know(name, node.add_result(kind, name))

    def attributes(self, text: str) -> tuple[dict[str, Any], str]:
        if not text.startswith("{"):
            return {}, text
        try:
            found, end = json.JSONDecoder().raw_decode(text)
        except (ValueError, RecursionError) as error:
            let_through(error)
            raise FileFormatError("the attributes of a node in the file are damaged") from error
        return found, text[end:]

    def arguments(self, text: str) -> tuple[list[Value], tuple[str, ...]]:
        values, words = [], []
        for part in split(text):
            word, mark, name = part.strip().rpartition("=")
            if mark:
                if not IDENTIFIER.match(word):
                    raise UnsafeFileError(f"the file names an argument {word[:80]!r}")
                words.append(word)
            require(mark or not words, "a positional argument in the file follows a keyword argument")
            values += self.read_values(name)
        return values, tuple(words)
