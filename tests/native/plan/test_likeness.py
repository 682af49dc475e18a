"""Groups that are alike have one kernel, whatever memory they read."""

from __future__ import annotations

import numpy as np

from tests.native.harness import given, point, run_plan
from weft.native.plan.build import Built
from weft.native.plan.fuse import fused


def test_equal_layers_have_one_kernel() -> None:
    arrays = [np.full((4, 40), number, np.float32) for number in range(6)]
    inputs = [given(array, number) for number, array in enumerate(arrays)]
    values = [point(lambda b, x, y: b.add(x, b.mul(y, y)), *pair) for pair in zip(inputs[::2], inputs[1::2])]
    plan = fused(values)
    kernels = [step.kernel for step in plan.steps if isinstance(step, Built)]
    assert len(kernels) == 3 and all(kernel is kernels[0] for kernel in kernels)
    results, _ = run_plan(values, arrays)
    for result, x, y in zip(results, arrays[::2], arrays[1::2]):
        np.testing.assert_array_equal(result, x + y * y)


def test_what_differs_in_a_number_has_another_kernel() -> None:
    arrays = [np.ones((4, 40), np.float32) for _ in range(2)]
    inputs = [given(array, number) for number, array in enumerate(arrays)]

    def scaled(value: object, factor: float) -> object:
        return point(lambda b, x: b.mul(x, b.like(factor, x)), value)

    values = [scaled(value, factor) for value, factor in zip(inputs, (2.0, 3.0))]
    results, _ = run_plan(values, arrays)
    assert [float(result[0, 0]) for result in results] == [2.0, 3.0]
