"""Graphs for users: the names of `torch.fx`."""

from weft.graph.graph import Graph as Graph
from weft.graph.node import Node as Node
from weft.graph.node import map_arg as map_arg
from weft.trace.fx import Interpreter as Interpreter
from weft.trace.fx import Match as Match
from weft.trace.fx import Transformer as Transformer
from weft.trace.fx import replace_pattern as replace_pattern
from weft.trace.fx import symbolic_trace as symbolic_trace
from weft.trace.module import GraphModule as GraphModule
from weft.trace.proxy import GraphAppendingTracer as GraphAppendingTracer
from weft.trace.proxy import Proxy as Proxy
from weft.trace.proxy import TraceError as TraceError
from weft.trace.proxy import Tracer as Tracer
from weft.trace.wrapped import wrap as wrap

__all__ = [
    "Graph", "GraphAppendingTracer", "GraphModule", "Interpreter", "Match", "Node", "Proxy", "TraceError",
    "Tracer", "Transformer", "map_arg", "replace_pattern", "symbolic_trace", "wrap",
]  # fmt: skip
