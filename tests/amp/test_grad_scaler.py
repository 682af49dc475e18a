"""GradScaler: scaled losses, unscaled steps, skipped ones, and the scale that follows."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import weft
from weft.amp import GradScaler
from weft.amp.grad_scaler import OptState


def setting(**options):
    x = weft.tensor([1.0, 2.0], requires_grad=True)
    optimizer = weft.optim.SGD([x], lr=0.5, **options)
    return x, optimizer


def gradients(x, scaler, factor=1.0):
    x.grad = None
    scaler.scale((x * factor).sum()).backward()


def test_a_good_step():
    x, optimizer = setting()
    scaler = GradScaler("cpu", init_scale=8.0)
    gradients(x, scaler)
    assert x.grad.tolist() == [8.0, 8.0]
    assert scaler.step(optimizer) is None
    assert x.tolist() == [0.5, 1.5] and x.grad.tolist() == [1.0, 1.0]
    scaler.update()
    assert scaler.get_scale() == 8.0


@pytest.mark.parametrize("bad", [float("inf"), float("nan")])
@pytest.mark.parametrize("fused", [False, True])
def test_a_bad_step_is_skipped_and_the_scale_halved(bad, fused):
    x, optimizer = setting(fused=fused)
    scaler = GradScaler("cpu", init_scale=8.0, backoff_factor=0.25)
    gradients(x, scaler, weft.tensor([1.0, bad]))
    scaler.step(optimizer)
    scaler.update()
    assert x.tolist() == [1.0, 2.0] and scaler.get_scale() == 2.0


def test_a_fused_optimizer_unscales_itself():
    x, optimizer = setting(fused=True, momentum=0.5)
    scaler = GradScaler("cpu", init_scale=8.0)
    for _ in range(2):
        gradients(x, scaler)
        scaler.step(optimizer)
        scaler.update()
    assert x.tolist() == [-0.25, 0.75] and x.grad.tolist() == [1.0, 1.0]
    assert not hasattr(optimizer, "grad_scale") and not hasattr(optimizer, "found_inf")
    gradients(x, scaler)
    scaler.unscale_(optimizer)
    assert x.grad.tolist() == [1.0, 1.0]
    scaler.step(optimizer)
    assert x.grad.tolist() == [1.0, 1.0]


def test_fused_adam_does_not_count_a_skipped_step():
    x = weft.ones(2, requires_grad=True)
    optimizer = weft.optim.Adam([x], fused=True)
    scaler = GradScaler("cpu")
    gradients(x, scaler)
    scaler.step(optimizer)
    scaler.update()
    gradients(x, scaler, float("inf"))
    scaler.step(optimizer)
    assert optimizer.state[x]["step"].item() == 1


def test_the_scale_grows_after_good_steps():
    x, optimizer = setting()
    scaler = GradScaler("cpu", init_scale=4.0, growth_factor=3.0, growth_interval=2)
    seen = []
    for factor in (1, 1, 1, float("inf"), 1, 1):
        gradients(x, scaler, factor)
        scaler.step(optimizer)
        scaler.update()
        seen.append((scaler.get_scale(), scaler._get_growth_tracker()))
    assert seen == [(4.0, 1), (12.0, 0), (12.0, 1), (6.0, 0), (6.0, 1), (18.0, 0)]


def test_a_scale_that_would_overflow_stays():
    x, optimizer = setting()
    scaler = GradScaler("cpu", init_scale=2.0**127, growth_interval=1)
    x.grad = weft.ones(2)
    scaler.scale(x.sum())
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == 2.0**127


def test_unscaling_first_allows_clipping():
    x, optimizer = setting()
    scaler = GradScaler("cpu", init_scale=1024.0)
    gradients(x, scaler, weft.tensor([3.0, 4.0]))
    scaler.unscale_(optimizer)
    assert x.grad.tolist() == [3.0, 4.0]
    weft.nn.utils.clip_grad_norm_([x], 1.0)
    scaler.step(optimizer)
    np.testing.assert_allclose(x.detach().numpy(), [1 - 0.3, 2 - 0.4], rtol=1e-5)


def test_outputs_of_any_structure_are_scaled():
    scaler = GradScaler("cpu", init_scale=2.0)
    x = weft.ones(1)
    scaled = scaler.scale([x, (x, x * 3)])
    assert type(scaled) is list and type(scaled[1]) is tuple and scaled[1][1].item() == 6.0
    assert [y.item() for y in scaler.scale(iter([x]))] == [2.0]
    with pytest.raises(ValueError, match="outputs must be a Tensor or an iterable of Tensors"):
        scaler.scale(3)


def test_order_of_calls():
    x, optimizer = setting()
    scaler = GradScaler("cpu")
    hint = "This may indicate your script did not use scaler.scale"
    for call in (lambda: scaler.step(optimizer), lambda: scaler.unscale_(optimizer), scaler.update):
        with pytest.raises(AssertionError, match=f"but _scale is None.  {hint}"):
            call()
    gradients(x, scaler)
    with pytest.raises(AssertionError, match="No inf checks were recorded prior to update."):
        scaler.update()
    scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError, match=r"unscale_\(\) has already been called on this optimizer since"):
        scaler.unscale_(optimizer)
    scaler.step(optimizer)
    with pytest.raises(RuntimeError, match=r"step\(\) has already been called since the last update\(\)."):
        scaler.step(optimizer)
    with pytest.raises(RuntimeError, match=r"unscale_\(\) is being called after step\(\)."):
        scaler.unscale_(optimizer)
    assert scaler._per_optimizer_states[id(optimizer)]["stage"] is OptState.STEPPED
    scaler.update()
    with pytest.raises(
        RuntimeError, match="Closure use is not currently supported if GradScaler is enabled."
    ):
        scaler.step(optimizer, closure=lambda: None)
    x.grad = None
    with pytest.raises(AssertionError, match="No inf checks were recorded for this optimizer."):
        scaler.step(optimizer)


def test_half_gradients_are_refused_but_bfloat16_ones_are_not():
    scaler = GradScaler("cpu", init_scale=2.0)
    x = weft.ones(2, dtype=weft.float16, requires_grad=True)
    gradients(x, scaler)
    with pytest.raises(ValueError, match="Attempting to unscale FP16 gradients."):
        scaler.unscale_(weft.optim.SGD([x]))
    y = weft.ones(2, dtype=weft.bfloat16, requires_grad=True)
    gradients(y, scaler)
    scaler.unscale_(weft.optim.SGD([y]))
    assert y.grad.tolist() == [1.0, 1.0]


def test_several_optimizers_share_a_scale():
    x, first = setting()
    y, second = setting()
    scaler = GradScaler("cpu", init_scale=8.0)
    gradients(x, scaler)
    gradients(y, scaler, float("inf"))
    scaler.step(first)
    scaler.step(second)
    scaler.update()
    assert x.tolist() == [0.5, 1.5] and y.tolist() == [1.0, 2.0] and scaler.get_scale() == 4.0


def test_setting_the_scale():
    x, optimizer = setting()
    scaler = GradScaler("cpu")
    gradients(x, scaler)
    scaler.update(4.0)
    assert scaler.get_scale() == 4.0
    scaler.update(weft.tensor(3.0))
    assert scaler.get_scale() == 3.0
    for wrong in (weft.ones(2), weft.tensor(1.0, requires_grad=True), weft.ones(1, device="meta")):
        with pytest.raises(AssertionError, match="new_scale should be a float or a 1-element"):
            scaler.update(wrong)


def test_disabled_does_nothing():
    x, optimizer = setting()
    scaler = GradScaler("cpu", enabled=False)
    loss = x.sum()
    assert scaler.scale(loss) is loss
    loss.backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    assert x.tolist() == [0.5, 1.5]
    assert scaler.get_scale() == 1.0 and not scaler.is_enabled() and scaler.state_dict() == {}
    scaler.load_state_dict({"scale": 3})
    assert scaler._get_growth_tracker() == 0


def test_other_devices_disable():
    with pytest.warns(UserWarning, match="GradScaler is enabled, but CUDA is not available.  Disabling."):
        assert not GradScaler().is_enabled()
    with pytest.raises(AssertionError, match="The growth factor must be > 1.0."):
        GradScaler("cpu", growth_factor=1.0)
    with pytest.raises(AssertionError, match="The backoff factor must be < 1.0."):
        GradScaler("cpu", backoff_factor=1.0)


def test_saving():
    x, optimizer = setting()
    scaler = GradScaler("cpu", init_scale=4.0, growth_interval=10)
    gradients(x, scaler)
    with pytest.raises(AssertionError, match="may only be pickled at the beginning of an iteration"):
        scaler.step(optimizer)
        pickle.dumps(scaler)
    scaler.update()
    saved = scaler.state_dict()
    assert saved == {
        "scale": 4.0, "growth_factor": 2.0, "backoff_factor": 0.5, "growth_interval": 10,
        "_growth_tracker": 1,
    }  # fmt: skip
    other = GradScaler("cpu")
    other.load_state_dict(saved)
    assert other.state_dict() == saved
    gradients(x, other)
    other.load_state_dict({**saved, "scale": 16.0})
    assert other.get_scale() == 16.0
    assert pickle.loads(pickle.dumps(scaler)).state_dict() == saved
    with pytest.raises(RuntimeError, match="The source state dict is empty"):
        other.load_state_dict({})


def test_factors_can_be_changed():
    scaler = GradScaler("cpu")
    scaler.set_growth_factor(3.0)
    scaler.set_backoff_factor(0.1)
    scaler.set_growth_interval(7)
    assert (scaler.get_growth_factor(), scaler.get_backoff_factor()) == (3.0, 0.1)
    assert scaler.get_growth_interval() == 7 and scaler.get_scale() == 2.0**16


@pytest.mark.torch
@pytest.mark.parametrize("lower", ["bfloat16", "float16"])
@pytest.mark.parametrize("fused", [False, True])
def test_training_is_that_of_torch(lower, fused):
    torch = pytest.importorskip("torch")
    random = np.random.default_rng(0)
    shapes = {"w": (8, 16), "b": (16,), "u": (16, 4)}
    start = {name: 0.3 * random.standard_normal(shape).astype("float32") for name, shape in shapes.items()}
    inputs = random.standard_normal((32, 8)).astype("float32")

    def train(library):
        p = {name: library.tensor(value.copy()).requires_grad_() for name, value in start.items()}
        optimizer = library.optim.AdamW(p.values(), lr=0.01, fused=fused)
        scaler = library.amp.GradScaler("cpu", init_scale=2.0**14, growth_interval=4)
        x, target = library.tensor(inputs), library.arange(32) % 4
        losses = []
        for _ in range(20):
            optimizer.zero_grad()
            with library.autocast("cpu", getattr(library, lower)):
                hidden = library.relu(library.addmm(p["b"], x, p["w"]))
                loss = library.nn.functional.cross_entropy(hidden @ p["u"], target)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            losses.append(loss.item())
        return losses, scaler.state_dict()

    (ours, state), (theirs, expected) = train(weft), train(torch)
    assert state == expected
    assert ours == pytest.approx(theirs, abs=0.01 if lower == "bfloat16" else 0.001)
