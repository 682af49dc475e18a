"""Suites over the samples of all ops: a plain run takes a fixed share of the ops, `-m wide` takes them all.

The share is chosen by a hash of the op's name: every machine takes the same, and an op keeps its place when
others are added. `tests/conftest.py` leaves the rest of a suite out.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Any

import pytest

ONE_IN = 3
"""How many ops there are for each that a plain run takes."""


by_hand = pytest.mark.wide(None)
"""Marks what no plain run takes: walks that only `-m wide` makes."""


def is_in_share(name: str | None) -> bool:
    return name is not None and zlib.crc32(name.encode()) % ONE_IN == 0


def is_asked_for(config: pytest.Config) -> bool:
    """Whether this run takes the suites whole."""
    return "wide" in config.option.markexpr


def over(ops: Iterable[Any], argument: str = "op") -> pytest.MarkDecorator:
    """Parametrizes a test by ops (records, or their names), of which plain runs take a share."""
    names = [(op, op if isinstance(op, str) else op.qualified_name) for op in ops]
    return pytest.mark.parametrize(
        argument, [pytest.param(op, id=name, marks=pytest.mark.wide(name)) for op, name in names]
    )
