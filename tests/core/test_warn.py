"""Warnings stand at the line that called the library, whichever way the call went."""

from __future__ import annotations

import inspect
import warnings

import pytest

import weft
from weft import nn


def lines(function, *args):
    """The files, and the lines within the function, that a call warns at."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        function(*args)
    start = inspect.getsourcelines(inspect.unwrap(function))[1]
    return [(one.filename == __file__ and one.lineno - start, one.category) for one in found]


def losses(x, y):
    first = nn.functional.mse_loss(x, y)
    return (
        first
        + nn.functional.l1_loss(x, y)
        + nn.functional.softmax(x).sum()
    )  # fmt: skip


def differentiated(x, y):
    loss = nn.functional.mse_loss(x, y)
    loss.backward()
    return loss


@pytest.mark.parametrize("backend", [None, "eager", "aot_eager"])
@pytest.mark.parametrize(("function", "expected"), [(losses, [1, 4, 5]), (differentiated, [1])])
def test_at_the_line_of_the_user(function, expected, backend):
    called = function if backend is None else weft.compile(function, backend=backend, fullgraph=True)
    for kind in (weft.float32, weft.float64):
        x, y = weft.ones(3, dtype=kind, requires_grad=True), weft.ones(2, 3, dtype=kind)
        for _ in range(2):
            assert lines(called, x, y) == [(line, UserWarning) for line in expected]


def test_modules_warn_at_their_own_lines():
    x, y = weft.ones(3), weft.ones(2, 3)
    for called in (nn.MSELoss(), weft.compile(nn.MSELoss(), backend="eager")):
        with pytest.warns(UserWarning, match="different to the input size") as found:
            called(x, y)
        assert [one.filename.endswith("nn/modules/loss.py") for one in found] == [True]


def test_a_place_warns_once_by_default():
    compiled = weft.compile(differentiated, backend="eager")
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("default")
        for _ in range(3):
            compiled(weft.ones(4, requires_grad=True), weft.ones(2, 4))
    assert len(found) == 1
