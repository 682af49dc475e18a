"""Breaks at every kind of place: the same results, effects and order of effects.

A segment that enters a loop again finds an iterator that it cannot see into: each turn breaks there as well.
"""

# ruff: noqa: B008, C417, F821, F841

from __future__ import annotations

import sys
from typing import Any

import weft
from tests.capture.features.harness import check, everything_strict, tensor

LOG: list[Any] = []


def logged(function: Any, *calls: Any, **options: Any) -> None:
    check(function, *calls, state=LOG.clear, watch=lambda: list(LOG), **options)


@weft.compiler.disable
def say(value: Any) -> Any:
    """Breaks, and has an effect that is seen in order."""
    LOG.append(value)
    return value


def test_at_the_start_and_at_the_end() -> None:
    def f(x: Any) -> Any:
        say("start")
        x = x + 1
        say("end")
        return x

    logged(f, frames=1, breaks=2)


def test_between_statements() -> None:
    def f(x: Any) -> Any:
        a = x + 1
        say("one")
        b = a * 2
        say("two")
        return a - b

    logged(f, frames=3, breaks=2)


def test_in_the_middle_of_an_expression() -> None:
    def f(x: Any) -> Any:
        return (x + 1) * say(3) - (x * 2, say(4))[1]

    logged(f, frames=3, breaks=2)


def test_among_the_arguments_of_a_call() -> None:
    def add(*args: Any, **kwargs: Any) -> Any:
        return sum(args) + kwargs["last"]

    def f(x: Any) -> Any:
        return add(x + 1, say(2), *[x, say(3)], last=say(4) * x)

    logged(f, frames=2, breaks=3)


def test_in_a_condition() -> None:
    def f(x: Any) -> Any:
        y = x + 1
        if say(True) and not say(False):
            return y * 2
        return y

    logged(f, frames=2, breaks=2)


def test_on_data() -> None:
    def f(x: Any) -> Any:
        y = x + 1
        if y.sum() > 5:
            return y * 2
        return y - 2

    check(f, lambda: (tensor(),), lambda: (tensor(-1.0, -2.0, -3.0),), frames=3, breaks=1)


def test_in_a_for_loop() -> None:
    def f(x: Any) -> Any:
        for n in range(3):
            x = x + n
            say(n)
        return x * 2

    logged(f, frames=5, breaks=5)


def test_in_a_while_loop() -> None:
    def f(x: Any) -> Any:
        n = 0
        while n < 3:
            n += 1
            say(n)
            x = x * 2
        else:
            x = x + 1
        return x

    logged(f, frames=3, breaks=3)


def test_in_nested_loops() -> None:
    def f(x: Any) -> Any:
        for a in range(2):
            for b in [10, 20]:
                if a and b == 20:
                    say((a, b))
                x = x + b
        return x

    logged(f, frames=2, breaks=1)


def test_in_a_loop_over_containers() -> None:
    def f(x: Any, table: dict[str, Any]) -> Any:
        for key, value in table.items():
            say(key)
            x = x * value
        for a, b in zip([1, 2], (3, 4)):
            say(a)
            x = x + b
        for position, item in enumerate(reversed([5, 6])):
            say(item)
            x = x - position
        return x

    logged(f, lambda: (tensor(), {"a": 2.0, "b": 3.0}), frames=None, breaks=9)


def test_in_try_except_else_and_finally() -> None:
    def f(x: Any) -> Any:
        try:
            x = x + 1
            say("try")
            x = x * 2
        except ValueError:
            say("except")
        else:
            say("else")
            x = x - 3
        finally:
            say("finally")
            x = x / 4
        return x

    logged(f, frames=4, breaks=3)


def test_in_comprehensions() -> None:
    def f(x: Any) -> Any:
        y = x + 1
        made = [say(n) * y for n in range(2)], {say(n): 1 for n in "ab"}, {say(5)}
        return y * 2, made

    inlined = sys.version_info >= (3, 12)  # comprehensions without a frame of their own
    logged(f, frames=4, breaks=None if inlined else 7)


def test_in_a_called_function() -> None:
    def inner(x: Any) -> Any:
        x = x + 1
        say("inner")
        return x * 2

    def f(x: Any) -> Any:
        x = x - 5
        y = inner(x)
        return y / 3

    logged(f, frames=4, breaks=2)


def test_in_deeply_called_functions() -> None:
    def third(x: Any) -> Any:
        say("third")
        return x + 3

    def second(x: Any) -> Any:
        return third(x + 2) * 2

    def first(x: Any) -> Any:
        return second(x + 1) * 3

    logged(lambda x: first(x) + 1, frames=6, breaks=4)


def test_in_a_called_function_with_closure() -> None:
    def f(x: Any) -> Any:
        total = x * 0

        def add(value: Any) -> None:
            nonlocal total
            total = total + value
            say("add")

        add(x)
        add(x * 2)
        return total

    logged(f, frames=3, breaks=3)


def test_in_methods_called_by_operators() -> None:
    class Number:
        def __init__(self, value: Any) -> None:
            self.value = value

        def __add__(self, other: Any) -> Any:
            say("add")
            return Number(self.value + other)

        def __getitem__(self, key: Any) -> Any:
            say("getitem")
            return self.value * key

        def __eq__(self, other: object) -> Any:
            say("eq")
            return True

        def __bool__(self) -> bool:
            say("bool")
            return True

        def __len__(self) -> int:
            say("len")
            return 3

        def __iter__(self) -> Any:
            say("iter")
            return iter([1, 2])

        def __contains__(self, item: Any) -> bool:
            say("contains")
            return True

        def __call__(self, x: Any) -> Any:
            say("call")
            return x + 1

        def __str__(self) -> str:
            say("str")
            return "text"

        def __neg__(self) -> Any:
            say("neg")
            return self

    def f(x: Any) -> Any:
        n = Number(x + 1)
        n = n + 2
        answers = [n == 1, bool(n), len(n), list(n), 3 in n, str(n), f"{n}", not n, n[2] * 3]
        if -n:
            answers.append(n(x) * 2)
        for item in n:
            answers.append(item * x)
        return answers

    counted(f)


def counted(function: Any) -> None:
    """As `check`, where the number of breaks is not the point."""
    counter = weft.testing.CompileCounter()
    LOG.clear()
    expected, first = function(tensor()), list(LOG)
    LOG.clear()
    with everything_strict():
        actual = weft.compile(function, backend=counter)(tensor())
    assert first == LOG
    assert repr(actual) == repr(expected)
    assert counter.frame_count > 1


def test_in_properties_and_descriptors() -> None:
    class Own:
        def __init__(self, value: Any) -> None:
            self.inner = value

        @property
        def value(self) -> Any:
            say("get")
            return self.inner * 2

        @value.setter
        def value(self, new: Any) -> None:
            say("set")
            self.inner = new + 1

        def __getattr__(self, name: str) -> Any:
            say(name)
            return 7

    def f(x: Any) -> Any:
        own = Own(x + 1)
        own.value = own.value + 3
        return own.value * own.missing

    logged(f, frames=3, breaks=4)


def test_in_constructors() -> None:
    class Own:
        def __init__(self, x: Any) -> None:
            self.before = x + 1
            say("init")
            self.after = x * 2

    def f(x: Any) -> Any:
        own = Own(x - 1)
        return own.before + own.after

    logged(f, frames=2, breaks=1)


def test_in_callbacks_of_builtins() -> None:
    def f(x: Any) -> Any:
        y = x + 1
        order = sorted([3, 1, 2], key=lambda n: say(-n))
        made = list(map(lambda n: say(n) + 1, [1, 2]))
        return y * 2, order, made, max([1, 2], key=say)

    logged(f, frames=2, breaks=3)


def test_in_default_arguments_and_lambdas() -> None:
    def f(x: Any) -> Any:
        y = x + 1
        g = lambda z, by=say(3): z * by + say(1)
        return g(y) - 1

    logged(f, frames=4, breaks=3)


def test_in_recursion() -> None:
    def down(x: Any, n: int) -> Any:
        if n == 0:
            return x
        say(n)
        return down(x + n, n - 1) * 2

    counted(lambda x: down(x, 3))


def test_graph_break_function() -> None:
    def f(x: Any) -> Any:
        x = x + 1
        weft.compiler.graph_break()
        return x * 2

    check(f, frames=2, breaks=1)


def test_disabled_function() -> None:
    @weft.compiler.disable
    def outside(x: Any) -> Any:
        return x * 2 if weft.compiler.is_compiling() else x * 3

    check(lambda x: outside(x + 1) - 1, frames=2, breaks=1)


def test_disabled_function_inside_a_call() -> None:
    @weft.compiler.disable
    def outside(x: Any) -> Any:
        return inner(x) + 1

    def inner(x: Any) -> Any:
        return x * 2

    def middle(x: Any) -> Any:
        return outside(x + 1) * 5

    check(lambda x: middle(x) - 1, frames=3, breaks=2)


def test_allowed_in_graph() -> None:
    def helper(x: Any) -> Any:
        return x * len([1, 2, 3])

    weft.compiler.allow_in_graph(helper)
    check(lambda x: helper(x + 1) - 1, ops=3)


def test_locals_that_live_across() -> None:
    def f(x: Any, flag: bool) -> Any:
        a, b, unused = x + 1, [x, 2], x * 100
        if flag:
            c = x * 3
        say("break")
        b.append(a)
        try:
            return b, c
        except UnboundLocalError as error:
            return b, str(error)

    logged(f, lambda: (tensor(), True), lambda: (tensor(), False), frames=2, breaks=2)


def test_deleted_locals_stay_deleted() -> None:
    def f(x: Any) -> Any:
        a = x + 1
        b = a * 2
        del a
        say("break")
        try:
            return a
        except UnboundLocalError:
            return b + 1

    logged(f, frames=2, breaks=1)


def test_shared_objects_across() -> None:
    def f(x: Any) -> Any:
        shared: list[Any] = [x + 1]
        table = {"a": shared, "b": shared}
        nested = (shared, table)
        say("break")
        shared.append(x * 2)
        return table["a"] is table["b"], nested[0] is shared, nested

    logged(f, frames=2, breaks=1)


def test_iterators_across() -> None:
    def f(x: Any) -> Any:
        numbers = iter([1, 2, 3, 4])
        pairs = zip("ab", numbers)
        counting = enumerate("xyz")
        x = x + next(numbers) + next(counting)[0]
        say("break")
        return x * next(numbers), list(pairs), list(counting)

    logged(f, frames=2, breaks=1)


def test_functions_and_cells_across() -> None:
    def f(x: Any) -> Any:
        count = 0

        def step(by: int = 2) -> Any:
            nonlocal count
            count += by
            return x * count

        first = step()
        say("break")
        second = step(by=3)
        return first, second, count, step

    logged(f, frames=2, breaks=1)


def test_modes_across() -> None:
    def f(x: Any) -> Any:
        weft.set_grad_enabled(False)
        a = x * 2
        say("break")
        b = x * 3
        weft.set_grad_enabled(True)
        return a, b, x * 4

    logged(f, lambda: (tensor().requires_grad_(),), frames=2, breaks=1)


def test_in_place_before_and_after() -> None:
    def f(x: Any) -> Any:
        x.add_(1)
        say(x.tolist())
        x.mul_(2)
        return x

    logged(f, frames=2, breaks=2)


def test_attributes_written_before_and_after() -> None:
    class Own:
        pass

    def f(x: Any, own: Any) -> Any:
        own.a = x + 1
        say(sorted(vars(own)))
        own.b = own.a * 2
        say(sorted(vars(own)))
        del own.a
        return own

    logged(f, lambda: (tensor(), Own()), frames=2, breaks=2)


def test_import_and_class_definition() -> None:
    def f(x: Any) -> Any:
        x = x + 1
        import colorsys  # noqa: F401
        import math

        return x * math.floor(2.5)

    check(f)


def test_every_second_call_breaks() -> None:
    def f(x: Any, loud: bool) -> Any:
        x = x + 1
        if loud:
            say("loud")
        return x * 2

    quiet, loud = lambda: (tensor(), False), lambda: (tensor(), True)
    logged(f, quiet, loud, quiet, loud, frames=3, breaks=1)


def test_value_between_two_segments_that_cannot_be_read() -> None:
    class Key:
        def __hash__(self) -> int:
            calls.append("hash")
            return 1

    calls: list[str] = []

    def first(given: Any) -> Any:
        return list(given.values())[0] * 2

    def f(x: Any) -> Any:
        return first({Key(): x})  # the dict is made behind a break, and read in the next segment

    assert weft.equal(weft.compile(f)(tensor()), tensor() * 2)
