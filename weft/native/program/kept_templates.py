"""Templates that earlier processes have made: their tables, with expressions in place of numbers.

Takes a template, and gives bytes; takes the graph of a later process with open sizes, and gives the template
that was made for an equal one, at whatever sizes. One idea: a symbol is known by its number among the places
where sizes are read, so that the expressions of one process mean the same in another.

# Note [Templates on disk]
The key has all that the key of a program has (Note [Keys of programs] in `weft.native.program.stored`), with
sizes as expressions, and what capture knows of them, on which planning relies. It has no size: whether one
fits is what the conditions say, at the front of the content. Where a graph has several templates, they stand
under keys of one number after the other.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from weakref import ref

import numpy as np

from weft.core.expressions import OPERATIONS, Expression, Symbol, from_data, in_order, to_data
from weft.core.interrupts import let_through
from weft.core.logs import log
from weft.core.symbolic import Symbolic
from weft.graph.node import SYMBOL
from weft.native.cpu import tiers
from weft.native.cpu.engine import Functions
from weft.native.cpu.runner import Runner
from weft.native.ir.sizes import OPEN, ORDERS, Amount, Size, Sizes
from weft.native.lower.opening import Places, algebra_of, layout_of, values_of
from weft.native.program.cache import key_of, store
from weft.native.program.program import Program
from weft.native.program.stored import (
    MOST_CONSTANTS,
    PLAIN,
    GraphText,
    Unkept,
    input_text,
    surroundings,
    type_text,
)
from weft.native.program.template import Template

KIND: Final = "template"
MOST_KEPT: Final = 8
"""How many templates of a graph are kept, at most."""
FACTS: Final = ("size", "inputs", "multiplies", "splits", "givens", "written", "numbers")
"""What of a template is numbers that sizes do not change."""
TABLES: Final = ("functions", "records", "rows", "made", "strides", "arena", "arena_bytes", "outputs",
                 "draws", "constants")  # fmt: skip
"""What may depend on them, or is an array."""


# -- keys ----------------------------------------------------------------------------------------------------
class OpenText(GraphText):
    """A graph with open sizes as text: symbols are called by their numbers."""

    def __init__(self, graph_module: Any, places: Places) -> None:
        self.symbols = {symbol: f"s{number}" for number, symbol in enumerate(places)}
        super().__init__(graph_module)

    def name(self, symbol: Symbol) -> str:
        return self.symbols.get(symbol) or f"?{symbol.name}"

    def open(self, expression: Expression) -> str:
        return f"<{expression.render(self.name)}>"

    def known(self, value: Any) -> str:
        array = getattr(value, "array", None)
        if array is not None:
            strides = getattr(array, "strides", None)
            facts = (tuple(array.shape), None if strides is None else tuple(strides))
            return f"{self.text(facts)} {array.dtype} {getattr(array, 'exact', None)}"
        return self.text(value) if isinstance(value, Symbolic) else super().known(value)

    def text(self, value: Any) -> str:
        if isinstance(value, Symbolic):
            return self.open(value.expression)
        return super().text(value)

    def facts(self) -> Iterator[str]:
        """What is known of sizes."""
        algebra = algebra_of(self.module.graph)
        assert algebra is not None
        own = algebra.copied(self.symbols)
        for symbol, name in self.symbols.items():
            if symbol.kind is not int:
                raise Unkept("a size that is made of a float")
            equal = own.known.get(symbol)
            yield f"{name} {own.ranges.get(symbol)} {'' if equal is None else self.open(equal)}"

    def inputs(self, places: Places, arrays: Sequence[Any]) -> Iterator[str]:
        """How inputs lie, and where sizes are read."""
        for node, value in zip(self.module.graph.placeholders, arrays, strict=True):
            kind, symbol = node.meta.get("val"), node.meta.get(SYMBOL)
            if symbol is not None:
                yield f"as {self.name(symbol)}"
            if isinstance(kind, Symbolic):
                yield self.text(kind)
            elif isinstance(value, np.ndarray):
                yield f"{self.known(kind)} {layout_of(value)} {value.dtype}"
            else:
                yield input_text(value)
        yield str([*places.values()])


def key_of_template(graph_module: Any, places: Places, arrays: Sequence[Any]) -> str | None:
    """The key of the templates of a graph; None where they are not to be kept."""
    if store().folder is None:
        return None
    try:
        text = OpenText(graph_module, places)
        lines = [*text.lines, *text.facts(), *text.inputs(places, arrays)]
        return key_of("\n".join(lines), *surroundings())
    except (Unkept, OSError) as error:
        let_through(error)
        reason = str(error)
        log("cache", lambda: f"a template is not cached: {reason}")
        return None


# -- contents ------------------------------------------------------------------------------------------------
class Writer:
    """Tables as data, with expressions by number: each is written once, behind what it is made of."""

    def __init__(self, symbols: Mapping[Symbol, int]) -> None:
        self.symbols = symbols
        self.numbers: dict[Expression, int] = {}
        self.nodes: list[list[Any]] = []
        self.blobs: list[bytes] = []

    def expression(self, given: Expression) -> int:
        for each in in_order([given]):
            if each not in self.numbers:
                self.numbers[each] = len(self.nodes)
                self.nodes.append(self.node(each))
        return self.numbers[given]

    def node(self, each: Expression) -> list[Any]:
        if each.op == "symbol":
            (symbol,) = each.args
            own = symbol.name if symbol.name.startswith("@") else self.symbols[symbol]
            return ["symbol", own, each.kind.__name__]
        if each.op == "constant":
            return to_data(each)
        if each.op not in OPERATIONS:
            raise Unkept(f"an expression with {each.op}")
        return [each.op, [self.numbers[arg] for arg in each.args], each.kind.__name__]

    def value(self, given: Any) -> Any:
        kind = type(given)
        if kind in OPEN:
            return {"open": self.expression(given.expression)}
        if kind is list:
            return [self.value(each) for each in given]
        if kind is tuple:
            return {"tuple": [self.value(each) for each in given]}
        if kind is dict:
            return {"dict": [[name, self.value(each)] for name, each in given.items()]}
        if isinstance(given, np.dtype):
            return {"type": type_text(given)}
        if isinstance(given, type) and issubclass(given, np.generic):
            return {"scalar": type_text(np.dtype(given))}
        if isinstance(given, np.ndarray) and not given.dtype.hasobject:
            self.blobs.append(np.ascontiguousarray(given).tobytes())
            return {"array": [[*given.shape], type_text(given.dtype), len(self.blobs[-1])]}
        if kind not in PLAIN or kind in (complex, type(...)):
            raise Unkept(f"a value of type {kind.__qualname__}")
        return given


def content_of_template(template: Template, symbols: Mapping[Symbol, int]) -> bytes | None:
    """A template as bytes; None where Python does some of its steps, or it is for one size alone."""
    program = template.program
    if template.first.python or template.is_narrow:
        return None
    writer = Writer(symbols)
    try:
        conditions = [[writer.expression(each), truth] for each, truth in template.conditions.items()]
        until = len(writer.nodes)
        tables = {name: writer.value(getattr(program, name)) for name in TABLES}
        tables["choices"] = writer.value({symbol.name: name for symbol, name in program.choices.items()})
    except (Unkept, KeyError, TypeError) as error:
        let_through(error)
        reason = str(error)
        log("cache", lambda: f"a template is not cached: {reason}")
        return None
    if sum(map(len, writer.blobs)) > MOST_CONSTANTS:
        return None
    head = {
        "nodes": writer.nodes, "until": until, "conditions": conditions, "tables": tables,
        "facts": {name: getattr(program, name) for name in FACTS}, **template.first.functions.kept(),
    }  # fmt: skip
    data = json.dumps(head).encode()
    return struct.pack("<Q", len(data)) + data + b"".join(writer.blobs)


class Reader:
    """What a `Writer` has written, with the numbers of a call."""

    def __init__(self, content: bytes, symbols: Sequence[Symbol], values: Mapping[Symbol, int]) -> None:
        (length,) = struct.unpack_from("<Q", content)
        self.content, self.place = content, 8 + length
        self.data = json.loads(content[8 : 8 + length])
        self.symbols, self.values = symbols, dict(values)
        self.expressions: list[Expression] = []
        self.found: list[Any] = []
        """Their values in this call."""
        self.read(self.data["until"])

    def read(self, end: int) -> None:
        """Reads expressions up to before this one."""
        for node in self.data["nodes"][len(self.expressions) : end]:
            each = self.expression(*node)
            self.expressions.append(each)
            if each.op == "symbol":
                self.found.append(self.values[each.args[0]])
            elif each.op == "constant":
                self.found.append(each.args[0])
            else:
                self.found.append(OPERATIONS[each.op][0](*[self.found[number] for number in node[1]]))

    def expression(self, op: str, given: Any, kind: str) -> Expression:
        if op == "symbol":
            symbol = self.symbols[given] if type(given) is int else Symbol(given, int)
            return Expression(op, (symbol,), symbol.kind)
        if op == "constant":
            return from_data([op, given, kind])
        return Expression(op, tuple([self.expressions[number] for number in given]), KINDS[kind])

    @property
    def conditions(self) -> dict[Expression, bool]:
        return {self.expressions[number]: truth for number, truth in self.data["conditions"]}

    def fits(self) -> bool:
        """Whether its template serves these sizes."""
        return all(bool(self.found[number]) is truth for number, truth in self.data["conditions"])

    def table(self, name: str, sizes: Sizes) -> Any:
        return self.value(self.data["tables"][name], sizes)

    def value(self, given: Any, sizes: Sizes) -> Any:
        if type(given) is list:
            return [self.value(each, sizes) for each in given]
        if type(given) is not dict:
            return given
        ((how, what),) = given.items()
        if how == "open":
            each = self.expressions[what]
            return (Amount if each.kind is float else Size)(sizes, each, self.found[what])
        if how == "tuple":
            return tuple([self.value(each, sizes) for each in what])
        if how == "dict":
            return {name: self.value(each, sizes) for name, each in what}
        if how in ("type", "scalar"):
            return np.dtype(what) if how == "type" else np.dtype(what).type
        shape, kind, length = what
        made = np.frombuffer(self.content, np.uint8, length, self.place).copy().view(kind).reshape(shape)
        self.place += length
        return made


KINDS: Final = {kind.__name__: kind for kind in (int, float, bool)}


def read_template(reader: Reader, sizes: Sizes, inputs: Sequence[Any]) -> Template:
    """The template that an earlier process has made; a KeyError where a function of it is gone."""
    for each, truth in reader.conditions.items():
        sizes.conditions[each] = truth
        if each.op in ORDERS:
            left, right = each.args
            sizes.learn(each.op, left, right, truth)
    data = reader.data
    functions = Functions(drafts=tiers.are_used())
    functions.restore(data["objects"], data["drafts"])
    choices = {Symbol(at, int): name for at, name in reader.table("choices", sizes).items()}
    for symbol, name in choices.items():
        reader.values[symbol] = functions.address(name)
    reader.read(len(data["nodes"]))
    tables = {name: reader.table(name, sizes) for name in TABLES}
    program = Program(choices=choices, sizes=sizes, **data["facts"], **tables)
    first = Runner(program, functions, inputs)
    first.is_restored = True
    return Template(first)


class KeptTemplates:
    """The templates of a graph that are on disk."""

    def __init__(self, graph_module: Any, places: Places, arrays: Sequence[Any]) -> None:
        self.graph, self.places, self.arrays = graph_module.graph, places, arrays
        self.key = key_of_template(graph_module, places, arrays)
        self.free = 0
        """The number under which the next one is to be kept."""

    def found(self) -> Template | None:
        """The one that serves these sizes."""
        if self.key is None:
            return None
        values = values_of(self.places, self.arrays)
        for number in range(MOST_KEPT):
            self.free = number
            content = store().get(KIND, key_of(self.key, str(number)))
            if content is None:
                return None
            try:
                reader = Reader(content, [*self.places], values)
            except (ArithmeticError, ValueError) as error:  # an expression that these sizes have no value for
                let_through(error)
                continue
            if not reader.fits():
                continue
            algebra = algebra_of(self.graph)
            assert algebra is not None
            try:
                found = read_template(reader, Sizes(algebra.copied(values), values), self.arrays)
            except KeyError as error:  # an object that it needs is gone
                let_through(error)
                return None
            self.note_drafts(found)
            return found
        self.key = None  # there is no room for more
        return None

    def keep(self, template: Template) -> None:
        """Keeps one that `found` has not found; again when its drafts are replaced."""
        if self.key is None:
            return
        if put(template, self.symbols, key_of(self.key, str(self.free))):
            self.note_drafts(template)

    @property
    def symbols(self) -> dict[Symbol, int]:
        return {symbol: number for number, symbol in enumerate(self.places)}

    def note_drafts(self, template: Template) -> None:
        """Has a template kept again when it has better code."""
        if self.key is None or not template.first.functions.drafts():
            return
        reference, before = ref(template), template.first.keep_again
        symbols, key = self.symbols, key_of(self.key, str(self.free))

        def again() -> None:
            if before is not None:
                before()
            found = reference()
            if found is not None and found.keep_again is not None and not found.first.functions.drafts():
                found.keep_again = None
                put(found, symbols, key)

        template.keep_again = template.first.keep_again = again


def put(template: Template, symbols: Mapping[Symbol, int], key: str) -> bool:
    """Puts a template on disk, if it can be kept."""
    content = content_of_template(template, symbols)
    if content is not None:
        store().put(KIND, key, content)
    return content is not None
