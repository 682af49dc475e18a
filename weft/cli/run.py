"""Run a program, then say what was compiled.

The program runs as with Python, in this environment. With --torch, its
`import torch` means Weft. What was compiled is summed up at the end, on
standard error.

  weft run train.py --epochs 3
  weft run --torch train_for_pytorch.py
  weft run --report report.html train.py
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any, TextIO

from weft.cli.errors import CommandError, doing
from weft.cli.targets import add_program_arguments, add_traceback, run_script
from weft.report import Observed, observe, save
from weft.report.facts import facts_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--torch", action="store_true", help="let the program's `import torch` mean Weft")
    parser.add_argument("--quiet", action="store_true", help="say nothing at the end")
    parser.add_argument("--report", metavar="FILE", help="write a page of HTML about what was compiled")
    add_traceback(parser)
    parser.add_argument("script", help="the program")
    add_program_arguments(parser)


def run(options: argparse.Namespace) -> int:
    check_writable(options.report)
    status, seen = observed(options.script, options, options.report)
    sys.stdout.flush()
    if not options.quiet and (seen.entries or status != 1):  # an error has been told: that is enough
        summarise(seen, sys.stderr)
    if options.report:
        write(seen, options.report)
    return status


def observed(script: str, options: argparse.Namespace, report: str | None) -> tuple[int, Observed]:
    """Runs a program; gives its exit status, and what was compiled."""
    with observe(os.path.basename(script)) as seen:
        try:
            status = run_script(
                script, options.arguments, torch=options.torch, show_traceback=options.traceback
            )
        except KeyboardInterrupt:
            if report and seen.entries:  # what was compiled until then is worth a look
                write(seen, report)
            raise
    return status, seen


def check_writable(path: str | None, remedy: str = "") -> None:
    """Says before all work that a file cannot be written, rather than after it."""
    if path is None:
        return
    folder = os.path.dirname(os.path.abspath(path))
    reason = None
    if not os.path.isdir(folder):
        reason = "No such directory"
    elif os.path.isdir(path):
        reason = "Is a directory"
    elif not os.access(path if os.path.exists(path) else folder, os.W_OK):
        reason = "Permission denied"
    if reason is not None:
        raise CommandError(f"cannot write {path}: {reason}" + (f". Try: {remedy}" if remedy else ""))


def write(seen: Observed, path: str) -> None:
    """Writes the report."""
    with doing(f"write {path}"):
        save(seen, path)
    print(f"weft: report written to {path}", file=sys.stderr)


def summarise(seen: Observed, file: TextIO) -> None:
    """A few lines: what was compiled, what broke, what was compiled again and why."""
    if not seen.entries:
        print("weft: nothing was compiled", file=file)
        return
    facts = facts_of(seen, timed=False)
    summary = facts["summary"]
    print(
        f"weft: {many(summary['calls compiled'], 'call')} compiled in "
        f"{summary['compile milliseconds']:,.0f} ms: "
        f"{many(summary['graphs'], 'graph')} of {many(summary['ops'], 'op')}, "
        f"{many(summary['kernels'], 'kernel')}, {many(summary['products'], 'matrix product')}, "
        f"{many(summary['breaks'], 'break')}, {many(summary['recompiles'], 'recompile')}",
        file=file,
    )
    advised: set[str] = set()
    for each in facts["breaks"][:8]:
        place = f" at {each['place'][0]}:{each['place'][1]}" if each["place"] else ""
        print(f"weft: break in {each['function']}{place}: {each['reason']}", file=file)
        if each["try"] not in advised:  # of one kind, once is enough
            advised.add(each["try"])
            for line in remedy(each):
                print(f"weft:   {line}", file=file)
    for each in facts["misses"][:8]:
        print(f"weft: {each['function']} was compiled again: {each['reasons'][0]}", file=file)


def remedy(broken: dict[str, Any]) -> list[str]:
    """Why a graph ends there and what to try, of the facts of a break."""
    return [f"{name}: {broken[name]}" for name in ("why", "try") if broken[name]]


def many(count: int, thing: str) -> str:
    return f"{count:,} {thing}{'' if count == 1 else 's'}"
