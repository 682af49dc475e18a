"""Write a page about what a program or a function becomes when compiled.

The page shows source beside graph beside kernels, times, memory, breaks and
guards; it is one file, needs no network, and is made by running the program,
or by calling the function with --args.

  weft report train.py
  weft report -o step.html model.py:step --args 'weft.randn(4, 8)'
"""

from __future__ import annotations

import argparse
import os

from weft.cli.errors import CommandError
from weft.cli.run import check_writable, observed, write
from weft.cli.targets import add_program_arguments, add_traceback, explained


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-o", "--output", default="report.html", metavar="FILE", help="where to (default: %(default)s)"
    )
    parser.add_argument("--torch", action="store_true", help="let `import torch` mean Weft")
    parser.add_argument("--args", default="", metavar="PYTHON", help="what to call the function with")
    add_traceback(parser)
    parser.add_argument("target", help="script.py, module:function or file.py:function")
    add_program_arguments(parser)


def run(options: argparse.Namespace) -> int:
    check_writable(options.output, "-o FILE")
    if ":" in options.target and not os.path.exists(options.target):
        return _function(options)
    status, seen = observed(options.target, options, options.output)
    if not seen.entries and status == 1:
        return status  # an error has been told
    if not seen.entries:
        raise CommandError(f"{options.target} compiled nothing, so there is nothing to report")
    write(seen, options.output)
    return status


def _function(options: argparse.Namespace) -> int:
    if options.arguments[:1] == ["--args"] and len(options.arguments) == 2:  # it may stand behind the name
        options.args = options.arguments.pop()
        options.arguments.clear()
    if options.arguments:
        raise CommandError(f"{options.target} is a function: what it is called with is given by --args")
    output = explained(options.target, options.args, options)
    if isinstance(output, int):
        return output
    write(output.seen, options.output)
    return 0
