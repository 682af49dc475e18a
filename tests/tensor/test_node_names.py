"""Names of nodes: those that PyTorch prints for the overload that was called."""

from __future__ import annotations

from typing import Any

import pytest

import weft
from weft.nn import functional as F

NAMES = {
    "x.sum()": "SumBackward0", "x.sum(0)": "SumBackward1", "x.mean(1)": "MeanBackward1",
    "x.prod(0)": "ProdBackward1", "x.clamp(0, 1)": "ClampBackward1", "x.clamp(min=z)": "ClampBackward0",
    "x.pow(2)": "PowBackward0", "x.pow(x)": "PowBackward1", "2 ** x": "PowBackward2",
    "x % 2": "RemainderBackward0", "x % x": "RemainderBackward1", "x.squeeze()": "SqueezeBackward0",
    "x.squeeze(0)": "SqueezeBackward1", "x.squeeze((0, 1))": "SqueezeBackward2",
    "x @ x.T": "MmBackward0", "x @ x[0]": "MvBackward0", "x[0] @ x[0]": "DotBackward0",
    "x[None] @ x.T": "UnsafeViewBackward0", "F.linear(x, x)": "MmBackward0",
    "F.linear(x, x, b)": "AddmmBackward0", "F.linear(x[None], x, b)": "ViewBackward0",
    "x.lerp(x, x)": "LerpBackward1", "x.div(x, rounding_mode='floor')": "DivBackward2",
    "x.log1p()": "Log1PBackward0", "F.huber_loss(x, z)": "HuberLossBackward0",
    "F.binary_cross_entropy(x, z)": "BinaryCrossEntropyBackward0",
    "F.binary_cross_entropy_with_logits(x, z)": "BinaryCrossEntropyWithLogitsBackward0",
    "F.smooth_l1_loss(x, z)": "SmoothL1LossBackward0", "x.exp()": "ExpBackward0",
}  # fmt: skip


@pytest.mark.parametrize("text", NAMES)
def test_name(text: str) -> None:
    x = weft.full((2, 3), 0.5, requires_grad=True)
    space: dict[str, Any] = {"x": x, "z": weft.zeros(2, 3), "b": weft.zeros(2), "F": F}
    result = eval(text, space)
    assert result.grad_fn.name() == NAMES[text]
    assert repr(result.grad_fn).startswith(f"<{NAMES[text]} object at 0x")
    assert f"grad_fn=<{NAMES[text]}>" in repr(result)
