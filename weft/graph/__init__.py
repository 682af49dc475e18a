"""The graph of operations: the one intermediate form between capture, differentiation and code.

`Graph` and `Node` have the shape of `torch.fx`; printers, `check`, passes and an interpreter stand beside
them.
"""

from weft.graph.check import GraphError as GraphError
from weft.graph.check import check as check
from weft.graph.graph import Graph as Graph
from weft.graph.graph import NodeList as NodeList
from weft.graph.interpreter import run as run
from weft.graph.node import Node as Node
from weft.graph.node import map_arg as map_arg
from weft.graph.node import nodes_in as nodes_in
