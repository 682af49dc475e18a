"""Shapes are noted along a graph."""

from __future__ import annotations

import weft
from weft.fx import symbolic_trace
from weft.trace.shape_prop import ShapeProp


def test_each_node_knows_its_shape():
    traced = symbolic_trace(lambda x, n: (x.view(2, n).relu().split(1), n + 1))
    ShapeProp(traced).propagate(weft.ones(6, requires_grad=True), 3)
    meta = {node.name: node.meta for node in traced.graph.nodes}
    found = meta["relu"]["tensor_meta"]
    assert (found.shape, found.dtype, found.requires_grad, found.stride) == (
        (2, 3),
        weft.float32,
        True,
        (3, 1),
    )
    assert [part.shape for part in meta["split"]["tensor_meta"]] == [(1, 3), (1, 3)]
    assert "tensor_meta" not in meta["add"] and meta["add"]["type"] is int
