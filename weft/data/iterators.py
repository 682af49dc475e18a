"""Iterators over a loader: what all share, and the one that fetches by itself.

Takes a loader; gives its batches one by one. One idea: an iterator takes from the loader what it needs when
it is made, so that both go their own way afterwards.
"""

from __future__ import annotations

import warnings
from time import perf_counter
from typing import Any

from weft.core.progress import working
from weft.data.fetch import DatasetKind
from weft.data.sampler import draw_seed

QUICK = 0.5
"""Seconds: a batch that took less is followed by one that nobody is told of waiting for."""


class BaseIterator:
    """What iterators over a loader share: the keys, a seed, and a count of what was given."""

    def __init__(self, loader: Any) -> None:
        if loader.pin_memory_device:
            warnings.warn(
                "pin_memory_device is deprecated, the current accelerator will be used as the device,"
                f"ignore pin_memory_device='{loader.pin_memory_device}'.",
                stacklevel=4,
            )
        if loader.pin_memory:
            warnings.warn(
                "'pin_memory' argument is set as true but no accelerator is found, then device pinned memory "
                "won't be used.",
                stacklevel=4,
            )
        self._dataset = loader.dataset
        self._kind = loader._dataset_kind
        self._sampler = loader._index_sampler
        self._num_workers = loader.num_workers
        self._timeout = loader.timeout
        self._keys = iter(self._sampler)
        self._base_seed = draw_seed(loader.generator)
        self._given = 0
        self._took = float("inf")  # what the last batch took
        self._reported_length = loader._reported_length

    def __iter__(self) -> BaseIterator:
        return self

    def _reset(self, loader: Any) -> None:
        self._keys = iter(self._sampler)
        self._given = 0
        self._reported_length = loader._reported_length

    def _next_data(self) -> Any:
        raise NotImplementedError

    def __next__(self) -> Any:
        began = perf_counter()
        if self._took < QUICK:
            data = self._next_data()
        else:
            with working(f"loading batch {self._given + 1}"):
                data = self._next_data()
        self._took = perf_counter() - began
        self._given += 1
        length = self._reported_length
        if self._kind == DatasetKind.Iterable and length is not None and self._given > length:
            text = (
                f"Length of IterableDataset {self._dataset} was reported to be {length}"
                f"(when accessing len(dataloader)), but {self._given} samples have been fetched. "
            )
            if self._num_workers > 0:
                text += (
                    "For multiprocessing data-loading, this could be caused by not properly configuring the "
                    "IterableDataset replica at each worker. Please see "
                    "https://pytorch.org/docs/stable/data.html#torch.utils.data.IterableDataset for examples."
                )
            warnings.warn(text, stacklevel=2)
        return data

    def __len__(self) -> int:
        return len(self._sampler)

    def __getstate__(self) -> Any:
        raise NotImplementedError("{} cannot be pickled", type(self).__name__)


class SingleIterator(BaseIterator):
    """Fetches each batch when it is asked for."""

    def __init__(self, loader: Any) -> None:
        super().__init__(loader)
        if self._timeout != 0:
            raise AssertionError("a DataLoader without workers requires timeout == 0")
        self._fetcher = DatasetKind.create_fetcher(
            self._kind, self._dataset, loader._auto_collation, loader.collate_fn, loader.drop_last
        )

    def _next_data(self) -> Any:
        return self._fetcher.fetch(next(self._keys))
