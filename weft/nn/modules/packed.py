"""Sequences of several lengths as one: `PackedSequence`.

Takes and gives tuples of tensors. One idea: the first steps of all sequences lie together, then the second
steps of those that have one, and so on; with the longest sequence first, the sequences that have a step are
always the first so many.
"""

from __future__ import annotations

from collections import namedtuple
from typing import Any

from weft.core.dtypes import int64
from weft.ops.record import ops
from weft.tensor.creation import tensor

__all__ = ["PackedSequence", "invert_permutation"]

_Parts = namedtuple("_Parts", ["data", "batch_sizes", "sorted_indices", "unsorted_indices"])
_Parts.__new__.__defaults__ = (None, None, None)


def invert_permutation(permutation: Any) -> Any:
    """The permutation that undoes this one; None for None."""
    if permutation is None:
        return None
    order = ops.arange(0, permutation.numel(), device=permutation.device)
    return ops.scatter(ops.empty_like(permutation), 0, permutation, order)


def counted(sizes: Any) -> Any:
    """`batch_sizes` of these numbers, which the tensor remembers: a graph can then be built for them."""
    made: Any = tensor(sizes, dtype=int64)
    made._packed_sizes = tuple(sizes)
    return made


def counts_of(batch_sizes: Any) -> list[Any]:
    """The numbers in `batch_sizes`."""
    known = getattr(batch_sizes, "_packed_sizes", None)
    return batch_sizes.tolist() if known is None else list(known)


class PackedSequence(_Parts):
    """Sequences step by step: `data` holds the steps, `batch_sizes` how many sequences have each; the two
    permutations say how sequences were sorted by length. Made by `pack_padded_sequence` and
    `pack_sequence`."""

    def __new__(
        cls,
        data: Any,
        batch_sizes: Any = None,
        sorted_indices: Any = None,
        unsorted_indices: Any = None,
    ) -> PackedSequence:
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        if batch_sizes is None:
            if not (isinstance(data, (list, tuple)) and len(data) == 2):
                raise AssertionError("expected data to be a tuple of (data, batch_sizes)")
            data, batch_sizes = data
        elif batch_sizes.device.type != "cpu":
            raise ValueError(
                "batch_sizes should always be on CPU. Instances of PackedSequence should never be created "
                "manually. They should be instantiated by functions like pack_sequence and "
                "pack_padded_sequences in nn.utils.rnn. "
                "https://pytorch.org/docs/stable/nn.html#torch.nn.utils.rnn.pack_sequence"
            )
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """Moves or casts the data; itself where nothing changes."""
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        where = {
            key: value for key, value in kwargs.items() if key not in ("device", "dtype", "memory_format")
        }
        order = [
            None if indices is None else indices.to(data.device, **where)
            for indices in (self.sorted_indices, self.unsorted_indices)
        ]
        return type(self)(data, self.batch_sizes, *order)

    def _cast(self, name: str) -> PackedSequence:
        return type(self)(getattr(self.data, name)(), *self[1:])

    def double(self) -> PackedSequence:
        """The data as float64."""
        return self._cast("double")

    def float(self) -> PackedSequence:
        """The data as float32."""
        return self._cast("float")

    def half(self) -> PackedSequence:
        """The data as float16."""
        return self._cast("half")

    def long(self) -> PackedSequence:
        """The data as int64."""
        return self._cast("long")

    def int(self) -> PackedSequence:
        """The data as int32."""
        return self._cast("int")

    def short(self) -> PackedSequence:
        """The data as int16."""
        return self._cast("short")

    def char(self) -> PackedSequence:
        """The data as int8."""
        return self._cast("char")

    def byte(self) -> PackedSequence:
        """The data as uint8."""
        return self._cast("byte")

    def cpu(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """The data on the CPU."""
        return self.to(*args, **{"device": "cpu", **kwargs})

    def cuda(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """The data on a GPU."""
        return self.to(*args, **{"device": "cuda", **kwargs})

    def pin_memory(self) -> PackedSequence:
        """The data in memory that GPUs read at once."""
        order = [None if indices is None else indices.pin_memory() for indices in self[2:]]
        return type(self)(self.data.pin_memory(), self.batch_sizes, *order)

    @property
    def is_cuda(self) -> bool:
        """Whether the data lies on a GPU."""
        return self.data.is_cuda

    def is_pinned(self) -> bool:
        """Whether the data lies in memory that GPUs read at once."""
        return self.data.is_pinned()


PackedSequence.__module__ = "weft.nn.utils.rnn"  # where users import it from
