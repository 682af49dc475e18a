"""Stack layouts: the contents of the stack before every instruction, canonical and native at once.

Takes drafts and the exception table, gives the drafts in canonical form with their jumps resolved, a `State`
and a handler for each. One idea: an abstract run along all paths. It moves the NULLs of calls to their
canonical place, finds which fast loads give a cell, and checks that every path agrees on the stack.

# Note [Holes]
3.11 and 3.12 push the NULL of a plain call *before* they evaluate the callable:

    PUSH_NULL; <callable>; <arguments>; CALL          canonical:  <callable>; PUSH_NULL; <arguments>; CALL

While the callable is evaluated the native stack has a slot that the canonical one has not: a hole. The end of
<callable> is the last instruction that touched the slot above the hole, on the way to this CALL, and from
there the first point at which nothing lies above that slot. There the hole is filled: op FILL, which becomes
PUSH_NULL. Jumps to that point come from inside <callable> and go to FILL; only where code was entered in the
middle (resume.py) may one come with its call complete already, and goes past it. The second run checks all
this: a hole meets nothing but a hole, and no CALL takes one.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import CodeType
from typing import Any, Final, NamedTuple

from weft.capture.bytecode import single_visit
from weft.capture.bytecode.drafts import HAS_END_SEND, NO_ENTRY, Draft
from weft.capture.bytecode.effects import FINAL_OPS, JUMP_OPS, stack_effect
from weft.capture.bytecode.native import Protected, read_exception_table
from weft.capture.bytecode.single_visit import (
    CANNOT_RAISE,
    TAKE_NULL,
    TAKES_SLOT,
    TOUCH,
    Link,
    Slots,
    is_canonical,
    visited,
)

INTERNAL = frozenset({"HOLE", "END_SEND", "LEFT_OUT"})
CALLS = frozenset({"CALL", "CALL_KW", "CALL_FUNCTION_EX"})
SAVED_CELL = ".saved"
"""Parameters of resumed code that are called `.saved0 name`: a cell that LOAD_FAST_AND_CLEAR took."""


class StackSlot(NamedTuple):
    """One place on the stack.

    kind: value; null (of a call); self (of a looked-up method: a value or NULL); saved (by
    LOAD_FAST_AND_CLEAR: a value, a cell or NULL); previous (the exception that was handled before this one);
    lasti (where an exception was raised, in native code units); and those only the native stack has: hole,
    filler (any value).
    """

    kind: str
    detail: Any = None
    touched: frozenset[int] = frozenset()
    """Directly above a hole: the drafts that touched this slot last."""

    @property
    def native_only(self) -> bool:
        return self.kind in ("hole", "filler")


VALUE = StackSlot("value")
NULL = StackSlot("null")


class State(NamedTuple):
    """The stack before an instruction, and the cell variables whose slot holds a plain value now."""

    slots: tuple[StackSlot, ...]
    plain: frozenset[str]


class InconsistentStack(ValueError):
    """Paths that meet with different stacks, or an instruction that finds too little on its own."""


def _pushed(each: Draft, count: int) -> list[StackSlot]:
    """The slots that an op leaves on top."""
    if each.op in ("LOAD_METHOD", "LOAD_SUPER_ATTR") and count == 2:
        return [VALUE, StackSlot("self")]
    if each.op == "PUSH_NULL":
        return [NULL]
    if each.op == "PUSH_EXC_INFO":
        return [StackSlot("previous"), VALUE]
    if each.op == "LOAD_FAST_AND_CLEAR":
        return [StackSlot("saved", (each.arg, False))]
    if each.op == "LOAD_FAST" and each.arg.startswith(SAVED_CELL):
        return [StackSlot("saved", (each.arg.partition(" ")[2], True))]
    return [VALUE] * count


def _moved(each: Draft, index: int, slots: tuple[StackSlot, ...], jump: bool) -> tuple[list[StackSlot], int]:
    """The stack after an op, and the lowest place that it touched."""
    depth = len(slots)
    if each.op == "HOLE":
        return [*slots, StackSlot("hole")], depth
    if each.op == "FILL":
        hole = depth - each.arg - 2
        return [
            *slots[:hole],
            *[slot._replace(touched=frozenset()) for slot in slots[hole + 1 :]],
            NULL,
        ], hole
    if each.op == "COPY":
        return [*slots, slots[-each.arg]._replace(touched=frozenset())], depth
    if each.op == "SWAP":
        top = [slot._replace(touched=frozenset()) for slot in slots[depth - each.arg :]]
        top[0], top[-1] = top[-1], top[0]
        return [*slots[: depth - each.arg], *top], depth - each.arg
    if each.op == "END_SEND":
        return [*slots[:-2], slots[-1]], depth - 2
    if each.op == "LEFT_OUT":
        return list(slots), depth
    pops, pushes = stack_effect(each.op, each.arg, jump)
    if pops > depth:
        raise InconsistentStack(f"{each.op} at {each.offset} needs {pops} values and finds {depth}")
    if each.op not in TAKE_NULL and any(slot.kind in ("null", "hole") for slot in slots[depth - pops :]):
        raise InconsistentStack(f"{each.op} at {each.offset} finds a NULL")
    added = _pushed(each, pushes)
    if HAS_END_SEND and (each.op == "CLEANUP_THROW" or each.op == "SEND" and jump):
        added = [StackSlot("filler"), VALUE]
    return [*slots[: depth - pops], *added], depth - pops


def _advance(each: Draft, index: int, state: State, cells: frozenset[str], jump: bool = False) -> State:
    """The state after an instruction, on the edge to the next one or to its jump target."""
    slots, low = _moved(each, index, state.slots, jump)
    for place in range(max(low, 1), len(slots)):
        if slots[place - 1].kind == "hole":
            slots[place] = slots[place]._replace(touched=frozenset({index}))
    plain = state.plain
    if each.arg in cells if isinstance(each.arg, str) else False:
        if each.op == "LOAD_FAST_AND_CLEAR":
            was_plain = each.arg in plain
            slots[-1] = slots[-1]._replace(detail=(each.arg, not was_plain))
            plain |= {each.arg}
        elif each.op == "MAKE_CELL" or each.op == "STORE_FAST" and state.slots[-1].detail == (each.arg, True):
            plain -= {each.arg}
    return State(tuple(slots), plain)


def _join_slots(one: StackSlot, other: StackSlot, filled: bool) -> StackSlot:
    if one == other:
        return one
    touched = one.touched | other.touched
    if not filled and "hole" in (one.kind, other.kind):
        return StackSlot(
            "hole", None, touched
        )  # resumed code jumps in with its call complete: no hole on that path
    detail = one.detail if one.detail == other.detail else None
    if one.kind == other.kind:
        return StackSlot(one.kind, detail, touched)
    kinds = {one.kind, other.kind}
    if kinds == {"value", "lasti"}:  # code that was entered in the middle got it as an argument
        return StackSlot("lasti", detail, touched)
    if not kinds <= {"null", "self", "value"}:
        raise InconsistentStack(f"a {one.kind} meets a {other.kind}")
    return StackSlot("self", detail, touched)


def _join(one: State | None, other: State, where: Draft, filled: bool) -> State:
    if one is None:
        return other
    if len(one.slots) != len(other.slots):
        raise InconsistentStack(
            f"{where.op} at {where.offset}: {len(one.slots)} values on one path, {len(other.slots)} on one"
        )
    slots = tuple([_join_slots(mine, yours, filled) for mine, yours in zip(one.slots, other.slots)])
    return State(slots, one.plain | other.plain)


class Layouts:
    """The abstract run over one list of drafts, whose jumps are indices into it."""

    saves = False
    """Whether a slot may hold what a variable's slot did."""

    def __init__(self, drafts: list[Draft], links: list[Link | None], cells: frozenset[str]) -> None:
        self.drafts, self.links, self.cells = drafts, links, cells

    def state(self, index: int) -> State | None:
        """The state before a draft, None where no path leads."""
        raise NotImplementedError

    def depth(self, index: int) -> int | None:
        """How many slots there are before a draft."""
        raise NotImplementedError

    def depth_after(self, index: int) -> int:
        raise NotImplementedError

    def canonical_depth(self, index: int, depth: int) -> int | None:
        """How many of the lowest slots before a draft the canonical stack has, too."""
        raise NotImplementedError

    def is_hole(self, index: int, place: int) -> bool:
        """Whether a slot before a draft is a hole."""
        raise NotImplementedError

    def last_touch(self, index: int, place: int) -> int:
        """The last draft that touched a slot that lies on a hole, before a draft."""
        raise NotImplementedError

    def jumps_into_hole(self, index: int, place: int) -> bool:
        """Whether there is a hole at a place where a draft jumps to, by this jump."""
        raise NotImplementedError


class Agreeing(Layouts):
    """Of code whose paths agree: see `single_visit`."""

    def __init__(
        self, drafts: list[Draft], links: list[Link | None], cells: frozenset[str], slots: list[Slots | None]
    ) -> None:
        super().__init__(drafts, links, cells)
        self.slots = slots

    def state(self, index: int) -> State | None:
        slots = self.slots[index]
        return None if slots is None else State(tuple(map(_slot, slots)), NO_NAMES)

    def depth(self, index: int) -> int | None:
        slots = self.slots[index]
        return None if slots is None else len(slots)

    def canonical_depth(self, index: int, depth: int) -> int | None:
        slots = self.slots[index]
        return None if slots is None else sum(map(is_canonical, slots[:depth]))

    def _after(self, index: int, jump: bool = False) -> Slots:
        slots = self.slots[index]
        assert slots is not None
        return single_visit.after(self.drafts[index], index, slots, jump)

    def depth_after(self, index: int) -> int:
        return len(self._after(index))

    def is_hole(self, index: int, place: int) -> bool:
        slots = self.slots[index]
        assert slots is not None
        return slots[place] % TOUCH == single_visit.HOLE

    def last_touch(self, index: int, place: int) -> int:
        slots = self.slots[index]
        assert slots is not None
        return slots[place] // TOUCH - 1

    def jumps_into_hole(self, index: int, place: int) -> bool:
        return self._after(index, jump=True)[place] % TOUCH == single_visit.HOLE


NO_NAMES: Final[frozenset[str]] = frozenset()


def _slot(number: int) -> StackSlot:
    touch, kind = divmod(number, TOUCH)
    return StackSlot(single_visit.KINDS[kind], None, frozenset({touch - 1} if touch else ()))


class Joined(Layouts):
    """Of any code: where paths meet, their states are joined until nothing changes."""

    saves = True

    def __init__(
        self, drafts: list[Draft], links: list[Link | None], cells: frozenset[str], filled: bool = False
    ) -> None:
        super().__init__(drafts, links, cells)
        self.filled = filled
        self.states: list[State | None] = [None] * len(drafts)
        if drafts:
            self._run()

    def _run(self) -> None:
        pending = [index for index, each in enumerate(self.drafts) if each.is_root or index == 0]
        for index in pending:
            self.states[index] = State((), frozenset())
        while pending:
            index = pending.pop()
            for target, state in self.edges(index):
                if target >= len(self.drafts):
                    raise InconsistentStack("the code runs past its end")
                joined = _join(self.states[target], state, self.drafts[target], self.filled)
                if joined != self.states[target]:
                    self.states[target] = joined
                    pending.append(target)

    def edges(self, index: int) -> Iterator[tuple[int, State]]:
        each, state = self.drafts[index], self.states[index]
        assert state is not None
        if each.op in JUMP_OPS:
            yield each.arg, _advance(each, index, state, self.cells, jump=True)
        after = _advance(each, index, state, self.cells)
        if each.op not in FINAL_OPS:
            yield index + 1, after
        link = self.links[index]
        if link is not None and each.op not in CANNOT_RAISE:
            if link.depth > len(state.slots):
                raise InconsistentStack(f"{each.op} at {each.offset}: its handler wants {link.depth} values")
            raised = [StackSlot("lasti"), VALUE] if link.lasti else [VALUE]
            # A handler of the instruction that takes a cell out of its slot sees it taken: it cannot raise.
            yield link.target, State((*state.slots[: link.depth], *raised), after.plain)

    def state(self, index: int) -> State | None:
        return self.states[index]

    def depth(self, index: int) -> int | None:
        state = self.states[index]
        return None if state is None else len(state.slots)

    def canonical_depth(self, index: int, depth: int) -> int | None:
        state = self.states[index]
        return None if state is None else sum(not slot.native_only for slot in state.slots[:depth])

    def _after(self, index: int, jump: bool = False) -> State:
        state = self.states[index]
        assert state is not None
        return _advance(self.drafts[index], index, state, self.cells, jump)

    def depth_after(self, index: int) -> int:
        return len(self._after(index).slots)

    def is_hole(self, index: int, place: int) -> bool:
        state = self.states[index]
        assert state is not None
        return state.slots[place].kind == "hole"

    def last_touch(self, index: int, place: int) -> int:
        state = self.states[index]
        assert state is not None
        return max(state.slots[place].touched)

    def jumps_into_hole(self, index: int, place: int) -> bool:
        return self._after(index, jump=True).slots[place].kind == "hole"


def laid_out(
    drafts: list[Draft], links: list[Link | None], cells: frozenset[str], saves: bool, filled: bool = False
) -> Layouts:
    """The layouts of drafts, in one visit of each where that is enough. `saves`: whether a slot of the stack
    may be what a variable held.
    """
    slots = None if saves else visited(drafts, links)
    return Joined(drafts, links, cells, filled) if slots is None else Agreeing(drafts, links, cells, slots)


def _fill_points(layouts: Layouts) -> dict[int, int]:
    """Before which draft a callable is complete: index -> depth of its hole."""
    points: dict[int, int] = {}
    for index, each in enumerate(layouts.drafts):
        depth = layouts.depth(index) if each.op in CALLS else None
        if depth is None:
            continue
        place = depth - stack_effect(each.op, each.arg)[0]
        if place < 0 or not layouts.is_hole(index, place):
            continue
        point = layouts.last_touch(index, place + 1) + 1
        while point < index and layouts.depth_after(point - 1) != place + 2:
            point += 1
        points[point] = place
    return points


def _fill(layouts: Layouts, index: int, place: int) -> list[Draft]:
    """What fills the hole at `place` before the draft at `index`."""
    following, before = layouts.drafts[index], layouts.drafts[index - 1]
    above = layouts.depth_after(index - 1) - place - 2
    fill = Draft("FILL", above, before.offset, before.positions, following.entry, following.rest)
    # The compiler swapped the arguments under the callable (generic functions): the NULL must pass them too.
    swaps = [
        Draft("SWAP", depth, before.offset, before.positions, NO_ENTRY) for depth in range(above + 1, 1, -1)
    ]
    return [fill, *swaps]


def _filled(layouts: Layouts) -> tuple[list[Draft], list[Link | None]]:
    """The drafts with FILLs put in, jumps and handlers renumbered."""
    points = _fill_points(layouts)
    drafts: list[Draft] = []
    links: list[Link | None] = []
    place: dict[int, int] = {}  # old index -> new index, past a FILL
    for index, each in enumerate(layouts.drafts):
        if index in points:
            added = _fill(layouts, index, points[index])
            drafts += added
            links += [layouts.links[index - 1]] * len(added)
        place[index] = len(drafts)
        drafts.append(each)
        links.append(layouts.links[index])
    for index, each in enumerate(layouts.drafts):
        if each.op not in JUMP_OPS:
            continue
        target = each.arg
        each.arg = place[target]
        if target in points and layouts.depth(index) is not None:
            if layouts.jumps_into_hole(index, points[target]):
                each.arg -= len(_fill(layouts, target, points[target]))
    links = [link and link._replace(target=place[link.target]) for link in links]
    return drafts, links


def _resolve(drafts: list[Draft], table: list[Protected]) -> list[Link | None]:
    """Turns jumps from offsets to indices, in place; gives the handler of each draft."""
    index_of = {each.start: index for index, each in enumerate(drafts) if each.start >= 0}
    covering: dict[int, Protected] = {}
    for protected in reversed(table):
        covering.update(dict.fromkeys(range(protected.start, protected.end, 2), protected))
    links: list[Link | None] = []
    made_up: list[int] = []
    for index, each in enumerate(drafts):
        if each.op in JUMP_OPS:
            each.arg = index_of[each.arg]
        line = covering.get(each.offset)
        links.append(line and Link(index_of[line.target], line.depth, line.lasti))
        if each.protects is not None:
            made_up.append(index)
    number_of = {id(each): index for index, each in enumerate(drafts)} if made_up else {}
    for index in made_up:
        links[number_of[id(drafts[index].protects)]] = Link(index, -1, False)
    return links


def lay_out(code: CodeType, drafts: list[Draft]) -> Layouts:
    """The layouts of `drafts` with all holes filled; the internal ops are still there."""
    cells = frozenset({*code.co_cellvars, *code.co_freevars})
    links = _resolve(drafts, read_exception_table(code))
    saves = any(each.op == TAKES_SLOT for each in drafts)
    saves = saves or any(name.startswith(SAVED_CELL) for name in code.co_varnames)
    _set_synthetic_depths(drafts, links, cells, saves)
    layouts = laid_out(drafts, links, cells, saves)
    if any(each.op == "HOLE" for each in drafts):
        layouts = laid_out(*_filled(layouts), cells, saves, filled=True)
        _check_filled(layouts)
    return layouts


def _check_filled(layouts: Layouts) -> None:
    for index, each in enumerate(layouts.drafts):
        depth = layouts.depth(index) if each.op in CALLS else None
        if depth is not None:
            count = stack_effect(each.op, each.arg)[0]
            if any(layouts.is_hole(index, place) for place in range(depth - count, depth)):
                raise InconsistentStack(f"{each.op} at {each.offset} takes a NULL that has no place")


def _set_synthetic_depths(
    drafts: list[Draft], links: list[Link | None], cells: frozenset[str], saves: bool
) -> None:
    """The depth of handlers that were made up: all that lies there when their instruction suspends."""
    if not any(link is not None and link.depth < 0 for link in links):
        return
    # The made-up handler itself has the handler that its instruction had before.
    bare = [links[link.target] if link is not None and link.depth < 0 else link for link in links]
    layouts = laid_out(drafts, bare, cells, saves)
    for index, link in enumerate(links):
        if link is not None and link.depth < 0:
            depth = layouts.depth(index)
            links[index] = link._replace(depth=depth) if depth is not None else None
