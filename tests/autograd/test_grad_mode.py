"""Grad modes as context managers and decorators, around every kind of function."""

from __future__ import annotations

import asyncio
import signal
import sys
from contextlib import ExitStack, nullcontext

import pytest

import weft
from weft import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from weft.autograd import grad_mode
from weft.core import contexts, modes


def leaf() -> weft.Tensor:
    return weft.tensor([1.0, 2.0], requires_grad=True)


def test_no_grad_records_nothing():
    x = leaf()
    with no_grad():
        y = x * 2
        assert not y.requires_grad
        assert y.grad_fn is None
        with enable_grad():
            assert (x * 2).requires_grad
        assert not is_grad_enabled()
    assert is_grad_enabled()


def test_leaves_may_be_made_inside_no_grad():
    with no_grad():
        assert weft.ones(2, requires_grad=True).requires_grad


def test_exceptions_leave_the_mode():
    for mode in (no_grad, lambda: set_grad_enabled(False), inference_mode):
        with pytest.raises(KeyError), mode():
            raise KeyError
        assert is_grad_enabled()
        assert not is_inference_mode_enabled()


def test_set_grad_enabled_works_at_once():
    set_grad_enabled(False)
    try:
        assert not is_grad_enabled()
        with set_grad_enabled(True):
            assert is_grad_enabled()
        assert not is_grad_enabled()
    finally:
        set_grad_enabled(True)
    with pytest.raises(TypeError):
        set_grad_enabled(1)
    assert is_grad_enabled()


def test_set_grad_enabled_as_decorator_changes_nothing_outside():
    @set_grad_enabled(False)
    def inside():
        return is_grad_enabled()

    assert is_grad_enabled()
    assert not inside()
    assert is_grad_enabled()


@pytest.mark.parametrize("decorate", [no_grad(), no_grad, inference_mode(), inference_mode])
def test_decorators_with_and_without_parentheses(decorate):
    @decorate
    def inside(a, *, b=2):
        "words"
        return is_grad_enabled(), a, b

    assert inside(1) == (False, 1, 2)
    assert (inside.__name__, inside.__doc__) == ("inside", "words")
    assert is_grad_enabled()


def test_recursive_decorated_function():
    @no_grad()
    def inside(n):
        assert not is_grad_enabled()
        if n:
            with enable_grad():
                inside(n - 1)
                assert is_grad_enabled()
        return is_grad_enabled()

    assert not inside(3)
    assert is_grad_enabled()


def test_generators_do_not_leak_the_mode():
    @no_grad()
    def numbers():
        for i in range(3):
            assert not is_grad_enabled()
            received = yield i
            if received:
                yield received
        return "end"

    steps = numbers()
    assert next(steps) == 0
    assert is_grad_enabled()
    assert steps.send("more") == "more"
    assert list(steps) == [1, 2]
    assert is_grad_enabled()

    def outer():
        result = yield from numbers()
        assert result == "end"

    assert list(outer()) == [0, 1, 2]


def test_generators_change_mode_inside_without_leaking():
    @enable_grad()
    def flips():
        with no_grad():
            yield is_grad_enabled()
        yield is_grad_enabled()

    with no_grad():
        seen = []
        for value in flips():
            seen.append((value, is_grad_enabled()))
    assert seen[0] == (False, False)
    assert seen[1][1] is False


def test_generators_receive_exceptions_and_close():
    log = []

    @no_grad()
    def steps():
        try:
            yield 1
        except KeyError:
            log.append(("caught", is_grad_enabled()))
            yield 2
        finally:
            log.append(("closed", is_grad_enabled()))

    running = steps()
    next(running)
    assert running.throw(KeyError()) == 2
    running.close()
    assert log == [("caught", False), ("closed", False)]
    failing = steps()
    next(failing)
    with pytest.raises(ValueError, match="out"):
        failing.throw(ValueError("out"))
    assert is_grad_enabled()


def test_coroutines_keep_the_mode_across_awaits_only_for_themselves():
    log = []

    @no_grad()
    async def inside():
        log.append(is_grad_enabled())
        await asyncio.sleep(0)
        log.append(is_grad_enabled())
        return 5

    async def beside():
        for _ in range(3):
            log.append(("beside", is_grad_enabled()))
            await asyncio.sleep(0)

    async def main():
        return await asyncio.gather(inside(), beside())

    assert asyncio.run(main())[0] == 5
    assert [entry for entry in log if entry is False] == [False, False]
    assert all(entry[1] for entry in log if isinstance(entry, tuple))


def test_a_coroutine_driven_by_hand_does_not_leak():
    class Pause:
        def __await__(self):
            return (yield "paused")

    @no_grad()
    async def inside():
        got = await Pause()
        return got, is_grad_enabled()

    running = inside()
    assert running.send(None) == "paused"
    assert is_grad_enabled()
    with pytest.raises(StopIteration) as stop:
        running.send("value")
    assert stop.value.value == ("value", False)


def test_async_generators():
    @no_grad()
    async def numbers():
        for i in range(2):
            await asyncio.sleep(0)
            received = yield (i, is_grad_enabled())
            if received:
                yield received

    async def main():
        seen = []
        async for item in numbers():
            seen.append((item, is_grad_enabled()))
        source = numbers()
        await source.asend(None)
        seen.append(await source.asend("sent"))
        await source.aclose()
        return seen

    assert asyncio.run(main()) == [((0, False), True), ((1, False), True), "sent"]


def test_classes_are_decorated_with_a_warning():
    with pytest.warns(FutureWarning, match="Decorating classes is deprecated"):

        @no_grad()
        class Made:
            def __init__(self):
                self.grad = is_grad_enabled()

    assert Made().grad is False
    assert is_grad_enabled()


def test_modes_may_be_left_in_any_order():
    first, second = no_grad(), weft.autograd.set_detect_anomaly(True, check_nan=False)
    first.__enter__()
    second.__exit__()
    assert not is_grad_enabled()
    assert not weft.is_anomaly_enabled()
    first.__exit__()
    assert is_grad_enabled()


# -- inference mode --------------------------------------------------------------------------------
def inference(*size: int) -> weft.Tensor:
    with inference_mode():
        return weft.ones(*size)


def test_inference_mode_switches():
    with inference_mode():
        assert is_inference_mode_enabled()
        assert not is_grad_enabled()
        with inference_mode(False):
            assert not is_inference_mode_enabled()
            assert is_grad_enabled()
            assert (leaf() * 2).requires_grad
        with enable_grad():
            x = leaf()
            y = x * 2
            assert (x.requires_grad, y.requires_grad, y.grad_fn) == (True, False, None)
    with no_grad():
        with inference_mode():
            pass
        assert not is_grad_enabled()


def test_what_inference_tensors_are():
    with inference_mode():
        a = weft.ones(2)
        b = a + 1
    assert a.is_inference()
    assert b.is_inference()
    assert not (a + 1).is_inference()
    assert not a.clone().is_inference()
    assert a[:1].is_inference()
    assert not a[:1]._is_view()
    assert a.detach().is_inference()
    with pytest.raises(RuntimeError, match="Inference tensors do not track version counter"):
        a._version


def test_inference_tensors_cannot_be_saved():
    a = inference(2)
    x = leaf()
    assert (x + a).requires_grad
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
        x * a
    assert (x * a.clone()).requires_grad


@pytest.mark.parametrize("mode", [enable_grad, no_grad])
def test_inference_tensors_cannot_be_written_to_outside(mode):
    a = inference(2)
    with (
        mode(),
        pytest.raises(RuntimeError, match="Inplace update to inference tensor outside InferenceMode"),
    ):
        a.add_(1)
    with inference_mode():
        a.add_(1)
    assert a.array.tolist() == [2, 2]


def test_inference_tensors_cannot_require_grad_outside():
    a = inference(2)
    with pytest.raises(
        RuntimeError, match="Setting requires_grad=True on inference tensor outside InferenceMode"
    ):
        a.requires_grad_()
    with pytest.raises(
        RuntimeError, match="Setting requires_grad=True on inference tensor outside InferenceMode"
    ):
        a.requires_grad = True


def test_views_of_normal_tensors_in_inference_mode():
    x = weft.ones(3)
    with inference_mode():
        v = x[:2]
        v.add_(1)
    assert not v.is_inference()
    assert v._is_view()
    assert x._version == 1
    v.add_(1)
    assert x.array.tolist() == [3, 3, 1]
    y = leaf() * 1
    with inference_mode():
        w = y[:1]
    assert (w.requires_grad, w.grad_fn) == (True, None)
    with pytest.raises(
        RuntimeError, match="A view was created in inference mode and is being modified inplace in normal"
    ):
        w.add_(1)


def test_normal_tensors_may_be_written_to_in_inference_mode():
    x = leaf()
    y = x * 1
    with inference_mode():
        x.add_(1)
        y.add_(1)
    assert (x._version, y._version) == (1, 1)
    assert y.grad_fn.name() == "MulBackward0"


def test_inference_gradients_are_welcome():
    x = leaf()
    (x * 2).backward(inference(2))
    assert x.grad.array.tolist() == [2, 2]
    assert not x.grad.is_inference()


@pytest.mark.parametrize(
    "kind", [grad_mode.set_multithreading_enabled, grad_mode._force_original_view_tracking]
)
def test_switches_of_pytorchs_engine_are_kept(kind):
    before = kind.variable.get()
    with kind(not before) as entered:
        assert entered is None and kind.variable.get() is not before
    assert kind.variable.get() is before
    assert kind(not before)(kind.variable.get)() is not before and kind.variable.get() is before


class Late(Exception):
    pass


def hooked():
    return weft.autograd.graph.saved_tensors_hooks(abs, abs)


FILES = (grad_mode.__file__, modes.__file__, contexts.__file__, __file__)


def struck(work, point):
    """Does it; a handler of a signal raises at an event of these files. Says whether that came."""
    seen = [0]

    def profile(frame, event, _value):
        if event in ("call", "c_return") and frame.f_code.co_filename in FILES:
            seen[0] += 1
            if seen[0] == point:
                sys.setprofile(None)
                signal.raise_signal(signal.SIGUSR1)

    def handle(_number, _frame):
        raise Late

    before = signal.signal(signal.SIGUSR1, handle)
    sys.setprofile(profile)
    try:
        work()
    except Late:
        pass
    finally:
        sys.setprofile(None)
        signal.signal(signal.SIGUSR1, before)
    return seen[0] >= point


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="no signals")
@pytest.mark.parametrize("around", [nullcontext, hooked])
@pytest.mark.parametrize("make", [no_grad, enable_grad, inference_mode, lambda: set_grad_enabled(False)])
def test_no_interrupt_leaves_a_mode_entered(make, around):
    """`KeyboardInterrupt`, say, where `__exit__` begins: gradients would be off from then on."""
    with around(), set_grad_enabled(make is not enable_grad):
        before = modes.state.get()
        for point in range(1, 40):
            manager = make()
            entered = modes.state.get()

            def work(manager=manager):
                with manager:
                    is_grad_enabled()

            came = struck(work, point)
            now, wanted = modes.state.get(), before
            if entered is not before and same(now, entered):
                wanted = now  # it switches when it is made, and may not have been entered
            assert same(now, wanted), point
            modes.state.set(before)
            if not came:
                break
    assert point > 3


def same(one, other):
    if type(one) is bool or type(other) is bool:
        return one is other
    return (one.grad, one.inference, one.saved_hooks) == (other.grad, other.inference, other.saved_hooks)


@pytest.mark.parametrize("make", [no_grad, inference_mode, lambda: set_grad_enabled(False)])
def test_modes_are_left_in_any_order(make):
    first, second = make(), hooked()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert is_grad_enabled() and modes.modes().saved_hooks
    second.__exit__(None, None, None)
    assert modes.state.get() is True
    first.__enter__()
    with ExitStack() as stack:
        stack.enter_context(make())
        assert not is_grad_enabled()
    assert not is_grad_enabled()
    first.__exit__(None, None, None)
    first.__exit__(None, None, None)
    assert modes.state.get() is True


@pytest.mark.parametrize("outside", [weft.no_grad, weft.inference_mode, weft.enable_grad])
def test_an_interrupt_where_grad_is_set_for_a_block_sets_it_back(outside):
    lines, before = {"__init__", "put_grad", "_prepare", "_back_to", "choosing", "changed"}, modes.current()
    count = point = 0

    def handle(_number, _frame):
        raise Late

    def profile(frame, event, _value):
        nonlocal count
        if event in ("call", "c_return") and frame.f_code.co_name in lines:
            count += 1
            if count == point:
                sys.setprofile(None)
                signal.raise_signal(signal.SIGUSR1)

    handler = signal.signal(signal.SIGUSR1, handle)
    try:
        for point in range(1, 100):
            count, within = 0, None
            with outside():
                within = modes.current()
                try:
                    sys.setprofile(profile)
                    with weft.set_grad_enabled(not weft.is_grad_enabled()):
                        pass
                except Late:
                    pass
                finally:
                    sys.setprofile(None)
                assert str(modes.current()) == str(within), point
            if count < point:
                break
    finally:
        signal.signal(signal.SIGUSR1, handler)
    assert point > 5 and modes.current() == before
