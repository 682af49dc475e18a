"""Context managers in captured code: contextlib's and users' own, around exceptions and breaks."""

# ruff: noqa: SIM117

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import weft
from tests.capture.features.harness import check, tensor
from weft.trace.recorder import _set_grad_enabled

LOG: list[Any] = []


def logged(function: Any, *calls: Any, **options: Any) -> None:
    check(function, *calls, state=LOG.clear, watch=lambda: list(LOG), **options)


class Manager:
    def __init__(self, name: str, swallow: Any = False) -> None:
        self.name, self.swallow = name, swallow

    def __enter__(self) -> Any:
        LOG.append("enter " + self.name)
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> Any:
        LOG.append(("exit " + self.name, None if kind is None else kind.__name__, str(error), trace is None))
        return self.swallow


@contextlib.contextmanager
def managed(name: str) -> Iterator[Any]:
    LOG.append("enter " + name)
    try:
        yield len(name)
    except ValueError as error:
        LOG.append("swallowed " + str(error))
    finally:
        LOG.append("exit " + name)


def test_with_a_manager_of_the_user() -> None:
    def f(x: Any) -> Any:
        with Manager("a") as m, Manager("b"):
            LOG.append(m.name)
            x = x + 1
        return x * 2

    logged(f)


def test_with_returns_from_inside() -> None:
    def f(x: Any) -> Any:
        with Manager("a"):
            with Manager("b"):
                return x + 1

    logged(f)


def test_with_break_and_continue_in_loops() -> None:
    def f(x: Any) -> Any:
        for n in range(4):
            with Manager(str(n)):
                if n == 1:
                    continue
                if n == 3:
                    break
                x = x + n
        return x

    logged(f)


def test_exit_swallows() -> None:
    def f(x: Any) -> Any:
        with Manager("a", swallow=True):
            x = x + 1
            raise ValueError("gone")
        return x * 2

    logged(f)


def test_exit_swallows_by_truth_of_an_object() -> None:
    def f(x: Any) -> Any:
        with Manager("a", swallow=[1]):
            raise KeyError("k")
        return x * 2

    logged(f)


def test_exit_lets_through() -> None:
    def f(x: Any) -> Any:
        try:
            with Manager("a"), Manager("b", swallow=0):
                x = x + 1
                raise ValueError("through")
        except ValueError as error:
            return x * 2, str(error)

    logged(f)


def test_exit_replaces_the_exception() -> None:
    class Replacing:
        def __enter__(self) -> None:
            pass

        def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
            raise KeyError("other") from error

    def f(x: Any) -> Any:
        try:
            with Replacing():
                raise ValueError("first")
        except KeyError as error:
            return x + 1, error.args, str(error.__cause__), str(error.__context__)

    check(f)


def test_exit_fails_after_success() -> None:
    class Failing:
        def __enter__(self) -> Any:
            return 3

        def __exit__(self, *_: Any) -> None:
            raise RuntimeError("late")

    def f(x: Any) -> Any:
        try:
            with Failing() as n:
                x = x + n
        except RuntimeError as error:
            return x, error.args

    check(f)


def test_enter_fails() -> None:
    class Failing(Manager):
        def __enter__(self) -> Any:
            raise RuntimeError("early")

    def f(x: Any) -> Any:
        try:
            with Manager("a"), Failing("b"):
                x = x + 1
        except RuntimeError:
            LOG.append("caught")
        return x * 3

    logged(f)


def test_not_a_manager() -> None:
    def f(x: Any) -> Any:
        try:
            with x.shape:
                pass
        except TypeError as error:
            return x + 1, str(error)

    check(f)


def test_managers_on_arguments() -> None:
    class Owner:
        def __init__(self) -> None:
            self.depth = 0

        def __enter__(self) -> int:
            self.depth += 1
            return self.depth

        def __exit__(self, *_: Any) -> None:
            self.depth -= 1
            self.last = "left"

    def f(x: Any, owner: Owner) -> Any:
        with owner as outer, owner as inner:
            x = x * outer + inner
        return x, owner.depth

    check(f, lambda: (tensor(), Owner()))


def test_contextmanager_function() -> None:
    def f(x: Any) -> Any:
        with managed("abc") as n:
            x = x * n
        return x + 1

    logged(f)


def test_contextmanager_swallows() -> None:
    def f(x: Any) -> Any:
        with managed("abc"):
            raise ValueError("inside")
        return x + 1

    logged(f)


def test_contextmanager_lets_through() -> None:
    def f(x: Any) -> Any:
        try:
            with managed("abc"):
                raise KeyError("inside")
        except KeyError as error:
            return x + 1, error.args

    logged(f)


def test_contextmanager_as_a_decorator() -> None:
    @managed("deco")
    def inner(x: Any) -> Any:
        LOG.append("inner")
        return x + 1

    logged(lambda x: inner(x) * 2)


def test_contextmanager_with_arguments_and_state() -> None:
    class Scope:
        def __init__(self) -> None:
            self.stack: list[str] = ["root"]

        @contextlib.contextmanager
        def enter(self, name: str) -> Iterator[str]:
            self.stack.append(name)
            try:
                yield "/".join(self.stack)
            finally:
                self.stack.pop()

    def f(x: Any, scope: Scope) -> Any:
        with scope.enter("a"), scope.enter("b") as path:
            x = x + len(path)
        return x, path, list(scope.stack)

    check(f, lambda: (tensor(), Scope()))


def test_exit_stack() -> None:
    def f(x: Any) -> Any:
        with contextlib.ExitStack() as stack:
            for name in "ab":
                stack.enter_context(Manager(name))
            stack.callback(lambda word: LOG.append(word), "callback")
            x = x + 1
        return x

    logged(f)


def test_exit_stack_with_exceptions() -> None:
    def f(x: Any) -> Any:
        with contextlib.ExitStack() as stack:
            stack.enter_context(Manager("outer", swallow=True))
            stack.push(lambda kind, error, trace: LOG.append(kind.__name__))
            raise ValueError("v")
        return x + 1

    logged(f)


def test_exit_stack_pop_all() -> None:
    def f(x: Any) -> Any:
        with contextlib.ExitStack() as stack:
            stack.enter_context(Manager("kept"))
            kept = stack.pop_all()
        LOG.append("between")
        kept.close()
        return x + 1

    logged(f)


def test_suppress() -> None:
    def f(x: Any) -> Any:
        with contextlib.suppress(KeyError, ValueError):
            x = x + 1
            {}["missing"]
            x = x * 100
        return x * 2

    check(f)


def test_suppress_other_exceptions() -> None:
    def f(x: Any) -> Any:
        try:
            with contextlib.suppress(KeyError):
                raise ValueError("v")
        except ValueError:
            return x + 1

    check(f)


def test_closing_and_nullcontext() -> None:
    class Thing:
        def __init__(self, value: Any) -> None:
            self.value = value
            self.closed = False

        def close(self) -> None:
            self.closed = True

    def f(x: Any, thing: Thing) -> Any:
        with contextlib.closing(thing) as t, contextlib.nullcontext(3) as n, contextlib.nullcontext():
            x = x * n + t.value
        return x, thing.closed

    check(f, lambda: (tensor(), Thing(2.0)))


def test_abstract_context_manager_subclass() -> None:
    class Own(contextlib.AbstractContextManager):
        def __exit__(self, *_: Any) -> None:
            LOG.append("exit")

    def f(x: Any) -> Any:
        with Own() as own:
            x = x + 1
        return x, type(own)

    logged(f)


def test_context_decorator() -> None:
    class Own(contextlib.ContextDecorator):
        def __enter__(self) -> Any:
            LOG.append("in")
            return self

        def __exit__(self, *_: Any) -> None:
            LOG.append("out")

    @Own()
    def inner(x: Any) -> Any:
        return x + 1

    logged(lambda x: inner(x))


def test_no_grad_as_context_and_decorator() -> None:
    @weft.no_grad()
    def inner(x: Any) -> Any:
        return x * 2

    def f(x: Any) -> Any:
        with weft.no_grad():
            a = x * 3
            with weft.enable_grad():
                b = x * 4
        return a, b, inner(x), x * 5

    check(f, lambda: (tensor().requires_grad_(),))


def test_break_inside_a_with_block() -> None:
    def f(x: Any) -> Any:
        with Manager("a") as m:
            x = x + 1
            print("break")
            x = x * 2
            LOG.append(m.name)
        return x - 1

    logged(f, frames=2, breaks=1)


def test_break_inside_nested_with_blocks() -> None:
    def f(x: Any) -> Any:
        with Manager("a"), Manager("b", swallow=True):
            x = x + 1
            with Manager("c") as m:
                print("break")
                x = x * len(m.name)
                raise KeyError("after the break")
        return x - 1

    logged(f, frames=2, breaks=1)


def test_break_then_an_exception_thrown_into_a_generator() -> None:
    def f(x: Any) -> Any:
        with managed("abc") as n:
            x = x + n
            print("break")  # the generator is a real one from here
            x = x * 2
            raise ValueError("after the break")
        return x - 1

    logged(f, frames=3, breaks=3)


def test_break_in_enter_and_exit() -> None:
    class Printing(Manager):
        def __enter__(self) -> Any:
            print("enter")
            return super().__enter__()

        def __exit__(self, *details: Any) -> Any:
            print("exit")
            return super().__exit__(*details)

    def f(x: Any) -> Any:
        x = x + 1
        with Printing("a"):
            x = x * 2
        return x - 3

    logged(f, frames=3, breaks=4)


def test_break_inside_a_contextmanager_function() -> None:
    @contextlib.contextmanager
    def printing() -> Iterator[int]:
        print("before")
        yield 3
        print("after")

    def f(x: Any) -> Any:
        x = x + 1
        with printing() as n:
            x = x * n
        return x - 3

    check(f, frames=3, breaks=2)


def test_break_inside_no_grad() -> None:
    def f(x: Any) -> Any:
        with weft.no_grad():
            y = x * 3
            print("break")
            z = y + 1
        return z, x * 2, weft.is_grad_enabled()

    check(f, lambda: (tensor().requires_grad_(),), frames=2, breaks=1)


def test_break_then_swallowed_exception() -> None:
    def f(x: Any) -> Any:
        with contextlib.suppress(ValueError):
            x = x + 1
            print("break")
            x = x * 2
            raise ValueError
        return x - 1

    check(f, frames=2, breaks=1)


def test_uncaught_through_with() -> None:
    def f(x: Any) -> Any:
        with Manager("a"):
            y = x + 1
            raise ValueError("out", y.shape)

    logged(f, frames=0, raises=ValueError)


def test_context_managers_that_use_the_inner_switch() -> None:
    class Switched:
        def __init__(self, mode: bool) -> None:
            self.before, self.mode = weft.is_grad_enabled(), mode

        def __enter__(self) -> None:
            _set_grad_enabled(self.mode)

        def __exit__(self, *_error: object) -> None:
            _set_grad_enabled(self.before)

    def program(x: Any) -> Any:
        with Switched(False):
            y = x + 1
        with Switched(True):
            z = x * 2
        return y, z, weft.is_grad_enabled()

    x = weft.ones(2, requires_grad=True)
    y, z, enabled = weft.compile(program, fullgraph=True, backend="eager")(x)
    assert (y.requires_grad, z.requires_grad, enabled) == (False, True, True)
    assert weft.is_grad_enabled()
