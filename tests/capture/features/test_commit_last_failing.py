"""Graphs that are thrown away: ops that fail on data, and numbers that only running can tell.

Each program runs as it is and compiled, by both backends, from equal beginnings; see `committing`.

PYTEST_DONT_REWRITE: the asserts of programs are those that Python compiles.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest

import weft
from tests.capture.features.committing import LOG, Refused, bad, good, mixed, places, refused, same
from tests.capture.features.harness import tensor
from weft import nn

# -- ops that fail -------------------------------------------------------------------------------------------
FAILING: dict[str, tuple[Any, Any, Any]] = {
    "gather": (lambda i: weft.arange(4.0).gather(0, i), places(1), places(7)),
    "index": (lambda i: weft.arange(4.0)[i], places(1), places(-9)),
    "index_select": (lambda i: weft.arange(4.0).index_select(0, i), places(1), places(4)),
    "embedding": (lambda i: nn.functional.embedding(i, weft.ones(4, 2)), places(1), places(4)),
    "one_hot": (lambda i: nn.functional.one_hot(i, 3), places(1), places(3)),
    "cross_entropy": (lambda i: nn.functional.cross_entropy(weft.ones(1, 3), i), places(1), places(5)),
    "division": (lambda i: places(6) // i, places(2), places(0)),
    "remainder": (lambda i: places(6) % i, places(2), places(0)),
    "scatter": (lambda i: weft.zeros(3).scatter(0, i, weft.ones(1)), places(1), places(3)),
    "index_put": (lambda i: weft.zeros(3).index_put((i,), weft.ones(1)), places(1), places(3)),
    "masked": (
        lambda m: weft.zeros(3).index_put_((m,), weft.ones(2)),
        weft.tensor([True, True, False]),
        weft.tensor([True, True, True]),
    ),
    "cholesky": (weft.linalg.cholesky, weft.eye(2), -weft.eye(2)),
    "inverse": (weft.linalg.inv, weft.eye(2), weft.zeros(2, 2)),
    "solve": (lambda a: weft.linalg.solve(a, weft.ones(2)), weft.eye(2), weft.zeros(2, 2)),
    "bernoulli": (weft.bernoulli, tensor(0.5), tensor(2.0)),
    "multinomial": (lambda p: weft.multinomial(p, 1), tensor(0.5, 0.5), tensor(-0.5, 0.5)),
}


@pytest.mark.parametrize("name", FAILING)
def test_ops_that_fail_on_data(name: str) -> None:
    compute, fits, fails = FAILING[name]

    def f(x: Any, given: Any, kept: Any) -> Any:
        LOG.append("before")
        kept.append(x + 1)
        x.mul_(2)
        noise = weft.rand(3)
        with weft.no_grad():
            y = compute(given)
        LOG.append("after")
        x.add_(1)
        return y, noise

    calls = [lambda given=given: (tensor(), given.clone(), []) for given in (fits, fails, fits, fails)]
    same(f, *calls)


@pytest.mark.parametrize("name", FAILING)
def test_ops_that_fail_though_nobody_reads_what_they_give(name: str) -> None:
    compute, fits, fails = FAILING[name]

    def f(x: Any, given: Any) -> Any:
        with weft.no_grad():
            compute(given)
        return x + 1

    same(f, *[lambda given=given: (tensor(), given.clone()) for given in (fits, fails, fits)])


def test_writes_to_views_of_inputs_are_undone() -> None:
    def f(x: Any, i: Any) -> Any:
        row = x[0]
        row.add_(1)
        x.t()[1].mul_(2)
        assert (x[:, i] > 0).all()
        x.zero_()
        return row

    def square(*values: float) -> Any:
        return weft.tensor(values).reshape(2, 2)

    same(
        f,
        lambda: (square(1, 2, 3, 4), places(1)),
        lambda: (square(1, 2, 3, -4), places(1)),
        lambda: (square(1, 2, 3, 4), places(7)),
        lambda: (square(1, 2, 3, 4), places(0)),
    )


def test_inputs_that_share_memory() -> None:
    def f(x: Any, y: Any) -> Any:
        x.add_(1)
        y.mul_(2)
        assert not weft.isnan(x.sum() + y.sum())
        x.sub_(y)
        return x * y

    def shared(value: float) -> tuple[Any, ...]:
        base = weft.tensor([1.0, 2.0, value, 4.0])
        return base[:3], base[1:]

    same(f, *[lambda v=v: shared(v) for v in (3.0, math.nan, 3.0)])


def test_history_of_an_input_is_put_back() -> None:
    weight = weft.tensor([1.0, 2.0, 3.0], requires_grad=True)

    def arguments(value: float) -> tuple[Any, ...]:
        return (weight * value,)

    def f(x: Any) -> Any:
        x.mul_(weight)
        x.sin_()
        if weft.isnan(x).any():
            raise Refused
        return x.sum()

    def after(result: Any) -> Any:
        return weft.autograd.grad(result, weight)

    same(f, *[lambda v=v: arguments(v) for v in (1.0, math.nan, 2.0)], after=after)


def test_generators_are_put_back() -> None:
    made: list[Any] = []

    def state() -> None:
        made[:] = [weft.Generator()]
        made[0].manual_seed(3)

    def f(x: Any, generator: Any) -> Any:
        noise = weft.rand(3, generator=generator) + weft.randn(3)
        assert not weft.isnan(x).any()
        return x + noise + weft.rand(3, generator=generator)

    calls = [lambda make=make: (*make(), made[0]) for make in (good, bad, good, bad)]
    same(f, *calls, state=state, watch=lambda: made[0].get_offset())


def test_modes_are_put_back() -> None:
    def f(x: Any) -> Any:
        weft.set_grad_enabled(False)
        y = x * 2
        assert not weft.isnan(y).any()
        weft.set_grad_enabled(True)
        return y + 1

    def state() -> None:
        weft.set_grad_enabled(True)

    mixed(f, state=state, frames=2)
    weft.set_grad_enabled(True)


def test_objects_made_before_a_failure_are_nobodys() -> None:
    class Thing:
        def __init__(self, x: Any) -> None:
            self.x = x

    def f(x: Any, kept: Any) -> Any:
        kept["thing"] = Thing(x + 1)
        kept.setdefault("count", 0)
        kept["count"] += 1
        assert not weft.isnan(x).any()
        kept["done"] = True
        return kept["thing"].x

    calls = [lambda make=make: (*make(), {}) for make in (good, bad, good, bad)]
    same(f, *calls)


# -- inputs that may not be written --------------------------------------------------------------------------
def read_only() -> Any:
    array = np.ones(3, np.float32)
    array.setflags(write=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return weft.from_numpy(array)


UNWRITABLE: dict[str, tuple[Any, Any]] = {
    "a leaf": (
        lambda: weft.ones(3, requires_grad=True) * 1,
        lambda: weft.ones(3, requires_grad=True),
    ),
    "many elements in one place": (lambda: weft.ones(3), lambda: weft.ones(1).expand(3)),
    "read only": (lambda: weft.ones(3), read_only),
}


@pytest.mark.parametrize("name", UNWRITABLE)
def test_inputs_that_may_not_be_written_are_refused_first(name: str) -> None:
    fits, fails = UNWRITABLE[name]

    def f(x: Any, y: Any, z: Any) -> Any:
        LOG.append("before")
        x.add_(1)
        y.mul_(2)
        LOG.append("between")
        z.sub_(x)
        return x * y

    def g(x: Any, y: Any, z: Any) -> Any:
        x.add_(1)
        assert not weft.isnan(x).any()
        y[:2].mul_(2)
        z.sub_(1)
        return y + x

    for function in (f, g):
        calls = [lambda make=make: (tensor(), make(), tensor()) for make in (fits, fails, fits, fails)]
        same(function, *calls, deoptimised=None)


# -- numbers that only running can tell ----------------------------------------------------------------------
def test_checks_of_numbers() -> None:
    def f(x: Any) -> Any:
        loss = (x * x).sum()
        if math.isnan(loss.item()):
            raise ValueError(f"loss is {loss.item()}")
        if loss.item() > 1e6:
            raise OverflowError(loss.item())
        return loss * 2

    same(f, good, bad, lambda: (tensor(1e4, 1.0, 1.0),), good)


def test_checks_of_computed_numbers() -> None:
    def f(x: Any, y: Any) -> Any:
        total = x.sum().item() + 2 * y.max().item() - 1
        assert 0 <= abs(total) / 2 <= 50, total
        count = (x > 0).sum().item()
        assert count == x.shape[0] and count % 2 == 1, count
        return x * y

    same(f, *[lambda v=v: (tensor(1.0, 2.0, v), tensor()) for v in (3.0, -1.0, 400.0, 4.0)])


def test_checks_of_truths() -> None:
    def f(x: Any) -> Any:
        fine = bool(weft.isfinite(x).all())
        assert fine, "bool"
        assert (x > 0).all().item(), "item"
        assert float(x.sum()) < 100 and int(x[0]) == 1, "float and int"
        worse = not (x < 50).all()
        if worse:
            raise Refused("not")
        if (x.max() - x.min()).item():
            return x + 1
        return x

    def g(x: Any) -> Any:
        fine = bool(weft.isfinite(x).all())
        assert fine, "bool"
        assert (x > 0).all().item(), "item"
        assert float(x.sum()) < 100 and int(x[0]) == 1, "float and int"
        worse = not (x < 50).all()
        if worse:
            raise Refused("not")
        return x + 1

    assert refused(f, tensor()) == "data-dependent-branch"
    values = (2.0, math.nan, -2.0, 400.0, 60.0, 3.0)
    same(g, *[lambda v=v: (tensor(1.0, v, 3.0),) for v in values])


def test_checks_of_equality() -> None:
    def f(x: Any, y: Any) -> Any:
        assert weft.allclose(x, y, atol=0.5), f"{x} is not {y}"
        if not weft.equal(x, y):
            raise Refused(x.tolist())
        return x + y

    same(f, *[lambda v=v: (tensor(1.0, 2.0), tensor(1.0, v)) for v in (2.0, 2.1, 7.0, 2.0)])


def test_numbers_that_leave() -> None:
    class Meter:
        def __init__(self) -> None:
            self.total, self.count = 0.0, 0

    def f(x: Any, meter: Any, kept: Any) -> Any:
        loss = (x * x).mean()
        meter.total += loss.item()
        meter.count += 1
        kept.append(loss.item())
        kept.append((x > 1).any().item())
        kept.append({"sum": x.sum().item() * 2, "most": int(x.argmax())})
        return loss.item(), x * loss.item(), x + kept[-1]["sum"]

    calls = [lambda make=make: (*make(), Meter(), []) for make in (good, bad, good)]
    same(f, *calls)


def test_numbers_in_gradients() -> None:
    made: list[Any] = []

    def leaf() -> tuple[Any, ...]:
        made.append(tensor().requires_grad_())
        return (made[-1],)

    def f(x: Any) -> Any:
        y = x.sin()
        scale = y.sum().item() + 1
        return (y * scale).sum(), scale

    def after(result: Any) -> Any:
        return weft.autograd.grad(result[0], made[-1], create_graph=True)

    same(f, leaf, leaf, after=after)


def test_numbers_that_must_be_known_break_where_they_are_made() -> None:
    def f(x: Any) -> Any:
        n = int((x > 0).sum().item())
        LOG.append(f"{n} of them")
        y = x[:n] * 2
        for i in range(n):
            y = y + i
        return y, {n: weft.zeros(n)}

    def g(x: Any) -> Any:
        n = x.sum().item()
        return x * (n if n > 3 else 2)

    assert refused(f, tensor()) == "data-dependent-value"
    assert refused(g, tensor()) == "data-dependent-branch"
    for function, graphs in ((f, 3), (g, 3)):
        same(function, good, lambda: (tensor(1.0, -2.0, 3.0),), good, fullgraph=False, frames=graphs)


@pytest.mark.parametrize("name", FAILING)
def test_new_elements_are_written_when_nothing_can_fail_any_more(name: str) -> None:
    compute, fits, fails = FAILING[name]

    def f(x: Any, given: Any) -> Any:
        y = x + 1
        with weft.no_grad():
            made = compute(given)
        x.copy_(y)
        return made

    calls = [lambda given=given: (tensor(), given.clone()) for given in (fits, fails, fits, fails)]
    same(f, *calls)
