"""Steps are timed as programs run them: one thread, also of BLAS."""

from __future__ import annotations

import pytest

import weft
from weft.native.cpu import blas
from weft.native.program.stepping import Stepping
from weft.report import observe
from weft.report.timing import seconds_of_steps


def test_products_have_one_thread_while_they_are_timed(monkeypatch):
    get, _ = blas._threads()
    if get is None:
        pytest.skip("this BLAS does not say how many threads it uses")
    with observe() as seen:
        weft.compile(lambda x: (x @ x).tanh(), backend="native")(weft.randn(8, 8))
    (made,) = seen.programs
    counts, step = [], Stepping.step
    monkeypatch.setattr(Stepping, "step", lambda self: counts.append(get()) or step(self))
    before = get()
    times = seconds_of_steps(made.program, made.inputs, rounds=2)
    assert len(times) == made.program.count and min(times) > 0
    assert counts == [1] * 2 * made.program.count and get() == before
