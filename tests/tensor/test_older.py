"""Functions by older names."""

from __future__ import annotations

from typing import Any

import pytest

import weft
import weft.nn.functional as F


def test_losses_by_numbers_for_reductions() -> None:
    x, y = weft.tensor([0.5, -1.0]), weft.tensor([0.2, 0.8])
    for number, name in enumerate(("none", "mean", "sum")):
        found = weft.hinge_embedding_loss(x, y, 0.5, number)
        assert weft.equal(found, F.hinge_embedding_loss(x, y, 0.5, reduction=name))
        found = weft.binary_cross_entropy_with_logits(x, y, None, None, number)
        assert weft.equal(found, F.binary_cross_entropy_with_logits(x, y, reduction=name))
    expected = F.margin_ranking_loss(x, y, weft.ones(2), 0.5, reduction="sum")
    assert weft.equal(weft.margin_ranking_loss(x, y, weft.ones(2), 0.5, 2), expected)


def test_methods_as_functions() -> None:
    x = weft.ones(2, requires_grad=True)
    assert not weft.detach(x).requires_grad and weft.detach(x).data_ptr() == x.data_ptr()
    assert weft.detach_copy(x).data_ptr() != x.data_ptr()
    assert weft.resize_as_(weft.ones(4), weft.ones(2, 1)).shape == (2, 1)
    with pytest.warns(UserWarning, match="non-inplace resize is deprecated"):
        assert weft.ones(2).resize(2, 1).shape == (2, 1)


@pytest.mark.filterwarnings("ignore:weft.range is deprecated")
@pytest.mark.parametrize(
    ("arguments", "expected"),
    [((1, 4), [1, 2, 3, 4]), ((1, 2, 0.5), [1, 1.5, 2]), ((3, 1, -1), [3, 2, 1]), ((0, 0.9), [0])],
)
def test_ranges_with_their_ends(arguments: Any, expected: list[float]) -> None:
    found = weft.range(*arguments)
    assert found.tolist() == expected
    assert found.dtype is weft.float32
    assert weft.range(1, 2, dtype=weft.int64).tolist() == [1, 2]
    assert weft.range(1, 2, out=weft.empty(0)).tolist() == [1, 2]


@pytest.mark.filterwarnings("ignore:weft.range is deprecated")
def test_ranges_that_are_none() -> None:
    with pytest.raises(RuntimeError, match="step must be nonzero"):
        weft.range(0, 1, 0)
    with pytest.raises(RuntimeError, match="upper bound and lower bound inconsistent with step sign"):
        weft.range(1, 0)


@pytest.mark.parametrize("name", ["eig", "lstsq", "matrix_rank", "solve", "symeig"])
def test_what_was_taken_away_says_so(name: str) -> None:
    with pytest.raises(RuntimeError, match="deprecated since version 1.9 and is now removed"):
        getattr(weft, name)(weft.eye(2))


@pytest.mark.filterwarnings("ignore:weft.range is deprecated")
def test_they_are_captured() -> None:
    x, y = weft.tensor([0.5, -1.0]), weft.tensor([0.2, 0.8])
    losses = weft.compile(lambda x, y: weft.hinge_embedding_loss(x, y, 0.5, 2), fullgraph=True)
    assert weft.equal(losses(x, y), F.hinge_embedding_loss(x, y, 0.5, reduction="sum"))
    compiled = weft.compile(lambda x: weft.detach(x) * 2, fullgraph=True)
    assert not compiled(x.clone().requires_grad_()).requires_grad
