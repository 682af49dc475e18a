"""Programs over containers that grow: compiled over many calls they do what they do eagerly."""

from __future__ import annotations

import functools
import gc
import random
import sys
import types
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from typing import Any

import hypothesis
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as some

import weft
import weft.compiler
from weft.core import varying
from weft.core.settings import settings
from weft.testing import CompileCounter, CompileCounterWithBackend

LISTS = (
    'd["loss"]', "L", "nested[1]", "o.h", 'o.d["x"]', 'dd["k"]', "alias", "cell", 'd.setdefault("n", [])',
    "q", "o.q", "bounded", "sub", "o.kept", 'dd[f"k{i % 2}"]', 'table["row"]["inner"]',
)  # fmt: skip
DICTS = (
    "d2",
    "m",
    "o.d2",
    "od",
    "dd2",
    "cnt",
    "subd",
    'table["row"]',
    "o.d",
    'd.setdefault("t", {})',
    'm.setdefault("u", {})',
)
KEYS = ('"a"', '"b"', "3", '"new"', "True", "i")
VALUES = ("y", "y + 1", "i", "2.5", '"text"', "[y]", "None", "L", "d2")
ON_LISTS = (
    "{c}.append({v})", "{c}.append({v})", "{c}.extend([{v}, {w}])", "t = {c}; t += [{v}]",
    "{c}.insert(0, {v})",
    "{c}.pop()", "{c}.pop(0)", "r.append(len({c}))", "r.append({c}[-1])", "r.append({c}[0])",
    "r.append(bool({c}))", "if {c}: r.append({v})", "{c}.clear()", "h = {c}; h.append({v})",
    "put({c}, {v})", "r.append({c} is {e})", "r.extend({c})", "r.append(list({c})[-2:])",
    "del {c}[0]", "{c}[-1] = {v}", "{c}.reverse()", "r.append(got({c}, {v}))",
    "f = {c}.append; f({v})", "r.append({c}[-2])", "r.append(isinstance({c}, list))",
    "{c}.extend({e})", "r.append([*map(len, [{c}])])", "late = lambda: {c}; late().append({v})",
    "r.append(i in {c})", "{c}.extend(x for x in [len({c}), {v}])",
    "r.append(list(map(lambda _: {c}, [1])))", "{{**d}}.setdefault('n', []).append({v})",
    "L.append(d.setdefault('n', []))", "e = []; d.setdefault('p', e); e.append({v})",
    "{c}.appendleft({v})", "{c}.popleft()", "{c}.extendleft([{v}, {w}])",
)  # fmt: skip
ON_DICTS = (
    "{c}[{k}] = {v}", "{c}[{k}] = {v}", "r.append({c}.get({k}))", "r.append({k} in {c})", "del {c}[{k}]",
    "r.append({c}.pop({k}, None))", "r.append(len({c}))", "r.append(list({c}))",
    "{c}.update({{{k}: {v}, 'z': {w}}})", "{c}.update(a={v})", "r.append({c}.setdefault({k}, {v}))",
    "{c}[len({c})] = {v}", "r.append(list({c}.items())[-1:])", "r.append({c}[{k}])",
    "{c}['n'] = {c}.get('n', 0) + 1", "r.append(bool({c}))", "{c}.clear()", "h = {c}; h[{k}] = {v}",
    "r.append({c} is {e})", "for key in list({c}): r.append(key)", "{c}[{k}] = {c}.get({k}, 0)",
    "r.append({{**{c}}})",
)  # fmt: skip
OTHERS = (
    "cnt['s'] += 1", "o.n += 1", "o.n += 1; r.append(o.n)", "stop()", "o.h = [*o.h, {v}]", "o.h += [{v}]",
    "if o.n == 3: raise ValueError(o.n)", "d2 = dict(d2); o.d2 = d2", "o.h = L", "i += len(L)",
    "d['loss'] += [{v}]", "o.f *= 2", "with_default(L, {v})", "r.append(o.last_of())", "o.add({v})",
    "nested[0] = {v}",
)  # fmt: skip
OUTSIDE = (
    'd["loss"].clear()', 'd["loss"] = deque(d["loss"])', "L.append(0)", "del dd['k']", "o.h = o.h[:]",
    "o.n = 0", "d2.pop('a', None)", "alias[:] = [1]", "o.d = OrderedDict(o.d)", "pass", "pass", "pass",
    "nested[1] = L", "cnt.clear()", "o.h = tuple(o.h)", "m['b'] = L", "bounded.extend([1, 2, 3])",
)  # fmt: skip


class Sub(list[Any]):
    """A list of the user's that adds nothing."""


class Twice(dict[Any, Any]):
    """A dict whose own code runs."""

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key, value)
        super().__setitem__("last", key)

    def __missing__(self, key: Any) -> str:
        return "missing"


class Holder:
    def __init__(self, L: list[Any]) -> None:
        self.h: Any = []
        self.d: Any = {"x": []}
        self.d2: Any = {}
        self.q: Any = deque()
        self.n, self.f = 0, 1.5
        self.kept_in = L

    @property
    def kept(self) -> list[Any]:
        return self.kept_in

    def add(self, value: Any) -> None:
        self.h.append(value)
        self.d["x"].append(self.n)

    def last_of(self) -> Any:
        return self.h[-1] if self.h else None


def world_of_containers() -> dict[str, Any]:
    """What programs work on, made anew."""
    L: list[Any] = []
    d = {"loss": [], "acc": [1, 2]}
    return {
        "L": L, "d": d, "nested": [[], [1]], "o": Holder([]), "dd": defaultdict(list), "alias": d["loss"],
        "cell": [], "q": deque(), "bounded": deque(maxlen=3), "sub": Sub(), "d2": {}, "m": {"a": 1},
        "od": OrderedDict(b=1, a=2), "dd2": defaultdict(int), "cnt": Counter(), "subd": Twice(),
        "kinds": (dict, list), "partial": functools.partial, "table": {"row": {"inner": []}},
        "deque": deque, "OrderedDict": OrderedDict,
    }  # fmt: skip


def program(*lines: str) -> str:
    """A function that makes a step of these lines over what `world_of_containers` holds."""
    body = "\n".join(f"        {line}" for line in lines)
    return f"""
def make(L, d, nested, o, dd, alias, cell, q, bounded, sub, m, od, dd2, cnt, subd, table, kinds, stop,
         partial, **_more):
    def put(container, value):
        container.append(value)
    def got(container, value):
        container.append(value)
        return container
    def with_default(container, value, kept=[]):
        kept.append(value)
        container.append(len(kept))
    def step(x, i, d2):
        y = x * 2
        r = []
{body}
        return y, r
    return step
"""


def written(choose: random.Random, calls: int) -> tuple[str, list[tuple[int, str]]]:
    """A program, and for each call a number and what happens behind it."""
    lines = []
    lists, dicts = choose.sample(LISTS, 2), choose.sample(DICTS, 2)
    few = [choose.sample(templates, 6) for templates in (ON_LISTS, ON_DICTS, OTHERS)]
    for _ in range(choose.randint(2, 8)):
        kind = choose.random()
        template = choose.choice(few[0] if kind < 0.5 else few[1] if kind < 0.85 else few[2])
        places = lists if kind < 0.5 else dicts
        line = template.format(
            c=choose.choice(places), e=choose.choice(places), k=choose.choice(KEYS),
            v=choose.choice(VALUES), w=choose.choice(VALUES),
        )  # fmt: skip
        if choose.random() < 0.7:
            lines += ["try:", f"    {line}", "except (KeyError, IndexError, AttributeError) as error:"]
            line = "    r.append(str(error))"
        lines.append(line)
    text = program(*lines)
    varies, busy = choose.random() < 0.5, choose.random() < 0.5
    numbers = [call % 4 if varies else 1 for call in range(calls)]
    moved = [
        f"{one} = {other}" for pair in (lists, dicts) for one in pair for other in pair if one[-1] == "]"
    ]
    happens = [*choose.sample(OUTSIDE, 4), *moved] if busy else ["pass"]
    return text, [(number, choose.choice(happens)) for number in numbers]


def picture(value: Any, seen: dict[int, int], kept: list[Any]) -> Any:
    """Types, contents, order and which objects are one."""
    if isinstance(value, (int, float, str, type(None))):
        return type(value), value
    if isinstance(value, (types.BuiltinMethodType, functools.partial)):
        return type(value).__name__
    if isinstance(value, tuple):  # equal constants may be one object
        return [picture(item, seen, kept) for item in value]
    if id(value) in seen:
        return "seen", seen[id(value)]
    seen[id(value)] = len(seen)
    kept.append(value)
    if isinstance(value, weft.Tensor):
        return "tensor", value.tolist()
    if isinstance(value, dict):
        items: Any = [(picture(k, seen, kept), picture(v, seen, kept)) for k, v in dict.items(value)]
    elif isinstance(value, (list, deque)):
        items = [picture(item, seen, kept) for item in value]
    elif isinstance(value, Holder):
        items = [(name, picture(each, seen, kept)) for name, each in vars(value).items()]
    elif callable(value):
        items = None
    else:
        raise TypeError(type(value))
    return type(value).__name__, items


@weft.compiler.disable
def stop() -> None:
    """Runs as it is."""


def history(text: str, between: list[tuple[int, str]], compiled: Callable[[Any], Any]) -> list[Any]:
    """What each call of a program gave and left behind."""
    scope = world_of_containers()
    space: dict[str, Any] = {}
    exec(text, space)
    step = compiled(space["make"](stop=stop, **scope))
    found = []
    for call, (number, outside) in enumerate(between):
        try:
            result: Any = step(weft.tensor([1.0, call]), number, scope["d2"])
        except Exception as error:
            result = [type(error).__name__, str(error)]
        found.append(picture([result, {k: v for k, v in scope.items() if k != "deque"}], {}, []))
        try:
            exec(outside, scope)
        except Exception:
            pass
        scope.pop("__builtins__", None)
    return found


def check_program(seed: int, backend: Any = None, calls: int = 6) -> None:
    text, between = written(random.Random(seed), calls)
    eager = history(text, between, lambda function: function)
    weft.compiler.reset()
    found = history(text, between, lambda f: weft.compile(f, backend=backend or CompileCounter()))
    for number, (one, other) in enumerate(zip(found, eager, strict=True)):
        assert one == other, f"call {number} of\n{text}\n{between}"


@pytest.fixture(autouse=True)
def without_limit() -> Iterator[None]:
    """Programs that read lengths meet the limit, and then run as they are: they are to be compiled."""
    before = settings.strict, settings.recompile_limit, varying.LOUD
    settings.strict, settings.recompile_limit = True, 64
    varying.LOUD = 1000  # random programs ask for lengths that differ in each call
    yield
    settings.strict, settings.recompile_limit, varying.LOUD = before


@given(some.integers(0, 2**32))
@hypothesis.settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_random_programs(seed: int) -> None:
    check_program(seed)


@given(some.integers(0, 2**32))
@hypothesis.settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
def test_random_programs_with_native_entries(seed: int) -> None:
    check_program(seed, "native", calls=12)


GROWING = {
    "d['loss'].append(y)": 1, "d.setdefault('n', []).append(y)": 1, "dd['k'].append(y)": 1,
    "nested[1].append(y)": 1, "nested[-1].append(y)": 1, "o.h.append(y)": 1, "o.d['x'].append(y)": 1,
    "q.append(y)": 1, "bounded.append(y)": 1, "cell.append(y)": 1, "d['loss'] += [y]": 1, "o.h += [y]": 1,
    "h = d['loss']; h.append(y)": 1, "put(d['loss'], y)": 1, "o.add(y)": 1, "o.kept.append(y)": 1,
    "L.extend([y, 1])": 1, "L.insert(0, y)": 1, "q.appendleft(y)": 1, "q.extendleft([1, y])": 1,
    "L.append(y); r.append(L[-1])": 1, "bounded.append(y); r.append(bounded[-1])": 1, "sub.append(y)": 1,
    "table['row']['inner'].append(y)": 1, "m['last'] = y": 1, "m.update(last=y, more=1)": 1,
    "d.setdefault('a', {}).setdefault('b', []).append(y)": 2, "od['new'] = y": 1, "dd[f'k{i}'].append(y)": 1,
    "o.n += 1": 1, "o.f *= 1.5": 1, "cnt['s'] += 1": 2, "d['n'] = d.get('n', 0) + 1": 2, "L.append(o.n)": 1,
    "m[len(m)] = y": 2, "m[len(m)] = y; r.append(m['a'])": 2, "o.d2[o.n] = y; o.n += 1": 1,
    "if 'n' not in d: d['n'] = []": 2, "r.append(len(L)); L.append(y)": 2, "r.append(isinstance(L, list))": 1,
    "r.append(isinstance(L, kinds)); L.append(y)": 1,
    "if L: r.append(L[-1])\n        L.append(y)": 2, "L.append(y); r.append(bool(L))": 1,
    "L.append(y)\n        if len(L) > 3: L.pop(0)": 3, "q.append(y)\n        if len(q) > 3: q.popleft()": 3,
    "L.clear(); L.append(y); r.append(len(L))": 1, "f = L.append; f(y)": 1,
    "q.appendleft(1); q.appendleft(y); r.append(q[0]); r.append(q[1])": 1,
    "r.append(partial(L.append, y)())": 1, "L.append(d['loss'])": 1,
    "late = lambda: d['loss']; late().append(y)": 1, "stop(); d['loss'].append(y + 1)": 2,
    "d['loss'].append(y); stop(); d['loss'].append(y + 1)": 2, "d['loss'].append(float(i) + 0.5)": 1,
    "alias.append(1); d['loss'].append(r)": 1, "r.append(m.pop('none', None))": 1, "with_default(L, y)": 2,
}  # fmt: skip
"""Lines, and how many programs are made for many calls of them: two where a key is new at first, or where a
number comes to be a symbol; one more for each way that the code itself takes."""


@pytest.mark.parametrize("line", GROWING)
def test_containers_grow_and_nothing_is_compiled_again(line: str) -> None:
    text, between = program(line), [(1, "pass")] * 12
    counter = CompileCounterWithBackend("aot_eager")
    weft.compiler.reset()
    found = history(text, between, lambda function: weft.compile(function, backend=counter))
    assert found == history(text, between, lambda function: function)
    assert counter.frame_count == GROWING[line]


@pytest.mark.parametrize("line", ["r.append(list(L))", "for item in L: r.append(item)"])
def test_what_is_read_whole_is_guarded(line: str) -> None:
    text, between = program(f"{line}\n        L.append(y)"), [(1, "pass")] * 5
    counter = CompileCounter()
    found = history(text, between, lambda function: weft.compile(function, backend=counter))
    assert found == history(text, between, lambda function: function) and counter.frame_count == 5


def python_calls(step: Any, *args: Any) -> int:
    """How many Python functions run in a call."""
    names: list[str] = []
    gc.collect()  # finalizers of other tests' objects are not counted
    gc.disable()
    sys.setprofile(lambda frame, event, _arg: names.append(frame.f_code.co_name) if event == "call" else None)
    try:
        step(*args)
    finally:
        sys.setprofile(None)
        gc.enable()
    return len(names)


@pytest.mark.parametrize(
    "line",
    ["d['loss'].append(y)", "d.setdefault('n', []).append(y)", "dd['k'].append(y)", "bounded.append(y)",
     "m[len(m)] = y", "o.add(y)", "cnt['s'] += 1", "L.append(y); r.append(L[-1])", "q.appendleft(y)"],
)  # fmt: skip
def test_a_step_that_logs_stays_one_native_call(line: str) -> None:
    space: dict[str, Any] = {}
    exec(program(line), space)
    scope = world_of_containers()
    step = weft.compile(space["make"](stop=stop, **scope), backend="native")
    for _ in range(8):
        step(weft.ones(2), 1, {})
    early = python_calls(step, weft.ones(2), 1, {})
    for _ in range(200):
        step(weft.ones(2), 1, {})
    assert python_calls(step, weft.ones(2), 1, {}) == early <= 4


def test_what_replaces_a_container_is_seen() -> None:
    kept: dict[str, Any] = {"loss": []}

    def step(x: weft.Tensor) -> weft.Tensor:
        y = x + 1
        kept["loss"].append(y)
        return y

    counter = CompileCounter()
    run = weft.compile(step, backend=counter)
    for made in ([], deque(), Loud(), [1]):
        kept["loss"] = made
        for _ in range(2):
            assert run(weft.ones(2)) is kept["loss"][-1]
    assert len(Loud.heard) == 2 and counter.frame_count == 4  # the user's is read whole
    del kept["loss"]
    with pytest.raises(KeyError, match="loss"):
        run(weft.ones(2))


class Loud(list[Any]):
    """A list whose own code runs."""

    heard: list[Any] = []

    def append(self, value: Any) -> None:
        Loud.heard.append(value)
        super().append(value)


def test_what_a_factory_of_the_users_makes() -> None:
    made: list[str] = []

    def factory() -> list[str]:
        made.append("made")
        return ["first"]

    kept: defaultdict[str, list[Any]] = defaultdict(factory)

    def step(x: weft.Tensor) -> weft.Tensor:
        y = x + 1
        kept["a"].append(y)
        return y

    counter = CompileCounter()
    run = weft.compile(step, backend=counter)
    for number in range(5):
        assert run(weft.ones(2)) is kept["a"][-1] and len(kept["a"]) == number + 2
    assert made == ["made"] and kept["a"][0] == "first" and counter.frame_count == 2


def test_effects_before_an_exception_are_there() -> None:
    kept: dict[str, list[Any]] = {"seen": []}

    def step(x: weft.Tensor, stops: bool) -> weft.Tensor:
        kept["seen"].append(x)
        kept.setdefault("more", []).append(1)
        y = x.reshape(3) if stops else x
        kept["seen"].append(y)
        return y

    run = weft.compile(step, backend="native")
    for number in range(1, 7):
        with pytest.raises(RuntimeError):
            run(weft.ones(2), True)
        run(weft.ones(2), False)
        assert len(kept["seen"]) == 3 * number and len(kept["more"]) == 2 * number


def test_two_ways_to_what_may_be_there() -> None:
    first: dict[str, list[Any]] = {}
    second: dict[str, list[Any]] = {}

    def step(x: weft.Tensor) -> weft.Tensor:
        y = x + 1
        one = first.setdefault("a", [])
        two = second.setdefault("a", [])
        one.append(1)
        two.append(2)
        return y if one is two else y * 2

    run = weft.compile(step, backend="native")
    for _ in range(3):
        assert run(weft.zeros(1)).item() == 2.0
    first["a"] = second["a"]
    for _ in range(3):
        assert run(weft.zeros(1)).item() == 1.0
    assert first["a"] is second["a"] and second["a"][-2:] == [1, 2] and len(second["a"]) == 9


def test_iterators_held_outside_see_what_is_appended() -> None:
    kept: dict[str, list[Any]] = {"loss": [0]}
    walking = iter(kept["loss"])

    def step(x: weft.Tensor) -> weft.Tensor:
        kept["loss"].append(x)
        return x + 1

    run = weft.compile(step, backend="native")
    assert next(walking) == 0
    for _ in range(4):
        x = weft.ones(2)
        run(x)
        assert next(walking) is x


def test_methods_that_are_handed_on() -> None:
    kept: dict[str, list[Any]] = {"loss": []}

    def step(x: weft.Tensor) -> Any:
        y = x + 1
        log = kept["loss"].append
        return y, log, functools.partial(log, y)

    counter = CompileCounter()
    run = weft.compile(step, backend=counter)
    for number in range(1, 5):
        y, log, later = run(weft.ones(2))
        log(y)
        later()
        assert len(kept["loss"]) == 2 * number and kept["loss"][-1] is kept["loss"][-2] is y
    assert counter.frame_count == 1


def test_one_container_by_two_ways_in_some_calls() -> None:
    def step(x: weft.Tensor, kept: dict[str, list[Any]], other: list[Any]) -> Any:
        y = x + 1
        kept["loss"].append(y)
        other.append(1)
        return y, kept["loss"][-1], other[-1], len(kept["loss"]) > len(other)

    run = weft.compile(step, backend=CompileCounter())
    for number in range(9):
        found = []
        for function in (run, step):
            kept: dict[str, list[Any]] = {"loss": [0] * number}
            other = kept["loss"] if number % 3 == 1 else []
            found.append(picture([function(weft.ones(1), kept, other), kept, other], {}, []))
        assert found[0] == found[1]


def test_what_raises_while_containers_are_apart_may_not_where_they_are_one() -> None:
    def step(x: weft.Tensor, one: dict[str, list[Any]], other: list[Any]) -> weft.Tensor:
        one["a"].append(1)
        other[-1] = 2
        return x + 1

    run = weft.compile(step, backend=CompileCounter())
    with pytest.raises(IndexError):
        run(weft.ones(1), {"a": []}, [])
    shared: list[Any] = []
    run(weft.ones(1), {"a": shared}, shared)  # strict: it would say that the original did not raise
    assert shared == [2]
