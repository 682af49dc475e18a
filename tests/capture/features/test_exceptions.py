"""Exceptions in captured code: raised, caught, chained, kept, crossing frames and breaks, and not caught."""

# ruff: noqa: B012, B016, B030, B904, PLE0643, PLE0704, RET503, SIM107, SIM115, SIM300

from __future__ import annotations

import sys
from typing import Any

import weft
from tests.capture.features.harness import check, tensor

LOG: list[Any] = []


def logged(function: Any, *calls: Any, **options: Any) -> None:
    check(function, *calls, state=LOG.clear, watch=lambda: list(LOG), **options)


class Problem(Exception):
    def __init__(self, code: int, *, hint: str = "none") -> None:
        super().__init__(f"problem {code}")
        self.code, self.hint = code, hint

    def __str__(self) -> str:
        return f"<{self.code}: {self.hint}>"


class Worse(Problem):
    pass


def fail(code: int) -> None:
    raise Problem(code, hint="inner")


def test_try_except_else_finally_without_an_exception() -> None:
    def f(x: Any) -> Any:
        try:
            x = x + 1
        except ValueError:
            LOG.append("except")
        else:
            LOG.append("else")
            x = x * 2
        finally:
            LOG.append("finally")
            x = x - 3
        return x

    logged(f)


def test_try_except_else_finally_with_an_exception() -> None:
    def f(x: Any) -> Any:
        try:
            x = x + 1
            raise ValueError("v")
        except ValueError as error:
            LOG.append(str(error))
            x = x * 3
        else:
            LOG.append("else")
        finally:
            LOG.append("finally")
            x = x - 3
        return x

    logged(f)


def test_handlers_in_order() -> None:
    def f(x: Any, kind: Any) -> Any:
        try:
            raise kind("e")
        except (KeyError, IndexError) as error:
            return x + 1, type(error)
        except LookupError:
            return x + 2
        except Exception as error:
            return x + 3, str(error)

    calls = [lambda kind=kind: (tensor(), kind) for kind in (KeyError, LookupError, ValueError)]
    check(f, *calls, frames=3)


def test_bare_except_and_base_exceptions() -> None:
    def f(x: Any) -> Any:
        for kind in (KeyboardInterrupt, SystemExit, GeneratorExit, Problem):
            try:
                raise kind(4)
            except:  # noqa: E722
                x = x + 1
        return x

    check(f)


def test_except_by_a_computed_class() -> None:
    caught = (ValueError, TypeError)

    def f(x: Any, kinds: Any) -> Any:
        try:
            try:
                int("a")
            except kinds:
                return x + 1
        except caught:
            return x + 2

    check(f, lambda: (tensor(), ValueError), lambda: (tensor(), KeyError), frames=2)


def test_catching_what_is_no_exception_class() -> None:
    def f(x: Any) -> Any:
        try:
            try:
                raise ValueError
            except 3:
                pass
        except TypeError as error:
            return x + 1, str(error)

    check(f)


def test_exception_name_is_unbound_after_the_handler() -> None:
    def f(x: Any) -> Any:
        error = 1
        try:
            raise ValueError
        except ValueError as error:  # noqa: F841
            pass
        try:
            return error
        except UnboundLocalError as unbound:
            return x + 1, str(unbound)

    check(f)


def test_finally_in_nestings() -> None:
    def f(x: Any) -> Any:
        for n in range(3):
            try:
                try:
                    if n == 1:
                        raise ValueError(n)
                    if n == 2:
                        return x * 10
                finally:
                    LOG.append(("inner", n))
                    x = x + n
            except ValueError:
                LOG.append("caught")
                continue
            finally:
                LOG.append(("outer", n))

    logged(f)


def test_finally_with_return_swallows() -> None:
    def f(x: Any) -> Any:
        try:
            raise ValueError
        finally:
            return x + 1

    check(f)


def test_finally_overrides_return() -> None:
    def f(x: Any) -> Any:
        try:
            return x + 1
        finally:
            LOG.append("finally")
            return x * 2

    logged(f)


def test_finally_with_break_and_continue() -> None:
    def f(x: Any) -> Any:
        for n in range(5):
            try:
                if n == 3:
                    raise ValueError
                x = x + n
            finally:
                if n == 1:
                    continue
                if n == 3:
                    break
        return x

    check(f)


def test_raise_from() -> None:
    def f(x: Any) -> Any:
        try:
            try:
                raise KeyError("first")
            except KeyError as error:
                raise Problem(2) from error
        except Problem as problem:
            cause, context = problem.__cause__, problem.__context__
            return x + 1, cause.args, cause is context, problem.__suppress_context__

    check(f)


def test_raise_from_none_and_context() -> None:
    def f(x: Any) -> Any:
        seen = []
        for suppress in (True, False):
            try:
                try:
                    raise KeyError("first")
                except KeyError:
                    if suppress:
                        raise ValueError("second") from None
                    raise ValueError("second")
            except ValueError as e:
                seen.append((e.__cause__ is None, e.__suppress_context__, e.__context__.args))
        return seen, x + 1

    check(f)


def test_raise_from_a_class_or_something_wrong() -> None:
    def f(x: Any) -> Any:
        try:
            raise ValueError from KeyError
        except ValueError as error:
            first = type(error.__cause__)
        try:
            raise ValueError from 3
        except TypeError as error:
            second = str(error)
        try:
            raise 5
        except TypeError as error:
            return first, second, str(error), x + 1

    check(f)


def test_bare_raise() -> None:
    def f(x: Any) -> Any:
        try:
            try:
                fail(3)
            except Problem as problem:
                problem.hint = "seen"
                raise
        except Problem as problem:
            return x + problem.code, problem.hint, problem.__context__

    check(f)


def test_bare_raise_in_a_called_function() -> None:
    def again() -> None:
        raise

    def f(x: Any) -> Any:
        try:
            try:
                fail(3)
            except Problem:
                again()
        except Problem as problem:
            return x + problem.code

    check(f)


def test_bare_raise_without_an_exception() -> None:
    def f(x: Any) -> Any:
        try:
            raise
        except RuntimeError as error:
            return x + 1, str(error)

    check(f)


def test_context_of_an_exception_in_a_handler() -> None:
    def f(x: Any) -> Any:
        try:
            try:
                {}["a"]
            except KeyError:
                [][1]
        except IndexError as error:
            return x + 1, type(error.__context__), error.__context__.__context__

    check(f)


def test_context_in_finally() -> None:
    def f(x: Any) -> Any:
        try:
            try:
                raise ValueError("a")
            finally:
                raise KeyError("b")
        except KeyError as error:
            return x + 1, str(error.__context__)

    check(f)


def test_context_ends_with_the_handler() -> None:
    def f(x: Any) -> Any:
        try:
            raise ValueError
        except ValueError:
            pass
        try:
            raise KeyError
        except KeyError as error:
            return x + 1, error.__context__, sys.exc_info()[0]

    check(f)


def test_exc_info() -> None:
    def f(x: Any) -> Any:
        before = sys.exc_info()
        try:
            fail(7)
        except Problem:
            kind, error, trace = sys.exc_info()
        return x + error.code, before, kind is Problem, trace is None, sys.exc_info() == (None,) * 3

    check(f, frames=1)


def test_user_exceptions_with_own_init() -> None:
    def f(x: Any) -> Any:
        try:
            raise Worse(4, hint="h")
        except Problem as error:
            return x * error.code, str(error), repr(error), error.args, isinstance(error, Worse)

    check(f)


def test_exception_through_inlined_frames() -> None:
    def middle(code: int) -> None:
        try:
            fail(code)
        finally:
            LOG.append("middle")

    def f(x: Any) -> Any:
        try:
            middle(5)
        except Problem as error:
            return x + error.code

    logged(f)


def test_exception_through_callbacks_of_builtins() -> None:
    def f(x: Any) -> Any:
        seen = []
        for attempt in (
            lambda: sorted([2, 1], key=fail),
            lambda: list(map(fail, [1])),
            lambda: max([1, 2], key=fail),
            lambda: sum(fail(n) for n in [1]),
            lambda: [fail(n) for n in [1]],
        ):
            try:
                attempt()
            except Problem as error:
                seen.append(error.code)
        return seen, x + 1

    check(f)


def test_exception_from_operators_and_properties() -> None:
    class Faulty:
        @property
        def value(self) -> int:
            raise Problem(1)

        def __add__(self, other: Any) -> Any:
            raise Problem(2)

        def __bool__(self) -> bool:
            raise Problem(3)

        def __iter__(self) -> Any:
            raise Problem(4)

        def __eq__(self, other: object) -> bool:
            raise Problem(5)

        def __hash__(self) -> int:
            raise Problem(6)

    def f(x: Any) -> Any:
        codes, faulty = [], Faulty()
        for attempt in (
            lambda: faulty.value,
            lambda: faulty + 1,
            lambda: not faulty,
            lambda: list(faulty),
            lambda: faulty == 1,
            lambda: {faulty: 1},
            lambda: faulty in [1],
        ):
            try:
                attempt()
            except Problem as error:
                codes.append(error.code)
        return codes, x + 1

    check(f)


def test_exceptions_of_python_itself() -> None:
    def f(x: Any) -> Any:
        texts, three, nothing = [], 3, None
        for attempt in (
            lambda: 1 / 0,
            lambda: int("a"),
            lambda: [][3],
            lambda: {}["k"],
            lambda: nothing.attribute,
            lambda: "a" + three,
            lambda: undefined_name,  # noqa: F821
            lambda: (1, 2) < three,
            lambda: len(3),
            lambda: [*3],
            lambda: fail(),
            lambda: fail(1, 2),
            lambda: fail(other=1),
            lambda: "abc".index("z"),
            lambda: next(iter([])),
            lambda: 2.0**10000,
            lambda: three(),
            lambda: three[0],
        ):
            try:
                attempt()
            except Exception as error:
                texts.append((type(error), str(error)))
        a, b = 1, None
        try:
            a, b = [1, 2, 3]
        except ValueError as error:
            texts.append(str(error))
        return texts, x + a, b

    check(f)


def test_exceptions_of_the_library() -> None:
    def f(x: Any) -> Any:
        texts = []
        for attempt in (
            lambda: x + weft.ones(2),
            lambda: x.reshape(7),
            lambda: x.nothing,
            lambda: x[5],
            lambda: weft.cat([]),
            lambda: x @ weft.ones(2, 2),
        ):
            try:
                attempt()
            except Exception as error:
                texts.append((type(error), str(error)))
        return texts, x + 1

    check(f)


def test_exception_stored_and_returned_breaks() -> None:
    def f(x: Any) -> Any:
        try:
            x = x + 1
            raise Problem(3)
        except Problem as error:
            kept = error
        return x * 2, kept.code

    check(f)


def test_exception_never_raised_is_a_value() -> None:
    def f(x: Any) -> Any:
        error = Problem(3, hint="made")
        error.extra = x + 1
        return error, ValueError(1, 2), x * 2

    check(f)


def test_raised_exception_returned() -> None:
    def f(x: Any) -> Any:
        x = x + 1
        try:
            raise Problem(3)
        except Problem as error:
            return error, x * 2

    check(f, frames=2, breaks=1)


def test_raised_exception_stored_on_an_object() -> None:
    class Holder:
        error: Any = None

    def f(x: Any, holder: Holder) -> Any:
        x = x + 1
        try:
            fail(3)
        except Problem as error:
            holder.error = error
        return x * 2

    check(f, lambda: (tensor(), Holder()), frames=2, breaks=1)


def test_exception_stored_before_and_raised() -> None:
    def f(x: Any, error: Exception) -> Any:
        y = x + 1
        try:
            raise error
        except Problem as problem:
            return y * problem.code

    check(f, lambda: (tensor(), Problem(3)), frames=2, breaks=1)


def test_caught_after_a_break_in_the_try() -> None:
    def f(x: Any) -> Any:
        try:
            x = x + 1
            print("break")
            x = x * 2
            fail(3)
        except Problem as error:
            return x - error.code

    check(f, frames=2, breaks=1)


def test_raised_by_the_breaking_call() -> None:
    def f(x: Any) -> Any:
        try:
            x = x + 1
            open("/no/such/file")
            x = x * 2
        except OSError as error:
            return x - 1, type(error)

    check(f, frames=2, breaks=1)


def test_raised_by_a_breaking_callee() -> None:
    def inner(x: Any) -> Any:
        x = x * 2
        print("inner")
        raise Problem(int(x.numel()))

    def f(x: Any) -> Any:
        try:
            inner(x + 1)
        except Problem as error:
            return x - error.code

    check(f, frames=3, breaks=2)


def test_break_in_the_handler() -> None:
    def f(x: Any) -> Any:
        x = x + 1
        try:
            fail(3)
        except Problem as error:
            print("break")
            x = x * error.code
        return x - 1

    check(f, frames=2, breaks=2)  # the exception in hand is raised by the original


def test_break_in_the_handler_then_bare_raise() -> None:
    def f(x: Any) -> Any:
        x = x + 1
        try:
            try:
                fail(3)
            except Problem:
                print("break")
                raise
        except Problem as error:
            return x - error.code

    check(f, frames=2, breaks=2)


def test_break_in_finally() -> None:
    def f(x: Any) -> Any:
        try:
            x = x + 1
        finally:
            print("break")
            x = x * 2
        return x - 1

    check(f, frames=2, breaks=1)


def test_break_in_finally_with_an_exception() -> None:
    def f(x: Any) -> Any:
        try:
            try:
                x = x + 1
                fail(3)
            finally:
                print("break")
                x = x * 2
        except Problem as error:
            return x - error.code

    check(f, frames=2, breaks=2)


def test_assertions() -> None:
    def f(x: Any, n: int) -> Any:
        try:
            if not n > 2:
                raise AssertionError("small", n)
        except AssertionError as error:
            return x + 1, error.args
        return x * 2

    check(f, lambda: (tensor(), 3), lambda: (tensor(), 1), frames=2)


def test_uncaught_exception() -> None:
    def f(x: Any) -> Any:
        y = x + 1
        raise Problem(y.numel(), hint="out")

    check(f, frames=0, raises=Problem)


def test_uncaught_exception_from_inlined_frames() -> None:
    def middle(x: Any) -> Any:
        y = x + 1
        fail(3)
        return y

    def f(x: Any) -> Any:
        y = x * 2
        return middle(y) + y

    check(f, frames=0, raises=Problem)


def test_uncaught_exception_with_effects_before() -> None:
    class Holder:
        def __init__(self) -> None:
            self.items: list[Any] = []

    def f(x: Any, holder: Holder) -> Any:
        holder.items.append(x + 1)
        holder.last = "set"
        LOG.append("before")
        raise Problem(1) from KeyError("k")

    logged(f, lambda: (tensor(), Holder()), frames=0, raises=Problem)


def test_uncaught_exception_after_a_break() -> None:
    def f(x: Any) -> Any:
        y = x + 1
        print("break")
        z = y * 2
        fail(z.numel())

    check(f, frames=1, breaks=1, raises=Problem)


def test_uncaught_exception_of_the_breaking_instruction() -> None:
    def f(x: Any) -> Any:
        y = x + 1
        return open("/no/such/file"), y

    check(f, frames=1, breaks=1, raises=OSError)


def test_uncaught_exception_of_a_breaking_callee() -> None:
    def inner(x: Any) -> Any:
        y = x * 3
        print("inner")
        raise Problem(y.numel())

    def f(x: Any) -> Any:
        y = x + 1
        return inner(y) + y

    check(f, frames=2, breaks=2, raises=Problem)


def test_uncaught_only_sometimes() -> None:
    def f(x: Any, n: int) -> Any:
        y = x * 2
        if n > 1:
            raise Problem(n)
        return y + n

    check(f, lambda: (tensor(), 1), lambda: (tensor(), 2), lambda: (tensor(), 1), raises=Problem)


def test_uncaught_error_of_an_op() -> None:
    def f(x: Any, y: Any) -> Any:
        z = x + 1
        return z + y

    wrong = lambda: (tensor(), weft.ones(2))
    check(f, lambda: (tensor(), tensor()), wrong, raises=RuntimeError)


def test_exception_groups() -> None:
    def f(x: Any) -> Any:
        y = x + 1
        try:
            raise ExceptionGroup("many", [ValueError(1), Problem(2)])
        except ExceptionGroup as group:
            return y * len(group.exceptions), group.message

    check(f)


def test_exception_notes() -> None:
    def f(x: Any) -> Any:
        try:
            error = ValueError("v")
            error.add_note("note")
            raise error
        except ValueError as caught:
            return x + 1, caught.__notes__

    check(f)


def test_loop_over_failures() -> None:
    def f(x: Any) -> Any:
        for attempt in range(5):
            try:
                if attempt < 3:
                    raise Problem(attempt)
                x = x * attempt
                break
            except Problem:
                x = x + 1
        else:
            x = x - 100
        return x

    check(f)


def test_suppressed_in_comprehension_helper() -> None:
    def safe(n: int) -> int:
        try:
            return 6 // n
        except ZeroDivisionError:
            return -1

    check(lambda x: (x + 1, [safe(n) for n in range(4)]))
