"""How far a segment goes: to the return, to a break, or to what can still be rebuilt."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

import weft
import weft.compiler
from weft.capture import runtime
from weft.capture.bytecode import drafts
from weft.testing import CompileCounter


def test_a_segment_ends_before_an_object_that_cannot_be_rebuilt(capsys: Any) -> None:
    def program(x: weft.Tensor) -> Any:
        y = (x + 1) * 2
        pairs = itertools.pairwise([1, 2, 3])
        next(pairs)
        print("here")
        return y * 2, list(pairs)

    counter = CompileCounter()
    weft.compiler.counters.clear()
    compiled = weft.compile(program, backend=counter)
    for _ in range(2):
        value, rest = compiled(weft.ones(2))
        assert value.tolist() == [8.0, 8.0] and rest == [(2, 3)]
    assert capsys.readouterr().out == "here\nhere\n"
    assert counter.frame_count == 2 and counter.op_count == 3
    assert weft.compiler.counters["graph_break"]["cannot-rebuild: an object of class itertools.pairwise"] == 1


def test_a_tuple_that_is_returned_is_the_one_that_came() -> None:
    def program(x: weft.Tensor, pair: tuple[int, int]) -> Any:
        return x + pair[0], pair

    pair = (1, int("2"))
    assert weft.compile(program, fullgraph=True)(weft.ones(2), pair)[1] is pair


def test_a_function_that_raises_runs_as_written() -> None:
    def program(x: weft.Tensor, values: list[int]) -> weft.Tensor:
        values.append(1)
        y = x + 1
        if values:
            raise KeyError("lost", len(values))
        return y

    counter = CompileCounter()
    compiled = weft.compile(program, backend=counter)
    values: list[int] = []
    try:
        compiled(weft.ones(2), values)
    except KeyError as error:
        assert error.args == ("lost", 1)
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        assert trace is not None and trace.tb_frame.f_code is program.__code__
    else:
        raise AssertionError("nothing was raised")
    assert values == [1] and counter.frame_count == 0


def test_a_python_whose_bytecode_is_new_runs_functions_as_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drafts, "VERSION", (3, 99))
    monkeypatch.setattr(runtime, "_told_of_python", [])

    def f(x: weft.Tensor) -> weft.Tensor:
        return x.sin().sum()

    def g(x: weft.Tensor) -> weft.Tensor:
        return f(x) * 2

    x = weft.ones(3, requires_grad=True)
    with pytest.warns(RuntimeWarning, match=r"reads the bytecode of Python 3\.11, .*run as written") as seen:
        found = weft.compile(f)(x)
        weft.compile(g)(x)
    assert len(seen) == 1 and seen[0].filename == __file__
    found.backward()
    assert weft.equal(x.grad, weft.ones(3).cos())
