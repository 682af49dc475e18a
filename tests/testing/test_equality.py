"""What test cases call equal, and what they say where it is not."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft.testing import TestCase
from weft.testing.equality import Equality

EQUAL = [
    (weft.ones(2), [1.0, 1.0]), (weft.tensor(2.0), 2.0), ((1, 2), [1, 2]), (1.0, 1.0 + 1e-9), (1, 1.0),
    (np.ones(2), weft.ones(2, dtype=weft.float64)), ({"a": weft.ones(1)}, {"a": weft.ones(1)}), (None, None),
    (weft.Size([2, 3]), (2, 3)), ({1, 2}, {2, 1}), ("a", "a"), (float("nan"), float("nan")), (int, int),
]  # fmt: skip
UNEQUAL = [
    (weft.ones(2), weft.zeros(2), "Tensor-likes are not close!"), (1, 2, "Scalars are not equal!"),
    ("a", "b", "String comparison failed: 'a' != 'b'"), ([1], [1, 2], "The length of the sequences mismatch"),
    ({"a": 1}, {"b": 1}, "The keys of the mappings do not match"), (None, 1, "Object comparison failed"),
    (weft.ones(2), 1.0, "Only single element tensor-likes"), (True, False, "Booleans mismatch"),
    ({"a": [1, 2]}, {"a": [1, 3]}, r"The failure occurred for item \['a'\]\[1\]"),
    (weft.ones(1), None, "Object"),
    (weft.ones(2), weft.ones(2, dtype=weft.float64), "dtype"), ({1}, {2}, "Set comparison failed"),
]  # fmt: skip


@pytest.mark.parametrize(("first", "second"), EQUAL)
def test_equal(first, second):
    TestCase().assertEqual(first, second)


@pytest.mark.parametrize(("first", "second", "text"), UNEQUAL)
def test_unequal(first, second, text):
    with pytest.raises(AssertionError, match=text):
        TestCase().assertEqual(first, second)
    TestCase().assertNotEqual(first, second)


def test_tolerance_and_message():
    case = TestCase()
    case.assertEqual(1.0, 1.05, atol=0.1, rtol=0)
    case.assertEqual(weft.ones(1), weft.ones(1, dtype=weft.float64), exact_dtype=False)
    with pytest.raises(AssertionError, match="(?s)not close!.*mine$"):
        case.assertEqual(1.0, 1.5, msg="mine")
    Equality(None, 0.1).check(1.0, 1.05)


def test_graph_texts_compare_without_what_tells_nothing():
    head = "class G(torch.nn.Module):\n    def forward(self, x):\n"
    mine = f"{head}        # File: a.py:1\n        y = x + 1;  x = None\n        return y\n"
    other = f"{head}\n        y = x + 1\n        x = None\n        return y"
    TestCase().assertExpectedInline(mine, other)
    with pytest.raises(AssertionError):
        TestCase().assertExpectedInline(mine, other.replace("+ 1", "+ 2"))
