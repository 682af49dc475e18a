"""Functions that take their arguments in a list, and empty it: so that they alone hold them.

Takes a graph module; gives a function `call(values)`. One idea: arguments of an ordinary call stay with the
caller until it returns, and residuals would live as long as the whole backward; taken out of a list, each is
freed at its last use.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.core.origins import GRAPH
from weft.graph.text import executable_code
from weft.trace.module import GraphModule

BOXED = "_boxed_call"
"""The attribute by which such functions are known."""


def boxed(module: GraphModule) -> Callable[[list[Any]], Any]:
    """The module's `forward` as a function of a list."""
    code = executable_code(module.graph)
    head, _, body = code.src.partition("\n")
    parameters = [node.target for node in module.graph.placeholders]
    assert head == f"def forward({', '.join(['self', *parameters])}):", head
    lines = [f"    [{', '.join(parameters)}] = values", "    values.clear()"] if parameters else []
    text = "\n".join(["def forward(self, values):", *lines, body])
    namespace: dict[str, Any] = dict(code.globals)
    exec(compile(text, f"{GRAPH}-of-list-{id(module)}", "exec"), namespace)
    function = namespace.pop("forward")

    def call(values: list[Any]) -> Any:
        return function(module, values)

    setattr(call, BOXED, True)
    return call


def of_list(function: Callable[..., Any]) -> Callable[[list[Any]], Any]:
    """Any function as a function of a list."""
    if getattr(function, BOXED, False):
        return function

    def call(values: list[Any]) -> Any:
        return function(*values)

    call.function = function  # type: ignore[attr-defined]
    return call
