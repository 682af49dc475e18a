"""Runtime: which compiled entry serves a call, and what happens when none does.

Takes functions to compile and the capture that compiles one call (`Compile`, handed in by the compiler),
gives fronts (see Note [Front]). One idea: entries of one code object form an immutable tuple that is only
ever replaced whole, so looking one up needs no lock; compiling does.

# Note [Tails]
A segment that breaks inside a loop would nest one resume function in the next for each turn. So what a
segment returns at its end, `resume(...)(values)`, is a `Tail`: the region's loop runs it when the segment is
gone.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from time import perf_counter
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, MethodType
from typing import Any

import weft.capture.bytecode.drafts as drafts
from weft.autograd.compiled_calls import Unexpected
from weft.capture.binding import parameter_names, takes_alike
from weft.capture.break_instruction import enter_original
from weft.capture.deoptimise import AS_WRITTEN, Errors, Setbacks, Tail, failure, line_of
from weft.capture.eligible import may_compile
from weft.capture.fronts import front_code, is_front, make_front, original_call, public, uncounted
from weft.capture.fronts import original_of as original_of
from weft.capture.guards import Guard, explain_miss
from weft.capture.kinds import Unsupported, advice, render_break
from weft.capture.logs import warn_user
from weft.capture.misses import adopted, apart, changed_by, failing, is_gone, sizes_given, wild_by
from weft.capture.native_entries import NativeEntry
from weft.capture.policy import MARK
from weft.capture.reading import MISS
from weft.capture.regions import Region, active, close_seam, current_region, leave, open_seam, outside
from weft.capture.shortcut import after_calls
from weft.capture.verifying import differing, uncompiled
from weft.core import device, dtypes
from weft.core.collection import Living, promote, put_off
from weft.core.contexts import set_to
from weft.core.counters import count
from weft.core.handlers import in_own_context, out_of_handlers
from weft.core.interrupts import let_through
from weft.core.logs import log, tell
from weft.core.once import lock
from weft.core.settings import settings
from weft.core.varying import Varying
from weft.nn.modules.module import Module

DEEPEST = 30  # compiled frames may lie on each other: each is several of Python's, whose number is limited
BackendFunction = Callable[[Any, list[Any]], Callable[..., Any]]


# -- what passes between runtime and capture -----------------------------------------------------------------
class CompilerError(RuntimeError):
    """Base of what compiling may raise beside the user's own errors."""


class BackendCompilerFailed(CompilerError):
    """The backend raised an error or gave no callable."""


class RecompileLimitExceeded(CompilerError):
    """A function was compiled too often, and running the original is not allowed."""


class CaptureFailed(CompilerError):
    """An error inside capture; raised only under `settings.strict`."""


@dataclass(frozen=True, slots=True)
class Request:
    """What one compilation is asked to do."""

    backend: BackendFunction
    """The user's backend, counted and logged; called with a graph module and the inputs of this call."""
    fullgraph: bool
    dynamic: bool | None
    context: Context
    volatile: frozenset[str] = frozenset()
    """Sources (as text) that changed between calls: their sizes and scalars are to be symbols."""
    kept: bool = True
    """Whether what other processes have captured may be used."""
    varying: Varying | None = None
    """What takes note of the programs of this code."""


@dataclass(slots=True)
class Entry:
    """One compiled call. `call(function, *parameters)` gives the result, or MISS before it did anything."""

    call: Callable[..., Any]
    guards: Iterable[Guard] = ()
    graph_module: Any = None
    text: str = ""
    stop: Any = None
    """The Break at which the segment ends, None where it returns."""
    where: tuple[str, int, str] | None = None
    """File, line and function of the break."""
    positions: Any = None
    """Where in that line, as code objects tell it."""
    reason: str | None = None
    """Set where the original is to run: why. `call` only checks guards then."""
    raises: bool = False
    """The original runs because captured code raised: it must raise too."""
    setbacks: Setbacks | None = None
    """How often its graph has failed."""
    check: Callable[[], Callable[..., Any]] | None = None
    """Makes a function that only says whether the guards hold."""
    make_native_entry: Callable[..., Any] | None = None
    """Makes a shortcut, in slices, from `(factory, entry, call)`, which was just served."""
    noted: Callable[[Any, Any], None] | None = None
    """Told the function and the values of the first call that was served."""
    kept: bool = False
    """Another process has made it: it may miss though its guards hold, and is captured anew then."""

    def advice(self) -> tuple[str, str]:
        """Why the graph ends or the original runs, and what to try; empty where no kind of break says so."""
        return advice(self.stop, self.reason or "")


Compile = Callable[[FunctionType, dict[str, Any], Request], Entry]

capturing: ContextVar[bool] = ContextVar("weft_capturing", default=False)


def is_compiling() -> bool:
    """Whether the code that asks is being captured."""
    return capturing.get()


# -- stances -------------------------------------------------------------------------------------------------
STANCES = ("default", "force_eager", "eager_on_recompile", "fail_on_recompile")
_stance = "default"


def stance() -> str:
    return _stance


def put_stance(name: str) -> None:
    global _stance
    _stance = name
    _refresh_all()


contexts: Living[Context] = Living()


def _refresh_all() -> None:
    for context in list(contexts):
        for cache in list(context.caches.values()):
            cache.refresh()


def _on_setting(name: str) -> None:
    if name == "verify":
        _refresh_all()


def _defaults() -> tuple[Any, ...]:
    """What captured code relies upon without asking. Entries are kept for each, and only these are in use."""
    return dtypes.default.dtype, device.Default.device


def _on_defaults() -> None:
    for context in list(contexts):
        for cache in list(context.caches.values()):
            cache.change_defaults()


settings.watchers.append(_on_setting)
dtypes.default.watchers.append(_on_defaults)
device.Default.watchers.append(_on_defaults)


# -- entries of one code object ------------------------------------------------------------------------------
@dataclass(slots=True, eq=False)
class Installed:
    """An entry in use. `step` runs in a region that is there and may give a Tail; `run` needs none."""

    entry: Entry
    request: Request
    step: Callable[..., Any]
    run: Callable[..., Any] = field(init=False)
    opens: bool = False
    streak: int = 0
    """How often its graph has failed since it last succeeded."""
    made_at: int = 0
    """Before which call of the function."""


PATIENCE = 8
"""So often in a row a graph may fail before the original runs at once."""


def _never(*_values: Any) -> Any:
    """Stands first where every call must take the slow way."""
    return MISS


_told_of_python: list[bool] = []
"""Whether it was said that this Python's bytecode is not known."""


class CodeCache:
    """The entries of one code object in one context."""

    def __init__(self, context: Context, code: CodeType) -> None:
        self.context, self.code = context, code
        self.entries: tuple[Installed, ...] = ()
        self.defaults = _defaults()
        self.others: dict[tuple[Any, ...], tuple[Installed, ...]] = {}
        """Entries made under other defaults."""
        self.lock = lock()
        self.varying = Varying(f"{code.co_qualname} ({code.co_filename}:{code.co_firstlineno})")
        self.volatile: set[str] = set()
        self.given_up: str | None = None
        self.looks, self.cramped = True, 0  # for what others have captured; captures that lacked room
        self.first = CellType(_never)
        self.slow = CellType(self.find)
        self.front_code = front_code(code, False)

    # -- running ---------------------------------------------------------------------------------------------
    @uncounted
    def find(self, function: FunctionType, *values: Any) -> Any:
        """The slow way: the other entries, else a new one, else the original."""
        return self.serve(function, values, inside=False)

    @uncounted
    def serve(self, function: FunctionType, values: Sequence[Any], *, inside: bool) -> Any:
        """Runs the entry that fits. `inside` a region of this context the result may be a Tail."""
        if _stance == "force_eager" or capturing.get():
            return original_call(self.code)(function, *values)
        if failure.takes(function, values):
            return self.deoptimise(function, values)
        if function.__code__ is not self.code:  # it was given other code
            if not takes_alike(function.__code__, self.code):
                return original_call(self.code)(function, *values)
            return self.context.cache(function).serve(function, values, inside=inside)
        while True:
            entries = self.entries
            ordered = entries
            if entries and not inside and self.first.cell_contents is entries[0].run:
                ordered = (*entries[1:], entries[0])  # which the front has tried a moment ago
            for installed in ordered:
                if settings.verify:
                    self.verify(installed, function, values)
                result = (installed.step if inside else installed.run)(function, *values)
                if result is not MISS:
                    if installed is not entries[0] or installed.streak:
                        self._promote(installed)
                    return result
                if failure.takes(function, values):
                    return self.deoptimise(function, values)
            made = out_of_handlers(self._compile, function, values, entries)
            if made is None:
                return self.original(function, *values)
            if made is entries:  # another thread was faster
                continue
            result = (made.step if inside else made.run)(function, *values)
            if result is not MISS:
                return result
            if failure.takes(function, values):
                return self.deoptimise(function, values)
            if not made.entry.kept:
                return self._useless(made, function, values)

    @uncounted
    def original(self, function: FunctionType, *values: Any) -> Any:
        """The function as written, with what it calls compiled."""
        return self.context.within(original_call(self.code), function, *values)

    @uncounted
    def deoptimise(self, function: FunctionType, values: Sequence[Any]) -> Any:
        """The original, for the graph of an entry has failed; one that always fails is not tried again."""
        setbacks = failure.setbacks
        if failure.told is not None:
            return failure.tell_behind(outside(original_call(self.code)), function, values)
        for installed in [one for one in self.entries if one.entry.setbacks is setbacks is not None]:
            self._set_back(installed)
        return self.context.deoptimise(function, *values)

    def _set_back(self, installed: Installed) -> None:
        with self.lock:
            installed.streak += 1
            if installed.streak > PATIENCE and installed.entry.check is not None:
                count("fallbacks", "deoptimised too often")
                log("deoptimised", lambda: f"{self.code.co_qualname} runs as written from now on")
                step = _checked(installed.entry.check(), original_call(self.code), False)
                installed.step, installed.streak = step, 0
                installed.run = functools.partial(self.context.within, step)
            self.refresh()

    def _promote(self, installed: Installed) -> None:
        with self.lock:
            installed.streak = 0
            if installed in self.entries:
                rest = tuple(other for other in self.entries if other is not installed)
                self.entries = (installed, *rest)
                self.refresh()

    def refresh(self) -> None:
        """Puts the newest entry first, where calls may go to it directly."""
        direct = self.entries and _stance != "force_eager" and not settings.verify
        direct = direct and not self.entries[0].streak  # whether it fails again is counted in `serve`
        self.first.cell_contents = self.entries[0].run if direct else _never

    def change_defaults(self) -> None:
        """Puts away the entries made under other defaults."""
        with self.lock:
            self.first.cell_contents = _never  # until all of it has changed
            self.others[self.defaults], defaults = self.entries, _defaults()
            self.entries, self.defaults = self.others.pop(defaults, ()), defaults
            self.refresh()

    # -- compiling -------------------------------------------------------------------------------------------
    def _compile(self, function: FunctionType, values: Sequence[Any], seen: tuple[Installed, ...]) -> Any:
        """A new entry; None where the original is to run, `seen` where the entries changed meanwhile."""
        with self.lock:
            if self.entries is not seen:
                return seen
            if self.given_up is not None:
                return None
            arguments = dict(zip(parameter_names(self.code), values))
            self.entries = tuple(one for one in self.entries if not self._is_spent(one, function, arguments))
            reasons, others = self._note_misses(function, arguments)
            if not self._may_compile(reasons):
                return None
            context, volatile = self.context, frozenset(self.volatile)
            request = Request(
                context.backend_call, context.fullgraph, context.dynamic, context, volatile, self.looks,
                self.varying,
            )  # fmt: skip
            defaults = _defaults()
            entry = adopted(contexts, context, function, arguments)
            if entry is None:
                entry = self._capture(function, arguments, request)
                if entry is not None and self.is_built(entry):
                    self.varying.build(others, others, warn_user)
            if entry is None or defaults != _defaults() or defaults != self.defaults:  # changed meanwhile
                return None
            installed = context.install(self, entry, request)
            installed.made_at = self.varying.now
            self.entries = (installed, *self.entries)
            self.refresh()
            return installed

    def _is_spent(self, one: Installed, function: FunctionType, arguments: dict[str, Any]) -> bool:
        """Whether an entry never serves again; or is one of another process's that should have served."""
        if one.entry.kept and explain_miss(one.entry.guards, function, arguments) is None:
            self.looks = False
            return True
        return any(is_gone(each) for each in one.entry.guards)

    def _capture(self, function: FunctionType, arguments: dict[str, Any], request: Request) -> Entry | None:
        count("frames", "total")
        tell("begin", self.code)
        held = put_off()
        try:
            entry = in_own_context(self._apart, function, arguments, request)
            if held is not None:
                promote()
        except (CompilerError, Unsupported, Unexpected, KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # a Break is no Exception
            let_through(error)
            self._failed(error)
            return None
        finally:
            held = None
            tell("end", self.code)
        if drafts.VERSION not in drafts.KNOWN and not _told_of_python:
            _told_of_python.append(True)
            warn_user(f"{entry.reason}, not compiled")
        if entry.reason is None:
            count("frames", "ok")
            count("built", "captures")
        if entry.stop is not None:
            count("graph_break", str(entry.stop))
        tell("entry", self.code, entry)
        return entry

    def _apart(self, function: FunctionType, arguments: dict[str, Any], request: Request) -> Entry:
        capturing.set(True), active.set(None)
        return self.context.compile_frame(function, arguments, request)

    def _failed(self, error: BaseException) -> None:
        """Gives up; not at once where there was too little room, as deep in the stack: others have more."""
        name = f"{self.code.co_qualname} ({self.code.co_filename}:{self.code.co_firstlineno})"
        text = f"capture of {name} failed: {type(error).__name__}: {error}"
        if settings.strict or self.context.fullgraph:
            raise CaptureFailed(text) from error
        count("fallbacks", "capture failed")
        self.cramped += self.cramped > 0 or isinstance(error, (RecursionError, MemoryError))
        self.given_up = None if 0 < self.cramped < PATIENCE else text
        warn_user(f"{text}; it runs uncompiled {'this time' if self.given_up is None else 'from now on'}")

    def is_built(self, entry: Entry) -> bool:
        """Whether a program was built for this entry: not for one that was on disk."""
        return entry.reason is None and self.varying.is_followed and not entry.kept

    def chosen(self, values: dict[str, tuple[str, str]]) -> dict[str, tuple[str, str]]:
        """These values, but sizes that the user has asked programs for, one by one."""
        if self.context.dynamic is not False:
            return values
        return {name: each for name, each in values.items() if ".size()[" not in name}

    def _note_misses(
        self, function: FunctionType, arguments: dict[str, Any]
    ) -> tuple[list[str], dict[str, str]]:
        """Why no entry served the call, and the values of what each of them has another value for: where one
        misses for another reason, it is code that goes another way. What changed is a symbol in the next
        capture."""
        reasons, common = [], None
        for installed in self.entries:
            guards = failing(installed.entry.guards, function, arguments)
            reason = str(explain_miss(guards[:1], function, arguments) or "an unknown reason")
            reasons.append(reason)
            self.volatile |= changed_by(guards, function, arguments, self.context.dynamic)
            if not self.context.fullgraph:
                self.volatile |= wild_by(guards, function, arguments, self.context.dynamic)
            values = self.chosen(apart(guards, function, arguments))
            if not installed.entry.kept:
                self.varying.note({name: was for name, (was, _now) in values.items()}, installed.made_at)
            common = {name: now for name, (_was, now) in values.items() if common is None or name in common}
        if reasons:
            count("recompiles", reasons[0])
            log("recompiles", lambda: f"{self.code.co_qualname}: " + "; ".join(reasons))
            tell("miss", self.code, reasons)
            for listener in self.context.on_miss:
                listener(reasons[0], self.code)
        return reasons, common or {}

    def _may_compile(self, reasons: list[str]) -> bool:
        code = self.code
        if _stance == "fail_on_recompile":
            raise CompilerError(
                "Detected recompile when weft.compile stance is 'fail_on_recompile'. "
                f"filename: '{code.co_filename}', function name: '{code.co_name}', "
                f"line number: {code.co_firstlineno}"
            )
        if _stance == "eager_on_recompile":
            return False
        limit = self.context.recompile_limit
        limit = settings.recompile_limit if limit is None else limit
        if len(self.entries) < limit:
            return True
        text = (
            f"weft.compile hit recompile_limit ({limit}): {code.co_qualname} ({code.co_filename}:"
            f"{code.co_firstlineno}); last reason: {reasons[0] if reasons else 'none'}"
        )
        if settings.strict or self.context.fullgraph:
            raise RecompileLimitExceeded(text)
        self.given_up = text
        count("fallbacks", "recompile limit")
        warn_user(f"{text}. The original function runs from now on.")
        return False

    def _useless(self, made: Installed, function: FunctionType, values: Sequence[Any]) -> Any:
        """The new entry's guards do not hold for the very call that it was made from."""
        arguments = dict(zip(parameter_names(self.code), values))
        miss = explain_miss(made.entry.guards, function, arguments)
        with self.lock:
            self.entries = tuple(other for other in self.entries if other is not made)
            self.refresh()
        self._failed(AssertionError(f"its own guard does not hold: {miss or made.entry.text}"))
        return self.original(function, *values)

    def verify(self, installed: Installed, function: FunctionType, values: Sequence[Any]) -> None:
        """Captures again where the entry is about to serve a call; both captures must be the same."""
        arguments = dict(zip(parameter_names(self.code), values))
        entry = installed.entry
        if entry.reason is not None or explain_miss(entry.guards, function, arguments) is not None:
            return
        old = installed.request
        request = Request(uncompiled, old.fullgraph, old.dynamic, old.context, old.volatile)
        again = in_own_context(self._apart, function, arguments, request)
        difference = differing(entry, again, request)
        if difference is not None:
            raise CaptureFailed(
                f"{self.code.co_qualname}: an entry served a call that captures differently now: {difference}"
            )


# -- contexts ------------------------------------------------------------------------------------------------
def count_ops(graph: Any) -> int:
    """The calls in a graph."""
    return sum(node.op.startswith("call_") for node in graph.nodes)


class Context:
    """Everything compiled by one `weft.compile`: its options, and the entries by code object."""

    def __init__(
        self,
        backend: BackendFunction,
        compile_frame: Compile,
        *,
        backend_name: str = "",
        fullgraph: bool = False,
        dynamic: bool | None = None,
        recompile_limit: int | None = None,
        options: dict[str, Any] | None = None,
        entry_factory: Callable[[], Any] = lambda: None,
    ) -> None:
        self.backend, self.compile_frame = backend, compile_frame
        self.entry_factory = entry_factory
        """Gives what native entries are made with; None where there are none."""
        self.options = options or {}
        """What `weft.compile` was called with, for making the context again."""
        self.backend_name = backend_name or getattr(backend, "__name__", str(backend))
        self.fullgraph, self.dynamic, self.recompile_limit = fullgraph, dynamic, recompile_limit
        self.caches: dict[tuple[int, int], CodeCache] = {}
        """By code and globals."""
        self.left_alone: dict[int, CodeType] = {}
        self.sizing: dict[int, CodeType] = {}
        """Code with an instruction behind which sizes are others in each call, by `id`."""
        self.on_entry: list[Callable[[CodeCache, Entry], None]] = []
        self.on_miss: list[Callable[[str, CodeType], None]] = []
        self.lock = lock()
        contexts.add(self)

    def cache(self, function: FunctionType) -> CodeCache:
        # The cache holds the code, and entries hold globals that they rely upon: ids stay their own.
        key = id(function.__code__), id(function.__globals__)
        found = self.caches.get(key)
        if found is None:
            with self.lock:
                found = self.caches.get(key)
                if found is None:
                    found = self.caches[key] = CodeCache(self, function.__code__)
        return found

    def again(self) -> Context:
        """A context with the same options and no entries."""
        return Context(**{name: getattr(self, name) for name in inspect.signature(Context).parameters})

    def reset(self) -> None:
        for cache in list(self.caches.values()):
            with cache.lock:
                cache.entries = ()
                cache.others.clear()
                cache.given_up, cache.cramped = None, 0
                cache.volatile.clear()
                cache.varying = Varying(cache.varying.where)
                cache.refresh()

    # -- the backend -----------------------------------------------------------------------------------------
    def backend_call(self, graph_module: Any, inputs: list[Any]) -> Callable[..., Any]:
        """What capture calls: the user's backend, counted and logged. A graph without calls needs none."""
        ops = count_ops(graph_module.graph)
        forward: Callable[..., Any] = graph_module.forward
        if not ops:
            return forward
        count("stats", "unique_graphs")
        count("stats", "calls_captured", ops)
        log("graph", lambda: str(graph_module.print_readable(print_output=False)))
        began = perf_counter()
        try:
            with set_to((capturing, False)):
                compiled = self.backend(graph_module, inputs)
            if not callable(compiled):
                raise AssertionError("compiler_fn did not return callable")
        except Exception as error:
            let_through(error)
            text = f"backend='{self.backend_name}' raised:\n{type(error).__name__}: {error}"
            raise BackendCompilerFailed(text) from error
        tell("graph", graph_module, perf_counter() - began)
        if getattr(compiled, "__self__", None) is graph_module:
            return compiled
        return forward if compiled is graph_module else outside(compiled)

    # -- running ---------------------------------------------------------------------------------------------
    @uncounted
    def within(self, call: Callable[..., Any], function: FunctionType, *values: Any) -> Any:
        """Runs native code in a region of this context, and whatever tails it leaves."""
        before, around = active.get(), current_region()
        outermost = around is None
        region = Region(self, around)
        try:
            if outermost:
                open_seam(region)
            active.set(region)
            result: Any = MISS
            tail: Any = None
            while True:
                try:
                    if result is MISS:
                        result = call(function, *values)
                    while type(result) is Tail:
                        tail = result
                        result = tail.cache.serve(tail.function, tail.arguments, inside=True)
                        tail.arguments.reverse()  # a list drops its last item first, a frame its first local
                    return result
                except BaseException as error:
                    # What is told of capture itself is for no handler of the user's.
                    result = None if isinstance(error, CaptureFailed) else region.way_out(error)
                    if result is None:
                        raise
        finally:
            result = tail = None  # may hold the exception whose traceback holds this frame
            region.tail, region.open = None, False
            active.set(before)
            if outermost:
                close_seam(region)

    def graph_failed(self, function: FunctionType, *values: Any) -> Any:
        """What an entry returns whose graph failed. The entry must be gone when the original runs: it bears
        the original's name, and would stand beside it in tracebacks.
        """
        failure.call = function, values
        return MISS

    @uncounted
    def deoptimise(self, function: FunctionType, *values: Any) -> Any:
        """The original, as a segment failed before it had any effect. What it calls runs as written, too, or
        would fail once more for itself."""
        count("fallbacks", "deoptimised")
        why, sure = ("", True) if failure.setbacks is None else (failure.setbacks.why, failure.setbacks.sure)
        count("deoptimisations", f"{function.__qualname__}: {why}")
        call = failure.without_repeats(outside(original_call(function.__code__)))
        try:
            if not settings.strict:
                return call(function, *values)
            with Errors() as seen:
                result = call(function, *values)
        except Exception as error:
            told = f"{why}; {type(error).__name__} at {line_of(error, function.__code__)}"
            log("deoptimised", lambda: f"{function.__qualname__}: {told}")
            raise
        if sure and not seen.any:
            raise CaptureFailed(
                f"the compiled form of {function.__qualname__} failed where the original did not ({why})"
            )
        return result

    def install(self, cache: CodeCache, entry: Entry, request: Request) -> Installed:
        """The entry in the form in which it runs; says so in the logs."""
        name = cache.code.co_qualname
        log("guards", lambda: f"{name}:\n" + "\n".join(f"  {guard}" for guard in entry.guards))
        log("source", lambda: f"{name}:\n{entry.text}")
        if entry.stop is not None:
            log("breaks", lambda: _break_text(entry))
        elif entry.reason is not None:
            log("breaks", lambda: f"{name} runs as written: {entry.reason}")
        if entry.stop is not None and entry.stop.kind == "data-dependent-shape" and self.dynamic is None:
            self.sizing[id(cache.code)] = cache.code
        step = entry.call
        if entry.reason is not None:
            step = _checked(entry.call, original_call(cache.code), entry.raises)
        installed = Installed(entry, request, step, entry.stop is not None or entry.reason is not None)
        installed.run = functools.partial(self.within, step) if installed.opens else step
        if entry.make_native_entry is not None and not installed.opens:
            installed.run = after_calls(step, NativeEntry(self, cache, installed, step).served)
        for listener in self.on_entry:
            listener(cache, entry)
        return installed

    def has_no_native_entry(self, function: FunctionType, error: Exception) -> None:
        """The entry itself serves all calls."""
        reason = f"{function.__qualname__} has no native entry: {type(error).__name__}: {error}"
        if settings.strict:
            raise CaptureFailed(reason) from error
        warn_user(reason)

    # -- fronts ----------------------------------------------------------------------------------------------
    def front(self, function: Any) -> FunctionType:
        """The public compiled form of a Python function or bound method."""
        plain: Any = function.__func__ if isinstance(function, MethodType) else function
        owner = function.__self__ if isinstance(function, MethodType) else None
        cache = self.cache(plain)
        return public(make_front(plain, cache.first, cache.slow, owner, late=True), function, self)

    def callee(self, value: Any) -> Any:
        """The compiled form of something that is about to be called, or the thing itself."""
        kind = type(value)
        region = active.get()
        if region is not None and region.depth > DEEPEST:
            return value
        if kind is FunctionType:
            return value if self._leaves_alone(value) else self._quick(value)
        if kind is MethodType:
            inner = value.__func__
            if type(inner) is not FunctionType or self._leaves_alone(inner):
                return value
            return MethodType(self._quick(inner), value.__self__)
        if kind is functools.partial:
            inner = self.callee(value.func)
            return value if inner is value.func else functools.partial(inner, *value.args, **value.keywords)
        if kind is BuiltinFunctionType or isinstance(value, (type, Module)):
            return value  # a module's call comes back through the seam
        call = getattr(kind, "__call__", None)  # noqa: B004 - the function, not whether there is one
        if type(call) is FunctionType and not self._leaves_alone(call):
            return MethodType(self._quick(call), value)
        return value

    def _quick(self, function: FunctionType) -> FunctionType:
        cache = self.cache(function)
        return make_front(function, cache.first, cache.slow, None, cache.front_code)

    def _leaves_alone(self, function: FunctionType) -> bool:
        fields = function.__dict__
        if fields and (MARK in fields or is_front(function)):
            return True
        code = function.__code__
        if id(code) in self.left_alone:
            return True
        if (id(code), id(function.__globals__)) in self.caches or may_compile(function):
            return False
        self.left_alone[id(code)] = code
        return True

    def go_on(
        self,
        compiled: bool,
        point: Any,
        function: FunctionType,
        cells: tuple[CellType, ...],
        at: int | None = None,
        *raised: Any,
    ) -> Callable[..., Tail]:
        """What an entry calls to go on after a break: makes a Tail of the resume function and its values.
        `raised` is what interrupted that before, to be met by the handler of the instruction `at`. What must
        run uncompiled is a Tail too, lest tracebacks show the segment beside it.
        """
        made, left = enter_original(point, function, cells), function.__code__
        cache = self.cache(made) if compiled else AS_WRITTEN

        def going(*values: Any) -> Tail:
            if id(left) in self.sizing and isinstance(cache, CodeCache) and not cache.entries:
                cache.volatile |= sizes_given(parameter_names(made.__code__), values)
            return leave(Tail(cache, made, list(values), point, left, at), *raised)

        return going

    resume = functools.partialmethod(go_on, True)
    enter_original = functools.partialmethod(go_on, False)


def _break_text(entry: Entry) -> str:
    stop = entry.stop
    where = (*entry.where, entry.positions) if entry.where else ()
    return render_break(stop.kind, stop.seen, *where, why=stop.why, try_=stop.try_)


def _checked(guard: Callable[..., Any], original: Callable[..., Any], raises: bool) -> Callable[..., Any]:
    """Runs the original where the guards hold."""

    @uncounted
    def step(function: FunctionType, *values: Any) -> Any:
        return MISS if guard(function, *values) is MISS else original(function, *values)

    @uncounted
    def raising_step(function: FunctionType, *values: Any) -> Any:
        result = step(function, *values)
        if settings.strict and result is not MISS:
            raise CaptureFailed(f"{function.__qualname__} raised when captured, but the original did not")
        return result

    return raising_step if raises else step
