"""Whatever cannot be compiled runs op by op: each failure is one warning, and an error under strict."""

from __future__ import annotations

import math
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import weft
from tests.native.cpu.test_engine import process
from weft.compiler import settings
from weft.native import backend
from weft.native.cpu import tiers
from weft.native.target import Uncompiled, Unlowered
from weft.testing import assert_close

ERRORS = [
    (Unlowered("an op without kernels"), "an op without kernels"),
    (Uncompiled("LLVM rejects the generated text"), "LLVM rejects the generated text"),
    (NotImplementedError(), "NotImplementedError"),
    (AssertionError(), "AssertionError"),
    (KeyError("a rule"), "KeyError: 'a rule'"),
    (OSError(28, "No space left on device"), "OSError: [Errno 28] No space left on device"),
    (RecursionError("too deep"), "RecursionError: too deep"),
    (MemoryError(), "MemoryError"),
]


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Callable[[Exception], list[int]]:
    """Makes every attempt to compile raise; gives a list that grows with the attempts."""

    def fail(error: Exception) -> list[int]:
        attempts: list[int] = []

        def made(*_args: Any) -> Any:
            attempts.append(1)
            raise error

        monkeypatch.setattr(backend, "kept_or_made", made)
        monkeypatch.setattr(backend, "_warned", set())
        weft.compiler.reset()
        return attempts

    return fail


def f(x: weft.Tensor) -> weft.Tensor:
    return (weft.softmax(x * 2, -1) * x).sum()


def warned(action: Callable[[], Any]) -> list[str]:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        action()
    return [str(each.message) for each in seen]


@pytest.mark.parametrize("error, reason", ERRORS, ids=[type(error).__name__ for error, _ in ERRORS])
def test_a_failure_is_one_warning(
    failing: Any, monkeypatch: pytest.MonkeyPatch, error: Exception, reason: str
) -> None:
    attempts = failing(error)
    monkeypatch.setattr(settings, "strict", False)
    compiled = weft.compile(f, backend="native", fullgraph=True)

    def steps() -> None:
        for _ in range(4):
            x, y = (weft.arange(6.0).reshape(2, 3).requires_grad_() for _ in range(2))
            result, expected = compiled(x), f(y)
            assert_close(result, expected, rtol=0, atol=0)
            result.backward()
            expected.backward()
            assert_close(x.grad, y.grad)

    assert warned(steps) == [f"a graph runs op by op, since it has no native program: {reason}"]
    assert len(attempts) == 2  # one for the values, one for the gradients


@pytest.mark.parametrize("error, reason", ERRORS[:5], ids=[type(error).__name__ for error, _ in ERRORS[:5]])
def test_a_failure_is_an_error_under_strict(
    failing: Any, monkeypatch: pytest.MonkeyPatch, error: Exception, reason: str
) -> None:
    failing(error)
    monkeypatch.setattr(settings, "strict", True)
    with pytest.raises(weft.compiler.NotCompiled) as found:
        weft.compile(f, backend="native", fullgraph=True)(weft.ones(2, 3))
    assert f"no native program: {reason}" in str(found.value)


def test_what_has_no_program_writes_in_place(failing: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    failing(Unlowered("nothing is lowered"))
    monkeypatch.setattr(settings, "strict", False)

    def step(x: weft.Tensor) -> None:
        x.sub_(x.sin(), alpha=0.5)

    x = weft.arange(100_000.0)
    expected, place = x - x.sin() * 0.5, x.data_ptr()
    warned(lambda: weft.compile(step, backend="native")(x))
    assert_close(x, expected)
    assert x.data_ptr() == place and x._version == 1


def test_an_entry_that_cannot_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_args: Any) -> Any:
        raise OSError("no room for code")

    def g(x: weft.Tensor) -> weft.Tensor:
        return x.cosh() * 1.0625

    monkeypatch.setattr("weft.native.entry.factory.Machine.making", refused)
    monkeypatch.setattr(settings, "strict", False)
    compiled, x = weft.compile(g, backend="native", fullgraph=True), weft.ones(3)
    seen = warned(lambda: [assert_close(compiled(x), g(x)) for _ in range(8)])
    assert len(seen) == 1 and "g has no native entry: OSError: no room for code" in seen[0]
    monkeypatch.setattr(settings, "strict", True)
    weft.compiler.reset()
    with pytest.raises(weft.compiler.CaptureFailed, match="no room for code"):
        for _ in range(8):
            compiled(x)


MISSING = """
import sys, warnings
for name in {missing}:
    sys.modules[name] = None
import weft
weft.compiler.settings.strict = {strict}
f = weft.compile(lambda x: weft.softmax(x * 2, -1) + 1, backend="native")
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    for size in (3, 3, 3, 3, 4, 5):
        x = weft.ones(3, size, requires_grad=True)
        y = f(x)
        y.sum().backward()
        weft.testing.assert_close(y, weft.full((3, size), 1 + 1 / size))
    weft.testing.assert_close(weft.ones(300, 300) + weft.ones(300, 300), weft.full((300, 300), 2.0))
print(*[str(each.message) for each in seen], sep="\\n")
"""


@pytest.mark.parametrize(
    "missing, said",
    [
        (["llvmlite", "llvmlite.binding"], "LLVM cannot be loaded: "),
        (["mmap"], "no native program: "),
    ],
)
def test_what_it_needs_is_not_there(missing: list[str], said: str, tmp_path: Any) -> None:
    result = process(MISSING.format(missing=missing, strict=False), WEFT_CACHE_DIR=str(tmp_path))
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("\n") == 1 and said in result.stdout and "op by op" in result.stdout
    result = process(MISSING.format(missing=missing, strict=True), WEFT_CACHE_DIR=str(tmp_path))
    assert result.returncode == 1 and "no native program: " in result.stderr and said in result.stderr


# -- numbers that vary ---------------------------------------------------------------------------------------
def scaled(x: weft.Tensor, n: int) -> weft.Tensor:
    """Where a diagonal lies decides what is computed, so that each number takes a program of its own."""
    return weft.diag(x.sin(), n).sum(0) * n + n


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[Any]]:
    """The programs that are made while a test runs, with a disk of its own."""
    made: list[Any] = []
    monkeypatch.setattr(settings, "strict", False)
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(backend, "listeners", [])
    before = backend.Compiled.program

    def program(self: Any, arrays: list[Any]) -> Any:
        made.append(arrays)
        return before(self, arrays)

    monkeypatch.setattr(backend.Compiled, "program", program)
    weft.compiler.reset()
    weft.compiler.counters.clear()
    yield made
    weft.compiler.counters.clear()


def files(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("grad", [False, True], ids=["values", "gradients"])
@pytest.mark.parametrize("fullgraph", [False, True])
def test_the_third_value_is_said_and_behind_the_eighth_one_program_serves_all(
    built: list[Any], tmp_path: Path, grad: bool, fullgraph: bool
) -> None:
    compiled = weft.compile(scaled, fullgraph=fullgraph)

    def call(n: int) -> None:
        x, y = (weft.arange(6.0).requires_grad_(grad) for _ in range(2))
        found, expected = compiled(x, n), scaled(y, n)
        assert_close(found, expected)
        if grad:
            found.sum().backward()
            expected.sum().backward()
            assert_close(x.grad, y.grad)

    said = warned(lambda: [call(n) for n in range(2, 14)])
    (text,) = said
    assert "3 values of L['n'] within 100 calls of scaled (" in text and "): 2, 3, 4." in text
    assert dict(weft.compiler.counters["varying"]) == {text: 1}
    tiers.wait()
    count, kept, made = len(built), files(tmp_path), weft.compiler.counters["built"]["programs"]
    assert warned(lambda: [call(n) for n in range(100, 160)]) == []  # once is enough
    tiers.wait()
    assert len(built) == count and files(tmp_path) == kept
    assert weft.compiler.counters["built"]["programs"] == made
    call(3)  # which has a program still
    assert len(built) == count
    assert not weft.compiler.counters["aot_fallbacks"]


def test_further_values_are_no_errors_under_strict(built: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """One program serves them, and the warning was one of those before."""
    compiled = weft.compile(scaled, fullgraph=True)
    x = weft.arange(6.0)
    assert len(warned(lambda: [compiled(x, n) for n in range(2, 14)])) == 1
    monkeypatch.setattr(settings, "strict", True)
    for n in range(20, 30):
        assert_close(compiled(x, n), scaled(x, n))


def test_signs_and_sizes_of_one_have_programs_of_all_numbers_too(built: list[Any]) -> None:
    compiled = weft.compile(scaled, fullgraph=True)
    x = weft.arange(6.0)
    warned(lambda: [compiled(x, n) for n in range(2, 14)])
    count = weft.compiler.counters["built"]["programs"]
    for n in (*range(-30, 30), *range(-50, -30)):
        assert_close(compiled(x, n), scaled(x, n))
    assert weft.compiler.counters["built"]["programs"] <= count + backend.MOST_GENERAL + 8
    assert not weft.compiler.counters["aot_fallbacks"]


def test_values_without_such_a_program_run_op_by_op(
    built: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With eager's bits, programs are for single sizes."""
    monkeypatch.setattr(settings, "bitwise", True)
    compiled = weft.compile(scaled, fullgraph=True)
    x = weft.arange(6.0)
    warned(lambda: [compiled(x, n) for n in range(2, 14)])
    (reason,) = weft.compiler.counters["aot_fallbacks"]
    assert "numbers that have no program, since they vary" in reason
    count, kept = len(built), files(tmp_path)
    for n in range(100, 160):
        assert_close(compiled(x, n), scaled(x, n), rtol=0, atol=0)
    assert len(built) == count and files(tmp_path) == kept
    for _ in range(60):
        assert_close(compiled(x, 77), scaled(x, 77))
    assert len(built) == count + 1  # of a number that stays
    monkeypatch.setattr(settings, "strict", True)
    with pytest.raises(weft.compiler.NotCompiled, match="numbers that have no program"):
        compiled(x, 200)


def test_programs_that_are_used_are_made(built: list[Any]) -> None:
    """Also where native entries serve all calls but the first few of each number, and Python sees none."""
    compiled = weft.compile(scaled, fullgraph=True)
    x = weft.arange(6.0)
    for n in range(2, 10):
        for _ in range(60):
            assert_close(compiled(x, n), scaled(x, n))
    assert len(built) >= 8
    assert not weft.compiler.counters["varying"]


def calls_of_kernels(function: Any) -> int:
    """How often a call has steps of a program done by Python."""
    found = []

    def called(frame: Any, event: str, _value: Any) -> None:
        if event == "call":
            found.append(frame.f_code.co_qualname)

    before = sys.getprofile()
    sys.setprofile(called)
    try:
        function()
    finally:
        sys.setprofile(before)
    return sum("call_step" in name for name in found)


def test_a_float_that_stays_has_a_program_again(built: list[Any]) -> None:
    """Where the op has machine code for floats that are known, and none for those that running tells."""

    def noisy(x: weft.Tensor, s: float) -> weft.Tensor:
        return x.clone().geometric_(0.25 + s / 2) + x

    compiled = weft.compile(noisy, fullgraph=True)
    x = weft.arange(6.0)

    def check(s: float) -> None:
        found = []
        for function in (compiled, noisy):
            weft.manual_seed(5)
            found.append((function(x, s), weft.rand(2)))
        assert_close(found[0], found[1], rtol=0, atol=0)

    for s in (0.5, 0.25, 0.125, 0.75):
        check(s)
    count = len(built)
    assert calls_of_kernels(lambda: compiled(x, 0.75))
    for _ in range(110):  # more than twice as long as it takes
        check(0.75)
    assert len(built) == count + 1 and not calls_of_kernels(lambda: compiled(x, 0.75))
    for s in (0.5, 0.25, 0.75, -0.0):
        check(s)
    assert len(built) == count + 1 and not calls_of_kernels(lambda: compiled(x, 0.75))


@pytest.mark.parametrize("fullgraph", [False, True])
def test_a_third_value_is_an_error_under_strict(
    fullgraph: bool, built: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings, "strict", True)
    compiled, x = weft.compile(scaled, fullgraph=fullgraph), weft.arange(6.0)
    for n in (2, 3, 0, 1, 3, 2):
        assert_close(compiled(x, n), scaled(x, n))
    with pytest.raises(
        weft.compiler.NotCompiled, match=r"3 values of L\['n'\] within 100 calls .*: 2, 3, 4\."
    ):
        compiled(x, 4)


@pytest.mark.parametrize("fullgraph", [False, True])
def test_a_warning_that_is_an_error_comes_behind_the_call(fullgraph: bool, built: list[Any]) -> None:
    """Warnings are errors in tests. The call has its effects, once, and then raises the warning itself."""
    seen: list[int] = []

    def step(p: Any, n: int) -> Any:
        p.mul_(n)
        seen.append(n)
        return p * n + 0 * weft.diag(p, n).sum()

    compiled = weft.compile(step, fullgraph=fullgraph)
    p, raised = weft.ones(3, dtype=weft.float64), []
    for n in range(2, 14):
        try:
            assert compiled(p, n).tolist() == [math.factorial(n) * n] * 3
        except RuntimeWarning as error:
            raised.append(error)
    assert [type(error) for error in raised] == [RuntimeWarning] and "values of L['n']" in str(raised[0])
    assert seen == list(range(2, 14)) and p.tolist() == [math.factorial(13)] * 3


def test_sizes_are_no_numbers(built: list[Any]) -> None:
    compiled = weft.compile(lambda x: x.sin() * x.shape[0])
    for size in range(2, 12):
        x = weft.arange(float(size))
        assert_close(compiled(x), x.sin() * size)
    assert not weft.compiler.counters["varying"]


def test_other_functions_go_on(built: list[Any]) -> None:
    compiled = weft.compile(scaled)
    x = weft.arange(6.0)
    warned(lambda: [compiled(x, n) for n in range(2, 14)])
    count = len(built)
    assert_close(weft.compile(lambda x, n: x.cos() - n)(x, 3), x.cos() - 3)
    assert len(built) == count + 1


def test_writes_and_random_numbers_of_what_varies(built: list[Any]) -> None:
    def step(p: Any, n: int) -> Any:
        p.mul_(1 / n).add_(weft.rand(3))
        return p * n + 0 * weft.diag(p, n).sum()

    compiled = weft.compile(step, fullgraph=True)

    def run() -> None:
        p, q = weft.ones(3), weft.ones(3)
        for n in range(2, 30):
            states = []
            for function, state in ((compiled, p), (step, q)):
                weft.manual_seed(n)
                states.append((function(state, n), state, state._version))
            assert_close(states[0], states[1])

    assert len(warned(run)) == 1


def test_threads_say_it_once(built: list[Any]) -> None:
    compiled = weft.compile(scaled)
    x = weft.arange(6.0)
    compiled(x, 2)

    def call(n: int) -> None:
        assert_close(compiled(x, n), scaled(x, n))

    with warnings.catch_warnings(record=True) as seen, ThreadPoolExecutor(4) as threads:
        warnings.simplefilter("always")
        list(threads.map(call, range(3, 60)))
    assert len([each for each in seen if "values of L['n']" in str(each.message)]) == 1


def test_threads_that_come_first_at_once_make_one_program(
    built: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eight threads that each make the program of one layout are no numbers that vary."""
    program = backend.Compiled.program

    def slowly(self: Any, arrays: list[Any]) -> Any:
        time.sleep(0.05)
        return program(self, arrays)

    monkeypatch.setattr(backend.Compiled, "program", slowly)
    compiled, together = weft.compile(scaled), threading.Barrier(8)
    x = weft.arange(6.0)

    def call(_: int) -> None:
        together.wait()
        assert_close(compiled(x, 2), scaled(x, 2))

    with warnings.catch_warnings(record=True) as seen, ThreadPoolExecutor(8) as threads:
        warnings.simplefilter("always")
        list(threads.map(call, range(8)))
    assert not [each for each in seen if "values of L['n']" in str(each.message)]
    assert len(built) == 1


def test_numbers_of_gradients(built: list[Any]) -> None:
    """Whole numbers that a forward program computes from floats, and that gradients are made of."""

    def function(x: Any, s: float) -> Any:
        return x.sin() * int(s * 100)

    compiled = weft.compile(function, fullgraph=True)

    def calls(first: int) -> None:
        for k in range(first, first + 12):
            x, y = (weft.ones(4, requires_grad=True) for _ in range(2))
            compiled(x, 1 / k).sum().backward()
            function(y, 1 / k).sum().backward()
            assert_close(x.grad, y.grad)

    assert len(warned(lambda: calls(1))) == 1
    count = len(built)
    assert warned(lambda: calls(13)) == []
    assert len(built) == count


def test_inputs_that_have_other_sizes_than_was_asked_run_op_by_op(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where another thread gives a tensor other data: machine code would read behind its memory."""
    calls: list[Any] = []
    plain = backend.Compiled.__call__

    def noted(self: Any, *inputs: Any) -> Any:
        calls.append((self, inputs))
        return plain(self, *inputs)

    monkeypatch.setattr(backend.Compiled, "__call__", noted)
    compiled = weft.compile(lambda x: (x * 2).sum(), dynamic=True)
    compiled(weft.ones(5))
    run, inputs = calls[-1]
    assert any(type(each) is int for each in inputs)
    for size, length in [(5, 6), (50, 6), (5, 5000), (60, 7)]:
        given = [size if type(each) is int else weft.ones(length) for each in inputs]
        assert float(run(*given)[0]) == 2 * length
