"""Small tools that tests of captured programs use."""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Iterator
from typing import Any

from weft.capture.counters import counters as counters
from weft.core.settings import settings
from weft.tensor.base import Tensor
from weft.testing.comparison import same as same


def clone_input(x: Tensor, *, dtype: Any = None) -> Tensor:
    """A leaf with the same values, strides and need of gradients."""
    copied = x.detach().clone()
    if dtype is not None:
        copied = copied.to(dtype)
    copied.requires_grad_(x.requires_grad)
    if x.is_leaf and x.grad is not None:
        copied.grad = clone_input(x.grad)
    return copied


def clone_inputs(example_inputs: Any) -> Any:
    """Copies of all tensors in a list or a dict."""
    if isinstance(example_inputs, dict):
        return {name: clone_inputs(value) for name, value in example_inputs.items()}
    if isinstance(example_inputs, (list, tuple)):
        return [clone_inputs(value) for value in example_inputs]
    return clone_input(example_inputs) if isinstance(example_inputs, Tensor) else example_inputs


@contextlib.contextmanager
def disable_cache_limit() -> Iterator[None]:
    """Compiles as often as there is need."""
    before = settings.recompile_limit
    settings.recompile_limit = 1_000_000
    try:
        yield
    finally:
        settings.recompile_limit = before


def is_compile_supported(device_type: str) -> bool:
    """Whether code for this device can be compiled."""
    return device_type == "cpu"


def ifdynstaticdefault(count1: Any, count2: Any) -> Any:
    """Of two numbers, that for sizes that are fixed until they are seen to vary."""
    return count1


def set_example_value(node: Any, example_value: Any) -> None:
    """Says what a node of a graph gives."""
    node.meta["example_value"] = example_value


def is_dynamo_supported() -> bool:
    """Whether functions can be captured here."""
    return True


def is_inductor_supported() -> bool:
    """Whether graphs can be compiled here."""
    return True


def check_dynamic_shape_capture() -> bool:
    """Whether sizes are taken to vary from the first capture on."""
    return False


def call_size(x: Tensor, i: int) -> Any:
    """A size of a tensor, asked in a function of its own."""

    def fn(y: Tensor, j: int) -> Any:
        return y.size(j)

    return fn(x, i)


range_iterator = type(iter(range(0)))
_EMPTY: dict[Any, Any] = {}
dict_items, dict_keys, dict_values = type(_EMPTY.items()), type(_EMPTY.keys()), type(_EMPTY.values())


def istype(obj: Any, allowed_types: Any) -> bool:
    """Whether the object's class is one of these, subclasses not counted."""
    if isinstance(allowed_types, (tuple, list, set)):
        return type(obj) in allowed_types
    return type(obj) is allowed_types


class UserErrorType(enum.Enum):
    """Kinds of mistakes in users' code."""

    DYNAMIC_CONTROL_FLOW = enum.auto()
    ANTI_PATTERN = enum.auto()
    STANDARD_LIBRARY = enum.auto()
    CONSTRAINT_VIOLATION = enum.auto()
    DYNAMIC_DIM = enum.auto()
    INVALID_INPUT = enum.auto()
    INVALID_OUTPUT = enum.auto()
    UNSUPPORTED_ALIASED_MUTATED_DYNAMIC_INPUTS = enum.auto()
