"""Checks of entries: none of them runs code of users."""

from __future__ import annotations

from typing import Any

import pytest

import weft
from weft.native import entry
from weft.tensor.base import Parameter, Tensor
from weft.tensor.tape import INFERENCE
from weft.tensor.views import View

MISS = object()


class Key:
    """Is asked whether it is the text whenever somebody looks for that."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.asked = 0

    def __hash__(self) -> int:
        return hash(self.text)

    def __eq__(self, other: object) -> bool:
        self.asked += 1
        return False


@pytest.mark.parametrize("check", [("dict_item", 1, 0, "key"), ("dict_lacks", 0, 0, "other")])
def test_keys_of_users_are_not_asked(check: Any) -> None:
    entrance = entry.entrance(entry.Layout(Tensor, Parameter, View, INFERENCE))
    look = entrance.make([("argument", 0, 0), ("type_is", 0, 0, dict), check], 2, [], MISS, None)
    key = Key(check[3])
    for found in ({"key": 1}, {"key": 1, 2: 3}, {2: 3, "key": 1}):
        assert look(found) == ()
    for found in ({key: 1, "key": 1}, {"key": 1, key: 1}, {"key": 1, Key("far"): 1}):
        key.asked = 0
        assert look(found) is MISS
        assert not key.asked


def test_dicts_with_keys_of_users() -> None:
    held: dict[Any, Any] = {"weight": weft.ones(3)}
    numbered: dict[Any, Any] = {1: weft.ones(3), "other": 2}

    def f(x: weft.Tensor) -> weft.Tensor:
        return x + held["weight"] + numbered[1]

    compiled = weft.compile(f, backend="native")
    for _ in range(4):
        assert compiled(weft.zeros(3)).tolist() == [2.0] * 3
    held.clear()
    held[Key("weight")], held["weight"] = 1, weft.full((3,), 5.0)
    numbered[Key("other")] = 3
    for _ in range(4):
        assert compiled(weft.zeros(3)).tolist() == [6.0] * 3


@pytest.mark.parametrize("name", ["call_is", "call_missing"])
def test_interrupts_come_through(name: str) -> None:
    def interrupted(*_values: Any) -> Any:
        raise KeyboardInterrupt

    entrance = entry.entrance(entry.Layout(Tensor, Parameter, View, INFERENCE))
    operands = (interrupted, None) if name == "call_is" else (interrupted,)
    look = entrance.make([(name, 0, *operands)], 1, [], MISS, None)
    with pytest.raises(KeyboardInterrupt):
        look(1)
