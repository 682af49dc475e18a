"""Functions and modules differentiated ahead of time, their graphs given to compilers of one's own.

Takes a function and compilers `(graph_module, example_inputs) -> callable`; gives it in a form that runs what
they made: the names of `functorch.compile` over `weft.compiler.aot`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.compiler import aot, compile

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


aot_module = compiled_function = compiled_module = aot_function


def memory_efficient_fusion(fn: Any, **_options: Any) -> Any:
    """The function compiled natively, with little kept for backward."""
    return compile(fn, backend="native", fullgraph=True)
