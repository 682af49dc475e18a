"""BatchTensor: what a function under vmap sees in place of a batch, one example's shape with the batch
hidden.

Takes op calls on BatchTensors, gives BatchTensors, by the batch rules of `weft.ops.batching`. Draws of
random numbers come here too, whatever their arguments are, because `randomness` says whether the examples
share them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final, NoReturn, TypeGuard

from weft.autograd.reverse import cut, gradients
from weft.core.arrays import Array
from weft.core.naming import named as said
from weft.core.types import TensorType, contiguous_format
from weft.ops.batching import batch, logical_result, to_front
from weft.ops.record import INTERPRETERS, Kind, Op, broadcast_shapes, ops
from weft.tensor.base import Tensor, new
from weft.tensor.dispatch import named
from weft.tensor.inplace import check_result, dispatch_inplace, writing_face
from weft.tensor.meta import MetaArray
from weft.tensor.views import refuse_overlap
from weft.tensor.wrapper import (
    Level,
    Wrapper,
    each_result,
    each_value,
    interpret,
    mapping,
    without,
    wrappers,
)

ITEM = (
    "vmap: It looks like you're calling .item() on a Tensor. We don't support vmap over calling .item() on "
    "a Tensor, "
    "please try to rewrite what you're doing with other operations. If error is occurring somewhere inside "
    "PyTorch "
    "internals, please file a bug report."
)
BRANCH = (
    "vmap: It looks like you're attempting to use a Tensor in some data-dependent control flow. We don't "
    "support that "
    "yet, please file an issue at https://github.com/pytorch/pytorch/issues ."
)
NO_STORAGE = "Cannot access data pointer of Tensor that doesn't have storage"
UNBATCHED_TARGET = (
    "vmap: {0}(self, *extra_args) is not possible because there exists a Tensor `other` in extra_args that "
    "has more elements than `self`. This happened due to `other` being vmapped over but `self` not being "
    "vmapped over in a vmap. Please try to use out-of-place operators instead of {0}. If said operator is "
    "being called inside the PyTorch framework, please file a bug report instead."
)
ASKED_FORMAT = (
    "NYI: querying is_contiguous inside of vmap for memory_format other than torch.contiguous_format"
)
MASK_INDEX = (
    "vmap: We do not support batching operators that can support dynamic shape. Attempting to batch over "
    "indexing with "
    "a boolean mask."
)
RANDOM_ERROR = (
    "vmap: called random operation while in randomness error mode. Please either use the 'same' or "
    "'different' "
    "randomness flags on vmap or perform the randomness operation out of vmap"
)
SAME_BATCHED = (
    "Vmap does not currently support same randomness with a batched tensor input. Please file an issue with "
    "functorch"
)
DIFFERENT_UNBATCHED = (
    "vmap: Cannot ask for different inplace randomness on an unbatched tensor. This will appear like same "
    "randomness. "
    "If this is necessary for your usage, please file an issue with functorch."
)


REQUIRES_GRAD = (
    "You are attempting to call Tensor.requires_grad_() (or perhaps using torch.autograd.functional.* APIs) "
    "inside of a function being transformed by a functorch transform. This is unsupported, please attempt to "
    "use the functorch transforms (e.g. grad, vjp, jacrev, jacfwd, hessian) or call requires_grad_() outside "
    "of a function being transformed instead."
)
BACKWARD = (
    "backward() called inside a functorch transform. This is not supported, please use functorch.grad or "
    "functorch.vjp instead or call backward() outside of functorch transforms."
)


class Map(Level):
    """A vmap that runs: how many examples it has, and whether they share their random numbers."""

    __slots__ = ("size", "randomness")
    maps: ClassVar[bool] = True
    size: int
    randomness: str

    def __init__(self, size: int, randomness: str) -> None:
        super().__init__()
        self.size, self.randomness = size, randomness

    def draw(self, op: Op, bound: tuple[Any, ...]) -> Any:
        """A random op called while this is the innermost vmap."""
        with without(self):  # what is drawn next is for the vmaps around it
            return _draw(self, op, each_value(_undifferentiated, bound))

    def draw_inplace(self, op: Op, bound: tuple[Any, ...]) -> Any:
        """A random op that writes to its first argument."""
        with without(self):
            return _draw_inplace(self, op, bound)


class BatchTensor(Wrapper):
    """One example of a batch, as code under vmap sees it, the batch at dimension `place` of `value`."""

    __slots__ = ()
    value: Tensor
    place: int
    level: Map
    source: Any  # (BatchTensor, view steps) of which this is a view, for views only

    @property
    def held(self) -> Tensor:
        return self.value

    @property
    def array(self) -> Array:  # type: ignore[override]
        held, dim = self.value.array, self.place
        return MetaArray(
            held.shape[:dim] + held.shape[dim + 1 :], held.dtype, held.strides[:dim] + held.strides[dim + 1 :]
        )

    @classmethod
    def call(cls, op: Op, bound: tuple[Any, ...], level: Any) -> Any:
        if op is ops.masked_select and not is_batched(bound[1], level):
            return _selected(*bound)
        if op.unbatchable is not None:
            raise RuntimeError(op.unbatchable.format(name=op.name))
        if op is ops.contiguous and isinstance(bound[0], BatchTensor) and bound[0].is_contiguous(bound[1]):
            return bound[0]
        if op.composed and op.batch is None:
            return named(op, op.body(*bound))  # type: ignore[misc]
        out, dims = batch(op, level.size, stripped(bound, level), places(bound, level))
        result = rewrapped(out, dims, level)
        if op.kind is Kind.VIEW and is_batched(bound[0], level):
            for i, view in enumerate(result if isinstance(result, (tuple, list)) else (result,)):
                view.source = (bound[0], ((op, bound[1:], None if view is result else i),))
        return named(op, result)

    @classmethod
    def write(cls, op: Op, bound: tuple[Any, ...], level: Any) -> Any:
        target = bound[0]
        if not (isinstance(target, BatchTensor) and target.level is level):
            raise RuntimeError(_unbatched_target(op))
        if op.placing is None:  # the copy below would not see that what was read is replaced
            refuse_overlap(target.value.array)
        if op is ops.copy or op is ops.fill:
            source = bound[1]
            if not isinstance(source, Tensor):
                target.value.fill_(source)
                return target
            result = ops.expand(source, target.shape)
        elif op is ops.zero:
            target.value.zero_()
            return target
        elif op.composed and op.batch is None:
            result = op.body(ops.clone(target), *bound[1:])  # type: ignore[misc]
        else:
            values, dims = stripped(bound, level), places(bound, level)
            values = (ops.clone(values[0]), *values[1:])  # what is saved must not be what is written next
            expected = logical_result(op, values, dims)
            check_result(op.name, target, expected)
            result = rewrapped(*batch(op, level.size, values, dims), level)
        if op is not ops.copy:
            check_result(op.name, target, TensorType(result.shape, result.dtype))
        to_front(target.value, target.place).copy_(front(result, level))
        return target

    def pierced(self, change: Callable[[Tensor], Tensor]) -> Tensor:
        """The same around a changed value that has one more dimension in front."""
        return batched(change(self.value), self.place + 1, self.level)

    def rebuilt(self, change: Callable[[Tensor], Tensor]) -> Tensor:
        """The same around a changed value of the same shape."""
        return batched(change(self.value), self.place, self.level)

    def differentiate(
        self, outputs: Sequence[Any], inputs: Sequence[Any], given: Sequence[Any], graph: bool
    ) -> list[Any]:
        """See Note [Gradients by level] in `weft.autograd.reverse`."""
        level = self.level
        mine = [(o, g) for o, g in zip(outputs, given, strict=True) if is_batched(o, level) and g is not None]
        rest = [
            (o, g) for o, g in zip(outputs, given, strict=True) if not is_batched(o, level) and g is not None
        ]
        spread = [x.value if is_batched(x, level) else x for x in inputs]
        seeds = [ops.movedim(front(g, level), 0, o.place) for o, g in mine]
        results = gradients([o.value for o, _ in mine], spread, seeds, graph)
        for position, (x, value) in enumerate(zip(inputs, results, strict=True)):
            if value is not None:
                if not is_batched(x, level):
                    raise RuntimeError(
                        said(
                            "vmap: the gradient of a batched output with respect to a tensor that is not "
                            "batched was asked "
                            "for; use weft.func.grad or weft.func.vjp inside vmap, which "
                            "give one gradient per "
                            "example"
                        )
                    )
                results[position] = enclosed(value, x.place, level)
        if rest:
            shared = [None if is_batched(x, level) else x for x in inputs]
            known = [i for i, x in enumerate(shared) if x is not None]
            found = gradients([o for o, _ in rest], [shared[i] for i in known], [g for _, g in rest], graph)
            for position, value in zip(known, found, strict=True):
                results[position] = value
        return results

    def refuse_out(self, op: Op) -> None:
        raise RuntimeError(
            f"Batching rule not implemented for aten::{op.name}.out; the fallback path doesn't work on out= "
            "or view ops."
        )

    def storage_offset(self) -> int:
        return self.value.storage_offset()

    def is_contiguous(self, memory_format: Any = None) -> bool:
        """Whether the examples lie row by row: other orders are not asked for under vmap."""
        if memory_format not in (None, contiguous_format):
            raise RuntimeError(ASKED_FORMAT)
        return Tensor.is_contiguous(self)

    # -- history ---------------------------------------------------------------------------------------------
    def detach(self) -> Tensor:
        return self.rebuilt(lambda value: value.detach())

    @property  # type: ignore[misc]
    def data(self) -> Tensor:
        return self.rebuilt(lambda value: value.data)

    def __repr__(self, *, tensor_contents: str | None = None) -> str:  # type: ignore[override]
        text = repr(self.value).replace("\n", "\n    ")
        return f"BatchedTensor(lvl={self.level.depth}, bdim={self.place}, value=\n    {text}\n)"


REFUSED: Final = {
    ITEM: ("item", "__int__", "__float__", "__complex__", "__index__"),
    BRANCH: ("__bool__",),
    NO_STORAGE: ("tolist", "numpy", "__array__", "data_ptr"),
    MASK_INDEX: ("refuse_mask",),
    REQUIRES_GRAD: ("requires_grad_",),
    BACKWARD: ("backward",),
}
"""What one example cannot be asked for: texts of errors, and the methods that raise them."""


def _refusal(name: str, text: str) -> Callable[..., NoReturn]:
    def refuse(self: BatchTensor, *_args: object, **_kwargs: object) -> NoReturn:
        raise RuntimeError(text)

    refuse.__name__ = name
    return refuse


for _text, _names in REFUSED.items():
    for _name in _names:
        setattr(BatchTensor, _name, _refusal(_name, _text))
INTERPRETERS[BatchTensor] = interpret


def batched(value: Tensor, dim: int, level: Map) -> Tensor:
    """A BatchTensor of this level on a tensor with the batch at `dim`."""
    made = new(BatchTensor)
    made.value, made.place, made.level = value, dim, level
    return made


def is_batched(value: object, level: Map) -> TypeGuard[BatchTensor]:
    return isinstance(value, BatchTensor) and value.level is level


def stripped(values: object, level: Map) -> Any:
    """The arguments with this level's BatchTensors taken off."""
    return each_value(lambda value: value.value if is_batched(value, level) else value, values)


def places(values: Any, level: Map) -> tuple[Any, ...]:
    """Where each argument carries this level's batch: a number, a tuple for a list of tensors, or None."""
    found: list[Any] = []
    for value in values:
        if is_batched(value, level):
            found.append(value.place)
        elif (type(value) is tuple or type(value) is list) and any(is_batched(v, level) for v in value):
            found.append(places(value, level))
        else:
            found.append(None)
    return tuple(found)


def shared(value: Any, level: Any) -> Any:
    """What all examples of a batch of equals are; a value that is no batch of this level as it is."""
    return ops.select(value.value, value.place, 0) if is_batched(value, level) else value


def rewrapped(out: Any, dims: Any, level: Map) -> Any:
    def rewrap(value: Any, dim: Any) -> Any:
        return value if dim is None or not isinstance(value, Tensor) else batched(value, dim, level)

    return each_result(rewrap, out, dims)


def front(value: Tensor, level: Map) -> Tensor:
    """The tensor with this level's batch as its first dimension, by expansion if it has none. Wrappers of
    higher levels keep theirs."""
    if is_batched(value, level):
        moved: Tensor = to_front(value.value, value.place)
        return moved
    if isinstance(value, Wrapper) and value.level.number > level.number:
        return value.pierced(lambda held: front(held, level))
    expanded: Tensor = ops.expand(value, (level.size, *value.shape))
    return expanded


def _unbatched_target(op: Op) -> str:
    """Why a tensor that all examples share cannot be written to by an op on one that they do not."""
    arithmetic = op.kind is Kind.POINTWISE or op is ops.copy
    return UNBATCHED_TARGET.format("inplace arithmetic" if arithmetic else f"{op.name}_")


def _selected(x: Any, mask: Any) -> Any:
    """masked_select by a mask that all examples share: as many elements from each."""
    shape = broadcast_shapes(tuple(x.shape), tuple(mask.shape))
    places = list(ops.unbind(ops.nonzero(ops.expand(mask, shape)), 1))
    if not shape:  # a zero-dim mask takes all or nothing
        return ops.expand(ops.reshape(x, (1,)), (1,))[: mask.sum().item()]
    return ops.index(ops.expand(x, shape), places, tuple(range(len(shape))))


def enclosed(value: Tensor, place: int, level: Map) -> Tensor:
    """The reverse of `front`: hides a dimension as this level's batch, inside wrappers of higher levels."""
    if isinstance(value, BatchTensor) and value.level.number > level.number:
        inner = place if place < value.place else place + 1
        return batched(enclosed(value.value, inner, level), value.place - (inner < value.place), value.level)
    if isinstance(value, Wrapper) and value.level.number > level.number:
        return value.rebuilt(lambda held: enclosed(held, place, level))
    return batched(value, place, level)


# -- random numbers ------------------------------------------------------------------------------------------
def _undifferentiated(value: object) -> Any:
    """Draws have no derivatives: duals give their primals."""
    while isinstance(value, Wrapper) and not isinstance(value, BatchTensor):
        value = value.held
    return value


def _draw(level: Map, op: Op, bound: tuple[Any, ...]) -> Any:
    if level.randomness == "error":
        raise RuntimeError(RANDOM_ERROR)
    mine = any(is_batched(wrapper, level) for wrapper in wrappers(bound))
    if level.randomness == "same":
        if not mine:
            return op(*bound)
        if op.reads_elements and not (op is ops.bernoulli and bound[1] is not None):
            raise RuntimeError(SAME_BATCHED)
        return op(ops.select(bound[0].value, bound[0].place, 0), *bound[1:])
    names = op.signature.names
    if _draws_elements(op, bound):
        return batched(op(*_side_by_side(bound, level)), 0, level)
    if "size" in names and not mine:
        return batched(_sized(level, op, bound, names.index("size")), 0, level)
    if mine and not op.reads_elements:
        return batched(op(front(bound[0], level), *stripped(bound[1:], level)), 0, level)
    rows = [op(*_example(bound, level, i)) for i in range(level.size)]
    return batched(ops.stack(rows, 0), 0, level)


def _draws_elements(op: Op, bound: tuple[Any, ...]) -> bool:
    """Whether the result has an element (or a row) for each of the tensors, drawn by it: the batch is drawn
    at once then. Those who draw other numbers of elements are told how many.
    """
    tensors = [place for place, value in enumerate(bound) if isinstance(value, Tensor)]
    kinds = [parameter.annotation for parameter in op.signature.parameters]
    beside = {kind for place, kind in enumerate(kinds) if place not in tensors}
    return bool(tensors) and (
        beside <= {"float", "Generator"} or all(kinds[place] == "Operand" for place in tensors)
    )


def _side_by_side(bound: tuple[Any, ...], level: Map, rank: int = 0) -> list[Any]:
    """The arguments, broadcast as the examples of them would be, with the batch in front of the first tensor
    at least."""
    rank = max(rank, *[value.ndim for value in bound if isinstance(value, Tensor)])
    values = list(bound)
    for place, value in enumerate(bound):
        if is_batched(value, level):
            values[place] = _with_rank(front(value, level), rank)
    if not any(is_batched(value, level) for value in bound):
        place = next(place for place, value in enumerate(bound) if isinstance(value, Tensor))
        values[place] = _with_rank(front(bound[place], level), rank)
    return values


def _with_rank(whole: Tensor, rank: int) -> Tensor:
    """A batch of examples with ones in front of their dimensions, up to so many."""
    size, *shape = whole.shape
    return whole if len(shape) == rank else ops.reshape(whole, (size, *(1,) * (rank - len(shape)), *shape))


def _sized(level: Map, op: Op, bound: tuple[Any, ...], slot: int) -> Any:
    values = list(bound)
    if values[slot] is None:  # randint(high, size)
        slot = next(i for i, value in enumerate(values) if isinstance(value, (tuple, list)))
    values[slot] = (level.size, *values[slot])
    return op(*values)


def _example(values: object, level: Map, position: int) -> Any:
    def example(value: object) -> Any:
        return ops.select(value.value, value.place, position) if is_batched(value, level) else value

    return each_value(example, values)


def _draw_inplace(level: Map, op: Op, bound: tuple[Any, ...]) -> Any:
    if level.randomness == "error":
        raise RuntimeError(RANDOM_ERROR)
    target = bound[0]
    if isinstance(target, Wrapper) and not isinstance(target, BatchTensor):
        fill = target.overwritten()  # type: ignore[attr-defined]
        _draw_inplace(level, op, (fill, *bound[1:]))
        return target
    others = any(is_batched(wrapper, level) for wrapper in wrappers(bound[1:]))
    if others and level.randomness == "same":
        raise RuntimeError(SAME_BATCHED)
    if not is_batched(target, level):
        if level.randomness == "different":
            raise RuntimeError(_unbatched_target(op) if others else DIFFERENT_UNBATCHED)
        dispatch_inplace(op, bound, writing_face(op))
        return target
    whole = to_front(target.value, target.place)
    if level.randomness == "different":
        dispatch_inplace(op, (whole, *_side_by_side(bound, level)[1:]), writing_face(op))
        return target
    one = ops.empty_like(ops.select(whole, 0, 0)) if level.size else whole
    dispatch_inplace(op, (one, *bound[1:]), writing_face(op))
    whole.copy_(one)
    return target


def materialised(value: Tensor) -> Tensor:
    """The tensor as a batch at every vmap that runs now, by expansion where it has none."""
    for level in mapping():
        value = with_batch(value, level)
    return value


def with_batch(value: Tensor, level: Any) -> Tensor:
    """The tensor as a BatchTensor of this level too."""
    if any(is_batched(wrapper, level) for wrapper in held_chain(value)):
        return value
    if isinstance(value, Wrapper) and value.level.number > level.number:
        return value.rebuilt(lambda held: with_batch(held, level))
    return batched(ops.expand(value, (level.size, *value.shape)), 0, level)


def as_batch(values: Sequence[Any], size: int) -> tuple[list[Any], Callable[[Tensor, bool], Tensor]]:
    """Tensors whose first dimension is a batch, as BatchTensors, and the way back."""
    level = Map(size, "error")

    def whole(value: Tensor, graph: bool) -> Tensor:
        found = front(value, level)
        return found if graph else cut(found)

    return [None if value is None else batched(value, 0, level) for value in values], whole


Wrapper.as_batch = staticmethod(as_batch)


def held_chain(value: object) -> list[Wrapper]:
    """A wrapper, what it holds, what that holds, …, as far as these are wrappers."""
    found = []
    while isinstance(value, Wrapper):
        found.append(value)
        value = value.held
    return found
