"""Native guard checks: sources and what guards ask of them, as expressions that become machine code.

Takes guards, and a call that an entry has just served; gives checks in the language of `weft.core.checks`, in
order. One idea: it does for machine code what `weft.capture.reading` does for text, but what a native read
relies on (the exact type of what it reads from) is put among the checks before it.

# Note [What has no native form]
`Unreadable` says so. Such a guard is left to one Python function, which runs before anything is read: what
native checks read must not go away under them.

# Note [Sizes]
A shortcut that runs a template, or no program, computes conditions on sizes and whole numbers in each call.
One that runs a program for some sizes is for those of the call that it was made from: these are in its checks
on tensors, so sizes are constants to it, and conditions on them hold. `weft.capture.chaining` puts shortcuts
for other sizes behind it.
"""

from __future__ import annotations

import builtins
import sys
import types
import weakref
from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final, Protocol

from weft.capture.reading import FUNCTION, has_plain_dict
from weft.capture.sources import (
    DICT_MEMBERS,
    Nothing,
    Ref,
    Source,
    builtin_base,
    class_dict,
    fetch,
    safe_member,
)
from weft.core import checks as ask
from weft.core.checks import Borrowed, Slot
from weft.core.expressions import Expression, symbol
from weft.core.interrupts import let_through
from weft.core.records import record
from weft.core.slices import PresentCall, Steps
from weft.tensor.base import PLAIN, Tensor

if TYPE_CHECKING:
    from weft.capture.guards.base import Guard

DICTS: Final = (dict, OrderedDict)
Operands = list[tuple[Expression, Expression | None]]
"""Of a graph's inputs: each, and its array if it is a tensor."""


class Unreadable(Exception):
    """Native code cannot read or check this."""


class EntryFactory(Protocol):
    """Makes native entries (`weft.native.entry.factory.Machine`): what capture asks of the native backend."""

    never: Any
    """What native entries give where a guard fails that Python's check has, too."""

    def slot(self, owner: type, name: str) -> Slot: ...

    def member(self, kind: type, name: str) -> Slot | None: ...

    def class_version(self, kind: type) -> int: ...

    def direct(self, graph: Any, inputs: Sequence[Any]) -> Any:
        """How the graph runs on these inputs without Python; None if it does not."""

    def opened(self, direct: Any) -> Any:
        """The same for all sizes that its program serves; None where it is for one."""

    def records(self, direct: Any) -> bool:
        """Whether there are nodes of the tape behind what it gives."""

    def conditions(self, direct: Any) -> list[tuple[Any, bool, dict[Any, int]]]:
        """What has to hold of numbers: expressions, their truths, and the inputs that symbols stand for."""

    def finish(self, direct: Any) -> Any:
        """What is left to do behind it, as a function of all that it gives and its inputs; None if nothing
        is. It gives the graph's results, or None where the entry itself must run."""

    def is_ready(self) -> bool:
        """Whether what all entries share is there; it is made in the background."""

    def making(
        self,
        arguments: Sequence[str],
        checks: list[Expression],
        rest: Any,
        returned: list[Expression],
        run: GraphRun | None,
        operands: Operands,
        drops: Sequence[Expression] = (),
    ) -> Steps[Any]:
        """The native function. `drops`: tensors whose old gradients go before there are new ones."""


class GraphRun(Protocol):
    """How the graph runs natively, asked when that is needed."""

    def look(self) -> Any:
        """What `EntryFactory.direct` says of the present call."""

    def check(self) -> None:
        """Raises `Differs` where inputs are not as they were when it was asked."""


@record(slots=True)
class Checks:
    """Guards as native checks."""

    factory: EntryFactory
    call: PresentCall
    sized: bool = True
    """Whether sizes and whole numbers must be those of this call: see Note [Sizes]."""
    done: list[Expression] = field(default_factory=list)
    found: dict[Source, Expression] = field(default_factory=dict)
    arrays: dict[Source, Expression] = field(default_factory=dict)
    numbers: dict[Source, Expression] = field(default_factory=dict)
    types: dict[Source, type] = field(default_factory=dict)
    lengths: dict[Source, int] = field(default_factory=dict)
    typing: dict[Source, list[Guard]] = field(default_factory=dict)
    settled: set[int] = field(default_factory=set)
    classes: set[type] = field(default_factory=set)
    walked: set[Source] = field(default_factory=set)

    @property
    def function(self) -> Any:
        return self.call.function

    @property
    def values(self) -> Mapping[str, Any]:
        return self.call.arguments

    def need(self, check: Expression) -> None:
        """Puts a check behind those that are there."""
        self.done.append(check)

    def value(self, source: Source) -> Any:
        """What stands at a source in this call, which may have changed since guards held for it."""
        try:
            return fetch(source, self.call.function, self.call.arguments)
        except Exception as error:
            let_through(error)
            raise Unreadable(f"{source}: {type(error).__name__}") from None

    def says(self, source: Source, array: Any) -> bool:
        """Whether what is checked of a tensor's array holds for this one."""
        check = self.arrays[source]
        dtype, rank, *sizes = check.args[1][2:] if check.op == "tensor" else check.args[1]
        return (
            array.dtype is dtype
            and array.ndim == rank
            and all(wanted in (-1, size) for wanted, size in zip(sizes, array.shape, strict=True))
        )

    def guard(self, guard: Guard) -> None:
        """Puts a guard among the checks. What it put stays there when it cannot be finished."""
        if id(guard) in self.settled:
            return
        guard.check(self)
        self.settled.add(id(guard))

    # -- objects ---------------------------------------------------------------------------------------------
    def hold(self, ref: Ref) -> Any:
        """A Ref's object as an operand: weakly where the Ref holds it so."""
        if ref.parts is not None or (ref.weak is not None and type(ref.weak) is not weakref.ref):
            raise Unreadable(str(ref))
        return ref.strong if ref.weak is None else ref.weak

    def unchanged(self, source: Source) -> type:
        """The class at a source that is a constant; checked not to have changed since now."""
        if source.kind != "constant":
            raise Unreadable(str(source))
        kind = source.detail()
        if not isinstance(kind, type):
            raise Unreadable(str(source))
        if kind not in self.classes:
            version = self.factory.class_version(kind)
            if not version:
                raise Unreadable(f"{kind.__name__} has no version")
            self.need(ask.version(self.hold(source.detail), version, self.factory.class_version))
            self.classes.add(kind)
        return kind

    # -- sources ---------------------------------------------------------------------------------------------
    def known(self, source: Source) -> type | None:
        found = self.types.get(source)
        if found is not None:
            return found
        for guard in self.typing.get(source, ()):
            self.guard(guard)
        found = self.types.get(source)
        if found is not None:
            return found
        if source.kind == "module" or (
            source.kind == "member" and source.detail in ("__dict__", "__globals__")
        ):
            return dict
        return types.FunctionType if source.kind == "function" else None

    def container(self, source: Source) -> type | None:
        """The type of what stands at a source, which is a tuple where functions keep such."""
        kind = self.known(source)
        if kind is None and source.kind == "member" and source.detail in ("__closure__", "__defaults__"):
            self.need(ask.type_is(self.read(source), tuple))
            kind = self.types[source] = tuple
        return kind

    def walk_to(self, source: Source) -> None:
        """Puts what guards say of types on the way to a source, and there, among the checks."""
        if source not in self.walked:
            if source.parent is not None:
                self.walk_to(source.parent)
            self.known(source)
            self.walked.add(source)

    def read(self, source: Source) -> Expression:
        """What stands at a source."""
        found = self.found.get(source)
        if found is None:
            found = self.found[source] = self.root(source) if source.parent is None else self.step(source)
        return found

    def number(self, source: Source) -> Expression:
        """The whole number that stands at a source."""
        if source not in self.numbers:
            if source.kind == "size" and source.parent is not None:
                found: Expression = ask.size(self.array(source.parent), source.detail)
            elif source.kind == "length" and source.parent is not None:
                found = self.length(source.parent)
            else:
                found = ask.whole(self.read(source))
            self.numbers[source] = found
        return self.numbers[source]

    def float_number(self, source: Source) -> Expression:
        """The float that stands at a source."""
        if source not in self.numbers:
            if self.known(source) is not float:
                raise Unreadable(str(source))
            self.numbers[source] = ask.double(self.read(source))
        return self.numbers[source]

    def plain_tensor(self, source: Source) -> Expression:
        """What stands at a source, which is a tensor or a parameter."""
        if self.known(source) not in PLAIN:
            raise Unreadable(str(source))
        return self.read(source)

    def operand(self, source: Source) -> Expression:
        """What a graph is given from a source: the number of a size, where sizes are open."""
        is_size = not self.sized and (source.kind == "size" or type(self.value(source)) is int)
        return self.number(source) if is_size else self.read(source)

    def length(self, parent: Source) -> Expression:
        """How many items stand in a container."""
        kind = self.container(parent)
        base = None if kind is None else builtin_base(kind)
        if base in DICTS:
            return ask.dict_count(self.read(parent))
        if base in (list, tuple, deque):
            return ask.count(self.read(parent))
        raise Unreadable(f"len({parent})")

    def array(self, source: Source) -> Expression:
        """The array of a tensor whose class and rank are checked."""
        if source not in self.arrays:
            self.known(source)
        if source not in self.arrays:
            raise Unreadable(str(source))
        return self.arrays[source]

    def root(self, source: Source) -> Expression:
        match source.kind:
            case "local":
                return symbol(source.detail, object)
            case "function":
                return symbol(FUNCTION, object)
            case "module":
                return ask.held(safe_member(sys.modules[source.detail], "__dict__"))
            case "builtin":
                return ask.dict_item(ask.held(builtins.__dict__), source.detail)
            case _:
                return ask.held(self.hold(source.detail))

    def step(self, source: Source) -> Expression:
        parent, detail = source.parent, source.detail
        assert parent is not None
        match source.kind:
            case "field":
                return ask.dict_item(self.read(parent.member("__dict__")), detail)
            case "entry":
                return ask.held(Borrowed(class_dict(self.unchanged(parent))[detail]))
            case "member":
                return self.member(parent, detail)
            case "slot":
                kind, owner = self.known(parent), detail[0]()
                if kind is None or owner is None or not issubclass(kind, owner):
                    raise Unreadable(str(source))
                return ask.slot(self.read(parent), self.factory.slot(owner, detail[1]))
            case "item":
                return self.item(parent, detail)
            case "maybe":
                return self.maybe(parent, *detail)
            case "key" | "value":
                return ask.walked(self.walk(parent), 2 * int(detail) + (source.kind == "value"))
            case "cell" if self.known(parent) is types.CellType or parent.kind == "item":
                return self.cell(parent)
            case "size" if self.sized:
                self.array(parent)  # whose sizes are checked
                return ask.held(self.value(source))
            case _:
                raise Unreadable(str(source))

    def cell(self, parent: Source) -> Expression:
        place = self.factory.member(types.CellType, "cell_contents")
        if place is None:
            raise Unreadable(str(parent))
        above = self.read(parent)
        self.need(ask.type_is(above, types.CellType))
        return ask.slot(above, place)

    def member(self, parent: Source, name: str) -> Expression:
        kind = self.known(parent)
        if kind is None:
            raise Unreadable(f"{name} of {parent}")
        if kind in PLAIN:
            if name == "array" and parent in self.arrays:
                return self.arrays[parent]
            if name in Tensor.__slots__ and not name.startswith("__"):
                return ask.slot(self.read(parent), self.factory.slot(Tensor, name))
        elif name == "__dict__" and not issubclass(kind, type) and has_plain_dict(kind):
            if kind.__dictoffset__ == 0:
                raise Unreadable(str(parent))
            return ask.instance_dict(self.read(parent), dict)
        else:
            place = self.factory.member(kind, name)
            if place is not None:
                found = ask.slot(self.read(parent), place)
                if name in DICT_MEMBERS:  # somebody may have put a subclass there
                    self.need(ask.type_is(found, dict))
                return found
        raise Unreadable(f"{name} of {parent}")

    def item(self, parent: Source, key: Any) -> Expression:
        kind = self.container(parent)
        if (kind is list or (kind is tuple and type(key) is int and key >= 0)) and type(key) is int:
            return (ask.list_item if kind is list else ask.tuple_item)(self.read(parent), key)
        if kind is not None and builtin_base(kind) in DICTS and type(key) in (str, int):
            return ask.dict_item(self.read(parent), key)
        raise Unreadable(f"{parent}[{key!r}]")

    def maybe(self, parent: Source, key: Any, kind: Ref) -> Expression:
        owner = self.container(parent)
        if owner is None or builtin_base(owner) not in DICTS or type(key) not in (str, int):
            raise Unreadable(f"{parent}.get({key!r})")
        nothing = Nothing()
        found = ask.dict_maybe(self.read(parent), key, nothing)
        self.need(ask.type_or(found, kind(), nothing))
        return found

    def walk(self, parent: Source) -> Expression:
        """A dict's keys and values."""
        place = parent.member("<entries>")
        if place not in self.found:
            kind, count = self.known(parent), self.lengths.get(parent)
            if kind is None or builtin_base(kind) is not dict or count is None:
                raise Unreadable(str(parent))
            self.found[place] = ask.dict_walk(self.read(parent), count)
        return self.found[place]
