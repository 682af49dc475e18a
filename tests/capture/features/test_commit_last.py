"""Graphs that are thrown away: checks that raise, without a break.

Each program runs as it is and compiled, by both backends, from equal beginnings; see `committing`.

PYTEST_DONT_REWRITE: the asserts of programs are those that Python compiles.
"""

from __future__ import annotations

import itertools
import math
import warnings
from typing import Any

import pytest

import weft
from tests.capture.features.committing import LOG, Refused, bad, good, mixed, places, refused, same
from tests.capture.features.harness import STEADY, everything_strict, tensor
from weft import nn
from weft.aot.backends import aot
from weft.capture import runtime
from weft.compiler import set_logs
from weft.core.counters import counters
from weft.utils.checkpoint import checkpoint


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
        state=state, after=after, frames=1,
        watch=lambda: (made[0].calls, made[0].seen, made[0].seen._version),
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


def test_checks_of_all_and_any() -> None:
    def f(x: Any) -> Any:
        fine = [not weft.isnan(row) for row in x]
        assert all(fine), "all of a list"
        assert all(LOG.append(1) is None and row < 100 for row in x), "all of a generator"
        if any(weft.isinf(row).item() for row in x):
            raise Refused("any")
        if not all(map(weft.isfinite, x)):
            raise Refused("map")
        return x + 1

    values = (2.0, math.nan, 400.0, -math.inf, 3.0)
    same(f, *[lambda v=v: (tensor(1.0, v, 3.0),) for v in values])


def test_all_and_any_that_decide_are_branches() -> None:
    def f(x: Any) -> Any:
        return x + 1 if all(row > 0 for row in x) else x

    def g(x: Any) -> Any:
        if not any(row > 2 for row in x):
            raise Refused(x.tolist())
        return x + 1

    for function in (f, g):
        assert refused(function, tensor()) == "data-dependent-branch"


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


class Doubled(weft.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        assert not weft.isnan(x).any(), "inside a Function"
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        (x,) = ctx.saved_tensors
        return gradient * 2 + x * 0


def finite(x: Any) -> Any:
    assert not weft.isnan(x).any(), "inside a part"
    return x.sin()


def by_a_function(x: Any) -> Any:
    Doubled.apply(x + 1)
    return Doubled.apply(x * x) + 1


def by_a_branch(x: Any) -> Any:
    return weft.cond(x.shape[0] + x[0].detach() > 0, finite, lambda x: x - 1, (x,))


def by_a_checkpoint(x: Any) -> Any:
    return checkpoint(finite, x * x, use_reentrant=False) * 2


@pytest.mark.parametrize("function", [by_a_function, by_a_branch, by_a_checkpoint])
@pytest.mark.parametrize("tracked", [False, True])
def test_checks_inside_of_parts(function: Any, tracked: bool) -> None:
    made: list[Any] = []

    def arguments(value: float) -> tuple[Any, ...]:
        made.append(weft.tensor([1.0, value, 3.0], requires_grad=tracked))
        return (made[-1],)

    def after(result: Any) -> Any:
        return weft.autograd.grad(result.sum(), made[-1]) if tracked else None

    same(function, *[lambda v=v: arguments(v) for v in (2.0, math.nan, 0.5, math.nan)], after=after)


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
        assert counters["fallbacks"]["deoptimised too often"] == 1
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


# -- whole steps ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", ["SGD", "Adam"])
def test_whole_steps_check_before_parameters_are_written(kind: str) -> None:
    made: dict[str, Any] = {}

    def state() -> Any:
        weft.manual_seed(0)
        layers = nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Dropout(0.2), nn.Linear(4, 1)
        model = made["model"] = nn.Sequential(*layers)
        optimizer = getattr(weft.optim, kind)(
            model.parameters(), lr=0.1, **(STEADY if kind == "Adam" else {})
        )

        def step(x: Any, y: Any) -> Any:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x), y)
            if weft.isnan(loss):
                raise ValueError(f"loss is {loss}")
            loss.backward()
            for parameter in model.parameters():
                assert weft.isfinite(parameter.grad).all(), "gradient"
            optimizer.step()
            LOG.append(loss.item())
            return loss.detach()

        return step

    def watch() -> Any:
        model = made["model"]
        tensors = [*model.parameters(), *model.buffers()]
        return [(t.detach(), t.grad, t._version) for t in tensors]

    def batch(scale: float) -> tuple[Any, ...]:
        generator = weft.Generator()
        generator.manual_seed(1)
        x = weft.randn(5, 3, generator=generator)
        x[0, 0] *= scale
        return x, weft.randn(5, 1, generator=generator)

    calls = [lambda scale=scale: batch(scale) for scale in (1.0, 2.0, math.nan, 3.0, math.nan, 1.5)]
    same(lambda x, y: None, *calls, state=state, watch=watch)


def test_only_what_is_written_before_the_last_check_is_copied_in_a_step() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
    optimizer = weft.optim.Adam(model.parameters())

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        if weft.isnan(loss):
            raise ValueError
        loss.backward()
        optimizer.step()
        return loss

    with everything_strict():
        entries: list[Any] = []
        compiled = weft.compile(step, fullgraph=True)
        compiled.__dict__["_weft_front"].on_entry.append(lambda _cache, entry: entries.append(entry))
        compiled(weft.randn(5, 3))
    saved = [line for line in entries[0].text.splitlines() if "_save(" in line]
    assert len(saved) == 3 + 6, "the buffers of the normalisation, and the optimizer's counts"


def test_checks_are_part_of_what_is_compiled_ahead_of_time() -> None:
    graphs: list[Any] = []

    def compiler(module: Any, _inputs: Any) -> Any:
        graphs.append(module)
        return module.forward

    def f(x: Any, y: Any) -> Any:
        y.add_(1)
        total = (x * 2).sum()
        if weft.isnan(total):
            raise Refused
        return total * y

    with everything_strict():
        compiled = weft.compile(f, backend=aot(compiler), fullgraph=True)
        compiled(tensor(), tensor())
        with pytest.raises(Refused):
            compiled(*bad(), tensor())
    assert len(graphs) == 1 and "require" in graphs[0].code
