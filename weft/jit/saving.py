"""Saving and loading: scripted functions and modules as zip files of text and tensors.

Takes scripted things; gives files, and the things back. One idea: a file holds graphs as text, facts as JSON
and tensors as safetensors, and reading one makes nothing but graphs, which may call operators on tensors and
nothing else; so a hostile file can do no more than a hostile scripted function.
"""

from __future__ import annotations

import io
import json
import os
import sys
import types as python_types
import zipfile
from collections import namedtuple
from typing import Any

import weft.autograd.grad_mode as grad_mode
from weft.core.interrupts import let_through
from weft.core.naming import home
from weft.files import safetensors
from weft.files.errors import FileFormatError, UnsafeFileError, require
from weft.jit.codegen import _READ, _WRITERS, OPERATORS
from weft.jit.codegen import PLAIN as PLAIN_NODES
from weft.jit.errors import Range, Source
from weft.jit.ir import Node
from weft.jit.lookup import NAMESPACES, find_operator, root
from weft.jit.modules import (
    INTERNAL,
    ModuleInfo,
    RecursiveScriptModule,
    ScriptModule,
    as_it_is,
    info_of,
    library_path,
    opaque_method,
)
from weft.jit.schema import EMPTY, Argument, Schema
from weft.jit.script import ScriptFunction
from weft.jit.support import Slots
from weft.jit.texts import IDENTIFIER, Book, Reader, TypeReader, Writer, decode, encode, type_text
from weft.jit.types import INFERRED, NONE, Type
from weft.nn.modules.module import Module
from weft.nn.parameter import Parameter
from weft.ops.record import REGISTRY

VERSION = 1
FORMAT = "weft.jit"
LARGEST = 1 << 32
CONTEXTS = ("no_grad", "enable_grad", "inference_mode", "set_grad_enabled")
REFUSED = frozenset(
    [
        "load",
        "save",
        "compile",
        "from_file",
        "from_numpy",
        "numpy",
        "tofile",
        "share_memory_",
        "register_hook",
        "apply_",
        "map_",
        "map2_",
        "set_",
        "storage",
        "untyped_storage",
        "data_ptr",
        "set_default_dtype",
        "set_default_device",
        "set_printoptions",
    ]
)


# -- saving ------------------------------------------------------------------------------------------------
def save(thing: Any, f: Any, extra_files: Any = None) -> None:
    """Writes a scripted function or module to a file, given as a path or a stream.

    >>> import io, weft
    >>> stream = io.BytesIO()
    >>> weft.jit.save(weft.jit.script(lambda x: x + 1), stream)
    >>> weft.jit.load(io.BytesIO(stream.getvalue()))(weft.ones(1))
    tensor([2.])
    """
    book = Book()
    tree: Any = None
    if isinstance(thing, ScriptFunction):
        book.functions.append(thing)
    elif isinstance(thing, ScriptModule):
        tree = module_facts(thing, book, "", {})
    else:
        raise RuntimeError(f"expected a scripted function or module to save, found {type(thing).__name__}")
    graphs, functions = [], []
    for function in book.functions:  # which grows, as graphs name callees
        function.ensure()
        graphs.append(Writer(book).graph(function.made))
        functions.append(function_facts(function, book))
    facts = {
        "format": FORMAT, "version": VERSION, "root": tree, "functions": functions,
        "classes": [class_facts(cls, book) for cls in book.classes],
    }  # fmt: skip
    sources = [{"file": s.file, "line": s.line, "text": s.original} for s in book.sources]
    with zipfile.ZipFile(f if hasattr(f, "write") else os.fspath(f), "w") as archive:
        archive.writestr("facts.json", json.dumps(facts, indent=1))
        archive.writestr("sources.json", json.dumps(sources))
        for number, text in enumerate(graphs):
            archive.writestr(f"graphs/{number}.txt", text)
        tensors = {key: tensor.detach().contiguous().clone() for key, tensor in book.tensors.items()}
        archive.writestr("tensors.safetensors", safetensors.save(tensors))
        for name, content in (extra_files or {}).items():
            archive.writestr(f"extra/{name}", content)


def function_facts(function: ScriptFunction, book: Book) -> dict[str, Any]:
    arguments = []
    for argument in function.schema.arguments:
        facts: dict[str, Any] = {"name": argument.name, "type": type_text(argument.type, book)}
        if argument.type is INFERRED:
            facts["inferred"] = True
        if argument.default is not EMPTY:
            facts["default"] = encode(argument.default, book)
        arguments.append(facts)
    return {
        "name": function.name, "arguments": arguments, "method": function.receiver is not None,
        "self": function.receiver[0] if function.receiver is not None else "",
        "returned": type_text(function.returned_type(), book),
    }  # fmt: skip


def class_facts(cls: Any, book: Book) -> dict[str, Any]:
    return {
        "name": cls.__name__,
        "fields": list(getattr(cls, "_fields", ())),
        "named": hasattr(cls, "_fields"),
    }


def module_facts(module: Any, book: Book, path: str, seen: dict[int, str]) -> dict[str, Any]:
    info = info_of(module)
    cls = info.original_class
    if id(module) in seen:
        return {"same": seen[id(module)]}
    seen[id(module)] = path
    parameters = {
        name: None if value is None else [
            book.tensor(value, f"parameters.{path}{name}"), bool(value.requires_grad)]
        for name, value in module._parameters.items()
    }  # fmt: skip
    buffers = {
        name: None if value is None else [
            book.tensor(value, f"buffers.{path}{name}"), name not in module._non_persistent_buffers_set]
        for name, value in module._buffers.items()
    }  # fmt: skip
    attributes = {}
    for name, value in module.__dict__.items():
        if (
            name in INTERNAL
            or name in ("_script", "original_name", "_attribute_types")
            or not IDENTIFIER.match(name)
        ):
            continue
        kind = info.attribute_type(name)
        try:
            written = encode(value, book)
            spelled = None if kind is None else type_text(kind, book)
        except RuntimeError as error:
            let_through(error)
            continue
        attributes[name] = [spelled, written]
    methods = {}
    for name, method in info.methods.items():
        if isinstance(method, ScriptFunction) and method.made is not None:
            methods[name] = book.number(book.functions, method)
    children = {
        name: None if inner is None else module_facts(inner, book, f"{path}{name}.", seen)
        for name, inner in module._modules.items()
    }  # fmt: skip
    return {
        "class": library_path(cls) if info.is_library else cls.__name__, "library": info.is_library,
        "training": module.training,
        "parameters": parameters, "buffers": buffers, "attributes": attributes, "methods": methods,
        "modules": children, "opaque": "forward" in info.methods and "forward" not in methods,
    }  # fmt: skip


# -- loading -----------------------------------------------------------------------------------------------
class Loaded:
    """A class that stands for one of a file: its fields, where it is a named tuple."""

    def __init__(self, facts: Any) -> None:
        name, fields = str(facts["name"]), [str(field) for field in facts["fields"]]
        for word in (name, *fields):
            if not IDENTIFIER.match(word) or word.startswith("_"):
                raise UnsafeFileError(f"the file names a class or a field {word[:80]!r}")
        self.cls: Any = namedtuple(name, fields) if facts["named"] else type(name, (), {})
        self.attributes: dict[str, Type] = {}

    def method(self, name: str) -> None:
        return None


class Archive:
    """A file that is being read."""

    def __init__(self, f: Any) -> None:
        try:
            self.zip = zipfile.ZipFile(f if hasattr(f, "read") else os.fspath(f))
        except zipfile.BadZipFile as error:
            raise FileFormatError(f"the file is not a scripted program: {error}") from error
        self.facts = self.json("facts.json")
        good = isinstance(self.facts, dict) and self.facts.get("format") == FORMAT
        require(good, "the file is not a scripted program of Weft")
        version = self.facts.get("version")
        require(
            isinstance(version, int) and 1 <= version <= VERSION,
            f"the file has version {version}; this Weft reads versions up to {VERSION}",
        )
        self.tensors = safetensors.load(self.read("tensors.safetensors"))
        self.sources = [
            Source(str(s["text"]), str(s["file"]), int(s["line"])) for s in self.json("sources.json")
        ]
        self.classes = [Loaded(facts) for facts in self.facts["classes"]]
        self.types = TypeReader(self.class_of)
        self.functions: list[ScriptFunction] = []
        self.names: set[str] = {"training"}

    def read(self, name: str) -> bytes:
        try:
            info = self.zip.getinfo(name)
            require(
                info.file_size < LARGEST and info.compress_type in (0, 8), f"the file's {name} is too large"
            )
            return self.zip.read(name)
        except KeyError as error:
            let_through(error)
            raise FileFormatError(f"the file has no {name}") from error
        except (zipfile.BadZipFile, EOFError, OSError, RuntimeError, NotImplementedError) as error:
            let_through(error)
            if isinstance(error, FileFormatError):
                raise
            raise FileFormatError(f"the file's {name} is damaged: {error}") from error

    def json(self, name: str) -> Any:
        try:
            return json.loads(self.read(name))
        except (ValueError, RecursionError) as error:
            let_through(error)
            raise FileFormatError(f"the file's {name} is damaged: {error}") from error

    def class_of(self, number: int) -> Loaded:
        require(0 <= number < len(self.classes), "the file refers to a class that it does not contain")
        return self.classes[number]

    def decode(self, value: Any) -> Any:
        return decode(value, self.tensors, root(), self.class_of)

    def place(self, number: int, line: int, column: int, end_line: int, end_column: int) -> Any:
        require(number < len(self.sources), "the file refers to a source that it does not contain")
        return Range(self.sources[number], line, column, end_line, end_column)

    # -- functions -----------------------------------------------------------------------------------------
    def read_functions(self) -> None:
        for facts in self.facts["functions"]:
            arguments = []
            for given in facts["arguments"]:
                kind = INFERRED if given.get("inferred") else self.types.read(given["type"])
                default = self.decode(given["default"]) if "default" in given else EMPTY
                arguments.append(Argument(str(given["name"]), kind, default))
            schema = Schema(str(facts["name"]), arguments, self.types.read(facts["returned"]))
            function = ScriptFunction(schema.name, schema)
            if facts["method"]:
                function.receiver = (str(facts["self"]), NONE, None)
            self.functions.append(function)
        for number, function in enumerate(self.functions):
            try:
                text = self.read(f"graphs/{number}.txt").decode()
            except UnicodeDecodeError as error:
                raise FileFormatError(f"the file's graph {number} is damaged") from error
            function.made = Reader(text, self.types, self.finish, self.place).graph(function.name)
            count = len(function.made.block.parameters) - (function.receiver is not None)
            require(
                count == len(function.schema.arguments),
                "a graph in the file takes other arguments than its schema declares",
            )

    def finish(self, node: Node) -> None:
        """Checks a node, and gives it what its attributes name."""
        operator = node.operator
        space, _, name = operator.partition("::")
        if operator in ("prim::CallFunction", "prim::CallMethod"):
            number = node.attributes.pop("_callee", -1)
            require(
                isinstance(number, int) and 0 <= number < len(self.functions),
                "the file calls a function that it does not contain",
            )
            node.target = self.functions[number]
        elif operator == "prim::PythonOp":
            node.target = as_it_is(self.layer(node.attributes.get("_library")))
        elif operator == "prim::CreateObject":
            self.finish_object(node)
        elif operator == "prim::isinstance":
            node.target = [
                t if isinstance(t, str) else self.types.read(t["type"]) for t in node.attributes["types"]
            ]
            node.attributes["types"] = [str(t) for t in node.target]
        elif operator == "prim::Constant":
            node.attributes = {"value": self.decode(node.attributes.get("value"))}
        elif operator in ("prim::GetAttr", "prim::SetAttr"):
            self.check_attribute(node)
        elif space == "prim":
            known = (
                operator in _WRITERS
                or operator in PLAIN_NODES
                or name in _READ
                or name in ("min", "max", "abs")
            )
            if not known or operator in ("prim::DifferentiableGraph", "prim::CompiledGraph"):
                raise UnsafeFileError(f"the file asks for the unknown operator {operator}")
        elif space == "aten":
            self.check_operator(node, name)
        else:
            raise UnsafeFileError(f"the file asks for the unknown operator {operator}")

    def check_attribute(self, node: Node) -> None:
        name = node.attributes.get("name")
        if not isinstance(name, str) or name not in self.names:
            raise UnsafeFileError(f"the file reads an attribute that its modules lack: {str(name)[:80]!r}")
        table = node.attributes.get("_table", "")
        if table not in ("", "_parameters", "_buffers", "_modules"):
            raise UnsafeFileError(f"the file reads an attribute of {str(table)[:80]!r}")
        if not table and not IDENTIFIER.match(name):
            raise UnsafeFileError(f"the file reads an attribute {name[:80]!r}")

    def finish_object(self, node: Node) -> None:
        if "_class" in node.attributes:
            node.target = self.class_of(int(node.attributes.pop("_class"))).cls
            return
        name = node.attributes.get("name")
        if name not in CONTEXTS:
            raise UnsafeFileError(f"the file makes an object of {str(name)[:80]!r}")
        node.target = getattr(grad_mode, name, None) or getattr(root(), name)

    def check_operator(self, node: Node, name: str) -> None:
        """Operators are those that scripted code could call."""
        origin = node.attributes.get("_from", "")
        plain = f"aten::{name}" in OPERATORS or f"aten::{name}" in PLAIN_NODES or origin in ("math", "python")
        if isinstance(origin, str) and origin.startswith("op:") and origin[3:] in REGISTRY:
            return
        if origin not in (*NAMESPACES, "Tensor", "math", "python"):
            raise UnsafeFileError(f"the file asks for an operator of {str(origin)[:80]!r}")
        if name in REFUSED or name.startswith("__") and not plain and name not in INPLACE_NAMES:
            raise UnsafeFileError(f"the file asks for {name}, which files may not use")
        if plain or name in PLAIN_METHODS:
            return
        function = find_operator(name, origin)
        named: str = home(function) if hasattr(function, "__module__") else ""
        if function is None or not hasattr(function, "op") and not named.startswith("weft"):
            raise UnsafeFileError(f"the file asks for {name}, which does not exist")

    def layer(self, name: Any) -> Any:
        place, _, short = str(name).partition(":")
        module = sys.modules.get(f"weft.nn.modules.{place}")  # all of them are loaded
        found = getattr(module, short, None) if IDENTIFIER.match(short) else None
        if not isinstance(found, type) or not issubclass(found, Module):
            raise UnsafeFileError(f"the file names an unknown layer: {str(name)[:80]!r}")
        return found

    # -- modules -------------------------------------------------------------------------------------------
    def collect_names(self, facts: Any) -> None:
        """The attributes that graphs may read."""
        if facts is None or "same" in facts:
            return
        for table in ("parameters", "buffers", "attributes", "modules"):
            self.names |= set(facts[table])
        for inner in facts["modules"].values():
            self.collect_names(inner)

    def collect_class_names(self) -> None:
        """Attributes of the file's classes are whatever its graphs set on them."""
        for number in range(len(self.facts["functions"])):
            for line in self.read(f"graphs/{number}.txt").decode(errors="replace").splitlines():
                if "prim::SetAttr{" in line:
                    start = line.index("prim::SetAttr{") + len("prim::SetAttr")
                    found, _ = json.JSONDecoder().raw_decode(line[start:])
                    name = str(found.get("name"))
                    if IDENTIFIER.match(name) and not name.startswith("__") and name not in INTERNAL:
                        self.names.add(name)

    def module(self, facts: Any, path: str, made: dict[str, Any]) -> Any:
        if facts is None:
            return None
        if "same" in facts:
            require(facts["same"] in made, "the file shares a module that it does not contain")
            return made[facts["same"]]
        cls = self.layer(facts["class"]) if facts["library"] else self.stand_in(str(facts["class"]))
        module = RecursiveScriptModule.__new__(RecursiveScriptModule)
        Module.__init__(module)
        made[path] = module
        module.__dict__["original_name"] = cls.__name__
        module.__dict__["training"] = bool(facts["training"])
        kinds: dict[str, Type] = {}
        for name, (spelled, value) in facts["attributes"].items():
            if not IDENTIFIER.match(name) or name.startswith("__") or name in INTERNAL:
                raise UnsafeFileError(f"the file sets an attribute {name[:80]!r}")
            module.__dict__[name] = self.decode(value)
            if spelled is not None:
                kinds[name] = self.types.read(spelled)
        module.__dict__["_attribute_types"] = kinds
        for name, given in facts["parameters"].items():
            module._parameters[name] = (
                None if given is None else Parameter(self.tensor(given[0]), bool(given[1]))
            )
        for name, given in facts["buffers"].items():
            module._buffers[name] = None if given is None else self.tensor(given[0])
            if given is not None and not given[1]:
                module._non_persistent_buffers_set.add(name)
        for name, inner in facts["modules"].items():
            module._modules[name] = self.module(inner, f"{path}{name}.", made)
        self.methods(module, cls, facts)
        return module

    def methods(self, module: Any, cls: Any, facts: Any) -> None:
        info = ModuleInfo(module, cls)
        for name, number in facts["methods"].items():
            require(
                isinstance(number, int) and 0 <= number < len(self.functions),
                "the file names a method that it does not contain",
            )
            info.methods[name] = self.functions[number]
        if facts["opaque"]:
            info.methods["forward"] = opaque_method(info)
        module.__dict__["_script"] = info

    def tensor(self, key: Any) -> Any:
        require(key in self.tensors, f"the file lacks the tensor {str(key)[:80]!r}")
        return self.tensors[key]

    def stand_in(self, name: str) -> Any:
        if not IDENTIFIER.match(name):
            raise UnsafeFileError(f"the file names a class {name[:80]!r}")
        return python_types.new_class(name, (Module,))


INPLACE_NAMES = frozenset(["__iand__", "__ior__", "__ixor__", "__ilshift__", "__irshift__"])
PLAIN_METHODS = frozenset(
    [
        "append",
        "extend",
        "insert",
        "pop",
        "remove",
        "index",
        "count",
        "reverse",
        "sort",
        "clear",
        "copy",
        "keys",
        "values",
        "items",
        "get",
        "update",
        "setdefault",
        "popitem",
        "add_",
        "slice",
        "select",
        "sum",
        "any",
        "all",
        "round",
        "numel",
    ]
) | {name for name in dir(str) if not name.startswith("_")}


def load(f: Any, map_location: Any = None, _extra_files: Any = None, _restore_shapes: Any = False) -> Any:
    """The scripted function or module in a file that `jit.save` wrote."""
    try:
        archive = Archive(f)
        tree = archive.facts["root"]
        archive.collect_names(tree)
        archive.collect_class_names()
        archive.read_functions()
        for name in list(_extra_files or {}):
            _extra_files[name] = archive.read(f"extra/{name}").decode()
        made = archive.functions[0] if tree is None else archive.module(tree, "", {})
    except FileNotFoundError:
        raise
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, RecursionError) as error:
        let_through(error)
        raise FileFormatError(f"the file is damaged: {error!r}") from error
    if map_location is not None and isinstance(made, Module):
        made.to(map_location)
    return made


Slots.save = save


def to_buffer(thing: Any) -> bytes:
    """The file of a scripted thing, as bytes."""
    stream = io.BytesIO()
    save(thing, stream)
    return stream.getvalue()
