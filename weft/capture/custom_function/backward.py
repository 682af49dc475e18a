"""The backward of a custom Function as a graph of its own.

Takes a call whose forward has been interpreted; gives the graph of its backward, or None where only the
user's own backward will do. One idea: backward runs later, in another world, so it is captured by a machine
of its own, whose guards are checked when backward runs.

# Note [Backwards that are no graphs]
    reads tensors elsewhere (globals, closures, objects in ctx)    a graph: they are read when backward runs
    has effects, raises, is missing, ends in other modes           None: the user's own backward runs
    prints, branches on data, asks for a gradient's strides        a break, as anywhere
"""

from __future__ import annotations

import contextvars
from dataclasses import field
from enum import Enum
from typing import TYPE_CHECKING, Any

from weft.amp import state as autocast_state
from weft.autograd.function_apply import Kept, Recipe, build, native_backward
from weft.autograd.function_context import FunctionCtx
from weft.autograd.function_node import missing_backward
from weft.capture.custom_function.saved import KIND, OWN, Left, refused
from weft.capture.guards.rendering import guarded, render_guards
from weft.capture.higher_order import first_version, same_modes
from weft.capture.library import note_device_of
from weft.capture.outcome import GraphInput
from weft.capture.reading import FUNCTION, MISS, Reader, local_name
from weft.capture.sources import local
from weft.capture.values import Raised, has_type
from weft.capture.wrapping import SYMBOLIC
from weft.core import modes
from weft.core.records import record
from weft.graph.graph import Graph
from weft.graph.names import snake_case
from weft.graph.node import Node
from weft.tensor.base import PLAIN, Tensor, wrap
from weft.tensor.meta import MetaArray
from weft.trace.breaks import Break, NeedOps
from weft.trace.recorder import version

if TYPE_CHECKING:
    from weft.capture.machine import Machine


@record(slots=True)
class Backward:
    """The graph of a backward."""

    graph: Graph
    extra: list[Any] = field(default_factory=list)
    """What it takes behind what is in the context: sizes, and None for each tensor read elsewhere."""
    result: Any = None
    holds: Any = None


def capture_backward(call: Any, recipe: Recipe, left: Left, outputs: list[Any]) -> Backward | None:
    """Backward's graph. `outputs` are the tensors among what forward returned, and None for all else."""
    owner = call.owner
    given, vjp = owner.backward, owner.vjp
    missing = given is missing_backward
    if (vjp is missing_backward) is missing or all(output is None for output in outputs):
        return None  # whoever asks for gradients is told
    for by_ops in (False, True):
        capture = BackwardCapture(call, recipe, left, by_ops)
        try:
            return contextvars.copy_context().run(capture.run, vjp if missing else given, outputs)
        except NeedOps:
            continue
        except Break as stop:
            if stop.kind != KIND:
                raise
            break
    return None


def native_graph(outputs: list[Any]) -> Backward:
    """A placeholder graph for a backward that was not captured."""
    graph = Graph()
    inputs = [graph.placeholder("function_ctx")]
    for output in outputs:
        if output is not None:
            inputs.append(placeholder(graph, f"gradient_{len(inputs)}", output))
    graph.output(graph.call_function(native_backward, tuple(inputs)))
    return Backward(graph)


class BackwardCapture:
    """One capture of a backward."""

    def __init__(self, call: Any, recipe: Recipe, left: Left, by_ops: bool) -> None:
        self.call, self.recipe, self.left = call, recipe, left
        self.inner: Machine = type(call.machine)(enter_backward, dynamic=False, by_ops=by_ops)
        self.inner.depth = call.machine.depth
        self.extra: list[Any] = []
        self.names: dict[int, str] = {}
        self.values: list[Any] = []
        self.template: Any = None

    def run(self, backward: Any, outputs: list[Any]) -> Backward:
        modes.state.set(True)
        autocast_state.settings.set(None)
        inner, graph = self.inner, self.inner.graph
        recorder = inner.recorder
        recorder.on_input = self.on_input
        graph.placeholder("function_ctx")
        gradients = [self.gradient(output) for output in outputs]
        self.values = [self.stand_in(value, outputs) for value in self.left.values]
        self.recipe.gradients = tuple(map(facts_of, gradients))
        self.recipe.kept = tuple([facts_of(v) if has_type(v, Tensor) else None for v in self.values])
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
            note_device_of(inner, graph)
            holds = checker(inner.world.guards, inner.inputs.items)
            return Backward(graph, self.extra, self.template, holds)
        finally:
            inner.generators.over = True
            for error, _step in inner.world.raised.values():
                error.__traceback__ = None
            inner.world.forget()  # it is part of cycles, and must not hold what the user lets go
            recorder.on_input = inner.inputs.node

    def gradient(self, output: Any) -> Any:
        """The fake of a gradient: of the type of its output, of unknown strides."""
        if output is None:
            return None
        array = output.array
        fake = wrap(MetaArray(array.shape, array.dtype, None, array.device))
        self.names[id(fake)] = self.call.machine.recorder.node(output).name
        return fake

    def stand_in(self, value: Any, outputs: list[Any]) -> Any:
        """What backward finds in place of a value that forward left: outputs require grad by then."""
        ctx = self.call.ctx
        flat, dirty = ctx.non_differentiable or (), ctx.dirty_tensors or ()
        given = (one for one in self.call.args if not any(one is other for other in dirty))
        output = any(value is one for one in outputs) and not any(value is one for one in (*given, *flat))
        if not output or not (value.is_floating_point() or value.is_complex()):
            return value
        return wrap(value.array, True)

    def bind(self, value: Any, given: Any, graph: Graph) -> None:
        recorder = self.inner.recorder
        node = self.call.machine.recorder.argument(value)
        name = node.name if has_type(node, Node) else f"number_{len(graph.placeholders)}"
        made = placeholder(graph, name, given)
        if has_type(node, Node):
            recorder.bind(given, made)

    def on_input(self, value: Any) -> Node:
        """The placeholder for a size, or for a tensor that backward reads when it runs."""
        inner, call = self.inner, self.call
        if has_type(value, SYMBOLIC) and value.owner is call.machine.scalars:
            self.extra.append(value)
            return placeholder(inner.graph, f"size_{len(self.extra)}", value)
        known = inner.world.known.get(id(value))
        if known is None or type(value) not in PLAIN:
            raise refused(f"a {type(value).__name__} from outside in the backward of {call.name}")
        node = placeholder(inner.graph, snake_case(known.source.placeholder_name()), value)
        inner.inputs.items.append(GraphInput(node, known))
        self.extra.append(None)
        return node

    def context(self) -> Any:
        """The context that backward sees."""
        inner, call = self.inner, self.call
        ctx: Any = inner.world.keep(object.__new__(FunctionCtx))
        ctx.__dict__.update({name: value for name, value in vars(call.ctx).items() if name in OWN})
        ctx.to_save = ctx.saved_for_forward = None
        ctx._items = build(self.left.saved or (), self.values)
        for name, template in self.left.attributes.items():
            ctx.__dict__[name] = build(template, self.values)
        for name, value in self.left.late.items():
            known = call.machine.world.known.get(id(value))
            if known is None or known.value is not known.original:
                raise refused(f"a {type(value).__name__} in the context of {call.name}")
            ctx.__dict__[name] = inner.wrapping.wrap(known.original, local("ctx").field(name))
        return ctx

    def result(self, backward: Any, gradients: list[Any]) -> Any:
        """Interprets backward; gives the nodes of the gradients it returns."""
        inner, call = self.inner, self.call
        ctx = self.context()
        tensors = [v for v in (*gradients, *self.values) if has_type(v, Tensor)]
        before = [version(tensor) for tensor in tensors], self.picture(ctx)
        modes.enter(grad=False)
        mode = modes.current()
        try:
            result = inner.calls.call(inner.wrapping.wrap(backward, local("backward")), (ctx, *gradients), {})
        except Raised as raised:
            error = type(raised.exception).__name__
            raise refused(f"the backward of {call.name}, which raises {error}") from None
        if inner.generators.pending is not None:
            raise inner.generators.pending
        if not same_modes(modes.current(), mode):
            raise refused(f"the backward of {call.name}, which changes a mode")
        after = [version(tensor) for tensor in tensors], self.picture(ctx)
        self.check_effects(before == after)
        several = has_type(result, tuple)
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
        inner = self.inner
        world = inner.world
        changed = not same or bool(world.changed_mirrors())
        changed = changed or any(overlay.writes or overlay.deleted for overlay in world.overlays.values())
        changed = changed or any(unopened.log for unopened in world.still_unopened())
        read = [known.value for known in world.known.values() if type(known.value) in PLAIN]
        changed = changed or any(version(tensor) != first_version(inner, tensor) for tensor in read)
        alive = [generator for found in world.generators if (generator := found()) is not None]
        if changed or any(generator.would_act() for generator in alive):
            raise refused(f"the backward of {self.call.name}, which changes something outside")
        objects = [known for known in world.identified.values() if not has_type(known.value, (Enum, type))]
        if len(objects) > 1:
            raise refused(f"the backward of {self.call.name}, which compares objects")

    def check_facts(self) -> None:
        """What backward relied upon of tensors is known when forward runs, or not at all."""
        machine = self.call.machine
        for fake, fact in self.inner.recorder.facts:
            if id(fake) in self.inner.world.known:
                raise refused(f"the {fact} of a tensor from outside in the backward of {self.call.name}")
            if id(fake) not in machine.world.known:
                raise Break("tensor-strides", seen=f"the backward of {self.call.name}")
            machine.recorder.facts.append((fake, fact))


def placeholder(graph: Graph, name: str, value: Any) -> Node:
    """A parameter of a graph, under this name or one like it."""
    taken = {node.target for node in graph.placeholders}
    while name in taken:
        name += "_"
    return graph.placeholder(name, val=value)


def enter_backward(backward: Any, ctx: Any) -> None:
    """Stands for the function whose parameters backward's sources start from."""


def facts_of(tensor: Any) -> Any:
    """What is compared when backward runs."""
    if tensor is None:
        return None
    array = tensor.array
    shape = tuple([None if has_type(size, SYMBOLIC) else size for size in array.shape])
    return shape, array.dtype, tensor.device, tensor.tracked


def checker(guards: Any, inputs: list[GraphInput]) -> Any:
    """A function of a backward and its context: the tensors that are read elsewhere, if the guards hold."""
    lines: list[str] = []
    namespace: dict[str, Any] = {}
    names = ["backward", "ctx"]
    reader = Reader(lines, namespace, names)
    render_guards(guards, reader)
    read = "".join(f"{reader.read(each.known.source)}, " for each in inputs)
    body = guarded(reader)
    parameters = ", ".join([FUNCTION, *map(local_name, names)])
    text = "\n".join([f"def check({parameters}):", *[f"    {line}" for line in (*body, f"return ({read})")]])
    exec(compile(text + "\n", "<weft: guards of a backward>", "exec"), namespace)
    check = namespace.pop("check")

    def holds(backward: Any, ctx: Any) -> Any:
        found = check(enter_backward, backward, ctx)
        return None if found is MISS else found

    return holds
