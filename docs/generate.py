"""The generated pages: `python docs/generate.py` writes them anew, `--check` says whether they are current.

Ops come from their records, settings and log topics from the code that reads them: there is no second list.
"""

from __future__ import annotations

import inspect
import re
import sys
from dataclasses import fields
from pathlib import Path

import weft
from weft.core import logs
from weft.core.settings import Settings
from weft.native.lower import lowering as lower
from weft.ops.descriptions import DESCRIPTIONS
from weft.ops.record import REGISTRY, Kind

HERE = Path(__file__).resolve().parent
OPS_HEAD = """\
From the records in `weft/ops`. *Grad*: it has a gradient rule (through which gradients of any order go).
*Kernel*: how it is compiled: `body`, a scalar body that is fused with its neighbours; `rule`, a
lowering of its own; where the cell is empty, its array kernel is called. *parts*: the op is made of others,
so gradients and kernels are theirs."""
VARIABLES = {
    "WEFT_LOGS": "topics that are logged on standard error, with commas between: see below",
    "WEFT_DEBUG": "`step`: compiled code runs op by op, and prints each op with your line",
    "WEFT_NAN_TRACE": "`1`: compiled code warns of the first op that makes NaN or an infinity",
    "WEFT_NUM_THREADS": "how many threads compiled code uses",
    "WEFT_TIERS": "`full`: code is compiled at LLVM's level 2 at once; `draft`: always at level 0 (`auto`)",
    "WEFT_CACHE_DIR": "the folder of the cache (without it `~/.cache/weft`)",
    "WEFT_CACHE": "`0`: no cache on disk; `programs`: only code and programs, no captured entries",
    "WEFT_CACHE_SIZE": "the size limit of the cache in MiB (1024)",
}


def ops_page() -> str:
    """Every op, by kind, with its signature and what is known of it."""
    lines = ["# Operators", "", OPS_HEAD, ""]
    kinds: dict[str, list[str]] = {}
    for name in sorted(each for each in REGISTRY if not each.startswith("_")):
        op = REGISTRY[name]
        parts = "parts" if op.kind is Kind.COMPOSITE else ""
        gradient = "yes" if op.vjp is not None else parts
        how = "body" if op.emit is not None else "rule" if op.lowering or name in lower.RULES else parts
        text = (op.doc.partition("\n")[0] or DESCRIPTIONS.get(name, "")).replace("|", "\\|")
        signature = op.signature.text.replace("|", "\\|")
        kinds.setdefault(op.kind.name.lower(), []).append(
            f"| `{name}` | `{signature}` | {text} | {gradient} | {how} |"
        )
    for kind in sorted(kinds):
        head = ["| op | parameters | what it gives | grad | kernel |", "| --- | --- | --- | --- | --- |"]
        lines += [f"## {kind} ({len(kinds[kind])})", "", *head, *kinds[kind], ""]
    return "\n".join(lines)


def settings_page() -> str:
    """Settings, variables and log topics."""
    documented = re.findall(r'    (\w+): .*?\n    """(.*?)"""', inspect.getsource(Settings), re.DOTALL)
    texts = {name: " ".join(text.split()) for name, text in documented}
    lines = [
        "# Settings",
        "",
        "`weft.compiler.settings.NAME = value`:",
        "",
        "| setting | default | what it does |",
    ]
    lines.append("| --- | --- | --- |")
    for each in fields(Settings):
        lines.append(f"| `{each.name}` | `{each.default!r}` | {texts[each.name]} |")
    lines += ["", "Variables of the environment:", "", "| variable | what it does |", "| --- | --- |"]
    lines += [f"| `{name}` | {text} |" for name, text in VARIABLES.items()]
    lines += [
        "",
        "Topics of `WEFT_LOGS` and `weft.compiler.set_logs(...)`:",
        "",
        "| topic | what it prints |",
    ]
    lines += ["| --- | --- |", *(f"| `{name}` | {text} |" for name, text in logs.TOPICS.items()), ""]
    return "\n".join(lines)


PAGES = {"ops.md": ops_page, "settings.md": settings_page}


def main(arguments: list[str]) -> int:
    assert weft.compiler is not None  # everything is registered
    stale = []
    for name, page in PAGES.items():
        path, text = HERE / name, page()
        if arguments == ["--check"]:
            if not path.is_file() or path.read_text(encoding="utf-8") != text:
                stale.append(name)
        else:
            path.write_text(text, encoding="utf-8")
    if stale:
        print(f"not current: {', '.join(stale)}. Run: python docs/generate.py", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
