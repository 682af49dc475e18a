"""Which arguments are differentiated, and what functions may return."""

from __future__ import annotations

import pytest

import weft
from weft.func import arguments


def test_argnums() -> None:
    assert arguments.checked_argnums(-1, 3) == (2,)
    assert arguments.checked_argnums((0, -1), 3) == (0, 2)
    assert arguments.chosen((1, 2, 3), (2, 0)) == (3, 1)
    assert arguments.replaced((1, 2, 3), (2, 0), (30, 10)) == (10, 2, 30)
    assert arguments.replaced((1, 2, 3), 1, 20) == (1, 20, 3)


def test_results() -> None:
    assert arguments.split_aux(5, False, "f") == (5, None)
    assert arguments.split_aux((5, 6), True, "f") == (5, 6)
    with pytest.raises(RuntimeError, match=r"f: output of function f should be a tuple: \(output, aux\)"):
        arguments.split_aux([5, 6], True, "f")
    assert len(arguments.check_tensors({"a": weft.ones(1), "b": [weft.ones(1)]}, "f")) == 2
