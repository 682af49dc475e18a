"""Names of custom ops under `weft.ops`."""

from __future__ import annotations

import pytest

import weft
from weft.ops import custom


def test_names_come_and_go():
    custom.enter("some_library", "some_op", 3)
    assert weft.ops.some_library.some_op == 3
    assert dir(weft.ops.some_library) == ["some_op"]
    assert repr(weft.ops.some_library) == "<module 'weft.ops.some_library' from 'weft.ops'>"
    with pytest.raises(AttributeError, match="'_OpNamespace' 'some_library' object has no attribute 'other'"):
        weft.ops.some_library.other
    custom.remove("some_library", "some_op")
    with pytest.raises(AttributeError, match="has no attribute 'some_library'"):
        weft.ops.some_library
    custom.remove("some_library", "some_op")


def test_modules_stay_themselves():
    assert weft.ops.linalg.__name__ == "weft.ops.linalg"
    assert not hasattr(weft.ops, "nonsuch")
