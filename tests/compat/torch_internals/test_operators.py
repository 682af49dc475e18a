"""Operators made of rules."""

from __future__ import annotations

from typing import Any

import pytest

from weft.compat.torch_internals.operators import HigherOrderOperator


def test_plain_calls_run_the_rule_for_them() -> None:
    class Twice(HigherOrderOperator):
        def __call__(self, *args: Any) -> Any:
            return super().__call__(*args)

    twice = Twice("twice")
    with pytest.raises(NotImplementedError, match="twice has no rule for plain calls"):
        twice(1)

    @twice.py_impl("CompositeExplicitAutograd")
    def plain(value: int) -> int:
        return 2 * value

    assert twice(4) == 8 and plain(1) == 2 and twice.name() == repr(twice) == "twice"
