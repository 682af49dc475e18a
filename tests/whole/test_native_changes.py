"""Native entries see every change: a world is changed between calls, and each call is as the eager one."""

from __future__ import annotations

import gc
import os
import threading
import time
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft

Change = Callable[[], Any]
World = tuple[Callable[..., Any], list[Change]]


def x() -> weft.Tensor:
    return weft.arange(6.0).reshape(2, 3)


def classes() -> World:
    class Base:
        scale = 2.0

    class Other:
        scale = 9.0

    class Thing(Base):
        pass

    thing = Thing()
    return lambda x: x * thing.scale, [
        lambda: setattr(Base, "scale", 3.0),
        lambda: setattr(Thing, "scale", 4.0),
        lambda: setattr(thing, "scale", 5.0),
        lambda: setattr(Thing, "scale", property(lambda _self: 6.0)),
        lambda: delattr(Thing, "scale"),
        lambda: setattr(thing, "__dict__", {"scale": 7.0}),
        lambda: thing.__dict__.clear(),
        lambda: setattr(Thing, "__getattribute__", lambda _self, _name: 8.0),
        lambda: delattr(Thing, "__getattribute__"),
        lambda: setattr(thing, "__class__", type("New", (Thing,), {"scale": 10.0})),
    ]


def slots() -> World:
    class Slotted:
        __slots__ = ("scale",)
        scale: Any

    thing = Slotted()
    thing.scale = 2.0
    changes = [2, True, -0.0, 0.0, float("nan"), 2**70, np.float32(3.0), 4.0]
    return lambda x: x * thing.scale, [lambda new=new: setattr(thing, "scale", new) for new in changes]


def dicts() -> World:
    plain: dict[str, float] = {"a": 1.0, "b": 2.0}
    ordered = OrderedDict(plain)
    lazy: defaultdict[str, float] = defaultdict(lambda: 3.0, a=1.0)

    def f(x: Any) -> Any:
        for name, value in [*plain.items(), *ordered.items()]:
            x = x * value + len(name) + ord(name[0])
        return x * lazy["a"]

    return f, [
        lambda: plain.update(a=3.0),
        lambda: plain.update(b=plain.pop("a"), a=plain.pop("b")),
        lambda: plain.update(a=plain.pop("a")),
        lambda: ordered.move_to_end("a"),
        lambda: plain.update(cc=4.0),
        lambda: lazy.pop("a"),
        lambda: setattr(lazy, "default_factory", lambda: 5.0) or lazy.clear(),
    ]


def functions() -> World:
    by = 2.0

    def helper(x: Any, more: float = 3.0) -> Any:
        return x * by + more

    def other(x: Any, more: float = 3.0) -> Any:
        return x / 2 + by * more

    def rebind(value: Any) -> None:
        nonlocal by
        by = value

    def f(x: Any) -> Any:
        return helper(x)

    return f, [
        lambda: rebind(5.0),
        lambda: rebind(True),
        lambda: setattr(helper, "__defaults__", (7.0,)),
        lambda: setattr(helper, "__code__", other.__code__),
    ]


def modules() -> World:
    first, second = weft.nn.Linear(3, 3), weft.nn.Linear(3, 3)

    def swap() -> None:
        first.weight, second.weight = second.weight, first.weight

    def f(x: Any) -> Any:
        return first(x) * second(x)

    return f, [
        swap,
        lambda: setattr(second, "weight", first.weight),
        lambda: setattr(first.weight, "data", weft.ones(3, 3)),
        lambda: setattr(first.bias, "data", weft.ones(6)[::2]),
        lambda: first.requires_grad_(False),
        lambda: first.register_forward_hook(lambda _module, _inputs, output: output * 2),
        lambda: setattr(first, "forward", lambda x: x * 5),
        lambda: setattr(second, "bias", None),
    ]


@pytest.mark.filterwarnings("ignore:weft.compile built programs for 3 values")
@pytest.mark.parametrize("world", [classes, slots, dicts, functions, modules])
def test_changes_are_seen(world: Callable[[], World], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weft.compiler.settings, "recompile_limit", 64)
    f, changes = world()
    compiled = weft.compile(f, backend="native")
    for number, change in enumerate([lambda: None, *changes]):
        change()
        for _ in range(4):
            ours, theirs = compiled(x()), f(x())
            assert ours.requires_grad is theirs.requires_grad and ours.dtype is theirs.dtype, number
            np.testing.assert_allclose(
                ours.detach().numpy(), theirs.detach().numpy(), rtol=1e-5, err_msg=f"change {number}"
            )


def test_what_dies_is_not_taken_for_what_follows_at_its_place() -> None:
    def f(thing: Any, x: Any) -> Any:
        return x * thing.scale + type(thing).shift

    compiled = weft.compile(f, backend="native")
    for turn in range(4):
        kind = type("Kind", (), {"shift": float(turn)})
        thing: Any = kind()
        thing.scale = float(turn)
        for _ in range(3):
            assert compiled(thing, x()).tolist() == f(thing, x()).tolist()
        del kind, thing
        gc.collect()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no processes of this kind")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_children_of_a_process_that_is_in_the_middle_of_a_call() -> None:
    weight, given = weft.randn(200, 200), weft.randn(200, 200)

    def f(x: Any) -> Any:
        return ((x @ weight).tanh() + x.exp()).sum(0)

    compiled = weft.compile(f, backend="native")
    expected = [compiled(given) for _ in range(4)][0]
    stop = threading.Event()

    def busy() -> None:
        while not stop.is_set():
            compiled(given)

    thread = threading.Thread(target=busy)
    thread.start()
    try:
        child = os.fork()
        if child == 0:
            os._exit(0 if weft.equal(compiled(given), expected) else 1)
        deadline = time.monotonic() + 20
        while (found := os.waitpid(child, os.WNOHANG))[0] == 0 and time.monotonic() < deadline:
            time.sleep(0.01)
        if found[0] == 0:
            os.kill(child, 9)
            os.waitpid(child, 0)
        assert found == (child, 0)
    finally:
        stop.set()
        thread.join()
