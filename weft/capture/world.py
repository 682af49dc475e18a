"""World: what capture knows of the objects that existed before the call, and what it means to do to them.

Takes objects as they are read, each with its source, and gives the values that the interpreter works on. One
idea: the real objects are never written; what the captured code changed stands here until it is emitted.

# Note [Values of the interpreter]
The interpreter's values are ordinary Python objects. One that existed before the call has a `Known` record:

- a tensor: `value` is a fake of the same class, `original` the real one;
- a list, dict, set, tuple, deque, ...: `value` is a *mirror*, a real container of the same class whose items
  are values in turn. Captured code writes to the mirror; `snapshot` is what it held at first, and the
  difference is emitted as stores;
- anything else (user objects, functions, classes, modules, cells): `value` is the original itself. Writes
  go to an `Overlay` beside it.

An object without a record was made by the captured code ("fresh"), or is a constant.
"""

from __future__ import annotations

import contextlib
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from typing import Any

from weft.capture.guards import Guard, GuardSet
from weft.capture.plain import NotPlain
from weft.capture.sources import Source, Unholdable
from weft.capture.values import CapturedGenerator
from weft.capture.walkers import WALKERS, standing
from weft.core.records import record
from weft.trace.breaks import Break

ABSENT: Any = type("Absent", (), {"__repr__": lambda self: "<absent>", "__slots__": ()})()
"""Stands for an attribute, item or cell content that is not there."""


@record(slots=True)
class Known:
    """An object that existed before the call."""

    value: Any
    original: Any
    source: Source
    snapshot: Any = None
    """A mirror's first items: a list for sequences and sets, a list of (key, value) pairs for mappings."""


@record(slots=True)
class Overlay:
    """Writes to an object that existed before: attributes, dict items (`globals()`), or a cell's content."""

    target: Any
    kind: str  # "attribute", "item" or "cell"
    source: Source
    writes: dict[Any, Any] = field(default_factory=dict)
    """New values in order of first write; ABSENT where deleted. A cell's content stands under None."""
    deleted: dict[Any, None] = field(default_factory=dict)
    """Names that were deleted at some time: written again, they stand last."""


@record(slots=True)
class Unopened:
    """A container that existed before, and of which captured code has looked at parts alone: see
    Note [Containers that grow] in `weft.capture.parts`.
    """

    original: Any
    source: Source
    log: list[tuple[str, tuple[Any, ...]]] = field(default_factory=list)
    """The methods that changed it, with their arguments."""
    front: list[Any] = field(default_factory=list)
    back: list[Any] = field(default_factory=list)
    """What a sequence has before and behind what it held."""
    first: int = 0
    last: int = 0
    """How many items are gone of those that it held, from the beginning and from the end."""
    items: dict[Any, Any] = field(default_factory=dict)
    """What a dict has under keys that were written; ABSENT where they were deleted."""
    cleared: bool = False
    """Whether it holds nothing of what it held."""
    default: Any = None
    """Of one that a dict may lack, as long as nothing depends on it: the empty one that is put there then."""
    found: bool = True
    """Whether the dict had it in this call."""
    made: Any = None
    """What stands for it since it is known that the dict lacked it."""


class World:
    """The objects of one capture."""

    def __init__(self) -> None:
        self.guards = GuardSet()
        self.known: dict[int, Known] = {}
        self.by_original: dict[int, Known] = {}
        self.overlays: dict[int, Overlay] = {}
        self.let_go: dict[int, bool] = {}
        """Tensors, by `id`: whether what `.grad` held before may go away early. See `weft.capture.grads`."""
        self.unopened: dict[int, Unopened] = {}
        """Containers read in parts, by the `id` of the original; those too that were opened since."""
        self.raised: dict[int, tuple[BaseException, int]] = {}
        """Exceptions raised by captured code, with the root frame's step at that time."""
        self.changes = 0
        """How often captured code has changed something: `protocols.purely` compares."""
        self.pure = 0
        """While above 0, code runs that C code will run again: it must see what C code sees."""
        self.settled: dict[int, int] = {}
        """The hashes of keys whose `__hash__` is the user's, by `id`."""
        self.identified: dict[int, Known] = {}
        """Objects whose identity decided something (as keys, by `is`): distinct ones must stay distinct."""
        self.cramped: set[int] = set()
        """Mirrors of sets whose tables have another size, by `id`: changed, they walk otherwise."""
        self.saving = 0
        """How many pairs of saved-tensor hooks captured code has put on and not taken off."""
        self.hooked: list[Any] = []
        """Hooks that captured code registered or removed, in order: see `weft.capture.hooking`."""
        self.float_errors: Mapping[str, Any] = {}
        """What NumPy does about floating point errors where the captured call stands."""
        self.namespaces: dict[int, Any] = {}
        """Whose attributes or globals a dict holds, by the `id` of the dict."""
        self.nodes: dict[int, Any] = {}
        """The tensors whose nodes captured code looked at, by the `id` of the node."""
        self._keep: list[Any] = []
        self.steps_now: Callable[[], int] = lambda: 0
        self.made_at: dict[int, int] = {}
        """The root frame's step at which a value was first kept."""
        self.generators: list[weakref.ref[Any]] = []

    def guard(self, kind: str, source: Source, payload: Any = None) -> None:
        try:
            guard = Guard(kind, source, payload)
        except (Unholdable, NotPlain) as error:
            raise Break("cannot-guard", seen=f"{source}: {error}") from None
        self.guards.add(guard)

    # -- identity --------------------------------------------------------------------------------------------
    def learn(self, value: Any, original: Any, source: Source, snapshot: Any = None) -> Any:
        """Files an object that existed before; returns the value to work with."""
        known = Known(value, original, source, snapshot)
        self.known[id(value)] = self.by_original[id(original)] = known
        return value

    @contextlib.contextmanager
    def mirroring(self, mirror: Any, original: Any, source: Source) -> Iterator[None]:
        """Files the mirror of a container that is filled inside, since its items may lead to it. Where that
        fails, the container stays as unopened as it was, with all that was done to it.
        """
        self.learn(mirror, original, source)
        try:
            yield
        except BaseException:
            self._keep.append(mirror)  # which others may hold by its `id`
            del self.known[id(mirror)], self.by_original[id(original)]
            raise

    def keep(self, value: Any) -> Any:
        """Keeps a value alive as long as the capture, so that its `id` stays its own."""
        if type(value) is CapturedGenerator:
            return value  # whose end is part of the program
        self._keep.append(value)
        self.made_at.setdefault(id(value), self.steps_now())
        return value

    def claim(self, fields: dict[str, Any], owner: Any) -> None:
        """Notes that a dict is read and written name by name for one owner, and in no other way."""
        mirror = self.by_original.get(id(fields))
        mirrored = mirror is not None and isinstance(mirror.value, dict)
        if (
            mirrored
            or id(fields) in self.unopened
            or self.namespaces.setdefault(id(fields), owner) is not owner
        ):
            raise Break("unusual-object", seen="a __dict__ that two sources lead to")

    def watch(self, generator: Any) -> None:
        """Notes a generator, which is not kept: see Note [Generators die] in `weft.capture.generators`."""
        self.generators.append(weakref.ref(generator))
        self.made_at[id(generator)] = self.steps_now()

    def source_of(self, value: Any) -> Source | None:
        known = self.known.get(id(value))
        return None if known is None else known.source

    def identify(self, value: Any) -> None:
        """Notes that something depends on which object this is."""
        known = self.known.get(id(value))
        if known is not None:
            self.identified[id(value)] = known

    def is_fresh(self, value: Any) -> bool:
        return id(value) not in self.known

    def forget(self) -> None:
        """Lets go of all objects; guards stay."""
        for held in vars(self).values():
            if isinstance(held, (dict, list)):
                held.clear()

    # -- overlays --------------------------------------------------------------------------------------------
    def overlay(self, target: Any, kind: str, source: Source) -> Overlay:
        found = self.overlays.get(id(target))
        if found is None:
            found = self.overlays[id(target)] = Overlay(target, kind, source)
        return found

    def write(self, target: Any, kind: str, source: Source, name: Any, new: Any) -> None:
        """Files a write to an object that existed before; ABSENT deletes."""
        self.changes += 1
        overlay = self.overlay(target, kind, source)
        self.keep(new)
        if new is ABSENT or name in overlay.deleted:  # what comes back after that stands last
            overlay.writes.pop(name, None)
            overlay.deleted[name] = None
        overlay.writes[name] = new

    def written(self, target: Any, name: Any) -> tuple[bool, Any]:
        """Whether captured code wrote this attribute, item or content, and what (ABSENT: it deleted it)."""
        found = self.overlays.get(id(target))
        if found is None or name not in found.writes:
            return False, None
        if self.pure:
            raise Break("builtin-protocol", seen=f"{name} of a key, written before")
        return True, found.writes[name]

    # -- containers ------------------------------------------------------------------------------------------
    def changed_mirrors(self) -> list[Known]:
        """The mirrors that no longer hold what the originals hold, in order of first reading."""
        return [known for known in self.known.values() if known.snapshot is not None and is_changed(known)]

    def still_unopened(self) -> list[Unopened]:
        """The containers of which only parts are known."""
        found = [each for key, each in self.unopened.items() if key not in self.by_original]
        return [each for each in found if each.made is None]

    def logged(self) -> list[Any]:
        """What was put into unopened containers."""
        return [value for found in self.still_unopened() for _name, args in found.log for value in args]


def is_changed(known: Known) -> bool:
    now = items_of(known.value)
    before = known.snapshot
    if type(known.value) in WALKERS:
        return bool(now != before)
    if len(now) != len(before):
        return True
    if isinstance(known.value, dict):
        return any(k is not k0 or v is not v0 for (k, v), (k0, v0) in zip(now, before, strict=True))
    return any(a is not b for a, b in zip(now, before, strict=True))


def items_of(container: Any) -> list[Any]:
    """What a mirror holds, in the form of `Known.snapshot`: of an iterator, where it stands."""
    if type(container) in WALKERS:
        return [standing(container)]
    if isinstance(container, dict):
        base = OrderedDict if isinstance(container, OrderedDict) else dict  # which keeps its order apart
        return list(base.items(container))
    kinds: tuple[Any, ...] = (list, set, deque)  # whose users' classes may iterate otherwise
    kind = next((kind for kind in kinds if isinstance(container, kind)), None)
    return list(container if kind is None else kind.__iter__(container))


Where = Callable[[], tuple[str, int, str] | None]
