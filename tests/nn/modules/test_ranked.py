"""Families of layers by rank: the function of the rank, what is shown, and layers made in captured code."""

from __future__ import annotations

import pytest

import weft
from weft import nn
from weft.testing import CompileCounter

FAMILIES = [
    ("Conv{}d", (4, 3, 3)),
    ("ConvTranspose{}d", (4, 3, 3)),
    ("LazyConv{}d", (3, 3)),
    ("BatchNorm{}d", (4,)),
    ("InstanceNorm{}d", (4,)),
    ("LazyInstanceNorm{}d", ()),
    ("MaxPool{}d", (2,)),
    ("AvgPool{}d", (2,)),
    ("LPPool{}d", (2, 2)),
    ("AdaptiveAvgPool{}d", (3,)),
    ("AdaptiveMaxPool{}d", (3,)),
    ("ReflectionPad{}d", (1,)),
    ("ReplicationPad{}d", (1,)),
    ("CircularPad{}d", (1,)),
    ("ZeroPad{}d", (1,)),
    ("ConstantPad{}d", (1, 0.5)),
]
RANKS = [
    pytest.param(name.format(rank), options, rank, id=name.format(rank))
    for name, options in FAMILIES
    for rank in (1, 2, 3)
]


@pytest.mark.parametrize(("name", "options", "rank"), RANKS)
def test_members_know_their_rank(name, options, rank):
    layer = getattr(nn, name)(*options)
    assert layer(weft.rand(2, 4, *[6] * rank)).dim() == rank + 2
    assert repr(layer).startswith(f"{name.removeprefix('Lazy')}(")


MADE_INSIDE = [each for each in RANKS if not str(each.id).startswith("Lazy")]
OTHERS = [
    ("Linear", (6, 3)), ("LayerNorm", (6,)), ("RMSNorm", (6,)), ("GroupNorm", (2, 4)), ("PReLU", ()),
    ("Hardtanh", ()), ("Threshold", (0.1, 0.2)), ("Softmax", (-1,)), ("Flatten", ()), ("GRU", (6, 3)),
    ("LSTM", (6, 3)),
]  # fmt: skip
MADE_INSIDE += [pytest.param(name, options, 1, id=name) for name, options in OTHERS]


@pytest.mark.parametrize(("name", "options", "rank"), MADE_INSIDE)
def test_may_be_made_in_captured_code(name, options, rank):
    counter = CompileCounter()
    x = weft.rand(2, 4, *[6] * rank)
    weft.compile(lambda x: getattr(nn, name)(*options)(x), backend=counter, fullgraph=True)(x)
    assert counter.frame_count == 1


def test_a_class_of_the_users_own_keeps_the_function():
    class Halving(nn.MaxPool2d):
        pass

    assert Halving(2)(weft.rand(1, 1, 4, 4)).shape == (1, 1, 2, 2)


@pytest.mark.parametrize(("dims", "text"), [((2, 3), "2D or 3D"), ((4,), "4D")])
def test_other_ranks_are_refused(dims, text):
    layer = nn.BatchNorm1d(2) if dims == (2, 3) else nn.BatchNorm2d(2)
    with pytest.raises(ValueError, match=f"^expected {text} input \\(got 5D input\\)$"):
        layer(weft.rand(1, 2, 1, 1, 1))


def test_attributes_of_the_users_own_are_their_own():
    layer, norm = nn.LeakyReLU(0.5), nn.BatchNorm2d(2)
    layer._shown, norm._dims = True, 7
    assert repr(layer) == "LeakyReLU(negative_slope=0.5)"
    assert norm(weft.rand(3, 2, 1, 1)).shape == (3, 2, 1, 1)
