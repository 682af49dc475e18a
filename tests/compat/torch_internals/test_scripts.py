"""The test case for scripted functions."""

from __future__ import annotations

import pytest

import weft
from weft.compat.torch_internals.scripts import JitTestCase, disable_autodiff_subgraph_inlining


def double(x: weft.Tensor, times: int) -> weft.Tensor:
    for _ in range(times):
        x = x * 2
    return x


def test_scripted_and_plain_give_the_same():
    case = JitTestCase()
    scripted = case.checkScript(double, (weft.ones(2), 3))
    case.assertEqual(scripted(weft.ones(1), 2), [4.0])
    case.assertGraphContains(scripted.graph, "prim::Loop")
    with case.assertRaisesRegexWithHighlight(RuntimeError, "one", "two"):
        raise RuntimeError("one two")


def test_differentiable_parts_are_counted() -> None:
    def chained(x: weft.Tensor, y: weft.Tensor) -> weft.Tensor:
        return (x * y).relu()

    def single(x: weft.Tensor) -> weft.Tensor:
        return x.sigmoid()

    x = weft.rand(3, requires_grad=True)
    case, kind = JitTestCase(), "prim::DifferentiableGraph"
    scripted = weft.jit.script(single)
    assert weft.equal(scripted(x, profile_and_replay=True), single(x))
    case.assertGraphContainsExactly(weft.jit.script(chained).graph_for(x, x), kind, 1)
    case.assertGraphContainsExactly(scripted.graph_for(x), kind, 0)
    with disable_autodiff_subgraph_inlining():
        graph = scripted.graph_for(x)
    case.assertGraphContainsExactly(graph, kind, 1)
    case.assertGraphContainsExactly(graph, "aten::sigmoid", 0)
    case.assertGraphContainsExactly(graph, "aten::sigmoid", 1, consider_subgraphs=True)
    with pytest.raises(AssertionError, match="has 1 nodes of kind"):
        case.assertGraphContainsExactly(graph, kind, 2)
