"""Fusing: which definitions are kept, and which of them one kernel computes together.

Takes the definitions that a program must give; gives groups in the order in which they run. One idea: a
definition joins a group that runs over the same elements (or for which it is one number a row) if it reads
something of it, or reads the same memory, and if no way leads from that group to it through another one.

# Note [Failures]
Whether the members of a group go together shows when its kernel is built: a reshape may cut across loops. All
groups are built before the next try, with what is now known to be kept or alone; groups that the next try
makes again are not built again. So a program takes a few tries, however long it is. Where one failure after
the other comes up in the same chain (of reshapes that all mix dimensions), groups that fail after many tries
are taken apart altogether.

# Note [Long chains]
A thousand pointwise ops in a row would be one body, which is written by as deep a recursion, and LLVM takes
more than twice as long for twice the text. So bodies, kernels and phases have a largest size, and values are
kept where it would be passed. Storing and loading a vector costs little beside a hundred instructions, bits
stay what they are, and pieces of a chain are often alike, so that one kernel is compiled for all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from functools import partial
from heapq import heapify, heappop, heappush
from math import prod
from typing import Any

from weft.core.records import record, replace
from weft.native.ir.definitions import (
    Definition,
    Direct,
    Fold,
    Gather,
    Given,
    Number,
    Opaque,
    Point,
    Product,
    Reshape,
    Stack,
    View,
    operands_of,
)
from weft.native.ir.kernels import Kernel
from weft.native.ir.sizes import Sizes, hint, same
from weft.native.plan.build import Built, built, first_of
from weft.native.plan.common_definitions import CommonDefinitions
from weft.native.plan.likeness import Likeness, Unlike
from weft.native.plan.rewrite import Definitions, ordered
from weft.native.plan.units import Group, Keep, Load, Member, Split, row_major
from weft.native.plan.work import CHUNK, product_work, work_of

DEAR = 6
"""From this cost on, what several read is computed once."""
GATHER = 4
"""What reading memory anywhere costs."""
MOST_MEMBERS = 24
LARGEST_BODY = 128
"""How many instructions, about, the body of one definition may have."""
LARGEST_KERNEL = 320
"""The same of a kernel."""
MOST_PHASES = 6
"""How often a kernel walks along a row: what no walk has stored, the next one computes again."""
DEEPEST = 48
"""How many definitions may be written into one another."""
MANY_TRIES = 60
"""After so many, failures are no longer mended one by one."""
HASTE = 0.01
"""Kernels that take a smaller part of a program's time than this are compiled quickly."""
LITTLE = 1 << 14
"""How many elements something small has."""
MOST_LEVELLED = 128
"""How many steps a program has, at most, that are sorted by what can run at the same time."""
NEIGHBOURS = 6
"""How many of the latest groups of a size a definition may join without reading them."""


@record(slots=True)
class Plan:
    """Kernels and calls of other code, in order."""

    steps: list[Built | Opaque] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    stored: dict[int, Definition] = field(default_factory=dict)
    draws: list[tuple[Any, int]] = field(default_factory=list)
    """See `weft.native.program.drawing`."""
    sizes: Sizes | None = None
    """Those that are open."""


class Home:
    """A group, or a call of other code, with what it needs."""

    __slots__ = (
        "unit",
        "number",
        "needs",
        "direct",
        "readers",
        "place",
        "merged",
        "memory",
        "alone",
        "closed",
    )

    def __init__(self, unit: Group | Opaque, number: int) -> None:
        self.unit, self.number = unit, number
        self.needs = 0
        """All that it needs, all the way, as bits."""
        self.direct: set[Home] = set()
        self.readers: set[Home] = set()
        self.place = 0
        self.merged: Home | None = None
        self.memory: set[int] = set()
        """The `id`s of what it reads and computes."""
        self.alone = self.closed = False

    def now(self) -> Home:
        """What became of it."""
        found = self
        while found.merged is not None:
            found = found.merged
        return found


class Fusing:
    """One try at grouping, with these definitions kept."""

    def __init__(
        self,
        order: list[Definition],
        kept: dict[int, Definition],
        alone: dict[int, Definition],
        closed: dict[int, Definition],
        reads: dict[int, list[Definition]],
        costs: dict[int, int],
    ) -> None:
        self.order, self.kept, self.alone, self.closed = order, kept, alone, closed
        self.costs = costs
        self.homes: list[Home] = []
        self.home: dict[int, Home] = {}
        self.by_size: dict[int, list[Home]] = {}
        self.reasons: list[str] = []
        self.reads = reads

    def is_kept(self, value: Definition) -> bool:
        return id(value) in self.kept

    def read_by(self, value: Definition) -> list[Definition]:
        """The kept definitions (and memory) that a kept one reads."""
        known = self.reads.get(id(value))
        if known is not None:
            return known
        found: dict[int, Definition] = {}
        seen: set[int] = set()
        waiting = list(operands_of(value))
        while waiting:
            each = waiting.pop()
            if id(each) in self.kept or isinstance(each, Given):
                found[id(each)] = each
            elif id(each) not in seen:
                seen.add(id(each))
                waiting += operands_of(each)
        made = self.reads[id(value)] = list(found.values())
        return made

    def run(self) -> list[Home]:
        for place, value in enumerate(self.order):
            if id(value) not in self.kept or isinstance(value, Given):
                continue
            reads = self.read_by(value)
            behind = {self.home[id(each)].now() for each in reads if not isinstance(each, Given)}
            home = self.placed(value, reads, behind)
            home.place = place
            home.memory.add(id(value))
            home.memory.update([id(each) for each in reads])
            self.home[id(value)] = home
            for other in behind:
                if other.now() is not home:
                    self.need(home, other.now())
        return self.sorted()

    def need(self, home: Home, other: Home) -> None:
        home.direct.add(other)
        other.readers.add(home)
        waiting = [(home, other.needs | 1 << other.number)]
        while waiting:  # what needs a group needs all that it needs
            each, more = waiting.pop()
            if more & ~each.needs:
                each.needs |= more
                waiting += [(reader, more) for reader in each.readers]

    def placed(self, value: Definition, reads: list[Definition], behind: set[Home]) -> Home:
        """The group that computes a definition: one that is there, or a new one."""
        if not isinstance(value, Opaque):
            home = self.joined(value, reads, behind)
            if home is not None:
                return home
        home = Home(value if isinstance(value, Opaque) else new_group(value), len(self.homes))
        self.homes.append(home)
        home.alone, home.closed = id(value) in self.alone, id(value) in self.closed
        if isinstance(home.unit, Group):
            home.unit.cost = self.costs.get(id(value), 1)
            self.by_size.setdefault(home.unit.size, []).append(home)
        return home

    def joined(self, value: Definition, reads: list[Definition], behind: set[Home]) -> Home | None:
        """Puts a definition into a group that it reads, or that reads what it reads, if it may."""
        if id(value) in self.alone:
            return None
        above = sorted(behind, key=lambda home: -home.number)
        found: Home | None = None
        for home in (*above, *self.neighbours(value, reads, behind)):
            group = home.unit
            if not isinstance(group, Group) or home.closed:
                continue
            bit = 1 << home.number
            if any(other.needs & bit for other in behind if other is not home):
                self.reasons.append(f"{value.name}: a dependency goes through another kernel")
                continue
            member = self.member(value, group, reads)
            if member is not None:
                found = home
                break
        if found is None:
            return None
        group = found.unit
        assert isinstance(group, Group)
        size = len(group.members)
        for other in above:
            if other is found:
                continue
            others = [each.now() for each in behind if each.now() not in (found, other)]
            if not any(each.needs >> other.number & 1 for each in others):
                self.merge(found, other)
        if len(group.members) != size:
            member = self.member(value, group, reads)
        if member is None:
            return None
        group.members[id(value)] = member
        group.cost += self.costs.get(id(value), 1)
        return found

    def neighbours(self, value: Definition, reads: list[Definition], behind: set[Home]) -> list[Home]:
        """Groups over as many elements that read the same memory, of which there is as much at least."""
        size = value.operand.size if isinstance(value, Fold) else value.size
        memory = {id(each) for each in reads if same(each.size, size) or hint(each.size) > hint(size)}
        latest = self.by_size.get(size, ())[-NEIGHBOURS:]
        return [
            home for home in reversed(latest)
            if home.merged is None and home not in behind and home.memory & memory
        ]  # fmt: skip

    def merge(self, home: Home, other: Home) -> None:
        """Makes two groups one, where they run over the same elements and neither needs the other."""
        group, second = home.unit, other.unit
        if home.alone or other.alone or home.closed or other.closed:
            return
        if not isinstance(group, Group) or not isinstance(second, Group) or not same(group.size, second.size):
            return
        if home.needs >> other.number & 1 or other.needs >> home.number & 1:
            return
        if len(group.members) + len(second.members) >= MOST_MEMBERS:
            return
        if group.cost + second.cost > LARGEST_KERNEL:
            return
        shapes = (group.rows, group.inner), (second.rows, second.inner)
        if second.settled and group.settled and not same(*shapes):
            return
        if group.across or second.across:
            return
        if group.parts is not None and second.parts is not None and not same(group.parts, second.parts):
            return
        if (is_one_row(group) and second.parts) or (is_one_row(second) and group.parts):
            return
        if second.settled:
            group.rows, group.inner, group.settled = second.rows, second.inner, True
        group.members.update(second.members)
        group.cost += second.cost
        other.merged = home
        home.memory |= other.memory
        home.place = max(home.place, other.place)
        for each in other.direct:
            each.readers.discard(other)
            self.need(home, each)
        for each in other.readers:
            each.direct.discard(other)
            self.need(each, home)

    def member(self, value: Definition, group: Group, reads: list[Definition]) -> Member | None:
        """How a definition would stand in a group; None where it does not fit."""
        cost = self.costs.get(id(value), 1)
        if len(group.members) >= MOST_MEMBERS or group.cost + cost > LARGEST_KERNEL:
            self.reasons.append(f"{value.name}: the kernel has reached its size limit")
            return None
        folds = isinstance(value, Fold)
        row = (isinstance(value, Fold) and not value.parts) or (
            not folds and same(value.size, group.rows) and group.folds and not same(value.size, group.size)
        )
        level = 0
        for each in reads:
            known = group.members.get(id(each))
            if known is None:
                continue
            if known.partial:
                self.reasons.append(f"{value.name}: reads a reduction over all chunks")
                return None
            if known.row:
                level = max(level, known.level + (0 if row and not folds else 1))
            elif row and not folds:
                self.reasons.append(f"{value.name}: a per-row value that reads elements")
                return None
            else:
                level = max(level, known.level)
        if level >= MOST_PHASES:
            self.reasons.append(f"{value.name}: the kernel has reached its limit of phases")
            return None
        if not takes_shape(value, group):
            self.reasons.append(f"{value.name}: its loops are not {group.rows} x {group.inner}")
            return None
        return Member(value, level, row, folds and not row)

    def sorted(self) -> list[Home]:
        """The groups, each behind those it needs, otherwise as in the program. Those of small programs are
        put beside others that can run at the same time.
        """
        homes = [home for home in self.homes if home.merged is None]
        left = {home: len({each.now() for each in home.direct}) for home in homes}
        readers: dict[Home, set[Home]] = {home: set() for home in homes}
        for home in homes:
            for each in {each.now() for each in home.direct}:
                readers[each].add(home)
        step = int(len(homes) <= MOST_LEVELLED and all(is_small(home.unit) for home in homes))
        ready = [(0, home.place, home.number, home) for home in homes if not left[home]]
        heapify(ready)
        done: list[Home] = []
        while ready:
            level, _, _, home = heappop(ready)
            done.append(home)
            for reader in readers[home]:
                left[reader] -= 1
                if not left[reader]:
                    behind = 0 if isinstance(home.unit, Stack) else step  # which takes no time
                    heappush(ready, (level + behind, reader.place, reader.number, reader))
        assert len(done) == len(homes), "groups that need each other"
        return done


def is_small(unit: Group | Opaque) -> bool:
    """Whether a unit is small enough to be reordered freely (and is not an opaque call)."""
    if isinstance(unit, Opaque):
        return isinstance(unit, (Product, Direct)) and bool(hint(unit.size) <= LITTLE)
    return bool(hint(unit.size) <= LITTLE)


def new_group(value: Definition) -> Group:
    if not isinstance(value, Fold):
        group = Group(1, value.size)
        group.members[id(value)] = Member(value, 0, False)
        return group
    rows, inner = loops_of(value)
    group = Group(rows, inner, settled=not value.parts or value.last < len(value.operand.shape))
    group.members[id(value)] = Member(value, 0, not value.parts, bool(value.parts))
    group.across = walks_across(value)
    return group


def walks_across(value: Fold) -> bool:
    """Whether a fold looks at elements in another order than theirs."""
    given = value.operand
    if not isinstance(given, View):
        return False
    strides = [sum(a * b for a, b in zip(row_major(given.base.shape), moves)) for moves in zip(*given.steps)]
    moving = [stride for stride, size in zip(strides, given.shape) if size > 1 and stride]
    return any(a < b for a, b in zip(moving, moving[1:]))


def loops_of(value: Fold) -> tuple[int, int]:
    """The rows of a fold, and how long they are."""
    shape = value.operand.shape
    if value.parts:  # over the rows; or over everything
        return (prod(shape[: value.last]), prod(shape[value.last :])) if value.last < len(shape) else (
            1, prod(shape)
        )  # fmt: skip
    return value.size, prod(shape[value.first : value.last])


def takes_shape(value: Definition, group: Group) -> bool:
    """Whether a definition runs over a group's elements or rows; may settle what its rows are."""
    if not isinstance(value, Fold):
        elements = same(value.size, group.size) and not (group.across and group.inner > 1)
        return elements or (group.folds and same(value.size, group.rows))
    if not same(value.operand.size, group.size) or walks_across(value) is not group.across:
        return False
    if value.parts and value.last == len(value.operand.shape):
        known = group.parts
        return not is_one_row(group) and (known is None or same(known, value.parts))
    if not value.parts and value.last != len(value.operand.shape):
        return False
    rows, inner = loops_of(value)
    others = group.parts is not None and not same(group.parts, value.parts)
    if others and (value.parts or rows == 1):
        return False
    if group.settled:
        return same((group.rows, group.inner), (rows, inner))
    group.rows, group.inner, group.settled = rows, inner, True
    return True


def is_one_row(group: Group) -> bool:
    """Whether a fold looks at all elements at once: chunks of them would each give another value."""
    return group.rows == 1 and any(
        isinstance(each.value, Fold) and not each.partial for each in group.members.values()
    )


def kept_at_first(outputs: list[Definition], order: list[Definition]) -> dict[int, Definition]:
    """What has a unit of its own: outputs, folds, what other code reads or gives, what is dear and shared."""
    kept = {id(value): value for value in outputs if not isinstance(value, Given)}
    readers: dict[int, int] = {}
    costs: dict[int, int] = {}
    for value in order:
        total = value.cost if isinstance(value, Point) else 0
        for each in operands_of(value):
            readers[id(each)] = readers.get(id(each), 0) + 1
            if id(each) not in kept:
                total += costs[id(each)]
        costs[id(value)] = total
        if isinstance(value, (Fold, Opaque)):
            kept[id(value)] = value
            costs[id(value)] = 0
            if isinstance(value, Opaque):
                kept.update({id(each): each for each in value.operands if not isinstance(each, Given)})
        if isinstance(value, Gather):
            costs[id(value)] += GATHER
            if not isinstance(value.base, Given):
                kept[id(value.base)] = value.base
    for value in order:
        if isinstance(value, (Point, Gather)) and readers.get(id(value), 0) > 1 and costs[id(value)] >= DEAR:
            kept[id(value)] = value
        if value.kept and not isinstance(value, Given):
            kept[id(value)] = value  # its rule knows that many elements read each of its own
        for each in operands_of(value) if not same(value.size, 1) else ():
            if isinstance(each, Number) and costs[id(each)] >= DEAR:
                kept[id(each)] = each  # once, not for each element
    return kept


def bounded(order: list[Definition], kept: dict[int, Definition]) -> dict[int, int]:
    """Keeps more definitions, so that no body is larger or deeper than it may be: see Note [Long chains].
    Gives what the body of each definition costs, by `id`.
    """
    costs: dict[int, int] = {}
    depths: dict[int, int] = {}
    for value in order:
        inner = [each for each in operands_of(value) if id(each) not in kept and not isinstance(each, Given)]
        own = value.cost if isinstance(value, Point) else 1
        cost = own + sum([costs[id(each)] for each in inner])
        depth = 1 + max([depths[id(each)] for each in inner], default=0)
        if cost > LARGEST_BODY or depth > DEEPEST:
            for each in sorted(inner, key=lambda each: -costs[id(each)]):
                if cost > LARGEST_BODY or depths[id(each)] >= DEEPEST:
                    base = each.base if isinstance(each, View) else each  # a view may have more elements
                    if not isinstance(base, Given):
                        kept[id(base)] = base
                    cost -= costs[id(each)] - 1
            depth = 2
        costs[id(value)], depths[id(value)] = cost, depth
    return costs


def _among(stored: dict[int, None], value: Definition) -> bool:
    return id(value) in stored


class Planning:
    """Tries until all groups have kernels; see Note [Failures]."""

    def __init__(self, outputs: list[Definition]) -> None:
        self.outputs = outputs
        self.common = Definitions(outputs).apply(CommonDefinitions)
        self.alike: dict[Any, tuple[Built, list[int]]] = {}
        self.order = ordered(outputs)
        self.kept = kept_at_first(outputs, self.order)
        self.costs = bounded(self.order, self.kept)
        self.alone: dict[int, Definition] = {}
        self.closed: dict[int, Definition] = {}
        self.known: dict[Any, Built] = {}
        self.reads: dict[int, list[Definition]] = {}
        """What the last try found that kept definitions read; right as long as no other is kept."""
        self.kept_then = 0
        self.tries = 0
        self.reasons: list[str] = []

    def run(self) -> Plan:
        while True:
            known = self.progress()
            plan = self.attempt()
            if plan is not None:
                return plan
            self.tries += 1
            if self.progress() == known:
                raise NotImplementedError("fusion does not converge")

    def progress(self) -> tuple[int, ...]:
        """What failures have taught so far: the next try is another one only where this has grown."""
        return len(self.kept), len(self.alone), len(self.closed)

    def attempt(self) -> Plan | None:
        """The plan, or None where something had to be kept, or to be computed alone."""
        if len(self.kept) != self.kept_then:
            self.reads, self.kept_then = {}, len(self.kept)
        fusing = Fusing(self.order, self.kept, self.alone, self.closed, self.reads, self.costs)
        homes = fusing.run()
        stored: dict[int, None] = dict.fromkeys([id(value) for value in self.outputs])
        for home in homes:
            for value in members_of(home):
                for each in fusing.read_by(value):
                    if id(each) not in fusing.home or fusing.home[id(each)].now() is not home:
                        stored[id(each)] = None
        steps: list[Built | Opaque] = []
        failed = False
        for home in homes:
            if isinstance(home.unit, Opaque):
                steps.append(home.unit)
                continue
            made = self.built(home, stored)
            failed |= made is None
            if made is not None:
                steps.append(made)
        if failed:
            return None
        reasons = list(dict.fromkeys([*self.reasons, *fusing.reasons]))
        return Plan(steps, reasons, {key: value for key, value in self.kept.items() if key in stored})

    def built(self, home: Home, stored: dict[int, None]) -> Built | None:
        group = home.unit
        assert isinstance(group, Group)
        members = tuple([(key, each.level) for key, each in group.members.items()])
        memory = frozenset([each for each in home.memory if each in stored])
        key = (members, group.rows, group.inner, memory)
        found = self.known.get(key)
        if found is None:
            try:
                found = self.known[key] = self.built_once(group, partial(_among, stored))
            except Split as split:
                if id(split.value) in self.alone:  # nothing goes with anything there
                    all_of_it = {id(value): value for value in members_of(home)}
                    self.alone.update(all_of_it)
                    self.closed.update(all_of_it)
                self.alone[id(split.value)] = split.value
                self.reasons.append(f"{split.value.name}: {split.reason}")
            except Keep as keep:
                if id(keep.value) not in self.kept and not isinstance(keep.value, Given):
                    self.kept[id(keep.value)] = keep.value
                elif not self.put_in_order(group) and not self.take_apart(home):
                    raise NotImplementedError(f"{keep.value.name}: {keep.reason}") from None
                self.reasons.append(f"{keep.value.name}: {keep.reason}")
            if found is None and self.tries >= MANY_TRIES:
                self.keep_apart(group)
        return found

    def keep_apart(self, group: Group) -> None:
        """Has all that a group computes, but views, and what is reshaped, kept by kernels of their own."""
        waiting = [member.value for member in group.members.values()]
        parts: dict[int, Definition] = {}
        while waiting:
            value = waiting.pop()
            if not isinstance(value, View) or id(value) in group.members:
                parts[id(value)] = value
            for each in operands_of(value):
                if isinstance(value, Reshape) and not isinstance(each, Given):
                    parts[id(each)] = each
                if id(each) not in self.kept and not isinstance(each, Given):
                    waiting.append(each)
        for known in (self.kept, self.alone, self.closed):
            known.update(parts)

    def take_apart(self, home: Home) -> bool:
        """Has all members of a group computed by kernels of their own, if that is something new."""
        members = {id(value): value for value in members_of(home)}
        if len(members) == 1 or members.keys() <= self.closed.keys():
            return False
        self.alone.update(members)
        self.closed.update(members)
        return True

    def built_once(self, group: Group, is_stored: Callable[[Definition], bool]) -> Built:
        """The kernel of a group; that of a group that is like it, on other memory, if there is one."""
        try:
            like = Likeness(group, is_stored, self.common)
        except Unlike:
            return built(group, is_stored)
        known = self.alike.get(like.key)
        if known is not None:
            first, numbers = known
            loads = [
                Load(like.met[number], load.offset, load.strides)
                for number, load in zip(numbers, first.operands)
            ]
            return replace(first, operands=loads)
        made = built(group, is_stored)
        if all(id(load.value) in like.numbers for load in made.operands):
            self.alike[like.key] = made, [like.numbers[id(load.value)] for load in made.operands]
        return made

    def put_in_order(self, group: Group) -> bool:
        """Has what a lone fold folds copied, row-major, if that was not done before."""
        value = first_of(group)
        if not isinstance(value, Fold) or len(group.members) > 1 or value.operand.name == "in order":
            return False
        given = value.operand
        value.operand = Point(
            shape=given.shape, type=given.type, name="in order", make=lambda _b, v, _p: v[0], operands=[given]
        )
        self.kept[id(value.operand)] = value.operand
        self.order = ordered(self.outputs)
        return True


def members_of(home: Home) -> list[Definition]:
    if isinstance(home.unit, Opaque):
        return [home.unit]
    return [member.value for member in home.unit.members.values()]


def hurried(steps: list[Built | Opaque]) -> None:
    """Has kernels that take a small part of the program's time compiled quickly: that takes a third of the
    time, and makes code that takes half as long again.
    """
    kernels: dict[int, tuple[Kernel, int]] = {}
    total = 0
    for step in steps:
        if isinstance(step, Built):
            work = hint(work_of(step.sizes, step.kernel))
            _, before = kernels.get(id(step.kernel), (step.kernel, 0))
            kernels[id(step.kernel)] = step.kernel, before + work
            total += work
        elif isinstance(step, Product):
            total += hint(product_work(step))
        elif isinstance(step, Direct):
            total += hint(step.work) or CHUNK * hint(step.chunks)
    works: dict[Kernel, int] = {}
    for kernel, work in kernels.values():  # of which some are equal
        works[kernel] = works.get(kernel, 0) + work
    quick = {kernel: replace(kernel, quick=True) for kernel, work in works.items() if work < total * HASTE}
    chosen = {key: quick.get(kernel, kernel) for key, (kernel, _) in kernels.items()}
    for step in steps:
        if isinstance(step, Built):
            step.kernel = chosen[id(step.kernel)]


def fused(outputs: list[Definition]) -> Plan:
    """The plan of a program that gives these definitions."""
    plan = Planning(outputs).run()
    hurried(plan.steps)
    return plan
