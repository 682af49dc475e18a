"""What a user sees of a node: `next_functions`, `name()`, `metadata`, saved tensors, and calling it.

Attaches these to the tape's `Node`, and gives leaves their `AccumulateGrad`. One idea: on the tape an edge
to a leaf ends at the leaf tensor itself; the AccumulateGrad that users see there is made when asked for, and
stays the same while anybody holds it.
"""

from __future__ import annotations

import weakref
from typing import Any, Final, NamedTuple

from weft.autograd.hooks import hooks_of
from weft.core.dtypes import BY_NUMPY
from weft.core.naming import naming
from weft.core.once import lock
from weft.core.types import TensorType
from weft.ops.sweep import LEAF_SEQUENCE
from weft.tensor.backward import unpack_one
from weft.tensor.base import Tensor
from weft.tensor.node_names import node_name
from weft.tensor.saved import SavedTensor
from weft.tensor.tape import FREED, Node, edges_of, gradient_edge
from weft.tensor.views import refresh


class GradientEdge(NamedTuple):
    """A node and which of its outputs: where a tensor's gradient enters the graph, without holding the
    tensor."""

    node: Any
    output_nr: int
    ownership_token: Any = None


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """The edge behind a tensor, usable in place of it as an input or output of `grad` and `backward`."""
    if tensor.origin is not None:
        refresh(tensor)
    if not tensor.tracked:
        raise RuntimeError(
            "It is not possible to get the gradient edge for a Tensor that does not require gradients"
        )
    node, slot = gradient_edge(tensor)
    return GradientEdge(face_of(node), slot)


class AccumulateGrad(Node):
    """Stands for a leaf in `next_functions`: adds gradients to the leaf's `.grad`."""

    __slots__ = ("variable",)
    variable: Tensor

    def __init__(self, variable: Tensor) -> None:
        self.variable = variable
        self._seq = LEAF_SEQUENCE
        self.next = ()
        self.slots = None
        self.saved = self.versions = None
        self.params = self.types = ()

    @property
    def hooks(self) -> Any:
        return self.variable.hooks

    @hooks.setter
    def hooks(self, value: object) -> None:
        self.variable.hooks = value

    def name(self) -> str:
        return f"{naming.namespace}::autograd::AccumulateGrad"

    def __call__(self, gradient: Tensor) -> None:
        accumulator(self.variable, gradient)


def accumulator(variable: Tensor, gradient: Tensor) -> None:
    """Adds to `.grad` as the engine would, recording if gradients are on."""
    before = variable._grad
    variable._grad = gradient.detach().clone() if before is None else before + gradient


_faces: Final = lock()


def face_of(node: Node) -> Any:
    """What users see of an edge's end: the node, or the leaf's AccumulateGrad."""
    if not isinstance(node, Tensor):
        return node
    hooks = hooks_of(node)
    face = None if hooks.accumulator is None else hooks.accumulator()
    if face is None:
        with _faces:  # all threads see one
            face = None if hooks.accumulator is None else hooks.accumulator()
            if face is None:
                face = AccumulateGrad(node)
                hooks.accumulator = weakref.ref(face)
    return face


def anchor(node: Node) -> Any:
    """The tape's own end of an edge: the reverse of `face_of`."""
    return node.variable if type(node) is AccumulateGrad else node


def output_type(edge: GradientEdge) -> TensorType:
    """Shape and dtype of the tensor at this edge."""
    node = anchor(edge.node)
    if isinstance(node, Tensor):
        return TensorType(node.array.shape, node.dtype, node.device)
    return input_metadata(node)[edge.output_nr]


def input_metadata(node: Node) -> tuple[TensorType, ...]:
    """The types of the tensors this node made, so of the gradients it takes. Where they were not noted, the
    type rule knows."""
    if node.outputs is not None:
        return tuple(node.outputs)
    if isinstance(node, AccumulateGrad):
        return (TensorType(node.variable.array.shape, node.variable.dtype, node.variable.device),)
    places = 2 * len(node.next)
    if len(node.types) > places:
        return (TensorType(node.types[places], BY_NUMPY[node.types[places + 1]]),)
    signature = node.op.signature
    plain = iter(node.params)
    bound: list[Any] = []
    for slot in range(len(signature.parameters)):
        if slot in signature.tensor_slots:
            shape, kind = node.types[2 * signature.tensor_slots.index(slot) :][:2]
            bound.append(0 if kind is None else TensorType(shape, BY_NUMPY[kind]))
        else:
            bound.append(next(plain))
    return (node.op.on_types(tuple(bound)),)


def _next_functions(self: Node) -> tuple[tuple[Any, int], ...]:
    return tuple((None, 0) if node is None else (face_of(node), slot) for node, slot in edges_of(self))


def _metadata(self: Node) -> dict[str, Any]:
    notes: dict[str, Any] = self.__dict__.setdefault("_metadata", {})
    return notes


def _call(self: Node, *gradients: Any) -> Any:
    """The gradients of the inputs for these gradients of the outputs: one tensor, or a tuple."""
    count = len(input_metadata(self))
    if len(gradients) != count:
        raise TypeError(f"expected {count} arguments, got {len(gradients)} instead")
    for position, value in enumerate(gradients):
        if value is not None and not isinstance(value, Tensor):
            raise TypeError(f"argument {position} is not a Variable")
    if all(value is None for value in gradients) and not self.runs_without_gradient:
        results: Any = (None,) * len(self.next)
    else:
        results = self.graph_backward(list(gradients) if self.outputs is not None else gradients[0])
    return results[0] if len(results) == 1 else tuple(results)


def _getattr(self: Node, name: str) -> Any:
    """`_saved_self`, `_raw_saved_self`, `_saved_dim`: what the node kept, by the op's parameter names."""
    if name.startswith("_saved_"):
        return _saved_value(self, name, name[7:])
    if name.startswith("_raw_saved_") and name[11:] in self.saved_names:
        position = self.saved_names.index(name[11:])
        if self.saved is None:
            return None
        return SavedTensor(self, position)
    raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


def _saved_value(self: Node, name: str, label: str) -> Any:
    if label in self.saved_names:
        if self.saved is None:
            raise RuntimeError(FREED)
        return unpack_one(self, self.saved_names.index(label))
    if label.endswith(("_sym_sizes", "_sizes")) and self.op is not None:
        names = ["self" if n == "input" else n for n in self.op.signature.names]
        label = label.removesuffix("_sizes").removesuffix("_sym")
        if label in names and names.index(label) in self.op.signature.tensor_slots:
            return self.types[2 * self.op.signature.tensor_slots.index(names.index(label))]
    if self.op is not None and label in self.op.signature.names:
        tensors = {*self.op.signature.tensor_slots, *self.op.signature.list_slots}
        plain = [n for i, n in enumerate(self.op.signature.names) if i not in tensors]
        if label in plain:
            value = self.params[plain.index(label)]
            kind = self.op.signature.parameters[self.op.signature.names.index(label)].annotation
            return (value,) if kind == "Dims" and isinstance(value, int) else value
    raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


def _dir(self: Node) -> list[str]:
    """Also what the node has kept."""
    kept = [f"{prefix}_{name}" for name in self.saved_names for prefix in ("_saved", "_raw_saved")]
    if self.op is not None:
        tensors = {*self.op.signature.tensor_slots, *self.op.signature.list_slots}
        kept += [f"_saved_{name}" for i, name in enumerate(self.op.signature.names) if i not in tensors]
    return sorted({*object.__dir__(self), *kept})


INNER = ("CopySlices", "CopyBackwards")
"""Nodes that PyTorch names with where they are from."""


def _name(self: Node) -> str:
    name = node_name(self)
    return f"{naming.namespace}::autograd::{name}" if name in INNER else name


def _repr(self: Node) -> str:
    return f"<{node_name(self)} object at {id(self):#x}>"


def _sequence_nr(self: Node) -> int:
    return self._seq


for _attribute, _value in {
    "next_functions": property(
        _next_functions, doc="The nodes behind this one, each with the number of its output."
    ),
    "metadata": property(_metadata, doc="A dict for whoever wants to note something on this node."),
    "_input_metadata": property(input_metadata, doc="Types of the tensors this node made."),
    "name": _name,
    "_sequence_nr": _sequence_nr,
    "__call__": _call,
    "__getattr__": _getattr,
    "__dir__": _dir,
}.items():
    if _attribute not in AccumulateGrad.__dict__ or _attribute not in Node.__dict__:
        setattr(Node, _attribute, _value)
Node.__repr__ = _repr  # type: ignore[method-assign]
