"""The command line: takes the arguments, gives the exit status.

One idea: a subcommand is a module with a docstring (its help), `add_arguments(parser)` and `run(options)`,
which gives the status; here stand only the table of them and what all share: errors without tracebacks,
interrupts and closed pipes.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import sys
from collections.abc import Sequence
from types import ModuleType

import weft.cli.bench as bench
import weft.cli.cache as cache
import weft.cli.demo as demo
import weft.cli.doctor as doctor
import weft.cli.explain as explain
import weft.cli.report as report
import weft.cli.run as run
from weft.cli.errors import CommandError
from weft.core.starting import INTERRUPTED, MESSAGE, answer_interrupts, raise_interrupts

COMMANDS: dict[str, ModuleType] = {
    "demo": demo,
    "run": run,
    "explain": explain,
    "report": report,
    "bench": bench,
    "doctor": doctor,
    "cache": cache,
}

EXIT_STATUSES = """\
exit status:
  0    done
  1    the command could not do its work; standard error says why
  2    the arguments were not understood
  130  interrupted
"""


class _Version(argparse.Action):
    """`--version`, looked up only when asked for: reading package metadata takes longer than the rest."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        _namespace: argparse.Namespace,
        _values: object,
        _option: str | None = None,
    ) -> None:
        print(f"weft {importlib.metadata.version('weft')}")
        parser.exit()


def build_parser() -> argparse.ArgumentParser:
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        prog="weft",
        description="Weft: PyTorch-shaped tensors whose autograd is compiled whole.",
        epilog=EXIT_STATUSES,
        formatter_class=layout,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command", required=True)
    for name, module in COMMANDS.items():
        description = module.__doc__ or ""
        command = commands.add_parser(
            name,
            help=description.partition("\n")[0].rstrip("."),
            description=description,
            epilog=EXIT_STATUSES,
            formatter_class=layout,
        )
        module.add_arguments(command)
        command.set_defaults(run=module.run, parser=command)
    return parser


def parsed(arguments: Sequence[str]) -> argparse.Namespace:
    """What the arguments say. None are answered with help, mistakes with the usage of their command."""
    parser = build_parser()
    if not arguments:
        parser.print_help(sys.stderr)
        parser.exit(2)
    options, unknown = parser.parse_known_args(arguments)
    if unknown:
        options.parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """The command. Interrupts before it (see `weft.core.starting`) and behind it end the process at once."""
    starting = raise_interrupts()
    try:
        options = parsed(sys.argv[1:] if arguments is None else arguments)
        status: int = options.run(options)
        sys.stdout.flush()
        return status
    except CommandError as error:
        print(f"weft: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(MESSAGE, end="", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader (`weft doctor | head -1`) has what it wanted; keep the last flush quiet too.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    finally:
        if starting:
            answer_interrupts()
