"""Sequences of several lengths: padded, packed, and back.

Takes lists of tensors or a padded tensor with lengths, gives the other forms. One idea: steps that the same
number of sequences have are one block, so that everything is a few slices, not a loop over elements.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

from weft.core.dtypes import int64
from weft.nn.modules.packed import PackedSequence as PackedSequence
from weft.nn.modules.packed import counted, counts_of
from weft.nn.modules.packed import invert_permutation as invert_permutation
from weft.ops.record import ops
from weft.tensor.base import Tensor
from weft.tensor.creation import tensor

__all__ = [
    "PackedSequence",
    "invert_permutation",
    "pack_padded_sequence",
    "pack_sequence",
    "pad_packed_sequence",
    "pad_sequence",
    "unpack_sequence",
    "unpad_sequence",
]


def _blocks(sizes: Sequence[int]) -> list[tuple[int, int]]:
    """(number of steps, sequences that have them), for steps that follow one another."""
    return [(len(list(steps)), size) for size, steps in groupby(sizes)]


def _check_lengths(lengths: list[int], batch: int, enforce_sorted: bool) -> None:
    if len(lengths) != batch:
        raise RuntimeError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {len(lengths)} (batch_size={batch})"
        )
    if any(length <= 0 for length in lengths):
        raise RuntimeError(
            "Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0"
        )
    if enforce_sorted and any(first < second for first, second in zip(lengths, lengths[1:])):
        raise RuntimeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can pass "
            "`enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to sidestep this "
            "requirement if you do not need ONNX exportability."
        )


def pack_padded_sequence(
    input: Tensor, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Packs a padded batch `(T, N, *)`, or `(N, T, *)` if `batch_first`; with `enforce_sorted` off, sorts it
    by length first.

    >>> import weft
    >>> x = weft.tensor([[1, 2, 0], [3, 0, 0], [4, 5, 6]])
    >>> packed = weft.nn.utils.rnn.pack_padded_sequence(x, [2, 1, 3], True, enforce_sorted=False)
    >>> packed.data.tolist(), packed.batch_sizes.tolist()
    ([4, 1, 3, 5, 2, 6], [3, 2, 1])
    """
    if isinstance(lengths, Tensor):
        if lengths.dim() != 1:
            raise RuntimeError(
                f"'lengths' argument should be a 1D CPU int64 tensor, but got {lengths.dim()}D"
            )
        lengths = lengths.tolist()
    counts = [int(length) for length in lengths]
    batch = input.shape[0 if batch_first else 1]
    _check_lengths(counts, batch, enforce_sorted)
    order = None
    if not enforce_sorted:
        places = sorted(range(batch), key=lambda place: -counts[place])
        order = tensor(places, dtype=int64, device=input.device)
        input = ops.index_select(input, 0 if batch_first else 1, order)
        counts = [counts[place] for place in places]
    steps = ops.transpose(input, 0, 1) if batch_first else input
    if counts[0] > steps.shape[0]:
        raise RuntimeError(
            f"Expected `lengths` to be at most the length of the input, but got {counts[0]} "
            f"(length={steps.shape[0]})"
        )
    sizes = [sum(count > step for count in counts) for step in range(counts[0])]
    parts = []
    start = 0
    for number, size in _blocks(sizes):
        block = steps[start : start + number, :size]
        parts.append(ops.reshape(block, (number * size, *block.shape[2:])))
        start += number
    data = ops.cat(parts, 0)
    return PackedSequence(data, counted(sizes), order)


def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The padded batch that was packed, in its original order, and the lengths.

    >>> import weft
    >>> from weft.nn.utils.rnn import pack_sequence, pad_packed_sequence
    >>> padded, lengths = pad_packed_sequence(pack_sequence([weft.tensor([1, 2]), weft.tensor([3])]))
    >>> padded.tolist(), lengths.tolist()
    ([[1, 3], [2, 0]], [2, 1])
    """
    data = sequence.data
    sizes = counts_of(sequence.batch_sizes)
    longest, batch = len(sizes), sizes[0]
    if total_length is not None and total_length < longest:
        raise ValueError(
            "Expected total_length to be at least the length of the longest sequence in input, but got "
            f"total_length={total_length} and max sequence length being {longest}"
        )
    inside = tuple(data.shape[1:])
    parts = []
    start = 0
    for number, size in _blocks(sizes):
        block = ops.reshape(data[start : start + number * size], (number, size, *inside))
        if size < batch:
            rest = ops.new_full(data, (number, batch - size, *inside), padding_value)
            block = ops.cat([block, rest], 1)
        parts.append(block)
        start += number * size
    if total_length is not None and total_length > longest:
        parts.append(ops.new_full(data, (total_length - longest, batch, *inside), padding_value))
    padded = ops.cat(parts, 0)
    if batch_first:
        padded = ops.transpose(padded, 0, 1)
    lengths = tensor([sum(size > place for size in sizes) for place in range(batch)], dtype=int64)
    order = sequence.unsorted_indices
    if order is not None:
        return ops.index_select(padded, 0 if batch_first else 1, order), lengths[order.cpu()]
    return padded, lengths


def pad_sequence(
    sequences: Any, batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right"
) -> Tensor:
    """Stacks sequences of several lengths, the shorter ones padded to the longest.

    >>> import weft
    >>> weft.nn.utils.rnn.pad_sequence([weft.ones(3), weft.ones(1)], batch_first=True).tolist()
    [[1.0, 1.0, 1.0], [1.0, 0.0, 0.0]]
    """
    if isinstance(sequences, Tensor):
        sequences = ops.unbind(sequences, 0)
    elif not isinstance(sequences, Iterable):
        raise RuntimeError(
            f"pad_sequence: Expected iterable for input sequences, but got arg of type: {type(sequences)}"
        )
    sequences = list(sequences)
    if padding_side not in ("left", "right"):
        raise RuntimeError(f"Expected padding_side to be one of left or right, but got {padding_side}.")
    if not sequences:
        raise RuntimeError("received an empty list of sequences")
    longest = max(sequence.shape[0] for sequence in sequences)
    rows = []
    for sequence in sequences:
        missing = longest - sequence.shape[0]
        if missing:
            rest = ops.new_full(sequence, (missing, *sequence.shape[1:]), padding_value)
            sequence = ops.cat([sequence, rest] if padding_side == "right" else [rest, sequence], 0)
        rows.append(sequence)
    return ops.stack(rows, 0 if batch_first else 1)


def unpad_sequence(padded_sequences: Tensor, lengths: Any, batch_first: bool = False) -> list[Tensor]:
    """The sequences of a padded batch, each cut to its length."""
    if not batch_first:
        padded_sequences = ops.transpose(padded_sequences, 0, 1)
    counts = lengths.tolist() if isinstance(lengths, Tensor) else lengths
    return [row[: int(count)] for row, count in zip(ops.unbind(padded_sequences, 0), counts)]


def pack_sequence(sequences: list[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Packs a list of sequences, longest first unless `enforce_sorted` is off."""
    lengths = [sequence.shape[0] for sequence in sequences]
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The list of sequences that was packed."""
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
