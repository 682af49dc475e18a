from __future__ import annotations

import numpy as np
import pytest

import weft
from weft import nn


def log_softmax(x):
    x = x - x.max(1, keepdims=True)
    return x - np.log(np.exp(x).sum(1, keepdims=True))


def all_logs(x, values, cuts):
    """Log-probabilities of all classes, cluster by cluster."""
    head = log_softmax(x @ values["head.weight"].T + values.get("head.bias", 0))
    parts = [head[:, : cuts[0]]]
    for number in range(len(cuts) - 1):
        inner = x @ values[f"tail.{number}.0.weight"].T @ values[f"tail.{number}.1.weight"].T
        parts.append(log_softmax(inner) + head[:, cuts[0] + number, None])
    return np.concatenate(parts, 1)


@pytest.mark.parametrize("bias", [False, True])
def test_picks_from_the_whole_distribution(agrees, draw, values, bias):
    layer = nn.AdaptiveLogSoftmaxWithLoss(8, 10, [3, 6], div_value=2.0, head_bias=bias)
    target = np.array([0, 9, 3, 5, 2, 6])

    def formula(x, t):
        picked = all_logs(x, values(layer), [3, 6, 10])[np.arange(6), t]
        return picked, -picked.mean()

    x = draw(6, 8)
    agrees(layer, formula, x, target, fast=True)
    logs = layer.log_prob(weft.from_numpy(x)).detach().numpy()
    np.testing.assert_allclose(logs, all_logs(x, values(layer), [3, 6, 10]), rtol=1e-10)
    np.testing.assert_allclose(np.exp(logs).sum(1), 1)
    assert layer.predict(weft.from_numpy(x)).tolist() == logs.argmax(1).tolist()
    one = layer(weft.from_numpy(x[1]), weft.tensor(9))
    assert one.output.shape == () and weft.allclose(one.output, layer.log_prob(weft.from_numpy(x))[1, 9])


def test_refuses():
    layer = nn.AdaptiveLogSoftmaxWithLoss(4, 10, [3, 6], div_value=1.0)
    x = weft.ones(2, 4)
    for target, text in (
        (
            weft.tensor([1, 10]),
            r"Target values should be in \[0, 9\], but values in range \[1, 10\] were found",
        ),
        (weft.tensor([-1, 1]), r"but values in range \[-1, 1\] were found"),
        (weft.tensor([1]), "Input and target should have the same size in the batch dimension"),
        (weft.tensor(1), "0D target tensor expects 1D input tensor"),
        (weft.tensor([[1], [2]]), "0D or 1D target tensor expected, multi-target not supported"),
    ):
        with pytest.raises(RuntimeError, match=text):
            layer(x, target)
    captured = weft.compile(layer, backend="eager", fullgraph=True)
    captured(x, weft.tensor([1, 2]))
    with pytest.raises(RuntimeError, match=r"Target values should be in \[0, 9\]"):
        captured(x, weft.tensor([1, 10]))
    with pytest.raises(ValueError, match="cutoffs should be a sequence of length larger than 0"):
        nn.AdaptiveLogSoftmaxWithLoss(4, 10, [])
    for cuts in ([0, 5], [5, 3], [3, 10], [2.5]):
        with pytest.raises(ValueError, match="cutoffs should be a sequence of unique, positive integers"):
            nn.AdaptiveLogSoftmaxWithLoss(4, 10, cuts)
