"""What entries do behind their checks: nothing goes away under a program that reads it."""

from __future__ import annotations

import gc
import signal
import sys
from typing import Any

import numpy as np
import pytest

import weft
from weft.native.program.drawing import Draws

COUNT = 200_000
"""So many elements that their memory is given back to the system at once."""


class Holder:
    weight: Any


class Replacing:
    """Garbage that replaces what a function reads when it is collected."""

    def __init__(self, holder: Holder) -> None:
        self.holder, self.cycle = holder, self

    def __del__(self) -> None:
        self.holder.weight = weft.full((COUNT,), 2.0)
        self.holder.__dict__["beside"] = [np.full(COUNT, 7.0, np.float32) for _ in range(2)]


def test_finalizers_do_not_take_away_what_a_program_reads() -> None:
    holder = Holder()

    def f(x: weft.Tensor) -> weft.Tensor:
        return x + holder.weight

    compiled = weft.compile(f, backend="native")
    x = weft.zeros(COUNT)
    thresholds, enabled = gc.get_threshold(), gc.isenabled()
    try:
        for turn in range(60):
            gc.disable()
            holder.weight = weft.full((COUNT,), 1.0)
            Replacing(holder)
            gc.set_threshold(1 + turn % 20, 1000, 1000)
            gc.enable()
            found = compiled(x)
            assert gc.isenabled()
            gc.disable()
            assert np.unique(found.numpy()).tolist() in ([1.0], [2.0])
    finally:
        gc.set_threshold(*thresholds)
        (gc.enable if enabled else gc.disable)()
    gc.disable()
    try:
        compiled(x)
        assert not gc.isenabled()
    finally:
        (gc.enable if enabled else gc.disable)()


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="no signals")
@pytest.mark.parametrize("kind", [RuntimeError, KeyError, KeyboardInterrupt])
def test_what_a_handler_raises_while_seeds_are_drawn_comes_through(kind: type[BaseException]) -> None:
    compiled = weft.compile(lambda x: weft.nn.functional.dropout(x, 0.5) + 1, backend="native")
    x = weft.ones(8)
    for _ in range(4):
        compiled(x)
    raised, seen = kind("rung"), []

    def ring(_number: int, _frame: Any) -> None:
        raise raised

    def interrupt(frame: Any, event: str, _value: Any) -> None:
        if event == "call" and frame.f_code is Draws.take.__code__:
            sys.setprofile(None)
            seen.append(frame.f_back.f_code.co_name)
            signal.raise_signal(signal.SIGUSR1)

    before, collects = signal.signal(signal.SIGUSR1, ring), gc.isenabled()
    try:
        sys.setprofile(interrupt)
        with pytest.raises(kind) as caught:
            compiled(x)
    finally:
        sys.setprofile(None)
        signal.signal(signal.SIGUSR1, before)
    assert caught.value is raised and seen and gc.isenabled() is collects
    weft.manual_seed(3)
    found = compiled(x)
    weft.manual_seed(3)
    assert found.tolist() == (weft.nn.functional.dropout(x, 0.5) + 1).tolist()
