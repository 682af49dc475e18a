"""Native entries: what stands in front of an entry in use, once that has served some calls.

Takes an entry in use and the calls that it serves; exchanges what runs in its place. One idea: it can be made
without anybody waiting. Where calls are to be smooth (`settings.tiers`), what all native entries share is
made in the background, the rest in slices behind calls, and until it is there the entry itself serves; else
all of it is made behind the second call.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from weft.capture.binding import parameter_names
from weft.capture.fronts import uncounted
from weft.capture.shortcut import ANY, CALLS_BEFORE_NATIVE_ENTRY, EARLY, before_calls
from weft.core.handlers import out_of_handlers
from weft.core.interrupts import let_through
from weft.core.slices import Differs, PresentCall, Sliced, Steps, at_once, share


class NativeEntry:
    """The native entry of one that is in use, from its first call on until it is there."""

    def __init__(self, context: Any, cache: Any, installed: Any, step: Any) -> None:
        self.context, self.cache, self.installed, self.step = context, cache, installed, step
        self.names = parameter_names(cache.code)
        self.calls = 0
        self.work: Sliced[tuple[Any, str] | None] | None = None
        self.is_there = False

    def served(self, function: Any, values: Any, seconds: float) -> None:
        """Told of each call that the entry has served, and of how many seconds that took."""
        self.calls += 1
        if self.calls == 1 and self.installed.entry.noted is not None:
            self.installed.entry.noted(function, values)
        factory = self.context.entry_factory()
        if factory is not None and self.calls < CALLS_BEFORE_NATIVE_ENTRY:
            factory.is_ready()  # which it will be, a moment later
        elif not self.is_there:
            found = self.gone_on(factory, function, values, share(seconds))
            if found is not None:
                self.publish(found[0])

    def gone_on(self, factory: Any, function: Any, values: Any, seconds: float) -> Any:
        """What comes of a slice of work, in a tuple: a shortcut and for which calls it is, or None where
        there is none. None where there is more to do."""
        if factory is None:
            return (None,)
        if self.work is None:
            self.work = Sliced(partial(self.making, factory))
        try:
            return out_of_handlers(self.work.go_on, function, self.arguments(values), seconds)
        except Differs:
            return (self.at_once(function, values),)
        except Exception as error:  # the call is served, and the entry serves the next ones
            let_through(error)
            self.context.has_no_native_entry(function, error)
            return (None,)
        except BaseException:
            self.work = None  # what an interrupt has ended is begun anew
            raise

    def making(self, factory: Any, call: PresentCall) -> Steps[tuple[Any, str] | None]:
        made: Steps[tuple[Any, str] | None] = self.installed.entry.make_native_entry(factory, self.step, call)
        return made

    def at_once(self, function: Any, values: Any) -> tuple[Any, str] | None:
        """A shortcut made from this call, and for which calls it is; None where there is none."""
        factory, call = self.context.entry_factory(), PresentCall(function, self.arguments(values))
        try:
            return out_of_handlers(at_once, self.making(factory, call))
        except Differs:
            return None
        except Exception as error:
            let_through(error)
            self.context.has_no_native_entry(function, error)
            return None

    def arguments(self, values: Any) -> dict[str, Any]:
        return dict(zip(self.names, values, strict=True))

    def publish(self, made: tuple[Any, str] | None) -> None:
        """Has it run from now on: in front of the entry, which stands alone where there is none."""
        quick, kind = made or (self.step, ANY)
        check = self.installed.entry.check
        if kind == EARLY and check is not None:
            quick = partial(self._ahead, before_calls(quick, check(), self.at_once))
        self._put(quick)

    def _put(self, run: Any) -> None:
        with self.cache.lock:
            self.is_there = True
            if self.installed.step is self.step:  # else it was given up meanwhile
                self.installed.run = run
                self.cache.refresh()

    @uncounted
    def _ahead(self, ahead: Any, function: Any, *values: Any) -> Any:
        """A call for which a shortcut is made at its beginning, or one that does not fit."""
        result, quick = ahead(function, *values)
        if quick is not None:
            self._put(quick)
        return result
