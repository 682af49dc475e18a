"""The version that programs for PyTorch compare with."""

from __future__ import annotations

import pytest

import weft
from weft.torch_version import TorchVersion, __version__


def test_versions_compare_by_number():
    version = TorchVersion("2.13.0+weft")
    assert (
        version > "2.9" and version >= (2, 13) and version == "2.13.0" and version < "3" and version <= "2.13"
    )
    assert version != "2.12" and str(version) == "2.13.0+weft" and version.split(".")[0] == "2"
    assert isinstance(__version__, str) and __version__ >= "2.0"


def test_devices_that_are_not_there_say_so():
    assert not weft.cuda.is_available() and weft.cuda.device_count() == 0 and not weft.mps.is_available()
    assert weft.cpu.is_available() and not weft.backends.cudnn.is_available()
    with weft.backends.cudnn.flags(enabled=False):
        assert not weft.backends.cudnn.enabled
    assert weft.backends.cudnn.enabled
    try:
        weft.cuda.current_device()
    except AssertionError as error:
        assert str(error) == "Torch not compiled with CUDA enabled"


def test_switches_that_nobody_knows_are_refused():
    with pytest.raises(AttributeError, match="Unknown attribute zzz"):
        weft.backends.cuda.matmul.zzz = 1
    with pytest.raises(AttributeError, match="Unknown attribute zzz"):
        weft.backends.cudnn.conv.zzz
