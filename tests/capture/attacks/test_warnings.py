"""Warnings: as many as eager gives, blamed on the same lines, and each once where that is asked for."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import weft
from tests.capture.attacks.scenario import Compile, same, tensor


def warned(call: Callable[[], Any], action: Any = "always") -> list[Any]:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter(action)
        call()
    return [(str(each.message), each.category, each.filename, each.lineno) for each in seen]


def test_lines_that_are_blamed() -> None:
    def scenario(compile: Compile) -> Any:
        def of_caller(x: Any) -> Any:
            warnings.warn("of the caller", stacklevel=2)
            return x * 2

        def without_tensors() -> None:
            warnings.warn("of the caller", DeprecationWarning, stacklevel=2)

        def forward(x: Any) -> Any:
            y = of_caller(x)
            warnings.warn("its own", stacklevel=1)
            without_tensors()
            warnings.warn("of the caller of all", stacklevel=2)
            return y

        compiled = compile(forward)
        return [warned(lambda: compiled(tensor())) for _ in range(3)]

    same(scenario)


def test_one_warning_for_each_place() -> None:
    def scenario(compile: Compile) -> Any:
        globals().pop("__warningregistry__", None)

        def forward(x: Any) -> Any:
            for _ in range(3):
                warnings.warn("once", stacklevel=1)
            return x * 2

        compiled = compile(forward)
        return warned(lambda: [compiled(tensor()) for _ in range(2)], "default")

    same(scenario)


def test_capture_itself_does_not_warn() -> None:
    def scenario(compile: Compile) -> Any:
        compiled = compile(lambda x: weft.nn.functional.mse_loss(x, x[:1]))
        return [len(warned(lambda: compiled(tensor()))) for _ in range(3)]

    same(scenario, frames=1, breaks=0)


def test_numbers_of_numpy_warn_in_every_call() -> None:
    def scenario(compile: Compile) -> Any:
        compiled = compile(lambda x, number: x + int(number + np.int8(100)))
        calls = [lambda n=n: compiled(tensor(), np.int8(n)) for n in (3, 100, 100)]  # type: ignore[misc]
        return [warned(call) for call in calls]

    same(scenario)


def test_gradients_of_inner_tensors_warn() -> None:
    def scenario(compile: Compile) -> Any:
        def forward(x: Any) -> Any:
            y = x * 2
            return y.grad, y

        compiled = compile(forward)
        return [warned(lambda: compiled(tensor().requires_grad_())) for _ in range(2)]

    same(scenario)
