"""A scripted function against what it was made of: results, gradients and gradients of gradients."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import weft
from weft.compat.torch_internals.dynamo_utils import clone_inputs
from weft.tensor.base import Tensor

Function = Callable[..., Any]


def check_against_reference(
    self: Any,
    func: Function,
    reference_func: Function,
    output_func: Function,
    args: Any,
    kwargs: dict[str, Any] | None = None,
    allow_unused: bool = True,
    check_types: bool = True,
    no_grad: bool = False,
    no_gradgrad: bool = False,
) -> None:
    """Asserts that both give the same, without gradients, with them, and with those of gradients."""
    kwargs = kwargs or {}

    def run(called: Function, given: Any) -> Any:
        weft.manual_seed(1337)
        random.seed(1337)
        return output_func(called(*given, **kwargs))

    plain = [value.detach() if isinstance(value, Tensor) else value for value in args]
    self.assertEqual(run(func, plain), run(reference_func, plain))
    if no_grad:
        return
    found = [_gradients(run, called, args, allow_unused, no_gradgrad) for called in (func, reference_func)]
    for ours, theirs in zip(*found, strict=True):
        self.assertEqual(ours, theirs)


def _gradients(run: Function, called: Function, args: Any, allow_unused: bool, once: bool) -> list[Any]:
    given = clone_inputs(list(args))
    inputs = [value for value in given if isinstance(value, Tensor) and value.requires_grad]
    outputs = run(called, given)
    every = outputs if isinstance(outputs, (list, tuple)) else [outputs]
    loss = _weighted([value for value in every if isinstance(value, Tensor)])
    first = weft.autograd.grad(loss, inputs, allow_unused=allow_unused, create_graph=not once)
    results: list[Any] = [outputs, list(first)]
    known = [value for value in first if value is not None and value.requires_grad]
    if known and not once:
        results.append(list(weft.autograd.grad(_weighted(known), inputs, allow_unused=True)))
    return results


def _weighted(values: list[Tensor]) -> Any:
    """A number that tells the tensors apart."""
    return sum(value.sum() * weight for weight, value in enumerate(values, 1))
