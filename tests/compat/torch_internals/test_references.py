"""Functions against what they were made of."""

from __future__ import annotations

import pytest

import weft
from weft.compat.torch_internals.references import check_against_reference
from weft.testing.cases import TestCase


def test_the_same_function_passes() -> None:
    x = weft.rand(3, requires_grad=True)
    check_against_reference(TestCase(), lambda a: a.sin() * a, lambda a: a * a.sin(), lambda y: y, (x,))
    check_against_reference(TestCase(), weft.floor, weft.floor, lambda y: y, (x.detach(),), no_grad=True)


def test_other_values_or_gradients_do_not() -> None:
    x = weft.rand(3, requires_grad=True)
    with pytest.raises(AssertionError):
        check_against_reference(TestCase(), weft.sin, weft.cos, lambda y: y, (x,))
    with pytest.raises(AssertionError):
        check_against_reference(
            TestCase(), lambda a: a * a.detach(), lambda a: a * a, lambda y: y, (x,), no_gradgrad=True
        )
