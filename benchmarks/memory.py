"""Peak memory of a training step, eager against compiled ahead of time.

`python -m benchmarks.memory` prints, for a perceptron of ten layers, how many bytes are allocated at most in
one step beyond what is there before it, old gradients included. Allocations are counted by tracemalloc, which
sees all of NumPy's: no timing, so the figures are the same on every machine.
"""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from typing import Any

import weft
from weft.nn import functional as F

LAYERS = 10
Step = Callable[[Any, Any], Any]


def perceptron(width: int, norm: bool = True) -> Any:
    """Ten layers, each a product, a normalisation and an activation."""
    weft.manual_seed(0)
    layers: list[Any] = []
    for _ in range(LAYERS):
        layers.append(weft.nn.Linear(width, width))
        if norm:
            layers.append(weft.nn.LayerNorm(width))
        layers.append(weft.nn.GELU())
    return weft.nn.Sequential(*layers)


def forward_compiled(model: Any, optimizer: Any, backend: str | None) -> Step:
    """The loss is compiled, `backward` and the optimizer are not."""

    def loss_of(x: Any, target: Any) -> Any:
        return F.mse_loss(model(x), target)

    compiled = loss_of if backend is None else weft.compile(loss_of, backend=backend)

    def step(x: Any, target: Any) -> Any:
        optimizer.zero_grad()
        loss = compiled(x, target)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def step_compiled(model: Any, optimizer: Any, backend: str | None) -> Step:
    """Everything is compiled."""

    def step(x: Any, target: Any) -> Any:
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), target)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step if backend is None else weft.compile(step, backend=backend)


OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "SGD": lambda parameters: weft.optim.SGD(parameters, lr=1e-2),
    "momentum": lambda parameters: weft.optim.SGD(parameters, lr=1e-2, momentum=0.9),
    "Adam": lambda parameters: weft.optim.Adam(parameters, lr=1e-3),
}
STEPS = {"forward": forward_compiled, "whole step": step_compiled}
SIZES = {"wide": (64, 512), "tall": (2000, 32)}
"""Rows and columns: mostly parameters, mostly activations."""


def peak(kind: str, optimizer: str, size: str, backend: str | None) -> int:
    """The most bytes that one step allocates, after four to get there."""
    rows, width = SIZES[size]
    model = perceptron(width)
    step = STEPS[kind](model, OPTIMIZERS[optimizer](model.parameters()), backend)
    x, target = weft.randn(rows, width), weft.randn(rows, width)
    for _ in range(3):
        step(x, target)
    tracemalloc.start()
    try:
        step(x, target)  # its gradients are there, and counted, when the next one begins
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        step(x, target)
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


def main() -> None:
    print(f"{'compiled':12} {'optimizer':10} {'size':6} {'eager':>12} {'aot_eager':>12}  ratio")
    for kind in STEPS:
        for optimizer in OPTIMIZERS:
            for size in SIZES:
                eager, ours = [peak(kind, optimizer, size, backend) for backend in (None, "aot_eager")]
                print(f"{kind:12} {optimizer:10} {size:6} {eager:12,} {ours:12,}  {ours / eager:.3f}")


if __name__ == "__main__":
    main()
