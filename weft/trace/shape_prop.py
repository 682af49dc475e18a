"""Shapes along a graph: runs it once on example inputs and notes at each node what tensor it gave.

Takes a GraphModule; `ShapeProp(module).propagate(*inputs)` writes `node.meta["tensor_meta"]` (shape, dtype,
strides, need of gradients) and `node.meta["type"]`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from weft.core.trees import tree_map
from weft.graph.node import Node
from weft.tensor.base import Tensor
from weft.trace.fx import Interpreter


class TensorMetadata(NamedTuple):
    """What is known of a tensor without its elements."""

    shape: Any
    dtype: Any
    requires_grad: bool
    stride: tuple[int, ...]
    memory_format: Any
    is_quantized: bool
    qparams: dict[str, Any]


def _described(value: Any) -> Any:
    if not isinstance(value, Tensor):
        return value
    return TensorMetadata(value.shape, value.dtype, value.requires_grad, value.stride(), None, False, {})


class ShapeProp(Interpreter):
    """Runs a graph and notes the shapes on the way."""

    def run_node(self, n: Node) -> Any:
        """Runs one node, and notes what it gave."""
        result = super().run_node(n)
        found: list[Any] = []

        def note(leaf: Any) -> Any:
            found.append(leaf)
            return _described(leaf)

        described = tree_map(note, result)
        if any(isinstance(leaf, Tensor) for leaf in found):
            n.meta["tensor_meta"] = described
        n.meta["type"] = type(result)
        return result

    def propagate(self, *args: Any) -> Any:
        """What the graph gives for these inputs; its nodes then know their shapes."""
        return self.run(*args)
