"""Minimum cuts against all cuts of small networks."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.aot.flow import INFINITE, Network

EDGES = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6), st.integers(0, 9)), max_size=20)


@given(EDGES)
def test_no_cut_is_cheaper(edges):
    network = Network()
    while len(network.edges) < 7:
        network.vertex()
    for start, end, capacity in edges:
        network.edge(start, end, capacity)

    def cost(side):
        return sum(capacity for start, end, capacity in edges if start in side and end not in side)

    found = network.cut()
    assert 0 in found
    assert 1 not in found
    others = [{0, *chosen} for count in range(6) for chosen in itertools.combinations((2, 3, 4, 5, 6), count)]
    assert cost(found) == min(map(cost, others))


def test_an_infinite_cut_is_refused():
    network = Network()
    network.edge(0, 1, INFINITE)
    with pytest.raises(ValueError, match="infinite"):
        network.cut()


def test_long_chains():
    network = Network()
    last = 0
    for _ in range(5000):
        following = network.vertex()
        network.edge(last, following, 5)
        last = following
    network.edge(last, 1, 3)
    assert len(network.cut()) == 5001
