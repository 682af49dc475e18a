"""Compares compiled functions with eager ones, and makes sure that no step of theirs is Python's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import contextmanager
from typing import Any

import weft
from weft.core.settings import settings
from weft.native import backend
from weft.testing import assert_close


@contextmanager
def programs() -> Any:
    """The programs that are made meanwhile, none of them read from disk; whatever falls back is an error."""
    made: list[Any] = []
    plain = backend.kept_or_made
    strict = settings.strict

    def kept(_graph_module: Any, arrays: Any, new: Any, _watched: Any) -> Any:
        made.append(new(arrays))
        return made[-1]

    backend.kept_or_made = kept
    settings.strict = True
    try:
        yield made
    finally:
        backend.kept_or_made = plain
        settings.strict = strict


def results(function: Callable[..., Any], inputs: Sequence[Any]) -> list[Any]:
    """What a function gives, and the gradients of its inputs."""
    given = [each.detach().clone().requires_grad_(each.dtype.is_floating_point) for each in inputs]
    value = function(*given)
    values = value if isinstance(value, (tuple, list)) else [value]
    kept = [each.detach() for each in values]
    weighed = [(each * weight_like(each)).sum() for each in values if each.requires_grad]
    if weighed:
        sum(weighed[1:], weighed[0]).backward()
    return [*kept, *[each.grad for each in given]]


def weight_like(value: Any) -> Any:
    """Numbers that differ from place to place."""
    return (weft.arange(value.numel(), dtype=value.dtype).reshape(value.shape) * 0.37).cos()


def same(
    function: Callable[..., Any],
    inputs: Sequence[Any],
    rtol: float = 1e-4,
    atol: float = 1e-4,
    native: bool = True,
) -> list[Any]:
    """Checks values and gradients of a compiled function; gives its programs."""
    wanted = results(function, inputs)
    with programs() as made:
        found = results(weft.compile(function, backend="native", fullgraph=True), inputs)
    for a, b in zip(found, wanted, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            assert_close(a, b, rtol=rtol, atol=atol)
    if native:
        left = [
            step.name
            for each in made
            for number, step in enumerate(each.program.listing.steps)
            if number in each.python
        ]
        assert not left, f"steps of Python: {left}"
    return list(made)
