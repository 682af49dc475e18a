"""Effects: what a node does besides computing its value.

Takes a node; says whether it draws random numbers, which inputs it writes, whether its result may share
memory with an input, whether it is there to fail, and whether it may do anything else. One idea: the answers
follow from the kind of the op record behind the target and from the form of the call (in place, `out=`); a
target without a record can do anything.
"""

from __future__ import annotations

import math
import operator
from functools import cache, lru_cache
from types import CodeType, FunctionType
from typing import Any, Final

from weft.core.records import dataclass
from weft.core.requirements import require
from weft.graph.node import Node, nodes_in
from weft.ops.record import REGISTRY, Kind, Op

IN_PLACE_OPERATORS: Final = frozenset(
    {
        operator.iadd, operator.isub, operator.imul, operator.itruediv, operator.ifloordiv, operator.imod,
        operator.ipow, operator.imatmul, operator.iand, operator.ior, operator.ixor, operator.ilshift,
        operator.irshift, operator.setitem, operator.delitem, operator.iconcat,
    }
)  # fmt: skip
PURE_FUNCTIONS: Final = frozenset(
    {
        operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod,
        operator.pow, operator.matmul, operator.and_, operator.or_, operator.xor, operator.lshift,
        operator.rshift, operator.neg, operator.pos, operator.invert, operator.abs, operator.eq, operator.ne,
        operator.lt, operator.le, operator.gt, operator.ge, operator.getitem, operator.not_, operator.truth,
        operator.is_, operator.is_not, operator.index, operator.concat, operator.contains, abs, bool, complex,
        divmod, float, getattr, int, len, max, min, pow, round, sum, slice, tuple,
        *(value for name, value in vars(math).items() if callable(value) and not name.startswith("_")),
    }
)  # fmt: skip
"""Functions of Python whose value is all they give, on tensors and on numbers."""
ALIASING_FUNCTIONS: Final = frozenset({operator.getitem, getattr, operator.pos, tuple, max, min, sum})
"""Those whose result may be, or share memory with, an argument."""


@dataclass(frozen=True, slots=True)
class Effect:
    """What a node does: nothing else than compute, when all are false or empty."""

    random: bool = False
    writes: tuple[Node, ...] = ()
    aliases: bool = True
    unknown: bool = False
    checks: bool = False
    """Whether it fails where the graph must not be used: it stays, and before what writes to inputs."""

    @property
    def pure(self) -> bool:
        return not (self.random or self.writes or self.unknown or self.checks)


NATIVE: Final = "native"
"""Marks, in a node's meta, one that is to run as it is: what it leaves on the tape is looked at."""
ACCUMULATES: Final = "accumulates"
"""Marks, in a node's meta, a clone that exists only so that a leaf's `.grad` is nobody else's."""
LIES: Final = "lies"
"""Says, in a node's meta, what its strides are in elements, though its op would choose others; or whether it
lies where its first argument does, which it is written over.
"""
PURE: Final = Effect(aliases=False)
CHECK: Final = Effect(aliases=False, checks=True)
PURE_ALIASING: Final = Effect()
UNKNOWN: Final = Effect(unknown=True)
_IDENTITIES: Final = frozenset({"to", "type", "float", "double", "half", "detach", "alias"})
"""Ops that may give their argument itself, or share its memory, though their kind does not say so."""
_SWITCHES: Final = ("training", "train", "use_input_stats", "max_norm", "dropout_p")
"""Parameters of composites without which these neither draw nor write."""


_CALLS: Final = ("call_function", "call_method")
_HASHED: Final = (FunctionType, Op)


def op_of(node: Node) -> tuple[Op, str] | None:
    """The record behind a call, with the name of the form that was called (`add`, `add_`)."""
    target = node.target
    if isinstance(target, Op):
        return target, target.name
    if node.op == "call_method":
        return _op_of_method(target)
    op = getattr(target, "op", None)
    return (op, target.__name__) if isinstance(op, Op) else None


@lru_cache(maxsize=1024)
def _op_of_method(name: str) -> tuple[Op, str] | None:
    for spelled in (name, name.removesuffix("_")):
        op = REGISTRY.get(spelled) or next((o for o in REGISTRY.values() if spelled in o.aliases), None)
        if op is not None and (op.method or (op.inplace and spelled != name)):
            return op, op.name + ("_" if spelled != name else "")
    return None


_STEADY: Final[dict[Any, Effect]] = {}
"""By target: the effects of our own ops that have the same whatever they are given (but for `out`)."""


def effect(node: Node) -> Effect:
    """What this node does besides computing its value."""
    target = node.target
    if type(target) in _HASHED and "effect" not in node.meta:
        steady = _STEADY.get(target)
        if steady is not None and "out" not in node.kwargs and node.op in _CALLS:
            return steady
    if node.op in ("placeholder", "get_attr", "output"):
        return PURE_ALIASING
    told = node.meta.get("effect")
    if told is not None:  # by whoever made the node, and knows what its graphs do
        return told  # type: ignore[no-any-return]
    if node.op == "call_module":
        return UNKNOWN
    found = op_of(node)
    if found is not None:
        return _effect_of_op(node, *found)
    if node.op == "call_method":
        return PURE if node.target == "item" else UNKNOWN
    if node.target in IN_PLACE_OPERATORS:
        return Effect(writes=tuple(nodes_in(node.args[0])))
    if node.target in PURE_FUNCTIONS:
        return PURE_ALIASING if node.target in ALIASING_FUNCTIONS else PURE
    return CHECK if node.target is require else UNKNOWN


@cache
def _steady_effect(op: Op, called: str) -> Effect | None:
    """The effect of an op whatever it is given (but for `out`); None where that makes a difference."""
    writes = called == f"{op.name}_" or op.name.endswith("_") or "inplace" in op.signature.names
    if writes or body_effects(op):
        return None
    shares = op.kind in (Kind.VIEW, Kind.COMPOSITE, Kind.INDEX) or op.name in _IDENTITIES
    return Effect(aliases=shares)


def _effect_of_op(node: Node, op: Op, called: str) -> Effect:
    if "out" not in node.kwargs:
        steady = _steady_effect(op, called)
        if steady is not None:
            if type(node.target) in _HASHED and not op.namespace.startswith("ops."):
                _STEADY[node.target] = steady
            return steady
    written = nodes_in(node.kwargs.get("out"))
    if called == f"{op.name}_" or op.name.endswith("_") or _given(node, op).get("inplace"):
        written += nodes_in(node.args[0] if node.args else next(iter(node.kwargs.values()), None))
    reached = body_effects(op)
    if reached:
        given = _given(node, op)
        if any(name in given and given[name] in (False, None) for name in _SWITCHES):
            reached = frozenset()
    if "writes" in reached:
        written = node.all_input_nodes
    shares = op.kind in (Kind.VIEW, Kind.COMPOSITE, Kind.INDEX) or bool(written) or op.name in _IDENTITIES
    return Effect(random="draws" in reached, writes=tuple(written), aliases=shares)


def _given(node: Node, op: Op) -> dict[str, Any]:
    """The arguments of a call by name, with defaults."""
    defaults = dict(zip(op.signature.names, op.signature.defaults))
    return {**defaults, **dict(zip(op.signature.names, node.args)), **node.kwargs}


@cache
def body_effects(op: Op) -> frozenset[str]:
    """What an op may do according to its record: "draws" random numbers, "writes" into its arguments.

    A composite's body is read, not run: every op it names, in any helper it names, counts. `philox` ops take
    their key and offset as arguments, and compute.
    """
    if op.kind is Kind.RANDOM:
        return frozenset() if op.name.startswith("philox_") else frozenset({"draws"})
    found: set[str] = set()
    if op.kind is Kind.COMPOSITE and op.body is not None:
        _read_body(op.body, found, {id(op)})
    return frozenset(found)


def _read_body(function: Any, found: set[str], seen: set[int]) -> None:
    if not isinstance(function, FunctionType) or id(function) in seen:
        return
    seen.add(id(function))
    for name in names_in(function.__code__):
        value = function.__globals__.get(name, REGISTRY.get(name))
        op = value if isinstance(value, Op) else getattr(value, "op", None)
        if isinstance(op, Op):
            if op.kind is Kind.RANDOM:
                found.update(body_effects(op))
            elif op.kind is Kind.COMPOSITE and id(op) not in seen:
                seen.add(id(op))
                _read_body(op.body, found, seen)
        elif name.endswith("_") and not name.startswith("_"):
            base = REGISTRY.get(name[:-1])
            if name == "copy_" or (base is not None and base.inplace):
                found.add("writes")
        elif (getattr(value, "__module__", None) or "").startswith("weft.ops"):
            _read_body(value, found, seen)


def names_in(code: CodeType) -> list[str]:
    """Every name that the code, or a function written in it, reads."""
    names = list(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names += names_in(constant)
    return names


def impure(node: Node) -> bool:
    """Whether a node must stay though nobody reads it."""
    return node.op in ("placeholder", "output") or not effect(node).pure
