"""A whole scenario run as it is and run compiled, with all it tells compared.

Takes a function of `compile`, which makes its own world, calls what it compiled as often as it likes, changes
the world in between and returns whatever is to be compared. One idea: both runs begin with nothing, so only
what capture got wrong can differ.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import weft
from tests.capture.features.harness import everything_strict
from tests.whole.fuzz.snapshot import Snapshot, difference
from weft.core.counters import counters
from weft.testing import CompileCounter

Compile = Callable[[Any], Any]


def tensor(*values: float) -> weft.Tensor:
    return weft.tensor([float(value) for value in values] or [1.0, 2.0, 3.0])


def same(scenario: Callable[[Compile], Any], *, frames: int | None = None, breaks: int | None = None) -> None:
    """Asserts that the scenario tells the same compiled. `frames` and `breaks` count graphs and breaks."""
    counter = CompileCounter()
    with everything_strict():
        expected = Snapshot(scenario.__module__).see(scenario(lambda function: function))
    with everything_strict():
        told = scenario(lambda function: weft.compile(function, backend=counter))
        actual = Snapshot(scenario.__module__).see(told)
        broken = dict(counters["graph_break"])
    found = difference(expected, actual)
    assert found is None, found
    assert frames is None or counter.frame_count == frames, f"{counter.frame_count} graphs"
    assert breaks is None or sum(broken.values()) == breaks, broken
