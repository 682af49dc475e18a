"""Write a page about what a program or a function becomes when compiled.

The page shows source beside graph beside kernels, times, memory, breaks and
guards; it is one file, needs no network, and is made by running the program,
or by calling the function with --args. Options may stand before it or behind
it; what the program shall get of the same name stands behind `--`.

  weft report train.py -o page.html
  weft report train.py --epochs 3 -- -o model.pt
  weft report -o step.html model.py:step --args 'weft.randn(4, 8)'
"""

from __future__ import annotations

import argparse
import itertools
import os

from weft.cli.errors import CommandError
from weft.cli.run import check_writable, observed, write
from weft.cli.targets import add_program_arguments, add_traceback, explained

VALUED = ("-o", "--output", "--args")
FLAGS = ("--torch", "--traceback")


def add_options(parser: argparse.ArgumentParser) -> None:
    """What may stand before the target and behind it: `VALUED` with a value, and `FLAGS`."""
    parser.add_argument(
        "-o", "--output", default="report.html", metavar="FILE", help="where to (default: %(default)s)"
    )
    parser.add_argument("--torch", action="store_true", help="let `import torch` mean Weft")
    parser.add_argument("--args", default="", metavar="PYTHON", help="what to call the function with")
    add_traceback(parser)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_options(parser)
    parser.add_argument("target", help="script.py, module:function or file.py:function")
    add_program_arguments(parser)


def take_options_behind(options: argparse.Namespace) -> None:
    """Takes the command's own options from the words behind the target; the rest is the program's, and so is
    all behind `--`. Words are taken as a whole: `-out` is no `-o`.
    """
    words, own, left = iter(options.arguments), [], []
    for word in words:
        if word == "--":
            left += words
        elif word in FLAGS or word.partition("=")[0] in VALUED[1:] and "=" in word:
            own.append(word)
        elif word in VALUED:
            own += [word, *itertools.islice(words, 1)]
        else:
            left.append(word)
    parser = argparse.ArgumentParser(prog=options.parser.prog, usage=options.parser.format_usage()[7:])
    add_options(parser)
    parser.parse_args(own, options)
    options.arguments = left


def run(options: argparse.Namespace) -> int:
    take_options_behind(options)
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
    if options.arguments:
        raise CommandError(f"{options.target} is a function: what it is called with is given by --args")
    output = explained(options.target, options.args, options)
    if isinstance(output, int):
        return output
    write(output.seen, options.output)
    return 0
