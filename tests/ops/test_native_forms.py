"""conv_tbc beside conv1d and torch; native_dropout beside dropout."""

from __future__ import annotations

import pytest

import weft


def test_time_goes_first():
    x, w, b = weft.randn(7, 2, 3), weft.randn(3, 3, 4), weft.randn(4)
    wanted = weft.conv1d(x.permute(1, 2, 0), w.permute(2, 1, 0), b, padding=1).permute(2, 0, 1)
    assert weft.allclose(weft.conv_tbc(x, w, b, 1), wanted, atol=1e-6)
    assert weft.nn.functional.conv_tbc is weft.conv_tbc


@pytest.mark.parametrize(
    ("shapes", "text"),
    [
        (((2, 3), (3, 3, 4), (4,)), "Input must have 3 dims: time, batch, in_channel"),
        (((7, 2, 3), (3, 4), (4,)), "Weight tensor must have 3 dims"),
        (((7, 2, 3), (3, 3, 4), (4, 1)), "Bias must be 1-D"),
        (((7, 2, 3), (3, 2, 4), (4,)), "Input dim 2 \\(input channels\\) is not == dim 1"),
        (((7, 2, 3), (3, 3, 4), (5,)), "Bias size must equal dim 2"),
    ],
)
def test_conv_tbc_refuses_what_does_not_fit(shapes, text):
    with pytest.raises(RuntimeError, match=text):
        weft.conv_tbc(*map(weft.ones, shapes))


@pytest.mark.torch
def test_conv_tbc_as_torch():
    import torch

    x, w, b = weft.randn(7, 2, 3), weft.randn(3, 3, 4), weft.randn(4)
    theirs = torch.conv_tbc(*(torch.tensor(each.tolist()) for each in (x, w, b)), 1)
    assert weft.allclose(weft.conv_tbc(x, w, b, 1), weft.tensor(theirs.tolist()), atol=1e-5)


def test_native_dropout_says_what_it_kept():
    x = weft.ones(1000)
    out, kept = weft.native_dropout(x, 0.25, True)
    assert kept.dtype is weft.bool and 650 < kept.sum().item() < 850
    assert weft.allclose(out, kept / 0.75)
    for train in (False,):
        out, kept = weft.native_dropout(x, 0.25, train)
        assert weft.equal(out, x) and kept.all()
    out, kept = weft.native_dropout(x, 1.0, None)
    assert not out.any() and not kept.any()
    with pytest.raises(RuntimeError, match="expects p to be in"):
        weft.native_dropout(x, 1.5, True)
