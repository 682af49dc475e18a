"""Differentiable parts of scripted functions: which ops are one."""

from __future__ import annotations

from typing import Any

import weft
from weft import Tensor
from weft.compat.torch_internals.scripts import disable_autodiff_subgraph_inlining


def _kinds(function: Any, *sizes: int) -> list[str]:
    inputs = [weft.ones(size, requires_grad=True) for size in sizes]
    with disable_autodiff_subgraph_inlining():
        return [node.kind() for node in weft.jit.script(function).graph_for(*inputs).nodes()]


def test_parts_that_do_not_lead_to_each_other_stay_apart() -> None:
    def unrelated(w: Tensor, x: Tensor, y: Tensor, z: Tensor):  # type: ignore[no-untyped-def]
        return x * y, w * z

    assert _kinds(unrelated, 1, 1, 1, 1).count("prim::DifferentiableGraph") == 2


def test_parts_join_over_what_does_not_look_at_them() -> None:
    def over(w: Tensor, x: Tensor, y: Tensor, z: Tensor):  # type: ignore[no-untyped-def]
        a = w * x
        b = weft.zeros([abs(int(y))])
        return b, a * z

    def under(v: Tensor, w: Tensor, y: Tensor):  # type: ignore[no-untyped-def]
        a = v * w
        b = weft.ones([int(y)])
        return a, b * a

    def through(w: Tensor, x: Tensor):  # type: ignore[no-untyped-def]
        a = w * x
        b = weft.zeros([abs(int(a))])
        return a * b

    def changed(w: Tensor, x: Tensor, y: Tensor):  # type: ignore[no-untyped-def]
        a = w * x
        y.detach().add_(1)
        return a * y

    assert _kinds(over, 1, 1, 1, 1).count("prim::DifferentiableGraph") == 1
    assert _kinds(under, 1, 1, 1).count("prim::DifferentiableGraph") == 1
    assert _kinds(through, 1, 1).count("prim::DifferentiableGraph") == 2
    assert _kinds(changed, 1, 1, 1).count("prim::DifferentiableGraph") == 2
