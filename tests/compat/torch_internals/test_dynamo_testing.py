"""Backends that remember the graphs of forward and backward."""

from __future__ import annotations

import weft
from weft.compat.torch_internals.dynamo_testing import (
    AotEagerAndRecordGraphs,
    InductorAndRecordGraphs,
    extract_graph,
)


def loss(x: weft.Tensor) -> weft.Tensor:
    return (x * x).sum()


def test_forward_and_backward_are_kept_apart() -> None:
    backend = AotEagerAndRecordGraphs()
    x = weft.tensor([1.0, 3.0], requires_grad=True)
    weft.compile(loss, backend=backend)(x).backward()
    assert x.grad is not None and x.grad.tolist() == [2.0, 6.0]
    assert [len(graphs) for graphs in (backend.graphs, backend.fw_graphs, backend.bw_graphs)] == [1, 1, 1]


def test_graphs_are_kept_and_compiled() -> None:
    backend = InductorAndRecordGraphs()
    assert weft.compile(loss, backend=backend)(weft.tensor([1.0, 3.0])).item() == 10.0
    assert len(backend.graphs) == 1


def test_what_a_call_gives_comes_with_its_graphs() -> None:
    result, graphs, forward = extract_graph(loss, weft.tensor([1.0, 3.0]))
    assert (result.item(), len(graphs), len(forward)) == (10.0, 1, 1)
