"""Dual levels: making and unpacking duals, nesting, and PyTorch's errors."""

from __future__ import annotations

from typing import Any

import pytest

import weft
from weft.autograd import forward_ad
from weft.func import grad, vmap

X = weft.tensor([1.0, 2.0, 3.0])


def test_tangents_flow() -> None:
    with forward_ad.dual_level():
        x = forward_ad.make_dual(X, X * 2)
        y = x.sin() * x
        primal, tangent = forward_ad.unpack_dual(y)
        assert weft.allclose(primal, X.sin() * X) and weft.allclose(tangent, (X.cos() * X + X.sin()) * X * 2)
        assert forward_ad.unpack_dual(X).tangent is None and forward_ad.unpack_dual(X).primal is X
        assert x._is_view() and x._base is X
        assert forward_ad.unpack_dual(y.detach()).tangent is None
        assert repr(x) == "tensor([1., 2., 3.], tangent=tensor([2., 4., 6.]))"
        assert isinstance(forward_ad.unpack_dual(x), forward_ad.UnpackedDualTensor)
    assert type(y) is weft.Tensor and weft.allclose(y, primal)
    assert forward_ad.unpack_dual(y).tangent is None


def test_the_decorator_opens_a_level() -> None:
    @forward_ad.dual_level()
    def derivative(x: Any) -> Any:
        return forward_ad.unpack_dual(forward_ad.make_dual(x, weft.ones(3)) ** 2).tangent

    assert derivative(X).tolist() == [2, 4, 6]


def test_with_reverse_mode() -> None:
    leaf = X.clone().requires_grad_()
    with forward_ad.dual_level():
        x = forward_ad.make_dual(leaf, X * 2)
        y = (x**3).sum()
        gradient = weft.autograd.grad(y, x, create_graph=True)[0]
        assert forward_ad.unpack_dual(gradient).tangent.tolist() == [12, 48, 108]
        y.backward()
        assert leaf.grad.tolist() == [3, 12, 27]
        assert forward_ad.unpack_dual(grad(lambda a: (a**3).sum())(x)).tangent.tolist() == [12, 48, 108]
        rows = vmap(lambda a: a * x)(weft.stack([X, X]))
        assert forward_ad.unpack_dual(rows).tangent.tolist() == [[2, 8, 18]] * 2
    tangent = weft.ones(3, requires_grad=True)
    with forward_ad.dual_level():
        move = forward_ad.unpack_dual(forward_ad.make_dual(X, tangent) * X).tangent
    assert weft.autograd.grad(move.sum(), tangent)[0].tolist() == [1, 2, 3]
    with forward_ad.dual_level(), weft.no_grad():  # no_grad is for reverse mode only
        assert forward_ad.unpack_dual(forward_ad.make_dual(X, X) * 2).tangent.tolist() == [2, 4, 6]


def nested() -> None:
    with forward_ad.dual_level(), forward_ad.dual_level():
        pass


def made(primal: Any, tangent: Any) -> None:
    with forward_ad.dual_level():
        forward_ad.make_dual(primal, tangent)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (
            lambda: forward_ad.make_dual(X, X),
            RuntimeError,
            r"no level exists, make sure to enter_dual_level\(\) first.",
        ),
        (
            lambda: forward_ad.make_dual(X, X, level=0),
            RuntimeError,
            "a forward AD level with an invalid index",
        ),
        (nested, RuntimeError, "Nested forward mode AD is not supported at the moment"),
        (
            lambda: made(X, X[:2]),
            RuntimeError,
            "a forward gradient that has a different size than that of the original",
        ),
        (
            lambda: made(weft.tensor([1]), X[:1]),
            ValueError,
            "Expected primal to be floating point or complex, but got:",
        ),
        (
            lambda: made(X[:1], weft.tensor([1])),
            ValueError,
            "Expected tangent to be floating point or complex, but got",
        ),
        (forward_ad.exit_dual_level, RuntimeError, "Dual level must be a positive number."),
        (
            lambda: forward_ad.exit_dual_level(level=3),
            RuntimeError,
            "that was not the last one that was created",
        ),
    ],
)
def test_refusals(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call()


def test_levels_by_hand() -> None:
    assert forward_ad.enter_dual_level() == 0
    x = forward_ad.make_dual(X, X)
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        weft.add(x, x, out=weft.zeros(3))
    forward_ad.exit_dual_level()
    assert type(x) is weft.Tensor and x.tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.abs() * x.angle(),
        lambda x: (x * x.conj()).exp().real,
        lambda x: weft.fft.irfft(x[1:] * 1j),
        lambda x: weft.view_as_real(x).cumprod(0),
        lambda x: (x.prod() + x.norm()).sgn(),
    ],
)
def test_complex_directions_against_differences(function: Any) -> None:
    x, way = (weft.randn(4, dtype=weft.complex128) for _ in range(2))
    with forward_ad.dual_level():
        moved = forward_ad.unpack_dual(function(forward_ad.make_dual(x, way))).tangent
    wanted = (function(x + 1e-6 * way) - function(x - 1e-6 * way)) / 2e-6
    assert weft.allclose(moved, wanted, rtol=1e-5, atol=1e-7)


def test_levels_are_numbered():
    assert forward_ad._current_level == -1
    with forward_ad.dual_level():
        assert forward_ad._current_level == 0
    with pytest.raises(AttributeError, match="has no attribute '_other'"):
        forward_ad._other


def test_forward_gradients_can_be_off() -> None:
    def f(x: weft.Tensor) -> weft.Tensor:
        with forward_ad._set_fwd_grad_enabled(False):
            assert not forward_ad._is_fwd_grad_enabled()
            shift = x**2
            x.add_(0)
        return x**2 - shift

    x = weft.tensor(3.0)
    assert weft.func.jvp(f, (x,), (weft.ones(()),))[1].item() == 6.0
    twice = weft.func.jvp(lambda y: weft.func.jvp(f, (y,), (weft.ones(()),))[1], (x,), (weft.ones(()),))
    assert twice[1].item() == 2.0
    with forward_ad._set_fwd_grad_enabled(False):
        assert weft.func.jvp(weft.sin, (x,), (weft.ones(()),))[1].item() == x.cos().item()
    assert forward_ad._is_fwd_grad_enabled()
