"""Effects: what captured code leaves behind in the world."""

from __future__ import annotations

import contextlib
from typing import Any

import weft
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


# -- sets ----------------------------------------------------------------------------------------------------
def shrunk(*kept: int) -> set[int]:
    """A set that was larger once, so that its table is too."""
    items = set(range(100))
    for item in range(100):
        if item not in kept:
            items.discard(item)
    return items


def test_the_order_of_a_set_that_was_larger_once() -> None:
    def scenario(compile: Compile) -> Any:
        def forward(x: Any, items: Any) -> Any:
            items.add(8)
            items.discard(1)
            return x * len(items), [item + 1 for item in items]

        compiled = compile(forward)
        results = []
        for items in ({1, 9}, shrunk(1, 9), {1, 9}):
            results += [compiled(tensor(), items), list(items)]
        return results

    same(scenario)


def test_a_set_remembers_where_it_popped() -> None:
    def scenario(compile: Compile) -> Any:
        items = {0, 1, 2, 3}
        items.pop()
        items.add(0)
        compiled = compile(lambda x: x * items.pop())
        return compiled(tensor()), items, compiled(tensor()), items

    same(scenario)


# -- functions -----------------------------------------------------------------------------------------------
def test_attributes_of_functions_that_are_the_same_later() -> None:
    def scenario(compile: Compile) -> Any:
        def make() -> Any:
            def inner() -> None: ...

            inner.count = 0  # type: ignore[attr-defined]
            return inner

        def forward(x: Any, one: Any, other: Any) -> Any:
            one.count = one.count + 1
            return x * other.count, {one: 5}.get(other)

        compiled = compile(forward)
        one, other, both = make(), make(), make()
        return compiled(tensor(), one, other), compiled(tensor(), both, both), one.count, both.count

    same(scenario)


# -- versions ------------------------------------------------------------------------------------------------
def test_a_failed_graph_leaves_no_versions_behind() -> None:
    def scenario(compile: Compile) -> Any:
        def forward(x: Any, view: Any, place: Any) -> Any:
            x.add_(1)
            view.mul_(2)
            return x[place] + 1

        compiled = compile(forward)
        x = tensor()
        seen = []
        for place in (0, 7, 1):
            with contextlib.suppress(IndexError):
                seen.append(compiled(x, x[1:], weft.tensor(place)))
            seen.append((x.clone(), x._version))
        return seen

    same(scenario)
