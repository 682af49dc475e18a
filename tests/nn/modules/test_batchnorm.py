from __future__ import annotations

import numpy as np
import pytest

import weft
from weft import nn


def wide(values, x):
    return values.reshape(-1, *(1,) * (x.ndim - 2))


def standard(x, eps=1e-5):
    axes = (0, *range(2, x.ndim))
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)


CASES = [
    (nn.BatchNorm1d, (6, 3)),
    (nn.BatchNorm1d, (4, 3, 5)),
    (nn.BatchNorm2d, (2, 3, 2, 3)),
    (nn.BatchNorm3d, (2, 3, 2, 1, 2)),
]


@pytest.mark.parametrize(("kind", "shape"), CASES)
def test_training_normalises_by_the_batch(agrees, draw, values, kind, shape):
    layer = kind(3, eps=1e-3)

    def formula(x):
        learnt = values(layer)
        return standard(x, 1e-3) * wide(learnt["weight"], x) + wide(learnt["bias"], x)

    agrees(layer, formula, draw(*shape))


def test_evaluation_normalises_by_what_was_seen(agrees, draw, values):
    layer = nn.BatchNorm2d(3).double()
    layer(weft.from_numpy(draw(4, 3, 2, 2) * 3 + 1))
    layer.eval()

    def formula(x):
        v = {name: wide(value, x) for name, value in values(layer).items()}
        return (x - v["running_mean"]) / np.sqrt(v["running_var"] + 1e-5) * v["weight"] + v["bias"]

    agrees(layer, formula, draw(2, 3, 2, 2))


@pytest.mark.parametrize("momentum", [0.1, 0.4, None])
def test_running_statistics(draw, momentum):
    layer = nn.BatchNorm1d(3, momentum=momentum).double()
    mean, variance = np.zeros(3), np.ones(3)
    for step in range(1, 4):
        x = draw(5, 3, 2) * step + step
        layer(weft.from_numpy(x))
        factor = 1 / step if momentum is None else momentum
        mean += factor * (x.mean((0, 2)) - mean)
        variance += factor * (x.var((0, 2), ddof=1) - variance)
    np.testing.assert_allclose(layer.running_mean.numpy(), mean, rtol=1e-12)
    np.testing.assert_allclose(layer.running_var.numpy(), variance, rtol=1e-12)
    assert layer.num_batches_tracked.item() == 3 and layer.num_batches_tracked.dtype is weft.int64
    layer.reset_running_stats()
    assert (layer.running_mean == 0).all() and (layer.running_var == 1).all()
    assert layer.num_batches_tracked.item() == 0


def test_evaluation_leaves_the_statistics_alone(draw):
    layer = nn.BatchNorm1d(3).double().eval()
    layer(weft.from_numpy(draw(5, 3)))
    assert (layer.running_mean == 0).all() and layer.num_batches_tracked.item() == 0


def test_without_statistics_the_batch_always_serves(agrees, draw):
    layer = nn.BatchNorm1d(3, affine=False, track_running_stats=False)
    assert layer.running_mean is None and layer.state_dict() == {}
    agrees(layer, standard, draw(5, 3))
    agrees(layer.eval(), standard, draw(5, 3))


def test_names_and_order():
    names = ["weight", "bias", "running_mean", "running_var", "num_batches_tracked"]
    assert list(nn.BatchNorm2d(3).state_dict()) == names
    assert list(nn.BatchNorm2d(3, bias=False).state_dict()) == ["weight", *names[2:]]


def test_states_of_the_first_version_count_no_batches():
    layer = nn.BatchNorm1d(3)
    state = {name: value for name, value in layer.state_dict().items() if name != "num_batches_tracked"}
    assert layer.load_state_dict(dict(state)).missing_keys == []


@pytest.mark.parametrize(
    ("kind", "text"), [(nn.BatchNorm1d, "2D or 3D"), (nn.BatchNorm2d, "4D"), (nn.BatchNorm3d, "5D")]
)
def test_ranks_are_checked(kind, text):
    with pytest.raises(ValueError, match=rf"expected {text} input \(got 1D input\)"):
        kind(3)(weft.ones(3))


def test_one_value_has_no_variance():
    with pytest.raises(ValueError, match="Expected more than 1 value per channel when training"):
        nn.BatchNorm1d(3)(weft.ones(1, 3))


def test_printed():
    assert repr(nn.BatchNorm2d(3, momentum=None, affine=False)) == (
        "BatchNorm2d(3, eps=1e-05, momentum=None, affine=False, bias=False, track_running_stats=True)"
    )


def test_eps_is_checked():
    with pytest.raises(ValueError, match="batch_norm eps must be positive during training, but got 0.0"):
        nn.BatchNorm1d(3, eps=0.0)(weft.ones(2, 3))
    with pytest.raises(ValueError, match="batch_norm eps must be non-negative, but got -1.0"):
        nn.BatchNorm1d(3, eps=-1.0).eval()(weft.ones(2, 3))


def test_synchronised_with_itself():
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4, momentum=0.3), nn.Sequential(nn.BatchNorm2d(2)))
    weight = model[1].weight
    made = nn.SyncBatchNorm.convert_sync_batchnorm(model)
    assert made is model and type(model[1]) is nn.SyncBatchNorm and model[1].weight is weight
    assert type(model[2][0]) is nn.SyncBatchNorm and model[1].momentum == 0.3
    plain = nn.BatchNorm1d(4, momentum=0.3)
    x = weft.randn(5, 4)
    assert weft.equal(model[1](x), plain(x)) and weft.equal(model[1].running_var, plain.running_var)
    with pytest.raises(ValueError, match=r"expected at least 2D input \(got 1D input\)"):
        model[1](weft.ones(4))
