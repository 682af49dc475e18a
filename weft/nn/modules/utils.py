"""Sizes per dimension: what every convolution and pool does with `kernel_size=3` or `(3, 5)`; and what all
layers do with parameters and gradients.

Takes a number or a sequence, gives a tuple. One idea: a number stands for itself along every dimension.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import repeat
from typing import Any

from weft.nn.parameter import Parameter
from weft.ops.record import ops


def _ntuple(count: int, name: str = "parse") -> Callable[[Any], tuple[Any, ...]]:
    """The function that makes tuples of this length; what is a sequence already is taken as it is."""

    def parse(value: Any) -> tuple[Any, ...]:
        return tuple(value) if isinstance(value, Iterable) else tuple(repeat(value, count))

    parse.__name__ = name
    return parse


_single = _ntuple(1, "_single")
_pair = _ntuple(2, "_pair")
_triple = _ntuple(3, "_triple")
_quadruple = _ntuple(4, "_quadruple")
_sextuple = _ntuple(6, "_sextuple")


def _reverse_repeat_tuple(values: Iterable[Any], times: int) -> tuple[Any, ...]:
    """The values from last to first, each several times: paddings per dimension as `functional.pad` takes
    them."""
    return tuple(value for value in reversed(tuple(values)) for _ in range(times))


def named(layer: Any, *names: str) -> str:
    """Attributes of a layer as its `extra_repr` shows them."""
    return ", ".join(f"{name}={getattr(layer, name)}" for name in names)


def unusual(layer: Any, **usual: Any) -> str:
    """As `named`, each behind a comma, of those attributes that are not as usual."""
    return "".join(
        f", {named(layer, name)}" for name, value in usual.items() if getattr(layer, name) != value
    )


def consume_prefix_in_state_dict_if_present(state_dict: dict[str, Any], prefix: str) -> None:
    """Takes a prefix (`"module."`) off the names in a state dict, and off those in its metadata."""
    for key in list(state_dict):
        if key.startswith(prefix):
            state_dict[key.removeprefix(prefix)] = state_dict.pop(key)
    metadata = getattr(state_dict, "_metadata", None)
    if metadata is None:
        return
    for key in list(metadata):
        if key == "":
            continue
        if key == prefix.removesuffix("."):
            metadata[""] = metadata.pop(key)
        elif key.startswith(prefix):
            metadata[key.removeprefix(prefix)] = metadata.pop(key)


def clear_gradient(gradient: Any) -> None:
    """Sets a gradient to zero, and cuts it from its history."""
    if gradient is None:
        return
    if gradient.grad_fn is not None:
        gradient.detach_()
    elif gradient.requires_grad:
        gradient.requires_grad_(False)
    gradient.zero_()


def empty_parameter(shape: Any, device: Any = None, dtype: Any = None) -> Any:
    """A parameter of this shape whose elements are arbitrary."""
    return Parameter(ops.empty(shape, dtype=dtype, device=device))
