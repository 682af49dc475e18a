"""Numbers rounded to grids of integers, and the observers that measure grids: against their definitions."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import weft
from weft import quantization

X = (np.arange(-30, 51) / 10.37).astype(np.float32)


def on_grid(x, scale, zero, low, high):
    return (np.clip(np.rint(x / np.float32(scale)) + zero, low, high) - zero) * scale


@pytest.mark.parametrize("grid", [(0.5, 0, -2, 3), (0.1, 7, 0, 255), (0.25, -3, -8, 7)])
def test_a_tensor_on_a_grid(grid):
    x = weft.tensor(X, requires_grad=True)
    y = weft.fake_quantize_per_tensor_affine(x, *grid)
    np.testing.assert_allclose(y.detach().numpy(), on_grid(X, *grid), atol=1e-6)
    y.sum().backward()
    scale, zero, low, high = grid
    places = np.rint(X / np.float32(scale)) + zero
    assert x.grad.tolist() == ((places >= low) & (places <= high)).astype(float).tolist()
    compiled = weft.compile(lambda x: weft.fake_quantize_per_tensor_affine(x, *grid), backend="aot_eager")
    assert compiled(x).tolist() == y.tolist()


def test_a_grid_for_each_channel():
    x = weft.tensor(X[:12]).view(3, 4)
    scales, zeros = weft.tensor([0.1, 0.2, 0.3]), weft.tensor([0, 1, 2], dtype=weft.int32)
    y = weft.fake_quantize_per_channel_affine(x, scales, zeros, 0, -4, 5)
    for row, scale, zero in zip(range(3), (0.1, 0.2, 0.3), (0, 1, 2)):
        np.testing.assert_allclose(y[row].numpy(), on_grid(x[row].numpy(), scale, zero, -4, 5), atol=1e-6)
    with pytest.raises(RuntimeError, match="not consistent with input tensor"):
        weft.fake_quantize_per_channel_affine(x, scales, zeros, 1, -4, 5)


@pytest.mark.parametrize(
    ("scheme", "kind", "scale", "zero"),
    [
        (quantization.per_tensor_affine, weft.uint8, 8 / 255, 96),
        (quantization.per_tensor_affine, weft.int8, 8 / 255, -32),
        (quantization.per_tensor_symmetric, weft.uint8, 10 / 255, 128),
        (quantization.per_tensor_symmetric, weft.int8, 10 / 255, 0),
    ],
)
def test_what_an_observer_measures(scheme, kind, scale, zero):
    observer = quantization.MinMaxObserver(dtype=kind, qscheme=scheme)
    for part in ([-1.0, 5.0], [], [-3.0, 2.0]):
        part = weft.tensor(part)
        assert observer(part) is part
    found = observer.calculate_qparams()
    assert found[0].item() == pytest.approx(scale) and found[1].item() == zero
    observer.reset_min_max_vals()
    with pytest.warns(UserWarning, match="must run observer"):
        assert observer.calculate_qparams()[0].item() == 1


def test_a_range_that_follows():
    observer = quantization.MovingAverageMinMaxObserver(averaging_constant=0.5)
    observer(weft.tensor([-1.0, 1.0]))
    observer(weft.tensor([-3.0, 2.0]))
    assert (observer.min_val.item(), observer.max_val.item()) == (-2.0, 1.5)


def test_a_module_that_measures_and_rounds():
    maker = quantization.FakeQuantize.with_args(observer=quantization.MinMaxObserver, dtype=weft.int8)
    maker = maker.with_args(qscheme=quantization.per_tensor_symmetric)
    module = maker()
    x = weft.tensor(X)
    y = module(x)
    scale = np.abs(X).max() * 2 / 255
    np.testing.assert_allclose(y.numpy(), on_grid(X, scale, 0, -128, 127), atol=1e-5)
    module.apply(quantization.disable_observer)
    module(x * 100)
    assert module.scale.item() == pytest.approx(float(scale))
    module.apply(quantization.disable_fake_quant)
    assert module(x) is x
    assert [*module.state_dict()][:4] == ["fake_quant_enabled", "observer_enabled", "scale", "zero_point"]
    assert copy.deepcopy(module).qscheme is module.qscheme is pickle.loads(pickle.dumps(module.qscheme))


def test_what_is_refused():
    with pytest.raises(NotImplementedError, match="only support"):
        quantization.MinMaxObserver(qscheme=quantization.per_channel_affine)
    with pytest.raises(NotImplementedError, match="grids of"):
        quantization.MinMaxObserver(dtype=weft.int32)
    with pytest.raises(RuntimeError, match="`zero_point` must be between"):
        weft.fake_quantize_per_tensor_affine(weft.ones(2), 0.5, 9, 0, 3)
