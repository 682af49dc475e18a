"""Backwards that run the captured graph again: what has been done to the inputs meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

import weft


def program(x: Any, w: Any) -> Any:
    h = x @ w
    return h.exp(), h.sin().sum()


def gradients(function: Any, which: str, turned: bool, only: bool) -> list[Any]:
    weft.manual_seed(0)
    x, w = weft.randn(3, 4, requires_grad=True), weft.randn(4, 3, requires_grad=True)
    values = function(x * 2 if which == "w" else x, w)
    {"x": x, "w": w, "": weft.ones(1)}[which].requires_grad_(False)
    gradient = weft.randn(3, 3)
    given = [gradient.t() if turned else gradient, weft.ones(())]
    wanted = slice(0, 1) if only else slice(0, 2)
    weft.autograd.backward(values[wanted], given[wanted])
    return [x.grad, w.grad]


@pytest.mark.parametrize("which", ["", "x", "w"])
def test_a_leaf_that_does_not_require_grad_any_more_gets_none(which):
    compiled = weft.compile(program)
    for turned, only in [(False, False), (True, False), (True, True), (False, True)] * 2:
        expected = gradients(program, which, turned, only)
        for one, other in zip(gradients(compiled, which, turned, only), expected, strict=True):
            assert (one is None) == (other is None)
            if one is not None:
                weft.testing.assert_close(one, other)
