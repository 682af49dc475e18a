"""Stack layouts of code whose paths agree, found in one visit of each instruction.

Takes drafts with resolved jumps and handlers; gives the stack before each as a tuple of numbers, or None
where the general run of `layout` has to decide: paths that meet differ, a slot of a variable is taken over,
or the stack is inconsistent. One idea: nearly all code that compilers write is of this kind, and a state that
all edges to an instruction agree on is the one that joining them would give.

A number is one of the kinds below, plus TOUCH times one more than the draft that touched the slot last, for
slots that lie directly on a hole.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from weft.capture.bytecode.drafts import HAS_END_SEND, Draft
from weft.capture.bytecode.effects import EFFECTS, FINAL_OPS, JUMP_EFFECTS, JUMP_OPS
from weft.core.interrupts import let_through

VALUE: Final = 0
SELF: Final = 1
PREVIOUS: Final = 2
LASTI: Final = 3
NULL: Final = 4
HOLE: Final = 5
FILLER: Final = 8
EMPTY: Final = 4
"""A bit of those that are a NULL."""
TOUCH: Final = 16
KIND: Final = TOUCH - 1
KINDS: Final = {
    VALUE: "value", SELF: "self", PREVIOUS: "previous", LASTI: "lasti", NULL: "null", HOLE: "hole",
    FILLER: "filler",
}  # fmt: skip
"""What `layout.StackSlot` calls them."""
TAKE_NULL: Final = frozenset({"CALL", "CALL_KW", "CALL_FUNCTION_EX", "POP_TOP"})
MOVING: Final = frozenset({"LEFT_OUT", "HOLE", "FILL", "END_SEND", "COPY", "SWAP"})
TAKES_SLOT: Final = "LOAD_FAST_AND_CLEAR"
CANNOT_RAISE: Final = frozenset({"PUSH_EXC_INFO"})
"""Protected by handlers that want the stack as it is behind it."""

Slots = tuple[int, ...]
OF_ONE: Final[Slots] = (VALUE,)
PUSHED: Final[dict[str, Slots]] = {"PUSH_NULL": (NULL,), "PUSH_EXC_INFO": (PREVIOUS, VALUE)}
VALUES: Final = tuple([(VALUE,) * count for count in range(4)])


class Link(NamedTuple):
    """A handler of a draft: index of its first draft, native depth, whether the place of raising is
    pushed."""

    target: int
    depth: int
    lasti: bool


class NotInOneVisit(Exception):
    """The general run has to decide."""


FIXED: Final[dict[str, tuple[int, Slots]]] = {
    op: (effect[0], PUSHED.get(op, VALUES[effect[1]]))
    for op, effect in EFFECTS.items()
    if type(effect) is tuple
}
"""What an instruction takes and gives, wherever it stands: on the edge to the next one."""
FIXED["LOAD_METHOD"] = (1, (VALUE, SELF))
JUMPING: Final[dict[str, tuple[int, Slots]]] = {
    op: (pops, VALUES[pushes]) for op, (pops, pushes) in JUMP_EFFECTS.items()
}
"""Likewise, on the edge to a jump's target, where that differs."""
if HAS_END_SEND:
    FIXED["CLEANUP_THROW"] = (3, (FILLER, VALUE))
    JUMPING["SEND"] = (2, (FILLER, VALUE))


def is_canonical(slot: int) -> bool:
    """Whether the canonical stack has a slot, too."""
    return slot % TOUCH not in (HOLE, FILLER)


def after(each: Draft, index: int, slots: Slots, jump: bool = False) -> Slots:
    """The stack behind an instruction, on the edge to the next one or to its jump target."""
    op = each.op
    fixed = FIXED.get(op) if not jump else JUMPING.get(op, FIXED[op])
    if fixed is None:
        if op in MOVING:
            return moved(op, each.arg, index, slots)
        effect: Any = EFFECTS[op]
        pops, pushes = effect(each.arg)
        added: Slots = (VALUE,) * pushes
        if pushes == 2 and op == "LOAD_SUPER_ATTR":
            added = VALUE, SELF
    else:
        pops, added = fixed
    low = len(slots) - pops
    if low < 0:
        raise NotInOneVisit
    if pops and op not in TAKE_NULL:
        for slot in slots[low:]:
            if slot & EMPTY:
                raise NotInOneVisit
    found = slots[:low] + added
    if added and low and found[low - 1] & KIND == HOLE:
        return touched(found, low, index)
    return found


def touched(slots: Slots, low: int, index: int) -> Slots:
    """The stack, where a draft has touched all places from `low` on."""
    found = list(slots)
    for place in range(low or 1, len(found)):
        if found[place - 1] & KIND == HOLE:
            found[place] = found[place] & KIND | (index + 1) * TOUCH
    return tuple(found)


def moved(op: str, arg: Any, index: int, slots: Slots) -> Slots:
    """The stack behind an instruction that moves slots."""
    depth = len(slots)
    if op == "LEFT_OUT":
        return slots
    if op == "HOLE":
        low, found = depth, (*slots, HOLE)
    elif op == "FILL" and depth >= arg + 2:
        low = depth - arg - 2
        found = (*slots[:low], *[slot & KIND for slot in slots[low + 1 :]], NULL)
    elif op == "END_SEND" and depth >= 2:
        low, found = depth - 2, (*slots[:-2], slots[-1])
    elif op == "COPY" and depth >= arg:
        low, found = depth, (*slots, slots[-arg] & KIND)
    elif op == "SWAP" and depth >= arg:
        low = depth - arg
        top = [slot & KIND for slot in slots[low:]]
        top[0], top[-1] = top[-1], top[0]
        found = (*slots[:low], *top)
    else:
        raise NotInOneVisit
    return touched(found, low, index)


def reach(index: int, slots: Slots, states: list[Slots | None], pending: list[int]) -> None:
    """Notes the stack on an edge to a draft, which is visited later if it was not yet."""
    known = states[index]
    if known is None:
        states[index] = slots
        pending.append(index)
    elif known != slots:
        raise NotInOneVisit


def visited(drafts: list[Draft], links: list[Link | None]) -> list[Slots | None] | None:
    """The stack before each draft, None for those that no path reaches; None where paths do not agree."""
    states: list[Slots | None] = [None] * len(drafts)
    pending = [index for index, each in enumerate(drafts) if each.is_root or index == 0]
    for index in pending:
        states[index] = ()
    try:
        while pending:
            index = pending.pop()
            slots = states[index]
            while slots is not None:  # along a path, to where another one was
                each, link = drafts[index], links[index]
                behind = after(each, index, slots)
                if each.op in JUMP_OPS:
                    reach(each.arg, after(each, index, slots, jump=True), states, pending)
                if link is not None and each.op not in CANNOT_RAISE:
                    if link.depth > len(slots):
                        return None
                    raised = (LASTI, VALUE) if link.lasti else OF_ONE
                    reach(link.target, slots[: link.depth] + raised, states, pending)
                if each.op in FINAL_OPS:
                    break
                index += 1
                known = states[index]  # behind the last draft there is none: an IndexError
                if known is None:
                    slots = states[index] = behind
                elif known != behind:
                    return None
                else:
                    break
    except (NotInOneVisit, IndexError) as error:
        let_through(error)
        return None
    return states
