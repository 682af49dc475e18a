"""Programs on disk: what lowering, fusing and planning have given, for processes to come.

Takes a graph and the inputs of a call; gives the program that an earlier process has made for an equal graph
and inputs laid out alike, or None. One idea: a program whose steps are all machine code is numbers, the names
of functions, and constants; all of what it was made from is in its key, so that an equal key means an equal
program.

# Note [Keys of programs]
Nodes in order, each with its target, its arguments and what is known of its value; constants by their bytes;
shapes, strides and types of inputs; which inputs may be written; this machine; NumPy; and the files of this
package by name, size and time. What is none of these, or has no text that says all of it (functions of users,
objects), makes a graph one that is not kept.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
import types
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final
from weakref import ref

import numpy as np

from weft.core.device import device
from weft.core.dtypes import dtype
from weft.core.generator import Generator
from weft.core.interrupts import let_through
from weft.core.logs import log
from weft.core.settings import settings
from weft.core.types import layout, memory_format
from weft.graph.effects import LIES
from weft.graph.node import Node
from weft.native.cpu import tiers
from weft.native.cpu.blas import function
from weft.native.cpu.engine import Functions, identity
from weft.native.cpu.runner import Runner
from weft.native.lower.opening import Fixed
from weft.native.program.cache import key_of, store
from weft.native.program.program import Program
from weft.ops.record import REGISTRY, Op

ROOT: Final = str(Path(__file__).resolve().parents[2])
PLAIN: Final = (int, float, complex, bool, str, type(None), type(...))
OURS: Final = ("weft.", "_operator", "operator", "math", "builtins")
"""Where functions come from that are the same everywhere."""
NAMESPACES: Final = frozenset({"", "linalg", "method", "nn.functional", "special"})
"""Those of our own ops."""
FUNCTIONS: Final = (types.FunctionType, types.BuiltinFunctionType, type)
MOST_CONSTANTS: Final = 1 << 22
"""How many bytes of constants are kept with a program."""
WRITTEN: Final = "written"
FACTS: Final = ("size", "inputs", "multiplies", "splits", "givens", "arena", "arena_bytes", "written",
                "numbers", "strides", "draws")  # fmt: skip
"""What of a program is numbers."""


class Unkept(Exception):
    """This cannot be serialised."""


# -- keys ----------------------------------------------------------------------------------------------------
@cache
def files_of(package: str) -> tuple[str, ...]:
    """The files of a folder of this library, and of those below: names, sizes, times."""
    found: list[str] = []
    waiting = [os.path.join(ROOT, package)]
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.name.endswith(".py"):
                    facts = entry.stat()
                    found.append(f"{entry.path[len(ROOT) :]} {facts.st_size} {facts.st_mtime_ns}")
                elif "." not in entry.name and entry.name != "__pycache__" and entry.is_dir():
                    waiting.append(entry.path)
    return tuple(sorted(found))


@cache
def surroundings() -> tuple[str, ...]:
    """What programs depend on besides their graphs."""
    files = [line for package in ("core", "graph", "native", "ops") for line in files_of(package)]
    products = str([function(type_)[1] for type_ in ("f32", "f64")])
    return (*identity(), np.__version__, products, *files)


@cache
def library_files() -> tuple[str, ...]:
    """`surroundings`, and all files of this library."""
    return (*surroundings(), ROOT, *files_of(""))


class GraphText:
    """A graph as text; see Note [Keys of programs]."""

    def __init__(self, graph_module: Any) -> None:
        self.module = graph_module
        self.arrays: dict[Any, str] = {}
        self.targets: dict[Op, str] = {}
        """Texts that were made before: many nodes call the same op, and have the same type."""
        self.numbers: dict[Node, int] = {}
        self.lines = [repr(graph_module.graph.meta.get(WRITTEN, ()))]
        for node in graph_module.graph.nodes:
            self.lines.append(self.line(node))
            self.numbers[node] = len(self.numbers)

    def line(self, node: Node) -> str:
        if node.op == "placeholder":
            return "placeholder"
        if "writes" in node.meta or "effect" in node.meta:
            raise Unkept(f"{node.name} has side effects")
        known = self.known(node.meta.get("val"))
        if node.op == "get_attr":
            return f"constant {self.constant(node.target)}"
        given = f"{self.text(node.args)} {self.text(node.kwargs)}"
        lies = node.meta.get(LIES)
        told = "" if lies is None else f" lies {self.text(lies)}"
        return f"{node.op} {self.target(node.target)} {given} {known}{told}"

    def target(self, target: Any) -> str:
        op = target if isinstance(target, Op) else getattr(target, "op", None)
        if not isinstance(op, Op):
            return target_text(target)
        found = self.targets.get(op)
        if found is None:
            found = self.targets[op] = target_text(op)
        return found

    def constant(self, path: str) -> str:
        value: Any = self.module
        for part in path.split("."):
            value = getattr(value, part)
        value = getattr(value, "array", value)
        if not isinstance(value, np.ndarray):
            return self.text(value)
        if value.nbytes > MOST_CONSTANTS or value.dtype.hasobject:
            raise Unkept("a large constant")
        content = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
        return f"{value.shape} {value.strides} {value.dtype.str} {content}"

    def known(self, value: Any) -> str:
        """What is known of a node's value."""
        if isinstance(value, (tuple, list)):
            return f"[{' '.join(self.known(item) for item in value)}]"
        array = getattr(value, "array", None)
        if array is not None:
            key = array.shape, getattr(array, "strides", None), array.dtype, getattr(array, "exact", None)
            found = self.arrays.get(key)
            if found is None:
                found = self.arrays[key] = " ".join(map(str, key))
            return found
        if hasattr(value, "hint"):
            return f"about {self.text(value.hint)}"
        return self.text(value)

    def text(self, value: Any) -> str:
        """An argument."""
        if isinstance(value, Node):
            return f"%{self.numbers[value]}"
        if type(value) in PLAIN:
            return repr(value)
        if isinstance(value, (tuple, list)):
            opening = "(" if isinstance(value, tuple) else "["
            return f"{opening}{', '.join([self.text(item) for item in value])}]"
        if isinstance(value, dict):
            return f"{{{', '.join([f'{self.text(k)}: {self.text(v)}' for k, v in value.items()])}}}"
        if isinstance(value, slice):
            return f"slice{self.text((value.start, value.stop, value.step))}"
        if isinstance(value, (dtype, device, layout, memory_format, np.dtype)):
            return repr(value)
        if isinstance(value, Op):
            return target_text(value)
        raise Unkept(f"an argument of type {type(value).__qualname__}")


def target_text(target: Any) -> str:
    """What a node calls."""
    if isinstance(target, str):
        return target
    op = target if isinstance(target, Op) else getattr(target, "op", None)
    if isinstance(op, Op):
        if REGISTRY.get(op.qualified_name) is op and op.namespace in NAMESPACES:
            return f"op {op.qualified_name}"
        raise Unkept(f"{op.name}, an op of the user's")
    name, home = getattr(target, "__qualname__", "<"), getattr(target, "__module__", None) or ""
    if (
        "<" in name
        or not home.startswith(OURS)
        or not isinstance(target, (types.FunctionType, types.BuiltinFunctionType, type))
    ):
        raise Unkept(f"a call of {target}")
    return f"{home}.{name}"


def input_text(value: Any) -> str:
    """What a program depends on of an input: floats are read when it runs, and so are streams."""
    if isinstance(value, np.ndarray):
        strides = tuple([0 if size == 1 else step for size, step in zip(value.shape, value.strides)])
        return f"{value.shape} {strides} {value.dtype.str} {value.dtype}"
    if type(value) is float:
        return "float"
    if isinstance(value, Generator):
        return "stream"
    if isinstance(value, Fixed):
        return f"fixed {value.value!r}"
    if type(value) in PLAIN:
        return f"{type(value).__name__} {value!r}"
    raise Unkept(f"an input of type {type(value).__qualname__}")


def key_of_program(graph_module: Any, arrays: Sequence[Any]) -> str | None:
    """The key of a program; None where it is not to be kept."""
    if store().folder is None:
        return None
    try:
        lines = [*GraphText(graph_module).lines, *map(input_text, arrays)]
        return key_of("\n".join(lines), str(settings.bitwise), *surroundings())
    except (Unkept, OSError) as error:
        let_through(error)
        reason = str(error)
        log("cache", lambda: f"a program is not cached: {reason}")
        return None


# -- contents ------------------------------------------------------------------------------------------------
def type_text(kind: np.dtype[Any]) -> str:
    """The name of a dtype, which says all of it."""
    if kind.hasobject or np.dtype(kind.name) != kind:
        raise Unkept(f"dtype {kind}")
    return kind.name


def content_of(runner: Runner) -> bytes | None:
    """A program as bytes, with its functions; None where Python does some of its steps."""
    if runner.python:
        return None
    program, functions = runner.program.settled(), runner.functions
    steps = zip(program.functions, program.records, program.rows, strict=True)
    records = [[name, [*numbers], *row] for name, numbers, row in steps]
    blobs: list[bytes] = []

    def constant(value: Any) -> Any:
        if isinstance(value, np.ndarray) and not value.dtype.hasobject:
            blobs.append(np.ascontiguousarray(value).tobytes())
            return [list(value.shape), type_text(value.dtype), len(blobs[-1])]
        if type(value) not in PLAIN or isinstance(value, (complex, type(...))):
            raise Unkept("an output that is a Python object")
        return value

    facts = {name: getattr(program, name) for name in FACTS}
    try:
        facts["made"] = [[place, list(shape), type_text(kind)] for place, shape, kind in program.made]
        facts["constants"] = [[place, constant(value)] for place, value in program.constants]
        facts["outputs"] = [
            each if isinstance(each, int) else [each[0], constant(each[1])] for each in program.outputs
        ]
    except Unkept:
        return None
    if sum(map(len, blobs)) > MOST_CONSTANTS:
        return None
    head = json.dumps({"facts": facts, "records": records, **functions.kept()}).encode()
    return struct.pack("<Q", len(head)) + head + b"".join(blobs)


def restored(content: bytes, inputs: Sequence[Any]) -> Runner:
    """The program that an earlier process has made; a KeyError where a function of it is gone."""
    (length,) = struct.unpack_from("<Q", content)
    data = json.loads(content[8 : 8 + length])
    functions = Functions(drafts=tiers.are_used())
    functions.restore(data["objects"], data["drafts"])
    facts, place = data["facts"], 8 + length

    def constant(value: Any) -> Any:
        nonlocal place
        if not isinstance(value, list):
            return value
        shape, kind, size = value
        made = np.frombuffer(content, np.uint8, size, place).copy().view(kind).reshape(shape)
        place += size
        return made

    facts["strides"] = [None if each is None else tuple(each) for each in facts["strides"]]
    facts["made"] = [(at, tuple(shape), np.dtype(kind)) for at, shape, kind in facts["made"]]
    facts["constants"] = [(at, constant(value)) for at, value in facts["constants"]]
    facts["outputs"] = [
        each if isinstance(each, int) else (each[0], constant(each[1])) for each in facts["outputs"]
    ]
    steps = data["records"]
    program = Program(
        functions=[name for name, *_ in steps], records=[numbers for _, numbers, *_ in steps],
        rows=[row for _, _, *row in steps], choices={}, **facts,
    )  # fmt: skip
    runner = Runner(program, functions, inputs)
    runner.is_restored = True
    return runner


def kept_or_made(
    graph_module: Any, arrays: list[Any], make: Callable[[list[Any]], Any], anew: bool
) -> Runner:
    """The program for these inputs: one that is kept, unless it is to be made `anew`, or a new one, which is
    kept.
    """
    key = key_of_program(graph_module, arrays)
    if key is None:
        new: Runner = make(arrays)
        return new
    if not anew:
        content = store().get("program", key)
        if content is not None:
            try:
                return keyed(restored(content, arrays), key)
            except KeyError as error:  # an object that it needs is gone
                let_through(error)
    made: Runner = make(arrays)
    return keyed(made, key) if keep(made, key) else made


def keep(program: Runner, key: str) -> bool:
    """Keeps a program, if it can be kept."""
    content = content_of(program)
    if content is not None:
        store().put("program", key, content)
    return content is not None


def keyed(program: Runner, key: str) -> Runner:
    """The program, which knows where it is kept."""
    program.key = key
    if program.functions.drafts():
        reference = ref(program)

        def keep_again() -> None:
            found = reference()
            if found is not None:
                keep(found, key)

        program.keep_again = keep_again
    return program


def kept_program(key: str, arrays: list[Any]) -> Runner | None:
    """The program of a key that an earlier process has made for inputs laid out as these."""
    content = store().get("program", key)
    if content is None:
        return None
    try:
        return keyed(restored(content, arrays), key)
    except KeyError as error:
        let_through(error)
        return None
