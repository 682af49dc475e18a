"""Generic test classes become one for the processor, with a test for each dtype and parameter."""

from __future__ import annotations

import unittest
from typing import Any

import pytest

import weft
from weft.compat.torch_internals import devices
from weft.compat.torch_internals.common import (
    decorateIf,
    instantiate_parametrized_tests,
    parametrize,
    subtest,
)
from weft.compat.torch_internals.devices import (
    dtypes,
    dtypesIfCUDA,
    instantiate_device_type_tests,
    onlyCPU,
    onlyCUDA,
)
from weft.compat.torch_internals.dtypes import floating_types_and, integral_types
from weft.testing import TestCase

seen: list[Any] = []


class Thing(TestCase):
    __test__ = False  # what is made of it is

    @dtypes(weft.float32, weft.int64)
    @dtypesIfCUDA(weft.float16)
    def test_kinds(self, device, dtype):
        seen.append(("kinds", weft.ones(2, device=device, dtype=dtype).dtype))

    @parametrize("n", [1, subtest(2, name="two", decorators=[unittest.skip("no")])])
    @onlyCPU
    def test_numbers(self, device, n):
        seen.append(("numbers", n, self.device_type))

    @onlyCUDA
    def test_elsewhere(self, device):
        raise AssertionError("not here")


def run(kind: type) -> unittest.TestResult:
    seen.clear()
    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(kind)(result)
    assert result.wasSuccessful(), result.failures + result.errors
    return result


def test_a_generic_class():
    scope: dict[str, Any] = {"Thing": Thing, "__name__": __name__}
    instantiate_device_type_tests(Thing, scope)
    assert list(scope) == ["__name__", "ThingCPU"]
    names = unittest.defaultTestLoader.getTestCaseNames(scope["ThingCPU"])
    assert set(names) == {
        "test_kinds_cpu_float32", "test_kinds_cpu_int64", "test_numbers_n_1_cpu", "test_numbers_two_cpu",
        "test_elsewhere_cpu",
    }  # fmt: skip
    result = run(scope["ThingCPU"])
    assert len(result.skipped) == 2
    assert seen == [("kinds", weft.float32), ("kinds", weft.int64), ("numbers", 1, "cpu")]
    only: dict[str, Any] = {}
    instantiate_device_type_tests(Thing, only, only_for="cuda")
    assert only == {}


def test_parametrized_tests():
    @instantiate_parametrized_tests
    class Numbers(TestCase):
        @parametrize("a", [1, 2])
        @parametrize("b,c", [(3, 4)], name_fn=lambda b, c: f"{b}and{c}")
        def test_sum(self, a, b, c):
            seen.append(a + b + c)

        @parametrize("fails", [False, True])
        @decorateIf(unittest.expectedFailure, lambda given: given["fails"])
        def test_some(self, fails):
            if fails:
                self.skipTest("given")

    result = run(Numbers)
    assert sorted(seen) == [8, 9] and result.testsRun == 4


def test_sets_of_dtypes():
    assert floating_types_and(weft.half, weft.float32) == (weft.float32, weft.float64, weft.half)
    assert weft.int8 in integral_types()


def test_tests_that_need_much_memory_are_skipped() -> None:
    def test() -> None:
        pass

    assert devices.largeTensorTest("500MB")(test) is test
    assert devices.largeTensorTest(100)(test) is test
    with pytest.raises(unittest.SkipTest, match="needs much memory"):
        devices.largeTensorTest("12GB")(test)()
