"""The shadow of a tape: the same nodes over fakes, and the graph that the engine's run over it gives.

Takes a `Walk`; gives a `Recording`: the `GraphModule`, and what it was made for. One idea: a shadow node is
of the very class of the live one, so its gradient rules are the live ones; only hooks, leaves and custom
backwards are stood for, by nodes that call them.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from weft.aot.compiled_autograd.walk import Changed, NeedsEngine, Visitor, Walk, types_read
from weft.aot.runtime.nodes import CompiledFunctionBackward, residuals_of
from weft.autograd import compiled_calls as calls
from weft.autograd.function_node import FunctionNode
from weft.autograd.hooks import KINDS, HookKind, Hooks, standing
from weft.autograd.tasks import Task, _run
from weft.core import modes
from weft.core.device import cpu
from weft.core.dtypes import BY_NUMPY
from weft.core.types import Size, TensorType
from weft.graph.graph import Graph
from weft.graph.node import Node as GraphNode
from weft.ops.record import ops
from weft.ops.sweep import LEAF_SEQUENCE
from weft.tensor.backward import revive
from weft.tensor.base import Tensor, wrap
from weft.tensor.meta import MetaArray
from weft.tensor.saved import Item
from weft.tensor.tape import Node
from weft.trace.breaks import Break
from weft.trace.fake import bare
from weft.trace.host import Host
from weft.trace.module import GraphModule
from weft.trace.op_recorder import OpRecorder
from weft.trace.scalars import Scalars

if TYPE_CHECKING:
    from weft.core.arrays import Array


STANDS_FOR: Final[dict[type, type]] = {}
RUNS_USER_CODE: Final = frozenset(
    {calls.call_backward, calls.unpack_saved, *[calls.HOOK_CALLS[kind] for kind in KINDS if kind.of_users]}
)
NOTHING: Final = Changed([], [])
_made = 0


class Fakes(Visitor):
    """Makes fakes and symbols where `walk.Keys` made keys, in the same order."""

    def __init__(self, walk: Walk, changed: Changed) -> None:
        self.walk = walk
        self.scalars = Scalars()
        self.tensors: list[Tensor | None] = [None] * len(walk.inputs)
        self.arrays: dict[int, MetaArray] = {}
        self.sizes: list[Any] = list(walk.sizes)
        self.floats: list[Any] = list(walk.floats)
        self.symbols: list[tuple[Any, str, int, list[int]]] = []
        """Each symbol with the list that feeds it, its place there, and its places in the walk."""
        self.at = self.number_at = 0
        for place, group in enumerate(changed.sizes):
            made = self.scalars.symbol_int(f"sizes[{place}]", walk.sizes[group[0]], size=True)
            for position in group:
                self.sizes[position] = made
            self.symbols.append((made, "sizes", place, group))
        for place, position in enumerate(changed.floats):
            made = self.scalars.symbol_float(f"scalars[{place}]", walk.floats[position])
            self.floats[position] = made
            self.symbols.append((made, "scalars", place, [position]))

    def array(self, array: object) -> Any:
        known = self.arrays.get(id(array))
        return self.lift(array, self.walk.keys.places[id(array)]) if known is None else known

    def tensor(self, tensor: Tensor) -> Any:
        return wrap(self.array(tensor.array))

    def lift(self, array: Any, place: int) -> MetaArray:
        shape = self.shape(array.shape)
        strides = None if array.flags.c_contiguous else array.strides
        made = MetaArray(shape, array.dtype, strides, cpu, True)
        self.arrays.setdefault(id(array), made)
        self.tensors[place] = wrap(made)
        return made

    def shape(self, shape: tuple[int, ...]) -> Any:
        start = self.at
        self.at += len(shape)
        return tuple(self.sizes[start : self.at])

    def integer(self, value: int) -> Any:
        self.at += 1
        return self.sizes[self.at - 1]

    def number(self, value: float) -> Any:
        self.number_at += 1
        return self.floats[self.number_at - 1]

    def constant(self, value: object) -> Any:
        return value

    def positions(self, array: Array) -> Any:
        return array

    def sequence(self, kind: type, items: list[Any]) -> Any:
        if kind is slice or kind is TensorType:
            return kind(*items)
        return Size(items) if kind is Size and all(type(item) is int for item in items) else kind(items)


class ShadowTask(Task):
    """A run over the shadow: as the engine runs the live tape, on tensors that are fakes."""

    __slots__ = ("plainly", "check")
    plainly: bool
    check: Callable[[Any, Any], None]

    def apply(self, node: Any, gradient: object) -> Any:
        if gradient is None and self.plainly and node.hooks is None:
            return None if node._seq == LEAF_SEQUENCE else self.undefined(node)
        return super().apply(node, gradient)

    def rules(self, node: Any, given: Any) -> Any:
        self.check(node, given)
        return super().rules(node, given)

    def given(self, gradient: Any) -> Any:
        return gradient  # what graphs call hands on a tensor of its own

    def is_told(self, node: Any, slot: int, gradient: Any) -> bool:
        raise NeedsEngine("a hook that is called without a gradient")


class PackedItem(NamedTuple):
    """A saved tensor that a hook packed: the hook's number, and what it will give."""

    number: int
    shape: tuple[Any, ...]
    kind: Any


class ShadowPacked:
    """Stands for what a node saved under hooks: the graph calls them when the node runs."""

    def __init__(self, recording: Recording, values: list[Any]) -> None:
        self.recording, self.values = recording, values

    def tensors(self, node: Node) -> tuple[Any, ...]:
        pairs = zip(node.saved_sources, self.values, strict=True)
        return tuple([revive(node, source, self.unpacked(value)) for source, value in pairs])

    def unpacked(self, value: object) -> Any:
        if type(value) is tuple or type(value) is list:
            return type(value)([self.unpacked(item) for item in value])
        if type(value) is not PackedItem:
            return value
        made = wrap(MetaArray(value.shape, value.kind, None, cpu, False))
        recording = self.recording
        return recording.call(calls.unpack_saved, (recording.hook(value.number),), made).array


class CalledBackward(Node):
    """Stands for the node of a custom Function: its backward is called by the graph."""

    __slots__ = ("outputs", "recording", "hook", "given", "materialize", "released")
    runs_without_gradient = True
    outputs: Any
    recording: Recording
    hook: int
    given: tuple[bool, ...]
    materialize: bool
    released: bool

    def graph_backward(self, grad: Any) -> Any:
        recording = self.recording
        grads = list(grad) if self.outputs is not None else [grad]
        for place, value in enumerate(grads):
            if value is None and self.materialize:
                grads[place] = self.zeros(place)
        results = []
        for place, given in enumerate(self.given):
            shape, kind = self.types[2 * place : 2 * place + 2]
            results.append(wrap(MetaArray(shape, kind, None, cpu, False)) if given else None)
        shapes = tuple([self.types[2 * place] if given else None for place, given in enumerate(self.given)])
        recording.expected[self.hook] = self.given
        args = (recording.hook(self.hook), self.hook, self.given, shapes, *grads)
        return recording.call(calls.call_backward, args, tuple(results))

    def zeros(self, place: int) -> Any:
        if self.outputs is None:
            shape, kind = self.types[-2:]
            return ops.zeros(shape, dtype=BY_NUMPY[kind])
        made = self.outputs[place]
        return None if made is None else ops.zeros(made.shape, dtype=made.dtype)

    def release(self) -> None:
        self.released = True


class InlinedBackward(Node):
    """Stands for the node of a compiled graph: the calls of its backward graph become calls of this one."""

    __slots__ = ("outputs", "module", "mask")
    outputs: Any
    module: Any
    mask: Any

    def graph_backward(self, grad: Any) -> Any:
        if any((value is not None) != there for value, there in zip(grad, self.mask, strict=True)):
            raise NeedsEngine(
                "a compiled graph whose outputs get gradients in another combination than before"
            )
        saved = [wrap(value) if type(value) is MetaArray else value for value in self.saved]
        results = self.module.forward(*saved, *[value for value in grad if value is not None])
        return list(results)


STANDS_FOR[CompiledFunctionBackward] = InlinedBackward


class _Leaves(Host):
    """Gradients of leaves are effects of the graph."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording

    def accumulate(self, leaf: Tensor, gradient: object, graph: bool) -> Any:
        self.recording.accumulate(leaf, gradient, graph)


class Recording:
    """The graph of a tape, and what it was made for."""

    def __init__(
        self, walk: Walk, gradients: dict[int, tuple[bool, ...]], changed: Changed = NOTHING
    ) -> None:
        self.walk: Any = walk
        self.gradients = gradients
        self.expected: dict[int, calls.Pattern] = {}
        """Where custom backwards and hooks of nodes give gradients, as far as they are called."""
        self.fakes: Any = Fakes(walk, changed)
        self.graph = Graph()
        self.constants: dict[str, Any] = {}
        self.recorder: Any = OpRecorder(self.graph, self.on_input)
        self.recorder.host = _Leaves(self)
        self.lists = {name: self.graph.placeholder(name) for name in ("inputs", "sizes", "scalars", "hooks")}
        for node in self.lists.values():
            node.type = list
        self.items: dict[tuple[str, int], GraphNode] = {}
        self.shadows: dict[Any, Any] = {}
        self.lives: dict[Any, Any] = {}
        self.called = False
        """Whether code of the user's has been called so far."""
        self.positions: list[int] = []
        self.trace()
        self.symbols = self.fakes.symbols
        self.sizes, self.floats = list(walk.sizes), list(walk.floats)
        self.programs = walk.programs
        self.scalars = self.fakes.scalars
        self.scalars.close()
        self.numbers_released = [walk.numbers[n] for n in walk.order if self.is_released(n)]
        self.module = self.finish()
        self.walk = self.fakes = self.recorder = None  # which hold the tape
        self.shadows, self.lives, self.items, self.lists = {}, {}, {}, {}

    # -- nodes of the graph ----------------------------------------------------------------------------------
    def item(self, name: str, place: int) -> GraphNode:
        """The node that takes an item from one of the lists."""
        node = self.items.get((name, place))
        if node is None:
            node = self.graph.call_function(operator.getitem, (self.lists[name], place))
            node.meta["val"] = None
            self.items[name, place] = node
        return node

    def hook(self, number: int) -> GraphNode:
        return self.item("hooks", number)

    def on_input(self, value: object) -> GraphNode:
        """What no recorded call made: a symbol, an input, or a constant of a rule."""
        for symbol, name, place, _ in self.fakes.symbols:
            if getattr(value, "expression", None) == symbol.expression:
                node = self.item(name, place)
                node.meta["val"] = value
                return node
        if isinstance(value, np.ndarray) or (
            isinstance(value, Tensor) and type(value.array) is not MetaArray
        ):
            name = f"_tensor_constant{len(self.constants)}"
            self.constants[name] = value
            node = self.graph.get_attr(name)
            node.meta["val"] = value
            return node
        raise Break("unknown-tensor", "a tensor on the tape that no recorded call made")

    def call(self, function: Callable[..., Any], args: tuple[Any, ...], result: Any) -> Any:
        """Records a call of one of the functions in `weft.autograd.compiled_calls`."""
        recorder = self.recorder
        self.called = self.called or function in RUNS_USER_CODE
        node = self.graph.call_function(function, tuple(map(self.argument, args)))
        node.meta["val"] = result
        if isinstance(result, tuple):
            for place, value in enumerate(result):
                if value is not None:
                    part = self.graph.call_function(operator.getitem, (node, place))
                    part.meta["val"] = value
                    recorder.bind(value, part)
        elif result is not None:
            recorder.bind(result, node)
        return result

    def check(self, shadow: object, gradient: object) -> None:
        """Hooks that have run may have written what a node saved, which is about to run."""
        number = self.walk.checked.get(self.lives.get(shadow)) if self.called else None
        if number is not None:
            given = gradient if isinstance(gradient, (tuple, list)) else (gradient,)
            if any(value is not None for value in given):
                self.call(calls.check_saved, (self.hook(number),), None)

    def call_hook(self, kind: HookKind, number: int, *given: Any) -> Any:
        """Records the call of a hook: it answers with gradients like the first of those given."""
        function, values = calls.HOOK_CALLS[kind], given[0]
        hook = self.item("hooks" if kind.of_users else "inputs", number)
        if not (kind.of_users and kind.gets_gradients):
            return self.call(function, (hook, *given), None)
        if not kind.several:
            return self.call(function, (hook, *given), bare(values))
        left = self.gradients.get(number, calls.pattern(values))
        if any(there and value is None for there, value in zip(left, values, strict=True)):
            raise NeedsEngine("a hook that makes a gradient where there was none")
        made = tuple([bare(value) if there else None for there, value in zip(left, values, strict=True)])
        self.expected[number] = left
        return self.call(function, (hook, number, left, *given), made)

    def argument(self, value: object) -> Any:
        return value if isinstance(value, GraphNode) else self.recorder.argument(value)

    def accumulate(self, leaf: Tensor, gradient: object, _create_graph: bool) -> None:
        self.call(calls.accumulate_grad, (leaf, gradient), None)

    # -- the shadow ------------------------------------------------------------------------------------------
    def trace(self) -> None:
        """Runs the engine over the shadow."""
        walk, fakes = self.walk, self.fakes
        seeds = [(node, slot, fakes.value(gradient)) for node, slot, gradient in walk.seeds]
        hooks = iter(range(len(walk.hooks)))
        for leaf in walk.leaves:
            self.shadows[leaf] = self.leaf(leaf, hooks)
        for node in walk.order:
            self.shadows[node] = self.node(node, hooks)
            self.lives[self.shadows[node]] = node
        for node in walk.order:
            shadow = self.shadows[node]
            shadow.next = tuple([None if t is None else self.shadows.get(t) for t in node.next])
        for place, tensor in enumerate(fakes.tensors):
            if tensor is not None:
                item = self.item("inputs", place)
                item.meta["val"] = tensor
                self.recorder.bind(tensor, item)
        start = [(self.shadows[node], slot, self.tensor(array)) for node, slot, array in seeds]
        task = self.task()
        token = modes.enter(grad=False)
        try:
            with self.recorder:
                _run(start, task)
        finally:
            modes.leave(token)
        captured = walk.task.captures or {}
        self.positions = sorted(place for places in captured.values() for _, place in places)
        found = tuple([task.captured.get(place) for place in self.positions])
        self.graph.output(self.recorder.argument(found))

    def tensor(self, array: MetaArray) -> Tensor:
        """The fake on an array."""
        found: Tensor = next(t for t in self.fakes.tensors if t is not None and t.array is array)
        return found

    def task(self) -> ShadowTask:
        live = self.walk.task
        task = ShadowTask(False, False)
        task.tensors = True
        task.accumulate = live.accumulate
        task.check = self.check
        task.plainly = live.captures is None and live.needed is None
        if live.needed is not None:
            task.needed = {self.shadows[n] for n in self.shadows if n in live.needed}
        if live.captures is not None:
            known = [(node, places) for node, places in live.captures.items() if node in self.shadows]
            task.captures = {self.shadows[node]: places for node, places in known}
        return task

    def leaf(self, leaf: Tensor, hooks: object) -> Any:
        place = self.walk.leaf_places[id(leaf)]
        array = self.fakes.lift(leaf.array, place)
        shadow = self.fakes.tensors[place]
        assert shadow is not None and shadow.array is array
        shadow.tracked = leaf.tracked
        if leaf.node is not None:
            raise NeedsEngine("a leaf that has become an intermediate result")
        shadow.hooks = self.hooks_for(leaf, hooks)
        return shadow

    def node(self, live: Any, hooks: Any) -> Any:
        kind: Any = STANDS_FOR.get(type(live), type(live))
        kind = CalledBackward if isinstance(live, FunctionNode) else kind
        fakes = self.fakes
        shadow = kind.__new__(kind)
        shadow._seq, shadow.slots, shadow.versions = live._seq, live.slots, None
        if kind is CalledBackward:
            shadow.saved = shadow.params = ()
            shadow.hook, shadow.recording, shadow.released = next(hooks), self, False
            shadow.materialize = live.ctx.materialize_grads
            expected = tuple([target is not None for target in live.next])
            shadow.given = self.gradients.get(shadow.hook, expected)
        elif kind is InlinedBackward:
            program = live.call.program
            shadow.module, shadow.params = program.cut.backwards[live.stage], ()
            shadow.mask = program.joint.stages[live.stage].mask
            shadow.saved = fakes.value(tuple(residuals_of(live.saved)))
        else:
            if type(live.saved) is tuple:
                shadow.saved = fakes.value(live.saved)
            else:
                shadow.saved = ShadowPacked(self, [self.packed(v, hooks) for v in live.saved.values])
            shadow.params = fakes.parameters(live.params)
            if live.__dict__:
                shadow.__dict__.update(live.__dict__)
        shadow.types = fakes.types(types_read(live))
        if live.outputs is not None:
            shadow.outputs = tuple([fakes.value(each) for each in live.outputs])
        elif kind in (CalledBackward, InlinedBackward):
            shadow.outputs = None
        shadow.hooks = self.hooks_for(live, hooks)
        return shadow

    def packed(self, value: object, hooks: Any) -> Any:
        if type(value) is tuple or type(value) is list:
            return type(value)([self.packed(item, hooks) for item in value])
        if type(value) is not Item:
            return self.fakes.value(value)
        return PackedItem(next(hooks), self.fakes.shape(value.shape), value.dtype)

    def hooks_for(self, live: Any, numbers: Any) -> Any:
        """Stands for the hooks of one node: each becomes a call in the graph."""
        hooks = Hooks()
        for kind, slot, table, key in standing(live.hooks):
            number = next(numbers) if kind.of_users else self.walk.retained[id(kind.held(table[key]))]
            hooks.table(kind, slot)[key] = partial(self.call_hook, kind, number)
        return hooks if hooks.tables else None

    def is_released(self, live: Any) -> bool:
        shadow = self.shadows[live]
        if isinstance(shadow, CalledBackward):
            return bool(shadow.released)
        return bool(live.saved) and shadow.saved is None

    def finish(self) -> GraphModule:
        global _made
        for node in reversed(list(self.graph.nodes)):
            if node.target is operator.getitem and not node.users:
                self.graph.erase_node(node)
        _made += 1
        made = GraphModule(self.constants, self.graph, f"CompiledAutograd{_made - 1}")
        type(made).forward.__dict__["whole_lists"] = ("inputs",)  # see `weft.capture.tape_calls`
        return made

    # -- other tapes of this structure -----------------------------------------------------------------------
    def serves(self, walk: Walk) -> bool:
        """Whether this graph is right for the sizes and numbers of a tape."""
        sizes, floats = list(self.sizes), [value.hex() for value in self.floats]
        for _, name, _, places in self.symbols:
            if name == "sizes":
                value = walk.sizes[places[0]]
                if value < 2:
                    return False
                for place in places:
                    sizes[place] = value
            else:
                floats[places[0]] = walk.floats[places[0]].hex()
        if sizes != walk.sizes or tuple(floats) != walk.exact_numbers():
            return False
        given = {made.expression.args[0]: self.value_in(walk, name, at) for made, name, _, at in self.symbols}
        return bool(self.scalars.holds(given))

    def value_in(self, walk: Walk, name: str, places: list[int]) -> Any:
        return (walk.sizes if name == "sizes" else walk.floats)[places[0]]

    def values(self, walk: Walk) -> tuple[list[int], list[float]]:
        """What the lists of sizes and scalars hold for a tape."""
        found: dict[str, list[Any]] = {"sizes": [], "scalars": []}
        for _, name, _, places in self.symbols:
            found[name].append(self.value_in(walk, name, places))
        return found["sizes"], found["scalars"]

    def release(self, walk: Walk) -> None:
        """Frees what the engine would have freed."""
        for number in self.numbers_released:
            walk.order[number].release()
