"""Tensors that are put together: parts are computed where they belong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import weft
from weft.native.cpu.runner import Runner
from weft.testing import assert_close


def along_all_axes(x: Any, y: Any) -> Any:
    return weft.cat([x, y * 2, x + 1], 0), weft.cat([x.t(), y.t()], 1), weft.cat([x, x], 1) * 2


def of_folds(x: Any, y: Any) -> Any:
    made = weft.cat([x.sum(0, keepdim=True), y]) @ weft.cat([x, y]).t()
    return made, weft.cat([x.reshape(-1), y.reshape(-1)[3:]]), weft.softmax(weft.cat([x, y], -1), -1)


def of_other_types(x: Any, y: Any) -> Any:
    return weft.cat([x.long(), y.double()]), weft.cat([x > 0, y > 0], 1), weft.cat([x, x.new_zeros(0, 5), y])


def written(x: Any, y: Any) -> Any:
    x.copy_(weft.cat([x[1:], x[:1]]))
    y.add_(weft.cat([y[:, 2:], x[:, :2]], 1))
    return weft.cat([x, y])


def of_array_kernels(x: Any, y: Any) -> Any:
    return weft.cat([x.sort(dim=-1)[0], y]).sort(dim=0)[0], weft.cat([weft.cat([x, y]), x])


@pytest.mark.parametrize(
    "program", [along_all_axes, of_folds, of_other_types, written, of_array_kernels], ids=lambda p: p.__name__
)
def test_values_are_eagers(program: Callable[..., Any], programs: list[Runner]) -> None:
    ours, eager = (weft.randn(4, 5), weft.randn(4, 5)), None
    eager = [each.clone() for each in ours]
    compiled = weft.compile(program, backend="native", fullgraph=True)
    for _ in range(2):
        assert_close(compiled(*ours), program(*eager))
        assert_close(list(ours), eager)
    if program is not of_array_kernels:
        assert not programs[-1].python


def test_gradients(programs: list[Runner]) -> None:
    def f(x: Any, y: Any) -> Any:
        a, b, c = (x * y).chunk(3, 1)
        return (weft.cat([c, a * b], 1) ** 2).sum()

    results = []
    for function in (f, weft.compile(f, backend="native", fullgraph=True)):
        weft.manual_seed(0)
        x, y = (weft.randn(4, 6, requires_grad=True) for _ in range(2))
        function(x, y).backward()
        results.append((x.grad, y.grad))
    assert_close(results[0], results[1])


def test_parts_are_made_in_place(programs: list[Runner]) -> None:
    def f(x: Any, y: Any) -> Any:
        return weft.cat([weft.tanh(x), weft.exp(y)])

    weft.compile(f, backend="native", fullgraph=True)(weft.randn(4, 5), weft.randn(4, 5))
    assert programs[-1].arena_bytes == 0 and len(programs[-1].made) == 1
