"""One call of a custom Function in captured code: as part of the program, or as a node with two sub-graphs.

Takes a Function and its arguments; interprets forward, and appends what stands for the call in the graph. One
idea: see Note [A Function in a graph] in `weft.capture.custom_function.apply`.
"""

from __future__ import annotations

import operator
from _thread import allocate_lock
from typing import TYPE_CHECKING, Any

from weft.autograd.function import checked_marks, recorded
from weft.autograd.function_apply import (
    RECIPE,
    Kept,
    Recipe,
    autograd_function_apply,
    function_outputs,
)
from weft.autograd.function_context import FunctionCtx
from weft.autograd.function_witness import ABSENT
from weft.capture.custom_function.backward import (
    capture_backward,
    native_graph,
    placeholder,
)
from weft.capture.custom_function.saved import (
    CONSTANT_TYPES,
    Left,
    Templates,
    escaping,
    items_of,
    note_context,
    refused,
    shares_memory,
    store_later,
    tensors_of,
)
from weft.capture.higher_order import NO_CALL, Picture, draws, first_version, note_effect, same_modes
from weft.capture.library import note_device_of
from weft.capture.values import Args, has_type
from weft.capture.wrapping import SYMBOLIC
from weft.core import modes
from weft.graph.effects import Effect, effect
from weft.graph.graph import Graph
from weft.graph.names import snake_case
from weft.graph.node import Node
from weft.tensor.base import PLAIN, Tensor
from weft.tensor.views import refresh
from weft.trace.breaks import Break
from weft.trace.recorder import version

if TYPE_CHECKING:
    from weft.capture.machine import Machine


class ApplyCall:
    """One call of `apply`."""

    def __init__(self, machine: Machine, owner: Any, args: Args, forward: Any, setup: Any) -> None:
        self.machine, self.owner, self.args = machine, owner, args
        self.forward, self.setup = forward, setup
        self.name = owner.__qualname__
        self.operands = [value for value in args if has_type(value, Tensor)]
        self.lifted: list[Any] = []
        self.ctx: Any = machine.world.keep(object.__new__(FunctionCtx))
        note_context(machine, self.ctx)
        self.ctx._forward_cls = owner
        for value in args:
            if has_type(value, Tensor) and value.origin is not None:
                machine.native(refresh, value)  # a view whose base was written has another history
        self.ctx.needs_input_grad = tuple([has_type(v, Tensor) and v.tracked for v in args])

    def is_live(self) -> bool:
        mode = modes.modes()
        return mode.grad and not mode.inference and any(self.ctx.needs_input_grad)

    def run_forward(self) -> Any:
        machine = self.machine
        if self.setup is None:
            return machine.calls.call(self.forward, (self.ctx, *self.args), {})
        result = machine.calls.call(self.forward, self.args, {})
        machine.calls.call(self.setup, (self.ctx, self.args, result), {})
        return result

    # -- without gradients -----------------------------------------------------------------------------------
    def inline(self) -> Any:
        """Forward as part of the program."""
        with modes.within(grad=False):
            result = self.run_forward()
        several = has_type(result, tuple)
        values = tuple(result) if several else (result,)
        tensors = [value for value in values if has_type(value, Tensor)]
        given = any(value is one for value in tensors for one in self.operands)
        marked = self.ctx.dirty_tensors is not None or self.ctx.non_differentiable is not None
        if given or marked or any(value.tracked or value.origin for value in tensors):
            made = iter(self.hand_out(tuple(tensors), several))
            values = tuple([next(made) if has_type(value, Tensor) else value for value in values])
        return values if several else values[0]

    def hand_out(self, tensors: tuple[Tensor, ...], several: bool) -> Any:
        """Inputs and views among the outputs, as eager makes them: one more node."""
        machine, recorder = self.machine, self.machine.recorder
        for value in tensors:
            if type(value) not in PLAIN:
                raise refused(f"{self.name}, whose forward returns a {type(value).__name__}")
            argument = any(value is one for one in self.operands)
            if value.tracked and value.origin is None and not argument:
                raise refused(f"{self.name}, whose forward returns a tensor from outside")
        machine.native(checked_marks, self.ctx, tensors)
        dirty = self.dirty_among(tensors)
        result: Any = tensors if several or not tensors else tensors[0]
        parts = recorder.argument(result), recorder.argument(tuple(self.operands))
        written = [recorder.node(tensors[place]) for place in dirty]
        recorder.follow_modes()
        node = recorder.graph.call_function(function_outputs, (*parts, dirty) if dirty else parts)
        given = machine.native(function_outputs, result, tuple(self.operands), dirty)
        node.meta["val"], node.meta["source"] = given, machine.where()
        note_effect(node, Effect(writes=tuple(written)))
        recorder.bind_result(given, node, NO_CALL, [])
        return given if has_type(given, tuple) else (given,)

    def dirty_among(self, values: Any) -> tuple[int, ...]:
        dirty = self.ctx.dirty_tensors or ()
        return tuple([i for i, value in enumerate(values) if any(value is one for one in dirty)])

    # -- as a node -------------------------------------------------------------------------------------------
    def record(self) -> Any:
        machine, recorder = self.machine, self.machine.recorder
        graph = Graph()
        nodes = [recorder.node(tensor) for tensor in self.operands]
        picture, state = Picture(machine, self.forward), modes.current()
        self.before = {id(tensor): version(tensor) for tensor in recorder.tensors()}
        self.outer = recorder._nodes
        with recorder.nested(graph, lambda value: self.lift(graph, value), checks=True):
            graph.placeholder("function_ctx")
            for tensor, node in zip(self.operands, nodes):
                recorder.bind(tensor, placeholder(graph, node.name, tensor))
            with modes.within(grad=False):
                recorder.start()
                result = self.run_forward()
                recipe, left, escaped = self.described(result, picture)
                backward = self.capture_backward(recipe, left, result)
                self.keep_extras(recipe, left, backward, escaped)
                kept = [recorder.argument(value) for value in left.values]
                recorder.finish()
                tensors = [item for item in items_of(result) if has_type(item, Tensor)]
                outputs = tuple(tensors) if has_type(result, tuple) or not tensors else tensors[0]
                graph.output((recorder.argument(outputs), kept))
                for value in recorder.tensors():
                    if id(value) not in self.before:  # made here, and nobody else's: see `Inputs.node`
                        machine.world.keep(value)
        if not same_modes(modes.current(), state):
            raise refused(f"{self.name}, whose forward changes a mode")
        graph.meta[RECIPE] = recipe
        given = self.append(graph, backward.graph, recipe, result, escaped)
        if left.late:
            store_later(machine, self.ctx, left.late)
        self.ctx._captured = machine.world.keep(allocate_lock())  # no copy of the context can be made now
        return given

    def written(self) -> list[Tensor]:
        """The tensors from outside that forward has written to."""
        machine = self.machine
        found: list[Tensor] = []
        for tensor in (*self.operands, *self.lifted):
            if has_type(tensor, Tensor) and not any(tensor is one for one in found):
                before = self.before.get(id(tensor))
                if version(tensor) != (first_version(machine, tensor) if before is None else before):
                    found.append(tensor)
        return found

    def lift(self, graph: Graph, value: Any) -> Node:
        """The placeholder for what forward reads elsewhere."""
        if not has_type(value, (Tensor, *SYMBOLIC)):
            raise refused(f"a {type(value).__name__} used by {self.name}")
        self.lifted.append(value)
        known, source = self.outer.get(id(value)), self.machine.world.source_of(value)
        if known is not None:
            name = known.name
        elif source is not None:
            name = snake_case(source.placeholder_name())
        elif has_type(value, SYMBOLIC) and value.expression.op == "symbol":
            name = str(next(iter(value.expression.symbols)).name)
        else:
            name = f"arg{len(self.lifted)}_1"
        return placeholder(graph, name, value)

    def described(
        self, result: Any, picture: Picture, flat: bool = False
    ) -> tuple[Recipe, Left, list[Tensor]]:
        """What forward gave and left: its recipe, and the tensors that others got. Where all is `flat`, a
        backward that is part of the program may change what is in the context.
        """
        machine, items = self.machine, items_of(result)
        tensors = [item for item in items if has_type(item, Tensor)]
        for item in tensors:
            if type(item) not in PLAIN:
                raise refused(f"{self.name}, whose forward returns a {type(item).__name__}")
            if not any(item is one for one in self.args):
                outside = id(item) in self.before or any(item is one for one in self.lifted)
                if outside or (item.tracked and item.origin is None):
                    raise refused(f"{self.name}, whose forward returns a tensor from outside")
        changed = has_effects(machine, picture)
        others = [item for item in items if type(item) not in PLAIN and type(item) not in CONSTANT_TYPES]
        left = Templates(machine.world, picture, flat or changed or bool(others)).left(self.name, self.ctx)
        escaped: list[Tensor] = []
        if not flat and (changed or others or left.late):
            roots = [*others, *left.late.values()]
            escaped = escaping(machine, picture, roots, lambda one: self.is_made(one, tensors), changed)
        places = iter(range(len(tensors)))
        outputs = [
            Kept(next(places)) if has_type(item, Tensor) else item if type(item) in CONSTANT_TYPES else None
            for item in items
        ]
        template = tuple(outputs) if has_type(result, tuple) else outputs[0]
        marked = self.ctx.non_differentiable or ()
        recipe = Recipe(self.owner, template, left.saved, left.attributes)
        recipe.marked = tuple([i for i, item in enumerate(items) if any(item is one for one in marked)])
        recipe.materialize = bool(self.ctx.materialize_grads)
        recipe.dirty = self.dirty_among(items)
        recipe.gives_context = flat or bool(left.late)
        return recipe, left, escaped

    def is_made(self, tensor: Tensor, outputs: list[Tensor]) -> bool:
        """Whether a tensor was made by forward, and is none of its results."""
        recorder = self.machine.recorder
        if id(tensor) in self.before:
            return False
        if any(tensor is one for one in (*self.operands, *self.lifted, *outputs)):
            return False
        return id(tensor) in recorder._nodes or id(tensor) in recorder._pending

    def capture_backward(self, recipe: Recipe, left: Left, result: Any) -> Any:
        outputs = [item if has_type(item, Tensor) else None for item in items_of(result)]
        found = capture_backward(self, recipe, left, outputs)
        if found is None:
            recipe.native = True
            return native_graph(outputs)
        recipe.result, recipe.holds = found.result, found.holds
        return found

    def keep_extras(self, recipe: Recipe, left: Left, backward: Any, escaped: list[Tensor]) -> None:
        """Adds to the kept values what has no place in the context that backward's graph sees."""

        def place(value: Any) -> int:
            left.values.append(value)
            return len(left.values) - 1

        recipe.extra = tuple([None if value is None else place(value) for value in backward.extra])
        self.keep_forward(recipe, left)
        recipe.escaped = tuple([place(value) for value in escaped])

    def keep_forward(self, recipe: Recipe, left: Left) -> None:
        """Adds to the kept values what was saved for forward mode."""
        saved = self.ctx.saved_for_forward
        if saved is not None:
            start = len(left.values)
            left.values += [value for value in saved if value is not None]
            places = iter(range(start, len(left.values)))
            recipe.saved_for_forward = tuple([None if v is None else Kept(next(places)) for v in saved])

    def append(
        self, forward: Graph, backward: Graph, recipe: Recipe, result: Any, escaped: list[Tensor]
    ) -> Any:
        """The nodes of the call, and the fakes of what it gives."""
        machine, recorder = self.machine, self.machine.recorder
        recorder.follow_modes()
        where = machine.where()
        graph = recorder.graph
        operands = [recorder.argument(value) for value in (*self.operands, *self.lifted)]
        context = graph.call_function(FunctionCtx, ())
        bodies = [graph.subgraph("fwd_body_0", forward), graph.subgraph("bwd_body_0", backward)]
        kwargs: dict[str, Any] = {
            "args_tensor_mask": [has_type(value, Tensor) for value in self.args],
        }
        if recipe.marked:
            kwargs["non_differentiable_idx"] = list(recipe.marked)
        node = graph.call_function(autograd_function_apply, (*bodies, *operands), kwargs)
        for each in (context, *bodies, node):
            each.meta["source"] = where
        writes = tuple([recorder.node(tensor) for tensor in self.written()])
        shares = shares_memory([*items_of(result), *escaped], [*self.operands, *self.lifted])
        checks = any(effect(inner).checks for inner in forward.nodes)
        random = draws(forward.nodes)
        note_effect(node, Effect(random=random, writes=writes, aliases=shares, checks=checks))
        note_device_of(machine, forward)
        # What this raises the node will raise, too, and the program then runs as it is.
        given = machine.native(recorded, self.owner, self.ctx, self.args, result, True, ABSENT)
        made = tensors_of(given)
        if not escaped and not recipe.gives_context:
            node.meta["val"] = made
            recorder.bind_result(made, node, NO_CALL, [])
            return given
        node.meta["val"] = (made, *escaped, None)
        recorder.bind_result((made, *escaped), node, NO_CALL, [])
        if recipe.gives_context:
            taken = graph.call_function(operator.getitem, (node, len(escaped) + 1))
            taken.meta["val"], taken.meta["source"] = None, where
            recorder.bind(self.ctx, taken)
        return given


def has_effects(machine: Machine, picture: Picture) -> bool:
    """Whether anything is not what it was."""
    try:
        picture.compare(machine)
    except Break:
        return True
    return False
