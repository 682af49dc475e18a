"""Backends for tests: they run graphs as they are, and remember what they were given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.aot.backends import aot, as_it_is
from weft.capture.runtime import count_ops
from weft.compiler import lookup_backend, optimize


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


class CompileCounterWithBackend:
    """Counts, keeps the graph modules in `graphs`, and lets another backend compile them."""

    def __init__(self, backend: Any) -> None:
        self.backend = backend
        self.frame_count = 0
        self.op_count = 0
        self.graphs: list[Any] = []

    def __call__(self, graph_module: Any, example_inputs: list[Any]) -> Callable[..., Any]:
        self.frame_count += 1
        self.op_count += count_ops(graph_module.graph)
        self.graphs.append(graph_module)
        return lookup_backend(self.backend)(graph_module, example_inputs)

    def clear(self) -> None:
        self.frame_count = self.op_count = 0
        self.graphs = []


class EagerAndRecordGraphs:
    """Keeps the graph modules in `graphs` and runs them as they are."""

    def __init__(self) -> None:
        self.graphs: list[Any] = []

    def __call__(self, graph_module: Any, example_inputs: list[Any]) -> Callable[..., Any]:
        self.graphs.append(graph_module)
        forward: Callable[..., Any] = graph_module.forward
        return forward


class CompileCounterInt(CompileCounter):
    """A `CompileCounter` for code over integers."""


class AotEagerAndRecordGraphs:
    """Keeps captured graphs in `graphs`, those of forward in `fw_graphs`, of backward in `bw_graphs`."""

    def __init__(self) -> None:
        self.graphs: list[Any] = []
        self.fw_graphs: list[Any] = []
        self.bw_graphs: list[Any] = []

    def __call__(self, graph_module: Any, example_inputs: list[Any]) -> Callable[..., Any]:
        self.graphs.append(graph_module)

        def forward(graph: Any, inputs: list[Any]) -> Callable[..., Any]:
            self.fw_graphs.append(graph)
            return as_it_is(graph, inputs)

        def backward(graph: Any, inputs: list[Any]) -> Callable[..., Any]:
            self.bw_graphs.append(graph)
            return as_it_is(graph, inputs)

        return aot(forward, backward)(graph_module, example_inputs)  # type: ignore[no-any-return]


class InductorAndRecordGraphs:
    """Keeps captured graphs in `graphs` and compiles them natively."""

    def __init__(self) -> None:
        self.graphs: list[Any] = []

    def __call__(self, graph_module: Any, example_inputs: list[Any]) -> Callable[..., Any]:
        self.graphs.append(graph_module)
        return lookup_backend("native")(graph_module, example_inputs)


def extract_graph(fn: Any, *args: Any, **kwargs: Any) -> Any:
    """What a call gives, with its captured graphs, those of forward and those of backward."""
    backend = AotEagerAndRecordGraphs()
    result = optimize(backend)(fn)(*args, **kwargs)
    return result, backend.graphs, backend.fw_graphs
