"""Guards on what is around a call: the kinds MODE and AMBIENT.

Takes the modes that are active, and functions of ours that tell settings; reads no source. One idea: modes
are compared by what matters to a graph, so an autocast that is a new object each time is the same one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from weft.amp.casting import Autocast
from weft.capture.checking import Checks, Unreadable
from weft.capture.digests import Unkept
from weft.capture.guards.base import Fetch, Form, Guard, as_ref
from weft.capture.guards.values import differs
from weft.capture.plain import SINGLETONS, freeze, identical, thaw
from weft.capture.reading import Reader
from weft.capture.sources import Ref
from weft.core import checks as ask
from weft.core import modes
from weft.core.records import record

if TYPE_CHECKING:
    from weft.capture.entry_cache.write import EntryWriter


@record(frozen=True, slots=True)
class ModeFacts:
    """A `Modes` record in what matters: plain facts, and the objects among them as Refs."""

    plain: tuple[tuple[str, Any], ...]
    objects: tuple[Any, ...]

    @classmethod
    def of(cls, mode: Any) -> ModeFacts:
        return cls(plain_modes(mode), tuple(Ref(part) for part in _mode_objects(mode)))

    def holds(self, mode: Any) -> bool:
        if type(mode) is not modes.Modes:
            return False
        if plain_modes(mode) != self.plain:
            return False
        parts = _mode_objects(mode)
        return len(parts) == len(self.objects) and all(
            part is ref() and part is not None for part, ref in zip(parts, self.objects, strict=True)
        )


def plain_modes(mode: Any) -> tuple[tuple[str, Any], ...]:
    """What has no identity: flags, and the facts of an autocast, which is a new object each time."""
    names = ("grad", "inference", "saved_hooks_error", "anomaly", "shielded", "wary", "unhandled")
    facts = [(name, getattr(mode, name)) for name in names]
    # Which hooks they are makes no difference: a graph runs under those that are active then.
    facts += [("saved_hooks", bool(mode.saved_hooks)), ("witness", mode.witness is not None)]
    for _name, value in mode.extra:
        if type(value) is Autocast:
            facts += [("autocast", value.dtype), ("caching", value.caching)]
    return tuple(facts)


def _mode_objects(mode: Any) -> list[Any]:
    others = [value for _name, value in mode.extra if type(value) is not Autocast]
    return [*mode.functions, *mode.dispatch, *others]


def is_watched(mode: Any, grad: bool) -> bool:
    """Whether nothing is active but gradients (or not) and a witness of a Function's forward, who sees what
    a graph computes as well as anything else.
    """
    if type(mode) is not modes.Modes or mode.witness is None or mode.grad is not grad:
        return False
    others = [name for name in modes.Modes.__slots__ if name not in ("grad", "witness")]
    return all(getattr(mode, name) == getattr(UNWATCHED, name) for name in others)


UNWATCHED: Final = modes.Modes()


def _plain_mode(_writer: EntryWriter, payload: Any) -> bool:
    if type(payload) is not bool:
        raise Unkept("modes around the call")
    return payload


class ModesAround(Guard, kind="MODE"):
    """The modes around the call; True and False are the plain ones."""

    around = True
    early = True
    form = Form(_plain_mode, lambda _reader, _at, data: data)

    def normal(self, payload: Any) -> Any:
        if type(payload) is not modes.Modes:
            return payload
        return payload.grad if is_watched(payload, payload.grad) else ModeFacts.of(payload)

    def found(self, fetch: Fetch) -> Any:
        return modes.current()

    def fits(self, found: Any) -> bool:
        facts = self.payload
        return facts.holds(found) if type(facts) is ModeFacts else found is facts or is_watched(found, facts)

    def describe(self) -> str:
        return f"modes == {mode_text(self.payload)}"

    def actual(self, found: Any) -> str:
        return mode_text(found if type(found) is bool else ModeFacts.of(found))

    def render(self, reader: Reader) -> None:
        now = f"{reader.constant(modes.current, 'modes')}()"
        if type(self.payload) is ModeFacts:
            reader.miss_if(f"not {reader.bind(self.payload.holds, 'mode')}({now})")
        else:
            watched = f"{reader.constant(is_watched, 'watched')}({now}, {self.payload!r})"
            reader.miss_if(f"{now} is not {self.payload!r} and not {watched}")

    def check(self, checks: Checks) -> None:
        if type(self.payload) is not bool:
            raise Unreadable(str(self))
        checks.need(ask.mode(modes.state, self.payload))


def mode_text(payload: Any) -> str:
    if type(payload) is not ModeFacts:
        return f"(grad={payload})"
    facts = [f"{name}={value!r}" for name, value in payload.plain]
    return f"({', '.join([*facts, *map(repr, payload.objects)])})"


class Ambient(Guard, kind="AMBIENT"):
    """(function of ours, result): a global setting such as the default dtype."""

    around = True
    early = True
    form = Form(
        lambda writer, payload: [writer.ref(payload[0]), writer.plain(payload[1])],
        lambda reader, _at, data: (reader.ref(data[0]), thaw(reader.plain(data[1]))),
    )

    def normal(self, payload: Any) -> Any:
        return as_ref(payload[0]), freeze(payload[1])

    def found(self, fetch: Fetch) -> Any:
        return self.payload[0]()()

    def fits(self, found: Any) -> bool:
        return identical(found, self.payload[1])

    def describe(self) -> str:
        return f"{self.payload[0].label.rpartition(':')[2]}() == {thaw(self.payload[1])!r}"

    def render(self, reader: Reader) -> None:
        ref, picture = self.payload
        found = reader.assign(f"{reader.read_ref(ref)}()")
        reader.miss_if(" or ".join(differs(reader, found, picture)))

    def check(self, checks: Checks) -> None:
        ref, picture = self.payload
        if type(picture) not in SINGLETONS:
            raise Unreadable(str(self))
        checks.need(ask.call_is(checks.hold(ref), picture))
