"""Backends for tests: they run graphs as they are, and remember what they were given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.capture.runtime import count_ops
from weft.compiler import lookup_backend

__all__ = ["CompileCounter", "CompileCounterWithBackend", "EagerAndRecordGraphs"]


class CompileCounter:
    """Counts graphs (`frame_count`) and the calls in them (`op_count`)."""

    def __init__(self) -> None:
        self.frame_count = 0
        self.op_count = 0

    def __call__(self, graph_module: Any, example_inputs: list[Any]) -> Callable[..., Any]:
        self.frame_count += 1
        self.op_count += count_ops(graph_module.graph)
        forward: Callable[..., Any] = graph_module.forward
        return forward

    def clear(self) -> None:
        self.frame_count = self.op_count = 0


class CompileCounterWithBackend(CompileCounter):
    """Counts, keeps the graph modules in `graphs`, and lets another backend compile them."""

    def __init__(self, backend: Any) -> None:
        super().__init__()
        self.backend = backend
        self.graphs: list[Any] = []

    def __call__(self, graph_module: Any, example_inputs: list[Any]) -> Callable[..., Any]:
        super().__call__(graph_module, example_inputs)
        self.graphs.append(graph_module)
        return lookup_backend(self.backend)(graph_module, example_inputs)

    def clear(self) -> None:
        super().clear()
        self.graphs = []


class EagerAndRecordGraphs:
    """Keeps the graph modules in `graphs` and runs them as they are."""

    def __init__(self) -> None:
        self.graphs: list[Any] = []

    def __call__(self, graph_module: Any, example_inputs: list[Any]) -> Callable[..., Any]:
        self.graphs.append(graph_module)
        forward: Callable[..., Any] = graph_module.forward
        return forward
