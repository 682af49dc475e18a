"""Walking the live tape: what a graph of it depends on, and what such a graph is given.

Takes seeds and a task of the engine; gives a `Walk`: the tape's structure as a key, and lists of the tensors,
sizes, numbers and hooks in it, always in the same order. One idea: two tapes with the same key differ in
nothing but the contents of these lists.

# Note [Order of the walk]
Gradients that the sweep starts from, leaves, then node by node in the order of the sweep: what it saved, its
parameters, its types, its hooks. `Visitor` is told each array, shape, number and constant on the way; the
walk that makes fakes (`shadow`) is another visitor on the same way, so both count alike.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import MethodType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from weft.aot.runtime.nodes import CompiledFunctionBackward
from weft.autograd.compiled_calls import Pattern, pattern
from weft.autograd.function_context import FunctionCtx, Packed
from weft.autograd.function_node import FunctionNode
from weft.autograd.hooks import POST, HookKind, HookTable, hooks_of, standing
from weft.autograd.tasks import Seeds, Task
from weft.core.device import device
from weft.core.dtypes import dtype
from weft.core.interrupts import let_through
from weft.core.types import Size, TensorType, layout, memory_format
from weft.ops.record import Op
from weft.ops.sweep import discover
from weft.tensor.base import PLAIN, Tensor, wrap
from weft.tensor.plan import plan_of
from weft.tensor.saved import Item
from weft.tensor.tape import INFERENCE

if TYPE_CHECKING:
    from weft.core.arrays import Array
    from weft.tensor.tape import Node


ndarray = np.ndarray
CONSTANTS: Final = frozenset(
    {type(None), bool, complex, str, bytes, dtype, device, type(...), layout, memory_format, type, Op}
)
WITHOUT_OPS: Final = frozenset(
    {"Stop", "LevelEntry", "CondAutogradOpBackward", "WhileLoopAutogradOpBackward"}
)
"""Nodes without an op whose rules are plain calls of ops."""


class NeedsEngine(Exception):
    """The engine itself has to run this tape; says why."""


class Visitor:
    """Is called with each value on the tape; gives what stands for it."""

    def array(self, array: object) -> Any:
        raise NotImplementedError

    def tensor(self, tensor: Tensor) -> Any:
        return self.array(tensor.array)

    def shape(self, shape: tuple[int, ...]) -> Any:
        raise NotImplementedError

    def integer(self, value: int) -> Any:
        raise NotImplementedError

    def number(self, value: float) -> Any:
        raise NotImplementedError

    def constant(self, value: object) -> Any:
        raise NotImplementedError

    def sequence(self, kind: type, items: list[Any]) -> Any:
        raise NotImplementedError

    # -- the way ---------------------------------------------------------------------------------------------
    def value(self, value: Any) -> Any:
        """What stands for a saved value or a parameter."""
        kind = type(value)
        if kind is ndarray:
            return self.array(value)
        if kind is tuple or kind is list or kind is Size:
            return self.sequence(kind, [self.value(item) for item in value])
        if kind is float:
            return self.number(value)
        if kind is int:
            return self.integer(value)
        if kind in CONSTANTS or isinstance(value, (np.dtype, np.generic)):
            return self.constant(value)
        if kind in PLAIN:
            return self.tensor(value)
        if kind is slice:
            return self.sequence(slice, [self.value(x) for x in (value.start, value.stop, value.step)])
        if kind is TensorType:
            return self.sequence(TensorType, [self.shape(value.shape), value.dtype, value.device])
        raise NeedsEngine(f"a {kind.__name__} on the tape")

    def parameters(self, params: tuple[Any, ...]) -> Any:
        """What stands for `node.params`. Arrays among them are an op's own (positions), and never tensors."""
        return self.sequence(
            tuple,
            [self.positions(value) if type(value) is ndarray else self.value(value) for value in params],
        )

    def positions(self, array: Array) -> Any:
        raise NotImplementedError

    def types(self, types: tuple[Any, ...]) -> Any:
        """What stands for `node.types`: shapes and dtypes in turn."""
        found: list[Any] = []
        for place in range(0, len(types) - 1, 2):
            shape, kind = types[place], types[place + 1]
            is_shape = kind is not None and type(shape) is tuple
            found.append(self.shape(shape) if is_shape else self.value(shape))
            found.append(kind)
        if len(types) % 2:
            found.append(self.value(types[-1]))
        return self.sequence(tuple, found)


class Keys(Visitor):
    """Makes the key, and the lists."""

    def __init__(self) -> None:
        self.inputs: list[Tensor] = []
        self.sizes: list[int] = []
        self.floats: list[float] = []
        self.places: dict[int, int] = {}  # of arrays among the inputs, by `id`
        self.kept: list[Any] = []

    def array(self, array: object) -> Any:
        place = self.places.get(id(array))
        if place is not None:
            return place
        return self.lift(array, wrap(array))

    def lift(self, array: object, tensor: Tensor) -> Any:
        if type(array) is not ndarray:
            raise NeedsEngine("a tensor without elements")
        place = len(self.inputs)
        self.places.setdefault(id(array), place)
        self.inputs.append(tensor)
        self.kept.append(array)
        strides = True if array.flags.c_contiguous else array.strides
        return (place, array.dtype, strides, self.shape(array.shape))

    def shape(self, shape: tuple[int, ...]) -> Any:
        self.sizes += shape
        return len(shape)

    def integer(self, value: int) -> Any:
        self.sizes.append(value)
        return int

    def number(self, value: float) -> Any:
        self.floats.append(value)
        return float

    def constant(self, value: object) -> Any:
        return (type(value), value)

    def positions(self, array: Array) -> Any:
        return (ndarray, array.shape, array.dtype, array.tobytes())

    def sequence(self, kind: type, items: list[Any]) -> Any:
        return (kind, *items)


class Walk:
    """One live tape, about to be run."""

    def __init__(self, seeds: Seeds, task: Task) -> None:
        self.seeds, self.task = seeds, task
        self.keys = Keys()
        self.hooks: list[Any] = []
        self.uncertain: list[Watch] = []
        """For what may or may not give gradients: what notes it while the engine runs, and gives an undo."""
        self.programs: list[Any] = []
        """Programs of compiled graphs, which the key knows by their `id`: who keeps the key keeps them."""
        self.retained: dict[int, int] = {}  # number of an input with retain_grad, by `id`
        wanted = None if task.needed is None else {*task.needed, *(task.captures or ())}
        self.wanted = wanted
        self.order, leaves = discover(dict.fromkeys(seed[0] for seed in seeds), wanted)
        self.leaves = list(leaves)
        self.numbers: dict[Any, int] = {
            node: number for number, node in enumerate((*self.order, *self.leaves))
        }
        self.leaf_places: dict[int, int] = {}
        starts = [(self.numbers[node], slot, self.keys.value(g)) for node, slot, g in seeds]
        leaf_keys = [self.leaf(leaf) for leaf in self.leaves]
        self.key: tuple[Any, ...] = (
            tuple(starts),
            tuple(leaf_keys),
            tuple([self.node(node) for node in self.order]),
            self.task_key(),
        )
        self.checked: dict[Any, int] = {}
        """Nodes whose saved tensors hooks may write before they run, with their numbers among the hooks."""
        if self.hooks:
            for node in self.order:
                if node.versions is not None or getattr(node, "watched", None):
                    self.checked[node] = len(self.hooks)
                    self.hooks.append(node)
            self.key = (*self.key, tuple([self.numbers[node] for node in self.checked]))
        try:
            hash(self.key)
        except TypeError as error:
            let_through(error)
            raise NeedsEngine(str(error)) from None

    # -- what a graph is given -------------------------------------------------------------------------------
    @property
    def inputs(self) -> list[Tensor]:
        return self.keys.inputs

    @property
    def sizes(self) -> list[int]:
        return self.keys.sizes

    @property
    def floats(self) -> list[float]:
        return self.keys.floats

    def exact_numbers(self) -> tuple[str, ...]:
        """The floats, in a form that tells zeros apart, and knows NaN again."""
        return tuple([value.hex() for value in self.keys.floats])

    # -- nodes -----------------------------------------------------------------------------------------------
    def leaf(self, leaf: Tensor) -> Any:
        if type(leaf) not in PLAIN or leaf.cell is INFERENCE:
            raise NeedsEngine(f"a leaf that is a {type(leaf).__name__}")
        keys = self.keys
        self.leaf_places[id(leaf)] = len(keys.inputs)
        return keys.lift(leaf.array, leaf), leaf.tracked, leaf.node is None, self.hook_key(leaf)

    def node(self, node: Any) -> Any:
        kind = type(node)
        edges = [
            None if target is None or target not in self.numbers else self.numbers[target]
            for target in node.next
        ]
        keys = self.keys
        rest: Any
        if isinstance(node, FunctionNode):
            rest = self.custom(node)
        elif kind is CompiledFunctionBackward:
            rest = self.compiled(node)
        elif kind.op is not None or kind.__name__ in WITHOUT_OPS:
            rest = self.recorded(node)
        else:
            raise NeedsEngine(kind.__name__)
        types = keys.types(types_read(node))
        outputs = None if node.outputs is None else tuple([keys.value(each) for each in node.outputs])
        return kind, tuple(edges), node.slots, rest, types, outputs, self.hook_key(node)

    def recorded(self, node: Any) -> Any:
        """The node of an op: its rules read what it saved, and its parameters."""
        if node.saved is None:
            raise NeedsEngine("saved tensors that were freed")
        versions = node.versions
        if versions is not None:
            for place in range(0, len(versions), 2):
                cell = versions[place]
                if cell is not None and cell[0] != versions[place + 1]:
                    raise NeedsEngine("a saved tensor that was written since")
        extra = node.__dict__
        fields = tuple([(name, repr(extra[name])) for name in extra if name == "widths"]) if extra else ()
        keys = self.keys
        saved = node.saved
        key = keys.value(saved) if type(saved) is tuple else tuple(map(self.packed, saved.values))
        return key, keys.parameters(node.params), fields

    def packed(self, value: Any) -> Any:
        """A saved value that hooks packed: the graph unpacks it when the node runs."""
        if type(value) is tuple or type(value) is list:
            return (type(value), *map(self.packed, value))
        if type(value) is not Item:
            return self.keys.value(value)
        if str(getattr(value.unpack, "__module__", "")).startswith("weft."):
            raise NeedsEngine("saved tensors that the library's own hooks have packed")
        self.hooks.append(value)
        return Item, code_of(value.unpack), value.dtype, self.keys.shape(value.shape)

    def compiled(self, node: CompiledFunctionBackward) -> Any:
        """The node of a compiled graph: its backward is a graph already."""
        if node.saved is None or node.rerun is None:
            raise NeedsEngine("saved tensors that were freed")
        if any(cell[0] != seen for cell, seen, *_ in node.watching()):
            raise NeedsEngine("a saved tensor that was written since")
        self.programs.append(node.call.program)
        return id(node.call.program), node.stage, self.keys.value(node.saved)

    def custom(self, node: FunctionNode) -> Any:
        """The node of a custom Function: what its context holds is read by its backward itself."""
        ctx: Any = node.ctx
        if type(ctx) is not FunctionCtx or ctx._items is None and "to_save" in ctx.__dict__:
            raise NeedsEngine("a context that was freed")
        if any(type(item) is Packed for item in ctx._items or ()):
            raise NeedsEngine("saved tensors that hooks have packed")
        self.uncertain.append(partial(watch_node, node, len(self.hooks)))
        self.hooks.append(node)
        return len(self.hooks) - 1, node.layout, ctx.materialize_grads, ctx.needs_input_grad

    def hook_key(self, node: Any) -> Any:
        """The hooks of a node by their code; they are inputs of the graph themselves."""
        hooks = node.hooks
        return None if hooks is None else tuple([self.hook(*found) for found in standing(hooks)]) or None

    def hook(self, kind: HookKind, slot: int, table: HookTable, key: int) -> Any:
        hook = table[key]
        if not kind.of_users:
            tensor = kind.held(hook)
            if type(tensor) not in PLAIN:
                raise NeedsEngine(f"a {type(tensor).__name__} with {kind.method}")
            self.retained[id(tensor)] = len(self.keys.inputs)
            self.keys.inputs.append(tensor)
            return kind.name, slot, len(self.keys.inputs) - 1
        if kind.several:
            self.uncertain.append(partial(watch_hook, table, key, len(self.hooks)))
        self.hooks.append(hook)
        return kind.name, slot, code_of(hook)

    def task_key(self) -> Any:
        task, numbers = self.task, self.numbers
        needed = None
        if task.needed is not None:
            needed = tuple([node in task.needed for node in numbers])
        captures = None
        if task.captures is not None:
            found = task.captures.items()
            captures = tuple([(numbers.get(node), tuple(places)) for node, places in found])
        return task.accumulate, needed, captures

    # -- sizes -----------------------------------------------------------------------------------------------
    def facts(self) -> TapeValues:
        """What is remembered of a tape that was captured."""
        return TapeValues(list(self.sizes), list(self.floats))

    def changed_since(self, before: TapeValues) -> Changed:
        """What differs from an earlier tape of this structure."""
        sizes: dict[tuple[int, int], list[int]] = {}
        for place, (old, new) in enumerate(zip(before.sizes, self.sizes, strict=True)):
            if old != new and old > 1 and new > 1:
                sizes.setdefault((old, new), []).append(place)
        pairs = enumerate(zip(before.floats, self.floats, strict=True))
        floats = [place for place, (old, new) in pairs if old.hex() != new.hex()]
        return Changed(list(sizes.values()), floats)

    def all_open(self) -> Changed:
        """All sizes, those that are equal being one; and all numbers."""
        sizes: dict[int, list[int]] = {}
        for place, size in enumerate(self.sizes):
            if size > 1:
                sizes.setdefault(size, []).append(place)
        return Changed(list(sizes.values()), list(range(len(self.floats))))


class TapeValues(NamedTuple):
    """Sizes and numbers of a tape."""

    sizes: list[int]
    floats: list[float]


class Changed(NamedTuple):
    """Which sizes (those that go together, together) and numbers vary."""

    sizes: list[list[int]]
    floats: list[int]


Watch = Callable[[dict[int, Pattern]], Callable[[], None]]


def watch_node(node: Node, number: int, found: dict[int, Pattern]) -> Callable[[], None]:
    """Notes for which inputs a node gives gradients, by a hook that runs before all others."""
    hooks = hooks_of(node)
    before = hooks.table(POST)

    def note(inputs: tuple[Any, ...], _outputs: tuple[Any, ...]) -> None:
        found[number] = pattern(inputs)

    hooks.tables[POST.name] = {0: HookTable({-1: note, **before})}

    def put_back() -> None:
        hooks.tables[POST.name] = {0: before}

    return put_back


def watch_hook(table: Any, key: int, number: int, found: dict[int, Pattern]) -> Callable[[], None]:
    """Notes where a hook of a node leaves gradients."""
    hook = table[key]

    def note(*gradients: object) -> Any:
        answer = hook(*gradients)
        values = gradients[0] if answer is None else answer
        if isinstance(values, tuple):
            found[number] = pattern(values)
        return answer

    note.__name__ = getattr(hook, "__name__", str(hook))  # errors name it
    table[key] = note

    def put_back() -> None:
        if key in table:
            table[key] = hook

    return put_back


def types_read(node: Any) -> tuple[Any, ...]:
    """What the rules of a node may ask of `node.types`: some paths note the output's type, which no rule
    reads."""
    types: tuple[Any, ...] = node.types
    if node.op is None or node.outputs is not None:
        return types
    plan = plan_of(node.op)
    return types if plan.out_type or not plan.fixed else types[: 2 * len(node.next)]


def code_of(hook: Callable[..., Any]) -> Any:
    """What a hook is known by: functions made anew in each step are the same code.

    A method is known with the functions that its object holds: modules call the user's hooks from one.
    """
    function = getattr(hook, "__func__", hook)
    code = getattr(function, "__code__", None) or type(hook)
    owner = getattr(hook, "__self__", None)
    if type(hook) is not MethodType or not hasattr(owner, "__dict__"):
        return code
    held = [item for value in vars(owner).values() if type(value) is list for item in value]
    return code, tuple([getattr(item, "__code__", type(item)) for item in held if callable(item)])
