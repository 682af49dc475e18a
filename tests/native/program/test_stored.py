"""Programs that earlier processes have made."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
from weft.core.settings import settings
from weft.native import backend
from weft.native.cpu import engine
from weft.native.cpu.runner import Runner
from weft.native.program import cache, stored
from weft.native.program.stored import content_of, key_of_program, restored
from weft.testing import assert_close


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(settings, "strict", True)
    forget()
    return tmp_path / "cache"


def forget() -> None:
    """What a new process does not know."""
    weft.compiler.reset()
    engine.forget()
    gc.collect()
    cache.counts.clear()


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> list[Runner]:
    made: list[Runner] = []
    real = stored.kept_or_made

    def noted(*args: Any) -> Runner:
        made.append(real(*args))
        return made[-1]

    monkeypatch.setattr(backend, "kept_or_made", noted)
    return made


def step(x: weft.Tensor, rate: float) -> weft.Tensor:
    x.sub_(weft.tanh(x) * rate)
    return x.sum()


def inputs() -> tuple[weft.Tensor, weft.Tensor]:
    weft.manual_seed(0)
    return weft.randn(6, 8, requires_grad=True), weft.randn(8, 5, requires_grad=True)


def mixed(x: weft.Tensor, w: weft.Tensor) -> tuple[Any, ...]:
    y = weft.softmax(x * 2 + weft.arange(8.0), -1)
    return (y @ w).relu().sum(0), y.t().contiguous(), y.mean(1), x, 3


@pytest.mark.parametrize(
    "function",
    [mixed, lambda x, w: (x @ w).tanh(), lambda x, w: (x[1:, ::2].exp().flatten(), weft.zeros(3) + w.mean())],
)
def test_kept_programs_give_the_same_bits(function: Callable[..., Any], programs: list[Runner]) -> None:
    results = []
    for _ in range(2):
        forget()
        x, w = inputs()
        made = weft.compile(function, backend="native", fullgraph=True)(x, w)
        made = made if isinstance(made, tuple) else (made,)
        sum(each.sum() for each in made if isinstance(each, weft.Tensor)).backward()  # type: ignore[union-attr]
        results.append((made, x.grad, w.grad))
    assert_close(results[0], results[1], rtol=0, atol=0)
    kinds = [program.is_restored for program in programs]
    half = len(kinds) // 2
    assert half and kinds == [False] * half + [True] * half


def test_inputs_that_are_written(programs: list[Runner]) -> None:
    values = []
    for rate in (0.5, 0.5, 0.25):
        forget()
        x = weft.arange(12.0).reshape(3, 4)
        total = weft.compile(step, backend="native", fullgraph=True)(x, rate)
        values.append((x, total))
    assert_close(values[0], values[1], rtol=0, atol=0)
    expected = weft.arange(12.0).reshape(3, 4)
    step(expected, 0.25)
    assert_close(values[2], (expected, expected.sum()))
    assert [program.is_restored for program in programs] == [False, True, True]  # floats are read


def test_programs_of_which_python_does_a_part_are_not_kept(programs: list[Runner], folder: Path) -> None:
    weft.compile(lambda x: weft.sort(x * 2)[0], backend="native", fullgraph=True)(weft.randn(5))
    (program,) = programs
    assert content_of(program) is None
    assert not list(folder.glob("*.program"))


def test_they_can_be_run_without_python(programs: list[Runner]) -> None:
    for _ in range(2):
        forget()
        weft.compile(lambda x: (x * 2).exp(), backend="native", fullgraph=True)(weft.randn(5))
    new, kept = (program.frame for program in programs)
    assert new is not None and kept is not None
    assert (new.places, new.givens, new.arena_bytes) == (
        kept.places,
        [*map(tuple, kept.givens)],
        kept.arena_bytes,
    )


# -- keys ----------------------------------------------------------------------------------------------------
def key(function: Callable[..., Any], *args: Any) -> str | None:
    found: list[str | None] = []

    def compiler(graph_module: Any, _inputs: list[Any]) -> Any:
        def run(*given: Any) -> Any:
            found.append(key_of_program(graph_module, [getattr(value, "array", value) for value in given]))
            return graph_module.forward(*given)

        return run

    weft.compiler.reset()
    weft.compile(function, backend=weft.compiler.aot(compiler), fullgraph=True)(*args)
    return found[0]


X = weft.ones(3, 4)
SAME = lambda x: weft.softmax(x * 2 + weft.tensor([1.0, 2, 3, 4]), -1)


def test_equal_graphs_have_equal_keys() -> None:
    def other(renamed: weft.Tensor) -> weft.Tensor:
        doubled = renamed * 2
        return weft.softmax(doubled + weft.tensor([1.0, 2, 3, 4]), -1)

    assert key(SAME, X) == key(other, weft.zeros(3, 4)) is not None


@pytest.mark.parametrize(
    ("function", "given"),
    [
        (lambda x: weft.softmax(x * 3 + weft.tensor([1.0, 2, 3, 4]), -1), X),
        (lambda x: weft.softmax(x * 2.0 + weft.tensor([1.0, 2, 3, 4]), -1), X),
        (lambda x: weft.softmax(x * 2 + weft.tensor([1.0, 2, 3, 5]), -1), X),
        (lambda x: weft.softmax(x * 2 + weft.tensor([1.0, 2, 3, 4]), 0), X),
        (lambda x: weft.log_softmax(x * 2 + weft.tensor([1.0, 2, 3, 4]), -1), X),
        (lambda x: (weft.softmax(x * 2 + weft.tensor([1.0, 2, 3, 4]), -1), x * 2), X),
        (SAME, weft.ones(2, 4)),
        (SAME, weft.ones(4, 3).t()),
        (SAME, X.double()),
    ],
)
def test_other_graphs_and_inputs_have_other_keys(function: Callable[..., Any], given: weft.Tensor) -> None:
    assert key(function, given) not in (key(SAME, X), None)


def test_zeros_and_truths_are_told_apart() -> None:
    plus, minus = key(lambda x: x + 0.0, X), key(lambda x: x + -0.0, X)
    truth, one = key(lambda x: x + True, X), key(lambda x: x + 1, X)
    assert len({plus, minus, truth, one}) == 4


def test_files_of_this_package_are_part_of_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    before = key(SAME, X)
    changed = (*stored.surroundings()[:-1], "/native/program/stored.py 1 1")
    monkeypatch.setattr(stored, "surroundings", lambda: changed)
    assert key(SAME, X) != before
    assert any(part.startswith("/native/program/planning.py ") for part in changed)


def test_what_has_no_text_is_not_kept() -> None:
    class Odd(int):
        pass

    from weft.graph.graph import Graph

    graph = Graph()
    x = graph.placeholder("x")
    graph.output((graph.call_function(len, (x, Odd(3))),))
    assert key_of_program(type("Module", (), {"graph": graph})(), [X.array]) is None
    assert key_of_program(type("Module", (), {"graph": Graph()})(), [object()]) is None


# -- faults --------------------------------------------------------------------------------------------------
def test_an_object_that_is_gone(programs: list[Runner], folder: Path) -> None:
    function = lambda x: (x * 5).cos()
    x = weft.randn(4)
    weft.compile(function, backend="native", fullgraph=True)(x)
    programs.clear()
    forget()
    for path in folder.glob("*.object"):
        path.unlink()
    assert_close(weft.compile(function, backend="native", fullgraph=True)(x), function(x))
    assert not programs[0].is_restored


@pytest.mark.parametrize("place", [10, 30, 60, -1])
def test_a_damaged_program(programs: list[Runner], folder: Path, place: int) -> None:
    function = lambda x: (x * 5).cos()
    x = weft.randn(4)
    weft.compile(function, backend="native", fullgraph=True)(x)
    forget()
    (path,) = folder.glob("*.program")
    content = bytearray(path.read_bytes())
    content[place] ^= 2
    path.write_bytes(content)
    assert_close(weft.compile(function, backend="native", fullgraph=True)(x), function(x))
    assert not programs[1].is_restored


PROGRAM = """
import sys
import weft
from weft.native.program.cache import counts
x = weft.arange(12.0).reshape(3, 4).requires_grad_()
y = weft.compile(lambda x: weft.softmax(x * 2, -1) @ x.t(), backend="native")(x)
(y * y).sum().backward()
names = ("lower.lowering", "plan.fuse", "program.planning", "cpu.kernel_text")
loaded = [name for name in names if f"weft.native.{name}" in sys.modules]
print(x.grad.array.tobytes().hex(), loaded, sorted(counts))
"""


def test_a_second_process_makes_nothing(folder: Path) -> None:
    root = str(Path(weft.__file__).parents[1])
    said = []
    for _ in range(2):
        result = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={"PYTHONPATH": root, "WEFT_CACHE_DIR": str(folder)},
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert result.stderr == ""
        said.append(result.stdout.split(" ", 1))
    assert said[0][0] == said[1][0]
    assert said[1][1] == "[] ['entry missed', 'object found', 'program found']\n"
    assert "program written" in said[0][1]


def test_contents_are_plain() -> None:
    made: list[Runner] = []

    def listener(program: Runner, _arrays: list[Any]) -> None:
        made.append(program)

    backend.listeners.append(listener)
    try:
        weft.compile(lambda x: (x + 1, x[:0] * 2), backend="native", fullgraph=True)(weft.ones(2))
    finally:
        backend.listeners.remove(listener)
    content = content_of(made[0])
    assert content is not None
    assert made[0].constants or any(isinstance(each, tuple) for each in made[0].outputs)
    value, nothing = restored(content, [np.ones(2, np.float32)])([np.ones(2, np.float32)])
    assert value.tolist() == [2.0, 2.0] and nothing.shape == (0,) and nothing.dtype == np.float32


def test_kept_programs_draw_from_the_generators_of_their_calls(programs: list[Runner]) -> None:
    def f(x: weft.Tensor, g: weft.Generator) -> tuple[weft.Tensor, ...]:
        return weft.nn.functional.dropout(x, 0.4), weft.randn(7, generator=g), weft.rand(3)

    def run(function: Callable[..., Any]) -> tuple[Any, ...]:
        weft.manual_seed(11)
        g = weft.Generator().manual_seed(12)
        found = [function(weft.ones(50), g) for _ in range(2)]
        return found, weft.default_generator.get_offset(), g.get_offset()

    expected = run(f)
    for _ in range(2):
        forget()
        found = run(weft.compile(f, backend="native", fullgraph=True))
        assert_close(found[0], expected[0], rtol=0, atol=0)
        assert found[1:] == expected[1:]
    assert [program.is_restored for program in programs] == [False, True]


def test_a_program_is_kept_whose_drafts_another_one_has_replaced(
    monkeypatch: pytest.MonkeyPatch, programs: list[Runner]
) -> None:
    monkeypatch.setattr(settings, "tiers", "auto")
    weft.compile(step)(weft.ones(64, 8), 0.5)
    program = programs[-1]
    assert program.functions.drafts()
    before = program.code[: program.count, 0].tolist()
    moved = program.functions.improve()  # as a program does that shares them
    assert not program.functions.drafts() and set(before) & set(moved)
    content = content_of(program)
    program.improve()
    assert program.code[: program.count, 0].tolist() != before
    assert content == content_of(program)
