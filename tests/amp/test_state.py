"""The switches: what is on, per device type, in this thread only; and that a plain program pays nothing."""

from __future__ import annotations

import threading

import pytest

import weft
from weft.core import modes


@pytest.fixture(autouse=True)
def restored():
    yield
    weft.set_autocast_enabled("cpu", False)
    weft.set_autocast_dtype("cpu", weft.bfloat16)
    weft.set_autocast_dtype("cuda", weft.float16)
    weft.set_autocast_cache_enabled(True)
    assert modes.current() is True


def test_defaults():
    assert not weft.is_autocast_enabled("cpu") and not weft.is_autocast_enabled()
    assert weft.get_autocast_dtype("cpu") is weft.bfloat16
    assert weft.get_autocast_dtype("cuda") is weft.float16
    assert weft.is_autocast_cache_enabled()
    assert modes.current() is True


def test_switching_by_hand():
    weft.set_autocast_enabled("cpu", True)
    assert weft.is_autocast_enabled("cpu") and not weft.is_autocast_enabled("cuda")
    assert weft.mm(weft.ones(2, 2), weft.ones(2, 2)).dtype is weft.bfloat16
    weft.set_autocast_dtype("cpu", weft.float16)
    assert weft.mm(weft.ones(2, 2), weft.ones(2, 2)).dtype is weft.float16
    weft.set_autocast_enabled("cpu", False)
    assert weft.mm(weft.ones(2, 2), weft.ones(2, 2)).dtype is weft.float32
    assert weft.get_autocast_dtype("cpu") is weft.float16


def test_other_devices_are_remembered_only():
    weft.set_autocast_enabled(True)
    assert weft.is_autocast_enabled() and weft.is_autocast_enabled("cuda")
    assert not weft.is_autocast_enabled("cpu") and modes.current() is True
    weft.set_autocast_enabled("cuda", False)
    assert not weft.is_autocast_enabled()
    weft.set_autocast_dtype("cuda", weft.bfloat16)
    assert weft.get_autocast_dtype("cuda") is weft.bfloat16


def test_unknown_devices_are_refused():
    assert weft.amp.is_autocast_available("cpu") and weft.amp.is_autocast_available("cuda")
    assert not weft.amp.is_autocast_available("meta")
    for question in (weft.is_autocast_enabled, weft.get_autocast_dtype, weft.amp.is_autocast_available):
        with pytest.raises(RuntimeError, match="device type at start of device string: nowhere"):
            question("nowhere")
    with pytest.raises(RuntimeError, match="unsupported scalarType"):
        weft.get_autocast_dtype("meta")


def test_other_threads_are_untouched():
    seen = []
    with weft.autocast("cpu", weft.float16):
        thread = threading.Thread(
            target=lambda: seen.append((weft.is_autocast_enabled("cpu"), weft.get_autocast_dtype("cpu")))
        )
        thread.start()
        thread.join()
    assert seen == [(False, weft.bfloat16)]


def test_nesting_is_counted():
    assert weft.autocast_increment_nesting() == 1
    assert weft.autocast_increment_nesting() == 2
    assert weft.autocast_decrement_nesting() == 1
    assert weft.autocast_decrement_nesting() == 0


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda: weft.is_autocast_cpu_enabled(),
            "weft.is_autocast_cpu_enabled() is deprecated. Please use weft.is_autocast_enabled('cpu') "
            "instead.",
        ),
        (
            lambda: weft.get_autocast_cpu_dtype(),
            "weft.get_autocast_cpu_dtype() is deprecated. Please use weft.get_autocast_dtype('cpu') instead.",
        ),
        (
            lambda: weft.set_autocast_cpu_enabled(True),
            "weft.set_autocast_cpu_enabled(enabled) is deprecated. Please use "
            "weft.set_autocast_enabled('cpu', enabled) instead.",
        ),
        (
            lambda: weft.set_autocast_cpu_dtype(weft.float16),
            "weft.set_autocast_cpu_dtype(dtype) is deprecated. Please use "
            "weft.set_autocast_dtype('cpu', dtype) instead.",
        ),
        (
            lambda: weft.get_autocast_gpu_dtype(),
            "weft.get_autocast_gpu_dtype() is deprecated. Please use weft.get_autocast_dtype('cuda') "
            "instead.",
        ),
        (
            lambda: weft.set_autocast_gpu_dtype(weft.bfloat16),
            "weft.set_autocast_gpu_dtype(dtype) is deprecated. Please use "
            "weft.set_autocast_dtype('cuda', dtype) instead.",
        ),
    ],
)
def test_old_names_say_the_new_ones(call, text):
    with pytest.warns(DeprecationWarning) as caught:
        call()
    assert str(caught[0].message) == text and caught[0].filename == __file__


def test_old_names_do_the_same():
    with pytest.warns(DeprecationWarning):
        weft.set_autocast_cpu_enabled(True)
        weft.set_autocast_cpu_dtype(weft.float16)
        weft.set_autocast_gpu_dtype(weft.bfloat16)
        assert weft.is_autocast_cpu_enabled() and weft.get_autocast_cpu_dtype() is weft.float16
        assert weft.get_autocast_gpu_dtype() is weft.bfloat16
