"""`trace_wrapped(*args, fn=fn)`: a call that tracers keep whole, and that capture looks into.

Takes tensors and a function; gives what the function makes of them, without recording gradients. One idea:
what a hook does should not be traced before its time: under `make_fx` the call becomes one node, which calls
the function when the graph runs, and which compiled autograd inlines when it captures that graph.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.core import modes
from weft.tensor.base import Tensor
from weft.tensor.meta import recorder_of

NAME = "trace_wrapped"


def trace_wrapped(*args: object, fn: Callable[..., Any], **kwargs: object) -> Any:
    """`fn(*args, **kwargs)` with gradients off. Traced, it is taken to give a tensor like its first argument.

    Graphs check that when they run.
    """
    recorder = recorder_of(modes.current())
    if recorder is not None:
        return recorder.keep_whole(NAME, wrapped_call(fn, kwargs), args)
    with modes.within(grad=False):
        return fn(*args, **kwargs)


def wrapped_call(fn: Callable[..., Any], kwargs: dict[str, Any]) -> Callable[..., Any]:
    """The target of the node that stands for a call."""

    def self_invoke(*args: object) -> Any:
        result = trace_wrapped(*args, fn=fn, **kwargs)
        check_like(args[0], result, fn)
        return result

    self_invoke.__qualname__ = "self_invoke"
    return self_invoke


def check_like(given: Any, result: object, fn: Callable[..., Any]) -> None:
    """Raises where a traced call does not give what its graph was made for."""
    if isinstance(result, Tensor) and result.shape == given.shape and result.dtype is given.dtype:
        return
    found = f"a {type(result).__name__}"
    if isinstance(result, Tensor):
        found = f"{result.dtype} {list(result.shape)}"
    name = getattr(fn, "__name__", fn)
    raise RuntimeError(
        f"trace_wrapped: {name} gave {found} for {given.dtype} {list(given.shape)}. Traced functions must "
        "give a tensor like their first argument."
    )


class TransformGetItemToIndex:
    """Meanwhile, tensors of one element as indices stay tensors, as `vmap` needs it: here they always do."""

    def __enter__(self) -> None:
        """Nothing changes."""

    def __exit__(self, *_error: object) -> None:
        """Nothing has changed."""
