"""Native checks of guards: what they refuse needs no Python, and they read what static methods are."""

from __future__ import annotations

from typing import Any

import pytest

import weft
from weft.capture.fronts import FRONT
from weft.native.entry.entry import NEVER, Entrance


def test_entries_for_other_arguments_and_gradients_are_refused_without_python() -> None:
    weight = weft.nn.Parameter(weft.ones(3))

    def step(x: Any, last: bool) -> Any:
        loss = (x * weight).sum()
        loss.backward()
        if last:
            weight.grad = None
        return loss.detach()

    compiled = weft.compile(step, backend="native", fullgraph=True)
    x = weft.arange(3.0)
    for number in range(40):
        weft.testing.assert_close(compiled(x, number % 4 == 3), weft.tensor(3.0))
        wanted = None if number % 4 == 3 else x * (number % 4 + 1)
        assert (weight.grad is None) is (wanted is None)
        if wanted is not None:
            weft.testing.assert_close(weight.grad, wanted)
    (cache,) = [cache for cache in compiled.__dict__[FRONT].caches.values() if cache.entries]
    natives = [entry.run.__globals__["_v_shortcut"] for entry in cache.entries]
    for last, gradient in ((True, weft.ones(3)), (False, None), (False, weft.ones(3))):
        answers = []
        for native in natives:
            weight.grad = gradient
            answers.append(native(step, x, last))
        assert sum(answer is not NEVER for answer in answers) == 1


class Scaling:
    @staticmethod
    def doubled(x: Any, factor: float = 2.0) -> Any:
        return x * factor

    @classmethod
    def tripled(cls, x: Any) -> Any:
        return x * 3


SCALING = Scaling()


def test_static_methods_of_classes_are_read_without_python(monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[str] = []
    before = Entrance.making

    def noted(self: Any, lowering: Any, *given: Any) -> Any:
        rows.extend(name for name, *_ in lowering.rows)
        return before(self, lowering, *given)

    monkeypatch.setattr(Entrance, "making", noted)
    compiled = weft.compile(
        lambda x: SCALING.doubled(x) + SCALING.tripled(x), backend="native", fullgraph=True
    )
    x = weft.arange(3.0)
    for _ in range(10):
        weft.testing.assert_close(compiled(x), x * 5)
    assert rows and "call_missing" not in rows
    monkeypatch.setattr(Scaling.doubled, "__defaults__", (7.0,))
    weft.testing.assert_close(compiled(x), x * 10)
    monkeypatch.setattr(Scaling.doubled, "__code__", (lambda x, factor=2.0: x - factor).__code__)
    weft.testing.assert_close(compiled(x), x - 7 + x * 3)
    monkeypatch.setattr(Scaling, "tripled", classmethod(lambda cls, x: x))
    weft.testing.assert_close(compiled(x), x - 7 + x)
