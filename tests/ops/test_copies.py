"""Copies of views: the same elements, contiguous, in memory of their own."""

from __future__ import annotations

import pytest

import weft
from weft.ops.copies import SAMPLES
from weft.ops.record import REGISTRY
from weft.ops.samples import Maker


@pytest.mark.parametrize("name", SAMPLES)
def test_copies_share_nothing(name: str) -> None:
    sample = SAMPLES[name](Maker(weft.float64, 0))
    x = weft.from_numpy(sample.args[0])
    shown = REGISTRY[name](x, *sample.args[1:])
    copied = getattr(weft, name + "_copy")(x, *sample.args[1:])
    pairs = zip(copied, shown, strict=True) if isinstance(shown, (tuple, list)) else [(copied, shown)]
    for one, other in pairs:
        assert weft.equal(one, other)
        assert one.is_contiguous()
        assert one._base is None
        assert one.untyped_storage().data_ptr() != x.untyped_storage().data_ptr()


def test_what_a_view_shows_is_replaced() -> None:
    x = weft.zeros(2, 3, requires_grad=True)
    source = weft.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    out = weft.as_strided_scatter(x, source, (2, 2), (3, 1), 1)
    assert out.tolist() == [[0, 1, 2], [0, 3, 4]]
    out.sum().backward()
    assert x.grad is not None and source.grad is not None
    assert x.grad.tolist() == [[1, 0, 0], [1, 0, 0]]
    assert source.grad.tolist() == [[1, 1], [1, 1]]
    with pytest.raises(RuntimeError, match="expected src to have a size equal to the slice of self"):
        weft.as_strided_scatter(x, source[0], (2, 2), (3, 1))


def test_pieces_that_nobody_writes_to() -> None:
    x = weft.arange(5)
    assert [len(piece) for piece in weft.unsafe_chunk(x, 2)] == [3, 2]
    assert [len(piece) for piece in weft.unsafe_split(x, 2)] == [2, 2, 1]
    assert [len(piece) for piece in x.unsafe_split_with_sizes([4, 1])] == [4, 1]
