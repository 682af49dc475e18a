"""Building objects again: what is shared stays shared, cycles close, names are found."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from types import CellType

import pytest

import weft
from tests.capture.segments import Segment, emitted_of, outcome_of, rebuilt, text_of
from weft.capture.outcome import EscapingException
from weft.capture.world import World
from weft.trace.breaks import Break


class Node:
    def __init__(self, value, parent=None):
        self.value, self.parent = value, parent


def test_shared_objects_stay_shared():
    inner = [1]
    made = rebuilt([inner, inner, {"k": inner}])
    assert made == [[1], [1], {"k": [1]}]
    assert made[0] is made[1] is made[2]["k"]


def test_equal_objects_stay_apart():
    made = rebuilt([[1], [1]])
    assert made[0] is not made[1]


def test_what_existed_before_is_itself():
    shared = Node(1)
    assert rebuilt([shared, (shared,)], a=shared)[0] is shared
    assert rebuilt([shared, (shared,)], a=shared)[1][0] is shared


@pytest.mark.parametrize("make", [list, deque])
def test_sequences_that_hold_themselves(make):
    value = make()
    value.append(1)
    value.append(value)
    made = rebuilt(value)
    assert type(made) is make and made[0] == 1 and made[1] is made


@pytest.mark.parametrize("make", [dict, OrderedDict, lambda: defaultdict(list)])
def test_mappings_that_hold_themselves(make):
    value = make()
    value["self"] = value
    value["n"] = 1
    made = rebuilt(value)
    assert type(made) is type(value) and made["self"] is made and list(made) == ["self", "n"]


def test_cycle_through_a_tuple_and_a_list():
    inner = []
    outer = (inner, 1)
    inner.append(outer)
    made = rebuilt(outer)
    assert made[0][0] is made and made[1] == 1


def test_two_cycles_that_share_a_list():
    first, second = [], {}
    first += [second, first]
    second["a"] = first
    made = rebuilt((first, second))
    assert made[0][1] is made[0] and made[0][0] is made[1] and made[1]["a"] is made[0]


def test_instances_may_point_at_each_other():
    top = Node(1)
    top.children = [Node(2, top), Node(3, top)]
    made = rebuilt(top)
    assert type(made) is Node and [child.value for child in made.children] == [2, 3]
    assert all(child.parent is made for child in made.children)


def test_a_long_chain_needs_no_deep_recursion():
    chain = None
    for number in range(3000):
        chain = Node(number, chain)
    made = rebuilt(chain)
    count = 0
    while made is not None:
        made, count = made.parent, count + 1
    assert count == 3000


def test_what_is_nested_too_deeply_is_refused():
    value = []
    for _ in range(5000):
        value = [value]
    with pytest.raises(Break, match="nested too deeply"):
        rebuilt(value)


def test_cells_that_functions_share():
    def make():
        count = 0

        def up():
            nonlocal count
            count += 1
            return count

        def read():
            return count

        return up, read

    up, read = rebuilt(make())
    assert (up(), up(), read()) == (1, 2, 2)


def test_a_function_in_its_own_closure():
    def make():
        def factorial(n):
            return 1 if n < 2 else n * factorial(n - 1)

        return factorial

    made = rebuilt(make())
    assert made(5) == 120 and made.__closure__[0].cell_contents is made


def test_a_raised_exception_escapes():
    world, error = World(), ValueError(1)
    world.raised[id(error)] = (error, 7)
    with pytest.raises(EscapingException) as caught:
        emitted_of(outcome_of(world, [error]))
    assert caught.value.step == 7


def test_what_no_rule_knows_is_a_break():
    with pytest.raises(Break, match="cannot-rebuild: an object of class _thread.lock"):
        import threading

        rebuilt([threading.Lock()])


def test_globals_of_an_unknown_module_are_refused():
    space = {}
    exec("def f(): return x", space)
    with pytest.raises(Break, match="globals of a function"):
        rebuilt(space["f"])


def test_text_reads_like_a_program():
    inner = [1]
    assert text_of({"a": inner, "b": (inner, "x")}) == (
        "def entry(_v_function):\n"
        "    # objects\n"
        "    _v0 = [1]\n"
        "    _v1 = (_v0, 'x')\n"
        "    return {'a': _v0, 'b': _v1}\n"
    )


def test_an_empty_cell_stays_empty():
    made = rebuilt(CellType())
    with pytest.raises(ValueError, match="empty"):
        made.cell_contents


def test_names_of_parameters_do_not_clash():
    def f(_v0, len, type, list):
        return [_v0 + 1, [len, type, list]]

    x = weft.ones(2)
    segment = Segment(f, x, 1, 2, 3)
    made = segment()
    assert made[0].tolist() == [2.0, 2.0] and made[1] == [1, 2, 3]
