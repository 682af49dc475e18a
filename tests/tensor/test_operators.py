"""Python's operators: each against its function, foreign operands, reflection, in-place forms."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest

import weft
from weft.tensor.operators import BINARY, INPLACE, SWAPPED

floats, others = weft.tensor([6.0, 3.0]), weft.tensor([4.0, 2.0])
whole, counts = weft.tensor([6, 3]), weft.tensor([1, 2])
INTEGER = {"and", "or", "xor", "lshift", "rshift"}


def operands(name: str) -> tuple[Any, Any]:
    return (whole, counts) if name in INTEGER else (floats, others)


@pytest.mark.parametrize(
    "dunder", [name for name in BINARY if not name.startswith("__r") or name == "__rshift__"]
)
def test_operator_is_its_function(dunder: str) -> None:
    name = dunder.strip("_")
    x, y = operands(name)
    function = getattr(operator, f"{name}_" if name in ("and", "or") else name)
    expected = getattr(weft, BINARY[dunder])(x, y)
    for _ in range(2):
        got = function(x, y)
        assert got.dtype is expected.dtype
        assert weft.equal(got, expected)


@pytest.mark.parametrize("name", ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow"])
def test_numbers_on_either_side(name: str) -> None:
    function = getattr(operator, name)
    x = np.array([6.0, 3.0])
    for number in (2, 2.5, np.float64(2.5)):
        np.testing.assert_allclose(function(weft.from_numpy(x), number).numpy(), function(x, number))
        np.testing.assert_allclose(function(number, weft.from_numpy(x)).numpy(), function(number, x))


@pytest.mark.parametrize("name", sorted(INTEGER))
def test_integers_on_the_left(name: str) -> None:
    function = getattr(operator, f"{name}_" if name in ("and", "or") else name)
    assert function(5, counts).tolist() == [function(5, 1), function(5, 2)]


def test_every_reflected_form_is_there() -> None:
    for name in ("add", "sub", "mul", "truediv", *[s.strip("_")[1:] for s in SWAPPED]):
        assert f"__r{name}__" in vars(weft.Tensor)


@pytest.mark.parametrize("dunder", INPLACE)
def test_in_place_operators_write_into_the_tensor(dunder: str) -> None:
    name = dunder.strip("_")[1:]
    x, y = (value.clone() for value in operands(name))
    expected = getattr(operator, f"{name}_" if name in ("and", "or") else name)(x, y)
    alias = x
    x = getattr(operator, f"i{name}")(x, y)
    assert x is alias
    assert weft.equal(x, expected)
    assert x._version == 1


@pytest.mark.parametrize("foreign", ["a", None, [1.0, 2.0], object()], ids=["str", "None", "list", "object"])
def test_foreign_operands_are_pythons_to_refuse(foreign: Any) -> None:
    kind = type(foreign).__name__
    with pytest.raises(TypeError, match=f"unsupported operand type\\(s\\) for \\-: 'Tensor' and '{kind}'"):
        floats - foreign
    with pytest.raises(TypeError, match=f"unsupported operand type\\(s\\) for \\-: '{kind}' and 'Tensor'"):
        foreign - floats
    with pytest.raises(TypeError, match=f"unsupported operand type\\(s\\) for /: '{kind}' and 'Tensor'"):
        foreign / floats
    with pytest.raises(TypeError, match=f"unsupported operand type\\(s\\) for \\*\\* or pow\\(\\): '{kind}'"):
        foreign**floats
    with pytest.raises(TypeError, match=f"'<' not supported between instances of 'Tensor' and '{kind}'"):
        floats < foreign
    with pytest.raises(TypeError, match="unsupported operand type\\(s\\) for -=: 'Tensor' and"):
        operator.isub(floats.clone(), foreign)
    assert (floats == foreign) is False
    assert (floats != foreign) is True


def test_matmul_takes_no_numbers() -> None:
    with pytest.raises(TypeError, match="unsupported operand type\\(s\\) for @: 'Tensor' and 'int'"):
        floats @ 2
    assert (floats @ others).item() == 30.0


def test_the_other_side_gets_its_turn() -> None:
    class Other:
        def __radd__(self, left: Any) -> str:
            return "mine"

        def __gt__(self, left: Any) -> str:
            return "reflected"

    assert floats + Other() == "mine"
    assert (floats < Other()) == "reflected"


def test_unary_operators() -> None:
    assert (-floats).tolist() == [-6.0, -3.0]
    assert +floats is floats
    assert abs(-floats).tolist() == [6.0, 3.0]
    assert (~counts).tolist() == [-2, -3]
    assert (~weft.tensor([True])).tolist() == [False]
    for kind in (weft.float32, weft.bfloat16, weft.complex64):
        with pytest.raises(
            TypeError, match="~ \\(operator.invert\\) is only implemented on integer and Boolean"
        ):
            ~weft.ones(1, dtype=kind)


def test_errors_of_the_op_come_through() -> None:
    with pytest.raises(
        RuntimeError, match="The size of tensor a \\(2\\) must match the size of tensor b \\(3\\)"
    ):
        floats + weft.ones(3)
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        whole // 0
    with pytest.raises(TypeError, match="divmod"):
        divmod(floats, 2)


def test_operators_record() -> None:
    x = weft.tensor([2.0], requires_grad=True)
    y = 1 - 3 / (x * x) + 2**x
    assert type(y.grad_fn).__name__ == "AddBackward0"
    y.backward()
    assert x.grad.item() == pytest.approx(6 / 8 + 4 * np.log(2), rel=1e-6)
    assert type((1 - x).grad_fn).__name__ == "RsubBackward1"
    assert type((x**2).grad_fn).__name__.startswith("PowBackward")


def test_hash_survives_elementwise_equality() -> None:
    assert len({floats, others, floats}) == 2


def test_subclasses_take_over() -> None:
    class Sub(weft.Tensor):
        pass

    value = weft.ones(2).as_subclass(Sub)
    assert type(value + 1) is Sub
    assert type(1 + value) is Sub
    assert type(floats * value) is Sub
    assert type(2 / value) is Sub
    assert type(2**value) is Sub


def test_comparison_with_arrays_is_by_element() -> None:
    x, array = weft.tensor([1.0, 3.0]), np.array([1.0, 2.0])
    assert (x == array).tolist() == [True, False] and (array == x).tolist() == [True, False]
    assert (x != array).tolist() == [False, True]


def test_arrays_divided_by_tensors() -> None:
    out = np.array([1.0, 6.0]) / weft.tensor([2.0, 3.0])
    assert isinstance(out, weft.Tensor) and out.dtype is weft.float64 and out[0].item() == 0.5
