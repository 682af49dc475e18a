"""Effects of compiled calls: views among the outputs, and the bytes that arrays reach."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft.aot.runtime import effects


def floats(*shape: int, grad: bool = True) -> weft.Tensor:
    return weft.randn(*shape, dtype=weft.float64).requires_grad_(grad)


def test_views_of_inputs_are_theirs():
    x = floats(3, 4, grad=False)
    view, same = weft.compile(lambda x: (x[1:], x), backend="aot_eager")(x)
    assert same is x
    assert view._base is x
    view.zero_()
    assert x[1:].abs().sum() == 0
    assert x._version == 1


def test_views_behind_data_share_one_version():
    def function(x):
        data = x.data
        data.sin_()
        return data, data.t(), data.t()[0]

    for run in (function, weft.compile(function, backend="aot_eager")):
        first, second, third = run(floats(3, 3))
        assert first._version == second._version == third._version == 1
        second.add_(1)
        third.add_(1)
        assert first._version == second._version == third._version == 3


def test_views_of_inputs_that_are_views_have_their_history_from_the_base():
    def function(t):
        row = t[0]
        row.add_(t.sum(0))
        return row

    for run in (function, weft.compile(function, backend="aot_eager")):
        base = floats(9) * 2
        t = base[:6].view(2, 3)
        row = run(t)
        assert weft.autograd.grad(row.sum(), [t], allow_unused=True, retain_graph=True) == (None,)
        assert weft.autograd.grad(row.sum(), [base])[0] is not None


def test_bytes_that_an_array_reaches():
    whole = np.zeros((4, 6))
    start, width = effects.span(whole)[0], whole.itemsize
    assert effects.span(whole) == (start, start + 24 * width)
    for part, first, behind in [
        (whole[1], 6, 12), (whole[:, 2], 2, 21), (whole[1, ::-1], 6, 12), (whole[::-1, 1:3], 1, 21),
        (whole[1:3, 4:1:-2], 8, 17), (whole[None, 3, 5:], 23, 24),
    ]:  # fmt: skip
        assert effects.span(part) == (start + first * width, start + behind * width)
    low, high = effects.span(whole[2:2])
    assert low == high


@pytest.mark.parametrize("backend", ["aot_eager", "native"])
def test_views_of_views_that_were_made_before_a_write(backend):
    """Outputs are rebuilt when the base is written already: an old view must have its own views by then."""

    def function(x):
        row = x.unbind(0)[0]
        turned = row.t()
        with weft.no_grad():
            turned.add_(1)
        return row, turned

    found = []
    for run in (function, weft.compile(function, backend=backend)):
        x = weft.arange(12.0).view(3, 4).requires_grad_() * 1
        found.append([(t.tolist(), t.requires_grad, t._version) for t in (*run(x), x)])
    assert found[1] == found[0]
