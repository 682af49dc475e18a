"""Effects: what captured code leaves behind in the world."""

from __future__ import annotations

from typing import Any

from tests.capture.attacks.scenario import Compile, same, tensor


class Thing:
    def __init__(self, **fields: Any) -> None:
        vars(self).update(fields)


def test_attributes_deleted_and_written_again_stand_last() -> None:
    def scenario(compile: Compile) -> Any:
        def forward(x: Any, thing: Any) -> Any:
            del thing.a
            thing.b = 2
            thing.c = 1
            thing.a = x * 2
            del thing.c
            thing.c = 5
            return x + 1, [name + "!" for name in vars(thing)]

        compiled = compile(forward)
        things = [Thing(a=1, d=3), Thing(a=1, d=3)]
        return [compiled(tensor(), thing) for thing in things], [list(vars(thing)) for thing in things]

    same(scenario, frames=1, breaks=0)
