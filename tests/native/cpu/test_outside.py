from __future__ import annotations

import ctypes
import math

import pytest

from weft.native.cpu.outside import NAMES, address_of, place_of, table


def test_each_function_stands_at_its_place() -> None:
    assert [place_of(name) for name in NAMES] == list(range(len(NAMES)))
    assert [int(each) for each in table()] == [address_of(name) for name in NAMES]


def test_addresses_are_of_the_functions() -> None:
    shape = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double, ctypes.c_double)
    assert shape(int(table()[place_of("fmod.f64")]))(7.5, -2.0) == math.fmod(7.5, -2.0) == 1.5


def test_what_the_table_lacks_is_an_error() -> None:
    with pytest.raises(KeyError, match="erfc.f64: machine code calls what"):
        place_of("erfc.f64")
    with pytest.raises(KeyError, match="no library"):
        address_of("there_is_no_such_function.f64")
