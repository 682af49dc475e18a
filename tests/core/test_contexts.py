"""Blocks that set context variables, however they are left."""

from __future__ import annotations

import contextlib
import gc
import signal
import sys
import threading
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

import pytest

import weft
from weft.core.contexts import set_to

first: ContextVar[int] = ContextVar("first", default=0)
second: ContextVar[int] = ContextVar("second", default=0)


class Late(Exception):
    pass


@pytest.fixture(autouse=True)
def handler() -> Iterator[None]:
    def handle(_number: int, _frame: Any) -> None:
        raise Late

    before = signal.signal(signal.SIGUSR1, handle)
    yield
    signal.signal(signal.SIGUSR1, before)


def interrupted(function: Any, point: int) -> Exception | None:
    """Calls it; a handler raises at the point-th event in lines of `contextlib`."""
    left = [point]

    def profile(frame: Any, event: str, _value: Any) -> None:
        if event in ("call", "c_return") and frame.f_code.co_filename == contextlib.__file__:
            left[0] -= 1
            if not left[0]:
                sys.setprofile(None)
                signal.raise_signal(signal.SIGUSR1)

    try:
        sys.setprofile(profile)
        function()
    except Late as error:
        return error
    finally:
        sys.setprofile(None)
    return None


def nested() -> None:
    with set_to((first, 1), (second, 1)):
        with set_to((first, 2)):
            with set_to((first, 0), (second, 5)):
                assert (first.get(), second.get()) == (0, 5)
            assert (first.get(), second.get()) == (2, 1)
        assert (first.get(), second.get()) == (1, 1)


def test_interrupts_as_blocks_are_entered_and_left() -> None:
    """Values are what they were, once the exception is let go of, and with it the blocks that it has left."""
    nested()
    for point in range(1, 100):
        error = interrupted(nested, point)
        if error is None:
            break
        del error
        assert (first.get(), second.get()) == (0, 0), point
    assert point > 10


def test_blocks_of_another_thread_take_nothing_back_here() -> None:
    found = []

    def there() -> None:
        block = set_to((first, 1))
        block.__enter__()
        found.append(block)

    thread = threading.Thread(target=there)
    thread.start()
    thread.join()
    with set_to((first, 2)):
        del found[0]
        gc.collect()
        assert first.get() == 2
    assert first.get() == 0


def test_interrupts_of_compiled_calls_leave_gradients_on() -> None:
    compiled = weft.compile(lambda x: (weft.nn.functional.dropout(x.sin(), 0.5) * x).sum())
    x = weft.arange(5.0).requires_grad_()

    def step() -> None:
        compiled(x).backward()

    for _ in range(3):
        step()
    for point in range(1, 200):
        error = interrupted(step, point)
        done, error = error is None, None
        assert weft.is_grad_enabled() and compiled(x).requires_grad, point
        if done:
            break
