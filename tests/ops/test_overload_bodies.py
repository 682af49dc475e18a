"""Bodies of records that are several operators: values are those of the record, whatever the ranks."""

from __future__ import annotations

import itertools

import pytest

import weft
from tests.handlers import Through
from weft.ops.overload_bodies import BODIES

LEFT = [(3,), (2, 3), (4, 2, 3), (5, 4, 2, 3), (1, 2, 3), (5, 1, 2, 3)]
RIGHT = [(3,), (3, 2), (4, 3, 2), (5, 4, 3, 2), (1, 3, 2), (5, 1, 3, 2)]


@pytest.mark.parametrize(("left", "right"), list(itertools.product(LEFT, RIGHT)))
def test_matmul(left, right):
    a, b = weft.randn(left), weft.randn(right)
    weft.testing.assert_close(BODIES["matmul"](a, b), a @ b)


@pytest.mark.parametrize("shape", [(3,), (2, 3), (4, 2, 3), (0, 3)])
@pytest.mark.parametrize("bias", [True, False])
def test_linear(shape, bias):
    x, weight, more = weft.randn(shape), weft.randn(2, 3), weft.randn(2) if bias else None
    expected = weft.nn.functional.linear(x, weight, more)
    weft.testing.assert_close(BODIES["nn.functional.linear"](x, weight, more), expected)


@pytest.mark.parametrize(
    ("key", "names"),
    [
        (0, ["select.int"]),
        ((slice(1, None), 0), ["slice.Tensor", "select.int"]),
        ((..., 1), ["select.int"]),
        ((None, slice(None), 2), ["unsqueeze.default", "select.int"]),
        ((0, ..., None, slice(None, None, 2)), ["select.int", "unsqueeze.default", "slice.Tensor"]),
        (..., ["alias.default"]),
    ],
)
def test_keys_are_one_operator_for_each_part(key, names):
    x = weft.randn(2, 3, 4)
    with Through() as mode:
        result = x[key]
    assert mode.seen == [f"aten.{name}" for name in names]
    assert result.tolist() == x[key].tolist() and result.stride() == x[key].stride()


def test_errors_are_those_of_the_record():
    x = weft.randn(2, 3)
    with Through(), pytest.raises(RuntimeError, match="mat1 and mat2 shapes cannot be multiplied"):
        weft.nn.functional.linear(x, weft.randn(2, 4))


def test_a_softmax_of_another_dtype_is_two_operators():
    with Through() as mode:
        weft.softmax(weft.zeros(2), 0, dtype=weft.float64)
    assert mode.seen[-2:] == ["aten._to_copy.default", "aten._softmax.default"]
