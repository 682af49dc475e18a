"""What the tests of transforms in captured code share: functions to transform, and their arguments."""

from __future__ import annotations

from typing import Any

import weft
from tests.capture.features.harness import check

Tensor = weft.Tensor


def matrix(rows: int = 4, columns: int = 3, requires_grad: bool = False) -> Tensor:
    made = weft.arange(rows * columns, dtype=weft.float32).reshape(rows, columns) / 7 - 0.6
    return made.requires_grad_(requires_grad)


def rows() -> tuple[Tensor]:
    return (matrix(),)


def tracked_rows() -> tuple[Tensor]:
    return (matrix(requires_grad=True),)


def two() -> tuple[Tensor, Tensor]:
    return matrix(), matrix().cos()


def number(x: Tensor) -> Tensor:
    return (x.sin() * 2).sum()


def elements(x: Tensor) -> Tensor:
    return x.sin() * x


def both(function: Any, **options: Any) -> None:
    """Checks on plain tensors, and on ones whose gradients flow on, which are compared too."""
    check(function, rows, **options)
    check(function, tracked_rows, **options)
    x, y = *tracked_rows(), *tracked_rows()
    pull(function(x))
    pull(weft.compile(function, backend="eager", fullgraph=True)(y))
    assert (x.grad is None and y.grad is None) or weft.allclose(x.grad, y.grad, rtol=1e-4, atol=1e-5)


def pull(result: Any) -> None:
    leaves: list[Any] = []

    def visit(value: Any) -> None:
        if isinstance(value, Tensor):
            leaves.append(value)
        elif isinstance(value, dict):
            visit(list(value.values()))
        elif isinstance(value, (tuple, list)):
            for item in value:
                visit(item)

    visit(result)
    live = [leaf.cos().sum() for leaf in leaves if leaf.requires_grad]
    if live:
        sum(live).backward()
