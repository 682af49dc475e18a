"""Inputs: the placeholders of a graph, one for each tensor and number from outside that it uses.

Takes a value that the recorder meets for the first time; gives its node. One idea: a placeholder is made when
it is first used, so what captured code only looks at is no input.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from weft.capture.outcome import GraphInput
from weft.capture.tape_calls import item_node
from weft.capture.values import has_type
from weft.capture.world import Known
from weft.capture.wrapping import SYMBOLIC
from weft.graph.node import Node
from weft.tensor.base import Tensor
from weft.trace.breaks import Break
from weft.trace.scalars import SymInt

if TYPE_CHECKING:
    from weft.capture.machine import Machine


class Inputs:
    """The inputs of one graph."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.items: list[GraphInput] = []
        self.names: set[str] = set()

    def node(self, value: Any) -> Node:
        """The placeholder for a tensor or symbol from outside, made when first used."""
        if has_type(value, SYMBOLIC):
            (symbol,) = value.expression.symbols
            known: Known | None = Known(value, value, self.machine.scalars.sources[symbol])
        else:
            known = self.machine.world.known.get(id(value))
        if has_type(value, np.ndarray) and known is not None:
            self.machine.world.guard("EQ", known.source.member("shape"), value.shape)
            self.machine.world.guard("EQ", known.source.member("dtype"), value.dtype)
            self.machine.world.guard("EQ", known.source.member("strides"), value.strides)
        if known is None and id(value) in self.machine.recorder.arrays:
            node = self.machine.recorder.graph.get_attr(
                f"_array_constant{len(self.machine.recorder.constants)}"
            )
            node.meta["val"] = self.machine.recorder.constants[str(node.target)] = value
            return node
        if known is None:
            stop = Break("unknown-tensor", seen=f"a {type(value).__name__} of unknown origin")
            stop.culprit = value
            raise stop
        item = item_node(self.machine, value, known)
        if item is not None:
            return item
        name = known.source.placeholder_name()
        if has_type(value, SYMBOLIC) and known.source.kind == "size":
            name = symbol.name
        elif has_type(value, Tensor):
            for size in value.array.shape:
                if has_type(size, SymInt) and size.expression.op == "symbol":
                    self.machine.recorder.node(size)  # sizes stand before the first tensor that has them
        taken = self.names
        if len(taken) != len(self.items):
            taken = self.names = {each.node.target for each in self.items}
        while name in taken:  # x.a and x['a'] are spelt alike
            name += "_"
        taken.add(name)
        node = self.machine.graph.placeholder(name, val=value)
        self.items.append(GraphInput(node, known))
        self.machine.recorder.bind(value, node)
        return node
