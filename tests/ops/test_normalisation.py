"""Norms against their formulas, running statistics, mixed dtypes, and PyTorch's error texts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from weft.nn import functional as F

random = np.random.default_rng(0)


def make(*shape: int) -> weft.Tensor:
    return weft.from_numpy(random.standard_normal(shape))


def normal(x: Any, axes: Any, eps: float = 1e-5) -> Any:
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)


def test_layer_norm() -> None:
    x, w, b = make(2, 3, 4), make(3, 4), make(3, 4)
    expected = normal(x.numpy(), (1, 2)) * w.numpy() + b.numpy()
    np.testing.assert_allclose(F.layer_norm(x, (3, 4), w, b).numpy(), expected, rtol=1e-12, atol=1e-12)
    assert type(F.layer_norm(x.requires_grad_(), (4,)).grad_fn).__name__ == "NativeLayerNormBackward0"


def test_group_and_instance_norm() -> None:
    x, w, b = make(2, 6, 4), make(6), make(6)
    groups = normal(x.numpy().reshape(2, 3, 8), (2,)).reshape(2, 6, 4)
    affine = groups * w.numpy()[:, None] + b.numpy()[:, None]
    np.testing.assert_allclose(F.group_norm(x, 3, w, b).numpy(), affine, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(
        F.instance_norm(x, weight=w).numpy(),
        normal(x.numpy(), (2,)) * w.numpy()[:, None],
        rtol=1e-10,
        atol=1e-12,
    )


def test_rms_norm() -> None:
    x, w = make(3, 4), make(4)
    expected = x.numpy() / np.sqrt((x.numpy() ** 2).mean(-1, keepdims=True) + 1e-3) * w.numpy()
    np.testing.assert_allclose(F.rms_norm(x, (4,), w, 1e-3).numpy(), expected, rtol=1e-12)
    half = weft.full((2, 300), 200.0, dtype=weft.float16)
    assert F.rms_norm(half, (300,)).tolist()[0][0] == 1.0, "squares of halves would overflow"


def test_batch_norm_updates_running_statistics() -> None:
    x = make(4, 3, 5)
    mean, variance = weft.zeros(3, dtype=weft.float64), weft.ones(3, dtype=weft.float64)
    out = F.batch_norm(x, mean, variance, training=True, momentum=0.25)
    values = x.numpy()
    np.testing.assert_allclose(out.numpy(), normal(values, (0, 2)), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(mean.numpy(), 0.25 * values.mean((0, 2)), rtol=1e-12)
    np.testing.assert_allclose(variance.numpy(), 0.75 + 0.25 * values.var((0, 2), ddof=1), rtol=1e-12)
    assert not mean.requires_grad
    assert mean._version > 0


def test_batch_norm_by_running_statistics() -> None:
    x, mean, variance = make(4, 3), make(3), make(3).abs()
    w, b = make(3).requires_grad_(), make(3)
    out = F.batch_norm(x, mean, variance, w, b)
    expected = (x - mean) / (variance + 1e-5).sqrt() * w + b
    np.testing.assert_allclose(out.numpy(force=True), expected.numpy(force=True), rtol=1e-10)
    assert type(out.grad_fn).__name__ == "NativeBatchNormBackward0"
    assert mean._version == 0


def test_running_statistics_take_no_part_in_the_graph() -> None:
    x = make(4, 3).requires_grad_()
    mean, variance = weft.zeros(3, dtype=weft.float64), weft.ones(3, dtype=weft.float64)
    F.batch_norm(x, mean, variance, training=True).sum().backward()
    assert mean.grad_fn is None
    assert variance.is_leaf


def test_output_may_be_changed_in_place_before_backward() -> None:
    """relu_ after a norm is what many models do: the norm must not need its own output."""
    x = make(4, 3).requires_grad_()
    F.batch_norm(x, None, None, training=True).relu_().sum().backward()
    first = x.grad.clone()
    x.grad = None
    F.batch_norm(x, None, None, training=True).relu().sum().backward()
    np.testing.assert_array_equal(first.numpy(), x.grad.numpy())


def test_half_inputs_with_single_precision_parameters() -> None:
    x, w = make(4, 3).half(), weft.ones(3)
    assert F.layer_norm(x, (3,), w).dtype is weft.float16
    assert F.batch_norm(x, weft.zeros(3), weft.ones(3), w, training=True).dtype is weft.float16
    with pytest.raises(RuntimeError, match="mixed dtype"):
        F.layer_norm(make(4, 3), (3,), w)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (
            lambda: F.batch_norm(weft.zeros(1, 3), None, None, training=True),
            ValueError,
            "Expected more than 1 value per channel when training, got input size",
        ),
        (
            lambda: F.batch_norm(weft.zeros(2, 3), None, None),
            RuntimeError,
            "running_mean must be defined in evaluation mode",
        ),
        (
            lambda: F.batch_norm(weft.zeros(2, 3), weft.zeros(2), weft.zeros(3)),
            RuntimeError,
            "running_mean should contain 3 elements not 2",
        ),
        (
            lambda: F.layer_norm(weft.zeros(2, 3), (2,)),
            RuntimeError,
            r"normalized_shape=\[2\], expected input with shape \[\*, 2\], but got input of size\[2, 3\]",
        ),
        (lambda: F.layer_norm(weft.zeros(2, 3), 3), TypeError, "must be tuple of ints, not int"),
        (
            lambda: F.group_norm(weft.zeros(2, 7, 4), 2),
            RuntimeError,
            r"divisible by num_groups, but got input of shape \[2, 7, 4\] and num_groups=2",
        ),
        (
            lambda: F.instance_norm(weft.zeros(2, 4, 1)),
            ValueError,
            "Expected more than 1 spatial element when training",
        ),
        (
            lambda: F.layer_norm(weft.zeros(2, 3, dtype=weft.int64), (3,)),
            NotImplementedError,
            "\"LayerNormKernelImpl\" not implemented for 'Long'",
        ),
        (
            lambda: F.batch_norm(weft.zeros(2, 3), None, None, training=True, momentum=None),
            TypeError,
            "argument 'momentum' .* must be float, not NoneType",
        ),
    ],
)
def test_refusals(call: Any, error: Any, text: str) -> None:
    with pytest.raises(error, match=text):
        call()


def test_normalize_and_its_floor() -> None:
    x = weft.tensor([[3.0, 4.0], [0.0, 0.0]])
    assert F.normalize(x).tolist() == [[pytest.approx(0.6), pytest.approx(0.8)], [0.0, 0.0]]
    out = weft.empty(2, 2)
    assert F.normalize(x, p=1, out=out) is out
    assert out[0].tolist() == [pytest.approx(3 / 7), pytest.approx(4 / 7)]


def test_cosine_similarity() -> None:
    a, b = make(3, 4), make(4)
    x, y = a.numpy(), b.numpy()
    expected = (x * y).sum(-1) / np.linalg.norm(x, axis=-1) / np.linalg.norm(y)
    np.testing.assert_allclose(F.cosine_similarity(a, b).numpy(), expected, rtol=1e-12)
    assert F.cosine_similarity(weft.zeros(2), weft.ones(2), dim=0).item() == 0.0
    with pytest.raises(
        RuntimeError, match="expected common dtype to be floating point, yet common dtype is Long"
    ):
        F.cosine_similarity(weft.ones(2, 2, dtype=weft.int64), weft.ones(2, 2, dtype=weft.int64))


def test_pairwise_distance() -> None:
    a, b = make(3, 4), make(3, 4)
    expected = np.linalg.norm(a.numpy() - b.numpy() + 1e-6, axis=-1)
    np.testing.assert_allclose(F.pairwise_distance(a, b).numpy(), expected, rtol=1e-12)
    assert weft.pairwise_distance(a, b, 1.0, keepdim=True).shape == (3, 1)


def test_batch_norm_wants_channels() -> None:
    with pytest.raises(IndexError, match="Dimension out of range"):
        weft.nn.functional.batch_norm(weft.ones(3), None, None, training=True)
    with pytest.raises(ValueError, match="Expected more than 1 value per channel"):
        weft.nn.functional.batch_norm(weft.ones(1), None, None, training=True)
