"""Every sample of every op under a dispatch mode and on tensors whose class has no arrays: values, gradients
and what is written are eager's.

A mode that hands each operator on, and a class that unwraps its tensors, see the same operators whatever op a
user calls; what skips them, or spells arguments so that they cannot be called back, fails here by its name.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import weft
from tests import wide
from tests.handlers import Held, Through
from tests.whole.test_alien_samples import OPS, UNSET, flat, strided_copy
from weft.core import dtypes
from weft.ops.record import Kind, Op
from weft.ops.samples import Maker
from weft.tensor.base import wrap


def given(value: Any, make: Any, leaves: list[Any] | None) -> Any:
    """The arrays of an argument as tensors; leaves are those that require grad, where there shall be some."""
    if isinstance(value, np.ndarray):
        array = value.copy(order="K") if value.base is None else strided_copy(value)
        tensor = make(wrap(array))
        if array.dtype.kind == "f" and leaves is not None:
            leaves.append(tensor.requires_grad_())
        return tensor
    if isinstance(value, (tuple, list)) and not hasattr(value, "_fields"):
        return type(value)([given(item, make, leaves) for item in value])
    return value


def plain(value: Any) -> Any:
    return value.held if isinstance(value, Held) else value


def outcome(op: Op, sample: Any, make: Any, mode: Any, grad: bool) -> list[Any]:
    """Results and gradients of a call, or the error that it raises."""
    leaves: list[Any] | None = [] if grad else None
    args = given(sample.args, make, leaves)
    kwargs = {name: given(value, make, leaves) for name, value in sample.kwargs.items()}
    weft.manual_seed(0)
    with mode:
        try:
            results = op.face(*args, **kwargs)
        except Exception as error:
            return [type(error)]
        live = [
            r for r in flat([results]) if isinstance(r, weft.Tensor) and r.requires_grad and not r.is_leaf
        ]
        found = [plain(each) for each in flat([results])]
        if live and leaves and op.kind is not Kind.RANDOM:
            total = sum(each.abs().sum() for each in live)
            try:
                grads = weft.autograd.grad(total, leaves, allow_unused=True)
            except Exception as error:
                return [type(error)]
            found += [plain(each) for each in grads]
    return [each.detach() if isinstance(each, weft.Tensor) else each for each in found]


def same(a: Any, b: Any) -> None:
    assert len(a) == len(b), (a, b)
    for one, other in zip(a, b):
        if isinstance(one, weft.Tensor):
            assert isinstance(other, weft.Tensor), (one, other)
            np.testing.assert_allclose(other.numpy(), one.numpy(), rtol=1e-5, atol=1e-6)
        else:
            assert one == other or (one != one and other != other), (one, other)


@pytest.mark.parametrize("kind", ["mode", "class"])
@wide.over([op for op in OPS if not op.qualified_name.startswith(UNSET)])
@pytest.mark.parametrize("grad", [True, False])
def test_handlers_change_nothing(op, kind, grad):
    for sample in op.samples(Maker(dtypes.float64)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = outcome(op, sample, lambda t: t, weft.enable_grad(), grad)
            make, mode = (lambda t: t, Through()) if kind == "mode" else (Held, weft.enable_grad())
            same(expected, outcome(op, sample, make, mode, grad))


def left(op: Op, sample: Any, make: Any, mode: Any, form: str) -> list[Any]:
    """What the in-place form or the `out=` form leaves in the tensor that it writes to."""
    args = given(sample.args, make, None)
    kwargs = {name: given(value, make, None) for name, value in sample.kwargs.items()}
    weft.manual_seed(0)
    with mode:
        try:
            if form == "inplace":
                result = getattr(weft.Tensor, f"{op.name}_")(*args, **kwargs)
                assert result is args[0]
                return [plain(args[0])]
            results = op.face(*args, **kwargs)
            empty = [weft.empty_like(each) for each in flat([results])]
            out = empty[0] if isinstance(results, weft.Tensor) else tuple(empty)
            op.face(*args, **kwargs, out=out)
            return [plain(each) for each in empty]
        except Exception as error:
            return [type(error)]


def has_form(op: Op, form: str) -> bool:
    return bool(op.inplace if form == "inplace" else op.out)


@pytest.mark.parametrize("kind", ["mode", "class"])
@pytest.mark.parametrize("form", ["inplace", "out"])
@wide.over([op for op in OPS if (op.inplace or op.out) and not op.qualified_name.startswith(UNSET)])
def test_handlers_see_writes(op, form, kind):
    if not has_form(op, form):
        pytest.skip("no such form")
    for sample in op.samples(Maker(dtypes.float64)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = left(op, sample, lambda t: t, weft.no_grad(), form)
            make, mode = (lambda t: t, Through()) if kind == "mode" else (Held, weft.no_grad())
            same(expected, left(op, sample, make, mode, form))
