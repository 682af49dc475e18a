"""`make_fx(fn)(*inputs)`: what a function does to these inputs, op by op, as a GraphModule.

Takes any function of tensors (in containers, too) and example inputs; runs it once on fakes, and gives a
module that takes inputs of the same structure. One idea: everything that computes gradients or maps over
batches is code that calls ops, so its ops are what is recorded.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from weft.core.collection import put_off
from weft.core.handlers import handlers_outside
from weft.core.interrupts import let_through
from weft.core.trees import flatten
from weft.graph.graph import Graph
from weft.graph.node import Node
from weft.nn.modules.module import Module
from weft.tensor.base import Parameter, Tensor
from weft.trace.breaks import Break
from weft.trace.fake import Originals, fake_of
from weft.trace.module import GraphModule
from weft.trace.op_recorder import OpRecorder
from weft.trace.scalars import Scalars

MODES: Final = ("real", "fake", "symbolic")


class Tracing:
    """One run of a function: its graph, what its placeholders stand for, and the tensors it closed over."""

    def __init__(self, tracing_mode: str) -> None:
        self.graph = Graph()
        self.recorder = OpRecorder(self.graph, self.on_input)
        self.originals = Originals()
        self.symbolic = tracing_mode == "symbolic"
        self.scalars = Scalars()
        self.sizes: dict[Any, tuple[Node, int]] = {}
        self.constants: dict[str, Any] = {}
        self.pending: list[tuple[Any, Node]] = []
        self.bound: set[int] = set()  # ids of fakes that have a node

    def on_input(self, value: Any) -> Node:
        """Symbolic sizes are read from their tensors; what the function closed over becomes an attribute."""
        expression = getattr(value, "expression", None)
        if expression is not None:
            node, dim = self.sizes[expression.args[0]]
            return self.graph.call_method("size", (node, dim))
        kind = "_param_constant" if isinstance(value, Parameter) else "_tensor_constant"
        if isinstance(value, Tensor) and type(value.array) is not np.ndarray:
            raise Break("unknown-tensor", "a tensor without elements that no recorded call made")
        name = f"{kind}{sum(known.startswith(kind) for known in self.constants)}"
        self.constants[name] = value
        node = self.graph.get_attr(name)
        node.meta["val"] = value
        return node

    def argument(self, value: Any, name: str) -> Any:
        """The stand-in for one argument: a placeholder, from which the tensors in a container are taken."""
        leaves, build = flatten(value)
        node = self.graph.placeholder(name)
        if not any(isinstance(leaf, Tensor) for leaf in leaves):
            node.meta["val"] = value
            return value
        made = build([self.fake(leaf) if isinstance(leaf, Tensor) else leaf for leaf in leaves])
        node.meta["val"] = made
        self.pending.append((made, node))
        return made

    def fake(self, tensor: Tensor) -> Tensor:
        return fake_of(tensor, self.originals)

    def take_apart(self, value: Any, node: Node) -> None:
        """Binds the tensors in an argument to nodes that take them out of it."""
        if isinstance(value, Tensor):
            self.recorder.bind(value, node)
            self.bound.add(id(value))
            if self.symbolic:
                self.open_sizes(value, node)
            return
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in items:
            if any(isinstance(leaf, Tensor) and id(leaf) not in self.bound for leaf in flatten(item)[0]):
                part = self.graph.call_function(operator.getitem, (node, key))
                part.meta["val"] = item
                self.take_apart(item, part)

    def open_sizes(self, fake: Tensor, node: Node) -> None:
        """Gives a fake symbolic sizes."""
        array: Any = fake.array
        sizes = list(array.shape)
        for dim, size in enumerate(sizes):
            before = set(self.scalars.hints)
            sizes[dim] = self.scalars.symbol_int(f"{node.name}.size()[{dim}]", size, size=size > 1)
            for symbol in set(self.scalars.hints) - before:
                self.sizes[symbol] = (node, dim)
        array.shape = tuple(sizes)

    def run(self, function: Callable[..., Any], inputs: tuple[Any, ...]) -> GraphModule:
        names = _names(function, len(inputs))
        given = [self.argument(value, name) for value, name in zip(inputs, names, strict=True)]
        for value, node in self.pending:
            if id(value) not in self.bound:
                self.take_apart(value, node)
        held = put_off()  # finalizers and handlers may compute: that is no part of it
        try:
            with handlers_outside(), self.recorder:
                result = function(*given)
            self.recorder.finish()
            self.graph.output(self.recorder.argument(result))
        except Break as found:
            raise RuntimeError(f"make_fx: {found}") from None
        finally:
            del held
        root = Module()
        for name, value in self.constants.items():
            if isinstance(value, Parameter) or not isinstance(value, Tensor):
                setattr(root, name, value)
            else:
                root.register_buffer(name, value)
        return GraphModule(root, self.graph, getattr(function, "__name__", "GraphModule").strip("<>"))


def _names(function: Callable[..., Any], count: int) -> list[str]:
    """Names of the placeholders, as users know them: `x_1` for a parameter x."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError) as error:
        let_through(error)
        parameters = []
    plain = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return [f"{name}_1" for name in [*plain, *(f"arg{i}" for i in range(len(plain), count))][:count]]


def make_fx(
    f: Callable[..., Any],
    decomposition_table: Any = None,
    tracing_mode: str = "real",
    **_options: Any,
) -> Callable[..., GraphModule]:
    """The function that traces `f` on its arguments and gives the ops it did as a GraphModule.

    No mode looks at elements: where `f` does, for a branch or a shape, tracing fails and says so. With
    `tracing_mode="symbolic"` sizes stay open in the graph.
    """
    if tracing_mode not in MODES:
        raise ValueError(f"Unexpected tracing type: {tracing_mode}")

    def traced(*inputs: Any) -> GraphModule:
        return Tracing(tracing_mode).run(f, inputs)

    return traced


__all__ = ["make_fx"]
