"""Collection is put off, and comes back."""

from __future__ import annotations

import gc

import pytest

import weft
from weft.core import collection
from weft.core.collection import Living, uncollected


def test_put_off_and_back() -> None:
    assert gc.isenabled()
    with uncollected():
        assert not gc.isenabled()
        with uncollected():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()
    with pytest.raises(ValueError), uncollected():
        raise ValueError
    assert gc.isenabled()


def test_who_has_switched_it_off_keeps_it_so() -> None:
    gc.disable()
    try:
        with uncollected():
            pass
        assert not gc.isenabled()
        weft.compile(lambda x: x + 1)(weft.ones(2))
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_what_is_compiled_runs_with_it() -> None:
    seen = []

    def broken(x: weft.Tensor) -> weft.Tensor:
        y = x + 1
        seen.append(gc.isenabled())
        return y * 2

    weft.compile(broken)(weft.ones(2))
    assert seen == [True] and gc.isenabled()


def test_what_the_first_compiles_made_is_old(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collection, "_left", 1)
    with uncollected():
        made: list[list[int]] = [[] for _ in range(10)]
    old = {id(each) for each in gc.get_objects(2)}
    assert all(id(each) in old for each in made)
    assert collection._left == 0
    with uncollected():
        pass
    assert collection._left == 0


def test_what_somebody_has_frozen_stays_frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collection, "_left", 1)
    gc.freeze()
    try:
        count = gc.get_freeze_count()
        with uncollected():
            pass
        assert gc.get_freeze_count() > count // 2 > 0
    finally:
        gc.unfreeze()


class Thing:
    pass


def test_what_lives_may_become_more_while_it_is_walked() -> None:
    first, second, later = Thing(), Thing(), Thing()
    living: Living[Thing] = Living()
    living.add(first)
    living.add(second)
    seen = []
    for each in living:
        living.add(later)
        seen.append(each)
    assert seen == [first, second] and list(living) == [first, second, later]
    seen.clear()
    del first, each
    gc.collect()
    assert list(living) == [second, later]
