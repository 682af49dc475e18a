"""Compiled parts and loops: the same as eager code, also for counts that leave a rest."""

# ruff: noqa: UP006, UP035
import time
from concurrent.futures import ThreadPoolExecutor
from typing import List

import pytest

import weft
from weft import Tensor
from weft.jit import executor
from weft.jit.hot import LoopFacts, Turns
from weft.jit.passes import inline


def recurrence(x, w, u):
    h = weft.zeros(x.size(1), 3)
    outs: List[Tensor] = []
    for t in range(x.size(0)):
        a, b = (x[t] @ w + h @ u).chunk(2, 1)
        h = weft.tanh(a) * weft.sigmoid(b) + h
        outs.append(h)
    return weft.stack(outs), h


def straight(x, w, u):
    y = (x[0] @ w).sin() * 2.0
    return y.sum(dim=0) + u[0], y


def by_data(x, w, u):
    y = x[0, 0].abs() + 1.0
    while (y * y - 2.0).abs().max() > 1e-3:
        y = y - (y * y - 2.0) / (2.0 * y)
    return y, w


@pytest.mark.parametrize("function, length", [(recurrence, 70), (recurrence, 1), (straight, 2), (by_data, 2)])
def test_compiled_parts_equal_eager(function, length):
    scripted = weft.jit.script(function)
    scripted.executor.compile()
    tensors = [
        weft.randn(length, 2, 4),
        weft.randn(4, 6, requires_grad=True),
        weft.randn(3, 6, requires_grad=True),
    ]
    for _ in range(2):
        found, expected = scripted(*tensors), function(*tensors)
        for one, two in zip(found, expected, strict=True):
            assert one.requires_grad == two.requires_grad
            weft.testing.assert_close(one.detach(), two.detach(), rtol=1e-4, atol=1e-5)
        if expected[0].requires_grad:
            wanted = tensors[1:]
            one = weft.autograd.grad(found[0].sum(), wanted, allow_unused=True)
            two = weft.autograd.grad(expected[0].sum(), wanted, allow_unused=True)
            for a, b in zip(one, two, strict=True):
                assert (a is None) == (b is None)
                if a is not None:
                    weft.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)
        with weft.no_grad():
            assert not scripted(*tensors)[0].requires_grad


def test_turns_leave_no_rest_where_they_can():
    scripted = weft.jit.script(recurrence)
    scripted.executor.compile()
    loop = inline(scripted.graph).findNode("prim::Loop")
    facts = LoopFacts(loop)
    assert facts.usable() and facts.windows == 1 and facts.lists == 1
    facts.inputs()
    turns = Turns(facts)
    assert turns.turns(5) == 5
    assert turns.many > 10 and 500 % turns.turns(500) == 0


def test_threads_that_come_first_at_once_take_the_same_turns(monkeypatch):
    """A thread takes the function that it asked, not one that another has put in its place since."""
    unrolled = LoopFacts.unrolled

    def slowly(self, turns):
        time.sleep(0.02 * turns)
        return unrolled(self, turns)

    monkeypatch.setattr(LoopFacts, "unrolled", slowly)
    scripted = weft.jit.script(recurrence)
    tensors = [weft.ones(5, 2, 4), weft.ones(4, 6), weft.ones(3, 6)]
    expected = recurrence(*tensors)[0]
    scripted.executor.compile()

    def call(turn):
        time.sleep(0.01 * turn)
        return scripted(*tensors)[0]

    with ThreadPoolExecutor(8) as threads:
        for found in threads.map(call, range(8)):
            weft.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_an_interrupt_while_compiling_is_no_answer(monkeypatch):
    """A call that is interrupted there leaves it to a later one."""

    class Interrupt(BaseException):
        pass

    def interrupted(graph):
        raise Interrupt

    def line(x, w, u):  # a function of its own: what was scripted before may be compiled already
        y = (x[0] @ w).sin() * 2.0
        return y.sum(dim=0) + u[0], y

    scripted = weft.jit.script(line)
    tensors = [weft.ones(2, 2, 4), weft.ones(4, 6), weft.ones(3, 6)]
    expected = scripted(*tensors)[0]
    with monkeypatch.context() as patched, pytest.raises(Interrupt):
        patched.setattr(executor, "with_compiled_parts", interrupted)
        scripted(*tensors)
    weft.testing.assert_close(scripted(*tensors)[0], expected, rtol=1e-4, atol=1e-5)
    assert scripted.executor.hot is not None


@pytest.fixture
def made(monkeypatch):
    """Counts the programs that are made; all of them are, whatever is on disk."""
    from weft.native.backend import Compiled

    count = [0]
    program = Compiled.program

    def counted(self, arrays):
        count[0] += 1
        return program(self, arrays)

    monkeypatch.setattr(Compiled, "program", counted)
    return count


def losses(scripted, length, w, u):
    found = scripted(weft.linspace(-1, 1, length * 8).reshape(length, 2, 4), w, u)[0]
    found.sum().backward()
    return found.detach()


def test_code_is_compiled_in_the_second_call_and_for_few_lengths(made):
    w, u = weft.randn(4, 6, requires_grad=True), weft.randn(3, 6, requires_grad=True)

    def states(x, w, u):
        h = weft.zeros(x.size(1), 3)
        outs: List[Tensor] = []
        for t in range(x.size(0)):
            a, b = (x[t] @ w + h @ u).chunk(2, 1)
            h = weft.tanh(a) * weft.sigmoid(b) + h
            outs.append(h)
        return weft.stack(outs), h

    scripted = weft.jit.script(states)
    compiled = []
    for length in (4, 4, 4, 2, 3, 2, 7, 5, 4, 9, 6, 7, 1, 31):
        before = made[0]
        found = losses(scripted, length, w, u)
        compiled.append(made[0] > before)
        expected = recurrence(weft.linspace(-1, 1, length * 8).reshape(length, 2, 4), w, u)[0]
        weft.testing.assert_close(found, expected.detach(), rtol=1e-4, atol=1e-5)
    assert compiled == [False, True, False, True, True] + [False] * 9


def test_straight_code_is_compiled_for_few_shapes(made):
    def line(x, w, u):
        y = (x[0] @ w).sin() * 2.0
        return y.sum(dim=0) + u[0], y

    scripted = weft.jit.script(line)
    w = weft.ones(4, 6, requires_grad=True)
    counts = []
    for length in (2, 2, 2, 3, 4, 5, 6, 3, 7):
        scripted(weft.ones(1, length, 4), w, weft.ones(1, 6))
        counts.append(made[0])
    assert counts[0] == 0 and counts[1] == counts[2] > 0
    assert counts[4] == counts[-1]


def test_numbers_that_change_make_no_call_wait(made):
    def scaled(x, factor: float, shift: int):
        y = x * factor
        y = y.sin() + shift
        return (y * y).tanh()

    scripted = weft.jit.script(scaled)
    counts = []
    for number in range(12):
        scripted(weft.ones(3), number / 2, number)
        counts.append(made[0])
    assert counts[4:] == counts[4:5] * 8
