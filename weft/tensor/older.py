"""Functions of `weft` by older names: losses by numbers for reductions, methods as functions, `range`, and
those that PyTorch has taken away, which say so.

Takes and gives what PyTorch's functions of these names do.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from weft.core.naming import named
from weft.core.warn import warn
from weft.ops.record import ops
from weft.tensor.base import PUBLIC, Tensor, method, public
from weft.tensor.faces import FUNCTIONS

if TYPE_CHECKING:
    from weft.core.types import memory_format


REDUCTIONS = ("none", "mean", "sum")


# -- losses --------------------------------------------------------------------------------------------------
LOSSES = {
    "binary_cross_entropy_with_logits": ("input", "target", "weight", "pos_weight"),
    "cosine_embedding_loss": ("input1", "input2", "target", "margin"),
    "ctc_loss": ("log_probs", "targets", "input_lengths", "target_lengths", "blank"),
    "hinge_embedding_loss": ("input", "target", "margin"),
    "kl_div": ("input", "target"),
    "margin_ranking_loss": ("input1", "input2", "target", "margin"),
    "poisson_nll_loss": ("input", "target", "log_input", "full", "eps"),
    "triplet_margin_loss": ("anchor", "positive", "negative", "margin", "p", "eps", "swap"),
}
"""The parameters of each before its reduction, in order."""


def _loss(name: str, before: tuple[str, ...]) -> Callable[..., Any]:
    def loss(*args: object, **kwargs: object) -> Any:
        given = dict(zip(before, args))
        if len(args) > len(before):
            given["reduction"] = args[len(before)]
        given.update(kwargs)
        reduction = given.pop("reduction", 0)
        if isinstance(reduction, int):
            reduction = REDUCTIONS[reduction]
        return FUNCTIONS[f"nn.functional.{name}"](**given, reduction=reduction)

    loss.__name__ = loss.__qualname__ = name
    loss.__doc__ = f"`nn.functional.{name}`, by a number for the reduction: 0 none, 1 mean, 2 sum."
    return loss


for _name, _before in LOSSES.items():
    PUBLIC[_name] = _loss(_name, _before)


# -- methods as functions ------------------------------------------------------------------------------------
@public
def detach(input: Tensor) -> Tensor:
    """The tensor without its history."""
    return input.detach()


@public
def detach_(input: Tensor) -> Tensor:
    """Takes its history from the tensor."""
    return input.detach_()


@public
def detach_copy(input: Tensor) -> Tensor:
    """A copy without history."""
    return input.detach().clone()


@public
def resize_as_(input: Tensor, the_template: Tensor, *, memory_format: memory_format | None = None) -> Tensor:
    """Gives the tensor the sizes of another."""
    return input.resize_as_(the_template, memory_format)


@method
def resize(self: Tensor, *sizes: object) -> Tensor:
    """`resize_`, which is what to call instead."""
    warn("non-inplace resize is deprecated")
    return self.clone().resize_(*sizes)


@method
def resize_as(self: Tensor, tensor: Tensor) -> Tensor:
    """`resize_as_`, which is what to call instead."""
    warn("non-inplace resize_as is deprecated")
    return self.clone().resize_as_(tensor)


@method
def reinforce(self: Tensor, reward: object) -> NoReturn:
    """Was taken away."""
    raise RuntimeError(
        "reinforce() was removed.\nUse torch.distributions instead.\n"
        "See https://pytorch.org/docs/main/distributions.html"
    )


@public
def range(start: Any = 0, end: Any = None, step: Any = 1, *, out: Any = None, **options: object) -> Any:
    """Numbers from `start` to `end`, which is among them; `arange` is what to call instead."""
    warn(
        named(
            "weft.range is deprecated and will be removed in a future release because its behavior is "
            "inconsistent with Python's range builtin. Instead, use weft.arange, which produces values in "
            "[start, end)."
        )
    )
    if end is None:
        start, end = 0, start
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if not (math.isfinite(start) and math.isfinite(end)):
        raise RuntimeError(f"unsupported range: {start:g} -> {end:g}")
    if (end - start) * step < 0:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    count = math.floor((end - start) / step) + 1
    if out is None and options.get("dtype") is None:
        options["dtype"] = ops.empty(0).dtype
    kind = options.pop("dtype", None) or out.dtype
    made = (ops.arange(count) * step + start).to(kind)
    if out is not None:
        out.resize_(made.shape).copy_(made)
        return out
    if options.pop("requires_grad", False):
        made.requires_grad_()
    return made.to(**{name: value for name, value in options.items() if name == "device" and value})


# -- taken away ----------------------------------------------------------------------------------------------
REMOVED = "This function was deprecated since version 1.9 and is now removed. "
GONE = {
    "eig": (
        "`weft.linalg.eig` returns complex tensors of dtype `cfloat` or `cdouble` rather than real tensors "
        "mimicking complex tensors."
    ),
    "lstsq": "`weft.lstsq` is deprecated in favor of `weft.linalg.lstsq`.",
    "matrix_rank": "",
    "solve": (
        "`weft.solve` is deprecated in favor of `weft.linalg.solve`. `weft.linalg.solve` has its arguments "
        "reversed and does not return the LU factorization."
    ),
    "symeig": (
        "The default behavior has changed from using the upper triangular portion of the matrix by default "
        "to using the lower triangular portion."
    ),
}
"""Functions that PyTorch has no more, and what it says of them."""


def _gone(name: str, text: str) -> Callable[..., NoReturn]:
    def function(input: object, *_args: object, **_kwargs: object) -> NoReturn:
        raise RuntimeError(named(REMOVED + text).rstrip())

    function.__name__ = function.__qualname__ = name
    function.__doc__ = "Was taken away: `linalg` has what serves instead."
    return function


for _name, _text in GONE.items():
    PUBLIC[_name] = _gone(_name, _text)
    if _name != "matrix_rank":
        setattr(Tensor, _name, PUBLIC[_name])
