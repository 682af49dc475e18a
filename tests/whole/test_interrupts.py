"""An exception of a signal's handler comes out of a compile as it is, and leaves everything usable."""

from __future__ import annotations

import ast
import asyncio
import builtins
import ctypes
import gc
import itertools
import random
import re
import signal
import sys
import threading
import zlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

import weft
from tests.whole.interrupts import (
    BLOCKS,
    CASES,
    CLASSES,
    Timeout,
    campaign,
    fault,
    left_open,
    length,
)
from weft import compiler
from weft.core import modes, origins
from weft.core.interrupts import is_interrupt

PACKAGE = Path(weft.__file__).parent
pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="no signals")


STEADY_CASES = [case for case in CASES if case.steady]


def test_at_drawn_points():
    assert campaign(seed=1, count=24) == []


@pytest.mark.parametrize("case", STEADY_CASES, ids=range(len(STEADY_CASES)))
def test_calls_that_run_what_is_made_already(case):
    classes = itertools.cycle(CLASSES)
    step = 1 + length(case) // 40
    for point in range(1, length(case) + 1, step):
        assert fault(case, 1, point, next(classes)) is None


@pytest.mark.slow
@pytest.mark.parametrize("case", STEADY_CASES, ids=range(len(STEADY_CASES)))
def test_calls_that_run_what_is_made_already_at_all_their_events(case):
    for point in range(1, length(case) + 1):
        assert fault(case, 1, point, CLASSES[point % len(CLASSES)]) is None


@pytest.mark.slow
def test_at_many_drawn_points():
    assert campaign(seed=2, count=200) == []


@pytest.mark.parametrize("before", [0, 3])
@pytest.mark.parametrize("text", BLOCKS, ids=range(len(BLOCKS)))
def test_blocks_that_a_break_parts_are_left(text, before):
    events = int(left_open(text, before, 1, -1))
    draw, classes = random.Random(1), itertools.cycle(CLASSES)
    for number, point in enumerate(draw.sample(range(1, events + 1), 30 if before else 5), 2):
        assert left_open(text, before, number, point, next(classes)).isdigit()


class Late(Timeout, RuntimeError):
    pass


@pytest.mark.parametrize("kind", [Timeout, TimeoutError, RuntimeError, Late])
@pytest.mark.parametrize("taken", ["bound method", "any arguments", "function"])
def test_what_a_handler_raises_is_an_interrupt(kind, taken):
    class Clock:
        def ring(self, number, frame):
            raise kind

        def run(self, *given):
            raise kind

    def plain(number, frame):
        raise kind

    handler = {"bound method": Clock().ring, "any arguments": Clock().run, "function": plain}[taken]
    before = signal.signal(signal.SIGUSR1, handler)
    try:
        signal.raise_signal(signal.SIGUSR1)
    except kind as error:
        assert is_interrupt(error)
    else:
        pytest.fail("not raised")
    finally:
        signal.signal(signal.SIGUSR1, before)


class Own(Exception):
    pass


def test_errors_of_programs_are_none():
    def fails(x):
        raise Own

    for function in (fails, weft.Tensor.mm, lambda x: weft.ones(2) @ weft.ones(3), lambda x: {}[x]):
        try:
            function(weft.ones(2))
        except Exception as error:
            assert not is_interrupt(error)


def test_errors_of_functions_of_c_are_none():
    def f(x):
        try:
            return x + zlib.decompress(b"")
        except zlib.error:
            return x * 2

    assert weft.compile(f, backend="eager")(weft.ones(2)).tolist() == [2.0, 2.0]


def test_a_backend_that_is_interrupted_has_not_failed():
    def backend(module, inputs):
        signal.raise_signal(signal.SIGUSR1)
        return module.forward

    def ring(number, frame):
        raise Timeout

    before = signal.signal(signal.SIGUSR1, ring)
    try:
        compiled = weft.compile(lambda x: x * 2, backend=backend)
        with pytest.raises(Timeout):
            compiled(weft.ones(2))
    finally:
        signal.signal(signal.SIGUSR1, before)


def ring(number, frame):
    raise Timeout


@pytest.fixture
def struck(request):
    """A backend whose graphs are interrupted, be it when they are compiled or when they run."""
    compiles = request.param == "compiled"

    def backend(module, inputs):
        if compiles:
            signal.raise_signal(signal.SIGUSR1)
        return lambda *args: (compiles or signal.raise_signal(signal.SIGUSR1), module.forward(*args))[1]

    before = signal.signal(signal.SIGUSR1, ring)
    yield backend
    signal.signal(signal.SIGUSR1, before)


events: list[str] = []
held = threading.Lock()


def caught_inside(x, hint=0):
    try:
        print(end="")
        y = x.sin() + hint
    except Timeout:
        return x * 0
    return y


def left_at_last(x):
    try:
        print(end="")
        y = x.sin()
    finally:
        events.append("left")
    return y


def with_a_lock(x):
    with held:
        y = x.sin()
    return y


def returned_from_a_block(x):
    with held, weft.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        print(end="")
        return x.sin()


def handled_before(x):
    try:
        try:
            raise KeyError(print(end=""))
        except KeyError as error:
            print(end="")
            y = x.sin() + len(error.args)
    finally:
        events.append("left")
    return y


def under_a_decorator(x):
    with weft.autocast("cpu", dtype=weft.bfloat16), weft.no_grad():
        for _ in range(2):
            print(end="")
            x = x.sin()
    return x


@pytest.mark.parametrize("struck", ["compiled", "run"], indirect=True)
def test_the_rest_of_a_block_is_interrupted(struck):
    before = modes.state.get()
    x = weft.ones(2)
    assert weft.compile(caught_inside, backend=struck)(x).tolist() == [0.0, 0.0]
    assert weft.compile(caught_inside, backend=struck)(x, hint=1.0).tolist() == [0.0, 0.0]
    for function in (
        left_at_last, with_a_lock, returned_from_a_block, handled_before, under_a_decorator
    ):  # fmt: skip
        events.clear()
        with pytest.raises(Timeout) as found:
            weft.compile(function, backend=struck)(x)
        assert is_interrupt(found.value)
        assert not held.locked() and modes.state.get() is before
        assert events == ["left"] * (function in (left_at_last, handled_before))


def test_a_checkpoint_that_is_interrupted_leaves_the_modes_as_they_were():
    def part(x):
        modes.enter(grad=False)  # as a block that could not be left
        signal.raise_signal(signal.SIGUSR1)
        return x

    earlier, before = modes.state.get(), signal.signal(signal.SIGUSR1, ring)
    try:
        with pytest.raises(Timeout):
            weft.utils.checkpoint.checkpoint(part, weft.ones(2, requires_grad=True), use_reentrant=False)
        assert modes.state.get() is earlier
    finally:
        modes.state.set(earlier)
        signal.signal(signal.SIGUSR1, before)


def test_no_line_runs_where_a_function_goes_that_was_compiled():
    """What a handler raises in a callback of a weak reference is dropped."""
    seen = []

    def f(x):
        return x * 2

    weft.compile(f, backend="eager")(weft.ones(2))
    weft.compile(f, backend="eager")(weft.ones(2))
    kept = [each for each in compiler._by_function if each() is f]
    assert len(kept) == 1
    sys.setprofile(lambda frame, event, _value: seen.append(frame.f_code.co_qualname))
    try:
        del f
        gc.collect()
    finally:
        sys.setprofile(None)
    assert kept[0]() is None and kept[0] not in list(compiler._by_function)
    assert not [name for name in seen if "remove" in name and "WeakKey" in name]


COMPILING = (
    "aot", "autograd", "capture", "compiler.py", "core", "graph", "jit", "native", "nn", "ops", "report",
    "tensor", "trace",
)  # fmt: skip
NOBODYS = {
    "DeprecationWarning", "FloatingPointError", "GeneratorExit", "ImportError", "NotImplementedError",
    "RecursionError", "StopAsyncIteration", "StopIteration", "SyntaxError", "UnicodeDecodeError",
}  # fmt: skip
"""Classes of what the interpreter says, and no handler of signals."""
ELSEWHERE = {
    ("autograd/grad_mode.py", "BaseException"),  # given to the generator inside, which raises it
    ("autograd/tasks.py", "BaseException"),  # of another thread, raised again by who waits for it
    ("core/threads.py", "BaseException"),  # likewise
    ("core/handlers.py", "BaseException"),  # raised again once all handlers are back
    ("native/cpu/tiers.py", "Exception"), ("native/cpu/tiers.py", "RuntimeError"),  # no signal reaches it
    ("tensor/stubs.py", "Exception"),  # a program of its own
}  # fmt: skip
WORK = (ast.Call, ast.For, ast.While, ast.With, ast.comprehension)


def raises_again(statement: ast.stmt) -> bool:
    """Whether it lets all pass that it does not know: `raise`, or `if ...: raise`."""
    if isinstance(statement, ast.If):
        return raises_again(statement.body[-1])
    return isinstance(statement, ast.Raise) and statement.exc is None


def works(lines: list[ast.stmt]) -> bool:
    return any(isinstance(node, WORK) for line in lines for node in ast.walk(line))


def suppressed(block: ast.With) -> set[str]:
    """The classes of Python's own that a block drops."""
    calls = [each.context_expr for each in block.items if isinstance(each.context_expr, ast.Call)]
    given = [each for call in calls if ast.unparse(call.func).endswith("suppress") for each in call.args]
    return {ast.unparse(each) for each in given} & {*dir(builtins)} - NOBODYS


def careless(file: Path) -> Iterator[str]:
    """The clauses of a file that would take what a handler raised for what they expect."""
    place = file.relative_to(PACKAGE).as_posix()
    text = file.read_text()
    for trial in ast.walk(ast.parse(text)) if "except" in text or "suppress" in text else ():
        if isinstance(trial, ast.With) and (given := suppressed(trial)) and works(trial.body):
            yield f"{place}:{trial.lineno} {sorted(given)}"
        if not isinstance(trial, ast.Try):
            continue
        for clause in trial.handlers:
            named = clause.type.elts if isinstance(clause.type, ast.Tuple) else [clause.type]
            names = {ast.unparse(each) for each in named if each is not None} or {"BaseException"}
            caught = {name for name in names & {*dir(builtins)} - NOBODYS if (place, name) not in ELSEWHERE}
            first = ast.unparse(clause.body[0])
            asked = first == f"let_through({clause.name})" or raises_again(clause.body[0])
            if works(trial.body) and caught and not asked and not raises_again(clause.body[-1]):
                yield f"{place}:{clause.lineno} {sorted(caught)}"


def test_clauses_ask_whether_they_have_caught_an_interrupt():
    files = [file for name in COMPILING for file in [PACKAGE / name, *(PACKAGE / name).rglob("*.py")]]
    assert [found for file in files if file.is_file() for found in careless(file)] == []


MADE_OF_TEXTS = {
    ("capture/emit.py", "self.code.co_filename"),  # entries: `origins.is_entry`
    ("cli/targets.py", "path"), ("cli/targets.py", "<string>"), ("compat/__main__.py", "name"),  # users'
    ("jit/codegen.py", "file"),  # in a module `weft.generated.script`
}  # fmt: skip


def named_texts(file: Path) -> Iterator[tuple[str, str]]:
    """What a file makes code of, by what it calls the file of that."""
    place = file.relative_to(PACKAGE).as_posix()
    for call in ast.walk(ast.parse(file.read_text())):
        if not isinstance(call, ast.Call):
            continue
        if isinstance(call.func, ast.Name) and call.func.id in ("exec", "eval"):
            given = call.args[0]
            if not isinstance(given, ast.Call) and ast.unparse(given) not in ("code", "_STUB"):
                yield place, "<string>"
        elif isinstance(call.func, ast.Name) and call.func.id == "compile" and len(call.args) == 3:
            yield place, ast.unparse(call.args[1])


def test_code_that_is_made_has_a_file_of_ours():
    """By which its lines are known: what strikes there is no failure of theirs."""
    files = [file for file in PACKAGE.rglob("*.py") if "torch_internals" not in file.parts]
    found = {each for file in files for each in named_texts(file)}
    assert len(found) > 10
    odd = {each for each in found if not re.match(r"f?['\"](<weft|\{GRAPH\})", each[1])}
    assert odd == MADE_OF_TEXTS


@pytest.mark.parametrize(
    ("kind", "expected"),
    [(asyncio.CancelledError, True), (SystemExit, True), (Own, True), (partial(OSError, "why"), False)],
)
def test_what_stops_a_task_is_an_interrupt_without_a_handler(kind, expected):
    ended = (each for each in ())
    list(ended)
    space = {"stop": ended.throw, "error": kind()}
    exec(compile("def inner(): stop(error)", str(PACKAGE / "made.py"), "exec"), space)
    try:
        space["inner"]()
    except BaseException as error:
        assert is_interrupt(error) is expected
    else:
        pytest.fail("not raised")


@pytest.mark.parametrize(
    "module, file, expected",
    [
        ("llvmlite.binding.ffi", "ffi.py", True),
        ("contextlib", "contextlib.py", True),
        ("users", "<weft add>", True),
        ("users", "weft-graph-of-list-1", True),
        ("users", "users.py", False),
    ],
)
@pytest.mark.parametrize("kind", [Timeout, Late, TimeoutError, ValueError, AttributeError, StopIteration])
@pytest.mark.parametrize("first", ["given", origins.ENTRY])
def test_what_another_thread_raises_is_an_interrupt(module, file, expected, kind, first):
    """As functions that end others after some time do: without a word, which C does for few classes. Entries
    bear the files of users.
    """
    text = f"def run({first}):\n    {first}()\n    for _ in range(10**6):\n        pass\n"
    space = {"__name__": module}
    exec(compile(text, file, "exec"), space)

    me = ctypes.c_ulong(threading.get_ident())
    strike = partial(ctypes.pythonapi.PyThreadState_SetAsyncExc, me, ctypes.py_object(kind))
    try:
        space["run"](strike)
        raise AssertionError("it did not strike")
    except kind as error:
        assert is_interrupt(error) == ((expected or first == origins.ENTRY) and kind is not StopIteration)


def stop_iteration(_number, _frame):
    raise StopIteration("of the handler")


@pytest.mark.parametrize(
    ("calls", "place"),
    [
        (1, "local_name"),
        (0, "enter"),
        (0, "valid_signals"),
        (0, "leave"),
        (0, "exchange"),
        (0, "_int_to_enum"),
    ],
)
def test_an_iteration_that_a_handler_ends_is_no_end(calls, place):
    """`map` takes a StopIteration that strikes in a function of Python's for its end: handlers stayed
    exchanged, and entries were made of half of their parameters.
    """

    def program(x, hint, other):
        return (x * hint + other).sin()

    x = weft.arange(3.0)
    before = signal.signal(signal.SIGUSR1, stop_iteration)
    try:
        for point in range(1, 8):
            compiled, left = weft.compile(program), [point]
            for _ in range(calls):
                compiled(x, 2.0, x)

            def profile(frame, event, _value, left=left):
                if event == "call" and frame.f_code.co_name == place:
                    left[0] -= 1
                    if not left[0]:
                        sys.setprofile(None)
                        signal.raise_signal(signal.SIGUSR1)

            sys.setprofile(profile)
            caught = None
            try:
                for _ in range(4):
                    compiled(x, 2.0, x)
            except StopIteration as error:
                caught = error
            except RuntimeError as error:
                caught = error.__cause__
            finally:
                sys.setprofile(None)
            assert (caught is None) == (left[0] > 0), point
            for _ in range(4):
                assert compiled(x, 2.0, x).tolist() == program(x, 2.0, x).tolist()
            if caught is None:
                break
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_what_generators_make_of_a_handlers_exception_is_an_interrupt():
    space = {"strike": lambda: signal.raise_signal(signal.SIGUSR1), "__name__": "weft.made"}
    exec(compile("def each():\n    strike()\n    yield 1\n", str(PACKAGE / "made.py"), "exec"), space)
    before = signal.signal(signal.SIGUSR1, stop_iteration)
    try:
        list(space["each"]())
    except RuntimeError as error:
        assert is_interrupt(error)
    else:
        pytest.fail("not raised")
    finally:
        signal.signal(signal.SIGUSR1, before)
