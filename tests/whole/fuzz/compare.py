"""A program run as it is and run compiled, from the same beginnings, with everything seen compared.

Takes source text (see generator.py) and a compile function; gives the first Difference, or None. One
idea: each side executes the module anew and is reduced to plain observations, so nothing of one side can
leak into the other.
"""

from __future__ import annotations

import contextlib
import gc
import io
import random
import re
import signal
import sys
import traceback
import types
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import weft
from tests.whole.fuzz.snapshot import Numbers, Snapshot, bits, difference, reachable
from tests.whole.fuzz.threads import forget, threads, were_asked_for
from weft.autograd.tasks import reachable as tape_behind
from weft.capture.gradients import is_freed
from weft.core import varying
from weft.core.settings import settings
from weft.ops.sweep import LEAF_SEQUENCE

Compile = Callable[[Callable[..., Any]], Callable[..., Any]]
FILE = "<fuzzed program>"
MODULE = "fuzzed_program"
SECONDS = 10
TOLERANCE = 2e-5
"""For programs whose backend adds gradients in an order of its own; see Note [Tolerance] in snapshot.py."""
SECTIONS = ("outcome", "stdout", "arguments", "globals", "earlier results", "modes", "afterwards", "after")
AFTER_SECTIONS = ("outcome", "stdout", "arguments", "globals", "results", "modes")

TRANSFORMS = "__transforms__"
"""Where a module says whether it uses function transforms."""
BOTH: list[int] = []
"""On how many threads each program runs besides, if any: all that is seen is the same then, bit by bit."""
SPENT = ("Trying to backward through the graph a second time", "one of the variables needed for gradient")
FACTS = frozenset({"version", "strides", "storage", "float32"})


class Spent(BaseException):
    """A sweep that ran into a tape that was spent or stale: which gradients and hooks it had come to is left
    open, and so is which error it came to first (see Ending).

    It is the last thing that is seen of a program.
    """


class Ending(tuple[Any, ...]):
    """The outcome of a sweep that raised. A compiled graph has one node for many of eager's, so of two errors
    that lie behind a tensor it may come to the other one first. That is told from errors that eager has not:
    a compiled sweep may only say that the tape is spent or stale, and eager's must say so too, or have had
    freed nodes behind the results before it began.
    """

    unusable: bool
    """Whether it says that the tape is spent or stale."""
    freed: bool
    """Whether some of the tape was freed before."""

    def __eq__(self, other: object) -> bool:
        if tuple.__eq__(self, other) is True or not isinstance(other, Ending) or Numbers.exact:
            return tuple.__eq__(self, other) is True
        return other.unusable and (self.unusable or self.freed)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # type: ignore[assignment]


def ending(outcome: tuple[Any, ...], error: BaseException, freed: bool) -> Ending:
    made = Ending(outcome)
    made.unusable, made.freed = str(error).startswith(SPENT), freed
    return made


def has_freed(result: Any) -> bool:
    """Whether a sweep has freed nodes behind tensors of a result."""
    tensors = [value for value in reachable(result) if isinstance(value, weft.Tensor)]
    roots = [tensor.node for tensor in tensors if tensor.tracked and tensor.node is not None]
    return any(node._seq != LEAF_SEQUENCE and is_freed(node) for node in tape_behind(roots))


class TooLong(BaseException):
    """A program that does not end in time."""


@dataclass(frozen=True)
class Difference:
    """Where the two sides part: `kind` groups failures of one cause, `detail` is for people."""

    kind: str
    detail: str
    call: int = 0


@dataclass
class Run:
    """What one side was seen to do: a tuple of sections for each call, then what came after the last."""

    calls: list[tuple[Any, ...]]
    internal: dict[int, str]
    """By call, where in our own code an error came from that the program did not ask for."""
    tape: bool = False


def identity(function: Callable[..., Any]) -> Callable[..., Any]:
    return function


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """What a campaign tests: the library's own compile, every fallback an error."""
    options = {"backend": "eager"} | function.__globals__.get("OPTIONS", {})
    return weft.compile(function, **options)  # type: ignore[no-any-return]


def innermost_line(error: BaseException) -> int | None:
    """The line of the program where `error` was raised: the last of its frames that is the program's own."""
    line = None
    for frame, number in traceback.walk_tb(error.__traceback__):
        if frame.f_code.co_filename == FILE:
            line = number
    return line


def internal_error(error: BaseException) -> str:
    """Where in the compiler an error comes from and what it says, following its causes."""
    first = error
    while first.__cause__ is not None:
        first = first.__cause__
    place = ""
    for frame, number in traceback.walk_tb(first.__traceback__):
        file = frame.f_code.co_filename
        if any(
            part in file
            for part in ("/weft/capture/", "/weft/trace/", "/weft/compiler", "/weft/graph/", "/weft/aot/")
        ):
            place = f"{file[file.rindex('/weft/') + 1 :]}:{frame.f_code.co_name}:{number}"
    return f"{type(first).__name__} at {place}: {first}" if place else ""


def execute(code: types.CodeType, compile_function: Compile) -> Run:
    """One side: the module from its beginning, then each call and what can be seen after it.

    The collector of cycles is off: what it finalises, and when, would depend on everything that ran before.
    """
    module = types.ModuleType(MODULE)
    sys.modules[MODULE] = module
    names = module.__dict__
    names[TRANSFORMS] = uses_transforms(code)
    run = Run([], {})
    results: list[Any] = []
    output = io.StringIO()
    random.seed(0)
    weft.manual_seed(0)
    collecting = gc.isenabled()
    gc.disable()
    try:
        with contextlib.redirect_stdout(output), weft.enable_grad(), warned(output):
            if not begin(code, names, run):
                return run
            run.tape = "after" in names
            names["run"] = function = compile_function(names["main"])
            for args, kwargs in calls(names, run):
                if type(args) is not tuple or type(kwargs) is not dict:
                    raise TypeError("arguments() must yield pairs of a tuple and a dict")
                restart(output)
                try:
                    observe(run, names, function, args, kwargs, results, output)
                except Spent:
                    return run
            restart(output)
            if "after" not in names:
                snapshot = snapshot_for(names)
                seen = afterwards(results, snapshot), snapshot.words(output.getvalue())
                run.calls.append(("", "", "", "", "", "", seen))
    finally:
        weft.set_default_dtype(weft.float32)
        sys.modules.pop(MODULE, None)
        if collecting:
            gc.enable()
    return run


def uses_transforms(code: types.CodeType) -> bool:
    """Whether a module reads `weft.func` anywhere."""
    inner = [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return "func" in code.co_names or any(map(uses_transforms, inner))


def begin(code: types.CodeType, names: dict[str, Any], run: Run) -> bool:
    """The module's own lines; where they raise there is no more to see."""
    try:
        exec(code, names)
    except Exception as error:
        run.calls.append((("no module", type(error).__name__), "", "", "", "", "", "", ""))
        return False
    return True


@contextlib.contextmanager
def warned(output: io.StringIO) -> Iterator[None]:
    """Writes the program's warnings to its output, with their lines."""

    def show(message: Any, category: type[Warning], file: str, line: int, *rest: Any) -> None:
        place = line if file == FILE else "some other place"
        output.write(f"{category.__name__}: {message} at {place}\n")

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show
        yield


def restart(output: io.StringIO) -> None:
    output.seek(0)
    output.truncate()


def calls(names: dict[str, Any], run: Run) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """What `arguments` yields; where it raises, that is the last thing seen."""
    try:
        yield from names["arguments"]()
    except Exception as error:
        run.calls.append((("no call", type(error).__name__), "", "", "", "", "", "", ""))


def observe(
    run: Run,
    names: dict[str, Any],
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    results: list[Any],
    output: io.StringIO,
) -> None:
    """One call, and a snapshot of all that it could have changed; then the program's `after`, if any."""
    tape = "after" in names
    snapshot = snapshot_for(names)
    returned = False
    try:
        result = function(*args, **kwargs)
    except TooLong:
        raise
    except BaseException as error:
        outcome: Any = ("raised", snapshot.see(error), f"line {innermost_line(error)}")
        place = internal_error(error)
        if place:
            run.internal[len(run.calls)] = place
        if tape and str(error).startswith(SPENT):
            outcome = ending(outcome, error, False)
            run.calls.append((outcome, *[""] * (len(SECTIONS) - 1)))
            raise Spent from error
    else:
        outcome = ("returned", snapshot.see(result))
        results.append(result)
        returned = True
    seen = (
        outcome,
        snapshot.words(output.getvalue()),
        (snapshot.each(args), snapshot.pairs(kwargs)),
        module_state(names, snapshot),
        snapshot.each(results),
        modes(tape),
        "",
    )
    try:
        run.calls.append((*seen, use(names, result, args, results, output) if tape and returned else ""))
    except Spent as spent:
        run.calls.append((*seen, spent.args[0]))
        raise
    if tape:
        results.extend(grad for grad in gradients(args, names) if not any(grad is held for held in results))


def snapshot_for(names: dict[str, Any]) -> Snapshot:
    """Programs that differentiate (they have `after`) are looked at more closely."""
    exact = names.get("OPTIONS", {}).get("backend", "eager") == "eager" and not names[TRANSFORMS]
    snapshot = Snapshot(MODULE, "after" in names, 0.0 if exact else TOLERANCE)
    for optimizer in [value for value in names.values() if isinstance(value, weft.optim.Optimizer)]:
        snapshot.optimized |= {id(leaf) for group in optimizer.param_groups for leaf in group["params"]}
    return snapshot


def modes(tape: bool) -> str:
    state = "" if not tape else f" {hash(weft.get_rng_state().numpy().tobytes())} {random.getstate()[1][:3]}"
    return f"{weft.is_grad_enabled()}{state}"


def gradients(args: tuple[Any, ...], names: dict[str, Any]) -> Iterator[Any]:
    """What leaves hold in `.grad`, to be held from now on: whether it stays the same object is seen."""
    modules = [value for value in names.values() if isinstance(value, weft.nn.Module)]
    for value in (*args, *names.values(), *(leaf for module in modules for leaf in module.parameters())):
        if isinstance(value, weft.Tensor) and value.is_leaf and value.grad is not None:
            yield value.grad


def use(
    names: dict[str, Any], result: Any, args: tuple[Any, ...], results: list[Any], output: io.StringIO
) -> tuple[Any, ...]:
    """The program's `after` on a result, uncompiled, and everything that it could have changed."""
    restart(output)
    snapshot = snapshot_for(names)
    snapshot.swept = True
    freed = has_freed(result)
    try:
        outcome: Any = ("returned", snapshot.see(names["after"](result, *args)))
    except TooLong:
        raise
    except Exception as error:
        outcome = ending(("raised", snapshot.see(error)), error, freed)
        if outcome.unusable or freed:
            raise Spent((outcome, *[""] * (len(AFTER_SECTIONS) - 1))) from error
    return (
        outcome,
        snapshot.words(output.getvalue()),
        snapshot.each(args),
        module_state(names, snapshot),
        snapshot.each(results),
        modes(True),
    )


def module_state(names: dict[str, Any], snapshot: Snapshot) -> tuple[Any, ...]:
    return tuple(
        (name, snapshot.see(value))
        for name, value in names.items()
        if not name.startswith("__") and name != "run" and not isinstance(value, types.ModuleType)
    )


def afterwards(results: list[Any], snapshot: Snapshot) -> tuple[Any, ...]:
    """Results put to use: iterators are drawn from, functions called, gradients taken."""
    seen = []
    differentiated = 0
    used: set[int] = set()
    for value in [found for result in results for found in reachable(result)]:
        if id(value) in used:
            continue
        used.add(id(value))
        try:
            if isinstance(value, Iterator):
                seen.append(snapshot.see(list(islice(value, 5))))
            elif isinstance(value, types.FunctionType) and value.__module__ == MODULE:
                takes_tensor = "".join(value.__code__.co_varnames[:1]).startswith("v")
                seen.append(snapshot.see(value(weft.ones(3) if takes_tensor else 1)))
            elif (
                isinstance(value, weft.Tensor)
                and value.requires_grad
                and not value.is_leaf
                and differentiated < 3
            ):
                differentiated += 1
                value.sum().backward(retain_graph=True)
        except TooLong:
            raise
        except Exception as error:
            seen.append(("raised", snapshot.see(error)))
    return (tuple(seen), snapshot.each(results))


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raises TooLong in the main thread after `seconds` of work, however busy the machine is. (What waits for
    ever is told by its silence, see campaign.py.)
    """

    def stop(signum: int, frame: object) -> None:
        raise TooLong

    previous = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, previous)


def compare(source: str, compile_function: Compile = compiled, seconds: float = SECONDS) -> Difference | None:
    """The first difference between `source` run as it is and run with its `main` compiled."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)  # random text says `1 is None`
        warnings.simplefilter("ignore", RuntimeWarning)  # and makes coroutines that nobody awaits
        code = compile(source, FILE, "exec", dont_inherit=True)
        with time_limit(seconds):
            expected = execute(code, identity)
        try:
            if BOTH:
                forget()
            with time_limit(seconds), strictly(), threads(1) if BOTH else contextlib.nullcontext():
                actual = execute(code, compile_function)
            found = first_difference(expected, actual)
            for number in BOTH if found is None and were_asked_for() else ():
                with time_limit(seconds), strictly(), threads(number):
                    again = execute(code, compile_function)
                with bits():
                    found = first_difference(actual, again)
                if found is not None:
                    found = Difference(f"{number} threads: {found.kind}", found.detail, found.call)
        except TooLong:
            return Difference("too long", f"the compiled side ran for {seconds} s")
    return found


@contextlib.contextmanager
def strictly() -> Iterator[None]:
    """Every fallback an error, compiling as often as a program asks for, nothing kept for the next one."""
    before = settings.strict, settings.recompile_limit, varying.LOUD
    settings.strict, settings.recompile_limit, varying.LOUD = True, 100, 100
    try:
        yield
    finally:
        settings.strict, settings.recompile_limit, varying.LOUD = before
        weft.compiler.reset()


def first_difference(expected: Run, actual: Run) -> Difference | None:
    for number, (left, right) in enumerate(zip(expected.calls, actual.calls)):
        if left == right:
            continue
        for section, one, other in zip(SECTIONS, left, right):
            if one == other:
                continue
            detail = f"call {number}, {section}{difference(one, other)}"
            kind = section
            if section == "after":
                part = first_part(one, other)
                kind = f"after: {AFTER_SECTIONS[part]}: {fact(one[part], other[part])}"
                if part == 0:
                    kind, detail = outcome_kind(one[0], other[0], detail, "")
                    kind = f"after: {kind if kind != 'result' else 'result: ' + fact(one[0], other[0])}"
            elif expected.tape:
                kind = f"{section}: {fact(one, other)}"
            if section == "outcome":
                kind, detail = outcome_kind(one, other, detail, actual.internal.get(number, ""))
                kind = f"result: {fact(one, other)}" if expected.tape and kind == "result" else kind
            return Difference(kind, detail, number)
    if len(expected.calls) != len(actual.calls):
        return Difference("calls", f"{len(expected.calls)} calls expected, {len(actual.calls)} made")
    return None


def first_part(one: Any, other: Any) -> int:
    return next((index for index, (left, right) in enumerate(zip(one, other)) if left != right), 0)


def fact(one: Any, other: Any) -> str:
    """A word for the first thing in which two snapshots differ."""
    while isinstance(one, tuple) and isinstance(other, tuple):
        if len(one) != len(other) or not one:
            return "count"
        part = first_part(one, other)
        one, other = one[part], other[part]
    if isinstance(one, Numbers) and isinstance(other, Numbers):
        return "numbers"
    if not isinstance(one, str) or not isinstance(other, str):
        return "presence"
    words = [left for left, right in zip(one.split(), other.split()) if left != right]
    if words and one.split()[0] in FACTS:
        return one.split()[0]
    if words and "=" in words[0]:
        return words[0].partition("=")[0]
    return "identity" if one.startswith("#") or other.startswith("#") else "text"


def beginning(error: Any) -> str:
    """The first words of what an error says: errors that say something else have another cause."""
    text = error[2][0] if error[2] and isinstance(error[2], tuple) else ""
    return f" {' '.join(re.sub(r'[^A-Za-z ]', ' ', text).split()[:5])}" if isinstance(text, str) else ""


def outcome_kind(expected: Any, actual: Any, detail: str, internal: str) -> tuple[str, str]:
    """A name for what is wrong with an outcome; errors of our own are told by the place they come from."""
    if internal and actual[0] == "raised" and (expected[0] != "raised" or expected[1][1] != actual[1][1]):
        kind = (
            re.sub(r"\d+", "N", internal.split(": ")[0])
            + " "
            + re.sub(r"[\d'\"].*", "", internal.partition(": ")[2])[:60]
        )
        return f"internal error: {kind}", f"{detail}\n{internal}"
    if expected[0] != actual[0]:
        verb = "lost" if expected[0] == "raised" else "made up"
        error = (expected if verb == "lost" else actual)[1]
        return f"exception {verb}: {error[1]}{beginning(error)}", detail
    if expected[0] == "raised":
        if expected[1] == actual[1]:
            return "exception's line", detail
        same_class = expected[1][1] == actual[1][1]
        if same_class:
            return f"exception's facts{beginning(actual[1])} for{beginning(expected[1])}", detail
        return f"exception's class: {actual[1][1]} for {expected[1][1]}", detail
    return "result", detail


def agree(source: str, compile_function: Compile = compiled) -> None:
    """Asserts that `source` does the same compiled: what a kept failure calls."""
    found = compare(source, compile_function)
    assert found is None, f"{found.kind}: {found.detail}\n{source}"
