"""Layouts: the strides that eager's results have.

Takes a graph and the arrays of a call; gives, for any node, the strides of the array that eager would give.
One idea: NumPy chooses layouts by the order in which operands lie, not by how large they are, so a kernel
that runs on a few zeros which lie in the same order tells the order of its result.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from contextlib import suppress
from math import prod
from typing import Any, Final

import numpy as np
from numpy.lib.stride_tricks import as_strided

from weft.core.dtypes import HALVES, as_dtype, dtype
from weft.core.interrupts import let_through
from weft.core.types import TensorType
from weft.core.warn import hidden
from weft.graph.effects import LIES
from weft.graph.node import Node
from weft.native.lower.calls import bound_arguments, is_op, op_of
from weft.ops.record import Kind, Op

SMALL = 3
"""How long the axes of stand-ins are at most."""
FEW = 1 << 12
"""So many elements may lie exactly as operands do; of more, short axes stand for the others."""
Strides = tuple[int, ...]


def row_major(shape: Sequence[int]) -> Strides:
    """Strides, in elements; those of empty arrays as if every axis had an element."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def order_of(shape: Sequence[int], strides: Strides) -> list[int]:
    """The axes, from the outermost to the innermost as they lie in memory."""
    return sorted(range(len(shape)), key=lambda axis: (-abs(strides[axis]), -shape[axis]))


def dense(shape: Sequence[int], order: Sequence[int]) -> Strides:
    """The strides of an array without gaps whose axes lie in this order."""
    inner = row_major([shape[axis] for axis in order])
    found = [0] * len(shape)
    for axis, stride in zip(order, inner):
        found[axis] = stride
    return tuple(found)


STRIDED: Final = frozenset({"stride", "physical_layout"})
"""Parameters that say how a new tensor lies."""


class Layouts:
    """What is known of the nodes of a graph. Strides count elements."""

    def __init__(self, arrays: dict[Node, Any]) -> None:
        self.known: dict[Node, Any] = {}
        self.alike: dict[Any, Any] = {}
        """What was found for calls of an op on tensors that lie alike."""
        for node, array in arrays.items():
            if isinstance(array, np.ndarray):
                self.known[node] = tuple([step // array.itemsize for step in array.strides])

    def of(self, node: Node) -> Any:
        """The strides of a node's tensor, or a tuple of them; None for what is no tensor."""
        waiting = [node]
        while waiting:
            last = waiting[-1]
            needed = [each for each in last.all_input_nodes if each not in self.known]
            if needed and last not in self.known:
                waiting += needed
                continue
            waiting.pop()
            if last not in self.known:
                self.known[last] = self.found(last)
        return self.known[node]

    def found(self, node: Node) -> Any:
        value = node.meta.get("val")
        if node.target is operator.getitem:
            return self.known[node.args[0]][node.args[1]]
        shapes = shapes_of(value)
        lies = node.meta.get(LIES)
        if lies is True and isinstance(shapes, tuple) and shapes == shapes_of(node.args[0].meta.get("val")):
            return self.known[node.args[0]]
        if isinstance(lies, tuple) and all(type(step) is int for step in lies):
            return lies
        if isinstance(shapes, list) and hasattr(node.target, "positions"):  # copies of arguments
            return tuple([self.copied(node.args[each]) for each in node.target.positions])
        if shapes is None or not is_op(node):
            return None if not isinstance(shapes, tuple) else row_major(shapes)
        several = tuple(shapes) if isinstance(shapes, list) else shapes
        key = (op_of(node), several, self.likeness(node.args), self.likeness(node.kwargs))
        try:
            strides = self.alike[key]
        except (KeyError, TypeError) as error:  # of what cannot be hashed
            let_through(error)
            strides = self.told(node, shapes)
            strides = default(shapes) if strides is None else strides
            with suppress(TypeError):
                self.alike[key] = strides
        return strides

    def likeness(self, value: Any) -> Any:
        """What the layout of a result can depend on in an argument."""
        kind = type(value)
        if kind is Node:
            array = getattr(value.meta.get("val"), "array", None)
            return id(value) if array is None else (tuple(array.shape), array.dtype, self.known[value])
        if kind is tuple or kind is list:
            return kind, *map(self.likeness, value)
        if kind is dict:
            return kind, *value, *map(self.likeness, value.values())
        return kind, value

    def copied(self, node: Node) -> Strides:
        """The strides of a copy."""
        shape = node.meta["val"].array.shape
        return dense(shape, order_of(shape, self.known[node]))

    # -- ops -------------------------------------------------------------------------------------------------
    def told(self, node: Node, shapes: Any) -> Any:
        """What a kernel says; None where it says nothing."""
        op = op_of(node)
        bound = bound_arguments(op, node.args, node.kwargs)
        if op.kind is Kind.RANDOM or (op.kind is Kind.CREATE and not node.all_input_nodes):
            strided = STRIDED & {*op.signature.names}
            return self.result(op, bound, shapes, None) if strided else None
        try:
            if op.kind is Kind.VIEW or op.reshapes:
                return self.viewed(op, bound)
            if isinstance(op.kernel, np.ufunc) and op.promotion is not None:
                return self.pointwise(op, bound, shapes)
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
            let_through(error)
            return None
        few = sum(map(prod, (*all_shapes(bound), *listed(shapes)))) <= FEW
        found = self.result(op, bound, shapes, None, exact=True) if few else None
        for most in (SMALL, None):
            if found is None:
                found = self.result(op, bound, shapes, most)
        return found

    def hollow(self, node: Node) -> Any:
        """An array of a node's shape and strides whose elements must not be read."""
        array = node.meta["val"].array
        item = array.dtype.itemsize
        steps = [stride * item for stride in self.known[node]]
        return as_strided(np.zeros(1, array.dtype), array.shape, steps)

    def viewed(self, op: Op, bound: tuple[Any, ...]) -> Any:
        base = self.hollow(bound[0])
        if op.reshapes and isinstance(bound[1], (tuple, list)):
            kind = bound[1][0] if len(bound[1]) == 1 else None
            if isinstance(kind, dtype):
                made = base.view(kind.numpy)
            else:
                made = base.reshape(tuple(bound[1]), copy=False)
        else:
            assert op.kernel is not None
            made = op.kernel(base, *bound[1:])
        if isinstance(made, (tuple, list)):
            return tuple([strides_of(each) for each in made])
        return strides_of(made)

    def allows_view(self, node: Node, shape: Sequence[int]) -> bool:
        """Whether eager's strides of a node's tensor allow a view of these sizes; else eager raises."""
        self.of(node)
        try:
            self.hollow(node).reshape(tuple(shape), copy=False)
        except ValueError as error:
            let_through(error)
            return False
        return True

    def pointwise(self, op: Op, bound: tuple[Any, ...], shape: Any) -> Any:
        """As ufuncs allocate their results: in the order of operands, which are cast before."""
        slots = [slot for slot in op.signature.tensor_slots if bound[slot] is not None]
        given = [bound[slot] for slot in slots]
        nodes = [value for value in given if isinstance(value, Node) and self.known[value] is not None]
        if all(self.known[node] == row_major(shape) for node in nodes):
            return None
        assert op.promotion is not None
        compute, _ = op.promotion.dtypes([as_type(bound[slot]) for slot in slots])
        kinds = [getattr(as_type(value), "dtype", None) for value in given]  # None of numbers
        alike = all(kind is compute for kind in kinds)
        cast = compute in HALVES and not (alike and op.promotion.is_exact(op, compute))
        carrier = (compute.computes_in if cast else compute).numpy
        operands = []
        for value in given:
            hollow = self.hollow(value) if value in nodes else np.zeros((), carrier)
            operands.append(hollow if hollow.dtype == carrier else np.empty_like(hollow, carrier))
        wide = [each for each in operands if each.ndim]
        if all(each.shape == tuple(shape) and each.flags.f_contiguous for each in wide):
            if not all(each.flags.c_contiguous for each in wide):
                return dense(shape, range(len(shape) - 1, -1, -1))  # no iterator: axes of one element count
        flags = [*[["readonly"]] * len(operands), ["writeonly", "allocate"]]
        kinds = [*[each.dtype for each in operands], operands[0].dtype]
        iterator: Any = np.nditer
        made = iterator([*operands, None], ["refs_ok", "zerosize_ok"], flags, kinds)
        return strides_of(made.operands[-1])

    # -- stand-ins -------------------------------------------------------------------------------------------
    def result(
        self, op: Op, bound: tuple[Any, ...], shapes: Any, most: int | None, exact: bool = False
    ) -> Any:
        """What the kernel gives for zeros that lie as the operands do, in axes of at most this length."""
        if most is None and not exact:
            nodes = [node for node in nodes_in(bound) if isinstance(shapes_of(node.meta.get("val")), tuple)]
            ordered = all(self.known[node] == row_major(shapes_of(node.meta["val"])) for node in nodes)
            if sum(prod(each) for each in all_shapes(bound)) > (1 << 14 if ordered else 1 << 22):
                return None  # what is made of row-major tensors hardly ever lies otherwise
        made = None
        for number in (0, 1):
            try:
                with hidden(), np.errstate(all="ignore"):
                    made = op.on_arrays(self.stand_in(bound, most, number, exact))
                break
            except Exception as error:  # zeros, or ones, or short axes, may be no arguments for this op
                let_through(error)
                continue
        if made is None:
            return None
        if isinstance(shapes, list):
            if len(made) != len(shapes):
                return None
            found = [self.enlarged(small, shape, exact) for small, shape in zip(made, shapes)]
            good = all(shape is None or strides is not None for shape, strides in zip(shapes, found))
            return tuple(found) if good else None
        return self.enlarged(made, shapes, exact)

    def stand_in(self, value: Any, most: int | None, number: int, exact: bool) -> Any:
        if isinstance(value, Node):
            array = getattr(value.meta.get("val"), "array", None)
            if array is None:
                return plain_number(value.meta.get("val"))
            shape = tuple([size if most is None else min(size, most) for size in array.shape])
            strides = self.known[value]
            if exact:
                return lying(array.shape, strides, array.dtype, number)
            order = order_of(array.shape, strides)
            lengths = [shape[axis] if strides[axis] else min(shape[axis], 1) for axis in order]
            made = some(lengths, array.dtype, number).transpose(np.argsort(order) if order else ())
            return made if made.shape == shape else np.broadcast_to(made, shape)
        if isinstance(value, (tuple, list)) and type(value) in (tuple, list):
            return type(value)([self.stand_in(item, most, number, exact) for item in value])
        return value

    def enlarged(self, small: Any, shape: Any, exact: bool) -> Any:
        """The strides of an array of this shape that lies as a small one does."""
        if shape is None or not isinstance(small, np.ndarray) or small.ndim != len(shape):
            return None
        strides = strides_of(small)
        if exact:
            return strides if small.shape == shape else None
        order = order_of(small.shape, strides)
        if dense(small.shape, order) != strides:
            return None
        return dense(shape, order)


def lying(shape: Sequence[int], strides: Strides, kind: Any, number: int) -> Any:
    """Some numbers in an array of this shape and these strides."""
    low = sum([min(0, (size - 1) * step) for size, step in zip(shape, strides) if size])
    high = sum([max(0, (size - 1) * step) for size, step in zip(shape, strides) if size])
    memory = some((high - low + 1,), kind, number)
    return as_strided(memory[-low:], shape, [step * memory.itemsize for step in strides])


def listed(shapes: Any) -> list[Any]:
    """The shapes of what an op gives."""
    return [each for each in (shapes if isinstance(shapes, list) else [shapes]) if isinstance(each, tuple)]


def some(shape: Sequence[int], kind: Any, number: int) -> Any:
    """Zeros, which are indices, too, or ones, which are divisors; numbers between 0.1 and 0.9 for floats:
    solvers like them better.
    """
    if kind.kind in "fc" and prod(shape) < 1 << 12:
        return (0.5 + 0.4 * np.cos(np.arange(prod(shape)) ** 2)).astype(kind).reshape(shape)
    return np.full(shape, number, kind)


def plain_number(value: Any) -> Any:
    """A stand-in for a scalar that is known only at run time; anything else unchanged."""
    hint = getattr(value, "hint", value)
    return hint if hint is not None else 1.0


def strides_of(array: Any) -> Strides:
    return tuple([step // array.itemsize for step in array.strides])


def as_type(value: Any) -> Any:
    if not isinstance(value, Node):
        return value
    given: Any = value.meta.get("val")
    array = getattr(given, "array", None)
    return given if array is None else TensorType(tuple(array.shape), as_dtype(given.dtype))


def shapes_of(value: Any) -> Any:
    """The shape of a tensor, a list of those of several, or None."""
    if isinstance(value, (tuple, list)):
        return [shapes_of(item) for item in value]
    array = getattr(value, "array", None)
    return None if array is None else tuple(array.shape)


def nodes_in(value: Any) -> list[Node]:
    if isinstance(value, (tuple, list)):
        return [node for item in value for node in nodes_in(item)]
    return [value] if isinstance(value, Node) else []


def all_shapes(value: Any) -> list[Any]:
    if isinstance(value, Node):
        found = shapes_of(value.meta.get("val"))
        return [found] if isinstance(found, tuple) else []
    if isinstance(value, (tuple, list)):
        return [shape for item in value for shape in all_shapes(item)]
    return []


def default(shapes: Any) -> Any:
    if isinstance(shapes, list):
        return tuple([None if shape is None else row_major(shape) for shape in shapes])
    return row_major(shapes)
