"""Draws of tensors of parameters: streams, dtypes, gradients, refusals, and compiled as eager."""

from __future__ import annotations

from typing import Any

import pytest

import weft
from weft.ops.record import ops

DRAWS: dict[str, Any] = {
    "gamma": lambda **k: weft._standard_gamma(weft.linspace(0.1, 30, 100), **k),
    "dirichlet": lambda **k: weft._sample_dirichlet(weft.linspace(0.1, 30, 100).reshape(25, 4), **k),
    "poisson": lambda **k: weft.poisson(weft.linspace(0.1, 30, 100), **k),
    "binomial": lambda **k: weft.binomial(weft.arange(100.0), weft.tensor(0.3), **k),
}


@pytest.mark.parametrize("name", DRAWS)
def test_streams(name: str) -> None:
    """Equal seeds give equal draws, a stream moves on, and a generator of one's own leaves the default."""
    draw = DRAWS[name]
    weft.manual_seed(3)
    first, second = draw(), draw()
    weft.manual_seed(3)
    assert weft.equal(draw(), first) and not weft.equal(first, second)
    state = weft.get_rng_state()
    own = weft.Generator().manual_seed(3)
    assert weft.equal(draw(generator=own), first) and weft.equal(draw(generator=own), second)
    assert weft.equal(weft.get_rng_state(), state)


@pytest.mark.parametrize("kind", [weft.float64, weft.float32, weft.float16, weft.bfloat16])
def test_dtypes(kind: Any) -> None:
    parameters = weft.full((50,), 2.0, dtype=kind)
    drawn = [
        weft._standard_gamma(parameters), weft._sample_dirichlet(parameters), weft.poisson(parameters),
        weft.binomial(parameters, parameters / 4),
    ]  # fmt: skip
    assert all(each.dtype is kind and bool((each >= 0).all()) for each in drawn)
    assert weft._standard_gamma(weft.full((1000,), 1e-3, dtype=kind)).min() > 0


def test_gradients() -> None:
    """A gamma number moves by the slope of its distribution, a Dirichlet number likewise; counts stay."""
    shape = weft.tensor([0.5, 3.0], dtype=weft.float64, requires_grad=True)
    drawn = weft._standard_gamma(shape)
    drawn.sum().backward()
    assert weft.equal(shape.grad, weft._standard_gamma_grad(shape.detach(), drawn.detach()))
    weights = weft.tensor([[0.3, 0.2, 0.7]], dtype=weft.float64)
    shape = weft.tensor([[0.5, 3.0, 2.0]], dtype=weft.float64, requires_grad=True)
    drawn = weft._sample_dirichlet(shape)
    (drawn * weights).sum().backward()
    fixed = drawn.detach()
    slope = weft._dirichlet_grad(fixed, shape.detach(), shape.detach().sum(-1, True).expand_as(shape))
    assert weft.allclose(shape.grad, slope * (weights - (fixed * weights).sum(-1, True)))
    rate = weft.tensor([3.0, 40.0], requires_grad=True)
    weft.poisson(rate).sum().backward()
    assert weft.equal(rate.grad, weft.zeros(2))
    count, chance = weft.tensor([3.0], requires_grad=True), weft.tensor([0.5, 0.2], requires_grad=True)
    weft.binomial(count, chance).sum().backward()
    assert weft.equal(count.grad, weft.zeros(1)) and weft.equal(chance.grad, weft.zeros(2))


def test_refusals() -> None:
    with pytest.raises(RuntimeError, match="expected rate to be non-negative"):
        weft.poisson(weft.tensor([-1.0]))
    with pytest.raises(RuntimeError, match="not implemented for 'Long'"):
        weft.poisson(weft.tensor([1]))


@pytest.mark.parametrize("backend", ["aot_eager", "native"])
def test_compiled(backend: str) -> None:
    """Compiled draws are the eager ones, in one graph, with their gradients; a replay moves the stream on."""

    def draw(shape: Any, rate: Any) -> Any:
        return weft._standard_gamma(shape) + weft._sample_dirichlet(shape) + weft.poisson(rate)

    shape = weft.tensor([[0.5, 3.0, 20.0]], requires_grad=True)
    rate = weft.tensor([1.0, 30.0, 400.0])
    results: list[list[Any]] = []
    for function in (draw, weft.compile(draw, backend=backend, fullgraph=True)):
        weft.manual_seed(5)
        shape.grad = None
        found = [function(shape, rate) for _ in range(3)]
        found[2].sum().backward()
        results.append([*found, shape.grad])
    for eager, compiled in zip(*results, strict=True):
        assert weft.allclose(eager, compiled, rtol=1e-5)
    assert not weft.equal(results[1][0], results[1][1])


@pytest.mark.torch
def test_slopes_as_pytorch() -> None:
    torch = pytest.importorskip("torch")
    shape, value = weft.linspace(0.2, 30, 40), weft.linspace(0.1, 35, 40)
    mine = ops._standard_gamma_grad(shape, value)
    other = torch._standard_gamma_grad(torch.from_numpy(shape.numpy()), torch.from_numpy(value.numpy()))
    assert weft.allclose(mine, weft.from_numpy(other.numpy()), rtol=2e-3)
