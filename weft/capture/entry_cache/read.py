"""Reading the entry cache: entries that another process has captured, where they hold here, too.

Takes a function that is about to be captured, and its arguments; gives an entry that an earlier process has
kept, or None. One idea: nothing in the cache is trusted. Guards are put together from this process's own
objects, every one of them is checked before the entry is made and in every call of it, and whatever a guard
cannot say (code, classes, files, the library itself) must have the digest that it had.

See Note [What is kept] in `weft.capture.entry_cache.write`.
"""

from __future__ import annotations

import os
import struct
import sys
import types
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
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
    digest_of,
    file_digest,
    name_facts,
    untouched,
)
from weft.capture.entry_cache.write import CORE_TYPES, PROCESS, TREES, has_own_globals, input_facts
from weft.capture.guards import KINDS, Guard, GuardSet
from weft.capture.optimizers import prepare_again
from weft.capture.plain import Tree, thaw
from weft.capture.policy import MARK
from weft.capture.shortcut import ShortcutRecipe
from weft.capture.sources import Ref, Source, by_name, fetch, fetch_step
from weft.core import device, dtypes
from weft.core.counters import count
from weft.core.interrupts import let_through
from weft.core.logs import log
from weft.core.settings import settings
from weft.core.slices import at_once
from weft.tensor.base import PLAIN, Parameter

VARIABLES: Final = ("WEFT_CACHE", "WEFT_CACHE_DIR", "WEFT_CACHE_SIZE", "WEFT_LOGS")
"""What does not change what is captured."""
CORE_NAMES: Final = {name: kind for kind, name in CORE_TYPES.items()}
TREE_KINDS: Final = {name: kind for kind, name in TREES.items()}
counts: Counter[str] = Counter()
"""How many entries were found, and how many did not hold."""


# -- keys ----------------------------------------------------------------------------------------------------
def key_of(function: Any, arguments: Mapping[str, Any], request: Any, surroundings: Sequence[str]) -> str:
    """The cache key of the entry for such a call. It serves to find an entry; the guards decide whether it
    holds."""
    code, context = function.__code__, request.context
    options = {name: value for name, value in context.options.items() if name != "backend"}
    around = [
        sys.version, sys.implementation.name, context.backend_name, repr(sorted(options.items())),
        repr((request.fullgraph, request.dynamic)), repr([dtypes.default.dtype, device.Default.device]),
        repr(sorted((name, value) for name, value in vars(settings).items())),
        repr([(k, v) for k, v in sorted(os.environ.items()) if k.startswith("WEFT_") and k not in VARIABLES]),
        str(function.__globals__.get("__name__")),
    ]  # fmt: skip
    given = [f"{name} {shape_text(value)}" for name, value in arguments.items()]
    return digest_of(code_digest(code), *around, *given, *surroundings)


def shape_text(value: Any, depth: int = 0) -> str:
    """What an argument looks like."""
    kind = type(value)
    if kind in PLAIN:
        array = value.array
        return f"{kind.__name__} {getattr(array, 'shape', ())} {getattr(array, 'dtype', '')} {value.tracked}"
    if kind in (bool, int, str, type(None)):
        return repr(value)[:200]
    if kind in (tuple, list) and depth < 3:
        return f"{kind.__name__} [{', '.join([shape_text(item, depth + 1) for item in value[:100]])}]"
    return kind.__qualname__


# -- values --------------------------------------------------------------------------------------------------
class EntryReader:
    """Rebuilds what an `EntryWriter` wrote from this process's objects. Unkept where anything has changed."""

    def __init__(self, data: Mapping[str, Any], function: Any, values: Mapping[str, Any]) -> None:
        self.function, self.values = function, values
        self.found: dict[str, Any] = {}
        self.classes: Classes = {}
        self.fetched: dict[Source, Any] = {}
        self.sources: list[Source] = []
        for above, kind, detail in data["sources"]:
            parent = None if above < 0 else self.sources[above]
            self.sources.append(Source(parent, kind, self.detail(kind, detail)))

    def plain(self, data: Any) -> Any:
        if data is None or type(data) in (bool, str):
            return data
        kind, *rest = data
        match kind:
            case "int":
                return int(rest[0], 16)
            case "float":
                return struct.unpack("<d", bytes.fromhex(rest[0]))[0]
            case "complex":
                return complex(*struct.unpack("<dd", bytes.fromhex(rest[0])))
            case "bytes":
                return bytes.fromhex(rest[0])
            case "tree":
                return Tree(TREE_KINDS[rest[0]], tuple([self.plain(item) for item in rest[1]]))
            case "tuple":
                return tuple([self.plain(item) for item in rest[0]])
            case "scalar":
                return np.frombuffer(bytes.fromhex(rest[1]), np.dtype(rest[0]))[0]
            case "named":
                return self.named(rest[0])
        raise Unkept(f"a value of kind {kind}")

    def named(self, data: Any) -> Any:
        """The object of a name, if it is what it was."""
        if len(data) == 1:
            return None if data[0] == "none" else CORE_NAMES[data[0]]
        name, digest = data
        if name not in self.found:
            value = by_name(name)
            if value is None or list(name_facts(value, self.classes)) != data:
                raise Unkept(f"{name} has changed")
            self.found[name] = value, digest
        value, known = self.found[name]
        if known != digest:
            raise Unkept(f"{name} is recorded with two digests")
        return value

    def ref(self, data: Any) -> Ref:
        return Ref(self.named(data))

    def detail(self, kind: str, data: Any) -> Any:
        match kind:
            case "constant":
                return self.ref(data)
            case "slot":
                return self.ref(data[0]), data[1]
            case "maybe":
                return self.plain(data[0]), self.ref(data[1])
            case _:
                return self.plain(data)

    def used(self, how: str, what: Any) -> Any:
        """What a name of the ending stands for."""
        if how == "bound":
            name, owner = what
            found = getattr(self.named(owner), name)
            if type(found) is not types.MethodWrapperType:
                raise Unkept(f"{name} has changed")
            return found
        return thaw(self.plain(what)) if how == "plain" else self.named(what)

    def fetch(self, source: Source) -> Any:
        """What stands at a source, which is read once."""
        if source not in self.fetched:
            if source.parent is None:
                self.fetched[source] = fetch(source, self.function, self.values)
            else:
                self.fetched[source] = fetch_step(source, self.fetch(source.parent))
        return self.fetched[source]

    def guard(self, data: Any) -> Guard:
        kind, number, payload = data
        source = None if number is None else self.sources[number]
        return Guard(kind, source, KINDS[kind].form.read(self, source, payload))

    def code(self, source: Any, digest: str) -> types.CodeType:
        """The code of the function that is there now."""
        function = self.fetch(source)
        if type(function) is not types.FunctionType or code_digest(function.__code__) != digest:
            raise Unkept(f"the code of {source} has changed")
        if MARK in function.__dict__ or function.__code__ in BY_CODE and not is_library(function.__code__):
            raise Unkept(f"{source} is marked as not to be captured")
        return function.__code__


def is_library(code: types.CodeType) -> bool:
    return code.co_filename.startswith((ROOT, GENERATED))


# -- entries -------------------------------------------------------------------------------------------------
def kept_entry(
    factory: Any, key: str, function: Any, arguments: Mapping[str, Any], make: Callable[..., Any]
) -> Any:
    """A cached entry of this key whose guards hold here, or None.

    `make(recipe, direct, namespace)` gives the entry itself, or None.
    """
    for data in factory.kept(key):
        try:
            if data["process"] == PROCESS:
                continue
            entry = restored(factory, data, function, arguments, make)
        except Exception as error:  # whatever is wrong with it, the function can still be captured
            let_through(error)
            say(error)
            entry = None
        counts["missed" if entry is None else "found"] += 1
        if entry is not None:
            count("stats", "unique_graphs")  # as if it had been captured
            count("stats", "calls_captured", data["calls"])
            return entry
    return None


def say(error: Exception) -> None:
    log("cache", lambda: f"a cached entry does not hold: {type(error).__name__}: {error}")


def restored(
    factory: Any, data: Mapping[str, Any], function: Any, arguments: Mapping[str, Any], make: Any
) -> Any:
    if data["hashes"] not in (None, hash("weft")) or not at_once(untouched()) or has_own_globals(function):
        raise Unkept("the library was changed, the hash seed differs, or the function has globals of its own")
    for path, digest in data["files"].items():
        if file_digest(path) != digest:
            raise Unkept(f"{path} has changed")
    reader = EntryReader(data, function, arguments)
    if data["tensors"] != class_digest(Parameter, reader.classes):
        raise Unkept("the class Parameter has changed")
    undo: list[Callable[[], None]] = []
    try:
        for number, places in data["prepared"]:
            undo.append(prepare_again(fetch(reader.sources[number], function, arguments), places))
        entry = _restored(factory, data, reader, make)
    except BaseException:
        entry = None
        raise
    finally:
        if entry is None:
            for each in reversed(undo):
                each()
    return entry


def _restored(factory: Any, data: Mapping[str, Any], reader: EntryReader, make: Any) -> Any:
    guards = GuardSet([reader.guard(each) for each in data["guards"]])
    for guard in guards:
        if not guard.holds(reader.fetch):
            raise Unkept(f"{guard} does not hold")
    sources = [reader.sources[number] for number in data["inputs"]]
    inputs = [reader.fetch(source) for source in sources]
    facts = [input_facts(value) for value in inputs]
    others = [n for n, (one, two) in enumerate(zip(facts, data["facts"], strict=True)) if one != two]
    if any(type(inputs[number]) is not float or data["facts"][number][0] != "float" for number in others):
        raise Unkept("the inputs have other types or strides")
    outputs = [
        (how, reader.plain(what) if how == "constant" else what, version)
        for how, what, version in data["outputs"]
    ]
    direct = factory.restored(
        data["program"], inputs, outputs, data["written"], data["strides"], data["values"]
    )
    if direct is None:
        raise Unkept("its program is no longer in the cache")
    if not factory.reads(direct).issuperset(others):
        raise Unkept("a float that the program was specialised to has changed")
    namespace: dict[str, Any] = {"__name__": reader.function.__globals__.get("__name__")}
    for name, (how, what) in data["uses"].items():
        namespace[name] = reader.used(how, what)
    read = {name: reader.sources[number] for name, number in data["read"].items()}
    code = reader.function.__code__
    let_go = [reader.sources[number] for number in data["let_go"]]
    names, ending = data["names"], data["ending"]
    recipe = ShortcutRecipe(code, guards, [], {}, sources, names, ending, read, None, let_go)
    return make(recipe, direct, namespace)
