"""Custom Functions inside transforms: their own `vmap` and `jvp`, or a batching rule made from forward and
backward.

Takes a call of `apply` on wrappers over, as `weft.autograd.function` offers it. One idea: what runs is
again a Function, on tensors of lower levels, so that gradients, and further levels, find what they know.

# Note [Generated batching rule]
forward, setup_context and backward of the user's Function each run under a vmap of their own, inside a
Function of ours on the whole batch. What setup_context saves is saved by ours, together with where each
tensor carries the batch; the gradient of an argument that the examples share is summed over them.
"""

from __future__ import annotations

from typing import Any

from weft.autograd.batched import BatchTensor, Map, batched, front, is_batched, places, rewrapped, stripped
from weft.autograd.dual import DualTensor, dual, primals_of
from weft.autograd.dual import tangents_of as directions_of
from weft.autograd.function import (
    INTERPRETERS,
    Function,
    VmapInfo,
    batching_rule,
    holds,
    no_setup,
    run_forward,
    tangents_of,
    unrecorded_outputs,
)
from weft.autograd.function_context import FunctionCtx
from weft.autograd.mapping import entered, spread, structure
from weft.autograd.tasks import reachable
from weft.core import modes
from weft.core.trees import flatten
from weft.ops.record import ops
from weft.tensor.base import Tensor, storage_root
from weft.tensor.wrapper import Wrapper, levels

new = object.__new__


def batched_apply(cls: Any, args: tuple[Any, ...], level: Any) -> Any:
    """`apply` on BatchTensors."""
    rule = batching_rule(cls)
    values = stripped(args, level)
    if rule is None:
        return rewrapped(generated(cls, places(args, level), level).apply(*values), 0, level)
    leaves, build = flatten(args)
    dims = build([leaf.place if is_batched(leaf, level) else None for leaf in leaves])
    before = levels.get()
    try:
        levels.set(tuple(other for other in before if other is not level))
        returned = rule(VmapInfo(level.size, level.randomness), dims, *values)
    finally:
        levels.set(before)
    if not isinstance(returned, tuple) or len(returned) != 2:
        got = f"{len(returned)} returns" if isinstance(returned, tuple) else f"a {type(returned)}"
        raise RuntimeError(TWO_RETURNS.format(got))
    outputs, out_dims = returned
    leaves, build = flatten(outputs)
    each = spread(out_dims, outputs)
    if each is None:
        raise RuntimeError(OUT_DIMS.format(out_dims, structure(out_dims), structure(outputs)))
    return build(
        [rewrapped(o, None if d is None else d % o.ndim, level) for o, d in zip(leaves, each, strict=True)]
    )


class Saved:
    """The context as the user's setup_context and backward see it under vmap: any attributes, and saved
    tensors."""

    def __init__(self) -> None:
        self.saved_tensors: tuple[Any, ...] = ()
        self.saved_for_forward: tuple[Any, ...] | None = None
        self.needs_input_grad: tuple[bool, ...] = ()
        self.marked: tuple[Any, ...] = ()
        self.materialize = True

    def save_for_backward(self, *tensors: Any) -> None:
        self.saved_tensors = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        self.saved_for_forward = tensors

    def mark_non_differentiable(self, *tensors: Any) -> None:
        self.marked = tensors

    def mark_dirty(self, *_tensors: Any) -> None:
        raise RuntimeError("mark_dirty is not supported by a Function with generate_vmap_rule=True")

    def set_materialize_grads(self, value: bool) -> None:
        self.materialize = value


def generated(cls: Any, dims: tuple[Any, ...], level: Map) -> Any:
    """See Note [Generated batching rule]."""

    def wrapped(values: Any, where: Any, here: Map) -> list[Any]:
        return [
            v if d is None or v is None else batched(v, d, here) for v, d in zip(values, where, strict=True)
        ]

    class Generated(Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(*values: Any) -> Any:
            with entered(Map(level.size, level.randomness)) as here:
                outputs = cls.forward(*wrapped(values, dims, here))
                single = not isinstance(outputs, tuple)
                given = [
                    front(o, here) if isinstance(o, Tensor) else o
                    for o in ((outputs,) if single else outputs)
                ]
            return given[0] if single else tuple(given)

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            inner = Saved()
            inner.needs_input_grad = ctx.needs_input_grad
            outputs = output if isinstance(output, tuple) else (output,)
            with entered(Map(level.size, level.randomness)) as here:
                shown = [batched(o, 0, here) if isinstance(o, Tensor) else o for o in outputs]
                given = wrapped(inputs, dims, here)
                cls.setup_context(
                    inner, tuple(given), tuple(shown) if isinstance(output, tuple) else shown[0]
                )
                ctx.saved_dims = places(inner.saved_tensors, here)
                ctx.save_for_backward(*stripped(inner.saved_tensors, here))
                kept = inner.saved_tensors if inner.saved_for_forward is None else inner.saved_for_forward
                ctx.forward_dims = places(kept, here)
                ctx.save_for_forward(*stripped(kept, here))
                marked = [o for o, s in zip(outputs, shown, strict=True) if any(s is m for m in inner.marked)]
            ctx.mark_non_differentiable(*marked)
            ctx.set_materialize_grads(inner.materialize)
            inner.saved_tensors = inner.marked = ()
            inner.saved_for_forward = None
            ctx.inner = inner

        @staticmethod
        def jvp(ctx: Any, *tangents: Any) -> Any:
            inner = ctx.inner
            with entered(Map(level.size, level.randomness)) as here:
                inner.saved_tensors = tuple(wrapped(ctx.saved_tensors, ctx.forward_dims, here))
                found = cls.jvp(inner, *wrapped(tangents, dims, here))
                inner.saved_tensors = ()
                results = found if isinstance(found, tuple) else (found,)
                return tuple(None if r is None else front(r, here) for r in results)

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            inner = ctx.inner
            with entered(Map(level.size, level.randomness)) as here:
                inner.saved_tensors = tuple(wrapped(ctx.saved_tensors, ctx.saved_dims, here))
                found = cls.backward(inner, *wrapped(gradients, (0,) * len(gradients), here))
                inner.saved_tensors = ()
                results = found if isinstance(found, tuple) else (found,)
                return tuple(_gathered(r, d, here) for r, d in zip(results, dims, strict=True))

    Generated.__name__ = f"Vmapped{cls.__name__}"
    Generated._backward_cls.stands_in = cls._backward_cls.stands_in
    adapt = getattr(cls, "adapt_generated", None)  # of a Function that stands in while code is captured
    return Generated if adapt is None else adapt(Generated, dims, level)


def _gathered(gradient: Any, dim: int | None, level: Map) -> Any:
    """A batch of gradients as the gradient of the whole batch, or of what the examples share."""
    if gradient is None:
        return None
    if dim is None:
        return ops.sum(front(gradient, level), (0,))
    if not is_batched(gradient, level):
        gradient = batched(front(gradient, level), 0, level)
    return ops.movedim(front(gradient, level), 0, dim)


TWO_RETURNS = (
    "Expected the vmap staticmethod to have two returns, an output and out_dims with pytree structure "
    "compatible with the output. Got {} instead"
)
OUT_DIMS = (
    "The autograd.Function's vmap staticmethod returned an incompatible (output, out_dims) tuple. Expected "
    "out_dims={} to be compatible with the structure of `output`. out_dims has structure {} but output has "
    "structure {}. For more details, please see https://pytorch.org/docs/main/notes/extending.func.html"
)
FIXED = (
    "A custom Function's jvp returned a forward gradient for output {}, which its forward marked as "
    "non-differentiable. You should return None at that position instead."
)
AS_IS = (
    "A custom Function's forward is returning a view (or an input as-is) but its jvp is not returning a view "
    "of the given input's gradient: jvp is not returning a view of the same base. Make sure that jvp does to "
    "the gradients what forward does to the inputs."
)


IN_PLACE = (
    "inplace custom Function is not modifying the forward mode gradients inplace: its jvp function must "
    "modify the corresponding gradient inplace, as forward does with the input, and return it."
)


def check_views(output: Any, move: Any, primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> None:
    """Raises where a result lies in the memory of an input, and its tangent not in that of the input's."""
    if isinstance(output, Wrapper) or isinstance(move, Wrapper):
        return
    memory = storage_root(output.array)
    for primal, tangent in zip(primals, tangents, strict=True):
        if not isinstance(primal, Tensor) or isinstance(primal, Wrapper) or primal.is_meta:
            continue
        if storage_root(primal.array) is memory and isinstance(tangent, Tensor):
            same = not isinstance(tangent, Wrapper) and storage_root(tangent.array)
            if storage_root(move.array) is not same or move is tangent:
                raise RuntimeError(AS_IS)


def _written(
    output: Any, move: Any, primals: tuple[Any, ...], tangents: tuple[Any, ...], args: tuple[Any, ...]
) -> Any:
    """An input that forward has written to: jvp must have written to its tangent."""
    place = next(place for place, primal in enumerate(primals) if primal is output)
    if move is not tangents[place]:
        raise RuntimeError(IN_PLACE)
    return args[place]


def _run_once(cls: Any, primals: tuple[Any, ...]) -> tuple[FunctionCtx, Any]:
    """The outputs of forward, and a context of our own with what forward left in it."""
    ctx = new(FunctionCtx)
    ctx._forward_cls = cls
    if cls.setup_context is not no_setup:
        outputs = cls.apply(*primals)
        cls.setup_context(ctx, primals, outputs)
        return ctx, outputs
    plain = not any(isinstance(value, Wrapper) for value in primals)
    tracked = modes.grad_enabled() and any(isinstance(x, Tensor) and x.requires_grad for x in primals)
    if plain and tracked:
        outputs = cls.apply(*primals)
        every = [x for x in (outputs if isinstance(outputs, tuple) else (outputs,)) if isinstance(x, Tensor)]
        made = reachable([x.node for x in every if x.node is not None])
        node = next((node for node in made if getattr(node, "_forward_cls", None) is cls), None)
        if node is not None:
            ctx.__dict__.update(node.ctx.__dict__)
        ctx.dirty_tensors = tuple([value for value in every if holds(primals, value)])
        return ctx, outputs
    token = modes.enter(grad=False)
    try:
        result = run_forward(cls, ctx, primals)
    finally:
        modes.leave(token)
    if plain:
        return ctx, unrecorded_outputs(ctx, primals, result)
    return ctx, cls.apply(*primals)


def dual_apply(cls: Any, args: tuple[Any, ...], level: Any) -> Any:
    """`apply` on DualTensors: forward on the primals, the Function's `jvp` on the tangents."""
    primals, tangents = primals_of(args, level), directions_of(args, level)
    ctx, outputs = _run_once(cls, primals)
    ctx.needs_input_grad = tuple(tangent is not None for tangent in tangents)
    if ctx.materialize_grads:
        tangents = tuple(
            ops.zeros_like(p) if t is None and isinstance(p, Tensor) and p.is_floating_point() else t
            for p, t in zip(primals, tangents, strict=True)
        )
    single = not isinstance(outputs, tuple)
    given = (outputs,) if single else outputs
    ctx.saved_for_forward = ctx.saved_for_forward or ()
    moves = tangents_of(cls, ctx, tangents, len(given))
    fixed = ctx.non_differentiable or ()
    results = []
    for place, (output, move) in enumerate(zip(given, moves, strict=True)):
        if move is not None and holds(fixed, output):
            raise RuntimeError(FIXED.format(place))
        if holds(ctx.dirty_tensors or (), output):
            results.append(_written(output, move, primals, tangents, args))
            continue
        if move is not None:
            check_views(output, move, primals, tangents)
        results.append(output if move is None else dual(output, move, level))
    return results[0] if single else tuple(results)


INTERPRETERS[BatchTensor] = batched_apply
INTERPRETERS[DualTensor] = dual_apply
