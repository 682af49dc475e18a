"""Lines on a terminal: said where somebody sees them, taken away again, and nothing anywhere else."""

from __future__ import annotations

import io
import time
from types import SimpleNamespace

import pytest

import weft
from weft.cli import bench
from weft.cli.main import main
from weft.core import progress as module
from weft.core.progress import progress, state, working


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    found = Terminal()
    monkeypatch.setattr(module, "stream", lambda: found)
    monkeypatch.setattr(module, "PATIENCE", 0.01)
    monkeypatch.setattr(module, "PERIOD", 0.0)
    monkeypatch.setattr(weft.compiler.settings, "progress", True)
    return found


def test_long_work_says_what_it_is_and_leaves_nothing(terminal: Terminal) -> None:
    with working("compiling f"), working("compiling a part of f"):
        while "compiling f ... 0 s" not in terminal.getvalue():
            time.sleep(0.01)
    assert terminal.getvalue().endswith(module.CLEAR)
    assert "a part" not in terminal.getvalue()


def test_short_work_says_nothing(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE", 100.0)
    with working("compiling f"):
        pass
    assert terminal.getvalue() == ""


def test_errors_take_the_line_away(terminal: Terminal) -> None:
    with pytest.raises(ValueError), working("compiling f"):
        while not terminal.getvalue():
            time.sleep(0.01)
        raise ValueError
    assert terminal.getvalue().endswith(module.CLEAR)


def test_compiling_is_long_work(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(_graph, _inputs):
        while not terminal.getvalue():
            time.sleep(0.01)
        return _graph.forward

    def double(x):
        return x * 2

    assert weft.compile(double, backend=slow)(weft.ones(1)).item() == 2
    assert "compiling test_compiling_is_long_work.<locals>.double ... 0 s" in terminal.getvalue()


def test_loops_say_how_far_they_are(terminal: Terminal) -> None:
    loader = weft.data.DataLoader(range(6), batch_size=2)
    assert [batch.tolist() for batch in progress(loader, "epoch 1")] == [[0, 1], [2, 3], [4, 5]]
    assert "epoch 1 2/3, " in terminal.getvalue() and terminal.getvalue().endswith(module.CLEAR)


def test_loading_is_long_work_until_a_batch_was_quick(terminal: Terminal) -> None:
    class Slow:
        def __len__(self) -> int:
            return 3

        def __getitem__(self, number: int) -> int:
            while number == 0 and not terminal.getvalue():
                time.sleep(0.01)
            return number

    batches = iter(weft.data.DataLoader(Slow()))
    assert next(batches).item() == 0
    assert "loading batch 1 ... 0 s" in terminal.getvalue() and terminal.getvalue().endswith(module.CLEAR)
    said = terminal.getvalue()
    assert [batch.item() for batch in batches] == [1, 2] and terminal.getvalue() == said


def test_benchmarks_are_long_work(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    def row_of(*_arguments: object) -> dict[str, object]:
        while not terminal.getvalue():
            time.sleep(0.01)
        return {"weft": {"step": 1.0}}

    peers = SimpleNamespace(
        ROWS={"a": SimpleNamespace(name="a small sum")}, PEERS={"weft": "weft"}, limits=dict, row_of=row_of,
        report=lambda letter, row, floor: None,
    )  # fmt: skip
    monkeypatch.setattr(bench, "programs", lambda: peers)
    assert main(["bench", "--rows", "a"]) == 0
    assert "[1/1] row a, a small sum: weft ... 0 s" in terminal.getvalue()


def test_the_state_of_a_loop() -> None:
    assert state("reading", 20, 100, 4.0) == "reading 20/100, 5/s, 16 s left"
    assert state("", 20, None, 4.0) == "20, 5/s"


@pytest.mark.parametrize("why", ["no terminal", "unwanted"])
def test_silence(why: str, terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    if why == "unwanted":
        monkeypatch.setattr(weft.compiler.settings, "progress", False)
    else:
        monkeypatch.setattr(terminal, "isatty", lambda: False, raising=False)
    with working("compiling f"):
        time.sleep(0.05)
    assert list(weft.utils.progress([1, 2])) == [1, 2]
    assert terminal.getvalue() == ""
