"""The generic dispatcher: what happens to a call that the generated fast path does not take.

Takes an op and all its arguments in order; checks them, lets overrides and modes have the call, runs the
type rule (which raises the user's error), runs the kernel, wraps the results and records a node. One idea:
every rarer circumstance (subclasses, modes, mixed dtypes, meta tensors, tensor lists) is handled here and
nowhere else.
"""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NoReturn

import numpy as np

import weft.tensor.overrides as overrides
from weft.core import modes
from weft.core.arrays import as_array, namespace
from weft.core.device import cpu, meta
from weft.core.devices import DEVICES, device_at
from weft.core.dtypes import BY_NUMPY, FLOAT, dtype, get_default_dtype, scalar_dtype
from weft.core.errors import argument_name
from weft.core.interrupts import let_through
from weft.core.seams import seams
from weft.core.symbolic import Symbolic
from weft.core.types import TensorType, contiguous_format, preserve_format
from weft.core.warn import warn
from weft.ops.record import Kind, Op, ops, quiet, run_quietly
from weft.ops.signature import OPERAND, OPTIONAL, OPTIONAL_OPERAND
from weft.tensor.backward import compile_backward
from weft.tensor.base import PLAIN, Tensor, wrap
from weft.tensor.meta import (
    FAKE,
    MetaArray,
    contiguous_strides,
    faking,
    is_fake_array,
    meta_array,
    meta_view,
    refuse_read,
)
from weft.tensor.plan import OUT, Plan, plan_of
from weft.tensor.saved import pack_saved
from weft.tensor.settled import UNSURE, settle
from weft.tensor.storage import rearrange
from weft.tensor.tape import INFERENCE, complex_class, next_sequence
from weft.tensor.views import check_overlap, make_view, refresh, refuse_overlap
from weft.tensor.wrapper import Wrapper, highest, mapping, refuse_out

if TYPE_CHECKING:
    from weft.core.arrays import Array
    from weft.core.modes import Modes, State
    from weft.tensor.tape import Node


ndarray = np.ndarray


def dispatch(op: Op, bound: tuple[Any, ...], casts: bool = True) -> Any:
    """The result of a call, by the generic route; `casts` says whether an autocast may have it."""
    mode = modes.current()
    if (
        op.trusted
        and type(mode) is bool
        and op.promotion is None
        and not op.composed
        and op.kind is not Kind.CREATE  # their kernels know no devices
    ):
        result = trusted_call(op, bound, mode)
        if result is not UNSURE:
            return result
    bound = plain_numbers(op, bound)
    tensors = gather(op, bound)
    if not tensors and op.of_numbers:
        tensors = [wrap(np.asarray(bound[0], scalar_dtype(bound[0]).numpy))]
        bound = (tensors[0], *bound[1:])
    if op.composed and not tensors:  # what a body takes as `Any`, such as the operands of einsum
        rows = [value for value in bound if type(value) is tuple or type(value) is list]
        tensors = [each for row in rows for each in row if overrides.has_override(each)]
    key = None
    if type(mode) is not bool and op.kind in ALIKE and len(mode.extra) == 1 and not is_watched(mode):
        key = hollow_key(op, bound) if mode.extra[0][0] == FAKE else None
        known = None if key is None else HOLLOW.get(key)  # at once: other threads clear the table
        if known is not None:
            grad = mode.grad and not mode.inference
            if grad:
                refresh_all(tensors)
            return finish_call(op, bound, tensors, MetaArray(*known), mode, grad)
    if type(mode) is not bool or any(type(t) not in PLAIN for t in tensors):
        handled, result = overrides.intercept(op, bound, tensors, mode)
        if handled:
            if type(mode) is not bool and mode.witness is not None:
                mode.witness(op, tensors, result)
            return result
        if casts and op.amp is not None and type(mode) is not bool and mode.extra:
            autocast = dict(mode.extra).get("autocast")
            if autocast is not None:
                return autocast.call(op, bound)
        top = highest(bound)
        if top is not None and not (op.kind is Kind.RANDOM and op.composed and mapping()):
            return type(top).call(op, bound, top.level)
        if overrides.is_offered(mode, tensors):
            result = seams.below.call(op, bound, tensors, mode)
            if result is not NotImplemented:
                return result
    if op.composed:
        if op.kind is Kind.RANDOM and (maps := mapping()):
            return maps[-1].draw(op, bound)
        return named(op, op.body(*bound))  # type: ignore[misc]
    grad = mode if type(mode) is bool else mode.grad and not mode.inference
    if grad:
        refresh_all(tensors)
    original, bound = bound, unwrap_indices(op, bound)
    types = op.on_types(tuple([typed(each) for each in bound]))
    if _asks_meta(types) or _is_hollow(op, bound, tensors, mode):
        arrays = _meta_results(op, bound, tensors, types)
        if key is not None and bound is original and type(arrays) is MetaArray:
            if len(HOLLOW) >= MOST_HOLLOW:
                HOLLOW.clear()
            HOLLOW[key] = arrays.shape, arrays.dtype, arrays.strides, arrays.device, arrays.exact
    else:
        raw = tuple([untensored(each) for each in bound])
        arrays = op.on_arrays(raw) if op.kind is not Kind.CREATE else create_at(op, raw, types)
        if op.trusted and op.promotion is None and tensors and not involves_complex(tensors, []):
            op.known.add(dtypes_key(tensors))
        if type(mode) is bool and op.paths is not None:
            settle(op, original, types, arrays)
    results = finish_call(op, bound, tensors, arrays, mode, grad)
    if bound is not original and isinstance(results, Tensor) and results.node is not None:
        watch_indices(op, original, results.node)
    return results


def is_watched(mode: Modes) -> bool:
    """Whether a mode of the user's is told of calls."""
    return bool(mode.functions or mode.dispatch)


ALIKE = frozenset({Kind.POINTWISE, Kind.CONTRACT})
"""Kinds of ops whose results' types follow from those of the arguments, without a word to the user."""
SIMPLE = frozenset({int, float, bool, str, type(None)})
HOLLOW: dict[tuple[Any, ...], tuple[Any, ...]] = {}
"""The arrays without elements that calls gave while programs were recorded, by what they follow from."""
MOST_HOLLOW = 2048


def hollow_key(op: Op, bound: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """What the result of a call on arrays without elements follows from; None for other arguments."""
    if op.namespace.startswith("ops."):  # the user's, whose functions are called as often as it is
        return None
    key: list[Any] = [op, get_default_dtype()]
    hollow = False
    for value in bound:
        kind = type(value)
        if kind in PLAIN:
            array = value.array
            if type(array) is not MetaArray or array.device is not cpu:
                return None
            if any(type(size) is not int for size in (*array.shape, *array.strides)):
                return None  # to look a size up that is not known is to decide on it
            hollow = True
            key.append((array.shape, array.dtype, array.strides, array.exact))
        elif kind in SIMPLE:
            key += (kind, value)
        else:
            return None
    return tuple(key) if hollow else None


NUMBERS: Final = frozenset({bool, int, float, complex, type(None)})
"""Classes of Python's own numbers, and of what stands for none."""


def trusted_call(op: Op, bound: tuple[Any, ...], grad: bool) -> Any:
    """The kernel first, as generated faces do it, for what they leave out: lists of tensors, several results.
    UNSURE where the arguments are not plain, their dtypes are new to the op, or the kernel refuses them.
    """
    signature = op.signature
    tensors: list[Tensor] = []
    raw = list(bound)
    for slot in signature.input_slots:
        value = bound[slot]
        if slot in signature.list_slots:
            if not (type(value) is tuple or type(value) is list):
                return UNSURE
            raw[slot] = [getattr(item, "array", None) for item in value]
            tensors += value
        elif value is not None:
            raw[slot] = getattr(value, "array", None)
            tensors.append(value)
    if not all(type(t) in PLAIN and type(t.array) in DEVICES for t in tensors):
        return UNSURE
    if not tensors or dtypes_key(tensors) not in op.known or "Index" in signature.words:
        return UNSURE
    if any(type(bound[slot]) not in NUMBERS for slot in signature.float_slots):
        return UNSURE
    try:
        arrays = run_quietly(op.kernel, *raw)  # type: ignore[arg-type]
    except Exception as error:  # the generic route says why
        let_through(error)
        return UNSURE
    kind = type(arrays)
    if kind is not ndarray and kind is not tuple and kind is not list:
        arrays = as_array(arrays)
    if grad:
        refresh_all(tensors)
    return finish_call(op, bound, tensors, arrays, grad, grad)


def create_at(op: Op, raw: tuple[Any, ...], types: Any) -> Any:
    """What a creation op makes on the device that its type rule says; kernels that know no devices make it on
    the CPU first.
    """
    if types.device is cpu:
        return op.on_arrays(raw)
    named_device = [types.device if name == "device" else v for name, v in zip(op.signature.names, raw)]
    arrays = op.on_arrays(tuple(named_device))
    return device_at(types.device).asarray(arrays) if type(arrays) is ndarray else arrays


def refresh_all(tensors: list[Tensor]) -> None:
    """Brings the histories of views up to date."""
    for tensor in tensors:
        if tensor.origin is not None:
            refresh(tensor)


def dtypes_key(tensors: list[Tensor]) -> Any:
    """How an op that does not promote remembers its operands' dtypes: one, or the tuple where they differ."""
    kinds = [tensor.array.dtype for tensor in tensors]
    return kinds[0] if all(kind is kinds[0] for kind in kinds) else tuple(kinds)


def finish_call(
    op: Op, bound: tuple[Any, ...], tensors: list[Tensor], arrays: object, mode: State, grad: bool
) -> Any:
    """Wraps the arrays and records the call where a gradient can flow."""
    tracked = grad and any(t.tracked for t in tensors)
    if op.kind is Kind.VIEW:
        results = make_view(op, bound, arrays, mode)
    elif type(arrays) is tuple or type(arrays) is list:
        results = type(arrays)(wrap(a) for a in arrays)
    else:
        results = wrap(arrays)
    if type(mode) is not bool:
        if mode.inference and op.kind is not Kind.VIEW:
            for result in results if isinstance(results, (tuple, list)) else (results,):
                result.cell = INFERENCE
        if mode.witness is not None:
            mode.witness(op, tensors, results)
    if tracked:
        record(op, bound, tensors, results, mode)
    if op.signature.gradient_slot is not None and bound[op.signature.gradient_slot]:
        require_gradient(results)
    return named(op, results)


def require_gradient(tensor: Tensor) -> Tensor:
    """A new tensor, made a leaf that requires gradients."""
    if BY_NUMPY[tensor.array.dtype].category < FLOAT:
        raise RuntimeError("Only Tensors of floating point and complex dtype can require gradients")
    tensor.tracked = True
    return tensor


def plain_numbers(op: Op, bound: tuple[Any, ...]) -> tuple[Any, ...]:
    """Zero-dim tensors that stand for numbers or sizes become numbers, and numbers those of Python's."""
    changed: list[Any] | None = None
    for slot in op.signature.number_slots:
        value = bound[slot]
        if isinstance(value, Tensor):
            if isinstance(value, Wrapper):
                plain: Any = value.item()
            elif value.array.ndim or type(value.array) is MetaArray:
                continue
            else:
                plain = value.array.item()
        elif type(value) in (tuple, list) and any(isinstance(item, Tensor) for item in value):
            plain = tuple(
                item.item() if isinstance(item, Tensor) and item.array.size == 1 else item for item in value
            )
        elif slot in op.signature.float_slots and type(value) not in NUMBERS:
            plain = plain_number(value)
        else:
            continue
        if changed is None:
            changed = list(bound)
        changed[slot] = plain
    return bound if changed is None else tuple(changed)


def plain_number(value: object) -> Any:
    """NumPy's numbers and those of subclasses as numbers of Python's, anything else as it is."""
    if isinstance(value, Symbolic):
        return value
    if isinstance(value, np.generic):
        return value.item()
    kinds: tuple[Any, ...] = (int, float, complex)
    return next((kind(value) for kind in kinds if isinstance(value, kind)), value)


def named(op: Op, results: object) -> Any:
    """Tuple results under PyTorch's field names, where it has them."""
    return op.returns(*results) if op.returns is not None and type(results) is tuple else results


def gather(op: Op, bound: tuple[Any, ...]) -> list[Tensor]:
    """The tensors among the arguments, in order; raises TypeError for what cannot be an argument there."""
    signature = op.signature
    found: list[Tensor] = []
    for position in signature.input_slots:
        value = bound[position]
        if position in signature.list_slots:
            found += _gather_list(op, position, value)
        elif isinstance(value, Tensor) or _check_single(
            op, position, signature.parameters[position].annotation, value
        ):
            found.append(value)
    return found


def _gather_list(op: Op, position: int, values: object) -> list[Tensor]:
    if not isinstance(values, (tuple, list)):
        name = op.signature.names[position]
        raise TypeError(
            f"{op.name}(): argument '{name}' (position {position + 1}) must be tuple of Tensors, "
            f"not {type(values).__name__}"
        )
    for i, item in enumerate(values):
        if not isinstance(item, Tensor) and not overrides.has_override(item):
            raise TypeError(
                f"expected Tensor as element {i} in argument {position}, but got {type(item).__name__}"
            )
    return list(values)


def _check_single(op: Op, position: int, annotation: str, value: object) -> bool:
    """Refuses what cannot stand for a tensor here; True for an object whose class may take the call over."""
    if annotation in (OPTIONAL, OPTIONAL_OPERAND) and value is None:
        return False
    if annotation in (OPERAND, OPTIONAL_OPERAND) and isinstance(value, (numbers.Number, np.generic)):
        return False
    if overrides.has_override(value):
        return True
    name = op.signature.parameters[position].name
    label = argument_name(type(value))
    raise TypeError(f"{op.name}(): argument '{name}' (position {position + 1}) must be Tensor, not {label}")


def typed(value: object) -> Any:
    """Tensors become their types, in the way type rules want their arguments."""
    if isinstance(value, Tensor):
        array = value.array
        if type(array) is ndarray:
            where = cpu
        else:
            where = array.device if type(array) is MetaArray and type(value) in PLAIN else value.device
        return TensorType(array.shape, BY_NUMPY[array.dtype], where)
    if type(value) is list or type(value) is tuple:
        return type(value)([typed(item) for item in value])
    return value


def untensored(value: object) -> Any:
    """Tensors become their arrays."""
    if isinstance(value, Tensor):
        return value.array
    if type(value) is list or type(value) is tuple:
        return type(value)([untensored(item) for item in value])
    return value.item() if isinstance(value, np.generic) else value


def unwrap_indices(op: Op, bound: tuple[Any, ...]) -> tuple[Any, ...]:
    """Parameters annotated `Index` carry tensors that no gradient reaches: they travel as arrays."""
    parameters = op.signature.parameters
    if "Index" not in op.signature.words:
        return bound
    return tuple(
        untensored(v) if p.annotation == "Index" else v for p, v in zip(parameters, bound, strict=True)
    )


def _asks_meta(types: object) -> bool:
    if isinstance(types, (tuple, list)):
        return any(_asks_meta(t) for t in types)
    return isinstance(types, TensorType) and types.device.type == "meta"


def _is_hollow(op: Op, bound: tuple[Any, ...], tensors: list[Tensor], mode: State) -> bool:
    """Whether a call gives types only: some argument has no elements, or a recorder is active and the op
    makes a tensor. (A creation op makes real tensors like those of the meta device, where told to.)
    """
    if op.kind is Kind.CREATE:
        return faking(mode) or any(is_fake_array(t.array) for t in tensors)
    if any(type(t.array) is MetaArray for t in tensors):
        return True
    return "Index" in op.signature.words and any(
        type(item) is MetaArray
        for p, v in zip(op.signature.parameters, bound, strict=True)
        if p.annotation == "Index"
        for item in (v if isinstance(v, (list, tuple)) else (v,))
    )


def _meta_results(op: Op, bound: tuple[Any, ...], tensors: list[Tensor], types: Any) -> Any:
    if types is None:
        refuse_read(op.name)
        raise NotImplementedError(f"{op.name}: the result's shape depends on values, and there are none")
    first = tensors[0].array if tensors else None
    if op.kind is Kind.VIEW and type(first) is MetaArray:
        rest = tuple([untensored(each) for each in bound[1:]])
        return meta_view(op.kernel, first, rest, types)  # type: ignore[arg-type]
    if "stride" in op.signature.names and op.kind is Kind.CREATE:
        return _strided_result(types, bound[op.signature.names.index("stride")])
    exact = _gives_row_major(op, bound, tensors)
    hollow = [t.array.device for t in tensors if type(t.array) is MetaArray]
    where = meta if _asks_meta(types) or meta in hollow else hollow[0] if hollow else cpu
    return _meta_result(types, where, exact)


def _gives_row_major(op: Op, bound: tuple[Any, ...], tensors: list[Tensor]) -> bool:
    """Whether the result of a call is known to lie row by row."""
    if not op.row_major:
        return False
    names = op.signature.names
    if "memory_format" in names:
        form = bound[names.index("memory_format")]
        if form is contiguous_format:
            return True
        if form is not None and form is not preserve_format:
            return False
    return all(_is_row_major(t.array) for t in tensors)


def _strided_result(type_: TensorType, stride: Any) -> MetaArray:
    kind = type_.dtype.numpy
    return MetaArray(type_.shape, kind, [step * kind.itemsize for step in stride], type_.device, True)


def _is_row_major(array: Array) -> bool:
    return (array.exact and array.is_contiguous) if type(array) is MetaArray else array.flags.c_contiguous


def _meta_result(types: Any, where: Any, exact: bool) -> Any:
    if isinstance(types, (tuple, list)):
        return type(types)(_meta_result(t, where, exact) for t in types)
    return meta_array(types, where, exact)


def record(op: Op, bound: tuple[Any, ...], tensors: list[Tensor], results: Any, mode: State) -> None:
    """Puts a node behind the results. The layout is that of Note [Node layout] in `weft.tensor.tape`."""
    single = not isinstance(results, (tuple, list))
    outputs: list[Tensor] = [results] if single else list(results)
    floating = [BY_NUMPY[o.array.dtype].category >= 2 for o in outputs]
    if not any(floating) or (op.vjp is None and op.kind is Kind.CREATE):
        return
    node = build_node(op, bound, None if not single else outputs[0].array, outputs, mode)
    for index, (output, live) in enumerate(zip(outputs, floating, strict=True)):
        if live:
            output.node, output.index, output.tracked = node, index, True


def involves_complex(inputs: list[Any], outputs: list[Tensor]) -> bool:
    kinds = [value.array.dtype.kind for value in (*inputs, *outputs) if isinstance(value, Tensor)]
    return "c" in kinds


def build_node(
    op: Op, bound: tuple[Any, ...], out: Any, outputs: list[Tensor], mode: State, keep_self: object = None
) -> Any:
    """A node for this call. `out` is the single output's array; `keep_self` replaces the first argument
    when saved.
    """
    plan = plan_of(op)
    if not hasattr(plan.node_class, "compiled"):
        compile_backward(op, plan)
    node = plan.node_class.__new__(plan.node_class)
    node._seq = next_sequence()
    node.hooks = None
    node.params = tuple(bound[i] for i in plan.plain_slots)
    inputs = flat_inputs(plan, bound)
    edges: list[Any] = []
    indices: list[int] = []
    types: list[Any] = []
    for value in inputs:
        if isinstance(value, Tensor):
            edges.append((value.node or value) if value.tracked else None)
            indices.append(value.index)
            types += (value.array.shape, value.array.dtype)
        else:
            edges.append(None)
            indices.append(0)
            types += (None, None)
    node.next = tuple(edges)
    node.slots = tuple(indices) if any(indices) else None
    if out is not None:
        types += (out.shape, out.dtype)
    else:
        node.outputs = tuple(map(typed, outputs))
        types += (node.outputs, None)
    node.types = tuple(types)
    _save(node, plan, bound, out, outputs, keep_self)
    if type(mode) is not bool:
        pack_saved(node, plan, bound, outputs, mode)
    if involves_complex(inputs, outputs):
        node.__class__ = complex_class(plan.node_class)
    return node


def flat_inputs(plan: Plan, bound: tuple[Any, ...]) -> list[Any]:
    """Tensor arguments in order, lists laid out."""
    if plan.fixed:
        return [bound[i] for i in plan.tensor_slots]
    flat: list[Any] = []
    for slot in plan.op.signature.input_slots:
        flat += bound[slot] if slot in plan.list_slots else [bound[slot]]
    return flat


def _save(
    node: Node, plan: Plan, bound: tuple[Any, ...], out: object, outputs: list[Tensor], keep_self: object
) -> None:
    if not plan.saved:
        node.saved, node.versions = (), None
        return
    wanted = plan.saved_for(tuple([_needs(bound[slot]) for slot in plan.op.signature.input_slots]))
    saved: list[Any] = []
    versions: list[Any] = []
    for source in plan.saved:
        if source not in wanted:
            saved.append(None)
            continue
        if source == OUT:
            saved.append(out if out is not None else tuple(o.array for o in outputs))
            for index, output in enumerate(outputs):
                if plan.op.outputs_read is None or index in plan.op.outputs_read:
                    versions += version_pair(output)
            continue
        value = bound[source]
        if source == 0 and keep_self is not None:
            saved.append(keep_self)
            versions += [[0], 0]  # a copy: nobody else can write to it
            continue
        saved.append(untensored(value))
        for tensor in value if isinstance(value, (tuple, list)) else (value,):
            if isinstance(tensor, Tensor):
                versions += version_pair(tensor)
    node.saved = tuple(saved)
    node.versions = tuple(versions) if versions else None


def _needs(value: Any) -> bool:
    """Whether a gradient flows to a tensor, or to one of a list."""
    if type(value) is list or type(value) is tuple:
        return any(map(_needs, value))
    return isinstance(value, Tensor) and value.tracked


def watch_indices(op: Op, bound: tuple[Any, ...], node: Node) -> None:
    """Index tensors travel as arrays, but writing to one before backward is as wrong as for any saved
    tensor.
    """
    watched: list[Any] = []
    words: dict[int, str] = {}
    stack = [v for p, v in zip(op.signature.parameters, bound, strict=True) if p.annotation == "Index"]
    while stack:
        value = stack.pop()
        if isinstance(value, Tensor):
            watched += version_pair(value)
            words[id(value.cell)] = f"weft.{value.dtype.scalar_name}Tensor {list(value.array.shape)}"
        elif isinstance(value, (tuple, list)):
            stack += value
    if watched:
        node.versions = (*(node.versions or ()), *watched)
        node.__dict__["_index_types"] = words


def version_pair(tensor: Tensor) -> list[Any]:
    cell = tensor.cell
    if cell is None:
        cell = tensor.cell = [0]
    return [cell, cell[0]]


def dispatch_out(op: Op, bound: tuple[Any, ...], out: Any) -> Any:
    """The `out=` form: computes, checks what may be stored where, resizes and copies."""
    targets = out if isinstance(out, (tuple, list)) else (out,)
    for target in targets:
        if not isinstance(target, Tensor):
            raise TypeError(f"{op.name}(): argument 'out' must be Tensor, not {type(target).__name__}")
    tensors = gather(op, bound)
    mode = modes.current()
    if type(mode) is not bool or any(type(t) not in PLAIN for t in (*tensors, *targets)):
        handled, result = overrides.intercept_function(op.face, op, bound, tensors, mode, out)
        if handled:
            return result
        top = highest((*bound, *targets))
        if top is not None:
            top.refuse_out(op)
    if modes.grad_enabled() and any(_refreshed(t).tracked for t in (*tensors, *targets)):
        refuse_out(op)
    if op.signature.gradient_slot is not None:
        bound = _adopt_options(op, bound, targets[0])
    if op.kind is Kind.POINTWISE:
        for target in targets:
            if type(target.array) is not MetaArray:
                check_overlap(target.array, tuple(t.array for t in tensors))
    if overrides.is_offered(mode, (*tensors, *targets)):
        return seams.below.into(op, bound, tensors, out)
    results = dispatch(op, bound, casts=False)
    values = results if isinstance(results, (tuple, list)) else (results,)
    for target, value in zip(targets, values, strict=True):
        if op.out == "exact" and target.dtype is not value.dtype:
            if op.kind is Kind.POINTWISE:
                raise RuntimeError(
                    f"Found dtype {target.dtype.scalar_name} but expected {value.dtype.scalar_name}"
                )
            raise RuntimeError(
                f"Expected out tensor to have dtype {value.dtype.cpp_name}, but got "
                f"{target.dtype.cpp_name} instead"
            )
        if op.kind is Kind.POINTWISE and any(t is target for t in tensors) and target.shape != value.shape:
            refuse_shape(target.shape, value.shape)
        if callable(op.out):  # raises where this op wants more than a castable dtype
            op.out(op, target, value, tensors)
        store(target, value.array, silent=_resizes_silently(op), constant=op.uniform)
    return out if isinstance(out, Tensor) else named(op, tuple(out))


def _refreshed(tensor: Tensor) -> Tensor:
    """The tensor, which knows of writes to what it is a view of."""
    if tensor.origin is not None and type(tensor.cell) is list:
        refresh(tensor)
    return tensor


def check_cast(source: dtype, target: Tensor) -> None:
    """Raises where a result of this dtype may not be stored in a tensor."""
    wanted = BY_NUMPY[target.array.dtype]
    if source.category > wanted.category:
        raise RuntimeError(
            f"result type {source.scalar_name} can't be cast to the desired output type {wanted.scalar_name}"
        )


def refuse_shape(shape: Sequence[int], wanted: Sequence[int]) -> NoReturn:
    """Raises: what is written has another shape than the tensor that it is written to."""
    raise RuntimeError(f"output with shape {list(shape)} doesn't match the broadcast shape {list(wanted)}")


def _resizes_silently(op: Op) -> bool:
    """Creation from sizes alone gives `out=` its shape without a word."""
    return op.signature.gradient_slot is not None and not op.signature.tensor_slots and op is not ops.arange


def _adopt_options(op: Op, bound: tuple[Any, ...], target: Tensor) -> tuple[Any, ...]:
    """A creation op with `out=` makes what that tensor is."""
    options: dict[str, Any] = {"dtype": target.dtype, "device": target.device}
    given = dict(zip(op.signature.names, bound, strict=True))
    wanted = given.get("dtype")
    if wanted is not None and wanted is not target.dtype:
        label = getattr(wanted, "scalar_name", wanted)
        raise RuntimeError(
            f"dtype {label} does not match dtype of out parameter ({target.dtype.scalar_name})"
        )
    return tuple(options.get(name, value) for name, value in given.items())


def store(target: Tensor, array: Array, silent: bool = False, constant: bool = False) -> None:
    """Copies a result into an `out=` tensor, resizing it if its shape is another's (`silent`: as creation
    ops do). Elements of one value (`constant`) may share memory.
    """
    check_cast(BY_NUMPY[array.dtype], target)
    if not constant:
        refuse_overlap(target.array)
    if target.array.shape != array.shape:
        resize_out(target, array.shape, silent)
    if type(target.array) is not MetaArray:
        quiet(namespace(target.array).copyto, target.array, array, casting="unsafe")
    target.bump()


def resize_out(target: Tensor, shape: tuple[int, ...], silent: bool = False) -> None:
    """Gives an `out=` tensor the result's shape; only an empty one may be resized without a word."""
    if target.array.size and not silent:
        warn(
            "An output with one or more elements was resized since it had shape "
            f"{list(target.array.shape)}, which does not "
            f"match the required output shape {list(shape)}. This behavior is deprecated, and in a "
            "future release outputs will "
            "not be resized unless they have zero elements."
        )
    if type(target.array) is MetaArray:
        target.array = meta_array(TensorType(shape, target.dtype), target.array.device)
    else:
        rearrange(target, shape, contiguous_strides(shape))
