"""Recording op by op: composites are taken apart, transforms and the tape run, what is left are plain ops.

Takes the calls that a `Recorder` takes; gives a graph whose targets are ops. One idea: a composite's body, a
gradient rule or a batching rule is ordinary code that calls ops, so it is run with the recorder switched on
again.

# Note [Tensors that share an array]
The tape saves arrays, and gives new tensors on them when gradients are computed; transforms enter a function
with new tensors on its arguments' arrays. The first hold the elements that the first tensor on that array
held, so the node of that tensor is theirs; but for `x.detach()`, which the tape gives back without a history.
The others have the nodes of the arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from types import BuiltinFunctionType, FunctionType
from typing import Any

import numpy as np

from weft.autograd import engine
from weft.autograd.dual import plain_parts
from weft.autograd.nodes import GradientEdge
from weft.autograd.tasks import local, reachable
from weft.core import modes
from weft.graph.graph import Graph
from weft.graph.node import Node
from weft.ops.record import REGISTRY, Kind, Op, ops
from weft.ops.signature import flatten_variadic
from weft.ops.sweep import LEAF_SEQUENCE
from weft.tensor import shims
from weft.tensor.base import PLAIN, PUBLIC, Tensor, wrap
from weft.tensor.conversion import CASTS
from weft.tensor.dispatch import named
from weft.tensor.meta import MetaArray
from weft.tensor.wrapper import highest, mapping
from weft.trace.breaks import Break
from weft.trace.recorder import Recorded, Recorder, Where
from weft.trace.recorder_rules import Form, Treatment
from weft.trace.recorder_special import is_mask

TAKEN_APART = (
    "to", "cpu", "type_as", "type", "__getitem__", "__setitem__", "where", "split", "__reversed__",
    "__rpow__", "__rfloordiv__", "__rmod__", "__rmatmul__", "__rlshift__", "__rrshift__", "__rtruediv__",
    "__invert__", "fill_diagonal_", *CASTS,
)  # fmt: skip
PARTS = ("T", "mT", "H", "mH", "real", "imag")
WRITERS = {
    Tensor.__dict__[f"{op.name}_"]: op
    for op in REGISTRY.values()
    if op.placing is not None and op.placing.whole and not op.inplace
}
"""Hand-written in-place forms of ops."""
FLAT = PLAIN | {int, float, bool, str, type(None)}
"""Types of arguments that are no tensors of transforms, and in which there are none."""
INDEXING = (Tensor.__dict__["__getitem__"], Tensor.__dict__["__setitem__"])


def bound_of(op: Op, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """All parameters' values, for arguments as a user writes them."""
    variadic = next((i for i, p in enumerate(op.signature.parameters) if p.variadic), None)
    if variadic is not None and (len(args) > variadic or op.signature.names[variadic] not in kwargs):
        args = (*args[:variadic], flatten_variadic(args[variadic:]))
    return op.signature.bind(args, dict(kwargs))


class OpRecorder(Recorder):
    """A recorder that looks inside: see the module's text."""

    def __init__(self, graph: Graph, on_input: Callable[[Any], Node], where: Where | None = None) -> None:
        super().__init__(graph, on_input, where)
        self._tensors: dict[int, Tensor] = {}  # the first tensor on an array, by the array's id
        self._copies: set[int] = set()  # ids of copies that the tape keeps, of tensors with a history
        self._bare: dict[tuple[int, int], Node] = {}  # by graph and array: what lies there, without a history
        self._plain: dict[Any, Any] = {}
        self.entries: dict[int, Tensor] = {}
        """Tensors with which transforms entered functions, by their `id`: leaves that nobody else has."""
        self._arguments: dict[int, Tensor] = {}  # what they were made of, by the same
        self._lines: dict[Any, tuple[Any, ...]] = {}  # file and line of what made a node of the tape
        self._functions: tuple[Any, ...] = ()

    def __enter__(self) -> Recorder:
        super().__enter__()
        self._functions = modes.modes().functions
        if not self._plain:
            self._plain = _plain_functions()
        return self

    # -- nodes -----------------------------------------------------------------------------------------------
    def bind(self, value: Any, node: Node) -> None:
        super().bind(value, node)
        self.note_array(value)

    def note_array(self, value: Any) -> None:
        if isinstance(value, Tensor) and type(value.array) is MetaArray:
            self._tensors.setdefault(id(value.array), value)
            self._kept[id(value.array)] = value.array

    def entered(self, tensor: Tensor, made: Tensor) -> None:
        self.note_array(tensor)
        self.entries[id(made)] = made
        self._arguments[id(made)] = tensor

    def is_alias(self, tensor: Tensor) -> bool:
        if id(tensor) in self._nodes or id(tensor) in self._pending:
            return False
        return self._tensors.get(id(tensor.array), tensor) is not tensor

    def is_inner(self, tensor: Tensor) -> bool:
        if not self.entries or not tensor.tracked:
            return False
        behind = reachable([tensor if tensor.node is None else tensor.node])
        return all(id(node) in self.entries for node in behind if node._seq == LEAF_SEQUENCE)

    def note_call(self, done: Recorded) -> None:
        for tensor in done.written:
            if self.is_alias(tensor) and (tensor.tracked or self._tensors[id(tensor.array)].tracked):
                raise Break("transform-inside", "a write to an argument of a differentiated function")
        super().note_call(done)

    def stand_in(self, real: Tensor) -> Tensor:
        fake = super().stand_in(real)
        self.note_array(fake)
        return fake

    def bind_result(self, result: Any, node: Node, call: Any, written: list[Tensor]) -> None:
        super().bind_result(result, node, call, written)
        for tensor in self.tensors_in(result):
            self.note_array(tensor)

    def node(self, value: Any) -> Any:
        if isinstance(value, Tensor) and id(value) not in self._nodes and id(value) not in self._pending:
            argument = self._arguments.get(id(value), value)
            if argument is not value and argument.array is value.array:
                return self.node(argument)
            first = self._tensors.get(id(value.array))
            if first is not None and first is not value:
                return self.node_of_array(value, first)
        return super().node(value)

    def node_of_array(self, value: Tensor, first: Tensor) -> Node:
        """The node of a tensor on another one's array: where only the other has a history, without it."""
        live = first.tracked or id(first) in self._copies
        if value.tracked or not live or not modes.modes().grad:
            found: Node = self.node(first)
            return found
        key = id(self.graph), id(value.array)
        if key not in self._bare:
            self._bare[key] = self.append(("call_method", "detach", False), (first,), {}, value)
            self._kept[id(value)] = value
        return self._bare[key]

    def copied(self, array: MetaArray, made: MetaArray) -> None:
        """The tape keeps elements that are about to be overwritten."""
        before = self._tensors.get(id(array))
        if before is None:
            return
        kept = wrap(made)
        self.bind(kept, self.node_of_copy(before, kept))
        if before.tracked or id(before) in self._copies:
            self._copies.add(id(kept))

    def node_of_copy(self, before: Tensor, kept: Tensor) -> Node:
        """The node that gives a tensor's present elements whatever becomes of it."""
        return self.append(("call_function", ops.clone.face, False), (before,), {}, kept)

    def note_inputs(self, fake: Tensor, fact: str) -> None:
        first = self._tensors.get(id(fake.array))
        super().note_inputs(fake if first is None else first, fact)

    def gradients(self, outputs: list[Any], sources: list[Any], tangents: list[Any]) -> tuple[Any, ...]:
        """Records the gradients of the outputs, in a form that can itself be differentiated. Sources are
        tensors, or the nodes of the tape that were behind them.
        """
        if not outputs or not sources:
            return (None,) * len(sources)
        inputs = [source if isinstance(source, Tensor) else GradientEdge(source, 0) for source in sources]
        grad = self.plain(engine.grad)
        options = {"create_graph": True, "allow_unused": True}
        found: tuple[Any, ...] = self.within(grad, (outputs, inputs, tangents), options)
        return found

    def running(self) -> Any:
        """The node of the tape whose gradients are being recorded; None where none is."""
        return None if local.task is None else local.task.running

    # -- calls -----------------------------------------------------------------------------------------------
    def append(self, form: Form, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> Node:
        """The node of a call; what a gradient rule calls knows the line of the op whose gradient it is."""
        node = super().append(form, args, kwargs, result)
        place = node.meta.get("source")
        if place is None:
            return node
        behind = self._lines.get(self.running())
        if behind is not None and len(place) < 5:
            node.meta["source"] = (*place[:3], place[3] if len(place) > 3 else None, behind)
        for tensor in self.tensors_in(result):
            if tensor.node is not None:
                self._lines.setdefault(tensor.node, behind or place[:2])
        return node

    def treat(self, treatment: Treatment, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if treatment is Treatment.AUTOGRAD:
            result = self.host.autograd(func, self._name(func), args, kwargs)
            if result is not NotImplemented:
                return result
        if treatment is Treatment.AUTOGRAD or treatment is Treatment.GRAD:
            return self.within(self.plain(func), self.faked(args), self.faked(kwargs))
        top = highest(args)
        if top is not None:
            if treatment is Treatment.FACT:
                for part in plain_parts(args):
                    self.note(lambda *_args: None, self._name(func), part, (), {})
            return func(*args, **kwargs)
        return super().treat(treatment, func, args, kwargs)

    def call(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Any = None) -> Any:
        """Operators are taken apart like the methods that they call."""
        if type(function) is BuiltinFunctionType:
            return self.within(function, args, kwargs or {})
        return super().call(function, args, kwargs)

    def call_method(self, name: str, args: tuple[Any, ...], kwargs: Any = None) -> Any:
        return self.within(getattr(Tensor, name), args, kwargs or {})

    def record(
        self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], form: Form | None = None
    ) -> Any:
        op = getattr(func, "op", None)
        if op is not None and op.kind is Kind.RANDOM and op.composed and mapping():
            return self.drawn(func, op, args, kwargs)
        if op is not None and op.amp is not None and func is op.face and "out" not in kwargs:
            autocast = dict(modes.modes().extra).get("autocast")
            if autocast is not None:
                return self.within(autocast.call, (op, bound_of(op, args, kwargs)), {})
        flat = not kwargs and all(type(value) in FLAT for value in args)
        if not flat and highest((args, tuple(kwargs.values()))) is not None:
            return self.wrapped(func, args, kwargs, None)
        if op is ops.reshape and self._is_loose(args[0]):
            return super().record(func, args, kwargs, ("call_function", op.face, False))
        if op is not None and not (op.function or op.method):
            self.note_arrays(args)
        whole = op is None or not op.composed or op.kind is Kind.RANDOM or "out" in kwargs
        if not whole and not self._has_mask(func, args):
            assert op is not None
            if func is op.face:
                return self.within(lambda: named(op, op.body(*bound_of(op, args, kwargs))), (), {})
            return self.within(lambda: _written(op, bound_of(op, args, kwargs)), (), {})
        key = func if type(func) is FunctionType else (func.__self__, func.__name__)
        if op is None and key in self._plain and not self._has_mask(func, args):
            return self.within(self._plain[key], self.indexed(func, args), kwargs)
        return super().record(func, args, kwargs, form)

    def note_arrays(self, args: tuple[Any, ...]) -> None:
        """Arrays that rules hand to ops which no user can name follow from shapes: they are constants."""
        for value in args:
            if isinstance(value, np.ndarray):
                self.arrays.add(id(value))
                self._kept[id(value)] = value

    def indexed(self, func: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments of indexing, lists of numbers as tensors: the tape keeps what was indexed with."""
        if func not in INDEXING:
            return args
        several = type(args[1]) is tuple
        items = args[1] if several else (args[1],)
        made = [self.within(PUBLIC["tensor"], (item,), {}) if is_list(item) else item for item in items]
        return (args[0], tuple(made) if several else made[0], *args[2:])

    def _is_loose(self, tensor: Any) -> bool:
        """Whether only running can tell if strides allow a view: `reshape` copies if they do not, and `view`
        raises.
        """
        return type(tensor.array) is MetaArray and not tensor.array.exact

    def _has_mask(self, func: Any, args: tuple[Any, ...]) -> bool:
        """Whether a write goes through a mask: see Note [Masks] in `weft.trace.recorder_special`."""
        if func not in self.rules.specials or len(args) < 2:
            return False
        return any(is_mask(item) for item in (args[1] if isinstance(args[1], (tuple, list)) else (args[1],)))

    def within(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Runs code whose calls are recorded in its stead."""
        token = modes.enter_functions(self._functions)
        try:
            return function(*args, **kwargs)
        finally:
            modes.leave(token)

    def plain(self, func: Any) -> Any:
        """The code of a hand-written function, which is not offered again when called."""
        key = func if type(func) is FunctionType else (func.__self__, func.__name__)
        found = self._plain.get(key)
        if found is None:
            found = _swapped().get(key, func)
        return found

    def drawn(self, func: Any, op: Op, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Random numbers under vmap: its `randomness` says what is drawn."""
        if "out" in kwargs:
            raise Break("transform-inside", f"{op.name} with out=")
        level = mapping()[-1]
        draw = level.draw if func is op.face else level.draw_inplace
        return self.within(draw, (op, bound_of(op, args, kwargs)), {})

    def wrapped(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], top: Any) -> Any:
        op = getattr(func, "op", None) or WRITERS.get(func)
        if op is None and not str(getattr(func, "__module__", "weft")).startswith("weft"):
            raise Break("transform-inside", f"{func.__name__}, which is one node")
        if op is None:
            return self.within(self.plain(func), self.indexed(func, args), kwargs)
        bound = bound_of(op, args, kwargs)
        found: Any = highest(bound)
        if found is None or "out" in kwargs:
            raise Break("transform-inside", f"{op.name} with out=")
        call = type(found).call if func is op.face else type(found).write
        return self.within(call, (op, bound, found.level), {})


def is_list(value: Any) -> bool:
    """Whether an index is a list of whole numbers, or of such lists."""
    return type(value) is list and bool(value) and all(type(v) is int or is_list(v) for v in value)


def _written(op: Op, bound: tuple[Any, ...]) -> Tensor:
    """The in-place form of a composite."""
    target = bound[0]
    given = target.clone() if target.requires_grad else target
    return target.copy_(op.body(given, *bound[1:]))  # type: ignore[misc, no-any-return]


def _swapped() -> dict[Any, Any]:
    """Hand-written functions and property accessors, and their code while modes are active."""
    found: dict[Any, Any] = {}
    for swap in shims._SWAPS:
        function = swap.function
        plain = FunctionType(
            swap.code, function.__globals__, function.__name__, function.__defaults__, function.__closure__
        )
        plain.__kwdefaults__ = function.__kwdefaults__
        found[function] = plain
    for value in Tensor.__dict__.values():
        if isinstance(value, property):
            for name, accessor in (("__get__", value.fget), ("__set__", value.fset)):
                if accessor in found:
                    found[value, name] = found[accessor]
    return found


def _plain_functions() -> dict[Any, Any]:
    """The hand-written functions that are taken apart, with their code."""
    swapped = _swapped()
    keys: list[Any] = [Tensor.__dict__[name] for name in TAKEN_APART]
    keys += [(Tensor.__dict__[name], "__get__") for name in PARTS]
    return {key: swapped[key] for key in keys if key in swapped}
