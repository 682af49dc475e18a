"""Guards on tensors: type, sizes, strides and facts."""

from __future__ import annotations

from typing import Any

import numpy as np

import weft
from tests.capture.watchful import (
    Liar,
    X,
    check,
    facts_of,
)
from weft.capture.guards import (
    Guard,
)
from weft.tensor.base import Tensor


class Sub(Tensor): ...


def test_tensors() -> None:
    x = weft.ones(2, 3)
    guard = facts_of(x)
    assert check(guard, x=x) and check(guard, x=weft.zeros(2, 3))
    misses = [
        weft.ones(2, 4), weft.ones(3), weft.ones(2, 3, 1), weft.ones(2, 3, dtype=weft.float64),
        weft.ones(2, 3, requires_grad=True), weft.nn.Parameter(x), x.as_subclass(Sub),
        weft.ones(2, 3, device="meta"), x.array, None, 3, Liar(),
    ]  # fmt: skip
    for value in misses:
        assert not check(guard, x=value)
    assert check(facts_of(misses[4]), x=misses[4]) and check(facts_of(misses[5]), x=misses[5])
    assert check(facts_of(misses[7]), x=misses[7]) and not check(facts_of(misses[7]), x=x)
    assert check(facts_of(weft.tensor(1.0)), x=weft.tensor(2.0))


def test_tensors_over_other_arrays() -> None:
    class Odd(np.ndarray[Any, Any]): ...

    x = weft.ones(2)
    guard = facts_of(x)
    x.array = x.array.view(Odd)
    assert not check(guard, x=x)
    x.array = np.ones(2, np.dtype("f4").newbyteorder())
    assert not check(guard, x=x)


def test_sizes_that_may_vary() -> None:
    guard = facts_of(weft.ones(2, 3), 0)
    assert check(guard, x=weft.ones(7, 3))
    for value in (weft.ones(2, 4), weft.ones(2), weft.ones(2, 3, 3), weft.ones(7, 3, dtype=weft.int64)):
        assert not check(guard, x=value)
    assert check([guard, Guard("EQ", X.size(0), 7)], x=weft.ones(7, 3))
    assert not check([guard, Guard("EQ", X.size(0), 7)], x=weft.ones(8, 3))
    place = X.member("array").member("shape")
    assert check([Guard("LEN", place, 2), guard, Guard("EQ", place.item(0), 7)], x=weft.ones(7, 3))


def test_strides() -> None:
    x = weft.ones(2, 3)
    for guards in ([Guard("STRIDE", X, (3, 1))], [facts_of(x), Guard("STRIDE", X, (3, 1))]):
        assert check(guards, x=x) and not check(guards, x=weft.ones(3, 2).t())
    assert check([facts_of(x, 0), Guard("STRIDE", X, (3, 1))], x=weft.ones(5, 3))
    empty = weft.ones(0, 3)
    assert check([facts_of(empty), Guard("STRIDE", X, empty.stride())], x=empty)
    assert not check(Guard("STRIDE", X, (3, 1)), x=Liar())


def test_facts_of_tensors() -> None:
    leaf = weft.ones(2, requires_grad=True)
    made, view = leaf * 2, weft.ones(2, 2)[0]
    strided = weft.ones(2, 2).t()
    for name, yes, no in (
        ("is_leaf", leaf, made),
        ("is_view", view, leaf),
        ("is_contiguous", leaf, strided),
    ):
        for value, fact in ((yes, True), (no, False)):
            assert check(Guard("FACT", X, (name, fact)), x=value)
            assert not check(Guard("FACT", X, (name, not fact)), x=value)
            assert check([facts_of(value), Guard("FACT", X, (name, fact))], x=value)
            assert not check([facts_of(value), Guard("FACT", X, (name, not fact))], x=value)
    assert check(Guard("FACT", X, ("has_grad", False)), x=leaf)
    made.sum().backward()
    assert check(Guard("FACT", X, ("has_grad", True)), x=leaf)
    assert not check(Guard("FACT", X, ("is_leaf", True)), x=3)
