"""Liveness: what a function may still read."""

from __future__ import annotations

import sys

from weft.capture.bytecode.instructions import decode
from weft.capture.liveness import live_before


def live_at_call(function, name="stop"):
    """The locals that are live right after `stop` has been called."""
    instructions = decode(function.__code__).instructions
    at = next(each.index for each in instructions if each.op == "LOAD_GLOBAL" and each.arg == name)
    after = next(each.index for each in instructions[at:] if each.op == "CALL") + 1
    return set(live_before(function.__code__)[after])


def stop():
    pass


def test_dead_and_live():
    def f(a, b, c):
        d = a + b
        stop()
        e = d + c
        c = e
        return c

    assert live_at_call(f) == {"c", "d"}


def test_loops_come_back():
    def f(n):
        total = 0
        unused = 5
        for i in range(n):
            stop()
            total += i
        del unused
        return total

    assert live_at_call(f) == {"total", "i", "unused"}


def test_handlers_read_too():
    def f(a, b, c):
        try:
            stop()
            b = 1
        except ValueError:
            return a
        finally:
            c()
        return b

    assert live_at_call(f) == {"a", "c"}


def test_a_local_that_is_written_again_may_be_read_by_a_handler():
    def f(a):
        b = 1
        try:
            stop()
            b = a
        finally:
            print(b)

    assert live_at_call(f) == {"a", "b"}


def test_functions_that_show_frames_keep_everything():
    def f(a, b):
        stop()
        return locals()

    def g(a, b):
        stop()
        return sys._getframe()

    assert live_at_call(f) == live_at_call(g) == {"a", "b"}


def test_super_needs_the_first_argument():
    class Child:
        def f(self, b):
            stop()
            return super().__init__()

        def g(self, b):
            stop()
            return __class__

        def h(self, b):
            stop()

    assert live_at_call(Child.f) == live_at_call(Child.g) == {"self"}
    assert live_at_call(Child.h) == set()
