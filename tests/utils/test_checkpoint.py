"""Names of `weft.utils.checkpoint`."""

from __future__ import annotations

import pytest

import weft


def test_states_of_devices_are_those_of_none():
    from weft.utils.checkpoint import DefaultDeviceType, get_device_states, set_device_states

    assert get_device_states(weft.ones(2)) == ([], []) and DefaultDeviceType.get_device_type() == "cpu"
    set_device_states([], [])
    with pytest.raises(RuntimeError, match="no device of type 'cuda'"):
        set_device_states([0], [weft.ones(2)], device_type="cuda")


def test_modules_of_devices():
    assert weft.get_device_module() is weft.cpu is weft.get_device_module("cpu")
    assert weft.get_device_module("cuda") is weft.cuda
    with pytest.raises(RuntimeError, match="no module of functions for devices of type 'meta'"):
        weft.get_device_module("meta")
    assert weft.cuda.OutOfMemoryError is weft.OutOfMemoryError and issubclass(
        weft.AcceleratorError, RuntimeError
    )
