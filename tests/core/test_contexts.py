"""Blocks that set context variables, however they are left."""

from __future__ import annotations

import ast
import gc
import re
import signal
import sys
import threading
from collections.abc import Iterator
from contextvars import ContextVar, copy_context
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import weft
from weft.aot.runtime import around
from weft.autograd import mapping
from weft.core import contexts, generator, handlers, warn
from weft.core.contexts import Block, set_to
from weft.trace.fake import hollowly

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
    """Calls it; a handler raises at the point-th event in lines of blocks, and around them."""
    left = [point]

    def profile(frame: Any, event: str, _value: Any) -> None:
        if event in ("call", "c_return") and frame.f_code.co_filename in (contexts.__file__, __file__):
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
    """Values are what they were, while the exception is still there."""
    nested()
    for point in range(1, 100):
        error = interrupted(nested, point)
        assert (first.get(), second.get()) == (0, 0), point
        if error is None:
            break
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


def test_what_a_block_does_at_last_is_done_where_entering_fails() -> None:
    done: list[int] = []

    def fails() -> None:
        raise Late

    with pytest.raises(Late), Block([lambda: done.append(1), fails, lambda: done.append(2)], [done.clear]):
        pytest.fail("entered")
    assert done == []
    with Block([lambda: done.append(1)], [lambda: done.append(2)], given="this") as given:
        assert given == "this"
    assert done == [1, 2]


def test_blocks_neither_swallow_errors_nor_take_back_twice() -> None:
    with pytest.raises(ZeroDivisionError), set_to((first, 1)) as given:
        assert given is None
        raise ZeroDivisionError
    block = set_to((first, 1))
    with block:
        pass
    with set_to((first, 3)):
        del block
        gc.collect()
        assert first.get() == 3


SETTING = re.compile(
    r"\b(set_to|modes\.enter\w*|modes\.leave|\w*state\.(re)?set|put_grad|\w+_grad(_enabled)?|\w+_mode)\("
)
"""What sets context variables, in the words of the package."""
FINE = {
    ("optim/lbfgs.py", "_descend"),  # a mode around a line of its own
    ("tensor/stubs.py", "_results"),  # a program of its own
}


def yields(function: ast.AST) -> bool:
    """Whether it is a generator: functions inside of it do not count."""
    inner = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
    children = [each for each in ast.iter_child_nodes(function) if not isinstance(each, inner)]
    return any(isinstance(each, (ast.Yield, ast.YieldFrom)) or yields(each) for each in children)


def test_no_generator_sets_context_variables() -> None:
    """See Note [Finalizers set no context variables]."""
    found = set()
    package = Path(weft.__file__).parent
    for file in package.rglob("*.py"):
        place, text = file.relative_to(package).as_posix(), file.read_text()
        if "yield" not in text or place.startswith("compat/torch_internals"):
            continue
        for each in ast.walk(ast.parse(text)):
            if isinstance(each, ast.FunctionDef) and yields(each):
                body = "\n".join(map(ast.unparse, each.body))
                if SETTING.search(body):
                    found.add((place, each.name))
    assert found == FINE


BLOCKS = {
    "variables": lambda: set_to((first, 1)),
    "draws": generator.noted,
    "draws apart": generator.apart,
    "warnings": lambda: warn.heard(lambda _text: True),
    "fakes": hollowly,
    "levels": lambda: mapping.entered(None),
    "modes": lambda: around.entered(around.PLAIN_MODES[False]),
    "handlers": handlers.handlers_outside,
    "hooks": lambda: weft.autograd.graph.disable_saved_tensors_hooks("not here"),
}


@pytest.mark.parametrize("make", BLOCKS.values(), ids=BLOCKS)
def test_the_collector_leaves_no_block(make: Any) -> None:
    """What an interrupt left may be collected while a variable is set: Note [Finalizers set no context
    variables].
    """

    def collected_while_set(late: int) -> None:
        block = make()
        block.__enter__()
        garbage = [block]
        garbage.append(garbage)  # type: ignore[arg-type]
        before = {variable: value for variable, value in copy_context().items() if variable is not second}
        del block, garbage
        gc.set_threshold(gc.get_count()[0] + late, 1000, 1000)
        second.set(late)
        gc.set_threshold(*thresholds)
        gc.collect()
        assert second.get() == late
        assert {one: value for one, value in copy_context().items() if one is not second} == before

    thresholds = gc.get_threshold()
    try:
        for late in range(1, 12):
            copy_context().run(collected_while_set, late)
    finally:
        gc.set_threshold(*thresholds)


def test_blocks_take_no_stop_iteration_for_the_end_of_their_actions() -> None:
    done: list[str] = []

    def stops() -> None:
        raise StopIteration("here")

    with pytest.raises(StopIteration), Block([stops], [partial(done.append, "left")]):
        pytest.fail("entered")
    with pytest.raises(StopIteration), Block([], [partial(done.append, "left")], last=stops):
        done.append("inside")
    assert done == ["left", "inside", "left"]
    with Block([], [partial(done.append, "first"), int], last=partial(done.append, "last")):
        done.clear()
    assert done == ["first", "last"]
