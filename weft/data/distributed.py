"""A sampler for several processes that train together: each gets its share of one common order."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from weft.data.sampler import Sampler, _randperm
from weft.tensor.random_state import Generator

__all__ = ["DistributedSampler"]


class DistributedSampler(Sampler[int]):
    """The keys of process `rank` out of `num_replicas`: every so many-th of an order that all draw alike.

    `set_epoch` gives each epoch an order of its own.

    >>> list(DistributedSampler(range(5), num_replicas=2, rank=1, shuffle=False))
    [1, 3, 0]
    """

    def __init__(
        self,
        dataset: Any,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        if num_replicas is None or rank is None:
            raise RuntimeError("Requires distributed package to be available")
        if rank >= num_replicas or rank < 0:
            raise ValueError(f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]")
        self.dataset = dataset
        self.num_replicas = num_replicas
        self.rank = rank
        self.epoch = 0
        self.drop_last = drop_last
        size = len(dataset)
        self.num_samples = size // num_replicas if drop_last else math.ceil(size / num_replicas)
        self.total_size = self.num_samples * num_replicas
        self.shuffle = shuffle
        self.seed = seed

    def __iter__(self) -> Iterator[int]:
        size = len(self.dataset)
        order = list(range(size))
        if self.shuffle:
            generator = Generator()
            generator.manual_seed(self.seed + self.epoch)
            order = _randperm(size, generator=generator).tolist()
        if size and self.total_size > size:  # what is missing to equal shares is given twice
            order = (order * math.ceil(self.total_size / size))[: self.total_size]
        return iter(order[self.rank : self.total_size : self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Which epoch comes next: with `shuffle`, each has its own order."""
        self.epoch = epoch
