"""Products that are only seen transposed are computed transposed."""

from __future__ import annotations

from typing import Any

import pytest

import weft
from weft.native.cpu.runner import Runner
from weft.native.ir.definitions import Product
from weft.testing import assert_close


def seen_so(x: Any, y: Any) -> Any:
    return weft.tanh((x @ y).t()) * 2, (x @ y).t() @ x


def seen_both_ways(x: Any, y: Any) -> Any:
    made = x @ y
    return made.t() + 1, made + 1


def given_out(x: Any, y: Any) -> Any:
    made = x @ y
    return made.t(), made.t() * 2


def a_part(x: Any, y: Any) -> Any:
    return (x @ y).t()[1:] + 1, (x @ y).t()[:, ::2] + 1


def of_slices(x: Any, y: Any) -> Any:
    return weft.exp((x[1:, 2:] @ y[2:, :4]).t()), weft.exp((x.t()[:5] @ x).t()), ((x * 2) @ y.t().t()).t() + 1


def gradients(x: Any, y: Any) -> Any:
    w = y.detach().clone().requires_grad_()
    made = weft.tanh(x @ w) @ w.t()
    return weft.autograd.grad((made * made).sum(), [w])


def ones(x: Any, y: Any) -> Any:
    """Factors of one, which products need not know of, and others that look like them."""
    one = weft.ones(5, 7)
    return (one * x) @ y, x @ (y * weft.ones(7, 6)), (x * weft.ones(1, 7)) @ y, (one * 2 * x) @ y, one @ y


PROGRAMS = [seen_so, seen_both_ways, given_out, a_part, of_slices, gradients, ones]


def compiled(programs: list[Runner], program: Any) -> tuple[Any, list[Any]]:
    function = weft.compile(program, backend="native", fullgraph=True)
    return function(*inputs()), list(programs[-1].program.listing.steps)


def inputs() -> tuple[Any, Any]:
    weft.manual_seed(0)
    return weft.randn(5, 7), weft.randn(7, 6)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda each: each.__name__)
def test_values_are_eagers(program: Any, programs: list[Runner]) -> None:
    made, _ = compiled(programs, program)
    expected = program(*inputs())
    assert_close(made, expected, rtol=1e-5, atol=1e-5)
    assert [each.stride() for each in made] == [each.stride() for each in expected]
    assert_close(weft.compile(program, backend="reference")(*inputs()), expected, rtol=1e-5, atol=1e-5)


def test_rows_and_columns_are_exchanged(programs: list[Runner]) -> None:
    _, steps = compiled(programs, seen_so)
    first = next(step for step in steps if isinstance(step, Product))
    assert (first.rows, first.columns, first.shape) == (6, 5, (6, 5))
    _, steps = compiled(programs, seen_both_ways)
    first = next(step for step in steps if isinstance(step, Product))
    assert (first.rows, first.columns) == (5, 6)


def test_what_is_multiplied_by_one_is_read_itself(programs: list[Runner]) -> None:
    def program(x: Any, y: Any) -> Any:
        return (weft.ones(5, 7) * x) @ y

    _, steps = compiled(programs, program)
    assert len(steps) == 1 and isinstance(steps[0], Product)
