"""The kinds of breaks: why capture stops there and what to try, and how a break reads.

Takes a kind, what was seen and the place; gives the text that logs and errors share. One idea: this table is
the only list of kinds, so that what the user reads, the documentation and the tests agree.
"""

from __future__ import annotations

import linecache
import os
from collections.abc import Sequence
from typing import Any, Final

from weft.core.interrupts import let_through
from weft.core.naming import naming
from weft.core.records import record
from weft.trace.breaks import Break


@record(frozen=True, slots=True)
class BreakKind:
    """Why capture cannot go on there, and what the user may do."""

    why: str
    try_: str


LEAVE = "the code around it is still captured; move it out of the compiled function to save the break."

KINDS: Final[dict[str, BreakKind]] = {
    # -- values that only running can tell
    "data-dependent-branch": BreakKind(
        "the branch depends on a tensor's value, which is unknown while capturing.",
        "weft.where(...) keeps both sides in one graph; weft.cond(...) if they do different work.",
    ),
    "data-dependent-value": BreakKind(
        "the code needs a tensor's elements as Python numbers, which are unknown while capturing.",
        "keep it a tensor (0-dim tensors add and multiply like numbers), pass Python numbers in its place, "
        "or read it after the compiled call.",
    ),
    "data-dependent-shape": BreakKind(
        "how large the result is depends on a tensor's value, which is unknown while capturing.",
        "a form of fixed size: weft.where(mask, x, 0) for x[mask], a multiplication by the mask for a sum.",
    ),
    "data-dependent-print": BreakKind(
        "printing a tensor needs its elements, which are unknown while capturing.",
        "print shapes and dtypes, or print after the compiled call.",
    ),
    "value-varies": BreakKind(
        "the code needs this number or text as it is, and it was different in every call so far.",
        "nothing, if it is to be printed; else keep it a tensor.",
    ),
    "address-in-text": BreakKind(
        "the text would contain an object's address, which differs in the next call.",
        "give the class a __repr__, or format its attributes.",
    ),
    # -- calls
    "builtin-call": BreakKind(
        "a builtin that acts on the world outside, or is not known to be free of effects, runs as it is.",
        LEAVE,
    ),
    "builtin-protocol": BreakKind(
        "a builtin would call a method of the object from C, where capture cannot follow.",
        "call the method itself, or write the loop in Python.",
    ),
    "numpy-call": BreakKind(
        "NumPy would need the elements of an array, write to it, or draw numbers, which a graph cannot.",
        "the function of the same name on tensors, or NumPy outside of the compiled function.",
    ),
    "skipped-function": BreakKind(
        "the function asked not to be captured, or breaks the graph on purpose.",
        "remove weft.compiler.disable or graph_break() if it is no longer needed.",
    ),
    "library-callback": BreakKind(
        "a library function would call the given Python function while no tensor has elements.",
        "call the function before and pass its result on.",
    ),
    "library-state": BreakKind(
        "the function changes or reads state of the library (seeds, defaults, files), which a graph cannot.",
        "call it before the compiled function.",
    ),
    "cannot-guard": BreakKind(
        "nothing could notice later that this object has changed.",
        "pass it as an argument, or keep it in an attribute of an ordinary object.",
    ),
    "higher-order-effects": BreakKind(
        "a function given to cond, while_loop, scan or map changes something outside of itself.",
        "return what it computes instead.",
    ),
    "higher-order-operands": BreakKind(
        "cond, while_loop, scan and map are captured with tensors as operands and results.",
        "weft.tensor(...) of the number, or close over it.",
    ),
    "recursion-depth": BreakKind(
        "the calls are nested more deeply than capture follows.",
        "a loop instead of recursion, or fewer levels.",
    ),
    "async": BreakKind(
        "coroutines and asynchronous generators run by their event loop, not by the caller.",
        "compile the plain functions that the coroutine calls.",
    ),
    "finaliser": BreakKind(
        "objects of a class with __del__ must die at the right time, which only running them gives.",
        "a context manager instead of __del__.",
    ),
    "frame-introspection": BreakKind(
        "the code looks at frames (locals(), sys._getframe), which do not exist while capturing.",
        "pass the values as arguments.",
    ),
    "nested-capture": BreakKind(
        "a compiled function was entered with values of another capture.",
        "compile the outer function only: what it calls is captured with it.",
    ),
    "transform-inside": BreakKind(
        "a tensor or hook that belongs to a function transform (vmap, grad, jvp) would outlive it.",
        "return what is needed from the transformed function, and keep nothing of it elsewhere.",
    ),
    # -- autograd and tensors
    "autograd-inside": BreakKind(
        "gradients would flow through history that capture cannot follow: made before the call, or partly "
        "freed.",
        "compute what is differentiated inside the compiled function, or take the gradients outside of it.",
    ),
    "tensor-metadata-write": BreakKind(
        "the code changes what a tensor is (its storage, size or requires_grad), not what it holds.",
        "make such changes before the compiled call.",
    ),
    "tensor-memory": BreakKind(
        "the code asks for a tensor's memory (address, storage or sharing), which fakes do not have.",
        "ask before or after the compiled call.",
    ),
    "tensor-strides": BreakKind(
        "the code depends on strides that are unknown while capturing.",
        "call contiguous() before, or ask for the shape instead.",
    ),
    "tensor-state": BreakKind(
        "the attribute is state of the autograd tape or of the storage, which fakes do not have.",
        "read it before the compiled call and pass it as an argument.",
    ),
    "tensor-attribute": BreakKind(
        "an attribute is set on a tensor that the captured code made, and which may never exist.",
        "keep the value beside the tensor, in a tuple or an object of your own.",
    ),
    "tensor-subclass": BreakKind(
        "the class of the tensor overrides calls (__torch_function__).",
        "convert with as_subclass(weft.Tensor) before the compiled call.",
    ),
    "sparse-tensor": BreakKind(
        "sparse tensors (and sparse gradients) are no part of graphs: how much they store varies.",
        "to_dense() before the compiled call; sparse=False for tables of embeddings.",
    ),
    "tensor-class": BreakKind(
        "a tensor is made by calling its class.",
        "weft.tensor(...), or a factory such as weft.zeros(...).",
    ),
    "unknown-tensor": BreakKind(
        "a tensor was reached through no argument, attribute or global that could be guarded.",
        "pass it as an argument.",
    ),
    "mode-change": BreakKind(
        "inference mode or autocast is entered or left inside, which changes how every call is recorded.",
        "enter it around the compiled call.",
    ),
    # -- objects
    "opaque-object": BreakKind(
        "the object's state is kept in C, where it can be neither read nor guarded.",
        "pass what is needed of it as arguments.",
    ),
    "opaque-iterator": BreakKind(
        "the iterator existed before: it walks no builtin container, or stands elsewhere in every call.",
        "make the iterator inside, or pass a list.",
    ),
    "unusual-object": BreakKind(
        "objects of this class carry more than capture can copy or guard.",
        "a dataclass, or a plain class with attributes.",
    ),
    "unusual-class": BreakKind(
        "the class makes or treats its objects in a way that capture does not follow (a metaclass, __new__).",
        "make the object before the compiled call.",
    ),
    "unusual-attribute": BreakKind(
        "the attribute is computed by C code that capture does not know.",
        "read it before the compiled call and pass it as an argument.",
    ),
    "unusual-descriptor": BreakKind(
        "the attribute is a descriptor written in C that capture does not know.",
        "a property, or a method.",
    ),
    "unusual-key": BreakKind(
        "the dict or set has keys that cannot be guarded.",
        "strings, numbers or tuples of them as keys.",
    ),
    "unset-slot": BreakKind(
        "a slot without a value is read.",
        "set it in __init__.",
    ),
    "set-order": BreakKind(
        "the set is iterated in an order that a copy of it would not have.",
        "a list or a dict, or sorted(...) before the compiled call.",
    ),
    "class-definition": BreakKind(
        "a class statement runs code of its own, and makes a new class in every call.",
        "define the class outside of the function.",
    ),
    "class-write": BreakKind(
        "an attribute of a class is set, which all of its objects see at once.",
        "set it on the object, or outside of the compiled function.",
    ),
    "function-state": BreakKind(
        "the code reads or changes what a function is made of (code, closure, globals).",
        "do so outside of the compiled function.",
    ),
    "generator-state": BreakKind(
        "a generator is used in a way that needs its running frame.",
        "a list, or the loop written out.",
    ),
    "generator-frame": BreakKind(
        "the function is itself a generator: it hands values out one by one while its caller runs.",
        "compile the function that consumes it, or what it calls.",
    ),
    "generator-dies": BreakKind(
        "a generator is dropped inside a `try` or `with` of its own, and closing it cannot be captured.",
        "run it to its end, or close it in code that runs as it is.",
    ),
    "exception-escapes": BreakKind(
        "the captured code raises an exception that its caller sees: the original runs, with its traceback.",
        "nothing, if the exception is meant; else handle it inside.",
    ),
    "foreign-exception": BreakKind(
        "an exception that existed before the call is raised, and would be changed by it.",
        "raise a new exception, `from` the old one if it matters.",
    ),
    "import": BreakKind(
        "an import may run a whole module.",
        "import at the top of the file.",
    ),
    "cannot-perform": BreakKind(
        "the step that broke the graph cannot be carried out between two segments.",
        "move it out of the compiled function.",
    ),
    "cannot-resume": BreakKind(
        "the rest of the function cannot be entered in the middle here.",
        "move the step that breaks out of this block, or into a function of its own.",
    ),
    "cannot-rebuild": BreakKind(
        "an object that the captured code made would have to exist after it, and cannot be made again.",
        "return plain containers, dataclasses or objects of ordinary classes.",
    ),
    "traceback": BreakKind(
        "the traceback of an exception is looked at, and does not exist while capturing.",
        "look at the exception's type and arguments, or handle it outside of the compiled function.",
    ),
    # -- the world around
    "module-getattr": BreakKind(
        "the module computes the attribute in a __getattr__ of its own.",
        "import the name at the top of the file.",
    ),
    "unknown-module": BreakKind(
        "the module cannot be found under its name, so that what is read from it cannot be guarded.",
        "import it the ordinary way.",
    ),
    "unknown-globals": BreakKind(
        "the function's globals belong to no module that could be found again.",
        "define the function in a module, or pass what it needs as arguments.",
    ),
    "unsupported": BreakKind(
        "capture does not know this.",
        LEAVE,
    ),
}


def kind_of(name: str) -> BreakKind:
    """The entry of the table; a kind that is missing reads as unsupported rather than failing."""
    return KINDS.get(name) or KINDS["unsupported"]


def advice(stop: Break | None, reason: str = "") -> tuple[str, str]:
    """Why and what to try, of a break or a reason that begins with a kind; empty texts for other reasons."""
    if stop is None:
        entry = KINDS.get(reason.partition(":")[0])
        return ("", "") if entry is None else (entry.why, entry.try_)
    entry = kind_of(stop.kind)
    return stop.why or entry.why, stop.try_ or entry.try_


def render_break(
    kind: str,
    seen: str = "",
    file: str | None = None,
    line: int | None = None,
    function: str | None = None,
    positions: Any = None,
    *,
    why: str | None = None,
    try_: str | None = None,
) -> str:
    """The break as the user reads it. `positions` is (line, last line, column, end column) as code objects
    give them, columns in UTF-8 bytes.
    """
    entry = kind_of(kind)
    title = f"GraphBreak {kind}"
    if file is not None:
        title += f" at {short_path(file)}" + (f":{line}" if line is not None else "")
    if function is not None:
        title += f" in {function}"
    lines = [title]
    if file is not None and line is not None:
        lines += source_lines(file, line, positions)
    lines += [f"Why:  {why or entry.why}", f"Try:  {try_ or entry.try_}"]
    if seen:
        lines.append(f"Seen: {seen}")
    return "\n".join(lines)


def short_path(file: str) -> str:
    """The path, relative where it lies under the current folder."""
    if file.startswith("<"):
        return file
    try:
        relative = os.path.relpath(file)
    except (ValueError, OSError) as error:  # another drive, or a folder that is gone
        let_through(error)
        return file
    return file if relative.startswith(os.pardir) else relative


def source_lines(file: str, line: int, positions: Any = None) -> list[str]:
    """The source line, dedented to four blanks, and carets under the columns where they are known."""
    text = linecache.getline(file, line).rstrip("\n\r")
    code = text.strip()
    if not code:
        return []
    lines = ["    " + code.expandtabs(4)]
    span = _columns(text, line, positions)
    if span is not None:
        start, end = span
        indent = len(text) - len(text.lstrip())
        start, end = max(start, indent), min(end, len(text.rstrip()))
        if end > start:
            before = text[indent:start].expandtabs(4)
            width = len(text[indent:end].expandtabs(4)) - len(before)
            lines.append("    " + " " * len(before) + "^" * width)
    return lines


def _columns(text: str, line: int, positions: Any) -> tuple[int, int] | None:
    """First and last column, in characters, of what the positions mark in this line."""
    if positions is None:
        return None
    first, last, start, end = positions
    if start is None or first is not None and first != line:
        return None
    encoded = text.encode()
    begin = len(encoded[:start].decode(errors="replace"))
    if end is None or last is not None and last != line:
        return begin, len(text)
    return begin, len(encoded[:end].decode(errors="replace"))


class Unsupported(RuntimeError):
    """Raised instead of breaking where one graph was asked for; its text is the break's."""

    def __init__(self, text: str, kind: str = "unsupported") -> None:
        super().__init__(text)
        self.kind = kind

    def __reduce__(self) -> Any:
        return Unsupported, (self.args[0], self.kind)


def unsupported(stop: Break, *where: Any) -> Unsupported:
    """The error for a break at a place that is given as `render_break` takes it."""
    text = render_break(stop.kind, stop.seen, *where, why=stop.why, try_=stop.try_)
    if naming.namespace == "torch":
        text = "\n".join([text, *(f"Torch: {words}" for words in in_torch_words(stop.kind, stop.seen))])
    return Unsupported(text, stop.kind)


TORCH_TITLES: Final = {
    "data-dependent-branch": "Data-dependent branching",
    "data-dependent-value": "Unsupported Tensor.item() call with capture_scalar_outputs=False",
    "data-dependent-shape": "Dynamic shape operator",
    "data-dependent-print": "Failed to trace builtin operator",
    "class-definition": "LOAD_BUILD_CLASS bytecode not supported",
    "higher-order-effects": "HOP: Unsafe side effect; HigherOrderOperator: Mutating a variable not in "
    "the current scope (SideEffects)",
    "exception-escapes": "Observed exception",
    "skipped-function": "Attempted to call function marked as skipped",
}
"""What PyTorch calls such a break, for programs that look for its words."""


def in_torch_words(kind: str, seen: str) -> list[str]:
    """What a program that was written for PyTorch may look for in the text of a break."""
    title = TORCH_TITLES.get(kind)
    if kind == "builtin-call":
        name = seen.partition(": ")[2] or seen
        if "." in name:
            return ["Attempted to call function marked as skipped",
                    f"Dynamo does not know how to trace the builtin `{name}.`"]  # fmt: skip
        return ["Failed to trace builtin operator",
                f"Dynamo does not know how to trace builtin operator `{name}`"]  # fmt: skip
    if "graph_break(" in seen:
        return ["Call to `torch._dynamo.graph_break()`", "User-inserted graph break."]
    if seen.endswith("is disabled"):
        return ["Skip calling `torch.compiler.disable()`d function"]
    return [title] if title else []


def documentation(kinds: Sequence[str] | None = None) -> str:
    """The table as Markdown, for the manual."""
    rows = ["| kind | why | try |", "| --- | --- | --- |"]
    for name in KINDS if kinds is None else kinds:
        entry = kind_of(name)
        rows.append(f"| `{name}` | {entry.why} | {entry.try_} |")
    return "\n".join(rows)


def page() -> str:
    """docs/breaks.md, whole: `python -m weft.capture.kinds > docs/breaks.md` writes it anew."""
    head = """# Breaks

Where captured code does something that a graph cannot hold, the graph ends, the instruction runs as it is,
and capture goes on behind it. `weft.compiler.explain(f)(...)` lists the breaks of a call,
`WEFT_LOGS=breaks` prints them as they happen, and `fullgraph=True` makes them errors.

What needs no break: `assert`, `if weft.isnan(loss): raise ...` and whatever else does nothing but raise on
one side, ops that fail on data, and `x.item()` as long as no code needs the number while capturing. A graph
checks before it has any effect; where a check does not hold, or an op fails, it is thrown away and the
original code runs from its start, with the right error at the right line.
`weft.compiler.counters["deoptimisations"]` counts such calls, `WEFT_LOGS=deoptimised` prints them, and a
graph that fails nine times in a row is not tried again.

Each break has a kind. This is the table that the messages are made of.

"""
    return f"{head}{documentation()}\n"


if __name__ == "__main__":
    print(page(), end="")
