"""CTC loss against the sum over all alignments, written out."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import weft
import weft.nn.functional as F
from weft.autograd import gradcheck


def likelihood(probabilities: Any, labels: list[int], blank: int) -> float:
    """The total of all paths that collapse to the labels."""
    total = 0.0
    for path in itertools.product(range(probabilities.shape[1]), repeat=len(probabilities)):
        collapsed = [c for i, c in enumerate(path) if c != blank and (i == 0 or path[i - 1] != c)]
        if collapsed == labels:
            total += float(np.prod([p[c] for p, c in zip(probabilities, path, strict=True)]))
    return total


LABELS = [[1, 1], [2, 1], [2, 0]]
LENGTHS = [2, 2, 1]
STEPS = [5, 4, 3]


@pytest.mark.parametrize("form", ["lists", "tensors", "one after another"])
def test_losses_are_those_of_all_alignments(form: str) -> None:
    logs = weft.randn(5, 3, 3, dtype=weft.float64, generator=weft.Generator().manual_seed(0)).log_softmax(-1)
    labels: Any = weft.tensor(LABELS)
    steps: Any = STEPS
    lengths: Any = LENGTHS
    if form != "lists":
        steps, lengths = weft.tensor(STEPS), weft.tensor(LENGTHS)
    if form == "one after another":
        labels = weft.tensor([n for row, count in zip(LABELS, LENGTHS, strict=True) for n in row[:count]])
    loss = F.ctc_loss(logs, labels, steps, lengths, reduction="none").numpy()
    chances = np.exp(logs.numpy())
    for example in range(3):
        wanted = -np.log(
            likelihood(chances[: STEPS[example], example], LABELS[example][: LENGTHS[example]], 0)
        )
        np.testing.assert_allclose(loss[example], wanted, rtol=1e-10)
    mean = F.ctc_loss(logs, labels, steps, lengths).item()
    np.testing.assert_allclose(mean, np.mean(loss / LENGTHS), rtol=1e-10)


def test_gradients_behind_a_softmax() -> None:
    logits = weft.randn(5, 2, 3, dtype=weft.float64, requires_grad=True)
    labels = weft.tensor([[1, 1], [2, 1]])
    assert gradcheck(lambda x: F.ctc_loss(x.log_softmax(-1), labels, (5, 4), (2, 1)), (logits,))


def test_impossible_labels_are_infinite_or_nothing() -> None:
    logs = weft.zeros(2, 1, 3).log_softmax(-1).requires_grad_()
    labels = weft.tensor([[1, 1]])  # needs three steps
    assert F.ctc_loss(logs, labels, (2,), (2,)).item() == float("inf")
    loss = F.ctc_loss(logs, labels, (2,), (2,), zero_infinity=True)
    loss.backward()
    assert loss.item() == 0 and not logs.grad.any()


def test_errors() -> None:
    logs, labels = weft.zeros(2, 1, 3), weft.tensor([[1, 2]])
    with pytest.raises(RuntimeError, match="blank must be in label range"):
        F.ctc_loss(logs, labels, (2,), (2,), blank=3)
    with pytest.raises(RuntimeError, match="input_lengths must be of size batch_size"):
        F.ctc_loss(logs, labels, (2, 2), (2,))
    with pytest.raises(RuntimeError, match="Expected input_lengths to have value at most 2, but got value 3"):
        F.ctc_loss(logs, labels, (3,), (2,))
    first = F.ctc_loss(logs.requires_grad_(), labels, (2,), (1,))
    (slope,) = weft.autograd.grad(first, logs, create_graph=True)
    with pytest.raises(RuntimeError, match="_ctc_loss_backward is not implemented"):
        slope.sum().backward()
