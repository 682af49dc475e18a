"""What graphs check as they run."""

from __future__ import annotations

import pytest

import weft
from weft.core.requirements import Unmet, require


def test_a_condition_that_holds_gives_nothing() -> None:
    assert require(True, True) is None and require(0, False) is None
    assert require(weft.tensor([2.0]), True) is None


def test_one_that_does_not_names_the_line() -> None:
    with pytest.raises(Unmet, match="train.py:7: the condition is True"):
        require(weft.tensor(1), False, "train.py:7")
