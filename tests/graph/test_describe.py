"""Types as text."""

import pytest

import weft
from weft.core.symbolic import Symbolic
from weft.core.types import TensorType
from weft.graph.describe import describe, describe_readable


class Symbol(Symbolic):
    def describe(self):
        return "s0"

    def __str__(self):
        raise AssertionError("asked for its value")

    __repr__ = __index__ = __bool__ = __str__


class Symbolically:
    dtype = weft.float32
    shape = (Symbol(), 3)


def test_strides_and_device():
    transposed = weft.ones(2, 3).T
    assert describe_readable(transposed, stride=True) == "f32[3, 2][1, 3]"
    assert describe_readable(transposed, stride=True, device=True) == "f32[3, 2][1, 3]cpu"
    assert describe_readable(transposed, device=True) == "f32[3, 2]cpu"
    assert describe_readable(3, stride=True, device=True) is None


@pytest.mark.parametrize(
    ("value", "compact", "readable"),
    [
        (TensorType((2, 3), weft.float32), "f32[2,3]", "f32[2, 3]"),
        (weft.ones(()), "f32[]", "f32[]"),
        (weft.ones(2, dtype=weft.bool), "b1[2]", "b8[2]"),
        (weft.ones(2, dtype=weft.int64), "i64[2]", "i64[2]"),
        (Symbolically(), "f32[s0,3]", "f32[s0, 3]"),
        (Symbol(), "s0", "Sym(s0)"),
        ((weft.ones(2), None), "(f32[2], ?)", None),
        ([weft.ones(2)], "[f32[2]]", None),
        (3, None, None),
        (None, None, None),
    ],
)
def test_describe(value, compact, readable):
    assert (describe(value), describe_readable(value)) == (compact, readable)
