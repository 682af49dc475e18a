"""Batch rules: an op over a batch of examples as one call of the same op, derived by family from the
signature's annotations.

Takes an op, its arguments and where each tensor carries the batch dimension; gives the batched result and
where the batch is in it. One idea: the annotations already say what a parameter means (`Dim` shifts by one,
`Shape` grows a leading size, `Operand` broadcasts), so a rule is written by hand only where that is not the
whole story. `Batched` carries the pair (value, batch dimension) through composites, which need no rule at
all.
"""

from __future__ import annotations

from typing import Any, Final

from weft.core.settings import settings
from weft.core.types import TensorType
from weft.core.warn import warn_at_level
from weft.ops.record import INTERPRETERS, Kind, Op, ops, type_of
from weft.ops.values import Dims, Spread, TensorLike

DYNAMIC_SHAPE: Final = (
    "vmap: We do not support batching operators that can output dynamic shape. Attempted to vmap over "
    "aten::{name}. "
    "Please file an issue at https://github.com/pytorch/pytorch/issues if you need this feature."
)
MASKED_SELECT: Final = (
    "vmap: Attempted to vmap over `mask` in torch.masked_select(self, mask) We cannot support this because "
    "for each "
    "batch this would return a differently shaped Tensor. Please file an issue at "
    "https://github.com/pytorch/pytorch/issues if you need this feature."
)


class Batched:
    """A value with one hidden dimension: to the code that sees it, it has the shape of a single example."""

    __slots__ = ("value", "dim", "size")

    def __init__(self, value: Any, dim: int, size: int) -> None:
        self.value, self.dim, self.size = value, dim, size

    @property
    def shape(self) -> tuple[int, ...]:
        shape = tuple(self.value.shape)
        return shape[: self.dim] + shape[self.dim + 1 :]

    @property
    def ndim(self) -> int:
        return len(self.value.shape) - 1

    @property
    def dtype(self) -> Any:
        return type_of(self.value).dtype

    @property
    def device(self) -> Any:
        return type_of(self.value).device


def call_batched(op: Op, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Calls an op some of whose arguments are Batched; results are Batched."""
    bound = op.signature.bind(args, kwargs)
    size = next(v.size for v in _leaves(bound) if isinstance(v, Batched))
    if op.composed and op.batch is None:
        assert op.body is not None
        return op.body(*bound)
    values = tuple(_strip(v) for v in bound)
    dims = tuple(_dims(v) for v in bound)
    out, out_dims = batch(op, size, values, dims)
    return _rewrap(out, out_dims, size)


def _leaves(bound: tuple[Any, ...]) -> list[Any]:
    return [item for value in bound for item in (value if isinstance(value, (tuple, list)) else (value,))]


def _strip(value: Any) -> Any:
    if isinstance(value, Batched):
        return value.value
    if isinstance(value, (tuple, list)) and any(isinstance(item, Batched) for item in value):
        return type(value)(_strip(item) for item in value)
    return value


def _dims(value: Any) -> Any:
    if isinstance(value, Batched):
        return value.dim
    if isinstance(value, (tuple, list)) and any(isinstance(item, Batched) for item in value):
        return tuple(_dims(item) for item in value)
    return None


def _rewrap(out: Any, dims: Any, size: int) -> Any:
    if isinstance(out, (tuple, list)):
        each = dims if isinstance(dims, (tuple, list)) else (dims,) * len(out)
        return type(out)(_rewrap(o, d, size) for o, d in zip(out, each, strict=True))
    return out if dims is None else Batched(out, dims, size)


def batch(op: Op, size: int, args: tuple[Any, ...], dims: tuple[Any, ...]) -> tuple[Any, Any]:
    """The op over the batch: by its own rule, by its family's, or example by example (which says so)."""
    if op.batch is not None:
        result: tuple[Any, Any] = op.batch(op, size, args, dims)
        if result is not NotImplemented:
            return result
    derived = DERIVED.get(op.kind)
    if op.promotion is not None:
        derived = batch_pointwise
    if derived is not None:
        result = derived(op, size, args, dims)
        if result is not NotImplemented:
            return result
    return batch_by_loop(op, size, args, dims)


def to_front(value: TensorLike, dim: int | None) -> Any:
    """The value with its batch dimension first (untouched where it has none)."""
    return value if dim is None or dim == 0 else ops.movedim(value, dim, 0)


def spread_to(value: TensorLike, dim: int | None, size: int) -> Any:
    """As `to_front`, but a value without batch gets one, by expansion."""
    if dim is None:
        return ops.expand(value, (size, *value.shape))
    return to_front(value, dim)


def logical_type(value: Any, dim: int | None) -> Any:
    """The type of one example."""
    if not hasattr(value, "shape"):
        return value
    whole = type_of(value)
    shape = whole.shape if dim is None else whole.shape[:dim] + whole.shape[dim + 1 :]
    return TensorType(shape, whole.dtype, whole.device)


def logical_result(op: Op, args: tuple[Any, ...], dims: tuple[Any, ...]) -> Any:
    """What one example's call gives, as types."""
    typed = []
    for value, dim in zip(args, dims, strict=True):
        if isinstance(value, (tuple, list)) and value and hasattr(value[0], "shape"):
            each = dim if isinstance(dim, tuple) else (None,) * len(value)
            typed.append(type(value)(logical_type(v, d) for v, d in zip(value, each, strict=True)))
        else:
            typed.append(logical_type(value, dim))
    return op.on_types(tuple(typed))


def fit(out: TensorLike, expected: TensorType, size: int) -> Any:
    """Gives a batched result the logical shape and dtype behind its leading batch dimension."""
    wanted = (size, *expected.shape)
    if tuple(out.shape) != wanted:
        out = ops.reshape(out, wanted)
    if type_of(out).dtype is not expected.dtype:
        out = ops._to_copy(out, expected.dtype)
    return out


def batch_pointwise(op: Op, size: int, args: tuple[Any, ...], dims: tuple[Any, ...]) -> tuple[Any, Any]:
    """Batch in front, ranks lined up with ones between, broadcasting does the rest."""
    slots = op.signature.tensor_slots
    expected = logical_result(op, args, dims)
    ranks = [logical_type(args[s], dims[s]).ndim for s in slots if hasattr(args[s], "shape")]
    rank = max(ranks)
    values = list(args)
    for slot in slots:
        value, dim = args[slot], dims[slot]
        if dim is None or not hasattr(value, "shape"):
            continue
        value = to_front(value, dim)
        shape = tuple(value.shape)
        gap = rank - (len(shape) - 1)
        values[slot] = ops.reshape(value, (size, *(1,) * gap, *shape[1:])) if gap else value
    out = op(*values)
    return fit(out, expected, size), 0


def batch_first_tensor(op: Op, size: int, args: tuple[Any, ...], dims: tuple[Any, ...]) -> Any:
    """For ops whose `Dim`, `Dims` and `Shape` parameters speak of the first tensor, the only one with a
    batch.
    """
    signature = op.signature
    if (
        signature.list_slots
        or not signature.tensor_slots
        or any(p.annotation == "Index" for p in signature.parameters)
    ):
        return NotImplemented
    first = signature.tensor_slots[0]
    if dims[first] is None or any(dims[s] is not None for s in signature.tensor_slots[1:]):
        return NotImplemented
    value = to_front(args[first], dims[first])
    rank = len(value.shape) - 1
    if rank == 0:
        value = ops.reshape(value, (size, 1))
    values = list(args)
    values[first] = value
    touched = False
    for position, parameter in enumerate(signature.parameters):
        word = parameter.annotation
        if word in SHIFTS:
            shifted = SHIFTS[word](args[position], rank, size)
            if shifted is NotImplemented:
                return NotImplemented
            values[position] = shifted
            touched = True
    if not touched and op.kind is not Kind.CREATE:
        return NotImplemented
    expected = logical_result(op, args, dims)
    out = op(*values)
    if isinstance(out, (tuple, list)):
        return type(out)(fit(o, e, size) for o, e in zip(out, expected, strict=True)), 0
    return fit(out, expected, size), 0


def _shift_dim(dim: int, rank: int, _size: int) -> Any:
    if not isinstance(dim, int):
        return NotImplemented
    return dim % max(rank, 1) + 1


def _shift_maybe_dim(dim: int | None, rank: int, size: int) -> Any:
    return NotImplemented if dim is None else _shift_dim(dim, rank, size)


def _shift_dims(dims: Dims, rank: int, _size: int) -> Any:
    if dims is None or dims == () or dims == []:
        return tuple(range(1, max(rank, 1) + 1))
    each = (dims,) if isinstance(dims, int) else tuple(dims)
    return tuple(d % max(rank, 1) + 1 for d in each)


def _shift_new_dim(dim: int, rank: int, _size: int) -> Any:
    return dim % (rank + 1) + 1


def _grow_shape(shape: Spread, _rank: int, size: int) -> Any:
    return (size, *((shape,) if isinstance(shape, int) else shape))


SHIFTS = {
    "Dim": _shift_dim,
    "MaybeDim": _shift_maybe_dim,
    "Dims": _shift_dims,
    "NewDim": _shift_new_dim,
    "Shape": _grow_shape,
}
"""How each annotation word changes when the tensor it speaks of grows a leading batch dimension."""


def batch_like(op: Op, size: int, args: tuple[Any, ...], dims: tuple[Any, ...]) -> Any:
    """Like-forms keep the batched shape as it is."""
    return batch_first_tensor(op, size, args, dims)


DERIVED = {
    Kind.POINTWISE: batch_pointwise,
    Kind.REDUCE: batch_first_tensor,
    Kind.VIEW: batch_first_tensor,
    Kind.INDEX: batch_first_tensor,
    Kind.CREATE: batch_like,
}


# -- rules that records name in their `batch=`
# ---------------------------------------------------------------------------
def leading(op: Op, size: int, args: tuple[Any, ...], dims: tuple[Any, ...]) -> tuple[Any, Any]:
    """For ops that already treat leading dimensions as a batch: every tensor gets one in front."""
    values = [spread_to(v, d, size) if hasattr(v, "shape") else v for v, d in zip(args, dims, strict=True)]
    out = op(*values)
    return out, (0,) * len(out) if isinstance(out, (tuple, list)) else 0


RANKED_FORMATS = frozenset({"channels_last", "channels_last_3d"})


def unchanged(op: Op, _size: int, args: tuple[Any, ...], dims: tuple[Any, ...]) -> tuple[Any, Any]:
    """For ops that treat all elements alike whatever the shape (copies, casts): the batch is one more
    dimension. A memory format that speaks of ranks does not apply to it."""
    rest = [None if getattr(v, "name", "") in RANKED_FORMATS else v for v in args[1:]]
    return op(to_front(args[0], dims[0]), *rest), 0


def aligned(op: Op, size: int, args: tuple[Any, ...], dims: tuple[Any, ...]) -> Any:
    """For ops whose tensors all have one rank and share the `Dim` (gather, scatter): all get a batch, the
    dim shifts.
    """
    slots = op.signature.tensor_slots
    rank = max(logical_type(args[s], dims[s]).ndim for s in slots if hasattr(args[s], "shape"))
    if rank == 0:
        return NotImplemented
    values = list(args)
    for position, parameter in enumerate(op.signature.parameters):
        if position in slots and hasattr(args[position], "shape"):
            values[position] = spread_to(args[position], dims[position], size)
        elif parameter.annotation == "Dim":
            values[position] = args[position] % rank + 1
    return op(*values), 0


def joined(op: Op, size: int, args: tuple[Any, ...], dims: tuple[Any, ...]) -> Any:
    """For ops on a list of tensors with one `Dim` (cat) or `NewDim` (stack): all get a batch, the dim
    shifts.
    """
    values = list(args)
    slot = op.signature.list_slots[0]
    each = dims[slot] if dims[slot] is not None else (None,) * len(args[slot])
    tensors = [spread_to(v, d, size) for v, d in zip(args[slot], each, strict=True)]
    rank = len(tensors[0].shape) - 1
    values[slot] = tensors
    for position, parameter in enumerate(op.signature.parameters):
        if parameter.annotation in ("Dim", "NewDim"):
            values[position] = SHIFTS[parameter.annotation](args[position], rank, size)
    return op(*values), 0


def permuted(op: Op, size: int, args: tuple[Any, ...], dims: tuple[Any, ...]) -> Any:
    """For permute: the batch stays first."""
    value = to_front(args[0], dims[0])
    rank = len(value.shape) - 1
    return op(value, (0, *(d % max(rank, 1) + 1 for d in args[1]))), 0


def expanded(op: Op, size: int, args: tuple[Any, ...], dims: tuple[Any, ...]) -> Any:
    """For expand: ones go between the batch and the example's own dimensions."""
    value = to_front(args[0], dims[0])
    shape = tuple(value.shape)
    gap = len(args[1]) - (len(shape) - 1)
    return op(ops.reshape(value, (size, *(1,) * gap, *shape[1:])), (size, *args[1]), *args[2:]), 0


class Loops:
    """Whether what has no batch rule may run example by example."""

    allowed: bool = True


loops: Final = Loops()


def batch_by_loop(op: Op, size: int, args: tuple[Any, ...], dims: tuple[Any, ...]) -> tuple[Any, Any]:
    """Example by example, stacked: always right, never fast."""
    message = (
        f"There is a performance drop because {op.name} has no batch rule for these arguments and runs "
        "example by example"
    )
    if settings.strict:
        raise NotImplementedError(message)
    if not loops.allowed:
        raise RuntimeError(f"vmap: {op.name} has no batch rule for these arguments, and loops are turned off")
    warn_at_level(message, UserWarning, stacklevel=2)
    outs = [op(*[_example(v, d, i) for v, d in zip(args, dims, strict=True)]) for i in range(size)]
    if isinstance(outs[0], (tuple, list)):
        return type(outs[0])(ops.stack(list(group), 0) for group in zip(*outs, strict=True)), (0,) * len(
            outs[0]
        )
    return ops.stack(outs, 0), 0


def _example(value: Any, dim: Any, position: int) -> Any:
    if isinstance(dim, tuple):
        return type(value)(_example(v, d, position) for v, d in zip(value, dim, strict=True))
    return value if dim is None else ops.select(value, dim, position)


INTERPRETERS[Batched] = call_batched
