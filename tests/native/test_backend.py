"""Whatever cannot be compiled runs op by op: each failure is one warning, and an error under strict."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

import weft
from tests.native.test_engine import process
from weft.compiler import settings
from weft.native import backend
from weft.native.objects import Uncompiled, Unlowered
from weft.testing import assert_close

ERRORS = [
    (Unlowered("an op without kernels"), "an op without kernels"),
    (Uncompiled("LLVM refuses a text"), "LLVM refuses a text"),
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

    monkeypatch.setattr("weft.native.directly.Machine.make", refused)
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
