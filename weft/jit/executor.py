"""Running scripted functions.

Takes a scripted function and arguments; gives what its graph gives. One idea: there are three ways to run a
graph, which give the same: as Python on the live tape; and from the second call on with its tensor code
compiled, or, where that is too little, with its differentiable parts as single nodes of the tape.
"""

from __future__ import annotations

from typing import Any

from weft.core import modes
from weft.core.once import lock
from weft.jit.codegen import generate
from weft.jit.differentiable import leaves, with_differentiable_graphs
from weft.jit.hot import with_compiled_parts
from weft.jit.ir import Graph, Value
from weft.jit.passes import inline
from weft.nn.modules.module import Module


class Executor:
    """The ways in which one scripted function runs."""

    latest: Executor | None = None
    """That of the function that ran last."""

    def __init__(self, owner: Any) -> None:
        self.owner = owner
        self.plain: Any = None
        self.recorded: Any = None
        self.hot: Any = None
        self.looked = False
        self.lock = lock()
        self.calls = 0

    def function(self) -> Any:
        """The graph as a Python function."""
        if self.plain is None:
            self.owner.ensure()
            self.plain = generate(self.owner.made, callee).function
        return self.plain

    def differentiable(self) -> Any:
        """The same with differentiable parts as single nodes."""
        if self.recorded is None:
            graph = inline(self.owner.graph)
            # Nodes inside loops would cost more than they spare.
            with_differentiable_graphs(graph, blocks=[graph.block])
            self.recorded = generate(graph, callee).function
        return self.recorded

    def compile(self) -> Any:
        """The same with its tensor code compiled; None where there is too little of it."""
        if not self.looked:
            with self.lock:
                if not self.looked:
                    graph = with_compiled_parts(inline(self.owner.graph))
                    if any(node.operator == "prim::CompiledGraph" for node in graph.walk()):
                        self.hot = generate(graph, callee).function
                    self.looked = True
        return self.hot

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any], receiver: Any = None) -> Any:
        values = self.owner.schema.bind(args, kwargs)
        if receiver is not None:
            values.insert(0, receiver)
        Executor.latest = self
        if self.hot is not None:
            return self.hot(*values)
        self.calls += 1
        return self.choose(values)(*values)

    def choose(self, values: list[Any]) -> Any:
        if self.calls == 1:
            return self.function()
        if self.compile() is not None:
            return self.hot
        wanted = modes.state.get() is True and requires_grad(values)
        return self.differentiable() if wanted else self.function()

    def graph_for(self, args: tuple[Any, ...], kwargs: dict[str, Any], receiver: Any = None) -> Graph:
        """The graph that runs for these inputs; where gradients are wanted, with the parts that have any."""
        values = self.owner.schema.bind(args, dict(kwargs))
        if receiver is not None:
            values.insert(0, receiver)
        graph = inline(self.owner.graph)
        if modes.current() is not True or not requires_grad(values):
            return graph
        pairs = zip(graph.block.parameters, values, strict=True)
        given: set[Value] = {value for value, item in pairs if requires_grad([item])}
        return with_differentiable_graphs(graph, given)


def callee(function: Any) -> Any:
    return function.executor.function()


def requires_grad(values: list[Any]) -> bool:
    """Whether gradients may be wanted of any of these."""
    for value in values:
        if isinstance(value, Module):
            if any(parameter.requires_grad for parameter in value.parameters()):
                return True
        elif isinstance(value, dict):
            if requires_grad(list(value.values())):
                return True
        elif any(tensor.requires_grad for tensor in leaves([value])):
            return True
    return False
