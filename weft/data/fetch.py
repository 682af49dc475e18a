"""Fetching: from the keys of a batch to the batch.

Takes a data set and a function that collates; gives objects with one method. One idea: rows of plain tensors
that are to be stacked are gathered at once, which gives the same tensors as row by row, sooner.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from weft.core.dtypes import int64
from weft.data.collate import default_collate
from weft.data.dataset import Subset, TensorDataset
from weft.tensor.base import Tensor
from weft.tensor.creation import tensor


@dataclass(eq=False, repr=False)
class Fetcher:
    """What both kinds are made of; `ended` tells when there are no more samples."""

    dataset: Any
    auto_collation: bool
    collate_fn: Callable[[Any], Any]
    drop_last: bool
    ended: bool = field(default=False, init=False)


class MapFetcher(Fetcher):
    """Fetches by keys from a data set with `__getitem__`."""

    def fetch(self, key: Any) -> Any:
        dataset = self.dataset
        if not self.auto_collation:
            return self.collate_fn(dataset[key])
        if self.collate_fn is default_collate:
            gathered = _gathered(dataset, key)
            if gathered is not None:
                return gathered
        if getattr(dataset, "__getitems__", None):
            data = dataset.__getitems__(key)
        else:
            data = [dataset[index] for index in key]
        return self.collate_fn(data)


def _gathered(dataset: Any, keys: Any) -> list[Tensor] | None:
    """The batch of these rows, if the data set is tensors and nothing else and keys are plain numbers."""
    if type(dataset) is Subset and type(dataset.dataset) is TensorDataset:
        try:
            keys = [dataset.indices[key] for key in keys]
        except (IndexError, TypeError):
            return None  # let the usual way say what is wrong
        dataset = dataset.dataset
    if type(dataset) is not TensorDataset or type(keys) is not list or not keys:
        return None
    tensors = dataset.tensors
    if any(type(each) is not Tensor or each.tracked or each.is_meta for each in tensors):
        return None
    size = len(dataset)
    if any(type(key) is not int or not 0 <= key < size for key in keys):
        return None
    rows = tensor(keys, dtype=int64)
    return [each[rows] for each in tensors]


@dataclass(eq=False, repr=False)
class IterableFetcher(Fetcher):
    """Takes the next samples of a stream."""

    def __post_init__(self) -> None:
        self.iterator = iter(self.dataset)

    def fetch(self, key: Any) -> Any:
        if self.ended:
            raise StopIteration
        if not self.auto_collation:
            return self.collate_fn(next(self.iterator))
        data = []
        for _ in key:
            try:
                data.append(next(self.iterator))
            except StopIteration:
                self.ended = True
                break
        if not data or (self.drop_last and len(data) < len(key)):
            raise StopIteration
        return self.collate_fn(data)


class DatasetKind:
    """Which of the two a data set is."""

    Map = 0
    Iterable = 1

    @staticmethod
    def create_fetcher(
        kind: int, dataset: Any, auto_collation: bool, collate_fn: Callable[[Any], Any], drop_last: bool
    ) -> MapFetcher | IterableFetcher:
        made = MapFetcher if kind == DatasetKind.Map else IterableFetcher
        return made(dataset, auto_collation, collate_fn, drop_last)
