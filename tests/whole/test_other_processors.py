"""Machine code for another processor: all that is written for the samples of all ops, for vectors of 128
bits, is assembled for aarch64, and asks for nothing from outside. Nothing is run.
"""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any
from weakref import WeakValueDictionary

import pytest

import weft
from tests.native.targets import assembled
from tests.whole.test_native_samples import (
    OPS,
    PARTS,
    SIZED,
    UNTIED,
    cases_of,
    differentiable,
    differentiated,
    function_of,
)
from weft.aot.runtime import counting
from weft.native.cpu import engine, pool, target, tiles
from weft.native.entry import entry
from weft.native.target import Uncompiled
from weft.ops.record import Kind, Op

NARROW = ("generic", "", 16)
"""A machine whose vectors have 16 bytes."""


@pytest.fixture
def texts(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The texts that programs ask for. These run op by op."""
    found: list[str] = []
    engine.host()  # array kernels run all the same, in programs of this machine
    assert pool.Loaded is entry.Loaded is engine.Loaded  # they hold it from before

    class Assembled:
        def __init__(self, text: str, level: int = engine.FULL) -> None:
            found.append(text)
            raise Uncompiled("for another processor")

    monkeypatch.setenv("WEFT_CACHE", "0")
    monkeypatch.setattr(counting, "watchers", [])  # nothing runs as machine code here
    for module in (engine, tiles, target):
        monkeypatch.setattr(module, "host", lambda: NARROW)
    monkeypatch.setattr(engine, "Loaded", Assembled)
    monkeypatch.setattr(engine, "_modules", WeakValueDictionary())
    monkeypatch.setattr(engine, "_names", OrderedDict())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        weft.compiler.reset()
        yield found
        weft.compiler.reset()


def samples(part: int, kind: str, is_sampled: Callable[[Op], bool]) -> list[Any]:
    ops = [op for op in OPS[part::PARTS] if is_sampled(op) and op.name not in UNTIED]
    ops = [op for op in ops if op.kind is not Kind.RANDOM or op.stream is not None]  # drawn by NumPy alone
    return [case for op in ops if op.qualified_name not in SIZED for case in cases_of(op, kind)]


@pytest.mark.wide
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("kind", ["float32", "int64", "bfloat16"])
def test_samples_assemble(kind: str, part: int, texts: list[str], is_sampled: Callable[[Op], bool]) -> None:
    cases = samples(part, kind, is_sampled)
    compiled = weft.compile(function_of(cases), backend="native")
    compiled(*[tensor for case in cases for tensor in case.inputs])
    assert texts
    for text in texts:
        assembled(text)


@pytest.mark.wide
@pytest.mark.parametrize("part", range(PARTS))
def test_gradients_assemble(part: int, texts: list[str], is_sampled: Callable[[Op], bool]) -> None:
    cases = [
        case
        for case in samples(part, "float64", is_sampled)
        if case.op.kind not in (Kind.RANDOM, Kind.CREATE) and case.sample.grad and differentiable(case)
    ]
    compiled = weft.compile(function_of(cases), backend="native")
    differentiated(compiled, [tensor for case in cases for tensor in case.inputs])
    assert texts
    for text in texts:
        assembled(text, level=engine.DRAFT)
