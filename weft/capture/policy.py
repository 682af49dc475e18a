"""Policy: whether a Python function is interpreted, called as it is, put into the graph whole, or a break.

One idea: the decision depends on the function's module and on marks that the compiler's decorators set, never
on what it does.
"""

from __future__ import annotations

import enum
import types


class Policy(enum.Enum):
    """What capture does with a call of a Python function."""

    INLINE = "interpreted"
    NATIVE = "called as it is"
    IN_GRAPH = "one node in the graph"
    BREAK = "a break"


MARK = "_weft_capture_policy"
"""Attribute of functions: a `Policy` and a reason, set by the compiler's decorators."""

INLINED_STDLIB = frozenset(
    {
        "abc", "collections", "collections.abc", "_collections_abc", "contextlib", "copyreg", "dataclasses",
        "enum", "functools", "heapq", "bisect", "itertools", "numbers", "operator", "statistics", "string",
        "types", "typing", "_weakrefset", "reprlib", "keyword", "fractions", "graphlib", "colorsys",
    }
)  # fmt: skip
PREDICATES = frozenset(
    {
        "isbuiltin", "isclass", "isfunction", "isgenerator", "ismethod", "ismodule", "isroutine",
        "iscoroutine", "isawaitable",
    }
)  # fmt: skip
"""Functions of `inspect` that do no more than ask for the class of an object."""
SKIPPED_TOP = frozenset(
    {
        "asyncio", "atexit", "builtins", "concurrent", "contextvars", "copy", "ctypes", "datetime", "decimal",
        "faulthandler", "gc", "gzip", "hashlib", "http", "importlib", "inspect", "io", "json", "linecache",
        "locale", "logging", "multiprocessing", "numpy", "os", "pathlib", "pdb", "pickle", "pkgutil",
        "platform", "posixpath", "pprint", "queue", "random", "re", "secrets", "selectors", "shutil",
        "signal", "socket", "ssl", "subprocess", "sys", "tempfile", "threading", "time", "timeit",
        "tokenize", "traceback", "tracemalloc", "unittest", "urllib", "uuid", "warnings", "weakref",
        "xml", "zipfile", "scipy", "llvmlite", "pytest", "_pytest", "hypothesis", "rich",
    }
)  # fmt: skip


def policy_of(function: types.FunctionType) -> tuple[Policy, str]:
    mark: tuple[Policy, str] | None = function.__dict__.get(MARK) if function.__dict__ else None
    if mark is not None:
        return mark
    module = function.__globals__.get("__name__") or ""
    if module in INLINED_STDLIB or module == "inspect" and function.__name__ in PREDICATES:
        return Policy.INLINE, ""
    if module.split(".")[0] in SKIPPED_TOP:
        return Policy.BREAK, f"{module}.{function.__qualname__}"
    return Policy.INLINE, ""
