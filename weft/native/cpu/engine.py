"""The engine: LLVM text to functions in this process.

Takes the texts of functions; gives addresses. One idea: a function is known by its text, so equal kernels (of
twelve equal layers, of a program that is compiled again) are compiled once in a process, and code that an
earlier process has compiled is read from disk; nothing of LLVM is loaded before it is needed.

# Note [Code]
    text of a kernel -> symbol, by the text's hash -> found in a `Loaded` that lives      memory
                                                   -> else all that miss, as one text:
                                                        object in the cache               disk
                                                        object made by LLVM, and kept
                                                      checked, loaded                     a new `Loaded`
A `Loaded` lives as long as a program holds it, and the latest ones longer.
"""

from __future__ import annotations

import ctypes
import hashlib
import mmap
import os
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Final
from weakref import WeakValueDictionary, ref

from weft.core.interrupts import let_through
from weft.core.lazy import lazy, load
from weft.core.logs import is_heard, log
from weft.core.once import lock
from weft.core.slices import give_way
from weft.native.cpu.objects import check, functions
from weft.native.cpu.processor import KINDS, kind_of, processor
from weft.native.cpu.tiers import calling_llvm
from weft.native.program.cache import key_of, store
from weft.native.target import Uncompiled

llvm: Any = lazy("llvmlite.binding")
_kernel_text: Any = lazy("weft.native.cpu.kernel_text")


LIVING: Final = 128
"""How many modules live on though no program holds them."""
REMEMBERED: Final = 4096
"""Of how many kernels the names are known without writing their texts."""
DRAFT, FULL = 0, 2
"""Levels of code."""
NO_DRAFTS: Final[Mapping[str, Any]] = {}
NAME: Final = "function"
"""What a function is called in its own text."""
HALVES: Final = """
define float @__extendhfsf2(half %given) {
  %short = bitcast half %given to i16
  %bits = zext i16 %short to i32
  %sign = and i32 %bits, 32768
  %size = and i32 %bits, 32767
  %placed = shl i32 %size, 13
  %small = bitcast i32 %placed to float
  %scaled = fmul float %small, 0x46F0000000000000
  %finite = bitcast float %scaled to i32
  %strange = icmp uge i32 %size, 31744
  %number = icmp ugt i32 %size, 31744
  %quiet = select i1 %number, i32 2143289344, i32 2139095040
  %open = or i32 %placed, %quiet
  %chosen = select i1 %strange, i32 %open, i32 %finite
  %upper = shl i32 %sign, 16
  %both = or i32 %chosen, %upper
  %made = bitcast i32 %both to float
  ret float %made
}
define half @__truncsfhf2(float %given) {
  %bits = bitcast float %given to i32
  %size = and i32 %bits, 2147483647
  %lower = lshr i32 %size, 13
  %odd = and i32 %lower, 1
  %moved = add i32 %size, 3355447295
  %rounded = add i32 %moved, %odd
  %normal = lshr i32 %rounded, 13
  %float = bitcast i32 %size to float
  %added = fadd float %float, 5.000000e-01
  %aligned = bitcast float %added to i32
  %tiny = sub i32 %aligned, 1056964608
  %istiny = icmp ult i32 %size, 947912704
  %finite = select i1 %istiny, i32 %tiny, i32 %normal
  %islarge = icmp uge i32 %size, 1199570944
  %isnan = icmp ugt i32 %size, 2139095040
  %payload = and i32 %lower, 1023
  %quiet = or i32 %payload, 32256
  %beyond = select i1 %isnan, i32 %quiet, i32 31744
  %chosen = select i1 %islarge, i32 %beyond, i32 %finite
  %high = lshr i32 %bits, 16
  %sign = and i32 %high, 32768
  %both = or i32 %chosen, %sign
  %short = trunc i32 %both to i16
  %made = bitcast i16 %short to half
  ret half %made
}
"""
"""Conversions of float16, under the names by which LLVM calls them where the machine has none."""


# -- this machine --------------------------------------------------------------------------------------------
@cache
@calling_llvm
def host() -> tuple[str, str, int]:
    """This machine: its name, its features, and how many bytes a vector has."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    features = llvm.get_host_cpu_features()
    width = 64 if features.get("avx512f") else 32 if features.get("avx2") else 16
    return llvm.get_host_cpu_name(), features.flatten(), width


@cache
@calling_llvm
def triple() -> str:
    """The kind of machine that this process runs on, as LLVM names it."""
    return str(llvm.get_process_triple())


@cache
@calling_llvm
def identity() -> tuple[str, ...]:
    """What machine code depends on besides its text."""
    versions = (load("llvmlite").__version__, ".".join(map(str, llvm.llvm_version_info)))
    return (*versions, triple(), *host()[:2])


def target(level: int) -> Any:
    """A machine to compile for; an engine owns its own."""
    name, features, _ = host()
    found = llvm.Target.from_default_triple()
    return found.create_target_machine(cpu=name, features=features, opt=level, jit=True)


@cache
def executing() -> str:
    """Why memory of this process cannot become code; "" where it can. LLVM itself would fault."""
    page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    place = ctypes.c_char.from_buffer(page)  # the page goes with it, however this ends
    change = ctypes.CDLL(None, use_errno=True).mprotect
    change.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    failed = change(ctypes.addressof(place), mmap.PAGESIZE, mmap.PROT_READ | mmap.PROT_EXEC)
    return os.strerror(ctypes.get_errno()) if failed else ""


@cache
def unusable() -> str:
    """Why this process cannot have machine code of ours; "" where it can."""
    try:
        host()
    except Exception as error:  # a library that is not there, or that this machine cannot load
        let_through(error)
        if isinstance(error, MemoryError):  # which there may be more of later
            raise
        return f"LLVM cannot be loaded: {error}"
    if "linux" not in triple():  # objects, calls and memory are those of Linux
        return f"machine code is made for Linux, and this is {triple()}"
    if kind_of(triple()) not in KINDS:
        return f"what threads do on a processor of the kind {kind_of(triple())} is not known"
    return f"this process may not make code: {executing()}" if executing() else ""


# -- objects -------------------------------------------------------------------------------------------------
_contexts: Final[dict[int, Any]] = {}
"""Those that have modules. The traceback of an exception may hold both, and a collector that finds them takes
them down in any order, where a module must go first: what is interrupted keeps its context for good."""


_engines: Final[dict[Any, Any]] = {}
"""By weak references to what uses their code. Those that nobody uses go when LLVM is called next: finalizers
run anywhere, and an exception of a handler or of another thread that strikes in one keeps LLVM locked.
"""


def _take_down() -> None:
    """Lets go of the engines that nobody uses."""
    for known in [*_engines]:
        if known() is None:
            _engines.pop(known, None)


@calling_llvm
def compiled(text: str, level: int) -> bytes:
    """The object of a text, which asks for nothing from outside."""
    log("llvm", lambda: text)
    _take_down()
    if "half" in text and processor(triple()).halves not in host()[1]:
        text += HALVES
    context = llvm.create_context()  # what that knows goes with it
    _contexts[id(context)] = context
    try:
        with llvm.parse_assembly(text, context) as module:
            module.verify()
            machine = target(level)
            log("asm", lambda: str(machine.emit_assembly(module)))
            content = bytes(machine.emit_object(module))
        del _contexts[id(context)]
    except RuntimeError as error:
        let_through(error)
        raise Uncompiled(f"LLVM rejects the generated text: {error}") from error
    check(content)
    return content


def object_of(text: str, key: str, level: int) -> bytes:
    """The object of a text: the one on disk, or a new one, which is kept there."""
    kept = store()
    content = None if is_heard("asm") else kept.get("object", key)
    if content is None:
        content = compiled(text, level)
        kept.put("object", key, content)
    else:
        log("llvm", lambda: text)
        check(content)
    return content


class Loaded:
    """The object of a text in memory."""

    def __init__(self, text: str, level: int = FULL) -> None:
        if executing():
            raise Uncompiled(f"this process may not make code: {executing()}")
        self.key = key_of(text, str(level), *identity())
        """What its object is called on disk."""
        self.text: str | None = None
        """Of a draft, what it is made of."""
        self.load(object_of(text, self.key, level), level)

    @calling_llvm
    def load(self, content: bytes, level: int) -> None:
        _take_down()
        self.level = level
        try:
            made = llvm.create_mcjit_compiler(llvm.parse_assembly(""), target(level))
            made.add_object_file(llvm.ObjectFileRef.from_data(content))  # the engine owns it
            made.finalize_object()
            self.addresses = {name: int(made.get_function_address(name)) for name in functions(content)}
            _engines[ref(self)] = made
        except RuntimeError as error:
            let_through(error)
            raise Uncompiled(f"LLVM cannot load an object: {error}") from error

    @classmethod
    def kept(cls, key: str, level: int) -> Loaded:
        """The object on disk that is called so; a KeyError where there is none."""
        content = store().get("object", key)
        if content is None or executing():
            raise KeyError(key)
        check(content)
        found = cls.__new__(cls)
        found.key, found.text = key, None
        found.load(content, level)
        return found

    def address(self, name: str) -> int:
        if name not in self.addresses:
            raise Uncompiled(f"the compiled object lacks the function {name}")
        return self.addresses[name]


# -- in memory -----------------------------------------------------------------------------------------------
_lock = lock()
_modules: WeakValueDictionary[tuple[str, int], Loaded] = WeakValueDictionary()
"""By a function's name and level: the module that has it."""
_latest: OrderedDict[int, Loaded] = OrderedDict()
"""By `id`, those used last at the end."""
_names: OrderedDict[bytes, str] = OrderedDict()
"""By a kernel's hash, the name of its function."""


def forget() -> None:
    """Lets go of code that no program holds."""
    with _lock:
        _latest.clear()
        _names.clear()


def living() -> int:
    """How many modules live."""
    return len({id(each) for each in _modules.values()})


def _used(module: Loaded) -> None:
    _latest[id(module)] = module
    _latest.move_to_end(id(module))
    while len(_latest) > LIVING:
        _latest.popitem(last=False)


class Functions:
    """The functions of a program: asked for by text, compiled together, then known by address."""

    def __init__(self, level: int = FULL, drafts: bool = False) -> None:
        self.levels = (level, DRAFT) if drafts else (level,)
        """Of code that is taken: see Note [Drafts] in `weft.native.cpu.tiers`."""
        self.modules: dict[str, Loaded] = {}
        self.missing: dict[str, list[str]] = {}
        self.left: list[Loaded] = []
        """Drafts that may still run, though better code is there."""
        self.moved: dict[int, int] = {}
        """New addresses of what was compiled again, by the old ones."""

    def kernel(self, kernel: Any) -> str:
        """The name of a kernel's function."""
        key = hashlib.sha256(repr(kernel).encode()).digest()  # -0.0 is equal to 0.0, and still another kernel
        name = _names.get(key)
        if name is None or not self.found(name):
            name = self.text(_kernel_text.kernel_lines(kernel, NAME, host()[2]))
            with _lock:
                _names[key] = name
                while len(_names) > REMEMBERED:
                    _names.popitem(last=False)
        return name

    def text(self, lines: list[str]) -> str:
        """The name of a function that is written as `@function`; what it declares stands in front."""
        name = "f" + hashlib.sha256("\n".join(lines).encode()).hexdigest()[:32]
        if not self.found(name):
            self.missing[name] = [line.replace(f"@{NAME}(", f"@{name}(") for line in lines]
        return name

    def found(self, name: str) -> bool:
        """Whether this function is compiled, or about to be."""
        if name in self.modules or name in self.missing:
            return True
        with _lock:
            for level in self.levels:
                module = _modules.get((name, level))
                if module is not None:
                    self.modules[name] = module
                    _used(module)
                    return True
        return False

    def load(self, drafts: Mapping[str, Any] = NO_DRAFTS) -> None:
        """Compiles what is missing, as one module, and another one of drafts. Under no lock: a handler of
        signals may strike, and wait for a thread that waits for it.
        """
        for is_draft in (True, False):
            part = [name for name in self.missing if (name in drafts) == is_draft]
            if not part:
                continue
            text = joined([self.missing[name] for name in part])
            module = Loaded(text, DRAFT if is_draft else self.levels[0])
            if is_draft:
                module.text = text
                store().put("text", module.key, text.encode())
            self.take(module, part)
        self.missing = {}

    def take(self, module: Loaded, names: Iterable[str]) -> None:
        """Uses this module for these functions, here and elsewhere."""
        with _lock:
            for name in names:
                self.modules[name] = _modules[name, module.level] = module
            _used(module)

    def restore(self, objects: dict[str, list[str]], drafts: Sequence[str] = ()) -> None:
        """Finds functions by the objects on disk that have them, some of which are drafts; a KeyError where
        one is gone, or may not be used."""
        for key, names in objects.items():
            if not all(map(self.found, names)):
                level = DRAFT if key in drafts else self.levels[0]
                if level not in self.levels:
                    raise KeyError(key)
                self.take(Loaded.kept(key, level), names)

    def kept(self) -> dict[str, Any]:
        """By which objects on disk they are found again, for `restore`."""
        objects: dict[str, list[str]] = {}
        for name, module in self.modules.items():
            objects.setdefault(module.key, []).append(name)
        return {"objects": objects, "drafts": sorted({each.key for each in self.drafts().values()})}

    def drafts(self) -> dict[str, Loaded]:
        """The functions of which there are drafts only."""
        if len(self.levels) == 1:
            return {}
        return {name: module for name, module in self.modules.items() if module.level == DRAFT}

    def texts(self, names: Iterable[str]) -> dict[str, list[str]]:
        """Of drafts: what they are compiled from, where that is still known."""
        found: dict[str, list[str]] = {}
        modules = {id(module): module for module in map(self.modules.__getitem__, names)}
        for module in modules.values():
            content = store().get("text", module.key) if module.text is None else module.text.encode()
            if content is not None:
                found.update(apart(content.decode()))
        return {name: found[name] for name in names if name in found}

    def improve(self, names: Iterable[str] | None = None) -> dict[int, int]:
        """Compiles drafts (all, or these) at the full level; gives the new addresses by the old ones."""
        drafts = self.drafts()
        if names is not None:
            drafts = {name: drafts[name] for name in names}
        full = Functions(self.levels[0])
        missing = [name for name in drafts if not full.found(name)]
        if missing:
            texts = self.texts(missing)
            if len(texts) < len(missing):
                raise KeyError(f"texts of {len(missing) - len(texts)} functions are gone")
            full.take(Loaded(joined([*texts.values()]), self.levels[0]), missing)
        moved = {module.address(name): full.address(name) for name, module in drafts.items()}
        with _lock:
            self.left += drafts.values()
            self.modules.update(full.modules)
            self.moved = {**self.moved, **moved}
        return self.moved

    def address(self, name: str) -> int:
        return self.modules[name].address(name)

    def names(self) -> dict[int, str]:
        """The functions by their addresses, and by those of their drafts: who shares them may not have
        exchanged these yet."""
        with _lock:
            found = {module.address(name): name for name, module in self.modules.items()}
            return found | {draft: found[address] for draft, address in self.moved.items()}


def joined(functions: list[list[str]]) -> str:
    """One text of several, with what they declare said once."""
    declared: dict[str, None] = {}
    rest: list[str] = []
    for lines in functions:
        for line in lines:
            if line.startswith("declare "):
                declared[line] = None
            else:
                rest.append(line)
    return "\n".join([*declared, *rest]) + "\n"


def apart(text: str) -> dict[str, list[str]]:
    """The functions of such a text, by name; each begins with all that the text declares."""
    lines = text.splitlines()
    declared = [line for line in lines if line.startswith("declare ")]
    found: dict[str, list[str]] = {}
    own: list[str] = []
    for line in lines[len(declared) :]:
        own.append(line)
        if line == "}":
            give_way()
            first = next(each for each in own if each.startswith("define "))
            name = first.partition("@")[2].partition("(")[0]
            found[name], own = [*declared, *own], []
    return found
