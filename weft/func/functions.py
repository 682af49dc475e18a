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
    no_setup,
    run_forward,
    tangents_of,
)
from weft.autograd.function_context import FunctionCtx
from weft.autograd.mapping import entered, spread
from weft.core import modes
from weft.core.trees import flatten
from weft.ops.record import ops
from weft.tensor.base import Tensor
from weft.tensor.wrapper import levels

new = object.__new__


def batched_apply(cls: Any, args: tuple[Any, ...], level: Any) -> Any:
    """`apply` on BatchTensors."""
    rule = batching_rule(cls)
    values, dims = stripped(args, level), places(args, level)
    if rule is None:
        return rewrapped(generated(cls, dims, level).apply(*values), 0, level)
    before = levels.get()
    try:
        levels.set(tuple(other for other in before if other is not level))
        outputs, out_dims = rule(VmapInfo(level.size, level.randomness), dims, *values)
    finally:
        levels.set(before)
    leaves, build = flatten(outputs)
    each = spread(out_dims, outputs)
    if each is None:
        raise RuntimeError(
            f"Expected the out_dims that {cls.__name__}.vmap returned to have the structure of its outputs, "
            f"got {out_dims}"
        )
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


def dual_apply(cls: Any, args: tuple[Any, ...], level: Any) -> Any:
    """`apply` on DualTensors: forward on the primals, the Function's `jvp` on the tangents."""
    primals, tangents = primals_of(args, level), directions_of(args, level)
    outputs = cls.apply(*primals)
    ctx = new(FunctionCtx)
    ctx._forward_cls = cls
    ctx.needs_input_grad = tuple(tangent is not None for tangent in tangents)
    if cls.setup_context is no_setup:
        token = modes.enter(grad=False)
        try:
            run_forward(cls, ctx, primals)
        finally:
            modes.leave(token)
    else:
        cls.setup_context(ctx, primals, outputs)
    if ctx.materialize_grads:
        tangents = tuple(
            ops.zeros_like(p) if t is None and isinstance(p, Tensor) and p.is_floating_point() else t
            for p, t in zip(primals, tangents, strict=True)
        )
    single = not isinstance(outputs, tuple)
    given = (outputs,) if single else outputs
    ctx.saved_for_forward = ctx.saved_for_forward if ctx.saved_for_forward is not None else ctx.to_save
    moves = tangents_of(cls, ctx, tangents, len(given))
    fixed = ctx.non_differentiable or ()
    results = [
        o if t is None or any(o is m for m in fixed) else dual(o, t, level)
        for o, t in zip(given, moves, strict=True)
    ]
    return results[0] if single else tuple(results)


INTERPRETERS[BatchTensor] = batched_apply
INTERPRETERS[DualTensor] = dual_apply
