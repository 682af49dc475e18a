"""Writing to the entry cache: what a compiled call is made of, as JSON for later processes.

Takes the recipe of an entry whose graph is one native program, and facts of the call that it has served;
gives JSON, or says why there is none. One idea: an entry is kept only if all of it is plain data, paths from
the function itself, and names of things whose definitions can be compared: whatever guards it has, another
process checks against its own objects before it believes a word.

# Note [What is kept]
    guards      each with its source and payload; code objects and classes by digests of what they say
    inputs      sources, and how each lay in memory and stood on the tape
    program     the key of the program on disk
    results     which of the program's values, inputs and constants the graph gives, which inputs it writes
    ending      the lines behind the graph, with the names that they need
    prepared    optimizers whose state was made before the call
    files       the modules of the user's that any of it came from, by content
Not kept: what is held by identity alone, functions of the user's that were not interpreted but called,
modes, calls that the tape records, breaks. Of sizes that vary, those of the first call are kept.
"""

from __future__ import annotations

import atexit
import enum
import functools
import os
import re
import struct
import sys
import time
import types
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from weft.capture.calls import BY_CODE
from weft.capture.digests import (
    GENERATED,
    ROOT,
    Classes,
    Unkept,
    class_digest,
    code_digest,
    file_digest,
    file_of_module,
    is_ours,
    name_facts,
    untouched,
    walks_by_hash,
)
from weft.capture.guards import Guard
from weft.capture.plain import NUMPY_SCALARS, SINGLETONS, Tree
from weft.capture.shortcut import ShortcutRecipe
from weft.capture.sources import Ref, Source, class_mro, is_a
from weft.core.interrupts import let_through
from weft.core.logs import log
from weft.core.slices import Steps, at_once
from weft.tensor.base import PLAIN, Parameter
from weft.tensor.tape import INFERENCE

NAME: Final = re.compile(r"\b_v\w+")
PROCESS: Final = os.urandom(8).hex()
"""Entries of this very process are not read again: who forgets them wants them captured anew."""
CORE_TYPES: Final[dict[type, str]] = {
    getattr(types, name): name
    for name in ("FunctionType", "MethodType", "CellType", "CodeType", "NoneType", "EllipsisType",
                 "NotImplementedType", "MappingProxyType", "GetSetDescriptorType", "MemberDescriptorType",
                 "BuiltinFunctionType", "WrapperDescriptorType", "MethodDescriptorType",
                 "ClassMethodDescriptorType", "MethodWrapperType", "ModuleType")
}  # fmt: skip
"""Types of Python's that have no importable names of their own."""
TREES: Final[dict[type, str]] = {tuple: "tuple", list: "list", dict: "dict", slice: "slice", range: "range"}
LONGEST_FLUSH: Final = 2.0
"""Seconds at the end of a process."""
MOST_TEXT: Final = 1 << 24


# -- values --------------------------------------------------------------------------------------------------
@functools.cache
def dtype_name(kind: np.dtype[Any]) -> str:
    """The name of a dtype that is found again as the very same object."""
    if kind.hasobject or np.dtype(kind.name) is not kind:
        raise Unkept(f"an input of dtype {kind}")
    return str(kind.name)


class EntryWriter:
    """Sources, references and plain values as JSON, and the files that they came from."""

    dtype = staticmethod(dtype_name)

    def __init__(self) -> None:
        self.sources: list[Any] = []
        self.numbers: dict[Source, int] = {}
        self.files: set[str] = set()
        self.by_hash = False
        self.names: dict[int, Any] = {}
        self.classes: Classes = {}

    def plain(self, value: Any) -> Any:
        """A plain value or a picture of one."""
        kind = type(value)
        if value is None or kind in (bool, str):
            return value
        if kind is int:
            return ["int", hex(value)]
        if kind is float:
            return ["float", struct.pack("<d", value).hex()]
        if kind is complex:
            return ["complex", struct.pack("<dd", value.real, value.imag).hex()]
        if kind is bytes:
            return ["bytes", value.hex()]
        if kind is Tree and value.kind in TREES and value.extra is None:
            return ["tree", TREES[value.kind], [self.plain(item) for item in value.items]]
        if kind is tuple:
            return ["tuple", [self.plain(item) for item in value]]
        if kind in NUMPY_SCALARS:
            return ["scalar", value.dtype.str, value.tobytes().hex()]
        if kind in SINGLETONS:
            return ["named", self.named(value)]
        raise Unkept(f"a value of type {kind.__qualname__}")

    def named(self, value: Any) -> Any:
        """An object by its name, and what it says."""
        known = self.names.get(id(value))
        if known is None:
            if is_a(value, type) and value in CORE_TYPES:
                known = [CORE_TYPES[value]]
            else:
                known = list(name_facts(value, self.classes))
                self.file_of(value)
            self.names[id(value)] = known
        return known

    def file_of(self, value: Any) -> None:
        """Notes where an object of the user's was written."""
        if is_a(value, types.ModuleType):
            self.module(value.__name__)
        elif is_a(value, type) or is_a(value, enum.Enum):
            value = value if is_a(value, type) else type(value)
            for kind in (*class_mro(value), *class_mro(type(value))):
                self.module(kind.__module__)

    def module(self, name: Any) -> None:
        if type(name) is not str:
            raise Unkept("a class without a module")
        if is_ours(name):
            return
        self.files.add(file_of_module(name))

    def code(self, code: types.CodeType) -> str:
        file = code.co_filename
        if code in BY_CODE and not file.startswith((ROOT, GENERATED)):
            raise Unkept(f"{code.co_qualname}, which is not interpreted")
        if not file.startswith((ROOT, GENERATED)):
            self.by_hash |= walks_by_hash(code)
            if not file.startswith("<frozen ") and not _is_standard(file):
                if not os.path.isabs(file):
                    raise Unkept(f"{code.co_qualname}, which has no file")
                self.files.add(file)
        return code_digest(code)

    def ref(self, ref: Ref) -> Any:
        if ref.parts is not None or ref.weak is not None:
            raise Unkept(f"{ref.label}, an object that is guarded by identity")
        return ["none"] if ref.strong is None else self.named(ref.strong)

    def source(self, source: Source) -> int:
        """The number of a source."""
        number = self.numbers.get(source)
        if number is None:
            above = -1 if source.parent is None else self.source(source.parent)
            self.sources.append([above, source.kind, self.detail(source)])
            number = self.numbers[source] = len(self.sources) - 1
        return number

    def detail(self, source: Source) -> Any:
        match source.kind:
            case "constant":
                return self.ref(source.detail)
            case "slot":
                return [self.ref(source.detail[0]), source.detail[1]]
            case "maybe":
                return [self.plain(source.detail[0]), self.ref(source.detail[1])]
            case "module":
                self.module(source.detail)
                return self.plain(source.detail)
            case "item" | "key" | "value" | "element" | "field" | "member" | "entry" | "size":
                return self.plain(source.detail)
            case "local" | "builtin" | "function" | "cell" | "referent" | "length" | "walked" | "place":
                return self.plain(source.detail)
            case _:
                raise Unkept(str(source))

    # -- guards ----------------------------------------------------------------------------------------------
    def guard(self, guard: Guard) -> Any:
        source = None if guard.source is None else self.source(guard.source)
        return [guard.kind, source, guard.form.write(self, guard.payload)]

    def text(self, payload: Any) -> Any:
        if type(payload) not in (str, int):
            raise Unkept(f"a name of type {type(payload).__qualname__}")
        return self.plain(payload)


def _is_standard(file: str) -> bool:
    folder = os.path.dirname(os.path.abspath(os.__file__)) + os.sep
    return file.startswith(folder) and "site-packages" not in file


def input_facts(value: Any) -> Any:
    """Type, strides and autograd state of an input; numbers by value."""
    kind = type(value)
    if kind in PLAIN and type(value.array) is np.ndarray:
        array = value.array
        flags = [value.tracked, value.node is None, value.cell is INFERENCE, value.origin is None]
        flags += [bool(array.flags.aligned), bool(array.flags.writeable)]
        return [dtype_name(array.dtype), list(array.shape), list(array.strides), flags]
    if kind is float:
        return ["float", struct.pack("<d", value).hex()]
    if kind in (int, bool, type(None)):
        return [kind.__name__, None if value is None else hex(value)]
    raise Unkept(f"an input of type {kind.__qualname__}")


# -- entries -------------------------------------------------------------------------------------------------
@dataclass(slots=True, weakref_slot=True, eq=False)
class Keep:
    """An entry that may be cached: what is known when it is made, and what when it has served a call."""

    factory: Any
    key: str
    recipe: ShortcutRecipe
    namespace: dict[str, Any]
    prepared: list[tuple[Source, Any]]
    ready: tuple[Any, list[Any], str] | None = None
    made: Any = None
    """What is to be put on disk."""
    done: bool = False
    reason: str = field(default="")

    def note(self, function: Any, inputs: Sequence[Any]) -> None:
        """Takes down how a call was served that has just been."""
        direct, arrays = None, [getattr(value, "array", None) for value in inputs]
        own = has_own_globals(function) or applies_functions(self.recipe.graph)
        if self.recipe.ending is not None and not own:
            direct = self.factory.direct(self.recipe.graph, inputs)
        program = self.factory.program_key(direct) if direct else None
        if not direct or program is None or self.factory.records(direct):
            self.done = True
            return
        if self.factory.conditions(direct):
            self.refuse(Unkept("conditions on numbers that no guard checks"))
            return
        try:
            facts = [input_facts(value) for value in inputs]
        except Unkept as error:
            self.refuse(error)
            return
        if any(getattr(value, "array", None) is not array for value, array in zip(inputs, arrays)):
            return  # another thread gave a tensor other data meanwhile: a later call says
        self.ready = self.factory.described(direct), facts, program
        pending.add(self)

    def refuse(self, error: Unkept) -> None:
        self.done, self.reason = True, str(error)
        log("cache", lambda: f"{self.recipe.code.co_qualname} is not cached: {self.reason}")

    def write(self) -> None:
        """Puts the entry on disk, once."""
        at_once(self.writing())
        self.improve()

    def writing(self) -> Steps[None]:
        """Finds out what is to be put on disk, in slices, each behind a call that the entry has served; has
        it put there in the background."""
        if self.done or self.ready is None:
            return
        try:
            made = yield from self.content(*self.ready)
        except (Unkept, ReferenceError, AttributeError) as error:
            let_through(error)
            self.refuse(Unkept(str(error)))
            return
        if not self.done:
            self.made, self.done, self.ready = made, True, None
            self.factory.later(self)

    def improve(self) -> None:
        """Puts the entry on disk."""
        made, self.made = self.made, None
        if made is not None:
            self.factory.keep(self.key, made, "process")
            pending.discard(self)

    def content(self, described: tuple[Any, ...], facts: list[Any], program: str) -> Steps[Any]:
        if not (yield from untouched()):
            raise Unkept("the library was changed")
        writer, recipe = EntryWriter(), self.recipe
        outputs, written, strides, values = described
        guards = []
        for guard in recipe.guards:
            guards.append(writer.guard(guard))
            yield
        ending = recipe.ending or []
        used = sorted(set(NAME.findall("\n".join(ending))) & self.namespace.keys())
        made = {
            "process": PROCESS,
            "guards": guards,
            "inputs": [writer.source(source) for source in recipe.inputs],
            "let_go": [writer.source(source) for source in recipe.let_go],
            "facts": facts,
            "calls": calls_of(recipe.graph),
            "program": program,
            "outputs": [
                [how, writer.plain(what) if how == "constant" else what, version]
                for how, what, version in outputs
            ],
            "written": written,
            "strides": strides,
            "values": values,
            "names": recipe.outputs,
            "ending": ending,
            "read": {name: writer.source(source) for name, source in recipe.read_behind.items()},
            "uses": {name: self.used(writer, self.namespace[name]) for name in used},
            "prepared": [[writer.source(source), places] for source, places in self.prepared],
        }
        yield
        made["sources"] = writer.sources
        made["tensors"] = class_digest(Parameter, writer.classes)  # whose base is that of all of them
        yield
        made["files"] = {path: file_digest(path) for path in sorted(writer.files)}
        made["hashes"] = hash("weft") if writer.by_hash else None
        return made

    def used(self, writer: EntryWriter, value: Any) -> Any:
        """What a name of the ending stands for."""
        if type(value) is types.MethodWrapperType:  # puts something into a slot
            return ["bound", [value.__name__, writer.named(value.__self__)]]
        try:
            return ["plain", writer.plain(value)]
        except Unkept:
            return ["named", writer.named(value)]


def calls_of(graph: Any) -> int:
    """How many calls were captured."""
    module = getattr(graph, "__wrapped__", graph).module
    return sum(node.op.startswith("call_") for node in module.graph.nodes)


def has_own_globals(function: Any) -> bool:
    """Whether the names of a function are not those of the module that it says it is of."""
    module = sys.modules.get(function.__globals__.get("__name__"))
    return getattr(module, "__dict__", None) is not function.__globals__


def applies_functions(graph: Any) -> bool:
    """Whether a graph applies autograd functions of the user's, whose backward runs behind its guards."""
    module = getattr(getattr(graph, "__wrapped__", graph), "module", None)
    nodes = () if module is None else module.graph.nodes
    targets = [getattr(node.target, "__module__", None) for node in nodes if node.op == "call_function"]
    return module is None or "weft.autograd.function_apply" in targets


pending: weakref.WeakSet[Keep] = weakref.WeakSet()


@atexit.register
def flush() -> None:
    """Writes entries that have served one call only; others are written at their second call."""
    until = time.monotonic() + LONGEST_FLUSH
    for keep in list(pending):
        if time.monotonic() > until:
            break
        try:
            keep.write()
        except Exception as error:  # a process that ends has better things to say
            let_through(error)
            keep.refuse(Unkept(f"{type(error).__name__}: {error}"))
