"""What every kind of guard is: a class with all that is known of it.

Takes what capture read (a source and what it saw there), gives `Guard`, `GuardSet` and `explain_miss`. One
idea: `fits` says what a guard means; the text of `render`, the machine code of `check`, and what its `form`
puts on disk and finds there must agree with it. None of them runs code of a user's, and an exception in any
of them is a miss.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

import numpy as np

from weft.capture.guards.facts import TensorFacts
from weft.capture.plain import NotPlain, exact_key, freeze, thaw
from weft.capture.reading import Reader
from weft.capture.sources import Ref, Source, fetch, wrapped_parts
from weft.core.errors import qualified_name
from weft.core.interrupts import let_through
from weft.core.records import record
from weft.tensor.base import PLAIN
from weft.tensor.meta import MetaArray

if TYPE_CHECKING:
    from weft.capture.checking import Checks
    from weft.capture.entry_cache.read import EntryReader
    from weft.capture.entry_cache.write import EntryWriter

Fetch = Callable[[Source], Any]
"""Gives what stands at a source."""
KINDS: Final[dict[str, type[Guard]]] = {}
PARTS: Final = ("fits", "describe", "render", "check", "form")
"""What a kind cannot be without."""


class Form(NamedTuple):
    """How payloads stand in JSON. Unkept where one means nothing to other processes."""

    write: Callable[[EntryWriter, Any], Any]
    read: Callable[[EntryReader, Source | None, Any], Any]
    """What `write` has been given, in this process's objects."""


NAME: Final = Form(lambda writer, name: writer.text(name), lambda reader, _at, data: reader.plain(data))
PICTURE: Final = Form(
    lambda writer, picture: writer.plain(picture), lambda reader, _at, data: thaw(reader.plain(data))
)
OBJECT: Final = Form(lambda writer, ref: writer.ref(ref), lambda reader, _at, data: reader.ref(data))
SOURCE: Final = Form(
    lambda writer, source: writer.source(source), lambda reader, _at, data: reader.sources[data]
)
LIST: Final = Form(lambda _writer, items: list(items), lambda _reader, _at, data: data)


def each(form: Form) -> Form:
    """Of payloads that are tuples of what has a form."""
    return Form(
        lambda writer, items: [form.write(writer, item) for item in items],
        lambda reader, at, data: [form.read(reader, at, item) for item in data],
    )


class Guard:
    """One predicate: `Guard("TYPE", source, int)` is of the class that has this name.

    Payloads may be given raw (a class, an object, a value): `normal` gives the form that is held.
    """

    kind: ClassVar[str]
    form: ClassVar[Form]
    around: ClassVar[bool] = False
    """Whether it is about what is around the call, and reads no source."""
    tells_type: ClassVar[bool] = False
    """Whether parts of what stands at the source can be read quickly behind it."""
    tells_value: ClassVar[bool] = False
    """Whether it lets one value through, or tensors of one type, so that shortcuts need ask no more."""
    early: ClassVar[bool] = False
    """Whether others are checked natively behind it."""

    def __init_subclass__(cls, kind: str = "") -> None:
        if not kind:
            return  # what several kinds have in common
        lacking = [part for part in PARTS if all(part not in vars(base) for base in cls.__mro__[:-2])]
        if lacking or kind in KINDS:
            raise TypeError(
                f"guards of kind {kind} lack {', '.join(lacking)}" if lacking else f"two are {kind}"
            )
        cls.kind = kind
        KINDS[kind] = cls

    def __new__(cls, kind: str, *_given: Any, **_named: Any) -> Guard:
        return super().__new__(KINDS[kind])

    def __init__(
        self,
        kind: str,
        source: Source | None,
        payload: Any = None,
        where: tuple[str, int, str] | None = None,
    ) -> None:
        self.source, self.payload, self.where = source, self.normal(payload), where

    # -- what a kind is --------------------------------------------------------------------------------------
    def normal(self, payload: Any) -> Any:
        """The payload as it is held."""
        return payload

    def found(self, fetch: Fetch) -> Any:
        """What the guard looks at."""
        return fetch(self.at)

    def fits(self, found: Any) -> bool:
        """Whether the guard holds, by what was found."""
        raise NotImplementedError

    def describe(self) -> str:
        """The guard as a Python-like expression: `type(L['x']) is Tensor`, `L['n'] == 3`."""
        raise NotImplementedError

    def render(self, reader: Reader) -> None:
        """Appends lines of Python that miss where the guard fails."""
        raise NotImplementedError

    def check(self, checks: Checks) -> None:
        """Puts what native code has to ask among the checks; Unreadable where it cannot."""
        raise NotImplementedError

    # -- what others ask -------------------------------------------------------------------------------------
    def actual(self, found: Any) -> str:
        """The text of what was found instead."""
        return safe_text(found)

    def key(self) -> Any:
        """What tells payloads apart."""
        return self.payload

    def sources(self) -> list[Source]:
        """Every source that the guard reads."""
        return [] if self.source is None else [self.source]

    def turn(self) -> int:
        """When it is checked natively: sizes that vary come first, since most misses are theirs."""
        return 1 if self.early else 2

    def changed(self, fetch: Fetch) -> set[str]:
        """The sizes and numbers whose change made the guard fail, as the text of their sources."""
        return set()

    def apart(self, found: Any) -> dict[str, tuple[str, str]]:
        """The numbers, sizes and objects that the guard lets through with one value alone, and that were
        others: by name, the text of what it asks for, and of what was found."""
        return {}

    def exact_sources(self) -> list[Source]:
        """What the guard lets through with one value alone, be it that of a number computed from there."""
        return []

    def units(self) -> set[str]:
        """Sources of sizes and numbers that are 0 or 1, as text: these are never symbols."""
        return set()

    def is_open(self) -> bool:
        """Whether tensors of several sizes may stand at the source."""
        return False

    # -- what all have in common -----------------------------------------------------------------------------
    @property
    def at(self) -> Source:
        if self.source is None:
            raise ValueError(f"a {self.kind} guard needs a source")
        return self.source

    def holds(self, fetch: Fetch) -> bool:
        """Whether the guard holds. Raises interrupts alone."""
        try:
            return self.fits(self.found(fetch))
        except Exception as error:
            let_through(error)
            return False

    def __eq__(self, other: object) -> bool:
        """Equal are guards that say the same."""
        return (
            isinstance(other, Guard)
            and self.kind == other.kind
            and self.source == other.source
            and bool(self.key() == other.key())
        )

    def __hash__(self) -> int:
        return hash((self.kind, self.source, self.key()))

    def __str__(self) -> str:
        return self.describe()

    def __repr__(self) -> str:
        return f"<{self.kind}: {self}>"


class ByName(Guard):
    """A kind whose payload is a name or a number."""

    form = NAME


class Pictured(Guard):
    """A kind whose payload is the picture of a value."""

    form = PICTURE

    def normal(self, payload: Any) -> Any:
        return freeze(payload)

    def key(self) -> Any:
        return exact_key(self.payload)


class GuardSet:
    """Guards in the order in which they were added, each once."""

    def __init__(self, guards: Iterable[Guard] = ()) -> None:
        self._guards: dict[Guard, None] = {}
        for guard in guards:
            self.add(guard)

    def add(self, guard: Guard) -> None:
        self._guards.setdefault(guard)

    def update(self, guards: Iterable[Guard]) -> None:
        for guard in guards:
            self.add(guard)

    def __iter__(self) -> Iterator[Guard]:
        return iter(self._guards)

    def __len__(self) -> int:
        return len(self._guards)

    def __contains__(self, guard: object) -> bool:
        return guard in self._guards

    def __str__(self) -> str:
        return "\n".join(map(str, self))


def fetching(function: Any, values: Mapping[str, Any]) -> Fetch:
    """Reads sources for a call of `function` with these locals."""
    return lambda source: fetch(source, function, values)


def holds(guard: Guard, function: Any, values: Mapping[str, Any]) -> bool:
    """Whether the guard holds for a call of `function` with these locals. Raises interrupts alone."""
    return guard.holds(fetching(function, values))


# -- misses --------------------------------------------------------------------------------------------------
@record(frozen=True, slots=True)
class Miss:
    """The guard that failed, and what was there instead."""

    guard: Guard
    actual: str

    def __str__(self) -> str:
        return f"{self.guard}  # actual {self.actual}"


def explain_miss(guards: Iterable[Guard], function: Any, values: Mapping[str, Any]) -> Miss | None:
    """The first guard that does not hold for these locals, or None."""
    read = fetching(function, values)
    for guard in guards:
        if not guard.holds(read):
            return Miss(guard, _actual(guard, read))
    return None


def _actual(guard: Guard, read: Fetch) -> str:
    try:
        found = guard.found(read)
    except Exception as error:
        let_through(error)
        return f"nothing there ({type(error).__name__})"
    try:
        return guard.actual(found)
    except Exception as error:
        let_through(error)
        return f"an object of class {type(found).__name__}"


def wild(source: Any) -> str:
    """The mark of a source whose values always differ; see Note [Wild values] in `weft.capture.misses`."""
    return f"{source} is wild"


def shown(source: Any) -> str:
    """The mark of a whole number that varies: its texts are open, see `weft.capture.open_texts`."""
    return f"{source} is shown"


def object_text(value: Any) -> str:
    """A text for an object that no other one has while it lives."""
    return f"{qualified_name(type(value))} object at {id(value):#x}"


def short(value: Any, limit: int = 120) -> str:
    text = repr(value)
    return text if len(text) <= limit else text[: limit - 3] + "..."


def safe_text(value: Any) -> str:
    """A text for the value that runs no `__repr__` of a user's."""
    if type(value) in PLAIN and type(getattr(value, "array", None)) in (np.ndarray, MetaArray):
        return str(TensorFacts.of(value))
    try:
        return short(thaw(freeze(value)))
    except NotPlain:
        return f"an object of class {qualified_name(type(value))}"


# -- objects that guards hold --------------------------------------------------------------------------------
def as_ref(value: Any) -> Ref:
    return value if isinstance(value, Ref) else Ref(value)


def is_object(value: Any, ref: Ref) -> bool:
    """Whether the value is the Ref's object: never once that is gone."""
    if ref.parts is not None:
        return type(value) is ref.kind and all(map(is_object, wrapped_parts(value), ref.parts))
    return value is ref() and (value is not None or ref.is_none)


def is_not(reader: Reader, text: str, ref: Ref) -> str:
    """The condition that `text` is not the object of a Ref (which gives None once it is gone)."""
    if ref.weak is None:
        return f"{text} is not {reader.constant(ref.strong, getattr(ref.strong, '__name__', ''))}"
    return f"{text} is not {reader.constant(ref.weak)}()"


def type_of(reader: Reader, text: str) -> str:
    return f"{reader.constant(type, 'type')}({text})"
