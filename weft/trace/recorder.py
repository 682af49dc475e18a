"""The recorder: a function mode that runs calls on fakes and writes them down as graph nodes.

Takes every public call made while it is active (`with Recorder(graph, on_input)`), answers it from types
alone, and appends a node for what gives or writes a tensor. One idea: the call itself is made, on fakes, by
the same code that eager runs; the recorder only looks at what came out and at which version counters moved.

# Note [What becomes a node]
    x.shape, x.dim()          nothing: the answer follows from the fake, whose type is guarded
    x.stride(), x.is_leaf     nothing, and an entry in `facts`, for the guards
    y = x.to(float32)         nothing if that is x itself; else a node
    y = x + 1                 one node, whatever happens inside (composites and nn.functional too)
    x.add_(1), x[0] = 1       a node; from here on it stands for x
    a, b = x.split(2)         a node, and an `operator.getitem` for a when a is first used
    rand(3)                   a node; the random state is put back
    x.item(), if x: ...       Break
    with no_grad(): x + 1     `_set_grad_enabled(False)`, the node, and later `_set_grad_enabled(True)`
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any, Final, NamedTuple, NoReturn

import numpy as np

from weft.autograd.grad_mode import put_grad
from weft.core import modes
from weft.core.dtypes import bool_
from weft.core.expressions import Expression, by_name
from weft.core.generator import Generator, apart
from weft.core.interrupts import let_through
from weft.core.requirements import require
from weft.core.symbolic import Symbolic
from weft.core.warn import warn
from weft.graph.effects import Effect
from weft.graph.graph import Graph
from weft.graph.node import Node
from weft.graph.passes import REPEATS
from weft.ops.create import NOT_PRESERVED
from weft.ops.record import Op
from weft.ops.slicing import NOT_PAIRED
from weft.ops.view import NOT_DENSE, NOT_VIEWABLE
from weft.tensor import shims
from weft.tensor.base import PLAIN, PUBLIC, Tensor
from weft.tensor.meta import FAKE, MetaArray, is_fake_array
from weft.tensor.source import new_form
from weft.tensor.wrapper import highest
from weft.trace.breaks import Break, NeedOps
from weft.trace.fake import Originals, bare, fake_of
from weft.trace.host import Host
from weft.trace.recorder_rules import UNTYING, Form, Rules, Treatment, refusal
from weft.trace.scalars import Scalars, to_node

Where = Callable[[], Any]
REFUSED: Final = {
    "meta tensor": "data-dependent-value",
    "there are none": "data-dependent-shape",
    "without elements": "data-dependent-value",
    "MetaArray": "data-dependent-value",
    "TensorType": "data-dependent-value",
    "must be Number, not Tensor": "data-dependent-value",
    "no fake impl registered": "unsupported",
    "more than one element of the written-to tensor": "unsupported",
}
"""Words of errors that only a lack of elements can cause, and the kinds of break that they mean."""


CONSTANTS: Final = frozenset({PUBLIC["tensor"], PUBLIC["as_tensor"]})
"""Makers of tensors whose only element is known, where it is given as a number."""
HOSTED: Final = (Treatment.AUTOGRAD, Treatment.WRITE)
READERS: Final[dict[str, Callable[[Any], Any]]] = {
    "item": lambda value: value, "__int__": int, "__float__": float, "__index__": int, "__bool__": bool,
    "is_nonzero": bool, "tolist": lambda value: value,
}  # fmt: skip
"""Reads of elements that a known number answers."""
COMPARING: Final = frozenset({"equal", "allclose"})
"""Functions of tensors that give a bool of Python's."""
SHAPES: Final = frozenset(
    {
        "nonzero",
        "_nonzero",
        "masked_select",
        "_repeat_positions",
        "_unique",
        "_unique_consecutive",
        "bincount",
    }
)
"""Reads that only want to know how many elements there will be."""


def _set_grad_enabled(enabled: bool) -> None:
    """Switches gradient recording within a graph."""
    put_grad(enabled)


def _set_inference_mode(enabled: bool) -> None:
    """Switches inference mode within a graph."""
    modes.enter(inference=enabled)


def version(tensor: Tensor) -> int:
    """How often this tensor was written to."""
    cell = tensor.cell
    if type(cell) is list:
        found: int = cell[0]
        return found
    array = tensor.array
    return array.written[0] if type(array) is MetaArray else 0


OF_LAYOUTS: Final = (NOT_VIEWABLE, NOT_DENSE, NOT_PAIRED, NOT_PRESERVED, "unsupported operation: ")
"""How errors begin that depend on how tensors lie in memory."""


class Call:
    """One call: its tensors, the versions they had, and its generators."""

    __slots__ = ("tensors", "versions", "generators", "real")

    def __init__(self) -> None:
        self.tensors: list[Tensor] = []
        self.versions: list[int] = []
        self.generators: list[Generator] = []
        self.real = False

    def scan(self, value: Any) -> None:
        kind = type(value)
        if kind in PLAIN:
            self.tensors.append(value)
            if type(value.array) is not MetaArray:
                self.real = True
            self.versions.append(version(value))
        elif kind is tuple or kind is list:
            for item in value:
                self.scan(item)
        elif kind is dict:
            for item in value.values():
                self.scan(item)
        elif isinstance(value, Generator):
            self.generators.append(value)
        elif isinstance(value, (tuple, Tensor, slice)):
            self._scan_rarer(value)

    def _scan_rarer(self, value: Any) -> None:
        if isinstance(value, slice):
            for item in (value.start, value.stop, value.step):
                self.scan(item)
        elif isinstance(value, tuple):
            for item in value:
                self.scan(item)
        else:
            raise Break("tensor-subclass", type(value).__name__)

    def written(self) -> list[Tensor]:
        """The tensors that the call has written to."""
        return [
            tensor
            for tensor, before in zip(self.tensors, self.versions, strict=True)
            if version(tensor) != before
        ]


class Recorded(NamedTuple):
    """A call that was run on fakes, and what it did."""

    func: Any
    form: Form
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    result: Any
    call: Call
    written: list[Tensor]


class Recorder:
    """Records into `graph`. `on_input(value)` gives the node of a tensor, array, generator or symbol that was
    not made by a recorded call; `where()` the user's (file, line, function).
    """

    sees_private = True  # ops that no user can name are offered, too
    knows_types = True  # and types of tensors are theirs, whoever asks
    copies_unknown = False
    """Whether `contiguous` of a tensor of unknown strides is a node; else it is taken to give that tensor."""
    scalars: Scalars | None = None
    """Owner of numbers that only running can tell; without one they are no part of graphs."""
    host: Host = Host()
    """What takes over calls that concern more than tensors and graphs."""

    repeated: int | None = None
    """Which repetition is recorded, if any; see `repeating`."""
    repetitions = 0

    def __init__(self, graph: Graph, on_input: Callable[[Any], Node], where: Where | None = None) -> None:
        self.graph = self.outermost = self.checked = graph
        self.on_input = on_input
        self.where = where
        self.facts: list[tuple[Tensor, str]] = []
        self.originals = Originals()
        self.rules = rules()
        self.symbols: dict[Any, Any] = {}
        self.arrays: set[int] = set()
        """Arrays that are the same in every run, by their `id`."""
        self.constants: dict[str, Any] = {}
        """What `get_attr` nodes read, where `on_input` files it here."""
        self._nodes: dict[int, Node] = {}
        self._pending: dict[int, tuple[Node, tuple[int, ...]]] = {}
        self._kept: dict[int, Any] = {}  # ids stay taken while the recorder lives
        self._inputs: dict[int, Tensor] = {}  # those that have or had a placeholder
        self._reals: dict[int, Tensor] = {}  # by the id of the fake that stands in
        self._constants: dict[int, tuple[Any, int]] = {}  # by id: its value, and at which version
        self.bare: dict[int, Node] = {}
        """Nodes that give tensors without their history, by the tensor's `id`."""
        self.waiting: list[Callable[[], None]] = []
        """What is to run as soon as the present call is written down."""
        self.warnings: list[tuple[str, str]] = []
        """Text and category of what the present call warned of: its node will, when it runs."""
        self._before: list[Any] = []
        self._state: tuple[bool, bool, Any] | None = None

    def forget(self) -> None:
        """Lets go of real tensors: the recorder may be part of cycles, and they must not wait for a
        collection.
        """
        self.originals = Originals()
        for held in (self._reals, self._inputs, self._kept, self._pending, self.facts):
            held.clear()

    # -- as a mode -------------------------------------------------------------------------------------------
    def __enter__(self) -> Recorder:
        state = modes.modes()
        self._before.append(modes.current())
        shims.activate()
        modes.enter(functions=(*state.functions, self), extra=(*state.extra, (FAKE, self)))
        if self._state is None:
            self._state = self._entry = self._modes_now()
        return self

    def __exit__(self, *_error: object) -> None:
        shims.deactivate()
        modes.state.set(self._before.pop())

    def __torch_function__(
        self, func: Any, _types: tuple[type, ...], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Takes a call over: `offer` has switched this mode off until it returns."""
        key = func if type(func) is FunctionType else (func.__self__, func.__name__)
        treatment = self.rules.treatments.get(key)
        if treatment is not None:
            return self.treat(treatment, func, args, kwargs or {})
        self.refuse_untying(func, args)
        if getattr(func, "__name__", "") in COMPARING and highest((args, kwargs or {})) is None:
            seen = f"weft.{func.__name__}"
            found = self.measure(self.rules.form(key), bool, seen, args, kwargs)
            if found is not None:
                return found
        return self.record(func, args, kwargs or {}, self.rules.form(key))

    @contextmanager
    def nested(
        self, graph: Graph, on_input: Callable[[Any], Node], numbers: bool = False, checks: bool = False
    ) -> Iterator[None]:
        """Records into another graph for a while, where nothing of this one is known; `finish` ends it.
        `numbers`: it runs where it stands, so it may read elements as this one may. `checks`: it runs while
        this one does, so that both are thrown away where it fails.
        """
        outermost, checked = self.outermost, self.checked
        self.follow_modes()
        assert self._state is not None
        before = self.graph, self.on_input, self._nodes, self._pending, self.symbols, self._state, self._entry
        self.graph, self.on_input, self._entry = graph, on_input, self._state
        self._nodes, self._pending, self.symbols = {}, {}, {}
        if numbers and before[0] is outermost:
            self.outermost = graph
        if checks and before[0] in (outermost, checked):
            self.checked = graph
        try:
            yield
        finally:
            self.outermost, self.checked = outermost, checked
            self.graph, self.on_input, self._nodes, self._pending = before[:4]
            self.symbols, self._state, self._entry = before[4:]

    # -- calls that the interpreter makes itself -------------------------------------------------------------
    def call(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Any = None) -> Any:
        """Runs and records `function(*args)` as a node with this very target: `operator.add` for `x + y`."""
        token = modes.enter_functions(self._outer())
        try:
            return self.record(function, args, kwargs or {}, ("call_function", function, False))
        finally:
            modes.leave(token)

    def call_method(self, name: str, args: tuple[Any, ...], kwargs: Any = None) -> Any:
        """Runs and records `args[0].name(*args[1:])` as a `call_method` node."""
        function = getattr(Tensor, name)
        token = modes.enter_functions(self._outer())
        try:
            treatment = self.rules.treatments.get(function)
            if treatment is not None:
                return self.treat(treatment, function, args, kwargs or {})
            self.refuse_untying(function, args)
            return self.record(function, args, kwargs or {}, ("call_method", name, False))
        finally:
            modes.leave(token)

    def _outer(self) -> tuple[Any, ...]:
        return tuple(mode for mode in modes.modes().functions if mode is not self)

    def refuse_untying(self, func: Any, args: tuple[Any, ...]) -> None:
        """Leaves ops whose results share memory without being views to eager code, where that can run."""
        if self.host.has_gaps and getattr(getattr(func, "op", None), "name", "") in UNTYING:
            raise refusal(Treatment.MEMORY, self._name(func), args[0] if args else None)

    # -- treatments ------------------------------------------------------------------------------------------
    def treat(self, treatment: Treatment, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        first = args[0] if args else None
        if treatment is Treatment.ANSWER:
            return func(*args, **kwargs)
        name = self._name(func)
        if treatment is Treatment.FACT:
            return self.note(func, name, first, args, kwargs)
        if treatment in HOSTED:
            take = self.host.autograd if treatment is Treatment.AUTOGRAD else self.host.change
            result = take(func, name, args, kwargs)
            if result is not NotImplemented:
                return result
        if treatment is Treatment.GRAD and isinstance(first, Tensor) and self.knows(first):
            return func(*args, **kwargs)
        if isinstance(first, Tensor) and id(first) in self._constants and name in READERS:
            value, at = self._constants[id(first)]
            if version(first) == at and (name != "__index__" or type(value) is int):
                return READERS[name](value)
        found = self.element(first) if name == "item" and len(args) == 1 and not kwargs else None
        if found is not None:
            return found
        raise refusal(treatment, name, first)

    def measure(self, form: Form, kind: type, seen: str, args: tuple[Any, ...], kwargs: Any = None) -> Any:
        """Writes down a call that gives a number, which only running can tell; None where it cannot be."""
        if self.scalars is None or self.graph is not self.outermost:
            return None
        number = self.scalars.symbol_untold(kind, seen)
        node = self.append(form, self.faked(args), self.faked(kwargs or {}), number)
        self.symbols[number.expression] = node
        return number

    def element(self, tensor: Any) -> Any:
        """The number that a tensor of one element is; None where it cannot be in the graph."""
        if type(tensor) not in PLAIN or tensor.dtype.is_complex or tensor.numel() != 1:
            return None
        kind = float if tensor.dtype.is_floating_point else bool if tensor.dtype is bool_ else int
        seen = f"Tensor.item of a tensor of shape {list(tensor.array.shape)}"
        return self.measure(("call_method", "item", False), kind, seen, (tensor,))

    def require(self, condition: Any, truth: bool, place: str = "") -> None:
        """Writes down that the graph is right only where the condition has this truth."""
        self.append(("call_function", require, False), (condition, truth, place), {}, None)

    def refuse(self, name: str) -> NoReturn:
        """Elements of a fake are asked for, somewhere inside a call."""
        if name in SHAPES:
            raise Break("data-dependent-shape", f"how many elements {name.strip('_')} gives")
        raise Break("data-dependent-value", f"the elements of a tensor ({name})")

    def refuse_sparse(self) -> NoReturn:
        """A sparse tensor is made, which a graph cannot hold."""
        raise Break("sparse-tensor", "a sparse tensor")

    def copied(self, array: MetaArray, made: MetaArray) -> None:
        """Elements are kept before they are overwritten: a matter for those who look inside calls."""

    def _name(self, func: Any) -> str:
        if type(func) is FunctionType:
            return func.__name__
        return str(self.rules.forms.get((func.__self__, "__get__"), (None, func.__name__))[1])

    def note(self, func: Any, name: str, first: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Answers from the fake and notes what was relied upon."""
        if is_fake_array(first.array):
            if name == "is_leaf":
                self.facts.append((first, name))
            elif name == "is_inference":
                self.note_inputs(first, name)
            elif not first.array.exact:
                raise Break("tensor-strides", f"the strides of a tensor of shape {list(first.array.shape)}")
            else:
                self.note_strides(first)
        return func(*args, **kwargs)

    def note_strides(self, fake: Tensor) -> None:
        """What was asked depends on this tensor's strides: if it was made here, on those of all inputs."""
        self.note_inputs(fake, "stride")

    def tensors(self) -> list[Tensor]:
        """The fakes that have nodes."""
        return [value for value in self._kept.values() if isinstance(value, Tensor)]

    def note_inputs(self, fake: Tensor, fact: str) -> None:
        inputs = self._inputs.values() if self.knows(fake) else [fake]
        self.facts += [(tensor, fact) for tensor in inputs]

    def note_identity(self, func: Any, kwargs: dict[str, Any], made: list[Tensor]) -> None:
        """A call gave back an argument: where strides were the reason, they are relied upon."""
        if made and (getattr(func, "__name__", "") == "contiguous" or "memory_format" in kwargs):
            self.note_strides(made[0])

    # -- recording -------------------------------------------------------------------------------------------
    def record(
        self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], form: Form | None = None
    ) -> Any:
        """Runs the call on fakes; what it gives or writes makes it a node."""
        if form is None:
            return self.call(func, args, kwargs)
        if isinstance(getattr(func, "op", None), Op):
            args, kwargs = new_form(func.op, args, kwargs)
        call = Call()
        try:
            call.scan(args)
            if kwargs:
                call.scan(kwargs)
        except Break:
            top = highest((args, kwargs))
            if top is None:
                raise
            return self.wrapped(func, args, kwargs, top)
        given, given_kwargs = (self.faked(args), self.faked(kwargs)) if call.real else (args, kwargs)
        if call.real:
            call = Call()
            call.scan(given)
            call.scan(given_kwargs)
        self.warnings.clear()
        result = self.run(self.rules.specials.get(func, func), given, given_kwargs, call)
        written = call.written()
        made = self.tensors_in(result)
        if not written and all(any(item is known for known in call.tensors) for item in made):
            if not (self.copies_unknown and made and is_copy(func, made[0])):
                self.note_identity(func, kwargs, made)
                for warning in self.warnings:  # which no node would give
                    self.append(("call_function", warn, False), warning, {}, None)
                return self.original(result)
            result = bare(made[0])
        if any(type(item.array) is not MetaArray for item in made):
            result = self.faked_result(result)
        self.note_call(Recorded(func, form, given, given_kwargs, result, call, written))
        if self.waiting:
            self.run_waiting()
        return self.original(result)

    def run_waiting(self) -> None:
        """Runs what had to wait until the call was written down."""
        waiting, self.waiting = self.waiting, []
        for function in waiting:
            self.within(function, (), {})

    def within(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Runs code whose calls are recorded in its stead."""
        raise NotImplementedError

    def note_call(self, done: Recorded) -> None:
        """Writes down a call that gave or wrote tensors."""
        node = self.append(done.form, done.args, done.kwargs, done.result)
        if done.written:
            node.meta["writes"] = tuple(self.node(tensor) for tensor in done.written)
        self.bind_result(done.result, node, done.call, done.written)
        data = done.args[0] if done.args else done.kwargs.get("data")
        if done.func in CONSTANTS and type(data) in (bool, int, float):
            value = np.asarray(data, done.result.array.dtype).item()
            self._constants[id(done.result)] = (value, version(done.result))

    def run(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], call: Call) -> Any:
        """The call on fakes. Generators stay where they are; errors that only fakes have become breaks."""
        try:
            with apart():
                return func(*args, **kwargs)
        except (RuntimeError, TypeError, ValueError, AttributeError) as error:
            let_through(error)
            for words, kind in REFUSED.items():
                if words in str(error):
                    raise Break(kind, str(error)) from None
            if call.written():
                raise Break(
                    "unsupported", f"a call that writes to a tensor and then fails: {error}"
                ) from None
            if str(error).startswith(OF_LAYOUTS):
                for tensor in call.tensors:
                    if is_fake_array(tensor.array) and not tensor.array.exact:
                        raise Break("tensor-strides", str(error)) from None
                    self.note_strides(tensor)
            raise

    def append(self, form: Form, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> Node:
        """The node of a call, behind the switches of modes that it needs."""
        self.follow_modes()
        op, target, reflected = form
        inputs = self.argument(args)
        keywords = {name: self.argument(value) for name, value in kwargs.items()} if kwargs else {}
        name = None
        if type(target) is str and op == "call_function":  # a property
            name, inputs = target, (inputs[0], target, *inputs[1:])
            target = getattr if len(inputs) == 2 else setattr
        elif reflected:
            inputs = (inputs[1], inputs[0])
        node = self.graph.create_node(op, target, inputs, keywords, name)
        node.meta["val"] = result
        if self.where is not None:
            node.meta["source"] = self.where()
        if self.repeated is not None:
            node.meta[REPEATS] = self.repeated
        return node

    def note_effect(self, function: Callable[..., Any], args: tuple[Any, ...], made: Tensor | None) -> None:
        """The node of a call that reads or sets the random state, which `made` then is."""
        node = self.append(("call_function", function, False), args, {}, made)
        node.meta["effect"] = Effect(random=True, aliases=False)
        if made is not None:
            self.bind(made, node)

    def note_switch(self, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
        """The node of a call that changes how the nodes behind it run."""
        self.graph.call_function(function, args).meta["val"] = None

    @contextmanager
    def repeating(self) -> Iterator[None]:
        """Inside, nodes are marked as computing again what was computed before."""
        self.repetitions += 1
        before, self.repeated = self.repeated, self.repetitions
        try:
            yield
        finally:
            self.repeated = before

    def keep_whole(self, name: str, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """Records a call without looking into it; it is taken to give a tensor like its first argument."""
        given = self.faked(args)
        if not given or type(given[0]) not in PLAIN:
            raise TypeError(f"{name}: expected a tensor as first argument, got {given[:1]}")
        result = bare(given[0])
        self.follow_modes()
        node = self.graph.create_node("call_function", function, self.argument(given), {}, name)
        node.meta["val"] = result
        self.bind(result, node)
        return result

    def follow_modes(self) -> None:
        """Switches the graph to the modes that are active now."""
        self._switch(self._modes_now())

    @contextmanager
    def unswitched(self) -> Iterator[None]:
        """Inside, the graph is taken to be in the modes of now: whatever runs a part of it sets them."""
        before, self._state = self._state, self._modes_now()
        try:
            yield
        finally:
            self._state = before

    def start(self) -> None:
        """Takes the modes of now for those that this graph will be run in."""
        self._state = self._entry = self._modes_now()

    def finish(self) -> None:
        """Puts the modes of the graph back to what they were when recording began."""
        if self._state is not None:
            self._switch(self._entry)

    def _switch(self, wanted: tuple[bool, bool, Any]) -> None:
        if wanted == self._state:
            return
        assert self._state is not None
        (old_grad, old_inference, old_autocast), (grad, inference, autocast) = self._state, wanted
        calls: list[tuple[Any, tuple[Any, ...]]] = []
        if autocast != old_autocast:
            if self.host.set_autocast is None:
                raise Break("mode-change", "autocast entered or left inside")
            calls.append((self.host.set_autocast, autocast or (None, True)))
        if inference != old_inference:
            calls.append((_set_inference_mode, (inference,)))
        if grad != old_grad:
            calls.append((_set_grad_enabled, (grad,)))
        for function, args in calls:
            self.graph.call_function(function, args).meta["val"] = None
        self._state = wanted

    def _modes_now(self) -> tuple[bool, bool, Any]:
        mode = modes.modes()
        autocast = next(((v.dtype, v.caching) for n, v in mode.extra if n == "autocast"), None)
        return mode.grad, mode.inference, autocast

    # -- wrappers of transforms ------------------------------------------------------------------------------
    def wrapped(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], top: Any) -> Any:
        """A call on tensors of a running transform (vmap, jvp): what it does to plain tensors is recorded."""
        raise NeedOps("transform-inside", type(top).__name__)

    def entered(self, tensor: Tensor, made: Tensor) -> None:
        """A transform enters a function with a tensor of its own, which shares another one's array."""
        raise NeedOps("transform-inside", "a function that is differentiated")

    def is_alias(self, tensor: Tensor) -> bool:
        """Whether a tensor has no node but that of another one, whose array it shares."""
        return False

    def is_inner(self, tensor: Tensor) -> bool:
        """Whether gradients flow from a tensor to nothing but what a transform entered a function with."""
        return False

    # -- nodes of values -------------------------------------------------------------------------------------
    def argument(self, value: Any) -> Any:
        """The argument of a node for an argument of a call."""
        kind = type(value)
        if kind in PLAIN:
            return self.node(value)
        if kind is tuple:
            return tuple([self.argument(item) for item in value])
        if kind is list:
            return [self.argument(item) for item in value]
        if kind is dict:
            return {key: self.argument(item) for key, item in value.items()}
        if kind is slice:
            parts = (value.start, value.stop, value.step)
            return slice(*[self.argument(part) for part in parts])
        if isinstance(value, Symbolic):
            if value.expression.kind is int:
                value.owner.refuse(value.expression)  # it may be a size
            return self.node(value)
        if isinstance(value, tuple):
            items = [self.argument(item) for item in value]
            return kind(*items) if hasattr(kind, "_fields") else tuple(items)
        if isinstance(value, (np.ndarray, Generator)):
            return self.node(value)
        return value

    def node(self, value: Any) -> Any:
        """The node whose value this is; a symbolic number that is settled gives its value."""
        if isinstance(value, Symbolic):
            return self.symbol(value)
        key = id(value)
        node = self._nodes.get(key)
        if node is not None:
            return node
        pending = self._pending.pop(key, None)
        if pending is not None:
            node, path = pending
            for index in path:
                result = node.meta["val"][index]
                node = self.graph.call_function(operator.getitem, (node, index))
                node.meta["val"] = result
                if self.where is not None:
                    node.meta["source"] = self.where()
        else:
            real = self._reals.get(key)
            node = self.on_input(value) if real is None else self.node(real)
        self.bind(value, node)
        return node

    def symbol(self, value: Any) -> Any:
        """The node (or the number) that computes a symbolic scalar."""
        for symbol in by_name(value.expression.symbols):
            leaf = Expression("symbol", (symbol,), symbol.kind)
            if leaf not in self.symbols:
                value.owner.refuse(leaf)
                self.symbols[leaf] = self.on_input(value.owner.number(leaf, value.owner.hints[symbol]))
        return to_node(self.graph, value, self.symbols)

    def bind(self, value: Any, node: Node) -> None:
        """From here on, this node stands for the value."""
        if isinstance(value, Symbolic):
            self.symbols[value.expression] = node
            return
        self._nodes[id(value)] = node
        self._kept[id(value)] = value
        if node.op == "placeholder" and isinstance(value, Tensor):
            self._inputs[id(value)] = value

    def call_it(self, value: Any, name: str) -> None:
        """Names the node of a value by the variable that holds it first."""
        node = self._nodes.get(id(value))
        if node is not None and node.op != "placeholder" and not node.meta.get("called"):
            node.meta["called"] = True
            node.graph.rename_node(node, name)

    def replace(self, node: Node, other: Node) -> None:
        """From here on, the other node stands for what this one stood for."""
        for key, bound in self._nodes.items():
            if bound is node:
                self._nodes[key] = other

    def knows(self, value: Any) -> bool:
        """Whether a recorded call made this value."""
        node = self._nodes.get(id(value))
        return id(value) in self._pending or (node is not None and node.op != "placeholder")

    def is_input(self, value: Any) -> bool:
        """Whether this is a fake that came from outside, written since or not."""
        return id(value) in self._inputs

    def bind_result(self, result: Any, node: Node, call: Call, written: list[Tensor]) -> None:
        if isinstance(result, Tensor):
            self.bind(result, node)
            return
        for path, item in self._paths(result):
            if any(item is known for known in call.tensors) and not any(item is one for one in written):
                continue
            self._nodes.pop(id(item), None)
            self._pending[id(item)] = (node, path)
            self._kept[id(item)] = item

    def _paths(self, result: Any, path: tuple[int, ...] = ()) -> list[tuple[tuple[int, ...], Tensor]]:
        if isinstance(result, Tensor):
            return [(path, result)]
        if not isinstance(result, (tuple, list)):
            return []
        return [found for i, item in enumerate(result) for found in self._paths(item, (*path, i))]

    def tensors_in(self, result: Any) -> list[Tensor]:
        if isinstance(result, Tensor):
            return [result]
        if isinstance(result, (tuple, list)):
            return [found for item in result for found in self.tensors_in(item)]
        return []

    # -- real tensors among the arguments --------------------------------------------------------------------
    def faked(self, value: Any) -> Any:
        """The value with fakes in place of real tensors."""
        kind = type(value)
        if kind in PLAIN:
            return value if type(value.array) is MetaArray else self.stand_in(value)
        if kind is tuple or kind is list:
            return kind([self.faked(item) for item in value])
        if kind is dict:
            return {key: self.faked(item) for key, item in value.items()}
        return value

    def stand_in(self, real: Tensor) -> Tensor:
        known = self.originals.fakes.get(id(real))
        if known is not None and id(known[1]) in self._kept:
            return known[1]
        fake = fake_of(real, self.originals)
        self._reals[id(fake)] = real
        self._kept[id(fake)] = fake
        return fake

    def faked_result(self, result: Any) -> Any:
        """New tensors with elements (made from numbers) as fakes."""
        if isinstance(result, Tensor):
            return result if type(result.array) is MetaArray else fake_of(result)
        if isinstance(result, (tuple, list)):
            items = [self.faked_result(item) for item in result]
            named: Any = type(result)
            return named(*items) if hasattr(result, "_fields") else named(items)
        return result

    def original(self, result: Any) -> Any:
        """The result, with real tensors in place of the fakes that stood in for them."""
        if not self._reals or not isinstance(result, Tensor):
            return result
        return self._reals.get(id(result), result)


def is_copy(func: Any, made: Tensor) -> bool:
    """Whether a call that gave its argument back might give a copy of another one of this type."""
    copies = getattr(func, "__name__", "") == "contiguous"
    return copies and is_fake_array(made.array) and not made.array.exact


_rules: list[Rules] = []


def rules() -> Rules:
    if not _rules:
        _rules.append(Rules())
    return _rules[0]
