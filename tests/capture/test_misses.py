"""Entries of other compilations of the same code serve, where their guards hold."""

from __future__ import annotations

from typing import Any

import pytest

import weft
from weft.capture import runtime
from weft.core.counters import counters
from weft.testing.backends import CompileCounter


@pytest.fixture(autouse=True)
def nothing_compiled() -> Any:
    weft.compiler.reset()
    counters.clear()
    yield
    weft.compiler.reset()
    counters.clear()


class Scaled(weft.nn.Module):
    def __init__(self, scale: Any) -> None:
        super().__init__()
        self.scale, self.inner = scale, weft.nn.Linear(3, 3)

    def forward(self, x: Any) -> Any:
        return self.inner(x) * self.scale


def test_layers_compiled_one_by_one_are_captured_once() -> None:
    counter, x = CompileCounter(), weft.randn(2, 3)
    layers = [Scaled(2.0) for _ in range(12)]
    compiled = [weft.compile(layer, backend=counter) for layer in layers]
    for one, layer in zip(compiled, layers, strict=True):
        assert weft.equal(one(x), layer(x))
    assert counter.frame_count == 1
    assert counters["siblings"]["entries"] == 11


def test_what_differs_is_captured_again() -> None:
    counter, x = CompileCounter(), weft.randn(2, 3)
    layers = [Scaled(scale) for scale in (1.0, weft.ones(3), 3.0, 1.0)]
    compiled = [weft.compile(layer, backend=counter, dynamic=False) for layer in layers]
    for one, layer in zip(compiled, layers, strict=True):
        assert weft.equal(one(x), layer(x))
    assert counter.frame_count == 3


def test_closures_of_one_code() -> None:
    counter, x = CompileCounter(), weft.ones(2)

    def made(k: Any) -> Any:
        def inner(x: Any) -> Any:
            return x + k

        return inner

    compiled = {k: [weft.compile(made(k), backend=counter, dynamic=False) for _ in range(2)] for k in (1, 2)}
    for k, pair in compiled.items():
        assert [one(x).tolist() for one in pair] == [[1.0 + k] * 2] * 2
    assert counter.frame_count == 2


def test_other_options_have_entries_of_their_own() -> None:
    first, second, x = CompileCounter(), CompileCounter(), weft.ones(2)

    def plain(x: Any) -> Any:
        return x * 2

    for counter, options in ((first, {}), (first, {"fullgraph": True}), (second, {})):
        weft.compile(plain, backend=counter, **options)(x)
    assert (first.frame_count, second.frame_count) == (2, 1)


def test_entries_that_break_stay_where_they_are() -> None:
    counter, x = CompileCounter(), weft.ones(2)

    def made() -> Any:
        def broken(x: Any) -> Any:
            x = x + 1
            weft.compiler.graph_break()
            return x * 2

        return broken

    for _ in range(2):
        assert weft.compile(made(), backend=counter)(x).tolist() == [4.0, 4.0]
    assert counter.frame_count >= 3


def test_others_compile_while_siblings_are_looked_for() -> None:
    kept = [weft.compile(Scaled(1.0)) for _ in range(2)]
    for _ in runtime.contexts:
        kept.append(weft.compile(Scaled(2.0)))
    assert len(kept) > 3


TOLD_BY_RUNNING = {
    "a mask": lambda x: (x[x > 0] * 2).sum(),
    "nonzero": lambda x: (x > 0).nonzero().float().sum(0),
    "nonzero, then indexing": lambda x: x[(x > 0).nonzero().squeeze(1)].exp(),
    "masked_select": lambda x: x.masked_select(x > 0).exp(),
    "unique": lambda x: weft.unique((x * 3).long()) * 2,
    "unique_consecutive": lambda x: weft.unique_consecutive((x * 3).long()) * 2,
    "several": lambda x: weft.where(x > 0)[0] * 2,
    "in an expression": lambda x: x.sum() + (x[x > 0] * 2),
    "bincount": lambda x: weft.bincount(x.abs().long()) * 2,
}


@pytest.mark.parametrize("name", TOLD_BY_RUNNING)
def test_sizes_that_only_running_tells_are_inputs_at_once(name: str) -> None:
    """Behind the instruction that has told them, one capture serves all."""
    function = TOLD_BY_RUNNING[name]
    weft.compiler.reset()
    weft.compiler.counters.clear()
    compiled = weft.compile(function, backend="aot_eager")
    for seed in range(6):
        x = weft.randn(40, generator=weft.Generator().manual_seed(seed))
        weft.testing.assert_close(compiled(x), function(x))
    counters = weft.compiler.counters
    assert counters["frames"]["total"] == 2, dict(counters["recompiles"])
    assert sum(counters["graph_break"].values()) == 1


def test_sizes_stay_as_they_are_where_all_are_to_be_static() -> None:
    weft.compiler.reset()
    weft.compiler.counters.clear()
    compiled = weft.compile(lambda x: x[x > 0] * 2, backend="aot_eager", dynamic=False)
    for count in (2, 3, 4):
        assert compiled(weft.ones(count)).tolist() == [2.0] * count
    assert weft.compiler.counters["frames"]["total"] == 6
