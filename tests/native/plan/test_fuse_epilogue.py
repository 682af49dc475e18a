"""Activations behind convolutions are computed by the convolution's own function."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
import weft.nn.functional as F
from tests.native.whole import programs, same

BODIES: dict[str, Any] = {
    "relu": F.relu,
    "leaky": lambda y: F.leaky_relu(y, 0.2),
    "clamped": lambda y: y.clamp(-0.5, 0.25),
    "scaled": lambda y: y * 3 + 1,
    "minus zero": lambda y: y * -0.0,
}


def steps_of(made: list[Any]) -> list[str]:
    return [step.name for each in made for step in each.program.listing.steps]


@pytest.mark.parametrize("shape", [(2, 3, 9, 8), (3, 4, 7, 7)])
@pytest.mark.parametrize("name", BODIES)
def test_values_and_steps(name: str, shape: Any) -> None:
    inputs = [weft.randn(*shape), weft.randn(32, shape[1], 3, 3), weft.randn(32)]

    def run(x: Any, w: Any, b: Any) -> Any:
        return BODIES[name](F.conv2d(x, w, b, padding=1))

    same(run, inputs, 1e-4, 1e-4)
    with programs() as made:
        found = weft.compile(run, backend="native", fullgraph=True)(*inputs)
    wanted = run(*inputs)
    assert np.array_equal(np.signbit(found.numpy()), np.signbit(wanted.numpy()))
    assert steps_of(made)[-1].startswith("convolution ") and len(steps_of(made)) == 3


def test_results_that_others_read_stay() -> None:
    inputs = [weft.randn(2, 3, 8, 9), weft.randn(4, 3, 3, 3)]

    def two(x: Any, w: Any) -> Any:
        y = F.conv2d(x, w)
        return y.relu(), y.sum()

    def given(x: Any, w: Any) -> Any:
        y = F.conv2d(x, w)
        return y, y.relu()

    def another(x: Any, w: Any) -> Any:
        return F.conv2d(x, w).relu() + x[:, :1, 1:-1, 1:-1]

    def dear(x: Any, w: Any) -> Any:
        return F.conv2d(x, w).tanh()

    for function in (two, given, another, dear):
        same(function, inputs, 1e-4, 1e-4, native=False)
