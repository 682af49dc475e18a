"""Custom autograd Functions in captured code: `Foo.apply(...)` as one node with two sub-graphs.

Takes a call of `Function.apply`; gives, behind a `FunctionCtx()` node, one `autograd_function_apply` node
whose parameters are the graphs of forward and backward. One idea: forward belongs to the program that is
being captured; backward will run later, in another world, so it is captured by a machine of its own, whose
guards are checked when backward runs.

# Note [A Function in a graph]
    Foo.apply(x, config, z)      with config.scale a tensor that forward reads and saves

    function_ctx = FunctionCtx()
    fwd_body_0 = self.fwd_body_0       (function_ctx, x, z, scale) -> (output, [what it left in ctx])
    bwd_body_0 = self.bwd_body_0       (function_ctx, gradient, what it left) -> gradients
    y = autograd_function_apply(fwd_body_0, bwd_body_0, x, z, scale, args_tensor_mask=[True, False, True])
Where no gradient is recorded, forward is simply part of the program, without gradients. What forward changes
outside of itself, and contexts that hold objects which others may change, are breaks; so is anything that
backward does besides computing, since it may run later, twice, or never.
"""

from __future__ import annotations

import contextvars
from _thread import allocate_lock
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

import numpy as np

from weft.amp import state as autocast_state
from weft.autograd.function import Function, no_setup, once_differentiable, positional, recorded
from weft.autograd.function_apply import (
    RECIPE,
    Kept,
    Recipe,
    autograd_function_apply,
    build,
    function_outputs,
)
from weft.autograd.function_context import FunctionCtx, Packed, unpack
from weft.autograd.function_node import missing_backward
from weft.autograd.function_witness import ABSENT
from weft.capture.calls import BY_CODE, handles
from weft.capture.guard_render import guarded, render_guards
from weft.capture.higher_order import NO_CALL, Picture, first_version, same_modes
from weft.capture.library import note_device
from weft.capture.policy import MARK, Policy
from weft.capture.reading import FUNCTION, MISS, Reader, local_name
from weft.capture.sources import READ_BY, local
from weft.capture.values import Raised, isinstance
from weft.capture.wrapping import SCALARS, SYMBOLIC
from weft.core import modes
from weft.core.device import device
from weft.core.dtypes import dtype
from weft.core.types import Size
from weft.graph.effects import Effect, effect
from weft.graph.graph import Graph
from weft.graph.names import snake_case
from weft.graph.node import Node
from weft.tensor.base import PLAIN, Tensor, wrap
from weft.tensor.meta import MetaArray
from weft.trace.breaks import Break
from weft.trace.recorder import version

Args = tuple[Any, ...]
Kwargs = dict[str, Any]
KIND: Final = "autograd-inside"
CONSTANT_TYPES: Final = frozenset({*SCALARS, device, dtype, range, np.dtype})
OWN: Final = frozenset(
    {"_forward_cls", "needs_input_grad", "to_save", "non_differentiable", "materialize_grads"}
)
"""What a context has in its `__dict__` beside the user's attributes."""


def refused(seen: str) -> Break:
    return Break(KIND, seen=seen)


# -- the call ------------------------------------------------------------------------------------------------
@handles(Function.apply.__func__)  # type: ignore[attr-defined]
def apply(machine: Any, args: Args, kwargs: Kwargs) -> Any:
    owner, *given = args
    if not isinstance(owner, type) or not issubclass(owner, Function):
        raise refused("Function.apply of something else")
    policy = owner.__dict__.get(MARK, (None, ""))[0]
    if policy is Policy.IN_GRAPH:
        return machine.native(machine.recorder.record, owner.apply, tuple(given), kwargs)
    if policy is Policy.BREAK:
        raise Break("skipped-function", seen=owner.__qualname__)
    if machine.load_attribute(owner, "apply").__func__ is not Function.apply.__func__:  # type: ignore[attr-defined]
        raise refused(f"{owner.__qualname__}.apply")
    for value in given:
        if isinstance(value, Tensor) and type(value) not in PLAIN:
            raise refused(f"{owner.__qualname__} on a {type(value).__name__}")
    setup = machine.load_attribute(owner, "setup_context")
    forward = machine.load_attribute(owner, "forward")
    plain = setup is no_setup
    if kwargs or not plain:
        bound = machine.native(positional, owner, tuple(given), kwargs, plain)
        given = [
            *bound[: len(given) + len(kwargs)],
            *defaults_read(machine, owner, forward, bound, given, kwargs),
        ]
    call = Call(machine, owner, tuple(given), forward, None if plain else setup)
    return call.record() if call.is_live() else call.inline()


def defaults_read(
    machine: Any, owner: Any, forward: Any, bound: Args, given: list[Any], kwargs: Kwargs
) -> list[Any]:
    """The default values of forward's last parameters that `setup_context` is to see."""
    count = len(bound) - len(given) - len(kwargs)
    if not count:
        return []
    function = getattr(forward, "__func__", forward)
    source = machine.world.source_of(function)
    values = getattr(function, "__defaults__", None) or ()
    if kwargs or source is None or count > len(values):
        raise refused(f"{owner.__qualname__} with default values")
    machine.note_defaults(function, source)
    places = range(len(values) - count, len(values))
    return [machine.wrap(values[place], source.member("__defaults__").item(place)) for place in places]


@handles(Function.__init__)
def instantiate(machine: Any, args: Args, kwargs: Kwargs) -> None:
    """`Foo().apply(x)`: the instance is of no use, and says so when it is made uncompiled."""


def differentiate_once(machine: Any, function: Any, args: Args, kwargs: Kwargs) -> Any:
    """A backward that cannot be differentiated: where nothing is recorded, it is just that backward."""
    if modes.grad_enabled():
        raise refused("once_differentiable, called by captured code")
    return machine.call(machine.load_attribute(function, "__wrapped__"), args, kwargs)


BY_CODE[once_differentiable(lambda ctx: None).__code__] = differentiate_once


def _native(function: Any) -> None:
    @handles(function)
    def noted(machine: Any, args: Args, kwargs: Kwargs) -> Any:
        if not args or not machine.world.is_fresh(args[0]):
            raise refused(f"ctx.{function.__name__} of a context from outside")
        return machine.native(function, *args, **kwargs)


def saved_of(ctx: Any) -> Any:
    """The saved tensors of a context from outside; hooks of the user's must not run where guards read."""
    if any(type(item) is Packed for item in ctx._items or ()):
        raise LookupError("saved tensors in the hands of hooks")
    return unpack(ctx)


READ_BY[FunctionCtx, "saved_tensors"] = saved_of


@handles(FunctionCtx.__dict__["saved_tensors"].fget)
def saved_tensors(machine: Any, args: Args, kwargs: Kwargs) -> Any:
    (ctx,) = args
    source = machine.world.source_of(ctx)
    if source is None:
        return machine.native(unpack, ctx)
    if any(type(item) is Packed for item in ctx._items or ()):
        raise refused("saved tensors in the hands of hooks")
    found = machine.native(saved_of, ctx)  # which raises where they were freed or overwritten
    return machine.wrap(found, source.member("saved_tensors"))


for _method in ("save_for_backward", "mark_dirty", "mark_non_differentiable", "set_materialize_grads"):
    _native(FunctionCtx.__dict__[_method])


@dataclass(slots=True)
class Left:
    """What forward left in its context, as templates over the values that its graph has to give."""

    values: list[Any] = field(default_factory=list)
    saved: tuple[Any, ...] | None = None
    attributes: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Backward:
    """The graph of a backward."""

    graph: Graph
    numbers: list[Any]
    result: Any
    guards: Any


class Call:
    """One call of `apply`."""

    def __init__(self, machine: Any, owner: Any, args: Args, forward: Any, setup: Any) -> None:
        self.machine, self.owner, self.args = machine, owner, args
        self.forward, self.setup = forward, setup
        self.name = owner.__qualname__
        self.operands = [value for value in args if isinstance(value, Tensor)]
        self.lifted: list[Any] = []
        self.ctx: Any = machine.world.keep(object.__new__(FunctionCtx))
        self.ctx._forward_cls = owner
        self.ctx.needs_input_grad = tuple([isinstance(v, Tensor) and v.tracked for v in args])

    def is_live(self) -> bool:
        mode = modes.modes()
        return mode.grad and not mode.inference and any(self.ctx.needs_input_grad)

    def run_forward(self) -> Any:
        machine = self.machine
        if self.setup is None:
            return machine.call(self.forward, (self.ctx, *self.args), {})
        result = machine.call(self.forward, self.args, {})
        machine.call(self.setup, (self.ctx, self.args, result), {})
        return result

    # -- without gradients -----------------------------------------------------------------------------------
    def inline(self) -> Any:
        """Forward as part of the program."""
        token = modes.enter(grad=False)
        try:
            result = self.run_forward()
        finally:
            modes.leave(token)
        self.check_context()
        values = tuple(result) if isinstance(result, tuple) else (result,)
        given = any(value is one for value in values for one in self.operands)
        if given or any(isinstance(value, Tensor) and (value.tracked or value.origin) for value in values):
            return self.hand_out(values, isinstance(result, tuple))
        return values if isinstance(result, tuple) else result

    def hand_out(self, values: Args, several: bool) -> Any:
        """Inputs and views among the outputs, as eager makes them: one more node."""
        machine, recorder = self.machine, self.machine.recorder
        for value in values:
            if type(value) not in PLAIN and type(value) not in CONSTANT_TYPES:
                raise refused(f"{self.name}, whose forward returns a {type(value).__name__}")
            argument = any(value is one for one in self.operands)
            if isinstance(value, Tensor) and value.tracked and value.origin is None and not argument:
                raise refused(f"{self.name}, whose forward returns a tensor from outside")
        result = values if several else values[0]
        parts = recorder.argument(result), recorder.argument(tuple(self.operands))
        given = machine.native(function_outputs, result, tuple(self.operands))
        recorder.follow_modes()
        node = recorder.graph.call_function(function_outputs, parts)
        node.meta["val"], node.meta["source"], node.meta["effect"] = given, machine.where(), Effect()
        recorder.bind_result(given, node, NO_CALL, [])
        return given

    def check_context(self) -> None:
        if self.ctx.dirty_tensors is not None:
            raise refused(f"{self.name}, whose forward marks inputs as dirty")
        if self.ctx.saved_for_forward is not None:
            raise refused(f"{self.name}, whose forward saves for forward mode")

    # -- as a node -------------------------------------------------------------------------------------------
    def record(self) -> Any:
        machine, recorder = self.machine, self.machine.recorder
        graph = Graph()
        nodes = [recorder.node(tensor) for tensor in self.operands]
        picture, state = Picture(machine, self.forward), modes.current()
        self.before = versions = {id(tensor): version(tensor) for tensor in recorder.tensors()}
        self.outer = recorder._nodes
        with recorder.nested(graph, lambda value: self.lift(graph, value)):
            graph.placeholder("function_ctx")
            for tensor, node in zip(self.operands, nodes):
                recorder.bind(tensor, placeholder(graph, node.name, tensor))
            token = modes.enter(grad=False)
            try:
                recorder.start()
                result = self.run_forward()
                recipe, left, outputs = self.described(result, picture)
                backward = self.capture_backward(recipe, left, outputs)
                left.values += backward.numbers
                kept = [recorder.argument(value) for value in left.values]
                recorder.finish()
                graph.output((recorder.argument(outputs), kept))
                for value in recorder.tensors():
                    if id(value) not in versions:  # made here, and nobody else's: see `Wrapping.input_node`
                        machine.world.keep(value)
            finally:
                modes.leave(token)
        inputs = [*self.operands, *[value for value in self.lifted if isinstance(value, Tensor)]]
        for tensor in inputs:
            if version(tensor) != versions.get(id(tensor), first_version(machine, tensor)):
                raise refused(f"{self.name}, whose forward writes to a tensor from outside")
        if not same_modes(modes.current(), state):
            raise refused(f"{self.name}, whose forward changes a mode")
        self.check_effects(picture, recipe)
        graph.meta[RECIPE] = recipe
        recipe.numbers, recipe.result = len(backward.numbers), backward.result
        recipe.holds = checker(backward.guards)
        given = self.append(graph, backward.graph, recipe, result)
        self.ctx._captured = machine.world.keep(allocate_lock())  # no copy of the context can be made now
        return given

    def check_effects(self, picture: Picture, recipe: Recipe) -> None:
        """What forward changes is changed by the program, unless others now hold what is in the context."""
        try:
            picture.compare(self.machine)
        except Break:
            if holds_containers(recipe.attributes):
                raise refused(
                    f"{self.name}, whose forward has effects, and containers in its context"
                ) from None

    def lift(self, graph: Graph, value: Any) -> Node:
        """The placeholder for what forward reads elsewhere."""
        if not isinstance(value, (Tensor, *SYMBOLIC)):
            raise refused(f"a {type(value).__name__} used by {self.name}")
        self.lifted.append(value)
        known, source = self.outer.get(id(value)), self.machine.world.source_of(value)
        if known is not None:
            name = known.name
        elif source is not None:
            name = snake_case(source.placeholder_name())
        elif isinstance(value, SYMBOLIC) and value.expression.op == "symbol":
            name = str(next(iter(value.expression.symbols)).name)
        else:
            name = f"arg{len(self.lifted)}_1"
        return placeholder(graph, name, value)

    def described(self, result: Any, picture: Picture) -> tuple[Recipe, Left, Any]:
        """What forward gave and left: its recipe, and the tensors it returned."""
        self.check_context()
        several = isinstance(result, tuple)
        items = tuple(result) if several else (result,)
        tensors = [item for item in items if isinstance(item, Tensor)]
        if not tensors:
            raise refused(f"{self.name}, whose forward returns no tensor")
        for item in items:
            if type(item) not in PLAIN and type(item) not in CONSTANT_TYPES:
                raise refused(f"{self.name}, whose forward returns a {type(item).__name__}")
            if isinstance(item, Tensor) and not any(item is one for one in self.args):
                outside = id(item) in self.before or any(item is one for one in self.lifted)
                if outside or (item.tracked and item.origin is None):
                    raise refused(f"{self.name}, whose forward returns a tensor from outside")
        places = iter(range(len(items)))
        outputs = [Kept(next(places)) if isinstance(item, Tensor) else item for item in items]
        left = self.left(picture)
        recipe = Recipe(self.owner, tuple(outputs) if several else outputs[0], left.saved, left.attributes)
        recipe.materialize = bool(self.ctx.materialize_grads)
        return recipe, left, tuple(tensors) if several else tensors[0]

    def left(self, picture: Picture) -> Left:
        """Templates of what is in the context."""
        left = Left()
        saved = self.ctx.to_save
        if saved is not None:
            if type(saved) is not tuple or not all(v is None or type(v) in PLAIN for v in saved):
                raise refused(f"{self.name}, which saves something else than tensors")
            left.saved = self.template(saved, left, picture, set())
        seen: set[int] = set()
        for name, value in vars(self.ctx).items():
            if name not in OWN:
                left.attributes[name] = self.template(value, left, picture, seen)
        return left

    def template(self, value: Any, left: Left, picture: Picture, seen: set[int]) -> Any:
        kind = type(value)
        if kind in PLAIN or isinstance(value, SYMBOLIC):
            left.values.append(value)
            return Kept(len(left.values) - 1)
        if kind is tuple or kind is Size:
            items = [self.template(item, left, picture, seen) for item in value]
            return tuple.__new__(kind, items)  # a Size of places, until it is built
        if kind in CONSTANT_TYPES or isinstance(value, (Enum, type)):
            return value
        if kind not in (list, dict):
            raise refused(f"a {kind.__name__} in the context of {self.name}")
        shared = id(value) in picture.parts or id(value) in seen
        if shared or not self.machine.world.is_fresh(value):
            raise refused(f"a {kind.__name__} in the context of {self.name} that others may change")
        seen.add(id(value))
        if kind is list:
            return [self.template(item, left, picture, seen) for item in value]
        if not all(type(key) in SCALARS for key in value):
            raise refused(f"a dict in the context of {self.name}")
        return {key: self.template(item, left, picture, seen) for key, item in value.items()}

    def append(self, forward: Graph, backward: Graph, recipe: Recipe, result: Any) -> Any:
        """The nodes of the call, and the fakes of what it gives."""
        machine, recorder = self.machine, self.machine.recorder
        flat = self.ctx.non_differentiable or ()
        items = result if isinstance(result, tuple) else (result,)
        marked = [i for i, item in enumerate(items) if any(item is one for one in flat)]
        given = machine.native(recorded, self.owner, self.ctx, self.args, result, True, ABSENT)
        recorder.follow_modes()
        where = machine.where()
        graph = recorder.graph
        operands = [recorder.argument(value) for value in (*self.operands, *self.lifted)]
        context = graph.call_function(FunctionCtx, ())
        bodies = [graph.subgraph("fwd_body_0", forward), graph.subgraph("bwd_body_0", backward)]
        kwargs: dict[str, Any] = {
            "args_tensor_mask": [isinstance(value, Tensor) for value in self.args],
        }
        if marked:
            kwargs["non_differentiable_idx"] = marked
        node = graph.call_function(autograd_function_apply, (*bodies, *operands), kwargs)
        for made in (context, *bodies, node):
            made.meta["source"] = where
        node.meta["val"] = given
        draws = any(effect(inner).random for inner in forward.nodes)
        node.meta["effect"] = Effect(random=draws)
        if any(makes_tensor(inner) for inner in forward.nodes):
            note_device(machine)
        recorder.bind_result(given, node, NO_CALL, [])
        return given

    # -- backward --------------------------------------------------------------------------------------------
    def capture_backward(self, recipe: Recipe, left: Left, outputs: Any) -> Backward:
        """Backward's graph, from a machine whose guards are its own."""
        owner = self.owner
        backward = owner.backward
        if backward is missing_backward or owner.vjp is not missing_backward:
            raise refused(f"{self.name} without a backward, or with a vjp")
        capture = BackwardCapture(self, recipe, left)
        tensors = iter(outputs if isinstance(outputs, tuple) else (outputs,))
        items = recipe.outputs if type(recipe.outputs) is tuple else (recipe.outputs,)
        pairs = [(next(tensors) if type(item) is Kept else None) for item in items]
        return contextvars.copy_context().run(capture.run, backward, pairs)


class BackwardCapture:
    """One capture of a backward."""

    def __init__(self, call: Call, recipe: Recipe, left: Left) -> None:
        self.call, self.recipe, self.left = call, recipe, left
        self.inner: Any = type(call.machine)(enter_backward, dynamic=False)
        self.inner.depth = call.machine.depth
        self.numbers: list[Any] = []

    def run(self, backward: Any, outputs: list[Any]) -> Backward:
        modes.state.set(True)
        autocast_state.settings.set(None)
        inner, graph = self.inner, self.inner.graph
        recorder = inner.recorder
        recorder.on_input = self.on_input
        graph.placeholder("function_ctx")
        gradients = [self.gradient(output, graph) for output in outputs]
        self.values = [self.stand_in(value, outputs) for value in self.left.values]
        self.recipe.gradients = tuple(map(facts_of, gradients))
        self.recipe.kept = tuple([facts_of(v) if isinstance(v, Tensor) else None for v in self.values])
        recorder.copies_unknown = True
        try:
            with recorder:
                for fake in [gradient for gradient in gradients if gradient is not None]:
                    recorder.bind(fake, placeholder(graph, self.names[id(fake)], fake))
                for value, given in zip(self.left.values, self.values):
                    self.bind(value, given, graph)
                result = self.result(backward, gradients)
                recorder.finish()
                graph.output(result)
            self.check_facts()
            if any(makes_tensor(node) for node in graph.nodes):
                note_device(inner)
            return Backward(graph, self.numbers, self.template, inner.world.guards)
        finally:
            inner.over = True

    names: dict[int, str]
    values: list[Any]
    template: Any = None

    def gradient(self, output: Any, graph: Graph) -> Any:
        """The fake of a gradient: of the type of its output, of unknown strides."""
        if output is None:
            return None
        array = output.array
        fake = wrap(MetaArray(array.shape, array.dtype, None, array.device))
        self.names = {**getattr(self, "names", {}), id(fake): self.call.machine.recorder.node(output).name}
        return fake

    def stand_in(self, value: Any, outputs: list[Any]) -> Any:
        """What backward finds in place of a value that forward left: outputs require grad by then."""
        call = self.call
        flat = call.ctx.non_differentiable or ()
        output = any(value is one for one in outputs) and not any(value is one for one in (*call.args, *flat))
        if not output or not (value.is_floating_point() or value.is_complex()):
            return value
        return wrap(value.array, True)

    def bind(self, value: Any, given: Any, graph: Graph) -> None:
        recorder = self.inner.recorder
        node = self.call.machine.recorder.argument(value)
        name = node.name if isinstance(node, Node) else f"number_{len(graph.placeholders)}"
        made = placeholder(graph, name, given)
        if isinstance(node, Node):
            recorder.bind(given, made)

    def on_input(self, value: Any) -> Node:
        """The placeholder for a size that backward uses; anything else is not the graph's to read."""
        if not isinstance(value, SYMBOLIC) or value.owner is not self.call.machine.scalars:
            raise refused(f"a tensor from outside in the backward of {self.call.name}")
        self.numbers.append(value)
        return placeholder(self.inner.graph, f"size_{len(self.numbers)}", value)

    def result(self, backward: Any, gradients: list[Any]) -> Any:
        """Interprets backward; gives the nodes of the gradients it returns."""
        inner, call = self.inner, self.call
        ctx: Any = inner.world.keep(object.__new__(FunctionCtx))
        ctx.__dict__.update({name: value for name, value in vars(call.ctx).items() if name in OWN})
        ctx.to_save, ctx._items = None, build(self.left.saved or (), self.values)
        for name, template in self.left.attributes.items():
            ctx.__dict__[name] = build(template, self.values)
        tensors = [v for v in (*gradients, *self.values) if isinstance(v, Tensor)]
        before = [version(tensor) for tensor in tensors], self.picture(ctx)
        modes.enter(grad=False)
        mode = modes.current()
        try:
            result = inner.call(inner.wrap(backward, local("backward")), (ctx, *gradients), {})
        except Raised as raised:
            error = type(raised.exception).__name__
            raise refused(f"the backward of {call.name}, which raises {error}") from None
        if inner.pending is not None:
            raise inner.pending
        if not same_modes(modes.current(), mode):
            raise refused(f"the backward of {call.name}, which changes a mode")
        after = [version(tensor) for tensor in tensors], self.picture(ctx)
        self.check_effects(before == after)
        several = isinstance(result, tuple)
        items = tuple(result) if several else (result,)
        for item in items:
            if item is not None and type(item) not in PLAIN:
                raise refused(f"the backward of {call.name}, which returns a {type(item).__name__}")
        made = [item for item in items if item is not None]
        places = iter(range(len(made)))
        template = tuple([None if item is None else Kept(next(places)) for item in items])
        self.template = template if several else template[0]
        return tuple([inner.recorder.node(item) for item in made])

    def picture(self, ctx: Any) -> list[Any]:
        """What is in the context, down to its containers."""
        found: list[Any] = []
        waiting = [vars(ctx)]
        while waiting:
            part: Any = waiting.pop()
            found.append(id(part))
            if type(part) is dict:
                found += list(part)
                waiting += part.values()
            elif type(part) in (list, tuple):
                found.append(len(part))
                waiting += part
        return found

    def check_effects(self, same: bool) -> None:
        world = self.inner.world
        changed = not same or world.changed_mirrors()
        changed = changed or any(overlay.writes or overlay.deleted for overlay in world.overlays.values())
        changed = changed or any(waiting.values for waiting in world.appended.values())
        alive = [generator for found in world.generators if (generator := found()) is not None]
        changed = changed or any(generator.would_act() for generator in alive)
        if changed or self.inner.inputs:
            raise refused(f"the backward of {self.call.name}, which changes or reads something outside")
        objects = [known for known in world.identified.values() if not isinstance(known.value, (Enum, type))]
        if len(objects) > 1:
            raise refused(f"the backward of {self.call.name}, which compares objects")

    def check_facts(self) -> None:
        """What backward relied upon of tensors is known when forward runs, or not at all."""
        machine = self.call.machine
        for fake, fact in self.inner.recorder.facts:
            if id(fake) not in machine.world.known:
                raise Break("tensor-strides", seen=f"the backward of {self.call.name}")
            machine.recorder.facts.append((fake, fact))


def holds_containers(attributes: dict[str, Any]) -> bool:
    waiting = list(attributes.values())
    while waiting:
        value = waiting.pop()
        if type(value) in (list, dict):
            return True
        if isinstance(value, tuple):
            waiting += value
    return False


def placeholder(graph: Graph, name: str, value: Any) -> Node:
    """A parameter of a graph, under this name or one like it."""
    taken = {node.target for node in graph.placeholders}
    while name in taken:
        name += "_"
    return graph.placeholder(name, val=value)


def enter_backward(backward: Any) -> None:
    """Stands for the function whose parameters backward's sources start from."""


def facts_of(tensor: Any) -> Any:
    """What is compared when backward runs."""
    if tensor is None:
        return None
    array = tensor.array
    shape = tuple([None if isinstance(size, SYMBOLIC) else size for size in array.shape])
    return shape, array.dtype, tensor.device, tensor.tracked


def makes_tensor(node: Node) -> bool:
    """Whether a node may make a tensor from nothing but numbers."""
    if node.op != "call_function" or not isinstance(node.meta.get("val"), Tensor):
        return False
    return not any(isinstance(value.meta.get("val"), Tensor) for value in node.all_input_nodes)


def checker(guards: Any) -> Any:
    """A function that says of a backward whether the guards hold."""
    lines: list[str] = []
    namespace: dict[str, Any] = {}
    reader = Reader(lines, namespace, ["backward"])
    render_guards(guards, reader)
    body = guarded(reader) or ["pass"]
    head = f"def check({FUNCTION}, {local_name('backward')}):"
    text = "\n".join([head, *[f"    {line}" for line in body]]) + "\n"
    exec(compile(text, "<guards of a backward>", "exec"), namespace)
    check = namespace.pop("check")
    return lambda backward: check(enter_backward, backward) is not MISS
