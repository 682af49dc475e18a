"""Many programs, in processes of their own, and a report of the failures by cause.

Takes a range of seeds and a compile function's name; gives Failures and the report's text. One idea: a
batch of programs runs in a forked process that says which program it is at, so a crash or a hang of
compiled code is a failure of that program and no more.
"""

from __future__ import annotations

import json
import os
import re
import selectors
import signal
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import weft
from tests.whole.fuzz import generator, native_programs, tape_programs, varying_programs
from tests.whole.fuzz.compare import Compile, Difference, TooLong, compare, compiled, identity
from tests.whole.fuzz.mutants import MUTANTS
from tests.whole.fuzz.shrink import shrink
from tests.whole.fuzz.snapshot import reachable

BATCH = 100
SILENCE = 60.0
"""Seconds without a word after which a process is taken to hang."""

Totals = defaultdict[str, Counter[str]]

OPTIONS = re.compile(r"^OPTIONS = \{'backend': '\w+'", re.MULTILINE)
EXACT = re.compile(r"^OPTIONS = \{'backend': 'eager'", re.MULTILINE)


def compiled_by(backend: str, program: Callable[[int], str]) -> Callable[[int], str]:
    """The same programs, each compiled by this backend."""

    def made(seed: int) -> str:
        text = program(seed)
        chosen = f"OPTIONS = {{'backend': '{backend}'"
        return OPTIONS.sub(chosen, text) if OPTIONS.search(text) else f"{chosen}}}\n{text}"

    return made


FAMILIES: dict[str, Callable[[int], str]] = {
    "python": generator.program,
    "tape": tape_programs.program,
    "native": native_programs.program,
    "varying": varying_programs.program,
}
Program = Callable[[int], str]
COMPILES: dict[str, Compile] = {"weft": compiled, "identity": identity, **MUTANTS}


@dataclass
class Failure:
    """A program that differs when compiled."""

    seed: int
    kind: str
    detail: str
    source: str
    size: int = field(init=False)

    def __post_init__(self) -> None:
        self.size = len(self.source)


@dataclass
class Batch:
    """A process at work on `seeds`; `at` is the one it said it was starting."""

    process: int
    pipe: int
    seeds: list[int]
    at: int | None = None
    heard: float = 0.0
    unread: bytes = b""


def difference_of(source: str, compile_function: Compile, seconds: float = 10.0) -> Difference | None:
    """As `compare`; a program that is at fault itself is no difference: it does not end, or its numbers
    depend on their last bits (steps of Adam do, where a gradient is nothing but rounding), so that they agree
    when there are more of these, or eager's own numbers are others when those of the arguments are.
    """
    try:
        found = compare(source, compile_function, seconds)
        if found is not None and found.kind.endswith("numbers") and "threads" not in found.kind:
            wide = widened(source)
            if compare(wide, compile_function, seconds) is None or depends_on_last_bits(wide, seconds):
                weft.compiler.counters["rounding"][found.kind] += 1
                return None
        return found
    except TooLong:
        weft.compiler.counters["unfinished"]["as it is"] += 1
        return None


def widened(source: str) -> str:
    """The same program with numbers of 64 bits."""
    begin = "weft.manual_seed(0)\n"
    wide = re.sub(r"weft\.b?float(16|32)", "weft.float64", source)
    wide = re.sub(r"\.(half|bfloat16)\(\)", ".double()", wide)
    return wide.replace(begin, f"{begin}weft.set_default_dtype(weft.float64)\n", 1)


def depends_on_last_bits(source: str, seconds: float) -> bool:
    """Whether eager's numbers are others, by more than a backend's may be, once each number of the arguments
    is the next one up or down. What normalises rounding (`normalize(p - q)`, where the two are equal but for
    the order of their sums) has no right answer, however many bits there are.
    """
    if EXACT.search(source) or not OPTIONS.search(source):
        return False  # where numbers must be equal by their bits
    found = compare(source, shaken, seconds)
    return found is not None and found.kind.endswith("numbers")


def shaken(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, of arguments whose last bits are others."""
    chance = np.random.default_rng(0)

    def run(*args: Any, **kwargs: Any) -> Any:
        for value in reachable([*args, *kwargs.values()]):
            if isinstance(value, weft.Tensor) and value.is_floating_point():
                array = value.detach().numpy()
                if array.dtype.kind == "f" and array.flags.writeable:
                    array[...] = np.nextafter(
                        array, np.where(chance.random(array.shape) < 0.5, -np.inf, np.inf)
                    )
        return function(*args, **kwargs)

    return run


def work(seeds: list[int], compile_function: Compile, pipe: int, program: Program) -> None:
    """The forked process: says each seed as it starts, and each failure."""
    for seed in seeds:
        os.write(pipe, f"{seed}\n".encode())
        source = program(seed)
        try:
            found = difference_of(source, compile_function)
        except BaseException as error:  # compiling may raise anything, even before the first call
            found = Difference(f"compile raised {type(error).__name__}", str(error)[:500])
        if found is not None:
            os.write(pipe, (json.dumps([seed, found.kind, found.detail]) + "\n").encode())
    totals = {group: dict(counts) for group, counts in weft.compiler.counters.items()}
    os.write(pipe, (json.dumps(totals) + "\ndone\n").encode())


def start(seeds: list[int], compile_function: Compile, program: Program) -> Batch:
    reading, writing = os.pipe()
    sys.stdout.flush()
    process = os.fork()
    if process == 0:
        os.close(reading)
        try:
            work(seeds, compile_function, writing, program)
        finally:
            os._exit(0)
    os.close(writing)
    return Batch(process, reading, seeds, heard=time.monotonic())


def hear(batch: Batch) -> Iterator[str]:
    """The lines a process has said since; nothing more when it has ended."""
    batch.heard = time.monotonic()
    batch.unread += os.read(batch.pipe, 1 << 16)
    *lines, batch.unread = batch.unread.split(b"\n")
    for line in lines:
        yield line.decode()


def campaign(
    seeds: list[int],
    compile_function: Compile,
    jobs: int = 1,
    tell: Callable[[str], None] = print,
    until: float = float("inf"),
    totals: Totals | None = None,
    program: Program = generator.program,
) -> list[Failure]:
    """Every program of `seeds`, `jobs` processes at a time; the failures in order of their seeds.

    `program` makes the text of a seed (one of FAMILIES); `totals` gathers the compiler's counters over all
    processes.
    """
    totals = defaultdict(Counter) if totals is None else totals
    waiting = [seeds[index : index + BATCH] for index in range(0, len(seeds), BATCH)][::-1]
    failures: list[Failure] = []
    running: dict[int, Batch] = {}
    selector = selectors.DefaultSelector()
    began, finished = time.monotonic(), 0
    while waiting or running:
        while waiting and len(running) < jobs and time.monotonic() < until:
            batch = start(waiting.pop(), compile_function, program)
            running[batch.pipe] = batch
            selector.register(batch.pipe, selectors.EVENT_READ)
        if not running:
            break
        ready = {key.fd for key, _ in selector.select(timeout=5.0)}
        for batch in list(running.values()):
            if batch.pipe in ready:
                lines = list(hear(batch))
            elif time.monotonic() - batch.heard > SILENCE:
                os.kill(batch.process, signal.SIGKILL)
                lines = []
            else:
                continue
            listen(batch, lines, failures, totals, program)
            if not lines or lines[-1] == "done":
                selector.unregister(batch.pipe)
                del running[batch.pipe]
                left = end(batch, lines, failures, program)
                finished += len(batch.seeds) - len(left)
                totals["programs"]["run"] = finished
                if left:
                    waiting.append(left)
                rate = finished / (time.monotonic() - began)
                tell(f"{finished} programs, {len(failures)} failures, {rate:.1f} programs/s")
                sys.stdout.flush()
    return sorted(failures, key=lambda failure: failure.seed)


def listen(batch: Batch, lines: list[str], failures: list[Failure], totals: Totals, program: Program) -> None:
    for line in lines:
        if line.startswith("{"):
            for group, counts in json.loads(line).items():
                totals[group].update(counts)
            continue
        if line.startswith("["):
            seed, kind, detail = json.loads(line)
            failures.append(Failure(seed, kind, detail, program(seed)))
        elif line != "done":
            batch.at = int(line)


def end(batch: Batch, lines: list[str], failures: list[Failure], program: Program) -> list[int]:
    """Sees a process off; gives the seeds that it did not come to."""
    os.close(batch.pipe)
    _, status = os.waitpid(batch.process, 0)
    if lines and lines[-1] == "done":
        return []
    at = batch.seeds[0] if batch.at is None else batch.at
    name = signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else f"exit {status}"
    kind = "hang" if name == "SIGKILL" else f"crash: {name}"
    failures.append(Failure(at, kind, f"the process ended with {name}", program(at)))
    return batch.seeds[batch.seeds.index(at) + 1 :]


# -- shrinking ---------------------------------------------------------------------
def kind_apart(source: str, compile_function: Compile, seconds: float) -> str | None:
    """The kind of a program's failure, found in a process of its own; None when it does not fail."""
    reading, writing = os.pipe()
    process = os.fork()
    if process == 0:
        try:
            try:
                found = difference_of(source, compile_function, seconds)
                kind = found.kind if found else ""
            except BaseException as error:
                kind = f"compile raised {type(error).__name__}" if "def main" in source else ""
            os.write(writing, b"!" + kind.encode())
        finally:
            os._exit(0)
    os.close(writing)
    selector = selectors.DefaultSelector()
    selector.register(reading, selectors.EVENT_READ)
    if not selector.select(timeout=seconds * 2 + 2):
        os.kill(process, signal.SIGKILL)
    answer = b""
    while chunk := os.read(reading, 4096):
        answer += chunk
    os.close(reading)
    _, status = os.waitpid(process, 0)
    if answer.startswith(b"!"):
        return answer[1:].decode() or None
    if os.WIFSIGNALED(status):
        name = signal.Signals(os.WTERMSIG(status)).name
        return "hang" if name == "SIGKILL" else f"crash: {name}"
    return None


def summary(totals: Totals) -> str:
    """What the compiler did in a campaign: a run that captured nothing would find nothing either."""
    lines = []
    for group in ("frames", "stats", "fallbacks", "graph_break", "recompiles", "rounding", "unfinished"):
        counts = totals.get(group, Counter())
        listed = ", ".join(
            f"{name.splitlines()[0][:70] if name else name}: {number}"
            for name, number in counts.most_common(12)
        )
        lines.append(f"{group}: {sum(counts.values())} ({listed})")
    return "\n".join(lines)


def broad(kind: str) -> str:
    """A kind without what may change while shrinking: line numbers."""
    return re.sub(r"(?<=[: ])\d+", "", kind)


def shrink_failure(failure: Failure, compile_function: Compile, seconds: float = 20.0) -> Failure:
    """The same failure from a smaller program."""
    wanted = broad(failure.kind)

    def fails(text: str) -> bool:
        kind = kind_apart(text, compile_function, 2.0)
        return kind is not None and broad(kind) == wanted

    small = shrink(failure.source, fails, seconds)
    detail = failure.detail
    if not failure.kind.startswith(("crash", "hang", "compile raised")):
        found = difference_of(small, compile_function)
        detail = found.detail if found else f"{detail} (does not fail a second time in one process)"
    return Failure(failure.seed, failure.kind, detail, small)


def by_cause(failures: list[Failure]) -> dict[str, list[Failure]]:
    """Failures grouped by kind, the most frequent first, the smallest program of each first."""
    groups: dict[str, list[Failure]] = defaultdict(list)
    for failure in failures:
        groups[broad(failure.kind)].append(failure)
    for group in groups.values():
        group.sort(key=lambda failure: failure.size)
    return dict(sorted(groups.items(), key=lambda item: -len(item[1])))


def in_short(failures: list[Failure], totals: Totals) -> str:
    """The failures in one line: kinds with their seeds."""
    kinds = [
        f"{kind} ({', '.join(str(each.seed) for each in sorted(group, key=lambda each: each.seed))})"
        for kind, group in by_cause(failures).items()
    ]
    unfinished = sum(totals.get("unfinished", Counter()).values())
    counts = f"{len(failures)} differ, {unfinished} did not end in time"
    return f"{counts}: {'; '.join(kinds)}" if kinds else counts


def regression_test(failure: Failure) -> str:
    """A test to paste: the shrunk program must agree."""
    word = re.sub(r"\W+", "_", failure.kind.split(":")[0]).strip("_")
    body = failure.source.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    return f'def test_{word}_{failure.seed}():\n    agree("""\\\n{body}""")\n'


def report(failures: list[Failure], compile_function: Compile, per_kind: int, seconds: float) -> str:
    """The failures by cause, with a few shrunk programs of each."""
    parts = []
    for kind, group in by_cause(failures).items():
        seeds = ", ".join(
            str(failure.seed) for failure in sorted(group, key=lambda failure: failure.seed)[:12]
        )
        parts.append(f"## {kind}: {len(group)} programs\nseeds {seeds}\n")
        shown: set[str] = set()
        for failure in group[:per_kind]:
            small = shrink_failure(failure, compile_function, seconds)
            if small.source in shown:
                continue
            shown.add(small.source)
            parts.append(f"{small.detail}\n```python\n{regression_test(small)}```\n")
    return "\n".join(parts)
