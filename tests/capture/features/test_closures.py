"""Variables: closures, cells, nonlocal, globals and builtins, and that their changes are noticed."""

# ruff: noqa: B023, F821 - unusual ways of writing things are what is tested

from __future__ import annotations

from tests.capture.features.harness import check, one, tensor
from weft.compiler import graph_break

LEVEL = 3
TABLE: dict[str, int] = {}


def begin():
    """The globals of this file as they are before each side."""
    globals().update(LEVEL=3, TABLE={})
    for name in ("made", "len", "doomed"):
        globals().pop(name, None)


def test_closure_over_a_value():
    def build():
        scale = 3
        return lambda x: x * scale

    check(build, state=build)


def test_changed_closure_is_noticed():
    def build():
        scale = 3

        def function(x, new=None):
            return x * scale

        def change(value):
            nonlocal scale
            scale = value

        function.change = change
        build.function = function
        return function

    def changed():
        build.function.change(7)
        return one()

    check(build, one, changed, state=build, frames=2)


def test_two_closures_of_one_code_do_not_share_entries():
    def build(scale):
        return lambda x: x * scale

    two, five = build(2), build(5)
    check(lambda x, f: f(x), lambda: (tensor(), two), lambda: (tensor(), five), frames=2)


def test_nonlocal_counter_inside():
    def function(x):
        count = 0

        def step():
            nonlocal count
            count += 1
            return count

        return x + step() + step(), count

    check(function)


def test_nonlocal_written_outside():
    def build():
        count = 0

        def function(x):
            nonlocal count
            count += 1
            return x + count

        build.read = lambda: count
        return function

    check(build, one, one, one, one, one, state=build, watch=lambda: build.read(), frames=1)


def test_nonlocal_holds_a_tensor():
    def build():
        total = tensor(0.0, 0.0, 0.0)

        def function(x):
            nonlocal total
            total = total + x
            return total

        build.read = lambda: total
        return function

    check(build, one, one, one, state=build, watch=lambda: build.read())


def test_two_functions_share_a_cell():
    def function(x):
        value = x

        def put(new):
            nonlocal value
            value = new

        def get():
            return value

        put(get() + 1)
        return put, get, value

    def use(result):
        put, get, value = result
        before = get()
        put(5)
        return before is value, get()

    check(function, after=use)


def test_cells_shared_after_a_break():
    def function(x):
        count = 1

        def step(by):
            nonlocal count
            count += by
            return count

        y = x + step(1)
        graph_break()
        y = y * step(2)
        count += 10
        return y, step, count

    check(function, after=lambda result: (result[1](1), result[1](1)), frames=2, breaks=1)


def test_cell_of_an_argument_after_a_break():
    def function(x, n):
        def bump():
            nonlocal n
            n += 1
            return x * n

        first = bump()
        graph_break()
        x = x + 100
        return first, bump(), n

    check(function, lambda: (tensor(), 1), frames=2, breaks=1)


def test_unbound_cell():
    def function(x, flag):
        def inner():
            return value

        if flag:
            value = x + 1
        try:
            return inner()
        except NameError as error:
            return str(error), x + 2

    check(function, lambda: (tensor(), True), lambda: (tensor(), False), frames=2)


def test_deleted_cell():
    def function(x):
        value = x + 1
        inner = lambda: value
        first = inner()
        del value
        try:
            inner()
        except NameError as error:
            return first, type(error), str(error)

    check(function)


def test_deleted_local():
    def function(x):
        y = x + 1
        del y
        try:
            return y
        except UnboundLocalError as error:
            return str(error), x * 2

    check(function)


def test_late_binding_in_a_loop():
    def function(x):
        late = [lambda: x + i for i in range(3)]
        early = [lambda i=i: x + i for i in range(3)]
        return [f() for f in late], [f() for f in early]

    check(function)


def test_late_binding_escapes():
    def function(x):
        made = []
        for i in range(3):
            made.append(lambda y: x * i + y)
        return made

    check(function, after=lambda made: [f(k) for k, f in enumerate(made)], frames=0)


def test_closure_three_levels_deep():
    def function(x):
        a = 1

        def outer():
            b = a + 1

            def middle():
                def inner():
                    nonlocal b
                    b += a
                    return x * b

                return inner() + inner()

            return middle(), b

        return outer()

    check(function)


def test_nested_function_written_recursively():
    def function(x):
        def depth(tree):
            return x * tree if isinstance(tree, int) else sum(map(depth, tree))

        return depth([1, [2, [3]], 4])

    check(function)


def test_global_read_and_changed():
    def function(x):
        return x * LEVEL

    def changed():
        globals()["LEVEL"] = 4
        return one()

    check(function, one, changed, state=begin, frames=2)


def test_global_written():
    def function(x):
        global LEVEL, made
        LEVEL = LEVEL + 1
        made = x + LEVEL
        return made

    check(function, one, one, state=begin, watch=lambda: (LEVEL, globals()["made"]), frames=1)


def test_global_written_then_read_by_another_function():
    def other():
        return LEVEL * 2

    def function(x):
        global LEVEL
        LEVEL = 10
        return x + other()

    check(function, state=begin, watch=lambda: LEVEL)


def test_global_deleted():
    def function(x):
        global doomed
        doomed = x
        y = doomed + 1
        del doomed
        try:
            del doomed
        except NameError as error:
            return y, str(error)

    check(function, state=begin, watch=lambda: "doomed" in globals())


def test_existing_global_deleted():
    def function(x):
        global doomed
        del doomed
        return x + 1

    def doom():
        globals()["doomed"] = 1
        return one()

    check(function, doom, doom, state=begin, watch=lambda: "doomed" in globals())


def test_missing_global():
    def function(x):
        try:
            return x + missing
        except NameError as error:
            return x + 1, str(error), error.name

    check(function)


def test_missing_global_that_appears_is_noticed():
    def function(x):
        try:
            return x + made
        except NameError:
            return x * 2

    def appears():
        globals()["made"] = 5
        return one()

    check(function, one, appears, state=begin, frames=2)


def test_builtin_shadowed_by_a_global_is_noticed():
    def function(x, items):
        return x + len(items)

    def shadowed():
        globals()["len"] = lambda items: 100
        return (tensor(), [1, 2])

    check(function, lambda: (tensor(), [1, 2]), shadowed, state=begin, frames=2)
    begin()


def test_builtin_shadowed_by_a_local():
    def function(x):
        sum = lambda items: 7
        list = (1, 2)
        return x + sum(list)

    check(function)


def test_global_container_changed_in_place():
    def function(x):
        TABLE["calls"] = TABLE.get("calls", 0) + 1
        return x + TABLE["calls"]

    check(function, one, one, one, state=begin, watch=lambda: dict(TABLE), frames=2)


def test_globals_call():
    def function(x):
        names = globals()
        names["made"] = x + LEVEL
        return x + names["LEVEL"], "LEVEL" in names, "none" in names, names.get("none", 5), names is globals()

    def changed():
        globals()["LEVEL"] = 8
        return one()

    check(function, one, one, changed, state=begin, frames=2, watch=lambda: globals()["made"])


def test_globals_after_a_break():
    def function(x):
        names = globals()
        names["made"] = x + 1
        graph_break()
        return names["made"] * names["LEVEL"], names is globals()

    check(function, state=begin, frames=2, breaks=1, watch=lambda: globals()["made"])


def test_annotations_and_type_statements_of_locals():
    def function(x):
        y: int = 3
        z: list[int]
        z = [y]
        return x + y, z

    check(function)


def test_same_object_in_two_closures():
    def build():
        shared = []

        def push(value):
            shared.append(value)

        def function(x):
            push(x + 1)
            push(2)
            return shared

        return function

    check(build, one, one, state=build, frames=1)
