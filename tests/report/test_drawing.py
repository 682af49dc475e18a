"""Where nodes stand: below what they read, and on no other."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from weft.report.drawing import WIDTH, placed


@st.composite
def graphs(draw: st.DrawFn) -> tuple[int, list[tuple[int, int]]]:
    count = draw(st.integers(1, 25))
    pairs = st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)).filter(
        lambda pair: pair[0] < pair[1]
    )
    return count, draw(st.lists(pairs, max_size=40, unique=True)) if count > 1 else []


@given(graphs())
def test_arrows_point_down_and_nodes_have_room(graph: tuple[int, list[tuple[int, int]]]) -> None:
    count, edges = graph
    places = placed(count, edges)
    assert len(places) == count
    for source, target in edges:
        assert places[source][1] < places[target][1]
    for number, (x, y) in enumerate(places):
        assert not any(
            abs(x - other_x) < WIDTH - 1e-3 and y == other_y for other_x, other_y in places[:number]
        )


def test_inputs_stand_just_above_their_first_reader() -> None:
    places = placed(5, [(0, 1), (1, 2), (3, 4), (2, 4)])
    assert places[4][1] - places[3][1] == places[2][1] - places[1][1]


def test_nothing_is_nowhere() -> None:
    assert placed(0, []) == []
