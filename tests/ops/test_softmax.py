"""Softmax and its kin: values, stability, dtypes, gradients' nodes, and PyTorch's warnings and errors."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft.nn import functional as F

random = np.random.default_rng(0)


@pytest.mark.parametrize("shape", [(3, 4), (4, 2, 5), (4000, 5), (300, 100)])
@pytest.mark.parametrize("dim", [0, -1])
def test_values(shape: tuple[int, ...], dim: int) -> None:
    """Also the shapes that take another way inside: many short rows, large arrays."""
    x = random.standard_normal(shape)
    e = np.exp(x)
    expected = e / e.sum(dim, keepdims=True)
    np.testing.assert_allclose(weft.softmax(weft.from_numpy(x), dim).numpy(), expected, rtol=1e-12)
    np.testing.assert_allclose(
        weft.log_softmax(weft.from_numpy(x), dim).numpy(), np.log(expected), rtol=1e-10
    )
    np.testing.assert_allclose(F.softmin(weft.from_numpy(-x), dim).numpy(), expected, rtol=1e-12)


def test_large_numbers_do_not_overflow() -> None:
    x = weft.tensor([1000.0, 1000.0, -1000.0])
    assert x.softmax(0).tolist() == [0.5, 0.5, 0.0]
    assert x.log_softmax(-1).tolist() == pytest.approx([-np.log(2), -np.log(2), -2000 - np.log(2)])


def test_half_types_are_summed_in_single_precision() -> None:
    x = weft.zeros(3000, dtype=weft.bfloat16)
    assert weft.softmax(x, 0).float().sum().item() == pytest.approx(1.0, abs=3e-3)
    assert weft.softmax(x, 0).dtype is weft.bfloat16


def test_dtype_is_taken_before_the_work() -> None:
    x = weft.arange(3)
    assert weft.softmax(x, 0, dtype=weft.float64).dtype is weft.float64
    y = weft.zeros(2, requires_grad=True)
    weft.log_softmax(y, 0, weft.float64)[0].backward()
    assert y.grad.dtype is weft.float32
    assert y.grad.tolist() == [0.5, -0.5]


def test_scalars_and_empty_tensors() -> None:
    assert weft.softmax(weft.tensor(3.0), 0).item() == 1.0
    assert weft.softmax(weft.zeros(3, 0), 1).shape == (3, 0)
    with pytest.raises(IndexError, match=r"expected to be in range of \[-1, 0\], but got 1"):
        weft.softmax(weft.tensor(3.0), 1)


def test_what_softmax_refuses() -> None:
    with pytest.raises(
        NotImplementedError, match="\"softmax_lastdim_kernel_impl\" not implemented for 'Long'"
    ):
        weft.softmax(weft.arange(3), 0)
    with pytest.raises(NotImplementedError, match="\"log_softmax_kernel_impl\" not implemented for 'Bool'"):
        weft.log_softmax(weft.ones(2, 3, dtype=weft.bool), 0)
    with pytest.raises(RuntimeError, match="Expected out tensor to have dtype float, but got double instead"):
        weft.softmax(weft.zeros(3), 0, out=weft.zeros(3, dtype=weft.float64))


def test_a_missing_dimension_is_guessed_aloud() -> None:
    with pytest.warns(UserWarning, match="Implicit dimension choice for softmax has been deprecated"):
        assert F.softmax(weft.zeros(2, 4))[0, 0].item() == 0.25
    with pytest.warns(UserWarning, match="Implicit dimension choice for log_softmax"):
        assert F.log_softmax(weft.zeros(4, 1, 1))[0].item() == pytest.approx(-np.log(4))


def test_nodes_carry_pytorchs_names() -> None:
    x = weft.zeros(3, requires_grad=True)
    assert type(weft.softmax(x, 0).grad_fn).__name__ == "SoftmaxBackward0"
    assert type(F.log_softmax(x, 0).grad_fn).__name__ == "LogSoftmaxBackward0"


def test_gumbel_softmax_samples_the_distribution() -> None:
    logits = weft.log(weft.tensor([0.1, 0.2, 0.7])).expand(4000, 3)
    draws = F.gumbel_softmax(logits, hard=True)
    assert set(np.unique(draws.numpy()).round(6)) == {0.0, 1.0}
    np.testing.assert_allclose(draws.mean(0).numpy(), [0.1, 0.2, 0.7], atol=0.04)


def test_hard_gumbel_softmax_has_the_gradient_of_the_soft_one() -> None:
    logits = weft.zeros(2, 3, requires_grad=True)
    weft.manual_seed(1)
    (F.gumbel_softmax(logits, hard=True) * weft.arange(3)).sum().backward()
    hard = logits.grad.clone()
    logits.grad = None
    weft.manual_seed(1)
    (F.gumbel_softmax(logits) * weft.arange(3)).sum().backward()
    np.testing.assert_allclose(hard.numpy(), logits.grad.numpy(), rtol=1e-6)


@pytest.mark.parametrize("shape", [(300, 500), (7, 40, 600), (3, 70_000)])
def test_large_log_softmax_equals_its_formula(shape: tuple[int, ...]) -> None:
    """Rows in pieces, whatever the rank, and rows longer than a piece."""
    values = np.random.default_rng(2).normal(size=shape) * 3
    shifted = values - values.max(-1, keepdims=True)
    wanted = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    got = weft.log_softmax(weft.from_numpy(values), -1).numpy()
    np.testing.assert_allclose(got, wanted, rtol=1e-12, atol=1e-12)
