"""Compiled autograd: a backward through the live tape, as a graph that is compiled once per structure.

Takes the seeds and the task of a run that the engine is about to make (`seams.backward`); gives what the
engine would give: gradients in `.grad`, or captured. The tape is read into a `GraphModule`
`forward(inputs, sizes, scalars, hooks)`, which the user's `compiler_fn` makes callable, and which serves all
tapes of the same structure. One idea: the library's own engine runs over a copy of the tape whose tensors
are fakes (`shadow`), so the graph is what eager would do, in eager's order.

# Note [What runs natively]
Whatever the graph could not say exactly is left to the engine, which is always right; `reasons` tells why.
    create_graph=True            gradients must themselves have a history
    modes beyond grad on or off  autocast, function modes, anomaly detection, saved-tensor hooks around it
    a backward inside a backward hooks and custom backwards that start one
    checkpointed code            what was saved is in the hands of the library's own hooks
    a stale or freed tape        eager raises, at the node where it would
    transforms' wrappers, tensor subclasses
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any

from weft.aot.compiled_autograd.shadow import NOTHING, Recording
from weft.aot.compiled_autograd.walk import NeedsEngine, TapeValues, Walk
from weft.autograd.compiled_calls import OtherGradients, Pattern, Unexpected
from weft.autograd.tasks import Seeds, Task, _run, local
from weft.core import modes
from weft.core.handlers import in_own_context
from weft.core.interrupts import let_through
from weft.core.once import lock
from weft.core.seams import seams
from weft.core.settings import settings
from weft.tensor.meta import faking
from weft.trace.breaks import Break
from weft.trace.module import GraphModule

CompilerFn = Callable[[GraphModule], Callable[..., Any]]
ENTRIES_LIMIT = 256
ATTEMPTS = 8
"""How often one run may find that custom backwards give other gradients than expected."""
reasons: list[str] = []
"""Why backwards ran natively, last ones last."""


count: Callable[[str], Any] = len
"""Counts captures, hits and native runs; `weft.compiler` has it fill its counters."""
log: Callable[[Callable[[], str]], Any] = id
"""Tells what happens, to whoever listens; `weft.compiler` has it write to its logs."""


class CompiledTape:
    """A graph for the tapes of one structure."""

    __slots__ = ("recording", "module", "compiled", "captures_first")

    def __init__(self, recording: Recording, compiler_fn: CompilerFn) -> None:
        self.recording = recording
        self.module = recording.module
        compiled = compiler_fn(self.module)
        self.compiled = self.module.forward if compiled is self.module else compiled
        context = getattr(compiled, "_weft_context", None)
        self.captures_first = bool(getattr(context, "fullgraph", False))
        """Whether nothing has run yet when something unexpected is met."""


class Structure:
    """The entries for one structure: one per set of sizes, or one whose sizes vary."""

    __slots__ = ("fixed", "open", "last", "gradients", "observed", "unsteady")

    def __init__(self) -> None:
        self.fixed: dict[Any, CompiledTape] = {}
        self.open: list[CompiledTape] = []
        self.last: TapeValues | None = None
        self.observed = False
        self.unsteady = False
        """Whether gradients have come where none was expected, or the other way round, while a graph ran."""
        self.gradients: dict[int, Pattern] = {}
        """Where custom backwards and hooks of nodes give gradients, by their number among the hooks."""

    def find(self, walk: Walk) -> CompiledTape | None:
        entry = self.fixed.get((tuple(walk.sizes), walk.exact_numbers()))
        if entry is not None:
            return entry
        return next((each for each in self.open if each.recording.serves(walk)), None)


class Cache:
    """What was compiled by one compiler."""

    def __init__(self, compiler_fn: CompilerFn, dynamic: bool | None) -> None:
        self.compiler_fn, self.dynamic = compiler_fn, dynamic
        self.structures: dict[Any, Structure] = {}
        self.lock = lock()

    def entry(self, walk: Walk, structure: Structure) -> CompiledTape:
        with self.lock:
            found = structure.find(walk)
            if found is not None:
                count("hits")
                return found
            recording = self.record(walk, structure)
            log(lambda: f"captured\n{recording.module.print_readable(False)}")
            entry = CompiledTape(recording, self.compiler_fn)
            count("captures")
            if recording.symbols:
                structure.open.append(entry)
            else:
                structure.fixed[tuple(walk.sizes), walk.exact_numbers()] = entry
            structure.last = walk.facts()
            return entry

    def record(self, walk: Walk, structure: Structure) -> Recording:
        """The graph; with open sizes where another tape of this structure had other ones."""
        changed = NOTHING
        if self.dynamic:
            changed = walk.all_open()
        elif self.dynamic is None and structure.last is not None:
            changed = walk.changed_since(structure.last)
        if changed != NOTHING:
            try:
                recording = in_own_context(Recording, walk, structure.gradients, changed)
            except (Break, Exception) as error:  # this one stays as it is
                let_through(error)
            else:
                if recording.serves(walk):
                    return recording
        try:
            return in_own_context(Recording, walk, structure.gradients)
        except NeedsEngine:
            raise
        except (Break, Exception) as error:
            let_through(error)
            if settings.strict and not isinstance(error, Break):
                raise
            raise NeedsEngine(f"{type(error).__name__}: {error}") from error

    def structure(self, walk: Walk) -> Structure:
        with self.lock:
            if len(self.structures) >= ENTRIES_LIMIT and walk.key not in self.structures:
                self.structures.clear()
            return self.structures.setdefault(walk.key, Structure())


# -- switching it on -----------------------------------------------------------------------------------------
class _Active(threading.local):
    """The compiler of this thread; False where it is switched off."""

    cache: Any = None


_active = _Active()
_caches: list[Cache] = []
_lock = lock()
_users = 0
default_compiler: CompilerFn | None = None
"""What compiles where `settings.compiled_autograd` is on; `weft.compiler` fills it."""


def same_function(one: object, other: object) -> bool:
    """Whether two functions are the same code over the same objects."""
    if one is other:
        return True
    if type(one) is not FunctionType or type(other) is not FunctionType or one.__code__ is not other.__code__:
        return False
    cells = list(zip(one.__closure__ or (), other.__closure__ or (), strict=True))
    alike = one.__defaults__ is other.__defaults__ and one.__kwdefaults__ is other.__kwdefaults__
    try:
        return alike and all(a is b or a.cell_contents is b.cell_contents for a, b in cells)
    except ValueError as error:  # an empty cell
        let_through(error)
        return False


def cache_for(compiler_fn: CompilerFn, dynamic: bool | None = None) -> Cache:
    with _lock:
        for cache in _caches:
            if cache.dynamic is dynamic and same_function(cache.compiler_fn, compiler_fn):
                return cache
        _caches.append(Cache(compiler_fn, dynamic))
        del _caches[:-8]
        return _caches[-1]


def _fill_slot(change: int) -> None:
    """Fills the seam `backward` only while compiled autograd is enabled in some thread, or by its setting."""
    global _users
    with _lock:
        _users += change
        seams.backward = run if _users or settings.compiled_autograd else None


@contextmanager
def enable(compiler_fn: CompilerFn, dynamic: bool | None = None) -> Iterator[None]:
    """Within it, this thread's `backward()` and `grad()` run as graphs that `compiler_fn` made callable.

    `dynamic=True`: sizes are open in a graph from the first capture on, False: never, None: once they were
    seen to vary.
    """
    before = _active.cache
    _active.cache = cache_for(compiler_fn, dynamic)
    _fill_slot(1)
    try:
        yield
    finally:
        _active.cache = before
        _fill_slot(-1)


@contextmanager
def disable() -> Iterator[None]:
    """Within it, this thread's backwards run natively."""
    before = _active.cache
    _active.cache = False
    try:
        yield
    finally:
        _active.cache = before


_enable, _disable = enable, disable


def enabled() -> bool:
    """Whether a backward of this thread would be compiled."""
    return _cache() is not None


def _cache() -> Cache | None:
    cache = _active.cache
    if cache is None and settings.compiled_autograd and default_compiler is not None:
        return cache_for(default_compiler)
    return cache or None


def reset() -> None:
    """Forgets all graphs; where compiled autograd is on, it captures again."""
    with _lock:
        _caches.clear()
    cache = _active.cache
    if cache:
        _active.cache = cache_for(cache.compiler_fn, cache.dynamic)


# -- running -------------------------------------------------------------------------------------------------
def run(seeds: Seeds, task: Task) -> bool:
    """Runs a task of the engine compiled; False where the engine has to."""
    cache = _cache()
    if cache is None or faking(modes.current()):
        return False
    try:
        refuse_natively(task)
        walk = Walk(seeds, task)
        structure = cache.structure(walk)
        for attempt in range(ATTEMPTS):
            entry = cache.entry(walk, structure)
            if structure.unsteady and not entry.captures_first:
                raise NeedsEngine(
                    "custom backwards or hooks whose gradients are undefined in some calls only"
                )
            if walk.uncertain and not entry.captures_first and not structure.observed:
                observe(seeds, task, walk, structure, entry)
                return True
            try:
                execute(entry, walk, task)
                return True
            except Unexpected as other:
                learn(cache, structure, other)
                if attempt == ATTEMPTS - 1:
                    raise NeedsEngine(
                        "custom backwards or hooks whose gradients are undefined in some calls only"
                    ) from None
            except OtherGradients:
                structure.unsteady = True
                raise
    except NeedsEngine as found:
        count("native")
        reason = str(found)
        log(lambda: f"ran natively: {reason}")
        reasons.append(reason)
        del reasons[:-100]
    return False


def refuse_natively(task: Task) -> None:
    """See Note [What runs natively]."""
    if task.tensors:
        raise NeedsEngine("create_graph=True")
    if type(modes.current()) is not bool:
        raise NeedsEngine("modes other than grad and no_grad")
    if local.task is not None:
        raise NeedsEngine("a backward inside a backward")


def learn(cache: Cache, structure: Structure, other: Any) -> None:
    """Custom backwards gave other gradients than expected: graphs recorded under that expectation are
    dropped."""
    with cache.lock:
        structure.gradients[other.number] = other.found
        structure.fixed.clear()
        structure.open.clear()


def observe(seeds: Seeds, task: Task, walk: Walk, structure: Structure, entry: CompiledTape) -> None:
    """Runs natively, to see where custom backwards and hooks of nodes give gradients.

    A graph that is captured whole finds out before anything has run; others must know.
    """
    count("observed")
    undo: list[Callable[[], None]] = []
    found: dict[int, Pattern] = {}
    try:
        for watch in reversed(walk.uncertain):  # hooks of a node first: that of the node copies their table
            undo.append(watch(found))
        _run(seeds, task)
    finally:
        for put_back in undo:
            put_back()
    expected = entry.recording.expected
    if any(expected.get(number) != pattern for number, pattern in found.items()):
        structure.gradients.update(found)
        structure.fixed.clear()
        structure.open.clear()
    structure.observed = True


def execute(entry: CompiledTape, walk: Walk, task: Task) -> None:
    """One call of the compiled graph, in the modes in which the engine runs."""
    recording = entry.recording
    before = modes.state.get()
    task.roots = [seed[0] for seed in walk.seeds]
    try:
        modes.state.set(False)
        local.task = task
        sizes, scalars = recording.values(walk)
        results = entry.compiled(walk.inputs, sizes, scalars, walk.hooks)
        for position, value in zip(recording.positions, results or (), strict=True):
            task.captured[position] = None if value is None else value.array
        if not task.retain:
            recording.release(walk)
        if task.callbacks is not None:
            for callback in task.callbacks:
                callback()
    finally:
        local.task = None
        modes.state.set(before)


def _setting_changed(name: str) -> None:
    if name == "compiled_autograd":
        _fill_slot(0)


settings.watchers.append(_setting_changed)
_fill_slot(0)
