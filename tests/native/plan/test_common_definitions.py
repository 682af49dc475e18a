"""Equal definitions are computed once."""

from __future__ import annotations

from typing import Any

from weft.native.ir.definitions import Given, View
from weft.native.lower.folds import each, normal
from weft.native.plan.common_definitions import CommonDefinitions
from weft.native.plan.rewrite import Definitions


def replaced(*outputs: Any) -> list[bool]:
    """Which of these definitions others stand in the place of."""
    definitions = Definitions(outputs)
    definitions.apply(CommonDefinitions)
    return [id(value) in definitions.instead for value in outputs]


def test_equal_formulas_are_common_and_others_are_not() -> None:
    x = Given(shape=(4, 8), type="f32", input=0)
    assert replaced(*[normal(x, (1,), eps)[1] for eps in (1e-5, 1e-5, 1e-6)]) == [False, True, False]


def test_numbers_that_only_look_equal_are_told_apart() -> None:
    x = Given(shape=(4,), type="f32", input=0)

    def plus(number: object) -> object:
        return each(lambda b, v: b.add(v, b.like(number, v)), x)

    assert replaced(*map(plus, (0.0, -0.0, 0, 0.0))) == [False, False, False, True]


def test_outputs_stay_values_of_their_own_and_readers_share_one() -> None:
    x = Given(shape=(4,), type="f32", input=0)
    first, second = (each(lambda b, v: b.sqrt(v), x) for _ in range(2))
    looks = [
        View(shape=(2,), type="f32", base=value, offsets=(place,), steps=((1,),))
        for place, value in enumerate((first, second))
    ]
    definitions = Definitions([first, second, *looks])
    definitions.apply(CommonDefinitions)
    assert definitions.outputs == [first, second, *looks]
    assert [look.base for look in looks] == [first, first]
