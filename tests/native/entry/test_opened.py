"""Native entries that serve all sizes of a template: equal to eager, and quiet about nothing."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
import weft.nn.functional as F
from tests.native.harness import calls_by_python
from weft.compiler import settings as options
from weft.native.entry import factory
from weft.native.entry.opened import opened_call
from weft.native.plan.memory import blocks
from weft.native.program.template import Template

SIZES = (5, 7, 9, 3, 64, 12, 200, 2, 33, 500, 11)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The calls for which open entries were made; calls that Python served are counted."""
    found: list[Any] = []
    before = opened_call

    def noted(*args: Any) -> Any:
        made = before(*args)
        if made is not None:
            found.append(made)
        return made

    monkeypatch.setenv("WEFT_CACHE", "0")
    monkeypatch.setattr(options, "strict", True)
    monkeypatch.setattr(factory._opened, "opened_call", noted, raising=False)
    weft.compiler.reset()
    return found


@pytest.fixture
def by_python(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many calls of programs Python did."""
    return calls_by_python(monkeypatch)


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "pointwise": lambda x: (x * 2).tanh() + 1,
    "sum": lambda x: (x * x).sum(),
    "sum of rows": lambda x: (x.exp() - 1).sum(0),
    "mean": lambda x: x.mean(),
    "softmax": lambda x: weft.softmax(x, 0),
    "product": lambda x: x @ weft.ones(4, 3),
    "gram": lambda x: x.t() @ x,
    "outer": lambda x: (x @ x.t()).sum(1),
    "size as a number": lambda x: x / x.shape[0] + x.shape[0],
    "slices": lambda x: x[1:] - x[:-1],
    "cat": lambda x: weft.cat([x, x * 2], 0).sum(1),
    "reshape": lambda x: (x.reshape(-1) * 3).view(2, -1) + 1,
    "gather": lambda x: x[weft.arange(x.shape[0] - 1, -1, -1)] * 2,
    "layer_norm": lambda x: F.layer_norm(x, (4,)),
    "loss": lambda x: F.cross_entropy(x, weft.arange(x.shape[0]) % 4),
    "two results": lambda x: (x.relu(), x.sum(1, keepdim=True)),
    "dropout": lambda x: F.dropout(x, 0.5),
    "noise": lambda x: x + weft.randn(x.shape[0], 4) + weft.rand(4),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_all_sizes_are_served_as_by_eager(name: str, opened: list[Any], by_python: list[int]) -> None:
    function = PROGRAMS[name]
    compiled = weft.compile(function)
    for turn, size in enumerate(SIZES * 2):
        x = weft.randn(size, 4, generator=weft.Generator().manual_seed(size))
        weft.manual_seed(size)
        found = compiled(x)
        state = weft.get_rng_state()
        weft.manual_seed(size)
        wanted = function(x)
        assert weft.equal(state, weft.get_rng_state())
        weft.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
        if isinstance(wanted, weft.Tensor):
            assert found.stride() == wanted.stride()
        if turn == len(SIZES):
            before = by_python[0]
    assert opened
    assert by_python[0] <= before + 2  # from then on, none; but 2 rows may have a program of their own


def trained(compiled: bool, sizes: tuple[int, ...]) -> tuple[list[Any], list[Any]]:
    weft.manual_seed(0)
    net = weft.nn.Sequential(
        weft.nn.Linear(4, 16), weft.nn.GELU(), weft.nn.Dropout(0.2), weft.nn.Linear(16, 3)
    )
    optimizer = weft.optim.AdamW(net.parameters(), lr=1e-2)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        weft.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        return loss

    run = weft.compile(step, fullgraph=True) if compiled else step
    losses = []
    for number, size in enumerate(sizes):
        generator = weft.Generator().manual_seed(number)
        x = weft.randn(size, 4, generator=generator)
        losses.append(run(x, weft.arange(size) % 3).item())
    return losses, list(net.parameters())


def test_steps_over_many_batch_sizes(opened: list[Any]) -> None:
    sizes = tuple([2 + (7 * n) % 61 for n in range(60)])
    (losses, weights), (wanted, expected) = trained(True, sizes), trained(False, sizes)
    np.testing.assert_allclose(losses, wanted, rtol=1e-3)
    for one, other in zip(weights, expected):
        weft.testing.assert_close(one, other, rtol=1e-3, atol=1e-5)
    assert opened


def test_an_entry_for_all_sizes_may_begin_with_those_of_its_template(
    opened: list[Any], by_python: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Template, "fits", lambda *_: False)  # so that each call before makes one

    compiled = weft.compile(lambda x: (x * 3).exp().sum(0))
    for size in (5, 7, 9):
        compiled(weft.randn(size, 4))
    assert len(opened) == 1
    before = by_python[0]
    for size in (11, 6, 40):
        x = weft.randn(size, 4)
        weft.testing.assert_close(compiled(x), (x * 3).exp().sum(0), rtol=1e-4, atol=1e-5)
    assert by_python[0] == before


def test_two_sizes(opened: list[Any], by_python: list[int]) -> None:
    def function(x: Any, y: Any) -> Any:
        return (x[:, None] * y[None, :]).sum(1) + x.shape[0] - y.shape[0]

    compiled = weft.compile(function)
    pairs = [(5, 7), (6, 7), (6, 9), (9, 6), (20, 3), (3, 20), (8, 8), (2, 5), (31, 2)]
    for a, b in pairs * 2:
        x, y = weft.randn(a), weft.randn(b)
        weft.testing.assert_close(compiled(x, y), function(x, y), rtol=1e-4, atol=1e-5)
    assert opened


LYING: dict[str, Callable[[int], Any]] = {
    "transposed": lambda size: weft.randn(4, size).t(),
    "every other column": lambda size: weft.randn(size, 8)[:, ::2],
    "some columns": lambda size: weft.randn(size, 9)[:, 2:6],
    "axes in another order": lambda size: weft.randn(2, size, 3).permute(1, 2, 0),
    "columns of a wide one": lambda size: weft.randn(4, 600)[:, :size].t(),
    "every other row": lambda size: weft.randn(2 * size, 4)[::2],
    "one for all rows": lambda size: weft.randn(1, 4).expand(size, 4),
}


@pytest.mark.parametrize("name", LYING)
def test_inputs_that_do_not_lie_row_by_row(name: str, opened: list[Any], by_python: list[int]) -> None:
    def function(x: Any, y: Any) -> Any:
        return (x * 2).tanh().sum(1), x.exp() + 1, y * x.sum()

    compiled, make = weft.compile(function), LYING[name]
    for turn, size in enumerate((*SIZES, 13, 28, 300, 17)):
        x, y = make(size), weft.randn(size)
        for found, wanted in zip(compiled(x, y), function(x, y), strict=True):
            weft.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)
            assert found.stride() == wanted.stride()
        before = by_python[0] if turn <= len(SIZES) else before  # noqa: F821
    assert opened
    assert by_python[0] == before
    lies = make(17).contiguous()  # as many rows as before, lying otherwise
    weft.testing.assert_close(compiled(lies, y), function(lies, y), rtol=1e-4, atol=1e-4)


def test_what_is_written_may_lie_otherwise(opened: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def function(x: Any, y: Any) -> Any:
        x.mul_(2).add_(y.sum())
        return x.sum(0)

    compiled = weft.compile(function)
    for size in SIZES:
        given = weft.randn(4, size).t()
        ours, theirs, y = given.clone(), given.clone(), weft.randn(3)
        weft.testing.assert_close(compiled(ours, y), function(theirs, y), rtol=1e-4, atol=1e-4)
        assert weft.equal(ours, theirs)
    assert opened
    monkeypatch.setattr(options, "strict", False)  # overlapping inputs run as captured
    for size in SIZES:
        memory = np.arange(8 * size, dtype=np.float32)
        copy = memory.copy()
        found, wanted = (
            run(
                *[weft.from_numpy(each) for each in (m[: 4 * size].reshape(4, size).T, m[4 * size - 2 :][:3])]
            )
            for run, m in ((compiled, memory), (function, copy))
        )
        weft.testing.assert_close(found, wanted)
        assert (memory == copy).all()


def test_gradients_outside(opened: list[Any], by_python: list[int]) -> None:
    net = weft.nn.Sequential(weft.nn.Linear(4, 16), weft.nn.GELU(), weft.nn.Linear(16, 3))

    def function(x: Any, y: Any) -> Any:
        out = net(x)
        return F.cross_entropy(out, y) + (out * x.shape[0]).mean(), out.softmax(-1)

    def results(run: Any, x: Any, y: Any) -> list[Any]:
        net.zero_grad()
        x = x.clone().requires_grad_()
        loss, other = run(x, y)
        (loss + other[:, 0].sum()).backward()
        return [loss, other, x.grad, *[each.grad.clone() for each in net.parameters()]]

    compiled = weft.compile(function)
    for turn, size in enumerate((*SIZES, 13, 28, 300, 17)):
        x, y = weft.randn(size, 4), weft.arange(size) % 3
        before = by_python[0]
        found = results(compiled, x, y)
        if turn >= len(SIZES):
            assert by_python[0] == before
        for one, other in zip(found, results(function, x, y), strict=True):
            weft.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)
    assert opened


def test_random_numbers_of_gradients_outside(opened: list[Any]) -> None:
    compiled = weft.compile(lambda x: (F.dropout(x, 0.5) * x).sum() + x.var())
    for size in (*SIZES, 13, 28):
        x = weft.randn(size, 4, requires_grad=True)
        states = []
        for run in (compiled, lambda x: (F.dropout(x, 0.5) * x).sum() + x.var()):
            weft.manual_seed(size)
            (slope,) = weft.autograd.grad(run(x), x)
            states.append((slope, weft.get_rng_state()))
        weft.testing.assert_close(states[0][0], states[1][0], rtol=1e-4, atol=1e-5)
        assert weft.equal(states[0][1], states[1][1])
    assert opened


def test_threads_with_sizes_of_their_own(opened: list[Any]) -> None:
    def function(x: Any) -> Any:
        return ((x @ x.t()).softmax(-1) @ x).sum(0)

    compiled = weft.compile(function)
    for size in (40, 50, 60, 70):
        compiled(weft.ones(size, 8))
    wrong: list[Any] = []

    def work(size: int) -> None:
        generator = weft.Generator().manual_seed(size)
        x = weft.randn(size, 8, generator=generator)
        wanted = function(x).numpy()
        for _ in range(60):
            found = compiled(x).numpy()
            if not np.allclose(found, wanted, rtol=1e-3, atol=1e-4):
                wrong.append((size, found, wanted))

    threads = [threading.Thread(target=work, args=(150 + 37 * number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert opened
    assert not wrong


def test_what_does_not_fit_raises_eagers_error_and_writes_nothing(opened: list[Any]) -> None:
    state = weft.zeros(4)

    def function(x: Any, y: Any) -> Any:
        state.add_(1)
        return (x * y).sum(0)

    compiled = weft.compile(function)
    for size in (5, 7, 9, 11):
        compiled(weft.ones(size, 4), weft.ones(size, 4))
    assert opened
    assert state.tolist() == [4] * 4
    for call in (compiled, function):
        before = state.clone()
        with pytest.raises(
            RuntimeError, match="size of tensor a \\(13\\) must match the size of tensor b \\(6\\)"
        ):
            call(weft.ones(13, 4), weft.ones(6, 4))
        assert (state - before).tolist() == [1] * 4  # what came before the error, once


def test_sizes_of_one_and_nothing_have_programs_of_their_own(opened: list[Any]) -> None:
    compiled = weft.compile(lambda x: (x - x.mean(0, keepdim=True)).sum(1))
    for size in (5, 7, 9, 1, 11, 1, 13):
        x = weft.randn(size, 4)
        weft.testing.assert_close(compiled(x), (x - x.mean(0, keepdim=True)).sum(1), rtol=1e-4, atol=1e-5)


def test_other_layouts_are_seen(opened: list[Any]) -> None:
    compiled = weft.compile(lambda x: x.cumsum(0) * 2)
    for size in (5, 7, 9, 11):
        compiled(weft.randn(size, 4))
    for size in (6, 8, 10):
        x = weft.randn(4, size).t()
        found, wanted = compiled(x), x.cumsum(0) * 2
        weft.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
        assert found.stride() == wanted.stride()


def test_numbers_that_vary(opened: list[Any], by_python: list[int]) -> None:
    def function(x: Any, n: int) -> Any:
        return x * n + weft.arange(n).sum()

    compiled = weft.compile(function)
    for n in (3, 5, 8, 13, 21, 4, 100):
        x = weft.randn(n + 2)
        weft.testing.assert_close(compiled(x, n), function(x, n), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("first", [-1, 0, 1, 7, -(1 << 63)])
def test_the_first_number_is_no_number_of_a_call_before(first: int, opened: list[Any]) -> None:
    def function(x: Any, n: int) -> Any:
        return x + n

    compiled, x = weft.compile(function), weft.arange(6)
    for n in (3, 2, 5):
        compiled(x, n)
    for n in (first, first, 4, -1):
        assert compiled(x, n).tolist() == function(x, n).tolist()
    assert opened


def test_numbers_that_are_no_objects_are_checked_as_numbers(opened: list[Any]) -> None:
    """The length of the row is a number that is made of a float, for which the program is alone."""

    def function(x: Any) -> Any:
        return x * weft.arange(x.shape[1], dtype=weft.float32)

    compiled = weft.compile(function, dynamic=True)
    for rows, columns in ((2, 4), (3, 4), (4, 4), (5, 4), (6, 5), (7, 5), (8, 4)):
        x = weft.randn(rows, columns)
        weft.testing.assert_close(compiled(x), function(x))
    assert opened


def test_overlaps_are_seen_though_nothing_has_moved(
    opened: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(options, "strict", False)  # overlapping inputs run as captured

    def function(x: Any, y: Any) -> Any:
        y.add_(1)
        return (x * 2).sum(0), y.sum()

    def given(memory: Any, end: int) -> Any:
        return weft.from_numpy(memory[:end]), weft.from_numpy(memory[20:30])

    compiled, memory = weft.compile(function), np.arange(40, dtype=np.float32)
    for end in (5, 7, 9, 10, 8, 20):
        compiled(*given(memory, end))
    assert opened
    wanted_memory = memory.copy()
    found = compiled(*given(memory, 25))  # at the addresses of the call before
    wanted = function(*given(wanted_memory, 25))
    weft.testing.assert_close(found, wanted)
    assert (memory == wanted_memory).all()


@pytest.mark.parametrize("event", ("call", "c_return", "return"))
def test_what_strikes_while_memory_grows_leaves_none_that_is_gone(event: str, opened: list[Any]) -> None:
    def function(x: Any) -> Any:
        return (x.sin() @ weft.ones(4, 4)).exp().cumsum(0).flip(0).mean(0)

    class Strike(Exception):
        pass

    struck: list[int] = []

    def profile(frame: Any, seen: str, _value: Any) -> None:
        if frame.f_code.co_name == "grow" and seen == event:
            struck.append(frame.f_lineno)
            sys.setprofile(None)
            raise Strike

    compiled = weft.compile(function)
    for size in (5, 7, 9, 11):
        compiled(weft.ones(size, 4))
    for size in (300, 3000):
        sys.setprofile(profile)
        try:
            compiled(weft.ones(size, 4))
        except Strike:
            pass
        finally:
            sys.setprofile(None)
        others = [blocks.take(1 << power) for power in range(10, 20)]
        for each in others:
            each.array[:] = 7
        weft.testing.assert_close(compiled(weft.ones(9, 4)), function(weft.ones(9, 4)))
        assert all((each.array == 7).all() for each in others)
    assert opened
    assert struck or event == "c_return"  # where nothing of C's is called, nothing can strike
