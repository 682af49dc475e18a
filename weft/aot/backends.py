"""Backends that differentiate ahead of time: `aot_eager`, and `aot` for compilers of one's own.

Takes compilers `(graph_module, example_inputs) -> callable`; gives backends of `weft.compile`. One idea: a
compiler sees only graphs of pure ops, forward and backward apart, and never the tape. What it compiles may
write the inputs that `graph.meta["written"]` names, see `weft.aot.inplace`, and may take its arguments in a
list, see `weft.aot.boxed`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from weft.aot.blocks import in_blocks
from weft.aot.boxed import boxed
from weft.aot.inplace import in_place
from weft.aot.lists import open_lists
from weft.aot.partition import Chooser, min_cut
from weft.aot.runtime import CompiledFunction, Compiler
from weft.aot.runtime.around import around
from weft.core import modes
from weft.graph.text import READS_GRAPH, TAKES_SIZES

if TYPE_CHECKING:
    from weft.trace.module import GraphModule


def as_it_is(graph_module: Any, _example_inputs: list[Any]) -> Callable[..., Any]:
    """Runs a graph op by op, in place where that is allowed."""
    return boxed(in_blocks(in_place(graph_module)))


setattr(as_it_is, READS_GRAPH, True)
setattr(as_it_is, TAKES_SIZES, True)


def aot(
    fw_compiler: Compiler, bw_compiler: Compiler | None = None, *, partition: Chooser = min_cut
) -> Callable[..., Any]:
    """A backend whose graphs are compiled by `fw_compiler`, those of gradients by `bw_compiler` if given."""

    def backend(
        graph_module: GraphModule, example_inputs: list[Any], **_options: object
    ) -> Callable[..., Any]:
        opened = open_lists(graph_module)
        if opened is not None:
            inner = backend(opened.module, opened.inputs(example_inputs))
            return lambda *args: inner(*opened.inputs(args))
        made = CompiledFunction(graph_module, fw_compiler, bw_compiler or fw_compiler, partition)
        modes_of = around(modes.state.get())
        if not isinstance(modes_of, str):
            made.plan_for(tuple(example_inputs), modes_of)
        return made

    setattr(backend, READS_GRAPH, True)
    return backend


aot_eager = aot(as_it_is)
