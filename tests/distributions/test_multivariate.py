"""Distributions over vectors."""

from __future__ import annotations

import pytest

import weft
from weft.distributions import Independent, MultivariateNormal, Normal

LOC = weft.tensor([0.5, -1.0])
MATRIX = weft.tensor([[2.0, 0.5], [0.5, 1.0]])
AT = weft.tensor([0.1, 0.2])


@pytest.mark.parametrize(
    ("parameters", "log_prob", "entropy", "variance"),
    [
        ({"covariance_matrix": MATRIX}, -3.1234, 3.1177, [2.0, 1.0]),
        ({"scale_tril": MATRIX.tril()}, -3.396, 3.531, [4.0, 1.25]),
        ({"precision_matrix": MATRIX}, -2.1981, 2.5581, [0.5714, 1.1429]),
    ],
)
def test_normal_vectors(
    parameters: dict[str, weft.Tensor], log_prob: float, entropy: float, variance: list[float]
) -> None:
    normal = MultivariateNormal(LOC, **parameters)
    assert normal.log_prob(AT).item() == pytest.approx(log_prob, abs=1e-4)
    assert normal.entropy().item() == pytest.approx(entropy, abs=1e-4)
    assert normal.variance.tolist() == pytest.approx(variance, abs=1e-4)
    assert weft.allclose(normal.covariance_matrix @ normal.precision_matrix, weft.eye(2), atol=1e-5)
    assert normal.event_shape == (2,) and normal.batch_shape == () and weft.equal(normal.mode, LOC)
    weft.manual_seed(2)
    drawn = normal.sample((4000,))
    assert weft.allclose(drawn.T.cov(), normal.covariance_matrix, atol=0.3)
    assert normal.expand((3,)).sample().shape == (3, 2)


def test_normal_vectors_want_one_matrix() -> None:
    with pytest.raises(
        ValueError, match="Exactly one of covariance_matrix or precision_matrix or scale_tril"
    ):
        MultivariateNormal(LOC)
    with pytest.raises(ValueError, match="loc must be at least one-dimensional"):
        MultivariateNormal(weft.tensor(1.0), MATRIX)
    with pytest.raises(ValueError, match="covariance_matrix must be at least two-dimensional"):
        MultivariateNormal(LOC, LOC)


def test_independent_dimensions() -> None:
    scale = weft.tensor([1.5, 0.3])
    joint = Independent(Normal(LOC, scale), 1)
    assert joint.log_prob(AT).item() == pytest.approx(-9.0749, abs=1e-4)
    assert joint.entropy().item() == pytest.approx(2.0394, abs=1e-4)
    assert (joint.batch_shape, joint.event_shape) == ((), (2,)) and joint.has_rsample
    assert joint.sample((4,)).shape == joint.rsample((4,)).shape == (4, 2)
    assert weft.equal(joint.mean, LOC) and weft.equal(joint.mode, LOC)
    assert joint.variance.tolist() == pytest.approx([2.25, 0.09])
    assert joint.expand((3,)).sample().shape == (3, 2)
    assert repr(joint).startswith("Independent(Normal(loc: ") and repr(joint).endswith(", 1)")
    with pytest.raises(ValueError, match="actual 1 vs 0"):
        Independent(Normal(0.0, 1.0), 1)
