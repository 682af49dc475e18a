"""Elementary functions: values beside NumPy's, domains, rounding, complex parts, gradients at the edges."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import weft

NAN, INF = math.nan, math.inf


def gradient(function: Any, *values: Any) -> list[list[float]]:
    inputs = [weft.tensor(value, dtype=weft.float64, requires_grad=True) for value in values]
    return [g.tolist() for g in weft.autograd.grad(function(*inputs).sum(), inputs)]


@pytest.mark.parametrize(
    ("name", "numpy_name"),
    [
        ("exp", "exp"),
        ("log1p", "log1p"),
        ("sqrt", "sqrt"),
        ("sin", "sin"),
        ("atan", "arctan"),
        ("cosh", "cosh"),
    ],
)
def test_integers_become_the_default_float(name: str, numpy_name: str) -> None:
    got = getattr(weft, name)(weft.tensor([0, 1, 2]))
    assert got.dtype is weft.float32
    np.testing.assert_allclose(got.numpy(), getattr(np, numpy_name)(np.arange(3.0)), rtol=1e-6)
    assert getattr(weft, name)(weft.tensor([1.0], dtype=weft.bfloat16)).dtype is weft.bfloat16


def test_outside_the_domain_is_nan_without_a_warning() -> None:
    assert weft.log(weft.tensor([-1.0])).isnan().all()
    assert weft.acos(weft.tensor([2.0])).isnan().all()
    assert weft.rsqrt(weft.tensor([0.0])).tolist() == [INF]


@pytest.mark.parametrize("kind", [weft.float32, weft.float64])
def test_logaddexp_at_the_edges(kind: weft.dtype) -> None:
    x = weft.tensor([INF, -INF, INF, 0.0, 1000.0, NAN, -100.0], dtype=kind)
    y = weft.tensor([INF, -INF, -INF, -1000.0, 1000.0, 1.0, -100.0], dtype=kind)
    expected = [INF, -INF, INF, 0.0, 1000 + math.log(2), NAN, -100 + math.log(2)]
    np.testing.assert_allclose(weft.logaddexp(x, y).numpy(), expected, rtol=1e-6)
    assert weft.logaddexp(x[0], y[0]).shape == ()


def test_logaddexp_broadcasts_over_more_than_a_block() -> None:
    x = np.linspace(-5, 5, 70_000, dtype=np.float32)
    got = weft.logaddexp(weft.from_numpy(x), weft.from_numpy(x[::-1].copy()))
    np.testing.assert_allclose(got.numpy(), np.logaddexp(x.astype(float), x[::-1]), rtol=1e-6)
    column = weft.logaddexp(weft.from_numpy(x)[:, None], weft.tensor([0.0, 1.0]))
    assert column.shape == (70_000, 2)


def test_sinc_at_zero() -> None:
    assert weft.sinc(weft.tensor([0.0, 1.0, 0.5])).tolist() == pytest.approx(
        [1.0, 0.0, 2 / math.pi], abs=1e-6
    )
    assert gradient(weft.sinc, [0.0]) == [[0.0]]


def test_gradients_at_the_edges() -> None:
    assert gradient(weft.sqrt, [0.0]) == [[INF]]
    assert gradient(weft.atan2, [0.0], [0.0]) == [[0.0], [0.0]]
    assert gradient(weft.floor, [1.5]) == [[0.0]]
    assert gradient(weft.frac, [1.5]) == [[1.0]]
    assert gradient(weft.round, [1.5]) == [[0.0]]


def test_rounding() -> None:
    x = weft.tensor([2.5, -1.5, 0.5, -0.3])
    assert weft.round(x).tolist() == [2.0, -2.0, 0.0, -0.0]
    assert weft.floor(x).tolist() == [2.0, -2.0, 0.0, -1.0]
    assert weft.ceil(x).tolist() == [3.0, -1.0, 1.0, -0.0]
    assert weft.fix(x).tolist() == [2.0, -1.0, 0.0, -0.0]
    assert weft.round(weft.tensor([1.2345, -17.0]), decimals=2).tolist() == pytest.approx([1.23, -17.0])
    assert weft.round(weft.tensor([1234.0]), decimals=-2).tolist() == [1200.0]
    ints = weft.tensor([3, -4])
    for function in (weft.floor, weft.ceil, weft.trunc, weft.round):
        assert function(ints).tolist() == [3, -4]
        assert function(ints).dtype is weft.int64


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (
            lambda: weft.floor(weft.tensor([1j])),
            NotImplementedError,
            "floor is not supported for complex inputs",
        ),
        (
            lambda: weft.ceil(weft.tensor([True])),
            NotImplementedError,
            "\"ceil_vml_cpu\" not implemented for 'Bool'",
        ),
        (lambda: weft.frac(weft.tensor([1])), NotImplementedError, "\"frac_cpu\" not implemented for 'Long'"),
        (
            lambda: weft.round(weft.tensor([1]), decimals=1),
            NotImplementedError,
            '"round_cpu" not implemented',
        ),
        (
            lambda: weft.deg2rad(weft.tensor([1j])),
            RuntimeError,
            "deg2rad is not supported for complex tensors",
        ),
        (lambda: weft.hypot(weft.tensor([1]), weft.tensor([1])), NotImplementedError, '"hypot_cpu" not impl'),
        (
            lambda: weft.complex(weft.ones(1), weft.ones(1).double()),
            RuntimeError,
            "Expected object of scalar type",
        ),
        (lambda: weft.complex(weft.tensor([1]), weft.tensor([1])), RuntimeError, "Half, Float or Double"),
        (
            lambda: weft.floor(weft.ones(2), out=weft.ones(2).double()),
            RuntimeError,
            "Found dtype Double but expected",
        ),
    ],
)
def test_errors(call: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        call()


def test_complex_values() -> None:
    z = weft.complex(weft.tensor([3.0, 0.0]), weft.tensor([4.0, -1.0]))
    assert z.dtype is weft.complex64
    assert weft.abs(z).tolist() == [5.0, 1.0]
    assert weft.abs(z).dtype is weft.float32
    assert weft.conj(z).tolist() == [3 - 4j, 1j]
    assert weft.sgn(z).tolist() == pytest.approx([0.6 + 0.8j, -1j])
    turned = weft.polar(weft.tensor([2.0]), weft.tensor([math.pi / 2]))
    np.testing.assert_allclose(turned.numpy(), [2j], atol=1e-6)
    assert weft.angle(weft.tensor([-1.0, 2.0])).tolist() == pytest.approx([math.pi, 0.0])
    x = weft.ones(2)
    assert weft.conj(x) is x


def test_arc_names_are_aliases() -> None:
    for short in ("sin", "cos", "tan", "sinh", "cosh", "tanh"):
        assert getattr(weft, f"arc{short}") is getattr(weft, f"a{short}")
    assert weft.arctan2 is weft.atan2
    assert weft.special.expm1 is weft.expm1


@pytest.mark.parametrize("compiled", [False, True])
def test_heaviside_has_no_derivative(compiled: bool) -> None:
    function = weft.compile(weft.heaviside) if compiled else weft.heaviside
    for needs in ((True, False), (False, True)):
        x, values = (weft.tensor([0.0, 1.0], requires_grad=need) for need in needs)
        out = function(x, values)
        assert out.requires_grad
        with pytest.raises(RuntimeError, match="derivative for aten::heaviside is not implemented"):
            out.sum().backward()
