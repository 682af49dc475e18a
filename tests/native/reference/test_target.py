"""Machine code against the reference: programs are data, so NumPy can do what they say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import weft
import weft.nn.functional as F
from weft.native.reference.target import Interpretation
from weft.testing import assert_close


def attention(q: weft.Tensor, k: weft.Tensor) -> weft.Tensor:
    return weft.softmax(q @ k.transpose(-1, -2) / 3, -1) @ k


def normalised(x: weft.Tensor, w: weft.Tensor) -> weft.Tensor:
    return F.layer_norm(x, (x.shape[-1],), w[0], w[1]) * weft.sigmoid(x)


def reduced(x: weft.Tensor, w: weft.Tensor) -> tuple[weft.Tensor, ...]:
    y = x.t().contiguous() + w.sum()
    return y.sum(0), y.max(), y.prod(1), (y > 0).any(0), (y > -9).all(), y.var(0), weft.logsumexp(y, 1)


def viewed(x: weft.Tensor, w: weft.Tensor) -> tuple[weft.Tensor, ...]:
    y = x[1:, ::2].t().flip(0) * 2
    return y.reshape(-1)[1:] + 1, weft.cat([x, w]).cumsum(0), x.roll(1, 0).clone() + weft.arange(6)


def chosen(x: weft.Tensor, w: weft.Tensor) -> tuple[weft.Tensor, ...]:
    values, places = x.sort(dim=1)
    return values * 2, x.gather(1, places), weft.where(x > 0, x, w[:1]), x.to(weft.int32) // 2


def folded(x: weft.Tensor, w: weft.Tensor) -> weft.Tensor:
    images = x.reshape(1, 1, 4, 6)
    return F.conv2d(images, w[:, :4].reshape(2, 1, 2, 2)).relu().mean()


CASES: list[tuple[Callable[..., Any], tuple[int, ...], tuple[int, ...]]] = [
    (attention, (2, 4, 6), (2, 5, 6)),
    (normalised, (4, 6), (2, 6)),
    (reduced, (4, 6), (2, 6)),
    (viewed, (4, 6), (2, 6)),
    (chosen, (4, 6), (2, 6)),
    (folded, (4, 6), (2, 6)),
    (lambda x, w: (x @ w.t()).relu().sum(0), (130, 200), (170, 200)),
    (lambda x, w: (x * w).sum(0) + (x - 1).mean(), (3000, 50), (50,)),
    (lambda x, w: (weft.tanh(x * w) + weft.erf(x) * weft.exp(-w * w)).sum(), (70, 300), (300,)),
]


@pytest.mark.parametrize(("function", "first", "second"), CASES)
def test_native_is_as_the_reference_says(
    function: Callable[..., Any], first: tuple[int, ...], second: tuple[int, ...]
) -> None:
    results = []
    for backend in ("eager", "reference", "native"):
        weft.manual_seed(0)
        x, w = weft.randn(*first, requires_grad=True), weft.randn(*second, requires_grad=True)
        made = weft.compile(function, backend=backend, fullgraph=True)(x, w)
        made = made if isinstance(made, tuple) else (made,)
        real = [each for each in made if each.requires_grad]
        if real:
            sum(each.sum() for each in real).backward()  # type: ignore[union-attr]
        results.append(([each.detach() for each in made], x.grad, w.grad))
    assert_close(results[1], results[0], rtol=1e-4, atol=1e-3)  # sums of thousands, in other orders
    assert_close(results[2], results[1], rtol=1e-4, atol=1e-3)


def test_inputs_are_written_in_place() -> None:
    def f(x: weft.Tensor, step: float) -> weft.Tensor:
        x.sub_(x * step)
        return x.sum()

    values = []
    for backend in ("reference", "native"):
        x = weft.arange(12.0).reshape(3, 4)
        total = weft.compile(f, backend=backend, fullgraph=True)(x, 0.5)
        values.append((x, total))
    assert_close(values[0][0], weft.arange(12.0).reshape(3, 4) / 2)
    assert_close(values[0], values[1])


def test_it_needs_no_machine_code(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_args: object) -> None:
        raise AssertionError("machine code")

    monkeypatch.setattr("weft.native.cpu.engine.compiled", refused)
    monkeypatch.setattr("weft.native.cpu.engine.object_of", refused)
    programs: list[Any] = []
    monkeypatch.setattr("weft.native.backend.listeners", [lambda program, _arrays: programs.append(program)])
    x = weft.randn(3, 5)
    made = weft.compile(lambda x: weft.softmax(x @ x.t(), -1), backend="reference", fullgraph=True)(x)
    assert_close(made, weft.softmax(x @ x.t(), -1))
    assert [type(program) for program in programs] == [Interpretation]


def test_views_of_bits_are_left_to_their_ops() -> None:
    x = weft.randn(3, 2)
    for backend in ("reference", "native"):
        made = weft.compile(lambda x: weft.view_as_complex(x * 2) * 1j, backend=backend, fullgraph=True)(x)
        assert_close(made, weft.view_as_complex(x * 2) * 1j)


def test_halves_of_pools() -> None:
    x = weft.randn(1, 2, 4, 4).bfloat16()
    for backend in ("reference", "native"):
        made = weft.compile(lambda x: F.max_pool2d(x, 2), backend=backend, fullgraph=True)(x)
        assert_close(made, F.max_pool2d(x, 2))


def test_it_is_a_backend_for_debugging() -> None:
    assert "reference" not in weft.compiler.list_backends()
    assert "reference" in weft.compiler.list_backends(exclude_tags=())


def test_programs_are_those_of_their_sizes() -> None:
    def f(x: weft.Tensor) -> weft.Tensor:
        return x.sin().cos().sum(0)

    compiled = weft.compile(f, backend="reference", fullgraph=True, dynamic=True)
    for rows in (4, 4, 9, 2, 5, 6, 7, 8):
        x = weft.linspace(0, 1, 4 * rows).reshape(rows, 4).requires_grad_()
        (made,) = weft.autograd.grad(compiled(x).sum(), x)
        assert_close(made, weft.autograd.grad(f(x).sum(), x)[0])
