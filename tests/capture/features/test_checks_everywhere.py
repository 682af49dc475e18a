"""Checks wherever code may stand: good and bad calls in turn, compiled as they are.

Each program is called with several tensors, plain and compiled, by both backends; results, errors and their
lines, effects, versions and the random stream must be equal, however often it breaks.

PYTEST_DONT_REWRITE: the asserts of programs are those that Python compiles.
"""


# ruff: noqa: B028, C419, E712, F841

from __future__ import annotations

import contextlib
import functools
import math
import sys
import threading
import warnings
from typing import Any

import pytest

import weft
from tests.capture.features.committing import BACKENDS, Refused, observe
from tests.capture.features.harness import everything_strict
from tests.whole.fuzz.snapshot import difference
from weft import nn

LOG: list[Any] = []
SHARED: dict[str, Any] = {"n": 0}


PROGRAMS: dict[str, Any] = {}


def program(function: Any) -> Any:
    PROGRAMS[function.__name__] = function
    return function


def checked(x, what="x"):
    if weft.isnan(x).any():
        raise Refused(what, x.tolist())
    return x


@program
def with_many_arguments(x: Any, *args: Any, k: int = 2, **kw: Any):
    LOG.append((len(args), sorted(kw)))
    return checked(x * k)


@program
def in_a_comprehension(x: Any):
    return [checked(r, i) for i, r in enumerate(x)]


@program
def in_a_mapped_function(x: Any):
    f = lambda y: checked(y) + 1
    return sum(map(f, [x, x * 2]))


class Thing:
    def __init__(self, x):
        self.x = x
        self.seen = []

    @property
    def safe(self):
        self.seen.append("safe")
        assert not weft.isnan(self.x).any()
        return self.x * 2

    def __getitem__(self, i):
        if weft.isnan(self.x).any():
            raise IndexError(i)
        return self.x[i]

    def __getattr__(self, name):
        if weft.isnan(self.x).any():
            raise AttributeError(name)
        return name

    def __call__(self, y):
        return checked(y) + self.x

    def __enter__(self):
        LOG.append("enter")
        return self

    def __exit__(self, t, v, tb):
        LOG.append(("exit", None if t is None else t.__name__))
        return False

    def __iter__(self):
        for r in self.x:
            assert r > -10 or weft.isnan(r) == False
            yield r

    def __bool__(self):
        return bool(checked(self.x).sum() != 0)

    def __add__(self, o):
        return Thing(checked(self.x + o.x))

    def __eq__(self, o):
        assert not weft.isnan(self.x).any()
        return True

    def __hash__(self):
        return 1

    def __len__(self):
        assert not weft.isnan(self.x).any()
        return 2


@program
def in_a_property(x: Any):
    return Thing(x).safe


@program
def in_getitem(x: Any):
    return Thing(x)[1]


@program
def in_getattr(x: Any):
    return Thing(x).foo, x + 1


@program
def asked_by_hasattr(x: Any):
    return hasattr(Thing(x), "foo"), x + 1


@program
def asked_with_a_default(x: Any):
    return getattr(Thing(x), "foo", 3), x + 1


@program
def in_a_callable_object(x: Any):
    return Thing(x)(x * 2)


@program
def in_a_with(x: Any):
    with Thing(x) as c:
        LOG.append("body")
        y = checked(c.x)
    return y + 1


@program
def suppressed(x: Any):
    with contextlib.suppress(Refused):
        LOG.append("in")
        y = checked(x) + 1
        return y
    LOG.append("out")
    return x * 0


@contextlib.contextmanager
def ctx(x):
    LOG.append("open")
    try:
        yield checked(x)
    except Refused:
        LOG.append("bad")
        raise
    finally:
        LOG.append("close")


@program
def in_a_context_manager(x: Any):
    with ctx(x * 0) as y:
        return checked(y + x)


@program
def beside_another_handler(x: Any):
    try:
        y = checked(x)
    except KeyError:
        y = x
    finally:
        LOG.append("fin")
    return y + 1


@program
def raised_again(x: Any):
    try:
        checked(x)
    except Refused as e:
        LOG.append(str(e))
        raise ValueError("again") from None
    return x


@program
def handled(x: Any):
    try:
        checked(x)
    except Refused:
        x = weft.ones(3)
    else:
        x = x + 1
    return x * 2


@program
def in_iteration(x: Any):
    return list(Thing(x)), bool(Thing(x))


@program
def in_an_operator(x: Any):
    return (Thing(x) + Thing(x)).x


@program
def in_equality(x: Any):
    return Thing(x) == Thing(x), x + 1


@program
def in_a_length(x: Any):
    return len(Thing(x)), x + 1


@program
def after_writes_to_globals(x: Any):
    SHARED["n"] += 1
    y = x + SHARED["n"]
    checked(y)
    SHARED["last"] = y
    return y


@program
def in_recursion(x: Any):
    def rec(y, n):
        if n == 0:
            return checked(y)
        return rec(y + 1, n - 1)

    return rec(x, 3)


@program
def in_a_closure(x: Any):
    n = 0

    def inc():
        nonlocal n
        n += 1
        assert not weft.isnan(x).any(), n
        return n

    return inc() + inc(), n, x + 1


@functools.lru_cache(None)
def cached(n):
    return n + 1


@program
def beside_a_cache(x: Any):
    return checked(x) + cached(3)


def deco(f):
    @functools.wraps(f)
    def w(*a, **k):
        LOG.append("w")
        r = f(*a, **k)
        checked(r, "result")
        return r

    return w


@deco
def plus(x):
    return x + 1


@program
def in_a_decorator(x: Any):
    return plus(x)


@program
def in_a_partial(x: Any):
    return functools.partial(checked, what="part")(x) + 1


inner_compiled = weft.compile(lambda x: checked(x) * 3)


@program
def in_compiled_code(x: Any):
    return inner_compiled(x) + 1


@program
def between_breaks(x: Any):
    LOG.append("one")
    weft.compiler.graph_break()
    LOG.append("two")
    y = checked(x) + 1
    weft.compiler.graph_break()
    LOG.append("three")
    return checked(y)


@program
def between_breaks_of_a_loop(x: Any):
    for i in range(3):
        LOG.append(i)
        weft.compiler.graph_break()
        x = checked(x) + 1
    return x


@program
def between_breaks_with_finally(x: Any):
    out = []
    for i in range(3):
        try:
            out.append(x[i].item())
            weft.compiler.graph_break()
            checked(x[i])
        finally:
            LOG.append(("f", i))
    return out


@program
def over_an_iterator(x: Any):
    it = iter([x, x + 1])
    for y in it:
        checked(y)
    return y


@program
def in_a_generator_expression(x: Any):
    g = (checked(r) for r in x)
    first = next(g)
    return first, list(g)


@program
def after_a_warning(x: Any):
    if weft.isnan(x).any():
        warnings.warn("nan!")
        raise Refused
    return x


@program
def with_other_conditions(x: Any):
    assert x.shape[0] == 3 and not weft.isnan(x).any() and len(LOG) >= 0, f"{x}"
    return x + 1


@program
def between_random_numbers(x: Any):
    a = weft.rand(3)
    checked(x)
    b = weft.rand(3)
    return a + b + x


@program
def before_a_write(x: Any):
    y = x.clone()
    y[0] = 5
    y.add_(1)
    checked(y)
    x.copy_(y)
    return x


@program
def after_writes(x: Any):
    x.add_(1)
    v = x[1:]
    v.mul_(2)
    checked(v)
    v.sub_(1)
    return v, x


@program
def with_an_exception_made_before(x: Any):
    e = Refused("early")
    if weft.isnan(x).any():
        raise e
    return x


@program
def of_a_kept_truth(x: Any):
    ok = not weft.isnan(x).any()
    if not ok:
        raise Refused
    return x, ok


@program
def with_inner_branches(x: Any):
    n = weft.isnan(x).sum()
    if n > 0:
        if n > 1:
            raise Refused("many")
        raise Refused("few")
    return x


@program
def by_a_count(x: Any):
    n = weft.isnan(x).sum().item()
    if n:
        raise {1: Refused, 2: ValueError}.get(n, KeyError)(n)
    return x + n


@program
def of_all(x: Any):
    assert all([not weft.isnan(r) for r in x]), "some"
    return x


@program
def of_any(x: Any):
    assert not any(weft.isnan(r).item() for r in x)
    return x


@program
def that_exit(x: Any):
    if weft.isnan(x).any():
        raise SystemError(sys.exit)
    return x


@program
def that_return(x: Any):
    if not weft.isfinite(x).all():
        print("bad", file=sys.stderr)
        return None
    return x


@program
def of_a_loop_that_ends(x: Any):
    for r in x:
        if weft.isnan(r):
            break
    else:
        raise Refused("none")
    return r


@program
def in_a_loop_condition(x: Any):
    while not weft.isnan(x).any():
        x = x * 2
        if x.sum() > 100:
            raise Refused(x.tolist())
    return x


@program
def by_an_op(x: Any):
    y = weft.linalg.cholesky(weft.eye(3) * x.sum())
    LOG.append("after")
    return y


@program
def by_an_index(x: Any):
    i = (x.nan_to_num(100)).to(weft.int64)
    LOG.append(1)
    return weft.arange(10.0)[i]


@program
def with_containers_in_circles(x: Any):
    kept = {"a": [x]}
    kept["a"].append(checked(x))
    kept["b"] = kept
    return kept


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(3, 3)
        self.register_buffer("n", weft.zeros(()))
        self.count = 0

    def forward(self, x):
        self.n.add_(1)
        self.count += 1
        y = self.l(x)
        if not weft.isfinite(y).all():
            raise Refused("net", self.count)
        return y


weft.manual_seed(0)
NET = Net()
STATE = {k: v.clone() for k, v in NET.state_dict().items()}
HNET = Net()
HNET.l.register_forward_hook(lambda m, i, o: checked(o, "hook"))


@program
def in_a_module(x: Any):
    return NET(x).sum(), NET.n, NET.count


@program
def in_a_hook(x: Any):
    return HNET(x)


@program
def in_a_mode(x: Any):
    with weft.no_grad():
        y = NET.l(x)
        assert not weft.isnan(y).any()
    return y, weft.is_grad_enabled()


@program
def beside_the_opaque(x: Any):
    t = threading.local()
    return checked(x)


@program
def before_a_sweep(x: Any):
    x = x.requires_grad_() if False else x
    w = weft.ones(3, requires_grad=True)
    y = (x * w).sum()
    assert not weft.isnan(y)
    y.backward()
    return w.grad


NAN = math.nan
VALUES = ([1.0, 2, 3], [1.0, NAN, 3], [2.0, 1.5, 3.25], [NAN, 1, NAN], [0.5, 0, 0], [NAN] * 3, [1.0, 2, 3])


def begin() -> None:
    LOG.clear()
    SHARED.clear()
    SHARED["n"] = 0
    weft.manual_seed(1)
    for net in (NET, HNET):
        net.load_state_dict(STATE)
        net.n.zero_()
        net.count = 0


def watch() -> Any:
    modes = weft.get_rng_state(), weft.is_grad_enabled()
    return list(LOG), dict(SHARED), modes, NET.count, NET.n.clone(), HNET.count


def side(function: Any) -> list[Any]:
    begin()
    return [observe(function, lambda v=v: (weft.tensor(v),), watch, None) for v in VALUES]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", PROGRAMS)
def test_checks(name: str) -> None:
    function = PROGRAMS[name]
    for backend in BACKENDS:
        with everything_strict():
            expected = side(function)
            actual = side(weft.compile(function, backend=backend))
        for number, (left, right) in enumerate(zip(expected, actual)):
            found = difference(left, right)
            assert found is None, f"{backend}, call {number}: {found}"
