"""Seams: slots through which a lower layer calls a higher one without importing it.

Each slot starts as a function that says what is missing, and the layer that owns the behaviour fills it at
import.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def _unfilled(name: str) -> Callable[..., Any]:
    def missing(*_args: object, **_kwargs: object) -> Any:
        raise NotImplementedError(f"weft was imported without the layer that provides {name!r}")

    return missing


class Seams:
    """The slots. The compiler fills them; nothing else writes here."""

    compile: Callable[..., Any] = staticmethod(_unfilled("compile"))
    callee: Callable[[Callable[..., Any]], Callable[..., Any]] | None = None
    """Where compiled code runs: gives the compiled form of a function that library code is about to call
    (`Module.__call__`, `Function.apply`, hooks)."""
    is_compiling: Callable[[], bool] = staticmethod(lambda: False)
    backward: Callable[[Any, Any], bool] | None = None
    """Where compiled autograd is on: takes the seeds and the task of a run of the engine, and says whether it
    has run them."""
    prepare: Callable[[Any, str], None] = staticmethod(lambda owner, name: None)
    """Said by library code that is about to make lasting state in a first call: capture calls the method of
    this name before the graph instead, which gives a function that undoes it."""
    warned: Callable[[str, str], bool] = staticmethod(lambda text, category: False)
    """Said by library code that is about to warn: says whether a graph is recorded, and will warn."""
    making_state: Callable[[Any], None] = staticmethod(lambda optimizer: None)
    """Said by an optimizer that is about to call `_init_state`, which capture wants done before the graph."""
    native_kernel: Callable[[Any, tuple[Any, ...]], Any] | None = None
    """Where native code is at hand: takes an op and its arguments, arrays among them, and gives its result,
    or None where the array kernel is to do it."""

    loudly: Callable[[str], None] = staticmethod(lambda text: None)
    """Said where compiled code, about to run, has something to tell its user: warns at the user's line."""
    tracer: Callable[[], Any] | None = None
    """While some thread traces modules symbolically: gives the tracer of this context, or None. It is asked
    by calls of modules and by reads of their parameters."""
    sparse_tensor: Callable[[Any], Any] = staticmethod(_unfilled("sparse_tensor"))
    """Gives the sparse tensor that holds the arrays of a `SparseArray`."""
    gives_sparse_rows: Callable[[Any], bool] = staticmethod(lambda table: False)
    """Asked by lookups that are to give sparse gradients: whether one would reach this table as it is."""
    sparse_rows: Callable[..., Any] = staticmethod(_unfilled("sparse_rows"))
    """Gives the gradient of such a table as a sparse tensor that is recorded itself."""
    below: Any = None
    """Where handlers of `__torch_dispatch__` are asked: `weft.tensor.below`, loaded when there are some."""
    untie: Callable[[Any], Any] = staticmethod(lambda value: value)
    """Asked by ops that give parts of a tensor which count as tensors of their own: takes a view, gives one
    that shares its memory, but neither its version nor its history."""


seams = Seams()
seams.backward = None  # in the object itself, where the engine, asking in each run, finds it fastest
