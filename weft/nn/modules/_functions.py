"""Functions that modules put on the tape."""

from __future__ import annotations

from typing import Any

from weft.autograd.function import Function


class BackwardHookFunction(Function):
    """The identity around a module's arguments or results, where its backward hooks see gradients: see
    Note [Backward hooks of modules] in `weft.nn.modules.hooks`."""

    generate_vmap_rule = True

    @staticmethod
    def forward(*tensors: Any) -> tuple[Any, ...]:
        return tensors

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        ctx.mark_non_differentiable(*(tensor for tensor in output if not tensor.requires_grad))

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Any, ...]:
        return gradients

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> tuple[Any, ...]:
        return tangents
