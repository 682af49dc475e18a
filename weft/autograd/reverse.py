"""Gradients of wrapped tensors: the engine under vmap and forward mode.

Takes outputs, inputs and gradients of the outputs, any of which may be wrappers; gives the gradients of
the inputs. One idea: `gradients` is itself something that transforms act on, level by level from the
innermost.

# Note [Gradients by level]
Batched outputs and inputs: examples are independent, so the gradients of all examples are the gradients of
the batch. That holds for inputs that are batched too; an input shared by the examples must have been
spread before the function ran (`batched.materialised`), or its gradients would come summed. Duals: with
outputs y + εẏ and their gradients v + εv̇, the gradient is G(y, v) + ε (G(ẏ, v) + G(y, v̇)). Only the
given gradients are batched (jacobians): the tape runs once, recorded, with batched gradients.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.autograd.engine import _captured
from weft.core import modes
from weft.ops.record import ops
from weft.tensor.base import Tensor
from weft.tensor.views import refresh
from weft.tensor.wrapper import Wrapper, highest, wrappers


def gradients(outputs: Sequence[Any], inputs: Sequence[Any], given: Sequence[Any], graph: bool) -> list[Any]:
    """One gradient per input, None where nothing connects them; `given` has one gradient per output."""
    top = highest([*outputs, *inputs])
    if top is not None:
        return top.differentiate(outputs, inputs, given, graph)
    live = [(o, g) for o, g in zip(outputs, given, strict=True) if g is not None and is_tracked(o)]
    wanted = [i for i, value in enumerate(inputs) if is_tracked(value)]
    results: list[Any] = [None] * len(inputs)
    if not live or not wanted:
        return results
    outs, seeds = [o for o, _ in live], [g for _, g in live]
    wrapped = bool(wrappers(seeds))
    found = _captured(outs, [inputs[i] for i in wanted], seeds, True, graph or wrapped, True)
    for position, value in zip(wanted, found, strict=True):
        if value is not None:
            results[position] = cut(value) if wrapped and not graph else value
    return results


def is_tracked(tensor: Tensor) -> bool:
    """Whether the tape knows the tensor, its history brought up to date."""
    if tensor.origin is not None and modes.grad_enabled():
        refresh(tensor)
    return tensor.tracked


def cut(tensor: Tensor) -> Tensor:
    """The tensor outside of the graph, wrapped as before."""
    if isinstance(tensor, Wrapper):
        return tensor.rebuilt(cut)
    return tensor.detach()


def added(a: object, b: object) -> Any:
    return b if a is None else a if b is None else ops.add(a, b)


def user_gradients(outputs: Sequence[Any], inputs: Sequence[Any], given: Any, graph: bool) -> list[Any]:
    """As `autograd.grad` calls it: gradients of scalars may be left out."""
    seeds = list(given) if given is not None else [None] * len(outputs)
    for position, (output, seed) in enumerate(zip(outputs, seeds, strict=True)):
        if not output.requires_grad:
            raise RuntimeError(
                f"element {position} of tensors does not require grad and does not have a grad_fn"
            )
        if seed is None:
            if output.numel() != 1:
                raise RuntimeError("grad can be implicitly created only for scalar outputs")
            seeds[position] = ops.ones_like(output)
    return gradients(outputs, inputs, seeds, graph)


Wrapper.gradients = staticmethod(user_gradients)
