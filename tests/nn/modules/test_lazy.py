from __future__ import annotations

import copy
import pickle

import pytest

import weft
from weft import nn
from weft.nn.parameter import UninitializedParameter, is_lazy

CASES = [
    (lambda: nn.LazyLinear(3), (2, 5), lambda: nn.Linear(5, 3)),
    (lambda: nn.LazyLinear(3, bias=False), (5,), lambda: nn.Linear(5, 3, bias=False)),
    (lambda: nn.LazyConv1d(4, 2, groups=2), (2, 6, 5), lambda: nn.Conv1d(6, 4, 2, groups=2)),
    (lambda: nn.LazyConv2d(4, 2, bias=False), (6, 5, 5), lambda: nn.Conv2d(6, 4, 2, bias=False)),
    (lambda: nn.LazyConv3d(4, 2, stride=2), (2, 6, 4, 4, 4), lambda: nn.Conv3d(6, 4, 2, stride=2)),
    (lambda: nn.LazyConvTranspose1d(4, 2), (2, 6, 5), lambda: nn.ConvTranspose1d(6, 4, 2)),
    (
        lambda: nn.LazyConvTranspose2d(4, 2, groups=2, output_padding=1, stride=2),
        (2, 6, 5, 5),
        lambda: nn.ConvTranspose2d(6, 4, 2, groups=2, output_padding=1, stride=2),
    ),
    (lambda: nn.LazyConvTranspose3d(4, 2), (2, 6, 3, 3, 3), lambda: nn.ConvTranspose3d(6, 4, 2)),
    (lambda: nn.LazyBatchNorm1d(), (4, 6), lambda: nn.BatchNorm1d(6)),
    (lambda: nn.LazyBatchNorm2d(affine=False), (4, 6, 3, 3), lambda: nn.BatchNorm2d(6, affine=False)),
    (lambda: nn.LazyBatchNorm3d(bias=False), (4, 6, 2, 3, 3), lambda: nn.BatchNorm3d(6, bias=False)),
    (lambda: nn.LazyInstanceNorm1d(), (4, 6, 3), lambda: nn.InstanceNorm1d(6, 1e-5, 0.1, True, True)),
    (
        lambda: nn.LazyInstanceNorm2d(track_running_stats=False),
        (4, 6, 3, 3),
        lambda: nn.InstanceNorm2d(6, affine=True),
    ),
    (
        lambda: nn.LazyInstanceNorm3d(affine=False, track_running_stats=False),
        (4, 6, 2, 2, 2),
        lambda: nn.InstanceNorm3d(6),
    ),
]
cases = pytest.mark.parametrize(("make", "shape", "plain"), CASES)


@cases
def test_first_input_tells_the_sizes(make, shape, plain):
    layer, expected = make(), plain()
    assert layer.has_uninitialized_params() or not expected.state_dict()
    x = weft.randn(*shape)
    layer(x)
    assert type(layer) is type(expected) and repr(layer) == repr(expected)
    assert {k: v.shape for k, v in layer.state_dict().items()} == {
        k: v.shape for k, v in expected.state_dict().items()
    }
    assert not layer._forward_pre_hooks and not layer._load_state_dict_pre_hooks
    expected.load_state_dict(layer.state_dict())
    assert weft.equal(layer.eval()(x), expected.eval()(x))


@cases
def test_states_tell_the_sizes(make, shape, plain):
    layer, source = make(), plain()
    layer.load_state_dict(source.state_dict())
    assert not layer.has_uninitialized_params()
    x = weft.randn(*shape)
    assert weft.equal(layer.eval()(x), source.eval()(x))
    assert type(layer) is type(source)


def test_copies_are_lazy_too():
    layer = nn.LazyLinear(3)
    other = copy.deepcopy(layer)
    other(weft.ones(2, 4))
    other(weft.ones(2, 4))
    assert type(other) is nn.Linear and type(layer) is nn.LazyLinear and is_lazy(layer.weight)
    assert all(is_lazy(value) for value in layer.state_dict().values())


def test_in_a_model_and_in_other_dtypes():
    model = nn.Sequential(nn.LazyLinear(3), nn.ReLU(), nn.LazyLinear(2)).double()
    assert model(weft.ones(1, 4, dtype=weft.float64)).shape == (1, 2)
    assert repr(model[2]) == "Linear(in_features=3, out_features=2, bias=True)"
    assert all(parameter.dtype is weft.float64 for parameter in model.parameters())


def test_refuses():
    with pytest.raises(
        RuntimeError, match=r"Expected 3D \(unbatched\) or 4D \(batched\) input to LazyConv2d"
    ):
        nn.LazyConv2d(3, 2)(weft.ones(3))
    with pytest.raises(ValueError, match="in_channels must be divisible by groups"):
        nn.LazyConv2d(4, 2, groups=2)(weft.ones(1, 3, 4, 4))

    class Forgets(nn.modules.lazy.LazyModuleMixin, nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = UninitializedParameter()

        def initialize_parameters(self, x):
            pass

    with pytest.raises(RuntimeError, match="module Forgets has not been fully initialized"):
        Forgets()(weft.ones(1))
    with pytest.raises(RuntimeError, match="can't be used with `DataParallel`"):
        nn.LazyLinear(1)._replicate_for_data_parallel()


def test_pickled_while_lazy():
    layer = pickle.loads(pickle.dumps(nn.LazyLinear(2)))
    assert layer(weft.ones(1, 3)).shape == (1, 2) and type(layer) is nn.Linear
    assert not layer._forward_pre_hooks and not layer._load_state_dict_pre_hooks
