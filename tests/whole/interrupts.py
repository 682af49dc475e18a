"""Interrupts at drawn points of compiled calls: the exception of a signal's handler must come out of them.

Takes a seed and a number of points; gives what went wrong at each. One idea: signals are looked at where a
Python function begins and behind calls of C functions, which is where a profile function is called, too; so a
point is a number of such events in frames of the package, or of code that it made, and comes again. The call
is the first of a function, one that makes something for later calls, or one of many; with its backward.

    python -m tests.whole.interrupts --count 5000 --seed 1
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import inspect
import linecache
import random
import re
import signal
import sys
import threading
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from contextvars import copy_context
from dataclasses import dataclass
from functools import cache
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np

import weft
from weft.capture import regions
from weft.core import modes

PACKAGE = f"{Path(weft.__file__).parent}/"
MADE = "<weft", "<drawn", "weft-graph", contextlib.__file__
"""How files of code begin that is made while programs are compiled, and of the programs here; blocks of the
package are entered and left in lines of the last."""


ASKS = re.compile(r"\b(getattr|hasattr)\(")


class Timeout(Exception):
    """What a handler raises."""


class Stop(BaseException):
    """What another one raises."""


CLASSES: list[type[BaseException]] = [
    Timeout, Stop, TimeoutError, RuntimeError, ValueError, KeyError, AttributeError, TypeError, OSError,
    IndexError,
]  # fmt: skip


def is_asking(frame: Any) -> bool:
    """Whether somebody asks for an attribute and has another value ready, or the class has a `__getattr__`.
    Python itself takes what the code of the attribute raises for the answer."""
    while frame is not None:
        owner = type(frame.f_locals.get("self"))
        given = inspect.getattr_static(owner, frame.f_code.co_name, None)
        if isinstance(given, property) and hasattr(owner, "__getattr__"):
            return True
        file = frame.f_code.co_filename.replace("importlib_bootstrap/", "")
        if ASKS.search(linecache.getline(file, frame.f_lineno)):
            return True
        frame = frame.f_back
    return False


class Interrupter:
    """Raises a signal at one event. Where its exception cannot go out, as in a finaliser, it says so."""

    def __init__(self, point: int, kind: type[BaseException] = Timeout) -> None:
        self.point, self.seen, self.kind = point, 0, kind
        self.raised: BaseException | None = None
        self.place = ""
        self.dropped = False

    def __call__(self, frame: Any, event: str, _value: Any) -> None:
        if event not in ("call", "c_return") or not frame.f_code.co_filename.startswith((PACKAGE, *MADE)):
            return
        self.seen += 1
        if self.seen == self.point:
            sys.setprofile(None)
            self.dropped = self.kind is AttributeError and is_asking(frame)
            self.place = f"{event} {frame.f_code.co_filename}:{frame.f_lineno} {frame.f_code.co_qualname}"
            signal.raise_signal(signal.SIGUSR1)

    def handle(self, _number: int, _frame: Any) -> None:
        self.raised = self.kind(self.place)
        raise self.raised

    def drop(self, unraisable: Any) -> None:
        self.dropped = self.dropped or unraisable.exc_value is self.raised

    def __enter__(self) -> None:
        """Not by `contextlib`, which is struck, too, and would leave this to the collector."""
        self.before = signal.signal(signal.SIGUSR1, self.handle), sys.unraisablehook
        sys.unraisablehook = self.drop
        sys.setprofile(self)

    def __exit__(self, *_error: object) -> None:
        sys.setprofile(None)
        before, sys.unraisablehook = self.before
        signal.signal(signal.SIGUSR1, before)


TEXTS = [
    """
def f(x):
    y = (x * {number} / 1000).sin() + (x @ x.T) * 0.5
    return y.softmax(-1).sum(0) + x.std()
""",
    """
def f(x):
    log.append({number})
    z = x.clone()
    z += {number} / 1000
    return (z[1:].exp() * 0.1).mean()
""",
    """
def f(x):
    y = x.cos() * {number} / 1000
    print(end='')
    return y.var(0)
""",
    """
def f(x):
    parts = [functional.gelu(row) for row in x.unbind(0)]
    return functional.layer_norm(stack(parts), (4,))[:, {number} % 4]
""",
    """
def f(x):
    y = functional.dropout(x * {number} / 1000, 0.5)
    return y.cumsum(0).sort(0).values * held['scale']
""",
    """
def f(x):
    y = linalg.inv(x @ x.T + eye(4) * {number})
    return Doubled.apply(y).tanh().sum(-1)
""",
]
SCRIPTS = [
    """
def f(x):
    y = x * {number}
    for i in range(3):
        y = y.sin() + x / (i + 2)
    return y.sum(0)
""",
    """
def f(x):
    total = x.sum() * 0
    for row in x.unbind(0):
        if bool(row.sum() > {number} % 3):
            total = total + row.exp().mean()
    return total
""",
]
BLOCKS = [
    """
def f(x):
    with lock:
        print(end='')
        y = x.sin() * {number}
    return y.sum()
""",
    """
def f(x):
    with Noted(log), no_grad():
        print(end='')
        y = x.sin() * {number}
    return y.sum()
""",
    """
def f(x):
    log.append('entered')
    try:
        y = x.cos() * {number}
        for _ in range(2):
            if y.sum().item() > 1e30:
                break
            y = y.exp()
    finally:
        log.append('left')
    return y.sum()
""",
    """
def f(x):
    with lock:
        return (x * {number}).sum().item()
""",
]
"""Programs that break inside of blocks, which must be left whatever strikes."""


class Noted:
    def __init__(self, log: list[str]) -> None:
        self.log = log

    def __enter__(self) -> None:
        self.log.append("entered")

    def __exit__(self, *_error: object) -> None:
        self.log.append("left")


class Doubled(weft.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * 2 + x * 0


@dataclass(frozen=True)
class Case:
    """Which program is interrupted, in which of its calls."""

    text: str
    before: int
    """How many calls have gone well before."""

    @property
    def scripted(self) -> bool:
        return self.text in SCRIPTS

    @property
    def steady(self) -> bool:
        """Whether calls like this come again and again, and change nothing."""
        return self.before >= STEADY

    def made(self, number: int) -> tuple[Callable[..., Any], Callable[..., Any]]:
        """A function that no one has compiled before, as it is and compiled."""
        function = program(self.text, number)
        return function, weft.jit.script(function) if self.scripted else weft.compile(function)


STEADY = 5
CASES = [Case(text, before) for before in (0, 1, 2, STEADY) for text in TEXTS + SCRIPTS]
WEIGHTS = [3 if case.before == 0 else 1 for case in CASES]


def program(text: str, number: int) -> Callable[..., Any]:
    space: dict[str, Any] = {"log": [], "functional": weft.nn.functional, "stack": weft.stack}
    space |= {"linalg": weft.linalg, "eye": weft.eye, "Doubled": Doubled, "held": {"scale": 0.5}}
    space |= {"lock": threading.Lock(), "Noted": Noted, "no_grad": weft.no_grad}
    written, file = text.format(number=number), f"<drawn {number}>"
    linecache.cache[file] = (len(written), None, written.splitlines(keepends=True), file)
    exec(compile(written, file, "exec"), space)
    return space["f"]  # type: ignore[no-any-return]


def values(function: Callable[..., Any]) -> list[Any]:
    weft.manual_seed(1)
    x = (weft.arange(16.0).reshape(4, 4) / 16).requires_grad_()
    result = function(x)
    result.sum().backward()
    assert x.grad is not None
    return [result.detach().numpy(), x.grad.numpy()]


def differing(compiled: Callable[..., Any], function: Callable[..., Any]) -> bool:
    pairs = zip(values(compiled), values(function), strict=True)
    return any(abs(left - right).max() > 1e-5 * (1 + abs(right).max()) for left, right in pairs)


def state() -> tuple[Any, ...]:
    """What an interrupted compile must leave as it was."""
    switches = modes.current(), weft.compiler.is_compiling(), regions.active.get()
    collection = gc.isenabled(), gc.get_threshold()
    return (*switches, *collection, warnings.showwarning, warnings.filters[:1], np.geterr())


def prepared(case: Case, number: int) -> tuple[Callable[..., Any], Callable[..., Any]]:
    function, compiled = case.made(number)
    for _ in range(case.before):
        values(compiled)
    return function, compiled


@cache
def steady(case: Case) -> tuple[Callable[..., Any], Callable[..., Any]]:
    return prepared(case, 1)


@cache
def length(case: Case) -> int:
    """How many events the call has."""
    counter = Interrupter(-1)
    if case.scripted and not case.before:
        with counter:
            values(case.made(1)[1])
        return counter.seen
    _, compiled = steady(case) if case.steady else prepared(case, 1)
    with counter:
        values(compiled)
    return counter.seen


def let_locals_go(error: BaseException | None) -> None:
    """Has frames forget what they have let go of: before Python 3.13, whoever asked one for its locals
    (`is_asking`) made a dict of them that the frame keeps, and that changes when it is asked for again.
    """
    trace = None if error is None else error.__traceback__
    while trace is not None:
        trace.tb_frame.f_locals
        trace = trace.tb_next


def fault(case: Case, number: int, point: int, kind: type[BaseException] = Timeout) -> str | None:
    """What is wrong when a call is interrupted at this event."""
    interrupter, before = Interrupter(point, kind), state()
    function = compiled = None
    if case.before or not case.scripted:
        function, compiled = steady(case) if case.steady else prepared(case, number)
    caught: BaseException | None = None
    try:
        with interrupter:
            if compiled is None:
                function, compiled = case.made(number)
            values(compiled)
    except BaseException as error:
        caught = error
    let_locals_go(caught)
    dropped = interrupter.raised is None or interrupter.dropped
    if caught is not interrupter.raised and not dropped:
        return f"{caught!r} instead of {kind.__name__}, raised at {interrupter.place}"
    if interrupter.raised is None and caught is not None:
        return f"{caught!r}, and nothing was raised"
    caught = interrupter.raised = None
    if state() != before:
        return f"{state()} instead of {before} after {interrupter.place}"
    if function is None or compiled is None:
        function, compiled = case.made(number)
    pairs = [(compiled, function)]
    if number % 4 == 0:  # what others are compiled with is usable, too
        other, again = CASES[number // 4 % len(CASES)].made(number + 1)
        pairs.append((again, other))
    try:
        if any(differing(*pair) for pair in pairs):
            return f"other values after {interrupter.place}"
    except BaseException as error:
        text = "".join(traceback.format_exception(error)[-3:])
        return f"{type(error).__name__} after {kind.__name__} at {interrupter.place}:\n{text}"
    return None


def left_open(text: str, before: int, number: int, point: int, kind: type[BaseException] = Timeout) -> str:
    """What stays entered when a call is interrupted at this event; the number of events where nothing is."""
    function = program(text, number)
    space, compiled, x = function.__globals__, weft.compile(function), weft.arange(16.0).reshape(4, 4) / 16
    for _ in range(before):
        compiled(x)
    space["log"].clear()
    interrupter, earlier, caught = Interrupter(point, kind), state(), None
    try:
        with interrupter:
            compiled(x)
    except BaseException as error:
        caught = error
    let_locals_go(caught)
    if caught is not interrupter.raised and not interrupter.dropped:
        return f"{caught!r} instead of {kind.__name__}, raised at {interrupter.place}"
    caught = interrupter.raised = None
    log: list[str] = space["log"]
    if space["lock"].locked() or log.count("entered") != log.count("left") or state() != earlier:
        return f"lock {space['lock']}, log {log}, state {state()} after {interrupter.place}"
    return str(interrupter.seen)


def campaign(seed: int, count: int, cases: list[Case] = CASES, told: bool = False) -> list[str]:
    """The faults at drawn points. Points beyond the end of the work are met with nothing."""
    draw = random.Random(seed)
    weights = [WEIGHTS[CASES.index(case)] for case in cases]
    found, met = [], Counter[str]()
    for number in range(2, 2 + count):
        (case,), kind = draw.choices(cases, weights), draw.choice(CLASSES)
        point = draw.randint(1, length(case))
        met[f"{'scripted' if case.scripted else 'compiled'} call {case.before + 1}"] += 1
        bad = fault(case, number, point, kind)
        if bad is not None:
            steady.cache_clear()
            found.append(f"call {case.before + 1} of {case.text}: {bad}")
            if told:
                print(number, point, found[-1], flush=True)
        if told and number % 50 == 0:
            print(f"{number} points, {len(found)} faults; {dict(met)}", flush=True)
    if told:
        print(dict(met))
    return found


def rounds(case: Case, count: int) -> list[str]:
    """The faults at all events of a steady case, again and again, each time with other classes; and where
    context variables were lost."""
    assert fault(case, 1, -1) is None
    variables = {*copy_context()}
    for turn in range(count):
        classes = CLASSES[turn % 3 :] + CLASSES[: turn % 3]
        for point, kind in zip(range(1, length(case) + 1), cycle(classes)):
            bad = fault(case, 1, point, kind)
            if bad is None and {*copy_context()} != variables:
                bad = "other variables"
            if bad is not None:
                return [f"round {turn}, point {point}: {bad}"]
    return []


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--case", type=int, help="number of a steady case, for --rounds")
    parser.add_argument("--rounds", type=int, default=0)
    options = parser.parse_args()
    if options.rounds:
        found = rounds(CASES[options.case], options.rounds)
        print(*found, f"{len(found)} faults in {options.rounds} rounds", sep="\n")
        return
    found = campaign(options.seed, options.count, told=True)
    print(f"{len(found)} faults at {options.count} points")


if __name__ == "__main__":
    main()
