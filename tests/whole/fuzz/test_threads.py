"""Native programs do the same on one thread and on two, bit by bit; the fuzzer finds it where they do not.

The campaign is `python -m tests.whole.fuzz --family native --backend native --threads --count 20000`; here
are a few programs with fixed seeds, and a program whose steps are put beside each other on purpose.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.whole.fuzz import compare, native_programs, snapshot, threads
from weft.compiler import counters
from weft.native.program import assemble

WRITTEN = """\
import weft
OPTIONS = {'backend': 'native'}
def main(x, y):
    row = x[-1]
    x.mul_(2)
    return -weft.maximum(x, y), row.sum()
def arguments():
    yield ((weft.ones(2, 3), weft.ones(3)), {})
"""


@pytest.fixture
def both(monkeypatch):
    monkeypatch.setattr(compare, "BOTH", [2])
    with threads.cut_small():
        yield


def test_random_tensor_programs_agree(both):
    counters.clear()
    for seed in range(3000, 3008):
        compare.agree(native_programs.program(seed))
    assert counters["stats"]["unique_graphs"] > 8


def test_a_seed_is_a_tensor_program():
    assert native_programs.program(5) == native_programs.program(5) != native_programs.program(6)
    assert "OPT.step()" in native_programs.program(7)


def test_steps_that_wait_for_each_other(both):
    compare.agree(WRITTEN)


def test_finds_steps_that_do_not_wait(both, monkeypatch):
    def together(steps, works, homes):
        return [(0, len(steps), len(steps), 1000)] if len(steps) > 1 else []

    monkeypatch.setattr(assemble, "bunches", together)
    found = compare.compare(WRITTEN)
    assert found is not None and found.kind == "2 threads: result"


def test_a_fold_of_parts_beside_parts_of_a_fold(both):
    """The nine parts of a sum are added up; of nine elements, others are added in four parts."""
    compare.agree("""\
import weft
OPTIONS = {'backend': 'native'}
def main(x, y):
    return (weft.cat([x, x]).abs() + 0.1) ** y.softmax(-1).sum(-1).sigmoid(),
def after(result, *args):
    (result[0] * weft.arange(18)).sum().backward()
def arguments():
    x = weft.linspace(-1, 1, 9)
    yield (x.clone().requires_grad_(), (x * x).requires_grad_()), {}
""")


def test_bits_of_numbers_but_not_of_nans():
    """Compilers choose which of two NaNs a sum is; zeros have signs."""
    nan = np.array([0x7FC00000, 0xFFC00001], np.uint32).view(np.float32)
    with snapshot.bits():
        assert snapshot.Numbers(nan, 0.0) == snapshot.Numbers(nan[::-1], 0.0)
        assert snapshot.Numbers(np.zeros(1), 0.0) != snapshot.Numbers(-np.zeros(1), 0.0)
        assert snapshot.Numbers(np.ones(1), 1.0) != snapshot.Numbers(np.nextafter(np.ones(1), 2.0), 1.0)
