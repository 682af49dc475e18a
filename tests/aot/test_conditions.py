"""Floats that tracing asks something of: a plan serves all with the same answers, and no others."""

from __future__ import annotations

import math
import warnings

import pytest

import weft
from tests.aot.differing import compare
from weft.aot import runtime
from weft.aot.conditions import Conditions
from weft.aot.runtime import compiled as compiled_calls
from weft.aot.runtime import counting
from weft.core.expressions import Expression, constant, symbol
from weft.nn import functional as F
from weft.testing import assert_close


def test_conditions_hold_where_they_have_their_truths() -> None:
    one = symbol("f0", float)
    positive = Expression("gt", (one, constant(0.0)), bool)
    defined = Expression("defined", (Expression("exp", (one,), float),), bool)
    found = Conditions([(positive, True), (defined, True)], {one.args[0]: 1})
    assert found.hold((None, 2.0)) and not found.hold((None, -2.0))
    assert not found.hold((None, 1e6))  # whose exponential is none
    assert found.inputs == {1}
    assert found.cover(Conditions([(positive, True)], {one.args[0]: 1}))
    assert not found.cover(Conditions([(positive, False)], {one.args[0]: 1}))
    assert not found.cover(Conditions([(positive, True)], {one.args[0]: 0}))


ASKED = {
    "bounds": lambda x, s: x.clamp(-s, s),
    "delta": lambda x, s: F.huber_loss(x, x * 2, delta=s),
    "beta": lambda x, s: F.smooth_l1_loss(x, x * 2, beta=s),
    "smoothing": lambda x, s: F.cross_entropy(x, weft.zeros(4, dtype=weft.int64), label_smoothing=s),
    "fill": lambda x, s: weft.full((4,), s) + x,
    "deviation": lambda x, s: weft.normal(0.0, s, (4,)) + x,
    "order": lambda x, s: weft.linalg.vector_norm(x, s),
    "beside an order": lambda x, s: weft.linalg.vector_norm(x, 2.0) * s,
    "exponential": lambda x, s: x * math.exp(s),
    "whole": lambda x, s: x * int(s * 100),
    "power": lambda x, s: x * s**2.5,
}


@pytest.mark.parametrize("backend", ["aot_eager", "native"])
@pytest.mark.parametrize("name", ASKED)
def test_floats_that_differ_in_each_call_share_a_plan(name, backend):
    weft.compiler.reset()
    function = ASKED[name]
    compiled = weft.compile(function, backend=backend)
    x = weft.linspace(-2, 3, 16).reshape(4, 4)
    before = runtime.counters["plans"]
    for number in range(12):
        weft.manual_seed(0)
        found = compiled(x, 0.5 / (number + 1))
        weft.manual_seed(0)
        assert_close(found, function(x, 0.5 / (number + 1)))
    assert runtime.counters["plans"] - before <= 2  # a constant, then an input
    assert not weft.compiler.counters["varying"]


@pytest.mark.parametrize("backend", ["aot_eager", "native"])
def test_other_answers_are_other_plans(backend):
    weft.compiler.reset()
    x = weft.linspace(-2, 3, 6)
    compiled = weft.compile(lambda x, s: weft.linalg.vector_norm(x, s), backend=backend)
    for order in (2.0, 3.0, math.inf, 0.5, -1.0, 0.0, -math.inf, 1.0, 2.0) * 2:
        assert_close(compiled(x, order), weft.linalg.vector_norm(x, order))


@pytest.mark.parametrize("backend", ["aot_eager", "native"])
def test_errors_are_those_of_the_number(backend):
    weft.compiler.reset()
    function = ASKED["delta"]
    compiled = weft.compile(function, backend=backend)
    x = weft.linspace(-2, 3, 6)
    for delta in (0.5, 1.5, -1.0, 2.5, 0.0, 0.25, -1.0):
        if delta > 0:
            assert_close(compiled(x, delta), function(x, delta))
            continue
        with pytest.raises(RuntimeError, match="non-positive values for delta"):
            compiled(x, delta)


@pytest.mark.parametrize("backend", ["aot_eager", "native"])
def test_zeros_have_signs(backend):
    weft.compiler.reset()
    compiled = weft.compile(lambda x, s: x / weft.full((2,), s), backend=backend)
    for s in (0.0, -0.0, 0.0, -0.0):
        assert compiled(weft.ones(2), s).tolist() == [math.copysign(math.inf, s)] * 2


def test_constants_stay_constants_where_another_float_varies():
    """A bound that is always 2 makes the better program, whatever the rate beside it does."""
    weft.compiler.reset()
    seen = []
    compiled = weft.compile(lambda x, p, s: x.clamp(-p, p) * s, backend=weft.compiler.aot(noted(seen)))
    for number in range(8):
        compiled(weft.ones(3), 2.0, 0.1 * number)
    assert len(seen) == 1
    (clamp,) = [node for node in seen[0].graph.nodes if "clamp" in str(node.target)]
    assert clamp.args[1:] == (-2.0, 2.0)


def noted(seen):
    def compiler(module, _examples):
        seen.append(module)
        return module.forward

    return compiler


def test_gradients_to_third_order_of_floats_that_were_asked_for():
    weft.compiler.reset()
    for s in (0.5, 1.25, 3.0):
        x = weft.linspace(-2, 3, 6, dtype=weft.float64).requires_grad_()
        compare(lambda x, s=s: F.smooth_l1_loss(x * x, x * 2, beta=s), x, order=3)


def test_gradients_that_never_come_are_for_the_same_floats():
    """The second output gets no gradient from the second call on, with another number."""
    weft.compiler.reset()

    def function(x, s):
        return (x * s).clamp(-s, s), x.sin() * math.exp(s)

    compiled = weft.compile(function, backend="aot_eager")
    for number, s in enumerate((0.5, 0.75, 1.5, 2.5, 1.5, 0.1)):
        results = []
        for call in (function, compiled):
            x = weft.linspace(-2, 3, 6).requires_grad_()
            first, second = call(x, s)
            (first.sum() if number else first.sum() + second.sum()).backward()
            results.append((first, second, x.grad))
        assert_close(results[0], results[1])


def test_what_varied_is_said_though_plans_are_gone(monkeypatch):
    monkeypatch.setattr(compiled_calls, "PLANS_LIMIT", 1)
    weft.compiler.reset()
    compiled = weft.compile(lambda x, n: x * n, backend=weft.compiler.aot(noted([])))
    with pytest.warns(RuntimeWarning, match=r"3 values of L\['n'\]"):
        for n in range(2, 12):
            assert compiled(weft.ones(2), n).tolist() == [n, n]
    weft.compiler.counters.clear()


def test_the_plan_that_was_not_used_the_longest_goes(monkeypatch):
    monkeypatch.setattr(compiled_calls, "PLANS_LIMIT", 2)
    compiled = weft.compile(lambda x: x * 2, backend=weft.compiler.aot(noted([])), dynamic=True)
    made = []
    for length in (3, 4, 3, 5, 3, 5, 4):
        before = counting.counters["plans"]
        assert compiled(weft.ones(length)).tolist() == [2.0] * length
        made.append(counting.counters["plans"] - before)
    assert made == [1, 1, 0, 1, 0, 0, 1]


def test_entries_of_one_function_say_once_what_varied():
    weft.compiler.reset()
    compiled = weft.compile(lambda x, n: x * n if n % 2 else x - n, backend=weft.compiler.aot(noted([])))
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for n in range(2, 40):
            compiled(weft.ones(2), n)
    assert len([each for each in seen if "values of L['n']" in str(each.message)]) == 1
    weft.compiler.counters.clear()
