"""Generators in captured code: driven by hand and by builtins, delegating, closed, kept across breaks."""

# ruff: noqa: C400, C402, C417

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from tests.capture.features.harness import check, tensor

LOG: list[Any] = []


def logged(function: Any, *calls: Any, **options: Any) -> None:
    check(function, *calls, state=LOG.clear, watch=lambda: list(LOG), **options)


def counted(stop: int) -> Iterator[int]:
    LOG.append("start")
    try:
        for n in range(stop):
            got = yield n
            if got is not None:
                LOG.append(("got", got))
    except ValueError as error:
        LOG.append(("thrown", str(error)))
        yield -1
    finally:
        LOG.append("finally")


def scaled(x: Any, *factors: float) -> Iterator[Any]:
    for factor in factors:
        yield x * factor


def test_generator_in_a_loop() -> None:
    def f(x: Any) -> Any:
        for y in scaled(x, 1.0, 2.0, 3.0):
            x = x + y
        return x

    check(f, ops=6)


def test_generator_is_lazy() -> None:
    def f(x: Any) -> Any:
        made = counted(1)
        LOG.append("made")
        first = next(made)
        LOG.append("between")
        return x + first, list(made)

    logged(f)


def test_generator_send() -> None:
    def average() -> Any:
        total, count = 0.0, 0
        value = yield None
        while True:
            total, count = total + value, count + 1
            value = yield total / count

    def f(x: Any) -> Any:
        made = average()
        next(made)
        return made.send(x), made.send(x * 3), made.send(x + 1)

    check(f)


def test_generator_send_before_the_start() -> None:
    def f(x: Any) -> Any:
        try:
            counted(3).send(4)
        except TypeError as error:
            return x + 1, str(error)

    check(f)


def test_generator_throw_caught_inside() -> None:
    def f(x: Any) -> Any:
        made = counted(3)
        first = next(made)
        second = made.throw(ValueError("in"))
        return x + first, second, next(made, "end"), next(made, "end")

    logged(f)


def test_generator_throw_not_caught() -> None:
    def f(x: Any) -> Any:
        made = counted(3)
        next(made)
        try:
            made.throw(KeyError("k"))
        except KeyError as error:
            return x + 1, error.args, next(made, "end")

    logged(f)


def test_generator_throw_before_the_start() -> None:
    def f(x: Any) -> Any:
        made = counted(3)
        try:
            made.throw(ValueError("v"))
        except ValueError as error:
            return x + 1, str(error), list(made)

    check(f)


def test_generator_close() -> None:
    def f(x: Any) -> Any:
        made = counted(3)
        next(made)
        made.close()
        made.close()
        unstarted = counted(2)
        unstarted.close()
        return x + 1, list(made), list(unstarted)

    logged(f)


def test_generator_that_ignores_close() -> None:
    def stubborn() -> Iterator[int]:
        try:
            yield 1
        except GeneratorExit:
            yield 2

    def f(x: Any) -> Any:
        made = stubborn()
        next(made)
        try:
            made.close()
        except RuntimeError as error:
            return x + 1, str(error)

    check(f)


def test_generator_return_value() -> None:
    def returning() -> Any:
        yield 1
        return "done"

    def f(x: Any) -> Any:
        made = returning()
        next(made)
        try:
            next(made)
        except StopIteration as stop:
            return x + 1, stop.value, stop.args

    check(f)


def test_yield_from_with_a_return_value() -> None:
    def inner(x: Any) -> Any:
        got = yield x + 1
        LOG.append(got)
        return x * 2

    def outer(x: Any) -> Any:
        result = yield from inner(x)
        yield result + 100

    def f(x: Any) -> Any:
        made = outer(x)
        return next(made), made.send("sent"), next(made, None)

    logged(f)


def test_yield_from_containers_and_iterators() -> None:
    def outer(x: Any) -> Any:
        yield from [x, x + 1]
        yield from (x * n for n in range(2))
        yield from "ab"
        yield from range(2)
        yield from {"k": 1}

    check(lambda x: list(outer(x)))


def test_yield_from_throw_and_close() -> None:
    def inner() -> Any:
        try:
            yield 1
        except ValueError:
            LOG.append("inner caught")
            yield 2
        finally:
            LOG.append("inner finally")

    def outer() -> Any:
        try:
            yield from inner()
        finally:
            LOG.append("outer finally")

    def f(x: Any) -> Any:
        made = outer()
        first, second = next(made), made.throw(ValueError())
        made.close()
        return x + first + second

    logged(f)


def test_yield_from_passes_exceptions_of_the_inner() -> None:
    def inner() -> Any:
        yield 1
        raise KeyError("inner")

    def outer() -> Any:
        try:
            yield from inner()
        except KeyError as error:
            yield error.args

    check(lambda x: (list(outer()), x + 1))


def test_stop_iteration_becomes_runtime_error() -> None:
    def leaking() -> Any:
        yield 1
        raise StopIteration("leak")

    def f(x: Any) -> Any:
        try:
            return list(leaking())
        except RuntimeError as error:
            return x + 1, str(error), type(error.__cause__), error.__cause__.args

    check(f)


def test_next_of_an_empty_iterator_inside_a_generator() -> None:
    def leaking() -> Any:
        yield next(iter([]))

    def f(x: Any) -> Any:
        try:
            next(leaking())
        except RuntimeError as error:
            return x + 1, str(error)

    check(f)


def test_generator_running_already() -> None:
    def own() -> Any:
        yield next(made[0])

    made: list[Any] = []

    def f(x: Any) -> Any:
        made[:] = [own()]
        try:
            next(made[0])
        except ValueError as error:
            made.clear()
            return x + 1, str(error)

    check(f)


def test_generator_expressions() -> None:
    def f(x: Any) -> Any:
        total = sum(x * n for n in range(3) if n)
        nested = list(a * b for a in range(2) for b in range(3) if a != b)
        return total, nested, any(n > 1 for n in range(3)), max((n for n in [3, 1]), default=0)

    check(f)


def test_generators_passed_to_builtins() -> None:
    def f(x: Any) -> Any:
        pairs = dict((n, x + n) for n in range(2))
        return (
            list(scaled(x, 1.0, 2.0)),
            tuple(scaled(x, 3.0)),
            list(zip(scaled(x, 1.0, 2.0), "ab")),
            list(enumerate(counted(2))),
            list(map(lambda n: n + 1, counted(3))),
            pairs,
            [*counted(2)],
            set(counted(3)),
            sorted(counted(3), reverse=True),
            "".join(str(n) for n in counted(3)),
            list(itertools.islice(counted(9), 2)),
            list(itertools.chain(counted(1), counted(2))),
        )

    check(f)


def test_generator_unpacked() -> None:
    def f(x: Any) -> Any:
        a, b = scaled(x, 1.0, 2.0)
        first, *rest = counted(4)
        try:
            c, d = scaled(x, 1.0, 2.0, 3.0)
        except ValueError as error:
            return a + b, first, rest, str(error)

    check(f)


def test_infinite_generator_partly_consumed() -> None:
    def naturals() -> Iterator[int]:
        n = 0
        while True:
            yield n
            n += 1

    def f(x: Any) -> Any:
        made = naturals()
        for n in made:
            if n == 3:
                break
        return x + next(made), list(zip(made, "ab")), next(made)

    check(f)


def test_generator_method_and_recursion() -> None:
    class Tree:
        def __init__(self, value: Any, *children: Any) -> None:
            self.value, self.children = value, children

        def __iter__(self) -> Iterator[Any]:
            yield self.value
            for child in self.children:
                yield from child

    def f(tree: Tree) -> Any:
        total = 0
        for value in tree:
            total = total + value
        return total

    check(f, lambda: (Tree(tensor(), Tree(tensor()), Tree(tensor(), Tree(2))),))


def test_generator_closure_changes() -> None:
    def f(x: Any) -> Any:
        factor = 1

        def produce() -> Iterator[Any]:
            nonlocal factor
            while factor < 10:
                yield x * factor
                factor *= 3

        return list(produce()), factor

    check(f)


def test_unstarted_generator_returned() -> None:
    check(lambda x: scaled(x + 1, 1.0, 2.0), after=lambda made: list(made))


def test_started_generator_returned() -> None:
    def f(x: Any) -> Any:
        made = counted(4)
        return next(made) + x, made, next(made)

    def rest(result: Any) -> Any:
        made = result[1]
        return made.send("s"), made.throw(ValueError("late")), list(made)

    logged(f, after=rest)


def test_generator_with_a_half_done_loop_returned() -> None:
    def walk(x: Any) -> Iterator[Any]:
        for n, y in enumerate([x, x * 2, x * 3]):
            for m in range(2):
                yield y + n + m

    def f(x: Any) -> Any:
        made = walk(x + 1)
        return [next(made) for _ in range(3)], made

    check(f, after=lambda result: list(result[1]))


def test_generator_stored_on_an_object() -> None:
    class Holder:
        pass

    def f(x: Any, holder: Any) -> Any:
        holder.made = scaled(x + 1, 1.0, 2.0, 3.0)
        holder.first = next(holder.made)
        return x * 2

    def make() -> tuple[Any, Any]:
        holders.append(Holder())
        return tensor(), holders[-1]

    holders: list[Any] = []
    check(f, make, after=lambda _: list(holders[-1].made))


def test_generator_across_a_break() -> None:
    def f(x: Any) -> Any:
        made = scaled(x, 1.0, 2.0, 3.0)
        first = next(made)
        print("break")
        return first + next(made), list(made)  # a real generator from here

    check(f, frames=2, breaks=3)


def test_loop_over_a_generator_with_a_break_inside() -> None:
    def f(x: Any) -> Any:
        for y in scaled(x, 1.0, 2.0, 3.0):
            x = x + y
            print("break")
        return x

    check(f, frames=2, breaks=4)


def test_break_inside_a_generator() -> None:
    def noisy(x: Any) -> Iterator[Any]:
        yield x + 1
        print("break")
        yield x + 2

    def f(x: Any) -> Any:
        x = x * 2
        for y in noisy(x):
            x = x + y
        return x

    check(f, frames=2, breaks=2)


def test_generator_argument() -> None:
    def f(x: Any, made: Any) -> Any:
        x = x + 1
        return x + next(made), list(made)

    check(f, lambda: (tensor(), counted(3)), frames=2, breaks=2)


def test_finally_runs_when_the_loop_is_left() -> None:
    def f(x: Any) -> Any:
        made = counted(5)
        for n in made:
            x = x + n
            if n == 2:
                break
        LOG.append("after")
        made.close()
        return x

    logged(f)


def test_generator_attributes() -> None:
    def f(x: Any) -> Any:
        made = counted(2)
        return made.__name__, made.__qualname__, iter(made) is made, hasattr(made, "send"), x + 1

    check(f)


def test_isinstance_of_a_generator() -> None:
    def f(x: Any) -> Any:
        made = counted(2)
        return isinstance(made, Iterator), isinstance(made, list), type(made).__name__, x + 1

    check(f)


def test_generator_truth_and_equality() -> None:
    def f(x: Any) -> Any:
        a, b = counted(1), counted(1)
        return bool(a), a == b, a == a, a is not b, a in [a], x + 1

    check(f)


def test_generator_as_a_pipeline() -> None:
    def evens(numbers: Any) -> Any:
        return (n for n in numbers if n % 2 == 0)

    def squares(numbers: Any) -> Any:
        for n in numbers:
            yield n * n

    check(lambda x: x * sum(squares(evens(counted(7)))))


def test_generator_that_writes_to_arguments() -> None:
    def fill(target: list[Any], x: Any) -> Iterator[int]:
        for n in range(3):
            target.append(x + n)
            yield n

    def f(x: Any, target: list[Any]) -> Any:
        for n in fill(target, x):
            if n == 1:
                break
        return len(target)

    check(f, lambda: (tensor(), []), ops=2)
