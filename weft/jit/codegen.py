"""From graphs to Python: the text of a function that runs a graph.

Takes a graph; gives a Python function of its inputs. One idea: every node is one statement on local names, so
the live tape records what eager code would, branches and loops are Python's own, and nothing is looked up
while it runs.
"""

from __future__ import annotations

import itertools
import keyword
import linecache
import math
import warnings
from collections.abc import Callable
from types import FunctionType
from typing import Any

import weft.jit.support as support
from weft.jit.ir import NOT_CONSTANT, Block, Graph, Node, Value
from weft.jit.lookup import find_operator, root
from weft.jit.types import (
    ANY,
    INT,
    INTS,
    NONE,
    STR,
    TENSOR,
    DictType,
    ListType,
    OptionalType,
    TupleType,
    Type,
)  # fmt: skip
from weft.ops.record import REGISTRY
from weft.tensor.base import Tensor

_numbers = itertools.count()
OPERATORS = {
    "aten::add": "{} + {}", "aten::sub": "{} - {}", "aten::mul": "{} * {}", "aten::div": "{} / {}",
    "aten::floordiv": "{} // {}", "aten::remainder": "{} % {}", "aten::pow": "{} ** {}",
    "aten::matmul": "{} @ {}", "aten::__and__": "{} & {}", "aten::__or__": "{} | {}",
    "aten::__xor__": "{} ^ {}", "aten::__lshift__": "{} << {}", "aten::__rshift__": "{} >> {}",
    "aten::eq": "{} == {}", "aten::ne": "{} != {}", "aten::lt": "{} < {}", "aten::gt": "{} > {}",
    "aten::le": "{} <= {}", "aten::ge": "{} >= {}", "aten::neg": "-{}", "aten::bitwise_not": "~{}",
    "aten::__not__": "not {}", "aten::__is__": "{} is {}", "aten::__isnot__": "{} is not {}",
    "aten::__contains__": "{1} in {0}",
}  # fmt: skip
PLAIN = {
    "aten::Bool": "bool({})", "aten::Int": "to_int({})", "aten::Float": "to_float({})",
    "aten::Complex": "complex({})", "aten::str": "str({})", "aten::len": "len({})",
    "aten::IntImplicit": "implicit({}, int)", "aten::FloatImplicit": "implicit({}, float)",
    "aten::ScalarImplicit": "implicit({}, object)", "aten::__getitem__": "{}[{}]",
    "prim::TupleIndex": "{}[{}]", "prim::unchecked_cast": "{}", "prim::Uninitialized": "None",
    "prim::EnumName": "{}.name", "prim::EnumValue": "{}.value", "aten::index": "index({}, {})",
    "aten::__range_length": "len(range({}, {}, {}))", "aten::__derive_index": "{1} + {0} * {2}",
    "aten::ord": "ord({})", "aten::chr": "chr({})", "aten::hex": "hex({})", "aten::oct": "oct({})",
    "aten::bin": "bin({})", "aten::hash": "hash({})", "aten::divmod": "divmod({}, {})",
    "aten::sorted": "sorted({})", "aten::reversed": "list(reversed({}))", "aten::list": "list({})",
    "aten::dict": "dict({})", "aten::range_list": "list(range({args}))",
    "aten::zip_list": "list(zip({args}))",
    "aten::enumerate_list": "list(enumerate({}, {}))", "prim::fork": "Future({})", "aten::wait": "{}.wait()",
    "prim::tolist": "{}.tolist()", "prim::device": "{}.device", "prim::dtype": "{}.dtype",
    "prim::type": "{}.type", "aten::dim": "{}.dim()", "prim::Print": "print({args})",
    "aten::_set_item": "{}[{}] = {}", "aten::Delete": "del {}[{}]", "aten::warn": "warn({args})",
    "aten::device": "device({args})", "aten::format": "{0}.format({rest})",
    "prim::ListConstruct": "[{args}]",
}  # fmt: skip
LIST_METHODS = frozenset(
    ["append", "extend", "insert", "pop", "remove", "index", "count", "reverse", "sort", "clear", "copy"]
)
VIEWED = {"keys": "list({}.keys())", "values": "list({}.values())", "items": "list({}.items())"}


class Generated:
    """A graph's function and its text."""

    def __init__(self, function: FunctionType, text: str) -> None:
        self.function, self.text = function, text


class Generator:
    """Writes one function. `callee` gives the function behind a scripted callee."""

    def __init__(self, graph: Graph, callee: Callable[[Any], Any], direct: bool = False) -> None:
        self.graph, self.callee, self.direct = graph, callee, direct
        self.lines: list[str] = []
        self.names: dict[Value, str] = {}
        self.taken: set[str] = set()
        self.bound: dict[str, Any] = {
            "index": support.index, "index_put": support.index_put, "unpack_list": support.unpack_list,
            "is_instance": support.is_instance, "failure": support.failure, "extend": support.extend,
            "implicit": support.implicit, "to_int": support.to_int, "to_float": support.to_float,
            "Future": support.Future, "warn": warnings.warn, "prod": math.prod, "nan": math.nan,
            "inf": math.inf,
        }  # fmt: skip
        self.by_identity: dict[int, str] = {}
        self.depth = 1
        self.loops: list[list[str]] = []

    # -- names ---------------------------------------------------------------------------------------------
    def name(self, value: Value) -> str:
        """The local name of a value; constants are written where they are used."""
        found = self.names.get(value)
        if found is None:
            constant = value.constant
            if constant is not NOT_CONSTANT:
                return self.constant(constant)
            base = "".join(c if c.isalnum() or c == "_" else "_" for c in value.name)
            base = f"v{base}" if not base[:1].isalpha() and base[:1] != "_" else f"{base}"
            found = base
            while found in self.taken or keyword.iskeyword(found) or found in self.bound:
                found = f"{base}_{next(_numbers)}"
            self.taken.add(found)
            self.names[value] = found
        return found

    def constant(self, value: Any) -> str:
        if value is None or isinstance(value, (bool, str)) or type(value) is int:
            text = repr(value)
            return text if not text.startswith("-") else f"({text})"
        if type(value) is float:
            if math.isfinite(value):
                return repr(value) if value >= 0 and not text_negative(value) else f"({value!r})"
            return "nan" if math.isnan(value) else "inf" if value > 0 else "(-inf)"
        return self.bind(value, "c")

    def bind(self, thing: Any, base: str) -> str:
        """A global name for an object."""
        known = self.by_identity.get(id(thing))
        if known is not None:
            return known
        base = "".join(c if c.isalnum() or c == "_" else "_" for c in base) or "f"
        name = f"_{base}"
        while name in self.bound or name in self.taken:
            name = f"_{base}_{next(_numbers)}"
        self.bound[name] = thing
        self.by_identity[id(thing)] = name
        return name

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    # -- blocks --------------------------------------------------------------------------------------------
    def generate(self) -> Generated:
        parameters = [self.name(value) for value in self.graph.block.parameters]
        self.block(self.graph.block)
        returned = [self.name(value) for value in self.graph.block.returned]
        if returned:
            self.line(f"return {returned[0] if len(returned) == 1 else ', '.join(returned)}")
        elif not self.lines:
            self.line("pass")
        text = f"def scripted({', '.join(parameters)}):\n" + "\n".join(self.lines) + "\n"
        file = f"<scripted {self.graph.name} {next(_numbers)}>"
        space = {**self.bound, "__name__": "weft.generated.script", "device": getattr(root(), "device", None)}
        exec(compile(text, file, "exec"), space)
        linecache.cache[file] = (len(text), None, text.splitlines(True), file)
        function: FunctionType = space.pop("scripted")
        function.__name__ = self.graph.name.split(".")[-1] if self.graph.name.isidentifier() else "scripted"
        return Generated(function, text)

    def block(self, block: Block) -> None:
        # What a `with` statement makes may be read behind it.
        inside = block.owner is not None and block.owner.operator == "prim::With"
        freed = {} if inside else last_uses(block)
        for node in block.nodes_:
            self.node(node)
            gone = [self.names[value] for value in freed.get(node, ()) if value in self.names]
            if gone and node.operator not in ("prim::RaiseException",):
                self.line(f"{' = '.join(gone)} = None")

    def body(self, block: Block, after: Callable[[], None]) -> None:
        self.depth += 1
        start = len(self.lines)
        self.block(block)
        if not block.exits:
            after()
        if len(self.lines) == start:
            self.line("pass")
        self.depth -= 1

    def store(self, names: list[str], values: list[str]) -> None:
        pairs = [(name, value) for name, value in zip(names, values, strict=True) if name != value]
        if pairs:
            self.line(f"{', '.join(n for n, _ in pairs)} = {', '.join(v for _, v in pairs)}")

    # -- nodes ---------------------------------------------------------------------------------------------
    def node(self, node: Node) -> None:
        writer = _WRITERS.get(node.operator)
        if writer is not None:
            writer(self, node)
            return
        expression = self.expression(node)
        self.assign(node, expression)

    def assign(self, node: Node, expression: str) -> None:
        if not node.results:
            self.line(expression)
        elif len(node.results) == 1:
            self.line(f"{self.name(node.results[0])} = {expression}")
        else:
            self.line(f"{', '.join(self.name(value) for value in node.results)} = {expression}")

    def arguments(self, node: Node, first: int = 0) -> str:
        positional = len(node.arguments) - len(node.words)
        parts = [self.name(value) for value in node.arguments[first:positional]]
        named = zip(node.words, node.arguments[positional:], strict=True)
        return ", ".join([*parts, *[f"{word}={self.name(value)}" for word, value in named]])

    def expression(self, node: Node) -> str:
        operator, args = node.operator, node.arguments
        kind = args[0].kind if args else NONE
        names = [self.name(value) for value in args]
        if (
            operator in OPERATORS
            and not node.words
            and len(args) <= 2
            and node.attributes.get("_from") in (None, "")
        ):
            text = OPERATORS[operator].format(*names)
            if (
                operator == "aten::pow"
                and TENSOR not in (args[0].kind, args[1].kind)
                and args[0].kind == args[1].kind == INT
            ):
                return f"float({text})"
            return text
        if operator == "aten::index" and self.direct and isinstance(args[1].kind, ListType):
            return f"{names[0]}[tuple([slice(None) if i is None else i for i in {names[1]}])]"
        special = self.by_type(node, operator.partition("::")[2], kind, names)
        if special is not None:
            return special
        if operator in PLAIN and (
            operator not in ("aten::index",) or len(args) == 2 and isinstance(args[1].kind, ListType)
        ):
            return PLAIN[operator].format(*names, args=self.arguments(node), rest=self.arguments(node, 1))
        return self.call(node, names)

    def by_type(self, node: Node, name: str, kind: Type, names: list[str]) -> str | None:
        """Operations whose text depends on the type of their first argument."""
        origin = node.attributes.get("_from")
        if origin == "math":
            return f"{self.bind(getattr(math, name), name)}({', '.join(names)})"
        if name in ("min", "max") and node.operator.startswith("prim"):
            if TENSOR in [value.kind for value in node.arguments]:
                return f"{self.bind(find_operator(name, ''), name)}({', '.join(names)})"
            return f"{name}({', '.join(names)})"
        if node.operator == "prim::abs":
            return f"abs({names[0]})"
        if name == "round" and origin == "python" and kind != TENSOR:
            return f"float(round({', '.join(names)}))"
        if isinstance(kind, OptionalType):
            kind = kind.element
        if name == "size" and kind == TENSOR and len(names) == 1:
            return f"list({names[0]}.shape)"
        if name == "numel" and kind == INTS:
            return f"prod({names[0]})"
        if isinstance(kind, ListType):
            return self.of_list(node, name, names)
        if isinstance(kind, DictType):
            if name in VIEWED:
                return VIEWED[name].format(names[0])
            if name in ("get", "pop", "update", "setdefault", "clear", "copy", "popitem"):
                return f"{names[0]}.{name}({self.arguments(node, 1)})"
        if kind in (STR, ANY):
            if name == "slice":
                return f"{names[0]}[{names[1]}:{names[2]}:{names[3]}]"
            if (
                node.operator.startswith("aten::")
                and hasattr(str, name)
                and not name.startswith("_")
                and name != "format"
            ):
                return f"{names[0]}.{name}({self.arguments(node, 1)})"
        if node.operator.startswith("prim::") and name in _READ:
            return f"{names[0]}.{name}"
        return None

    def of_list(self, node: Node, name: str, names: list[str]) -> str | None:
        if name == "slice":
            return f"{names[0]}[{names[1]}:{names[2]}:{names[3]}]"
        if name == "add_":
            return f"extend({names[0]}, {names[1]})"
        if name in ("sum", "any", "all") and len(names) == 1:
            return f"{name}({names[0]})"
        element = node.arguments[0].kind
        if name in LIST_METHODS and not (name == "index" and element == ListType(TENSOR) and len(names) > 2):
            return f"{names[0]}.{name}({self.arguments(node, 1)})"
        return None

    def call(self, node: Node, names: list[str]) -> str:
        """A call of one of Weft's functions or of a tensor's method."""
        name, origin = node.operator.partition("::")[2], node.attributes.get("_from", "")
        if name == "slice" or name == "select" and origin != "Tensor":
            function: Any = REGISTRY[name].face
        elif name == "index_put_" and len(names) == 3 and not node.words:
            return f"index_put({', '.join(names)})"
        elif name in ("copy_", "fill_"):
            function = getattr(Tensor, name)
        else:
            function = find_operator(name, origin)
        if function is None:
            raise RuntimeError(
                f"Unknown builtin op: {node.operator}.\nCould not find any similar ops to {node.operator}."
            )
        if origin == "Tensor" and not hasattr(function, "op"):
            text = f"{names[0]}.{name}({self.arguments(node, 1)})"
        else:
            text = f"{self.bind(function, name)}({self.arguments(node)})"
        kind = node.results[0].kind if node.results else NONE
        return f"list({text})" if isinstance(kind, ListType) else text

    # -- nodes that are statements -------------------------------------------------------------------------
    def write_constant(self, node: Node) -> None:
        pass

    def write_if(self, node: Node) -> None:
        results = [self.name(value) for value in node.results]
        self.line(f"if {self.name(node.arguments[0])}:")
        first, second = node.blocks_
        self.body(first, lambda: self.store(results, [self.name(v) for v in first.returned]))
        if second.nodes_ or second.returned:
            self.line("else:")
            self.body(second, lambda: self.store(results, [self.name(v) for v in second.returned]))

    def write_loop(self, node: Node) -> None:
        """A loop; results and the block's inputs share their names."""
        (block,) = node.blocks_
        limit, going = node.arguments[:2]
        index, *carried = block.parameters
        results = [self.name(value) for value in node.results]
        for value, name in zip(carried, results, strict=True):
            self.names[value] = name
        self.store(results, [self.name(value) for value in node.arguments[2:]])
        endless = limit.constant == 9223372036854775807
        self.loops.append(results)
        if endless:
            test = f"{self.name(index)}_going"
            self.taken.add(test)
            self.line(f"{test} = {self.name(going)}")
            self.line(f"while {test}:")
            self.loops[-1] = [test, *results]
            self.body(block, lambda: self.store([test, *results], [self.name(v) for v in block.returned]))
        else:
            self.line(f"for {self.name(index)} in range({self.name(limit)}):")
            self.body(block, lambda: self.store(results, [self.name(v) for v in block.returned[1:]]))
        self.loops.pop()

    def write_break(self, node: Node) -> None:
        names = self.loops[-1][-len(node.arguments) :] if node.arguments else []
        self.store(names, [self.name(value) for value in node.arguments])
        self.line("break")

    def write_continue(self, node: Node) -> None:
        names = self.loops[-1]
        values = node.arguments if len(names) == len(node.arguments) else node.arguments[1:]
        self.store(names, [self.name(value) for value in values])
        self.line("continue")

    def write_return(self, node: Node) -> None:
        self.line(f"return {self.name(node.arguments[0])}")

    def write_raise(self, node: Node) -> None:
        message = self.name(node.arguments[0])
        kind = self.name(node.arguments[1]) if len(node.arguments) > 1 else "None"
        shown = node.place.highlight() if node.place is not None else ""
        text = f"failure({message}, {kind}, {shown!r}, '')"
        self.line(f"raise {text}" if "_guarded" not in node.attributes else f"if True: raise {text}")

    def write_with(self, node: Node) -> None:
        self.line(f"with {self.name(node.arguments[0])} as {self.name(node.results[0])}:")
        self.body(node.blocks_[0], lambda: None)

    def write_tuple(self, node: Node) -> None:
        items = [self.name(value) for value in node.arguments]
        kind = node.results[0].kind
        cls = kind.cls if isinstance(kind, TupleType) else None
        text = f"({', '.join(items)}{',' if len(items) == 1 else ''})"
        self.assign(node, text if cls is None else f"{self.bind(cls, cls.__name__)}{text}")

    def write_unpack(self, node: Node) -> None:
        names = [self.name(value) for value in node.results]
        source = self.name(node.arguments[0])
        if node.operator == "prim::ListUnpack" and not self.direct:
            source = f"unpack_list({source}, {len(names)})"
        self.line(f"{', '.join(names)}{',' if len(names) == 1 else ''} = {source}" if names else f"{source}")

    def write_dict(self, node: Node) -> None:
        names = [self.name(value) for value in node.arguments]
        pairs = [f"{key}: {value}" for key, value in zip(names[::2], names[1::2], strict=True)]
        self.assign(node, f"{{{', '.join(pairs)}}}")

    def write_append(self, node: Node) -> None:
        names = [self.name(value) for value in node.arguments]
        self.line(f"{names[0]}.append({names[1]})")
        for value in node.results:
            self.names[value] = names[0]

    def write_call(self, node: Node) -> None:
        function = self.callee(node.target)
        self.assign(node, f"{self.bind(function, node.attributes.get('name', 'f'))}({self.arguments(node)})")

    def write_python(self, node: Node) -> None:
        self.assign(node, f"{self.bind(node.target, node.attributes['name'])}({self.arguments(node)})")

    def write_get(self, node: Node) -> None:
        owner, name = self.name(node.arguments[0]), node.attributes["name"]
        table = node.attributes.get("_table")
        self.assign(node, f"{owner}.{table}[{name!r}]" if table else f"{owner}.{name}")

    def write_set(self, node: Node) -> None:
        owner, value = (self.name(item) for item in node.arguments)
        self.line(f"{owner}.{node.attributes['name']} = {value}")

    def write_object(self, node: Node) -> None:
        cls = self.bind(node.target, node.target.__name__)
        kind: Any = node.results[0].kind
        text = f"{cls}({self.arguments(node)})" if kind.sort == "context" else f"{cls}.__new__({cls})"
        self.assign(node, text)

    def write_instance(self, node: Node) -> None:
        self.assign(node, f"is_instance({self.name(node.arguments[0])}, {self.bind(node.target, 'types')})")

    def write_region(self, node: Node) -> None:
        names = ", ".join(self.name(value) for value in node.results)
        call = f"{self.bind(node.target, 'region')}({self.arguments(node)})"
        self.line(f"{names}{',' if len(node.results) == 1 else ''} = {call}")


_READ = frozenset(
    [
        "requires_grad",
        "is_leaf",
        "is_cuda",
        "is_sparse",
        "is_quantized",
        "is_meta",
        "is_mkldnn",
        "is_mps",
        "is_cpu",
        "is_xpu",
        "is_nested",
        "is_vulkan",
        "is_ipu",
        "itemsize",
        "nbytes",
        "retains_grad",
        "grad",
        "data",
        "T",
        "mT",
        "H",
        "mH",
        "real",
        "imag",
        "layout",
        "name",
        "type",
        "index",
        "is_floating_point",
        "is_complex",
    ]
)
_WRITERS: dict[str, Callable[[Generator, Node], None]] = {
    "prim::Constant": Generator.write_constant, "prim::If": Generator.write_if,
    "prim::Loop": Generator.write_loop,
    "prim::BreakStmt": Generator.write_break, "prim::ContinueStmt": Generator.write_continue,
    "prim::ReturnStmt": Generator.write_return, "prim::RaiseException": Generator.write_raise,
    "prim::With": Generator.write_with, "prim::TupleConstruct": Generator.write_tuple,
    "prim::TupleUnpack": Generator.write_unpack, "prim::ListUnpack": Generator.write_unpack,
    "prim::DictConstruct": Generator.write_dict, "aten::append": Generator.write_append,
    "prim::CallFunction": Generator.write_call, "prim::CallMethod": Generator.write_call,
    "prim::PythonOp": Generator.write_python, "prim::GetAttr": Generator.write_get,
    "prim::SetAttr": Generator.write_set, "prim::CreateObject": Generator.write_object,
    "prim::isinstance": Generator.write_instance, "prim::DifferentiableGraph": Generator.write_region,
    "prim::CompiledGraph": Generator.write_region,
}  # fmt: skip


def text_negative(value: float) -> bool:
    return math.copysign(1.0, value) < 0


def reads(node: Node) -> list[Value]:
    """Everything that a node and the blocks in it read."""
    found = list(node.arguments)
    for block in node.blocks_:
        for inner in block.nodes_:
            found += reads(inner)
        found += block.returned
    return found


UNFREED = ("prim::Constant", "prim::Loop", "prim::If", "prim::With")


def last_uses(block: Block) -> dict[Node, list[Value]]:
    """For each node, the tensors made in this block that are dead after it."""
    made = {
        value: node for node in block.nodes_ for value in node.results
        if value.kind == TENSOR and node.operator not in UNFREED
    }  # fmt: skip
    kept = set(block.returned)
    last: dict[Value, Node] = {}
    for node in block.nodes_:
        for value in reads(node):
            if value in made and value not in kept:
                last[value] = node
    freed: dict[Node, list[Value]] = {}
    for value, node in last.items():
        if node.operator not in ("prim::ReturnStmt", "prim::BreakStmt", "prim::ContinueStmt"):
            freed.setdefault(node, []).append(value)
    return freed


def generate(graph: Graph, callee: Callable[[Any], Any], direct: bool = False) -> Generated:
    """The function that runs a graph; `direct`: in plain Python where that can be, for who compiles it."""
    return Generator(graph, callee, direct).generate()
