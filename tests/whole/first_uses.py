"""First uses: everything that the library makes when it is first asked for, and how it is asked for.

Takes the name of a first use; interrupts it in forked processes, each at another line of the files that make
the thing, and uses it again; or has it done by eight threads at once. What comes out must be what an
undisturbed process gives. Run as `python -m tests.whole.first_uses walk NAME MOST` or `... race NAME TIMES`;
prints what went wrong. One idea: a process that was forked before a first use can do that again.
"""

from __future__ import annotations

import ast
import functools
import os
import pickle
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from importlib import import_module
from operator import itemgetter
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import numpy as np

import weft
from weft.core.records import record

ROOT = os.path.dirname(weft.__file__) + os.sep
THREADS = 8
PATIENCE = 300
"""Seconds, after which a process hangs."""


class FirstUse(NamedTuple):
    """Something made lazily: how it is used, and in which files it is made and published."""

    use: Callable[[], Any]
    files: tuple[str, ...]
    loaded: bool = True
    """Whether what it imports is loaded before."""
    shared: bool = True
    """Whether threads may do it at once; what belongs to the process must change alone."""
    quick: bool = True
    """Whether it is interrupted in each run of the tests; others take longer, or resemble these."""


def shown(*values: Any) -> Any:
    """Tensors as lists, to be compared."""
    return [value.tolist() if isinstance(value, weft.Tensor) else value for value in values]


def leaf(*shape: int) -> Any:
    array = np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape)
    return weft.from_numpy(array * 0.25 + 0.5).requires_grad_()


# -- eager ---------------------------------------------------------------------------------------------------
def backward_of_op() -> Any:
    x = leaf(2, 2)
    (x @ x).sum().backward()
    return shown(x.grad)


def backward_twice() -> Any:
    x = leaf(3)
    (first,) = weft.autograd.grad(x.tanh().sum(), x, create_graph=True)
    first.sum().backward()
    return shown(first.detach(), x.grad)


def backward_of_list() -> Any:
    x, y = leaf(2), leaf(3)
    (weft.cat([x, y]) * weft.arange(5.0)).sum().backward()
    return shown(x.grad, y.grad)


def captured_array() -> Any:
    return weft.compile(lambda x: np.exp(x.numpy()), backend="eager", fullgraph=True)(weft.ones(2)).tolist()


def backward_of_complex() -> Any:
    x = weft.tensor([1 + 2j, 3 - 1j], requires_grad=True)
    y = x * x
    y.abs().sum().backward()
    return [type(y.grad_fn) is type((x * x).grad_fn), np.round(x.grad.numpy(), 5).tolist()]


def defaults_of_face() -> Any:
    x = leaf(2, 3)
    named = weft.sum(x, dim=1, keepdim=True)
    return shown(weft.std(x), named, weft.nn.functional.softmax(x, -1), weft.add(x, x, alpha=2))


def inplace_face() -> Any:
    x = weft.ones(2)
    x.add_(x, alpha=2).clamp_(max=2.5)
    x *= 2
    return shown(x, x - 1, 1 - x, -x)


def settled_calls() -> Any:
    x, mask = leaf(2, 2), weft.tensor([True, False])
    chosen = [weft.where(mask, x, 0.0) for _ in range(3)]
    chosen[2].sum().backward()
    return [*shown(*chosen, x.grad), type(chosen[2].grad_fn).__name__]


def drawn_ahead() -> Any:
    weft.manual_seed(3)
    return shown(*[weft.randn(4) for _ in range(5)])


class Seen(weft.overrides.TorchFunctionMode):
    """Notes the names of what is called."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(getattr(func, "__name__", str(func)))
        return func(*args, **(kwargs or {}))


def function_mode() -> Any:
    x = weft.ones(2, 3)
    with Seen() as seen:
        weft.is_tensor(x), x.size(), x.numpy(), x.stride(), x.element_size(), x.tolist(), x.shape
    with Seen() as again:
        x.stride()
    return seen.names, again.names, list(x.size())


def another_subclass() -> Any:
    calls: list[str] = []

    class Another(weft.Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            calls.append(getattr(func, "__name__", str(func)))
            return super().__torch_function__(func, types, args, kwargs or {})

    x = weft.ones(2).as_subclass(Another)
    calls.clear()
    x.size(), x.stride(), x.dim()
    return list(calls)


@record(frozen=True)
class Record:
    first: int
    second: tuple[int, ...] = ()


def records() -> Any:
    return [repr(Record(1, (2,))), Record(1) == Record(1, ())]


def late_modules() -> Any:
    return shown(weft.special.erf(weft.ones(2)), weft.lgamma(weft.ones(2)), weft.special.i1(weft.ones(2)))


def named_results() -> Any:
    found = weft.max(leaf(2, 3), dim=1)
    return [*shown(found.values.detach(), found.indices), type(found) is type(weft.max(leaf(2, 3), 0))]


def spent_history() -> Any:
    from weft.autograd.spent import spent_class

    return spent_class("AddBackward0") is spent_class("AddBackward0")


def custom_function() -> Any:
    class Double(weft.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 2 + 0 * ctx.saved_tensors[0]

    x = leaf(3)
    Double.apply(x).sum().backward()
    return shown(x.grad)


def drawn() -> Any:
    given = weft.Generator().manual_seed(5)
    drawn = [weft.randn(3, generator=given), weft.rand(2, generator=given)]
    return shown(*drawn, weft.randint(9, (4,), generator=given), weft.randperm(5, generator=given))


OPS = (
    "sin", "cos", "tanh", "exp", "log", "sqrt", "erf", "sigmoid", "cumsum", "prod", "softmax", "std", "var",
    "logsumexp", "amax", "cumprod", "expm1", "log1p", "atan", "sinh", "cosh", "asinh", "flip", "roll", "norm",
    "diff", "tril", "triu", "sort", "relu",
)  # fmt: skip
ARGUMENTS: dict[str, tuple[int, ...]] = {
    "cumsum": (0,), "softmax": (0,), "logsumexp": (0,), "amax": (0,), "cumprod": (0,), "flip": (0,),
    "roll": (1,),
}  # fmt: skip


def backward_of_many() -> Any:
    """Each op that is differentiated, one after the other, by threads that meet before each."""
    found = []
    for name in OPS:
        x = weft.from_numpy(np.full((3, 3), 0.5, np.float32)).requires_grad_()
        MEETING.wait()
        result = getattr(weft, name)(x, *ARGUMENTS.get(name, ()))
        result = result[0] if isinstance(result, tuple) else result
        result.sum().backward()
        found += close(result, x.grad)
    return found


class Meeting:
    """Where threads that race wait for each other; alone nobody waits."""

    barrier: threading.Barrier | None = None

    def wait(self) -> None:
        if self.barrier is not None:
            self.barrier.wait(PATIENCE)


MEETING = Meeting()


# -- scripted ------------------------------------------------------------------------------------------------
def helper(x: weft.Tensor) -> weft.Tensor:
    return x * 2 + 1


def scripted_body(x: weft.Tensor, n: int) -> weft.Tensor:
    for _ in range(n):
        x = helper(x)
    return x


class Pair:
    def __init__(self, first: weft.Tensor, second: int) -> None:
        self.first = first
        self.second = second

    def total(self) -> weft.Tensor:
        return self.first + self.second


def with_class(x: weft.Tensor) -> weft.Tensor:
    return Pair(x, 3).total()


def scripted() -> Any:
    import weft.jit

    x = leaf(3)
    made = weft.jit.script(scripted_body)
    made(x, 2).sum().backward()
    made(x, 3).sum().backward()
    return shown(x.grad, weft.jit.script(with_class)(weft.ones(2)))


SCRIPTED: list[Any] = []


def scripted_call() -> Any:
    """The function is scripted once, and first called by all."""
    import weft.jit

    if not SCRIPTED:
        SCRIPTED.append(weft.jit.script(scripted_body))
    x = leaf(3)
    SCRIPTED[0](x, 2).sum().backward()
    return shown(x.grad)


# -- compiled ------------------------------------------------------------------------------------------------
def layer(x: Any, w: Any) -> Any:
    return (x @ w).tanh().softmax(-1)


def broken(x: Any) -> Any:
    y = x * 2
    weft.compiler.graph_break()
    return (y + 1).sum()


def sized(x: Any) -> Any:
    return (x * x.size(0)).sum()


COMPILED: dict[Any, Any] = {}


def compiled(function: Any, **options: Any) -> Any:
    """One compiled form for all uses of a process."""
    made = COMPILED.get(function)
    return COMPILED.setdefault(function, weft.compile(function, **options)) if made is None else made


def close(*values: Any) -> Any:
    return [np.round(value.detach().numpy(), 4).tolist() for value in values]


def compiled_call() -> Any:
    x, w = leaf(3, 4), leaf(4, 4)
    found = []
    for _ in range(4):
        x.grad = w.grad = None
        y = compiled(layer)(x, w)
        (y * y).sum().backward()
        found += close(y, x.grad, w.grad)
    return found


def compiled_anew() -> Any:
    """The same without what is on disk."""
    os.environ["WEFT_CACHE"] = "0"
    return compiled_call()


def compiled_break() -> Any:
    x = leaf(4)
    for _ in range(3):
        y = compiled(broken)(x)
    y.backward()
    return close(y, x.grad)


def compiled_sizes() -> Any:
    return [compiled(sized)(weft.arange(float(n))).item() for n in (2, 3, 5, 5, 5, 7, 7, 7, 3, 3)]


def compiled_twice() -> Any:
    """Gradients of gradients, which are compiled when they are first asked for."""
    x, w = leaf(3, 4), leaf(4, 4)
    y = compiled(layer)(x, w)
    (first,) = weft.autograd.grad((y * y).sum(), x, create_graph=True)
    first.sum().backward()
    return close(first, w.grad)


def two_outputs(x: Any, w: Any) -> Any:
    return x * w, (x + w).sin()


def compiled_in_part() -> Any:
    """A backward to which only some gradients come."""
    found = []
    for which in (0, 1, 0):
        x, w = leaf(3), leaf(3)
        compiled(two_outputs)(x, w)[which].sum().backward()
        found += close(x.grad, w.grad)
    return found


def threads_of_pool() -> Any:
    """Work that is shared by the threads of the pool."""
    import weft.native.cpu.pool

    if weft.get_num_threads() != 3:  # asking again would start what is missing
        weft.set_num_threads(3)
    x = weft.ones(512, 1024)
    found = [round(compiled(shared)(x).sum().item(), 1) for _ in range(2)]
    pool = weft.native.cpu.pool.pool()
    alive = [each for each in pool.workers if each.is_alive()]
    return [*found, len(alive), int(pool.state[weft.native.cpu.pool.THREADS])]


def shared(x: Any) -> Any:
    return (x * 2).exp().tanh() + x


def large_eager() -> Any:
    """Native kernels of eager ops, which are there once something was compiled."""
    compiled(sized)(weft.ones(2))
    x = weft.arange(300000.0).reshape(300, 1000) * 1e-5
    return close(x.softmax(-1)[3, :5], x.exp()[0], x.cumsum(0)[2])


def drafts() -> Any:
    """Code that is compiled again in the background."""
    from weft.core.settings import settings
    from weft.native.cpu import tiers

    settings.tiers = "auto"
    x = leaf(3, 4)
    found = [close(compiled(drafted)(x)) for _ in range(4)]
    tiers.wait()
    return found, tiers._thread is None and not tiers._waiting


def drafted(x: Any) -> Any:
    return (x.sin() + x.cos()).sum(0)


def eight(x: Any) -> Any:
    """Each thread compiles functions of its own, all at once."""
    functions = [lambda x, n=n: ((x * n).sin() + n).sum() for n in range(8)]
    mine = functions[threading.get_ident() % 8 :] + functions[: threading.get_ident() % 8]
    found = {each.__defaults__[0]: weft.compile(each)(x) for each in mine}  # type: ignore[index]
    return [found[n] for n in range(8)]


def compiled_many() -> Any:
    x = leaf(3)
    results = eight(x)
    sum(results).backward()
    return close(*results, x.grad)


def tape() -> Any:
    from weft.aot import compiled_autograd

    found = []
    for _ in range(2):
        x = leaf(3)
        with compiled_autograd.enable(weft.compile):
            (x.sin() * 2).sum().backward()
        found += close(x.grad)
    return found


def other_defaults() -> Any:
    found = []
    for kind in (weft.float32, weft.float64, weft.float32):
        weft.set_default_dtype(kind)
        found.append(str(compiled(makes)(weft.ones(2)).dtype))
    return found


def makes(x: Any) -> Any:
    return weft.zeros(2) + 1


def decoded() -> Any:
    from weft.capture.bytecode.instructions import decode

    bytecode = decode(tape.__code__)
    return [(entry.offset, entry.slots and len(entry.slots)) for entry in bytecode.entries]


TENSOR, AOT, CAPTURE, NATIVE = "tensor/", "aot/runtime/", "capture/", "native/"
USES: dict[str, FirstUse] = {
    # Node classes, their backward functions, and the functions that users call.
    "plan of an op": FirstUse(backward_of_op, (TENSOR + "plan.py", TENSOR + "backward.py")),
    "face of an op": FirstUse(defaults_of_face, (TENSOR + "faces.py",)),
    "in-place face": FirstUse(inplace_face, (TENSOR + "faces.py", TENSOR + "operators.py")),
    "texts of backwards": FirstUse(backward_twice, (TENSOR + "source.py",)),
    "backward of a list": FirstUse(backward_of_list, (TENSOR + "backward.py", TENSOR + "dispatch.py")),
    "nodes of complex numbers": FirstUse(backward_of_complex, (TENSOR + "tape.py", TENSOR + "plan.py")),
    "spent nodes": FirstUse(spent_history, ("autograd/spent.py", "core/once.py")),
    "nodes of custom functions": FirstUse(custom_function, ("autograd/function_node.py",)),
    # What stands in front of hand-written functions while modes are active, and in subclasses.
    "shims of modes": FirstUse(function_mode, (TENSOR + "shims.py",)),
    "shims of subclasses": FirstUse(another_subclass, (TENSOR + "shims.py",)),
    # Words that everything uses.
    "methods of records": FirstUse(records, ("core/records.py",)),
    "lazy modules": FirstUse(late_modules, ("core/lazy.py",)),
    "classes of results": FirstUse(named_results, ("ops/return_types.py", TENSOR + "faces.py")),
    "backwards of many ops": FirstUse(backward_of_many, (TENSOR + "backward.py",), quick=False),
    "settled calls": FirstUse(settled_calls, (TENSOR + "settled.py",)),
    "numbers drawn ahead": FirstUse(drawn_ahead, ("ops/ahead.py",), shared=False),
    "streams of numbers": FirstUse(drawn, ("ops/philox.py", "core/generator.py")),
    "calls of NumPy": FirstUse(captured_array, ("capture/array_program.py",)),
    # Scripted functions, classes, and their generated code.
    "scripted functions": FirstUse(scripted, ("jit/script.py", "jit/executor.py", "jit/lookup.py")),
    "scripted calls": FirstUse(scripted_call, ("jit/script.py", "jit/executor.py")),
    # The compiler: modules, backends, entries of functions, fronts, shortcuts.
    "compiled: import": FirstUse(compiled_sizes, ("compiler.py", "core/lazy.py"), loaded=False, quick=False),
    "compiled: rules": FirstUse(
        compiled_anew, (NATIVE + "lower/folds.py", NATIVE + "lower/lowering.py"), loaded=False, quick=False
    ),
    "compiled: backends": FirstUse(compiled_call, ("compiler.py", "core/once.py", CAPTURE + "forms.py")),
    "compiled: entries": FirstUse(compiled_call, (CAPTURE + "runtime.py",)),
    "compiled: functions at once": FirstUse(compiled_many, (CAPTURE + "compiling.py",), quick=False),
    "compiled: fronts": FirstUse(
        compiled_break, (CAPTURE + "fronts.py", CAPTURE + "binding.py"), quick=False
    ),
    "compiled: chains": FirstUse(compiled_sizes, (CAPTURE + "chaining.py",), quick=False),
    "compiled: shortcuts": FirstUse(
        compiled_call, (CAPTURE + "shortcut.py", CAPTURE + "checking.py", NATIVE + "entry/factory.py")
    ),
    "compiled: bytecode": FirstUse(decoded, (CAPTURE + "bytecode/instructions.py", "core/once.py")),
    "compiled: effects of ops": FirstUse(compiled_call, ("graph/effects.py",), quick=False),
    "compiled: defaults": FirstUse(other_defaults, (CAPTURE + "runtime.py", "core/dtypes.py"), shared=False),
    "compiled: tapes": FirstUse(tape, ("aot/compiled_autograd/__init__.py",)),
    # Plans of compiled graphs, programs of partial gradients, gradients of gradients.
    "compiled: plans": FirstUse(compiled_call, (AOT + "compiled.py", AOT + "nodes.py")),
    "compiled: derivatives": FirstUse(compiled_twice, (AOT + "compiled.py", AOT + "rerun.py"), quick=False),
    "compiled: parts": FirstUse(compiled_in_part, (AOT + "compiled.py",)),
    # Machine code: the engine, its cache, the pool, BLAS, entries, drafts.
    "compiled: engine": FirstUse(compiled_anew, (NATIVE + "cpu/engine.py",), quick=False),
    "compiled: entrance": FirstUse(compiled_call, (NATIVE + "entry/entry.py",), quick=False),
    "compiled: pool": FirstUse(threads_of_pool, (NATIVE + "cpu/pool.py",)),
    "compiled: BLAS": FirstUse(
        compiled_call, (NATIVE + "cpu/blas.py", NATIVE + "cpu/outside.py", "core/once.py")
    ),
    "compiled: programs": FirstUse(
        compiled_call,
        (
            NATIVE + "backend.py",
            NATIVE + "cpu/runner.py",
            NATIVE + "cpu/emission.py",
            NATIVE + "program/assemble.py",
        ),
    ),
    "compiled: cache on disk": FirstUse(
        compiled_call, (NATIVE + "program/cache.py", NATIVE + "program/stored.py"), quick=False
    ),
    "compiled: large eager ops": FirstUse(large_eager, (NATIVE + "eager.py",)),
    "compiled: drafts": FirstUse(
        drafts,
        (
            NATIVE + "cpu/tiers.py",
            NATIVE + "cpu/runner.py",
            NATIVE + "cpu/emission.py",
            NATIVE + "program/assemble.py",
        ),
    ),
}
"""Every lazy thing, by what it is, with its first use."""


# -- processes -----------------------------------------------------------------------------------------------
def forked(work: Callable[[], Any]) -> Any:
    """What the work gives in a process of its own; a text where it fails."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        signal.alarm(PATIENCE)
        try:
            result: Any = ("gave", work())
        except BaseException:
            result = ("failed", traceback.format_exc())
        with os.fdopen(writing, "wb") as stream:
            stream.write(pickle.dumps(result))
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        content = stream.read()
    _, status = os.waitpid(child, 0)
    if status or not content:
        return "failed", f"the process ended with status {status}"
    return pickle.loads(content)


@functools.cache
def spared(file: str) -> frozenset[int]:
    """Lines before which Python itself is not interrupted, though they may be traced: between the last call
    inside a `with` and the release of a lock, or inside a `try` and its `finally`.
    """
    found: set[int] = set()
    for node in ast.walk(ast.parse(Path(file).read_text())):
        if isinstance(node, ast.With):
            found.add(node.lineno)
        for each in getattr(node, "finalbody", ()):
            found.update(range(each.lineno, (each.end_lineno or each.lineno) + 1))
    return frozenset(found)


class Interrupt:
    """Raises KeyboardInterrupt at the n-th line that this thread runs in some files; notes lines."""

    def __init__(self, files: tuple[str, ...], at: int | None) -> None:
        self.files = frozenset(ROOT + file for file in files)
        for file in self.files:
            spared(file)
        self.at, self.seen, self.place = at, 0, ""
        self.places: dict[tuple[str, int], list[int]] = {}

    def __call__(self, frame: FrameType, event: str, arg: Any) -> Any:
        if frame.f_code.co_filename not in self.files:
            return None
        if event == "line" and frame.f_lineno not in spared(frame.f_code.co_filename):
            self.seen += 1
            self.places.setdefault((frame.f_code.co_filename, frame.f_lineno), []).append(self.seen)
            if self.seen == self.at:
                self.place = f"{frame.f_code.co_filename[len(ROOT) :]}:{frame.f_lineno}"
                raise KeyboardInterrupt
        return self


def interrupted(first: FirstUse, files: tuple[str, ...], at: int | None) -> Any:
    """When each line came first and last, where the use was interrupted, what the next use gives, what is
    loaded.
    """
    tracer = Interrupt(files, at)
    sys.settrace(tracer)
    try:
        found = first.use()
    except KeyboardInterrupt:
        sys.settrace(None)
        found = first.use()
    finally:
        sys.settrace(None)
    points = [(place[0], point) for place, times in tracer.places.items() for point in {times[0], times[-1]}]
    loaded = [name for name in sys.modules if name.startswith(("weft", "llvm"))]
    return points, tracer.place, found, loaded


@functools.cache
def load(use: Callable[[], Any], loaded: bool) -> Any:
    """The files that this use is interrupted in, the points at which it can be, and what it gives when it is
    not disturbed. Its modules are loaded then, unless that is part of it.
    """
    rows = [each for each in USES.values() if each.use is use and each.loaded is loaded]
    files = tuple(sorted({file for each in rows for file in each.files}))
    how, found = forked(lambda: interrupted(rows[0], files, None))
    if how == "failed":
        raise AssertionError(found)
    if loaded:
        for name in found[3]:
            import_module(name)
        expected = found[2]
        how, found = forked(lambda: interrupted(rows[0], files, None))
        assert how == "gave" and found[2] == expected, (found, expected)
    return files, sorted(found[0], key=itemgetter(1)), found[2]


def walk(name: str, most: int) -> list[str]:
    """Interrupts a first use at each line, when that runs first and last; or at so many of these."""
    first = USES[name]
    files, every, expected = load(first.use, first.loaded)
    points = [point for file, point in every if file.removeprefix(ROOT) in first.files]
    assert points, f"{name}: its files have no part in it"
    if len(points) > most:
        points = [points[round((k + 1) * (len(points) - 1) / (most + 1))] for k in range(most)]
    wrong = []
    for point in points:
        how, found = forked(lambda at=point: interrupted(first, files, at))  # type: ignore[misc]
        if how == "failed":
            wrong.append(f"{name}, interrupted at line {point}:\n{found}")
        elif found[2] != expected:
            wrong.append(f"{name}, interrupted at {found[1]}: {found[2]} instead of {expected}")
    return wrong


def raced(use: Callable[[], Any]) -> Any:
    """What eight threads get that use something first, at once."""
    found: list[Any] = [None] * THREADS
    start = threading.Barrier(THREADS)
    barrier = MEETING.barrier = threading.Barrier(THREADS)
    sys.setswitchinterval(1e-6)

    def work(number: int) -> None:
        start.wait()
        try:
            found[number] = "gave", use()
        except BaseException:
            found[number] = "failed", traceback.format_exc()
            barrier.abort()  # nobody is to wait for this one

    threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def race(name: str, times: int) -> list[str]:
    """Has eight threads use something first, at once, so many times."""
    first = USES[name]
    _, _, expected = load(first.use, first.loaded)
    wrong = []
    for _ in range(times):
        how, found = forked(lambda: raced(first.use))
        if how == "failed":
            wrong.append(f"{name}: {found}")
            continue
        for each in found:
            if each[0] == "failed":
                wrong.append(f"{name}, in a thread: {each[1]}")
            elif each[1] != expected:
                wrong.append(f"{name}, in a thread: {each[1]} instead of {expected}")
    return wrong


def distinct(names: list[str]) -> list[str]:
    """Of these, one for each way of using something; for races, which do not care for files."""
    found = {(USES[name].use, USES[name].loaded): name for name in names if USES[name].shared}
    return list(found.values())


def main(words: list[str]) -> int:
    how, given, number = words
    wrong: list[str] = []
    names = given.split(",")
    for name in names if how == "walk" else distinct(names):
        wrong += (walk if how == "walk" else race)(name, int(number))
    print("\n".join(wrong))
    return min(len(wrong), 1)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))
    sys.exit(main(sys.argv[1:]))
