"""Long sums of products of little depth are one product, of matrices that lie one behind the other."""

from __future__ import annotations

from typing import Any

import pytest

import weft
from weft.native.cpu.runner import Runner
from weft.native.ir.definitions import Product, Stack
from weft.native.program.stepping import Stepping
from weft.testing import assert_close

STEPS, ROWS, WIDTH = 12, 4, 6


def cell(x: Any, h: Any, w: Any, u: Any) -> Any:
    a, b = (x @ w.t() + h @ u.t()).chunk(2, 1)
    return weft.tanh(a) * weft.sigmoid(b)


def recurrent(x: Any, h: Any, w: Any, u: Any) -> Any:
    for t in range(STEPS):
        h = cell(x[t], h, w, u)
    return weft.autograd.grad((h * h).sum(), [w, u])


def backwards(x: Any, h: Any, w: Any, u: Any) -> Any:
    for t in reversed(range(STEPS)):
        h = cell(x[t], h, w, u)
    return weft.autograd.grad((h * h).sum(), [w, u])


def every_other(x: Any, h: Any, w: Any, u: Any) -> Any:
    """Steps that do not lie one behind the other."""
    for t in (0, 2, 4, 6, 8, 10, 1, 3, 5, 7, 9):
        h = cell(x[t], h, w, u)
    return weft.autograd.grad((h * h).sum(), [w, u])


def given_out(x: Any, h: Any, w: Any, u: Any) -> Any:
    """Outputs lie where others want them."""
    made = []
    for t in range(STEPS):
        h = cell(x[t], h, w, u)
        made.append(h)
    return (*made, *weft.autograd.grad((h * h).sum(), [w, u]))


def shifted(x: Any, h: Any, w: Any, u: Any) -> Any:
    """Sums of products of neighbours: a value would have to be at two places of a stack."""
    made = [weft.tanh(x[t] * 2) for t in range(STEPS)]
    first, second = made[1].t() @ made[0], made[0].t() @ made[0]
    for a, b in zip(made[1:], made[2:]):
        first, second = first + b.t() @ a, second + a.t() @ a
    return first, second


def together(x: Any, h: Any, w: Any, u: Any) -> Any:
    """The same matrices on both sides, some of which are read elsewhere, later."""
    made = [weft.tanh(x[t] * 2) for t in range(STEPS)]
    total = made[0].t() @ made[0]
    for a in made[1:]:
        total = total + a.t() @ a
    return total, sum(made) + total.sum()


def equal_ones(x: Any, h: Any, w: Any, u: Any) -> Any:
    made = [weft.tanh(x[t // 2] * 2) for t in range(STEPS)]
    total = made[0].t() @ made[0]
    for a in made[1:]:
        total = total + a.t() @ a
    return total


PROGRAMS = [recurrent, backwards, every_other, given_out, shifted, together, equal_ones]


def inputs() -> list[Any]:
    weft.manual_seed(0)
    sizes = [(STEPS, ROWS, WIDTH), (ROWS, WIDTH), (2 * WIDTH, WIDTH), (2 * WIDTH, WIDTH)]
    made = [weft.randn(*size) for size in sizes]
    return [*made[:2], *[each.requires_grad_() for each in made[2:]]]


def compiled(programs: list[Runner], program: Any) -> tuple[Any, Runner]:
    function = weft.compile(program, backend="native", fullgraph=True)
    made = function(*inputs())
    return made, programs[-1]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda each: each.__name__)
def test_values_are_eagers(program: Any, programs: list[Runner]) -> None:
    made, _ = compiled(programs, program)
    assert_close(made, program(*inputs()), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("program", [recurrent, together], ids=lambda each: each.__name__)
def test_sums_are_one_product(program: Any, programs: list[Runner]) -> None:
    _, found = compiled(programs, program)
    deep = [
        step for step in found.program.listing.steps if isinstance(step, Product) and step.left.transposed
    ]
    assert deep and all(step.depth >= (STEPS - 1) * ROWS or step.depth == ROWS for step in deep)
    assert len(deep) <= 3 and any(isinstance(step, Stack) for step in found.program.listing.steps)
    offsets = dict(found.arena)
    for step in found.program.listing.steps:
        if isinstance(step, Stack):
            places = [offsets[found.program.listing.places[id(each)]] for each in step.operands]
            size = step.operands[0].size * 4
            assert places == [places[0] + size * number for number in range(len(places))]
            assert offsets[found.program.listing.places[id(step)]] == places[0]


def test_what_is_given_out_is_in_no_stack(programs: list[Runner]) -> None:
    _, found = compiled(programs, given_out)
    outputs = {each for each in found.outputs if isinstance(each, int)}
    stacks = [step for step in found.program.listing.steps if isinstance(step, Stack)]
    assert not any(
        found.program.listing.places[id(each)] in outputs for step in stacks for each in step.operands
    )


def test_step_by_step(programs: list[Runner]) -> None:
    made, found = compiled(programs, recurrent)
    given = {number: found.program.listing.values[place] for place, number in found.givens}
    arrays = {tuple(each.shape): each.detach().numpy() for each in inputs()[:2]}
    weights = [each.detach().numpy() for each in inputs()[2:]]
    shapes = [given[number].shape if number in given else () for number in range(found.inputs)]
    values = [arrays[shape] if shape in arrays else weights.pop(0) if shape else 0.0 for shape in shapes]
    stepping = Stepping(found, values)
    stepping.finish()
    for got, expected in zip(stepping.results(), made, strict=False):
        if got.shape == expected.shape:
            assert_close(weft.from_numpy(got), expected, rtol=1e-4, atol=1e-5)
