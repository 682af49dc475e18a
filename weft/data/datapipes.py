"""Data pipes: streams and indexed sets whose steps are also methods, `pipe.map(f)` for `Mapper(pipe, f)`.

Takes classes of pipes, and the names under which they are to be methods; gives base classes that have every
such name. One idea: a pipe is a data set, and what its methods make is another pipe.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from weft.data.dataset import Dataset, IterableDataset

T_co = TypeVar("T_co", covariant=True)

__all__ = ["DFIterDataPipe", "DataChunk", "IterDataPipe", "MapDataPipe", "functional_datapipe"]


class _Pipe:
    """What both kinds of pipes have: names of steps, each family its own."""

    functions: dict[str, Callable[..., Any]]

    def __getattr__(self, name: str) -> Any:
        if name in type(self).functions:
            return functools.partial(type(self).functions[name], self)
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}")

    @classmethod
    def register_function(cls, function_name: str, function: Callable[..., Any]) -> None:
        """Makes a function of a pipe a method of all pipes of this family."""
        cls.functions[function_name] = function

    @classmethod
    def register_datapipe_as_function(
        cls, function_name: str, cls_to_register: type, enable_df_api_tracing: bool = False
    ) -> None:
        """Makes a class of pipes a method of all pipes of this family."""
        if function_name in cls.functions:
            raise Exception(f"Unable to add DataPipe function name {function_name} as it is already taken")

        def made(source: Any, *args: Any, **kwargs: Any) -> Any:
            return cls_to_register(source, *args, **kwargs)

        functools.update_wrapper(made, cls_to_register, assigned=("__doc__",), updated=())
        cls.functions[function_name] = made

    def __getstate__(self) -> Any:
        return self.__dict__

    def __str__(self) -> str:
        return type(self).__qualname__

    __repr__ = __str__


class IterDataPipe(_Pipe, IterableDataset[T_co]):
    """A stream of data: subclasses give `__iter__`.

    >>> from weft.data import IterDataPipe, functional_datapipe
    >>> @functional_datapipe("times")
    ... class Times(IterDataPipe):
    ...     def __init__(self, source, factor):
    ...         self.source, self.factor = source, factor
    ...
    ...     def __iter__(self):
    ...         for item in self.source:
    ...             yield item * self.factor
    >>> class Numbers(IterDataPipe):
    ...     def __iter__(self):
    ...         yield from range(3)
    >>> list(Numbers().times(2).times(5))
    [0, 10, 20]
    """

    functions: dict[str, Callable[..., Any]] = {}


class DFIterDataPipe(IterDataPipe[Any]):
    """A stream of data frames."""


class MapDataPipe(_Pipe, Dataset[T_co]):
    """Data by keys: subclasses give `__getitem__`, and `__len__`."""

    functions: dict[str, Callable[..., Any]] = {}


class functional_datapipe:
    """Decorator: makes a class of pipes a method, under a name, of all pipes of its family."""

    def __init__(self, name: str, enable_df_api_tracing: bool = False) -> None:
        self.name, self.enable_df_api_tracing = name, enable_df_api_tracing

    def __call__(self, cls: Any) -> Any:
        families = [family for family in (IterDataPipe, MapDataPipe) if issubclass(cls, family)]
        if not families:
            raise TypeError("`functional_datapipe` can only decorate IterDataPipe")
        families[0].register_datapipe_as_function(self.name, cls)
        return cls


T = TypeVar("T")


class DataChunk(list[T], Generic[T]):
    """Items that came together, which a batching pipe hands on."""

    def __init__(self, items: Iterable[T]) -> None:
        items = list(items)
        super().__init__(items)
        self.items = items

    def as_str(self, indent: str = "") -> str:
        """The items as text."""
        return indent + "[" + ", ".join(str(item) for item in self) + "]"

    def raw_iterator(self) -> Any:
        """An iterator over the items, as a list's."""
        yield from self.items
