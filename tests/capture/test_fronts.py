from __future__ import annotations

import functools
import inspect
from types import CellType

import pytest

import weft
from weft.capture.fronts import FRONT, make_front, original_call, public
from weft.capture.reading import MISS


def everything(a, b=2, /, c=3, *args, d, e=5, **kwargs):
    """Takes them all."""
    return a, b, c, args, d, e, kwargs


def positional_only(a, b, /):
    return a, b


def keywords_only(*, a, b=1):
    return a, b


def starred(*args, **kwargs):
    return args, kwargs


def nothing():
    return ()


def awkward(self, result, _function=1):
    return self, result, _function


FUNCTIONS = [everything, positional_only, keywords_only, starred, nothing, lambda x, y=[]: (x, y)]


def front_of(function, first=None, owner=None):
    """A front whose first entry and slow way both run the original."""
    call = original_call(function.__code__)
    log = []

    def slow(*values):
        log.append(values)
        return call(*values)

    front = make_front(function, CellType(first or (lambda *_values: MISS)), CellType(slow), owner)
    return public(front, function, "context"), log


@pytest.mark.parametrize("function", FUNCTIONS)
def test_looks_like_the_function(function):
    front, _log = front_of(function)
    assert inspect.signature(front) == inspect.signature(function)
    assert inspect.signature(front, follow_wrapped=False) == inspect.signature(function)
    assert (front.__name__, front.__qualname__) == (function.__name__, function.__qualname__)
    assert (front.__doc__, front.__module__) == (function.__doc__, function.__module__)
    assert front.__wrapped__ is function
    assert front.__dict__[FRONT] == "context"


@pytest.mark.parametrize(
    ("function", "args", "kwargs"),
    [
        (everything, (1,), {"d": 4}),
        (everything, (1, 2, 3, 4, 5), {"d": 6, "z": 7, "a": 8}),
        (positional_only, (1, 2), {}),
        (keywords_only, (), {"a": 1}),
        (keywords_only, (), {"b": 3, "a": 1}),
        (starred, (1, 2), {"x": 3}),
        (nothing, (), {}),
    ],
)
def test_passes_arguments_on(function, args, kwargs):
    front, log = front_of(function)
    assert front(*args, **kwargs) == function(*args, **kwargs)
    assert len(log) == 1


def test_gives_every_parameter_by_position_in_the_order_of_the_code():
    seen = []
    front, log = front_of(everything, first=lambda *values: seen.append(values) or "hit")
    assert front(1, 2, 3, 4, d=5, x=6) == "hit"
    assert seen == [(everything, 1, 2, 3, 5, 5, (4,), {"x": 6})]
    assert log == []


@pytest.mark.parametrize(
    ("function", "args", "kwargs"),
    [(positional_only, (1,), {}), (keywords_only, (1,), {}), (nothing, (), {"x": 1}), (everything, (1,), {})],
)
def test_refuses_what_the_function_refuses(function, args, kwargs):
    front, log = front_of(function)
    with pytest.raises(TypeError) as expected:
        function(*args, **kwargs)
    with pytest.raises(TypeError) as raised:
        front(*args, **kwargs)
    assert str(raised.value) == str(expected.value)
    assert log == []


def test_a_new_first_entry_serves_fronts_that_are_there_already():
    cell = CellType(lambda *_values: MISS)
    fronts = [make_front(nothing, cell, CellType(lambda *_values: "slow")) for _ in range(2)]
    assert [front() for front in fronts] == ["slow", "slow"]
    cell.cell_contents = lambda _function: "fast"
    assert [front() for front in fronts] == ["fast", "fast"]


class Thing:
    def method(self, a, b=2, /, *, c=3):
        return self, a, b, c

    def alone(self, /):
        return self

    def loose(*args, **kwargs):
        return args, kwargs

    def defaulted(self=None, a=1):
        return self, a


@pytest.mark.parametrize("name", ["method", "alone", "loose", "defaulted"])
def test_front_of_a_bound_method(name):
    thing = Thing()
    bound = getattr(thing, name)
    function = getattr(Thing, name)
    call = original_call(function.__code__)
    front = make_front(function, CellType(lambda *_values: MISS), CellType(call), thing)
    front = public(front, bound, "context")
    assert inspect.signature(front, follow_wrapped=False) == inspect.signature(bound)
    assert front.__wrapped__ == bound
    args = (1,) if name in ("method", "loose") else ()
    assert front(*args) == bound(*args)


def test_parameters_may_have_any_name():
    front, _log = front_of(awkward)
    assert front(1, result=2) == (1, 2, 1)


def test_a_comprehension_has_a_parameter_without_a_proper_name():
    code = next(c for c in (lambda: (x for x in ())).__code__.co_consts if hasattr(c, "co_code"))
    assert code.co_varnames[0] == ".0"
    calls = []
    original_call(code)(lambda *values: calls.append(values), "iterator")
    assert calls == [("iterator",)]


def test_function_with_the_attributes_of_a_front_is_no_front():
    compiled = weft.compile(lambda x: x + 1)

    @functools.wraps(compiled)
    def around(x):
        return compiled(x) * 10

    assert weft.compile(around)(weft.ones(2)).tolist() == [20, 20]
    assert weft.compile(lambda x: around(x))(weft.ones(2)).tolist() == [20, 20]


def test_method_that_is_compiled_twice():
    class Scaled:
        factor = 3

        @weft.compile
        def scale(self, x):
            return x * self.factor

    assert weft.compile(Scaled().scale, fullgraph=True)(weft.ones(2)).tolist() == [3, 3]
