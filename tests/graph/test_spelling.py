"""How values and nodes are written."""

import operator
from enum import Enum
from typing import NamedTuple

import pytest

import weft
from weft.core.types import Size
from weft.graph.graph import Graph
from weft.graph.names import Paths
from weft.graph.spelling import IN_PLACE, INFIX, Executable, Readable


class Colour(Enum):
    RED = 1


class Pair(NamedTuple):
    one: int
    other: int


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ((1,), "(1,)"),
        (Size((1, 2)), "(1, 2)"),
        ([1, "a", None, True, 2.5], "[1, 'a', None, True, 2.5]"),
        ({"k": (weft.float32,)}, "{'k': (torch.float32,)}"),
        (slice(0, None), "slice(0, None, None)"),
        (..., "Ellipsis"),
        (float("nan"), "nan"),
        (float("-inf"), "-inf"),
        (weft.device("cpu"), "device(type='cpu')"),
        (weft.contiguous_format, "torch.contiguous_format"),
        (weft.relu, "torch.relu"),
        (int, "int"),
        (operator.mul, "_operator_mul"),
    ],
)
def test_readable_values(value, text):
    assert Readable(Paths("torch")).value(value) == text


def test_readable_values_of_users():
    assert Readable().value(Colour.RED).endswith("test_spelling.Colour.RED")
    assert Readable().value(Pair(1, 2)).endswith("test_spelling.Pair(1, 2)")


@pytest.mark.parametrize("target", [*INFIX, *IN_PLACE], ids=lambda target: target.__name__)
def test_operators_mean_what_they_say(target):
    """Both spellings of every operator compute what the operator computes."""
    count = (INFIX.get(target) or IN_PLACE[target]).count("{}")
    matrix = target in (operator.matmul, operator.imatmul, operator.getitem, operator.setitem)

    def operands():
        if target is operator.getitem:
            return [[5, 6, 7], 1]
        if target is operator.setitem:
            return [[5, 6, 7], 1, 9]
        return [weft.ones(2, 2) * 3, weft.ones(2, 2)] if matrix else [-3, 2][:count]

    graph = Graph()
    node = graph.call_function(target, [graph.placeholder(name) for name in "abc"[:count]])
    expected_operands = operands()
    expected = target(*expected_operands)
    for spelling in (Readable(), Executable()):
        scope = dict(zip("abc", operands()), **getattr(spelling, "bound", {}))
        graph.nodes[0].users.clear()  # the executable form drops what nobody reads
        node.users[node] = None
        text = spelling.statement(node)
        exec(text, {**scope, **getattr(spelling, "bound", {})}, scope)
        got = scope[node.name]
        if target is operator.setitem:
            assert scope["a"] == expected_operands[0]
        elif matrix and target is not operator.getitem:
            assert weft.equal(got, expected)
        else:
            assert got == expected


def test_negative_numbers_are_put_in_parentheses():
    graph = Graph()
    x = graph.placeholder("x")
    spelling = Readable()
    assert spelling.expression(graph.call_function(operator.pow, (-2, x))) == "(-2) ** x"
    assert spelling.expression(graph.call_function(operator.pow, (-2.5, x))) == "(-2.5) ** x"
    assert spelling.expression(graph.call_method("bit_length", (5,))) == "(5).bit_length()"


def test_expressions():
    graph = Graph()
    x = graph.placeholder("x")
    cases = {
        graph.call_function(getattr, (x, "T")): "x.T",
        graph.call_function(getattr, (x, "T", None)): "getattr(x, 'T', None)",
        graph.call_function(getattr, (x, "a b")): "getattr(x, 'a b')",
        graph.call_method("sum", (x,), {"dim": 0}): "x.sum(dim = 0)",
        graph.get_attr("layers.0.weight"): 'getattr(self.layers, "0").weight',
        graph.call_module("layers.0", (x,)): 'getattr(self.layers, "0")(x)',
        graph.call_function(operator.add, (x,), {"b": 1}): "_operator_add(x, b = 1)",
        graph.call_function(operator.abs, (x,)): "_operator_abs(x)",
    }
    for node, text in cases.items():
        assert Readable().expression(node) == text


def test_executable_binds_objects():
    spelling = Executable()
    key, nan = (slice(0, 1), ...), float("nan")
    names = [
        spelling.value(key),
        spelling.value(nan),
        spelling.target(weft.relu),
        spelling.value(weft.float32),
    ]
    assert [spelling.bound[name] for name in names] == [key, nan, weft.relu, weft.float32]
    assert spelling.bound[names[1]] is nan
    assert spelling.target(weft.relu) == names[2]
    assert spelling.value(2.5) == "2.5"
    assert spelling.bind(lambda: 0, "lambda").isidentifier()


def test_in_place_operator_leaves_the_name_alone_when_run():
    """A symbolic int cannot change: `n += 1` on the name of a node would change all later reads of it."""
    graph = Graph()
    n = graph.placeholder("n")
    more = graph.call_function(operator.iadd, (n, 1))
    graph.output((n, more))
    spelling = Executable()
    assert spelling.statement(more) == "iadd = G0_iadd(n, 1)"
    assert Readable().statement(more) == "n += 1;  iadd = n"
