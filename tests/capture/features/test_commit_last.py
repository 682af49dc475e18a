"""Graphs that are thrown away: checks that raise and ops that fail, without a break.

Each program runs as it is and compiled, by both backends, from equal beginnings: results, errors and their
lines, effects, versions and the random stream must be equal, and all of it one graph.

PYTEST_DONT_REWRITE: the asserts of programs are those that Python compiles.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable
from typing import Any

import pytest

import weft
from tests.capture.features.harness import everything_strict, own_lines, tensor
from tests.whole.fuzz.snapshot import Snapshot, difference
from weft import nn
from weft.capture import runtime
from weft.capture.counters import counters
from weft.compiler import Unsupported, set_logs
from weft.testing import CompileCounterWithBackend

BACKENDS = ("eager", "aot_eager")
LOG: list[Any] = []


def same(
    function: Callable[..., Any],
    *calls: Callable[[], tuple[Any, ...]],
    deoptimised: int | None = None,
    frames: int = 1,
    fullgraph: bool = True,
    state: Callable[[], Any] | None = None,
    watch: Callable[[], Any] | None = None,
    after: Callable[[Any], Any] | None = None,
) -> None:
    """Asserts that calls do compiled what they do as they are, and how many ran the original again."""

    def begin() -> Any:
        LOG.clear()
        weft.manual_seed(5)
        return None if state is None else state()

    def seen() -> Any:
        return list(LOG), weft.get_rng_state(), weft.is_grad_enabled(), watch() if watch else None

    for backend in BACKENDS:
        counter = CompileCounterWithBackend(backend)

        def compiled(plain: Any, counter: Any = counter) -> Any:
            return weft.compile(plain, backend=counter, fullgraph=fullgraph)

        with everything_strict():
            plain = begin() or function
            expected = [observe(plain, make, seen, after) for make in calls]
            called = compiled(begin() or function)
            actual = [observe(called, make, seen, after) for make in calls]
            fallbacks = dict(counters["fallbacks"])
        for number, (left, right) in enumerate(zip(expected, actual)):
            for part in left:
                found = difference(left[part], right[part])
                assert found is None, f"{backend}, call {number}, {part}{found}"
        raised = sum(part["result"][0] == "raised" for part in expected)
        wanted = raised if deoptimised is None else deoptimised
        assert fallbacks == ({"deoptimised": wanted} if wanted else {}), backend
        assert counter.frame_count == frames, f"{backend}: {counter.frame_count} graphs"


def observe(called: Any, make: Any, watch: Any, after: Any) -> dict[str, Any]:
    """What is seen of one call, by what it is seen on."""
    snapshot = Snapshot(__name__)
    args = make()
    seen: dict[str, Any] = {}
    try:
        result = called(*args)
    except Exception as error:
        cause = snapshot.see([error, error.__cause__, error.__context__])
        seen["result"] = ("raised", cause, str(error), own_lines(error))
    else:
        seen["result"] = snapshot.see(result)
        if after is not None:
            seen["later"] = snapshot.see(after(result))
    seen["arguments"] = snapshot.see(list(args))
    seen["watched"] = snapshot.see(watch())
    return seen


def good() -> tuple[Any, ...]:
    return (tensor(1.0, 2.0, 3.0),)


def bad() -> tuple[Any, ...]:
    return (tensor(1.0, float("nan"), -3.0),)


def mixed(function: Any, **options: Any) -> None:
    """Good and bad calls in turn."""
    same(function, good, bad, good, bad, **options)


# -- checks --------------------------------------------------------------------------------------------------
def test_assert() -> None:
    def f(x: Any) -> Any:
        y = x * 2
        assert (y > 0).all()
        return y + 1

    mixed(f)


def test_assert_with_a_message_of_tensor_values() -> None:
    def f(x: Any) -> Any:
        y = x * 2
        assert (y > 0).all(), f"not positive: {y}, least {y.min().item():.2f}"
        return y + 1

    mixed(f)


def test_several_asserts_name_their_own_line() -> None:
    def f(x: Any) -> Any:
        assert x.sum() < 100
        y = x * 2
        assert y.sum() > 0, "second"
        z = y.exp()
        assert z.max() < 1e4, "third"
        return z

    same(f, good, bad, lambda: (tensor(100.0, 1.0),), lambda: (tensor(9.0, 1.0),), good, frames=2)


def test_assert_of_several_conditions() -> None:
    def f(x: Any) -> Any:
        assert x.sum() < 100 and x.min() > 0 and x.shape[0] == 3, x
        return x + 1

    mixed(f)


def test_if_not_a_number_raise() -> None:
    def f(x: Any) -> Any:
        loss = (x * x).sum()
        if weft.isnan(loss):
            raise ValueError("loss is not a number")
        return loss * 2

    mixed(f)


def test_if_not_all_finite_raise_with_cause() -> None:
    def f(x: Any) -> Any:
        if not weft.isfinite(x).all():
            raise ValueError(f"bad places: {weft.isnan(x).nonzero().tolist()}") from KeyError("x")
        return x.log()

    mixed(f)


def test_either_of_two_conditions() -> None:
    def f(x: Any) -> Any:
        if (x < 0).any() or weft.isinf(x).any():
            raise ArithmeticError
        return x.sqrt()

    same(f, good, bad, lambda: (tensor(1.0, math.inf, 1.0),), good)


def test_else_of_a_check() -> None:
    def f(x: Any) -> Any:
        if (x > 0).all():
            y = x.log()
        else:
            raise ValueError(f"{x}")
        return y + 1

    mixed(f)


def test_work_before_the_raise() -> None:
    def f(x: Any) -> Any:
        LOG.append("before")
        y = x + 1
        if weft.isnan(y).any():
            LOG.append(("bad", y.tolist()))
            warnings.warn("about to fail", stacklevel=1)
            names = [str(value) for value in y.tolist()]
            raise RuntimeError(", ".join(names))
        LOG.append("after")
        return y

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mixed(f)


def check_finite(x: Any, name: str) -> Any:
    if not weft.isfinite(x).all():
        raise ValueError(f"{name} is not finite: {x}")
    return x


class Refused(Exception):
    pass


def refuse(x: Any) -> None:
    raise Refused(x.sum().item())


def test_raising_helpers() -> None:
    def f(x: Any) -> Any:
        x = check_finite(x, "x")
        return check_finite(x * 2, "twice x") + 1

    mixed(f)


def test_a_helper_that_makes_the_exception() -> None:
    def problem(x: Any) -> Refused:
        LOG.append("made")
        return Refused(x.tolist())

    def f(x: Any) -> Any:
        if weft.isnan(x).any():
            raise problem(x)
        return x + 1

    mixed(f)


def test_assert_functions_of_the_library() -> None:
    def f(x: Any) -> Any:
        weft._assert((x > 0).all(), "not positive")
        weft._check(x.sum() < 100, lambda: "too large")
        return x * 2

    same(f, good, bad, lambda: (tensor(100.0, 1.0, 1.0),), good)


def test_assert_inside_modules() -> None:
    class Checked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.calls = 0
            self.register_buffer("seen", weft.zeros(()))
            self.weight = nn.Parameter(weft.ones(3))

        def forward(self, x: Any) -> Any:
            self.calls += 1
            self.seen += 1
            y = x * self.weight
            assert not weft.isnan(y).any(), f"call {self.calls}"
            return y.sum()

    made: list[Any] = []

    def state() -> Any:
        made[:] = [Checked()]
        inner = nn.Sequential(made[0])

        def run(x: Any) -> Any:
            return inner(x) * 2

        return run

    def after(result: Any) -> Any:
        result.backward()
        return [p.grad for p in made[0].parameters()]

    def f(x: Any) -> Any:
        return x

    same(
        f, good, bad, good, bad,
        state=state, watch=lambda: (made[0].calls, made[0].seen, made[0].seen._version), after=after, frames=3,
    )  # fmt: skip


def test_checks_inside_with_and_finally() -> None:
    def f(x: Any) -> Any:
        with weft.no_grad():
            try:
                LOG.append("try")
                assert (x > 0).all(), "inside"
                y = x * 2
            finally:
                LOG.append("finally")
        return y

    mixed(f)


def test_checks_in_a_loop_and_in_generators() -> None:
    def checked(rows: Any) -> Any:
        for row in rows:
            assert row > 0
            yield row * 2

    def f(x: Any) -> Any:
        total = x.sum() * 0
        for row in checked([x[0], x[1], x[2]]):
            total = total + row
        return total

    mixed(f)


def test_a_reraised_error_is_an_error() -> None:
    def f(x: Any) -> Any:
        try:
            check_finite(x, "x")
        except ValueError as error:
            LOG.append(str(error))
            raise Refused("again") from error
        return x + 1

    mixed(f)


def test_the_error_of_an_ambiguous_truth() -> None:
    def f(x: Any) -> Any:
        y = x + 1
        assert y > 0
        return y

    same(f, good, good, deoptimised=0, frames=1, fullgraph=False)


def test_checks_after_a_break() -> None:
    def f(x: Any) -> Any:
        LOG.append("first")
        y = x * 2
        weft.compiler.graph_break()
        y.add_(1)
        assert not weft.isnan(y).any(), "second segment"
        LOG.append("second")
        return y

    mixed(f, fullgraph=False, frames=2)


# -- what stays a break --------------------------------------------------------------------------------------
def refused(function: Any, *args: Any) -> str:
    with everything_strict(), pytest.raises(Unsupported) as error:
        weft.compile(function, fullgraph=True)(*args)
    return error.value.kind


def test_branches_that_both_lead_on_are_refused() -> None:
    def f(x: Any) -> Any:
        return x + 1 if x.sum() > 0 else x - 1

    def g(x: Any) -> Any:
        if x.sum() > 0:
            return x + 1
        LOG.append(1)
        return x

    assert refused(f, tensor()) == refused(g, tensor()) == "data-dependent-branch"


def test_errors_that_are_handled_are_branches() -> None:
    def f(x: Any) -> Any:
        try:
            check_finite(x, "x")
        except ValueError:
            x = weft.zeros(3)
        return x + 1

    def g(x: Any) -> Any:
        try:
            if x.sum() > 0:
                raise ValueError
        except ValueError:
            return x
        return x + 1

    assert refused(f, tensor()) == refused(g, tensor()) == "data-dependent-branch"
    same(f, good, bad, good, fullgraph=False, frames=3, deoptimised=1)


def test_an_end_of_iteration_is_a_branch() -> None:
    class Until:
        def __init__(self, x: Any) -> None:
            self.x = x

        def __iter__(self) -> Any:
            return self

        def __next__(self) -> Any:
            self.x = self.x - 1
            if (self.x < 0).any():
                raise StopIteration
            return self.x

    def f(x: Any) -> Any:
        for row in Until(x):
            x = x + row
        return x

    assert refused(f, tensor(2.0, 3.0)) == "data-dependent-branch"


def test_a_loop_that_only_an_error_ends_is_a_branch() -> None:
    def f(x: Any) -> Any:
        while True:
            x = x * 2
            if x.sum() > 100:
                raise Refused(x.tolist())

    assert refused(f, tensor()) == "data-dependent-branch"


# -- ops that fail -------------------------------------------------------------------------------------------
def places(*values: int) -> Any:
    return weft.tensor(values)


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


# -- gradients -----------------------------------------------------------------------------------------------
def test_gradients_flow_past_checks() -> None:
    def f(x: Any) -> Any:
        y = x.sin()
        assert y.abs().max() <= 1
        z = y * x
        if weft.isnan(z).any():
            raise Refused(z.tolist())
        return z.sum(), y

    def after(result: Any) -> Any:
        return weft.autograd.grad(result[0] + result[1].sum(), made[-1], create_graph=True)

    made: list[Any] = []

    def leaf(*values: float) -> tuple[Any, ...]:
        made.append(weft.tensor(values, requires_grad=True))
        return (made[-1],)

    same(f, *[lambda v=v: leaf(1.0, v) for v in (2.0, math.nan, 0.5)], after=after)


def test_checks_do_not_run_again_for_gradients() -> None:
    def f(x: Any, limit: Any) -> Any:
        assert limit > 0, "a limit that gradients do not read"
        y = x * 2
        return y.sin(), y.cos()

    made: list[Any] = []

    def arguments(limit: float) -> tuple[Any, ...]:
        made.append(tensor().requires_grad_())
        return made[-1], tensor(limit).sum()

    def after(result: Any) -> Any:
        return weft.autograd.grad(result[0].sum(), made[-1])  # the other output gets no gradient

    same(f, *[lambda v=v: arguments(v) for v in (1.0, -1.0, 2.0)], after=after)


def test_failing_ops_do_not_fail_again_for_gradients() -> None:
    def f(x: Any, by: Any) -> Any:
        count = places(6) // by
        return x.sin() * 2, x.cos(), count

    made: list[Any] = []

    def arguments(by: int) -> tuple[Any, ...]:
        made.append(tensor().requires_grad_())
        return made[-1], places(by)

    def after(result: Any) -> Any:
        return weft.autograd.grad(result[0].sum(), made[-1])

    same(f, *[lambda v=v: arguments(v) for v in (1, 0, 2)], after=after)


# -- what users see ------------------------------------------------------------------------------------------
def test_counters_and_logs_name_the_line(capsys: Any) -> None:
    def f(x: Any) -> Any:
        assert (x > 0).all()
        return x + 1

    line = f.__code__.co_firstlineno + 1
    set_logs("deoptimised")
    try:
        with everything_strict():
            compiled = weft.compile(f, fullgraph=True)
            compiled(*good())
            with pytest.raises(AssertionError):
                compiled(*bad())
            counted = dict(counters["deoptimisations"])
    finally:
        set_logs()
    (key,) = counted
    assert counted[key] == 1 and f"test_commit_last.py:{line}" in key
    told = capsys.readouterr().err
    assert "AssertionError at" in told and f"test_commit_last.py:{line}" in told


def test_a_graph_that_always_fails_is_given_up() -> None:
    calls = itertools.count()

    def backend(graph_module: Any, _inputs: Any) -> Any:
        def run(*args: Any) -> Any:
            next(calls)
            return graph_module.forward(*args)

        return run

    def f(x: Any) -> Any:
        if (x < 0).any():
            raise Refused
        return x + 1

    with everything_strict():
        compiled = weft.compile(f, fullgraph=True, backend=backend)

        def fail(times: int) -> None:
            for _ in range(times):
                with pytest.raises(Refused):
                    compiled(-tensor())

        fail(runtime.PATIENCE)
        assert compiled(tensor()).tolist() == [2.0, 3.0, 4.0], "a success starts the count again"
        fail(runtime.PATIENCE)
        compiled(tensor())
        fail(runtime.PATIENCE + 1)
        assert counters["fallbacks"]["deoptimised again and again"] == 1
        before = next(calls)
        fail(3)
        assert compiled(tensor()).tolist() == [2.0, 3.0, 4.0]
        assert next(calls) == before + 1, "the original runs at once"
        compiled(weft.ones(2, 2))
        assert next(calls) == before + 3, "other shapes are compiled as ever"


def test_what_is_written_after_the_last_check_is_not_copied() -> None:
    def f(x: Any, y: Any, i: Any) -> Any:
        x.add_(1)
        z = x[i]
        y.add_(z)
        return z

    with everything_strict():
        entries: list[Any] = []
        compiled = weft.compile(f)
        compiled.__dict__["_weft_front"].on_entry.append(lambda _cache, entry: entries.append(entry))
        compiled(tensor(), tensor(1.0), places(1))
    assert entries[0].text.count("save(") == 1


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
