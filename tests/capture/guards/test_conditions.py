"""Guards on numbers: expressions over sources."""

from __future__ import annotations

from tests.capture.watchful import (
    X,
    Y,
    build_native,
    check,
)
from weft.capture.guards import (
    Condition,
    Guard,
)
from weft.capture.reading import MISS
from weft.capture.sources import local
from weft.core import expressions


def test_conditions() -> None:
    s0, s1 = expressions.symbol("s0", int), expressions.symbol("s1", int)
    sources = ((s0.args[0], X), (s1.args[0], Y.item(0)))
    less = expressions.Expression("lt", (s0, s1), bool)
    for truth in (True, False):
        guard = Guard("CONDITION", None, Condition(less, truth, sources))
        assert check(guard, x=1, y=[2]) is truth and check(guard, x=2, y=[2]) is not truth
        typed = [Guard("TYPE", Y, list), guard]
        native = build_native(typed, None, {"x": 1, "y": [2]})
        assert not native.left
        for x, y in ((1, 2), (2, 2), (3, 2), (-1, 0)):
            assert (native(None, x, [y]) is not MISS) is ((x < y) is truth)
        assert native(None, 2**70, [2]) is MISS and native(None, 1.0, [2]) is MISS
        assert not check(guard, x=1, y=[])
    assert str(guard) == "not (L['x'] < L['y'][0])"
    bound = expressions.Expression(
        "le", (expressions.Expression("abs", (s0,), int), expressions.constant(3)), bool
    )
    guard = Guard("CONDITION", None, Condition(bound, True, ((s0.args[0], local("abs")),)))
    assert check(guard, abs=-3) and not check(guard, abs=-4), "a parameter may be called like a builtin"
