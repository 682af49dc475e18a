"""`backward` and `grad`: what users call to run the engine, with PyTorch's arguments, checks and texts.

Takes output tensors (or gradient edges) and their gradients; sums into leaves' `.grad`, or returns the
gradients asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import Any

from weft.autograd.nodes import GradientEdge, anchor, output_type
from weft.autograd.tasks import Seeds, Task, leading_to, run
from weft.core import modes
from weft.core.arrays import MODULES, NUMPY, ArrayModule
from weft.core.dtypes import BY_NUMPY, dtype
from weft.core.naming import named
from weft.core.seams import seams
from weft.core.types import Size
from weft.core.warn import warn_at_level
from weft.ops.record import REGISTRY, ops
from weft.tensor.base import Tensor, wrap
from weft.tensor.meta import faking
from weft.tensor.overrides import handling, has_handler
from weft.tensor.switches import is_warn_always_enabled
from weft.tensor.tape import gradient_edge
from weft.tensor.views import refresh
from weft.tensor.wrapper import Wrapper, highest

_warned_of_cycle = False


def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Any = None,
    inputs: Any = None,
) -> None:
    """Sums gradients of the tensors into the `.grad` of the leaves behind them (of `inputs` only, if
    given)."""
    if grad_variables is not None:
        warn_at_level(
            "`grad_variables` is deprecated. Use `grad_tensors` instead.", FutureWarning, stacklevel=2
        )
        if grad_tensors is not None:
            raise RuntimeError(
                "`grad_tensors` and `grad_variables` (deprecated) arguments both passed to `backward()`. "
                "Please only use "
                "`grad_tensors`."
            )
        grad_tensors = grad_variables
    task = Task(create_graph if retain_graph is None else retain_graph, create_graph)
    if handling:
        task.tensors = task.tensors or meets_handlers(tensors)
    if inputs is not None:
        inputs = _sequence(inputs.values() if isinstance(inputs, dict) else inputs)
        if not inputs:
            raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
    seeds = seeds_for(tensors, grad_tensors, task.tensors)
    if inputs is not None:
        targets = {_accumulating(value) for value in inputs}
        task.needed = leading_to([seed[0] for seed in seeds], targets) | targets
    if create_graph:
        _warn_of_cycle()
    run(seeds, task)


def grad(
    outputs: object,
    inputs: object,
    grad_outputs: object = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> Any:
    """The gradients of the outputs with respect to the inputs, as a tuple; as a dict, where they are one."""
    if isinstance(inputs, dict):
        if type(inputs) is not dict:
            raise TypeError(f"`inputs` argument to `grad()` must be a dict, not {type(inputs).__name__}")
        options = (grad_outputs, retain_graph, create_graph, only_inputs, allow_unused)
        found = grad(outputs, tuple(inputs.values()), *options, is_grads_batched, materialize_grads)
        return dict(zip(inputs, found))
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, but got: "
            "allow_unused=False."
        )
    unused = materialize_grads if allow_unused is None else allow_unused
    wanted = _sequence(inputs)
    if not only_inputs:
        warn_at_level(
            named(
                "only_inputs argument is deprecated and is ignored now (defaults to True). To accumulate "
                "gradient for other parts "
                "of the graph, please use weft.autograd.backward."
            ),
            FutureWarning,
            stacklevel=2,
        )
    if not wanted:
        raise RuntimeError("`inputs` argument to `grad()` cannot be empty.")
    keep = create_graph if retain_graph is None else retain_graph
    top = highest((outputs, wanted, grad_outputs))
    if top is not None and not top.level.number:  # sparse tensors: gradients are those of what they store
        rest = (keep, create_graph, only_inputs, allow_unused, is_grads_batched, materialize_grads)
        return top.gradients_of_parts(grad, _sequence(outputs), wanted, grad_outputs, rest)
    if top is not None and not is_grads_batched:
        given = None if grad_outputs is None else _sequence(grad_outputs)
        results = _checked_use(Wrapper.gradients(_sequence(outputs), wanted, given, create_graph), unused)
    elif is_grads_batched and grad_outputs is not None:
        results = _batched(_sequence(outputs), wanted, _sequence(grad_outputs), keep, create_graph, unused)
    else:
        results = _captured(outputs, wanted, grad_outputs, keep, create_graph, unused)
    if materialize_grads:
        if any(g is None and isinstance(x, GradientEdge) for x, g in zip(wanted, results)):
            raise RuntimeError("materialize_grads cannot be used when the given input is a GradientEdge")
        results = tuple(
            ops.zeros_like(x, requires_grad=create_graph) if g is None else g for x, g in zip(wanted, results)
        )
    return results


def _captured(
    outputs: object, wanted: Sequence[Any], given: object, keep: bool, graph: bool, unused: bool
) -> tuple[Any, ...]:
    task = Task(keep, graph)
    if handling:
        task.tensors = task.tensors or meets_handlers(outputs)
    seeds = seeds_for(outputs, given, task.tensors)
    captures: dict[Any, list[tuple[int, int]]] = {}
    for position, value in enumerate(wanted):
        captures.setdefault((edge := _edge_of_input(value))[0], []).append((edge[1], position))
    task.captures, task.accumulate = captures, False
    task.needed = leading_to([seed[0] for seed in seeds], captures)
    run(seeds, task)
    results = _checked_use([task.captured.get(position) for position in range(len(wanted))], unused)
    return tuple([task.given(value) if task.tensors else task.shown(value) for value in results])


def _checked_use(results: list[Any], unused: bool) -> tuple[Any, ...]:
    for position, value in enumerate(results):
        if value is None and not unused:
            raise RuntimeError(
                f"The differentiated Tensor at index {position} appears to not have been used in the graph. "
                "Set "
                "allow_unused=True if this is the desired behavior."
            )
    return tuple(results)


def _batched(
    outs: Sequence[Any], wanted: Sequence[Any], given: Sequence[Any], keep: bool, graph: bool, unused: bool
) -> tuple[Any, ...]:
    """One run with all entries of the gradients' first dimension at once, as under vmap."""
    sizes = [value.array.shape[0] for value in given if isinstance(value, Tensor) and value.array.ndim]
    check_sizes(sizes)
    for position, (value, output) in enumerate(zip(given, outs)):
        shape, _ = _facts(output)
        if isinstance(value, Tensor) and value.array.shape[1:] != shape:
            raise RuntimeError(
                "If `is_grads_batched=True`, we interpret the first dimension of each grad_output as the "
                "batch dimension. The "
                "sizes of the remaining dimensions are expected to match the shape of corresponding output, "
                "but a mismatch was "
                f"detected: grad_output[{position}] has a shape of {Size(value.array.shape)} and "
                f"output[{position}] has a shape "
                f"of {Size(shape)}. If you only want some tensors in `grad_output` to be considered batched, "
                "consider using vmap."
            )
    seeds, whole = Wrapper.as_batch(given, sizes[0] if sizes else 0)
    results = _captured(outs, wanted, seeds, keep, True, unused)
    return tuple(None if value is None else whole(value, graph) for value in results)


def check_sizes(sizes: Sequence[int]) -> None:
    """Refuses tensors that are no batches of one size."""
    if any(size != sizes[0] for size in sizes):
        raise ValueError(
            f"vmap: Expected all tensors to have the same size in the mapped dimension, got sizes {sizes} "
            "for the mapped dimension"
        )


def meets_handlers(outputs: Any) -> bool:
    """Whether tensors take part whose classes handle calls below autograd, so that rules must run on them."""
    outs = (outputs,) if isinstance(outputs, (Tensor, GradientEdge)) else tuple(outputs)
    ends = [each for each in outs if isinstance(each, (Tensor, GradientEdge))]
    roots = [each.node if isinstance(each, GradientEdge) else each.node or each for each in ends]
    found: bool = seams.below.computes_on_tensors(roots)
    return found


def seeds_for(outputs: Any, given: Any, graph: bool) -> Seeds:
    """Where the sweep starts and with what: the outputs' edges and checked gradients."""
    outs = (outputs,) if isinstance(outputs, (Tensor, GradientEdge)) else tuple(outputs)
    if given is None:
        gradients: Sequence[Any] = (None,) * len(outs)
    else:
        gradients = (given,) if isinstance(given, Tensor) else tuple(given)
        if len(gradients) < len(outs):
            raise RuntimeError(f"got {len(outs)} tensors and {len(gradients)} gradients")
    seeds: Seeds = []
    for position, output in enumerate(outs):
        if isinstance(output, Tensor):
            if output.origin is not None:
                refresh(output)
            if not output.tracked:
                raise RuntimeError(
                    f"element {position} of tensors does not require grad and does not have a grad_fn"
                )
            node, slot = (output, 0) if output.node is None else (output.node, output.index)
            array = output.array
            shape, kind, xp = array.shape, array.dtype, MODULES.get(type(array), NUMPY)
        elif isinstance(output, GradientEdge):
            node, slot = anchor(output.node), output.output_nr
            shape, kind = _facts(output)
            xp = NUMPY
        else:
            raise TypeError(
                f"expected outputs to be Tensors or GradientEdges, but got {type(output).__name__}"
            )
        gradient = gradients[position]
        if gradient is None:
            seeds.append((node, slot, _ones(shape, kind, graph, xp, output)))
        else:
            seeds.append((node, slot, _checked(gradient, shape, kind, position, graph)))
    return seeds


def _ones(shape: tuple[int, ...], kind: Any, graph: bool, xp: ArrayModule, *output: Any) -> Any:
    """The gradient that a single number starts from."""
    if prod(shape) != 1:
        raise RuntimeError("grad can be implicitly created only for scalar outputs")
    if kind.kind == "c":
        raise RuntimeError(
            f"grad can be implicitly created only for real scalar outputs but got {BY_NUMPY[kind]}"
        )
    if graph and faking(modes.current()):
        return ops.ones(shape, dtype=BY_NUMPY[kind])
    if graph and any(map(has_handler, output)):
        return ops.ones_like(output[0])
    array = xp.empty(shape, kind)
    array.fill(1)
    return wrap(array) if graph else array


def _checked(gradient: Any, shape: tuple[int, ...], kind: Any, position: int, graph: bool) -> Any:
    """The user's gradient for an output of this shape and dtype."""
    if not isinstance(gradient, Tensor):
        raise TypeError(f"gradients can be either Tensors or None, but got {type(gradient).__name__}")
    array = gradient.array
    if array.shape != shape:
        raise RuntimeError(
            f"Mismatch in shape: grad_output[{position}] has a shape of {Size(array.shape)} and "
            f"output[{position}] has a shape of "
            f"{Size(shape)}."
        )
    if array.dtype is not kind:
        ours: dtype = BY_NUMPY[kind]
        if gradient.dtype.is_complex != ours.is_complex:
            raise RuntimeError(
                "For complex Tensors, both grad_output and output are required to have the same dtype. "
                "Mismatch in dtype: "
                f"grad_output[{position}] has a dtype of {gradient.dtype} and output[{position}] has a dtype "
                f"of {ours}."
            )
        gradient = REGISTRY["_to_copy"](gradient, ours)
    return gradient if graph else gradient.array


def _facts(output: Any) -> tuple[tuple[int, ...], Any]:
    """Shape and NumPy dtype of an output."""
    if isinstance(output, Tensor):
        return output.array.shape, output.array.dtype
    kind = output_type(output)
    return kind.shape, kind.dtype.numpy


def _edge_of_input(value: object) -> tuple[Any, int]:
    if isinstance(value, GradientEdge):
        return anchor(value.node), value.output_nr
    if not isinstance(value, Tensor):
        raise RuntimeError(f"all inputs have to be Tensors or GradientEdges, but got {type(value).__name__}")
    if value.origin is not None:
        refresh(value)
    if not value.tracked:
        raise RuntimeError("One of the differentiated Tensors does not require grad")
    return gradient_edge(value)


def _accumulating(value: object) -> Any:
    """The node of an input of backward; a tensor that is no leaf gets its gradient in `.grad` too."""
    if isinstance(value, Tensor):
        if value.origin is not None:
            refresh(value)
        if value.node is not None or not value.tracked:
            value.retain_grad()
    return _edge_of_input(value)[0]


def _sequence(values: Any) -> Sequence[Any]:
    if isinstance(values, (Tensor, GradientEdge)):
        return (values,)
    return tuple(values) if isinstance(values, Iterable) else tuple(iter(values))


def _warn_of_cycle() -> None:
    global _warned_of_cycle
    if not _warned_of_cycle or is_warn_always_enabled():
        _warned_of_cycle = True
        warn_at_level(
            "Using backward() with create_graph=True will create a reference cycle between the parameter and "
            "its gradient which "
            "can cause a memory leak. We recommend using autograd.grad when creating the graph to avoid "
            "this. If you have to use "
            "this function, make sure to reset the .grad fields of your parameters to None after use to "
            "break the cycle and "
            "avoid the leak.",
            UserWarning,
            stacklevel=4,
        )
