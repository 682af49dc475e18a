"""Graphs for users: the names of `torch.fx`."""

from weft.graph.graph import Graph as Graph
from weft.graph.node import Node as Node
from weft.graph.node import has_side_effect as has_side_effect
from weft.graph.node import map_aggregate as map_aggregate
from weft.graph.node import map_arg as map_arg
from weft.trace.fx import Interpreter as Interpreter
from weft.trace.fx import Match as Match
from weft.trace.fx import ReplacedPatterns as ReplacedPatterns
from weft.trace.fx import Transformer as Transformer
from weft.trace.fx import replace_pattern as replace_pattern
from weft.trace.fx import replace_pattern_with_filters as replace_pattern_with_filters
from weft.trace.fx import symbolic_trace as symbolic_trace
from weft.trace.module import GraphModule as GraphModule
from weft.trace.proxy import PH as PH
from weft.trace.proxy import GraphAppendingTracer as GraphAppendingTracer
from weft.trace.proxy import Proxy as Proxy
from weft.trace.proxy import ProxyableClassMeta as ProxyableClassMeta
from weft.trace.proxy import TraceError as TraceError
from weft.trace.proxy import Tracer as Tracer
from weft.trace.wrapped import wrap as wrap

__all__ = [
    "Graph", "GraphAppendingTracer", "GraphModule", "Interpreter", "Match", "Node", "PH", "Proxy",
    "ProxyableClassMeta", "ReplacedPatterns", "TraceError", "Tracer", "Transformer", "has_side_effect",
    "map_aggregate", "map_arg", "replace_pattern", "replace_pattern_with_filters", "symbolic_trace", "wrap",
]  # fmt: skip
