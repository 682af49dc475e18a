from __future__ import annotations

import numpy as np
import pytest

import weft
from weft import nn

SHAPES = {1: (2, 3, 5), 2: (1, 2, 4, 5), 3: (1, 2, 3, 4, 3)}
FAMILIES = {"Reflection": "reflect", "Replication": "edge", "Circular": "wrap"}


def border(padding, rank):
    """NumPy's order of paddings from ours, which starts at the last dimension."""
    pairs = [(padding[2 * i], padding[2 * i + 1]) for i in range(rank)][::-1]
    return [(0, 0), (0, 0), *pairs]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_copies_of_what_is_there(agrees, draw, family, rank):
    padding = (1, 2, 2, 0, 0, 1)[: 2 * rank]
    layer = getattr(nn, f"{family}Pad{rank}d")(padding)
    agrees(layer, lambda x: np.pad(x, border(padding, rank), FAMILIES[family]), draw(*SHAPES[rank]))


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_constants(agrees, draw, rank):
    x = draw(*SHAPES[rank])
    wide = border((2,) * 2 * rank, rank)
    layer = getattr(nn, f"ConstantPad{rank}d")(2, 1.5)
    agrees(layer, lambda x: np.pad(x, wide, constant_values=1.5), x)
    agrees(getattr(nn, f"ZeroPad{rank}d")(2), lambda x: np.pad(x, wide), x)


def test_negative_padding_crops(agrees, draw):
    agrees(
        nn.ZeroPad2d((-1, 1, 0, -2)),
        lambda x: np.pad(x, [(0, 0)] * 3 + [(0, 1)])[:, :, :-2, 1:],
        draw(1, 2, 4, 5),
    )


def test_circular_padding_knows_its_ranks():
    with pytest.raises(ValueError, match=r"expected 3D or 4D input \(got 2D input\)"):
        nn.CircularPad2d(1)(weft.ones(2, 3))


def test_printed():
    assert repr(nn.ZeroPad2d(1)) == "ZeroPad2d((1, 1, 1, 1))"
    assert repr(nn.ConstantPad1d((1, 2), 0.5)) == "ConstantPad1d(padding=(1, 2), value=0.5)"
    assert repr(nn.ReflectionPad1d(2)) == "ReflectionPad1d((2, 2))"
