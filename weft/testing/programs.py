"""Programs under test: what checks that a function does the same compiled, and pieces for such functions."""

from __future__ import annotations

import re
import sys
import unittest
from collections.abc import Callable, Sequence
from typing import Any
from unittest.mock import patch

import weft
from weft import compiler
from weft.tensor.base import Tensor
from weft.testing.backends import CompileCounter
from weft.testing.comparison import same

__all__ = [
    "clone_me", "collect_results", "empty_line_normalizer", "expectedFailureCodegenDynamic",
    "expectedFailureDynamic", "make_test_cls_with_patches", "rand_strided", "reduce_to_scalar_loss",
    "remove_optimized_module_prefix", "remove_trailing_space", "requires_bwd_pass", "reset_rng_state",
    "skipIfNotPy311", "skipIfNotPy312", "skipIfOnlyNotPy312", "skipIfPy312", "standard_test", "strip_comment",
    "three", "unsupported", "xfailIfPy312",
]  # fmt: skip

three = 3
"""A constant in a module."""


def standard_test(
    self: unittest.TestCase,
    fn: Callable[..., Any],
    nargs: int,
    expected_ops: int | None = None,
    expected_ops_dynamic: int | None = None,
    expected_frame_count: int = 1,
) -> None:
    """Asserts that `fn` of so many 10 by 10 tensors gives the same compiled, twice for two sets of inputs,
    with these numbers of graphs and of calls in them.
    """
    given = [[weft.randn(10, 10) for _ in range(nargs)] for _ in range(2)]
    correct = [fn(*args) for args in given]
    compiler.reset()
    counter = CompileCounter()
    compiled = compiler.optimize_assert(counter)(fn)
    results = [compiled(*args) for args in given * 2]
    compiler.reset()
    for expected, result in zip(correct * 2, results, strict=True):
        self.assertTrue(same(expected, result), f"expected {expected}, got {result}")
    self.assertEqual(counter.frame_count, expected_frame_count)
    if expected_ops is not None:
        self.assertEqual(counter.op_count, expected_ops)


@compiler.disable
def unsupported(first: Any, second: Any) -> Any:
    """Gives its second argument; captured code breaks here."""
    return second


def clone_me(x: Tensor | None) -> Tensor | None:
    """A leaf with the same values that requires grad as the tensor does."""
    return None if x is None else x.detach().clone().requires_grad_(x.requires_grad)


def reduce_to_scalar_loss(out: Any) -> Any:
    """One number from all tensors of a result."""
    if isinstance(out, Tensor):
        return out.sum() / out.numel()
    if isinstance(out, (list, tuple)):
        return sum(map(reduce_to_scalar_loss, out)) / len(out)
    if isinstance(out, dict):
        return sum(map(reduce_to_scalar_loss, out.values())) / len(out)
    if out is None:
        return 0.0
    raise NotImplementedError("Don't know how to reduce", type(out))


def requires_bwd_pass(out: Any) -> bool:
    """Whether any tensor of a result requires grad."""
    if isinstance(out, Tensor):
        return out.requires_grad
    if isinstance(out, (list, tuple)):
        return any(map(requires_bwd_pass, out))
    if isinstance(out, dict):
        return any(map(requires_bwd_pass, out.values()))
    if out is None or isinstance(out, int):
        return False
    raise NotImplementedError("Don't know how to reduce", type(out))


def collect_results(model: Any, prediction: Any, loss: Any, example_inputs: Any) -> list[Any]:
    """Prediction, loss, and all parameters, buffers and gradients of a model and its inputs."""
    results: list[Any] = [prediction]
    if loss is not None:
        results.append(loss.item() if isinstance(loss, Tensor) else loss)
    named = dict(model.named_parameters())
    results.append({f"{name}.grad": parameter.grad for name, parameter in named.items()})
    results.append({name: clone_me(parameter) for name, parameter in named.items()})
    results.append(dict(model.named_buffers()))
    inputs = example_inputs if isinstance(example_inputs, (list, tuple)) else [example_inputs]
    results += [value.grad for value in inputs if isinstance(value, Tensor)]
    return results


def rand_strided(
    size: Sequence[int], stride: Sequence[int], dtype: Any = None, device: Any = "cpu", extra_size: int = 0
) -> Tensor:
    """A random tensor with these strides."""
    dtype = dtype or weft.float32
    needed = sum((length - 1) * step for length, step in zip(size, stride, strict=True)) + 1 + extra_size
    if dtype.is_floating_point or dtype.is_complex:
        buffer = weft.randn(needed, dtype=dtype, device=device)
    else:
        buffer = weft.zeros(needed, dtype=dtype, device=device)
    return buffer.as_strided(tuple(size), tuple(stride))


def reset_rng_state(use_xla: bool = False) -> None:
    """Random numbers start again."""
    weft.manual_seed(1337)


# -- texts ---------------------------------------------------------------------------------------------------
def strip_comment(code: str) -> str:
    """Without lines of comment."""
    return re.sub(r"(?m)^ *#.*\n?", "", code)


def remove_trailing_space(code: str) -> str:
    """The text, without blanks at the ends of its lines."""
    return "\n".join(line.rstrip() for line in code.split("\n"))


def empty_line_normalizer(code: str) -> str:
    """Without empty lines."""
    return re.sub(r"[\r\n]+", "\n", code)


def remove_optimized_module_prefix(name: str) -> str:
    """A parameter's name without `_orig_mod.` in front."""
    return re.sub(r"^_orig_mod[.]", "", name)


# -- decorators of tests -------------------------------------------------------------------------------------
PYTHON_312 = hasattr(sys, "monitoring")
PYTHON_313 = hasattr(sys, "_is_gil_enabled")


def skipIfNotPy311(fn: Any) -> Any:
    """All that Weft runs on."""
    return fn


skipIfNotPy312 = unittest.skipIf(not PYTHON_312, "Requires Python 3.12+")
skipIfPy312 = unittest.skipIf(PYTHON_312, "Not supported in Python 3.12+")
skipIfOnlyNotPy312 = unittest.skipIf(not PYTHON_312 or PYTHON_313, "Requires Python 3.12")


def xfailIfPy312(fn: Any) -> Any:
    """A test that is expected to fail from Python 3.12 on."""
    return unittest.expectedFailure(fn) if PYTHON_312 else fn


def expectedFailureDynamic(fn: Any) -> Any:
    """The test fails in classes that `make_test_cls_with_patches` makes for dynamic shapes."""
    fn._expected_failure_dynamic = True
    return fn


def expectedFailureCodegenDynamic(fn: Any) -> Any:
    """Gives the test back as it is."""
    fn._expected_failure_codegen_dynamic = True
    return fn


def make_test_cls_with_patches(
    cls: type,
    cls_prefix: str,
    fn_suffix: str,
    *patches: Any,
    xfail_prop: str | None = None,
    decorator: Callable[[Callable[..., Any]], Callable[..., Any]] = lambda fn: fn,
) -> type:
    """The test class again, each test run with `(object, name, value)` patched."""
    made: dict[str, Any] = {}
    for name in dir(cls):
        test = getattr(cls, name)
        if not name.startswith("test_") or not callable(test):
            if name in cls.__dict__ and name not in ("__dict__", "__weakref__"):
                made[name] = cls.__dict__[name]
            continue
        for where, attribute, value in patches:
            test = patch.object(where, attribute, value)(test)
        failing = xfail_prop is not None and hasattr(getattr(cls, name), xfail_prop)
        made[f"{name}{fn_suffix}"] = unittest.expectedFailure(test) if failing else decorator(test)
    return type(f"{cls_prefix}{cls.__name__}", cls.__bases__, made)
