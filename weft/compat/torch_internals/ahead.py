"""Functions and modules differentiated ahead of time, their graphs given to compilers of one's own.

Takes a function and compilers `(graph_module, example_inputs) -> callable`; gives it in a form that runs what
they made: the names of `functorch.compile` over `weft.compiler.aot`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from weft.compiler import aot, compile, reset

Compiler = Callable[[Any, list[Any]], Callable[..., Any]]


def nop(fx_g: Any, _example_inputs: list[Any]) -> Any:
    """A compiler that gives the graph as it is."""
    return fx_g


ts_compile = nop


def make_boxed_func(f: Callable[..., Any]) -> Callable[..., Any]:
    """The function, as one that may be given its arguments in a list."""
    return f


def make_boxed_compiler(compiler: Compiler) -> Compiler:
    """The compiler, as one whose results may be given their arguments in a list."""
    return compiler


def aot_function(fn: Any, fw_compiler: Compiler, bw_compiler: Compiler | None = None, **_options: Any) -> Any:
    """The function with its forward compiled by `fw_compiler`, and its backward by `bw_compiler` if given."""
    return compile(fn, backend=aot(fw_compiler, bw_compiler), fullgraph=True)


class AOTAutogradCache:
    """What is kept of functions that were compiled."""

    @staticmethod
    def clear() -> None:
        """Forgets all of it."""
        reset()


AOT_COUNTER = itertools.count()
"""Numbers of functions that were differentiated ahead of time, as PyTorch's tests patch them."""
default_decompositions: dict[Any, Any] = {}


def aot_module_simplified(
    mod: Any, args: Any, fw_compiler: Compiler, bw_compiler: Compiler | None = None, **_options: Any
) -> Any:
    """The module's function of these arguments, its forward and backward compiled by these."""
    return aot_function(mod, fw_compiler, bw_compiler)


def default_partition(joint_module: Any, joint_inputs: Any, **_options: Any) -> Any:
    """Which values are kept for backward is decided by Weft alone."""
    raise NotImplementedError("Weft divides forward and backward itself: no graph of both is at hand")


min_cut_rematerialization_partition = default_partition
aot_module = compiled_function = compiled_module = aot_function


def memory_efficient_fusion(fn: Any, **_options: Any) -> Any:
    """The function compiled natively, with little kept for backward."""
    return compile(fn, backend="native", fullgraph=True)
