"""The breaking instruction, performed natively: a break before any instruction changes nothing.

`stops_everywhere` breaks each function below before every instruction that its run meets.
"""

from __future__ import annotations

import contextlib
import gc
import sys
import weakref
from types import FunctionType

import pytest

import weft
from tests.capture.segments import Segment, stops_everywhere
from weft.capture.break_instruction import TEMPLATES, context_methods, exception_matches, import_from
from weft.capture.bytecode.instructions import CANONICAL

GLOBAL = 3


class Box:
    def __init__(self, value):
        self.value = value
        self.log = []

    def __repr__(self):
        return f"Box({self.value}, {self.log})"

    def __add__(self, other):
        self.log.append("add")
        return self.value + other

    def __iadd__(self, other):
        self.log.append("iadd")
        self.value += other
        return self

    def __getitem__(self, key):
        self.log.append(f"get {key}")
        if key == "bad":
            raise KeyError(key)
        return key

    def __setitem__(self, key, value):
        self.log.append(f"set {key}")

    def __delitem__(self, key):
        self.log.append(f"del {key}")

    def __contains__(self, item):
        return item == self.value

    def __bool__(self):
        self.log.append("bool")
        return bool(self.value)

    def __neg__(self):
        return -self.value

    def __lt__(self, other):
        return self.value < other

    def __format__(self, spec):
        return f"<{spec}>"

    def __enter__(self):
        self.log.append("enter")
        return self.value

    def __exit__(self, kind, error, trace):
        self.log.append(f"exit {kind and kind.__name__}")
        return self.value == "swallow"

    def __iter__(self):
        yield self.value
        yield 2

    def method(self, a, b=2, *rest, c=3, **more):
        self.log.append("method")
        return a, b, rest, c, more


class Child(Box):
    def method(self, *args, **kwargs):
        first = super().method(*args, **kwargs)
        return first, __class__.__name__


def calls(x, box):
    y = x + 1
    a = box.method(1)
    b = box.method(1, 2, c=4, d=5)
    rest = (7, 8)
    c = box.method(*rest, c=1, e=2)
    d = len([y]) + max(3, *rest)
    return y * 2, a, b, c, d


def attributes(x, box):
    box.extra = x.shape
    box.value = box.value + 1
    del box.extra
    return box.value, box.log, hasattr(box, "extra")


def items(x, box):
    box["k"] = x
    del box["k"]
    values = [1, 2, 3, 4]
    values[1:3] = [9]
    return box["k"], values[::-1], values[-1], box.log


def operators(x, box):
    y = x * 2 - 1
    total = box + 1
    box += 2
    test = box < 100, 5 in box, 5 not in box, box is None, box is not None, -box, not box
    n = 7
    n **= 2
    n //= 3
    return y, total, box, test, n, -(1**2), (-1) ** 2, 1 if x is not None else 2


def loops(x, n):
    total, seen = 0, []
    for i in range(n):
        if i == 1:
            continue
        if i > 3:
            break
        for j, name in zip((1, 2), "ab", strict=True):
            total += j
            seen.append((i, name))
    else:
        seen.append("end")
    while total > 10:
        total -= 3
        x = x + 1
    return x, total, seen


def iterates(x, box):
    out = [item for item in box if item]
    for item in box:
        out.append(item)
    a, b = box
    first, *rest = [x, 1, 2, 3]
    *start, last = "abc"
    (c, d), e = (1, 2), 3
    return out, a, b, first, rest, start, last, c, d, e


def conditions(x, box):
    a = box and 1
    b = None or box.value or 5
    c = 1 if box else 2
    if not box or x is None:
        c = 3
    elif box.value:
        c += 10
    assert c, "never"
    return a is box, b, c


def builds(x, box):
    parts = [1, *range(2), *box]
    mapping = {"a": 1, "b": 2, "c": x}
    members = {1, *[2, 3]}
    squares = {i: i * i for i in range(3)}
    unique = {i % 2 for i in range(4)}
    pairs = tuple(i + j for i in range(2) for j in range(2))
    text = f"{box}-{box!r:>10}-{box:abc}-{1.5:{5}.{2}}-{'x'!s}-{{}}"
    return parts, mapping, members, squares, unique, pairs, text, parts[1:2]


def handlers(x, box):
    out = []
    try:
        out.append(box["bad"])
    except IndexError:
        out.append("index")
    except KeyError as error:
        out.append(("key", error.args))
        try:
            raise ValueError("inner")
        except ValueError as inner:
            out.append(type(inner.__context__).__name__)
            out.append(sys.exc_info()[1] is inner)
        out.append(sys.exc_info()[1] is error)
    else:
        out.append("else")
    finally:
        out.append("finally")
    return x + 1, out


def finally_returns(x, box):
    for i in range(3):
        try:
            if i == 1:
                continue
            box["bad"] if i == 2 else box[i]
        except KeyError:
            return x, "caught", box.log
        finally:
            box.log.append(f"finally {i}")
    return None


def reraises(x, box):
    try:
        try:
            box["bad"]
        except KeyError as error:
            box.log.append("caught")
            raise RuntimeError("again") from error
        finally:
            box.log.append("cleaned")
    except RuntimeError as error:
        return type(error.__cause__).__name__, error.__suppress_context__, box.log


def raises_bare(x, box):
    try:
        try:
            box["bad"]
        except KeyError:
            box.log.append("again")
            raise
    except LookupError as error:
        return error.args, error.__context__, box.log


def contexts(x, box):
    with box as value, contextlib.suppress(KeyError):
        x = x + 1
        box["bad"]
    with box:
        x = x * 2
    return x, value, box.log


def leaves_by_exception(x, box):
    try:
        with box:
            box["bad"]
    except KeyError:
        box.log.append("outside")
    return box.log


def swallows(x, box):
    box.value = "swallow"
    with box:
        box["bad"]
    return box.log


def uncaught(x, box):
    y = x + 1
    box.log.append("before")
    box["bad"]
    return y


def uncaught_in_handler(x, box):
    try:
        box["bad"]
    except KeyError:
        box["bad"]


def closures(x, box):
    count = 0

    def up(by=1):
        nonlocal count
        count += by
        return count

    up()
    up(by=3)
    fs = [lambda: i for i in range(3)]  # noqa: B023
    x = x + count
    return x, count, up(), [f() for f in fs]


def supers(x, box):
    child = Child(box.value)
    return child.method(1, c=2), child.log


def imports(x, box):
    import os.path as p
    from math import inf, pi

    return p.sep, round(pi, 2), inf


def globals_too(x, box):
    global GLOBAL
    GLOBAL = GLOBAL + 1
    GLOBAL -= 1
    return x, GLOBAL


def generators(x, box):
    def numbers(n):
        got = []
        try:
            for i in range(n):
                got.append((yield i))
        finally:
            box.log.append("closed")
        return got

    made = numbers(3)
    first = next(made)
    second = made.send("a")
    rest = list(made)
    return x + 1, first, second, rest, box.log


def matches(x, box):
    out = []
    for case in ([1, 2], {"k": 3}, Box(1), "text", (1, 2, 3)):
        match case:
            case [1, y]:
                out.append(y)
            case {"k": value}:
                out.append(value)
            case Box(value=v):
                out.append(v)
            case str() as text:
                out.append(text)
            case [_, *rest]:
                out.append(rest)
    return out


def unbound(x, box):
    if box is None:
        value = 1
    try:
        value
    except UnboundLocalError as error:
        return error.args
    try:
        missing_name
    except NameError as error:
        return error.args


def deletes(x, box):
    value = x
    del value
    try:
        return value
    except NameError as error:
        return type(error).__name__


def shows_locals(x, box):
    a, b = 1, 2
    found = locals()
    return sorted(found), a, b


def keywords(x, box):
    first, second = {"a": 1, "b": 2}, {"c": 3}
    out = [box.method(**first, **second), dict(**first, **second)]
    for make in (
        lambda: box.method(**first, b=5),
        lambda: box.method(**first, **box),
        lambda: len(a=1),
    ):
        try:
            make()
        except TypeError as error:
            out.append(str(error))
    try:
        box.method(**first, b=5)
    except TypeError as error:
        out.append(str(error))
    try:
        dict(**first, **3)
    except TypeError as error:
        out.append(str(error))
    return x, out


FUNCTIONS = [
    each
    for name, each in list(globals().items())
    if type(each) is FunctionType and each.__code__.co_varnames[:1] == ("x",) and each.__module__ == __name__
]


def arguments(function):
    return lambda: (weft.ones(2), 6 if function is loops else Box(5))


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_a_break_before_some_instruction_changes_nothing(function):
    start = len(function.__name__) % 5
    assert stops_everywhere(function, arguments(function), start, 5) > 0


@pytest.mark.slow
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_a_break_before_any_instruction_changes_nothing(function):
    assert stops_everywhere(function, arguments(function)) > 5


def test_every_template_is_for_a_canonical_op():
    assert set(TEMPLATES) <= CANONICAL


def test_callees_go_through_the_runtime():
    def helper(y):
        print("side effect")
        return y + 1

    def f(x):
        return helper(x * 2)

    segment = Segment(f, weft.ones(1))
    assert segment().tolist() == [3.0] and segment.runtime.called == [helper]


def test_exceptions_match_as_except_clauses_do():
    assert exception_matches(KeyError(), LookupError) and exception_matches(
        KeyError(), (ValueError, KeyError)
    )
    assert not exception_matches(KeyError(), ()) and not exception_matches(KeyError(), ValueError)
    with pytest.raises(TypeError, match="catching classes that do not inherit from BaseException"):
        exception_matches(KeyError(), (int,))


def test_context_methods_are_found_on_the_class():
    box = Box(1)
    box.__enter__ = None
    enter, leave = context_methods(box)
    assert enter() == 1 and leave(None, None, None) is False
    with pytest.raises(TypeError, match="'int' object does not support the context manager protocol"):
        context_methods(3)

    class Half:
        def __enter__(self):
            pass

    with pytest.raises(TypeError, match=r"missed __exit__ method"):
        context_methods(Half())


def test_importing_a_name():
    import os

    assert import_from(os, "path") is os.path
    with pytest.raises(ImportError, match="cannot import name 'nothing' from 'os'"):
        import_from(os, "nothing")


def test_tracebacks_show_the_users_lines():
    def f(x, box):
        y = x + 1
        box["bad"]
        return y

    segments = (Segment(f, weft.ones(1), Box(1), stop_at=step) for step in range(3, 9))
    segment = next(each for each in segments if each.outcome.frame.instruction.op == "BINARY_SUBSCR")
    with pytest.raises(KeyError) as caught:
        segment()
    line = f.__code__.co_firstlineno + 2
    trace = caught.tb
    while trace.tb_frame.f_code.co_name != "f":
        trace = trace.tb_next
    assert trace.tb_frame.f_code.co_filename == __file__ and trace.tb_lineno == line
    assert trace.tb_frame.f_code.co_firstlineno == line - 2
    columns = list(trace.tb_frame.f_code.co_positions())[trace.tb_lasti // 2]
    assert columns[2:] == (8, 18)


def test_an_exception_does_not_outlive_its_handler():
    class Marker(Exception):
        def __init__(self):
            seen.append(weakref.ref(self))

    def f(x, box):
        try:
            box.fail()
        except Marker:
            return x + 1

    class Failing:
        def fail(self):
            print("breaks")
            raise Marker()

    seen = []
    segment = Segment(f, weft.ones(1), Failing())
    gc.collect()
    gc.disable()
    try:
        segment()
        eager = len(seen)
        f(weft.ones(1), Failing())
        assert [ref() for ref in seen[eager:]] == [None]
        assert [ref() for ref in seen[:eager]] == [None] * eager
    finally:
        gc.enable()
