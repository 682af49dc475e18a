"""Op families: constructors that supply what the ops of one kind share, so that an op is a line or two.

`pointwise`, `reduce`, `view`, `contract`, `index`, `composite`, … each make an `Op`; see Note [Calling
conventions] in `weft.ops.record` for what kernels and rules receive.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Unpack

import numpy as np

from weft.core import dtypes
from weft.core.arrays import is_array
from weft.core.dtypes import dtype, result_dtype
from weft.ops.facts import Kind, OpFacts, Rule
from weft.ops.record import Op, Promotion
from weft.ops.samples import binary_samples, unary_samples

HIDDEN: Final[dict[str, Any]] = {"method": False, "function": False, "inplace": False, "out": False}
"""Facts of ops that only other ops call."""
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


KINDS: Final[dict[Kind, OpFacts]] = {
    Kind.POINTWISE: {
        "refuses": "nothing", "draws": False, "shares_memory": False, "elementwise": True,
        "row_major": True, "cheap": True,
    },
    Kind.REDUCE: {"draws": False, "shares_memory": False, "row_major": True},
    Kind.VIEW: {"refuses": "nothing", "draws": False, "cheap": True},
    Kind.CONTRACT: {"draws": False, "shares_memory": False},
    Kind.INDEX: {"draws": False, "shares_memory": False, "row_major": True},
    Kind.RANDOM: {"draws": True, "shares_memory": False},
    Kind.CREATE: {
        "refuses": "nothing", "draws": False, "shares_memory": False, "row_major": True, "cheap": True,
    },
    Kind.COMPOSITE: {},
}  # fmt: skip
"""What the ops of a family have in common; a record that differs says so."""


class TellingNumbers(Promotion):
    """Gives the kernel numbers behind the first operand as scalars, so that it can tell them from tensors."""

    __slots__ = ()

    def cast(self, slot: int, value: Any, carrier: np.dtype[Any]) -> Any:
        made = super().cast(slot, value, carrier)
        return made if slot == 0 or is_array(value) else made[()]


def pointwise(
    name: str,
    kernel: Rule,
    promotion: Promotion | None,
    signature: str | None = None,
    domain: tuple[float, float] = (-2.0, 2.0),
    second_domain: tuple[float, float] | None = None,
    rule: Rule | None = None,
    **facts: Unpack[OpFacts],
) -> Op:
    """An op that works element by element with broadcasting. In-place and out= forms by default; kernels are
    trusted to raise wherever the rule would, so the fast path calls them first; one that does not promote
    has a rule instead. `domain` (and `second_domain`) bound the samples.
    """
    if signature is None:
        signature = UNARY if getattr(kernel, "nin", None) == 1 or _arity(kernel) == 1 else BINARY
    samples = (
        unary_samples(*domain) if signature == UNARY else binary_samples(domain, second_domain or domain)
    )
    plain = not facts.get("namespace")
    told: OpFacts = {"trusted": promotion is not None, "samples": samples}
    if promotion is not None:
        told |= {"inplace": plain, "out": plain}
    facts = KINDS[Kind.POINTWISE] | told | facts
    return Op(name, Kind.POINTWISE, signature, kernel, rule, promotion, **facts)


def _arity(kernel: Rule) -> int | None:
    code = getattr(kernel, "__code__", None)
    return None if code is None else code.co_argcount


def reduce(name: str, kernel: Rule, rule: Rule, signature: str, **facts: Unpack[OpFacts]) -> Op:
    """An op that folds dimensions."""
    told: OpFacts = {"out": not facts.get("namespace")}
    return Op(name, Kind.REDUCE, signature, kernel, rule, **(KINDS[Kind.REDUCE] | told | facts))


def view(name: str, kernel: Rule, rule: Rule, signature: str, **facts: Unpack[OpFacts]) -> Op:
    """An op whose result always shares memory with its first argument."""
    return Op(name, Kind.VIEW, signature, kernel, rule, **(KINDS[Kind.VIEW] | facts))


def contract(name: str, kernel: Rule, rule: Rule, signature: str, **facts: Unpack[OpFacts]) -> Op:
    """Matrix products, convolutions, factorisations: dense work that is worth saving, not recomputing."""
    told: OpFacts = {"out": not facts.get("namespace")}
    return Op(name, Kind.CONTRACT, signature, kernel, rule, **(KINDS[Kind.CONTRACT] | told | facts))


def index(name: str, kernel: Rule, rule: Rule, signature: str, **facts: Unpack[OpFacts]) -> Op:
    """Gathers, scatters, sorts, copies: results are new memory, addressed by data or by position."""
    return Op(name, Kind.INDEX, signature, kernel, rule, **(KINDS[Kind.INDEX] | facts))


def random(name: str, kernel: Rule, rule: Rule, signature: str, **facts: Unpack[OpFacts]) -> Op:
    """An op whose elements are words of a random stream at a given offset: it moves no generator on."""
    told: OpFacts = {"draws": False}
    return Op(name, Kind.RANDOM, signature, kernel, rule, **(KINDS[Kind.RANDOM] | told | facts))


def create(name: str, kernel: Rule, rule: Rule, signature: str, **facts: Unpack[OpFacts]) -> Op:
    """An op that makes a tensor from no tensor's values."""
    return Op(name, Kind.CREATE, signature, kernel, rule, **(KINDS[Kind.CREATE] | facts))


def sampler(signature: str, name: str | None = None, **facts: Unpack[OpFacts]) -> Callable[[Rule], Op]:
    """Decorator: as `composite`, for a body that moves a generator on: two calls differ."""
    return composite(signature, name, Kind.RANDOM, **facts)


def composite(
    signature: str, name: str | None = None, kind: Kind = Kind.COMPOSITE, **facts: Unpack[OpFacts]
) -> Callable[[Rule], Op]:
    """Decorator: the function below, written in ops, is the op. It runs on arrays, tensors and types
    alike. What it does (`refuses`, `draws`) follows from running it on types, unless the record says.
    """

    def define(body: Rule) -> Op:
        told: OpFacts = {"doc": body.__doc__ or ""}
        spelled = name or body.__name__.rstrip("_")
        return Op(spelled, kind, signature, body=body, **(KINDS[kind] | told | facts))

    return define
