"""Small tools that tests of captured programs use."""

from __future__ import annotations

import contextlib
import enum
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

from weft.compiler import compile, compiled_autograd
from weft.core.counters import counters as counters
from weft.core.generator import default_generator
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


def ifdyn(count1: Any, count2: Any) -> Any:
    """Of two numbers, that for sizes that may vary."""
    return count1


def ifunspec(count1: Any, count2: Any) -> Any:
    """Of two numbers, that for numbers that are fixed."""
    return count2


def is_namedtuple(obj: Any) -> bool:
    """Whether the object is a named tuple."""
    return isinstance(obj, tuple) and hasattr(type(obj), "_fields")


def nothing(*args: Any, **kwargs: Any) -> None:
    """Does nothing."""


graph_break_dup_warning_checker: set[Any] = set()
guard_failures: dict[Any, list[Any]] = {}
orig_code_map: dict[Any, Any] = {}


def clear_compilation_metrics() -> None:
    """Numbers of compilations are counted in `counters`: nothing to forget."""


def get_compilation_metrics() -> list[Any]:
    """What is known of each compilation: none is kept."""
    return []


@contextlib.contextmanager
def preserve_rng_state() -> Iterator[None]:
    """Draws inside do not change what is drawn afterwards."""
    state = default_generator.get_state()
    try:
        yield
    finally:
        default_generator.set_state(state)


@contextlib.contextmanager
def maybe_enable_compiled_autograd(
    enabled: bool, fullgraph: bool = True, dynamic: bool = True
) -> Iterator[None]:
    """Backward passes compiled for a while, if wanted."""
    if not enabled:
        yield
        return
    with compiled_autograd._enable(lambda graph: compile(graph, fullgraph=fullgraph, dynamic=dynamic)):
        yield


def rmse(ref: Tensor, res: Tensor) -> Tensor:
    """The root of the mean squared difference."""
    return (ref - res).square().mean().sqrt()


_ORDERED: OrderedDict[Any, Any] = OrderedDict()
odict_values = type(_ORDERED.values())


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
