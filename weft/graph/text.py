"""The graph as Python: FX's text for people, and the function that runs.

Takes a graph; `python_code` gives the text of `forward`, `compile_graph` the function. One idea: both are the
same statements under two spellings, and each line frees the values whose last use it is.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import field
from functools import partial
from textwrap import indent
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final

from weft.core.origins import GRAPH
from weft.core.records import record
from weft.core.warn import LINES
from weft.graph.describe import describe_readable
from weft.graph.names import Paths
from weft.graph.node import Node
from weft.graph.spelling import Executable, Readable

if TYPE_CHECKING:
    from weft.graph.graph import Graph

Describe = Callable[[Any], str | None]
_numbers: Final = itertools.count()
READS_GRAPH: Final = "reads_graph"
"""The attribute of compilers that take a module's graph, and do not call its `forward` in general."""
TAKES_SIZES = "takes_sizes"
"""The attribute of compilers that take graphs whose sizes are open."""


@record
class PythonCode:
    """The text of `forward`, the globals that it needs to run, and the graphs among its arguments."""

    src: str
    globals: dict[str, Any] = field(default_factory=dict)
    lines: dict[int, tuple[Any, ...]] = field(default_factory=dict)
    """What its lines stand for, where that is known: a file of the user's and a line."""
    graphs: dict[str, Graph] = field(default_factory=dict)


def last_uses(graph: Graph) -> dict[Node, list[Node]]:
    """For each node, the inputs whose last use it is; an unused node frees itself."""
    last: dict[Node, Node] = {}
    freed: dict[Node, list[Node]] = {}
    for node in reversed(graph.nodes):
        for used in node._inputs:
            if used not in last:
                last[used] = node
                freed.setdefault(node, []).append(used)
    return freed


def _parameter(node: Node, spelling: Readable, annotation: str) -> str:
    default = f" = {spelling.value(node.args[0])}" if node.args else ""
    return f"{node.target}{annotation}{default}"


def _freeing(gone: list[Node], spelling: Readable) -> str:
    return f";  {' = '.join([*map(spelling.node, gone), 'None'])}" if gone else ""


class _Annotations:
    """What stands between a name and its `=`: the value's type when verbose, else the type expression."""

    def __init__(self, spelling: Readable, verbose: bool, describe: Describe) -> None:
        self.spelling, self.verbose, self.describe = spelling, verbose, describe

    def of(self, node: Node) -> str:
        text = self.describe(node.meta.get("val")) if self.verbose and "val" in node.meta else None
        if text is not None:
            return f': "{text}"'
        return f" : {self.type_text(node.type)}" if node.type is not None else ""

    def type_text(self, kind: object) -> str:
        return self.spelling.target(kind) if isinstance(kind, type) else str(kind)


def _source_line(node: Node) -> str | None:
    """`# File: model.py:12 in forward, code: y = x + 1`, from `meta["source"]`."""
    return node.told_source("# File: {}:{} in {}", ", code: {}")


def python_code(
    graph: Graph,
    root_module: str = "self",
    *,
    verbose: bool = False,
    namespace: str | None = None,
    describe: Describe = describe_readable,
) -> PythonCode:
    """FX's text. `verbose` adds types from `meta["val"]` and the user's lines."""
    spelling = Readable(Paths(namespace))
    annotations = _Annotations(spelling, verbose, describe)
    freed = last_uses(graph)
    parameters, body = [], []
    returns = ""
    previous: str | None = None
    for node in graph.nodes:
        if node.op == "placeholder":
            parameters.append(_parameter(node, spelling, annotations.of(node)))
            raw = node.target.replace("*", "")
            if raw != node.name:
                body.append(f"{node.name} = {raw}")
            continue
        if node.op == "output":
            if node.type is not None:
                returns = f" -> {annotations.type_text(node.type)}"
            body.append(f"return {spelling.value(node.args[0])}")
            continue
        if verbose:
            where = _source_line(node)
            if where != previous or previous is None:
                if where is not None:
                    body += ["", where] if body else [where]
                elif previous != "":
                    unknown = "# No stacktrace found for following nodes"
                    body += ["", unknown] if body else [unknown]
                previous = where if where is not None else ""
        gone = freed.get(node, []) + ([] if node.users else [node])
        body.append(spelling.statement(node, annotations.of(node)) + _freeing(gone, spelling))
    head = ", ".join([root_module, *parameters]) if root_module else ", ".join(parameters)
    lines = [f"    {line}" if line else "" for line in body or ["pass"]]
    text = f"\n\n\ndef {graph.name}({head}){returns}:\n" + "\n".join(lines) + "\n    "
    return PythonCode(text, graphs=dict(spelling.graphs.values()))


def class_text(graph: Graph, name: str, inner: dict[str, str] | None = None, **options: Any) -> str:
    """The graph as a module's class, with `inner` classes and those of the graphs among its arguments."""
    code = python_code(graph, verbose=True, **options)
    texts = [code.src.strip() + "\n", *(inner or {}).values()]
    texts += [class_text(among, key, **options) for key, among in code.graphs.items()]
    namespace = Paths(options.get("namespace")).namespace
    return f"class {name}({namespace}.nn.Module):\n" + indent("\n".join(texts), "    ")


# -- running -------------------------------------------------------------------------------------------------
class _Text:
    """Hands the generated text to tracebacks, when one is printed."""

    def __init__(self, text: str) -> None:
        self.text = text

    def get_source(self, name: str) -> str:
        return self.text


def executable_code(graph: Graph) -> PythonCode:
    """The text that runs, and its globals. Parameters are used under their own names."""
    spelling = Executable()
    names = {node.name for node in graph.nodes}
    parameters, body = [], []
    places: dict[int, tuple[Any, ...]] = {}
    freed = last_uses(graph)
    for node in graph.nodes:
        if node.op == "placeholder":
            raw = node.target.replace("*", "")
            if raw == node.name or raw not in names:
                spelling.renamed[node] = raw
            else:
                body.append(f"{node.name} = {raw}")
            parameters.append(_parameter(node, spelling, ""))
        elif node.op == "output":
            body.append(f"return {spelling.value(node.args[0])}")
        else:
            body.append(spelling.statement(node) + _freeing(freed.get(node, []), spelling))
            if node.meta.get("source") is not None:
                places[len(body) + 1] = node.meta["source"]  # the first line is the head
    head = ", ".join(["self", *parameters])
    lines = [f"    {line}" for line in body or ["pass"]]
    for name, inner in spelling.graphs.values():
        spelling.bound[name] = partial(compile_graph(inner), None)
    return PythonCode(f"def forward({head}):\n" + "\n".join(lines) + "\n", spelling.bound, places)


def compile_graph(graph: Graph) -> FunctionType:
    """The graph as one Python function `forward(self, …)`; a graph without attributes takes any `self`."""
    code = executable_code(graph)
    number = next(_numbers)
    namespace: dict[str, Any] = {
        **code.globals,
        "__name__": f"weft.generated.graph_{number}",
        "__loader__": _Text(code.src),  # linecache asks it, so that tracebacks show the line
        LINES: code.lines,
    }
    # No angle brackets around the file's name: linecache would not ask for it.
    exec(compile(code.src, f"{GRAPH}-{number}", "exec"), namespace)
    function: FunctionType = namespace.pop("forward")
    function.__name__ = graph.name if graph.name.isidentifier() else "forward"
    return function
