"""The tape's records: one `Node` per recorded op, with edges to what it came from.

Takes nothing of its own: faces and the dispatcher fill nodes in; `weft.autograd` runs them. One idea: an
edge ends at a node or at the leaf tensor itself, so a leaf needs no accumulator object and no reference ever
points in a circle.

# Note [Node layout]
    next      per tensor input: Node, leaf Tensor, or None where no gradient flows
    slots     per tensor input: which output of the node behind it; None when all are 0
    saved     arrays and numbers that the gradient rules read, in the plan's order; `PackedValues` under
              hooks; None once freed
    versions  (cell, count, cell, count, …) of the saved tensors, or None
    params    the op's non-tensor arguments, in order
    types     shape, dtype, shape, dtype, … of the tensor inputs (then of the output, where a rule asks for
    it)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextvars import ContextVar
from itertools import count
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from weft.core import modes
from weft.core.arrays import MODULES
from weft.core.dtypes import BY_NUMPY
from weft.core.errors import no_derivative
from weft.core.naming import named, naming
from weft.ops.record import REGISTRY
from weft.ops.sweep import LEAF_SEQUENCE
from weft.tensor.meta import recorder_of

if TYPE_CHECKING:
    from weft.tensor.base import Tensor


next_sequence = count().__next__


FREED = (
    "Trying to backward through the graph a second time (or directly access saved tensors after they have "
    "already "
    "been freed). Saved intermediate values of the graph are freed when you call .backward() or "
    "autograd.grad(). Specify "
    "retain_graph=True if you need to backward through the graph a second time or if you need to access "
    "saved tensors "
    "after calling backward."
)


class Node:
    """One recorded op. Per-op subclasses carry the op and its two backward functions."""

    __slots__ = (
        "_seq",
        "next",
        "slots",
        "saved",
        "versions",
        "params",
        "types",
        "hooks",
        "__weakref__",
        "__dict__",
    )
    op: ClassVar[Any] = None
    outputs: Any = None  # TensorTypes of the outputs where there are several
    saved_sources: ClassVar[tuple[int, ...]] = ()
    saved_names: ClassVar[tuple[str, ...]] = ()
    _seq: int
    next: tuple[Any, ...]
    slots: tuple[int, ...] | None
    saved: Any
    versions: Any
    params: tuple[Any, ...]
    types: tuple[Any, ...]
    hooks: Any
    widths: Sequence[int]  # of ops of several lists: how many tensors each had

    def raw_backward(self, grad: object) -> Any:
        """Gradients of the inputs, as arrays, for the gradient of the output (a list of them if there are
        several)."""
        no_derivative(f"derivative for {self.op.name} is not implemented", NotImplementedError)

    def graph_backward(self, grad: object) -> Any:
        """The same on tensors, recorded: for create_graph=True."""
        no_derivative(f"derivative for {self.op.name} is not implemented", NotImplementedError)

    def alone(self, tensor: Tensor, retain: bool) -> bool:
        """Does a whole backward of a tensor that it made, from a gradient of one on, where it can tell that
        nobody looks on; else it says no. Nothing that the engine asks of modes and hooks has to be asked
        by it, but what it asks of this node and of leaves."""
        return False

    def edges_from(self, _slot: int) -> tuple[Any, ...]:
        """Where the gradient of one output may lead to."""
        return self.next

    runs_without_gradient: ClassVar[bool] = False
    hooks_without_gradient: ClassVar[bool] = True
    """Whether hooks of an output are called when a gradient came to others only; they are given None. Not for
    nodes that stand for many: see the Note of that name in `weft.autograd.tasks`."""

    def release(self) -> None:
        """Drops what was saved; a second backward that needs it raises."""
        if self.saved:
            self.saved = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} object at {id(self):#x}>"


class RefusingNode(Node):
    """Behind a tensor that has no gradient to give: its parameter is the text of the error."""

    __slots__ = ()

    def raw_backward(self, grad: object) -> Any:
        raise RuntimeError(self.params[0])

    graph_backward = raw_backward


Edge = tuple[Any, int]
"""A node, a leaf or None, and which of its outputs."""


def edges_of(node: Node) -> list[Edge]:
    """Where the gradients of a node's inputs go."""
    return list(zip(node.next, node.slots or (0,) * len(node.next)))


def node_between(
    kind: Any, edges: Sequence[Edge], tensors: Iterable[Tensor] = (), params: tuple[Any, ...] = ()
) -> Any:
    """A node of a class, with these edges, that saves nothing; its types are those of the tensors."""
    node = kind.__new__(kind)
    node._seq = next_sequence()
    node.next = tuple([target for target, _ in edges])
    slots = tuple([slot for _, slot in edges])
    node.slots = slots if any(slots) else None
    node.types = tuple([fact for tensor in tensors for fact in (tensor.array.shape, tensor.array.dtype)])
    node.params, node.saved = params, ()
    node.versions = node.hooks = None
    return node


def check_versions(node: Node, versions: tuple[Any, ...]) -> None:
    """Raises when a saved tensor has been written to since."""
    for i in range(0, len(versions), 2):
        cell = versions[i]
        if cell is not None and cell[0] != versions[i + 1]:
            raise RuntimeError(stale_text(node, cell, versions[i + 1]))


def stale_text(node: Node, cell: Any, seen: int) -> str:
    """PyTorch's words for a saved tensor that was overwritten."""
    return stale_words(*describe_saved(node, cell), cell[0], seen)


STALE = "one of the variables needed for gradient computation has been modified by an inplace operation"


def stale_words(what: str, origin: str, version: int, seen: int) -> str:
    """The same for a tensor that is described already."""
    mode = modes.current()
    if type(mode) is not bool and mode.anomaly is not None:
        hint = (
            "the backtrace further above shows the operation that failed to compute its gradient. The "
            "variable in question "
            "was changed in there or anywhere later. Good luck!"
        )
    else:
        hint = (
            "enable anomaly detection to find the operation that failed to compute its gradient, with "
            + named("weft.autograd.set_detect_anomaly(True, check_nan=False).")
        )
    return f"{STALE}: [{what}]{origin} is at version {version}; expected version {seen} instead. Hint: {hint}"


def saved_arrays(node: Node) -> list[tuple[int, int, Any]]:
    """Each array the node saved: (position in `saved`, number within a list or of the output, array)."""
    values = node.saved if type(node.saved) is tuple else node.saved.values if node.saved is not None else ()
    found = []
    for position, value in enumerate(values):
        items = value if type(value) is tuple or type(value) is list else (value,)
        found += [(position, i, item) for i, item in enumerate(items) if hasattr(item, "dtype")]
    return found


def describe_saved(node: Node, cell: object) -> tuple[str, str]:
    """`weft.FloatTensor [2, 3]` and `, which is output 0 of Exp,` for the saved tensor with this version
    cell."""
    cells = [candidate for candidate in (node.versions or ())[::2] if candidate is not None]
    place = next(i for i, candidate in enumerate(cells) if candidate is cell)
    arrays = saved_arrays(node)
    if place >= len(arrays):
        return named(str(node.__dict__.get("_index_types", {}).get(id(cell), "weft.LongTensor"))), ""
    position, number, array = arrays[place]
    words = f"{naming.namespace}.{BY_NUMPY[array.dtype].scalar_name}Tensor {list(array.shape)}"
    source = node.saved_sources[position]
    if source < 0:
        return words, f", which is output {number} of {short_name(node)},"
    edge = node.op.signature.input_slots.index(source) + number
    target = node.next[edge] if edge < len(node.next) else None
    if target is None or target._seq == LEAF_SEQUENCE:
        return words, ""
    return words, f", which is output {node.slots[edge] if node.slots else 0} of {short_name(target)},"


def short_name(node: Node) -> str:
    """`Exp` for ExpBackward0."""
    name = type(node).__name__
    return name.rpartition("Backward")[0] or name


def freed() -> NoReturn:
    raise RuntimeError(FREED)


def gradient_edge(tensor: Tensor) -> Edge:
    """Where a tensor's gradient goes: its node and output number, itself if a leaf, or (None, 0)."""
    if not tensor.tracked:
        return None, 0
    return (tensor.node, tensor.index) if tensor.node is not None else (tensor, 0)


transforming: ContextVar[bool] = ContextVar("weft_transforming", default=False)
"""Whether a reverse-mode transform runs: what it saves is its own, and dies with it."""


class InferenceCell:
    """Version cell of a tensor made under inference_mode: nothing may be saved of it, but by transforms."""

    __slots__ = ()

    def __getitem__(self, _item: int) -> int:
        if transforming.get():
            recorder = recorder_of(modes.current())
            if recorder is not None:
                recorder.host.saves_inference()
            return 0
        raise RuntimeError(
            named(
                "Inference tensors cannot be saved for backward. Please do not use Tensors "
                "created in inference "
                "mode in "
                "computation tracked by autograd. To work around this, you can make a clone to get a normal "
                "tensor and use it "
                "in autograd, or use `weft.no_grad()` instead of `weft.inference_mode()`."
            )
        )

    def __setitem__(self, _item: int, _value: int) -> None:
        pass


INFERENCE = InferenceCell()


class ComplexBackward(Node):
    """The node of an op on complex values, mixed into the op's own: see Note [Complex gradients] in
    `weft.ops.record`.
    """

    __slots__ = ()
    plain: ClassVar[Any]
    """The op's own node class."""

    def raw_backward(self, grad: object) -> Any:
        if self.op.conjugates:
            return self.plain.raw_backward(self, grad)
        found = self.plain.raw_backward(self, _conjugated(grad, _conjugate_array))
        return tuple([_conjugate_array(each) for each in found])

    def graph_backward(self, grad: object) -> Any:
        if self.op.conjugates:
            return self.plain.graph_backward(self, grad)
        conj = REGISTRY["conj"]

        def turned(value: object) -> Any:
            return None if value is None else conj(value)

        return tuple([turned(each) for each in self.plain.graph_backward(self, _conjugated(grad, turned))])


def _conjugate_array(value: Any) -> Any:
    is_complex = value is not None and value.dtype.kind == "c"
    return MODULES[type(value)].conjugate(value, out=...) if is_complex else value


def _conjugated(grad: object, turn: Any) -> Any:
    return [turn(g) for g in grad] if type(grad) is list or type(grad) is tuple else turn(grad)


_COMPLEX: dict[type, type] = {}


def complex_class(plain: type) -> type:
    """The class of an op's nodes where complex numbers take part; it has the same name."""
    made = _COMPLEX.get(plain)
    if made is None:
        members = {"__slots__": (), "plain": plain}
        made = _COMPLEX.setdefault(plain, type(plain.__name__, (ComplexBackward, plain), members))
    return made
