"""Show what becomes of a function: graphs, breaks, guards, kernels.

The function is called once, compiled, with the arguments that --args names;
these are Python, with `weft` and the names of the function's module.

  weft explain model.py:loss --args 'weft.randn(4, 8), weft.zeros(4)'
  weft explain package.module:function --guards --report report.html
"""

from __future__ import annotations

import argparse
from typing import Any

from weft.cli.run import check_writable, many, remedy, write
from weft.cli.targets import add_traceback, explained
from weft.report.facts import facts_of

GUARDS = 12


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("function", help="module:function or file.py:function")
    parser.add_argument("--args", default="", metavar="PYTHON", help="what to call it with")
    parser.add_argument("--backend", help="instead of the default one")
    parser.add_argument("--guards", action="store_true", help=f"show all guards, not the first {GUARDS}")
    parser.add_argument("--torch", action="store_true", help="let `import torch` mean Weft")
    parser.add_argument("--report", metavar="FILE", help="write a page of HTML as well")
    add_traceback(parser)


def run(options: argparse.Namespace) -> int:
    check_writable(options.report)
    output = explained(options.function, options.args, options, options.backend)
    if isinstance(output, int):
        return output
    print(text_of(output, options.guards))
    if options.report:
        write(output.seen, options.report)
    return 0


def text_of(output: Any, all_guards: bool) -> str:
    """The explanation for a terminal."""
    facts = facts_of(output.seen, timed=bool(output.programs))
    counts = {
        "graph": output.graph_count,
        "op": output.op_count,
        "break": output.graph_break_count,
        "guard": len(output.out_guards),
    }
    lines = [f"{facts['title']}: {', '.join(many(count, thing) for thing, count in counts.items())}"]
    for number, module in enumerate(output.graphs, 1):
        lines += ["", f"graph {number}", *_indented(module.print_readable(print_output=False))]
    if facts["breaks"]:
        lines += ["", "breaks"]
    for each in facts["breaks"]:
        place = f"{each['place'][0]}:{each['place'][1]}: " if each["place"] else ""
        lines += [f"  {place}{each['reason']}", *(f"    {line}" for line in remedy(each))]
    guards = [str(guard) for guard in output.out_guards]
    shown = guards if all_guards else guards[:GUARDS]
    lines += ["", "guards", *(f"  {guard}" for guard in shown)]
    if len(shown) < len(guards):
        lines.append(f"  and {len(guards) - len(shown)} more (--guards shows them)")
    for program in facts["programs"]:
        lines += ["", f"{program['title']}: what runs, in microseconds on one thread"]
        for number, step in enumerate(program["steps"]):
            time = "" if step["microseconds"] is None else f"{step['microseconds']:9.2f}"
            places = ", ".join(f"{file}:{line}" for file, line in step["places"])
            lines.append(f"  {number:3} {time}  {step['ops']}  [{step['kind']}]  {places}".rstrip())
    return "\n".join(lines)


def _indented(text: str) -> list[str]:
    return [f"  {line}".rstrip() for line in text.strip().splitlines()]
