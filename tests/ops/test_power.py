"""Powers: exponents that are numbers have functions of their own, exponents that are tensors have not."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from weft.ops.record import REGISTRY

INFINITE = math.inf
BASES = [-INFINITE, -2.0, -0.0, 0.0, 0.25, 1.5, 1e20, 1e-20, INFINITE, math.nan]
EXPONENTS = (2.0, 0.5, 1.0, 3.0, -1.0, -0.5, -2.0, 0.0, 1.5, 4.0)
BACKENDS = ("native", "aot_eager", "reference")
ROOTS = [math.nan, -0.0, 2.0]
"""Of -inf, -0.0 and 4.0, by the square root; and by the power that C defines."""
POWERS = [INFINITE, 0.0, 2.0]


def equal(one: weft.Tensor, other: weft.Tensor) -> bool:
    """Whether values are the same but for rounding, signs of zeros included."""
    a, b = one.detach().double().numpy(), other.detach().double().numpy()
    signs = np.array_equal(np.signbit(a[a == 0]), np.signbit(b[b == 0]))
    return signs and np.allclose(
        a, b, rtol=1e-5 if one.dtype is weft.float32 else 1e-2, atol=0, equal_nan=True
    )


def compiled(function: Callable[..., Any], backend: str | None) -> Callable[..., Any]:
    return function if backend is None else weft.compile(function, backend=backend)


@pytest.mark.parametrize("backend", [None, *BACKENDS])
@pytest.mark.parametrize("kind", [weft.float32, weft.float64, weft.bfloat16])
def test_a_half_is_a_root_as_a_number_and_a_power_as_a_tensor(kind: Any, backend: str | None) -> None:
    half = 0.5
    number = [
        lambda x: x**0.5,
        lambda x: weft.pow(x, half),
        lambda x, exponent=0.5: x.pow(exponent),
        lambda x: weft.float_power(x, 0.5),
        lambda x: x ** np.float64(0.5),
    ]
    tensors = [
        lambda x: x ** weft.full((3,), 0.5, dtype=kind),
        lambda x: x ** weft.tensor(0.5, dtype=kind),
        lambda x: x ** weft.tensor([0.5], dtype=kind),
        lambda x: x ** weft.tensor([0.5], dtype=kind).expand(3),
        lambda x: weft.float_power(x, weft.tensor(0.5)),
        lambda x: weft.stack([each ** weft.tensor(0.5, dtype=kind) for each in x]),
    ]
    x = weft.tensor([-INFINITE, -0.0, 4.0], dtype=kind)
    for functions, expected in ((number, ROOTS), (tensors, POWERS)):
        for function in functions:
            assert equal(compiled(function, backend)(x), weft.tensor(expected))
    by_argument = compiled(lambda x, exponent: weft.pow(x, exponent), backend)
    assert equal(by_argument(x, 0.5), weft.tensor(ROOTS))
    assert equal(by_argument(x, weft.tensor(0.5, dtype=kind)), weft.tensor(POWERS))
    assert equal(by_argument(x, weft.full((3,), 0.5, dtype=kind)), weft.tensor(POWERS))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", [weft.float32, weft.float16])
def test_an_exponent_that_varies_has_the_functions_of_a_known_one(kind: Any, backend: str) -> None:
    def power(x: weft.Tensor, exponent: float) -> weft.Tensor:
        return x**exponent

    x = weft.tensor(BASES, dtype=kind)
    varying = weft.compile(power, backend=backend)
    varying(x, 7.5)
    for exponent in EXPONENTS:
        assert equal(varying(x, exponent), power(x, exponent)), exponent


@pytest.mark.parametrize("backend", ["native", "aot_eager"])
def test_gradients_of_powers_are_those_of_eager(backend: str) -> None:
    def gradient(power: Callable[..., Any], exponent: Any) -> weft.Tensor:
        x = weft.tensor(BASES, requires_grad=True)
        power(x, exponent).sum().backward()
        assert x.grad is not None
        return x.grad

    for exponent in (0.5, 1.5, -0.5, 3.0, weft.tensor(0.5), weft.full((len(BASES),), 1.5)):
        expected = gradient(weft.pow, exponent)
        assert equal(gradient(weft.compile(lambda x, e: weft.pow(x, e), backend=backend), exponent), expected)


@pytest.mark.parametrize("backend", [None, "aot_eager", "native"])
@pytest.mark.parametrize("shapes", [((4,), (3, 4)), ((4, 2), (2,)), ((3, 1), (3, 4)), ((2, 3, 4), (3, 4))])
def test_halves_among_the_exponents_do_not_decide_how_powers_lie(shapes: Any, backend: str | None) -> None:
    function: Any = lambda x, y: x**y
    called = function if backend is None else weft.compile(function, backend=backend)
    base, others = (weft.from_numpy(np.full(shape, 2.0, np.float32, order="F")) for shape in shapes)
    halves = others.clone()
    halves[-1] = 0.5
    assert halves.stride() == others.stride()
    assert called(base, halves).stride() == function(base, others).stride()
    expected = base.double().numpy() ** halves.double().numpy()
    assert np.allclose(called(base, halves).numpy(), expected, rtol=1e-5)


def test_a_power_by_one_exponent_for_all_lies_as_its_base() -> None:
    assert (weft.ones(3, 4).t() ** weft.tensor(0.5)).stride() == (1, 4)
    assert (weft.tensor(-0.0) ** weft.tensor(0.5)).shape == ()
    assert (weft.ones(0) ** weft.tensor(0.5)).shape == (0,)


@pytest.mark.parametrize("exponent", [1.5, 4, 0, 0.5, -2.5, np.float32(1.5)])
def test_the_kernel_takes_a_bare_number(exponent: Any) -> None:
    """What it raises makes each eager call go the long way, through the dispatcher."""
    base = np.array([0.25, 2.0, 3.0], np.float32)
    made = REGISTRY["pow"].kernel(base, exponent)  # type: ignore[misc]
    assert made.dtype == np.float32
    np.testing.assert_allclose(made, base.astype(np.float64) ** float(exponent), rtol=1e-6)


@pytest.mark.parametrize("backend", [None, *BACKENDS])
def test_float16_has_no_roots_for_numbers_either(backend: str | None) -> None:
    """As in PyTorch, where only float32, float64 and bfloat16 do."""
    x = weft.tensor([-INFINITE, -0.0, 4.0], dtype=weft.float16)
    half = 0.5
    functions: list[Callable[..., Any]] = [
        lambda x: x**0.5,
        lambda x: weft.pow(x, half),
        lambda x: x.clone().pow_(0.5),
        lambda x: x ** np.float64(0.5),
        lambda x: weft.stack([each**0.5 for each in x]),
    ]
    for function in functions:
        assert equal(compiled(function, backend)(x), weft.tensor(POWERS))
    varying = compiled(lambda x, exponent: weft.pow(x, exponent), backend)
    for exponent, expected in ((7.5, [INFINITE, 0.0, 32768.0]), (0.5, POWERS), (-0.5, [0.0, INFINITE, 0.5])):
        assert equal(varying(x, exponent), weft.tensor(expected))
    assert equal(compiled(lambda x: weft.float_power(x, 0.5), backend)(x), weft.tensor(ROOTS))
    x.requires_grad_()
    slope = compiled(lambda x: weft.autograd.grad((x**1.5).sum(), x)[0], backend)(x)
    assert equal(slope, weft.tensor([INFINITE, 0.0, 3.0]))


@pytest.mark.parametrize("backend", [None, *BACKENDS])
def test_exponents_that_are_nan_have_gradients_that_are_beside_bases_of_zero(backend: str | None) -> None:
    def slope(base: Any, exponent: weft.Tensor) -> weft.Tensor:
        return weft.autograd.grad(weft.pow(base, exponent).sum(), exponent)[0]

    exponents = weft.tensor([math.nan, 0.0, 2.0, -1.0], requires_grad=True)
    for base in (weft.zeros(4), 0.0):
        found = compiled(slope, backend)(base, exponents)
        assert equal(found, weft.tensor([math.nan, 0.0, 0.0, -INFINITE]))
