"""Numbers that only running tells: floats that are inputs or read from tensors, arithmetic, checks."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

import weft
from weft.native.run import Executable
from weft.testing import assert_close


def of_inputs(x: Any, a: float, b: float) -> Any:
    return x * a + b, weft.addcmul(x, x, x, value=a), x.add(x, alpha=b), x.lerp(x + 1, a)


def of_items(x: Any, a: float, b: float) -> Any:
    total = x.sum().item()
    return x * (total / a), x + math.sqrt(0.9**total), x - (1 - total), x * (b - total)


def given_out(x: Any, a: float, b: float) -> Any:
    return x.sum().item() * a, (x + a, -b)


def compared(x: Any, a: float, b: float) -> Any:
    if a > b:
        return x * a
    return x * b


def in_other_ops(x: Any, a: float, b: float) -> Any:
    return x.clamp(b, a), weft.where(x > 0, a, b)


def that_know_them(x: Any, a: float, b: float) -> Any:
    return weft.full((3,), min(a, 1.0)), x.masked_fill(x > 0, min(a, 1.0))


@pytest.mark.parametrize("program", [of_inputs, of_items, given_out, compared, in_other_ops, that_know_them])
def test_values_are_eagers(program: Callable[..., Any], programs: list[Executable]) -> None:
    compiled = weft.compile(program, backend="native", fullgraph=True)
    weft.manual_seed(0)
    x = weft.randn(5)
    large = 1e300 if program is of_inputs else 3.5
    for a, b in ((0.5, 0.25), (0.3, 0.1), (2.5, -0.0), (large, 1e-300), (0.7, 0.5)):
        assert_close(compiled(x, a, b), program(x, a, b), rtol=0, atol=0, equal_nan=True)
    if program in (of_inputs, given_out):
        assert len(programs) <= 2  # none for each number


def test_no_step_of_these_is_pythons(programs: list[Executable]) -> None:
    for program in (of_inputs, of_items):
        weft.compile(program, backend="native", fullgraph=True)(weft.ones(5), 0.5, 0.25)
        assert not programs[-1].python
    assert programs[-1].frame is not None


@pytest.mark.parametrize(
    "refused",
    [
        lambda x: x * (1 / x.sum().item()),
        lambda x: x * math.sqrt(x.sum().item() - 1),
        lambda x: x * 1e300 ** (2 - x.sum().item()),
    ],
    ids=["division", "root", "overflow"],
)
def test_what_python_refuses_is_refused(refused: Callable[..., Any], programs: list[Executable]) -> None:
    compiled = weft.compile(refused, backend="native", fullgraph=True)
    weft.manual_seed(0)
    good = weft.rand(3) + 1
    assert_close(compiled(good), refused(good), rtol=0, atol=0, equal_nan=True)
    with pytest.raises(Exception) as expected:  # whichever eager raises
        refused(weft.zeros(3))
    with pytest.raises(type(expected.value)):
        compiled(weft.zeros(3))


def test_what_is_refused_has_written_nothing(programs: list[Executable]) -> None:
    def step(p: Any, count: Any) -> None:
        count.sub_(1)
        p.mul_(1 / count.item())

    compiled = weft.compile(step, backend="native", fullgraph=True)
    results = []
    for function in (step, compiled):
        p, count = weft.ones(3), weft.tensor(3.0)
        function(p, count)
        function(p, count)
        with pytest.raises(ZeroDivisionError):
            function(p, count)
        results.append((p, count, weft.tensor([p._version, count._version])))
    assert_close(results[0], results[1])
    assert programs and not programs[-1].python and len(programs[-1].written) == 2


def test_adam_is_machine_code(programs: list[Executable]) -> None:
    def run_steps(backend: str | None) -> list[Any]:
        weft.manual_seed(0)
        parameters = [weft.randn(n, requires_grad=True) for n in (7, 40)]
        optimizer = weft.optim.Adam(parameters, lr=0.1, weight_decay=0.01)

        def step() -> None:
            optimizer.step()

        function = step if backend is None else weft.compile(step, backend=backend, fullgraph=True)
        for number in range(4):
            for each in parameters:
                each.grad = each.detach() * number
            optimizer.param_groups[0]["lr"] = 0.1 / (1 + number)
            function()
        return [each.detach() for each in parameters]

    assert_close(run_steps("native"), run_steps(None))
    assert not programs[-1].python and len(programs[-1].written) == 8
