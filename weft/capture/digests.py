"""Digests: what functions, classes and files say, as text that another process can compare.

Takes objects that captured code relied upon; gives digests that are equal where the definitions are. One
idea: within a process an object is known by its identity, but between processes a name says nothing: what
stands under it must have the same code, all the way down.
"""

from __future__ import annotations

import dis
import enum
import functools
import hashlib
import os
import struct
import sys
import time
import types
from typing import Any, Final

import numpy as np

from weft.capture.policy import MARK
from weft.capture.sources import class_dict, class_mro, importable_name, instance_dict, is_a, written_in_c
from weft.core.interrupts import let_through
from weft.core.slices import Steps
from weft.ops.record import REGISTRY, Op

ROOT: Final = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
GENERATED: Final = "<weft"
DEEPEST: Final = 4
"""So far a digest follows what functions close over."""
BY_HASH: Final = frozenset({"set", "frozenset", "hash"})
SET_OPS: Final = frozenset({"BUILD_SET", "SET_ADD", "SET_UPDATE"})
VIEWS: Final = frozenset({"keys", "items"})
"""Differences and the like of these are sets."""


class Unkept(Exception):
    """This cannot be serialised for another process."""


def digest_of(*parts: str) -> str:
    """Differs where any part does."""
    sizes = " ".join([str(len(part)) for part in parts])
    return hashlib.sha256("\n".join([sizes, *parts]).encode("utf-8", "surrogatepass")).hexdigest()


# -- code ----------------------------------------------------------------------------------------------------
_codes: dict[int, tuple[types.CodeType, str]] = {}


def code_digest(code: types.CodeType) -> str:
    """What the code does, with the name and the file that it says it has."""
    known = _codes.get(id(code))
    if known is None or known[0] is not code:
        if len(_codes) >= 512:
            _codes.clear()
        known = _codes[id(code)] = code, _code_digest(code)
    return known[1]


def _code_digest(code: types.CodeType) -> str:
    if code.co_filename.startswith(ROOT):  # whose files are known
        return f"{code.co_filename} {code.co_firstlineno} {code.co_qualname}"
    shape = (
        code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags, code.co_stacksize,
        code.co_nlocals, code.co_code, code.co_exceptiontable, code.co_names, code.co_varnames,
        code.co_freevars, code.co_cellvars, code.co_name, code.co_qualname, code.co_filename,
        code.co_firstlineno,
    )  # fmt: skip
    return digest_of(repr(shape), *map(constant_text, code.co_consts))


def constant_text(value: Any) -> str:
    """A constant of a code object, with types and bits."""
    kind = type(value)
    if kind is types.CodeType:
        return code_digest(value)
    if kind is float:
        return f"float {struct.pack('<d', value).hex()}"
    if kind is complex:
        return f"complex {struct.pack('<dd', value.real, value.imag).hex()}"
    if kind is tuple:
        return f"({', '.join(map(constant_text, value))})"
    if kind is frozenset:
        return f"{{{', '.join(sorted(map(constant_text, value)))}}}"
    return f"{kind.__name__} {value!r}"


@functools.lru_cache(256)
def walks_by_hash(code: types.CodeType) -> bool:
    """Whether what the code does may depend on the hashes of texts, which processes do not share."""
    if BY_HASH.intersection(code.co_names):
        return True
    names = {instruction.opname for instruction in dis.get_instructions(code)}
    if names & SET_OPS or ("BINARY_OP" in names and VIEWS.intersection(code.co_names)):
        return True
    for value in code.co_consts:
        if type(value) is types.CodeType and walks_by_hash(value):
            return True
        if type(value) is frozenset and not all(type(item) in (int, bool, type(None)) for item in value):
            return True
    return False


# -- functions and classes -----------------------------------------------------------------------------------
def function_digest(function: types.FunctionType, depth: int = 0) -> str:
    """What a function does, with what it closes over as far as that is functions, ops and plain values.
    Functions of ops are written when first called, so these are known by their ops.
    """
    op = function.__dict__.get("op")
    if isinstance(op, Op) and REGISTRY.get(op.qualified_name) is op:
        if function.__code__.co_filename.startswith(GENERATED):
            return f"op {op.qualified_name}"
    cells = []
    for cell in function.__closure__ or () if depth < DEEPEST else ():
        try:
            cells.append(part_text(cell.cell_contents, depth + 1))
        except ValueError as error:
            let_through(error)
            cells.append("unset")
    marks = repr(function.__dict__.get(MARK))
    return digest_of(code_digest(function.__code__), marks, *cells)


def part_text(value: Any, depth: int) -> str:
    kind = type(value)
    if kind is types.FunctionType:
        return function_digest(value, depth)
    if kind in (staticmethod, classmethod):
        return f"{kind.__name__} {part_text(value.__func__, depth)}"
    if kind is property:
        parts = (value.fget, value.fset, value.fdel)
        return f"property {' '.join([part_text(part, depth) for part in parts])}"
    if isinstance(value, Op):
        return f"op {value.qualified_name}"
    if is_a(value, type):
        return f"class {value.__module__}.{value.__qualname__}"
    if kind is types.BuiltinFunctionType:
        return f"builtin {value.__module__}.{value.__qualname__}"
    if kind is tuple:
        return f"({' '.join([part_text(item, depth) for item in value])})"
    if kind in (int, float, str, bytes, bool, type(None), complex) and depth:
        return constant_text(value)
    return kind.__qualname__


Classes = dict[type, str]
"""Digests of what classes define themselves, for as long as nobody can change them."""


def class_digest(cls: type, known: Classes) -> str:
    """What a class defines: functions by what they do, the rest by its type (guards say what was read)."""
    kinds = (*class_mro(cls), *class_mro(type(cls)))
    return digest_of(*[known.get(kind) or own_digest(kind, known) for kind in kinds])


def own_digest(cls: type, known: Classes) -> str:
    lines = [f"{cls.__module__}.{cls.__qualname__}"]
    if not written_in_c(cls):
        for name, value in class_dict(cls).items():
            if type(value) in DEFINING or isinstance(value, Op):
                lines.append(f"{name} {part_text(value, 0)}")
    known[cls] = digest_of(*sorted(lines))
    return known[cls]


DEFINING: Final = frozenset(
    {
        types.FunctionType, staticmethod, classmethod, property, types.MemberDescriptorType,
        types.GetSetDescriptorType,
    }
)  # fmt: skip


# -- the library ---------------------------------------------------------------------------------------------
def is_ours(name: str) -> bool:
    """Whether a module is of this library, of Python or NumPy: these are known by their versions."""
    top = name.partition(".")[0]
    if top not in ("weft", "numpy") and (top not in sys.stdlib_module_names or top == "__main__"):
        return False
    file = getattr(sys.modules.get(name), "__file__", None)  # what is part of the interpreter has none
    return file is None or (
        type(file) is str and file.startswith((ROOT, *library())) and not is_foreign(file)
    )


def is_foreign(file: str) -> bool:
    """Whether a file below Python's own folder was put there by others."""
    return "site-packages" in file and not file.startswith((ROOT, *library()[1:]))


def untouched() -> Steps[bool]:
    """Whether no function of this library was replaced by one from elsewhere."""
    places = (ROOT, GENERATED, *library())
    for name, module in list(sys.modules.items()):
        if name.startswith("weft.") or name == "weft":
            yield
            for value in list(getattr(module, "__dict__", {}).values()):
                if type(value) is types.FunctionType:
                    if not value.__code__.co_filename.startswith(places):
                        return False
    return True


@functools.cache
def library() -> tuple[str, ...]:
    """Where functions of Python's and NumPy's come from."""
    files = [str(module.__file__) for module in (os, np)]
    homes = [os.path.dirname(os.path.abspath(file)) + os.sep for file in files]
    return (*homes, "<frozen ")


# -- files ---------------------------------------------------------------------------------------------------
@functools.cache
def started() -> float:
    """When this process began, in seconds since the epoch; 0 where that is not known."""
    try:
        with open("/proc/self/stat", "rb") as file:
            ticks = int(file.read().rpartition(b")")[2].split()[19])
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, AttributeError) as error:
        let_through(error)
        return 0.0
    return time.time() - age


_main = getattr(sys.modules.get("__main__"), "__file__", None)
MAIN_FILE: Final = os.path.abspath(_main) if type(_main) is str else None
"""Of the script, which forgets it when it ends."""


def file_of_module(name: str) -> str:
    """The file that a module was read from."""
    file = MAIN_FILE if name == "__main__" else getattr(sys.modules.get(name), "__file__", None)
    if type(file) is not str or not os.path.isabs(file):
        raise Unkept(f"{name}, which has no file")
    return file


def file_digest(path: str) -> str:
    """The content of a file that this process has read as it is now. Unkept where it may have changed since
    the process began, or is none.
    """
    try:
        with open(path, "rb") as file:
            if os.fstat(file.fileno()).st_mtime >= started():
                raise Unkept(f"{path} has changed")
            return hashlib.sha256(file.read()).hexdigest()
    except OSError as error:
        let_through(error)
        raise Unkept(f"{path} is no file") from None


def member_lines(member: enum.Enum) -> list[str]:
    """All that a member of an enum says."""
    lines = []
    for name, value in instance_dict(member).items():
        if type(value) in (int, float, str, bytes, bool, complex, type(None)):
            lines.append(f"{name} {constant_text(value)}")
        elif value is not type(member):
            raise Unkept(f"a member of {type(member).__qualname__} that holds an object")
    return sorted(lines)


# -- names ---------------------------------------------------------------------------------------------------
def name_facts(value: Any, known: Classes) -> tuple[str, str]:
    """The importable name of an object, and a digest of what it is; Unkept where it has no name that is sure
    to mean the same elsewhere.
    """
    name = importable_name(value)
    if name is None:
        raise Unkept(f"an object of type {type(value).__qualname__} without a name")
    home = name.partition(":")[0]
    if is_a(value, types.ModuleType):
        return name, "module"
    if is_a(value, type):
        if written_in_c(value):
            if not is_ours(home):
                raise Unkept(f"{name}, a class that is not written in Python")
            return name, "class"
        return name, class_digest(value, known)
    if is_a(value, enum.Enum):
        return name, digest_of(class_digest(type(value), known), *member_lines(value))
    if not is_ours(home):
        raise Unkept(f"{name}, a function or object that the user defined")
    if type(value) is types.FunctionType:
        return name, function_digest(value)
    return name, f"{type(value).__module__}.{type(value).__qualname__}"
