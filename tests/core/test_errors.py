"""What errors call a class: with its module, and as PyTorch's parser of arguments says it."""

from __future__ import annotations

import collections
import functools

import numpy as np
import pytest

from weft.core.errors import LinAlgError, argument_name, qualified_name


class Outer:
    class Inner:
        pass


def test_our_errors_are_runtime_errors():
    assert issubclass(LinAlgError, RuntimeError)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (int, "int"),
        (np.ndarray, "numpy.ndarray"),
        (collections.deque, "collections.deque"),
        (functools.partial, "functools.partial"),
    ],
)
def test_classes_written_in_c_carry_their_module(kind, text):
    assert (qualified_name(kind), argument_name(kind)) == (text, text)


def test_nested_python_class():
    assert qualified_name(Outer.Inner) == f"{__name__}.Outer.Inner"
    assert argument_name(Outer.Inner) == "Inner"
