"""Generators are stopped at every yield and rebuilt: what is done with them afterwards must not differ."""

from __future__ import annotations

import contextlib
import ctypes
import sys
from collections.abc import Callable
from types import FrameType, coroutine
from typing import Any

import pytest

from tests.capture.bytecode.corpus import EFFECTS, Manager, fail, handled, log
from tests.capture.bytecode.snapshots import Snapshot, describe, in_new_thread, take
from weft.capture.bytecode.generators import rebuild_generator, suspended_code
from weft.capture.bytecode.instructions import decode
from weft.capture.bytecode.resume import CannotResume, StackKind

EXCEPTION_STATE = 48 if sys.version_info < (3, 12) else 40  # in a generator object, on 64 bits


def plain(n, k):
    total = 0
    for i in range(n):
        x = yield (i, total)
        total += k + (x or 0)
    return total


def caught(n):
    for i in range(n):
        try:
            x = yield log(i)
        except ValueError as error:
            log((str(error), handled()))
            x = yield "caught"
            log(handled())
        finally:
            log("finally")
        log(x)


def cleaned():
    with Manager() as name:
        try:
            yield name
            yield log("second")
        finally:
            log(("cleaned", handled()))


def delegating(n):
    result = yield from plain(n, 1)
    log(("result", result))
    again = yield from [1, 2]
    return result, again


def delegating_inside_try(n):
    try:
        yield from caught(n)
    except KeyError as error:
        log((repr(error), repr(error.__context__)))
        yield handled()
        raise RuntimeError("from handler")  # noqa: B904
    finally:
        log("outer")


def in_expression(a):
    return log((yield a, (yield a + 1), 0)), (yield (yield "nested"))


def with_call_in_progress(values):
    return max((yield "first"), *values, key=(yield "key")), f"{(yield 1)!r:>{(yield 2)}}"


def nested_handlers():
    try:
        fail("one")
    except ValueError:
        try:
            fail("two", KeyError)
        except KeyError:
            log(handled())
            yield "inside two"
            log(handled())
        yield "inside one"
        log(handled())
        raise
    finally:
        log(("last", handled()))


def closing():
    count = 0

    def step():
        nonlocal count
        count += 1
        return count

    while True:
        yield step()
        del_me = step()
        yield del_me
        del del_me


def stops():
    yield 1
    raise StopIteration("inside")


def as_expression(values):
    return (log(value) for value in values if value != 2)


@coroutine
def switch(value):
    return (yield value)


async def awaiting(value):
    first = await switch(log(value))
    try:
        second = await switch(first)
    except KeyError:
        second = await switch("caught")
    return first, second


class Base:
    def values(self):
        yield 1
        yield 2


class Derived(Base):
    def values(self):
        yield from super().values()
        yield lambda: self
        yield list(super().values())


Action = tuple[str, Any]
NEXT: Action = ("send", None)
CLOSE: Action = ("close", None)


def throw(kind: type[BaseException]) -> Action:
    return ("throw", kind)


SCRIPTS: list[tuple[Callable[..., Any], tuple[Any, ...], list[Action]]] = [
    (plain, (3, 10), [NEXT, ("send", 5), NEXT, NEXT]),
    (plain, (3, 10), [NEXT, ("send", 5), throw(ValueError), NEXT]),
    (plain, (3, 10), [NEXT, CLOSE, NEXT]),
    (caught, (3,), [NEXT, throw(ValueError), NEXT, NEXT, throw(KeyError), NEXT]),
    (caught, (3,), [NEXT, throw(ValueError), CLOSE]),
    (caught, (2,), [NEXT, throw(ValueError), throw(TypeError)]),
    (cleaned, (), [NEXT, NEXT, NEXT]),
    (cleaned, (), [NEXT, NEXT, throw(ValueError)]),
    (cleaned, (), [NEXT, CLOSE]),
    (delegating, (2,), [NEXT, ("send", 3), NEXT, NEXT, NEXT]),
    (delegating, (2,), [NEXT, throw(ValueError)]),
    (delegating, (2,), [NEXT, CLOSE]),
    (delegating_inside_try, (2,), [NEXT, throw(ValueError), NEXT, throw(KeyError), NEXT]),
    (delegating_inside_try, (2,), [NEXT, throw(KeyError), throw(TypeError)]),
    (delegating_inside_try, (1,), [NEXT, NEXT]),
    (in_expression, (1,), [NEXT, ("send", "a"), ("send", "b"), ("send", "c"), ("send", "d"), NEXT]),
    (with_call_in_progress, ([3],), [NEXT, ("send", 9), ("send", abs), ("send", "x"), ("send", 8)]),
    (nested_handlers, (), [NEXT, NEXT, NEXT]),
    (nested_handlers, (), [NEXT, throw(TypeError)]),
    (nested_handlers, (), [NEXT, NEXT, throw(TypeError)]),
    (nested_handlers, (), [NEXT, NEXT, CLOSE]),
    (closing, (), [NEXT, NEXT, NEXT, NEXT, CLOSE]),
    (stops, (), [NEXT, NEXT]),
    (as_expression, ([1, 2, 3],), [NEXT, NEXT, NEXT]),
    (awaiting, (1,), [NEXT, ("send", 2), ("send", 3)]),
    (awaiting, (1,), [NEXT, ("send", 2), throw(KeyError), ("send", 4)]),
    (awaiting, (1,), [NEXT, throw(KeyError)]),
    (awaiting, (1,), [NEXT, ("send", 2), CLOSE]),
    (Derived.values, (Derived(),), [NEXT, NEXT, NEXT, NEXT, NEXT]),
]


def act(generator: Any, action: Action) -> Any:
    """What one action gives, as something that can be compared."""
    name, value = action
    try:
        if name == "send":
            result = generator.send(value)
            return "lambda" if callable(result) else result
        return generator.throw(value("thrown")) if name == "throw" else generator.close()
    except BaseException as error:
        return describe(error)


def parts_of(generator: Any) -> tuple[FrameType | None, Any]:
    if hasattr(generator, "gi_frame"):
        return generator.gi_frame, generator.gi_yieldfrom
    return generator.cr_frame, generator.cr_await


def snapshot(generator: Any) -> Snapshot | None:
    """The canonical state of a suspended generator, None if it has ended or not started."""
    frame, _ = parts_of(generator)
    if frame is None or frame.f_lasti < 0:
        return None
    instructions = decode(frame.f_code).instructions
    at = [each for each in instructions if each.offset in (frame.f_lasti, frame.f_lasti - 2)]
    found = next((each for each in at if each.op == "YIELD_VALUE"), None)
    if found is None:
        return None
    place = id(generator) + EXCEPTION_STATE
    pointer = ctypes.c_void_p.from_address(place).value
    current = ctypes.py_object.from_address(place).value if pointer else None
    taken = take(frame, found.index, current, suspended=True)
    taken.index += 1
    return taken


def rebuilt(generator: Any) -> Any:
    taken = snapshot(generator)
    if taken is None:
        return None
    point = suspended_code(taken.code, taken.index, tuple(taken.kinds), taken.bound)
    *arguments, _ = point.parameters
    taken.stack.append(None)
    values = tuple(taken.arguments(point)[:-1])
    frame, _ = parts_of(generator)
    closure = taken.closure(point) or ()
    return rebuild_generator(
        point, frame.f_globals, closure, values, generator.__name__, generator.__qualname__
    )


def facts(generator: Any) -> tuple[Any, ...]:
    frame, delegate = parts_of(generator)
    return generator.__name__, generator.__qualname__, frame and frame.f_lineno, delegate


def play(function: Callable[..., Any], arguments: tuple[Any, ...], script: list[Action], stop: int) -> Any:
    """The results of a script; before action number `stop` the generator is exchanged for a rebuilt one."""
    EFFECTS.clear()
    generator = function(*arguments)
    first = generator
    results: list[Any] = []
    for number, action in enumerate(script):
        if number == stop:
            made = rebuilt(generator)
            if made is not None:
                assert facts(made) == facts(generator)
                generator = made
        results.append(act(generator, action))
    effects = list(map(repr, EFFECTS))
    for each in (first, generator):  # else they would be closed later, with effects
        with contextlib.suppress(BaseException):
            each.close()
    return results, effects


@pytest.mark.parametrize("number", range(len(SCRIPTS)), ids=lambda number: SCRIPTS[number][0].__name__)
def test_rebuilt_generators_go_on_as_the_original(number: int) -> None:
    script = SCRIPTS[number]
    expected = in_new_thread(lambda: play(*script, stop=-1))
    for stop in range(1, len(script[2])):
        assert in_new_thread(lambda stop=stop: play(*script, stop=stop)) == expected, stop


def test_most_scripts_are_rebuilt() -> None:
    generator = plain(2, 1)
    assert rebuilt(generator) is None
    next(generator)
    assert rebuilt(generator) is not None


def test_traceback_of_a_rebuilt_generator_has_the_same_lines() -> None:
    lines = []
    for exchange in (False, True):
        generator = nested_handlers()
        next(generator)
        generator = rebuilt(generator) if exchange else generator
        with pytest.raises(TypeError) as caught_error:
            generator.throw(TypeError("thrown"))
        trace = caught_error.value.__traceback__.tb_next
        lines.append([])
        while trace is not None:
            lines[-1].append((trace.tb_frame.f_code.co_name, trace.tb_lineno))
            trace = trace.tb_next
        assert type(caught_error.value.__context__) is KeyError
        assert type(caught_error.value.__context__.__context__) is ValueError
    assert lines[0] == lines[1]


def test_what_is_not_suspended_is_refused() -> None:
    async def agen():
        yield 1

    with pytest.raises(CannotResume, match="neither a generator"):
        suspended_code(agen.__code__, 1)
    with pytest.raises(CannotResume, match="neither a generator"):
        suspended_code(snapshot.__code__, 1)
    with pytest.raises(CannotResume, match="does not follow a yield"):
        suspended_code(plain.__code__, 1, (), frozenset({"n", "k"}))
    with pytest.raises(CannotResume, match="has 2 values"):
        index = next(each.index for each in decode(plain.__code__).instructions if each.op == "YIELD_VALUE")
        suspended_code(plain.__code__, index + 1, (StackKind.VALUE,) * 2, frozenset())
