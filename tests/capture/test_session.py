"""Captures as a whole: what the entries that they leave are guarded by."""

from __future__ import annotations

import weft
from weft.testing import CompileCounter


def test_one_tensor_for_two_that_are_written_is_captured_anew():
    """So that it runs compiled, too: programs refuse memory that they write under two names."""

    def function(x, y):
        x.add_(1)
        y.mul_(2)
        return x + y

    counter = CompileCounter()
    compiled = weft.compile(function, backend=counter)
    compiled(weft.ones(2), weft.ones(2))
    compiled(weft.ones(2), weft.ones(2))
    assert counter.frame_count == 1
    x = weft.ones(2)
    assert compiled(x, x).tolist() == [8.0, 8.0] and x.tolist() == [4.0, 4.0]
    assert counter.frame_count == 2
