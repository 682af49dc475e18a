"""Entering a function that is differentiated, and leaving it."""

from __future__ import annotations

import weft
from weft.autograd.entries import Differentiation
from weft.tensor.wrapper import Entry


def test_entries_and_what_is_left() -> None:
    plain, leaf = weft.ones(2), weft.ones(2, requires_grad=True)
    with Differentiation() as run:
        first, second = run.enter(plain), run.enter(leaf)
        assert first.is_leaf and first.requires_grad and type(second.node) is Entry
        assert (
            not run.followed([first * 2]) and run.followed([first * second]) and run.followed([leaf * first])
        )
        inside, outside = first * 2, second * 2
    assert not run.left({"a": inside})["a"].requires_grad and run.left(outside).requires_grad
    assert run.left(3) == 3 and not plain.requires_grad
    with weft.no_grad(), Differentiation() as run:
        assert run.enter(leaf).is_leaf and weft.is_grad_enabled()
    assert not run.followed([leaf * 2])
