"""Op families: constructors that supply what the ops of one kind share, so that an op is a line or two.

`pointwise`, `reduce`, `view`, `contract`, `index`, `composite`, … each make an `Op`; see Note [Calling
conventions] in `weft.ops.record` for what kernels and rules receive.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.core import dtypes
from weft.core.dtypes import dtype, result_dtype
from weft.ops.record import Kind, Op, Promotion
from weft.ops.samples import binary_samples, unary_samples

UNARY = "input: Tensor"
BINARY = "input: Tensor, other: Operand"


def _same(operands: list[Any]) -> tuple[dtype, dtype]:
    kind = result_dtype(operands)
    return kind, kind


def _float(operands: list[Any]) -> tuple[dtype, dtype]:
    kind = result_dtype(operands)
    if kind.category < dtypes.FLOAT:
        kind = dtypes.get_default_dtype()
    return kind, kind


def _compare(operands: list[Any]) -> tuple[dtype, dtype]:
    return result_dtype(operands), dtypes.bool_


def _real(operands: list[Any]) -> tuple[dtype, dtype]:
    kind = result_dtype(operands)
    return kind, kind.to_real()


promote = Promotion("promote", _same)
"""Operands promote to their common dtype, and so is the result: add, mul, maximum."""
float_result = Promotion("float_result", _float)
"""As promote, but integers and bools become the default float: sqrt, div."""
bool_result = Promotion("bool_result", _compare)
"""Operands promote, the result is bool: eq, lt, isnan."""
real_result = Promotion("real_result", _real)
"""As promote, but a complex operand gives its real type: abs."""


def pointwise(name: str, kernel: Callable[..., Any], promotion: Promotion, **facts: Any) -> Op:
    """An op that works element by element with broadcasting. In-place and out= forms by default; kernels are
    trusted to raise wherever the rule would, so the fast path calls them first. `domain` (and
    `second_domain`) bound the samples.
    """
    if "signature" not in facts:
        facts["signature"] = UNARY if getattr(kernel, "nin", None) == 1 or _arity(kernel) == 1 else BINARY
    signature = facts.pop("signature")
    low, high = facts.pop("domain", (-2.0, 2.0))
    if "samples" not in facts:
        second = facts.pop("second_domain", (low, high))
        facts["samples"] = (
            unary_samples(low, high) if signature == UNARY else binary_samples((low, high), second)
        )
    defaults = {"trusted": True, "inplace": not facts.get("namespace"), "out": not facts.get("namespace")}
    return Op(name, Kind.POINTWISE, signature, kernel=kernel, promotion=promotion, **(defaults | facts))


def _arity(kernel: Callable[..., Any]) -> int | None:
    code = getattr(kernel, "__code__", None)
    return None if code is None else code.co_argcount


def reduce(
    name: str, kernel: Callable[..., Any], rule: Callable[..., Any], signature: str, **facts: Any
) -> Op:
    """An op that folds dimensions."""
    return Op(
        name,
        Kind.REDUCE,
        signature,
        kernel=kernel,
        rule=rule,
        **({"out": not facts.get("namespace")} | facts),
    )


def view(name: str, kernel: Callable[..., Any], rule: Callable[..., Any], signature: str, **facts: Any) -> Op:
    """An op whose result always shares memory with its first argument."""
    return Op(name, Kind.VIEW, signature, kernel=kernel, rule=rule, **facts)


def contract(
    name: str, kernel: Callable[..., Any], rule: Callable[..., Any], signature: str, **facts: Any
) -> Op:
    """Matrix products, convolutions, factorisations: dense work that is worth saving, not recomputing."""
    return Op(
        name,
        Kind.CONTRACT,
        signature,
        kernel=kernel,
        rule=rule,
        **({"out": not facts.get("namespace")} | facts),
    )


def index(
    name: str, kernel: Callable[..., Any], rule: Callable[..., Any], signature: str, **facts: Any
) -> Op:
    """Gathers, scatters, sorts, copies: results are new memory, addressed by data or by position."""
    return Op(name, Kind.INDEX, signature, kernel=kernel, rule=rule, **facts)


def random(
    name: str, kernel: Callable[..., Any], rule: Callable[..., Any], signature: str, **facts: Any
) -> Op:
    """An op whose elements are draws of a random stream."""
    return Op(name, Kind.RANDOM, signature, kernel=kernel, rule=rule, **facts)


def sampler(signature: str, **facts: Any) -> Callable[[Callable[..., Any]], Op]:
    """Decorator: as `composite`, for a body that moves a generator on: two calls differ."""
    return composite(signature, kind=Kind.RANDOM, **facts)


def create(
    name: str, kernel: Callable[..., Any], rule: Callable[..., Any], signature: str, **facts: Any
) -> Op:
    """An op that makes a tensor from no tensor's values."""
    return Op(name, Kind.CREATE, signature, kernel=kernel, rule=rule, **facts)


def composite(signature: str, **facts: Any) -> Callable[[Callable[..., Any]], Op]:
    """Decorator: the function below, written in ops, is the op. It runs on arrays, tensors and types
    alike.
    """

    def define(body: Callable[..., Any]) -> Op:
        name = facts.pop("name", body.__name__.rstrip("_"))
        kind = facts.pop("kind", Kind.COMPOSITE)
        return Op(name, kind, signature, body=body, doc=body.__doc__ or "", **facts)

    return define
