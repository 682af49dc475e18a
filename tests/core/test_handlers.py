"""Handlers of signals that strike while something is compiled: as if they had struck before it."""

from __future__ import annotations

import ctypes
import gc
import linecache
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

import pytest

import weft
from weft.aot import compiled_autograd
from weft.core.handlers import RESTART, Handler, _Action, _sigaction, handlers_outside, in_own_context
from weft.trace.make_fx import make_fx

PACKAGE = weft.__path__[0]
variable: ContextVar[int] = ContextVar("variable", default=0)


class Late(Exception):
    pass


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    before = signal.getsignal(signal.SIGUSR1)
    yield
    signal.signal(signal.SIGUSR1, before)


def function(number: int) -> Any:
    """A function that nobody has compiled."""
    name = f"<handled {number}>"
    text = f"def f(x):\n    y = (x * {number}).sin()\n    return (y * y).sum()\n"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    space: dict[str, Any] = {}
    exec(compile(text, name, "exec"), space)
    return space["f"]


def struck(point: int, handle: Any) -> bool:
    """A first call of a function that is interrupted at some point; whether it has as many."""
    left = [point]

    def profile(frame: Any, event: str, _value: Any) -> None:
        if event in ("call", "c_return") and frame.f_code.co_filename.startswith(PACKAGE):
            left[0] -= 1
            if not left[0]:
                sys.setprofile(None)
                signal.raise_signal(signal.SIGUSR1)

    signal.signal(signal.SIGUSR1, handle)
    plain = function(point)
    compiled = weft.compile(plain)
    x = weft.arange(6.0)
    sys.setprofile(profile)
    try:
        found = compiled(x)
    finally:
        sys.setprofile(None)
    weft.testing.assert_close(found, plain(x))
    weft.testing.assert_close(compiled(x), plain(x))
    assert signal.getsignal(signal.SIGUSR1) is handle
    return left[0] <= 0


def test_what_handlers_compute_is_no_part_of_what_is_compiled() -> None:
    """In-place writes happen, once and at once; elements can be read; gradients and warnings are there."""
    weights = weft.ones(3, requires_grad=True)
    struck(10**9, signal.default_int_handler)  # whatever is made when it is first needed
    points = 0
    for point in range(37, 10**6, 1201):
        count, seen = weft.zeros(1), []

        def handle(_number: int, _frame: Any, count: Any = count, seen: list[Any] = seen) -> None:
            count.add_(1)
            loss = (weights * 2).sum()
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                warnings.warn("a handler's", stacklevel=1)
            seen.append((float(count.sum()), loss.requires_grad, len(told), weft.rand(2).tolist()))

        weft.manual_seed(3)
        if not struck(point, handle):
            break
        points += 1
        assert count.tolist() == [1.0]
        weft.manual_seed(3)
        assert seen == [(1.0, True, 1, weft.rand(2).tolist())]
    assert points > 10


def test_what_a_handler_sets_lasts() -> None:
    signal.signal(signal.SIGUSR1, lambda *_: variable.set(variable.get() + 1))

    def work() -> int:
        variable.set(10)
        signal.raise_signal(signal.SIGUSR1)
        signal.raise_signal(signal.SIGUSR1)
        return variable.get()

    before = variable.get()
    assert in_own_context(work) == 10
    assert variable.get() == before + 2


def test_a_handler_that_is_exchanged_meanwhile_stays() -> None:
    def other(_number: int, _frame: Any) -> None:
        pass

    signal.signal(signal.SIGUSR1, lambda *_: signal.signal(signal.SIGUSR1, other) and None)
    with handlers_outside():
        signal.raise_signal(signal.SIGUSR1)
    assert signal.getsignal(signal.SIGUSR1) is other


def test_a_handler_that_was_left_in_place_puts_the_users_back() -> None:
    called = []

    def handle(number: int, _frame: Any) -> None:
        called.append(number)

    signal.signal(signal.SIGUSR1, handle)
    with handlers_outside():
        left = signal.getsignal(signal.SIGUSR1)
        assert type(left) is Handler
    signal.signal(signal.SIGUSR1, left)
    signal.raise_signal(signal.SIGUSR1)
    assert called == [signal.SIGUSR1] and signal.getsignal(signal.SIGUSR1) is handle


def test_a_handler_raises_and_is_put_back() -> None:
    def handle(_number: int, _frame: Any) -> None:
        raise Late

    signal.signal(signal.SIGUSR1, handle)
    with pytest.raises(Late), handlers_outside(), weft.no_grad():
        signal.raise_signal(signal.SIGUSR1)
    assert signal.getsignal(signal.SIGUSR1) is handle and weft.is_grad_enabled()


def test_a_handler_compiles() -> None:
    """Also while one stands in a compile already."""
    depth = []

    def handle(_number: int, _frame: Any) -> None:
        depth.append(len(depth))
        if len(depth) < 3:
            assert struck_inside(1000 + len(depth))

    def struck_inside(number: int) -> bool:
        plain = function(number)
        x = weft.arange(4.0)
        with handlers_outside():
            if len(depth) < 3:
                signal.raise_signal(signal.SIGUSR1)
        return bool(weft.compile(plain)(x).isclose(plain(x)))

    signal.signal(signal.SIGUSR1, handle)
    with handlers_outside():
        signal.raise_signal(signal.SIGUSR1)
    assert len(depth) == 3 and signal.getsignal(signal.SIGUSR1) is handle


@pytest.mark.skipif(sys.platform != "linux", reason="flags are those of Linux")
def test_calls_of_the_system_go_on_where_they_did() -> None:
    def restarts() -> bool:
        action = _Action()
        assert _sigaction is not None
        _sigaction(int(signal.SIGUSR1), None, ctypes.byref(action))
        return bool(action.flags & RESTART)

    signal.signal(signal.SIGUSR1, lambda *_: None)
    for flag in (True, False):
        signal.siginterrupt(signal.SIGUSR1, flag)
        assert restarts() is not flag
        with handlers_outside():
            assert restarts() is not flag
        weft.compile(function(10_000 + flag))(weft.ones(2))
        assert restarts() is not flag


@pytest.mark.parametrize("kind", [StopIteration, GeneratorExit])
def test_what_would_end_an_iterator_comes_out(kind: type[BaseException]) -> None:
    raised: list[BaseException] = []

    def handle(_number: int, _frame: Any) -> None:
        raised.append(kind())
        raise raised[-1]

    def strikes(value: int) -> int:
        if value == 3:
            signal.raise_signal(signal.SIGUSR1)
        return value

    signal.signal(signal.SIGUSR1, handle)
    with pytest.raises(kind) as found:
        in_own_context(lambda: in_own_context(lambda: list(map(strikes, range(6)))))
    assert found.value is raised[0]
    assert signal.getsignal(signal.SIGUSR1) is handle


TAKEN = [
    ("NodeList.__len__", TypeError),  # by `list`, for no length
    ("NodeList.__iter__", StopIteration),
    ("_PureCopy.call.<locals>.<genexpr>", StopIteration),
    ("work_of.<locals>.<genexpr>", StopIteration),
]


@pytest.mark.parametrize(("place", "kind"), TAKEN)
def test_what_python_would_take_for_an_answer_comes_out(place: str, kind: type[BaseException]) -> None:
    """Of a first call."""
    raised: list[BaseException] = []

    def handle(_number: int, _frame: Any) -> None:
        raised.append(kind())
        raise raised[-1]

    def profile(frame: Any, event: str, _value: Any) -> None:
        if event == "call" and frame.f_code.co_qualname == place:
            sys.setprofile(None)
            signal.raise_signal(signal.SIGUSR1)

    signal.signal(signal.SIGUSR1, handle)
    plain = function(20_000 + TAKEN.index((place, kind)))
    with pytest.raises(kind) as found:
        sys.setprofile(profile)
        try:
            weft.compile(plain)(weft.arange(6.0, requires_grad=True))
        finally:
            sys.setprofile(None)
    assert found.value is raised[0]
    names = [each.name for each in found.traceback]
    assert names[-1] == "handle" and place.rpartition(".")[2] in names  # where it struck, too


def test_a_backend_of_the_users_catches_what_its_own_alarm_raises() -> None:
    def handle(_number: int, _frame: Any) -> None:
        raise Late

    def backend(module: Any, _inputs: Any) -> Any:
        try:
            signal.raise_signal(signal.SIGUSR1)
        except Late:
            return module.forward

    signal.signal(signal.SIGUSR1, handle)
    assert weft.compile(lambda x: x * 2, backend=backend)(weft.ones(2)).tolist() == [2.0, 2.0]


class Dropping:
    """What is raised in its finalizer is told to a hook, and dropped."""

    def __del__(self) -> None:
        signal.raise_signal(signal.SIGUSR1)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("after", [list, KeyError])
def test_what_is_lost_on_its_way_comes_out_at_the_end(after: Any) -> None:
    def handle(_number: int, _frame: Any) -> None:
        raise StopIteration

    def work() -> None:
        Dropping()
        if after is KeyError:
            raise KeyError

    signal.signal(signal.SIGUSR1, handle)
    with pytest.raises(StopIteration):
        in_own_context(work)
    assert in_own_context(list) == []


class Counting:
    """A cycle, whose finalizer computes."""

    count = weft.zeros(1)
    made = 0

    def __init__(self) -> None:
        self.me = self
        Counting.made += 1

    def __del__(self) -> None:
        profile = sys.getprofile()
        sys.setprofile(None)  # which makes more of these
        Counting.count.add_(1)
        sys.setprofile(profile)


def with_compiled_tape(plain: Any, x: Any) -> Any:
    with compiled_autograd.enable(weft.compile):
        plain(x.requires_grad_()).backward()
    return plain(x)


@pytest.mark.parametrize(
    "trace",
    [
        lambda plain, x: weft.compile(plain)(x.requires_grad_()).detach(),
        lambda plain, x: make_fx(plain)(x)(x),
        lambda plain, x: weft.jit.trace(plain, (x,))(x),
        lambda plain, x: weft.jit.script(plain)(x),
        with_compiled_tape,
    ],
    ids=["compile", "make_fx", "jit.trace", "jit.script", "compiled tape"],
)
def test_finalizers_that_compute_are_no_part_of_what_is_traced(trace: Any) -> None:
    def profile(frame: Any, event: str, _value: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
            Counting()

    plain, x, before = function(30_000), weft.arange(6.0), gc.get_threshold()
    expected = plain(x)
    Counting.count, Counting.made = weft.zeros(1), 0
    gc.collect()
    try:
        gc.set_threshold(20, 1000, 1000)
        sys.setprofile(profile)
        result = trace(plain, x)
    finally:
        sys.setprofile(None)
        gc.set_threshold(*before)
    gc.collect()
    assert Counting.made > 10 and Counting.count.tolist() == [Counting.made]
    assert weft.allclose(result, expected)


def test_a_handler_waits_for_a_thread_that_compiles_while_machine_code_is_made() -> None:
    """What makes code in the thread that it strikes holds nothing that the other one needs."""
    x, found = weft.arange(6.0), []
    plain, other = function(40_001), function(40_002)
    compiled, shared = weft.compile(plain), weft.compile(other)

    def handle(_number: int, _frame: Any) -> None:
        thread = threading.Thread(target=lambda: found.append(shared(x)), daemon=True)
        thread.start()
        thread.join(20)
        assert not thread.is_alive()  # else a call here would wait for it for ever

    def profile(frame: Any, event: str, _value: Any) -> None:
        if event == "call" and frame.f_code.co_qualname == "Loaded.__init__":
            sys.setprofile(None)
            signal.raise_signal(signal.SIGUSR1)

    signal.signal(signal.SIGUSR1, handle)
    sys.setprofile(profile)
    try:
        result = compiled(x)
    finally:
        sys.setprofile(None)
    assert len(found) == 1 and weft.allclose(found[0], other(x)) and weft.allclose(result, plain(x))


@pytest.mark.parametrize("kind", [ValueError, StopIteration, KeyError])
def test_handlers_are_exchanged_by_functions_of_c(kind: type[BaseException]) -> None:
    """Those of `signal` take a ValueError that strikes in them for a number without a name."""
    raised: list[BaseException] = []
    count = point = 0

    def handle(_number: int, _frame: Any) -> None:
        raised.append(kind())
        raise raised[0]

    def profile(_frame: Any, event: str, _value: Any) -> None:
        nonlocal count
        if event in ("call", "c_return"):
            count += 1
            if count == point:
                sys.setprofile(None)
                signal.raise_signal(signal.SIGUSR1)

    signal.signal(signal.SIGUSR1, handle)
    while True:
        raised.clear()
        count, point, caught = 0, point + 1, None
        try:
            sys.setprofile(profile)
            with handlers_outside():
                pass
        except kind as error:
            caught = error
        finally:
            sys.setprofile(None)
        assert caught is (raised[0] if raised else None), point
        assert signal.getsignal(signal.SIGUSR1) is handle
        if not raised:
            break
    assert point > 20
