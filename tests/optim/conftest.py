"""What tests of optimizers share: a small problem, run for some steps in Weft, in NumPy float64 and in
torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft

STEPS = 20
SHAPES = ((4, 3), (5,), ())


class Problem:
    """Parameters x_i with loss sum_i (a_i * x_i**2 / 2 + b_i * x_i), so that gradients are a_i * x_i +
    b_i."""

    def __init__(self) -> None:
        random = np.random.default_rng(7)
        self.start = [random.standard_normal(shape) for shape in SHAPES]
        self.slope = [random.uniform(0.5, 2, shape) for shape in SHAPES]
        self.shift = [random.standard_normal(shape) for shape in SHAPES]

    def formula(self, rule: Callable[..., Any], **options: Any) -> list[Any]:
        """`rule(step, x, g, state, **options) -> x` in float64: an independent statement of the update."""
        values = [x.copy() for x in self.start]
        states: list[dict[str, Any]] = [{} for _ in values]
        for step in range(1, STEPS + 1):
            for i, (a, b) in enumerate(zip(self.slope, self.shift)):
                values[i] = rule(step, values[i], a * values[i] + b, states[i], **options)
        return values

    def run(self, library: Any, make: Callable[..., Any], dtype: str = "float64", **options: Any) -> Any:
        """The parameters after the steps, as arrays, and the optimizer."""
        kind = getattr(library, dtype)
        tensor = lambda x: library.tensor(x, dtype=kind)
        params = [tensor(x).requires_grad_() for x in self.start]
        slope, shift = [tensor(x) for x in self.slope], [tensor(x) for x in self.shift]
        optimizer = make(params, **options)
        for _ in range(STEPS):
            optimizer.zero_grad()
            loss = sum((a * x * x / 2 + b * x).sum() for x, a, b in zip(params, slope, shift))
            loss.backward()
            optimizer.step()
        return [x.detach().numpy() for x in params], optimizer

    def check_formula(
        self, make: Callable[..., Any], rule: Callable[..., Any], options: dict[str, Any]
    ) -> None:
        found, _ = self.run(weft, make, **options)
        for x, y in zip(found, self.formula(rule, **options)):
            np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-12)

    def check_torch(self, name: str, options: dict[str, Any]) -> None:
        """Same trajectory (to 1e-12 in float64, 3e-5 in float32), and same state."""
        torch = pytest.importorskip("torch")
        for kind, tolerance in (("float32", 3e-5), ("float64", 1e-12)):
            ours, optimizer = self.run(weft, getattr(weft.optim, name), kind, **options)
            theirs, other = self.run(torch, getattr(torch.optim, name), kind, **options)
            for x, y in zip(ours, theirs):
                np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance)
        mine, expected = optimizer.state_dict(), other.state_dict()
        assert mine["param_groups"] == expected["param_groups"]
        assert list(mine["state"]) == list(expected["state"])
        for number, state in expected["state"].items():
            assert list(mine["state"][number]) == list(state)
            for key, value in state.items():
                tensor = mine["state"][number][key]
                assert str(tensor.dtype).split(".")[1] == str(value.dtype).split(".")[1]
                np.testing.assert_allclose(tensor.numpy(), value.numpy(), rtol=1e-12, atol=1e-12)


@pytest.fixture
def problem() -> Problem:
    return Problem()
