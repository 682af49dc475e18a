"""Control flow as functions: `cond`, `while_loop`, `scan`, `map`.

Takes functions of trees of tensors; runs them as the Python statements they stand for, on the tape, so that
gradients, transforms and modes need nothing of their own. One idea: what a compiler will rely on (branches
and carries agree, nothing aliases or writes to its inputs) is checked here too, so that code which runs
eagerly will also compile.

# Note [Which outputs require grad]
A result must not require grad on one branch and not on the other, nor may the gradient of an operand be zero
on one and missing on the other. So outputs of `cond` and `while_loop` get a node that passes gradients on to
what the taken branch recorded, and zeros to all operands.

# Note [Control flow under vmap]
Examples may disagree on a predicate: then both branches run, and `where` picks. A loop runs on while any
example does, and those that are done keep their values.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any

from weft.autograd.batched import BatchTensor
from weft.autograd.shapes import result_of, typed
from weft.core import modes
from weft.core.arrays import namespace
from weft.core.dims import wrap_dim
from weft.core.dtypes import FLOAT, as_dtype, bool_
from weft.core.naming import named
from weft.core.trees import flatten
from weft.core.types import TensorType
from weft.ops.record import ops
from weft.tensor.base import PLAIN, Tensor, storage_root, wrap
from weft.tensor.tape import INFERENCE, Node, gradient_edge, node_between
from weft.tensor.wrapper import Wrapper, levels

Branch = Callable[..., Any]


# -- cond ----------------------------------------------------------------------------------------------------
def cond(pred: Any, true_fn: Branch, false_fn: Branch, operands: Any = ()) -> Any:
    """`true_fn(*operands) if pred else false_fn(*operands)`, where both give tensors of the same dtypes and
    ranks.
    """
    if isinstance(pred, (bool, int, float)):
        return true_fn(*operands) if pred else false_fn(*operands)
    leaves = _checked_operands(pred, true_fn, false_fn, operands)
    if pred.ndim:
        pred = ops.reshape(pred, ())
    if is_mapped(pred):
        return _both(pred, true_fn, false_fn, operands)
    if pred.is_meta:
        first, second = true_fn(*operands), false_fn(*operands)
        compare_branches([typed(x) for x in flatten(first)[0]], [typed(x) for x in flatten(second)[0]])
        return first
    chosen = bool(pred)
    watch = Watch("weft.cond", leaves)
    result = (true_fn if chosen else false_fn)(*operands)
    values, build = flatten(result)
    _check_constants(values)
    values = watch.outputs(values, lenient=not modes.grad_enabled())
    _check_other(chosen, true_fn, false_fn, operands, leaves, values)
    return build(joined("CondAutogradOpBackward", values, leaves))


def _checked_operands(pred: object, true_fn: object, false_fn: object, operands: object) -> list[Any]:
    if not isinstance(pred, Tensor):
        raise RuntimeError(f"Expected pred to be bool or tensor, but got {pred}.")
    if pred.numel() != 1:
        raise RuntimeError(f"Expected pred to be bool or single-element tensor, but got {pred}.")
    if not callable(true_fn) or not callable(false_fn):
        raise RuntimeError("Expect both branches to be callable.")
    leaves = flatten(operands)[0] if isinstance(operands, (tuple, list)) else [None]
    if not all(isinstance(leaf, Tensor) for leaf in leaves):
        raise RuntimeError(
            "Expect operands to be a tuple of possibly nested dict/list/tuple that only consists of tensor "
            "leaves, "
            f"but got {operands}."
        )
    return leaves


def _check_constants(values: list[Any]) -> None:
    for value in values:
        if value is not None and not isinstance(value, (Tensor, int)):
            raise RuntimeError(
                named(
                    "weft.cond: a branch's output must consist of tensors or ints/bools only but got "
                    f"{type(value)}. Return a tensor, for example weft.tensor(value)."
                )
            )


def _both(pred: Tensor, true_fn: Branch, false_fn: Branch, operands: Any) -> Any:
    """See Note [Control flow under vmap]."""
    first, build = flatten(true_fn(*operands))
    second = flatten(false_fn(*operands))[0]
    compare_branches([typed(x) for x in first], [typed(x) for x in second])
    refusal = (
        "vmap: the branches of cond gave {} and {}, and examples disagree on which to take. Return tensors."
    )
    return build([_picked(pred, a, b, refusal) for a, b in zip(first, second)])


def _picked(pred: Tensor, a: object, b: object, refusal: str) -> Any:
    """What each example takes of two values; plain ones must be the same."""
    if isinstance(a, Tensor):
        return ops.where(pred, a, b)
    if a == b:
        return a
    raise RuntimeError(refusal.format(a, b))


_agreed: weakref.WeakKeyDictionary[Any, set[Any]] = weakref.WeakKeyDictionary()
"""Pairs of branches (by their code) that were found to agree, with the types for which they did."""


def _check_other(
    chosen: bool, true_fn: Branch, false_fn: Branch, operands: Any, leaves: list[Any], values: list[Any]
) -> None:
    """Compares the taken branch's results with those the other would have given; each pair once for given
    types.
    """
    if not _comparable(leaves):
        return
    given = [typed(value) for value in values]
    other, code = (false_fn, true_fn) if chosen else (true_fn, false_fn)
    first, second = _code(code), _code(other)
    key = (second, tuple([(leaf.shape, leaf.dtype) for leaf in leaves]))
    known = None if first is None or second is None else _agreed.setdefault(first, set())
    if known is not None and key in known:
        return
    expected = result_of(other, operands)
    if expected is None:
        return
    compare_branches(*((given, expected) if chosen else (expected, given)))
    if known is not None:
        known.add(key)


def _code(function: Any) -> Any:
    """What tells a function, or a module generated from a graph, from others."""
    generated = getattr(type(function), "_generated", False)
    return type(function).forward.__code__ if generated else getattr(function, "__code__", None)


def _comparable(leaves: list[Any]) -> bool:
    """Whether types alone tell what a branch gives: not where modes, classes or transforms have a say."""
    mode = modes.current()
    plain = type(mode) is bool or not (mode.functions or mode.extra)
    return plain and not levels.get() and all(type(leaf) in PLAIN for leaf in leaves)


def compare_branches(first: list[Any], second: list[Any]) -> None:
    """Raises where two branches' results (tensors given as types) cannot stand for each other."""
    if len(first) != len(second):
        raise RuntimeError(
            "Expected to return same number of outputs but got:"
            f"\n  true branch returns {len(first)} item(s)\n  false branch returns {len(second)} item(s)"
        )
    for a, b in zip(first, second):
        if not isinstance(a, TensorType) or not isinstance(b, TensorType):
            if type(a) is not type(b):
                raise RuntimeError(
                    named(
                        f"When merging two branches' output in weft.cond, expected same "
                        f"type but got {a!r} and "
                        f"{b!r}."
                    )
                )
            continue
        for word, left, right in (("dtype", a.dtype, b.dtype), ("dim", a.ndim, b.ndim)):
            if left != right:
                raise RuntimeError(
                    named(
                        f"When merging two branches' output in weft.cond,  expected same "
                        f"{word} but got {left} "
                        f"and {right}."
                    )
                )


# -- what branches and bodies may not do ---------------------------------------------------------------------
class Watch:
    """The inputs of one call of a user's function, to tell afterwards whether they were written to or
    returned.
    """

    __slots__ = ("name", "tensors", "versions")

    def __init__(self, name: str, leaves: list[Any]) -> None:
        self.name = name
        self.tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        self.versions = [_version(tensor) for tensor in self.tensors]

    def outputs(self, values: list[Any], lenient: bool = False) -> list[Any]:
        """The function's results, or the error for what it did. Lenient: writing is allowed, and results
        that alias
        inputs are copied."""
        if not lenient:
            for position, (tensor, version) in enumerate(zip(self.tensors, self.versions)):
                if _version(tensor) != version:
                    raise RuntimeError(
                        f"{self.name}: Encountered input mutation: input {position} was written to in place. "
                        "Higher "
                        "order ops do not support input mutation. Write to a clone of it, or use the "
                        "out-of-place form."
                    )
        taken = {_memory(tensor) for tensor in self.tensors}
        results = []
        for position, value in enumerate(values):
            if isinstance(value, Tensor):
                memory = _memory(value)
                if memory in taken:
                    if not lenient:
                        raise RuntimeError(
                            f"{self.name}: Encountered aliasing: output {position} shares memory with an "
                            "input or with "
                            "another output. Higher order ops do not support aliasing. Replace `return "
                            "input` with "
                            "`return input.clone()` to avoid aliasing."
                        )
                    value = ops.clone(value)
                taken.add(memory)
            results.append(value)
        return results


def _plain(tensor: object) -> Any:
    while isinstance(tensor, Wrapper):
        tensor = tensor.held
    return tensor


def _version(tensor: Tensor) -> Any:
    cell = _plain(tensor).cell
    return 0 if cell is None or cell is INFERENCE else cell[0]


def _memory(tensor: Tensor) -> int:
    return id(storage_root(_plain(tensor).array))


class ControlBackward(Node):
    """See Note [Which outputs require grad]. The first edge leads to what was recorded, the others to
    operands.
    """

    __slots__ = ()

    def raw_backward(self, grad: object) -> Any:
        return grad, *self.zeros(namespace(grad).zeros)

    def graph_backward(self, grad: object) -> Any:
        return grad, *self.zeros(lambda shape, kind: ops.zeros(shape, dtype=as_dtype(kind)))

    def zeros(self, make: Callable[..., Any]) -> list[Any]:
        return [
            None if target is None else make(*self.types[2 * i : 2 * i + 2])
            for i, target in enumerate(self.next[1:], 1)
        ]


CondAutogradOpBackward = type("CondAutogradOpBackward", (ControlBackward,), {"__slots__": ()})
WhileLoopAutogradOpBackward = type("WhileLoopAutogradOpBackward", (ControlBackward,), {"__slots__": ()})
NODES: dict[str, Any] = {
    kind.__name__: kind for kind in (CondAutogradOpBackward, WhileLoopAutogradOpBackward)
}


def joined(kind: str, values: list[Any], operands: list[Any]) -> list[Any]:
    """The results with a node of this kind between them and what was recorded, where an operand needs
    gradients.
    """
    if not modes.grad_enabled() or modes.modes().inference:
        return values
    every = [x for x in operands if isinstance(x, Tensor)]
    if any(isinstance(x, Wrapper) for x in (*every, *values)):
        return values
    tracked = [x for x in every if x.requires_grad and x.dtype.category >= FLOAT]
    if not tracked and not any(isinstance(x, Tensor) and x.tracked for x in values):
        return values
    return [_with_node(kind, value, tracked) for value in values]


def _with_node(kind: str, value: object, operands: list[Tensor]) -> Any:
    if not isinstance(value, Tensor) or value.dtype.category < FLOAT:
        return value
    edges = [gradient_edge(tensor) for tensor in (value, *operands)]
    made = wrap(value.array, True, type(value))
    made.node, made.cell = node_between(NODES[kind], edges, (value, *operands, value)), value.cell
    return made


# -- while_loop ----------------------------------------------------------------------------------------------
def while_loop(cond_fn: Branch, body_fn: Branch, carried_inputs: object) -> Any:
    """`while cond_fn(*carried): carried = body_fn(*carried)`. Gradients go back through every iteration."""
    if not callable(cond_fn) or not callable(body_fn):
        raise RuntimeError("Expect cond_fn and body_fn to be callable.")
    if not isinstance(carried_inputs, (tuple, list)):
        raise RuntimeError(f"carried_inputs must be a tuple or list but got {type(carried_inputs)}")
    first, build = flatten(carried_inputs)
    kinds = tuple(type(leaf) for leaf in first)
    if not all(isinstance(leaf, (Tensor, int)) for leaf in first):
        raise AssertionError(f"{first} can only be of {(Tensor, int)} but got {kinds}")
    values, rebuild = first, None
    going = _checked_condition(cond_fn(*build(values)))
    if isinstance(going, Tensor) and going.is_meta:
        return _step(body_fn, values, build)[1]
    while _goes_on(going):
        results, result = _step(body_fn, values, build)
        if is_mapped(going):
            results = [_picked(going, new, old, COUNTED) for new, old in zip(results, values)]
        values, rebuild = results, flatten(result)[1]
        going = _narrowed(going, _checked_condition(cond_fn(*build(values))))
    if rebuild is None:
        return build(joined(LOOP, [ops.clone(x) if isinstance(x, Tensor) else x for x in values], first))
    return rebuild(joined(LOOP, values, first))


LOOP = "WhileLoopAutogradOpBackward"


def _step(body_fn: Branch, values: list[Any], build: Callable[[list[Any]], Any]) -> tuple[list[Any], Any]:
    """One run of the body: its results as leaves, and as it gave them."""
    watch = Watch("weft.while_loop", values)
    result = body_fn(*build(values))
    results = watch.outputs(flatten(result)[0])
    same_metadata("body_fn_output", "carried_inputs", results, values)
    return results, result


def _checked_condition(going: object) -> Any:
    if isinstance(going, bool) or (isinstance(going, Tensor) and going.shape == () and going.dtype is bool_):
        return going
    raise RuntimeError(f"cond_fn must return a boolean scalar tensor or a boolean but got {going}")


def is_mapped(value: object) -> bool:
    """Whether examples of a vmap may disagree on this value."""
    while isinstance(value, Wrapper):
        if isinstance(value, BatchTensor):
            return True
        value = value.held
    return False


def _goes_on(going: object) -> bool:
    return bool(_plain(going).any()) if is_mapped(going) else bool(going)


def _narrowed(before: object, after: object) -> Any:
    """Examples that were done stay done."""
    if not is_mapped(before):
        return after
    return ops.logical_and(before, after if isinstance(after, Tensor) else ops.full_like(before, after))


COUNTED = (
    "vmap: while_loop carries an int, and examples disagree on how often to loop. Carry a tensor instead."
)


def same_metadata(left_name: str, right_name: str, left: list[Any], right: list[Any]) -> None:
    """Raises unless both lists hold tensors (or ints) of the same shapes and dtypes."""
    if len(left) != len(right):
        raise RuntimeError(
            f"Expected {left_name} and {right_name} to have same number of outputs but got "
            f"lhs:{_brief(left)} and "
            f"rhs:{_brief(right)}"
        )
    found = []
    for position, (a, b) in enumerate(zip(left, right)):
        differences = _differences(a, b)
        if differences:
            found.append(
                f"pair[{position}] differ in {', '.join(differences)}, where lhs is {_brief([a])[1:-1]} and "
                "rhs is "
                f"{_brief([b])[1:-1]}"
            )
    if found:
        lines = "\n".join(found)
        raise RuntimeError(f"Expected {left_name} and {right_name} to have same metadata but found:\n{lines}")


def _differences(a: object, b: object) -> list[str]:
    if not isinstance(a, Tensor) or not isinstance(b, Tensor):
        return [] if type(a) is type(b) else [f"'type: {type(a)} vs {type(b)}'"]
    found = []
    if a.shape != b.shape:
        found += [f"'shape: {a.shape} vs {b.shape}'", f"'stride: {a.stride()} vs {b.stride()}'"]
    if a.dtype is not b.dtype:
        found.append(f"'dtype: {a.dtype} vs {b.dtype}'")
    if a.device != b.device:
        found.append(f"'device: {a.device} vs {b.device}'")
    return found


def _brief(values: list[Any]) -> str:
    return f"[{', '.join(repr(typed(value)) for value in values)}]"


# -- scan and map --------------------------------------------------------------------------------------------
def scan(
    combine_fn: Branch, init: object, xs: object, *, dim: int = 0, reverse: bool = False
) -> tuple[Any, Any]:
    """`carry, y = combine_fn(carry, x)` for each slice x of `xs` along `dim`: the last carry, and the ys
    stacked.
    """
    leaves = flatten(xs)[0]
    if not leaves:
        return init, []
    first, build_carry = flatten(init)
    place = _checked_scan(combine_fn, leaves, first, dim, reverse)
    rows = _rows(leaves, place, flatten(xs)[1])
    if reverse:
        rows.reverse()
    carry, outputs = first, []
    for row in rows:
        watch = Watch("weft.scan", [*carry, *flatten(row)[0]])
        result = combine_fn(build_carry(carry), row)
        if not isinstance(result, (tuple, list)) or len(result) != 2:
            raise RuntimeError(f"Expect combine_fn to return a tuple (next_carry, y) but got {result}.")
        following, build_next = flatten(result[0])
        ys, build_y = flatten(result[1])
        checked = watch.outputs([*following, *ys])
        same_metadata("init", "carry", first, following)
        carry = checked[: len(following)]
        outputs.append(checked[len(following) :])
    if reverse:
        outputs.reverse()
    return build_next(carry), build_y(_stacked(outputs, place))


def _checked_scan(
    combine_fn: object, leaves: list[Any], first: list[Any], dim: object, reverse: object
) -> int:
    if not callable(combine_fn):
        raise RuntimeError(f"Combine_fn must be a callable, but got {combine_fn}")
    if not isinstance(dim, int):
        raise RuntimeError(f"Dim must be an int, but got {type(dim)}")
    if not isinstance(reverse, bool):
        raise RuntimeError(f"Reverse must be a bool, but got {type(reverse)}")
    if not first:
        raise RuntimeError("scan() operator requires init leaves.")
    for word, values in (("init", first), ("xs", leaves)):
        for value in values:
            if not isinstance(value, Tensor):
                raise RuntimeError(f"All {word} leaves must be a Tensor but got {value}")
    place = wrap_dim(dim, leaves[0].ndim)
    if any(x.ndim <= place or x.shape[place] == 0 for x in leaves):
        raise RuntimeError(
            "All xs leaves must at least have 'dim' number of dimensions and scan dimension > 0"
        )
    sizes = [x.shape[place] for x in leaves]
    if any(size != sizes[0] for size in sizes):
        raise RuntimeError(
            f"All xs leaves must have the same size along dim {dim}, but got shapes "
            f"{[x.shape for x in leaves]}."
        )
    return place


def _rows(leaves: list[Any], dim: int, build: Callable[[list[Any]], Any]) -> list[Any]:
    """The slices of a tree of tensors along a dimension, each a tree."""
    return [build(list(row)) for row in zip(*(ops.unbind(leaf, dim) for leaf in leaves))]


def _stacked(rows: list[list[Any]], dim: int = 0) -> list[Any]:
    """The leaves of each row, stacked over the rows; the new dimension stands at `dim` where there is room
    for it.
    """
    results: list[Any] = []
    for column in zip(*rows):
        if all(value is None for value in column):
            results.append(None)
            continue
        for value in column:
            if not isinstance(value, Tensor):
                raise RuntimeError(
                    named(f"Expected all leaves to be of weft.Tensor type, but got {value!r}.")
                )
        results.append(ops.stack(list(column), dim if dim <= column[0].ndim else 0))
    return results


def map(f: Branch, xs: object, *args: object) -> Any:
    """`f(x, *args)` for each slice x of `xs` along its first dimension, the results stacked."""
    leaves, build = flatten(xs)
    if not all(isinstance(leaf, Tensor) for leaf in leaves):
        raise RuntimeError(f"Mapped xs can only consist of tensors. Got xs {leaves}.")
    shapes = [leaf.shape for leaf in leaves]
    if not shapes or any(not shape for shape in shapes):
        raise RuntimeError(f"Mapped xs must have a leading dimension. Got shapes {shapes}.")
    if shapes[0][0] == 0:
        raise RuntimeError("Leading dimensions of mapped xs cannot be 0.")
    if any(shape[0] != shapes[0][0] for shape in shapes):
        raise RuntimeError(f"Leading dimensions of mapped xs must be consistent. Got shapes {shapes}.")
    if not callable(f):
        raise RuntimeError(f"Expect f to be callable, but got {f}.")
    given = [leaf for leaf in flatten(args)[0] if isinstance(leaf, Tensor)]
    rows = []
    for row in _rows(leaves, 0, build):
        watch = Watch("weft.map", [*given, *flatten(row)[0]])
        results, rebuild = flatten(f(row, *args))
        rows.append(watch.outputs(results))
    return rebuild(_stacked(rows))


# -- wrap ----------------------------------------------------------------------------------------------------
def wrap_call(fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """`fn(*args, **kwargs)`; captured code keeps it as one node with a graph of its own."""
    return fn(*args, **kwargs)


def nested_compile_region(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator: captured code keeps calls of the function as nodes with graphs of their own."""

    @functools.wraps(fn)
    def region(*args: Any, **kwargs: Any) -> Any:
        return wrap_call(fn, *args, **kwargs)

    return region
