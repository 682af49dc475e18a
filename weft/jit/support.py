"""What generated code calls: operations that are no operator of Python's and no op of Weft's.

Takes and gives run-time values. One idea: each function is one node's meaning, with TorchScript's errors.
"""

from __future__ import annotations

from typing import Any

from weft.jit.errors import Error
from weft.jit.schema import Mismatch, converter
from weft.jit.types import Type
from weft.tensor.base import Tensor


class Slots:
    """Functions of modules that are loaded later."""

    save: Any = None
    """Writes a scripted thing to a file: `weft.jit.saving`."""


class Future:
    """What `fork` gives: here the work is done already."""

    __slots__ = ("result",)

    def __init__(self, result: Any) -> None:
        self.result = result

    def wait(self) -> Any:
        """The result."""
        return self.result

    def value(self) -> Any:
        """The result."""
        return self.result

    def done(self) -> bool:
        """Whether the work is done."""
        return True


def failure(message: Any, name: Any, place: str, line: str) -> Error:
    """The error of a `raise` or an `assert`, in TorchScript's words."""
    head = "The following operation failed in the TorchScript interpreter.\n"
    head += "Traceback of TorchScript (most recent call last):\n"
    kind = "RuntimeError" if not name else str(name)
    error = Error(f"{head}{place}{line}\n{kind}: {message}")
    return error


def unpack_list(values: Any, count: int) -> Any:
    found = list(values)
    if len(found) != count:
        raise RuntimeError(f"Expected {count} elements in a list but found {len(found)}")
    return found


def index(tensor: Any, indices: list[Any]) -> Any:
    """`tensor[i, :, j]` for `[i, None, j]`."""
    return tensor[tuple([slice(None) if item is None else item for item in indices])]


def index_put(tensor: Any, indices: list[Any], values: Any) -> Any:
    tensor[tuple([slice(None) if item is None else item for item in indices])] = values
    return tensor


def is_instance(value: Any, targets: list[Any]) -> bool:
    """isinstance for the types of scripted code."""
    for target in targets:
        if isinstance(target, Type):
            if isinstance(value, bool) and str(target) in ("int", "float"):
                continue
            if isinstance(value, int) and str(target) in ("float", "complex"):
                continue
            try:
                converter(target)(value)
            except Mismatch:
                continue
            return True
        if isinstance(value, {"list": list, "tuple": tuple, "dict": dict}[target]):
            return True
    return False


def extend(values: list[Any], more: Any) -> list[Any]:
    values.extend(more)
    return values


def implicit(tensor: Any, kind: type) -> Any:
    """A tensor where a number is wanted."""
    if isinstance(tensor, Tensor):
        if tensor.requires_grad:
            raise RuntimeError("Cannot input a tensor that requires grad as a scalar argument")
        if tensor.dim() != 0:
            raise RuntimeError(f"Cannot input a tensor of dimension {tensor.dim()} as a scalar argument")
        found = tensor.item()
        return kind(found) if kind is not object else found
    return tensor


def to_float(value: Any) -> float:
    return float(value.item()) if isinstance(value, Tensor) else float(value)


def to_int(value: Any) -> int:
    return int(value.item()) if isinstance(value, Tensor) else int(value)


def to_string(value: Any) -> str:
    return str(value)
