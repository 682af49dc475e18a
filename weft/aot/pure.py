"""Captured graphs that are pure already: nothing is written, and what is given out is new and has no history.

Takes a graph module and the inputs of a call; gives the same nodes with the types that these inputs mean, or
None where functionalisation, or the tape, has anything to do. Steps that ask for their gradients inside are
such graphs. One idea: of calls that are alike (one op, equal types, equal numbers) the first is run on fakes,
as functionalisation does with all of them: a hundred steps of a recurrent network are one step and copies.
"""

from __future__ import annotations

import operator
from types import BuiltinFunctionType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from weft.aot.facts import DETACH, Facts, Made, Step, Value, ViewOf
from weft.core import modes
from weft.core.generator import apart, noted
from weft.core.interrupts import let_through
from weft.core.symbolic import Symbolic
from weft.core.trees import flatten
from weft.graph.graph import Graph
from weft.graph.node import Node, map_arg
from weft.ops.record import Kind, Op, ops
from weft.ops.replay import READERS, as_called
from weft.trace.fake import bare, fake_input, hollowly, is_plain_tensor, method
from weft.trace.op_recorder import bound_of
from weft.trace.recorder import _set_grad_enabled, version

if TYPE_CHECKING:
    from weft.aot.sizes import Opened
    from weft.trace.module import GraphModule


PLAIN: Final = frozenset({int, bool, str, type(None)})


class Pure(NamedTuple):
    """What a joint graph without gradients is made of."""

    graph: Graph
    facts: Facts
    inputs: list[Node]
    values: list[Node]
    build: Any


def told(size: Any) -> Any:
    """A size, or the expression that it is."""
    return size.expression if isinstance(size, Symbolic) else size


class Unsure(Exception):
    """Something that this module does not know to be pure."""


def pure(module: GraphModule, inputs: tuple[Any, ...], opened: Opened | None = None) -> Pure | None:
    """The graph over again, if nothing in it writes, aliases what is given out, or has a gradient outside.
    `opened`: what is open of the inputs."""
    mode = modes.current()
    if type(mode) is not bool or len(module.graph.placeholders) != len(inputs):
        return None
    try:
        with hollowly():
            return _PureCopy(mode, opened).run(module.graph, inputs)
    except Exception as error:  # the long way says at which node, and why
        let_through(error)
        return None


class _PureCopy:
    def __init__(self, grad: bool, opened: Opened | None) -> None:
        self.graph, self.facts, self.grad, self.opened = Graph(), Facts(), grad, opened
        self.copies: dict[Node, Node] = {}
        self.tracked: set[Node] = set()
        self.views: set[Node] = set()
        self.detached: dict[Node, tuple[Node, bool]] = {}  # what was detached, and in which mode
        self.keys: dict[Node, Any] = {}
        self.known: dict[Any, Any] = {}

    def run(self, graph: Graph, inputs: tuple[Any, ...]) -> Pure:
        nodes = [self.input(*pair) for pair in zip(graph.placeholders, inputs, strict=True)]
        for node in graph.nodes:
            if node.op == "output":
                values, build = self.outputs(node.args[0])
                self.graph.output((tuple(values), ()))
                return Pure(self.graph, self.facts, nodes, values, build)
            if node.op != "placeholder":
                self.call(node)
        raise Unsure("a graph without an output")

    def input(self, node: Node, value: Any) -> Node:
        number = len(self.copies)
        is_open = self.opened is not None and number in self.opened.numbers
        if not (is_open or is_plain_tensor(value)) or node.target.startswith("*"):
            raise Unsure("an input that is no plain tensor")
        made = self.graph.placeholder(f"primals_{number + 1}")
        if self.opened is not None and is_open:
            self.finish(node, made, self.opened.numbers[number], False)
        else:
            lies = None if self.opened is None else self.opened.shapes.get(number)
            self.finish(node, made, fake_input(value, lies), bool(value.tracked))
        return made

    def finish(self, node: Node, made: Node, val: object, tracked: bool) -> None:
        self.copies[node] = made
        made.meta["val"] = val
        if "source" in node.meta:
            made.meta["source"] = node.meta["source"]
        if tracked:
            self.tracked.add(node)

    # -- calls -----------------------------------------------------------------------------------------------
    def call(self, node: Node) -> None:
        meta = node.meta
        if "writes" in meta or "effect" in meta or node.op == "get_attr":
            raise Unsure("a call that does more than give tensors")
        if self.opened is not None and node.op == "call_function":
            if node.all_input_nodes and all(map(self.is_number, node.all_input_nodes)):
                self.number(node)
                return
        tracked = self.grad and any(each in self.tracked for each in node.all_input_nodes)
        target = node.target if node.op == "call_function" else method(node.target)
        if node.op == "call_method" and node.target == DETACH:
            (base,) = node.args
            self.detached[node] = base, self.grad
            made = self.graph.call_method(DETACH, (self.copies[base],))
            self.finish(node, made, bare(self.copies[base].meta["val"]), False)
        elif target is operator.getitem:
            self.part(node, *node.args, **node.kwargs)
        elif target is _set_grad_enabled:
            (self.grad,) = node.args
            self.finish(node, self.graph.call_function(target, node.args), None, False)
        elif isinstance(target, Op) or target is target.op.face:
            self.op(node, target if isinstance(target, Op) else target.op, tracked)
        else:
            raise Unsure("a form that writes")

    def number(self, node: Node) -> None:
        """A number that follows from open ones."""
        assert self.opened is not None
        args, kwargs = map_arg((node.args, node.kwargs), lambda used: self.copies[used].meta["val"])
        if kwargs or not isinstance(node.target, (type, BuiltinFunctionType)):
            raise Unsure("a function that may do more than compute")
        val = self.opened.scalars.apply(node.target, *args)
        made = self.graph.call_function(node.target, map_arg(node.args, self.copies.__getitem__))
        self.finish(node, made, val, False)

    def is_number(self, value: Any) -> bool:
        """Whether an argument is a number, or the node of one."""
        return isinstance(self.copies[value].meta["val"] if type(value) is Node else value, (int, float))

    def part(self, node: Node, whole: Node, index: int) -> None:
        """One of several results."""
        several = self.copies[whole].meta["val"]
        if type(several) not in (tuple, list) or type(index) is not int:
            raise Unsure("an item of something else than results")
        made = self.graph.call_function(operator.getitem, (self.copies[whole], index))
        self.finish(node, made, several[index], whole in self.tracked)
        if whole in self.views:
            self.views.add(node)

    def op(self, node: Node, op: Op, tracked: bool) -> None:
        own = op.namespace.startswith("ops.")  # the user's
        views = op.kind is Kind.VIEW or op is ops.reshape  # which may be one
        if own or op.kind is Kind.RANDOM or (op.composed and not views) or "out" in node.kwargs:
            raise Unsure("an op with parts, or effects")
        args, kwargs = node.args, node.kwargs
        key = op, self.key(args), self.key(kwargs)
        val = self.known.get(key)
        if val is None:
            val = self.known[key] = self.tried(op, args, kwargs)
        target = op
        if views:
            self.views.add(node)
            rest = bound_of(op, args, kwargs)[1:]
            if op is ops.view:
                is_cast = len(rest[0]) == 1 and not self.is_number(rest[0][0])
                may_raise = not self.copies[args[0]].meta["val"].array.exact
                target = op if is_cast or may_raise else ops.reshape  # values may lie otherwise than they did
            elif op in READERS:
                raise Unsure("a view by strides")
            inner, kwargs = as_called(op, rest)
            args = (args[0], *inner)
        given, options = map_arg((args, dict(kwargs)), self.copies.__getitem__)
        made = self.graph.call_function(target, given, options)
        several = type(val) in (tuple, list)
        self.finish(node, made, type(val)(map(bare, val)) if several else bare(val), tracked)

    def key(self, value: Any) -> Any:
        """What types can depend on in an argument."""
        kind = type(value)
        if kind is Node:
            found = self.keys.get(value)
            if found is None:
                found = self.key_of(self.copies[value].meta["val"])
                self.keys[value] = found
            return found
        if kind in PLAIN:
            return kind, value
        if kind is float:
            return kind, value.hex()
        if kind is tuple or kind is list:
            return kind, *map(self.key, value)
        if kind is dict:
            return kind, *value, *map(self.key, value.values())
        if kind is slice:
            return kind, self.key((value.start, value.stop, value.step))
        if isinstance(value, Symbolic):
            raise Unsure("a number that is not known")
        hash(value)
        return kind, value

    def key_of(self, val: Any) -> Any:
        if isinstance(val, Symbolic):
            return Symbolic, val.expression
        array = val.array
        shape, strides = ([told(size) for size in sizes] for sizes in (array.shape, array.strides))
        return tuple(shape), array.dtype, tuple(strides), array.exact, array.device

    def tried(self, op: Op, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What a call gives, by a run on fakes."""
        given: list[Any] = []

        def fake(node: Node) -> Any:
            val = self.copies[node].meta["val"]
            if isinstance(val, Symbolic):
                return val
            given.append(bare(val))
            return given[-1]

        values, named = map_arg(args, fake), map_arg(kwargs, fake)
        with apart(), noted() as drawn:
            result = op.face(*values, **named)
        if drawn or any(version(each) for each in given):
            raise Unsure("a call that draws or writes")
        for item in result if type(result) in (tuple, list) else (result,):
            new = is_plain_tensor(item) and not any(item is each for each in given)
            is_view = new and item.origin is not None
            if not new or item.tracked or (is_view and op.kind is not Kind.VIEW and op is not ops.reshape):
                raise Unsure("a call that gives something else than new tensors")
        return result

    # -- outputs ---------------------------------------------------------------------------------------------
    def outputs(self, given: object) -> tuple[list[Node], Any]:
        leaves, build = flatten(given)
        numbers: dict[Node, Value] = {}
        for leaf in leaves:
            base, grad = self.detached.get(leaf, (leaf, False))
            if type(base) is not Node or base.op != "call_function" or base in self.views:
                raise Unsure("an output that is not new")
            if base in self.detached or (leaf in self.tracked):
                raise Unsure("an output with a history")
            if not is_plain_tensor(self.copies[base].meta["val"]):
                raise Unsure("an output that is no tensor")
            value = numbers.setdefault(base, Value(len(numbers)))
            steps = (Step(DETACH, (), None, grad),)
            fact = value if leaf is base else ViewOf(value, steps, None, False, False, (id(leaf),))
            self.facts.outputs.append(fact)
        self.facts.values = [Made(False) for _ in numbers]
        return [self.copies[base] for base in numbers], build
