"""Equality as test cases mean it: tensors and numbers nearly, containers item by item, the rest by `==`.

Takes two values; raises AssertionError that says where they differ. Laxer than `assert_close`: a number
equals a tensor of one element, a list equals a tuple or a tensor of its items, and objects may be anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any

import numpy as np

import weft
from weft.tensor.base import Tensor
from weft.testing.comparison import assert_close

NUMBERS = (bool, int, float, complex, np.number, np.bool_)


class Equality:
    """What one assertion allows."""

    def __init__(self, rtol: float | None, atol: float | None, **exact: bool) -> None:
        self.rtol, self.atol = rtol, atol
        self.exact = exact

    def check(self, first: Any, second: Any, place: str = "") -> None:
        """Raises where the two are not equal."""
        if isinstance(first, Tensor) or isinstance(second, Tensor):
            self._check_tensors(first, second, place)
        elif isinstance(first, np.ndarray) or isinstance(second, np.ndarray):
            self._check_tensors(_as_tensor(first, second), _as_tensor(second, first), place)
        elif isinstance(first, NUMBERS) and isinstance(second, NUMBERS):
            self._check_numbers(first, second, place)
        elif isinstance(first, str) or isinstance(second, str):
            if first != second:
                raise AssertionError(f"String comparison failed: {first!r} != {second!r}{place}")
        elif isinstance(first, Set) and isinstance(second, Set):
            if first != second:
                raise AssertionError(f"Set comparison failed: {first!r} != {second!r}{place}")
        elif isinstance(first, Mapping) and isinstance(second, Mapping):
            self._check_mappings(first, second, place)
        elif _is_sequence(first) and _is_sequence(second):
            if len(first) != len(second):
                raise AssertionError(
                    f"The length of the sequences mismatch: {len(first)} != {len(second)}{place}"
                )
            for index, (one, other) in enumerate(zip(first, second, strict=True)):
                self.check(one, other, f"{place or _PLACE}[{index}]")
        elif first is not second and first != second:
            raise AssertionError(f"Object comparison failed: {first!r} != {second!r}{place}")

    def _check_tensors(self, first: Any, second: Any, place: str) -> None:
        if isinstance(first, NUMBERS) or isinstance(second, NUMBERS):
            tensor = first if isinstance(first, Tensor) else second
            if tensor.numel() != 1:
                raise AssertionError(
                    f"Only single element tensor-likes can be compared against a number. Got "
                    f"{tensor.numel()} elements instead.{place}"
                )
            one, other = (value.item() if isinstance(value, Tensor) else value for value in (first, second))
            self._check_numbers(one, other, place, tensor)
            return
        if first is None or second is None or isinstance(first, str) or isinstance(second, str):
            raise AssertionError(f"Object comparison failed: {first!r} != {second!r}{place}")
        pair = _as_tensor(first, second), _as_tensor(second, first)
        self._close(*pair, place)

    def _check_numbers(self, first: Any, second: Any, place: str, tensor: Tensor | None = None) -> None:
        if isinstance(first, (bool, np.bool_)) and isinstance(second, (bool, np.bool_)):
            if first != second:
                raise AssertionError(f"Booleans mismatch: {first} is not {second}{place}")
            return
        if first == second:
            return
        kind: Any = None if tensor is None or not tensor.dtype.is_floating_point else tensor.dtype
        if kind is None:
            if isinstance(first, (complex, np.complexfloating)) or isinstance(
                second, (complex, np.complexfloating)
            ):
                kind = weft.complex128
            elif isinstance(first, (float, np.floating)) or isinstance(second, (float, np.floating)):
                kind = weft.float64
            else:
                kind = weft.int64
        self._close(weft.tensor(first, dtype=kind), weft.tensor(second, dtype=kind), place)

    def _close(self, first: Tensor, second: Tensor, place: str) -> None:
        rtol, atol = self.rtol, self.atol
        if (rtol is None) != (atol is None):
            rtol, atol = rtol or 0.0, atol or 0.0

        def message(text: str) -> str:
            return text + place

        assert_close(first, second, rtol=rtol, atol=atol, msg=message, **self.exact)

    def _check_mappings(self, first: Mapping[Any, Any], second: Mapping[Any, Any], place: str) -> None:
        if first.keys() != second.keys():
            missing = [key for key in second if key not in first]
            more = [key for key in first if key not in second]
            raise AssertionError(
                "The keys of the mappings do not match:\n"
                f"Missing keys in the actual mapping: {missing}\n"
                f"Additional keys in the actual mapping: {more}{place}"
            )
        for key in first:
            self.check(first[key], second[key], f"{place or _PLACE}[{key!r}]")


_PLACE = "\n\nThe failure occurred for item "


def _is_sequence(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def _as_tensor(value: Any, other: Any) -> Tensor:
    """A tensor from a tensor, an array or a list, of the other's dtype where this has none of its own."""
    if isinstance(value, Tensor):
        return value
    if isinstance(value, np.ndarray):
        return weft.from_numpy(np.array(value))
    kind = other.dtype if isinstance(other, Tensor) else None
    return weft.as_tensor(value, dtype=kind)
