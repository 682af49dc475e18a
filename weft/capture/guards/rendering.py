"""Guards as Python source: lines that return MISS where a guard fails.

Takes guards and a `Reader`, appends to its lines. One idea: each guard emits the condition under which it
FAILS, taking the short way where the lines before have checked a type; here is the order.

The lines must stand in a `try` whose `except Exception` returns MISS: `guarded` puts them there.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from weft.capture.guards.base import Guard
from weft.capture.guards.classes import AbsentFromClass, render_absent
from weft.capture.guards.tensors import TensorGuard
from weft.capture.reading import Reader, missed
from weft.capture.sources import Source

MANY: Final = 64  # tensors: from here on each is looked at by a call, since texts take long to compile


def render_guards(guards: Iterable[Guard], reader: Reader) -> None:
    """Appends the guards to the reader's lines: modes first, then what is asked of classes (so that no read
    that relies on a class comes before its check), then the rest in order, types before parts.
    """
    ordered = list(guards)
    reader.terse = sum(type(guard) is TensorGuard for guard in ordered) >= MANY
    around = [guard for guard in ordered if guard.around]
    classes = [g for g in ordered if g.source is not None and g.source.root().kind == "constant"]
    for guard in around:
        guard.render(reader)
    render_absent([guard for guard in classes if type(guard) is AbsentFromClass], reader)
    done = {id(guard) for guard in ordered if guard.around or type(guard) is AbsentFromClass}
    typing: dict[Source, list[Guard]] = {}
    for guard in ordered:
        if guard.source is not None and guard.tells_type:
            typing.setdefault(guard.source, []).append(guard)
    for guard in [*classes, *ordered]:
        if id(guard) in done:
            continue
        places = [place for source in guard.sources() for place in source.path()]
        for needed in [*(first for place in places for first in typing.get(place, ())), guard]:
            if id(needed) not in done:
                done.add(id(needed))
                needed.render(reader)


def guarded(reader: Reader) -> list[str]:
    """The reader's lines so far, in a `try` that turns any exception into a miss."""
    if not reader.lines:
        return []
    miss = reader.constant(missed, "missed")
    error = reader.bind(Exception, "Exception")
    return ["try:", *("    " + line for line in reader.lines), f"except {error}: return {miss}()"]
