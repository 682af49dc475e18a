"""Forward rules: the derivative of an op's result along given directions, derived from its record.

Takes an op, the directions ("tangents") of its tensor arguments, its result and its arguments; gives the
result's direction. One idea: a gradient rule, which is linear in the gradient, already says everything.
For views and other linear ops the rule is the op itself; for pointwise ops the Jacobian is diagonal, so
the gradient rule *is* the forward rule; any other op transposes its gradient rule, which the autograd
layer does (`NotImplemented` here asks for that).
"""

from __future__ import annotations

from typing import Any

from weft.ops.record import Joint, Kind, Op, ops, type_of

LINEAR = frozenset(
    {
        "sum", "mean", "cumsum", "neg", "clone", "_to_copy", "flip", "roll", "repeat", "tril", "triu",
        "trace", "gather_flat", "scatter_flat", "embed", "diag_embed", "index_select", "gather", "index",
        "take", "_unsafe_view", "embedding",
    }
)  # fmt: skip
"""Ops that are linear in their first argument, the only one a direction can have."""
MULTILINEAR = frozenset({"mul", "matmul", "mm", "bmm", "mv", "dot"})
"""Ops that are linear in each tensor argument while the others stay."""
JOINING = frozenset({"cat", "stack"})
"""Ops that are linear in their list of tensors as a whole."""
WRITING = {"_index_put": 1, "index_copy": 3, "scatter": 3}
"""Ops that write what is in this slot into a copy of their first argument. Their gradient rules hand a place
that is written twice to both sources, so the direction, which the last one gives, is not their transpose."""
SYMMETRIC = frozenset({"softmax"})
"""Ops of one tensor whose Jacobian is its own transpose."""


def forward(op: Op, tangents: tuple[Any, ...], out: Any, bound: tuple[Any, ...]) -> Any:
    """The direction of the result (None: it does not move); NotImplemented where only transposing helps."""
    if op.jvp is not None:
        return op.jvp(tangents, out, *bound)
    if op.kind is Kind.VIEW or op.name in LINEAR:
        return None if tangents[0] is None else op(tangents[0], *bound[1:])
    if op.name in MULTILINEAR:
        parts = [op(*_with(bound, slot, tangents[slot])) for slot in moving(op, tangents)]
        return total(parts)
    if op.name in WRITING:
        return _written(op, tangents, bound)
    if op.name in JOINING:
        joined = [ops.zeros_like(x) if t is None else t for x, t in zip(bound[0], tangents[0], strict=True)]
        return op(joined, *bound[1:])
    if op.name == "linear":
        return _affine(op, tangents, bound)
    if op.kind is Kind.POINTWISE or op.name in SYMMETRIC:
        if op.conjugates and any(is_complex(value) for value in (out, *bound)):
            return NotImplemented  # what turns a gradient is not what turns a direction
        return _diagonal(op, tangents, out, bound)
    return NotImplemented


def is_complex(value: Any) -> bool:
    return hasattr(value, "shape") and type_of(value).dtype.is_complex


def moving(op: Op, tangents: tuple[Any, ...]) -> list[int]:
    """The slots of the single tensors that have a direction."""
    return [slot for slot in op.signature.tensor_slots if tangents[slot] is not None]


def _with(bound: tuple[Any, ...], slot: int, value: Any) -> tuple[Any, ...]:
    return (*bound[:slot], value, *bound[slot + 1 :])


def total(parts: list[Any]) -> Any:
    """The sum of what is not None; None if nothing is."""
    result = None
    for part in parts:
        if part is not None:
            result = part if result is None else ops.add(result, part)
    return result


def _written(op: Op, tangents: tuple[Any, ...], bound: tuple[Any, ...]) -> Any:
    """The source's direction, written into the target's at the same places."""
    if op.name == "scatter" and bound[5] is not None:  # with reduce= it adds or multiplies
        return NotImplemented
    moved = [0 if type(value) in (int, float, bool) else value for value in bound]  # numbers do not move
    moved[1 : WRITING[op.name]] = bound[1 : WRITING[op.name]]
    for slot in (0, WRITING[op.name]):
        if tangents[slot] is not None:
            moved[slot] = tangents[slot]
        elif hasattr(bound[slot], "shape"):
            moved[slot] = ops.zeros_like(bound[slot])
    if op.name == "_index_put":
        moved[4] = bound[4]  # accumulate
    return op(*moved)


def _affine(op: Op, tangents: tuple[Any, ...], bound: tuple[Any, ...]) -> Any:
    """x @ w.T + b: a product's rule, and the bias's own direction, spread over the rows."""
    x, weight, _bias = bound
    parts = [
        None if tangents[0] is None else op(tangents[0], weight, None),
        None if tangents[1] is None else op(x, tangents[1], None),
    ]
    product = total(parts)
    if tangents[2] is None or product is not None:
        return total([product, tangents[2]])
    return NotImplemented


def _diagonal(op: Op, tangents: tuple[Any, ...], out: Any, bound: tuple[Any, ...]) -> Any:
    """Element by element, what a gradient is multiplied with is what a direction is multiplied with."""
    shape, kind = tuple(out.shape), type_of(out).dtype
    parts = []
    for slot in moving(op, tangents):
        tangent = tangents[slot]
        if tuple(tangent.shape) != shape:
            tangent = ops.expand(tangent, shape)
        if type_of(tangent).dtype is not kind:
            tangent = ops._to_copy(tangent, kind)
        part = pullback(op, tangent, out, bound, slot)
        if part is None:
            continue
        if tuple(part.shape) != shape:  # the rule folds dimensions itself: not a diagonal's
            return NotImplemented
        parts.append(part if type_of(part).dtype is kind else ops._to_copy(part, kind))
    return total(parts)


def pullback(op: Op, gradient: Any, out: Any, bound: tuple[Any, ...], wanted: int) -> Any:
    """What the op's gradient rule gives for the argument in slot `wanted`, as the rule leaves it."""
    slots = sorted((*op.signature.tensor_slots, *op.signature.list_slots))
    if isinstance(op.vjp, Joint):
        function: Any = op.vjp.function
        needs = tuple(
            (slot == wanted,) * len(bound[slot]) if slot in op.signature.list_slots else slot == wanted
            for slot in slots
        )
        given = rule_arguments(function, 2, out, bound)
        return function(needs, gradient, *given)[slots.index(wanted)]
    position = slots.index(wanted)
    if op.vjp is None or position >= len(op.vjp) or op.vjp[position] is None:
        return None
    rule: Any = op.vjp[position]
    return rule(gradient, *rule_arguments(rule, 1, out, bound))


def rule_arguments(rule: Any, leading: int, out: Any, bound: tuple[Any, ...]) -> list[Any]:
    """What a gradient rule receives behind its first arguments: types where its parameters' names ask for
    types."""
    code = rule.__code__
    values: list[Any] = [out, *bound]
    if code.co_flags & 0x04:  # *rest: all of them
        return values
    names = code.co_varnames[leading : code.co_argcount]
    return [typed(v) if name.startswith("_") else v for name, v in zip(names, values, strict=False)]


def typed(value: Any) -> Any:
    """Tensors become their types."""
    if isinstance(value, (tuple, list)):
        items = [typed(item) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return type_of(value) if hasattr(value, "dtype") and hasattr(value, "shape") else value
