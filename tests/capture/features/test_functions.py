"""Functions and their arguments: how calls bind, what bad calls raise, decorators, partials, recursion."""

# ruff: noqa: B006, B008, PIE804, PLE1132 - unusual ways of writing things are what is tested

from __future__ import annotations

import functools
import inspect
import sys
import types
from typing import Any

import pytest

from tests.capture.features.harness import Call, check, tensor


def plain(x, scale=2, *rest, shift=1, **named):
    return x * scale + shift, rest, named


def strict(a, b, /, c, *, d):
    return a - b + c * d


def test_positional_and_keyword_arguments():
    check(lambda x: [plain(x), plain(x, 3), plain(x, scale=3), plain(scale=3, x=x, shift=4)])


def test_star_arguments():
    def function(x, items, names):
        return plain(x, *items), plain(x, *items, *items), plain(x, **names), plain(*items, **names, z=x)

    check(function, lambda: (tensor(), [3, 4], {"shift": 7, "other": 8}))


def test_star_arguments_of_changed_length():
    def function(x, items):
        return plain(x, *items)

    check(function, lambda: (tensor(), [3]), lambda: (tensor(), [3, 4]), lambda: (tensor(), []), frames=3)


def test_entry_takes_stars():
    def function(x, *items, key=1, **named):
        items[0].append(key)
        named["made"] = x + key
        return items, named

    check(
        function,
        lambda: Call(tensor(), [1], [2], key=3, other=[4]),
        lambda: Call(tensor(), [1], [2], key=3, other=[4]),
        lambda: Call(tensor(), [1]),
        frames=2,
    )


def test_keyword_only_and_positional_only():
    check(lambda x: strict(x, 1, c=x, d=2) + strict(x, 1, 3, d=x))


def test_positional_only_name_free_for_keywords():
    def inner(a, /, **named):
        return a, named

    check(lambda x: inner(x, a=x + 1))


@pytest.mark.parametrize(
    "call",
    [
        lambda x: plain(),
        lambda x: plain(x, x=x),
        lambda x: strict(x, 1, 2),
        lambda x: strict(x, 1, 2, 3),
        lambda x: strict(x, d=1, c=2),
        lambda x: strict(a=x, b=1, c=2, d=3),
        lambda x: strict(x, 1, 2, d=3, e=4),
        lambda x: plain(*x.shape[0]),
        lambda x: plain(x, **[1]),
        lambda x: plain(x, **{"shift": 1}, **{"shift": 2}),
        lambda x: plain(x, **{1: 2}),
        lambda x: len(x.shape)(x),
        lambda x: (lambda a: a)(),
        lambda x: (lambda a, *, b, c: a)(x),
        lambda x: (lambda a, b: a)(x, 1, 2),
        lambda x: (lambda a, b=1: a)(x, 1, 2),
        lambda x: (lambda: 1)(x),
    ],
)
def test_bad_call_is_the_same_type_error(call):
    def function(x):
        y = x + 1
        try:
            call(x)
        except TypeError as error:
            return y, str(error)

    check(function)


def test_bad_call_uncaught():
    def function(x):
        return strict(x + 1, 2)

    check(function, frames=0, raises=TypeError)


def test_bad_call_of_the_compiled_function():
    def function(x, y):
        return x + y

    check(function, lambda: Call(tensor(), z=1), frames=0, raises=TypeError)


def test_default_argument_keeps_its_changes():
    def build():
        def function(x, seen=[]):
            seen.append(len(seen))
            return x + len(seen), seen

        return function

    check(build, state=build, frames=2)


def test_changed_default_is_noticed():
    def function(x, scale=2):
        return x * scale

    def doubled():
        function.__defaults__ = (5,)
        return (tensor(),)

    check(function, lambda: (tensor(),), doubled, frames=2, state=lambda: reset_default(function))


def reset_default(function):
    function.__defaults__ = (2,)


def test_removed_default_of_the_compiled_function():
    def function(x, scale=2):
        return x * scale

    def removed():
        function.__defaults__ = None
        return (tensor(),)

    def begin():
        function.__defaults__ = (2,)

    check(function, lambda: (tensor(),), removed, state=begin, raises=TypeError)


def test_changed_keyword_default_is_noticed():
    def inner(x, *, scale=2):
        return x * scale

    def changed():
        inner.__kwdefaults__["scale"] = 3
        return (tensor(),)

    def begin():
        inner.__kwdefaults__["scale"] = 2

    check(lambda x: inner(x), lambda: (tensor(),), changed, frames=2, state=begin)


def test_defaults_of_inner_function_are_evaluated_once_in_order():
    def function(x, log):
        def note(value):
            log.append(value)
            return value

        def inner(a=note(1), b=note(2), *, c=note(3)):
            return x + a + b + c

        return inner() + inner(4), inner.__defaults__, inner.__kwdefaults__

    check(function, lambda: (tensor(), []))


def test_lambda_and_conditional_lambda():
    def function(x, flag):
        pick = (lambda y, k=3: y * k) if flag else (lambda y: y - 1)
        return pick(x)

    check(function, lambda: (tensor(), True), lambda: (tensor(), False), frames=2)


def doubling(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        wrapper.calls += 1
        return function(*args, **kwargs) * 2

    wrapper.calls = 0
    return wrapper


def test_decorator_with_wraps():
    @doubling
    def inner(x, y=1):
        """Doc."""
        return x + y

    def function(x):
        return inner(x, y=2), inner.__name__, inner.__doc__, inner.__wrapped__(x)

    def begin():
        inner.calls = 0

    check(function, state=begin, watch=lambda: inner.calls, frames=1)


def test_decorator_applied_inside():
    def function(x):
        @doubling
        def inner(y):
            return y + 1

        return inner(inner(x)), inner.calls, inner.__name__, inner.__wrapped__.__name__

    check(function)


def test_decorator_with_arguments_stacked():
    def scaled(by):
        def decorate(function):
            @functools.wraps(function)
            def wrapper(x):
                return function(x) * by

            return wrapper

        return decorate

    @scaled(2)
    @scaled(by=3)
    def inner(x):
        return x + 1

    check(lambda x: inner(x), ops=3)


def test_partial():
    held = functools.partial(plain, scale=3)

    def function(x):
        made = functools.partial(held, x, shift=5)
        return made(), made(other=x), made.func is plain, made.args, made.keywords, held(x)

    def begin():
        held.keywords["scale"] = 3

    check(function, state=begin)


def test_partial_whose_keywords_change_is_noticed():
    held = functools.partial(plain, scale=3)

    def changed():
        held.keywords["scale"] = 4
        return (tensor(),)

    def begin():
        held.keywords["scale"] = 3

    check(lambda x: held(x), lambda: (tensor(),), changed, state=begin, frames=2)


def test_partial_escapes():
    check(lambda x: functools.partial(plain, x + 1, shift=5), after=lambda made: made(3))


def test_recursion():
    def power(x, n):
        return x if n == 1 else x * power(x, n - 1)

    check(
        lambda x, n: power(x, n),
        lambda: (tensor(), 4),
        lambda: (tensor(), 4),
        lambda: (tensor(), 2),
        frames=2,
    )


def test_recursion_of_the_entry_itself():
    def function(x, n):
        return x if n == 0 else function(x + n, n - 1)

    check(function, lambda: (tensor(), 3), ops=3)


def test_mutual_recursion():
    def even(x, n):
        return x if n == 0 else odd(x + 1, n - 1)

    def odd(x, n):
        return -x if n == 0 else even(x * 2, n - 1)

    check(lambda x: even(x, 5))


def test_function_returns_function():
    def function(x):
        def inner(y, k=2):
            return x * y + k

        return inner

    check(function, after=lambda inner: (inner(3), inner(tensor(), k=1), inner.__name__), frames=0)


def test_function_attributes():
    def inner(x):
        inner.count += 1
        return x + inner.scale

    def function(x):
        inner.scale = 3
        return inner(x)

    def begin():
        inner.__dict__.clear()
        inner.count = 0

    check(function, state=begin, watch=lambda: dict(inner.__dict__), frames=1)


def test_functions_as_values_in_containers():
    table = {"add": lambda x, y: x + y, "mul": lambda x, y: x * y}

    def function(x, name):
        return table[name](x, 3)

    check(function, lambda: (tensor(), "add"), lambda: (tensor(), "mul"), frames=2)


def test_replaced_function_in_a_table_is_noticed():
    table = {}

    def function(x):
        return table["f"](x)

    def replaced():
        table["f"] = lambda x: x * 5
        return (tensor(),)

    def begin():
        table["f"] = lambda x: x + 1

    check(function, lambda: (tensor(),), replaced, state=begin, frames=2)


def test_argument_passed_twice_is_one_object():
    def function(x, a, b):
        a.append(x + 1)
        b.append(x + 2)
        return a, b

    def twice():
        shared = []
        return (tensor(), shared, shared)

    check(function, lambda: (tensor(), [], []), twice, frames=2)


def test_order_of_argument_evaluation():
    def function(x, log):
        def note(value):
            log.append(value)
            return value

        plain(note(x), *[note(2), note(3)], shift=note(4), **{"k": note(5)})
        return x + 1

    check(function, lambda: (tensor(), []))


def test_method_and_builtin_as_callbacks():
    def function(x, items):
        push = items.append
        push(x.sum)
        grow = x.add
        return [call(2) for call in (grow, x.mul)], items[-1]()

    check(function, lambda: (tensor(), []))


def test_callable_checks():
    check(lambda x: (x + 1, callable(plain), callable(3), callable(int), callable(x)))


def test_what_an_object_is() -> None:
    def program(x):  # type: ignore[no-untyped-def]
        made = (x + i for i in range(2))
        facts = (
            inspect.isgenerator(made), inspect.isfunction(program), inspect.isclass(int),
            inspect.ismethod([].append), inspect.ismodule(inspect), inspect.isbuiltin(len),
        )  # fmt: skip
        return sum(made), facts

    check(program, lambda: [tensor(2)])


def test_import_by_a_call() -> None:
    """Of a module that is there: what `sys.modules` holds, guarded."""

    def program(x, s):  # type: ignore[no-untyped-def]
        return x * __import__("math").exp(s), __import__("os.path").__name__

    check(program, lambda: (tensor(), 0.5))


def test_import_by_a_call_of_a_module_that_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    modules = [types.ModuleType("standing_in"), types.ModuleType("standing_in")]
    modules[0].scale, modules[1].scale = 2, 3  # type: ignore[attr-defined]
    waiting: list[types.ModuleType] = []

    def arguments() -> tuple[Any, ...]:
        monkeypatch.setitem(sys.modules, "standing_in", waiting.pop(0))
        return (tensor(),)

    def program(x):  # type: ignore[no-untyped-def]
        return x * __import__("standing_in").scale

    check(program, arguments, arguments, frames=2, state=lambda: waiting.__setitem__(slice(None), modules))


def test_import_by_a_call_of_what_is_missing() -> None:
    def program(x):  # type: ignore[no-untyped-def]
        y = x + 1
        try:
            return __import__("there_is_no_such_module")
        except ImportError as error:
            return y, str(error)

    check(program, breaks=None, frames=None)
