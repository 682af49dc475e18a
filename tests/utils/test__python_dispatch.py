"""Modes below autograd as users enter them, and what wrapper classes are asked."""

from __future__ import annotations

import pytest

import weft
from tests.handlers import Held, Through
from weft.ops import aten
from weft.utils import _python_dispatch as dispatch


def test_modes_stand_in_a_stack():
    assert dispatch._get_current_dispatch_mode() is None and not dispatch.is_in_torch_dispatch_mode()
    with Through() as outer, Through() as inner:
        assert dispatch._get_current_dispatch_mode_stack() == [outer, inner]
        assert dispatch._get_current_dispatch_mode() is inner
        with dispatch._disable_current_modes() as off:
            weft.ones(1)
            assert off == [outer, inner] and not dispatch.is_in_torch_dispatch_mode()
        with dispatch._pop_mode_temporarily() as popped:
            weft.ones(1)
        assert popped is inner
    assert (outer.seen, inner.seen) == (["aten.ones.default"], [])
    assert dispatch._get_current_dispatch_mode_stack() == []


def test_a_mode_that_changes_nothing():
    with dispatch.BaseTorchDispatchMode():
        assert (weft.ones(2) + 1).tolist() == [2, 2]


def test_a_mode_without_a_handler():
    with pytest.raises(NotImplementedError), dispatch.TorchDispatchMode():
        weft.ones(1)
    assert not dispatch.is_in_torch_dispatch_mode()


def test_what_handlers_return_for_writes():
    x, other = weft.ones(2), weft.zeros(2)
    assert dispatch.return_and_correct_aliasing(aten.add_.Tensor, (x, 1), {}, other) is x
    assert dispatch.return_and_correct_aliasing(aten.add.Tensor, (x, 1), {}, other) is other
    assert dispatch.return_and_correct_aliasing(aten.add.out, (x, 1), {"out": x}, other) is x


class Pair(Held):
    """Tells what it holds."""

    def __tensor_flatten__(self):
        return ["held"], None

    @staticmethod
    def __tensor_unflatten__(inner, context, size, stride):
        return Pair(inner["held"])


def test_wrappers_that_tell_what_they_hold():
    x = Pair(weft.ones(2))
    assert dispatch.is_traceable_wrapper_subclass(x) and dispatch.is_traceable_wrapper_subclass_type(Pair)
    assert not dispatch.is_traceable_wrapper_subclass(weft.ones(1))
    assert not dispatch.is_traceable_wrapper_subclass(Held(weft.ones(1)))
    made = dispatch.transform_subclass(x, lambda name, inner: inner + 1)
    assert type(made) is Pair and made.held.tolist() == [2, 2]
