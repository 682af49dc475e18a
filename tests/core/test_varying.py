"""What is said of numbers that vary, and when programs are no longer made for them."""

from __future__ import annotations

from array import array
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy

import pytest

from weft.core.counters import counters
from weft.core.errors import NotCompiled
from weft.core.settings import settings
from weft.core.varying import ENOUGH, MOST_LAYOUTS, STAYS, WITHIN, Builds, Varying, told


def called(builds: Builds, times: int = 1) -> None:
    for _ in range(times):
        builds.calls[0] += 1


# -- what is said --------------------------------------------------------------------------------------------
class Watched:
    """A function whose programs are for one number, and what was said of it."""

    def __init__(self) -> None:
        self.varying, self.calls, self.said = Varying("f (a.py:1)"), array("q", [0]), []
        self.varying.follow(self.calls)

    def build(self, value: str, name: str = "L['n']", calls: int = 1) -> bool:
        count = len(self.said)
        self.calls[0] += calls
        self.varying.build({name: value}, [name], self.said.append)
        return len(self.said) > count


def test_the_third_value_is_said_once() -> None:
    seen = Watched()
    assert [seen.build(value) for value in ("2", "3", "3", "2", "4", "5", "6")] == [False] * 4 + [True] + [
        False
    ] * 2
    assert "L['n'] within 100 calls of f (a.py:1): 2, 3, 4. " in seen.said[0]
    assert counters.pop("varying") == {seen.said[0]: 1}


def test_other_names_are_other_things() -> None:
    seen = Watched()
    assert not any(seen.build(value, name) for value in ("2", "3") for name in ("n", "m", "k"))


def test_zero_one_and_truths_choose_code_paths() -> None:
    seen = Watched()
    assert not any(seen.build(value) for value in ("0", "1", "True", "False", "None", "0.0", "2", "3"))
    counters.pop("varying", None)
    assert seen.build("4")


def test_values_that_come_seldom_are_no_waste() -> None:
    seen = Watched()
    assert not any(seen.build(str(value), calls=WITHIN // 2) for value in range(2, 30))
    assert seen.varying.now == 28 * (WITHIN // 2)


def test_what_did_not_change_is_not_named() -> None:
    seen = Watched()
    for value in ("2", "3", "4"):
        seen.varying.build({"n": value, "m": value}, ["m"] if value == "4" else [], seen.said.append)
    assert "values of m" in seen.said[0]


def test_values_of_earlier_programs_count_from_then() -> None:
    seen = Watched()
    seen.varying.note({"L['n']": "7"}, at=0)
    seen.calls[0] = WITHIN
    assert not seen.build("8") and not seen.build("9")
    assert seen.build("10")


def test_strict_raises_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "strict", True)
    seen = Watched()
    seen.build("2")
    seen.build("3")
    for value in ("4", "5"):
        with pytest.raises(NotCompiled, match=r"3 values|4 values"):
            seen.build(value)
    assert not seen.said


def test_advice_is_for_what_varied() -> None:
    assert "leave them open" in told("f", "L['x'].size()[0]", ["2"])
    assert "same object" in told("f", "the object L['x']", ["2"])
    assert "as a tensor" in told("f", "L['x']", ["2"])


def test_counts_of_the_same_calls_are_followed_once() -> None:
    varying, calls = Varying(), array("q", [3])
    assert not varying.is_followed
    varying.follow(calls)
    varying.follow(calls)
    assert varying.now == 3 and varying.is_followed and deepcopy(varying) is varying


def test_threads_say_it_once() -> None:
    seen = Watched()
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda value: seen.build(str(value)), range(2, 200)))
    assert len(seen.said) == 1
    counters.pop("varying")


# -- when no more are made -----------------------------------------------------------------------------------
def crowded() -> Builds:
    builds = Builds()
    for _ in range(ENOUGH):
        called(builds)
        builds.made("layout")
    return builds


def test_the_eighth_within_a_hundred_calls_is_enough() -> None:
    builds = Builds()
    for number in range(ENOUGH):
        called(builds)
        assert not builds.are_enough("layout") and builds.wants("layout", (number,))
        builds.made("layout")
    assert builds.are_enough("layout") and not builds.wants("layout", (77,))


def test_programs_that_are_used_are_never_enough() -> None:
    builds = Builds()
    for _ in range(4 * ENOUGH):
        called(builds, -(-WITHIN // (ENOUGH - 1)))  # so that eight take a hundred calls
        builds.made("layout")
    assert not builds.are_enough("layout")


def test_other_layouts_are_no_other_numbers() -> None:
    builds = Builds()
    for number in range(2 * MOST_LAYOUTS):
        called(builds)
        builds.made(f"layout {number}")
        assert not builds.are_enough(f"layout {number}")
    builds = crowded()
    assert not builds.are_enough("another") and builds.wants("another", ("one",))


def test_a_number_that_stays_gets_a_program_after_all() -> None:
    builds = crowded()
    assert [builds.wants("layout", ("one",)) for _ in range(STAYS - 1)] == [False] * (STAYS - 1)
    assert not builds.wants("layout", ("another",))  # which breaks the row
    assert [builds.wants("layout", ("one",)) for _ in range(STAYS)] == [False] * (STAYS - 1) + [True]


def test_what_is_known_of_layouts_is_bounded() -> None:
    builds = crowded()
    for number in range(MOST_LAYOUTS):
        builds.made(number)
    assert not builds.are_enough("layout") and len(builds._made) <= MOST_LAYOUTS


def test_threads_note_each_of_theirs() -> None:
    builds = Builds()
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda _: builds.made("layout"), range(ENOUGH)))
    assert builds.are_enough("layout")
