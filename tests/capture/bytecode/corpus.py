"""Small functions that between them use what the compiler can write; effects go to `log`.

One idea: each stands with arguments that make it interesting, made anew for every run.
"""

# ruff: noqa: B007, B023, C416, F821, RET503, UP008
# The functions are written for their bytecode.

from __future__ import annotations

import contextlib
import copy
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

EFFECTS: list[Any] = []


def log(value: Any) -> Any:
    EFFECTS.append(value)
    return value


@dataclass(frozen=True)
class Case:
    function: Any
    arguments: Callable[[], tuple[Any, ...]]
    keywords: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.function.__qualname__.replace(".<locals>.", ".")


CASES: list[Case] = []


def case(
    *arguments: Any, make: Callable[[], tuple[Any, ...]] | None = None, **keywords: Any
) -> Callable[[Any], Any]:
    def register(function: Any) -> Any:
        CASES.append(Case(function, make or (lambda: copy.deepcopy(arguments)), keywords))
        return function

    return register


class Manager:
    def __init__(self, swallow: bool = False) -> None:
        self.swallow = swallow

    def __enter__(self) -> str:
        log("enter")
        return "entered"

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> bool:
        log(("exit", kind and kind.__name__, str(error)))
        return self.swallow


class Truth:
    """An object whose truth is an effect."""

    def __init__(self, value: bool) -> None:
        self.value = value

    def __bool__(self) -> bool:
        log(("truth", self.value))
        return self.value

    def __lt__(self, other: Any) -> Truth:
        return Truth(self.value)


def fail(value: Any, kind: type[BaseException] = ValueError) -> Any:
    log(("fail", value))
    raise kind(value)


def handled() -> Any:
    error = sys.exc_info()[1]
    return error and (type(error).__name__, str(error))


# Straight lines, operators, calls


@case(3, 4)
def arithmetic(a, b):
    c = a * b - (a // b) ** 2 + (-a) % b
    d = ~c if not a > b else +c
    c += d
    return c, d, a < b <= 4 < c, a is b, a in (b, 3), a is not None, b not in [1]


@case(1, 2, 3, key="value", other=4)
def signature(a, /, b, *rest, key, **others):
    a, b = b, a
    return a, b, rest, key, others


@case([1, 2], {"key": 3})
def starred_calls(args, kwargs):
    def inner(*args, **kwargs):
        return log((args, kwargs))

    inner(*args)
    inner(0, *args, 4, **kwargs)
    inner(**kwargs, other=5)
    return inner(*args, *args, last=log("last"))


@case("text")
def methods(text):
    return log(text.upper)().lower().join(["a", text.title()]), text.replace("t", log("T"), 1)


@case([log, str], 5)
def callables(functions, value):
    first = functions[0](functions[1](value))
    second = (functions[0] if value > 3 else functions[1])(value, *[])
    third = (None or functions[1])(log(value))
    return first, second, third, (lambda x, *, y=2: x + y)(value, y=log(3))


@case(True)
def call_of_choice(flag):
    return (log if flag else str)(log("x") if flag else log("y"))


@case(list(range(9)))
def slices(values):
    values[1:3] = [log("a")]
    del values[-1]
    values[0] += 10
    return values[1:], values[:-2:2], values[log(2) : 5]


@case("name", 7.0)
def formats(name, number):
    return f"{name}{number!r:>{log(8)}}{name!s}|{number:.2f}|{name!a:5}"


@case(5)
def chained(value):
    if 1 < log(value) < 3 or not value:
        return "low"
    return value and log("high") or "never"


@case(make=lambda: (Truth(True), Truth(False)))
def truths(yes, no):
    a = yes or no
    b = no or yes
    c = no and yes
    if not a or (b and c):
        log("branch")
    if yes < no:
        log("less")
    return a is yes, b is yes, c is no, 0 < 1 < 2 and "yes" if yes else "no"


@case({"a": 1}, {"b": 2})
def displays(one, other):
    merged = {**one, **other, "c": log(3)}
    return [*one, *other, 1], {*one, log("x")}, (*merged.items(),), {k: v for k, v in merged.items()}


@case((1, [2, 3, 4], 5))
def unpacking(value):
    a, (b, *c), d = value
    *e, f = log([a, b, d])
    (g, h), i = (a, b), c
    return a, b, c, d, e, f, g, h, i


@case(3)
def constants(value):
    assert value == 3, log("message")
    x = y = log(value)
    del x
    return y, ..., None, (1, (2, "three")), frozenset({1})


@case(4)
def failing_assertion(value):
    log("before")
    assert value == 3, f"value {log(value)}"


@case(1)
def imports(value):
    import os.path as path
    from math import floor, sqrt

    return floor(sqrt(value + 8)), path.basename("a/b")


# Loops


@case(5)
def for_loop(n):
    total = 0
    for i in range(n):
        if i == 1:
            continue
        if i == 4:
            break
        total += log(i)
    else:
        total = -1
    return total


@case([3, 4])
def for_else(values):
    for value in values:
        log(value)
        if value > 10:
            break
    else:
        return log("else")
    return "broken"


@case(3)
def while_loop(n):
    out = []
    while n:
        n -= 1
        k = 0
        while True:
            k += 1
            if k > n:
                break
            out.append(log((n, k)))
    return out


@case([[1, 2], [3]])
def nested_loops(rows):
    total = 0
    for i, row in enumerate(rows):
        for j, value in zip(range(5), row):
            total += log(value * i + j)
    return total, i, j


@case([1, 2, 3])
def loop_with_call_over_iterator(values):
    return sum(log(v) for v in values) + len([log(v) for v in values if v > 1])


@case(300)
def many_constants(n):
    # Long jumps: the body is longer than one byte can count.
    total = 0
    for i in range(2):
        if i:
            total += n + 1000 + 1001 + 1002 + log(1) + log(2) + log(3) + log(4) + log(5) + log(6) + log(7)
            total += log(8) + log(9) + log(10) + log(11) + log(12) + log(13) + log(14) + log(15) + log(16)
            total += log(17) + log(18) + log(19) + log(20) + log(21) + log(22) + log(23) + log(24) + log(25)
        else:
            total -= 1
    return total


# Comprehensions


@case([1, 2, 3], 10)
def comprehensions(values, k):
    x = "outer"
    a = [log(x) * k for x in values if x != 2]
    b = {x: log(y) for x, y in zip(values, "abc")}
    c = {x for x in values}
    d = [[log((x, y)) for y in range(x)] for x in values]
    return a, b, c, d, x


@case([1, 2])
def comprehension_in_call(values):
    return log(max(0, *[log(value) + 1 for value in values], key=lambda v: -v))


@case([1, 0])
def comprehension_fails(values):
    x = "kept"
    try:
        return [log(1 / x) for x in values]
    except ZeroDivisionError:
        return x


@case([1, 2])
def comprehension_closure(values):
    functions = [lambda: (x, k) for x in values for k in [log(x)]]
    return [function() for function in functions]


@case([1, 2])
def comprehension_of_cell(values):
    x = "cell"

    def inner():
        return x

    out = [log(x) for x in values]
    return out, inner(), x


# Closures and scopes


@case(5)
def counter(n):
    count = 0

    def step(by=n):
        nonlocal count, n
        count += by
        n += 1
        return log(count)

    step()
    step(2)
    return count, n, step(), count


@case(1)
def argument_cell(a, b=2):
    def inner():
        return a + b

    a += 1
    first = inner()
    b = log(10)
    return first, inner()


@case(0)
def unbound(flag):
    if flag:
        value = 1
    try:
        log(value)
    except UnboundLocalError as error:
        log(type(error).__name__)
    value = 2
    del value
    try:
        return value
    except UnboundLocalError:
        log("deleted")
    return locals()


@case(1)
def names_of_locals(a):
    b = log(a)
    for c in (1, 2):
        log(sorted(locals()))
    return sorted(locals()), b, c


@case(0)
def empty_cell(flag):
    if flag:
        value = 1

    def inner():
        return value

    try:
        inner()
    except NameError as error:
        log(type(error).__name__)
    value = 3
    return inner()


class Base:
    def method(self, value):
        log(("base", value))
        return value

    @classmethod
    def build(cls, value):
        return cls, value

    attribute = "of base"


class Derived(Base):
    def method(self, value):
        log("derived")
        first = super().method(value)
        return first, super().attribute, super(Derived, self).method(log(2))

    def captured(self, value):
        def inner():
            return self, value

        value = super().method(value)
        return inner()[0] is self, inner()[1]

    @classmethod
    def build(cls, value):
        made = super().build(log(value))
        return made

    def whole(self, *args, **kwargs):
        args = args and [log(each) for each in args]
        return __class__.__name__, super().method(args), kwargs


CASES += [
    Case(Derived.method, lambda: (Derived(), 1)),
    Case(Derived.captured, lambda: (Derived(), 1)),
    Case(Derived.build.__func__, lambda: (Derived, 1)),
    Case(Derived.whole, lambda: (Derived(), 1, 2)),
]


@case(2)
def local_class(n):
    class Local(Base):
        size = n

        def get(self):
            return super().method(self.size + n)

    return Local().get(), Local.__qualname__


# Exceptions


@case(1)
def try_except(a):
    try:
        log("body")
        fail(a)
        log("unreached")
    except KeyError:
        log("wrong")
    except (ValueError, TypeError) as error:
        log((str(error), handled()))
        del a
    else:
        log("else")
    return handled()


@case(1)
def try_else_finally(a):
    try:
        log(a)
    except ValueError:
        log("wrong")
    else:
        log("else")
    finally:
        log("finally")
    return a


@case(1)
def finally_reraises(a):
    try:
        fail(a)
    finally:
        log(handled())
        for i in range(2):
            log(i)


@case(1)
def finally_returns(a):
    for i in range(3):
        try:
            if i == 1:
                continue
            fail(i)
        except ValueError:
            log(handled())
            if i == 2:
                return log("out")
        finally:
            log(("finally", i, handled()))


@case(1)
def nested_handlers(a):
    try:
        try:
            fail(a)
        except ValueError:
            log(handled())
            try:
                fail("inner", KeyError)
            except KeyError as error:
                log((handled(), str(error.__context__)))
            log(handled())
            raise
        finally:
            log(handled())
    except ValueError as again:
        log((str(again), again.__context__, handled()))
    return handled()


@case(1)
def bare_raise(a):
    try:
        fail(a)
    except ValueError:
        log(handled())
        raise


@case(1)
def raise_from(a):
    try:
        fail(a)
    except ValueError as error:
        log("caught")
        raise KeyError("other") from error


@case(1)
def raise_in_handler(a):
    try:
        fail(a)
    except ValueError:
        text = log("text")
        raise RuntimeError(text)  # noqa: B904


@case(1)
def context_after_handler(a):
    try:
        fail(a)
    except ValueError:
        log("caught")
    log(handled())
    raise RuntimeError("fresh")


@case(1)
def unmatched(a):
    with contextlib.suppress(KeyError):
        try:
            log("body")
            fail(
                a,
            )
        except TypeError:
            log("wrong")


@case(3)
def loop_of_tries(n):
    out = []
    for i in range(n):
        try:
            if i % 2:
                fail(i)
            out.append(i)
        except ValueError as error:
            out.append((str(error), handled()))
            continue
        finally:
            out.append("f")
    return out


@case(1)
def groups(a):
    try:
        raise ExceptionGroup("group", [ValueError(a), TypeError("t"), KeyError("k")])
    except* ValueError as group:
        log(len(group.exceptions))
    except* TypeError:
        log(type(handled()).__name__)
        raise OSError("new") from None


# With


@case(make=lambda: (Manager(),))
def with_statement(manager):
    with manager as entered:
        log(entered)
        value = log(1)
    return value, handled()


@case(make=lambda: (Manager(), Manager(True)))
def with_two(outer, inner):
    with outer, inner as name:
        log(name)
        fail("inside")
    log(handled())
    with outer:
        for i in range(2):
            with inner:
                if i:
                    return log("returned")
                fail(i)


@case(make=lambda: (Manager(),))
def with_raises(manager):
    with manager:
        log("body")
        raise KeyError("k")


@case(make=lambda: (Manager(True),))
def with_in_handler(manager):
    try:
        fail(1)
    except ValueError:
        with manager:
            log(handled())
            fail(2, KeyError)
        return handled()


# Match


@dataclass
class Point:
    x: int
    y: int


def matching(value):
    match value:
        case Point(x=0, y=y):
            return "point", log(y)
        case Point(x, y) if x == y:
            return "diagonal", x
        case {"kind": kind, **rest}:
            return kind, log(rest)
        case [first, *_, last]:
            return log(first), last
        case str() | bytes() as text:
            return log(text)
        case 1 | 2:
            return "small"
        case None:
            return "none"
        case _:
            return log("other")


CASES += [
    Case(matching, lambda value=value: (value,))
    for value in (Point(0, 1), Point(2, 2), {"kind": 1, "b": 2}, [1, 2, 3], "text", 2, None, Point(1, 2))
]
