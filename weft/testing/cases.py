"""A test case for Weft programs: tensors compare by value, and each test starts with nothing compiled."""

from __future__ import annotations

import sys
import unittest
from typing import Any

from weft import compiler
from weft.capture.counters import counters
from weft.tensor.base import Tensor
from weft.testing.comparison import assert_close


def _has_tensor(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_tensor, value.values()))
    if isinstance(value, (list, tuple)):
        return any(map(_has_tensor, value))
    return isinstance(value, Tensor)


class TestCase(unittest.TestCase):
    """`unittest.TestCase` whose `assertEqual` knows tensors."""

    def setUp(self) -> None:
        super().setUp()
        self._forget()

    def tearDown(self) -> None:
        self._forget()
        super().tearDown()

    def _forget(self) -> None:
        compiler.reset()
        counters.clear()

    def assertEqual(
        self,
        first: Any,
        second: Any,
        msg: Any = None,
        *,
        atol: float | None = None,
        rtol: float | None = None,
        equal_nan: bool = True,
        exact_dtype: bool = True,
        exact_device: bool = False,
        exact_stride: bool = False,
    ) -> None:
        """Values as `assert_close` compares them where there are tensors, else as unittest does."""
        if isinstance(first, Tensor) and isinstance(second, (bool, int, float, complex)):
            first = first.item()
        elif isinstance(second, Tensor) and isinstance(first, (bool, int, float, complex)):
            second = second.item()
        numbers = isinstance(first, float) and isinstance(second, float) and atol is not None
        if not (_has_tensor(first) or _has_tensor(second) or numbers):
            super().assertEqual(first, second, msg)
            return
        assert_close(
            first,
            second,
            atol=atol,
            rtol=rtol if rtol is not None or atol is None else 0.0,
            equal_nan=equal_nan,
            check_dtype=exact_dtype,
            check_device=exact_device,
            check_stride=exact_stride,
            msg=msg,
        )

    def assertNotEqual(self, first: Any, second: Any, msg: Any = None, **options: Any) -> None:
        try:
            self.assertEqual(first, second, **options)
        except (AssertionError, TypeError):
            return
        raise self.failureException(msg or f"{first!r} == {second!r}")

    def assertExpectedInline(self, actual: Any, expect: str, skip: int = 0) -> None:
        """The text, or the object's text, is what is written here."""
        self.assertMultiLineEqual(actual if isinstance(actual, str) else str(actual), expect)


def run_tests(needs: Any = ()) -> None:
    """Runs the tests of the module that is the program, as `unittest.main` does."""
    unittest.main(argv=sys.argv)
