"""The loader: an iterable over batches, fetched in this process, or ahead of time by workers.

Takes a data set and PyTorch's options; gives iterators. One idea: tasks are numbered, workers answer in any
order, and the iterator hands out in the order of the numbers.
"""

from __future__ import annotations

import itertools
import multiprocessing
import multiprocessing.context
import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, Protocol, TypeVar, cast

from weft.data.collate import default_collate as default_collate
from weft.data.collate import default_convert as default_convert
from weft.data.dataset import IterableDataset
from weft.data.fetch import DatasetKind
from weft.data.iterators import BaseIterator, SingleIterator
from weft.data.sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler
from weft.data.worker import get_worker_info as get_worker_info
from weft.data.workers import WorkersIterator

__all__ = ["DataLoader"]

T_co = TypeVar("T_co", covariant=True)
_FIXED = ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers")

# Names that PyTorch's users know, though they begin with an underscore.
_DatasetKind = DatasetKind
_BaseDataLoaderIter = BaseIterator
_SingleProcessDataLoaderIter = SingleIterator
_MultiProcessingDataLoaderIter = WorkersIterator


class HasItems(Protocol[T_co]):
    """What samples come from: anything with `[]`."""

    def __getitem__(self, key: Any, /) -> T_co: ...


class _Forever(Sampler[None]):
    """The keys of a stream: nothing, again and again."""

    def __iter__(self) -> Iterator[None]:
        return itertools.repeat(None)


class DataLoader(Generic[T_co]):
    """Batches of a data set, in order or shuffled, fetched here or by `num_workers` processes.

    `threads=True` makes the workers threads of this process: they start at once and share the data set, and
    do well where fetching waits or computes outside of Python.

    >>> import weft
    >>> [batch.tolist() for batch in DataLoader(range(5), batch_size=2)]
    [[0, 1], [2, 3], [4]]
    """

    def __init__(
        self,
        dataset: HasItems[T_co],
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Iterable[Any] | None = None,
        batch_sampler: Iterable[Any] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], Any] | None = None,
        multiprocessing_context: Any = None,
        generator: Any = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
        threads: bool = False,
    ) -> None:
        prefetch_factor = _checked_workers(num_workers, timeout, prefetch_factor, persistent_workers)
        samples: Any = dataset
        self.dataset: Any = dataset
        self.num_workers = num_workers
        self.prefetch_factor = prefetch_factor
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.threads = threads
        self.multiprocessing_context = multiprocessing_context
        self.in_order = in_order
        streams = isinstance(dataset, IterableDataset)
        self._dataset_kind = DatasetKind.Iterable if streams else DatasetKind.Map
        if streams:
            _check_stream(shuffle, sampler, batch_sampler)
        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise ValueError(
                    "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and "
                    "drop_last"
                )
            batch_size = None
        elif batch_size is None and drop_last:
            raise ValueError(
                "batch_size=None option disables auto-batching and is mutually exclusive with drop_last"
            )
        if sampler is None:
            if streams:
                sampler = _Forever()
            elif shuffle:
                sampler = RandomSampler(samples, generator=generator)
            else:
                sampler = SequentialSampler(samples)
        if batch_size is not None and batch_sampler is None:
            batch_sampler = BatchSampler(cast(Iterable[Any], sampler), batch_size, drop_last)
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        self.generator = generator
        if collate_fn is None:
            collate_fn = default_collate if self._auto_collation else default_convert
        self.collate_fn = collate_fn
        self.persistent_workers = persistent_workers
        self._reported_length: int | None = None
        self._iterator: Any = None
        self._initialized = True
        self.check_worker_number_rationality()

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _FIXED and self.__dict__.get("_initialized"):
            raise ValueError(f"{name} attribute should not be set after {type(self).__name__} is initialized")
        super().__setattr__(name, value)

    @property
    def multiprocessing_context(self) -> Any:
        """How processes are started: a context of `multiprocessing`, or None for its default."""
        return self._context

    @multiprocessing_context.setter
    def multiprocessing_context(self, context: Any) -> None:
        if context is not None:
            if self.num_workers <= 0:
                raise ValueError(
                    "multiprocessing_context can only be used with multi-process loading (num_workers > 0), "
                    f"but got num_workers={self.num_workers}"
                )
            if isinstance(context, str):
                known = multiprocessing.get_all_start_methods()
                if context not in known:
                    raise ValueError(
                        "multiprocessing_context option should specify a valid start method in "
                        f"{known!r}, but got multiprocessing_context={context!r}"
                    )
                context = multiprocessing.get_context(context)
            if not isinstance(context, multiprocessing.context.BaseContext):
                raise TypeError(
                    "multiprocessing_context option should be a valid context object or a string "
                    f"specifying the start method, but got multiprocessing_context={context}"
                )
        self._context = context

    @property
    def _auto_collation(self) -> bool:
        return self.batch_sampler is not None

    @property
    def _index_sampler(self) -> Any:
        return self.batch_sampler if self._auto_collation else self.sampler

    def _get_iterator(self) -> Any:
        if self.num_workers == 0:
            return SingleIterator(self)
        self.check_worker_number_rationality()
        return WorkersIterator(self)

    def __iter__(self) -> Any:
        if not self.persistent_workers or self.num_workers == 0:
            return self._get_iterator()
        if self._iterator is None:
            self._iterator = self._get_iterator()
        else:
            self._iterator._reset(self)
        return self._iterator

    def __len__(self) -> int:
        if self._dataset_kind == DatasetKind.Iterable:
            length = self._reported_length = len(self.dataset)
            if self.batch_size is not None:
                length = length // self.batch_size if self.drop_last else -(-length // self.batch_size)
            return length
        return len(self._index_sampler)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_iterator": None}

    def check_worker_number_rationality(self) -> None:
        """Warns where more processes are asked for than this machine has processors."""
        if not self.num_workers or self.threads:
            return
        if hasattr(os, "sched_getaffinity"):
            found, checked = len(os.sched_getaffinity(0)), True
        else:
            found, checked = os.cpu_count() or 0, False
        if not found:
            advice = "DataLoader is not able to compute a suggested max number of worker in current system."
        elif self.num_workers > found:
            note = "" if checked else " (`cpuset` is not taken into account)"
            advice = (
                f"Our suggested max number of worker in current system is {found}{note}, which is smaller "
                "than what this DataLoader is going to create."
            )
        else:
            return
        warnings.warn(
            f"This DataLoader will create {self.num_workers} worker processes in total. {advice} "
            "Please be aware that excessive worker creation might get DataLoader running slow or even "
            "freeze, lower the worker number to avoid potential slowness/freeze if necessary.",
            stacklevel=3,
        )


def _checked_workers(
    num_workers: int, timeout: float, prefetch_factor: int | None, persistent_workers: bool
) -> int | None:
    if num_workers < 0:
        raise ValueError(
            "num_workers option should be non-negative; use num_workers=0 to disable multiprocessing."
        )
    if timeout < 0:
        raise ValueError("timeout option should be non-negative")
    if num_workers == 0 and prefetch_factor is not None:
        raise ValueError(
            "prefetch_factor option could only be specified in multiprocessing."
            "let num_workers > 0 to enable multiprocessing, otherwise set prefetch_factor to None."
        )
    if num_workers > 0 and prefetch_factor is None:
        prefetch_factor = 2
    elif prefetch_factor is not None and prefetch_factor < 0:
        raise ValueError("prefetch_factor option should be non-negative")
    if persistent_workers and num_workers == 0:
        raise ValueError("persistent_workers option needs num_workers > 0")
    return prefetch_factor


def _check_stream(shuffle: Any, sampler: Any, batch_sampler: Any) -> None:
    shuffle = None if shuffle in (False, None) else shuffle
    given = {"shuffle": shuffle, "sampler": sampler, "batch_sampler": batch_sampler}
    for name, value in given.items():
        if value is not None:
            raise ValueError(
                f"DataLoader with IterableDataset: expected unspecified {name} option, but got {name}={value}"
            )
