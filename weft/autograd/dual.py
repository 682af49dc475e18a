"""DualTensor: a tensor with the direction in which it moves, and forward mode over it.

Takes op calls on DualTensors, gives DualTensors: the result from the primals, its tangent by the rules of
`weft.ops.forward` or by transposing the op's gradient rule.

# Note [Transposing a gradient rule]
A gradient rule is a linear function s of the gradient u, and s' transpose is the Jacobian we want. So with
a tracked u the rule runs once, recorded, and the gradient of s with respect to u, for the tangents as s'
gradient, is the result's tangent. It needs only that rules are made of ops, which second-order gradients
need as well.

# Note [Duals in place]
Writing to a dual writes to its primal and to its tangent. Several duals may hold one tangent (`x` and `x +
1`), so a dual copies its tangent before it first writes to it. A view of a dual has no tangent of its own:
it asks for that view of its source's tangent, so that what is written to one is seen by all. A tensor that
was no dual becomes one where a dual is written into it (`y = zeros(3); y[0] = x[0]`), and so do the views
of it that there are: their class is changed, and changed back when the level ends, because others hold the
objects themselves.
"""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, TypeGuard

from weft.autograd.batched import BatchTensor, batched, front, held_chain, with_batch
from weft.autograd.reverse import added, gradients
from weft.core import modes
from weft.core.trees import sequence_like
from weft.core.types import contiguous_format
from weft.ops.forward import forward, pullback
from weft.ops.record import INTERPRETERS, Kind, Op, ops
from weft.ops.replay import replay
from weft.tensor.backward import finish
from weft.tensor.base import PLAIN, Tensor, new
from weft.tensor.dispatch import named
from weft.tensor.inplace import dispatch_inplace, writing_face
from weft.tensor.meta import recorder_of
from weft.tensor.wrapper import Level, Wrapper, each_result, each_value, interpret

OWNER = "_entered_by"
"""Where a tensor that a transform differentiates with respect to names that transform's run."""


class Nobody:
    """The run of a probe: it has ended as soon as the probe is made."""

    running = False


NOBODY = Nobody()
ALONE: Final = 3
"""How many hold a tensor's count of versions where no view does: the tensor, a name, and who counts."""
SLOTS = ("array", "tracked", "node", "index", "cell", "origin", "_grad", "hooks")


class Directions(Level):
    """A forward-mode transform that runs, and the duals it has made."""

    __slots__ = ("duals",)
    duals: list[weakref.ref[Any]]

    def __init__(self) -> None:
        super().__init__()
        self.duals = []

    def close(self) -> None:
        """Duals that are still referenced become their primals."""
        for reference in self.duals:
            tensor = reference()
            if type(tensor) is DualTensor:
                demote(tensor)
        self.duals.clear()


class Still:
    """Stands among the modes while forward gradients are off."""


STILL: Final = ("forward", Still())


def is_still() -> bool:
    """Whether forward gradients are off: results then move nowhere, whatever their inputs do."""
    mode = modes.state.get()
    return type(mode) is not bool and STILL in mode.extra


class DualTensor(Wrapper):
    """A dual tensor of one level: `primal` and `tangent`."""

    __slots__ = ()
    primal: Tensor
    direction: Tensor | None  # the tangent; None for a view, see `source`
    source: Any  # (dual, view steps) of which this is a view, or None
    owned: bool  # whether nobody else holds the tangent
    level: Directions

    @property
    def tangent(self) -> Tensor:
        if self.direction is not None:
            return self.direction
        parent, steps = self.source
        found: Tensor = replay(parent.tangent, steps)
        return found

    @property
    def held(self) -> Tensor:
        return self.primal

    @property  # type: ignore[misc]
    def requires_grad(self) -> bool:
        return bool(self.primal.requires_grad or self.tangent.requires_grad)

    @classmethod
    def call(cls, op: Op, bound: tuple[Any, ...], level: Any) -> Any:
        if op.composed and op.jvp is None:
            return named(op, op.body(*bound))  # type: ignore[misc]
        primals = primals_of(bound, level)
        out = op(*primals)
        if is_still():
            return out
        if op.kind is Kind.VIEW:
            return named(op, viewed(bound[0], op, bound[1:], out, level)) if is_dual(bound[0], level) else out
        return dual_result(out, tangent_of(op, tangents_of(bound, level), out, primals), level)

    @classmethod
    def write(cls, op: Op, bound: tuple[Any, ...], level: Any) -> Any:
        target = bound[0]
        if is_still():
            dispatch_inplace(op, primals_of(bound, level), writing_face(op))
            return target
        if op.composed and op.jvp is None:
            result = op.body(ops.clone(target), *bound[1:])  # type: ignore[misc]
            primal, tangent = primals_of(result, level), tangents_of(result, level)
            bound = (target, primal, False)
            op = ops.copy
        else:
            primals, moves = primals_of(bound, level), tangents_of(bound, level)
            before = (ops.clone(primals[0]), *primals[1:])  # what the rules save must not be what is written
            moves = (None if moves[0] is None else ops.clone(moves[0]), *moves[1:])
            tangent = tangent_of(op, moves, op(*before), before)
        held = primals_of(bound, level)
        dispatch_inplace(op, held, writing_face(op))
        if tangent is None and not is_dual(target, level):
            return target
        if not is_dual(target, level):
            promote(target, level)
        own(target, tangent)
        if tangent is None:
            target.tangent.zero_()
        else:
            target.tangent.copy_(tangent)
        return target

    def differentiate(
        self, outputs: Sequence[Any], inputs: Sequence[Any], given: Sequence[Any], graph: bool
    ) -> list[Any]:
        """See Note [Gradients by level] in `weft.autograd.reverse`."""
        level = self.level
        primals, moves = primals_of(list(outputs), level), tangents_of(list(outputs), level)
        sources = primals_of(list(inputs), level)
        parts = [(None, None) if g is None else split(g, level) for g in given]
        seeds = [p for p, _ in parts]
        values = gradients(primals, sources, seeds, graph)
        moving = [(t, p) for t, p in zip(moves, seeds, strict=True) if t is not None and p is not None]
        tangents = gradients([t for t, _ in moving], sources, [p for _, p in moving], graph)
        turned = [(o, t) for o, (_, t) in zip(primals, parts, strict=True) if t is not None]
        if turned:
            more = gradients([o for o, _ in turned], sources, [t for _, t in turned], graph)
            tangents = [added(a, b) for a, b in zip(tangents, more, strict=True)]
        results: list[Any] = []
        for value, tangent in zip(values, tangents, strict=True):
            if tangent is not None and value is None:
                value = ops.zeros_like(tangent)
            results.append(value if tangent is None else merged(value, tangent, level))
        return results

    def pierced(self, change: Callable[[Tensor], Tensor]) -> Tensor:
        return dual(change(self.primal), change(self.tangent), self.level)

    rebuilt = pierced

    def overwritten(self) -> Tensor:
        """The primal, of which all elements are about to be replaced by constants."""
        own(self, None)
        self.tangent.zero_()
        return self.primal

    def detach(self) -> Tensor:
        return self.primal.detach()

    @property  # type: ignore[misc]
    def data(self) -> Tensor:
        return self.primal.data

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        self.primal.requires_grad_(requires_grad)
        return self

    def backward(self, *args: Any, **kwargs: Any) -> None:
        self.primal.backward(*args, **kwargs)

    @property  # type: ignore[misc]
    def grad(self) -> Any:
        return self.primal.grad

    def __repr__(self, *, tensor_contents: str | None = None) -> str:  # type: ignore[override]
        text = repr(self.primal)
        return f"{text[:-1]}, tangent={self.tangent!r})" if text.startswith("tensor(") else text


def _from_primal(name: str) -> Callable[..., Any]:
    def read(self: DualTensor, *args: object, **kwargs: object) -> Any:
        return getattr(self.primal, name)(*args, **kwargs)

    read.__name__ = name
    return read


for _name in (
    "item", "tolist", "numpy", "__bool__", "__int__", "__float__", "__complex__", "__index__", "__array__",
    "data_ptr", "storage_offset", "untyped_storage", "__format__", "__dlpack__", "__dlpack_device__",
):  # fmt: skip
    setattr(DualTensor, _name, _from_primal(_name))

INTERPRETERS[DualTensor] = interpret


def dual(primal: Tensor, tangent: Tensor, level: Directions) -> DualTensor:
    """A DualTensor of this level."""
    made = new(DualTensor)
    made.primal, made.direction, made.level = primal, tangent, level
    made.source, made.owned = None, False
    level.duals.append(weakref.ref(made))
    return made


def viewed(parent: Any, op: Op, rest: tuple[Any, ...], out: Any, level: Directions) -> Any:
    """The results of a view op on a dual. See Note [Duals in place]."""
    if isinstance(out, (tuple, list)):
        return type(out)(_view(parent, (op, rest, i), o, level) for i, o in enumerate(out))
    return _view(parent, (op, rest, None), out, level)


def _view(parent: Any, step: tuple[Any, ...], out: Tensor, level: Directions) -> Tensor:
    if not moves(out):
        return out
    made = dual(out, out, level)
    made.direction, made.source = None, (parent, (step,))
    return made


def own(target: Any, tangent: object) -> None:
    """Makes the tangent behind a dual one that may be written to, and one into which `tangent` fits."""
    while target.source is not None:
        target = target.source[0]
    there = {wrapper.level for wrapper in held_chain(target.direction)}
    lacking = [w.level for w in reversed(held_chain(tangent)) if w.level.maps and w.level not in there]
    if target.owned and not lacking:
        return
    for level in lacking:
        target.direction = with_batch(target.direction, level)
    target.direction = ops.clone(target.direction, memory_format=contiguous_format)
    target.owned = True


def is_dual(value: object, level: Directions) -> TypeGuard[DualTensor]:
    return isinstance(value, DualTensor) and value.level is level


def primals_of(values: object, level: Directions) -> Any:
    """The arguments with this level's duals replaced by their primals."""
    return each_value(lambda value: value.primal if is_dual(value, level) else value, values)


def tangents_of(values: Any, level: Any) -> Any:
    """The tangents of the arguments, None for constants; lists of them for lists."""
    return each_value(lambda value: value.tangent if is_dual(value, level) else None, values)


def dual_result(out: Any, tangent: Any, level: Directions) -> Any:
    return each_result(lambda o, t: o if t is None else dual(o, t, level), out, tangent)


def split(value: Tensor, level: Directions) -> tuple[Any, Any]:
    """The primal and the tangent (or None) of this level, each inside the wrappers of higher levels."""
    if is_dual(value, level):
        return value.primal, value.tangent
    if isinstance(value, BatchTensor) and value.level.number > level.number:
        primal, tangent = split(value.value, level)
        moved = None if tangent is None else batched(tangent, value.place, value.level)
        return batched(primal, value.place, value.level), moved
    if isinstance(value, DualTensor) and value.level.number > level.number:
        primal, tangent = split(value.primal, level)
        first, second = split(value.tangent, level)
        moved = None
        if tangent is not None or second is not None:
            zero = ops.zeros_like
            moved = dual(
                zero(primal) if tangent is None else tangent,
                zero(first) if second is None else second,
                value.level,
            )
        return dual(primal, first, value.level), moved
    return value, None


def merged(primal: Tensor, tangent: Tensor, level: Directions) -> Tensor:
    """The reverse of `split`: a dual of this level, inside the wrappers of higher levels."""
    top = max((primal, tangent), key=lambda value: value.level.number if isinstance(value, Wrapper) else 0)
    if not isinstance(top, Wrapper) or top.level.number < level.number:
        return dual(primal, tangent, level)
    above: Any = top.level
    if isinstance(top, BatchTensor):
        return batched(merged(front(primal, above), front(tangent, above), level), 0, above)
    (value, first), (move, second) = split(primal, above), split(tangent, above)
    zero = ops.zeros_like
    moved = merged(zero(value) if first is None else first, zero(move) if second is None else second, level)
    return dual(merged(value, move, level), moved, above)


# -- the tangent of a result ---------------------------------------------------------------------------------
def tangent_of(op: Op, tangents: tuple[Any, ...], out: Any, bound: tuple[Any, ...]) -> Any:
    """The tangent of an op's result (or results) for these tangents of its arguments."""
    if op.kind is Kind.CREATE or (op.vjp is None and op.jvp is None):
        return None
    if not isinstance(out, (tuple, list)) and not moves(out):
        return None
    tangent = forward(op, tangents, out, bound)
    return transposed(op, tangents, out, bound) if tangent is NotImplemented else tangent


def moves(value: Tensor) -> bool:
    return value.dtype.is_floating_point or value.dtype.is_complex


def transposed(op: Op, tangents: tuple[Any, ...], out: Any, bound: tuple[Any, ...]) -> Any:
    """See Note [Transposing a gradient rule]."""
    single = not isinstance(out, (tuple, list))
    outs = [out] if single else list(out)
    recording = modes.grad_enabled() and any(part.tracked for part in plain_parts([*bound, *tangents]))
    with modes.within(grad=True, inference=False):
        maps = maps_in([*bound, *tangents])
        probes = [probe(o, maps) if moves(o) else None for o in outs]
        gradient = probes[0] if single else tuple(probes)
        pulled: list[Any] = []
        directions: list[Any] = []
        for slot in op.signature.input_slots:
            tangent = tangents[slot]
            if tangent is None or (
                isinstance(tangent, (tuple, list)) and not any(t is not None for t in tangent)
            ):
                continue
            result = pullback(op, gradient, out, bound, slot)
            if result is None:
                continue
            pairs: Any = ((result, bound[slot], tangent),)
            if isinstance(tangent, (tuple, list)):
                pairs = zip(result, bound[slot], tangent, strict=True)
            for value, like, direction in pairs:
                if value is not None and direction is not None:
                    pulled.append(finish(value, tuple(like.shape), like.array.dtype))
                    directions.append(direction)
        wanted = [value for value in probes if value is not None]
        if not op.conjugates:  # see Note [Complex gradients] in weft.ops.record
            directions = [ops.conj(direction) for direction in directions]
        found = iter(gradients(pulled, wanted, directions, recording))
    results = [None if value is None else next(found) for value in probes]
    if not op.conjugates:
        results = [value if value is None else ops.conj(value) for value in results]
    return results[0] if single else sequence_like(out, results)


def probe(like: Tensor, maps: Iterable[Any]) -> Tensor:
    """A tracked tensor of the same type, a batch in each of these vmaps, to differentiate with respect to.
    Its elements do not matter."""
    while isinstance(like, Wrapper) and not isinstance(like, BatchTensor):
        like = like.held
    made: Tensor = ops.zeros_like(like)
    for level in maps:
        made = with_batch(made, level)
    return _tracked(made)


def _tracked(tensor: Tensor) -> Tensor:
    if isinstance(tensor, BatchTensor):
        return tensor.rebuilt(_tracked)
    tensor.tracked = True
    tensor.__dict__[OWNER] = NOBODY
    recorder = recorder_of(modes.current())
    if recorder is not None:
        recorder.entered(tensor, tensor)
    return tensor


def plain_parts(values: Iterable[Any]) -> Iterator[Tensor]:
    """The plain tensors among these values, in lists of them, and in wrappers."""
    for value in values:
        if isinstance(value, DualTensor):
            yield from plain_parts((value.primal, value.tangent))
        elif isinstance(value, Wrapper):
            yield from plain_parts((value.held,))
        elif isinstance(value, Tensor):
            yield value
        elif type(value) is tuple or type(value) is list:
            yield from plain_parts(value)


def maps_in(values: Iterable[Any]) -> list[Any]:
    """The vmaps in which any part of these values is a batch, outermost first."""
    found: set[Any] = set()
    stack = list(values)
    while stack:
        value = stack.pop()
        if isinstance(value, BatchTensor):
            found.add(value.level)
            stack.append(value.value)
        elif isinstance(value, DualTensor):
            stack += [value.primal, value.tangent]
        elif type(value) is tuple or type(value) is list:
            stack += value
    return sorted(found, key=lambda level: level.number)


# -- tensors that become duals, and stop being ones ----------------------------------------------------------
def promote(tensor: Tensor, level: Directions) -> None:
    """Makes a tensor a dual at this level, as it is about to be written to. See Note [Duals in place]."""
    source: Any = tensor.__dict__.get("source")
    if source is None and type(tensor) in PLAIN and tensor.origin is not None:
        source = (tensor.origin.base, tensor.origin.steps)
    if source is not None and not is_dual(source[0], level):
        promote(source[0], level)
    kind = type(tensor)
    beside = _views_of(tensor) if source is None else []
    primal = new(kind)
    primal.__dict__.update(tensor.__dict__)
    if kind in PLAIN:
        for name in SLOTS:
            setattr(primal, name, getattr(tensor, name))
    made: Any = tensor
    direction = ops.zeros_like(tensor) if source is None else None
    made.__class__ = DualTensor
    made.__dict__.clear()
    made.primal, made.direction, made.source, made.owned = primal, direction, source, True
    made.level = level
    level.duals.append(weakref.ref(made))
    for view in beside:
        if not is_dual(view, level):
            promote(view, level)


def _views_of(base: Tensor) -> list[Tensor]:
    """The tensors that were made as views of a plain tensor, and still are there: they share its count of
    versions. Nobody lists them, so they are looked for only where more than one has that count."""
    cell = base.cell if type(base) in PLAIN else None
    if type(cell) is not list or sys.getrefcount(cell) <= ALONE:
        return []
    return [
        other
        for other in gc.get_referrers(cell)
        if type(other) in PLAIN and other.origin is not None and other.origin.base is base
    ]


def demote(tensor: Any) -> None:
    """Makes a dual what its primal is, the same object."""
    primal = tensor.primal
    tensor.__dict__.clear()
    tensor.__class__ = type(primal)
    tensor.__dict__.update(primal.__dict__)
    if type(primal) in PLAIN:
        for name in SLOTS:
            setattr(tensor, name, getattr(primal, name))
