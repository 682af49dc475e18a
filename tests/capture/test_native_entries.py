"""Native entries that are made in slices: whatever changes between two of them, calls give what they should.

Slices are as short as they can be here, so that a call comes in between any two steps.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

import weft
from tests.capture.test_shortcut import has_shortcut, is_direct, same
from weft import nn
from weft.capture import chaining, native_entries
from weft.capture.shortcut import AskedRun
from weft.core.settings import settings
from weft.core.slices import Differs
from weft.native.cpu import tiers
from weft.native.entry.factory import Machine

MOST = 400
"""Calls in which the entries of small functions are there."""


@pytest.fixture(autouse=True)
def sliced(monkeypatch: pytest.MonkeyPatch) -> None:
    """One step at a time."""
    monkeypatch.setattr(settings, "tiers", "smooth")
    monkeypatch.setattr(native_entries, "share", lambda _seconds: 0.0)
    monkeypatch.setattr(chaining, "share", lambda _seconds: 0.0)


def calls_until(there: Callable[[], bool], call: Callable[[], Any]) -> int:
    """How many calls it takes until something is there."""
    for number in range(1, MOST):
        call()
        tiers.wait()
        if there():
            return number
    raise AssertionError("it never comes")


def test_the_entry_comes_by_and_by() -> None:
    """With other inputs in each call."""
    compiled = weft.compile(lambda x, n: (x * n).exp().sum(-1), backend="native")
    numbers = iter(range(2, 10_000))

    def call() -> None:
        n = next(numbers)
        x = weft.linspace(0.0, 1.0, n + 3)
        same(compiled(x, 2.0), (x * 2.0).exp().sum(-1))

    compiled(weft.ones(5), 2.0)
    compiled(weft.ones(6), 2.0)  # with open sizes
    taken = calls_until(lambda: has_shortcut(compiled), call)
    assert taken > 20, "a slice is one step"
    assert is_direct(compiled)
    call()


def test_inputs_are_not_held_meanwhile() -> None:
    compiled = weft.compile(lambda x, other: x * 2 + other["y"], backend="native")
    held: list[weakref.ref[Any]] = []

    def call() -> None:
        x, y = weft.ones(3), weft.ones(3)
        held.extend([weakref.ref(x), weakref.ref(y)])
        compiled(x, {"y": y})
        del x, y
        assert not any(each() for each in held)

    gc.disable()
    try:
        assert calls_until(lambda: has_shortcut(compiled), call) > 20
    finally:
        gc.enable()


class Scaled(nn.Module):
    factor = 2.0

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(weft.full((3,), 1.5))
        self.table = {"bias": 1.0, "names": ["a"]}

    def scale(self, x: Any) -> Any:
        return x * self.factor

    def forward(self, x: Any) -> Any:
        return self.scale(x) * self.weight + self.table["bias"] + len(self.table["names"])


def other_scale(self: Any, x: Any) -> Any:
    return x - self.factor


def of_class(name: str, value: Any) -> Callable[[Any, Any], None]:
    return lambda _net, patch: patch.setattr(Scaled, name, value)


CHANGES: dict[str, Callable[[Any, Any], Any]] = {
    "a method": of_class("scale", other_scale),
    "a number of the class": of_class("factor", 5.0),
    "a number that hides it": lambda net, _patch: setattr(net, "factor", 7.0),
    "an item": lambda net, _patch: net.table.update(bias=4.0),
    "keys": lambda net, _patch: net.table.update(more=1) or net.table.update(names=["a", "b"]),
    "a container": lambda net, _patch: setattr(net, "table", {"names": [1, 2, 3], "bias": 0.5}),
    "a parameter": lambda net, _patch: setattr(net, "weight", nn.Parameter(weft.full((3,), 0.25))),
    "data of a parameter": lambda net, _patch: setattr(net.weight, "data", weft.full((3,), 8.0)),
    "frozen": lambda net, _patch: net.weight.requires_grad_(False),
    "code": lambda _net, patch: patch.setattr(Scaled.scale, "__code__", other_scale.__code__),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_changes_between_slices(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for point in range(3, 200, 9):
        net = Scaled()
        compiled = weft.compile(net, backend="native")
        with monkeypatch.context() as patch:
            for number in range(point):
                x = weft.full((3,), float(number))
                same(compiled(x), net(x))
            CHANGES[name](net, patch)
            for number in range(20):
                x = weft.full((3,), float(number), requires_grad=True)
                found = compiled(x)
                same(found, net(x))
                assert found.requires_grad and found.grad_fn is not None
                plain = compiled(x.detach())
                assert plain.requires_grad is net.weight.requires_grad


def test_inputs_that_change_between_slices() -> None:
    """How they lie, their sizes, and whether gradients are wanted."""

    def f(x: Any, y: Any) -> Any:
        return (x * y).sum(0), x.t() + 1

    kinds = [
        lambda: weft.arange(12.0).reshape(3, 4),
        lambda: weft.arange(12.0).reshape(4, 3).t(),
        lambda: weft.arange(12.0).reshape(3, 4).requires_grad_(),
        lambda: weft.arange(24.0).reshape(3, 8)[:, ::2],
        lambda: weft.arange(20.0).reshape(5, 4),
    ]
    for first in range(len(kinds)):
        for point in range(3, 90, 17):
            compiled = weft.compile(f, backend="native")
            for _ in range(point):
                compiled(kinds[first](), weft.full((4,), 2.0))
            for turn in range(3 * len(kinds)):
                x = kinds[turn % len(kinds)]()
                found, wanted = compiled(x, weft.full((4,), 2.0)), f(x, weft.full((4,), 2.0))
                same(found, wanted)
                assert [each.requires_grad for each in found] == [each.requires_grad for each in wanted]
                assert [each.stride() for each in found] == [each.stride() for each in wanted]


def test_what_no_longer_agrees_is_made_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[Any] = []
    look = AskedRun.look

    def changed(self: Any) -> Any:
        looks.append(self)
        if len(looks) == 1:
            raise Differs
        return look(self)

    monkeypatch.setattr(AskedRun, "look", changed)
    compiled = weft.compile(lambda x: x.sin() * 1.375, backend="native")
    calls_until(lambda: has_shortcut(compiled), lambda: compiled(weft.ones(4)))
    assert len(looks) == 2 and is_direct(compiled)
    same(compiled(weft.ones(4)), weft.ones(4).sin() * 1.375)


class Late(BaseException):
    pass


def test_interrupted_work_is_begun_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    making, strikes = Machine.making, [0]

    def struck(self: Any, *given: Any) -> Any:
        strikes[0] += 1
        if strikes[0] == 1:
            raise Late
        return making(self, *given)

    monkeypatch.setattr(Machine, "making", struck)
    compiled = weft.compile(lambda x: x.cos() * 1.375, backend="native")

    def call() -> None:
        try:
            compiled(weft.ones(4))
        except Late:
            assert strikes[0] == 1

    calls_until(lambda: has_shortcut(compiled), call)
    assert strikes[0] == 2


def test_threads_share_the_work() -> None:
    compiled = weft.compile(lambda x, y: (x * y).tanh() + y, backend="native")
    wrong: list[Any] = []

    def work(number: int) -> None:
        for turn in range(MOST // 2):
            x, y = weft.full((4,), number / 8), weft.full((4,), turn / 100)
            if not weft.allclose(compiled(x, y), (x * y).tanh() + y):
                wrong.append((number, turn))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    calls_until(lambda: has_shortcut(compiled), partial(compiled, weft.ones(4), weft.ones(4)))
    assert is_direct(compiled)


def test_chained_shortcuts_come_by_and_by() -> None:
    compiled = weft.compile(lambda x: x * 3, backend="native", dynamic=True)
    calls_until(lambda: has_shortcut(compiled), lambda: compiled(weft.ones(3, 4)))
    for size in range(2, 40):
        x = weft.ones(size, size + 1).t()
        same(compiled(x), x * 3)


def test_nothing_is_made_where_there_is_no_background(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert settings.tiers == "full"
    compiled = weft.compile(lambda x: x.sin() * 1.125, backend="native")
    compiled(weft.ones(4))
    assert not has_shortcut(compiled)
    compiled(weft.ones(4))
    assert has_shortcut(compiled)


# -- processes -----------------------------------------------------------------------------------------------
PROCESS = """
import functools, os, sys, threading, time
import weft
from weft import nn
from weft.core.counters import counters
from weft.native.cpu import engine, tiers
from weft.native.program.cache import counts

texts, known = [], engine.compiled
def noting(text, level):
    texts.append(("@enter(" in text, tiers.is_running() and threading.get_ident() == tiers._thread.ident))
    return known(text, level)
engine.compiled = functools.partial(noting)  # a function in its place would be seen: nothing is kept then

weft.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
optimizer = weft.optim.AdamW(net.parameters(), 1e-2)
def step(x):
    optimizer.zero_grad()
    loss = net(x).square().sum()
    loss.backward()
    optimizer.step()
    return loss
step = weft.compile(step, backend="native")
def calls(count):
    return [float(step(weft.full((2, 4), number / 8))) for number in range(count)][-1]
def is_there():
    (cache,) = [each for each in step.__dict__["_weft_front"].caches.values() if each.entries]
    run = cache.entries[0].run
    return "_v_shortcut" in run.__code__.co_names
def until_there():
    for _ in range(5000):
        if is_there():
            return
        calls(1)
    sys.exit("it never comes")
"""
TOGETHER = """
calls(3)
assert not is_there() and not any(is_entrance for is_entrance, _ in texts), "nobody waits for it"
tiers.wait()
assert [by_thread for is_entrance, by_thread in texts if is_entrance] == [True]
until_there()
tiers.wait()
assert counts["entry written"] == 1, counts
print(calls(5))
"""
AGAIN = """
value = calls(1)
assert is_there() and not texts and counters["built"].keys() == {"captures", "native entries"}
calls(100)
assert counts["entry written"] == 0 == counts["program written"], counts
calls(3)
"""
FORKED = """
calls(3)
time.sleep(float(sys.argv[1]))
child = os.fork()
until_there()
calls(3)
if not child:
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""
ENDED = """
calls(3)
time.sleep(float(sys.argv[1]))
"""


def ran(script: str, cache: Any, *given: str) -> str:
    """What a process prints that compiles as users' do."""
    (cache / "stepping.py").write_text(PROCESS)  # functions without a file are not kept
    os.utime(cache / "stepping.py", (1e9, 1e9))  # nor those whose file is as new as the process
    paths = os.pathsep.join([str(cache), *sys.path])
    environment = dict(
        os.environ, WEFT_TIERS="smooth", WEFT_CACHE="1", WEFT_CACHE_DIR=str(cache), PYTHONPATH=paths
    )
    command = [sys.executable, "-W", "error", "-c", "from stepping import *\n" + script, *given]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_nobody_waits_for_what_all_entries_share(tmp_path: Any) -> None:
    """And the next process builds nothing."""
    ran(TOGETHER, tmp_path)
    ran(AGAIN, tmp_path)


@pytest.mark.parametrize("seconds", ["0", "0.04", "0.08"])
def test_entries_are_kept_though_the_process_ends(seconds: str, tmp_path: Any) -> None:
    """Before the thread has begun, while it is in LLVM, and behind that."""
    ran(ENDED, tmp_path, seconds)
    assert len([*tmp_path.glob("*.entry")]) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
@pytest.mark.parametrize("seconds", ["0", "0.04", "0.08"])
def test_forks_while_it_is_made(seconds: str, tmp_path: Any) -> None:
    ran(FORKED, tmp_path, seconds)
