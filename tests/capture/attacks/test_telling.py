"""Telling: warnings and logs of the compiler point at the user's code."""

from __future__ import annotations

import inspect
import warnings
from typing import Any

import weft
from weft.compiler import set_logs, settings


def test_the_limit_of_recompiling_warns_at_the_call() -> None:
    @weft.compile(recompile_limit=2)
    def scaled(x: Any, name: str) -> Any:
        return x * len(name)

    assert not settings.strict
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        line = inspect.currentframe().f_lineno + 1  # type: ignore[union-attr]
        results = [scaled(weft.ones(1), "a" * size).item() for size in range(5)]
    assert results == [0, 1, 2, 3, 4]
    assert [(each.filename, each.lineno) for each in caught] == [(__file__, line)]


def test_a_break_in_the_logs_marks_its_place(capsys: Any) -> None:
    @weft.compile
    def forward(x: Any) -> Any:
        y = x + 1
        return y * 2 if y.sum() > 3 else y

    set_logs("breaks")
    try:
        forward(weft.ones(3))
    finally:
        set_logs()
    text = capsys.readouterr().err
    source = "        return y * 2 if y.sum() > 3 else y"
    assert source.strip() in text
    marks = next(line for line in text.splitlines() if set(line.strip()) == {"^"})
    line = next(line for line in text.splitlines() if source.strip() in line)
    assert line[marks.index("^") : marks.rindex("^") + 1] == "y.sum() > 3"
