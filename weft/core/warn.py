"""Warnings of the library: at the line of the user's (or of a module's) that called it, whichever way.

Takes texts and the names of categories; gives warnings. One idea: what lies between is known by its file's
name, and who runs a graph can say which line of the user's a node stands for.
"""

from __future__ import annotations

import builtins
import os
import sys
import warnings
from types import FrameType
from typing import Any, Final

from weft.core.seams import seams

PACKAGE: Final = f"{os.path.dirname(os.path.dirname(os.path.abspath(__file__)))}{os.sep}"
MODULES: Final = f"{PACKAGE}nn{os.sep}modules{os.sep}"
LINES: Final = "__lines__"
"""Where the globals of generated code have, by line, the file and line of the user's that it stands for."""
REGISTRY: Final = "__warningregistry__"
_warn: Final = warnings.warn


def warn(text: str, category: str = "UserWarning") -> None:
    """Warns at the line that led to this call. While a graph is recorded, nobody is warned:
    running it will.
    """
    kind = getattr(builtins, category)
    if warnings.warn is not _warn:  # somebody wants to know of warnings before they are given
        warnings.warn(text, kind, stacklevel=2)
        return
    if seams.warned(text, category):
        return
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        file, space = frame.f_code.co_filename, frame.f_globals
        ours = file.startswith((PACKAGE, "<weft", "weft-graph")) and not file.startswith(MODULES)
        place = _place(frame) if ours else None
        if place is not None:
            _warn_of_graph(text, kind, place, space)
            return
        if not ours:
            registry = space.setdefault(REGISTRY, {})
            warnings.warn_explicit(text, kind, file, frame.f_lineno, space.get("__name__") or file, registry)
            return
        frame = frame.f_back
    warnings.warn(text, kind, stacklevel=2)


def _place(frame: FrameType) -> Any:
    """What a frame that runs a graph, generated or node by node, is at: a file and a line, or None."""
    known = frame.f_globals.get(LINES)
    if known is not None:
        return known.get(frame.f_lineno)
    return getattr(frame.f_locals.get("node"), "meta", {}).get("source")


def _warn_of_graph(text: str, kind: type[Warning], place: tuple[Any, ...], space: dict[str, Any]) -> None:
    """As the user's code would: its module knows which warnings it has given."""
    file, line = place[:2]
    modules = list(sys.modules.values())
    names: dict[str, Any] = next((vars(m) for m in modules if getattr(m, "__file__", None) == file), space)
    registry = names.setdefault(REGISTRY, {})
    name = file if names is space else names["__name__"]
    warnings.warn_explicit(text, kind, file, line, name, registry)
