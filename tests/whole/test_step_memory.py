"""The peak memory of training steps: see `benchmarks.memory`, which prints all of it."""

from __future__ import annotations

import pytest

from benchmarks.memory import peak

MOST = {
    ("forward", "SGD", "tall"): 0.8,
    ("forward", "momentum", "wide"): 1.01,
    ("whole step", "SGD", "tall"): 1.0,
    ("whole step", "SGD", "wide"): 1.0,
    ("whole step", "Adam", "tall"): 1.01,
    ("whole step", "Adam", "wide"): 1.03,
}
"""By what is compiled, optimizer and size: the peak beside eager's. A hundredth is for Python's own objects,
two more for the pieces in which an optimizer's rule runs."""


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "optimizer", "size"), MOST)
def test_peaks_are_no_higher_than_eagers(kind, optimizer, size):
    eager, compiled = [peak(kind, optimizer, size, backend) for backend in (None, "aot_eager")]
    assert compiled <= MOST[kind, optimizer, size] * eager
