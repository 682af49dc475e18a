"""Corners where identity, order or laziness show: sharing, unpacking, sorting, loops with breaks."""

# ruff: noqa: B006, B008, B033, C408, C416, E741, F821, PIE804 - unusual writing is what is tested

from __future__ import annotations

import functools
import math

from tests.capture.features.harness import check, tensor
from weft.compiler import graph_break


def test_star_args_identity():
    def inner(*a, **k):
        return a, k

    def function(x, t, d):
        a, k = inner(*t, **d)
        return a is t, k is d, a, k, inner()[0] is tuple(), x + 1

    check(function, lambda: (tensor(), (1, [2]), {"a": 1}))


def test_escaping_function_keeps_what_it_is():
    def function(x):
        def inner(a: int, b: str = "s", *, c=x + 1) -> list:
            """Doc."""
            return a, b, c

        inner.mark = [x]
        return inner

    check(
        function,
        after=lambda f: (
            f(1),
            f.__name__,
            f.__qualname__,
            f.__doc__,
            f.__annotations__,
            f.__kwdefaults__,
            f.__defaults__,
            f.__module__,
            f.mark,
        ),
    )


def test_inner_default_is_shared_between_calls():
    def function(x):
        def inner(acc=[]):
            acc.append(len(acc))
            return acc

        inner()
        inner()
        return inner, x + 1

    check(function, after=lambda r: (r[0](), r[0]()))


def test_deep_recursion():
    def deep(x, n):
        return x if n == 0 else deep(x + 1, n - 1)

    check(lambda x: deep(x, 40), ops=40)


def test_partials_nest():
    def f(*a, **k):
        return a, k

    def function(x):
        p = functools.partial(functools.partial(f, 1, a=2), 3, b=x)
        return (
            p(4, a=5),
            p.args,
            p.keywords,
            p.func is f,
            functools.partial(int, base=2)("101"),
            functools.partial(x.add, 2)(),
            functools.partial(max, 3)(1, 2),
        )

    check(function)


def test_del_global_uncovers_builtin():
    def function(x, items):
        global len
        n = len(items)
        del len
        return x + n, len(items)

    def begin():
        globals()["len"] = lambda i: 50
        return (tensor(), [1, 2])

    check(function, begin, begin)
    globals().pop("len", None)


def test_sort_key_that_changes_the_list():
    def function(x, items):
        try:
            items.sort(key=lambda i: items.append(1) or i)
        except ValueError as e:
            return x + 1, str(e)

    check(function, lambda: (tensor(), [3, 1, 2]), breaks=1)


def test_sort_key_that_raises():
    def function(x, items):
        try:
            items.sort(key=lambda i: 1 / i)
        except ZeroDivisionError:
            return x + 1, items

    check(function, lambda: (tensor(), [3, 0, 2]))


def test_star_generator_and_iterators():
    def f(*a):
        return a

    def function(x):
        it = iter([1, 2, 3])
        next(it)
        return f(*it), f(*(i * x for i in range(2))), f(*"ab", *[1]), [*it], f(*{"k": 1}), f(*range(2))

    check(function)


def test_unpack_iterators_lazily():
    def function(x, log):
        def gen():
            for i in range(5):
                log.append(i)
                yield x + i

        try:
            a, b = gen()
        except ValueError as e:
            return str(e), log

    check(function, lambda: (tensor(), []))


def test_keyword_order():
    def f(**k):
        return list(k.items())

    check(lambda x: (x + 1, f(b=1, a=2, **{"z": 3, "c": 4}), f(**{"q": 1}, a=1)))


def test_tensor_in_default_argument_of_the_entry():
    def build():
        def function(x, w=tensor()):
            return x * w

        return function

    check(build, state=build)


def test_nan_in_containers():
    def function(x):
        nan = math.nan
        items = [nan, 1]
        seen = items.index(nan), items.count(nan), [nan] == items[:1], {nan: 1}[nan], (nan,) == (nan,)
        return x + 1, nan in items, seen, nan == nan, float("nan") in items

    check(function)


def test_bool_int_keys_collide():
    def function(x, d):
        d[True] = x + 1
        d[1.0] = 2
        return d, d[1], 1 in {True}, {1, True, 1.0}

    check(function, lambda: (tensor(), {1: "a"}))


def test_order_of_sets_made_inside():
    def function(x):
        letters = {c for c in "hello"}
        return (
            x + len(letters),
            list(letters),
            list({"a", "b", "c"}),
            frozenset("xyz"),
            [i for i in {5, 3, 40}],
        )

    check(function)


def test_dict_views_of_arguments_escape():
    def function(x, d):
        k = d.keys()
        d["new"] = x + 1
        return k, d.items(), list(k)

    check(function, lambda: (tensor(), {"a": 1}), after=lambda r: (list(r[0]), list(r[1])))


def test_chained_assignment_shares():
    def function(x):
        a = b = [x + 1]
        b.append(2)
        c, d = a, b
        return a, b, a is b, c is d

    check(function)


def test_list_multiplication_shares_rows():
    def function(x):
        rows = [[0] * 2] * 3
        rows[0][0] = x + 1
        return rows

    check(function)


def test_extended_slices_of_arguments():
    def function(x, l):
        l[::2] = [x, x + 1, 9]
        del l[1::2]
        l[1:1] = [7, 8]
        return l

    check(function, lambda: (tensor(), [1, 2, 3, 4, 5]))


def test_nested_comprehension_with_closures_and_breaks():
    def function(x, items):
        y = [x * i for i in items]
        graph_break()
        return [sum(y) + j for j in items], {i: [k for k in range(i)] for i in items}

    check(function, lambda: (tensor(), [1, 2]), frames=2, breaks=1)


def test_loop_with_a_break_in_the_body():
    def function(x, items):
        for i in items:
            x = x + i
            graph_break()
            x = x * 2
        else:
            x = x - 1
        return x

    check(function, lambda: (tensor(), [1.5, 2.5, 3.5]), lambda: (tensor(), [1.5, 2.5]), frames=7, breaks=6)


def test_try_finally_with_continue():
    def function(x, items):
        log = []
        for i in items:
            try:
                if i == 1:
                    continue
                if i == 3:
                    break
                x = x + i
            finally:
                log.append(i)
        return x, log

    check(function, lambda: (tensor(), [0, 1, 2, 3, 4]))
