"""The standard library in captured code: functools, operator, math, collections, bisect, heapq and others."""

# ruff: noqa: UP033 - unusual ways of writing things are what is tested

from __future__ import annotations

import bisect
import copy
import enum
import functools
import heapq
import math
import operator
import random
import re
import string
import types

import pytest

import weft
from tests.capture.features.harness import check, tensor


def test_functools_reduce():
    def function(x, items):
        return (
            functools.reduce(lambda a, b: a * b, [x, x + 1, 2]), functools.reduce(operator.add, items, 10),
            functools.reduce(max, items), functools.reduce(lambda a, b: a, [x]),
        )  # fmt: skip

    check(function, lambda: (tensor(), [1, 5, 2]))


def test_functools_cmp_to_key():
    def function(x, items):
        key = functools.cmp_to_key(lambda a, b: (a % 10) - (b % 10))
        return x + 1, sorted(items, key=key), max(items, key=key)

    check(function, lambda: (tensor(), [21, 13, 5]))


def test_functools_lru_cache():
    @functools.lru_cache(maxsize=None)
    def factor(n):
        return n * 2

    def function(x):
        return x * factor(3) + factor(3)

    check(function, state=factor.cache_clear, watch=lambda: factor.cache_info(), breaks=2, frames=2)


def test_functools_lru_cache_around_methods_and_under_other_decorators():
    class Scale:
        @functools.lru_cache  # noqa: B019
        def run(self, value, factor=1.0):
            """Scales."""
            return value * factor * 2

    scale = Scale()

    def passed_on(function):
        @functools.wraps(function)
        def inner(*args):
            return function(*args)

        return inner

    @functools.lru_cache
    def twice(value):
        """Twice."""
        return value * 2

    def function(x):
        wrapped = passed_on(twice)
        return scale.run(x) + wrapped(x), wrapped.__name__, wrapped.__doc__, wrapped.__wrapped__ is twice

    def cleared():
        twice.cache_clear()
        Scale.run.cache_clear()

    check(function, state=cleared)


def test_functools_wraps_reads_what_is_noted_on_functions():
    def build():
        def plain(x: float) -> float:
            return x * 2

        plain.tag = 3
        build.plain = plain

        def function(x):
            @functools.wraps(plain)
            def inner(value):
                return plain(value)

            return inner(x) * inner.tag, dict(inner.__annotations__), sorted(inner.__dict__)

        return function

    def tagged():
        build.plain.tag = 4
        return (tensor(),)

    def annotated():
        build.plain.__annotations__["y"] = int
        return (tensor(),)

    check(build, lambda: (tensor(),), tagged, annotated, state=build, frames=None)


def test_questions_whose_answer_is_the_same_in_every_call():
    def function(x):
        if weft.jit.is_scripting() or weft.distributed.is_available():
            return x
        return weft.jit.annotate(weft.Tensor, x + 1)

    check(function)


def test_functools_singledispatch():
    def build():
        @functools.singledispatch
        def scale(value):
            return "other"

        scale.register(int)(lambda value: value * 2)
        scale.register(list)(lambda value: [scale(item) for item in value])
        build.scale = scale
        return lambda x: (x + scale(3), scale([1, "a"]), scale(True))

    def registered():
        build.scale.register(str)(lambda value: value + "!")
        return (tensor(),)

    check(build, lambda: (tensor(),), lambda: (tensor(),), registered, state=build, frames=2)


def test_functools_partialmethod_and_cached_property():
    check(
        lambda x, box: (box.double(x), box.area, box.area), lambda: (tensor(), Box(3)), watch=lambda: Box.log
    )


class Box:
    """A class that leans on functools."""

    log: list[str] = []

    def __init__(self, side):
        self.side = side

    def times(self, x, by):
        return x * by * self.side

    double = functools.partialmethod(times, by=2)

    @functools.cached_property
    def area(self):
        return self.side**2


def test_operator_functions():
    def function(x, items):
        table = {"a": [1, 2]}
        operator.setitem(table, "b", x)
        operator.iadd(items, [4])
        return (
            operator.add(x, 1), operator.mul(x, x), operator.neg(x), operator.getitem(x, 0),
            operator.contains(items, 1),
            operator.matmul(x, x), operator.truediv(7, 2), operator.eq(1, 1.0), operator.not_(items), table,
            operator.countOf(items, 4), operator.indexOf(items, 4), operator.concat([1], [2]),
            operator.index(True),
        )  # fmt: skip

    check(function, lambda: (tensor(), [1, 2]))


def test_operator_getters():
    def function(x, rows, box):
        return (
            sorted(rows, key=operator.itemgetter(1)), operator.itemgetter(0, 1)(rows),
            operator.attrgetter("side")(box),
            operator.methodcaller("times", x, by=3)(box), operator.methodcaller("upper")("a"),
            operator.attrgetter("side", "side.real")(box),
        )  # fmt: skip

    check(function, lambda: (tensor(), [(1, "b"), (2, "a")], Box(2)))


def test_operator_getters_that_exist_before():
    first, upper = operator.itemgetter(1), operator.methodcaller("upper")
    check(lambda x: (x * first([1, 2, 3]), upper("a")))


def test_math_functions():
    def function(x, n):
        return (
            x * math.sqrt(n), math.floor(2.7), math.ceil(2.1), math.trunc(-2.7), math.gcd(12, 18),
            math.lcm(4, 6),
            math.prod([1, 2, 3]), math.fsum([0.1] * 10), math.isclose(0.1 + 0.2, 0.3), math.hypot(3, 4),
            math.log2(8),
            math.factorial(5), math.comb(5, 2), math.perm(5), math.isqrt(17), math.copysign(1, -0.0),
            math.fmod(-7, 3),
            math.modf(2.5), math.frexp(8.0), math.ldexp(0.5, 4), math.isnan(math.nan), math.inf, math.pi,
            math.tau,
            math.dist([0, 0], [3, 4]), math.log(8, 2), math.exp(1), math.pow(2, 0.5), math.degrees(math.pi),
        )  # fmt: skip

    check(function, lambda: (tensor(), 16), lambda: (tensor(), 16), lambda: (tensor(), 25), frames=2)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: math.sqrt(-1),
        lambda: math.log(0),
        lambda: math.exp(1000),
        lambda: math.factorial(-1),
        lambda: math.factorial(1.5),
        lambda: math.sqrt("a"),
        lambda: math.floor(math.inf),
        lambda: math.floor(math.nan),
        lambda: functools.reduce(operator.add, []),
        lambda: operator.itemgetter(5)([1]),
        lambda: operator.attrgetter("none")(1),
        lambda: operator.add(1, "a"),
        lambda: heapq.heappop([]),
        lambda: bisect.insort((1,), 2),
        lambda: functools.partial(3),
        lambda: re.compile("("),
        lambda: Colour(9),
        lambda: Colour["GREY"],
    ],
)
def test_wrong_use_raises_the_same(wrong):
    def function(x):
        y = x + 1
        try:
            wrong()
        except (TypeError, ValueError, OverflowError, LookupError, AttributeError, re.error) as error:
            return y, type(error), str(error)

    check(function)


def test_bisect():
    def function(x, items):
        bisect.insort(items, 4)
        return (
            x + bisect.bisect(items, 3),
            bisect.bisect_left(items, 3),
            items,
            bisect.bisect(items, -2, key=lambda i: -i),
        )

    check(function, lambda: (tensor(), [1, 3, 5]))


def test_heapq():
    def function(x, items):
        heapq.heapify(items)
        heapq.heappush(items, 0)
        smallest = heapq.heappop(items), heapq.heappushpop(items, 7), heapq.heapreplace(items, 8)
        merged = list(heapq.merge([1, 4], [2, 3]))
        return (
            x + smallest[0],
            smallest,
            items,
            heapq.nlargest(2, items),
            heapq.nsmallest(1, items, key=lambda i: -i),
            merged,
        )

    check(function, lambda: (tensor(), [5, 3, 9, 1]))


def test_copy():
    def function(x, table):
        shallow, deep = copy.copy(table), copy.deepcopy(table)
        table["rows"].append(x + 1)
        return shallow, deep, shallow["rows"] is table["rows"], copy.copy([1, 2]), copy.deepcopy((1, [2]))

    check(function, lambda: (tensor(), {"rows": [1, [2]]}))


class Colour(enum.Enum):
    """Members that functions choose by."""

    RED = 1
    BLUE = 2

    @property
    def scale(self):
        return self.value * 10


class Level(enum.IntFlag):
    """Flags."""

    LOW = 1
    HIGH = 2


def test_enums():
    def function(x, colour):
        if colour is Colour.RED:
            x = x + 1
        return (
            x * colour.scale, colour.name, Colour(2), Colour["BLUE"], colour == Colour.BLUE, list(Colour),
            {colour: 1},
            colour in (Colour.RED,), Level.LOW | Level.HIGH, Level.HIGH > 1, isinstance(colour, Colour),
            len(Colour),
        )  # fmt: skip

    check(function, lambda: (tensor(), Colour.RED), lambda: (tensor(), Colour.BLUE), frames=2)


def test_simple_namespace():
    def function(x, space):
        space.total = x + space.n
        made = types.SimpleNamespace(a=x, b=2)
        made.b += 1
        return made.b, made.a, space, made

    check(function, lambda: (tensor(), types.SimpleNamespace(n=2)))


def test_string_constants_and_regular_expressions():
    def function(x, text):
        found = re.findall(r"\d+", text)
        return x + len(found), found, string.digits, re.sub("a", "b", text), bool(re.match("x", text))

    check(function, lambda: (tensor(), "a1b22"), lambda: (tensor(), "a1b22c3"), frames=2)


def test_compiled_regular_expression():
    pattern = re.compile(r"(?P<letter>[a-z])(\d)")

    def function(x, text):
        match = pattern.match(text)
        return x + int(match.group(2)), match["letter"], match.groups(), pattern.split(text), match.span()

    check(function, lambda: (tensor(), "a1"))


def test_random_runs_between_graphs():
    def function(x):
        y = x + 1
        return y * random.random()

    check(function, state=lambda: random.seed(3), frames=2, breaks=1)
