"""`python -m tests.whole.fuzz --count 20000 --seed 1 --jobs 2`: a campaign, with a report of what failed.

Takes the range of seeds and how to run; prints the failures by cause, shrunk, as tests to keep.
`--show SEED` prints a program; `--check FILE` compares one program from a file. Compiling is nearly all of
the time, so code is made at the quick level (`--tiers full` for the other; it gives the same bits), and none
is kept on disk for programs that will not come again, unless `WEFT_CACHE` says so.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path

# One thread per process: the processes fill the cores, and forking needs a process without other threads.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def main() -> int:
    # after the line above, which must precede NumPy
    from tests.whole.fuzz import campaign, compare, threads
    from weft.core.settings import settings

    parser = argparse.ArgumentParser(prog="python -m tests.whole.fuzz", description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1, help="the first of the programs")
    parser.add_argument(
        "--family",
        default="python",
        choices=sorted(campaign.FAMILIES),
        help="tape: programs that differentiate",
    )
    parser.add_argument("--backend", help="compiles all programs; else they choose one themselves")
    parser.add_argument(
        "--threads", action="store_true", help="all of it on one thread and on two, whose bits are compared"
    )
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--tiers", default="draft", choices=("auto", "draft", "full"), help="see settings")
    parser.add_argument("--compile", default="weft", choices=sorted(campaign.COMPILES))
    parser.add_argument(
        "--minutes", type=float, default=float("inf"), help="stop starting batches after this long"
    )
    parser.add_argument(
        "--per-kind", type=int, default=2, help="how many programs to shrink of each kind of failure"
    )
    parser.add_argument("--shrink-seconds", type=float, default=20.0)
    parser.add_argument("--report", type=Path, help="append the report to this file")
    parser.add_argument("--show", type=int, metavar="SEED")
    parser.add_argument("--check", type=Path, metavar="FILE")
    options = parser.parse_args()
    settings.tiers = options.tiers
    if not options.threads:  # which compile each program twice
        os.environ.setdefault("WEFT_CACHE", "0")
    program = campaign.FAMILIES[options.family]
    if options.backend:
        program = campaign.compiled_by(options.backend, program)
    with contextlib.ExitStack() as stack:
        if options.threads:
            compare.BOTH.append(2)
            stack.enter_context(threads.cut_small())
        return run(options, program)


def run(options: argparse.Namespace, program: Callable[[int], str]) -> int:
    from tests.whole.fuzz import campaign, compare

    compile_function = campaign.COMPILES[options.compile]
    if options.show is not None:
        print(program(options.show))
        return 0
    if options.check is not None:
        found = compare.compare(options.check.read_text(), compile_function)
        print(found.detail if found else "no difference")
        return found is not None
    gc.collect()
    gc.freeze()
    seeds = list(range(options.seed, options.seed + options.count))
    until = time.monotonic() + options.minutes * 60
    totals: campaign.Totals = defaultdict(Counter)
    failures = campaign.campaign(
        seeds, compile_function, options.jobs, until=until, totals=totals, program=program
    )
    print(campaign.summary(totals))
    text = campaign.report(failures, compile_function, options.per_kind, options.shrink_seconds)
    print(text)
    ran = totals["programs"]["run"]  # fewer than asked for, where time was up
    began = f"{options.family} on {sys.version.split()[0]}, {ran} programs from {options.seed}"
    print(f"{began}: {campaign.in_short(failures, totals)}")
    if options.report:
        with options.report.open("a") as file:
            file.write(text + "\n")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
