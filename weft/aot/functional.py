"""Functionalisation: a captured graph as pure ops, and facts about what it wrote and what it returned.

Takes calls on fakes, as every recorder does; gives a graph of values, in which nothing is ever written. One
idea: a tensor is a *place*, some steps of views away from a *root*. A root's node stands for its elements as
they are now. A write computes the place's new elements and puts them into the root's by `view_scatter`; the
next read of any other place of that root takes its steps from the root's new node.

# Note [Reads after writes]
    b = a * 2                       mul = a * 2                            root b: node mul
    v = b[0]; w = b[:, 1]           nothing: views become nodes when they are read
    v.add_(1)                       select = mul[0]; add = select + 1
                                    b' = view_scatter(mul, add, [0])       root b: node b', written once
    w * 3                           select_1 = b'[:, 1]; w * 3

The tape runs over the fakes as it does in eager mode, with its own rules for writes: what it saved is found
by the array it saved, see Note [Tensors that share an array] in `weft.trace.op_recorder`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from weft.aot.facts import DATA, DETACH, Step
from weft.core import modes
from weft.core.dtypes import bool_
from weft.core.generator import noted
from weft.core.types import contiguous_format
from weft.graph.effects import LIES, Effect, effect
from weft.graph.graph import Graph
from weft.graph.node import Node
from weft.ops.record import REGISTRY, Kind, Op, ops
from weft.ops.replay import READERS, as_called, view_scatter
from weft.trace.breaks import Break
from weft.trace.fake import bare, is_tensor, of_arrays
from weft.trace.host import Host
from weft.trace.op_recorder import OpRecorder, bound_of
from weft.trace.recorder import Call, Recorded, version
from weft.trace.recorder_rules import Form


class Root:
    """Memory of its own: the elements of a tensor that is no view."""

    __slots__ = ("tensor", "node", "pending", "writes", "input", "places", "source", "unversioned")

    def __init__(self, tensor: Any, node: Node | None, input: int | None = None) -> None:
        self.tensor, self.node, self.input = tensor, node, input
        self.pending: tuple[Node, tuple[int, ...]] | None = None
        self.writes = 0
        self.places: list[Place] = []
        self.source: Root | None = None
        """What this may alias, which is known only at run time."""
        self.unversioned = False
        """Whether it may be a tensor that had been written, which has counted that."""

    def loose(self) -> bool:
        """Whether this memory may alias other memory."""
        return self.source is not None or any(place.shared for place in self.places)


class Place:
    """Where a tensor's elements are: some steps from a root, one from its parent."""

    __slots__ = (
        "root", "parent", "step", "tensor", "array", "node", "seen", "several", "shared", "born", "made_at",
    )  # fmt: skip

    def __init__(self, root: Root, parent: Place | None, step: Step | None, tensor: Any) -> None:
        self.root, self.parent, self.step = root, parent, step
        self.tensor, self.array = tensor, tensor.array
        self.node: Node | None = None
        self.seen = -1  # how often the root had been written when `node` was right
        self.several: dict[int, tuple[int, Node]] = {}  # nodes of views with several results, by arguments
        self.shared = False
        self.born = root.writes
        self.made_at = 0  # how many writes there were before it
        root.places.append(self)

    @property
    def steps(self) -> tuple[Step, ...]:
        found: list[Step] = []
        place: Place | None = self
        while place is not None and place.step is not None:
            found.append(place.step)
            place = place.parent
        return tuple(reversed(found))

    @property
    def identities(self) -> tuple[int, ...]:
        """The tensors that the steps lead to, by id."""
        found: list[int] = []
        place: Place | None = self
        while place is not None and place.step is not None:
            found.append(id(place.tensor))
            place = place.parent
        return tuple(reversed(found))


class Applied:
    """A call that writes, as a function of values: it runs on copies, and gives those."""

    def __init__(self, function: Callable[..., Any], positions: tuple[int, ...]) -> None:
        self.function, self.positions = function, positions
        self.__name__ = f"{getattr(function, '__name__', 'call').strip('_')}_applied"
        self.__module__ = "weft.aot.functional"
        self.__qualname__ = self.__name__

    def __call__(self, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        given = list(args)
        for position in self.positions:
            given[position] = given[position].clone()
        self.function(*given, **kwargs)
        return tuple(given[position] for position in self.positions)

    def on_arrays(self, *values: object) -> tuple[Any, ...]:
        """The same of arrays, as compilers call it that know no tensors."""
        return tuple([each.array for each in self(*map(of_arrays, values))])


class FunctionalRecorder(OpRecorder):
    """A recorder whose graph never writes: see the module's text."""

    def __init__(self, graph: Graph, on_input: Callable[[Any], Node]) -> None:
        super().__init__(graph, on_input)
        self.host = _Unheard(self)
        self.plain_histories = True
        self._in_rules = False  # which ask for `contiguous` where they need it, of gradients that lie anyhow
        self._drew = False  # whether the call that was run last draws random numbers
        self.written: list[Root] = []
        """The roots of all writes, in order."""
        self._places: dict[int, Place] = {}
        self._by_array: dict[int, list[Place]] = {}

    # -- places ----------------------------------------------------------------------------------------------
    def put(self, tensor: Any, place: Place) -> None:
        place.made_at = len(self.written)
        self._places[id(tensor)] = place
        self._by_array.setdefault(id(tensor.array), []).append(place)
        self._kept[id(tensor)] = tensor
        self._kept[id(tensor.array)] = tensor.array

    def new_root(self, tensor: object, node: Node | None, input: int | None = None) -> Root:
        root = Root(tensor, node, input)
        self.put(tensor, Place(root, None, None, tensor))
        return root

    def bind(self, value: Any, node: Node) -> None:
        if not is_tensor(value):
            super().bind(value, node)
            return
        known = self._places.get(id(value))
        if known is None:
            self.new_root(value, node)
        self.note_array(value)

    def place(self, value: Any) -> Place:
        """The place of a tensor; one that is met for the first time is given to `on_input`."""
        found = self._places.get(id(value))
        if found is not None and found.array is value.array:
            return found
        on_array = self._by_array.get(id(value.array))
        if on_array:
            alike = next((p for p in on_array if p.tensor.tracked == value.tracked), None)
            if alike is not None:
                return alike
            first = on_array[0]
            if value.tracked:
                return first
            made = Place(first.root, first, Step(DETACH), value)
            self.put(value, made)
            return made
        if found is not None:
            raise Break("tensor-metadata-write", "a tensor whose storage was replaced")
        real = self._reals.get(id(value))
        if real is not None:
            made_root = self.new_root(value, self.on_input(real))
        else:
            made_root = self.new_root(value, self.on_input(value))
        return made_root.places[0]

    def node(self, value: object) -> Any:
        if not is_tensor(value):
            return super().node(value)
        return self.node_at(self.place(value))

    def node_at(self, place: Place) -> Node:
        """The node of a place's present elements, made behind those of the places that it is a view of."""
        root = place.root
        stale = [place]
        while stale[-1].node is None or stale[-1].seen != root.writes:
            parent = stale[-1].parent
            if parent is None:
                stale[-1].node, stale[-1].seen = self.root_node(root), root.writes
                break
            stale.append(parent)
        node = stale.pop().node
        assert node is not None
        for each in reversed(stale):
            node = each.node = self.node_of_step(each, node)
            each.seen = root.writes
        return node

    def root_node(self, root: Root) -> Node:
        if root.node is None:
            assert root.pending is not None
            node, path = root.pending
            for index in path:
                inner = node.meta["val"][index]
                node = self.graph.call_function(operator.getitem, (node, index))
                node.meta["val"] = inner
            root.node = node
        return root.node

    def node_of_step(self, place: Place, parent: Node) -> Node:
        """One view, read off its parent's elements, whatever order these lie in."""
        step = place.step
        assert step is not None and self._state is not None
        self._switch((step.grad, step.inference, None))
        val = bare(place.tensor)
        if not step.moves:
            node = self.graph.call_method("detach", (parent,))
            node.meta["val"] = val
            return node
        if step.op in READERS and step.op is not ops.view:
            return self.node_of_reader(step, parent, place)
        target = ops.reshape if step.op is ops.view and not _is_cast(step) else step.op
        args, kwargs = as_called(step.op, step.rest)
        if step.position is None:
            node = self.graph.call_function(target, (parent, *self.argument(args)), self.argument(kwargs))
            node.meta["val"] = val
            return node
        assert place.parent is not None
        writes, several = place.parent.several.get(id(step.rest), (-1, parent))
        if writes != place.root.writes:
            several = self.graph.call_function(target, (parent, *self.argument(args)), self.argument(kwargs))
            several.meta["val"] = _siblings(place)
            place.parent.several[id(step.rest)] = (place.root.writes, several)
        node = self.graph.call_function(operator.getitem, (several, step.position))
        node.meta["val"] = val
        return node

    def node_of_reader(self, step: Step, parent: Node, place: Place) -> Node:
        """`as_strided`, as a gather."""
        assert place.parent is not None
        value = bare(place.parent.tensor)
        root = self.new_root(value, parent)
        made = self.within(READERS[step.op], (value, *step.rest), {})
        node: Node = self.node(made)
        if node is self.root_node(root):
            raise Break("unsupported", "as_strided that covers all of its base")
        node.meta[LIES] = tuple(step.rest[1])
        return node

    def knows_tensor(self, value: object) -> bool:
        """Whether this very tensor is an input, or was made by a recorded call."""
        return id(value) in self._places

    # -- calls -----------------------------------------------------------------------------------------------
    def gradients(self, outputs: list[Any], sources: list[Any], tangents: list[Any]) -> tuple[Any, ...]:
        self._in_rules = True
        try:
            return super().gradients(outputs, sources, tangents)
        finally:
            self._in_rules = False

    def _modes_now(self) -> tuple[bool, bool, Any]:
        mode = modes.modes()
        return mode.grad, mode.inference, None  # casts are recorded as such

    def record(
        self,
        func: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        form: Form | None = None,
    ) -> Any:
        op = getattr(func, "op", None)
        autocast = next((value for name, value in modes.modes().extra if name == "autocast"), None)
        if autocast is not None and op is not None and op.amp is not None:
            if func is op.face and "out" not in kwargs:
                return self.within(autocast.call, (op, bound_of(op, args, kwargs)), {})
        if op is not None and func is op.face and "out" not in kwargs:
            if op.kind is Kind.VIEW or (op is ops.reshape and self._is_loose(self.faked(args[0]))):
                return self.record_view(op, func, args, kwargs)
            if op is ops.contiguous and self._in_rules and self.may_copy(args[0]):
                return self.record_contiguous(args[0], True, *args[1:], **kwargs)
            form = ("call_function", op, False)
        elif op is None and self._name(func) in (DETACH, DATA) and len(args) == 1 and not kwargs:
            return self.record_detached(func, args[0])
        elif op is None and self._name(func) == "__setitem__" and _fills(*args):
            mask = args[1][0] if type(args[1]) is tuple else args[1]
            return self.within(_masked_fill, (args[0], mask, args[2]), {})
        return super().record(func, args, kwargs, form)

    def record_view(self, op: Op, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A view: no node until it is read."""
        given, given_kwargs = self.faked(args), self.faked(kwargs)
        if any(map(self._is_wrapped, given)):
            return super().record(func, args, kwargs, ("call_function", op, False))
        parent = self.place(given[0])
        loose = op in (ops.view, ops.reshape) and self._is_loose(given[0])
        result = self.run(func, given, given_kwargs, self.scanned(given, given_kwargs))
        rest = bound_of(op, given, given_kwargs)[1:]
        if loose:
            self.root_of_loose_view(op, result, parent, rest)
            return result
        if op in READERS and op is not ops.view:
            _check_inside(parent, rest)
        now = modes.grad_enabled(), modes.modes().inference
        if is_tensor(result):
            if result is not given[0]:
                self.put(result, Place(parent.root, parent, Step(op, rest, None, *now), result))
            return result
        for position, item in enumerate(result):
            self.put(item, Place(parent.root, parent, Step(op, rest, position, *now), item))
        return result

    def root_of_loose_view(self, op: Op, result: Any, parent: Place, rest: tuple[Any, ...]) -> None:
        """A reshape of unknown strides may copy, and a view of them may raise: each is a value of its own
        that must not be written.
        """
        node = self.append(("call_function", op, False), (parent.tensor, rest[0]), {}, bare(result))
        root = self.new_root(result, node)
        root.source = parent.root
        parent.shared = True

    def may_copy(self, value: object) -> bool:
        """Whether only running can tell if `contiguous` gives this tensor itself."""
        return is_tensor(value) and self._is_loose(value) and not self._is_wrapped(value)

    def record_contiguous(self, given: object, alone: bool, memory_format: object = contiguous_format) -> Any:
        """`contiguous()` of unknown strides: a copy, frozen unless the source is unaliased."""
        form = {"memory_format": memory_format}
        parent = self.place(given)
        result = self.run(ops.clone.face, (given,), form, self.scanned((given,), form))
        node = self.append(("call_function", ops.clone, False), (given,), form, bare(result))
        root = self.new_root(result, node)
        if (
            not alone
            or parent.parent is not None
            or parent.root.input is not None
            or parent.root.source is not None
            or parent.root.places != [parent]
        ):
            root.source = parent.root
            parent.shared = True
        root.unversioned = version(parent.tensor) != 0
        return result

    def record_detached(self, func: Callable[..., Any], tensor: object) -> Any:
        given = self.faked(tensor)
        if self._is_wrapped(given):
            return super().record(func, (tensor,), {}, ("call_method", DETACH, False))
        parent = self.place(given)
        result = self.run(func, (given,), {}, self.scanned((given,), {}))
        if result is not given:
            step = Step(self._name(func), (), None, modes.grad_enabled(), modes.modes().inference)
            self.put(result, Place(parent.root, parent, step, result))
        return result

    def _is_wrapped(self, value: object) -> bool:
        return is_tensor(value) and type(value).__name__ not in ("Tensor", "Parameter")

    def append(self, form: Form, args: tuple[Any, ...], kwargs: dict[str, Any], result: object) -> Node:
        drew, self._drew = self._drew, False  # by the call that has just run, and by no other
        self.argument((args, kwargs))  # views become nodes first, in the modes they were made in
        node = super().append(form, args, kwargs, result)
        if drew and not effect(node).random:
            node.meta["effect"] = Effect(random=True)
        return node

    def run(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], call: Any) -> Any:
        """The call on fakes; notes whether it draws random numbers."""

        def counted(*args: object, **kwargs: object) -> Any:
            with noted() as drawn:
                try:
                    return func(*args, **kwargs)
                finally:
                    self._drew = bool(drawn)

        return super().run(counted, args, kwargs, call)

    def note_call(self, done: Recorded) -> None:
        if not done.written:
            super().note_call(done)
            return
        for target, value in self.written_values(done):
            self.assign(target, value)

    def bind_result(self, result: object, node: Node, call: Any, written: list[Any]) -> None:
        for path, item in self._paths(result):
            if any(item is known for known in call.tensors):
                continue
            if any(item.cell is tensor.cell for tensor in self._shared(item, node, call)):
                raise Break("unsupported", f"{node.name} gives a tensor that shares memory with another")
            if item.tracked and item.node is None:
                raise Break("unsupported", "a leaf that requires grad and is made inside")
            root = self.new_root(item, None if path else node)
            root.pending = (node, path) if path else None
            self.note_array(item)

    def _shared(self, item: Any, node: Node, call: Any) -> list[Any]:
        """The tensors that may alias an unknown tensor: of an op's result those that it was given, of what
        other functions give any.
        """
        if type(item.cell) is not list:
            return []
        if isinstance(node.target, Op) or getattr(node.target, "op", None) is not None:
            return list(call.tensors)
        return [place.tensor for place in self._places.values()]

    def node_of_copy(self, before: object, kept: object) -> Node:
        found: Node = self.node(before)
        return found

    # -- writes ----------------------------------------------------------------------------------------------
    def written_values(self, done: Recorded) -> list[tuple[Any, Node]]:
        """Each tensor that a call has written, with the node of its new elements."""
        func, args, kwargs = done.func, done.args, dict(done.kwargs)
        op = getattr(func, "op", None)
        out = kwargs.pop("out", None)
        if out is not None and op is not None:
            targets = list(out) if isinstance(out, (tuple, list)) else [out]
            return self.values_of_call(op, args, kwargs, targets)
        name = getattr(func, "__name__", "")
        if op is None and name in ("copy_", "fill_", "zero_"):
            plain = name == "copy_" and not is_tensor(args[1])
            op = ops.fill if plain else REGISTRY[name[:-1]]
            args, kwargs = (args[:2], {}) if name != "zero_" else (args[:1], {})
        known = op is not None and done.result is not None
        if op is None or not known or self._has_mask(func, args) or func in self.rules.specials:
            return self.values_applied(done)
        if "inplace" in op.signature.names:
            bound = list(bound_of(op, args, kwargs))
            bound[op.signature.names.index("inplace")] = False
            rest, kwargs = as_called(op, tuple(bound[1:]))
            args = (bound[0], *rest)
        return self.values_of_call(op, args, kwargs, [args[0]])

    def values_of_call(
        self, op: Op, args: tuple[Any, ...], kwargs: dict[str, Any], targets: list[Any]
    ) -> list[tuple[Any, Node]]:
        """The op without its write, and its results as the targets hold them."""
        token = modes.enter(grad=False)
        try:
            result = self.run(op.face, args, kwargs, self.scanned(args, kwargs))
        finally:
            modes.leave(token)
        node = self.append(("call_function", op, False), args, kwargs, result)
        if is_tensor(result):
            return [(targets[0], self.fitted(node, result, targets[0]))]
        found = []
        for position, (item, target) in enumerate(zip(result, targets, strict=True)):
            part = self.graph.call_function(operator.getitem, (node, position))
            part.meta["val"] = item
            found.append((target, self.fitted(part, item, target)))
        return found

    def fitted(self, node: Node, value: Any, target: Any) -> Node:
        """The value in the target's dtype and shape."""
        if value.dtype is not target.dtype:
            node = self.graph.call_function(ops._to_copy, (node, target.dtype))
            node.meta["val"] = bare(target) if value.shape == target.shape else value
        if value.shape != target.shape:
            raise Break("unsupported", f"a write of shape {list(value.shape)} to {list(target.shape)}")
        return node

    def values_applied(self, done: Recorded) -> list[tuple[Any, Node]]:
        """Any other call: see `Applied`."""
        for item in self.tensors_in(done.result):
            if not any(item is known for known in done.call.tensors):
                raise Break("unsupported", f"{self._name(done.func)} writes, and gives another tensor")
        if self._has_mask(done.func, done.args) and any(value.tracked for value in done.written):
            raise Break("unsupported", "a write through a mask, of values that have gradients")
        found = [
            (position, value)
            for position, value in enumerate(done.args)
            if any(value is one for one in done.written)
        ]
        roots = {id(self.place(value).root) for _, value in found}
        written = {id(self.place(value).root) for value in done.written}
        if not found or len(roots) != len(found) or roots != written:
            raise Break("unsupported", f"{self._name(done.func)} writes to tensors that share memory")
        target = Applied(done.func, tuple(position for position, _ in found))
        vals = tuple(bare(value) for _, value in found)
        node = self.append(("call_function", target, False), done.args, done.kwargs, vals)
        parts = []
        for number, (_, value) in enumerate(found):
            part = self.graph.call_function(operator.getitem, (node, number))
            part.meta["val"] = vals[number]
            parts.append((value, part))
        return parts

    def assign(self, target: Any, value: Node) -> None:
        """The target holds this value from here on, and so does what shares its memory."""
        place = self.place(target)
        root = place.root
        if root.loose():
            raise Break("unsupported", "a write to a tensor that may or may not share memory")
        steps = tuple((s.op, s.rest, s.position) for s in place.steps if s.moves)
        silent = not modes.grad_enabled() or any(not s.moves for s in place.steps)
        unversioned = any(s.op == DATA for s in place.steps)  # what nodes have saved of it changes with it
        if unversioned or (silent and any(p.tensor.tracked for p in root.places)):
            self.plain_histories = False
        if steps:
            before = self.root_node(root)
            value_of_root = self.graph.call_function(view_scatter, (before, value, self.argument(steps)))
            value_of_root.meta["val"] = bare(root.tensor)
            root.node = value_of_root
        else:
            value = root.node = self.lying(value, root)
        root.writes += 1
        self.written.append(root)
        if not steps or not modes.grad_enabled():
            place.node, place.seen = value, root.writes
        # else what reads the view is computed from the root, to which gradients may be asked for

    def lying(self, value: Node, root: Root) -> Node:
        """The value as a root holds it from here on, which lies where it did. An op over what it held can say
        that of its result; what was cast, or given by `out=`, is copied over it."""
        before = root.node
        over = bool(value.args) and value.args[0] is before
        if before is not None and not over and root.input is None and len(root.tensor.array.shape) > 1:
            value = self.graph.call_function(ops.copy, (before, value))
            value.meta["val"] = bare(root.tensor)
            over = True
        value.meta[LIES] = over
        return value

    def scanned(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        call = Call()
        call.scan(args)
        call.scan(kwargs)
        return call


class _Unheard(Host):
    """Nothing of the user's runs while graphs are made: gradients of custom ops are those of their nodes."""

    def __init__(self, recorder: FunctionalRecorder) -> None:
        self.recorder = recorder

    def change(
        self, func: Callable[..., Any], name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """A leaf that is made inside is the graph's own; of an input, others see that it has become one."""
        if name != "requires_grad_" or not self.recorder.knows_tensor(args[0]):
            return NotImplemented
        place = self.recorder.place(args[0])
        if place.root.input is not None and place.parent is None:
            return NotImplemented
        return func(*args, **kwargs)

    def user_function(self, op: Op, attribute: str, function: Callable[..., Any]) -> Any:
        return (lambda **_named: None) if attribute == "_setup_context" else function


def _fills(target: Any, key: Any, value: Any) -> bool:
    """Whether `target[key] = value` puts one number wherever a mask is set."""
    mask = key[0] if type(key) is tuple and len(key) == 1 else key
    if not is_tensor(mask) or mask.dtype is not bool_ or not mask.array.ndim:
        return False
    if tuple(mask.array.shape) != tuple(target.array.shape[: mask.array.ndim]):
        return False
    if is_tensor(value):
        return not value.array.ndim and value.dtype.category <= target.dtype.category
    kind = type(value)
    return (
        kind is bool
        or (kind is int and target.dtype.category >= 1)
        or (kind is float and target.dtype.category >= 2)
    )


def _masked_fill(target: Any, mask: Any, value: object) -> None:
    for _ in range(target.array.ndim - mask.array.ndim):
        mask = mask.unsqueeze(-1)
    target.masked_fill_(mask, value)


def _check_inside(parent: Place, rest: tuple[Any, ...]) -> None:
    """`as_strided` must stay within its base: the graph has no other elements."""
    size, stride, shift = rest[:3]
    array = parent.array
    last = shift + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    inside = array.exact and array.is_contiguous and min(stride, default=0) >= 0 <= shift
    if parent.parent is not None or not inside or last >= array.size:
        raise Break("unsupported", "as_strided of a view, or beyond the memory of its base")


def _is_cast(step: Step) -> bool:
    """Whether `x.view(dtype)` is meant."""
    sizes = step.rest[0]
    return len(sizes) == 1 and not isinstance(sizes[0], int)


def _siblings(place: Place) -> tuple[Any, ...]:
    """The values of all results of a view op with several."""
    assert place.step is not None
    rest = place.step.rest
    found = [p for p in place.root.places if p.step is not None and p.step.rest is rest]
    return tuple(bare(p.tensor) for p in found)
