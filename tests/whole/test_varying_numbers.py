"""Numbers of Python's that are others in each call: inputs of a program wherever they stand, unless they
decide its structure, of which one warning tells."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
import weft.nn.functional as F
from weft import optim
from weft.core.counters import built
from weft.report.facts import facts_of
from weft.testing import assert_close

FLOATS = [0.11 + 0.05 * k for k in range(30)]
INTS = list(range(2, 32))
LABELS = weft.zeros(4, dtype=weft.int64)
MEAN, VARIANCE = weft.zeros(4), weft.ones(4)
COUNTED = weft.arange(80.0)
Kind = Callable[[Any, Any], Any]


def stored(x: Any, s: Any) -> Any:
    y = x.clone()
    y[0] = s
    return y


def optimized(x: Any, s: Any) -> Any:
    """A step of each of two optimizers with options that vary, from the same state in each call."""
    p, q = x.detach().clone().requires_grad_(), x.detach().clone().requires_grad_()
    adam = weft.optim.AdamW([p], lr=s / 40, betas=(s / 40, s / 35), eps=s / 50, weight_decay=s / 60)
    sgd = weft.optim.SGD([q], lr=s / 40, momentum=s / 40, weight_decay=s / 60)
    ((p * p).sum() + (q * q).sum()).backward()
    adam.step()
    sgd.step()
    return p.detach() + q.detach()


BOTH: dict[str, Kind] = {
    "x * s": lambda x, s: x * s,
    "x + s": lambda x, s: x + s,
    "s - x": lambda x, s: s - x,
    "x / s": lambda x, s: x / s,
    "s / x": lambda x, s: s / x,
    "x // s": lambda x, s: x // s,
    "x % s": lambda x, s: x % s,
    "x ** s": lambda x, s: x**s,
    "s ** x": lambda x, s: s**x,
    "x > s": lambda x, s: x > s,
    "whole numbers": lambda x, s: (LABELS + 3) * s,
    "truths": lambda x, s: (x > 0.5) * s,
    "whole numbers to a power": lambda x, s: (LABELS + 3) ** s,
    "alpha": lambda x, s: weft.add(x, x, alpha=s),
    "alpha and beta": lambda x, s: weft.addmm(x, x, x, beta=s, alpha=s),
    "value": lambda x, s: weft.addcmul(x, x, x, value=s),
    "bounds": lambda x, s: x.clamp(-s, s),
    "a bound": lambda x, s: x.clamp_min(s),
    "hard bounds": lambda x, s: F.hardtanh(x, -s, s),
    "leaky slope": lambda x, s: F.leaky_relu(x, s),
    "elu": lambda x, s: F.elu(x, s),
    "softplus": lambda x, s: F.softplus(x, s),
    "softplus threshold": lambda x, s: F.softplus(x, 1.0, s),
    "shrinking": lambda x, s: F.hardshrink(x, s) + F.softshrink(x, s),
    "threshold": lambda x, s: F.threshold(x, s, s),
    "huber": lambda x, s: F.huber_loss(x, x * 2, delta=s),
    "smooth l1": lambda x, s: F.smooth_l1_loss(x, x * 2, beta=s),
    "margins": lambda x, s: F.triplet_margin_loss(x, x * 2, x * 3, margin=s),
    "ranking": lambda x, s: F.margin_ranking_loss(x, x * 2, weft.ones(4, 4), margin=s),
    "loss weight": lambda x, s: s * F.mse_loss(x, x * 2) + (1 - s) * x.mean(),
    "lerp": lambda x, s: x.lerp(x * 2, s),
    "full": lambda x, s: weft.full((3,), s) + x.sum(),
    "fill_": lambda x, s: weft.empty(3).fill_(s) + x.sum(),
    "masked_fill": lambda x, s: x.masked_fill(x > 0.5, s),
    "where": lambda x, s: weft.where(x > 0.5, s, x) + weft.where(x > 0.5, s, -s),
    "stored": stored,
    "padding": lambda x, s: F.pad(x, (1, 1), value=s),
    "nan_to_num": lambda x, s: weft.nan_to_num(x, s, s, -s),
    "deviation": lambda x, s: weft.normal(0.0, s, (3,)) + x.sum(),
    "uniform": lambda x, s: weft.empty(3).uniform_(-s, s) + x.sum(),
    "rates of draws": lambda x, s: weft.empty(3).exponential_(s) + weft.empty(3).cauchy_(s, s) + x.sum(),
    "temperature": lambda x, s: F.gumbel_softmax(x, tau=s),
    "linspace": lambda x, s: weft.linspace(-s, s, 5) + x.sum(),
    "arange": lambda x, s: weft.arange(s, s + 5) + x.sum(),
    "tensor": lambda x, s: weft.tensor(s) * x + weft.as_tensor(s),
    "scale": lambda x, s: F.scaled_dot_product_attention(x[None], x[None], x[None], scale=s),
    "momentum": lambda x, s: F.batch_norm(x, MEAN.clone(), VARIANCE.clone(), training=True, momentum=s / 40),
    "epsilons": lambda x, s: F.layer_norm(x, (4,), eps=s) + F.rms_norm(x, (4,), eps=s),
    "batch epsilon": lambda x, s: F.batch_norm(x, MEAN, VARIANCE, eps=s),
    "distance": lambda x, s: F.pairwise_distance(x, x * 2, eps=s) + F.cosine_similarity(x, x * 2, eps=s),
    "order": lambda x, s: weft.linalg.vector_norm(x, 2 * s + 1) + x.norm(2 * s + 1),
    "correction": lambda x, s: COUNTED.var(correction=s) + x,
    "Python's functions": lambda x, s: x * math.sqrt(s) + x * math.exp(-s) + x * (1 - 0.9**s),
    "a schedule": lambda x, s: x * (0.5 * (1 + math.cos(math.pi * s / 100))),
    "text": lambda x, s: (x * s, f"{s}: {s / 2:.3f}"),
    "given back": lambda x, s: (x * 2, s, s + 1),
    "an optimizer": optimized,
}
OF_FLOATS: dict[str, Kind] = {
    "smoothing": lambda x, s: F.cross_entropy(x, LABELS, label_smoothing=s / 2),
    "dropout": lambda x, s: F.dropout(x, s / 2),
    "alpha dropout": lambda x, s: F.alpha_dropout(x, s / 2, True),
    "bernoulli": lambda x, s: weft.empty(3).bernoulli_(s / 2) + x.sum(),
    "quantile": lambda x, s: weft.quantile(x, s / 2),
    "order of distances": lambda x, s: F.pairwise_distance(x, x * 2, p=s + 0.03) + x.dist(x * 2, s + 0.03),
    "whole": lambda x, s: x * int(s * 100),
}
OF_INTS: dict[str, Kind] = {
    "random integers": lambda x, s: weft.randint(-s, s, (3,)) + x.sum(),
    "an item": lambda x, s: COUNTED[s] + x,
    "slices": lambda x, s: COUNTED[:s].sum() + COUNTED[s:].sum() + COUNTED[::s].sum() + x,
    "repeated": lambda x, s: x.repeat_interleave(s, 0),
    "sizes": lambda x, s: weft.zeros(s).sum() + weft.eye(s).sum() + x,
    "diagonals": lambda x, s: weft.ones(40, 40).tril(s).sum() + x,
    "bits": lambda x, s: ((LABELS + 3) << s) + ((LABELS + 3) & s),
    "ignored": lambda x, s: F.cross_entropy(x, LABELS, ignore_index=s),
}
CASES = [
    *[(name, kind, values) for name, kind in BOTH.items() for values in (FLOATS, INTS)],
    *[(name, kind, FLOATS) for name, kind in OF_FLOATS.items()],
    *[(name, kind, INTS) for name, kind in OF_INTS.items()],
]
MORE = {
    # in float32, exp(20) and more need another formula
    "softplus threshold-int-native": 3,
    "softplus threshold-int-aot_eager": 3,
    "an optimizer-float": 4,  # in two pieces, as parameters are made inside
    "an optimizer-int": 6,
}
"""Plans and programs of kinds that take more than two: one for the first number, and one for all others."""


@pytest.fixture(autouse=True)
def _apart(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("WEFT_CACHE", "0")  # programs that are there already are not built
    weft.compiler.reset()
    weft.compiler.counters.clear()
    yield
    weft.compiler.counters.clear()


def check(function: Kind, compiled: Kind, values: Sequence[Any], grad: bool = False) -> None:
    """What the compiled function gives for these numbers is what the function gives."""
    for k, s in enumerate(values):
        results = []
        for call in (function, compiled):
            weft.manual_seed(k)
            x = (weft.linspace(0.3, 1.3, 16).reshape(4, 4)).requires_grad_(grad)
            made = call(x, s)
            first = made[0] if isinstance(made, tuple) else made
            if grad and first.requires_grad:
                first.sum().backward()
            results.append((made, x.grad))
        close(results[1], results[0], 1e-4 if grad else 1e-5)


def close(found: Any, expected: Any, relative: float) -> None:
    """That results are near, or equal where they are no numbers."""
    if isinstance(expected, tuple):
        assert isinstance(found, tuple) and len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            close(one, other, relative)
    elif isinstance(expected, weft.Tensor):
        assert_close(found, expected, rtol=relative, atol=relative / 10, equal_nan=True)
    else:
        assert type(found) is type(expected) and found == expected


@pytest.mark.parametrize("backend", ["native", "aot_eager", "eager"])
@pytest.mark.parametrize(
    "name, function, values", CASES, ids=[f"{name}-{type(v[0]).__name__}" for name, _, v in CASES]
)
def test_third_values_build_nothing(
    name: str, function: Kind, values: list[Any], backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(weft.compiler.settings, "strict", True)
    compiled = weft.compile(function, backend=backend)
    check(function, compiled, values)
    case = f"{name}-{type(values[0]).__name__}"
    made, most = weft.compiler.counters["built"], MORE.get(case, 2)
    assert made["captures"] <= 2 and made["plans"] <= most, made
    assert made["programs"] <= MORE.get(f"{case}-{backend}", most), made
    assert not weft.compiler.counters["graph_break"] and not weft.compiler.counters["varying"]


DIFFERENTIABLE = (
    "x * s", "x ** s", "s ** x", "bounds", "leaky slope", "elu", "softplus", "huber", "smooth l1", "lerp",
    "masked_fill", "margins", "scale", "epsilons", "distance", "order", "loss weight", "a schedule",
)  # fmt: skip


@pytest.mark.parametrize("values", [FLOATS, INTS], ids=["float", "int"])
@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_gradients_of_third_values(name: str, values: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weft.compiler.settings, "strict", True)
    compiled = weft.compile(BOTH[name], fullgraph=True)
    check(BOTH[name], compiled, values[:12], grad=True)
    before = built()
    check(BOTH[name], compiled, values[12:], grad=True)
    assert built() | {"native entries": 0} == before | {"native entries": 0}


@given(data=st.data())
@settings(max_examples=40)
def test_any_numbers(data: st.DataObject) -> None:
    """Also those that have code paths of their own, and those that an op refuses, in its words."""
    name, function, values = data.draw(st.sampled_from(CASES), label="kind")
    plain = st.integers(-3, 40) if type(values[0]) is int else st.floats(-3, 40, width=16)
    numbers = data.draw(st.lists(plain, min_size=3, max_size=8), label="numbers")
    backend = data.draw(st.sampled_from(["native", "aot_eager"]), label="backend")
    compiled = weft.compile(function, backend=backend)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for number in numbers:
            expected, found = outcome(function, number), outcome(compiled, number)
            if isinstance(expected, BaseException):
                assert type(found) is type(expected) and str(found) == str(expected), name
            else:
                close(found, expected, 1e-4)
    weft.compiler.reset()


def outcome(function: Kind, number: Any) -> Any:
    weft.manual_seed(0)
    try:
        return function(weft.linspace(0.3, 1.3, 16).reshape(4, 4), number)
    except (RuntimeError, ValueError, TypeError, IndexError, OverflowError, ArithmeticError) as error:
        return error


def test_an_int_and_a_float_are_promoted_as_they_are() -> None:
    compiled = weft.compile(lambda x, s: x * s)
    whole = weft.arange(3)
    for s in (2, 3, 0.5, 4, 0.25, 5, True):
        assert compiled(whole, s).dtype is (whole * s).dtype
        assert_close(compiled(whole, s), whole * s)


# -- what decides the structure ------------------------------------------------------------------------------
STRUCTURE: dict[str, tuple[Kind, list[Any], str]] = {
    "a diagonal": (lambda x, n: weft.diag(x[0], n).sum(0), [2, 3, 4, 5], "2, 3, 4"),
    "an axis": (lambda x, n: weft.ones(2, 2, 2, 2, 2).cumsum(n).sum() + x, [2, 3, 4, 2], "2, 3, 4"),
    "a count of turns": (lambda x, n: sum([x * k for k in range(n)]), [2, 3, 4, 5], "2, 3, 4"),
    "a word": (
        lambda x, way: F.mse_loss(x, x * 2, reduction=way).sum(),
        ["mean", "sum", "none"],
        "'mean', 'sum', 'none'",
    ),
}


@pytest.mark.parametrize("name", STRUCTURE)
def test_structure_is_named_with_its_values(name: str) -> None:
    function, values, said = STRUCTURE[name]
    compiled = weft.compile(function)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        check(function, compiled, values * 2)
    (text,) = [str(each.message) for each in seen]
    assert "3 values of L['" in text and f": {said}. " in text and __file__ in text
    assert seen[0].filename == __file__
    assert dict(weft.compiler.counters["varying"]) == {text: 1}


@pytest.mark.parametrize("name", STRUCTURE)
def test_structure_is_an_error_under_strict(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weft.compiler.settings, "strict", True)
    function, values, said = STRUCTURE[name]
    compiled = weft.compile(function)
    check(function, compiled, values[:2] * 2)
    with pytest.raises(weft.compiler.NotCompiled, match="3 values of L") as found:
        compiled(weft.ones(4, 4), values[2])
    assert said in str(found.value)


def test_two_values_zero_and_one_and_other_paths_are_no_waste() -> None:
    compiled = weft.compile(lambda x, n, flag: weft.diag(x[0], n).sum(0) if flag else x.sum(0) * n)
    for flag in (True, False):
        for n in (0, 1, 2, 3, 2, 0, 3):
            compiled(weft.ones(4, 4), n, flag)
    assert not weft.compiler.counters["varying"]


def test_sizes_that_are_asked_for_one_by_one_are_no_waste() -> None:
    compiled = weft.compile(lambda x: x * 2, dynamic=False)
    for size in (2, 3, 4, 5):
        compiled(weft.ones(size))
    assert not weft.compiler.counters["varying"]


def test_containers_of_other_lengths_are_named() -> None:
    compiled = weft.compile(lambda x, items: x * len(items) + sum(items))
    with pytest.warns(RuntimeWarning, match=r"3 values of len\(L\['items'\]\)"):
        for count in (2, 3, 4):
            compiled(weft.ones(2), [7] * count)


def test_values_that_come_seldom_are_no_waste() -> None:
    compiled = weft.compile(lambda x, n: weft.diag(x, n).sum(0))
    for n in (2, 3, 4, 5, 6):
        for _ in range(60):
            compiled(weft.ones(3), n)
    assert not weft.compiler.counters["varying"]


# -- what is counted -----------------------------------------------------------------------------------------
def test_what_is_built_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path))  # what is there already is not built
    before = built()
    compiled = weft.compile(lambda x: (x * 2).sum())
    for _ in range(4):
        compiled(weft.ones(3, requires_grad=True)).backward()
    made = {kind: number - before[kind] for kind, number in built().items()}
    assert made == {"captures": 1, "plans": 1, "programs": 2, "kernels": 2, "native entries": 1}


def test_explain_and_the_report_show_what_was_built() -> None:
    found = weft.compiler.explain(lambda x: (x * 2).sum())(weft.ones(3))
    assert found.built == {"captures": 1, "plans": 1, "programs": 1, "kernels": 1, "native entries": 0}
    assert "\nBuilt: captures 1, plans 1, programs 1, kernels 1, native entries 0\n" in str(found)
    summary = facts_of(found.seen, timed=False)["summary"]
    assert (summary["plans"], summary["programs"], summary["native entries"]) == (1, 1, 0)


# -- what runs op by op --------------------------------------------------------------------------------------
def test_steps_that_drop_their_gradients_are_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Native entries are made from what is there behind a call, and must not make plans for that."""
    monkeypatch.setattr(weft.compiler.settings, "strict", True)
    net = weft.nn.Linear(3, 1)
    optimizer = weft.optim.SGD(net.parameters(), 0.1)

    def step(x: Any, last: bool) -> Any:
        loss = net(x).square().mean()
        loss.backward()
        if last:
            optimizer.step()
            optimizer.zero_grad()
        return loss.detach()

    compiled = weft.compile(step)
    plans = []
    for turn in range(24):
        compiled(weft.ones(2, 3), turn % 2 == 1)
        plans.append(built()["plans"])
    assert plans[8] == plans[-1] and not weft.compiler.counters["aot_fallbacks"]


def test_numbers_that_only_python_has_run_as_python_does_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program says that it cannot, and has written nothing: no reason to refuse, under strict either."""
    monkeypatch.setattr(weft.compiler.settings, "strict", True)
    compiled = weft.compile(lambda x, s: x * int(s), backend="native")
    for s in (2.5, 3.5, 1e30, 4.5):
        weft.testing.assert_close(compiled(weft.ones(2), s), weft.ones(2) * int(s))


@pytest.mark.parametrize("base", [0.0, -0.0, 0])
def test_zero_to_powers_that_vary(base: float) -> None:
    """Adam with a beta of zero asks for them: the graph is whole, and what raises in Python raises."""

    def f(x: weft.Tensor, power: float) -> weft.Tensor:
        return x * base**power

    def g(x: weft.Tensor, power: weft.Tensor) -> weft.Tensor:
        return x * base ** power.item()

    x = weft.ones(2)
    one, other = weft.compile(f, fullgraph=True), weft.compile(g, fullgraph=True)
    for power in (2.0, 3.5, 0.0, float("inf"), 1.0):
        assert one(x, power).tolist() == f(x, power).tolist()
        told = weft.tensor(power, dtype=weft.float64)
        assert other(x, told).tolist() == g(x, told).tolist()
    for compiled, power in ((one, -1.0), (other, weft.tensor(-1.0))):
        with pytest.raises(ZeroDivisionError):
            compiled(x, power)


@pytest.mark.parametrize("kind", [optim.Adam, optim.AdamW, optim.NAdam, optim.RAdam, optim.Adamax])
@pytest.mark.parametrize("betas", [(0.0, 0.9), (0.5, 0.0)])
def test_steps_with_a_beta_of_zero_are_whole(kind: Any, betas: tuple[float, float]) -> None:
    def trained(compiling: bool) -> list[float]:
        w = weft.ones(3, requires_grad=True)
        optimizer = kind([w], lr=0.1, betas=betas)

        def step(x: weft.Tensor) -> None:
            optimizer.zero_grad()
            (w * x).square().sum().backward()
            optimizer.step()

        run = weft.compile(step, fullgraph=True) if compiling else step
        for _ in range(4):
            run(weft.tensor([1.0, 2.0, 3.0]))
        return w.tolist()

    assert trained(True) == pytest.approx(trained(False), rel=1e-5)
