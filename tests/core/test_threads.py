"""How many threads there are: asked for, by affinity, by quota."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from weft.core import threads


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    before = list(threads.asked), list(threads.watchers)
    threads.available.cache_clear()
    yield
    threads.asked[:], threads.watchers[:] = before
    threads.available.cache_clear()


@pytest.mark.parametrize(
    ("content", "expected"),
    [("150000 100000", 2), ("50000 100000", 1), ("max 100000", 64), ("", 64), ("-1 100000", 64)],
)
def test_quotas(content: str, expected: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "cpu.max"
    path.write_text(content)
    monkeypatch.setattr(threads, "QUOTAS", ((str(path),), (str(tmp_path / "none"),)))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _process: set(range(64)), raising=False)
    assert threads.available() == expected


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, 0),
        ({"OMP_NUM_THREADS": "3"}, 3),
        ({"OMP_NUM_THREADS": "4,2"}, 4),
        ({"OMP_NUM_THREADS": "3", "WEFT_NUM_THREADS": "5"}, 5),
        ({"OMP_NUM_THREADS": "0"}, 0),
        ({"WEFT_NUM_THREADS": "many"}, 0),
    ],
)
def test_the_environment_may_name_a_number(
    variables: dict[str, str], expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in threads.VARIABLES:
        monkeypatch.delenv(name, raising=False)
    for name, text in variables.items():
        monkeypatch.setenv(name, text)
    assert threads.named.__wrapped__() == expected


def test_what_is_asked_for_counts() -> None:
    told: list[int] = []
    threads.watchers.append(told.append)
    threads.ask(3)
    assert threads.count() == 3 and told == [3]
    threads.asked.clear()
    assert threads.count() == threads.available() >= 1
