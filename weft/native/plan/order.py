"""Mutated inputs: programs that write the new values of inputs in place, last of all.

Takes the steps of a program and the inputs that are to hold certain of its values afterwards; gives the steps
in an order in which that is sound, and where each such value lies. One idea: a step may write to an input
itself if everything else that reads the old elements comes before it, and if nothing that can fail comes
after it; where that does not go, the value is computed elsewhere and copied at the end.

# Note [Commit last]
    steps that can fail, and all that they need
    steps that write inputs, and all that reads what they write       none of these can fail
    copies to inputs
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field
from heapq import heapify, heappop, heappush
from typing import Any

from weft.core.records import record
from weft.native.ir.definitions import Definition, Direct, Given, Part, Point, Product, Stack, View, view
from weft.native.ir.scalar import TYPES
from weft.native.ir.sizes import at_least, hint, unsimplified, where
from weft.native.plan.build import Built, built
from weft.native.plan.units import Group, Member, row_major

NATIVE = (Built, Product, Direct)
SMALL = 60_000
"""Steps that take less (in ns) are run beside each other rather than cut."""
LEAST_BUNCH = 9_000
BUNCH_CHUNK = 4_000


@record(slots=True)
class Ordered:
    """Steps in order, and the inputs in whose memory values lie."""

    steps: list[Any]
    homes: dict[int, Given] = field(default_factory=dict)
    """By the `id` of the value."""
    reasons: list[str] = field(default_factory=list)
    """Why values are copied, for people."""


def is_python(step: Any) -> bool:
    """Whether Python does a step."""
    return not isinstance(step, NATIVE)


def can_fail(step: Any) -> bool:
    """Whether a program may end at a step."""
    return is_python(step) or (isinstance(step, Direct) and step.checks)


def reads_of(step: Any) -> Iterator[Definition]:
    """What a step reads."""
    if isinstance(step, Built):
        for load, access in zip(step.operands, step.kernel.accesses, strict=True):
            if not access.written:
                yield load.value
    else:
        yield from step.operands


def writes_of(step: Any) -> Iterator[Definition]:
    """What a step writes."""
    if isinstance(step, Built):
        for load, access in zip(step.operands, step.kernel.accesses, strict=True):
            if access.written:
                yield load.value
    else:
        yield step
        if isinstance(step, Direct) and step.also is not None:
            yield step.also


def copy_of(value: Definition, strides: tuple[int, ...] | None = None) -> Point:
    """A copy, with memory of its own."""
    return Point(
        shape=value.shape, type=value.type, name="copy", strides=strides, operands=[value],
        make=lambda _builder, values, _place: values[0],
    )  # fmt: skip


def copying(copy: Point) -> Built:
    """The kernel of a copy of something that lies in memory, perhaps with its axes in another order."""
    group = Group(1, copy.size)
    group.members[id(copy)] = Member(copy, 0, False)
    return built(group, lambda value: not isinstance(value, View))


def is_dense(target: Given) -> bool:
    """Whether no two elements of an input lie at the same place."""
    if target.strides is None:
        return True
    reach = 1
    for stride, size in sorted((abs(s), n) for s, n in zip(target.strides, target.shape) if n != 1):
        if stride < reach:
            return False
        reach = stride * size
    return True


def layout_of(value: Definition) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shape and the strides in which callers see a value."""
    return value.shown or (value.shape, row_major(value.shape) if value.strides is None else value.strides)


def lies_alike(value: Definition, target: Given) -> bool:
    """Whether a value's memory is that of an input, element by element."""
    strides = row_major(target.shape) if target.strides is None else target.strides
    pairs = zip(target.shape, strides, layout_of(value)[1], strict=True)
    return all(size == 1 or one == other for size, one, other in pairs)


def as_seen(value: Definition) -> Definition:
    """A value as callers see it: with the axes of its memory in their order."""
    if value.shown is None:
        return value
    shape, strides = value.shown
    inside = row_major(value.shape)
    left = list(range(len(shape)))
    steps = []
    for size, stride in zip(value.shape, inside, strict=True):
        axis = next(a for a in left if shape[a] == size and (size == 1 or strides[a] == stride))
        left.remove(axis)
        steps.append(tuple([int(a == axis) for a in range(len(shape))]))
    return view(value, shape, (0,) * len(shape), steps)


def may_write(step: Any, value: Definition, target: Given) -> str:
    """Why a step cannot compute a value where an input lies; "" if it can."""
    if is_python(step):
        return "Python computes it"
    if not lies_alike(value, target):
        return "the input has other strides"
    if isinstance(step, Product) and step.onto is not None:
        return "the product accumulates into another value"
    if any(isinstance(each, Part) for each in reads_of(step)):
        return "its parts are computed by several steps"
    if not isinstance(step, Built):
        return "it is computed from the input" if any(each is target for each in step.operands) else ""
    kernel = step.kernel
    here = next(
        i for i, load in enumerate(step.operands) if load.value is value and kernel.accesses[i].written
    )
    same = {i for i, load in enumerate(step.operands) if load.value is target}
    if not same:
        return ""
    phases = [n for n, p in enumerate(kernel.phases) if any(store.access == here for store in p.stores)]
    if len(phases) != 1:
        return "it is not stored once per element"
    own = step.operands[here]
    for number in same:
        load = step.operands[number]
        if (load.offset, load.strides) != (own.offset, own.strides):
            return "the input is read at other indices"
    later = kernel.phases[phases[0] + 1 :]
    bodies = [
        kernel.phases[phases[0]].after,
        *[body for phase in later for body in (phase.body, phase.after)],
    ]
    if any(each.op == "load" and each.value in same for body in bodies for each in body):
        return "the input is read afterwards"
    return ""


class _Ordering:
    """The steps of a program, and which must come before which."""

    def __init__(self, steps: Sequence[Any]) -> None:
        self.steps = steps
        self.writer = {id(value): n for n, step in enumerate(steps) for value in writes_of(step)}
        self.after: list[set[int]] = [set() for _ in steps]  # which steps read what a step writes
        self.before: list[set[int]] = [set() for _ in steps]
        self.readers: dict[int, set[int]] = {}
        for number, step in enumerate(steps):
            for value in reads_of(step):
                self.readers.setdefault(id(value), set()).add(number)
                made = self.writer.get(id(value))
                if made is not None and made != number:
                    self.after[made].add(number)
                    self.before[number].add(made)
        self.failing = _reached([n for n, step in enumerate(steps) if can_fail(step)], self.before)

    def order(self, direct: dict[int, tuple[Definition, Given]]) -> list[int] | int:
        """The steps in order; or the `id` of a value that has to be copied. None of `direct`, the values that
        are computed where inputs lie, is needed by what may fail.
        """
        late = _reached([self.writer[key] for key in direct], self.after)
        waits = [len(before) for before in self.before]
        frees = [list(after) for after in self.after]
        for key, (_, target) in direct.items():
            number = self.writer[key]
            for reader in self.readers.get(id(target), ()):
                if reader != number and reader not in self.before[number]:
                    frees[reader].append(number)
                    waits[number] += 1
        ready = [(n in late, n) for n, count in enumerate(waits) if not count]
        heapify(ready)
        done: list[int] = []
        while ready:
            _, number = heappop(ready)
            done.append(number)
            for other in frees[number]:
                waits[other] -= 1
                if not waits[other]:
                    heappush(ready, (other in late, other))
        if len(done) < len(self.steps):  # some wait for each other
            left = set(range(len(self.steps))) - set(done)
            return next(key for key in direct if self.writer[key] in left)
        return done


def _reached(starts: list[int], edges: list[set[int]]) -> set[int]:
    """These steps, and all that edges lead to."""
    found, waiting = set(starts), list(starts)
    while waiting:
        for each in edges[waiting.pop()] - found:
            found.add(each)
            waiting.append(each)
    return found


def ordered(steps: Sequence[Any], written: Sequence[tuple[Definition, Given]]) -> Ordered:
    """The steps, in an order in which inputs may be written; each of `written` is a value of its own."""
    if not written:
        return Ordered(list(steps))
    made = {id(value): step for step in steps for value in writes_of(step)}
    found = Ordered([])
    ordering = _Ordering(steps)
    direct: dict[int, tuple[Definition, Given]] = {}
    copied: dict[int, tuple[Definition, Given]] = {}
    for value, target in written:
        reason = may_write(made[id(value)], value, target)
        if not reason and ordering.writer[id(value)] in ordering.failing:
            reason = "a step that may raise depends on it"
        (copied if reason else direct)[id(value)] = value, target
        if reason:
            found.reasons.append(f"{value.name}: copied to {target.name}, since {reason}")
    while True:
        order = ordering.order(direct)
        if isinstance(order, list):
            break
        value, target = copied[order] = direct.pop(order)
        found.reasons.append(f"{value.name}: copied to {target.name}, since a later step reads the input")
    found.steps = [steps[number] for number in order]
    for value, target in copied.values():
        copy = copy_of(as_seen(value), target.strides)
        found.steps.append(copying(copy))
        found.homes[id(copy)] = target
    found.homes.update({key: target for key, (_, target) in direct.items()})
    return found


def wished(
    outputs: Sequence[Any], inputs: Sequence[Any], pairs: Sequence[tuple[int, int]]
) -> tuple[list[Any], dict[int, tuple[Definition, Given]]]:
    """The outputs of a program that writes inputs, and by their numbers the values among them that belong to
    inputs. `pairs` are inputs and outputs, by number.
    """
    made = list(outputs)
    targets: dict[int, Given] = {}
    for position, number in pairs:
        value, target = made[number], inputs[position]
        if isinstance(value, Definition) and isinstance(target, Given) and value is not target:
            alike = (layout_of(value)[0], value.type) == (target.shape, target.type)
            if alike and target.size and target.type in TYPES and is_dense(target):  # kernels know no others
                targets[number] = target
    over = {id(target) for target in targets.values()}
    written: dict[int, tuple[Definition, Given]] = {}
    seen: set[int] = set()
    for number, value in enumerate(made):
        again = number in targets and id(value) in seen
        if again or (isinstance(value, Given) and (number in targets or id(value) in over)):
            made[number] = value = copy_of(value)  # as it is before anything changes
            value.shown = outputs[number].shown
        if number in targets:
            seen.add(id(value))
            written[number] = value, targets[number]
    return made, written


def bunches(
    steps: Sequence[Any], works: Sequence[Any], homes: dict[int, Given]
) -> Iterator[tuple[int, Any, Any, Any]]:
    """Neighbouring small steps of which none needs another: the first one's number, how many there are, in
    how many chunks they are shared, and how long they take together. Their order is not settled then: whoever
    gives memory to their values has to know that. Where sizes are open, they are small in this call; in
    others, where they are not, there are 0 of them.
    """
    first = 0
    wholes: dict[int, Definition] = {}
    while first < len(steps):
        last, work = first, 0
        made: set[int] = set()
        read: set[int] = set()
        while last < len(steps) and _is_small(steps[last], hint(works[last])):
            reads = {key for value in reads_of(steps[last]) for key in _memory_of(value, homes, wholes)}
            written = [_memory_of(value, homes, wholes) for value in writes_of(steps[last])]
            # Parts of one memory are beside each other, so only what reads all of it has to wait for them.
            if reads & made or any(own in made or memory in read for own, memory in written):
                break
            if not isinstance(steps[last], Stack):  # which does nothing: what it shows is there already
                made |= {key for keys in written for key in keys}
            read |= reads
            work += hint(works[last])
            last += 1
        if last - first > 1 and work >= LEAST_BUNCH:
            yield first, *_bunch(works[first:last])
        first = max(last, first + 1)


def _bunch(works: Sequence[Any]) -> tuple[Any, Any, Any]:
    """How many steps, in how many chunks, and their work, for any sizes."""
    total: Any = 0
    small: Any = True
    for work in works:
        total = unsimplified("add", total, work)
        small = at_least(SMALL - 1, work) & small
    count = len(works)
    some = small & at_least(total, LEAST_BUNCH)
    chunks = unsimplified("min", count, unsimplified("floordiv", total, BUNCH_CHUNK))
    return where(some, count, 0), unsimplified("max", 1, chunks), total


def _memory_of(value: Definition, homes: dict[int, Given], wholes: dict[int, Definition]) -> tuple[int, int]:
    """What a value is known by, and the memory in which it is computed. They are one, but for parts. Long
    sums of products are walked along once: `wholes` has where they end.
    """
    memory = value.whole if isinstance(value, Part) else value
    behind: list[int] = []
    while isinstance(memory, Product) and memory.onto is not None:
        behind.append(id(memory))
        memory = wholes.get(id(memory), memory.onto)
    wholes.update(dict.fromkeys(behind, memory))
    memory = homes.get(id(memory), memory)
    return id(value) if isinstance(value, Part) else id(memory), id(memory)


def _is_small(step: Any, work: int) -> bool:
    return not can_fail(step) and 0 <= work < SMALL
