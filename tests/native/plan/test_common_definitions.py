"""Equal definitions are computed once."""

from __future__ import annotations

from weft.native.ir.definitions import Given
from weft.native.lower.folds import each, normal
from weft.native.plan.common_definitions import Twins
from weft.native.plan.fuse import ordered


def test_equal_formulas_are_twins_and_others_are_not() -> None:
    x = Given(shape=(4, 8), type="f32", input=0)
    twins = Twins()
    made = [normal(x, (1,), eps)[1] for eps in (1e-5, 1e-5, 1e-6)]
    for value in ordered(made):
        twins.add(value)
    assert twins.of(made[1]) is made[0]
    assert twins.of(made[2]) is made[2]


def test_numbers_that_only_look_equal_are_told_apart() -> None:
    x = Given(shape=(4,), type="f32", input=0)
    twins = Twins()

    def plus(number: object) -> object:
        return each(lambda b, v: b.add(v, b.like(number, v)), x)

    values = [plus(0.0), plus(-0.0), plus(0), plus(0.0)]
    for value in values:
        twins.add(value)  # type: ignore[arg-type]
    assert [twins.of(value) is value for value in values] == [True, True, True, False]  # type: ignore[arg-type]
