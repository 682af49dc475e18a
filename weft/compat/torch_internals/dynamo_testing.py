"""What PyTorch's test files import from `torch._dynamo.testing` beside the names of `weft.testing`.

Takes graphs and tests; gives backends that remember more, and decorators.
"""

from __future__ import annotations

import re
import sys
import unittest
from collections.abc import Callable
from typing import Any

from weft.aot.backends import aot, as_it_is
from weft.compiler import lookup_backend, optimize
from weft.testing.backends import CompileCounter, EagerAndRecordGraphs
from weft.testing.programs import expectedFailureDynamic

PYTHON_314 = hasattr(sys, "remote_exec")
skipIfNotPy314 = unittest.skipIf(not PYTHON_314, "Requires Python 3.14+")
expectedFailureDynamicWrapper = expectedFailureDynamic


def requires_static_shapes(fn: Any) -> Any:
    """Sizes are fixed until they are seen to vary."""
    return fn


def _squash_blank_lines(code: str) -> str:
    """Without a blank line after another."""
    return re.sub(r"\n{3,}", "\n\n", code)


class CompileCounterInt(CompileCounter):
    """A `CompileCounter` for code over integers."""


class AotEagerAndRecordGraphs(EagerAndRecordGraphs):
    """Keeps captured graphs in `graphs`, those of forward in `fw_graphs`, of backward in `bw_graphs`."""

    def __init__(self) -> None:
        super().__init__()
        self.fw_graphs: list[Any] = []
        self.bw_graphs: list[Any] = []

    def __call__(self, graph_module: Any, example_inputs: list[Any]) -> Callable[..., Any]:
        super().__call__(graph_module, example_inputs)

        def forward(graph: Any, inputs: list[Any]) -> Callable[..., Any]:
            self.fw_graphs.append(graph)
            return as_it_is(graph, inputs)

        def backward(graph: Any, inputs: list[Any]) -> Callable[..., Any]:
            self.bw_graphs.append(graph)
            return as_it_is(graph, inputs)

        found: Callable[..., Any] = aot(forward, backward)(graph_module, example_inputs)
        return found


class InductorAndRecordGraphs(EagerAndRecordGraphs):
    """Keeps captured graphs in `graphs` and compiles them natively."""

    def __call__(self, graph_module: Any, example_inputs: list[Any]) -> Callable[..., Any]:
        super().__call__(graph_module, example_inputs)
        return lookup_backend("native")(graph_module, example_inputs)


def extract_graph(fn: Any, *args: Any, **kwargs: Any) -> Any:
    """What a call gives, with its captured graphs, those of forward and those of backward."""
    backend = AotEagerAndRecordGraphs()
    result = optimize(backend)(fn)(*args, **kwargs)
    return result, backend.graphs, backend.fw_graphs
