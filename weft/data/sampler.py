"""Samplers: in which order the samples of a data set are fetched, and which make up a batch.

Takes lengths, weights and generators; gives iterators over keys, or over lists of keys. One idea: all the
chance there is comes from a generator, so that an order can be had again from its seed.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from typing import Any, Generic, TypeVar

from weft.core.dtypes import float64, int64
from weft.tensor.base import Tensor
from weft.tensor.creation import as_tensor
from weft.tensor.faces import FUNCTIONS
from weft.tensor.random_state import Generator

__all__ = [
    "BatchSampler", "RandomSampler", "Sampler", "SequentialSampler", "SubsetRandomSampler",
    "WeightedRandomSampler",
]  # fmt: skip

T_co = TypeVar("T_co", covariant=True)

_empty: Callable[..., Any] = FUNCTIONS["empty"]
_multinomial: Callable[..., Tensor] = FUNCTIONS["multinomial"]
_randint: Callable[..., Tensor] = FUNCTIONS["randint"]
_randperm: Callable[..., Tensor] = FUNCTIONS["randperm"]


def draw_seed(generator: Any = None) -> int:
    """A number from the generator (the default one, if none is given) to seed another with."""
    return int(_empty((), dtype=int64).random_(generator=generator).item())


def _check_flag(name: str, value: Any, error: type[Exception] = ValueError) -> None:
    if not isinstance(value, bool):
        raise error(f"{name} should be a boolean value, but got {name}={value}")


def _check_count(name: str, value: Any) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        raise ValueError(f"{name} should be a positive integer value, but got {name}={value}")


class Sampler(Generic[T_co]):
    """Keys of samples in some order. Subclasses give `__iter__`, and `__len__` if they know it."""

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError


class SequentialSampler(Sampler[int]):
    """0, 1, 2 and so on.

    >>> list(SequentialSampler("abc"))
    [0, 1, 2]
    """

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """All numbers in random order; or so many draws, with or without putting back.

    >>> sorted(RandomSampler("abc"))
    [0, 1, 2]
    """

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Any = None,
    ) -> None:
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator
        _check_flag("replacement", self.replacement, TypeError)
        if self.num_samples is not True:
            _check_count("num_samples", self.num_samples)

    @property
    def num_samples(self) -> int:
        """How many keys one pass gives: as many as there are samples, unless said otherwise."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        size, wanted = len(self.data_source), self.num_samples
        generator = self.generator
        if generator is None:  # a stream of its own, so that other draws in between change nothing
            generator = Generator()
            generator.manual_seed(draw_seed())
        if self.replacement:
            for start in range(0, wanted, 32):
                count = min(32, wanted - start)
                yield from _randint(high=size, size=(count,), dtype=int64, generator=generator).tolist()
            return
        for _ in range(wanted // size):
            yield from _randperm(size, generator=generator).tolist()
        yield from _randperm(size, generator=generator).tolist()[: wanted % size]

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """These keys, in random order.

    >>> sorted(SubsetRandomSampler([5, 3]))
    [3, 5]
    """

    def __init__(self, indices: Sequence[int], generator: Any = None) -> None:
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        for place in _randperm(len(self.indices), generator=self.generator).tolist():
            yield self.indices[place]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Numbers drawn with these probabilities, which need not sum to one.

    >>> list(WeightedRandomSampler([0.0, 1.0, 0.0], 4))
    [1, 1, 1, 1]
    """

    def __init__(
        self, weights: Any, num_samples: int, replacement: bool = True, generator: Any = None
    ) -> None:
        _check_count("num_samples", num_samples)
        _check_flag("replacement", replacement)
        known = as_tensor(weights, dtype=float64)
        if len(known.shape) != 1:
            raise ValueError(
                f"weights should be a 1d sequence but given weights have shape {tuple(known.shape)}"
            )
        self.weights = known
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        drawn = _multinomial(self.weights, self.num_samples, self.replacement, generator=self.generator)
        yield from drawn.tolist()

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """The keys of another sampler in lists of one length; the last may be shorter, or is left out.

    >>> list(BatchSampler(range(5), 2, drop_last=False))
    [[0, 1], [2, 3], [4]]
    """

    def __init__(self, sampler: Iterable[int], batch_size: int, drop_last: bool) -> None:
        _check_count("batch_size", batch_size)
        _check_flag("drop_last", drop_last)
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[int]]:
        keys = iter(self.sampler)
        while batch := list(itertools.islice(keys, self.batch_size)):
            if len(batch) < self.batch_size and self.drop_last:
                return
            yield batch

    def __len__(self) -> int:
        sampler: Any = self.sampler
        count = len(sampler)
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)
