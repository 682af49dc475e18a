"""Autocast in captured code: blocks, decorators, breaks inside, and its guards. `test_amp` trains with it."""

from __future__ import annotations

from typing import Any

import weft
from tests.capture.features.harness import check

Tensor = weft.Tensor


def matrix(rows: int = 3, columns: int = 4) -> Tensor:
    return weft.arange(rows * columns).reshape(rows, columns).float()


def square() -> tuple[Tensor]:
    return (matrix(),)


def test_autocast_block() -> None:
    def f(x: Tensor) -> Any:
        with weft.autocast("cpu", dtype=weft.bfloat16):
            a = x @ x.T
            b = a.float() + 1
        return a, b, x @ x.T

    check(f, square)


def test_autocast_is_asked_for() -> None:
    def f(x: Tensor) -> Any:
        with weft.autocast("cpu", dtype=weft.float16, enabled=False):
            off = weft.is_autocast_enabled("cpu")
        with weft.autocast("cpu"):
            return x @ x.T, off, weft.is_autocast_enabled("cpu"), weft.get_autocast_dtype("cpu")

    check(f, square)


def test_autocast_with_a_break_inside() -> None:
    def f(x: Tensor) -> Any:
        with weft.autocast("cpu", dtype=weft.bfloat16):
            a = x @ x.T
            weft.compiler.graph_break()
            b = a @ x
        return b, x @ x.T

    check(f, square, frames=2, breaks=1, watch=lambda: weft.is_autocast_enabled("cpu"))


def test_autocast_object_and_decorator() -> None:
    around = weft.autocast("cpu", dtype=weft.bfloat16)

    @around
    def product(x: Tensor) -> Tensor:
        return x @ x.T

    def f(x: Tensor) -> Any:
        with around:
            a = x @ x.T
        return a, product(x), x @ x.T

    check(f, square)


def test_autocast_gradients() -> None:
    weight = weft.nn.Parameter(matrix(4, 4))

    def f(x: Tensor) -> Tensor:
        with weft.autocast("cpu", dtype=weft.bfloat16):
            return x @ weight + (x @ weight) * 2

    def state() -> None:
        weight.grad = None

    check(f, square, state=state, after=lambda y: y.float().sum().backward(), watch=lambda: weight.grad)


def test_default_of_autocast_is_guarded() -> None:
    def f(x: Tensor) -> Tensor:
        with weft.autocast("cpu"):
            return x @ x.T

    counter = weft.testing.CompileCounter()
    compiled = weft.compile(f, backend=counter, fullgraph=True)
    assert compiled(matrix()).dtype == weft.bfloat16
    weft.set_autocast_dtype("cpu", weft.float16)
    try:
        assert compiled(matrix()).dtype == weft.float16
    finally:
        weft.set_autocast_dtype("cpu", weft.bfloat16)
    assert compiled(matrix()).dtype == weft.bfloat16
    assert counter.frame_count == 2


def test_autocast_around_the_call_is_guarded() -> None:
    counter = weft.testing.CompileCounter()
    compiled = weft.compile(lambda x: x @ x.T, backend=counter, fullgraph=True)
    assert compiled(matrix()).dtype == weft.float32
    with weft.autocast("cpu", dtype=weft.bfloat16):
        assert compiled(matrix()).dtype == weft.bfloat16
    assert compiled(matrix()).dtype == weft.float32
    assert counter.frame_count == 2
