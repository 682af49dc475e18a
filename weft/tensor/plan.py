"""Plans: how calls of one op are recorded, worked out once per op from its signature and gradient rules.

Gives, for an op, its node class, which arguments each gradient rule reads, and the order in which they are
saved.
"""

from __future__ import annotations

import dis
from typing import TYPE_CHECKING, Any

from weft.ops.record import Joint, Op
from weft.tensor.tape import Node

if TYPE_CHECKING:
    from collections.abc import Callable


OUT = -1  # the source number of the op's own output


class RuleFacts:
    """What one gradient rule reads: saved sources, and which of its type-only parameters it looks at."""

    __slots__ = ("function", "saves", "types", "arity")

    def __init__(self, function: Callable[..., Any], leading: int) -> None:
        self.function = function
        code = function.__code__
        names = code.co_varnames[: code.co_argcount]
        used = _names_used(code)
        self.arity = code.co_argcount - leading
        sources = {name: position - 1 for position, name in enumerate(names[leading:])}
        self.saves = frozenset(s for name, s in sources.items() if not name.startswith("_"))
        self.types = frozenset(s for name, s in sources.items() if name.startswith("_") and name in used)
        if code.co_flags & 0x04:  # *rest: everything else is read
            self.arity = 1 << 30


def _names_used(code: Any) -> set[str]:
    used: set[str] = set()
    for instruction in dis.get_instructions(code):
        value = instruction.argval
        used.update(value if isinstance(value, tuple) else (value,) if isinstance(value, str) else ())
    return used


class Plan:
    """How calls of one op are recorded."""

    __slots__ = (
        "op",
        "tensor_slots",
        "list_slots",
        "plain_slots",
        "rules",
        "joint",
        "saved",
        "node_class",
        "out_type",
        "fixed",
    )

    def __init__(self, op: Op) -> None:
        self.op = op
        signature = op.signature
        self.tensor_slots = signature.tensor_slots
        self.list_slots = signature.list_slots
        tensors = {*self.tensor_slots, *self.list_slots}
        self.plain_slots = tuple(i for i in range(len(signature.parameters)) if i not in tensors)
        self.fixed = not self.list_slots
        self.joint = RuleFacts(op.vjp.function, 2) if isinstance(op.vjp, Joint) else None
        self.rules: tuple[RuleFacts | None, ...] = ()
        if isinstance(op.vjp, tuple):
            self.rules = tuple(None if rule is None else RuleFacts(rule, 1) for rule in op.vjp)
        facts = [f for f in (*self.rules, self.joint) if f is not None]
        inputs = (*self.tensor_slots, *self.list_slots)
        wanted = {source for f in facts for source in f.saves if source == OUT or source in inputs}
        self.saved = tuple(sorted(wanted))
        self.out_type = any(OUT in f.types for f in facts)
        self.node_class = self._make_node_class()

    def _make_node_class(self) -> type[Node]:
        op = self.op
        name = op.node or "".join(part.capitalize() for part in op.name.strip("_").split("_")) + "Backward0"
        names = op.signature.names
        labels = tuple(
            "result" if s == OUT else "self" if names[s] == "input" else names[s] for s in self.saved
        )
        return type(
            name, (Node,), {"__slots__": (), "op": op, "saved_sources": self.saved, "saved_names": labels}
        )

    def saved_for(self, needs: tuple[bool, ...]) -> frozenset[int]:
        """The sources to save when these inputs need gradients."""
        if self.joint is not None:
            return self.joint.saves
        wanted: frozenset[int] = frozenset()
        for rule, need in zip(self.rules, needs, strict=False):
            if need and rule is not None:
                wanted |= rule.saves
        return wanted


_PLANS: dict[Op, Plan] = {}


def plan_of(op: Op) -> Plan:
    """The one plan of an op: node classes are compared, and have their backward functions added."""
    plan = _PLANS.get(op)
    if plan is None:
        plan = _PLANS.setdefault(op, Plan(op))
    return plan
