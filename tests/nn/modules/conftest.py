"""What tests of layers share: random arrays, and a layer beside a formula in float64.

One idea: outputs are compared with NumPy, gradients with finite differences; neither knows how the layer
works.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


@pytest.fixture
def draw(rng: np.random.Generator) -> Callable[..., np.ndarray]:
    """Normal float64 arrays by shape."""
    return lambda *shape: rng.standard_normal(shape)


def _flat(value: Any) -> list[Any]:
    if isinstance(value, (tuple, list)):
        return [item for part in value for item in _flat(part)]
    return [value]


@pytest.fixture
def agrees(rng: np.random.Generator) -> Callable[..., None]:
    """`agrees(layer, formula, *arrays)`: the layer in float64 gives what the formula gives, and its
    gradients (with respect to floats and to every parameter) are the slopes of what it gives."""

    def check(
        layer: Any, formula: Any, *arrays: Any, slopes: bool = True, fast: bool = False, **call: Any
    ) -> None:
        layer.double()
        with weft.no_grad():  # ones and zeros would hide mistakes
            for parameter in layer.parameters():
                parameter.add_(weft.from_numpy(rng.uniform(-0.3, 0.3, tuple(parameter.shape))))
        tensors = [weft.from_numpy(array) if isinstance(array, np.ndarray) else array for array in arrays]
        found = _flat(layer(*tensors, **call))
        expected = _flat(formula(*arrays) if callable(formula) else formula)
        assert len(found) == len(expected)
        for ours, wanted in zip(found, expected, strict=True):
            assert tuple(ours.shape) == np.shape(wanted)
            np.testing.assert_allclose(ours.detach().numpy(), wanted, rtol=1e-10, atol=1e-12)
        if not slopes:
            return
        floats = [t for t in _flat(tensors) if isinstance(t, weft.Tensor) and t.is_floating_point()]
        inputs = tuple(t.requires_grad_() for t in floats) + tuple(layer.parameters())

        def function(*_: Any) -> tuple[Any, ...]:
            return tuple(out for out in _flat(layer(*tensors, **call)) if out.is_floating_point())

        assert weft.autograd.gradcheck(function, inputs, fast_mode=fast)

    return check


@pytest.fixture
def values() -> Callable[[Any], dict[str, np.ndarray]]:
    """A layer's parameters and buffers as arrays, read when asked (after `agrees` shook them)."""
    return lambda layer: {name: value.detach().numpy() for name, value in layer.state_dict().items()}
