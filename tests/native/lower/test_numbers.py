"""Numbers that only running tells: floats that are inputs or read from tensors, arithmetic, checks."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

import weft
from weft.native.cpu.runner import Runner
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
def test_values_are_eagers(program: Callable[..., Any], programs: list[Runner]) -> None:
    compiled = weft.compile(program, backend="native", fullgraph=True)
    weft.manual_seed(0)
    x = weft.randn(5)
    large = 1e300 if program is of_inputs else 3.5
    for a, b in ((0.5, 0.25), (0.3, 0.1), (2.5, -0.0), (large, 1e-300), (0.7, 0.5)):
        assert_close(compiled(x, a, b), program(x, a, b), rtol=0, atol=0, equal_nan=True)
    if program in (of_inputs, given_out):
        assert len(programs) <= 2  # none for each number


def test_no_step_of_these_is_pythons(programs: list[Runner]) -> None:
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
def test_what_python_refuses_is_refused(refused: Callable[..., Any], programs: list[Runner]) -> None:
    compiled = weft.compile(refused, backend="native", fullgraph=True)
    weft.manual_seed(0)
    good = weft.rand(3) + 1
    assert_close(compiled(good), refused(good), rtol=0, atol=0, equal_nan=True)
    with pytest.raises(Exception) as expected:  # whichever eager raises
        refused(weft.zeros(3))
    with pytest.raises(type(expected.value)):
        compiled(weft.zeros(3))


def test_what_is_refused_has_written_nothing(programs: list[Runner]) -> None:
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


def test_adam_is_machine_code(programs: list[Runner]) -> None:
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


def made_of(x: Any, a: float, b: float) -> Any:
    tensors = weft.full((3,), a), weft.full_like(x, b), x.new_full((2, 2), a), weft.tensor(b)
    wide = weft.full((2,), a, dtype=weft.float64) * 2
    edges = weft.nn.functional.huber_loss(x, x * 2, "none", a + 1)
    return tuple([each * 2 for each in tensors]), wide, weft.nn.functional.leaky_relu(x, a), edges


def called(x: Any, a: float, b: float) -> Any:
    waves = math.sin(a) * math.cos(b) + math.tan(a) - math.atan(b) * math.tanh(a)
    return x * math.exp(a), x + math.log(a + 1), x - math.log2(a + 2) / math.log10(a + 3), x * waves


@pytest.mark.parametrize("program", [made_of, called])
def test_numbers_that_python_hands_on(program: Callable[..., Any], programs: list[Runner]) -> None:
    """Tensors of floats, and Python's functions of these: to the bit, in one program, without Python."""
    compiled = weft.compile(program, backend="native", fullgraph=True)
    x = weft.tensor([-1.5, -0.0, 0.0, 2.0, math.nan])
    for a, b in ((0.5, 0.25), (0.3, 0.1), (2.5, -0.0), (0.7, 0.5), (1.0, -3.0), (0.0, 8.0)):
        assert_close(compiled(x, a, b), program(x, a, b), rtol=0, atol=0, equal_nan=True)
    assert len(programs) <= 3 and not programs[-1].python and programs[-1].frame is not None


@pytest.mark.parametrize("slope", [0.5, 2.0, -1.0, 0.0, -0.0, 1.0, math.inf])
def test_slopes_that_only_running_tells(slope: float, programs: list[Runner]) -> None:
    compiled = weft.compile(lambda x, s: weft.nn.functional.leaky_relu(x, s), fullgraph=True)
    x = weft.tensor([-1.5, -0.0, 0.0, 2.0, math.nan, -math.inf])
    compiled(x, 0.25)
    found, expected = compiled(x, slope), weft.nn.functional.leaky_relu(x, slope)
    assert_close(found, expected, rtol=0, atol=0, equal_nan=True)
    numbers = ~expected.isnan()
    assert found.signbit()[numbers].tolist() == expected.signbit()[numbers].tolist()


@pytest.mark.parametrize("name, number", [("exp", 1e3), ("log", 0.0), ("log", -1.0), ("sin", math.inf)])
def test_functions_that_python_refuses(name: str, number: float) -> None:
    function = getattr(math, name)
    compiled = weft.compile(lambda x, s: x * function(s), backend="native")
    for good in (0.5, 0.75):
        assert_close(compiled(weft.ones(2), good), weft.ones(2) * function(good))
    with pytest.raises((ValueError, OverflowError)) as expected:
        function(number)
    with pytest.raises(type(expected.value), match=str(expected.value)):
        compiled(weft.ones(2), number)


def test_logarithms_to_a_base_are_pythons() -> None:
    compiled = weft.compile(lambda x, s: x * math.log(s, 3), backend="native")
    for s in (0.5, 2.0, 9.0):
        assert_close(compiled(weft.ones(2), s), weft.ones(2) * math.log(s, 3))


def test_halves_are_rounded_once() -> None:
    """1 + 2**-11 + 2**-30 is the next half above 1, and would be 1 by way of float32."""
    compiled = weft.compile(lambda x, s: weft.full((2,), s, dtype=weft.float16) * x, fullgraph=True)
    for s in (0.5, 0.75, 1 + 2**-11 + 2**-30):
        x = weft.ones(2, dtype=weft.float16)
        assert compiled(x, s).tolist() == (weft.full((2,), s, dtype=weft.float16) * x).tolist()


def whole(x: Any, a: float, b: float) -> Any:
    near = x * int(a * 10), x + math.floor(b), x - math.ceil(a), x / (round(a) or 0.5), int(a) * x * b
    return *near, x.double() * math.trunc(b), x ** int(a), weft.where(x > int(b), x, int(a))


WHOLE = ((0.5, 2.5), (2.5, 0.5), (-1.5, -0.25), (1e15, 3.7), (2.0**62, -(2.0**62)), (-7.5, 1.25))


def test_whole_numbers_made_of_floats(programs: list[Runner], monkeypatch: pytest.MonkeyPatch) -> None:
    """They are computed by machine code, and types are promoted as for an int of Python's."""
    monkeypatch.setattr(weft.compiler.settings, "strict", False)  # some have more than 64 bits
    compiled = weft.compile(whole, backend="native", fullgraph=True)
    x = weft.tensor([1.5, 0.25, 3.0])
    for a, b in WHOLE:
        assert_close(compiled(x, a, b), whole(x, a, b), rtol=1e-6, atol=0, equal_nan=True)
    simple = weft.compile(lambda x, a: x * int(a * 100), backend="native", fullgraph=True)
    for a in (0.5, 0.25, 0.125):
        assert_close(simple(x, a), x * int(a * 100), rtol=0, atol=0)
    assert not programs[-1].python and programs[-1].frame is not None


@pytest.mark.parametrize("kind", [weft.int64, weft.uint8, weft.bool, weft.float16, weft.bfloat16])
def test_whole_numbers_beside_other_types(kind: weft.dtype) -> None:
    def program(x: Any, a: float) -> Any:
        return x * int(a), x + (round(a) + 1), x * float(math.floor(a)), weft.full((2,), int(a)), int(a)

    compiled = weft.compile(program, backend="native", fullgraph=True)
    x = weft.tensor([1, 0, 3]).to(kind)
    for a in (0.5, 2.5, -1.5, 300.25, 7.75):
        assert_close(compiled(x, a), program(x, a), rtol=0, atol=0)


@pytest.mark.parametrize("number", [2.0**63, -(2.0**63), 1e30, math.nan, math.inf])
def test_whole_numbers_that_no_machine_has(number: float) -> None:
    def program(x: Any, a: float) -> Any:
        return x * int(a)

    compiled = weft.compile(program, backend="native")
    x = weft.tensor([1.5, -2.0])
    for good in (0.5, 2.5, 3.5):
        assert_close(compiled(x, good), program(x, good), rtol=0, atol=0)
    try:
        expected = program(x, number)
    except (ValueError, OverflowError) as error:
        with pytest.raises(type(error), match=str(error)):
            compiled(x, number)
    else:
        assert_close(compiled(x, number), expected, rtol=0, atol=0)
