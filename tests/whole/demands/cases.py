"""What the cases of users share: tensors in double precision, and finite differences of compiled functions.

Takes a function; asserts that the gradients of the compiled one are those that finite differences give. One
idea: compiled is compared with eager everywhere, but eager may be wrong as well, so that gradients are also
compared with numbers that no gradient rule had a part in.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import weft
from tests.capture.features.harness import everything_strict
from weft.autograd import gradcheck, gradgradcheck
from weft.testing import CompileCounterWithBackend


def leaf(*values: float) -> weft.Tensor:
    return weft.tensor(values or (0.3, -1.2, 2.1), dtype=weft.float64, requires_grad=True)


def plain(*values: float) -> weft.Tensor:
    return weft.tensor(values or (0.3, -1.2, 2.1), dtype=weft.float64)


def table(rows: int, columns: int, start: float = -0.7, requires_grad: bool = False) -> weft.Tensor:
    """A matrix of numbers that have nothing special."""
    numbers = weft.arange(rows * columns, dtype=weft.float64) * 0.37 + start
    return numbers.sin().reshape(rows, columns).requires_grad_(requires_grad)


def one() -> tuple[weft.Tensor]:
    return (leaf(),)


def facts(tensor: weft.Tensor) -> tuple[Any, ...]:
    return tensor, tensor.grad, tensor.requires_grad, tensor.is_leaf, tensor._version


def differences_agree(
    function: Callable[..., Any], *inputs: weft.Tensor, backend: str, order: int = 2, frames: int = 1
) -> None:
    """Asserts that the compiled function's gradients, to this order, are those of finite differences."""
    counter: Any = CompileCounterWithBackend(backend)
    with everything_strict():
        compiled = weft.compile(function, backend=counter, fullgraph=True)
        assert gradcheck(compiled, inputs)
        if order > 1:
            assert gradgradcheck(compiled, inputs)
    assert counter.frame_count == frames
