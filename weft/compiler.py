"""The compiler's switchboard: `compile` and what goes with it, under PyTorch's names.

Takes functions, modules and options, gives compiled forms; the one place that joins capture with backends.
One idea: everything here is a thin name for something below; what it does is decided in
`weft.capture.runtime`.
"""

from __future__ import annotations

import functools
import traceback
import warnings
import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from os import PathLike
from types import CodeType, FunctionType, MethodType, TracebackType
from typing import Any, NamedTuple, TypeVar, overload

from weft.aot import backends as aot_backends
from weft.aot import compiled_autograd as compiled_autograd
from weft.aot.runtime import NotCompiled as NotCompiled
from weft.aot.runtime import counting
from weft.aot.runtime.direct import direct
from weft.autograd.control_flow import nested_compile_region as nested_compile_region
from weft.autograd.function import Function
from weft.capture import runtime
from weft.capture.calls import BY_CODE, handles
from weft.capture.compiling import compile_frame
from weft.capture.deoptimise import failure
from weft.capture.forms import OptimizedModule as OptimizedModule
from weft.capture.forms import compiled_form
from weft.capture.kinds import Unsupported as Unsupported
from weft.capture.logs import warn_user
from weft.capture.policy import MARK, Policy
from weft.capture.reading import MISS
from weft.capture.regions import outside
from weft.capture.runtime import BackendCompilerFailed as BackendCompilerFailed
from weft.capture.runtime import BackendFunction, Context, count_ops
from weft.capture.runtime import CaptureFailed as CaptureFailed
from weft.capture.runtime import CompilerError as CompilerError
from weft.capture.runtime import RecompileLimitExceeded as RecompileLimitExceeded
from weft.core.counters import count
from weft.core.counters import counters as counters
from weft.core.lazy import lazy
from weft.core.logs import log, read_environment
from weft.core.logs import set_logs as set_logs
from weft.core.naming import naming
from weft.core.once import once
from weft.core.seams import seams
from weft.core.settings import settings as settings
from weft.graph.text import READS_GRAPH
from weft.nn.modules.module import Module
from weft.tensor.base import Parameter, Tensor, wrap
from weft.tensor.tape import INFERENCE
from weft.tensor.views import View
from weft.trace.breaks import Break
from weft.trace.stepping import stepped

__all__ = [
    "BackendCompilerFailed", "CaptureFailed", "CompilerError", "ExplainOutput", "InvalidBackend",
    "NotCompiled", "OptimizedModule", "RecompileLimitExceeded", "Unsupported", "allow_in_graph", "aot",
    "assume_constant_result",
    "compile", "compiled_autograd", "counters", "cudagraph_mark_step_begin", "disable", "disallow_in_graph",
    "explain", "graph_break", "is_compiling", "is_dynamo_compiling", "is_exporting", "list_backends",
    "lookup_backend", "mark_dynamic",
    "mark_static", "maybe_mark_dynamic", "nested_compile_region", "optimize", "optimize_assert",
    "register_backend", "reset", "run", "set_logs", "set_stance", "settings",
]  # fmt: skip


MODES = ("default", "lite", "reduce-overhead", "max-autotune-no-cudagraphs", "max-autotune")
Backend = str | BackendFunction
Target = TypeVar("Target", bound=Callable[..., Any])
PATHS = {"list_backends": {"weft": "weft.compiler.list_backends", "torch": "torch._dynamo.list_backends"}}
DEFAULT_BACKEND = "native"


# -- backends ------------------------------------------------------------------------------------------------
class InvalidBackend(CompilerError):
    """There is no backend of this name."""


_backends: dict[str, BackendFunction] = {}
_tags: dict[str, tuple[str, ...]] = {}


def register_backend(
    compiler_fn: BackendFunction | None = None, name: str | None = None, tags: Sequence[str] = ()
) -> Any:
    """Decorator: the function `(graph_module, example_inputs) -> callable` is a backend of this name."""
    if compiler_fn is None:
        return functools.partial(register_backend, name=name, tags=tags)
    if not callable(compiler_fn):
        raise AssertionError(f"A callable backend is expected, but {type(compiler_fn)} is provided.")
    name = name or compiler_fn.__name__
    if name in _backends:
        raise AssertionError(f"duplicate name: {name}")
    _backends[name] = compiler_fn
    _tags[name] = tuple(tags)
    return compiler_fn


def list_backends(exclude_tags: Iterable[str] | None = ("debug", "experimental")) -> list[str]:
    """The names that `compile(backend=...)` knows."""
    excluded = set(exclude_tags or ())
    return sorted(name for name in _backends if not excluded.intersection(_tags[name]))


def lookup_backend(backend: Backend) -> BackendFunction:
    """The backend function of this name; a function is itself."""
    if callable(backend):
        return backend
    if not isinstance(backend, str) or backend not in _backends:
        raise InvalidBackend(
            f"Invalid backend: {backend!r}, see `{PATHS['list_backends'][naming.namespace]}()` for "
            "available backends."
        )
    return _backends[backend]


@register_backend
def eager(graph_module: Any, _example_inputs: list[Any], **_options: Any) -> Callable[..., Any]:
    """Runs the graph's calls one by one."""
    forward: Callable[..., Any] = graph_module.forward
    return forward


register_backend(aot_backends.aot_eager, name="aot_eager")
aot = aot_backends.aot
_native: Any = lazy("weft.native.backend")
_cpu: Any = lazy("weft.native.cpu.target")

_reference: Any = lazy("weft.native.reference.target")
_tracing: Any = lazy("weft.native.program.nan_trace")
_timing: Any = lazy("weft.native.program.timing")
_looking: Any = lazy("weft.native.program.describe")
_stepping: Any = lazy("weft.native.program.stepping")
_observing: Any = lazy("weft.report.observing")
_page: Any = lazy("weft.report.page")


@once
def _native_backend(how: str = "native") -> BackendFunction:
    def refuse(reason: str) -> None:
        counting.refuse(reason)
        counting.strict(reason)

    layout = _native.Layout(
        lambda value: getattr(value, "array", value),
        wrap,
        refuse,
        aot_backends.as_it_is,
    )
    targets: dict[str, Callable[[], tuple[Any, ...]]] = {
        "native": lambda: (_cpu.cpu,),
        "reference": lambda: (_reference.reference,),
        "traced": lambda: (_tracing.traced, _tracing.Tracing),
        "timed": lambda: (_timing.timed, _timing.Timing),
    }
    return aot(_native.compiler(layout, *targets[how]()))


_timed = False


def time_steps(wanted: bool) -> None:
    """Whether native programs measure the time of their steps: everything is compiled again for it."""
    global _timed
    if wanted is not _timed:
        _timed = wanted
        reset()


@functools.cache
def _say_once(text: str) -> None:
    warnings.warn(text, stacklevel=3)


@functools.cache
def _told_backend(debug: str) -> BackendFunction:
    if debug != "step":
        raise ValueError(f"WEFT_DEBUG is {debug!r}: it may be 'step', or nothing")
    return aot(stepped)


@register_backend
def native(graph_module: Any, example_inputs: list[Any], **_options: Any) -> Callable[..., Any]:
    """Compiles the graph, and that of its gradients, to machine code; falls back to `aot_eager`."""
    if settings.debug:
        return _told_backend(settings.debug)(graph_module, example_inputs)
    how = "traced" if settings.nan_trace else "timed" if _timed else "native"
    try:
        backend = _native_backend(how)
    except ImportError as error:  # of what Python has without us: some are built without ctypes or mmap
        reason = f"no native program: {error}"
        counting.refuse(reason)
        counting.strict(reason)
        _say_once(f"graphs run op by op, since there is {reason}")
        backend = aot_backends.aot_eager
    made: Callable[..., Any] = backend(graph_module, example_inputs)
    return made


setattr(native, READS_GRAPH, True)


@functools.partial(register_backend, tags=("debug",))
def reference(graph_module: Any, example_inputs: list[Any], **_options: Any) -> Callable[..., Any]:
    """The programs of `native`, interpreted with NumPy: what machine code is compared with."""
    made: Callable[..., Any] = _native_backend("reference")(graph_module, example_inputs)
    return made


_native_entries: Any = lazy("weft.native.entry.factory")
_layout_of_entries: Any = lazy("weft.native.entry.entry")


@once
def _native_entry_factory() -> Any:
    """What functions that are compiled natively make their entries with; None without native code."""
    try:
        if _cpu.cpu.unusable():
            return None
    except ImportError:
        return None
    layout = _layout_of_entries.Layout(Tensor, Parameter, View, INFERENCE)
    return _native_entries.machine(layout, MISS, direct)


def _on_note(kind: str, reason: str) -> None:
    count(f"aot_{kind}", reason)


def _loudly(text: str) -> None:
    with failure.telling():
        warn_user(text)


# -- compile -------------------------------------------------------------------------------------------------
def _context(
    backend: Backend | None,
    fullgraph: bool,
    dynamic: bool | None,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    recompile_limit: int | None = None,
) -> Context:
    if mode is not None and options is not None:
        raise RuntimeError(
            "Either mode or options can be specified, but both can't be specified at the same time."
        )
    if dynamic is not None and not isinstance(dynamic, bool):
        raise AssertionError(f"Expected dynamic to be a bool or None, got {type(dynamic)}")
    backend = DEFAULT_BACKEND if backend is None else backend
    if isinstance(backend, str) and mode is not None and mode not in MODES:
        raise RuntimeError(f"Unrecognized mode={mode}, should be one of: {', '.join(MODES)}")
    function = lookup_backend(backend)
    extra: dict[str, Any] = {}
    if mode is not None and mode != "default":
        extra["mode"] = mode
    if options:
        extra["options"] = options
    given = {
        "backend": backend,
        "fullgraph": fullgraph,
        "dynamic": dynamic,
        "mode": mode,
        "options": options,
        "recompile_limit": recompile_limit,
    }
    return Context(
        functools.partial(function, **extra) if extra else function,
        compile_frame,
        backend_name=backend if isinstance(backend, str) else getattr(backend, "__name__", str(backend)),
        fullgraph=bool(fullgraph),
        dynamic=dynamic,
        recompile_limit=recompile_limit,
        options=given,
        entry_factory=_native_entry_factory if function is native else lambda: None,
    )


@overload
def compile(
    model: Target,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: Backend | None = None,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    disable: bool = False,
    recompile_limit: int | None = None,
) -> Target: ...
@overload
def compile(
    model: None = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: Backend | None = None,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    disable: bool = False,
    recompile_limit: int | None = None,
) -> Callable[[Target], Target]: ...
def compile(
    model: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: Backend | None = None,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    disable: bool = False,
    recompile_limit: int | None = None,
) -> Any:
    """As `weft.compile`, which describes every option."""
    context = _context(backend, fullgraph, dynamic, mode, options, recompile_limit)
    if not disable:
        context.entry_factory()  # loads LLVM and what runs programs, so that the first call need not

    def compiled(target: Any) -> Any:
        return target if disable else compiled_form(_shared(context, target), target)

    if model is None:
        return compiled
    return compiled(model)


def _shared(context: Context, target: Any) -> Context:
    """The context of an earlier `compile` of this very function with the same options, with its entries."""
    function = runtime.original_of(target) if isinstance(target, FunctionType) else None
    if not isinstance(function, FunctionType) or context.options["options"]:
        return context
    known = _by_function.setdefault(weakref.ref(function, _by_function.pop), [])
    for other in known:
        if other.options == context.options and other.options["backend"] is context.options["backend"]:
            return other
    known[:] = [*known[-7:], context]
    return context


_by_function: dict[weakref.ref[FunctionType], list[Context]] = {}
"""The latest contexts of each compiled function. Not a `WeakKeyDictionary`: when a function goes, that runs
lines of Python's, where Python would drop what a handler of signals raises."""


def optimize(
    backend: Backend = DEFAULT_BACKEND,
    *,
    nopython: bool = False,
    guard_export_fn: Callable[[list[Any]], None] | None = None,
    guard_fail_fn: Callable[[GuardFail], None] | None = None,
    dynamic: bool | None = None,
    disable: bool = False,
    rebuild_ctx: Any = None,
) -> Callable[[Any], Any]:
    """A decorator that compiles; all that it decorates shares one cache.

    `guard_export_fn` is told the guards of each entry that is made, `guard_fail_fn` the guard that failed
    where one more is needed.
    """
    if disable or (guard_export_fn is None and guard_fail_fn is None):
        found: Callable[[Any], Any] = compile(
            backend=backend, fullgraph=nopython, dynamic=dynamic, disable=disable
        )
        return found
    context = _context(backend, nopython, dynamic)
    if guard_export_fn is not None:
        export = guard_export_fn
        context.on_entry.append(lambda _cache, entry: export(list(entry.guards)))
    if guard_fail_fn is not None:
        fail = guard_fail_fn
        context.on_miss.append(lambda reason, code: fail(GuardFail(reason, code)))
    return functools.partial(compiled_form, context)


class GuardFail(NamedTuple):
    """Why nothing that was compiled before served a call."""

    reason: str
    orig_code: CodeType


def optimize_assert(backend: Backend, *, dynamic: bool | None = None, **_rest: Any) -> Callable[[Any], Any]:
    """`optimize` that raises where one graph is not enough."""
    return optimize(backend, nopython=True, dynamic=dynamic)


def reset() -> None:
    """Forgets everything compiled so far. Compiled functions stay valid and compile again."""
    for context in list(runtime.contexts):
        context.reset()
    compiled_autograd.reset()


# -- marks ---------------------------------------------------------------------------------------------------
def _mark(function: Any, policy: Policy, reason: str) -> Any:
    if isinstance(function, (list, tuple)):
        return [_mark(one, policy, reason) for one in function]
    if not callable(function):
        raise AssertionError(f"A callable function is expected, but {type(function)} is provided.")
    plain = function.__func__ if isinstance(function, MethodType) else function
    if not isinstance(plain, FunctionType):
        raise TypeError(f"{function!r} cannot be marked: only Python functions can")
    plain.__dict__[MARK] = (policy, reason)
    return function


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """Decorator: the function runs as written, and so does all that it calls unless `recursive=False`."""
    if fn is None:
        return functools.partial(disable, recursive=recursive, reason=reason)
    text = f"{getattr(fn, '__qualname__', type(fn).__qualname__)} is disabled" + (
        f": {reason}" if reason else ""
    )
    if isinstance(fn, type):
        for name in ("__init__", "__call__"):
            own = fn.__dict__.get(name)
            if isinstance(own, FunctionType):
                setattr(fn, name, disable(own, recursive, reason=reason))
        return fn
    if isinstance(fn, Module):
        fn.forward = disable(fn.forward, recursive, reason=reason)
        return fn
    if not callable(fn):
        raise AssertionError(f"A callable function is expected, but {type(fn)} is provided.")
    fn = runtime.original_of(fn)
    return _mark(outside(fn) if recursive else fn, Policy.BREAK, text)


def allow_in_graph(fn: Any) -> Any:
    """Calls of the function become one node of the graph, whatever it does inside. Of an autograd Function,
    `apply` does.
    """
    if isinstance(fn, type) and issubclass(fn, Function):
        setattr(fn, MARK, (Policy.IN_GRAPH, ""))
        return fn
    if isinstance(fn, type):  # its methods are captured as they run, which gives what one node would
        return fn
    return _mark(fn, Policy.IN_GRAPH, "")


def disallow_in_graph(fn: Any) -> Any:
    """Calls of the function, one of Weft's or one marked by `allow_in_graph`, break the graph."""
    plain = fn.__func__ if isinstance(fn, MethodType) else fn
    if isinstance(plain, FunctionType) and MARK not in plain.__dict__ and not _is_ours(plain):
        raise RuntimeError(
            "disallow_in_graph is expected to be used on an already allowed callable (like torch.* ops). "
            "Allowed callables means callables that TorchDynamo puts as-is in the extracted graph."
        )
    return _mark(fn, Policy.BREAK, f"{getattr(fn, '__qualname__', fn)} is not allowed in graphs")


def _is_ours(function: FunctionType) -> bool:
    return hasattr(function, "op") or function.__module__.partition(".")[0] in ("weft", "torch")


def assume_constant_result(fn: Any) -> Any:
    """The function is called once, while capturing, and its result becomes a constant."""

    def once(machine: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if any(isinstance(value, Tensor) for value in (*args, *kwargs.values())):
            raise Break("skipped-function", seen=f"{fn.__qualname__}, a constant, with a tensor as argument")
        return machine.native(plain, *args, **kwargs)

    _mark(fn, Policy.NATIVE, "its result is a constant")
    plain = fn.__func__ if isinstance(fn, MethodType) else fn
    handles(plain)(once)
    return fn


def graph_break(msg: str = "") -> None:
    """Ends the graph here; does nothing in code that is not captured."""


_mark(graph_break, Policy.BREAK, "weft.compiler.graph_break()")


@handles(graph_break)
def _break_here(_machine: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    given = [*map(repr, args), *(f"{name}={value!r}" for name, value in kwargs.items())]
    raise Break("skipped-function", seen=f"weft.compiler.graph_break({', '.join(given)})")


def is_compiling() -> bool:
    """Whether this code is being captured."""
    return runtime.is_compiling()


is_dynamo_compiling = is_compiling
handles(is_compiling)(lambda _machine, _args, _kwargs: True)


def is_exporting() -> bool:
    """Whether this code is being exported: there is no export yet."""
    return False


handles(is_exporting)(lambda _machine, _args, _kwargs: False)


def cudagraph_mark_step_begin() -> None:
    """There are no CUDA graphs: nothing to mark."""


# -- sizes ---------------------------------------------------------------------------------------------------
def _mark_sizes(tensor: Tensor, index: Any, varies: bool) -> None:
    if not isinstance(tensor, Tensor):
        raise TypeError(f"expected a tensor, got {type(tensor)}")
    dims = range(tensor.dim()) if index is None else index if isinstance(index, (list, tuple)) else (index,)
    marks = tensor.__dict__.setdefault("_dynamic_dims", {})
    for dim in dims:
        if not -tensor.dim() <= dim < tensor.dim():
            raise IndexError(
                f"Dimension out of range (expected to be in range of [{-tensor.dim()}, {tensor.dim() - 1}], "
                f"but got {dim})"
            )
        marks[dim % tensor.dim()] = varies


def mark_dynamic(
    t: Tensor, index: int | Sequence[int], *, min: int | None = None, max: int | None = None
) -> None:
    """This size of the tensor is a symbol from the first capture on."""
    _mark_sizes(t, index, True)


maybe_mark_dynamic = mark_dynamic


def mark_static(t: Tensor, index: int | Sequence[int] | None = None) -> None:
    """This size of the tensor (all sizes, without an index) is never a symbol."""
    _mark_sizes(t, index, False)


@handles(mark_dynamic, mark_static)
def _no_mark(_machine: Any, _args: tuple[Any, ...], _kwargs: dict[str, Any]) -> None:
    """Marks are for arguments of compiled functions: in captured code, sizes are what they are."""


# -- stances -------------------------------------------------------------------------------------------------
class set_stance:
    """Sets what compiled functions do from now on; also a context manager and a decorator.

    "default"; "force_eager": the originals run; "eager_on_recompile": they run where nothing compiled fits;
    "fail_on_recompile": that is an error.
    """

    def __init__(self, stance: str = "default", *, skip_guard_eval_unsafe: bool = False) -> None:
        if stance not in runtime.STANCES:
            raise RuntimeError(f"invalid weft.compile stance {stance!r}: one of {', '.join(runtime.STANCES)}")
        if skip_guard_eval_unsafe:
            raise NotImplementedError("skip_guard_eval_unsafe: guards are always evaluated")
        self.stance, self.before = stance, runtime.stance()
        runtime.put_stance(stance)

    def __enter__(self) -> None:
        runtime.put_stance(self.stance)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        runtime.put_stance(self.before)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        runtime.put_stance(self.before)  # a decorator means the calls, not what follows it

        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            with set_stance(self.stance):
                return function(*args, **kwargs)

        return run


def run(fn: Any = None) -> Any:
    """Decorator: calls use what is compiled already, and run the original elsewhere."""
    if fn is None:
        return run

    @functools.wraps(fn)
    def reuse(*args: Any, **kwargs: Any) -> Any:
        before = runtime.stance()
        runtime.put_stance("eager_on_recompile")
        try:
            return fn(*args, **kwargs)
        finally:
            runtime.put_stance(before)

    return reuse


BY_CODE[run(graph_break).__code__] = lambda machine, function, args, kwargs: machine.calls.call(
    function.__wrapped__, args, kwargs
)


# -- explaining ----------------------------------------------------------------------------------------------
@dataclass
class GraphCompileReason:
    """Why a graph ended."""

    reason: str
    user_stack: list[traceback.FrameSummary]
    graph_break: bool = True
    why: str = ""
    try_: str = ""


@dataclass
class ExplainOutput:
    """What compiling one call gave; prints as a report, in notebooks as a page."""

    graphs: list[Any] = field(default_factory=list)
    graph_count: int = 0
    graph_break_count: int = 0
    break_reasons: list[GraphCompileReason] = field(default_factory=list)
    op_count: int = 0
    ops_per_graph: list[list[Any]] = field(default_factory=list)
    out_guards: list[Any] = field(default_factory=list)
    seen: Any = None
    """All that was observed: a `weft.report.Observed`."""

    @property
    def built(self) -> dict[str, int]:
        """How much was built for the call: captures, plans, programs, kernels, native entries."""
        found: dict[str, int] = self.seen.built
        return found

    @property
    def programs(self) -> list[Any]:
        """The native programs that the call has made."""
        return [made.program for made in self.seen.programs]

    def stepping(self, number: int = 0) -> Any:
        """A run of a native program, step by step, with every value to look at."""
        made = self.seen.programs[number]
        return _stepping.Stepping(made.program, made.inputs)

    def save(self, path: str | PathLike[str]) -> None:
        """Writes a page of HTML: source beside graph beside kernels, times, memory, breaks and guards."""
        _page.save(self.seen, path)

    def _repr_html_(self) -> str:
        html: str = _page.embedded(self.seen)
        return html

    def __str__(self) -> str:
        lines = [
            f"Graph Count: {self.graph_count}",
            f"Graph Break Count: {self.graph_break_count}",
            f"Op Count: {self.op_count}",
            "Break Reasons:",
        ]
        for number, reason in enumerate(self.break_reasons, 1):
            lines += [f"  Break Reason {number}:", f"    Reason: {reason.reason}"]
            lines += [f"    Why: {reason.why}", f"    Try: {reason.try_}", "    User Stack:"]
            lines += [f"      {place}" for place in reason.user_stack]
        lines.append("Ops per Graph:")
        for number, ops in enumerate(self.ops_per_graph, 1):
            lines += [f"  Ops {number}:", *(f"    {op}" for op in ops)]
        lines.append("Out Guards:")
        lines += [f"  Guard {number}: {guard}" for number, guard in enumerate(self.out_guards, 1)]
        lines.append(f"Built: {', '.join(f'{kind} {number}' for kind, number in self.built.items())}")
        for number, program in enumerate(self.programs, 1):
            steps = _looking.steps_text(program.program).splitlines()
            lines += [f"Native Program {number}:", *(f"  {step}" for step in steps)]
        return "\n".join(lines)


def explain(f: Any, *, backend: Backend | None = None) -> Callable[..., ExplainOutput]:
    """`explain(f)(*args)` compiles the call afresh, runs it and lists its graphs, breaks and guards, and what
    its native programs do, with your lines; `.save("report.html")` makes a page of it.
    """
    inner = lookup_backend(DEFAULT_BACKEND if backend is None else backend)

    def explained(*args: Any, **kwargs: Any) -> ExplainOutput:
        output = ExplainOutput()

        def backend(graph_module: Any, inputs: list[Any]) -> Callable[..., Any]:
            output.graphs.append(graph_module)
            output.op_count += count_ops(graph_module.graph)
            nodes = graph_module.graph.nodes
            output.ops_per_graph.append([node.target for node in nodes if node.op.startswith("call_")])
            return inner(graph_module, inputs) if inner in (native, reference) else graph_module.forward

        def note(_cache: Any, entry: Any) -> None:
            output.out_guards += entry.guards
            if entry.stop is not None:
                where = entry.where
                stack = [] if where is None else [traceback.FrameSummary(*where)]
                output.break_reasons.append(GraphCompileReason(str(entry.stop), stack, True, *entry.advice()))

        context = _context(backend, False, None)
        context.on_entry.append(note)
        target = f._orig_mod if isinstance(f, OptimizedModule) else runtime.original_of(f)
        title = getattr(target, "__qualname__", type(target).__name__)
        with _observing.observe(title) as output.seen:
            compiled_form(context, target)(*args, **kwargs)
        output.graph_count, output.graph_break_count = len(output.graphs), len(output.break_reasons)
        return output

    return explained


compiled_autograd.count = functools.partial(count, "compiled_autograd")
compiled_autograd.log = functools.partial(log, "compiled_autograd")
compiled_autograd.default_compiler = compile
seams.compile = compile
seams.loudly = _loudly
seams.is_compiling = is_compiling
read_environment()
# Last: a module whose import is interrupted is imported again, and would be told everything twice.
settings.watchers.append(lambda name: reset() if name in ("nan_trace", "debug", "bitwise") else None)
counting.watchers.append(_on_note)
