"""Random numbers in programs: eager's bits, and generators that stand where eager's would."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
import weft.nn.functional as F
from tests.native.lowered import opaques
from weft.native.cpu.runner import Runner
from weft.native.entry import factory as directly
from weft.native.program.drawing import Draws
from weft.testing import CompileCounterWithBackend, assert_close

Function = Callable[..., Any]


def leaves(values: Any) -> list[Any]:
    if isinstance(values, (tuple, list)):
        return [leaf for value in values for leaf in leaves(value)]
    return [values.detach().numpy() if isinstance(values, weft.Tensor) else values]


def run(f: Function, make: Callable[[], tuple[Any, ...]], calls: int) -> tuple[list[Any], list[int]]:
    weft.manual_seed(-5)
    weft.rand(3)
    args = make()
    found, offsets = [], []
    for _ in range(calls):
        found += [np.copy(each) for each in leaves(f(*args))]
        offsets += [weft.default_generator.get_offset()]
        offsets += [each.get_offset() for each in args if isinstance(each, weft.Generator)]
    return found, offsets


def assert_same(
    f: Function, make: Callable[[], tuple[Any, ...]] = lambda: (), backend: str = "native"
) -> None:
    """The same bits and the same offsets, call by call."""
    compiled = weft.compile(f, backend=backend)
    run(compiled, make, 4)
    expected, at = run(f, make, 4)
    found, there = run(compiled, make, 4)
    assert there == at
    for place, (one, other) in enumerate(zip(found, expected, strict=True)):
        assert (one.dtype, one.shape) == (other.dtype, other.shape), place
        assert one.tobytes() == other.tobytes(), (place, one, other)


@pytest.fixture
def entries(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What direct entries draw with, one for each that is made."""
    made: list[Any] = []
    known = directly.run_of

    def noted(*given: Any) -> Any:
        run = known(*given)
        made.append(run.draw)
        return run

    monkeypatch.setattr(directly, "run_of", noted)
    return made


def test_floats_of_all_sizes() -> None:
    def f() -> tuple[weft.Tensor, ...]:
        found: list[weft.Tensor] = []
        for kind in (weft.float32, weft.float64):
            for size in (1, 7, 8, 9, 12, 13, 1000, 40_001):
                empty = lambda size=size, kind=kind: weft.empty(size, dtype=kind)
                found += [
                    weft.rand(size, dtype=kind), weft.randn(size, dtype=kind), empty().uniform_(-2, 0.1),
                    empty().normal_(3, 0.25), empty().exponential_(1.5), empty().cauchy_(1, 2),
                    empty().geometric_(0.2), empty().bernoulli_(0.3), empty().random_(),
                    empty().normal_(0, 2),
                ]  # fmt: skip
        return tuple(found)

    assert opaques(f) == {"empty"}  # which nobody reads
    assert_same(f)


def test_ints_of_all_types() -> None:
    def f() -> tuple[weft.Tensor, ...]:
        found = [weft.randint(-7, 1 << 40, (33,)), weft.randint(3, (5, 7)), weft.randint(0, 1, (4,))]
        for kind in (weft.uint8, weft.int8, weft.int16, weft.int32, weft.int64, weft.bool):
            for size in (1, 5, 300):
                empty = lambda size=size, kind=kind: weft.empty(size, dtype=kind)
                found += [empty().random_(), empty().bernoulli_(0.5), empty().random_(0, 2)]
                if kind is not weft.bool:
                    found += [empty().geometric_(0.1), weft.randint(5, 99, (size,), dtype=kind)]
        found.append(weft.empty(9, dtype=weft.int64).random_(-(2**63), 2**63 - 1))
        found.append(weft.randint(-50, 50, (9,), dtype=weft.float32))
        return tuple(found)

    assert opaques(f) == {"empty"}  # which nobody reads
    assert_same(f)


def test_what_is_like_tensors_and_what_tensors_tell() -> None:
    def f(x: weft.Tensor, p: weft.Tensor) -> tuple[weft.Tensor, ...]:
        return (
            weft.rand_like(x), weft.randn_like(x.t()), weft.randint_like(x, 3, 9), weft.bernoulli(p),
            weft.bernoulli(x, 0.25), x.clone().bernoulli_(p[0]), weft.normal(x, 2.0), weft.normal(x, p),
            weft.normal(0.5, p), weft.rand_like(x, dtype=weft.float64) + weft.randn_like(x), weft.rand(()),
        )  # fmt: skip

    def make() -> tuple[weft.Tensor, ...]:
        return weft.arange(21.0).reshape(3, 7), weft.linspace(0, 1, 21).reshape(3, 7)

    assert not opaques(f, *make())
    assert_same(f, make)


@pytest.mark.parametrize("kind", [weft.float16, weft.bfloat16])
def test_halves(kind: weft.dtype) -> None:
    def f(x: weft.Tensor) -> tuple[weft.Tensor, ...]:
        return (
            weft.rand_like(x), weft.randn_like(x), weft.empty_like(x).uniform_(-3, 1), weft.normal(x, 2.0),
            weft.empty_like(x).normal_(1, 2), weft.randint_like(x, 3, 250), weft.empty_like(x).random_(),
            weft.empty_like(x).exponential_(), F.dropout(x, 0.3), weft.empty_like(x).geometric_(0.001),
        )  # fmt: skip

    assert_same(f, lambda: (weft.ones(3, 1001, dtype=kind),))


def test_probabilities_at_the_ends() -> None:
    def f(x: weft.Tensor) -> tuple[weft.Tensor, ...]:
        return weft.bernoulli(x, 0.0), weft.bernoulli(x, 1.0), weft.bernoulli(x, 1e-12), weft.rand(2)

    assert_same(f, lambda: (weft.ones(1000),))


def test_what_has_no_kernel_draws_in_its_turn() -> None:
    def f(x: weft.Tensor) -> tuple[weft.Tensor, ...]:
        first = weft.rand(5)
        order = weft.randperm(9)
        half = weft.rand(10, dtype=weft.float16)
        chosen = weft.multinomial(x, 3)
        skewed = weft.empty(6).log_normal_()
        small = F.dropout(x.to(weft.bfloat16), 0.4)
        return first + 1, order, half, chosen, skewed, small.float(), weft.randn(4)

    assert_same(f, lambda: (weft.arange(1.0, 13.0).reshape(2, 6),))


def test_the_order_of_draws_is_that_of_the_graph() -> None:
    def f() -> tuple[weft.Tensor, ...]:
        a = weft.rand(100)
        weft.rand(11)
        b = weft.randn(100)
        c = weft.rand(0, 5)
        return b * a, c, a + 1

    assert_same(f)


def test_generators_that_are_passed() -> None:
    def f(g: weft.Generator, h: weft.Generator) -> tuple[weft.Tensor, ...]:
        return (
            weft.rand(10, generator=g), weft.rand(10), weft.randn(7, generator=h),
            weft.empty(20).uniform_(generator=g), weft.randperm(5, generator=h), weft.rand(3, generator=g),
        )  # fmt: skip

    def make() -> tuple[weft.Generator, ...]:
        return weft.Generator().manual_seed(2**64 - 3), weft.Generator().manual_seed(9)

    assert_same(f, make)

    def same() -> tuple[weft.Generator, ...]:
        g = weft.Generator().manual_seed(77)
        return g, g

    assert_same(f, same)
    assert_same(f, lambda: (weft.default_generator, weft.Generator().manual_seed(1)))


def test_a_generator_for_each_call_makes_no_new_programs() -> None:
    from weft.native import backend

    made: list[Any] = []
    listener = lambda program, arrays: made.append(program)
    backend.listeners.append(listener)
    try:
        f = weft.compile(lambda g: weft.rand(10, generator=g), backend="native")
        for seed in range(5):
            g = weft.Generator().manual_seed(seed)
            expected = weft.rand(10, generator=weft.Generator().manual_seed(seed))
            assert weft.equal(f(g), expected) and g.get_offset() == 2
    finally:
        backend.listeners.remove(listener)
    assert len(made) == 1


def test_dropout_forward_and_backward() -> None:
    def f(x: weft.Tensor, w: weft.Tensor) -> tuple[weft.Tensor, ...]:
        y = F.dropout(F.dropout(x, 0.1) @ w, 0.7)
        return (y, *weft.autograd.grad((y * y).sum(), (x, w)))

    def make() -> tuple[weft.Tensor, ...]:
        grid = weft.arange(64 * 64.0).reshape(64, 64) / 4096
        return grid.clone().requires_grad_(), (grid - 0.5).requires_grad_()

    assert not opaques(f, *make())
    compiled = weft.compile(f, backend="native")
    expected, at = run(f, make, 3)
    found, there = run(compiled, make, 3)
    assert there == at
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
        assert np.array_equal(one == 0, other == 0)


def test_large_dropout_in_chunks() -> None:
    def f(x: weft.Tensor) -> tuple[weft.Tensor, ...]:
        y = F.dropout(x, 0.3)
        return (y, *weft.autograd.grad(y.sum(), x))

    assert_same(f, lambda: (weft.arange(300_003.0).requires_grad_(),))


def test_backward_apart_from_forward(entries: list[Any]) -> None:
    def step(f: Function, x: weft.Tensor) -> list[Any]:
        found = []
        for _ in range(4):
            x.grad = None
            f(x).backward()
            found.append(x.grad.numpy().copy())
        return found

    def f(x: weft.Tensor) -> weft.Tensor:
        return (F.dropout(x, 0.5) * weft.rand_like(x)).sum()

    x = weft.ones(1000, requires_grad=True)
    compiled = weft.compile(f, backend="native")
    step(compiled, x)
    weft.manual_seed(3)
    expected, at = step(f, x), weft.default_generator.get_offset()
    weft.manual_seed(3)
    for one, other in zip(step(compiled, x), expected, strict=True):
        assert np.array_equal(one, other)
    assert weft.default_generator.get_offset() == at
    assert len(entries) == 1


def test_second_derivatives_see_the_numbers_that_were_drawn(entries: list[Any]) -> None:
    def f(x: weft.Tensor) -> weft.Tensor:
        return (F.dropout(x, 0.5) ** 3 * weft.rand_like(x)).sum()

    def run(g: Function, x: weft.Tensor) -> list[Any]:
        weft.manual_seed(21)
        found = []
        for _ in range(5):
            y = g(x)
            weft.rand(5)
            (first,) = weft.autograd.grad(y, x, create_graph=True)
            weft.rand(6)
            found += [first, *weft.autograd.grad(first.sum(), x)]
        return [*found, weft.rand(1)]

    x = weft.linspace(-1, 1, 300).requires_grad_()
    compiled = weft.compile(f, backend="native")
    expected = run(f, x)
    for _ in range(2):
        for one, other in zip(run(compiled, x), expected, strict=True):
            np.testing.assert_allclose(one.detach().numpy(), other.detach().numpy(), rtol=1e-5)
    assert entries


def test_calls_that_fail_draw_what_eager_calls_draw() -> None:
    def f(x: weft.Tensor, p: weft.Tensor) -> weft.Tensor:
        return weft.rand(40) + weft.bernoulli(p) + x

    compiled = weft.compile(f, backend="native")
    x, p = weft.ones(40), weft.full((40,), 0.5)
    for _ in range(4):
        compiled(x, p)
    bad = p.clone()
    bad[17] = 1.5
    for g in (f, compiled):
        weft.manual_seed(8)
        with pytest.raises(RuntimeError, match="Expected p_in >= 0"):
            g(x, bad)
        assert weft.default_generator.get_offset() == 10  # as far as eager calls come


def test_draws_are_given_back_unless_others_have_drawn() -> None:
    weft.manual_seed(0)
    draws = Draws([(None, 3), (None, 4), (0, 5), (None, 6)])
    other = weft.Generator().manual_seed(6)
    seeds = draws.take([other])
    assert seeds.tolist() == [0, 0, 0, 3, 6, 0, 0, 7]
    assert (weft.default_generator.get_offset(), other.get_offset()) == (13, 5)
    draws.give_back(seeds, [other])
    assert (weft.default_generator.get_offset(), other.get_offset()) == (0, 0)
    seeds = draws.take([other])
    weft.rand(8)
    draws.give_back(seeds, [other])
    assert (weft.default_generator.get_offset(), other.get_offset()) == (14, 0)


def test_no_two_threads_draw_the_same_numbers() -> None:
    f = weft.compile(lambda: (weft.rand(24), weft.rand(5000)), backend="native")
    f()
    f()
    f()
    weft.manual_seed(4)
    found: list[list[bytes]] = [[] for _ in range(4)]

    def draw(mine: list[bytes]) -> None:
        for _ in range(50):
            one, other = f()
            mine.append(one.numpy().tobytes())
            mine.append(other.numpy().tobytes())

    threads = [threading.Thread(target=draw, args=(mine,)) for mine in found]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    weft.manual_seed(4)
    expected = []
    for _ in range(200):
        expected += [weft.rand(24).numpy().tobytes(), weft.rand(5000).numpy().tobytes()]
    assert sorted(sum(found, [])) == sorted(expected)


def test_whole_steps_with_dropout_are_direct(entries: list[Any]) -> None:
    def losses(compile_: Callable[[Function], Function]) -> tuple[list[float], int]:
        weft.manual_seed(1)
        net = weft.nn.Sequential(weft.nn.Linear(8, 16), weft.nn.Dropout(0.3), weft.nn.Linear(16, 4))
        optimizer = weft.optim.SGD(net.parameters(), lr=0.1)
        x, y = weft.randn(5, 8), weft.randn(5, 4)

        def step(x: weft.Tensor, y: weft.Tensor) -> weft.Tensor:
            optimizer.zero_grad()
            loss = F.mse_loss(net(x), y)
            loss.backward()
            optimizer.step()
            return loss.detach()

        run = compile_(step)
        return [run(x, y).item() for _ in range(12)], weft.default_generator.get_offset()

    expected, at = losses(lambda step: step)
    found, there = losses(lambda step: weft.compile(step, backend="native"))
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert there == at
    assert len(entries) == 1 and entries[0] is not None


def test_direct_entries_give_back_what_fails(entries: list[Any]) -> None:
    f = weft.compile(lambda p: weft.rand(16) + weft.bernoulli(p).sum(), backend="native")
    p = weft.full((8,), 0.25)
    for _ in range(4):
        f(p)
    assert len(entries) == 1
    weft.manual_seed(6)
    with pytest.raises(RuntimeError, match="Expected p_in >= 0"):
        f(weft.full((8,), -1.0))
    assert weft.default_generator.get_offset() == 3
    weft.manual_seed(6)
    expected = weft.rand(16) + weft.bernoulli(p).sum()
    weft.manual_seed(6)
    assert weft.equal(f(p), expected)


def test_direct_entries_follow_seeds_and_states(entries: list[Any]) -> None:
    f = weft.compile(lambda: weft.randn(10), backend="native")
    for _ in range(4):
        f()
    assert len(entries) == 1
    state = weft.get_rng_state()
    first = f()
    weft.set_rng_state(state)
    assert weft.equal(weft.randn(10), first)
    weft.default_generator.set_offset(2**63 - 2)  # no two blocks are left
    with pytest.raises(RuntimeError, match="cannot advance"):
        f()
    assert weft.default_generator.get_offset() == 2**63 - 2
    weft.manual_seed(2**64 - 1)
    found = f()
    weft.manual_seed(2**64 - 1)
    assert weft.equal(weft.randn(10), found)


def test_the_reference_draws_the_same() -> None:
    def f(x: weft.Tensor) -> tuple[weft.Tensor, ...]:
        return (
            F.dropout(x, 0.3),
            weft.rand(9),
            weft.randn(5),
            weft.randint(0, 9, (3,)),
            weft.bernoulli(x / 20),
        )

    assert_same(f, lambda: (weft.arange(20.0),), "reference")


def by_numbers(x: weft.Tensor, a: float, b: float) -> tuple[weft.Tensor, ...]:
    dropped = weft.nn.functional.dropout(x, a), x.clone().bernoulli_(a), weft.bernoulli(x, a)
    normal = weft.normal(0.0, b, (5,)), weft.normal(a, 1.0, (4,)), x.clone().normal_(a, b)
    return *dropped, *normal, weft.normal(a, b, (3,), dtype=weft.float64), x.half().normal_(a, b)


def of_others(x: weft.Tensor, a: float, b: float) -> tuple[weft.Tensor, ...]:
    made = x.clone().uniform_(-a, b), x.clone().exponential_(b), x.clone().cauchy_(a, b)
    return *made, x.clone().log_normal_(a, b), x.clone().geometric_(a / 2 + 0.1)


@pytest.mark.parametrize("function", [by_numbers, of_others])
def test_parameters_that_vary(function: Callable[..., Any], programs: list[Runner]) -> None:
    """One graph, and one program for all: these are eager's bits, and leave generators where eager does."""
    counter = CompileCounterWithBackend("native")
    compiled = weft.compile(function, backend=counter, fullgraph=True)
    x = weft.linspace(0.1, 0.9, 7)
    for a, b in ((0.5, 0.25), (0.3, 1.0), (0.7, 2.5), (0.9, 0.125), (0.999999, 1e-3), (0.2, 1e30)):
        found = []
        for each in (function, compiled):
            weft.manual_seed(3)
            found.append([*each(x, a, b), weft.rand(2)])
        assert_close(found[1], found[0], rtol=0, atol=0, equal_nan=True)
    assert counter.frame_count <= 2
    if function is by_numbers:
        assert not programs[-1].python and programs[-1].frame is not None


@pytest.mark.parametrize("bad", [-0.5, 1.5, math.nan])
def test_probabilities_that_vary_are_refused_as_eagerly(bad: float) -> None:
    compiled = weft.compile(lambda x, p: x.clone().bernoulli_(p))
    for p in (0.25, 0.5, 0.75):
        compiled(weft.ones(2), p)
    with pytest.raises(RuntimeError, match="expects p to be in"):
        compiled(weft.ones(2), bad)


@pytest.mark.parametrize("bad", [-0.5, math.nan])
def test_deviations_that_vary_are_refused_as_eagerly(bad: float) -> None:
    compiled = weft.compile(lambda x, s: x + weft.normal(0.0, s, (2,)))
    for s in (0.25, 0.5, 0.75):
        compiled(weft.ones(2), s)
    with pytest.raises(RuntimeError, match="normal expects std >= 0.0"):
        compiled(weft.ones(2), bad)
