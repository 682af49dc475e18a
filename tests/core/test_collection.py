"""Collection is put off, and comes back."""

from __future__ import annotations

import gc

import pytest

import weft
from weft.core.collection import uncollected


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
