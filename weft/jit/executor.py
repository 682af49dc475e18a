"""Running scripted functions.

Takes a scripted function and arguments; gives what its graph gives. One idea: the graph's Python function is
made at the first call.
"""

from __future__ import annotations

from typing import Any

from weft.jit.codegen import generate
from weft.jit.ir import Graph
from weft.jit.passes import inline


class Executor:
    """The ways in which one scripted function runs."""

    def __init__(self, owner: Any) -> None:
        self.owner = owner
        self.plain: Any = None

    def function(self) -> Any:
        """The graph as a Python function."""
        if self.plain is None:
            self.owner.ensure()
            self.plain = generate(self.owner.made, lambda callee: callee.executor.function()).function
        return self.plain

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any], receiver: Any = None) -> Any:
        values = self.owner.schema.bind(args, kwargs)
        if receiver is not None:
            values.insert(0, receiver)
        return self.function()(*values)

    def graph_for(self, args: tuple[Any, ...], kwargs: dict[str, Any], receiver: Any = None) -> Graph:
        self.owner.schema.bind(args, dict(kwargs))
        return inline(self.owner.graph)
