"""Stepping: graphs run op by op, each op reported at the user's line.

Takes a graph module; gives a function that runs it and says, before the next op runs, which line asked for
this one and what came of it. One idea: it is an interpreter that talks; `WEFT_DEBUG=step` puts it where
machine code would be, so gradients are reported as well.
"""

from __future__ import annotations

import linecache
import os
import sys
from collections.abc import Callable
from typing import Any

from weft.core.dtypes import float64
from weft.graph.describe import describe_readable
from weft.graph.node import Node
from weft.tensor.base import Tensor
from weft.trace.fx import Interpreter


class Telling(Interpreter):
    """Runs a graph, and tells each op on standard error."""

    def run_node(self, n: Node) -> Any:
        result = super().run_node(n)
        if n.op.startswith("call"):
            print(told(n, result), file=sys.stderr)
        return result


def stepped(graph_module: Any, _example_inputs: Any) -> Callable[..., Any]:
    """A compiler for `weft.compiler.aot` that compiles nothing."""

    def run(*inputs: Any) -> Any:
        runner = Telling(graph_module)
        runner.extra_traceback = False  # errors are eager's
        return runner.run(*inputs)

    return run


def told(node: Node, result: Any) -> str:
    """`model.py:12  y = x @ w  |  matmul: f32[2, 3], -1.2 to 3.4, mean 0.5`"""
    source = node.meta.get("source")
    place = "(made by the compiler)"
    if source:
        file, line = source[:2]
        place = f"{os.path.basename(file)}:{line}  {linecache.getline(file, line).strip()}".rstrip()
    target = node.target if isinstance(node.target, str) else getattr(node.target, "name", None)
    name = target or getattr(node.target, "__name__", str(node.target))
    return f"{place}  |  {name}: {_text(result)}"


def _text(value: Any) -> str:
    if isinstance(value, (tuple, list)):
        return f"({', '.join(map(_text, value))})"
    if not isinstance(value, Tensor):
        return repr(value)
    kind = describe_readable(value) or "a tensor"
    if not value.numel() or value.dtype.is_complex:
        return kind
    numbers = value.detach().to(float64)
    if value.numel() == 1:
        return f"{kind} {numbers.item():.6g}"
    low, high, mean = numbers.min().item(), numbers.max().item(), numbers.mean().item()
    return f"{kind}, {low:.4g} to {high:.4g}, mean {mean:.4g}"
