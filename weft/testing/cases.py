"""A test case for Weft programs: tensors compare by value, and each test starts with nothing compiled."""

from __future__ import annotations

import contextlib
import re
import sys
import unittest
import warnings
from collections.abc import Iterator
from typing import Any

from weft import compiler
from weft.core.counters import counters
from weft.testing.equality import Equality
from weft.testing.graphs import bare_graph, is_graph_text

__all__ = ["TestCase", "run_tests"]


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

    def assertEqualIgnoreType(self, *args: Any, **options: Any) -> None:
        """`assertEqual` that does not look at dtypes."""
        self.assertEqual(*args, **{"exact_dtype": False, **options})

    def assertEqualTypeString(self, x: Any, y: Any) -> None:
        """Both are of one dtype and one class."""
        self.assertEqual(x.device, y.device)
        self.assertEqual(x.dtype, y.dtype)

    def assertObjectIn(self, obj: Any, iterable: Any) -> None:
        """The very object is among these."""
        if not any(obj is item for item in iterable):
            raise self.failureException("object not found in iterable")

    def assertNotWarn(self, callable: Any, msg: str = "") -> None:
        """The call gives no warning."""
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            callable()
        self.assertTrue(len(found) == 0, msg or f"got {[str(one.message) for one in found]}")

    @contextlib.contextmanager
    def assertWarnsOnceRegex(self, category: type[Warning], regex: str = "") -> Iterator[None]:
        """One warning of this category, with this text."""
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            yield
        fitting = [one for one in found if issubclass(one.category, category)]
        if not fitting:
            raise self.failureException("no warning caught")
        self.assertTrue(any(re.match(regex, str(one.message)) for one in fitting), str(fitting[0].message))

    @contextlib.contextmanager
    def assertRaisesRegexIfNotWarn(self, kind: type[BaseException], regex: str) -> Iterator[None]:
        """The error, with this text."""
        with self.assertRaisesRegex(kind, regex):
            yield

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
        exact_layout: bool = False,
        exact_stride: bool = False,
        exact_is_coalesced: bool = False,
    ) -> None:
        """Tensors and numbers nearly, containers item by item, anything else by `==`."""
        equality = Equality(
            rtol,
            atol,
            equal_nan=equal_nan,
            check_dtype=exact_dtype,
            check_device=exact_device,
            check_stride=exact_stride,
        )
        try:
            equality.check(first, second)
        except AssertionError as error:
            text = str(error)
            if msg is not None:
                text = msg(text) if callable(msg) else f"{text}\n{msg}"
            raise self.failureException(text) from None

    def assertNotEqual(self, first: Any, second: Any, msg: Any = None, **options: Any) -> None:
        try:
            self.assertEqual(first, second, **options)
        except (AssertionError, TypeError):
            return
        raise self.failureException(msg or f"{first!r} == {second!r}")

    def assertExpectedInline(self, actual: Any, expect: str, skip: int = 0) -> None:
        """The text, or the object's text, is what is written here. Printed graphs may differ in comments,
        blanks, what is freed where, and names of sub-graphs.
        """
        text = actual if isinstance(actual, str) else str(actual)
        if text == expect or text.rstrip() == expect.rstrip():
            return
        if is_graph_text(text) and is_graph_text(expect) and bare_graph(text) == bare_graph(expect):
            return
        self.maxDiff = None
        self.assertMultiLineEqual(text, expect)

    def assertExpected(self, s: str, subname: str | None = None) -> None:
        """What was written beside the test is not there: the text is some text."""
        self.assertIsInstance(s, str)


def run_tests(needs: Any = ()) -> None:
    """Runs the tests of the module that is the program, as `unittest.main` does."""
    unittest.main(argv=sys.argv)
