"""Effects: what a node does besides computing its value.

Takes a node; says whether it draws random numbers, which inputs it writes, whether its result may share
memory with an input, whether it may raise for some data of the types that it was made for, and whether it may
do anything else. One idea: the answers are those of the record behind the target (`weft.ops.behaviour`) and
of the form of the call (in place, `out=`); a target without a record can do anything.
"""

from __future__ import annotations

import math
import operator
from functools import lru_cache
from types import FunctionType
from typing import Any, Final

from weft.core.dtypes import dtype
from weft.core.records import record
from weft.core.requirements import require
from weft.core.symbolic import Symbolic
from weft.core.types import TensorType
from weft.graph.node import Node, nodes_in
from weft.ops.behaviour import UNTYPED, Behaviour, behaviour, depends_on_types, follows_body
from weft.ops.record import REGISTRY, Kind, Op, ops
from weft.ops.signature import flatten_variadic

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


@record(frozen=True, slots=True)
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
"""Marks, in a node's meta, a clone that exists only so that a leaf's `.grad` is not aliased."""
LIES: Final = "lies"
"""Says, in a node's meta, what its strides are in elements, though its op would choose others; or whether it
lies where its first argument does, which it is written over.
"""
PURE: Final = Effect(aliases=False)
CHECK: Final = Effect(aliases=False, checks=True)
PURE_ALIASING: Final = Effect()
UNKNOWN: Final = Effect(unknown=True)
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
    if type(target) in _HASHED:
        steady = _STEADY.get(target)
        if steady is not None and "out" not in node._kwargs and "effect" not in node.meta:
            if node.op in _CALLS:
                return steady
    if node.op in ("placeholder", "get_attr", "output"):
        return PURE_ALIASING
    told: Effect | None = node.meta.get("effect")
    if told is not None:  # by whoever made the node, and knows what its graphs do
        return told
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


def _effect_of_op(node: Node, op: Op, called: str) -> Effect:
    in_place = called == f"{op.name}_" or op.name.endswith("_")
    varies = in_place or follows_body(op) or "inplace" in op.signature.names
    if not varies and "out" not in node.kwargs:
        steady = Effect(random=op.draws is not False, aliases=op.shares_memory)
        if type(node.target) in _HASHED and not op.namespace.startswith("ops."):
            _STEADY[node.target] = steady
        return steady
    given = arguments_of(node, op)
    written = nodes_in(node.kwargs.get("out"))
    if in_place or given.get("inplace"):
        written += nodes_in(node.args[0] if node.args else next(iter(node.kwargs.values()), None))
    done = behaviour_of(node, op)
    for position in done.writes:
        written += nodes_in(given[op.signature.names[position]])
    shares = op.shares_memory or bool(written)
    return Effect(random=done.draws, writes=tuple(dict.fromkeys(written)), aliases=shares)


def arguments_of(node: Node, op: Op) -> dict[str, Any]:
    """The arguments of a call by name, with defaults; a variadic parameter has a tuple."""
    args = node.args
    for position, parameter in enumerate(op.signature.parameters):
        if parameter.variadic and len(args) > position:
            args = (*args[:position], args[position:])
    defaults = dict(zip(op.signature.names, op.signature.defaults))
    return {**defaults, **dict(zip(op.signature.names, args)), **node.kwargs}


def behaviour_of(node: Node, op: Op) -> Behaviour:
    """What the call of an op does, given that its inputs have the types they had."""
    if not depends_on_types(op):
        return behaviour(op, ())
    given = {name: _typed(value) for name, value in arguments_of(node, op).items()}
    for parameter in op.signature.parameters:
        if parameter.variadic and isinstance(given[parameter.name], tuple):
            given[parameter.name] = flatten_variadic(given[parameter.name])
    return behaviour(op, tuple(given.get(name) for name in op.signature.names), _typed(node))


def _typed(value: Any) -> Any:
    """An argument with types for tensors, and hints for symbolic numbers, which are not asked for their
    value.
    """
    if isinstance(value, Node):
        value = value.meta.get("val", UNTYPED)
    if isinstance(value, Symbolic):
        return value.hint
    if isinstance(value, (tuple, list)):
        return tuple(map(_typed, value))
    if isinstance(value, slice):
        return slice(*map(_typed, (value.start, value.stop, value.step)))
    kind = getattr(value, "dtype", None)
    if isinstance(kind, dtype) and not isinstance(value, TensorType):
        return TensorType(map(_typed, value.shape), kind, value.device)
    return value


def impure(node: Node) -> bool:
    """Whether a node has side effects, so that it stays even if it is unused."""
    return node.op in ("placeholder", "output") or not effect(node).pure


# -- what may raise ------------------------------------------------------------------------------------------
SAFE_CALLS: Final = frozenset(
    {
        "item", "copy_", "fill_", "zero_", "detach", "detach_", "to", "float", "double", "half", "bfloat16",
        "long", "int", "bool", "type", "type_as", "cpu", "contiguous", "requires_grad_", "size", "dim",
    }
)  # fmt: skip
"""Methods without a record that only read, copy or convert."""
SAFE_FUNCTIONS: Final = (PURE_FUNCTIONS - {f for f in vars(math).values() if callable(f)}) - {
    complex, divmod, float, int, pow, round,
}  # fmt: skip


DIVISIONS: Final = frozenset(
    {
        operator.floordiv, operator.mod, operator.truediv, operator.lshift, operator.rshift, operator.pow,
        operator.ipow, operator.itruediv, operator.ifloordiv, operator.imod, operator.ilshift,
        operator.irshift,
    }
)  # fmt: skip
"""Operators that refuse some numbers, and on tensors some integers."""


def can_fail(node: Node) -> bool:
    """Whether a node may raise for some data, given that its inputs have the types they had: yes, where that
    is not known.
    """
    if not node.op.startswith("call_"):
        return False
    if "writes" in node.meta and overlaps(node):
        return True
    target = node.target
    if type(target) in _HASHED:
        known = _REFUSING.get(target)
        if known is not None:
            return known
    if target in INDEXING:
        return bool(nodes_in(node.args[1]))  # an index among the data
    found = op_of(node)
    if found is not None:
        op = found[0]
        if op in (ops.view, ops.view_as):
            return wants_layout(node) if node.op == "call_method" else not _is_laid_out(node.args[0])
        refuses = behaviour_of(node, op).refuses
        if type(target) in _HASHED and not depends_on_types(op) and not op.namespace.startswith("ops."):
            _REFUSING[target] = refuses
        return refuses
    if target in DIVISIONS:
        return not _is_floating(node.meta.get("val"))
    if node.op == "call_method":
        return target not in SAFE_CALLS
    if node.op == "call_function" and target in SAFE_FUNCTIONS:
        return False
    name = getattr(target, "__name__", "")
    return not (getattr(target, "__module__", "") == "_operator" or name.startswith("_set_"))


_REFUSING: Final[dict[Any, bool]] = {}
"""By target: whether our own ops may raise, where that is one fact of the record."""
INDEXING: Final = frozenset({operator.getitem, operator.setitem})


def overlaps(node: Node) -> bool:
    """Whether a node reads memory that it writes, as another tensor: with a part in common, it is refused."""
    for written in node.meta.get("writes", ()):
        target = written.meta.get("val")
        for other in node.all_input_nodes:
            value = other.meta.get("val")
            if other is not written and value is not target and _memory(value) & _memory(target):
                return True
    return False


def _memory(value: object) -> set[int]:
    """What tensors over the same memory have in common: a version, or a count of writes."""
    found = getattr(value, "cell", None), getattr(getattr(value, "array", None), "written", None)
    return {id(each) for each in found if type(each) is list}


def wants_layout(node: Node) -> bool:
    """Whether a view of a captured graph may refuse a tensor with other strides than in the capture, which no
    guard checks: a view that joins dimensions may.
    """
    source = node.all_input_nodes[0]
    before, after = source.meta.get("val"), node.meta.get("val")
    if getattr(before, "dtype", None) is getattr(after, "dtype", None):
        if not _joins_axes(_shape(source), _shape(node)):
            return False
    waiting, seen = [source], {source}
    while waiting:
        each = waiting.pop()
        if each.op == "placeholder":
            return True
        found, written = op_of(each), each.meta.get("writes", ())  # what a write gives is what it writes
        fresh = each.target == "contiguous" or (found is not None and found[0].kind not in LIE_ALIKE)
        if fresh and not written:
            continue
        views = written or found is None or found[0].kind is Kind.VIEW
        for used in written or each.all_input_nodes:
            if used not in seen and (views or _may_be_equal(_shape(used), _shape(each))):
                seen.add(used)
                waiting.append(used)
    return False


LIE_ALIKE: Final = (Kind.POINTWISE, Kind.VIEW, Kind.COMPOSITE)
"""Kinds of ops whose results may lie as what they are given."""


def _joins_axes(before: Any, after: Any) -> bool:
    """Whether an axis of a view may be more than a part of one axis before. Sizes that are open are not asked
    for their values."""
    left = [size for size in map(_told, reversed(before or ())) if size != 1]
    room: Any = 1
    for size in map(_told, reversed(after or ())):
        if size == 1:
            continue
        if room == 1 and left:
            room = left.pop(0)
        if size == room and size != 0:
            room = 1
        elif type(size) is not int or type(room) is not int or size == 0 or room % size:
            return True
        else:
            room //= size
    return False


def _told(size: Any) -> Any:
    """A size, or the expression that it is."""
    return size.expression if isinstance(size, Symbolic) else size


def _may_be_equal(one: Any, other: Any) -> bool:
    """Whether two shapes are equal for some values of what is open."""
    if one is None or other is None or len(one) != len(other):
        return one is other
    pairs = zip(one, other, strict=True)
    return all(isinstance(a, Symbolic) or isinstance(b, Symbolic) or a == b for a, b in pairs)


def _shape(node: Node) -> Any:
    return getattr(getattr(node.meta.get("val"), "array", None), "shape", None)


def _is_laid_out(node: object) -> bool:
    """Whether the strides of a value are known, so that whether they allow a view is, too."""
    array = getattr(node.meta.get("val"), "array", None) if isinstance(node, Node) else None
    return getattr(array, "exact", True)


def _is_floating(value: object) -> bool:
    kind = getattr(value, "dtype", None)
    return isinstance(kind, dtype) and bool(kind.is_floating_point or kind.is_complex)
