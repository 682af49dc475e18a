"""Wrappers: tensors that stand for others while a function transform runs, and the levels of transforms.

A `Wrapper` holds tensors of lower levels (`BatchTensor` one with a hidden dimension, `DualTensor` a primal
and its tangent) and shows the facts of the one that user code is meant to see. One idea: a call with
wrappers among its tensors is taken over by the wrapper of the highest level, which calls ops on what it
holds; those calls come here again, until nothing but plain tensors is left.

# Note [Levels]
Each running transform has a `Level` with a number of its own; an inner transform has the higher number. A
tensor of a lower level, or a plain one, is a constant to a transform. Reverse mode has no wrapper: the
tape serves all levels at once, because each level differentiates with respect to its own `LevelEntry` nodes.

`array` of a wrapper is a MetaArray: shape, dtype and strides are there to be read, elements are not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextvars import ContextVar
from itertools import count
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from weft.core import modes
from weft.core.arrays import Array
from weft.core.contexts import Block, set_to
from weft.core.device import device
from weft.core.trees import sequence_like
from weft.ops.record import Kind
from weft.tensor.base import Tensor, new
from weft.tensor.meta import MetaArray, recorder_of
from weft.tensor.overrides import disabled_torch_function
from weft.tensor.tape import Node, gradient_edge, node_between

if TYPE_CHECKING:
    from weft.ops.record import Op


numbers = count(1).__next__


class Level:
    """One running transform. Subclasses say what it does to draws of random numbers."""

    __slots__ = ("number", "depth")
    maps: ClassVar[bool] = False  # whether it is a vmap
    number: int
    depth: int

    def __init__(self) -> None:
        self.number = numbers()
        self.depth = len(levels.get()) + 1


levels: ContextVar[tuple[Any, ...]] = ContextVar("weft_levels", default=())
"""The transforms that run now, outermost first."""


def mapping() -> tuple[Any, ...]:
    """The vmaps that run now, outermost first."""
    return tuple(level for level in levels.get() if level.maps)


def refuse_out(op: Op) -> NoReturn:
    """Raises: no gradient flows through what is stored into tensors that the caller gives."""
    raise RuntimeError(
        f"{op.name}(): functions with out=... arguments don't support automatic differentiation, but one of "
        "the arguments requires grad."
    )


class Wrapper(Tensor):
    """A tensor of some level: see the module's text. `held` is the tensor whose facts it shows."""

    __slots__ = ()
    __torch_function__ = staticmethod(disabled_torch_function)  # type: ignore[assignment]

    level: Level
    gradients: ClassVar[Callable[..., list[Any]]]  # `autograd.grad` where wrappers are involved
    gradients_of_parts: ClassVar[Callable[..., Any]]  # of tensors that no transform stands behind
    as_batch: ClassVar[Callable[..., Any]]  # batched gradients for it, and the way back to plain tensors

    @property
    def held(self) -> Tensor:
        raise NotImplementedError

    # -- to be given by subclasses ---------------------------------------------------------------------------
    @classmethod
    def call(cls, op: Op, bound: tuple[Any, ...], level: Level) -> Any:
        """The op on arguments of which some are wrappers of this class and level."""
        raise NotImplementedError

    @classmethod
    def write(cls, op: Op, bound: tuple[Any, ...], level: Level) -> Any:
        """The op's in-place form."""
        raise NotImplementedError

    def rebuilt(self, change: Callable[[Tensor], Tensor]) -> Tensor:
        """The same wrapper around changed tensors of the same shape."""
        raise NotImplementedError

    def pierced(self, change: Callable[[Tensor], Tensor]) -> Tensor:
        """The same wrapper around changed tensors that have one more dimension in front."""
        raise NotImplementedError

    def differentiate(self, outputs: Any, inputs: Any, given: Any, graph: bool) -> list[Any]:
        """Gradients where this is the wrapper of the highest level among outputs and inputs."""
        raise NotImplementedError

    def become(self, op: Op, args: tuple[Any, ...]) -> Tensor:
        """Makes this object what a view op gives for it."""
        before = new(type(self))
        before.__dict__.update(self.__dict__)
        self.__dict__.update(op(before, *args).__dict__)
        return self

    def refuse_mask(self) -> None:
        """Raises where a mask selects a data-dependent number of elements (under vmap)."""

    def refuse_out(self, op: Op) -> None:
        """Raises: results inside a transform cannot be stored into tensors that the caller gives."""
        refuse_out(op)

    # -- what the slots of a plain tensor tell ---------------------------------------------------------------
    @property
    def array(self) -> Array:  # type: ignore[override]
        return MetaArray(self.held.array.shape, self.held.array.dtype, self.held.array.strides)

    @property
    def device(self) -> device:
        return self.held.device

    @property
    def is_meta(self) -> bool:
        return self.held.is_meta

    @property  # type: ignore[misc]
    def requires_grad(self) -> bool:
        return bool(self.held.requires_grad)

    def __deepcopy__(self, memo: object) -> Any:
        raise RuntimeError("a tensor inside a transform cannot be copied deeply")

    def __reduce_ex__(self, _protocol: object) -> Any:
        raise RuntimeError("a tensor inside a transform cannot be pickled")

    def retain_grad(self) -> None:
        self.held.retain_grad()

    def register_hook(self, hook: Callable[..., Any]) -> Any:
        return self.held.register_hook(hook)


def _delegate(name: str) -> property:
    def read(self: Wrapper) -> Any:
        return getattr(self.held, name)

    def write(self: Wrapper, value: object) -> None:
        setattr(self.held, name, value)

    return property(read, write)


for _name in ("tracked", "node", "index", "cell", "origin", "_grad", "hooks"):
    setattr(Wrapper, _name, _delegate(_name))


def wrappers(values: Iterable[Any]) -> list[Wrapper]:
    """The wrappers among arguments and in lists of them."""
    found: list[Wrapper] = []
    for value in values:
        if isinstance(value, Wrapper):
            found.append(value)
        elif type(value) is tuple or type(value) is list:
            found += wrappers(value)
    return found


def each_value(change: Callable[[Any], Any], value: object) -> Any:
    """A value changed; those in tuples and lists one by one."""
    if type(value) is tuple or type(value) is list:
        return type(value)([each_value(change, item) for item in value])
    return change(value)


def each_result(make: Callable[[Any, Any], Any], out: Any, facts: Any) -> Any:
    """What an op gave, each result made anew with its own fact; one fact may stand for all."""
    if isinstance(out, (tuple, list)):
        each = facts if isinstance(facts, (tuple, list)) else (facts,) * len(out)
        return sequence_like(out, [each_result(make, o, f) for o, f in zip(out, each, strict=True)])
    return make(out, facts)


def without(level: Level | None) -> Block:
    """Inside, it is as if this transform did not run."""
    return set_to((levels, tuple(other for other in levels.get() if other is not level)))


def highest(values: Iterable[Any]) -> Wrapper | None:
    """The wrapper of the innermost transform among these values; None if there is none."""
    found = wrappers(values)
    return max(found, key=lambda wrapper: wrapper.level.number) if found else None


def interpret(op: Op, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Calls an op some of whose arguments are wrappers."""
    bound = op.signature.bind(args, dict(kwargs))
    if op.kind is Kind.RANDOM and op.composed and (maps := mapping()):
        return maps[-1].draw(op, bound)
    top = highest(bound)
    assert top is not None
    return type(top).call(op, bound, top.level)


class LevelEntry(Node):
    """Where a function that is being differentiated begins: passes gradients on to what was there before."""

    __slots__ = ()

    def raw_backward(self, grad: object) -> Any:
        return (grad,)

    graph_backward = raw_backward


def entry(tensor: Tensor, connected: bool) -> Tensor:
    """A tracked tensor on a plain tensor's memory: a leaf, or (connected) one behind which its history goes
    on."""
    recorder = recorder_of(modes.current())
    if recorder is not None and type(tensor.array) is not MetaArray:
        tensor = recorder.stand_in(tensor)
    made = new(Tensor)
    made.array, made.tracked, made.node, made.index = tensor.array, True, None, 0
    made.cell, made.origin, made._grad, made.hooks = tensor.shared_cell(), None, None, None
    if connected and tensor.tracked:
        made.node = node_between(LevelEntry, [gradient_edge(tensor)], (tensor, tensor))
    if recorder is not None:
        recorder.entered(tensor, made)
    return made
