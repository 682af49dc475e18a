"""Both renderings of guards agree on whatever comes, and the text is cheap to run."""

from __future__ import annotations

import timeit
import types
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from tests.capture.watchful import (
    HIT,
    Holder,
    MyList,
    X,
    build,
    check,
    trees,
)
from weft.capture.guards import (
    Guard,
    GuardSet,
    TensorFacts,
    guards_for_lookup,
)
from weft.capture.sources import Source, local
from weft.tensor.base import Tensor

STEPS: list[Callable[[Source], Source]] = [
    lambda s: s.item(0), lambda s: s.item("a"), lambda s: s.field("w"), lambda s: s.key(0),
    lambda s: s.value(0), lambda s: s.element(1), lambda s: s.plain(), lambda s: s.member("__dict__"),
    lambda s: s.cell(), lambda s: s.size(0),
]  # fmt: skip


@st.composite
def worlds(draw: Any) -> Any:
    value = draw(trees)
    for _ in range(draw(st.integers(0, 2))):
        wrap = draw(st.integers(0, 4))
        if wrap == 0:
            holder = Holder()
            holder.w = value  # type: ignore[attr-defined]
            value = holder
        elif wrap == 1:
            value = types.CellType(value)
        elif wrap == 2:
            value = MyList([value])
        elif wrap == 3:
            value = OrderedDict(a=value)
        else:
            value = weft.ones(draw(st.integers(0, 3)), 2)
    return value


@st.composite
def guard_sets(draw: Any) -> list[Guard]:
    guards = []
    for _ in range(draw(st.integers(1, 4))):
        source = X
        for _ in range(draw(st.integers(0, 2))):
            source = draw(st.sampled_from(STEPS))(source)
        plain = draw(trees)
        guards.append(
            draw(
                st.sampled_from(
                    [
                        Guard("TYPE", source, type(plain)),
                        Guard(
                            "TYPE",
                            source,
                            draw(st.sampled_from([Holder, types.CellType, MyList, OrderedDict, Tensor])),
                        ),
                        Guard("CONTENTS", source, plain),
                        Guard("LEN", source, draw(st.integers(0, 2))),
                        Guard("KEYS", source, ("a",)),
                        Guard("HAS", source, "a"),
                        Guard("LACKS", source, "b"),
                        Guard("SAME", source, X),
                        Guard("FACT", source, ("is_leaf", True)),
                    ]
                )
            )
        )
    return guards


@settings(max_examples=300, deadline=None)
@given(guard_sets(), worlds())
def test_both_renderings_agree(guards: list[Guard], value: Any) -> None:
    check(GuardSet(guards), x=value)


def test_three_tensors_and_an_attribute_are_cheap() -> None:
    a, b, c, m = weft.ones(2, 3), weft.ones(2, 3), weft.nn.Parameter(weft.ones(3)), Holder()
    m.scale = 2.0  # type: ignore[attr-defined]
    guards = [Guard("MODE", None, True)]
    guards += [
        Guard("TENSOR", local(name), TensorFacts.of(t)) for name, t in zip("abc", (a, b, c), strict=True)
    ]
    guards += [Guard("TYPE", local("m"), Holder), *guards_for_lookup(Holder, "scale", None)]
    guards += [Guard("EQ", local("m").field("scale"), 2.0)]
    entry = build(guards, "abcm")
    assert entry(a, b, c, m) == HIT
    number = 2000
    best = min(timeit.repeat(lambda: entry(a, b, c, m), number=number, repeat=15)) / number
    assert best < 1.5e-6 * 2, f"{best * 1e6:.2f} us"  # 0.6 us on a quiet machine; twice the budget under load


@pytest.mark.parametrize("count", [2, 70])
def test_many_tensors_are_looked_at_as_closely_as_few(count):
    captured = []

    def backend(module, inputs):
        captured.append(module)
        return module.forward

    compiled = weft.compile(lambda given: sum([each.sum() for each in given]), backend=backend, dynamic=False)
    plain = [weft.ones(2) for _ in range(count)]
    base = weft.ones(4)
    view = base[:2]
    base.requires_grad_()
    assert compiled(plain) == 2 * count
    assert compiled([weft.full((2,), 2.0) for _ in range(count)]) == 4 * count
    assert len(captured) == 1
    others = [
        weft.ones(3),
        weft.ones(1, 2),
        weft.ones(2, dtype=weft.float64),
        weft.ones(2, requires_grad=True),
        weft.nn.Parameter(weft.ones(2)),
        view,
    ]
    for number, other in enumerate(others, 2):
        result = compiled([*plain[:-1], other])
        assert result == 2 * count - 2 + other.numel() and result.requires_grad == other.requires_grad
        assert len(captured) == number
    assert compiled(plain) == 2 * count and len(captured) == len(others) + 1
