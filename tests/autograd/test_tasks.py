"""Runs of the engine: nesting, callbacks, accumulation."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from time import sleep
from typing import Any

import numpy as np
import pytest

import weft
from weft.autograd import tasks


def test_backward_inside_a_hook():
    x = weft.tensor([1.0, 2.0], requires_grad=True)
    inner = weft.tensor([3.0], requires_grad=True)

    def hook(gradient):
        assert not weft.is_grad_enabled()
        with weft.enable_grad():
            (inner * 2).sum().backward()
        return gradient * 10

    x.register_hook(hook)
    (x * 2).sum().backward()
    assert x.grad.array.tolist() == [20, 20]
    assert inner.grad.array.tolist() == [2]


def test_backward_of_the_same_graph_inside_a_hook():
    x = weft.tensor([1.0], requires_grad=True)
    y = x * 2
    calls = []

    def hook(gradient):
        calls.append(gradient.item())
        if len(calls) < 3:
            with weft.enable_grad():
                (x * 2).sum().backward()

    x.register_hook(hook)
    y.sum().backward()
    assert calls == [2, 2, 2]
    assert x.grad.item() == 6


def test_nested_thousands_of_levels_deep():
    reached = []

    def descend(level):
        x = weft.tensor([1.0], requires_grad=True)

        def hook(_gradient):
            reached.append(level)
            if level < 2000:
                with weft.enable_grad():
                    descend(level + 1)

        x.register_hook(hook)
        (x * 1).sum().backward()

    descend(1)
    assert reached == list(range(1, 2001))


def test_an_error_far_down_comes_up():
    def descend(level):
        x = weft.tensor([1.0], requires_grad=True)

        def hook(_gradient):
            if level == 2 * tasks.LEVELS + 3:
                raise KeyError("deep")
            with weft.enable_grad():
                descend(level + 1)

        x.register_hook(hook)
        (x * 1).sum().backward()

    with pytest.raises(KeyError, match="deep"):
        descend(1)
    assert weft.is_grad_enabled()
    assert tasks.local.task is None


def test_grad_mode_is_restored_after_an_error():
    x = weft.tensor([1.0], requires_grad=True)

    def hook(_gradient):
        raise ValueError("no")

    x.register_hook(hook)
    with pytest.raises(ValueError, match="no"):
        (x * 1).sum().backward()
    assert weft.is_grad_enabled()
    with weft.no_grad():
        assert not weft.is_grad_enabled()


def test_callbacks_run_at_the_end():
    x = weft.tensor([1.0], requires_grad=True)
    log = []

    def hook(_gradient):
        tasks.queue_callback(lambda: log.append(x.grad.item()))

    (y := x * 3).register_hook(hook)
    y.sum().backward()
    assert log == [3]
    with pytest.raises(RuntimeError, match="Final callbacks can only be installed during backward pass"):
        tasks.queue_callback(print)


def test_accumulation_casts_to_the_dtype_that_is_there():
    x = weft.tensor([1.0], requires_grad=True)
    tasks.accumulate(x, np.array([0.5]), False)
    assert x.grad.dtype is weft.float64
    tasks.accumulate(x, np.array([1.0], np.float32), False)
    assert x.grad.dtype is weft.float64
    assert x.grad.item() == 1.5


def test_leading_to_finds_the_nodes_between():
    x = weft.tensor([1.0], requires_grad=True)
    y = weft.tensor([1.0], requires_grad=True)
    a, b = x * 2, y * 2
    c = a + b
    assert tasks.leading_to([c.node], {x}) == {c.node, a.node}
    assert tasks.leading_to([c.node], {a.node}) == {c.node}
    assert set(tasks.reachable([c.node])) == {a.node, b.node, c.node, x, y}


def test_gradients_are_not_added_to_memory_that_several_elements_share():
    x = weft.zeros(2, requires_grad=True)
    x.grad = weft.ones(1).expand(2)
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        (x * weft.tensor([2.0, 5.0])).sum().backward()
    assert x.grad.tolist() == [1.0, 1.0] and x.grad._version == 0


@pytest.mark.parametrize("backend", [None, "aot_eager", "native"])
def test_gradients_of_expanded_leaves_have_memory_of_their_own(backend):
    def total(x):
        return x.sum()

    called = total if backend is None else weft.compile(total, backend=backend)
    for shape in ((7,), (3, 7)):
        leaf = weft.ones(1).expand(shape).requires_grad_()
        called(leaf).backward()
        assert leaf.grad.stride() == weft.ones(shape).stride()
        leaf.grad[(0,) * len(shape)] = 5
        assert leaf.grad.sum() == leaf.numel() + 4


@pytest.mark.parametrize("compiled", [False, True])
def test_gradients_for_a_shape_that_has_changed_by_data_are_refused(compiled):
    def total(w):
        return w.sum()

    call = weft.compile(total) if compiled else total
    for shape, text in (
        (
            (3, 2),
            r"The size of tensor a \(2\) must match the size of tensor b \(3\) at non-singleton dimension 1",
        ),
        (
            (6,),
            r"The size of tensor a \(6\) must match the size of tensor b \(3\) at non-singleton dimension 1",
        ),
        ((1, 3), r"output with shape \[1, 3\] doesn't match the broadcast shape \[2, 3\]"),
    ):
        w = weft.ones(2, 3, requires_grad=True)
        loss = call(w)
        w.data = weft.ones(shape)
        with pytest.raises(RuntimeError, match=text):
            loss.backward()


def test_gradients_of_another_shape_are_not_added_to_what_is_there():
    w = weft.ones(2, 3, requires_grad=True)
    w.sum().backward()
    loss = w.sum()
    w.data = weft.ones(1, 3)
    w.grad = weft.ones(1, 3)
    with pytest.raises(RuntimeError, match=r"output with shape \[1, 3\] doesn't match the broadcast shape"):
        loss.backward()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_fork_while_another_thread_accumulates():
    """The child must not wait for a thread that is not there."""
    held, done = threading.Event(), threading.Event()

    def hold():
        with tasks._accumulation:
            held.set()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    w = weft.ones(3, requires_grad=True)
    child = os.fork()
    if not child:
        signal.alarm(10)
        w.sum().backward()
        os._exit(w.grad.tolist() != [1, 1, 1])
    done.set()
    thread.join()
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize("before", [None, [5.0, 5.0]])
def test_a_backward_that_comes_between_the_lines_of_another(before):
    """As a handler of signals may run one: nobody waits for himself, and each gradient is added."""
    count = 0
    w = weft.ones(2, requires_grad=True)
    for point in range(1, 40):
        w.grad = None if before is None else weft.tensor(before)
        count = 0

        def profile(frame, event, _value, point=point):
            nonlocal count
            if frame.f_code is tasks.accumulate.__code__ and event != "c_call":
                count += 1
                if count == point:
                    sys.setprofile(None)
                    with weft.enable_grad():
                        (w * 10).sum().backward()

        sys.setprofile(profile)
        try:
            w.sum().backward()
        finally:
            sys.setprofile(None)
        if count < point:
            break
        assert w.grad.tolist() == [11 if before is None else 16] * 2
    assert point > 3


class Late(RuntimeError):
    """What a handler of signals raises."""


def test_an_interrupt_behind_a_sum_does_not_add_twice():
    """Its class may be one that the sum itself could raise."""

    def handle(_number, _frame):
        raise Late

    def profile(frame, event, value):
        if event == "c_return" and frame.f_code is tasks.accumulate.__code__ and value is tasks.run_quietly:
            sys.setprofile(None)
            signal.raise_signal(signal.SIGUSR1)

    w = weft.ones(2, requires_grad=True)
    w.sum().backward()
    loss, handler = w.sum(), signal.signal(signal.SIGUSR1, handle)
    try:
        with pytest.raises(Late):
            sys.setprofile(profile)
            loss.backward()
    finally:
        sys.setprofile(None)
        signal.signal(signal.SIGUSR1, handler)
    assert w.grad.tolist() == [2, 2]


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="no signals")
def test_an_interrupt_waits_for_a_run_in_another_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who catches it finds gradients that change no more."""

    class Late(Exception):
        pass

    def handle(_number: int, _frame: Any) -> None:
        raise Late

    ended: list[str] = []

    def slowly(_gradient: weft.Tensor) -> None:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)
        sleep(0.05)
        ended.append(threading.current_thread().name)

    def hooked(hook: Callable[[weft.Tensor], None]) -> weft.Tensor:
        y = weft.ones(2, requires_grad=True) * 2
        y.register_hook(hook)
        return y.sum()

    inner = hooked(slowly)
    monkeypatch.setattr(tasks, "LEVELS", 1)
    before = signal.signal(signal.SIGUSR1, handle)
    try:
        with pytest.raises(Late):
            hooked(lambda _gradient: inner.backward()).backward()
        assert ended == ["weft nested backward"]
    finally:
        signal.signal(signal.SIGUSR1, before)
