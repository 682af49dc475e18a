from __future__ import annotations

import dataclasses
import enum
from collections import Counter, OrderedDict, deque, namedtuple

import numpy as np
import pytest

import weft
from weft.testing import assert_allclose, assert_close, same

NAN = float("nan")


@pytest.mark.parametrize(
    ("actual", "expected"),
    [
        (weft.tensor([1.0, 2.0]), weft.tensor([1.0, 2.0 + 1e-6])),
        (weft.tensor([1, 2]), weft.tensor([1, 2])),
        (weft.tensor([True]), weft.tensor([True])),
        (weft.tensor(1 + 2j), weft.tensor(1 + 2j)),
        (weft.tensor([1.0], dtype=weft.bfloat16), weft.tensor([1.0], dtype=weft.bfloat16)),
        (weft.tensor([float("inf")]), weft.tensor([float("inf")])),
        (weft.ones(0), weft.ones(0)),
        ([weft.ones(2), (1, None)], [weft.ones(2), (1, None)]),
        ({"a": weft.ones(2), "b": 1.0}, {"b": 1.0, "a": weft.ones(2)}),
        (1.0, 1.0 + 1e-9),
        (np.ones(2), np.ones(2)),
    ],
)
def test_close(actual, expected):
    assert_close(actual, expected)


@pytest.mark.parametrize(
    ("actual", "expected", "text"),
    [
        (
            weft.tensor([1.0, 2.0]),
            weft.tensor([1.0, 2.5]),
            "Tensor-likes are not close!\n\nMismatched elements: 1 / 2 (50.0%)\n"
            "Greatest absolute difference: 0.5 at index (1,) (up to 1e-05 allowed)\n"
            "Greatest relative difference: 0.20000000298023224 at index (1,) (up to 1.3e-06 allowed)",
        ),
        (
            weft.tensor([1, 2, 3]),
            weft.tensor([1, 2, 4]),
            "Tensor-likes are not equal!\n\nMismatched elements: 1 / 3 (33.3%)\n"
            "Greatest absolute difference: 1 at index (2,)\nGreatest relative difference: 0.25 at index (2,)",
        ),
        (
            weft.tensor(1.0),
            weft.tensor(2.0),
            "Scalars are not close!\n\nExpected 2.0 but got 1.0.\n"
            "Absolute difference: 1.0 (up to 1e-05 allowed)\n"
            "Relative difference: 0.5 (up to 1.3e-06 allowed)",
        ),
        (
            weft.ones(2),
            weft.ones(3),
            "The values for attribute 'shape' do not match: weft.Size([2]) != weft.Size([3]).",
        ),
        (
            weft.ones(2),
            weft.ones(2, dtype=weft.int64),
            "The values for attribute 'dtype' do not match: weft.float32 != weft.int64.",
        ),
        (
            {"a": 1},
            {"b": 1},
            "The keys of the mappings do not match:\nMissing keys in the actual mapping: ['b']\n"
            "Additional keys in the actual mapping: ['a']",
        ),
        ([1, 2], [1], "The length of the sequences mismatch: 2 != 1"),
        (None, 1, "None mismatch: None is not 1"),
        (True, False, "Booleans mismatch: True is not False"),
        (1, 1.0, "The (d)types do not match: <class 'int'> != <class 'float'>."),
    ],
)
def test_differences_are_named(actual, expected, text):
    with pytest.raises(AssertionError) as raised:
        assert_close(actual, expected)
    assert str(raised.value) == text


def test_the_place_of_a_difference_is_named():
    with pytest.raises(AssertionError, match=r"The failure occurred for item \['a'\]\[1\]"):
        assert_close({"a": [1, weft.ones(2)]}, {"a": [1, weft.zeros(2)]})


def test_messages_can_be_replaced():
    with pytest.raises(AssertionError, match="^mine$"):
        assert_close(1, 2, msg="mine")
    with pytest.raises(AssertionError, match="^mine: Scalars"):
        assert_close(1, 2, msg=lambda text: "mine: " + text)


def test_options():
    assert_close(weft.tensor([1.0]), weft.tensor([1.5]), rtol=0.0, atol=0.6)
    assert_close(weft.ones(1), weft.ones(1, dtype=weft.float64), check_dtype=False)
    assert_close(weft.tensor([NAN]), weft.tensor([NAN]), equal_nan=True)
    assert_allclose(weft.ones(1), weft.ones(1, dtype=weft.float64))
    with pytest.raises(AssertionError, match="not close"):
        assert_close(weft.tensor([NAN]), weft.tensor([NAN]))
    with pytest.raises(AssertionError, match="stride"):
        assert_close(weft.ones(2, 3).T, weft.ones(3, 2), check_stride=True)
    with pytest.raises(ValueError, match="but got no atol"):
        assert_close(1.0, 1.0, rtol=1.0)
    with pytest.raises(TypeError, match="No comparison pair"):
        assert_close("a", "a")


class Variable:
    def __init__(self, value, name):
        self.value, self.name = value, name


class Slotted:
    __slots__ = ("a",)

    def __init__(self, a):
        self.a = a


@dataclasses.dataclass
class Data:
    x: object


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


Pair = namedtuple("Pair", "first second")


def nested():
    loop = [1, weft.ones(1)]
    loop.append(loop)
    return loop


def closure(n):
    return lambda: n


@pytest.mark.parametrize(
    "make",
    [
        lambda: weft.ones(2),
        lambda: [weft.ones(2), {"a": (1, 2.0, "x", None, True, b"y", 1j)}],
        lambda: Variable(weft.ones(2), "v0"),
        lambda: Slotted(weft.ones(2)),
        lambda: Data([Variable(weft.ones(1), "v")]),
        lambda: Pair(1, weft.ones(2)),
        lambda: deque([1, 2]),
        lambda: {1, 2},
        lambda: OrderedDict(a=weft.ones(1)),
        lambda: Counter("aab"),
        lambda: np.ones(3),
        lambda: np.float32(2),
        lambda: Colour.RED,
        lambda: slice(1, 2),
        lambda: weft.float32,
        lambda: weft.ones(2).shape,
        lambda: closure(1),
        lambda: len,
        nested,
    ],
)
def test_same(make):
    assert same(make(), make())


@pytest.mark.parametrize(
    ("ref", "res"),
    [
        (weft.ones(2), weft.zeros(2)),
        (weft.ones(2), weft.ones(3)),
        (weft.ones(2), weft.ones(2, dtype=weft.float64)),
        (weft.ones(2), [1.0, 1.0]),
        (weft.tensor([NAN]), weft.tensor([NAN])),
        ([1, 2], [1, 3]),
        ([1, 2], [1]),
        ({"a": 1}, {"b": 1}),
        ({"a": 1}, {"a": 2}),
        (1, 1.0),
        (1, True),
        (1.0, 1.1),
        ("a", "b"),
        (None, 0),
        ({1}, {2}),
        (Variable(weft.ones(2), "a"), Variable(weft.ones(2), "b")),
        (Variable(weft.ones(2), "a"), Variable(weft.zeros(2), "a")),
        (Variable(1, "a"), Slotted(1)),
        (Slotted(1), Slotted(2)),
        (Data(1), Data(2)),
        (Colour.RED, Colour.BLUE),
        (closure(1), len),
        (np.ones(3), np.zeros(3)),
        (weft.float32, weft.float64),
    ],
)
def test_not_same(ref, res):
    assert not same(ref, res)


def test_same_within_a_tolerance():
    assert same(weft.tensor([1.0]), weft.tensor([1.00001]))
    assert not same(weft.tensor([1.0]), weft.tensor([1.00001]), tol=1e-7)
    assert same(weft.tensor([NAN]), weft.tensor([NAN]), equal_nan=True)
    assert same(weft.ones(1), weft.ones(1, dtype=weft.float64), exact_dtype=False)


def test_tensors_and_numbers_are_the_same_by_value() -> None:
    assert same(weft.tensor([6]), 6) and same(6.0, weft.tensor(6.0)) and same(weft.tensor(True), True)
    assert not same(weft.tensor([6]), 7) and not same(weft.tensor([6, 7]), 6)
