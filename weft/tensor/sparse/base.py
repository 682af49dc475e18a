"""The class of sparse tensors: what they hold, what they show, and how ops and gradients reach them.

Takes index tensors and a tensor of elements; gives a `SparseTensor`. One idea: it is a wrapper, as those of
function transforms are, of the lowest level there is. A call of an op that has one among its arguments is
taken over here, and its rule (`weft.tensor.sparse.rules`) calls ops on the tensors that it holds. What is
recorded is recorded there, so gradients of all orders need no rule of their own.

# Note [Gradients of sparse tensors]
The history of a sparse tensor is that of its elements. The gradient of one is sparse, with the places of the
tensor itself, each once: where places repeat, all their elements have the same gradient, which is that of
the sum. PyTorch gives a dense gradient where an op (`mm`, `sum`) would have one at other places too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, TypeVar

from weft.core import modes
from weft.core.device import device
from weft.core.sparse_array import SparseArray
from weft.core.types import Size, layout, sparse_bsc, sparse_bsr, sparse_coo, sparse_csc, sparse_csr
from weft.ops.record import Op
from weft.ops.values import Sizes
from weft.tensor.base import Tensor, new, wrap
from weft.tensor.meta import MetaArray, recorder_of
from weft.tensor.wrapper import Level, Wrapper

if TYPE_CHECKING:
    pass

Rule = Callable[..., Any]
Method = TypeVar("Method")
RULES: dict[Op, Rule] = {}
"""What an op does with sparse tensors among its arguments."""
WRITES: dict[Op, Rule] = {}
"""What the in-place form of an op does, where it is not to put its result in place of what was there."""
NAMES = {
    sparse_coo: "Sparse", sparse_csr: "SparseCsr", sparse_csc: "SparseCsc", sparse_bsr: "SparseBsr",
    sparse_bsc: "SparseBsc",
}  # fmt: skip


class Lowest(Level):
    """The level of sparse tensors, which no transform stands behind."""

    __slots__ = ()

    def __init__(self) -> None:
        self.number = self.depth = 0


LOWEST = Lowest()


def refuse(op: Op, tensor: Tensor) -> NoReturn:
    """Raises: the op would make a dense tensor of a sparse one, or nobody has said what it does."""
    name = NAMES.get(tensor.layout, "")
    raise NotImplementedError(
        f"Could not run 'aten::{op.name}' with arguments from the '{name}{tensor.device.type.upper()}' "
        "backend. The op has no form for sparse tensors: use Tensor.to_dense() first."
    )


def taking(*handled: Op) -> Callable[[Rule], Rule]:
    """Decorator: the function is what these ops do where an argument is sparse. It is given all of them."""

    def enter(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(handled, function))
        return function

    return enter


def writing(*handled: Op) -> Callable[[Rule], Rule]:
    """Decorator: the same for their in-place forms."""

    def enter(function: Rule) -> Rule:
        WRITES.update(dict.fromkeys(handled, function))
        return function

    return enter


class SparseTensor(Wrapper):
    """A tensor of which only some elements are stored: `elements`, at `places` in a tensor of `sizes`."""

    __module__ = "weft"
    __slots__ = ()

    level: ClassVar[Level] = LOWEST  # type: ignore[misc]
    places: tuple[Tensor, ...]  # of COO: (indices,); of compressed layouts: (pointers, indices)
    elements: Tensor
    sizes: Size
    form: layout
    ordered: bool  # whether each place is there once, in order (`is_coalesced`)
    gradient: Any  # (tensor of elements' gradients, sparse tensor made of it)

    @property
    def held(self) -> Tensor:
        return self.elements

    @property
    def array(self) -> Any:  # type: ignore[override]
        """Facts alone; of COO tensors what the engine can add to gradients."""
        inner: Any = self.elements.array
        if self.form is sparse_coo and type(inner) is not MetaArray:
            found: Any = SparseArray(self.places[0].array, inner, self.sizes, self.ordered)
            return found
        return MetaArray(self.sizes, inner.dtype)

    def rebuilt(self, change: Callable[[Tensor], Tensor]) -> Tensor:
        return self.like(change(self.elements))

    def like(self, elements: Tensor, sizes: Sizes | None = None) -> SparseTensor:
        """A tensor with the same places."""
        return sparse(self.form, self.places, elements, sizes or self.sizes, self.ordered)

    # -- facts -----------------------------------------------------------------------------------------------
    @property
    def layout(self) -> layout:
        return self.form

    @property
    def is_sparse(self) -> bool:
        return self.form is sparse_coo

    @property
    def is_sparse_csr(self) -> bool:
        return self.form is sparse_csr

    @property
    def is_meta(self) -> bool:
        return self.elements.is_meta

    @property
    def device(self) -> device:
        return self.elements.device

    def stride(self, dim: int | None = None) -> Any:
        if self.form is not sparse_coo:
            raise RuntimeError(
                f"{NAMES[self.form][:6]} {NAMES[self.form][6:].upper()} tensors do not have strides"
            )
        return (0,) * len(self.sizes) if dim is None else 0

    def is_contiguous(self, memory_format: object = None) -> bool:
        return False

    def data_ptr(self) -> int:
        raise RuntimeError("Cannot access data pointer of Tensor that doesn't have storage")

    def untyped_storage(self) -> Any:
        raise NotImplementedError("Cannot access storage of SparseTensorImpl")

    storage = storage_offset = untyped_storage

    def numpy(self, *, force: bool = False) -> Any:
        raise TypeError("can't convert Sparse layout tensor to numpy. Use Tensor.to_dense() first.")

    def __array__(self, *_args: object, **_kwargs: object) -> Any:
        return self.numpy()

    def tolist(self) -> Any:
        self.data_ptr()

    def item(self) -> Any:
        if self.numel() != 1:
            raise RuntimeError(f"a Tensor with {self.numel()} elements cannot be converted to Scalar")
        return self.elements.sum().item()

    def type(self, dtype: Any = None, non_blocking: bool = False, **kwargs: Any) -> Any:
        if dtype is None:
            return f"torch.sparse.{self.dtype.scalar_name}Tensor"
        return self.to(dtype)

    def share_memory_(self) -> Any:
        return self.untyped_storage()

    def __bool__(self) -> bool:
        if self.numel() != 1:
            values = "more than one value" if self.numel() else "no values"
            raise RuntimeError(f"Boolean value of Tensor with {values} is ambiguous")
        return bool(self.item())

    def __iter__(self) -> Iterator[Tensor]:
        return iter(self[position] for position in range(len(self)))

    def __setitem__(self, key: object, value: object) -> None:
        raise TypeError("Cannot assign to a sparse tensor")

    # -- gradients -------------------------------------------------------------------------------------------
    @property
    def requires_grad(self) -> bool:
        return bool(self.elements.requires_grad)

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self.elements.requires_grad = value

    def requires_grad_(self, requires_grad: bool = True) -> Any:
        self.elements.requires_grad_(requires_grad)
        return self

    def detach(self) -> Any:
        return self.like(self.elements.detach())

    def detach_(self) -> Any:
        self.elements = self.elements.detach()
        return self

    @property
    def data(self) -> Any:
        return self.like(self.elements.data)

    @data.setter
    def data(self, value: Any) -> None:
        if not isinstance(value, SparseTensor):
            raise RuntimeError(
                "Attempted to call `variable.set_data(tensor)`, but `variable` and `tensor` "
                "have incompatible "
                "tensor type."
            )
        tracked = self.elements.requires_grad
        self.places, self.sizes = value.places, value.sizes
        self.form, self.ordered = value.form, value.ordered
        self.elements = value.elements.detach().requires_grad_(tracked)

    # -- copies ----------------------------------------------------------------------------------------------
    def __reduce_ex__(self, _protocol: object) -> Any:
        return rebuild, (self.form, self.places, self.elements, tuple(self.sizes), self.ordered)

    def __deepcopy__(self, memo: Any) -> Any:
        if id(self) not in memo:
            places = tuple([place.__deepcopy__(memo) for place in self.places])
            elements = self.elements.__deepcopy__(memo)
            memo[id(self)] = sparse(self.form, places, elements, self.sizes, self.ordered)
        return memo[id(self)]

    def __format__(self, format_spec: str) -> str:
        return object.__format__(self, format_spec)


def sparse(
    form: layout, places: tuple[Tensor, ...], elements: Tensor, sizes: Sizes, unique: bool = False
) -> SparseTensor:
    """A sparse tensor of these very parts."""
    recorder = recorder_of(modes.current())
    if recorder is not None:
        recorder.refuse_sparse()
    made = new(SparseTensor)
    made.form, made.places, made.elements = form, places, elements
    made.sizes, made.ordered = Size(sizes), unique
    return made


def rebuild(
    form: layout, places: tuple[Tensor, ...], elements: Tensor, sizes: Sizes, unique: bool
) -> SparseTensor:
    """A sparse tensor from what its pickle holds."""
    return sparse(form, tuple(places), elements, sizes, unique)


def of_array(array: SparseArray) -> SparseTensor:
    """The tensor of what flowed backwards."""
    return sparse(sparse_coo, (wrap(array.indices),), wrap(array.values), array.shape, array.coalesced)


def attached(function: Method, name: str = "") -> Method:
    """Decorator: the function (or property) becomes a member of sparse tensors: of its name, or another."""
    setattr(SparseTensor, name or str(getattr(function, "__name__", "")), function)
    return function
