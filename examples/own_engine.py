"""An autograd engine in fifty lines of plain Python, captured whole.

    python examples/own_engine.py

`Value` writes closures to a list as it computes, and `gradients` walks the list backwards. Compiling does not
know what an engine is: it follows the Python, and the tape is gone from what is left.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from beside import Draws, speed

import weft

TAPE: list[tuple[Value, Callable[[Any], list[tuple[Value, Any]]]]] = []


class Value:
    """A tensor on the tape."""

    def __init__(self, data: Any) -> None:
        self.data = data

    def __add__(self, other: Value) -> Value:
        return written(self.data + other.data, lambda g: [(self, g), (other, unbroadcast(g, other.data))])

    def __sub__(self, other: Value) -> Value:
        return written(self.data - other.data, lambda g: [(self, g), (other, -g)])

    def __matmul__(self, other: Value) -> Value:
        return written(self.data @ other.data, lambda g: [(self, g @ other.data.T), (other, self.data.T @ g)])

    def tanh(self) -> Value:
        result = self.data.tanh()
        return written(result, lambda g: [(self, g * (1 - result * result))])

    def mean_square(self) -> Value:
        count = self.data.numel()
        return written(self.data.square().mean(), lambda g: [(self, g * self.data * (2 / count))])


def written(data: Any, pull: Callable[[Any], list[tuple[Value, Any]]]) -> Value:
    result = Value(data)
    TAPE.append((result, pull))
    return result


def unbroadcast(gradient: Any, like: Any) -> Any:
    return gradient.sum(0) if gradient.dim() > like.dim() else gradient


def gradients(loss: Value, wanted: list[Value]) -> list[Any]:
    """What `loss.backward()` would do."""
    known = {loss: weft.ones_like(loss.data)}
    for result, pull in reversed(TAPE):
        if result in known:
            for operand, gradient in pull(known.pop(result)):
                before = known.get(operand)
                known[operand] = gradient if before is None else before + gradient
    TAPE.clear()
    return [known[each] for each in wanted]


def step(parameters: list[Any], x: Any, y: Any, rate: float) -> tuple[Any, list[Any]]:
    """The loss, and better parameters."""
    w1, b1, w2, b2 = wanted = [Value(each) for each in parameters]
    loss = ((((Value(x) @ w1 + b1).tanh()) @ w2 + b2) - Value(y)).mean_square()
    found = gradients(loss, wanted)
    return loss.data, [each - rate * gradient for each, gradient in zip(parameters, found, strict=True)]


def train(steps: int = 500) -> tuple[float, float, str]:
    """Gives the first and the last loss, and the step's speed."""
    draws = Draws()
    parameters = [0.5 * draws.normal(2, 32), weft.zeros(32), 0.2 * draws.normal(32, 1), weft.zeros(1)]
    compiled = weft.compile(step, fullgraph=True)
    losses = []
    for _ in range(steps):
        x = draws.normal(64, 2)
        loss, parameters = compiled(parameters, x, x.prod(1, keepdim=True), 0.1)
        losses.append(loss)
    told = speed(step, compiled, parameters, x, x.prod(1, keepdim=True), 0.1)
    return float(losses[0]), float(losses[-1]), told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--steps", type=int, default=500)
    first, last, told = train(parser.parse_args().steps)
    print(f"loss from {first:.3f} to {last:.3f}; {told}")


if __name__ == "__main__":
    main()
