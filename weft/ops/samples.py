"""Samples: example arguments of ops, from which the generated test suites are made.

A record's `samples` is a function of a `Maker`; it yields `Sample(args, kwargs)` whose tensor arguments are
arrays from that maker. Suites turn the arrays into tensors, check kernels against type rules, gradients
against finite differences, and so on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from weft.core.dtypes import dtype, float64
from weft.ops.values import Number


class Sample:
    """Arguments of one example call. `grad=False` where finite differences do not apply (kinks, ties, no
    gradient).
    """

    __slots__ = ("args", "kwargs", "grad")

    def __init__(self, *args: Any, grad: bool = True, **kwargs: Any) -> None:
        self.args, self.kwargs, self.grad = args, kwargs, grad

    def __repr__(self) -> str:
        return f"Sample({self.args!r}, {self.kwargs!r})"


class Maker:
    """Makes reproducible random arrays for samples."""

    def __init__(self, kind: dtype = float64, seed: int = 0) -> None:
        self.kind = kind
        self.random = np.random.default_rng(seed)

    def __call__(self, *shape: int, low: float = -2.0, high: float = 2.0, kind: dtype | None = None) -> Any:
        """An array of this shape with elements between low and high (whole numbers for integer dtypes)."""
        kind = self.kind if kind is None else kind
        if kind.category == 0:
            return np.asarray(self.random.random(shape) < 0.5)
        if kind.category == 1:
            least = int(low) if kind.is_signed else max(int(low), 0)
            return np.asarray(self.random.integers(least, int(high) + 1, shape), dtype=kind.numpy)
        values = self.random.uniform(low, high, shape)
        if kind.is_complex:
            values = values + 1j * self.random.uniform(low, high, shape)
        return np.asarray(values).astype(kind.numpy)

    def ints(self, *shape: int, high: int, low: int = 0) -> Any:
        """Index-like int64 values in [low, high)."""
        return np.asarray(self.random.integers(low, high, shape), dtype=np.int64)

    def bools(self, *shape: int) -> Any:
        return np.asarray(self.random.random(shape) < 0.5)

    def distinct(self, *shape: int) -> Any:
        """Well-separated values in random order: for sorts, maxima and other ops with kinks at ties."""
        count = int(np.prod(shape))
        values = (self.random.permutation(count) - count / 2) * 0.37 + 0.11
        return values.reshape(shape).astype(self.kind.numpy)


Samples = Callable[[Maker], Iterable[Sample]]


def unary_samples(low: float, high: float) -> Samples:
    """For ops of one argument whose domain (and smooth part) lies between low and high."""

    def samples(make: Maker) -> Iterator[Sample]:
        yield Sample(make(2, 3, low=low, high=high))
        yield Sample(make(low=low, high=high))
        yield Sample(make(0, 3, low=low, high=high))
        yield Sample(make(4, 3, low=low, high=high).T)

    return samples


def binary_samples(
    left: tuple[float, float], right: tuple[float, float], scalar: Number | None = 1.5
) -> Samples:
    """For ops of two operands: equal shapes, broadcasting, zero-dim, a Python number."""

    def samples(make: Maker) -> Iterator[Sample]:
        def one(*shape: int) -> Any:
            return make(*shape, low=left[0], high=left[1])

        def two(*shape: int) -> Any:
            return make(*shape, low=right[0], high=right[1])

        yield Sample(one(2, 3), two(2, 3))
        yield Sample(one(2, 3), two(3))
        yield Sample(one(2, 1), two(1, 3))
        yield Sample(one(), two(2))
        yield Sample(one(0, 3), two(1, 3))
        if scalar is not None:
            yield Sample(one(2, 3), scalar)

    return samples


def without_gradient(samples: Samples) -> Samples:
    """The same, for ops that have none."""

    def plain(make: Maker) -> Iterator[Sample]:
        for sample in samples(make):
            sample.grad = False
            yield sample

    return plain
