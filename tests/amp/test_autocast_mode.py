"""autocast as context manager and decorator; custom Functions under it."""

from __future__ import annotations

import copy
import pickle
import sys
from typing import Any

import pytest

import weft
from weft.amp import autocast, custom_bwd, custom_fwd
from weft.core import modes


def product():
    return weft.mm(weft.ones(2, 2), weft.ones(2, 2)).dtype


def test_inside_and_outside():
    with autocast("cpu") as entered:
        assert isinstance(entered, autocast) and weft.autocast is autocast
        assert weft.is_autocast_enabled("cpu") and product() is weft.bfloat16
    assert modes.current() is True and product() is weft.float32


def test_nesting():
    with autocast("cpu", dtype=weft.bfloat16):
        with autocast("cpu", dtype=weft.float16):
            assert product() is weft.float16
            with autocast("cpu", enabled=False):
                assert product() is weft.float32
                assert weft.get_autocast_dtype("cpu") is weft.float16
                assert modes.current() is True
                with autocast("cpu"):
                    assert product() is weft.float16
            assert product() is weft.float16
        assert product() is weft.bfloat16
    assert product() is weft.float32 and weft.get_autocast_dtype("cpu") is weft.bfloat16


def test_other_modes_may_be_left_in_any_order():
    with autocast("cpu"):
        with weft.no_grad():
            assert product() is weft.bfloat16
            inner = autocast("cpu", enabled=False)
            inner.__enter__()
            assert not weft.is_grad_enabled() and product() is weft.float32
        assert weft.is_grad_enabled() and product() is weft.float32
        inner.__exit__(None, None, None)
        assert product() is weft.bfloat16
    assert modes.current() is True


def test_one_object_may_be_entered_again():
    cast = autocast("cpu", weft.float16)
    with cast:
        with autocast("cpu"), cast:
            assert product() is weft.float16
        assert product() is weft.float16
    assert product() is weft.float32


def test_errors_pass_and_the_mode_ends():
    with pytest.raises(KeyError), autocast("cpu"):
        raise KeyError
    assert modes.current() is True


def test_decorator():
    @autocast("cpu", dtype=weft.float16)
    def function(x, *, scale):
        """Doubles."""
        return weft.mm(x, x) * scale

    assert function(weft.ones(2, 2), scale=2.0).dtype is weft.float16
    assert function.__name__ == "function" and function.__doc__ == "Doubles."
    assert product() is weft.float32
    with pytest.raises(TypeError) as caught:
        autocast("cpu")(3)
    assert str(caught.value) == (
        "autocast()(func) requires a callable, but got int. Did you mean to use autocast as a context "
        "manager? "
        "For example:\n    with weft.autocast(device_type=...):\n        output = model(input)"
    )


def test_unsupported_dtypes_disable():
    with pytest.warns(UserWarning) as caught:
        cast = autocast("cpu", weft.float32)
    assert str(caught[0].message) == (
        "In CPU autocast, but the target dtype is not supported. Disabling autocast.\n"
        "CPU Autocast only supports dtypes of weft.bfloat16, weft.float16 currently."
    )
    with cast:
        assert not weft.is_autocast_enabled("cpu") and product() is weft.float32
    autocast("cpu", weft.float32, enabled=False)  # nothing to say


def test_devices():
    with pytest.warns(UserWarning, match="CUDA is not available"):
        cast = autocast("cuda")
    with cast:
        assert product() is weft.float32 and not weft.is_autocast_enabled("cuda")
    with pytest.raises(ValueError) as caught:
        autocast(3)
    assert str(caught.value) == "Expected `device_type` of type `str`, got: `<class 'int'>`"
    with pytest.raises(RuntimeError, match="User specified an unsupported autocast device_type 'meta'"):
        autocast("meta")


def test_modules():
    model = weft.nn.Sequential(weft.nn.Linear(3, 4), weft.nn.ReLU(), weft.nn.Linear(4, 2))
    x = weft.ones(5, 3)
    with autocast("cpu"):
        out = model(x)
        loss = weft.nn.functional.mse_loss(out, weft.zeros(5, 2))
    assert out.dtype is weft.bfloat16 and loss.dtype is weft.float32
    loss.backward()
    assert {p.grad.dtype for p in model.parameters()} == {weft.float32}
    exact = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    weft.nn.functional.mse_loss(model(x), weft.zeros(5, 2)).backward()
    for rough, p in zip(exact, model.parameters()):
        assert weft.allclose(rough, p.grad, rtol=0.05, atol=0.02)


class Recorder(weft.autograd.Function):
    """Notes what autocast was in forward and backward."""

    seen: list = []

    @staticmethod
    @custom_fwd(device_type="cpu")
    def forward(ctx, x):
        Recorder.seen.append(weft.is_autocast_enabled("cpu"))
        ctx.save_for_backward(x)
        return x.mm(x)

    @staticmethod
    @custom_bwd(device_type="cpu")
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        Recorder.seen.append((weft.is_autocast_enabled("cpu"), weft.get_autocast_dtype("cpu")))
        return g.mm(x.t()) + x.t().mm(g)


@pytest.mark.parametrize("enabled", [True, False])
def test_backward_runs_as_forward_did(enabled):
    Recorder.seen.clear()
    x = weft.ones(2, 2, requires_grad=True)
    with autocast("cpu", weft.float16, enabled=enabled):
        out = Recorder.apply(x)
    assert out.dtype is (weft.float16 if enabled else weft.float32)
    with autocast("cpu", weft.bfloat16, enabled=not enabled):
        out.sum().backward()
    assert Recorder.seen == [enabled, (enabled, weft.float16)]
    assert x.grad.dtype is weft.float32 and x.grad.tolist() == [[4.0, 4.0], [4.0, 4.0]]


def test_inputs_are_cast_where_a_function_wants_it():
    seen = []

    class Single(weft.autograd.Function):
        @staticmethod
        @custom_fwd(device_type="cpu", cast_inputs=weft.float32)
        def forward(ctx, x, items, word):
            seen.append((x.dtype, items[0].dtype, items[1].dtype, word, weft.is_autocast_enabled("cpu")))
            return x * 2

        @staticmethod
        @custom_bwd(device_type="cpu")
        def backward(ctx, g):
            seen.append(weft.is_autocast_enabled("cpu"))
            return g * 2, None, None

    x = weft.ones(2, dtype=weft.float16, requires_grad=True)
    items = (weft.ones(1, dtype=weft.bfloat16), weft.ones(1, dtype=weft.float64))
    with autocast("cpu"):
        Single.apply(x, items, "word").sum().backward()
    assert seen == [(weft.float32, weft.float32, weft.float64, "word", False), False]
    seen.clear()
    Single.apply(x, items, "word")
    assert seen == [(weft.float16, weft.bfloat16, weft.float64, "word", False)]


def test_decorators_want_a_device_type():
    for decorator in (custom_fwd, custom_bwd):
        with pytest.raises(ValueError, match="Expected `device_type` of type `str`, got: `<class 'int'>`"):
            decorator(device_type=1)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # generators that are closed
def test_what_strikes_as_autocast_is_entered_or_left_leaves_nothing_on() -> None:
    class Strike(Exception):
        pass

    def now() -> Any:
        return weft.is_autocast_enabled("cpu"), weft.get_autocast_dtype("cpu"), weft.is_grad_enabled()

    def entered(block: Any) -> None:
        with weft.autocast("cpu", dtype=weft.float16), block:
            pass

    for block in (weft.autocast("cpu", enabled=False), weft.no_grad()):
        point, before, events, struck = 0, now(), 1, True
        while struck:
            point, events, struck = point + 1, 0, False

            def profile(_frame: Any, event: str, _value: Any, point: int = point) -> None:
                nonlocal events, struck
                events += event in ("call", "c_return")
                if events == point:
                    sys.setprofile(None)
                    struck = True
                    raise Strike

            sys.setprofile(profile)
            try:
                entered(block)
            except Strike:
                pass
            finally:
                sys.setprofile(None)
            assert now() == before, point
        assert point > 20


def test_autocast_left_after_other_modes_have_changed() -> None:
    outer, inner = weft.autocast("cpu"), weft.no_grad()
    outer.__enter__()
    inner.__enter__()
    outer.__exit__(None, None, None)
    assert not weft.is_autocast_enabled("cpu") and not weft.is_grad_enabled()
    inner.__exit__(None, None, None)
    assert not weft.is_autocast_enabled("cpu") and weft.is_grad_enabled()


def test_copies_of_an_autocast_are_entered_on_their_own() -> None:
    own = weft.autocast("cpu", dtype=weft.float16)
    with own:
        other = weft.autocast("cpu", dtype=weft.bfloat16)
        for each in (copy.deepcopy(other), pickle.loads(pickle.dumps(other))):
            with each:
                assert weft.get_autocast_dtype("cpu") is weft.bfloat16
            assert weft.get_autocast_dtype("cpu") is weft.float16
    assert not weft.is_autocast_enabled("cpu")
