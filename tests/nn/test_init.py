"""Initial values: their distributions against formulas, and what is refused."""

import math

import numpy as np
import pytest
from scipy import stats

import weft
from weft import nn
from weft.nn import init


def drawn(tensor):
    return np.sort(tensor.detach().numpy().ravel().astype(np.float64))


def follows(tensor, distribution):
    """Whether draws agree with a distribution (Kolmogorov and Smirnov)."""
    return stats.kstest(drawn(tensor), distribution.cdf).pvalue > 1e-3


def test_parameters_stay_what_they_are():
    p = nn.Parameter(weft.zeros(3, 3))
    for fill in (init.uniform_, init.normal_, init.ones_, init.xavier_uniform_, init.orthogonal_, init.eye_):
        assert fill(p) is p
        assert p.requires_grad and p.grad_fn is None


def test_constants():
    assert init.ones_(weft.empty(2)).tolist() == [1, 1]
    assert init.zeros_(weft.empty(2)).tolist() == [0, 0]
    assert init.constant_(weft.empty(2), 3).tolist() == [3, 3]


def test_uniform_and_normal():
    t = weft.empty(4000)
    assert follows(init.uniform_(t, -1, 3), stats.uniform(-1, 4))
    assert follows(init.normal_(t, 2, 0.5), stats.norm(2, 0.5))


@pytest.mark.parametrize(("shape", "fan_in", "fan_out"), [((300, 200), 200, 300), ((30, 20, 3, 5), 300, 450)])
def test_scaled_draws(shape, fan_in, fan_out):
    t = weft.empty(*shape)
    std = 3 * math.sqrt(2 / (fan_in + fan_out))
    assert follows(init.xavier_normal_(t, gain=3), stats.norm(0, std))
    bound = math.sqrt(3) * std
    assert follows(init.xavier_uniform_(t, gain=3), stats.uniform(-bound, 2 * bound))
    for mode, fan in (("fan_in", fan_in), ("fan_out", fan_out)):
        std = math.sqrt(2 / (1 + 0.5**2)) / math.sqrt(fan)
        assert follows(init.kaiming_normal_(t, 0.5, mode), stats.norm(0, std))
        bound = math.sqrt(3 / fan) * math.sqrt(2)
        assert follows(
            init.kaiming_uniform_(t, mode=mode, nonlinearity="relu"), stats.uniform(-bound, 2 * bound)
        )


@pytest.mark.parametrize(("a", "b"), [(-2, 2), (-0.5, 3), (1, 1.5), (-1.9, -1.5)])
def test_truncated_normals(a, b):
    t = init.trunc_normal_(weft.empty(4000, dtype=weft.float64), 0.1, 1.5, a, b)
    assert follows(t, stats.truncnorm((a - 0.1) / 1.5, (b - 0.1) / 1.5, 0.1, 1.5))
    assert t.min() >= a and t.max() <= b


@pytest.mark.parametrize("mean", [10, -10, 60, -60])
def test_truncated_normals_far_from_the_mean(mean):
    with pytest.warns(UserWarning, match="mean is more than 2 std from"):
        t = init.trunc_normal_(weft.empty(4000, dtype=weft.float64), mean, 1, -1, 1)
    near = math.copysign(1, mean)
    distances = abs(near - t.numpy())
    # At distance d from the near end the density falls as exp(-d * |near - mean|), nearly.
    assert stats.kstest(distances, stats.expon(scale=1 / abs(near - mean)).cdf).statistic < 0.05


def test_generators_are_used():
    def draw(fill, *shape):
        return fill(weft.empty(*shape), generator=weft.Generator().manual_seed(7)).tolist()

    for fill in (init.uniform_, init.normal_, init.trunc_normal_, init.xavier_normal_, init.orthogonal_):
        assert draw(fill, 3, 4) == draw(fill, 3, 4)


def test_eye():
    assert init.eye_(weft.empty(2, 3)).tolist() == [[1, 0, 0], [0, 1, 0]]


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("window", [(3,), (1, 3), (3, 2, 1)])
def test_dirac_kernels_hand_channels_on(groups, window):
    kernel = init.dirac_(weft.empty(4, 3, *window), groups)
    centre = tuple(size // 2 for size in window)
    expected = np.zeros((4, 3, *window))
    for group in range(groups):
        for channel in range(min(4 // groups, 3)):
            expected[(group * (4 // groups) + channel, channel, *centre)] = 1
    np.testing.assert_array_equal(kernel.numpy(), expected)


@pytest.mark.parametrize("shape", [(3, 5), (5, 3), (4, 2, 3), (3, 3)])
def test_orthogonal(shape):
    t = init.orthogonal_(weft.empty(*shape, dtype=weft.float64), gain=2).numpy().reshape(shape[0], -1)
    product = t @ t.T if t.shape[0] <= t.shape[1] else t.T @ t
    np.testing.assert_allclose(product, 4 * np.eye(len(product)), atol=1e-12)


def test_orthogonal_draws_favour_no_sign():
    first = [init.orthogonal_(weft.empty(2, 2))[0, 0].item() > 0 for _ in range(100)]
    assert 30 < sum(first) < 70


def test_sparse():
    t = init.sparse_(weft.empty(10, 40), 0.25, std=2.0)
    assert ((t == 0).sum(0) == 3).all()
    assert follows(t[t != 0], stats.norm(0, 2))
    assert len({tuple(column) for column in (t == 0).t().tolist()}) > 10


@pytest.mark.parametrize(
    ("name", "param", "gain"),
    [
        ("linear", None, 1),
        ("conv_transpose3d", None, 1),
        ("sigmoid", None, 1),
        ("tanh", None, 5 / 3),
        ("relu", None, math.sqrt(2)),
        ("selu", None, 0.75),
        ("leaky_relu", None, math.sqrt(2 / 1.0001)),
        ("leaky_relu", 1, 1.0),
    ],
)
def test_gains(name, param, gain):
    assert init.calculate_gain(name, param) == gain


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: init.calculate_gain("none"), "Unsupported nonlinearity none"),
        (lambda: init.calculate_gain("leaky_relu", "x"), "negative_slope x not a valid number"),
        (lambda: init.calculate_gain("leaky_relu", True), "negative_slope True not a valid number"),
        (lambda: init.eye_(weft.empty(3)), "Only tensors with 2 dimensions are supported"),
        (lambda: init.sparse_(weft.empty(3), 0.1), "Only tensors with 2 dimensions are supported"),
        (lambda: init.dirac_(weft.empty(2, 2)), "Only tensors with 3, 4, or 5 dimensions are supported"),
        (lambda: init.dirac_(weft.empty(3, 2, 2), 2), "dim 0 must be divisible by groups"),
        (lambda: init.orthogonal_(weft.empty(3)), "Only tensors with 2 or more dimensions are supported"),
        (lambda: init.xavier_uniform_(weft.empty(3)), "tensor with fewer than 2 dimensions"),
        (lambda: init.kaiming_normal_(weft.empty(3)), "tensor with fewer than 2 dimensions"),
        (
            lambda: init.kaiming_uniform_(weft.empty(2, 2), mode="x"),
            "Mode x not supported, please use one of",
        ),
    ],
)
def test_refusals(call, text):
    with pytest.raises(ValueError, match=text):
        call()


def test_empty_tensors():
    for fill in (init.kaiming_uniform_, init.kaiming_normal_):
        with pytest.warns(UserWarning, match="Initializing zero-element tensors is a no-op"):
            fill(weft.empty(0, 3))
    assert init.orthogonal_(weft.empty(0, 3)).shape == (0, 3)


@pytest.mark.parametrize(
    ("name", "args"), [("uniform", ()), ("constant", (3,)), ("xavier_normal", ()), ("sparse", (0.5,))]
)
def test_old_names_warn(name, args):
    with pytest.warns(
        FutureWarning, match=f"`nn.init.{name}` is now deprecated in favor of `nn.init.{name}_`."
    ):
        assert getattr(init, name)(weft.empty(2, 2), *args).shape == (2, 2)


def test_tensors_without_elements():
    assert init.kaiming_uniform_(weft.empty(2, 3, device="meta")).is_meta
    assert init.trunc_normal_(weft.empty(2, 3, device="meta")).is_meta
