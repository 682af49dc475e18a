"""The test case for scripted functions."""

from __future__ import annotations

import weft
from weft.testing.scripts import JitTestCase


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
