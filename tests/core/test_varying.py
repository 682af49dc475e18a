"""When programs are no longer made: the fifth for numbers alone, within fifty calls, is the last."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from weft.core.varying import MOST, WITHIN, Builds, told


def called(builds: Builds, times: int = 1) -> None:
    for _ in range(times):
        builds.calls[0] += 1


def test_the_fifth_within_fifty_calls_settles_it() -> None:
    builds, found = Builds(), []
    for number in range(MOST):
        called(builds)
        assert builds.wants(number)
        found.append(builds.made("layout"))
    assert found == [False] * (MOST - 1) + [True]
    assert builds.settled and not builds.wants(MOST)


def test_programs_that_are_used_do_not() -> None:
    builds = Builds()
    for number in range(4 * MOST):
        called(builds, -(-WITHIN // (MOST - 1)))  # so that five take fifty calls
        assert builds.wants(number) and not builds.made("layout")


def test_other_layouts_are_no_other_numbers() -> None:
    builds = Builds()
    for number in range(200):
        called(builds)
        assert not builds.made(f"layout {number}")
    assert not builds.settled


def test_a_number_that_stays_gets_a_program_after_all() -> None:
    builds = Builds()
    for _ in range(MOST):
        builds.made("layout")
    assert [builds.wants("one") for _ in range(WITHIN - 1)] == [False] * (WITHIN - 1)
    assert not builds.wants("another")  # which breaks the row
    assert [builds.wants("one") for _ in range(WITHIN)] == [False] * (WITHIN - 1) + [True]


def test_threads_settle_it_once() -> None:
    builds = Builds()
    with ThreadPoolExecutor(8) as threads:
        assert sum(threads.map(lambda _: builds.made("layout"), range(64))) == 1


def test_the_text_names_what_varied() -> None:
    assert "f (a.py:1), since n and m varied" in told("f (a.py:1)", ["n", "m"])
