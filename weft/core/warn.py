"""Warnings of the library: at the line of the user's (or of a module's) that called it, whichever way.

Takes texts and the names of categories; gives warnings. One idea: what lies between is known by its file's
name, and who runs a graph can say which line of the user's a node stands for.

Who traces or compiles listens to warnings, or hides them, for its own context: what the module `warnings`
itself offers for that changes it for all threads.
"""

from __future__ import annotations

import builtins
import os
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from contextvars import ContextVar
from functools import partial
from types import FrameType
from typing import Any, Final

from weft.core.contexts import Block, set_to
from weft.core.origins import FILES, PACKAGE
from weft.core.seams import seams

MODULES: Final = f"{PACKAGE}nn{os.sep}modules{os.sep}"
LINES: Final = "__lines__"
"""Where the globals of generated code have, by line, the file and line of the user's that it stands for."""
REGISTRY: Final = "__warningregistry__"
Said = tuple[str, type[Warning], str, int]
"""Text, category, file and line of a warning."""
Listener = Callable[[str], bool]
"""Is told what is about to be warned of, and says whether that is all. It may raise instead."""
_listener: Final[ContextVar[Listener | None]] = ContextVar("weft_warnings_listener", default=None)


def warn(text: str, category: str = "UserWarning") -> None:
    """Warns at the line that led to this call. While a graph is recorded, nobody is warned:
    running it will.
    """
    kind = getattr(builtins, category)
    listener = _listener.get()
    if listener is not None and listener(text):
        return
    if seams.warned(text, category):
        return
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        file, space = frame.f_code.co_filename, frame.f_globals
        ours = _is_ours(frame)
        place = _place(frame) if ours else None
        if place is not None:
            _warn_of_graph(text, kind, place, space)
            _note_given(frame, (text, kind, *place[:2]))
            return
        if not ours:
            if _is_repeated((text, kind, file, frame.f_lineno)):
                return
            registry = space.setdefault(REGISTRY, {})
            warnings.warn_explicit(text, kind, file, frame.f_lineno, space.get("__name__") or file, registry)
            return
        frame = frame.f_back
    warnings.warn(text, kind, stacklevel=2)


def _is_ours(frame: FrameType) -> bool:
    file = frame.f_code.co_filename
    return file.startswith(FILES) and not file.startswith(MODULES)


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


# -- what is said again --------------------------------------------------------------------------------------
GRAPH: Final = "_v_graph"
"""Where the globals of generated code that runs a captured graph have it."""
GIVEN: Final = "__given__"
"""And where they have what it has warned of: graphs as they run, nodes of theirs, and warnings."""
_repeated: Final[ContextVar[list[Said] | None]] = ContextVar("weft_warnings_repeated", default=None)


def _note_given(frame: FrameType, said: Said) -> None:
    node = frame.f_locals.get("node")
    if LINES in frame.f_globals:
        place = id(frame.f_code), frame.f_lineno
    else:
        place = id(getattr(node, "graph", None)), id(node)
    caller = frame.f_back
    while caller is not None and _is_ours(caller):
        caller = caller.f_back
    if caller is not None and GRAPH in caller.f_globals:
        caller.f_globals.setdefault(GIVEN, set()).add((*place, said))


def _is_repeated(said: Said) -> bool:
    waiting = _repeated.get()
    if waiting is None or said not in waiting:
        return False
    waiting.remove(said)
    return True


def given_by(space: dict[str, Any]) -> list[Said]:
    """What the graph of code with these globals has ever warned of, as often as one of the forms in which it
    runs (for other numbers, or strides) has nodes that did."""
    often = Counter([(graph, said) for graph, _node, said in list(space.get(GIVEN, ()))])
    most: Counter[Said] = Counter()
    for (_graph, said), times in often.items():
        most[said] = max(most[said], times)
    return list(most.elements())


def said_already(said: list[Said]) -> Block:
    """Around code that does again what a graph had begun to do: it does not warn again of what that has
    warned of. (What the graph had not come to, this code does not come to either: it fails where that did.)
    """
    return set_to((_repeated, [*said]))


def warn_at_level(message: str | Warning, category: type[Warning] | None = None, stacklevel: int = 1) -> None:
    """Warns as `warnings.warn` does, at a line that is as many calls away, unless this context forbids it."""
    listener = _listener.get()
    if listener is None or not listener(str(message)):
        warnings.warn(message, category, stacklevel=stacklevel + 1)


def heard(listener: Listener, by_users: bool = False) -> Block:
    """Meanwhile, this context's warnings are told to the listener before they are given, shown once already
    or not: those of the library, and, where functions of the user's run (`by_users`), all of Python code.
    """
    if by_users and sys.getprofile() is not None:
        listener("a function that cannot be watched while a profiler runs")
        by_users = False

    def called(_frame: FrameType, event: str, function: object) -> None:
        if event == "c_call" and function is warnings.warn:
            listener("a function of the user's")

    block = set_to((_listener, listener))
    if not by_users:
        return block
    watch, unwatch = partial(sys.setprofile, called), partial(sys.setprofile, None)  # of this thread
    return Block([block.__enter__, watch], [unwatch, block.close])


# -- hiding --------------------------------------------------------------------------------------------------
_hidden: Final[ContextVar[bool]] = ContextVar("weft_warnings_hidden", default=False)


def hidden() -> Block:
    """Meanwhile, no warning of this context is shown. (One that a filter makes an error is raised.)"""
    return set_to((_hidden, True), (_listener, lambda _text: True))


def _watched(show: Callable[[Any], None]) -> Callable[[Any], None]:
    def showwarnmsg(message: warnings.WarningMessage) -> None:
        if _hidden.get() or seams.is_compiling():
            _forget(message, sys._getframe(1))
        else:
            show(message)

    return showwarnmsg


def _forget(message: warnings.WarningMessage, frame: FrameType | None) -> None:
    """Nobody has seen it: next time it is as good as new."""
    while frame is not None and (frame.f_code.co_filename, frame.f_lineno) != (
        message.filename,
        message.lineno,
    ):
        frame = frame.f_back
    key = (str(message.message), message.category)
    registries: Any = (
        getattr(warnings, "onceregistry", {}),
        frame.f_globals.get(REGISTRY, {}) if frame else {},
    )
    for registry in registries:
        for full in (key, (*key, message.lineno), (*key, 0)):
            registry.pop(full, None)


# The one hook, put in once: what is captured warns when it is run, what is tried out does not warn at all.
# `catch_warnings` leaves this name alone, and calls come through it whatever it has exchanged.
warnings._showwarnmsg = _watched(warnings._showwarnmsg)  # type: ignore[attr-defined]
