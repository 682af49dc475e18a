"""Runs gradient rules for nodes: compiles an op's backward functions, and the helpers that their text calls.

Takes an op's plan, gives its node class two functions, `raw_backward` on arrays and `graph_backward` on
tensors. Ops with lists of tensors are interpreted instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import weft.tensor.source as source
from weft.core import modes
from weft.core.arrays import is_array, namespace
from weft.core.dtypes import BY_NUMPY, HALVES, as_dtype
from weft.core.types import TensorType
from weft.ops.record import REGISTRY, Joint, Op, quiet
from weft.tensor.base import Tensor, wrap
from weft.tensor.meta import MetaArray, recorder_of
from weft.tensor.plan import OUT, Plan
from weft.tensor.tape import Node, check_versions, freed, saved_arrays

if TYPE_CHECKING:
    from weft.core.arrays import Array


def unbroadcast(array: Array, shape: tuple[int, ...]) -> Any:
    """Sums a gradient over the dimensions along which its input was broadcast."""
    lead = array.ndim - len(shape)
    axes = tuple(range(lead)) + tuple(
        i + lead for i, n in enumerate(shape) if n == 1 and array.shape[i + lead] != 1
    )
    xp = namespace(array)
    if not axes:
        return xp.broadcast_to(array, shape).copy() if array.shape != shape else array
    kind = BY_NUMPY[array.dtype]
    if kind in HALVES:
        total = quiet(xp.add.reduce, array, axes, dtype=kind.computes_in.numpy, out=...)
        return total.reshape(shape).astype(array.dtype)
    return quiet(xp.add.reduce, array, axes, out=...).reshape(shape)


def cast(array: Array, kind: Any) -> Any:
    """A gradient in its input's dtype (the real part, for a real input)."""
    if array.dtype.kind == "c" and kind.kind != "c":
        array = array.real
    return quiet(array.astype, kind)


def finish(gradient: Tensor, shape: tuple[int, ...], kind: object) -> Tensor:
    """The same two steps on tensors, recorded."""
    if gradient.array.shape != shape:
        lead = gradient.array.ndim - len(shape)
        if lead < 0:
            return finish(REGISTRY["expand"](gradient, shape), shape, kind)
        axes = tuple(range(lead)) + tuple(
            i + lead for i, n in enumerate(shape) if n == 1 and gradient.array.shape[i + lead] != 1
        )
        if axes:
            gradient = REGISTRY["sum"](gradient, axes)
        if gradient.array.shape != shape:
            gradient = REGISTRY["reshape"](gradient, shape)
    if gradient.array.dtype is not kind:
        gradient = REGISTRY["_to_copy"](gradient, as_dtype(kind))
    return gradient


def type_of(shape: Any, kind: Any) -> Any:
    """The TensorType for a type-only parameter (None for a number; the tuple of types for several
    outputs)."""
    if kind is None:
        return shape
    return TensorType(shape, BY_NUMPY[kind])


def unpack(node: Node) -> tuple[Any, ...]:
    """What a node saved, as tensors with their history."""
    saved = node.saved
    if type(saved) is not tuple:
        found: tuple[Any, ...] = saved.tensors(node)
        return found
    values = tuple(
        [revive(node, source, value) for source, value in zip(node.saved_sources, saved, strict=True)]
    )
    if node.versions is not None:
        follow(node, values)
    return values


def follow(node: Node, values: tuple[Any, ...]) -> None:
    """Gives revived tensors the versions of those that were saved: what saves them again sees writes, too."""
    cells = [cell for cell in node.versions[::2] if cell is not None]
    read = node.op.outputs_read
    places = [
        (position, number)
        for position, number, _array in saved_arrays(node)
        if read is None or number in read or node.saved_sources[position] != OUT
    ]
    for cell, (position, number) in zip(cells, places):
        value = values[position]
        tensor = value[number] if type(value) is tuple or type(value) is list else value
        if isinstance(tensor, Tensor) and tensor.cell is None and type(cell) is list:
            tensor.cell = cell


def unpack_one(node: Node, position: int) -> Any:
    """One of the values a node saved, as a tensor."""
    if node.versions is not None:
        check_versions(node, node.versions)
    saved = node.saved
    if type(saved) is not tuple:
        return saved.tensors(node)[position]
    return revive(node, node.saved_sources[position], saved[position])


def revive(node: Node, source: int, value: object) -> Any:
    """One saved value as a tensor: the leaf itself, or a tensor with the same edge as the one that was
    saved."""
    if source == OUT:
        if type(value) is tuple:
            return tuple(_with_edge(array, node, i) for i, array in enumerate(value))
        return None if value is None else _with_edge(value, node, 0)
    position = node.op.signature.input_slots.index(source)
    if type(value) is list or type(value) is tuple:
        return [_revive_input(node, position + i, array) for i, array in enumerate(value)]
    return _revive_input(node, position, value)


def _revive_input(node: Node, position: int, value: object) -> Any:
    if type(value) is not MetaArray and not is_array(value):
        return value
    target = node.next[position]
    if target is None:
        return wrap(value)
    if isinstance(target, Tensor):
        return target if target.array is value else detached_like(target, value)
    return _with_edge(value, target, node.slots[position] if node.slots is not None else 0)


def detached_like(leaf: Tensor, value: Any) -> Tensor:
    """A leaf whose array was swapped (`x.data = y`) or saved as a copy: same gradient edge, the saved
    elements."""
    alias: Tensor = REGISTRY["view_as"](leaf, leaf)
    alias.array = value
    recorder = recorder_of(modes.current())
    if recorder is not None:
        recorder.bind(alias, recorder.node(wrap(value)))
    return alias


def _with_edge(array: Any, node: Node, index: int) -> Tensor:
    tensor = wrap(array, BY_NUMPY[array.dtype].category >= 2)
    if tensor.tracked:
        tensor.node, tensor.index = node, index
    return tensor


def interpret(node: Node, grad: object, graph: bool) -> tuple[Any, ...]:
    """Runs the rules of an op that takes lists of tensors, one gradient per tensor in order."""
    if node.saved is None:
        freed()
    values = unpack(node) if graph else node.saved if type(node.saved) is tuple else node.saved.arrays(node)
    if node.versions is not None:
        check_versions(node, node.versions)
    op = node.op
    arguments, needs, layout = _arguments(node, op, values)
    out = values[node.saved_sources.index(OUT)] if OUT in node.saved_sources else type_of(*node.types[-2:])
    if isinstance(op.vjp, Joint):
        code = op.vjp.function.__code__
        given = [out, *arguments] if code.co_flags & 4 else [out, *arguments][: code.co_argcount - 2]
        groups = op.vjp.function(needs, grad, *given)
    else:
        groups = [
            None
            if rule is None or not _any(need)
            else rule(grad, *[out, *arguments][: rule.__code__.co_argcount - 1])
            for rule, need in zip(op.vjp, needs, strict=True)
        ]
    flat: list[Any] = []
    for group, width in zip(groups, layout, strict=True):
        flat += [group] if width is None else ([None] * width if group is None else list(group))
    for position, gradient in enumerate(flat):
        if gradient is None or node.next[position] is None:
            flat[position] = None
        elif graph:
            flat[position] = finish(gradient, node.types[2 * position], node.types[2 * position + 1])
        elif gradient.dtype is not node.types[2 * position + 1]:
            flat[position] = cast(gradient, node.types[2 * position + 1])
    return tuple(flat)


def _any(need: object) -> bool:
    return any(need) if isinstance(need, tuple) else bool(need)


def _arguments(
    node: Node, op: Op, values: tuple[Any, ...]
) -> tuple[list[Any], tuple[Any, ...], list[int | None]]:
    """All parameters of the op as its rules want them, what needs a gradient, and each tensor parameter's
    width."""
    signature = op.signature
    arguments: list[Any] = []
    needs: list[Any] = []
    layout: list[int | None] = []
    plain = iter(node.params)
    lists = len(signature.list_slots)
    total = len(node.next) - len(signature.tensor_slots)
    position = 0
    for slot in range(len(signature.parameters)):
        if slot in signature.list_slots or slot in signature.tensor_slots:
            width = None if slot in signature.tensor_slots else _width(node, slot, total, lists)
            count = 1 if width is None else width
            kinds = [type_of(*node.types[2 * i : 2 * i + 2]) for i in range(position, position + count)]
            need = tuple(node.next[i] is not None for i in range(position, position + count))
            known = slot in node.saved_sources and values[node.saved_sources.index(slot)] is not None
            fallback = kinds if width is not None else kinds[0]
            arguments.append(values[node.saved_sources.index(slot)] if known else fallback)
            needs.append(need if width is not None else need[0])
            layout.append(width)
            position += count
        else:
            arguments.append(next(plain))
    return arguments, tuple(needs), layout


def _width(node: Node, slot: int, total: int, lists: int) -> int:
    if lists == 1:
        return total
    return int(node.widths[slot])


NAMESPACE: dict[str, Any] = {
    "freed": freed,
    "unpack": unpack,
    "check_versions": check_versions,
    "finish": finish,
    "unbroadcast": unbroadcast,
    "cast": cast,
    "type_of": type_of,
}


def compile_backward(op: Op, plan: Plan) -> None:
    """Gives the op's node class its two backward functions, and says so last: who is interrupted before makes
    them again, as does another thread."""
    node_class: Any = plan.node_class
    if op.vjp is not None:
        node_class.raw_backward, node_class.graph_backward = backward_functions(op, plan)
    node_class.compiled = True


def backward_functions(op: Op, plan: Plan) -> tuple[Any, Any]:
    """The gradient rules of an op as two functions of a node and a gradient: on arrays, and on tensors."""
    if not plan.fixed:
        return (
            lambda node, grad: interpret(node, grad, False),
            lambda node, grad: interpret(node, grad, True),
        )
    namespace = dict(NAMESPACE)
    if isinstance(op.vjp, Joint):
        namespace["JOINT"] = op.vjp.function
    elif op.vjp is not None:
        namespace |= {f"V{i}": rule for i, rule in enumerate(op.vjp)}
    text = source.backward_source(op, plan, graph=False) + source.backward_source(op, plan, graph=True)
    exec(compile(text, f"<weft backward of {op.name}>", "exec"), namespace)
    return namespace["raw_backward"], namespace["graph_backward"]


def differentiable(op: Op) -> bool:
    return op.vjp is not None or op.composed
