"""Properties of classes of one's own in captured code."""

from __future__ import annotations

from typing import Any

import weft
from tests.capture.features.harness import check, tensor


class Noted(property):
    """A property that knows more of itself."""

    unit = "m"


class Loud(property):
    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else super().__get__(instance, owner) * 10

    def __set__(self, instance: Any, value: Any) -> None:
        instance.x = value * 3


def test_subclasses_of_property() -> None:
    class Rod:
        length = Noted(lambda self: self.x * 2, lambda self, new: setattr(self, "x", new))
        volume = Loud(lambda self: self.x + 1)

        def __init__(self, x: Any) -> None:
            self.x = x

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(f"no {name}")

    def f(x: Any) -> Any:
        rod = Rod(x)
        rod.length = rod.length + 1
        return rod.length, rod.x

    check(f, frames=None)
    check(lambda rod: rod.length + 1, lambda: (Rod(tensor()),))

    def louder(x: Any) -> Any:
        rod = Rod(x)
        rod.volume = x
        return rod.x

    check(louder, frames=None)
    check(lambda x: Rod(x).volume, breaks=None, frames=None)


def test_a_subclass_of_property_that_is_replaced() -> None:
    class Rod:
        length = Noted(lambda self: self.x * 2)
        x = 1.0

    rod = Rod()
    compiled = weft.compile(lambda y: y * rod.length, backend="eager")
    assert compiled(tensor()).tolist() == (tensor() * 2).tolist()
    Rod.length = Noted(lambda self: self.x * 5)  # type: ignore[assignment]
    assert compiled(tensor()).tolist() == (tensor() * 5).tolist()
    Rod.length = 7.0  # type: ignore[assignment]
    assert compiled(tensor()).tolist() == (tensor() * 7).tolist()
