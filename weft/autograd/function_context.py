"""What a custom Function's forward leaves for its backward: the context, and the tensors saved in it.

Gives `FunctionCtx`, which user code sees as `ctx`, and the two halves of saving: `keep` after forward,
`unpack` when backward asks. One idea: the context is an object of its own beside the node, so that users may
give attributes any name; node and context share one `__dict__`, so that `y.grad_fn.scale` is `ctx.scale`.

# Note [What is saved]
An input is saved as the very tensor. An output is saved as its array and number: holding the tensor would
make a circle through its node. Anything else is a constant to autograd, unless forward computed it from an
input that needs a gradient: forward records nothing, so the second derivative would silently lack a term.
Such a tensor (`Loose`) comes back, while backward is being recorded, with a node that raises if a gradient
reaches it. `weft.autograd.function_witness` tells it from a constant.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.core.dtypes import BY_NUMPY
from weft.core.modes import grad_enabled
from weft.core.warn import warn_at_level
from weft.tensor.backward import detached_like
from weft.tensor.base import Tensor, wrap
from weft.tensor.saved import Item, SavedTensor, run_pack
from weft.tensor.tape import FREED, RefusingNode, edges_of, node_between, short_name, stale_words
from weft.tensor.views import Stop

ONCE = "saved_tensors can only be accessed once where clear_saved_tensors_on_access is set"


class FunctionCtx:
    """Handed to forward (or setup_context) to note things for backward, and to backward to read them."""

    needs_input_grad: Any = ()
    to_save: Any = None
    saved_for_forward: Any = None
    dirty_tensors: Any = None
    non_differentiable: Any = None
    materialize_grads: bool = True
    _forward_cls: Any = None
    _node: Any = None  # weak reference to the node; None until there is one
    _items: Any = ()  # what was saved, see Note [What is saved]; None once freed
    _versions: Any = None  # (cell, count, …) of the saved tensors
    _plain: bool = True  # whether the items are just the tensors
    _read: bool = False  # whether the items were given away, as the Function asks for
    _captured: Any = None  # what may stand in for backward: see `function_apply`

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keeps inputs, outputs and constants for backward, where `saved_tensors` gives them back."""
        self.to_save = tensors

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """Keeps tensors for `jvp`."""
        for tensor in tensors:
            if tensor is not None and not isinstance(tensor, Tensor):
                raise AssertionError(
                    "save_for_forward expects all arguments to be tensors; you should save non-tensors as "
                    "attributes on ctx."
                )
        self.saved_for_forward = tensors

    def mark_dirty(self, *args: Tensor) -> None:
        """Says which inputs forward has written to; each must be returned."""
        self.dirty_tensors = args

    def mark_non_differentiable(self, *args: Tensor) -> None:
        """Says which outputs have no gradient."""
        self.non_differentiable = args

    def mark_shared_storage(self, *_pairs: object) -> None:
        warn_at_level(
            "`mark_shared_storage` is deprecated. Tensors with shared storages are automatically tracked. "
            "Note that calls to `set_()` are not tracked",
            FutureWarning,
            stacklevel=2,
        )

    def set_materialize_grads(self, value: bool) -> None:
        """Whether backward gets zeros (the default) or None for outputs that no gradient reached."""
        self.materialize_grads = value

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """The tensors given to `save_for_backward`."""
        return unpack(self)

    @property
    def saved_variables(self) -> tuple[Any, ...]:
        warn_at_level(
            "'saved_variables' is deprecated; use 'saved_tensors'", DeprecationWarning, stacklevel=2
        )
        return unpack(self)

    def __getattr__(self, name: str) -> Any:
        """What nodes have (`next_functions`, `name`, `metadata`, `register_hook`) the context has too."""
        if name in ("saved_tensors", "saved_variables"):  # an AttributeError in an unpack hook led here
            return unpack(self)
        node = None if self._node is None else self._node()
        if node is not None and not name.startswith("__") and hasattr(type(node), name):
            return getattr(node, name)
        owner = "FunctionCtx" if self._forward_cls is None else f"{self._forward_cls.__name__}Backward"
        raise AttributeError(f"{owner!r} object has no attribute {name!r}", name=name, obj=self)


# -- saving -----------------------------------------------------------------------
class Output:
    """A saved output of the Function itself."""

    __slots__ = ("array", "index", "kind", "cell", "tracked")

    def __init__(self, tensor: Tensor) -> None:
        self.array, self.index, self.kind = tensor.array, tensor.index, type(tensor)
        self.cell, self.tracked = tensor.cell, tensor.tracked

    def tensor(self, node: object) -> Tensor:
        made = wrap(self.array, self.tracked, self.kind)
        made.cell = self.cell
        if self.tracked:
            made.node, made.index = node, self.index
        return made


class Loose:
    """A saved tensor that forward computed from an input that needs a gradient."""

    __slots__ = ("value",)

    def __init__(self, value: Tensor) -> None:
        self.value = value

    def tensor(self, node: object) -> Tensor:
        return unrecorded(self.value, node) if grad_enabled() else self.value


class Packed:
    """A saved tensor that saved-tensor hooks packed, and the history to give back to what they return."""

    __slots__ = ("item", "target", "index", "loose")

    def __init__(self, item: Item, tensor: Tensor, node: Any, loose: bool) -> None:
        self.item, self.loose = item, loose
        self.target: Any = None  # a node, a leaf, "own" for an output, None for a constant
        self.index = tensor.index
        if tensor.tracked:
            self.target = "own" if tensor.node is node else tensor if tensor.node is None else tensor.node

    def tensor(self, node: object) -> Tensor:
        answer: Tensor = self.item.tensor()
        if self.target is None or self.loose:
            return unrecorded(answer, node) if self.loose and grad_enabled() else answer
        if isinstance(self.target, Tensor):
            if answer is self.target:
                return answer
            if grad_enabled():
                return detached_like(self.target, answer.array)
            return wrap(answer.array, True, type(answer))
        made = wrap(answer.array, True, type(answer))
        made.node, made.index = node if self.target == "own" else self.target, self.index
        return made


def keep(ctx: FunctionCtx, node: object, args: tuple[Any, ...], mode: Any, witness: object) -> None:
    """Puts what forward asked to save into the context, at the versions it has now."""
    saved = ctx.to_save
    if type(saved) is not tuple:
        saved = (saved,)
    items: list[Any] = []
    versions: list[Any] = []
    plain = True
    for tensor in saved:
        if tensor is None:
            items.append(None)
            continue
        if not isinstance(tensor, Tensor):
            raise TypeError(
                f"save_for_backward can only save variables, but argument {len(items)} is of type "
                f"{type(tensor).__name__}"
            )
        cell = tensor.cell
        if cell is None:
            cell = tensor.cell = [0]
        versions.append(cell)
        versions.append(cell[0])
        if tensor.node is node:
            items.append(Output(tensor))
            plain = False
            continue
        for argument in args:
            if argument is tensor:
                items.append(tensor)
                break
        else:
            items.append(tensor)
            if is_free(tensor):
                plain = _stays_plain(node, items, witness) and plain
    ctx._items, ctx._versions, ctx._plain = tuple(items), versions or None, plain
    if mode is not True and mode.saved_hooks:
        pack_items(ctx, node, mode.saved_hooks[-1])


def is_free(tensor: Tensor) -> bool:
    """Whether a saved tensor has no history of its own although its dtype could carry one."""
    return BY_NUMPY[tensor.array.dtype].category >= 2 and (not tensor.tracked or type(tensor.node) is Stop)


def _stays_plain(node: object, items: list[Any], witness: Any) -> bool:
    """Whether the last item is a constant; else it is marked as computed from an input."""
    constant: bool = witness.is_constant(node, len(items) - 1, items[-1])
    if not constant:
        items[-1] = Loose(items[-1])
    return constant


def pack_items(ctx: FunctionCtx, node: object, pair: Any) -> None:
    """Runs a pair of saved-tensor hooks over what was saved; versions are no longer watched then."""
    ctx._items = tuple(None if item is None else pack_one(item, node, *pair) for item in ctx._items)
    ctx._versions, ctx._plain = None, False


def pack_one(
    item: Any, node: object, pack: Callable[[Any], Any], unpack_hook: Callable[[Any], Any]
) -> Packed:
    loose = type(item) is Loose
    tensor = item.tensor(node) if type(item) is Output else item.value if loose else item
    return Packed(Item(run_pack(pack, tensor), unpack_hook, tensor.array), tensor, node, loose)


# -- giving back -----------------------------------------------------------------------
def unpack(ctx: FunctionCtx) -> tuple[Any, ...]:
    """What was saved, as tensors with their history; raises where they were freed or written to."""
    items: tuple[Any, ...] | None = ctx._items
    if items is None:
        raise RuntimeError(ONCE if ctx._read else FREED)
    versions = ctx._versions
    if versions is not None:
        for i in range(0, len(versions), 2):
            if versions[i][0] != versions[i + 1]:
                _stale(ctx, versions[i], versions[i + 1])
    if ctx._forward_cls is not None and ctx._forward_cls.clear_saved_tensors_on_access:
        ctx._items, ctx._versions, ctx._read = None, None, True
    if ctx._plain:
        return items
    node = ctx._node()
    return tuple(item if item is None or isinstance(item, Tensor) else item.tensor(node) for item in items)


def _stale(ctx: FunctionCtx, cell: Any, seen: int) -> None:
    """Raises PyTorch's error for a saved tensor that was overwritten."""
    node = ctx._node()
    for item in ctx._items:
        tensor = item.tensor(node) if type(item) is Output else item.value if type(item) is Loose else item
        if isinstance(tensor, Tensor) and tensor.cell is cell:
            what = f"weft.{tensor.dtype.scalar_name}Tensor {list(tensor.array.shape)}"
            maker = tensor.node
            origin = "" if maker is None else f", which is output {tensor.index} of {short_name(maker)},"
            raise RuntimeError(stale_words(what, origin, cell[0], seen))


class SavedItem(SavedTensor):
    """One entry of `grad_fn._raw_saved_tensors`: a saved tensor to which hooks can be attached."""

    __slots__ = ()
    packed = Packed

    def values(self) -> list[Any] | None:
        items = self.node.ctx._items
        return None if items is None else list(items)

    def pack(self, values: list[Any], pack: Callable[[Any], Any], unpack: Callable[[Any], Any]) -> None:
        ctx: FunctionCtx = self.node.ctx
        watched = [i for i, each in enumerate(values) if each is not None and type(each) is not Packed]
        if ctx._versions is not None:
            place = 2 * watched.index(self.position)
            ctx._versions = [*ctx._versions[:place], *ctx._versions[place + 2 :]] or None
        values[self.position] = pack_one(values[self.position], self.node, pack, unpack)
        ctx._items, ctx._plain = tuple(values), False


# -- what was computed from an input and saved ------------------------------------------------------------
class UnrecordedBackward(RefusingNode):
    """Behind a saved tensor whose way from the inputs was not recorded: see Note [What is saved]."""

    __slots__ = ()


def unrecorded(tensor: Tensor, owner: Any) -> Tensor:
    """The tensor as one that depends on the inputs of `owner` in a way that was not recorded."""
    name = short_name(owner)
    text = (
        f"{name} saved a tensor of shape {list(tensor.array.shape)} that its forward computed from an input "
        f"which requires grad. forward records no history, so the gradient of {name}'s backward with respect "
        "to that tensor cannot reach the input, and the second derivative would be wrong. Save the inputs "
        "and compute the tensor again in backward, return it from forward as one more output, or save it "
        "as tensor.detach() if it is to count as a constant."
    )
    made = wrap(tensor.array, True, type(tensor))
    made.cell = tensor.shared_cell()
    made.node = node_between(UnrecordedBackward, edges_of(owner), params=(text,))
    return made
