"""Helpers for tests of compiled programs."""

from __future__ import annotations

import unittest
from types import SimpleNamespace

import pytest

import weft
from weft.testing import (
    CompileCounter,
    clone_me,
    collect_results,
    empty_line_normalizer,
    expectedFailureDynamic,
    make_test_cls_with_patches,
    rand_strided,
    reduce_to_scalar_loss,
    remove_optimized_module_prefix,
    remove_trailing_space,
    requires_bwd_pass,
    reset_rng_state,
    standard_test,
    strip_comment,
    three,
    unsupported,
)


def test_standard_test_passes_and_fails():
    case = unittest.TestCase()
    standard_test(case, lambda a, b: a * three + b, 2, expected_ops=2)
    standard_test(case, lambda: 3, 0, expected_frame_count=0)
    with pytest.raises(AssertionError):
        standard_test(case, lambda a: a + 1, 1, expected_ops=2)
    with pytest.raises(AssertionError):
        standard_test(case, lambda a: a, 1)


def test_unsupported_breaks():
    counter = CompileCounter()
    compiled = weft.compile(lambda a, b: a + unsupported(a, b * 2), backend=counter)
    assert compiled(weft.ones(1), weft.ones(1)).tolist() == [3.0]
    assert counter.frame_count == 2
    with pytest.raises(weft.compiler.Unsupported):
        weft.compile(lambda a: unsupported(a, a), fullgraph=True)(weft.ones(1))


def test_results_of_training():
    model, x = weft.nn.Linear(2, 1), weft.ones(3, 2, requires_grad=True)
    out = model(x)
    loss = reduce_to_scalar_loss([out, {"a": out}])
    loss.backward()
    assert requires_bwd_pass((None, [out])) and not requires_bwd_pass({"a": x.detach()})
    prediction, value, gradients, parameters, buffers, gradient = collect_results(model, out, loss, [x])
    assert prediction is out and value == loss.item() and buffers == {} and gradient is x.grad
    assert set(gradients) == {"weight.grad", "bias.grad"} and parameters["weight"] is not model.weight
    assert clone_me(None) is None and clone_me(x).requires_grad
    for reduce in (reduce_to_scalar_loss, requires_bwd_pass):
        with pytest.raises(NotImplementedError):
            reduce("text")


def test_tensors_with_strides():
    assert rand_strided((2, 3), (1, 4)).stride() == (1, 4)
    assert rand_strided((2,), (2,), dtype=weft.int64, extra_size=1).tolist() == [0, 0]
    reset_rng_state()
    first = weft.rand(2)
    reset_rng_state()
    assert weft.equal(first, weft.rand(2))


def test_texts():
    assert strip_comment("a\n  # b\nc") == "a\nc"
    assert remove_trailing_space("a  \nb ") == "a\nb"
    assert empty_line_normalizer("a\n\n\nb") == "a\nb"
    assert remove_optimized_module_prefix("_orig_mod.weight") == "weight"


def test_classes_with_patches():
    place = SimpleNamespace(value=1)

    class Tests(unittest.TestCase):
        def test_value(self):
            self.assertEqual(place.value, 2)

        @expectedFailureDynamic
        def test_other(self):
            self.assertEqual(place.value, 1)

    made = make_test_cls_with_patches(
        Tests, "Dynamic", "_dynamic", (place, "value", 2), xfail_prop="_expected_failure_dynamic"
    )
    assert made.__name__ == "DynamicTests" and not hasattr(made, "test_value")
    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(made).run(result)
    assert result.testsRun == 2 and result.wasSuccessful() and len(result.expectedFailures) == 1
