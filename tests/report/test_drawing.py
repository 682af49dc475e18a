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


def test_what_an_optimizer_computes_stands_below_the_model() -> None:
    # a rate 0 -> its negative 1; a model 2 -> 3 -> 4 -> 5; 6 updates by 5 and 1; no one reads the write 7
    places = placed(8, [(0, 1), (2, 3), (3, 4), (4, 5), (5, 6), (1, 6), (0, 7)])
    rows = [round(y) for _, y in places]
    assert rows[1] == rows[5] and rows[0] == rows[4] and rows[7] == rows[6]


def test_what_is_far_away_pulls_little() -> None:
    """A model is a straight column, though each op is read by an update in the wide row at the end."""
    chain = [(number, number + 1) for number in range(29)]
    updates = [edge for number in range(30) for edge in ((number, 30 + number), (29, 30 + number))]
    places = placed(60, [*chain, *updates])
    assert max(abs(after[0] - before[0]) for before, after in zip(places[:15], places[1:16])) < WIDTH / 4
