"""Fusing: which definitions are kept, and which of them one kernel computes together.

Takes the definitions that a program must give; gives groups in the order in which they run. One idea: a
definition joins the group of something that it reads if it runs over the same elements (or is one number
for each of that group's rows), and if no way leads from that group to it through another one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from math import prod

from weft.native.build import Built, built
from weft.native.tensors import Definition, Fold, Given, Number, Opaque, Point, operands_of
from weft.native.units import Group, Keep, Member, Split

DEAR = 6
"""From this cost on, what several read is computed once."""
MOST_MEMBERS = 24


@dataclass(slots=True)
class Plan:
    """Kernels and calls of other code, in order."""

    steps: list[Built | Opaque] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    stored: dict[int, Definition] = field(default_factory=dict)


def ordered(outputs: Iterable[Definition]) -> list[Definition]:
    """All definitions behind the outputs, each behind what it is made of."""
    found: list[Definition] = []
    seen: set[int] = set()
    stack = [(value, False) for value in reversed(list(outputs))]
    while stack:
        value, done = stack.pop()
        if done:
            found.append(value)
        elif id(value) not in seen:
            seen.add(id(value))
            stack.append((value, True))
            stack += [(each, False) for each in reversed(operands_of(value)) if id(each) not in seen]
    return found


class Fusing:
    """One try at grouping, with these definitions kept."""

    def __init__(
        self, outputs: list[Definition], kept: dict[int, Definition], alone: dict[int, Definition]
    ) -> None:
        self.outputs, self.kept, self.alone = outputs, kept, alone
        self.order = ordered(outputs)
        self.groups: list[Group | Opaque] = []
        self.home: dict[int, Group | Opaque] = {}
        self.needs: dict[int, set[int]] = {}  # which groups a group needs, all the way, by `id`
        self.reasons: list[str] = []

    def is_kept(self, value: Definition) -> bool:
        return id(value) in self.kept

    def read_by(self, value: Definition) -> list[Definition]:
        """The kept definitions (and memory) that a kept one reads."""
        found: dict[int, Definition] = {}
        waiting = list(operands_of(value))
        while waiting:
            each = waiting.pop()
            if isinstance(each, Given) or self.is_kept(each):
                found[id(each)] = each
            else:
                waiting += operands_of(each)
        return list(found.values())

    def run(self) -> list[Group | Opaque]:
        for value in self.order:
            if not self.is_kept(value) or isinstance(value, Given):
                continue
            reads = [each for each in self.read_by(value) if not isinstance(each, Given)]
            behind = [self.home[id(each)] for each in reads]
            home = self.place(value, reads, behind)
            self.home[id(value)] = home
            for other in behind:
                if other is not home:
                    self.needs[id(home)] |= {id(other)} | self.needs[id(other)]
                    self.spread(id(home))
        return self.sorted()

    def place(
        self, value: Definition, reads: list[Definition], behind: list[Group | Opaque]
    ) -> Group | Opaque:
        """The group that computes a definition: one that is there, or a new one."""
        home: Group | Opaque | None = value if isinstance(value, Opaque) else self.join(value, reads, behind)
        if home is None or isinstance(home, Opaque):
            home = home or self.new_group(value)
            self.groups.append(home)
            self.needs[id(home)] = set()
        return home

    def spread(self, key: int) -> None:
        """What needs a group needs all that it needs."""
        for other, needs in self.needs.items():
            if key in needs:
                self.needs[other] = needs | self.needs[key]

    def new_group(self, value: Definition) -> Group:
        if isinstance(value, Fold):
            inner = prod(value.operand.shape[value.first : value.last])
            group = Group(value.size, inner)
            group.members[id(value)] = Member(value, 0, True)
        else:
            group = Group(1, value.size)
            group.members[id(value)] = Member(value, 0, False)
        return group

    def join(self, value: Definition, reads: list[Definition], behind: list[Group | Opaque]) -> Group | None:
        """Puts a definition into the group of something that it reads, if it may."""
        if id(value) in self.alone:
            return None
        for group in reversed(self.groups):
            if not isinstance(group, Group) or not any(group is other for other in behind):
                continue
            others = {id(other) for other in behind if other is not group}
            if any(id(group) in self.needs[other] for other in others):
                self.reasons.append(f"{value.name}: a way leads through another kernel")
                continue
            member = self.member(value, group, reads)
            if member is None:
                continue
            group.members[id(value)] = member
            return group
        return None

    def member(self, value: Definition, group: Group, reads: list[Definition]) -> Member | None:
        """How a definition would stand in a group; None where it does not fit."""
        if len(group.members) >= MOST_MEMBERS:
            self.reasons.append(f"{value.name}: the kernel is large enough")
            return None
        if not self.takes_shape(value, group):
            self.reasons.append(f"{value.name}: other loops than {group.rows} x {group.inner}")
            return None
        row = isinstance(value, Fold) or (
            value.size == group.rows and group.folds and value.size != group.size
        )
        level = 0
        for each in reads:
            known = group.members.get(id(each))
            if known is None:
                continue
            if known.row:
                level = max(level, known.level + (0 if row and not isinstance(value, Fold) else 1))
            elif row and not isinstance(value, Fold):
                self.reasons.append(f"{value.name}: a row's value that reads elements")
                return None
            else:
                level = max(level, known.level)
        return Member(value, level, row)

    def takes_shape(self, value: Definition, group: Group) -> bool:
        """Whether a definition runs over a group's elements or rows; may settle what its rows are."""
        if isinstance(value, Fold):
            inner = prod(value.operand.shape[value.first : value.last])
            if value.last != len(value.operand.shape):
                return False
            if group.folds:
                return group.rows == value.size and group.inner == inner
            if value.operand.size != group.size:
                return False
            group.rows, group.inner = value.size, inner
            return True
        return value.size == group.size or (group.folds and value.size == group.rows)

    def sorted(self) -> list[Group | Opaque]:
        """The groups, each behind those it needs."""
        done: list[Group | Opaque] = []
        seen: set[int] = set()
        waiting = list(self.groups)
        while waiting:
            ready = [group for group in waiting if self.needs[id(group)] <= seen]
            assert ready, "groups that need each other"
            done += ready
            seen |= {id(group) for group in ready}
            waiting = [group for group in waiting if id(group) not in seen]
        return done


def kept_at_first(outputs: list[Definition]) -> dict[int, Definition]:
    """What has a unit of its own: outputs, folds, what other code reads or gives, what is dear and shared."""
    kept = {id(value): value for value in outputs if not isinstance(value, Given)}
    readers: dict[int, int] = {}
    order = ordered(outputs)
    costs: dict[int, int] = {}
    for value in order:
        for each in operands_of(value):
            readers[id(each)] = readers.get(id(each), 0) + 1
        own = value.cost if isinstance(value, Point) else 0
        costs[id(value)] = own + sum(costs[id(each)] for each in operands_of(value) if id(each) not in kept)
        if isinstance(value, (Fold, Opaque)):
            kept[id(value)] = value
            costs[id(value)] = 0
            if isinstance(value, Opaque):
                kept.update({id(each): each for each in value.operands if not isinstance(each, Given)})
    for value in order:
        if isinstance(value, Point) and readers.get(id(value), 0) > 1 and costs[id(value)] >= DEAR:
            kept[id(value)] = value
        for each in operands_of(value) if value.size > 1 else ():
            if isinstance(each, Number) and costs[id(each)] >= DEAR:
                kept[id(each)] = each  # once, not for each element
    return kept


def _among(stored: dict[int, None], value: Definition) -> bool:
    return id(value) in stored


def fused(outputs: list[Definition]) -> Plan:
    """The plan of a program that gives these definitions."""
    kept = kept_at_first(outputs)
    alone: dict[int, Definition] = {}
    wanted = {id(value) for value in outputs}
    for _ in range(200):
        fusing = Fusing(outputs, kept, alone)
        groups = fusing.run()
        stored = dict.fromkeys(wanted)
        for group in groups:
            members = [group] if isinstance(group, Opaque) else [m.value for m in group.members.values()]
            for value in members:
                for each in fusing.read_by(value):
                    if fusing.home.get(id(each)) is not group:
                        stored[id(each)] = None
        steps: list[Built | Opaque] = []
        try:
            for group in groups:
                steps.append(group if isinstance(group, Opaque) else built(group, partial(_among, stored)))
        except Split as split:
            alone[id(split.value)] = split.value
            continue
        except Keep as keep:
            if id(keep.value) in kept or isinstance(keep.value, Given):
                raise NotImplementedError(f"{keep.value.name}: {keep.reason}") from None
            kept[id(keep.value)] = keep.value
            continue
        reasons = fusing.reasons
        return Plan(steps, reasons, {key: value for key, value in kept.items() if key in stored})
    raise NotImplementedError("a program whose kernels cannot be settled")
